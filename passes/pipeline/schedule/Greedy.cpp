//===- Greedy.cpp - Schedules for given costs and memory ------------------===//

#include "passes/pipeline/schedule/Greedy.h"

#include "passes/pipeline/schedule/Generate.h"
#include "passes/pipeline/schedule/Lower.h"
#include "passes/pipeline/schedule/TaskTable.h"
#include "passes/pipeline/schedule/Transfers.h"
#include <algorithm>
#include <cmath>
#include <queue>
#include <random>

using namespace llvm;

namespace sheaf::schedule {
namespace {

using enum Part;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What tells one list schedule from another.
struct Policy {
  /// The most microbatches that rank r has in flight: `perRank` for each rank
  /// behind it, itself included, and `more`.
  double perRank = 1;
  int32_t more = 0;
  /// What is ready is taken in this order: gradients before forwards, forwards
  /// before gradients, or the one that was not the last.
  enum class Prefer {
    Gradients,
    Forwards,
    Alternate
  } prefer = Prefer::Gradients;
  /// Of the forwards, those of later stages first.
  bool deepFirst = true;
  /// Weight gradients wait for what will be ready within this part of their
  /// own time.
  double patience = 0;
  /// The bytes that a rank may set aside for what is in flight.
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

/// One list schedule.
class ListScheduler {
public:
  ListScheduler(const Pipeline &pipeline, const Schedule &placement,
                const ValueIndex &index, const Transfers &transfers)
      : pipeline(pipeline), placement(placement), index(index),
        transfers(transfers), stagesOf(placement.size()) {
    for (int32_t stage = 0; stage < placement.stages(); ++stage)
      stagesOf[placement.rankOf[stage]].push_back(stage);
    resident.resize(placement.size());
    for (int32_t stage = 0; stage < placement.stages(); ++stage) {
      int32_t rank = placement.rankOf[stage];
      resident[rank] += pipeline.stages[stage].residentBytes;
      for (Part part : {Forward, InputGradient, WeightGradient, Backward})
        temporary =
            std::max(temporary, pipeline.stages[stage].temporaries(part));
    }
    taken.resize(size_t(3) * placement.stages());
    given.resize(taken.size());
    for (const Value &value : pipeline.values)
      for (int32_t rank = 0; rank < placement.size(); ++rank) {
        // On a rank from the first to the last of these, in the order in which
        // a microbatch goes.
        int32_t first = std::numeric_limits<int32_t>::max(), last = -1;
        auto count = [&](Part part, int32_t stage) {
          if (placement.rankOf[stage] != rank)
            return;
          first = std::min(first, orderOf(part, stage));
          last = std::max(last, orderOf(part, stage));
        };
        count(value.part, value.stage);
        for (const Use &use : value.uses)
          count(use.part, use.stage);
        if (last < 0)
          continue;
        taken[at(first)] += value.bytes;
        given[at(last)] += value.bytes;
      }
  }

  /// An order; false where it does not get to its end.
  bool run(const Policy &policy, Schedule &out, double &makespan);

private:
  /// Forwards by stage, then input gradients from the last stage on, then
  /// weight gradients.
  int32_t orderOf(Part part, int32_t stage) const {
    int32_t stages = placement.stages();
    return part == Forward         ? stage
           : part == InputGradient ? 2 * stages - 1 - stage
                                   : 2 * stages + stage;
  }
  size_t at(int32_t order) const {
    int32_t stages = placement.stages();
    Part part = order < stages       ? Forward
                : order < 2 * stages ? InputGradient
                                     : WeightGradient;
    int32_t stage = order < stages       ? order
                    : order < 2 * stages ? 2 * stages - 1 - order
                                         : order - 2 * stages;
    return at(part, stage);
  }
  size_t at(Part part, int32_t stage) const {
    return size_t(stage) * 3 + static_cast<size_t>(part);
  }

