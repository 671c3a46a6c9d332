//===- Verify.cpp - What every schedule must hold -------------------------===//

#include "passes/pipeline/schedule/Verify.h"

#include "passes/pipeline/schedule/Execute.h"
#include "passes/pipeline/schedule/RankValues.h"
#include "passes/pipeline/schedule/TaskTable.h"
#include "llvm/ADT/Twine.h"
#include <map>

using llvm::Twine;

namespace sheaf::schedule {
namespace {

std::string quoted(const Action &action) { return "'" + action.str() + "'"; }

Problem problemAt(const Schedule &schedule, int32_t rank, int32_t action,
                  const Twine &text, std::vector<Remark> notes = {}) {
  Problem problem;
  static_cast<Remark &>(problem) = remarkAt(schedule, rank, action, text.str());
  problem.notes = std::move(notes);
  return problem;
}

/// Something that is not there: at the first action of the rank.
Problem problemOf(const Schedule &schedule, int32_t rank, const Twine &text) {
  Problem problem =
      problemAt(schedule, rank, schedule.ranks[rank].empty() ? -1 : 0, text);
  problem.action = -1;
  return problem;
}

std::optional<Problem> checkTasks(const Pipeline &pipeline,
                                  const Schedule &schedule) {
  Problem problem;
  if (pipeline.stages.size() != schedule.rankOf.size()) {
    problem.text = ("the schedule has " + Twine(schedule.stages()) +
                    " stages, expected " + Twine(pipeline.stages.size()))
                       .str();
    return problem;
  }
  // Counted before anything is as large as the numbers say.
  int64_t tasks = 0;
  for (int32_t rank = 0; rank < schedule.size(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i)
      eachTask(schedule.ranks[rank][i], [&](const Task &task) {
        eachPart(task.part, [&](Part) { ++tasks; });
      });
  int64_t expected = int64_t(3) * schedule.stages() * schedule.microbatches;
  using Key = std::tuple<int32_t, int32_t, Part>;
  std::map<Key, std::pair<int32_t, int32_t>> few;
  bool isDense = tasks >= expected;
  TaskTable<std::pair<int32_t, int32_t>> many(isDense ? schedule.stages() : 0,
                                              schedule.microbatches, {-1, -1});
  auto entry = [&](Part part, int32_t stage,
                   int32_t microbatch) -> std::pair<int32_t, int32_t> & {
    if (isDense)
      return many.at(part, stage, microbatch);
    return few.try_emplace(Key{stage, microbatch, part}, -1, -1).first->second;
  };

  std::optional<Problem> found;
  for (int32_t rank = 0; rank < schedule.size(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Action &action = schedule.ranks[rank][i];
      eachTask(action, [&](const Task &task) {
        eachPart(task.part, [&](Part part) {
          if (found)
            return;
          auto &[otherRank, other] = entry(part, task.stage, task.microbatch);
          if (otherRank >= 0) {
            const Action &first = schedule.ranks[otherRank][other];
            bool isSame = first.sameAs(action);
            found = problemAt(
                schedule, rank, static_cast<int32_t>(i),
                "stage " + Twine(task.stage) + " has " +
                    (isSame ? quoted(action) + " twice"
                            : quoted(first) + " and " + quoted(action)) +
                    ", expected one " +
                    (part == Part::Forward ? Twine("F")
                                           : Twine("B, or one I and one W,")) +
                    " for each microbatch",
                {remarkAt(schedule, otherRank, other,
                          quoted(first) + " stands here")});
            return;
          }
          otherRank = rank;
          other = static_cast<int32_t>(i);
        });
      });
      if (found)
        return found;
    }
  for (int32_t stage = 0; stage < schedule.stages(); ++stage)
    for (int32_t microbatch = 0; microbatch < schedule.microbatches;
         ++microbatch)
      for (Part part :
           {Part::Forward, Part::InputGradient, Part::WeightGradient})
        if (entry(part, stage, microbatch).first < 0) {
          bool isForward = part == Part::Forward;
          bool hasOther = !isForward && entry(part == Part::InputGradient
                                                  ? Part::WeightGradient
                                                  : Part::InputGradient,
                                              stage, microbatch)
                                                .first >= 0;
          Task missing{part, stage, microbatch};
          if (!isForward && !hasOther)
            missing.part = Part::Backward;
          return problemOf(
              schedule, schedule.rankOf[stage],
              "'" + missing.str() + "' is missing on rank " +
                  Twine(schedule.rankOf[stage]) + ", expected one " +
                  (isForward ? Twine("F") : Twine("B, or one I and one W,")) +
                  " of stage " + Twine(stage) + " for each of the " +
                  Twine(schedule.microbatches) + " microbatches");
        }
  return std::nullopt;
}

std::optional<Problem> checkCycle(const Schedule &schedule,
                                  const Timing &timing) {
  if (timing.cycle.empty())
    return std::nullopt;
  auto at = [&](size_t i) { return timing.cycle[i % timing.cycle.size()]; };
  std::vector<Remark> notes;
  auto name = [&](std::pair<int32_t, int32_t> position) {
    return quoted(schedule.ranks[position.first][position.second]);
  };
  for (size_t i = 0; i < timing.cycle.size(); ++i) {
    auto [rank, action] = at(i);
    auto next = at(i + 1);
    notes.push_back(remarkAt(schedule, rank, action,
                             (name(at(i)) + " reads what rank " +
                              Twine(next.first) + " computes behind " +
                              name(next) + (next == at(i) ? " itself" : ""))
                                 .str()));
  }
  return problemAt(schedule, at(0).first, at(0).second,
                   "the order cannot run: actions wait for each other in a "
                   "circle, expected every action behind what it reads",
                   std::move(notes));
}

/// F, then I, then W, also where a stage keeps nothing from one to the other.
std::optional<Problem> checkParts(const Schedule &schedule) {
  TaskTable<int32_t> positions(schedule, -1);
  for (int32_t rank = 0; rank < schedule.size(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i)
      eachTask(schedule.ranks[rank][i], [&](const Task &task) {
        eachPart(task.part, [&](Part part) {
          positions.at(part, task.stage, task.microbatch) =
              static_cast<int32_t>(i);
        });
      });
  for (int32_t stage = 0; stage < schedule.stages(); ++stage)
    for (int32_t m = 0; m < schedule.microbatches; ++m) {
      int32_t rank = schedule.rankOf[stage];
      const std::vector<Action> &actions = schedule.ranks[rank];
      int32_t forward = positions.at(Part::Forward, stage, m);
      int32_t input = positions.at(Part::InputGradient, stage, m);
      int32_t weight = positions.at(Part::WeightGradient, stage, m);
      bool isOne = false;
      eachTask(actions[input], [&](const Task &task) {
        isOne |= task == Task{Part::Backward, stage, m};
      });
      int32_t early = -1, late = -1;
      if (input <= forward) {
        early = input;
        late = forward;
      } else if (weight <= input && !isOne) {
        early = weight;
        late = input;
      }
      if (early >= 0)
        return problemAt(
            schedule, rank, early,
            quoted(actions[early]) + " stands before, or beside, " +
                quoted(actions[late]) +
                ", expected F, I and W of a microbatch one after the other",
            {remarkAt(schedule, rank, late, "this must come first")});
    }
  return std::nullopt;
}

/// Where one end of a transfer starts, and is waited for.
struct TransferEnd {
  int32_t started = -1, waited = -1;
};

/// Follows the buffers of one rank through its list. `sends` and `receives`
/// have an entry for each transfer, of which a rank writes its own.
class RankChecker {
public:
  RankChecker(const Pipeline &pipeline, const Schedule &schedule, int32_t rank,
              const ValueIndex &index, const Transfers &transfers,
              std::vector<TransferEnd> &sends,
              std::vector<TransferEnd> &receives, int64_t memoryLimit)
      : pipeline(pipeline), schedule(schedule), rank(rank), index(index),
        transfers(transfers), sends(sends), receives(receives),
        memoryLimit(memoryLimit), actions(schedule.ranks[rank]),
        buffers(transfers, pipeline.values.size(), rank,
                schedule.microbatches) {}

  std::optional<Problem> run();
  Peak peak;
  /// The limit is looked at last, when all else is known to be right.
  std::optional<Problem> overLimit;

private:
  enum class State : uint8_t {
    None,
    /// Being received.
    Landing,
    /// May be read.
    Live,
    Freed,
  };
  struct Buffer {
    State state = State::None;
    /// Where it came to be, and where it was freed.
    int32_t from = -1, freed = -1;
    /// Of its transfers, those that were started and not waited for.
    int32_t open = 0;
    /// Its last use, once the list was read to the end.
    int32_t lastUse = -1;
  };
  std::optional<Problem> bad(const Twine &text,
                             std::vector<Remark> notes = {}) {
    return problemAt(schedule, rank, at, text, std::move(notes));
  }
  Remark note(int32_t action, const Twine &text) {
    return remarkAt(schedule, rank, action, text.str());
  }
  std::string nameOf(int32_t id, int32_t microbatch) {
    const Value &value = pipeline.values[id];
    std::string text = Task{value.part, value.stage, microbatch}.str();
    if (int32_t number = index.numberOf(id))
      text += "#" + std::to_string(number);
    return "'" + text + "'" +
           (value.name.empty() ? "" : " (" + value.name + ")");
  }
  void charge(int64_t bytes);
  std::optional<Problem> compute(const Action &action);
  std::optional<Problem> read(const Action &action, const Task &task);
  std::optional<Problem> aboutValue(const Action &action);
  std::optional<Problem> aboutStage(const Action &action);
  std::optional<Problem> finish();

  const Pipeline &pipeline;
  const Schedule &schedule;
  int32_t rank;
  const ValueIndex &index;
  const Transfers &transfers;
  std::vector<TransferEnd> &sends, &receives;
  int64_t memoryLimit;
  const std::vector<Action> &actions;
  RankValues<Buffer> buffers;
  int32_t at = 0;
  int64_t bytes = 0;
  /// Stages whose weights are gathered somewhere in the list, and where they
  /// are now; where each was reduced and updated.
  std::map<int32_t, int32_t> gathered, reduced, updated;
  std::map<int32_t, bool> gathers;
  std::map<int32_t, int32_t> lastWeight;
  int32_t norm = -1;
};

void RankChecker::charge(int64_t more) {
  bytes += more;
  if (bytes > peak.bytes || peak.action < 0) {
    peak.bytes = std::max(peak.bytes, bytes);
    peak.action = at;
  }
  if (bytes > memoryLimit && !overLimit)
    overLimit =
        bad("rank " + Twine(rank) + " needs " + Twine(bytes) + " bytes at " +
            quoted(actions[at]) + ", expected at most the memory limit of " +
            Twine(memoryLimit));
}

std::optional<Problem> RankChecker::read(const Action &action,
                                         const Task &task) {
  for (int32_t id : index.readBy(task.part, task.stage)) {
    Buffer &buffer = buffers.at(id, task.microbatch);
    if (buffer.state == State::Live && buffer.from != at) {
      buffer.lastUse = at;
      continue;
    }
    std::string name = nameOf(id, task.microbatch);
    switch (buffer.state) {
    case State::Live:
      // The other half of a pair runs at the same time.
      return bad(quoted(action) + " reads " + name +
                 ", which its other half computes at the same time, expected "
                 "the two one after the other");
    case State::None:
      if (transfers.owner(id) == rank)
        return bad(quoted(action) + " reads " + name +
                   ", which is not computed yet, expected it before");
      return bad(quoted(action) + " reads " + name + ", which rank " +
                 Twine(rank) +
                 " has not received, expected a receive from "
                 "rank " +
                 Twine(transfers.owner(id)) + " and its wait before");
    case State::Landing:
      return bad(quoted(action) + " reads " + name +
                     ", which may not be there yet, expected a wait-receive "
                     "before",
                 {note(buffer.from, "the receive starts here")});
    case State::Freed:
      return bad(quoted(action) + " reads " + name +
                     ", which was freed, expected the free behind the last use",
                 {note(buffer.freed, "freed here")});
    }
  }
  return std::nullopt;
}

std::optional<Problem> RankChecker::compute(const Action &action) {
  std::optional<Problem> problem;
  int64_t temporary = 0;
  eachTask(action, [&](const Task &task) {
    if (problem)
      return;
    if (gathers.count(task.stage) && !gathered.count(task.stage)) {
      problem = bad(quoted(action) + " uses the weights of stage " +
                    Twine(task.stage) +
                    ", which are not gathered, expected "
                    "'gather(" +
                    Twine(task.stage) + ")' before");
      return;
    }
    for (int32_t id : index.producedBy(task.part, task.stage)) {
      Buffer &buffer = buffers.at(id, task.microbatch);
      buffer.state = State::Live;
      buffer.from = at;
      charge(pipeline.values[id].bytes);
    }
    temporary += pipeline.stages[task.stage].temporaries(task.part);
  });
  charge(temporary);
  eachTask(action, [&](const Task &task) {
    if (!problem)
      problem = read(action, task);
  });
  bytes -= temporary;
  return problem;
}

std::optional<Problem> RankChecker::aboutValue(const Action &action) {
  int32_t id = index.of(action);
  int32_t microbatch = action.task.microbatch;
  if (id < 0)
    return bad(quoted(action) + " means a value that is not there, expected "
                                "one that a stage hands on");
  std::string name = nameOf(id, microbatch);
  if (action.kind == ActionKind::Free) {
    if (!buffers.has(id))
      return bad(quoted(action) + " frees " + name + ", which rank " +
                 Twine(rank) +
                 " never has, expected it on the ranks that "
                 "compute or read it");
    Buffer &buffer = buffers.at(id, microbatch);
    if (buffer.state == State::None)
      return bad(quoted(action) + " frees " + name +
                 ", which is not there yet, expected the free behind its last "
                 "use");
    if (buffer.state == State::Freed)
      return bad(quoted(action) + " frees " + name +
                     " again, expected one free",
                 {note(buffer.freed, "freed here")});
    if (buffer.state == State::Landing || buffer.open > 0)
      return bad(quoted(action) + " frees " + name +
                     " while a transfer uses it, expected its wait before",
                 {note(buffer.from, "its buffer is from here on")});
    buffer.state = State::Freed;
    buffer.freed = at;
    bytes -= pipeline.values[id].bytes;
    return std::nullopt;
  }

  int64_t number = transfers.of(action, id, rank);
  bool isReceive = action.kind == ActionKind::Receive ||
                   action.kind == ActionKind::WaitReceive;
  if (number < 0) {
    int32_t from = isReceive ? action.peer : rank;
    int32_t to = isReceive ? rank : action.peer;
    if (transfers.owner(id) != from)
      return bad(quoted(action) + " moves " + name + " from rank " +
                 Twine(from) + ", expected rank " + Twine(transfers.owner(id)) +
                 ", which computes it");
    return bad(quoted(action) + " moves " + name + " to rank " + Twine(to) +
               ", which does not read it" +
               (transfers.begin(id) == transfers.end(id)
                    ? Twine(", expected no transfer of it")
                    : ", expected rank " +
                          Twine(transfers.reader(transfers.begin(id)))));
  }
  Buffer &buffer = buffers.at(id, microbatch);
  TransferEnd &transfer = (isReceive ? receives : sends)[number];
  if (action.isTransfer()) {
    if (transfer.started >= 0)
      return bad(quoted(action) + " is there twice, expected one transfer of " +
                     name,
                 {note(transfer.started, "the first stands here")});
    transfer.started = at;
    if (isReceive) {
      buffer.state = State::Landing;
      buffer.from = at;
      charge(pipeline.values[id].bytes);
      return std::nullopt;
    }
    if (buffer.state == State::None)
      return bad(quoted(action) + " sends " + name +
                 ", which is not computed yet, expected it before");
    if (buffer.state == State::Freed)
      return bad(quoted(action) + " sends " + name +
                     ", which was freed, expected the free behind the wait for "
                     "the send",
                 {note(buffer.freed, "freed here")});
    ++buffer.open;
    return std::nullopt;
  }
  if (transfer.started < 0)
    return bad(quoted(action) +
               " waits for a transfer that is not started, "
               "expected its " +
               (isReceive ? "receive" : "send") + " before");
  if (transfer.waited >= 0)
    return bad(quoted(action) + " is there twice, expected one wait",
               {note(transfer.waited, "the first stands here")});
  transfer.waited = at;
  if (isReceive)
    buffer.state = State::Live;
  else
    --buffer.open;
  return std::nullopt;
}

std::optional<Problem> RankChecker::aboutStage(const Action &action) {
  int32_t stage = action.task.stage;
  if (action.kind == ActionKind::ReduceNorm) {
    if (norm >= 0)
      return bad("'norm' is there twice, expected one reduction of the norm",
                 {note(norm, "the first stands here")});
    norm = at;
    return std::nullopt;
  }
  if (stage < 0 || stage >= schedule.stages() || schedule.rankOf[stage] != rank)
    return bad(quoted(action) + " is about a stage that rank " + Twine(rank) +
               " does not have, expected one of its own");
  switch (action.kind) {
  case ActionKind::GatherWeights:
    if (!gathered.try_emplace(stage, at).second)
      return bad(quoted(action) +
                     " gathers weights that are gathered, "
                     "expected 'free-weights(" +
                     Twine(stage) + ")' before",
                 {note(gathered[stage], "gathered here")});
    charge(pipeline.stages[stage].gatheredBytes);
    break;
  case ActionKind::FreeWeights:
    if (!gathered.erase(stage))
      return bad(quoted(action) +
                 " frees weights that are not gathered, "
                 "expected 'gather(" +
                 Twine(stage) + ")' before");
    bytes -= pipeline.stages[stage].gatheredBytes;
    break;
  case ActionKind::ReduceGradients:
    if (auto last = lastWeight.find(stage);
        last != lastWeight.end() && last->second > at)
      return bad(quoted(action) + " stands before the last weight gradient of "
                                  "its stage, expected it behind",
                 {note(last->second, "the last stands here")});
    if (norm >= 0)
      return bad(quoted(action) + " stands behind the norm, expected it before",
                 {note(norm, "the norm stands here")});
    if (!reduced.try_emplace(stage, at).second)
      return bad(quoted(action) + " is there twice, expected one reduction of "
                                  "the gradients of a stage",
                 {note(reduced[stage], "the first stands here")});
    break;
  case ActionKind::Update:
    if (!reduced.count(stage))
      return bad(quoted(action) +
                 " stands before the reduction of the "
                 "gradients, expected 'reduce(" +
                 Twine(stage) + ")' before");
    if (!updated.try_emplace(stage, at).second)
      return bad(quoted(action) + " is there twice, expected one update of a "
                                  "stage",
                 {note(updated[stage], "the first stands here")});
    break;
  default:
    break;
  }
  return std::nullopt;
}

std::optional<Problem> RankChecker::finish() {
  at = static_cast<int32_t>(actions.size()) - 1;
  for (int32_t id : buffers.values())
    for (int32_t m = 0; m < schedule.microbatches; ++m) {
      Buffer &buffer = buffers.at(id, m);
      if (buffer.state == State::None || buffer.state == State::Freed)
        continue;
      at = buffer.lastUse >= 0 ? buffer.lastUse : buffer.from;
      return bad("the buffer of " + nameOf(id, m) + " is never freed on rank " +
                 Twine(rank) + ", expected a free behind " +
                 quoted(actions[at]));
    }
  for (int32_t id : buffers.values())
    for (int32_t t = transfers.begin(id); t < transfers.end(id); ++t) {
      int32_t owner = transfers.owner(id), reader = transfers.reader(t);
      if (owner != rank && reader != rank)
        continue;
      for (int32_t m = 0; m < schedule.microbatches; ++m) {
        bool isSend = owner == rank;
        int64_t number = transfers.find(id, reader, m);
        if ((isSend ? sends : receives)[number].started < 0)
          return problemOf(schedule, rank,
                           nameOf(id, m) + " goes from rank " + Twine(owner) +
                               " to rank " + Twine(reader) + ", expected a " +
                               (isSend ? "send" : "receive") + " on rank " +
                               Twine(rank));
      }
    }
  for (const auto &[stage, where] : gathered) {
    at = where;
    return bad("the weights of stage " + Twine(stage) +
               " are never freed, expected 'free-weights(" + Twine(stage) +
               ")'");
  }
  for (const auto &[stage, where] : updated)
    if (norm > where)
      return problemAt(schedule, rank, where,
                       quoted(actions[where]) +
                           " stands before the norm, expected it behind",
                       {note(norm, "the norm stands here")});
  return std::nullopt;
}

std::optional<Problem> RankChecker::run() {
  for (int32_t stage = 0; stage < schedule.stages(); ++stage)
    if (schedule.rankOf[stage] == rank)
      bytes += pipeline.stages[stage].residentBytes;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == ActionKind::GatherWeights)
      gathers[actions[i].task.stage] = true;
    eachTask(actions[i], [&](const Task &task) {
      if (task.part != Part::Forward && task.part != Part::InputGradient)
        lastWeight[task.stage] = static_cast<int32_t>(i);
    });
  }
  if (actions.empty())
    peak.bytes = bytes;
  for (at = 0; at < static_cast<int32_t>(actions.size()); ++at) {
    const Action &action = actions[at];
    std::optional<Problem> problem = action.isCompute() ? compute(action)
                                     : action.kind >= ActionKind::GatherWeights
                                         ? aboutStage(action)
                                         : aboutValue(action);
    if (problem)
      return problem;
  }
  return finish();
}

} // namespace

std::string Problem::str(llvm::StringRef file) const {
  std::string text;
  auto line = [&](const Remark &remark, llvm::StringRef kind) {
    if (!file.empty() && remark.place.row > 0)
      text += (file + ":" + Twine(remark.place.row) + ":" +
               Twine(remark.place.column) + ": ")
                  .str();
    else if (remark.action >= 0)
      text += ("rank " + Twine(remark.rank) + ", action " +
               Twine(remark.action) + ": ")
                  .str();
    else if (!file.empty())
      text += (file + ": ").str();
    text += (kind + ": " + remark.text + "\n").str();
  };
  line(*this, "error");
  // A circle may be as long as there are transfers.
  constexpr size_t most = 32;
  for (size_t i = 0; i < std::min(notes.size(), most); ++i)
    line(notes[i], "note");
  if (notes.size() > most)
    text += "note: and " + std::to_string(notes.size() - most) + " more\n";
  return text;
}

std::optional<Problem> verifyOrder(const Pipeline &pipeline,
                                   const Schedule &schedule) {
  if (std::optional<Problem> problem = checkTasks(pipeline, schedule))
    return problem;
  if (std::optional<Problem> problem =
          checkCycle(schedule, clockOf(pipeline, schedule)))
    return problem;
  return checkParts(schedule);
}

Verification verify(const Pipeline &pipeline, const Schedule &schedule,
                    const VerifyOptions &options) {
  Verification result;
  result.problem = verifyOrder(pipeline, schedule);
  if (result.problem)
    return result;
  ValueIndex index(pipeline);
  Transfers transfers(pipeline, schedule);
  std::optional<Problem> overLimit;
  std::vector<Peak> peaks;
  std::vector<TransferEnd> sends(transfers.size()), receives(transfers.size());
  int32_t withNorm = -1, withoutNorm = -1;
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    RankChecker checker(pipeline, schedule, rank, index, transfers, sends,
                        receives, options.memoryLimit);
    result.problem = checker.run();
    if (result.problem)
      return result;
    peaks.push_back(checker.peak);
    if (!overLimit)
      overLimit = checker.overLimit;
    bool hasNorm = false;
    for (const Action &action : schedule.ranks[rank])
      hasNorm |= action.kind == ActionKind::ReduceNorm;
    (hasNorm ? withNorm : withoutNorm) = rank;
  }
  if (withNorm >= 0 && withoutNorm >= 0) {
    result.problem = problemOf(schedule, withoutNorm,
                               "rank " + Twine(withoutNorm) +
                                   " has no 'norm', which all ranks must "
                                   "reach, expected one, as on rank " +
                                   Twine(withNorm));
    return result;
  }
  std::vector<double> done;
  Execution execution =
      execute(pipeline, schedule, options.queues, index, transfers, done);
  result.timing = std::move(execution.timing);
  result.problem = execution.deadlock ? execution.deadlock : overLimit;
  result.peaks = std::move(peaks);
  return result;
}

} // namespace sheaf::schedule
