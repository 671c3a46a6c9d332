//===- Lower.cpp - From a compute order to sends and receives -------------===//

#include "passes/pipeline/schedule/Lower.h"

#include "passes/pipeline/schedule/Execute.h"
#include "passes/pipeline/schedule/RankValues.h"
#include "passes/pipeline/schedule/TaskTable.h"
#include <algorithm>
#include <queue>
#include <set>

namespace sheaf::schedule {
namespace {

Action about(ActionKind kind, const Task &producer, int32_t number,
             int32_t peer, Place place = {}) {
  return {kind, producer, {}, number, peer, place};
}

Action ofStage(ActionKind kind, int32_t stage) {
  return {kind, {Part::Forward, stage, -1}, {}, -1, -1, {}};
}

/// Calls `take(value id, microbatch)` for what an action produces, or reads.
template <typename F>
void eachProduced(const ValueIndex &index, const Action &action, F take) {
  eachTask(action, [&](const Task &task) {
    for (int32_t id : index.producedBy(task.part, task.stage))
      take(id, task.microbatch);
  });
}
template <typename F>
void eachRead(const ValueIndex &index, const Action &action, F take) {
  eachTask(action, [&](const Task &task) {
    for (int32_t id : index.readBy(task.part, task.stage))
      take(id, task.microbatch);
  });
}

/// Appends to `out`, and the receives to the lists of the other ranks, the
/// transfers of what an action produces.
class Poster {
public:
  Poster(const Pipeline &pipeline, const Schedule &schedule)
      : pipeline(pipeline), index(pipeline), transfers(pipeline, schedule) {}

  template <typename F>
  void post(const Action &action, F take) const {
    eachProduced(index, action, [&](int32_t id, int32_t microbatch) {
      const Value &value = pipeline.values[id];
      for (int32_t t = transfers.begin(id); t < transfers.end(id); ++t)
        take(Task{value.part, value.stage, microbatch}, index.numberOf(id),
             transfers.owner(id), transfers.reader(t));
    });
  }

