//===- Lower.h - From a compute order to sends and receives -----*- C++ -*-===//
//
// Adds communication to a compute order. When, in the order of a virtual clock,
// an action has ended whose value another rank reads, the send goes to the end
// of its rank's list and the receive to the end of the other's at that same
// moment: all ranks see pieces of one total order, so that the oldest
// unfinished transfer is always the first in both of its queues.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_LOWER_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_LOWER_H

#include "passes/pipeline/schedule/Verify.h"
#include <variant>

namespace sheaf::schedule {

struct LowerOptions {
  enum class Communication {
    /// As above.
    GlobalOrder,
    /// A receive just before its value is read, a send just behind its
    /// producer. Deadlocks for nearly every schedule; for comparison.
    Lazy,
  } communication = Communication::GlobalOrder;

  /// The queues that there will be.
  Queues queues = Queues::OnePerPeer;

  enum class Weights {
    /// The weights of a rank's stages are whole all the time.
    Resident,
    /// Gathered before the first action of a stage, freed behind its last.
    GatherOnce,
    /// Gathered before, and freed behind, each run of actions of one stage.
    GatherEachRun,
  } weights = Weights::Resident;

  /// Ends every rank with the reduction of its stages' gradients and their
  /// optimizer.
  bool epilogue = false;
  /// With the norm of all gradients in between.
  bool norm = false;
};

using Lowered = std::variant<Schedule, Problem>;

/// Lowers the compute actions of a schedule; what else it has is dropped. A
/// Problem if `verifyOrder` finds one.
Lowered lower(const Pipeline &pipeline, const Schedule &schedule,
              const LowerOptions &options = {});

/// Adds waits and frees to a schedule that has sends and receives but none of
/// them, as read from CSV: a wait for a receive before the first action that
/// reads the value, a free behind the last; a wait for a send where the
/// transfer is done by the virtual clock.
Lowered completeBuffers(const Pipeline &pipeline, const Schedule &schedule,
                        Queues queues = Queues::OnePerPeer);

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_LOWER_H
