//===- Execute.cpp - Running a schedule with its transfers ----------------===//

#include "passes/pipeline/schedule/Execute.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace sheaf::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The end of a span that has not begun, or blocks.
constexpr double kNew = -2, kBlocked = -1;

using Position = std::pair<int32_t, int32_t>;

struct Entry {
  int64_t transfer;
  int32_t rank, action;
  double posted;
};

struct Queue {
  std::vector<Entry> entries;
  size_t head = 0;
  /// When the last transfer ended.
  double free = 0;

  bool empty() const { return head == entries.size(); }
  const Entry &front() const { return entries[head]; }
};

class Executor {
public:
  Executor(const Pipeline &pipeline, const Schedule &schedule, Queues kind,
           const ValueIndex &index, const Transfers &transfers,
           std::vector<double> &done)
      : pipeline(pipeline), schedule(schedule), kind(kind), index(index),
        transfers(transfers), done(done), next(schedule.size()),
        time(schedule.size()), waiters(transfers.size(), -1),
        posts{std::vector<int32_t>(transfers.size(), -1),
              std::vector<int32_t>(transfers.size(), -1)} {
    done.assign(transfers.size(), kNever);
    size_t ranks = schedule.size();
    queues.resize(kind == Queues::OnePerPeer ? ranks * ranks : ranks);
    for (const std::vector<Action> &actions : schedule.ranks)
      hasNorm.push_back(
          std::any_of(actions.begin(), actions.end(), [](const Action &action) {
            return action.kind == ActionKind::ReduceNorm;
          }));
  }

  Execution run();

private:
  size_t queueOf(int32_t rank, int32_t peer) const {
    return kind == Queues::OnePerPeer ? size_t(rank) * schedule.size() + peer
                                      : rank;
  }
  const Action &at(const Entry &entry) const {
    return schedule.ranks[entry.rank][entry.action];
  }
  bool ended(int32_t rank) const {
    return next[rank] == static_cast<int32_t>(schedule.ranks[rank].size());
  }
  int64_t transferOf(const Action &action, int32_t rank) const {
    int32_t value = index.of(action);
    return value < 0 ? -1 : transfers.of(action, value, rank);
  }

  void advance(int32_t rank);
  void post(int32_t rank, int32_t action, int64_t transfer);
  /// Carries out what stands first in both of its queues.
  void match(size_t queue);
  void arriveAtNorm();

  Problem explain();
  /// What a waiting action, or one in a queue, waits for; its text says why.
  Position following(Position position, std::string &why) const;

  const Pipeline &pipeline;
  const Schedule &schedule;
  Queues kind;
  const ValueIndex &index;
  const Transfers &transfers;
  std::vector<double> &done;
  Execution execution;
  std::vector<int32_t> next;
  std::vector<double> time;
  std::vector<int32_t> ready;
  /// The rank that waits for a transfer; the number of ranks if both do.
  std::vector<int32_t> waiters;
  /// Where the send and the receive of a transfer stand, once they are posted.
  std::vector<int32_t> posts[2];
  std::vector<Queue> queues;
  std::vector<bool> hasNorm;
  int32_t atNorm = 0;
  bool isNormDone = false;
};

void Executor::match(size_t queue) {
  std::vector<size_t> changed{queue};
  while (!changed.empty()) {
    Queue &mine = queues[changed.back()];
    if (mine.empty()) {
      changed.pop_back();
      continue;
    }
    const Entry &entry = mine.front();
    const Action &action = at(entry);
    size_t other = queueOf(action.peer, entry.rank);
    Queue &theirs = queues[other];
    if (theirs.empty() || theirs.front().transfer != entry.transfer ||
        theirs.front().rank == entry.rank) {
      changed.pop_back();
      continue;
    }
    const Entry &counterpart = theirs.front();
    double end =
        std::max({entry.posted, counterpart.posted, mine.free, theirs.free}) +
        pipeline.link.seconds(pipeline.values[index.of(action)].bytes);
    done[entry.transfer] = mine.free = theirs.free = end;
    int32_t waiter = waiters[entry.transfer];
    for (int32_t rank : {entry.rank, counterpart.rank})
      if (waiter == rank || waiter == schedule.size())
        ready.push_back(rank);
    ++mine.head;
    ++theirs.head;
    changed.push_back(other);
  }
}