  const Pipeline &pipeline;
  ValueIndex index;
  Transfers transfers;
};

/// Sends and receives in the order in which, by the clock, their values come to
/// be. A receive goes before the action that its rank runs at that moment, so
/// that it is there when the value is; where it would block that action,
/// behind.
void postInGlobalOrder(const Poster &poster, const Schedule &order,
                       const Timing &timing, Queues queues, Schedule &out) {
  struct Event {
    double time;
    int64_t turn;
    int32_t rank, action;
    bool puts, posts;
  };
  std::vector<Event> events;
  auto count = static_cast<int64_t>(timing.order.size());
  for (size_t i = 0; i < timing.order.size(); ++i) {
    auto [rank, action] = timing.order[i];
    const Span &span = timing.spans[rank][action];
    // Of what has one time, what depends on nothing of that time comes first.
    auto second = 2 * count + 2 * static_cast<int64_t>(i);
    auto first = span.end > span.start ? second - 2 * count : second;
    if (queues == Queues::OnePerPeer) {
      events.push_back({span.end, first, rank, action, true, false});
      events.push_back({span.end, second + 1, rank, action, false, true});
    } else {
      events.push_back({span.start, second, rank, action, true, false});
      events.push_back({span.end, first + 1, rank, action, false, true});
    }
  }
  std::sort(events.begin(), events.end(), [&](const Event &a, const Event &b) {
    return a.time != b.time ? a.time < b.time : a.turn < b.turn;
  });
  for (const Event &event : events) {
    const Action &action = order.ranks[event.rank][event.action];
    if (event.puts)
      out.ranks[event.rank].push_back(action);
    if (!event.posts)
      continue;
    poster.post(action, [&](const Task &producer, int32_t number, int32_t from,
                            int32_t to) {
      out.ranks[from].push_back(
          about(ActionKind::Send, producer, number, to, action.place));
      out.ranks[to].push_back(
          about(ActionKind::Receive, producer, number, from));
    });
  }
}

void postLazily(const Poster &poster, const Schedule &order, Schedule &out) {
  for (int32_t rank = 0; rank < order.size(); ++rank) {
    std::set<std::pair<int32_t, int32_t>> received;
    for (const Action &action : order.ranks[rank]) {
      if (!action.isCompute())
        continue;
      eachRead(poster.index, action, [&](int32_t id, int32_t microbatch) {
        const Value &value = poster.pipeline.values[id];
        int32_t owner = poster.transfers.owner(id);
        if (owner != rank && received.insert({id, microbatch}).second)
          out.ranks[rank].push_back(about(ActionKind::Receive,
                                          {value.part, value.stage, microbatch},
                                          poster.index.numberOf(id), owner));
      });
      out.ranks[rank].push_back(action);
      poster.post(action, [&](const Task &producer, int32_t number, int32_t,
                              int32_t to) {
        out.ranks[rank].push_back(
            about(ActionKind::Send, producer, number, to, action.place));
      });
    }
  }
}

/// Adds waits for receives, just before the first action that reads the value.
Schedule addReceiveWaits(const Poster &poster, const Schedule &schedule) {
  Schedule out = schedule;
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    RankValues<char> waited(poster.transfers, poster.pipeline.values.size(),
                            rank, schedule.microbatches);
    std::vector<Action> &actions = out.ranks[rank];
    actions.clear();
    for (const Action &action : schedule.ranks[rank]) {
      eachRead(poster.index, action, [&](int32_t id, int32_t microbatch) {
        int32_t owner = poster.transfers.owner(id);
        if (owner == rank || waited.at(id, microbatch))
          return;
        waited.at(id, microbatch) = true;
        const Value &value = poster.pipeline.values[id];
        actions.push_back(about(
            ActionKind::WaitReceive, {value.part, value.stage, microbatch},
            poster.index.numberOf(id), owner, action.place));
      });
      actions.push_back(action);
    }
  }
  return out;
}

/// Adds waits for sends, where the transfer is done in `execution`, and frees.
Schedule addSendWaitsAndFrees(const Poster &poster, const Schedule &schedule,
                              const Execution &execution,
                              const std::vector<double> &done) {
  struct Buffer {
    /// Sends that are not waited for, and one while a local use is to come.
    int32_t uses = 0;
    int32_t lastUse = -1;
  };
  struct Pending {
    double done;
    int32_t number;
    Action send;
    bool operator>(const Pending &other) const {
      return done != other.done ? done > other.done : number > other.number;
    }
  };
  Schedule out = schedule;
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    const std::vector<Action> &before = schedule.ranks[rank];
    std::vector<Action> &actions = out.ranks[rank];
    actions.clear();
    RankValues<Buffer> buffers(poster.transfers, poster.pipeline.values.size(),
                               rank, schedule.microbatches);
    for (size_t i = 0; i < before.size(); ++i) {
      eachRead(poster.index, before[i], [&](int32_t id, int32_t microbatch) {
        Buffer &buffer = buffers.at(id, microbatch);
        buffer.uses += buffer.lastUse < 0;
        buffer.lastUse = static_cast<int32_t>(i);
      });
      int32_t id =
          before[i].kind == ActionKind::Send ? poster.index.of(before[i]) : -1;
      if (id >= 0 && buffers.has(id))
        ++buffers.at(id, before[i].task.microbatch).uses;
    }
    auto free = [&](int32_t id, int32_t microbatch) {
      const Value &value = poster.pipeline.values[id];
      actions.push_back(about(ActionKind::Free,
                              {value.part, value.stage, microbatch},
                              poster.index.numberOf(id), -1));
    };
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending;
    auto waitForFirst = [&] {
      Action wait = pending.top().send;
      pending.pop();
      wait.kind = ActionKind::WaitSend;
      actions.push_back(wait);
      int32_t id = poster.index.of(wait);
      if (--buffers.at(id, wait.task.microbatch).uses == 0)
        free(id, wait.task.microbatch);
    };
    auto flush = [&](double until) {
      while (!pending.empty() && pending.top().done < until)
        waitForFirst();
    };
    for (size_t i = 0; i < before.size(); ++i) {
      const Action &action = before[i];
      const Span &span = execution.timing.spans[rank][i];
      bool isTimed = action.isCompute() && span.end >= 0;
      if (isTimed)
        flush(span.start);
      actions.push_back(action);
      if (action.kind == ActionKind::Send) {
        int32_t id = poster.index.of(action);
        int64_t transfer = id < 0 ? -1 : poster.transfers.of(action, id, rank);
        if (transfer >= 0)
          pending.push({done[transfer], static_cast<int32_t>(i), action});
      }
      if (!action.isCompute())
        continue;
      eachRead(poster.index, action, [&](int32_t id, int32_t microbatch) {
        Buffer &buffer = buffers.at(id, microbatch);
        if (buffer.lastUse != static_cast<int32_t>(i))
          return;
        // A pair may read a value twice.
        buffer.lastUse = -1;
        if (--buffer.uses == 0)
          free(id, microbatch);
      });
      eachProduced(poster.index, action, [&](int32_t id, int32_t microbatch) {
        if (buffers.at(id, microbatch).uses == 0)
          free(id, microbatch);
      });
      if (isTimed)
        flush(span.end);
    }
    // Those that never end, too.
    while (!pending.empty())
      waitForFirst();
  }
  return out;
}

