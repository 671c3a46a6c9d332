#include "sheaf/Communicator.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace sheaf;

// Ranks share memory, so a transfer is a rendezvous: each member posts where
// its buffers are, and pulls what it needs out of the others' when they have
// posted. A member's buffers are its own again when all have pulled; a small
// one is copied at the start and free at once.

namespace {
struct Slot {
  std::atomic<bool> posted{false}, reduced{false};
  const char *send = nullptr; ///< of `kept` where that has it
  char *receive = nullptr;
  std::vector<char> kept;
  std::vector<int32_t> rows; ///< of an all-to-all of rows, by block
};

/// One transfer as all its members share it.
struct Operation {
  Operation(const SheafCollective &collective, int rank, int members)
      : collective(collective), firstRank(rank), slots(new Slot[members]) {}
  const SheafCollective collective; ///< as the first member started it
  const int firstRank;
  std::unique_ptr<Slot[]> slots;
  std::atomic<int> started{0}, done{0};
};

/// The transfers of one group and channel that not all members have started.
struct Queue {
  std::deque<std::shared_ptr<Operation>> operations;
  int64_t first = 0; ///< sequence of the front
};

struct alignas(64) RankState {
  std::atomic<uint32_t> bell{0}; ///< counts what may let the rank go on
  std::atomic<bool> busy{false}; ///< touches buffers of others
  std::atomic<bool> asleep{false}, ended{false};
  std::atomic<uint32_t> seen{0};               ///< the bell when it fell asleep
  const SheafCollective *waitsFor = nullptr;   ///< under sleepMutex
  const Operation *waitsIn = nullptr;          ///< under sleepMutex
  const std::vector<int> *waitsWith = nullptr; ///< under sleepMutex
  double waitsSince = 0;                       ///< under sleepMutex
  bool isLimited = false;                      ///< under sleepMutex
};

class ThreadCommunicator;
} // namespace

struct ThreadWorld::State {
  explicit State(int ranks) : ranks(new RankState[ranks]), count(ranks) {
    spin = ranks <= availableCores();
  }
  std::unique_ptr<RankState[]> ranks;
  std::vector<ThreadCommunicator *> communicators; ///< by rank
  const int count;
  bool spin;

  std::mutex watchMutex;
  std::condition_variable watchEnds;
  bool isOver = false; ///< under watchMutex

  std::mutex queueMutex;
  std::map<std::vector<int64_t>, Queue> queues;

  std::mutex sleepMutex;
  std::atomic<uint64_t> rings{0};

  std::atomic<bool> failed{false};
  mutable std::mutex failureMutex;
  int failedRank = -1;
  std::string failure;

  void ring(int rank) {
    rings.fetch_add(1, std::memory_order_seq_cst);
    ranks[rank].bell.fetch_add(1, std::memory_order_seq_cst);
    ranks[rank].bell.notify_all();
  }
  void ringAll() {
    for (int rank = 0; rank < count; ++rank)
      ring(rank);
  }
  void fail(int rank, const std::string &message) {
    {
      std::lock_guard<std::mutex> lock(failureMutex);
      if (failedRank >= 0)
        return;
      failedRank = rank;
      failure = message;
    }
    failed.store(true, std::memory_order_seq_cst);
    ringAll();
  }
};

namespace {
class ThreadCommunicator final : public Communicator {
public:
  ThreadCommunicator(int rank, const Mesh &mesh, ThreadWorld::State &world)
      : Communicator(rank, mesh), world(world), me(world.ranks[rank]) {}

  bool failed() const override {
    return world.failed.load(std::memory_order_relaxed);
  }
  void abort(const std::string &message) noexcept override {
    if (world.count > 1) // alone, there is nobody to tell
      world.fail(rank, message);
  }
  void end() noexcept override {
    me.ended.store(true, std::memory_order_seq_cst);
    world.ringAll(); // whoever waits for this rank looks again
  }
  void abandon() noexcept override {
    if (open() > 0)
      abort("ended with open transfers");
    if (!world.failed.load(std::memory_order_seq_cst))
      return;
    for (int other = 0; other < world.count; ++other)
      while (other != rank &&
             world.ranks[other].busy.load(std::memory_order_seq_cst))
        std::this_thread::yield();
  }

protected:
  struct Mine final : Transfer {
    std::shared_ptr<Operation> operation;
    bool eager = false;
    bool reduced = false; ///< of a large all-reduce: this rank's share
    bool pulled = false;
    std::vector<bool> have; ///< from which members
    int missing = 0;
  };

