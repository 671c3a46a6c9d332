#include "Engine.h"
#include "sheaf/Error.h"
#include <algorithm>
#include <array>
#include <deque>
#include <queue>

using namespace sheaf;
using namespace sheaf::sim;

namespace {
/// Links of a rank: to its node and to the network, out and in.
constexpr int linkCount = 4;

struct Transfer {
  int queue;
  TransferCost cost;
  std::vector<int> starts;  ///< of each member, in the queue's order
  std::vector<int> handles; ///< the same
  double allPosted = 0, begin = 0;
  bool isMoving = false;     ///< in its second part
  double left = 0, rate = 1; ///< of the second part: seconds if alone
  double since = 0;          ///< when `left` was so much
  int64_t version = 0;       ///< of its next event
};

struct Rank {
  const Program *program;
  size_t next = 0;     ///< op
  double now = 0;      ///< of the compute stream
  double issued = 0;   ///< when the host is done with the ops so far
  int64_t version = 0; ///< of its next event
  enum { Ready, Working, Waiting, Done } state = Ready;
  // While it works.
  int32_t work = 0;
  double left = 0, rate = 1, since = 0, workBegin = 0;
  bool isSlowed = false;
  // While it waits, and until when waiting is charged to a transfer.
  int32_t handle = 0;
  double charged = 0;
  /// Starts by handle: the index of the transfer, or -1 until all members have
  /// posted it; -2 once it is done.
  std::vector<int> transferOf, startOf;
  std::vector<int> underWay; ///< transfers
  std::array<std::vector<int>, linkCount> moving;
  int32_t action = -1;
  double actionBegin = 0;
  bool isInAction = false;
};

/// A start that not all members have posted.
struct Posted {
  int start, handle;
};

struct Line {
  const Queue *queue;
  /// By member, in order.
  std::vector<std::deque<Posted>> posted;
  int underWay = -1;     ///< the transfer
  std::deque<int> ready; ///< all members have posted, others go first
};

struct Event {
  double time;
  int64_t order;
  enum Kind : int32_t { Resume, Moves, Ends } kind;
  int32_t of;
  int64_t version;
  bool operator>(const Event &other) const {
    return time != other.time ? time > other.time : order > other.order;
  }
};

class Engine {
public:
  Engine(const std::vector<Program> &programs, const std::vector<Queue> &queues,
         const Settings &settings)
      : settings(settings) {
    for (const Program &program : programs) {
      Rank rank;
      rank.program = &program;
      ranks.push_back(std::move(rank));
      outcome.starts.emplace_back(program.starts.size());
    }
    outcome.spent.resize(programs.size());
    outcome.spans.resize(programs.size());
    for (const Queue &queue : queues) {
      Line line;
      line.queue = &queue;
      line.posted.resize(queue.members.size());
      lines.push_back(std::move(line));
    }
  }

  Outcome run() {
    for (size_t i = 0; i < ranks.size(); ++i)
      push(0, Event::Resume, static_cast<int>(i), ranks[i].version);
    while (!events.empty()) {
      Event event = events.top();
      events.pop();
      switch (event.kind) {
      case Event::Resume:
        if (event.version == ranks[event.of].version)
          resume(event.of, event.time);
        break;
      case Event::Moves:
        moves(event.of, event.time);
        break;
      case Event::Ends:
        if (event.version == transfers[event.of].version)
          ends(event.of, event.time);
        break;
      }
    }
    for (const Rank &rank : ranks)
      if (rank.state != Rank::Done)
        reportDeadlock();
    for (const Rank &rank : ranks)
      outcome.seconds = std::max(outcome.seconds, rank.now);
    for (size_t i = 0; i < ranks.size(); ++i)
      outcome.spent[i].idle += outcome.seconds - ranks[i].now;
    return std::move(outcome);
  }

private:
  const Settings &settings;
  std::vector<Rank> ranks;
  std::vector<Line> lines;
  std::vector<Transfer> transfers;
  std::vector<int> unused; ///< of `transfers`
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events;
  int64_t order = 0;
  Outcome outcome;

  void push(double time, Event::Kind kind, int of, int64_t version) {
    events.push({time, order++, kind, of, version});
  }

  //===--- ranks ---===//

  double shareLeft(const Rank &rank) const {
    double taken = 0;
    for (int transfer : rank.underWay)
      taken += transfers[transfer].cost.share;
    return std::max(0.0, 1 - taken);
  }