  const Pipeline &pipeline;
  const Schedule &placement;
  const ValueIndex &index;
  const Transfers &transfers;
  std::vector<std::vector<int32_t>> stagesOf;
  /// Bytes of a rank; what a part of a stage takes, and gives back at its end.
  std::vector<int64_t> resident, taken, given;
  int64_t temporary = 0;
};

bool ListScheduler::run(const Policy &policy, Schedule &out, double &makespan) {
  int32_t ranks = placement.size(), m = placement.microbatches;
  int64_t tasks = int64_t(3) * placement.stages() * m;
  out = placement;
  for (std::vector<Action> &actions : out.ranks)
    actions.clear();
  TaskTable<double> ends(placement, kInfinity);
  std::vector<int32_t> next(size_t(3) * placement.stages());
  std::vector<double> free(ranks);
  std::vector<int32_t> started(ranks), finished(ranks), most(ranks);
  std::vector<int64_t> bytes = resident;
  std::vector<Part> last(ranks, InputGradient);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    most[rank] = static_cast<int32_t>(std::min(
        double(m), std::ceil(policy.perRank * (ranks - rank)) + policy.more));
    bytes[rank] += temporary;
  }
  using Wake = std::pair<double, int32_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes;
  for (int32_t rank = 0; rank < ranks; ++rank)
    wakes.emplace(0, rank);

