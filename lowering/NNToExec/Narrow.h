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

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sheaf {

/// On products, and on attention in a kernel: the element types that its
/// operands and then its results would have, an array of types. Only where one
/// is narrower than that of the program.
inline constexpr llvm::StringLiteral kNarrowAttr = "exec.narrow";
/// On a kernel: by how many bytes it would read and write less.
inline constexpr llvm::StringLiteral kNarrowSavedAttr = "exec.narrow_saved";
/// On a kernel: it only casts, and would not be there.
inline constexpr llvm::StringLiteral kNarrowNoneAttr = "exec.narrow_none";
/// On a kernel of attention: "attention" or "attention gradient".
inline constexpr llvm::StringLiteral kKindAttr = "exec.kind";

/// Sets kNarrowAttr on the products and the attention of a function.
void markNarrow(mlir::func::FuncOp function);

/// Sets the others on a kernel on tensors.
void measureNarrow(mlir::func::FuncOp kernel);

} // namespace sheaf

#endif // SHEAF_NNTOEXEC_NARROW_H
