//===- Narrow.h - What a device with narrow products does -------*- C++ -*-===//
//
// A program for a processor without narrow products computes those of bf16, f16
// and 8-bit floats in f32, between casts. The cost of the same step on a device
// that has them is another: products read and write fewer bytes, and casts
// around them are parts of their neighbours. This says what it is, for the
// manifest; the program is not changed.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_NNTOEXEC_NARROW_H
#define SHEAF_NNTOEXEC_NARROW_H

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sheaf {

/// Sets kNarrowAttr on the products and the attention of a function.
void markNarrow(mlir::func::FuncOp function);

/// Sets the others on a kernel on tensors.
void measureNarrow(mlir::func::FuncOp kernel);

} // namespace sheaf

#endif // SHEAF_NNTOEXEC_NARROW_H
