//===- Communicator.h - transfers between ranks -----------------*- C++ -*-===//
//
// Groups, checks and counts that every transport shares, and the two
// transports: threads of this process, processes under MPI. See
// docs/design/communicator.md. A communicator belongs to one rank and is used
// by one thread.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_COMMUNICATOR_H
#define SHEAF_COMMUNICATOR_H

#include "sheaf/Error.h"
#include "sheaf/Mesh.h"
#include "sheaf/ThreadPool.h"
#include "sheaf/abi.h"
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sheaf {

/// Another rank failed, and that is why this one cannot go on.
class PeerError : public Error {
public:
  using Error::Error;
};

/// The ranks of a collective as one of them sees it.
struct Group {
  std::vector<int> members; ///< in order
  int index = 0;            ///< of this rank
  int size() const { return static_cast<int>(members.size()); }
};

/// Throws an Error for what no group of a mesh of so many ranks can be.
void checkShape(const SheafCollective &collective, int64_t ranks);

/// The group of a rank. The collective has been checked.
Group makeGroup(const SheafCollective &collective, const Mesh &mesh, int rank);

/// "all-reduce".
std::string_view collectiveName(int32_t kind);

/// Channel of what the training loop sends.
inline constexpr int32_t controlChannel = INT32_MAX;

/// Send buffers of at most so many bytes are sent whole and at once.
inline constexpr int64_t eagerBytes = 4096;

/// Bytes of the send and the receive buffer in a group of `size`.
int64_t sendBytes(const SheafCollective &collective);
int64_t receiveBytes(const SheafCollective &collective, int64_t size);

/// Bytes that one device sends on a ring.
double wireBytes(const SheafCollective &collective, int64_t size);

/// Where part `index` of a buffer of `parts` lies: `slices` runs of `run`
/// elements, the first at `offset`, each `stride` behind the one before.
struct Part {
  int64_t offset, run, stride, slices;
};
Part partOf(int64_t elements, int64_t parts, int64_t slices, int64_t index);

/// The number, in the whole buffer, of item `i` of a part.
inline int64_t itemOf(const Part &part, int64_t i) {
  return part.offset + i / part.run * part.stride + i % part.run;
}

/// Elements [first, second) that member `index` owns in an all-reduce.
std::pair<int64_t, int64_t> ownedRange(int64_t elements, int64_t size,
                                       int64_t index);

/// Adds contributions in the order in which they come: in f32, in f64 for f64,
/// in the type itself for integers; an i1 is a number from 0 to 1.
class Reduction {
public:
  Reduction(SheafType type, SheafReduction kind) : type(type), kind(kind) {}
  /// Bytes of an accumulator element. Where it is that of the element, the
  /// accumulator may be the result's place.
  int64_t accumulatorSize() const;
  void first(void *accumulator, const void *values, int64_t count) const;
  void add(void *accumulator, const void *values, int64_t count) const;
  void finish(void *result, const void *accumulator, int64_t count) const;
  /// result[i] = sources[0][i] + sources[1][i] + ..., on a pool; `result` may
  /// be one of the sources.
  void reduce(ThreadPool &pool, void *result,
              const std::vector<const char *> &sources, int64_t count) const;

private:
  SheafType type;
  SheafReduction kind;
};

/// Throws an Error where the reduction of a type is not known.
void checkReduction(int32_t type, int32_t kind);

/// What was sent, for `sheaf-run --collectives`.
struct TransferCount {
  int32_t kind;
  std::vector<std::string> axes;
  int64_t group;
  SheafType type;
  int64_t elements; ///< the whole tensor of all-gather and reduce-scatter
  double wireBytes; ///< one time; of rows the mean
  bool ofRows = false;
  int64_t sentBytes = 0; ///< of rows, all times
  std::string purpose;
  int64_t count = 0;
  double seconds = 0; ///< in start and wait
};

/// One transfer of a group of `size`, as it is counted. Purposes are by id.
TransferCount countOf(const SheafCollective &collective, const Mesh &mesh,
                      int64_t size, const std::vector<std::string> &purposes);
/// Adds it to the row of its like, or makes one; returns the row.
int addCount(std::vector<TransferCount> &rows, TransferCount row);

struct EntryCounts {
  int64_t calls = 0;
  /// Whether a call was watched, and the most bytes of gathered weights that it
  /// held at once, without and with those on their way.
  bool isWatched = false;
  int64_t gatheredBytes = 0, gatheredEarlyBytes = 0;
  std::vector<TransferCount> rows;
};

class Communicator {
public:
  Communicator(int rank, Mesh mesh);
  virtual ~Communicator() = default;
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  const int rank;
  const Mesh mesh;
  int ranks() const { return static_cast<int>(mesh.ranks()); }
  /// Where in the mesh this rank stands.
  int64_t place() const { return mesh.placeOf(rank); }
  bool isRoot() const { return rank == 0; }

  /// As in abi.h. Throw an Error where the collective is wrong, where members
  /// disagree, or (a PeerError) where another rank failed.
  int64_t start(const SheafCollective &collective, const void *send,
                void *receive);
  int64_t startRows(const SheafCollective &collective, const void *send,
                    const int32_t *sentRows, const int32_t *receivedRows,
                    void *receive);
  void wait(int64_t handle);
  /// Transfers started and not waited for.
  int64_t open() const { return static_cast<int64_t>(transfers.size()); }

  /// Whether another rank has failed; cheap.
  virtual bool failed() const = 0;
  /// Takes the other ranks down. Keeps the first message.
  virtual void abort(const std::string &message) noexcept = 0;
  /// Returns when no other rank reads this one's buffers any more, so that they
  /// may be freed. Takes the others down where transfers are open.
  virtual void abandon() noexcept = 0;
  /// This rank starts no more transfers.
  virtual void end() noexcept = 0;

  /// A transfer of an entry that is waited for longer, in seconds, is an
  /// Error; 0: never. What the training loop sends may take as long as a
  /// checkpoint, but for agreeBetweenSteps.
  void limitWaits(double seconds) { waitLimit = seconds; }
  /// For tests of what goes on beside transfers. Those of entries start late
  /// and end late, each by up to `longestDelay` seconds, which follow from the
  /// seed and the rank; in one group and channel they start in their order.
  /// What is sent is not read before this rank waits for something. What is
  /// received into holds bytes of 255 until the wait for it returns.
  void delayTransfers(uint64_t seed) {
    delays.emplace(seed * 0x9e3779b97f4a7c15 + rank);
  }
  static constexpr double longestDelay = 1e-3;

  /// What marks mean, for messages; must outlive the calls of entries.
  void nameActions(const std::vector<std::string> &names) {
    actionNames.store(&names, std::memory_order_release);
    action.store(-1, std::memory_order_relaxed);
    isInAction.store(false, std::memory_order_relaxed);
  }
  /// As SheafDevice::mark.
  void mark(int64_t number) {
    if (number >= 0)
      action.store(number, std::memory_order_relaxed);
    isInAction.store(number >= 0, std::memory_order_relaxed);
  }
  /// " in action 2F3", " behind action 2F3", or nothing; any thread may ask.
  std::string standing() const;

  /// The threads that copy and add.
  void usePool(ThreadPool &threads) { pool = &threads; }

  /// Counts a call of an entry and from now on its transfers. `purposes` are by
  /// the collectives' ids, as are the names that messages tell; both must
  /// outlive the counting.
  void countAs(const std::string &entry,
               const std::vector<std::string> &purposes,
               const std::vector<std::string> &names = {});
  void countGathered(const std::string &entry, int64_t bytes,
                     int64_t withUnderWay) {
    counted[entry].isWatched = true;
    counted[entry].gatheredBytes = bytes;
    counted[entry].gatheredEarlyBytes = withUnderWay;
  }
  const std::map<std::string, EntryCounts> &counts() const { return counted; }

  //===--- what the training loop sends; not counted ---===//

  void barrier() { agreeMax(0); }
  /// The largest value on any rank.
  int64_t agreeMax(int64_t value);
  int64_t agreeMin(int64_t value) { return -agreeMax(-value); }
  /// As agreeMax, where all ranks have just done a step.
  int64_t agreeBetweenSteps(int64_t value);
  double agreeSum(double value);
  /// The root's text.
  std::string broadcastText(const std::string &text);
  void sendBytesTo(int target, const void *data, int64_t bytes);
  void receiveBytesFrom(int source, void *data, int64_t bytes);

protected:
  /// A transfer of this rank that is open.
  struct Transfer {
    virtual ~Transfer() = default;
    SheafCollective collective;
    std::shared_ptr<const Group> group;
    const char *send;
    char *receive;
    int64_t sequence; ///< place in the order of its group and channel
    bool complete = false;
    int row = -1; ///< in the counts
    /// Of one that is delayed: when it begins and ends, its group and channel,
    /// and where it is received into, while `receive` is memory of its own.
    bool hasBegun = true;
    double beginsAt = 0, endsAt = 0;
    std::vector<int64_t> key;
    char *target = nullptr;
    std::vector<char> own, sent;
    /// Of an all-to-all of rows: how many each block has.
    std::vector<int32_t> sentRows, receivedRows;
    int64_t blockBytes() const {
      return rowBytes() *
             (collective.elements / collective.blocks / collective.width);
    }
    int64_t rowBytes() const;
    /// The blocks that member `index` gets, and those that come from it.
    Part blocksFor(int64_t index) const {
      return partOf(collective.blocks, group->size(), collective.send_slices,
                    index);
    }
    Part blocksFrom(int64_t index) const {
      return partOf(collective.blocks, group->size(), collective.receive_slices,
                    index);
    }
    /// Bytes of the rows of these blocks.
    int64_t bytesOfRows(const std::vector<int32_t> &rows,
                        const Part &blocks) const;
  };

  virtual std::unique_ptr<Transfer> makeTransfer() = 0;
  virtual void begin(Transfer &transfer) = 0;
  /// Does what can be done now. Sets `complete`.
  virtual void advance(Transfer &transfer) = 0;
  /// Returns when something may have changed since `ticket` was read. `for_` is
  /// what the rank waits for.
  virtual uint32_t ticket() = 0;
  virtual void sleep(uint32_t ticket, const Transfer &for_) = 0;
  virtual void throwIfFailed() = 0;

  /// Copies `bytes` on the pool.
  void copy(void *to, const void *from, int64_t bytes);
  /// Copies a part of `from` into a part of `to`, element for element.
  void copyPart(char *to, const Part &target, const char *from,
                const Part &source, int64_t elementBytes);
  /// Fails where member `index` sends another number of rows to a block than
  /// this rank expects.
  void checkRowsOf(const Transfer &transfer, int64_t index, int64_t block,
                   int32_t sent) const;
  /// Puts the rows of what comes from member `index`, which start at
  /// `from(i)` for block i, into their blocks, and zeros behind them.
  template <typename From>
  void placeRows(const Transfer &transfer, int64_t index, const From &from) {
    Part blocks = transfer.blocksFrom(index);
    int64_t row = transfer.rowBytes(), block = transfer.blockBytes();
    for (int64_t i = 0; i < blocks.run * blocks.slices; ++i) {
      int64_t at = itemOf(blocks, i), bytes = transfer.receivedRows[at] * row;
      char *to = transfer.receive + at * block;
      copy(to, from(i), bytes);
      std::memset(to + bytes, 0, block - bytes);
    }
  }

  /// "all-reduce (sum) of 64 x f32 over dp", with its name where it has one.
  std::string describe(const SheafCollective &collective) const;
  /// What differs between what two ranks started as the same transfer; empty
  /// where nothing does.
  std::string mismatch(const SheafCollective &mine,
                       const SheafCollective &theirs, int otherRank,
                       int64_t sequence) const;

  ThreadPool *pool = nullptr;
  double waitLimit = 0;
  /// Whether a wait for a transfer may take too long.
  bool isLimited(const Transfer &transfer) const {
    return transfer.collective.channel != controlChannel || limitsControl;
  }
  /// When the wait that goes on began, in seconds of now().
  double waitBegin = 0;
  /// The same clock.
  static double now();

private:
  std::atomic<const std::vector<std::string> *> actionNames{nullptr};
  std::atomic<int64_t> action{-1};
  std::atomic<bool> isInAction{false};
  bool limitsControl = false;
  template <typename Body>
  void orAbandon(const Body &body);
  std::optional<std::mt19937_64> delays;
  double drawDelay();
  void delay(Transfer &transfer, const std::vector<int64_t> &key);
  bool beginDue();
  int64_t start(const SheafCollective &collective, const void *send,
                const int32_t *sentRows, const int32_t *receivedRows,
                void *receive);
  void check(const SheafCollective &collective, int64_t size, const void *send,
             void *receive) const;
  void checkRows(const SheafCollective &collective, int64_t size,
                 const int32_t *sentRows, const int32_t *receivedRows) const;
  void runControl(SheafCollective &collective, const void *send, void *receive);
  int rowOf(const SheafCollective &collective, const Group &group);

  using GroupKey = std::vector<int64_t>;
  static GroupKey keyOf(const SheafCollective &collective);
  std::map<GroupKey, std::shared_ptr<const Group>> groups;
  std::map<GroupKey, int64_t> sequences;
  std::map<int64_t, std::unique_ptr<Transfer>> transfers; // by handle
  int64_t nextHandle = 0;
  std::map<std::string, EntryCounts> counted;
  std::vector<TransferCount> *current = nullptr; // of `counted`
  const std::vector<std::string> *purposes = nullptr, *names = nullptr;
};

/// The counts as JSON, as docs/design/communicator.md says.
std::string countsJson(const Communicator &communicator);

/// The ranks of one process, one thread each.
class ThreadWorld {
public:
  /// With `waitLimit`, a transfer of an entry that a rank waits for longer, in
  /// seconds, is a failure of that rank.
  explicit ThreadWorld(const Mesh &mesh, double waitLimit = 0);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld &) = delete;
  ThreadWorld &operator=(const ThreadWorld &) = delete;

  Communicator &rank(int rank) { return *communicators[rank]; }
  int ranks() const { return static_cast<int>(communicators.size()); }
  /// The message of the rank that failed first, and the rank; empty and -1
  /// where none did.
  std::pair<int, std::string> failure() const;

  struct State;

private:
  std::unique_ptr<State> state;
  std::vector<std::unique_ptr<Communicator>> communicators;
  /// Looks for waits that take too long.
  std::thread watch;
};

} // namespace sheaf

#endif // SHEAF_COMMUNICATOR_H
