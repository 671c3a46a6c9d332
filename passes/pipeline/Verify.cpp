//===- Verify.cpp - What schedules in IR must hold ------------------------===//

#include "passes/pipeline/Conversion.h"
#include "passes/pipeline/Passes.h"

namespace sheaf {
#define GEN_PASS_DEF_PIPEVERIFY
#include "passes/pipeline/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
namespace sched = sheaf::schedule;

namespace {
struct PipeVerify : sheaf::impl::PipeVerifyBase<PipeVerify> {
  using PipeVerifyBase::PipeVerifyBase;

  void runOnOperation() final {
    for (pipe::ScheduleOp op : getOperation().getOps<pipe::ScheduleOp>())
      if (failed(check(op)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult check(pipe::ScheduleOp op) {
    FailureOr<pipe::ReadSchedule> read = pipe::readSchedule(op);
    if (failed(read))
      return failure();
    if (!read->hasCommunication) {
      std::optional<sched::Problem> problem =
          sched::verifyOrder(read->pipeline, read->schedule);
      if (problem)
        pipe::report(op, *read, *problem);
      return failure(problem.has_value());
    }
    sched::VerifyOptions options;
    if (memoryLimit > 0)
      options.memoryLimit = memoryLimit;
    sched::Verification result =
        sched::verify(read->pipeline, read->schedule, options);
    if (result.problem) {
      pipe::report(op, *read, *result.problem);
      return failure();
    }
    if (!printPeaks)
      return success();
    for (auto [rank, peak] :
         llvm::zip(op.getBody().getOps<pipe::RankOp>(), result.peaks)) {
      InFlightDiagnostic remark = emitRemark(
          peak.action < 0
              ? rank.getLoc()
              : read->ops[&peak - result.peaks.data()][peak.action]->getLoc());
      remark << "rank " << (&peak - result.peaks.data()) << " holds at most "
             << peak.bytes << " bytes, here";
    }
    return success();
  }
};
} // namespace
