//===- OpCosts.h - How long the ops of a program take -----------*- C++ -*-===//

#ifndef SHEAF_PASSES_OVERLAP_OPCOSTS_H
#define SHEAF_PASSES_OVERLAP_OPCOSTS_H

#include "dialects/Exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/overlap/ClusterCosts.h"
#include <optional>

namespace sheaf {

/// Seconds of launches, products, copies and transfers, of what a device with
/// narrow products would do.
class OpCosts {
public:
  OpCosts(mlir::ModuleOp module, ClusterCosts &costs);

  /// Of an op that calls no layer; 0 for what takes no time.
  double seconds(mlir::Operation *op);
  double transferSeconds(exec::CollectiveOp op);

private:
  ClusterCosts &costs;
  std::optional<mlir::SymbolTable> kernels;
  llvm::DenseMap<mlir::Operation *, double> known; ///< by kernel

  double kernelSeconds(exec::LaunchOp op);
};

} // namespace sheaf

#endif // SHEAF_PASSES_OVERLAP_OPCOSTS_H
