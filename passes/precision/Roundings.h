//===- Roundings.h - Where a step rounds ------------------------*- C++ -*-===//

#ifndef SHEAF_PASSES_PRECISION_ROUNDINGS_H
#define SHEAF_PASSES_PRECISION_ROUNDINGS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sheaf {

/// The ops of a step on floor 2, and of the layers that it calls, whose results
/// are rounded to floats of 16 or 8 bits: for each function, phase and element
/// type an object with function, phase, dtype and `ops`, how many of each name.
llvm::json::Array explainRoundings(mlir::func::FuncOp entry);

/// A line for each, behind a heading; nothing where there is none.
void printRoundings(const llvm::json::Array &roundings, llvm::raw_ostream &os);

} // namespace sheaf

#endif // SHEAF_PASSES_PRECISION_ROUNDINGS_H
