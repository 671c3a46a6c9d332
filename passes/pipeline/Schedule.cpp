//===- Schedule.cpp - Order the parts of stages on ranks ------------------===//

#include "passes/pipeline/Conversion.h"
#include "passes/pipeline/Passes.h"
#include "passes/pipeline/schedule/Generate.h"
#include "passes/pipeline/schedule/Greedy.h"
#include "passes/pipeline/schedule/Text.h"
#include "llvm/Support/MemoryBuffer.h"

namespace sheaf {
#define GEN_PASS_DEF_PIPESCHEDULE
#include "passes/pipeline/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
namespace sched = sheaf::schedule;

namespace {
struct PipeSchedule : sheaf::impl::PipeScheduleBase<PipeSchedule> {
  using PipeScheduleBase::PipeScheduleBase;

  void runOnOperation() final {
    SymbolTable symbols(getOperation());
    for (pipe::PipelineOp op : llvm::make_early_inc_range(
             getOperation().getOps<pipe::PipelineOp>())) {
      sched::Pipeline pipeline = pipe::readPipeline(op);
      llvm::Expected<sched::Schedule> made = make(pipeline);
      if (!made) {
        op.emitOpError() << llvm::toString(made.takeError());
        return signalPassFailure();
      }
      if (std::optional<sched::Problem> problem =
              sched::verifyOrder(pipeline, *made)) {
        // A file's own places, if it is one.
        StringRef file = this->pipeline;
        op.emitOpError("cannot have this schedule: ")
            << problem->str(file.consume_front("file:") ? file : "");
        return signalPassFailure();
      }
      for (pipe::ScheduleOp old : llvm::make_early_inc_range(
               getOperation().getOps<pipe::ScheduleOp>()))
        if (old.getPipeline() == op.getSymName())
          symbols.erase(old);
      OpBuilder builder(op->getContext());
      auto schedule = pipe::ScheduleOp::create(
          builder, op.getLoc(), (op.getSymName() + "_schedule").str(),
          op.getSymName(), made->microbatches);
      schedule.getBody().emplaceBlock();
      symbols.insert(schedule, std::next(op->getIterator()));
      pipe::writeSchedule(schedule, op, pipeline, *made, /*withValues=*/false);
    }
  }

private:
  llvm::Expected<sched::Schedule> make(const sched::Pipeline &pipeline) {
    auto error = [](const Twine &text) {
      return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
    };
    StringRef name = this->pipeline;
    if (name.consume_front("file:")) {
      auto buffer = llvm::MemoryBuffer::getFile(name, /*IsText=*/true);
      if (!buffer)
        return error("cannot read '" + name +
                     "': " + buffer.getError().message());
      return sched::parse((*buffer)->getBuffer(), name);
    }
    auto stages = static_cast<int64_t>(pipeline.stages.size());
    constexpr int64_t most = 1 << 20;
    if (ranks < 1 || microbatches < 1 || ranks > most || microbatches > most ||
        stages % ranks != 0)
      return error("has " + Twine(stages) + " stages for " + Twine(ranks) +
                   " ranks and " + Twine(microbatches) +
                   " microbatches, expected a multiple of the ranks, and "
                   "between 1 and " +
                   Twine(most) + " of each");
    auto p = static_cast<int32_t>(ranks),
         m = static_cast<int32_t>(microbatches);
    if (name == "greedy") {
      sched::GreedyOptions options;
      options.ranks = p;
      options.microbatches = m;
      if (memoryLimit > 0)
        options.memoryLimit = memoryLimit;
      llvm::Expected<sched::GreedyResult> result =
          sched::makeGreedy(pipeline, options);
      if (!result)
        return result.takeError();
      return std::move(result->schedule);
    }
    llvm::Expected<sched::Schedule> made =
        sched::makeRecipe(name, p, m, static_cast<int32_t>(stages / ranks));
    if (made && made->stages() != stages)
      return error("has " + Twine(stages) + " stages, expected " +
                   Twine(made->stages()) + " for " + name + " on " +
                   Twine(ranks) + " ranks");
    return made;
  }
};
} // namespace
