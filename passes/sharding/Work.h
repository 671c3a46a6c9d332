//===- Work.h - Pairs of queries and keys -----------------------*- C++ -*-===//

#ifndef SHEAF_PASSES_SHARDING_WORK_H
#define SHEAF_PASSES_SHARDING_WORK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include <optional>

namespace sheaf::sharding {

/// The pairs of a query and a key that it sees, where the first query stands at
/// `first` among the keys.
double countPairs(int64_t queries, int64_t keys, int64_t first, bool causal,
                  std::optional<int64_t> window);

/// The attention that a call of `entry` runs, forward and backward, and how
/// often each runs.
llvm::MapVector<mlir::Operation *, int64_t>
attentionOf(mlir::func::FuncOp entry);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_WORK_H
