//===- Predict.h - What transfers are waited for ----------------*- C++ -*-===//

#ifndef SHEAF_PASSES_OVERLAP_PREDICT_H
#define SHEAF_PASSES_OVERLAP_PREDICT_H

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/overlap/OpCosts.h"

namespace sheaf {

/// Goes through a call of `entry`, on one rank, with the costs of a cluster:
/// kernels one after the other, the transfers of each communicator likewise.
/// Other ranks are taken to be as far; nothing is slowed by what goes on beside
/// it; what comes from other stages of a pipeline is there. `report` gets each
/// transfer, every time.
void predictExposure(
    mlir::func::FuncOp entry, OpCosts &costs,
    llvm::function_ref<void(exec::CollectiveOp, double seconds, double exposed)>
        report);

} // namespace sheaf

#endif // SHEAF_PASSES_OVERLAP_PREDICT_H