  /// The work that goes on is done, or the rank's wait is over: goes on.
  void resume(int index, double time) {
    Rank &rank = ranks[index];
    if (rank.state == Rank::Working) {
      double alone = rank.program->works[rank.work];
      finishWork(index, alone, time);
    }
    rank.state = Rank::Ready;
    rank.now = time;
    advance(index);
  }

  void finishWork(int index, double alone, double end) {
    Rank &rank = ranks[index];
    Spent &spent = outcome.spent[index];
    spent.busy += alone;
    if (rank.isSlowed) // else the difference is rounding
      spent.stretch += std::max(0.0, end - rank.workBegin - alone);
    if (settings.wantsSpans)
      outcome.spans[index].push_back(
          {Span::Work, rank.work, -1, rank.workBegin, end});
  }

  /// Carries out ops until one takes time that others may change.
  void advance(int index) {
    Rank &rank = ranks[index];
    const std::vector<Op> &ops = rank.program->ops;
    while (rank.next < ops.size()) {
      Op op = ops[rank.next];
      if (op.kind == Op::Mark) {
        mark(index, op.what);
        ++rank.next;
        continue;
      }
      // What has not been issued does not begin.
      double issued = rank.issued + settings.issue;
      if (issued > rank.now) {
        outcome.spent[index].idle += issued - rank.now;
        rank.now = issued;
        if (!events.empty() && events.top().time <= rank.now) {
          // Others come first, and may change how fast it goes.
          rank.issued = issued - settings.issue;
          push(rank.now, Event::Resume, index, ++rank.version);
          return;
        }
      }
      rank.issued = issued;
      ++rank.next;
      if (op.kind == Op::Work) {
        if (!work(index, op.what))
          return;
      } else if (op.kind == Op::Start) {
        post(index, op.what);
        // Others may go on at this moment, too; nothing that they do changes
        // what this rank did before it.
      } else if (!wait(index, op.what)) {
        return;
      }
    }
    rank.state = Rank::Done;
  }

  /// Whether the work is done at once.
  bool work(int index, int32_t what) {
    Rank &rank = ranks[index];
    double alone = rank.program->works[what];
    rank.work = what;
    rank.workBegin = rank.now;
    rank.isSlowed = false;
    // Where nothing else happens before its end it needs no event.
    if (rank.underWay.empty() &&
        (events.empty() || events.top().time > rank.now + alone)) {
      finishWork(index, alone, rank.now + alone);
      rank.now += alone;
      return true;
    }
    rank.state = Rank::Working;
    rank.left = alone;
    rank.since = rank.now;
    rank.rate = shareLeft(rank);
    rank.isSlowed = rank.rate < 1;
    schedule(index);
    return false;
  }

  void schedule(int index) {
    Rank &rank = ranks[index];
    ++rank.version;
    if (rank.rate > 0)
      push(rank.since + rank.left / rank.rate, Event::Resume, index,
           rank.version);
  }

  /// The transfers under way at a rank have changed.
  void shareChanged(int index, double time) {
    Rank &rank = ranks[index];
    if (rank.state != Rank::Working)
      return;
    double rate = shareLeft(rank);
    if (rate == rank.rate)
      return;
    rank.left = std::max(0.0, rank.left - (time - rank.since) * rank.rate);
    rank.since = time;
    rank.rate = rate;
    rank.isSlowed |= rate < 1;
    schedule(index);
  }

  bool wait(int index, int32_t handle) {
    Rank &rank = ranks[index];
    if (handle < 0 || handle >= static_cast<int32_t>(rank.transferOf.size()))
      fail("{} waits for transfer {}, which it has not started", name(index),
           handle);
    if (rank.transferOf[handle] == -2)
      return true;
    rank.state = Rank::Waiting;
    rank.handle = handle;
    rank.charged = rank.now;
    return false;
  }

  void mark(int index, int32_t action) {
    Rank &rank = ranks[index];
    if (action < 0 && rank.isInAction && settings.wantsSpans)
      outcome.spans[index].push_back(
          {Span::Action, rank.action, -1, rank.actionBegin, rank.now});
    rank.isInAction = action >= 0;
    if (action >= 0) {
      rank.action = action;
      rank.actionBegin = rank.now;
    }
  }

  //===--- transfers ---===//