  std::unique_ptr<Transfer> makeTransfer() override {
    return std::make_unique<Mine>();
  }
  void begin(Transfer &transfer) override;
  void advance(Transfer &transfer) override;
  uint32_t ticket() override { return me.bell.load(std::memory_order_seq_cst); }
  void sleep(uint32_t seen, const Transfer &transfer) override;
  void throwIfFailed() override;

public:
  /// Ends the run where a rank waits longer than `limit` seconds.
  static void watch(ThreadWorld::State &world, double limit);

private:
  /// Whether a rank sleeps and nothing has rung for it; under sleepMutex.
  static bool sleeps(const RankState &state) {
    return state.asleep.load(std::memory_order_seq_cst) &&
           state.bell.load(std::memory_order_seq_cst) ==
               state.seen.load(std::memory_order_seq_cst);
  }
  /// What a rank that sleeps waits for, and who has not started it.
  static std::string describeWait(const ThreadWorld::State &world, int rank);
  /// While it lives, this rank touches the others' buffers.
  class Busy {
  public:
    explicit Busy(ThreadCommunicator &c) : c(c) {
      c.me.busy.store(true, std::memory_order_seq_cst);
      if (c.world.failed.load(std::memory_order_seq_cst)) {
        c.me.busy.store(false, std::memory_order_seq_cst);
        c.throwIfFailed();
      }
    }
    ~Busy() { c.me.busy.store(false, std::memory_order_seq_cst); }

  private:
    ThreadCommunicator &c;
  };

  void ringOthers(const Group &group) {
    for (int member : group.members)
      if (member != rank)
        world.ring(member);
  }
  void pull(Mine &mine);
  void pullRows(Mine &mine, int member);
  bool pullFrom(Mine &mine, int member);
  void reduceInto(Mine &mine, char *target, int64_t begin, int64_t end);
  bool othersReadMine(const Mine &mine) const;
  void checkForDeadlock();