void Executor::post(int32_t rank, int32_t action, int64_t transfer) {
  const Action &what = schedule.ranks[rank][action];
  posts[what.kind == ActionKind::Receive][transfer] = action;
  size_t queue = queueOf(rank, what.peer);
  queues[queue].entries.push_back({transfer, rank, action, time[rank]});
  match(queue);
}

void Executor::arriveAtNorm() {
  double end = 0;
  for (int32_t rank = 0; rank < schedule.size(); ++rank)
    if (hasNorm[rank])
      end = std::max(end, time[rank]);
  isNormDone = true;
  for (int32_t rank = 0; rank < schedule.size(); ++rank)
    if (hasNorm[rank]) {
      time[rank] = end;
      ready.push_back(rank);
    }
}

void Executor::advance(int32_t rank) {
  const std::vector<Action> &actions = schedule.ranks[rank];
  for (; !ended(rank); ++next[rank]) {
    const Action &action = actions[next[rank]];
    Span &span = execution.timing.spans[rank][next[rank]];
    // What has blocked before has its start.
    if (span.end == kNew)
      span.start = time[rank];
    switch (action.kind) {
    case ActionKind::Compute:
    case ActionKind::FusedPair:
      time[rank] += pipeline.seconds(action);
      break;
    case ActionKind::Send:
    case ActionKind::Receive:
    case ActionKind::WaitSend:
    case ActionKind::WaitReceive: {
      int64_t transfer = transferOf(action, rank);
      if (transfer < 0)
        break;
      if (action.isTransfer()) {
        if (span.end == kNew)
          post(rank, next[rank], transfer);
        if (kind == Queues::OnePerPeer)
          break;
      }
      if (done[transfer] == kNever) {
        int32_t &waiter = waiters[transfer];
        waiter = waiter < 0 || waiter == rank ? rank : schedule.size();
        span.end = kBlocked;
        return;
      }
      time[rank] = std::max(time[rank], done[transfer]);
      break;
    }
    case ActionKind::ReduceNorm:
      if (isNormDone)
        break;
      if (span.end == kBlocked)
        return;
      span.end = kBlocked;
      ++atNorm;
      if (atNorm == std::count(hasNorm.begin(), hasNorm.end(), true))
        arriveAtNorm();
      return;
    default:
      break;
    }
    span.end = time[rank];
    execution.timing.order.emplace_back(rank, next[rank]);
  }
}

Position Executor::following(Position position, std::string &why) const {
  auto [rank, index] = position;
  const Action &action = schedule.ranks[rank][index];
  auto name = [&](Position at) {
    return "'" + schedule.ranks[at.first][at.second].str() + "'";
  };
  if (action.kind == ActionKind::ReduceNorm) {
    for (int32_t other = 0; other < schedule.size(); ++other)
      if (hasNorm[other] && !ended(other) &&
          schedule.ranks[other][next[other]].kind != ActionKind::ReduceNorm) {
        why = "rank " + std::to_string(rank) + " waits for all ranks at " +
              name(position) + ", and rank " + std::to_string(other) +
              " is not there";
        return {other, next[other]};
      }
    return {-1, -1};
  }
  int64_t transfer = transferOf(action, rank);
  bool isSend =
      action.kind == ActionKind::Send || action.kind == ActionKind::WaitSend;
  if (!action.isTransfer()) {
    // A wait: for its own entry in the queue.
    int32_t own = posts[!isSend][transfer];
    if (own < 0)
      return {-1, -1};
    why = "rank " + std::to_string(rank) + " waits at " + name(position) +
          " for " + name({rank, own});
    return {rank, own};
  }
  auto queueName = [&](int32_t of, int32_t peer) {
    return "the queue of rank " + std::to_string(of) +
           (kind == Queues::OnePerPeer ? " for rank " + std::to_string(peer)
                                       : "");
  };
  const Queue &mine = queues[queueOf(rank, action.peer)];
  if (mine.front().action != index) {
    Position head{rank, mine.front().action};
    why = name(position) + " stands behind " + name(head) + " in " +
          queueName(rank, action.peer);
    return head;
  }
  int32_t counterpart = posts[isSend][transfer];
  if (counterpart >= 0) {
    const Queue &theirs = queues[queueOf(action.peer, rank)];
    Position head{action.peer, theirs.front().action};
    why = name(position) + " is the first in " + queueName(rank, action.peer) +
          ", and " + name({action.peer, counterpart}) + " stands behind " +
          name(head) + " in " + queueName(action.peer, rank);
    return head;
  }
  if (ended(action.peer))
    return {-1, -1};
  Position waiting{action.peer, next[action.peer]};
  why = name(position) + " is the first in " + queueName(rank, action.peer) +
        ", and rank " + std::to_string(action.peer) + " waits at " +
        name(waiting) + " before it takes part";
  return waiting;
}

