//===- Greedy.h - Schedules for given costs and memory ----------*- C++ -*-===//
//
// Makes a compute order for stages that cost what they cost, under a limit on
// memory, where the recipes (Generate.h) do not fit.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_GREEDY_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_GREEDY_H

#include "passes/pipeline/schedule/Schedule.h"
#include "llvm/Support/Error.h"

namespace sheaf::schedule {

/// How stages are spread over ranks: see loopedPlacement and foldedPlacement.
enum class Placement { Any, Looped, Folded };

struct GreedyOptions {
  int32_t ranks = 1;
  int32_t microbatches = 1;
  /// Bytes of a rank that the schedule may not exceed once it is lowered.
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
  Placement placement = Placement::Any;
};

struct GreedyResult {
  Schedule schedule;
  double makespan = 0;
  /// No order of these stages on these ranks takes less time, whatever its
  /// memory.
  double lowerBound = 0;
};

/// Simulates list schedules that differ in how far a rank may run ahead and in
/// what it prefers, and takes the one with the least makespan of those that
/// keep to the limit; the recipes take part, too. The error says what does not
/// fit: a number of stages that is no multiple of the ranks, or the least limit
/// that a schedule was found for.
llvm::Expected<GreedyResult> makeGreedy(const Pipeline &pipeline,
                                        const GreedyOptions &options);

/// The makespan that no order of the stages takes less than, on the ranks that
/// the schedule says: for each rank, and each choice of parts, the time before
/// the first of them can start, all of their work, and the time that must
/// follow the last.
double lowerBound(const Pipeline &pipeline, const Schedule &placement);

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_GREEDY_H