  while (tasks > 0 && !wakes.empty()) {
    auto [time, rank] = wakes.top();
    wakes.pop();
    if (free[rank] > time)
      continue;
    const std::vector<int32_t> &mine = stagesOf[rank];
    // The oldest microbatch must always have room to come to its end.
    int32_t oldest = m;
    for (int32_t stage : mine)
      for (Part part : {Forward, InputGradient, WeightGradient})
        oldest = std::min(oldest, next[at(part, stage)]);
    int64_t kept = 0;
    for (int32_t stage : mine)
      for (Part part : {Forward, InputGradient, WeightGradient})
        if (next[at(part, stage)] == oldest)
          kept += taken[at(part, stage)];
    Task best;
    double bestKey = kInfinity, soon = kInfinity;
    for (int32_t stage : mine)
      for (Part part : {Forward, InputGradient, WeightGradient}) {
        int32_t microbatch = next[at(part, stage)];
        if (microbatch == m)
          continue;
        if (part == Forward && stage == mine.front() &&
            started[rank] - finished[rank] >= most[rank])
          continue;
        // (The least that fits is found out by lowering, so the oldest may run
        // whatever it takes.)
        if (microbatch != oldest &&
            bytes[rank] + taken[at(part, stage)] + kept > policy.bytes)
          continue;
        // F, then I, then W, also where nothing is kept in between.
        if (part != Forward &&
            next[at(part == InputGradient ? Forward : InputGradient, stage)] <=
                microbatch)
          continue;
        double ready = 0;
        for (int32_t id : index.readBy(part, stage)) {
          const Value &value = pipeline.values[id];
          double end = ends.at(value.part, value.stage, microbatch);
          if (placement.rankOf[value.stage] != rank)
            end += pipeline.link.seconds(value.bytes);
          ready = std::max(ready, end);
        }
        if (ready > time) {
          if (part != WeightGradient)
            soon = std::min(soon, ready);
          continue;
        }
        // Smaller is better: first by kind, then by stage, then by microbatch.
        double kind = 2;
        if (part != WeightGradient) {
          bool isForward = part == Forward;
          bool isPreferred =
              policy.prefer == Policy::Prefer::Gradients  ? !isForward
              : policy.prefer == Policy::Prefer::Forwards ? isForward
                                                          : part != last[rank];
          kind = isPreferred ? 0 : 1;
        }
        double order = part == Forward && !policy.deepFirst
                           ? double(stage) / placement.stages()
                       : part == InputGradient
                           ? double(stage) / placement.stages()
                           : 1 - double(stage) / placement.stages();
        double key = kind * 4 + order + double(microbatch) / m * 1.5;
        if (key < bestKey) {
          bestKey = key;
          best = {part, stage, microbatch};
        }
      }
    if (best.stage < 0)
      continue;
    if (best.part == WeightGradient && policy.patience > 0 &&
        soon - time <
            policy.patience * pipeline.stages[best.stage].weightGradient) {
      wakes.emplace(soon, rank);
      continue;
    }
    double end = time + pipeline.stages[best.stage].seconds(best.part);
    ends.at(best.part, best.stage, best.microbatch) = end;
    free[rank] = end;
    out.ranks[rank].push_back(Action::compute(best));
    --tasks;
    ++next[at(best.part, best.stage)];
    if (best.part != WeightGradient)
      last[rank] = best.part;
    if (best.part == Forward && best.stage == mine.front()) {
      ++started[rank];
    }
    if (best.part == InputGradient && best.stage == mine.front())
      ++finished[rank];
    bytes[rank] +=
        taken[at(best.part, best.stage)] - given[at(best.part, best.stage)];
    makespan = std::max(makespan, end);
    wakes.emplace(end, rank);
    for (int32_t id : index.producedBy(best.part, best.stage))
      for (int32_t t = transfers.begin(id); t < transfers.end(id); ++t) {
        double arrival = end + pipeline.link.seconds(pipeline.values[id].bytes);
        int32_t reader = transfers.reader(t);
        wakes.emplace(std::max(arrival, free[reader]), reader);
      }
  }
  return tasks == 0;
}

/// I and its W just behind it are one action B, where that takes no longer.
Schedule joined(const Pipeline &pipeline, const Schedule &schedule) {
  Schedule out = schedule;
  for (std::vector<Action> &actions : out.ranks) {
    size_t size = 0;
    for (size_t i = 0; i < actions.size(); ++i) {
      Task task = actions[i].task;
      if (size > 0 && task.part == WeightGradient) {
        Task &before = actions[size - 1].task;
        const Stage &stage = pipeline.stages[task.stage];
        if (before.part == InputGradient && before.stage == task.stage &&
            before.microbatch == task.microbatch &&
            stage.seconds(Backward) <=
                stage.inputGradient + stage.weightGradient) {
          before.part = Backward;
          continue;
        }
      }
      actions[size++] = actions[i];
    }
    actions.resize(size);
  }
  return out;
}

int64_t peakOf(const Pipeline &pipeline, const Schedule &schedule) {
  Lowered low = lower(pipeline, schedule);
  if (!std::holds_alternative<Schedule>(low))
    return std::numeric_limits<int64_t>::max();
  Verification result = verify(pipeline, std::get<Schedule>(low));
  if (result.problem)
    return std::numeric_limits<int64_t>::max();
  int64_t most = 0;
  for (const Peak &peak : result.peaks)
    most = std::max(most, peak.bytes);
  return most;
}

/// Moves actions within the lists of ranks while the makespan falls, or at
/// least the sum of all ends does.
void improve(const Pipeline &pipeline, const GreedyOptions &options,
             GreedyResult &result) {
  bool isLimited = options.memoryLimit != std::numeric_limits<int64_t>::max();
  struct Score {
    double makespan, sum;
    bool operator<(const Score &other) const {
      return makespan != other.makespan ? makespan < other.makespan
                                        : sum < other.sum;
    }
  };
  auto scoreOf = [&](const Schedule &schedule) -> Score {
    Timing timing = clockOf(pipeline, schedule);
    if (!timing.cycle.empty())
      return {kInfinity, 0};
    double sum = 0;
    for (const std::vector<Span> &spans : timing.spans)
      for (const Span &span : spans)
        sum += span.end;
    return {timing.makespan, sum};
  };
  // F, I and W of a microbatch one after the other.
  auto mayPass = [](const Action &first, const Action &second) {
    bool may = true;
    eachTask(first, [&](const Task &a) {
      eachTask(second, [&](const Task &b) {
        may &= a.stage != b.stage || a.microbatch != b.microbatch;
      });
    });
    return may;
  };
  Schedule schedule = result.schedule;
  Score best = scoreOf(schedule);
  int64_t tasks = int64_t(3) * schedule.stages() * schedule.microbatches;
  int64_t tries = std::min<int64_t>(12000, 12000000 / tasks);
  // The same for everybody who asks.
  std::minstd_rand random(1);
  for (; tries > 0; --tries) {
    if (best.makespan <= result.lowerBound * (1 + 1e-12))
      return;
    std::vector<Action> &actions =
        schedule.ranks[random() % schedule.ranks.size()];
    if (actions.size() < 2)
      continue;
    size_t from = random() % actions.size();
    size_t far = 1 + random() % 6;
    size_t to = random() % 2 ? std::min(from + far, actions.size() - 1)
                             : from - std::min(from, far);
    size_t step = from < to ? 1 : -1;
    bool may = from != to;
    for (size_t at = from; may && at != to; at += step)
      may = mayPass(actions[from], actions[at + step]);
    if (!may)
      continue;
    auto rotate = [&](size_t a, size_t b) {
      if (a < b)
        std::rotate(actions.begin() + a, actions.begin() + a + 1,
                    actions.begin() + b + 1);
      else
        std::rotate(actions.begin() + b, actions.begin() + a,
                    actions.begin() + a + 1);
    };
    rotate(from, to);
    Score score = scoreOf(schedule);
    if (!(score < best) ||
        (isLimited && peakOf(pipeline, schedule) > options.memoryLimit)) {
      rotate(to, from);
      continue;
    }
    best = score;
    result.schedule = schedule;
    result.makespan = score.makespan;
  }
}

std::vector<Schedule> recipesFor(int32_t stages, int32_t ranks, int32_t m,
                                 Placement placement) {
  std::vector<Schedule> all;
  if (stages % ranks == 0 && placement != Placement::Folded) {
    if (stages == ranks) {
      all = {make1F1B(ranks, m), makeZBH1(ranks, m), makeZBH2(ranks, m)};
    } else {
      all = {makeInterleaved(ranks, m, stages / ranks)};
    }
    all.push_back(makeBreadthFirst(ranks, m, stages / ranks));
  }
  if (stages == 2 * ranks && placement != Placement::Looped) {
    all.push_back(makeZBV(ranks, m));
    if (m >= 2 * ranks)
      if (Expected<Schedule> dual = makeDualPipeV(ranks, m))
        all.push_back(std::move(*dual));
  }
  return all;
}

} // namespace

double lowerBound(const Pipeline &pipeline, const Schedule &placement) {
  int32_t stages = placement.stages();
  double least = std::min(1.0, pipeline.fusedFactor);
  auto seconds = [&](Part part, int32_t stage) {
    const Stage &costs = pipeline.stages[stage];
    double time = costs.seconds(part);
    if (part == InputGradient)
      time = std::min(time, costs.seconds(Backward));
    // In a B, W may cost what is left of it.
    if (part == WeightGradient)
      time = std::min(
          time, std::max(0.0, costs.seconds(Backward) - costs.inputGradient));
    return least * time;
  };
  ValueIndex index(pipeline);
  // The longest paths of one microbatch, relaxed until nothing changes.
  auto at = [](Part part, int32_t stage) {
    return size_t(stage) * 3 + static_cast<size_t>(part);
  };
  std::vector<double> head(size_t(3) * stages), tail(head);
  bool changed = true;
  for (int32_t round = 0; changed && round <= 3 * stages; ++round) {
    changed = false;
    for (const Value &value : pipeline.values)
      for (const Use &use : value.uses) {
        double moves =
            placement.rankOf[use.stage] == placement.rankOf[value.stage]
                ? 0
                : pipeline.link.seconds(value.bytes);
        size_t from = at(value.part, value.stage), to = at(use.part, use.stage);
        double before = head[from] + seconds(value.part, value.stage) + moves;
        double after = tail[to] + seconds(use.part, use.stage) + moves;
        changed |= before > head[to] || after > tail[from];
        head[to] = std::max(head[to], before);
        tail[from] = std::max(tail[from], after);
      }
  }
  double bound = 0;
  for (int32_t rank = 0; rank < placement.size(); ++rank)
    for (int parts = 1; parts < 8; ++parts) {
      double first = kInfinity, after = kInfinity, work = 0;
      for (int32_t stage = 0; stage < stages; ++stage) {
        if (placement.rankOf[stage] != rank)
          continue;
        for (Part part : {Forward, InputGradient, WeightGradient}) {
          if (!(parts & (1 << static_cast<int>(part))))
            continue;
          first = std::min(first, head[at(part, stage)]);
          after = std::min(after, tail[at(part, stage)]);
          work += placement.microbatches * seconds(part, stage);
        }
      }
      if (first < kInfinity)
        bound = std::max(bound, first + work + after);
    }
  return bound;
}

Expected<GreedyResult> makeGreedy(const Pipeline &pipeline,
                                  const GreedyOptions &options) {
  auto stages = static_cast<int32_t>(pipeline.stages.size());
  int32_t ranks = options.ranks, m = options.microbatches;
  if (ranks < 1 || m < 1 || stages < 1 || stages % ranks != 0)
    return createStringError(inconvertibleErrorCode(),
                             "%d stages on %d ranks with %d microbatches, "
                             "expected a multiple of the ranks, and at least 1 "
                             "of each",
                             stages, ranks, m);
  if (options.placement == Placement::Folded && stages != 2 * ranks)
    return createStringError(inconvertibleErrorCode(),
                             "%d stages folded on %d ranks, expected %d: two a "
                             "rank",
                             stages, ranks, 2 * ranks);
  std::vector<Schedule> placements;
  if (options.placement != Placement::Folded)
    placements.push_back(loopedPlacement(ranks, stages / ranks, m));
  if (options.placement != Placement::Looped && stages == 2 * ranks)
    placements.push_back(foldedPlacement(ranks, m));

  GreedyResult result;
  result.makespan = result.lowerBound = kInfinity;
  for (const Schedule &placement : placements)
    result.lowerBound =
        std::min(result.lowerBound, lowerBound(pipeline, placement));
  bool isLimited = options.memoryLimit != std::numeric_limits<int64_t>::max();
  int64_t least = std::numeric_limits<int64_t>::max();
  // The best with fused pairs is kept beside the best without: pairs do not
  // come apart, and so seldom get better.
  GreedyResult fused = result;
  // Takes a schedule that is faster than those before and keeps to the limit;
  // otherwise says by how many bytes it does not.
  auto take = [&](const Schedule &schedule) -> int64_t {
    bool isFused = false;
    for (const std::vector<Action> &actions : schedule.ranks)
      for (const Action &action : actions)
        isFused |= action.kind == ActionKind::FusedPair;
    GreedyResult &best = isFused ? fused : result;
    Timing timing = clockOf(pipeline, schedule);
    if (!timing.cycle.empty() || timing.makespan >= best.makespan)
      return 0;
    if (isLimited) {
      int64_t peak = peakOf(pipeline, schedule);
      least = std::min(least, peak);
      if (peak > options.memoryLimit)
        return peak - options.memoryLimit;
    }
    best.makespan = timing.makespan;
    best.schedule = schedule;
    return 0;
  };
  for (const Schedule &recipe : recipesFor(stages, ranks, m, options.placement))
    take(recipe);

  ValueIndex index(pipeline);
  // Microbatches in flight: more on earlier ranks, or as many on all.
  std::vector<std::pair<double, int32_t>> ahead;
  for (double perRank : {1.0, 1.25, 1.5, 2.0, 4.0})
    for (int32_t more : {0, 1, 2, ranks})
      ahead.emplace_back(perRank, more);
  for (int32_t quarters : {1, 2, 3, 4, 5, 6, 8})
    ahead.emplace_back(0, std::max(1, ranks * quarters / 4));
  std::vector<Policy> policies;
  using Prefer = Policy::Prefer;
  for (double patience : {0.0, 0.5, 1.0})
    for (bool deepFirst : {true, false})
      for (Prefer prefer :
           {Prefer::Gradients, Prefer::Alternate, Prefer::Forwards})
        for (auto [perRank, more] : ahead)
          // Of one stage there is no deeper one.
          if (stages != ranks || deepFirst)
            policies.push_back({perRank, more, prefer, deepFirst, patience});
  // A second or two, whatever the size.
  int64_t tasks = int64_t(3) * stages * m;
  size_t most = std::max<int64_t>(4, 4000000 / tasks);
  size_t stride = (policies.size() + most - 1) / most;
  for (const Schedule &placement : placements) {
    Transfers transfers(pipeline, placement);
    ListScheduler scheduler(pipeline, placement, index, transfers);
    for (size_t i = 0; i < policies.size(); i += stride) {
      Policy policy = policies[i];
      if (isLimited)
        policy.bytes = options.memoryLimit;
      // What is counted here is not exactly what lowering charges.
      for (int tries = 0; tries < 4; ++tries) {
        for (GreedyResult *each : {&result, &fused})
          if (each->makespan <= each->lowerBound * (1 + 1e-12))
            return std::move(*each);
        Schedule schedule;
        double makespan = 0;
        if (!scheduler.run(policy, schedule, makespan))
          break;
        int64_t over = take(joined(pipeline, schedule));
        if (over <= 0)
          break;
        policy.bytes -= over;
      }
    }
  }
  for (GreedyResult *each : {&result, &fused})
    if (each->makespan < kInfinity)
      improve(pipeline, options, *each);
  if (fused.makespan < result.makespan)
    return fused;
  if (result.makespan < kInfinity)
    return result;
  return createStringError(
      inconvertibleErrorCode(),
      "no schedule of %d stages on %d ranks keeps to %lld bytes a rank, "
      "expected a limit of at least %lld",
      stages, ranks, static_cast<long long>(options.memoryLimit),
      static_cast<long long>(least));
}

} // namespace sheaf::schedule