  ThreadWorld::State &world;
  RankState &me;
};

void ThreadCommunicator::throwIfFailed() {
  if (!world.failed.load(std::memory_order_acquire))
    return;
  std::lock_guard<std::mutex> lock(world.failureMutex);
  if (world.failedRank == rank)
    throw Error(world.failure);
  throw PeerError(fmt::format("rank {}: {}", world.failedRank, world.failure));
}

bool ThreadCommunicator::othersReadMine(const Mine &mine) const {
  const SheafCollective &c = mine.collective;
  if (mine.eager || mine.group->size() == 1)
    return false;
  switch (c.kind) {
  case SHEAF_BROADCAST:
    return c.peer == mine.group->index;
  case SHEAF_PERMUTE:
    return c.targets[mine.group->index] >= 0;
  case SHEAF_RECEIVE:
    return false;
  default:
    return true;
  }
}

void ThreadCommunicator::begin(Transfer &transfer) {
  Mine &mine = static_cast<Mine &>(transfer);
  const SheafCollective &c = mine.collective;
  const Group &group = *mine.group;
  int64_t bytes = sendBytes(c);
  mine.eager =
      c.elements * elementSize(static_cast<SheafType>(c.type)) <= eagerBytes;
  mine.have.assign(group.size(), false);
  mine.missing = group.size();

  // A group is its first member and its axes; two ranks that send to each other
  // are theirs.
  std::vector<int64_t> key = {
      c.channel, group.members[0],
      c.kind == SHEAF_SEND || c.kind == SHEAF_RECEIVE ? group.members[1] : -1};
  for (int32_t i = 0; i < c.axis_count; ++i) {
    key.push_back(c.size[i]);
    key.push_back(c.stride[i]);
  }
  std::string wrong;
  {
    std::lock_guard<std::mutex> lock(world.queueMutex);
    Queue &queue = world.queues[key];
    size_t at = static_cast<size_t>(mine.sequence - queue.first);
    while (queue.operations.size() <= at)
      queue.operations.push_back(nullptr);
    std::shared_ptr<Operation> &operation = queue.operations[at];
    if (!operation)
      operation = std::make_shared<Operation>(c, rank, group.size());
    else
      wrong = mismatch(c, operation->collective, operation->firstRank,
                       mine.sequence);
    mine.operation = operation;
    if (wrong.empty()) {
      Slot &slot = operation->slots[group.index];
      slot.receive = mine.receive;
      slot.send = mine.send;
      slot.rows = mine.sentRows;
      if (mine.eager && bytes > 0) {
        slot.kept.assign(mine.send, mine.send + bytes);
        slot.send = slot.kept.data();
      }
      slot.posted.store(true, std::memory_order_seq_cst);
      // The front is always the first to be started by all.
      if (operation->started.fetch_add(1) + 1 == group.size()) {
        queue.operations.pop_front();
        queue.first += 1;
      }
    }
  }
  if (!wrong.empty())
    fail("{}", wrong);
  ringOthers(group);
  advance(mine);
}

/// Adds elements [begin, end) of all members' send buffers.
void ThreadCommunicator::reduceInto(Mine &mine, char *target, int64_t begin,
                                    int64_t end) {
  const SheafCollective &c = mine.collective;
  SheafType type = static_cast<SheafType>(c.type);
  int64_t size = elementSize(type);
  std::vector<const char *> sources;
  for (int m = 0; m < mine.group->size(); ++m)
    sources.push_back(mine.operation->slots[m].send + begin * size);
  Reduction(type, static_cast<SheafReduction>(c.reduction))
      .reduce(*pool, target, sources, end - begin);
}

/// Copies the rows that member `m` has for this rank.
void ThreadCommunicator::pullRows(Mine &mine, int m) {
  const Slot &slot = mine.operation->slots[m];
  Part there = mine.blocksFor(mine.group->index), here = mine.blocksFrom(m);
  for (int64_t i = 0; i < here.run * here.slices; ++i)
    checkRowsOf(mine, m, itemOf(here, i), slot.rows[itemOf(there, i)]);
  placeRows(mine, m, [&](int64_t i) {
    return slot.send + itemOf(there, i) * mine.blockBytes();
  });
}

/// Copies what member `m` has for this rank; false where it is not there yet.
bool ThreadCommunicator::pullFrom(Mine &mine, int m) {
  const SheafCollective &c = mine.collective;
  const Slot &slot = mine.operation->slots[m];
  int64_t size = elementSize(static_cast<SheafType>(c.type)),
          n = mine.group->size();
  int index = mine.group->index;
  if (c.kind == SHEAF_SEND || (c.kind == SHEAF_RECEIVE && m != 0) ||
      (c.kind == SHEAF_PERMUTE && c.targets[m] != index) ||
      (c.kind == SHEAF_BROADCAST && m != c.peer))
    return true; // nothing comes from there
  if (!slot.posted.load(std::memory_order_acquire))
    return false;
  switch (c.kind) {
  case SHEAF_ALL_GATHER:
    copyPart(mine.receive, partOf(c.elements * n, n, c.receive_slices, m),
             slot.send, partOf(c.elements, 1, 1, 0), size);
    return true;
  case SHEAF_ALL_TO_ALL:
    if (c.blocks != 0) {
      pullRows(mine, m);
      return true;
    }
    copyPart(mine.receive, partOf(c.elements, n, c.receive_slices, m),
             slot.send, partOf(c.elements, n, c.send_slices, index), size);
    return true;
  case SHEAF_PERMUTE:
  case SHEAF_BROADCAST:
  case SHEAF_RECEIVE:
    if (mine.receive != slot.send)
      copy(mine.receive, slot.send, c.elements * size);
    return true;
  case SHEAF_ALL_REDUCE: { // the second half: what the owners have added
    if (!slot.reduced.load(std::memory_order_acquire))
      return false;
    auto [begin, end] = ownedRange(c.elements, n, m);
    if (m != index)
      copy(mine.receive + begin * size, slot.receive + begin * size,
           (end - begin) * size);
    return true;
  }
  default:
    return true;
  }
}

/// Reads what can be read; sets `pulled` when all is here.
void ThreadCommunicator::pull(Mine &mine) {
  const SheafCollective &c = mine.collective;
  const Group &group = *mine.group;
  Operation &operation = *mine.operation;
  bool reduces = c.kind == SHEAF_ALL_REDUCE || c.kind == SHEAF_REDUCE_SCATTER;
  if (reduces && !mine.reduced) {
    for (int m = 0; m < group.size(); ++m)
      if (!operation.slots[m].posted.load(std::memory_order_acquire))
        return;
    Busy busy(*this);
    int64_t size = elementSize(static_cast<SheafType>(c.type));
    mine.reduced = true;
    if (c.kind == SHEAF_REDUCE_SCATTER) {
      Part part = partOf(c.elements, group.size(), c.send_slices, group.index);
      for (int64_t slice = 0; slice < part.slices; ++slice) {
        int64_t at = part.offset + slice * part.stride;
        reduceInto(mine, mine.receive + slice * part.run * size, at,
                   at + part.run);
      }
      mine.pulled = true;
      return;
    }
    if (mine.eager) {
      reduceInto(mine, mine.receive, 0, c.elements);
      mine.pulled = true;
      return;
    }
    auto [begin, end] = ownedRange(c.elements, group.size(), group.index);
    reduceInto(mine, mine.receive + begin * size, begin, end);
    operation.slots[group.index].reduced.store(true, std::memory_order_seq_cst);
    ringOthers(group);
  }
  if (c.kind == SHEAF_PERMUTE && mine.missing == group.size()) {
    bool hasSource = false;
    for (int m = 0; m < group.size(); ++m)
      hasSource |= c.targets[m] == group.index;
    if (!hasSource)
      std::memset(mine.receive, 0, receiveBytes(c, group.size()));
  }
  Busy busy(*this);
  // From the next member on, so that the members do not all read one.
  for (int i = 0; i < group.size(); ++i) {
    int m = (group.index + i) % group.size();
    if (!mine.have[m] && pullFrom(mine, m)) {
      mine.have[m] = true;
      mine.missing -= 1;
    }
  }
  mine.pulled = mine.missing == 0;
}

void ThreadCommunicator::advance(Transfer &transfer) {
  Mine &mine = static_cast<Mine &>(transfer);
  Operation &operation = *mine.operation;
  if (!mine.pulled) {
    pull(mine);
    if (!mine.pulled)
      return;
    operation.done.fetch_add(1, std::memory_order_seq_cst);
    if (!mine.eager)
      ringOthers(*mine.group);
  }
  mine.complete =
      !othersReadMine(mine) ||
      operation.done.load(std::memory_order_seq_cst) == mine.group->size();
}

void ThreadCommunicator::sleep(uint32_t seen, const Transfer &transfer) {
  if (world.spin)
    for (int round = 0; round < 4000; ++round) {
      if (me.bell.load(std::memory_order_relaxed) != seen)
        return;
#if defined(__x86_64__)
      _mm_pause();
#endif
    }
  {
    std::lock_guard<std::mutex> lock(world.sleepMutex);
    const Mine &mine = static_cast<const Mine &>(transfer);
    me.waitsFor = &mine.collective;
    me.waitsIn = mine.operation.get();
    me.waitsWith = &mine.group->members;
    me.waitsSince = waitBegin;
    me.isLimited = isLimited(transfer);
    me.seen.store(seen, std::memory_order_seq_cst);
    me.asleep.store(true, std::memory_order_seq_cst);
    checkForDeadlock();
  }
  me.bell.wait(seen, std::memory_order_seq_cst);
  // Nobody looks at the transfer any more.
  std::lock_guard<std::mutex> lock(world.sleepMutex);
  me.asleep.store(false, std::memory_order_seq_cst);
}

std::string ThreadCommunicator::describeWait(const ThreadWorld::State &world,
                                             int rank) {
  const RankState &state = world.ranks[rank];
  const ThreadCommunicator &self = *world.communicators[rank];
  std::string text =
      fmt::format("{} in {}", self.standing(), self.describe(*state.waitsFor));
  std::vector<int> missing;
  for (size_t m = 0; m < state.waitsWith->size(); ++m)
    if (!state.waitsIn->slots[m].posted.load(std::memory_order_acquire))
      missing.push_back((*state.waitsWith)[m]);
  if (!missing.empty())
    text += fmt::format(", which rank {} has not started",
                        fmt::join(missing, ", "));
  return text;
}

void ThreadCommunicator::watch(ThreadWorld::State &world, double limit) {
  auto step = std::chrono::duration<double>(std::clamp(limit / 4, 0.01, 1.0));
  std::unique_lock<std::mutex> lock(world.watchMutex);
  while (!world.watchEnds.wait_for(lock, step, [&] { return world.isOver; })) {
    std::string text;
    int late = -1;
    {
      std::lock_guard<std::mutex> sleepers(world.sleepMutex);
      for (int rank = 0; rank < world.count && late < 0; ++rank) {
        const RankState &state = world.ranks[rank];
        if (!sleeps(state) || !state.isLimited ||
            now() - state.waitsSince < limit)
          continue;
        late = rank;
        text = fmt::format("rank {} has waited for {:g} s{}", rank, limit,
                           describeWait(world, rank));
        for (int other : *state.waitsWith)
          if (std::string where = world.communicators[other]->standing();
              other != rank && !where.empty())
            text += fmt::format("; rank {} is{}", other, where);
      }
    }
    if (late >= 0)
      world.fail(late, text);
  }
}

/// Whether all ranks sleep and no bell has rung: then none ever will.
void ThreadCommunicator::checkForDeadlock() {
  uint64_t before = world.rings.load(std::memory_order_seq_cst);
  std::vector<int> waiting, ended;
  for (int r = 0; r < world.count; ++r) {
    RankState &other = world.ranks[r];
    if (other.ended.load(std::memory_order_seq_cst)) {
      ended.push_back(r);
      continue;
    }
    if (!sleeps(other))
      return;
    waiting.push_back(r);
  }
  if (world.rings.load(std::memory_order_seq_cst) != before ||
      world.failed.load(std::memory_order_seq_cst))
    return;
  std::string text = "no rank can go on";
  constexpr size_t shown = 4;
  for (size_t i = 0; i < std::min(shown, waiting.size()); ++i)
    text += fmt::format("{} rank {} waits{}", i ? ";" : ":", waiting[i],
                        describeWait(world, waiting[i]));
  if (waiting.size() > shown)
    text += fmt::format("; and {} more wait", waiting.size() - shown);
  if (!ended.empty())
    text += fmt::format("; rank {} has ended", fmt::join(ended, ", "));
  world.fail(rank, text);
}
} // namespace

ThreadWorld::ThreadWorld(const Mesh &mesh, double waitLimit)
    : state(std::make_unique<State>(static_cast<int>(mesh.ranks()))) {
  for (int rank = 0; rank < state->count; ++rank) {
    auto own = std::make_unique<ThreadCommunicator>(rank, mesh, *state);
    state->communicators.push_back(own.get());
    communicators.push_back(std::move(own));
  }
  if (waitLimit > 0 && state->count > 1)
    watch = std::thread(ThreadCommunicator::watch, std::ref(*state), waitLimit);
}

ThreadWorld::~ThreadWorld() {
  if (!watch.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(state->watchMutex);
    state->isOver = true;
  }
  state->watchEnds.notify_all();
  watch.join();
}

std::pair<int, std::string> ThreadWorld::failure() const {
  std::lock_guard<std::mutex> lock(state->failureMutex);
  return {state->failedRank, state->failure};
}
