//===- PlaceCommunication.cpp - Sends and receives in schedules -----------===//

#include "passes/pipeline/Conversion.h"
#include "passes/pipeline/Passes.h"
#include "passes/pipeline/schedule/Lower.h"

namespace sheaf {
#define GEN_PASS_DEF_PIPEPLACECOMMUNICATION
#include "passes/pipeline/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
namespace sched = sheaf::schedule;

namespace {
struct PipePlaceCommunication
    : sheaf::impl::PipePlaceCommunicationBase<PipePlaceCommunication> {
  using PipePlaceCommunicationBase::PipePlaceCommunicationBase;

  void runOnOperation() final {
    using Weights = sched::LowerOptions::Weights;
    sched::LowerOptions options;
    options.epilogue = options.norm = epilogue;
    if (weights == "once") {
      options.weights = Weights::GatherOnce;
    } else if (weights == "each-run") {
      options.weights = Weights::GatherEachRun;
    } else if (weights != "resident") {
      getOperation().emitError("pipe-place-communication: weights is '")
          << weights << "', expected resident, once or each-run";
      return signalPassFailure();
    }
    for (pipe::ScheduleOp op : getOperation().getOps<pipe::ScheduleOp>())
      if (failed(place(op, options)))
        return signalPassFailure();
  }

private:
  static LogicalResult place(pipe::ScheduleOp op,
                             const sched::LowerOptions &options) {
    FailureOr<pipe::ReadSchedule> read = pipe::readSchedule(op);
    if (failed(read))
      return failure();
    if (read->hasCommunication)
      return op.emitOpError("has values or communication already, expected "
                            "compute actions alone");
    sched::Lowered low = sched::lower(read->pipeline, read->schedule, options);
    if (auto *problem = std::get_if<sched::Problem>(&low)) {
      pipe::report(op, *read, *problem);
      return failure();
    }
    auto pipelineOp = SymbolTable::lookupNearestSymbolFrom<pipe::PipelineOp>(
        op, op.getPipelineAttr());
    op.getBody().front().clear();
    pipe::writeSchedule(op, pipelineOp, read->pipeline,
                        std::get<sched::Schedule>(low), /*withValues=*/true);
    return success();
  }
};
} // namespace
