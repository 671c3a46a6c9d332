//===- Verify.h - What every schedule must hold -----------------*- C++ -*-===//
//
// Proves of a schedule that each part of each stage runs once for each
// microbatch, after what it reads; that sends and receives match one to one and
// that no order of events makes ranks wait for each other forever; that
// every buffer is freed once, after its last use; and says the most bytes that
// every rank holds.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_VERIFY_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_VERIFY_H

#include "passes/pipeline/schedule/Clock.h"
#include "llvm/ADT/StringRef.h"

namespace sheaf::schedule {

/// Something about one action: which, where it was read from, what.
struct Remark {
  int32_t rank = -1;
  /// Index into the list of the rank, or -1.
  int32_t action = -1;
  Place place;
  std::string text;
};

/// What is wrong with a schedule: what was found and what was expected; the
/// notes say what else takes part.
struct Problem : Remark {
  std::vector<Remark> notes;

  /// Lines `file:row:column: error: ...` and `...: note: ...`; with no file, or
  /// for a schedule that was not read, `rank 2, action 17: ...` (from 0).
  std::string str(llvm::StringRef file = "") const;
};

/// Whether the compute actions of a schedule are all that the pipeline needs,
/// and have an order. Wants no sends, receives, waits or frees, and looks at
/// none.
std::optional<Problem> verifyOrder(const Pipeline &pipeline,
                                   const Schedule &schedule);

/// What stands in one queue: a queue hands over one transfer after the other,
/// and a transfer happens when it is the first in the queues of both its ranks.
enum class Queues {
  /// A rank has one queue for each other rank (sends and receives together),
  /// beside its computation.
  OnePerPeer,
  /// A rank has one queue for all, its computation included: what stands behind
  /// a send or a receive waits until that is done.
  OnePerRank,
};

/// How a schedule with sends, receives and waits runs: with a queue for each
/// peer, a Send or Receive puts itself at the end of its queue and takes no
/// time; waits and ReduceNorm block.
struct Execution {
  /// As for compute orders. Waits have the span that they block.
  Timing timing;
  /// Where ranks wait forever: the ranks and queues of the circle, one after
  /// the other, in `notes`.
  std::optional<Problem> deadlock;
};

/// Wants a schedule of which `verify` finds nothing else to say: whether it
/// comes to its end does not depend on costs.
Execution execute(const Pipeline &pipeline, const Schedule &schedule,
                  Queues queues = Queues::OnePerPeer);

/// The most bytes that a rank holds at once.
struct Peak {
  int64_t bytes = 0;
  /// The first action at which it does; -1 if the rank has none.
  int32_t action = -1;
};

struct VerifyOptions {
  Queues queues = Queues::OnePerPeer;
  /// Of each rank, in bytes; a hard bound.
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
};

struct Verification {
  std::optional<Problem> problem;
  /// For each rank, if there is no other problem than the limit.
  std::vector<Peak> peaks;
  Timing timing;
};

/// Verifies a schedule with sends, receives, waits and frees.
Verification verify(const Pipeline &pipeline, const Schedule &schedule,
                    const VerifyOptions &options = {});

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_VERIFY_H
