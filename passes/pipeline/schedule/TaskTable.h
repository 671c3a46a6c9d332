//===- TaskTable.h - Where each task of a schedule stands -------*- C++ -*-===//
//
// For the library alone: a dense table over (part, stage, microbatch), in which
// a Backward stands for both its halves.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_TASKTABLE_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_TASKTABLE_H

#include "passes/pipeline/schedule/Schedule.h"

namespace sheaf::schedule {

/// Calls `take` with each task of a compute action.
template <typename F>
void eachTask(const Action &action, F take) {
  if (!action.isCompute())
    return;
  take(action.task);
  if (action.kind == ActionKind::FusedPair)
    take(action.other);
}

/// Calls `take` with F, with I, with W, or with I and W of a B.
template <typename F>
void eachPart(Part part, F take) {
  if (part == Part::Backward) {
    take(Part::InputGradient);
    take(Part::WeightGradient);
  } else {
    take(part);
  }
}

/// A value for each (F, I or W; stage; microbatch).
template <typename T>
class TaskTable {
public:
  TaskTable(int32_t stages, int32_t microbatches, T initial)
      : microbatches(microbatches),
        entries(size_t(3) * stages * microbatches, initial) {}
  TaskTable(const Schedule &schedule, T initial)
      : TaskTable(schedule.stages(), schedule.microbatches, initial) {}

  T &at(Part part, int32_t stage, int32_t microbatch) {
    return entries[index(part, stage, microbatch)];
  }
  const T &at(Part part, int32_t stage, int32_t microbatch) const {
    return entries[index(part, stage, microbatch)];
  }
  size_t index(Part part, int32_t stage, int32_t microbatch) const {
    return (size_t(stage) * microbatches + microbatch) * 3 +
           static_cast<size_t>(part);
  }

private:
  int32_t microbatches;
  std::vector<T> entries;
};

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_TASKTABLE_H
