//===- Batch.h - Functions on fewer samples --------------------*- C++ -*-===//
//
// Which dimensions of which values count samples, and the rewriting of
// functions for a part of the batch.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STEP_BATCH_H
#define SHEAF_PASSES_STEP_BATCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace sheaf {

/// Rewrites `body`, a function outside of the module, and the functions in
/// `callees` that it calls (directly or not), for a batch with 1/`parts` of the
/// samples. `batch` lists the arguments of `body` whose dimension 0 counts
/// samples. The other dimensions that do are found by the rules of the ops.
/// Failure, with a diagnostic, where samples are mixed in the forward.
mlir::LogicalResult splitBatch(mlir::func::FuncOp body,
                               llvm::ArrayRef<mlir::func::FuncOp> callees,
                               mlir::SymbolTable &symbols,
                               llvm::ArrayRef<unsigned> batch, int64_t parts);

} // namespace sheaf

#endif // SHEAF_PASSES_STEP_BATCH_H
