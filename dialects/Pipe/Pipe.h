//===- Pipe.h - Schedules of pipelines --------------------------*- C++ -*-===//
//
// The public header of the pipe dialect: stages and the values that they hand
// to each other, and for each rank an ordered list of actions.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_DIALECTS_PIPE_PIPE_H
#define SHEAF_DIALECTS_PIPE_PIPE_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace sheaf::pipe {
/// Whether a type is that of a value that may go from rank to rank: a tensor of
/// static shape whose elements have a size, and that is no part of a sum.
bool isWholeTensor(mlir::Type type);
/// Of such a type.
int64_t bytesOf(mlir::Type type);
} // namespace sheaf::pipe

#include "dialects/Pipe/PipeDialect.h.inc"
#include "dialects/Pipe/PipeEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Pipe/PipeAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Pipe/PipeTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Pipe/PipeOps.h.inc"

#endif // SHEAF_DIALECTS_PIPE_PIPE_H