Schedule addBuffers(const Poster &poster, const Schedule &schedule,
                    Queues queues) {
  Schedule posted = addReceiveWaits(poster, schedule);
  std::vector<double> done;
  Execution execution = execute(poster.pipeline, posted, queues, poster.index,
                                poster.transfers, done);
  return addSendWaitsAndFrees(poster, posted, execution, done);
}

void addWeights(Schedule &schedule, LowerOptions::Weights policy) {
  if (policy == LowerOptions::Weights::Resident)
    return;
  for (std::vector<Action> &actions : schedule.ranks) {
    // The compute actions, and the stages of each.
    std::vector<size_t> computes;
    for (size_t i = 0; i < actions.size(); ++i)
      if (actions[i].isCompute())
        computes.push_back(i);
    auto runs = [&](size_t at, int32_t stage) {
      bool found = false;
      eachTask(actions[computes[at]],
               [&](const Task &task) { found |= task.stage == stage; });
      return found;
    };
    std::vector<size_t> first(schedule.stages(), computes.size()),
        last(schedule.stages());
    for (size_t at = 0; at < computes.size(); ++at)
      eachTask(actions[computes[at]], [&](const Task &task) {
        first[task.stage] = std::min(first[task.stage], at);
        last[task.stage] = at;
      });
    std::vector<Action> out;
    size_t at = 0;
    for (size_t i = 0; i < actions.size(); ++i) {
      bool isCompute = at < computes.size() && computes[at] == i;
      std::vector<int32_t> gathers, frees;
      if (isCompute)
        eachTask(actions[i], [&](const Task &task) {
          bool once = policy == LowerOptions::Weights::GatherOnce;
          bool isSecond = !gathers.empty() && gathers.back() == task.stage;
          if (once ? first[task.stage] == at
                   : at == 0 || !runs(at - 1, task.stage))
            if (!isSecond)
              gathers.push_back(task.stage);
          isSecond = !frees.empty() && frees.back() == task.stage;
          if (once ? last[task.stage] == at
                   : at + 1 == computes.size() || !runs(at + 1, task.stage))
            if (!isSecond)
              frees.push_back(task.stage);
        });
      for (int32_t stage : gathers)
        out.push_back(ofStage(ActionKind::GatherWeights, stage));
      out.push_back(actions[i]);
      for (int32_t stage : frees)
        out.push_back(ofStage(ActionKind::FreeWeights, stage));
      at += isCompute;
    }
    actions = std::move(out);
  }
}

void addEpilogue(Schedule &schedule, bool norm) {
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    std::vector<Action> &actions = schedule.ranks[rank];
    for (ActionKind kind : {ActionKind::ReduceGradients, ActionKind::ReduceNorm,
                            ActionKind::Update}) {
      if (kind == ActionKind::ReduceNorm) {
        if (norm)
          actions.push_back(ofStage(kind, -1));
        continue;
      }
      for (int32_t stage = 0; stage < schedule.stages(); ++stage)
        if (schedule.rankOf[stage] == rank)
          actions.push_back(ofStage(kind, stage));
    }
  }
}

Schedule withoutActions(const Schedule &schedule) {
  Schedule out;
  out.rankOf = schedule.rankOf;
  out.microbatches = schedule.microbatches;
  out.ranks.resize(schedule.size());
  return out;
}

} // namespace

Lowered lower(const Pipeline &pipeline, const Schedule &schedule,
              const LowerOptions &options) {
  if (std::optional<Problem> problem = verifyOrder(pipeline, schedule))
    return *problem;
  Poster poster(pipeline, schedule);
  Schedule out = withoutActions(schedule);
  if (options.communication == LowerOptions::Communication::Lazy)
    postLazily(poster, schedule, out);
  else
    postInGlobalOrder(poster, schedule, clockOf(pipeline, schedule),
                      options.queues, out);
  out = addBuffers(poster, out, options.queues);
  addWeights(out, options.weights);
  if (options.epilogue)
    addEpilogue(out, options.norm);
  return out;
}

Lowered completeBuffers(const Pipeline &pipeline, const Schedule &schedule,
                        Queues queues) {
  if (std::optional<Problem> problem = verifyOrder(pipeline, schedule))
    return *problem;
  for (int32_t rank = 0; rank < schedule.size(); ++rank)
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Action &action = schedule.ranks[rank][i];
      ActionKind kind = action.kind;
      if (kind == ActionKind::WaitSend || kind == ActionKind::WaitReceive ||
          kind == ActionKind::Free) {
        Problem problem;
        static_cast<Remark &>(problem) =
            remarkAt(schedule, rank, static_cast<int32_t>(i),
                     "'" + action.str() +
                         "' is there already, expected sends and receives "
                         "without waits and frees");
        return problem;
      }
    }
  return addBuffers(Poster(pipeline, schedule), schedule, queues);
}

} // namespace sheaf::schedule
