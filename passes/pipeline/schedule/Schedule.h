//===- Schedule.h - Who runs what, when, of a pipeline ----------*- C++ -*-===//
//
// A pipeline cuts a training step into stages, and a batch into microbatches.
// What is to be done is a `Pipeline`: stages with their costs, and the values
// that their parts hand to each other. Who does it in which order is a
// `Schedule`: for each rank one list of actions. Everything else here reads or
// writes these two: Text.h (text and CSV), Generate.h (the known recipes),
// Lower.h (sends, receives, waits and frees), Verify.h (what a schedule must
// hold, peak bytes), Clock.h (a virtual clock), Picture.h. Knows no IR.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_SCHEDULE_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_SCHEDULE_H

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace sheaf::schedule {

/// What a stage does with one microbatch. The backward of an op is separate ops
/// for its input gradients and its weight gradients; `Backward` does both,
/// layer by layer, in one action.
enum class Part : uint8_t {
  Forward,
  InputGradient,
  WeightGradient,
  Backward,
};

/// `F`, `I`, `W` or `B`.
char letterOf(Part part);

/// One part of one stage on one microbatch; both are numbered from 0.
struct Task {
  Part part = Part::Forward;
  int32_t stage = -1;
  int32_t microbatch = -1;

  auto operator<=>(const Task &other) const = default;
  /// As in schedule text, `3F0`.
  std::string str() const;
};

enum class ActionKind : uint8_t {
  /// Runs `task`.
  Compute,
  /// Runs `task` and `other` at the same time, so that the communication of
  /// each hides behind the computation of the other.
  FusedPair,
  /// Starts to send `value` of `task.microbatch` to `peer`. Its buffer may be
  /// read until WaitSend.
  Send,
  /// Starts to receive `value` of `task.microbatch` from `peer`: its landing
  /// buffer exists from here to its Free.
  Receive,
  /// Blocks until the send of `value` of `task.microbatch` to `peer` is done.
  WaitSend,
  /// Blocks until `value` of `task.microbatch` has come from `peer`.
  WaitReceive,
  /// Ends the buffer of `value` of `task.microbatch` on this rank.
  Free,
  /// Gathers the weights of `task.stage` from the ranks that share them
  /// (ZeRO-3); `Stage::gatheredBytes` exist from here to FreeWeights.
  GatherWeights,
  FreeWeights,
  /// Reduces the gradients of `task.stage` over the data-parallel ranks; behind
  /// the last weight gradient of the stage.
  ReduceGradients,
  /// The norm of all gradients, over all ranks of the pipeline: a rendezvous
  /// of all. Behind every ReduceGradients of the rank.
  ReduceNorm,
  /// The optimizer on the weights of `task.stage`; behind ReduceNorm if there
  /// is one, and behind ReduceGradients of the stage.
  Update,
};

/// The word for it in text: "send", "wait-send", ...; "compute", "fused pair".
const char *nameOf(ActionKind kind);

/// Where something stands in the text that a schedule was read from; rows and
/// columns count from 1, and 0 is nowhere.
struct Place {
  int32_t row = 0;
  int32_t column = 0;
};

/// One entry of a rank's list.
struct Action {
  ActionKind kind = ActionKind::Compute;
  /// Compute and FusedPair: what runs. Send to Free: the producer of the value,
  /// whose `microbatch` is that of the value. GatherWeights, FreeWeights,
  /// ReduceGradients, Update: only `stage` counts. ReduceNorm: nothing.
  Task task;
  /// The second half of a FusedPair.
  Task other;
  /// Send to Free: which of the values of that producer, counted in the order
  /// of `Pipeline::values`; else -1. In a chain, 0 crosses the boundary.
  int32_t value = -1;
  /// Send, Receive, WaitSend, WaitReceive: the rank at the other end; else -1.
  int32_t peer = -1;
  Place place;

  static Action compute(Task task) {
    return {ActionKind::Compute, task, {}, -1, -1, {}};
  }
  static Action compute(Part part, int32_t stage, int32_t microbatch) {
    return compute(Task{part, stage, microbatch});
  }
  static Action fused(Task first, Task second) {
    return {ActionKind::FusedPair, first, second, -1, -1, {}};
  }

  bool isCompute() const {
    return kind == ActionKind::Compute || kind == ActionKind::FusedPair;
  }
  bool isTransfer() const {
    return kind == ActionKind::Send || kind == ActionKind::Receive;
  }
  /// Equal but for the place.
  bool sameAs(const Action &action) const {
    return kind == action.kind && task == action.task &&
           other == action.other && value == action.value &&
           peer == action.peer;
  }
  /// As in schedule text: `3F0`, `(3F4|4B1)`, `send(3F0,r1)`, `free(3F0#2)`;
  /// value 0 of a producer is written without a number.
  std::string str() const;
};

/// What each rank does, in order.
struct Schedule {
  /// For each stage, the rank that runs it.
  std::vector<int32_t> rankOf;
  int32_t microbatches = 0;
  /// For each rank its actions. A rank may have none.
  std::vector<std::vector<Action>> ranks;

  int32_t stages() const { return static_cast<int32_t>(rankOf.size()); }
  int32_t size() const { return static_cast<int32_t>(ranks.size()); }
  bool sameAs(const Schedule &other) const;
};

/// A schedule without actions: stage s on rank s mod p (`v` stages a rank).
Schedule loopedPlacement(int32_t ranks, int32_t chunks, int32_t microbatches);
/// Two stages a rank: stage s on rank s, stage 2p-1-s too, so that the last
/// two stages are on the last rank.
Schedule foldedPlacement(int32_t ranks, int32_t microbatches);

/// One stage of the model: seconds (or any unit of time) and bytes.
struct Stage {
  /// For one microbatch.
  double forward = 1;
  double inputGradient = 1;
  double weightGradient = 1;
  /// Of `Backward`; input and weight gradient together where none is given.
  std::optional<double> backward;
  /// Bytes that exist during the whole step: weights, their gradients, the
  /// state of the optimizer.
  int64_t residentBytes = 0;
  /// Bytes of the gathered weights (ZeRO-3), between GatherWeights and
  /// FreeWeights.
  int64_t gatheredBytes = 0;
  /// Temporaries of an action of this stage, while it runs.
  int64_t temporaryBytes = 0;
  /// Those of one part alone, beside them; by part.
  std::array<int64_t, 4> partBytes = {};

  double seconds(Part part) const;
  int64_t temporaries(Part part) const {
    return temporaryBytes + partBytes[static_cast<size_t>(part)];
  }
};

/// Where a value is read: by `part` (never Backward: an action B reads what I
/// and W read) of `stage`, for the same microbatch.
struct Use {
  Part part = Part::Forward;
  int32_t stage = -1;

  auto operator<=>(const Use &other) const = default;
};

/// What one part computes once for each microbatch and others read: the
/// activation or gradient that crosses a boundary, to the next stage or any
/// other (a skip connection, a mask), and what a stage keeps for its own
/// backward. There is one transfer for each other rank that reads it,
/// and one buffer on each rank that has it: from the start of its producer, or
/// from its Receive, to its Free. What I hands to W of its own stage alone has
/// no buffer where one action B does both.
struct Value {
  /// The producer: Forward, InputGradient or WeightGradient of `stage`.
  Part part = Part::Forward;
  int32_t stage = -1;
  int64_t bytes = 0;
  std::vector<Use> uses;
  /// For messages; may be empty.
  std::string name;
};

/// What moving bytes from rank to rank costs.
struct Link {
  double latency = 0;
  /// Bytes for each unit of time.
  double bandwidth = std::numeric_limits<double>::infinity();

  double seconds(int64_t bytes) const { return latency + bytes / bandwidth; }
};

/// What is to be done: stages, and what they hand to each other.
struct Pipeline {
  std::vector<Stage> stages;
  std::vector<Value> values;
  Link link;
  /// Seconds of a fused pair, over those of its two halves one after the other.
  double fusedFactor = 1;

  double seconds(const Action &action) const;
};

/// Bytes of the values of a plain chain of stages.
struct ChainBytes {
  /// What F keeps until I, and W, have run.
  int64_t activation = 1;
  /// What I hands to W.
  int64_t gradient = 0;
  /// What crosses a boundary, forward and backward.
  int64_t boundary = 0;
};

/// A pipeline in which each stage reads the activation of the one before and
/// the gradient of the one behind. Values, in this order, for each stage s that
/// has them: sF to (s+1)F; sI to (s-1)I; sF kept for sI and sW; sI for sW.
Pipeline makeChain(std::vector<Stage> stages, ChainBytes bytes = {},
                   Link link = {});

/// The values of a pipeline by producer, and by reader.
class ValueIndex {
public:
  explicit ValueIndex(const Pipeline &pipeline);

  /// Indices into `Pipeline::values`, ascending. A Backward produces and reads
  /// what both its halves do, but for what they hand to each other.
  const std::vector<int32_t> &producedBy(Part part, int32_t stage) const;
  const std::vector<int32_t> &readBy(Part part, int32_t stage) const;

  /// The value that a Send, Receive, wait or Free means; -1 where there is
  /// none.
  int32_t of(const Action &action) const;
  /// Which of its producer's values it is.
  int32_t numberOf(int32_t value) const { return numbers[value]; }

private:
  size_t at(Part part, int32_t stage) const {
    return static_cast<size_t>(stage) * 4 + static_cast<size_t>(part);
  }
  int32_t stages;
  std::vector<std::vector<int32_t>> produced, read;
  std::vector<int32_t> numbers;
};

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_SCHEDULE_H
