//===- Cube.h - An op and a pass of a plugin -------------------*- C++ -*-===//
//
// The dialect `cube`, with one op, and the pass that finds where it fits.
//
//===----------------------------------------------------------------------===//

#ifndef CUBE_H
#define CUBE_H

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include "CubeDialect.h.inc"
#define GET_OP_CLASSES
#include "CubeOps.h.inc"

namespace cube {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "CubePasses.h.inc"
} // namespace cube

#endif // CUBE_H
