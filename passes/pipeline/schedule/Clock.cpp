//===- Clock.cpp - How long a schedule takes ------------------------------===//

#include "passes/pipeline/schedule/Clock.h"

#include "passes/pipeline/schedule/TaskTable.h"
#include <algorithm>
#include <numeric>

namespace sheaf::schedule {
namespace {

using Position = std::pair<int32_t, int32_t>;

/// Runs every rank as far as it gets, again and again.
class Simulation {
public:
  Simulation(const Pipeline &pipeline, const Schedule &schedule)
      : pipeline(pipeline), schedule(schedule), index(pipeline),
        ends(schedule, kUnknown), waiters(schedule, -1), next(schedule.size()),
        free(schedule.size()) {
    timing.spans.resize(schedule.size());
    for (int32_t rank = 0; rank < schedule.size(); ++rank)
      timing.spans[rank].resize(schedule.ranks[rank].size());
  }

  Timing run();

private:
  static constexpr double kUnknown = -1;

  /// Runs a rank until it waits; ranks that may go on go to `ready`.
  void advance(int32_t rank);
  /// The time at which all that `task` reads is on `rank`; kUnknown, and the
  /// producer that it waits for, where something is not computed yet. What the
  /// first half of a fused pair produces is not there for the second.
  double inputs(const Task &task, int32_t rank, Task &missing);
  void findCycle();

  const Pipeline &pipeline;
  const Schedule &schedule;
  ValueIndex index;
  Timing timing;
  /// When each part has ended.
  TaskTable<double> ends;
  /// The last rank that waits for a part; `chain` has those before it.
  TaskTable<int32_t> waiters;
  std::vector<std::pair<int32_t, int32_t>> chain;
  std::vector<int32_t> ready;
  std::vector<int32_t> next;
  std::vector<double> free;
};

double Simulation::inputs(const Task &task, int32_t rank, Task &missing) {
  double time = 0;
  for (int32_t id : index.readBy(task.part, task.stage)) {
    const Value &value = pipeline.values[id];
    double end = ends.at(value.part, value.stage, task.microbatch);
    if (end == kUnknown) {
      missing = {value.part, value.stage, task.microbatch};
      return kUnknown;
    }
    if (schedule.rankOf[value.stage] != rank)
      end += pipeline.link.seconds(value.bytes);
    time = std::max(time, end);
  }
  return time;
}

void Simulation::advance(int32_t rank) {
  const std::vector<Action> &actions = schedule.ranks[rank];
  for (; next[rank] < static_cast<int32_t>(actions.size()); ++next[rank]) {
    const Action &action = actions[next[rank]];
    Span &span = timing.spans[rank][next[rank]];
    span.start = span.end = free[rank];
    if (!action.isCompute())
      continue;
    bool waits = false;
    eachTask(action, [&](const Task &task) {
      Task missing;
      double time = waits ? 0 : inputs(task, rank, missing);
      if (time == kUnknown) {
        waits = true;
        int32_t &waiter =
            waiters.at(missing.part, missing.stage, missing.microbatch);
        chain.emplace_back(rank, waiter);
        waiter = static_cast<int32_t>(chain.size()) - 1;
      }
      span.start = std::max(span.start, time);
    });
    if (waits)
      return;
    span.end = span.start + pipeline.seconds(action);
    free[rank] = span.end;
    timing.order.emplace_back(rank, next[rank]);
    eachTask(action, [&](const Task &task) {
      eachPart(task.part, [&](Part part) {
        ends.at(part, task.stage, task.microbatch) = span.end;
        int32_t &waiter = waiters.at(part, task.stage, task.microbatch);
        for (; waiter >= 0; waiter = chain[waiter].second)
          ready.push_back(chain[waiter].first);
      });
    });
  }
}

void Simulation::findCycle() {
  // Where each part stands, to go from a waiting action to the one that it
  // waits for: the one at which that part's rank waits itself.
  std::vector<bool> seen(schedule.size());
  int32_t rank = 0;
  while (next[rank] == static_cast<int32_t>(schedule.ranks[rank].size()))
    ++rank;
  std::vector<Position> path;
  while (!seen[rank]) {
    seen[rank] = true;
    path.emplace_back(rank, next[rank]);
    Task missing;
    bool found = false;
    eachTask(schedule.ranks[rank][next[rank]], [&](const Task &task) {
      found = found || inputs(task, rank, missing) == kUnknown;
    });
    int32_t owner = schedule.rankOf[missing.stage];
    if (next[owner] == static_cast<int32_t>(schedule.ranks[owner].size())) {
      // The part is nowhere.
      timing.cycle = {path.back()};
      return;
    }
    rank = owner;
  }
  auto start = std::find_if(path.begin(), path.end(), [&](Position position) {
    return position.first == rank;
  });
  timing.cycle.assign(start, path.end());
}

Timing Simulation::run() {
  ready.resize(schedule.size());
  std::iota(ready.rbegin(), ready.rend(), 0);
  while (!ready.empty()) {
    int32_t rank = ready.back();
    ready.pop_back();
    advance(rank);
  }
  timing.busy.resize(schedule.size());
  timing.length.resize(schedule.size());
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    bool isFirst = true;
    double start = 0, end = 0;
    for (int32_t i = 0; i < next[rank]; ++i) {
      if (!schedule.ranks[rank][i].isCompute())
        continue;
      const Span &span = timing.spans[rank][i];
      if (isFirst)
        start = span.start;
      isFirst = false;
      end = span.end;
      timing.busy[rank] += span.end - span.start;
    }
    timing.length[rank] = end - start;
    timing.makespan = std::max(timing.makespan, end);
    if (next[rank] < static_cast<int32_t>(schedule.ranks[rank].size()) &&
        timing.cycle.empty())
      findCycle();
  }
  return std::move(timing);
}

double sum(const std::vector<double> &numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

} // namespace

double Timing::bubbleOverIdeal() const {
  double work = sum(busy);
  return work > 0 ? (makespan * busy.size() - work) / work : 0;
}

double Timing::bubbleOverMakespan() const {
  double whole = makespan * busy.size();
  return whole > 0 ? (whole - sum(busy)) / whole : 0;
}

double Timing::bubbleBySpan() const {
  double longest = 0;
  for (double each : length)
    longest = std::max(longest, each);
  return longest > 0 ? 1 - sum(busy) / busy.size() / longest : 0;
}

Timing clockOf(const Pipeline &pipeline, const Schedule &schedule) {
  return Simulation(pipeline, schedule).run();
}

std::vector<int32_t> mostAlive(const Schedule &schedule, Part until) {
  std::vector<int32_t> most(schedule.size());
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    int32_t alive = 0;
    for (const Action &action : schedule.ranks[rank]) {
      int32_t ended = 0;
      eachTask(action, [&](const Task &task) {
        alive += task.part == Part::Forward;
        eachPart(task.part, [&](Part part) { ended += part == until; });
      });
      most[rank] = std::max(most[rank], alive);
      alive -= ended;
    }
  }
  return most;
}

} // namespace sheaf::schedule