Problem Executor::explain() {
  // Every waiting action waits for one other.
  Position position{-1, -1};
  for (int32_t rank = 0; rank < schedule.size() && position.first < 0; ++rank)
    if (!ended(rank))
      position = {rank, next[rank]};
  for (const Queue &queue : queues)
    if (position.first < 0 && !queue.empty())
      position = {queue.front().rank, queue.front().action};
  std::vector<Position> path;
  std::vector<std::string> whys;
  for (;;) {
    auto seen = std::find(path.begin(), path.end(), position);
    if (seen != path.end()) {
      whys.erase(whys.begin(), whys.begin() + (seen - path.begin()));
      path.erase(path.begin(), seen);
      break;
    }
    path.push_back(position);
    std::string why;
    Position following = this->following(position, why);
    if (following.first < 0) {
      // Somebody never takes part.
      Problem problem;
      static_cast<Remark &>(problem) =
          remarkAt(schedule, position.first, position.second,
                   "'" + schedule.ranks[position.first][position.second].str() +
                       "' never ends: nothing at the other end takes part");
      return problem;
    }
    whys.push_back(why);
    position = following;
  }
  Problem problem;
  static_cast<Remark &>(problem) = remarkAt(
      schedule, path[0].first, path[0].second,
      "deadlock: ranks wait for each other in a circle, expected sends "
      "and receives of two ranks in the same order on both");
  for (size_t i = 0; i < path.size(); ++i)
    problem.notes.push_back(
        remarkAt(schedule, path[i].first, path[i].second, whys[i]));
  return problem;
}

Execution Executor::run() {
  Timing &timing = execution.timing;
  timing.spans.resize(schedule.size());
  for (int32_t rank = 0; rank < schedule.size(); ++rank)
    timing.spans[rank].resize(schedule.ranks[rank].size(), Span{0, kNew});
  ready.resize(schedule.size());
  std::iota(ready.rbegin(), ready.rend(), 0);
  while (!ready.empty()) {
    int32_t rank = ready.back();
    ready.pop_back();
    advance(rank);
  }
  timing.busy.resize(schedule.size());
  timing.length.resize(schedule.size());
  bool isDone = true;
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    isDone &= ended(rank);
    double first = kNever, last = 0;
    for (int32_t i = 0; i < next[rank]; ++i) {
      const Span &span = timing.spans[rank][i];
      if (!schedule.ranks[rank][i].isCompute())
        continue;
      first = std::min(first, span.start);
      last = span.end;
      timing.busy[rank] += span.end - span.start;
    }
    timing.length[rank] = first == kNever ? 0 : last - first;
    timing.makespan = std::max(timing.makespan, time[rank]);
  }
  for (const Queue &queue : queues)
    isDone &= queue.empty();
  if (!isDone)
    execution.deadlock = explain();
  return std::move(execution);
}

} // namespace

Remark remarkAt(const Schedule &schedule, int32_t rank, int32_t action,
                std::string text) {
  Remark remark{rank, action, {}, std::move(text)};
  if (rank >= 0 && action >= 0)
    remark.place = schedule.ranks[rank][action].place;
  return remark;
}

Execution execute(const Pipeline &pipeline, const Schedule &schedule,
                  Queues queues, const ValueIndex &index,
                  const Transfers &transfers, std::vector<double> &done) {
  return Executor(pipeline, schedule, queues, index, transfers, done).run();
}

Execution execute(const Pipeline &pipeline, const Schedule &schedule,
                  Queues queues) {
  std::vector<double> done;
  return execute(pipeline, schedule, queues, ValueIndex(pipeline),
                 Transfers(pipeline, schedule), done);
}

} // namespace sheaf::schedule
