//===- Conversion.h - Between pipe IR and the library -----------*- C++ -*-===//
//
// Pipelines and schedules of the pipe dialect as the structures of
// schedule/Schedule.h, and back.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_CONVERSION_H
#define SHEAF_PASSES_PIPELINE_CONVERSION_H

#include "dialects/Pipe/Pipe.h"
#include "passes/pipeline/schedule/Verify.h"

namespace sheaf::pipe {

schedule::Pipeline readPipeline(PipelineOp op);

/// A schedule, and the op of each of its actions.
struct ReadSchedule {
  schedule::Pipeline pipeline;
  schedule::Schedule schedule;
  std::vector<std::vector<mlir::Operation *>> ops;
  /// Whether there is anything but compute actions without values.
  bool hasCommunication = false;
};

/// Complains about what the structures cannot say: no such pipeline, stages
/// that are on no rank or on two, operands that are not the values that a part
/// reads.
mlir::FailureOr<ReadSchedule> readSchedule(ScheduleOp op);

/// Reports a problem at the ops that it is about.
void report(ScheduleOp op, const ReadSchedule &read,
            const schedule::Problem &problem);

/// Fills the empty body of `op` with ranks and their actions, with values where
/// `withValues`; then the schedule must be one that the verifier accepts.
void writeSchedule(ScheduleOp op, PipelineOp pipelineOp,
                   const schedule::Pipeline &pipeline,
                   const schedule::Schedule &schedule, bool withValues);

} // namespace sheaf::pipe

#endif // SHEAF_PASSES_PIPELINE_CONVERSION_H