  void post(int index, int32_t start) {
    Rank &rank = ranks[index];
    const Start &what = rank.program->starts[start];
    Line &line = lines[what.queue];
    int handle = static_cast<int>(rank.transferOf.size());
    rank.transferOf.push_back(-1);
    rank.startOf.push_back(start);
    const std::vector<int> &members = line.queue->members;
    size_t member =
        std::find(members.begin(), members.end(), index) - members.begin();
    line.posted[member].push_back({start, handle});
    if (std::any_of(line.posted.begin(), line.posted.end(),
                    [](const auto &posted) { return posted.empty(); }))
      return;
    int transfer;
    if (unused.empty()) {
      transfer = static_cast<int>(transfers.size());
      transfers.emplace_back();
    } else {
      transfer = unused.back();
      unused.pop_back();
    }
    Transfer &made = transfers[transfer];
    int64_t version = made.version + 1;
    made = Transfer();
    made.version = version;
    made.queue = what.queue;
    made.allPosted = rank.now;
    made.cost = what.cost;
    for (size_t i = 0; i < members.size(); ++i) {
      Posted posted = line.posted[i].front();
      line.posted[i].pop_front();
      const Start &theirs = ranks[members[i]].program->starts[posted.start];
      if (theirs.what != what.what)
        fail("ranks disagree: {} starts {}, {} {}, both as the same transfer "
             "of {}",
             name(index), what.what, name(members[i]), theirs.what,
             line.queue->name);
      // Of groups at several places the slowest counts.
      if (theirs.cost.all() > made.cost.all())
        made.cost = theirs.cost;
      made.starts.push_back(posted.start);
      made.handles.push_back(posted.handle);
      ranks[members[i]].transferOf[posted.handle] = transfer;
    }
    if (line.underWay >= 0)
      line.ready.push_back(transfer);
    else
      begin(transfer, rank.now);
  }

  const std::vector<int> &membersOf(const Transfer &transfer) const {
    return lines[transfer.queue].queue->members;
  }

  void begin(int index, double time) {
    Transfer &transfer = transfers[index];
    lines[transfer.queue].underWay = index;
    transfer.begin = time;
    transfer.left = transfer.cost.seconds;
    for (int member : membersOf(transfer))
      ranks[member].underWay.push_back(index);
    if (transfer.cost.share > 0)
      for (int member : membersOf(transfer))
        shareChanged(member, time);
    push(time + transfer.cost.latency, Event::Moves, index, 0);
  }

  /// Whether a member of the transfer uses one of its links.
  template <typename Visit>
  void forEachLink(const Transfer &transfer, const Visit &visit) {
    const Queue &queue = *lines[transfer.queue].queue;
    for (size_t i = 0; i < queue.members.size(); ++i)
      for (int link = 0; link < linkCount; ++link) {
        bool isNetwork = link >= 2, isOut = link % 2 == 0;
        bool isUsed =
            isNetwork ? transfer.cost.acrossNodes : transfer.cost.inNode;
        if (isUsed && (!queue.isPair || isOut == (i == 0)))
          visit(ranks[queue.members[i]].moving[link]);
      }
  }

  void moves(int index, double time) {
    Transfer &transfer = transfers[index];
    transfer.isMoving = true;
    transfer.since = time;
    transfer.rate = 0;
    std::vector<int> changed = {index};
    forEachLink(transfer, [&](std::vector<int> &moving) {
      changed.insert(changed.end(), moving.begin(), moving.end());
      moving.push_back(index);
    });
    ratesChanged(changed, time);
  }

  /// Recomputes the rates of transfers whose links have changed.
  void ratesChanged(std::vector<int> &changed, double time) {
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (int index : changed) {
      Transfer &transfer = transfers[index];
      size_t most = 1;
      forEachLink(transfer, [&](const std::vector<int> &moving) {
        most = std::max(most, moving.size());
      });
      double rate = 1.0 / static_cast<double>(most);
      if (rate == transfer.rate)
        continue;
      transfer.left = std::max(0.0, transfer.left - (time - transfer.since) *
                                                        transfer.rate);
      transfer.since = time;
      transfer.rate = rate;
      push(time + transfer.left / rate, Event::Ends, index, ++transfer.version);
    }
  }

