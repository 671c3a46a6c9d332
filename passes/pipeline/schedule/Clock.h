//===- Clock.h - How long a schedule takes ----------------------*- C++ -*-===//
//
// A virtual clock for compute orders: every rank runs its actions one after the
// other, each as soon as the rank is free and what it reads is there; a value
// of another rank is there one transfer after its producer has ended.
// `execute` (Verify.h) is the clock of a schedule with sends and receives.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_CLOCK_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_CLOCK_H

#include "passes/pipeline/schedule/Schedule.h"

namespace sheaf::schedule {

struct Span {
  double start = 0;
  double end = 0;
};

/// When everything happens.
struct Timing {
  /// For each rank, and each of its actions.
  std::vector<std::vector<Span>> spans;
  /// All actions (rank, index) in an order in which each stands behind all that
  /// it waits for.
  std::vector<std::pair<int32_t, int32_t>> order;
  double makespan = 0;
  /// For each rank: how long it computes; from its first action to the end of
  /// its last.
  std::vector<double> busy, length;
  /// Where the ranks wait for each other in a circle, the waiting actions
  /// (rank, index), each for the next one, the last for the first. Else empty.
  std::vector<std::pair<int32_t, int32_t>> cycle;

  /// The three figures that are called "bubble fraction". All mean the average
  /// rank, so that uneven stages count as bubble.
  /// Idle time over the time of an ideal step, which has none.
  double bubbleOverIdeal() const;
  /// Idle time over the makespan.
  double bubbleOverMakespan() const;
  /// 1 - work of a rank over the longest span from a rank's first action to its
  /// last: what is lost where the next step may begin in the bubble of this
  /// one.
  double bubbleBySpan() const;
};

/// The compute actions of a schedule; others are skipped (their spans are
/// empty). What waits for a part that is nowhere ends up as a circle of one.
Timing clockOf(const Pipeline &pipeline, const Schedule &schedule);

/// For each rank the largest number of microbatches (counted for each of its
/// stages) that are between the beginning of their F and the end of their
/// `until`, InputGradient or WeightGradient.
std::vector<int32_t> mostAlive(const Schedule &schedule, Part until);

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_CLOCK_H
