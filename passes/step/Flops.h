//===- Flops.h - Arithmetic of a function ----------------------*- C++ -*-===//
//
// The usual count of model FLOPs: products, and of causal attention the half
// that is visible.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STEP_FLOPS_H
#define SHEAF_PASSES_STEP_FLOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace sheaf {

/// Of one op, or of the function that it calls.
double countFlops(mlir::Operation *op, mlir::SymbolTable &symbols);
/// Of a function with all that it calls.
double countFlops(mlir::func::FuncOp function, mlir::SymbolTable &symbols);

} // namespace sheaf

#endif // SHEAF_PASSES_STEP_FLOPS_H