  void ends(int index, double time) {
    // Vectors may grow below: no references into them are kept.
    std::vector<int> changed;
    forEachLink(transfers[index], [&](std::vector<int> &moving) {
      moving.erase(std::find(moving.begin(), moving.end(), index));
      changed.insert(changed.end(), moving.begin(), moving.end());
    });
    ratesChanged(changed, time);
    Transfer ended = transfers[index];
    ++transfers[index].version;
    const std::vector<int> &members = membersOf(ended);
    for (size_t i = 0; i < members.size(); ++i) {
      Rank &rank = ranks[members[i]];
      rank.underWay.erase(
          std::find(rank.underWay.begin(), rank.underWay.end(), index));
      rank.transferOf[ended.handles[i]] = -2;
      StartTime &sum = outcome.starts[members[i]][ended.starts[i]];
      sum.count += 1;
      sum.seconds += time - ended.begin;
      if (settings.wantsSpans)
        outcome.spans[members[i]].push_back(
            {Span::Transfer, ended.starts[i], ended.queue, ended.begin, time});
    }
    if (ended.cost.share > 0)
      for (int member : members)
        shareChanged(member, time);
    unused.push_back(index);
    Line &line = lines[ended.queue];
    line.underWay = -1;
    if (!line.ready.empty()) {
      int next = line.ready.front();
      line.ready.pop_front();
      begin(next, time);
    }
    for (size_t i = 0; i < members.size(); ++i) {
      Rank &rank = ranks[members[i]];
      if (rank.state != Rank::Waiting)
        continue;
      StartTime &sum = outcome.starts[members[i]][ended.starts[i]];
      if (rank.handle != ended.handles[i]) {
        // The rank waits for one behind it.
        int other = rank.transferOf[rank.handle];
        if (other < 0 || transfers[other].queue != ended.queue)
          continue;
        double from =
            std::max({rank.charged, ended.begin, transfers[other].allPosted});
        sum.exposed += std::max(0.0, time - from);
        rank.charged = time;
        continue;
      }
      double posted = std::max(rank.now, ended.allPosted);
      outcome.spent[members[i]].exposed += time - posted;
      outcome.spent[members[i]].idle += posted - rank.now;
      sum.exposed += time - std::max({posted, rank.charged, ended.begin});
      if (settings.wantsSpans && time > rank.now)
        outcome.spans[members[i]].push_back(
            {Span::Wait, ended.starts[i], ended.queue, rank.now, time});
      rank.state = Rank::Ready;
      rank.now = time;
      push(time, Event::Resume, members[i], ++rank.version);
    }
  }

  //===--- what goes wrong ---===//

  std::string name(int index) const {
    return index < static_cast<int>(settings.names.size())
               ? settings.names[index]
               : fmt::format("program {}", index);
  }

  std::string standing(const Rank &rank) const {
    if (!settings.actions || rank.action < 0 ||
        rank.action >= static_cast<int32_t>(settings.actions->size()))
      return "";
    return fmt::format(" {} action {}", rank.isInAction ? "in" : "behind",
                       (*settings.actions)[rank.action]);
  }

  [[noreturn]] void reportDeadlock() const {
    std::string text;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Rank &rank = ranks[i];
      if (rank.state == Rank::Done)
        continue;
      text += text.empty() ? "" : "; ";
      text += name(static_cast<int>(i)) + standing(rank);
      if (rank.state == Rank::Working) {
        text += " computes while transfers take all of its multiprocessors";
        continue;
      }
      const Start &start = rank.program->starts[rank.startOf[rank.handle]];
      text += fmt::format(" waits for {} on {}", start.what,
                          lines[start.queue].queue->name);
      int transfer = rank.transferOf[rank.handle];
      if (transfer >= 0) {
        text += ", which others there go before";
        continue;
      }
      // Behind how many of its own, and who has posted fewer.
      const Line &line = lines[start.queue];
      const std::vector<int> &members = line.queue->members;
      size_t self =
          std::find(members.begin(), members.end(), static_cast<int>(i)) -
          members.begin();
      size_t place = 0;
      while (line.posted[self][place].handle != rank.handle)
        ++place;
      std::vector<std::string> missing;
      for (size_t m = 0; m < members.size(); ++m)
        if (line.posted[m].size() <= place)
          missing.push_back(
              name(members[m]) +
              (ranks[members[m]].state == Rank::Done ? " (at its end)" : ""));
      text += fmt::format(", which {} has not started",
                          fmt::join(missing, " and "));
    }
    fail("the ranks wait for each other: {}", text);
  }
};
} // namespace

Outcome sheaf::sim::run(const std::vector<Program> &programs,
                        const std::vector<Queue> &queues,
                        const Settings &settings) {
  return Engine(programs, queues, settings).run();
}
