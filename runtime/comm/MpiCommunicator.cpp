#include "sheaf/Mpi.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
// The C interface alone; the C++ one needs a library of its own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

using namespace sheaf;

// Each transfer sends every other member that needs something one packet: what
// the transfer is, and the data where they are few; more data follow as
// messages of their own. Whoever gets a packet compares it with its own
// transfer first. Reductions are added here, in the order of the members.

namespace {
void require(int code, const char *what) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("MPI: {}: {}", what, std::string(text, length));
}

/// Largest message: sizes are int in MPI.
constexpr int64_t largestMessage = 1 << 30;

/// The lowest bits of a tag.
enum MessageKind { PacketMessage = 0, DataMessage = 1, ResultMessage = 2 };
constexpr int endedTag = 3; // of no transfer: kind 3 is not used

struct Header {
  SheafCollective collective;
  int64_t sequence, bytes; ///< bytes of data
};

/// Messages that move one stretch of bytes.
class Stretch {
public:
  void send(MPI_Comm comm, const char *data, int64_t bytes, int rank, int tag) {
    for (int64_t at = 0; at < bytes; at += largestMessage) {
      requests.push_back(MPI_REQUEST_NULL);
      require(MPI_Isend(data + at,
                        static_cast<int>(std::min(largestMessage, bytes - at)),
                        MPI_BYTE, rank, tag, comm, &requests.back()),
              "send");
    }
  }
  void receive(MPI_Comm comm, char *data, int64_t bytes, int rank, int tag) {
    for (int64_t at = 0; at < bytes; at += largestMessage) {
      requests.push_back(MPI_REQUEST_NULL);
      require(MPI_Irecv(data + at,
                        static_cast<int>(std::min(largestMessage, bytes - at)),
                        MPI_BYTE, rank, tag, comm, &requests.back()),
              "receive");
    }
  }
  /// Whether all have come through.
  bool isDone() {
    if (requests.empty())
      return true;
    int flag = 0;
    require(MPI_Testall(static_cast<int>(requests.size()), requests.data(),
                        &flag, MPI_STATUSES_IGNORE),
            "transfer");
    if (flag)
      requests.clear();
    return flag;
  }

private:
  std::vector<MPI_Request> requests;
};

class MpiCommunicator final : public Communicator {
public:
  MpiCommunicator(int rank, const Mesh &mesh) : Communicator(rank, mesh) {
    require(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "duplicate");
    require(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "error handler");
    void *value;
    int found = 0;
    require(MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &found), "tags");
    if (!found || *static_cast<int *>(value) < (1 << 30) - 1)
      fail("this MPI has tags up to {}; expected at least {}",
           found ? *static_cast<int *>(value) : 0, (1 << 30) - 1);
  }

  // A failure ends the process and, through MPI_Abort, the others.
  bool failed() const override { return false; }
  void abort(const std::string &) noexcept override {}
  void abandon() noexcept override {}

  void end() noexcept override {
    // All tell all, and return when all have: nobody needs this one any more.
    std::vector<MPI_Request> requests(2 * ranks(), MPI_REQUEST_NULL);
    for (int other = 0; other < ranks(); ++other)
      if (other != rank) {
        MPI_Isend(nullptr, 0, MPI_BYTE, other, endedTag, comm,
                  &requests[2 * other]);
        MPI_Irecv(nullptr, 0, MPI_BYTE, other, endedTag, comm,
                  &requests[2 * other + 1]);
      }
    int done = 0;
    while (!done) {
      if (MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                      MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return;
      if (!done)
        usleep(50);
    }
  }

protected:
  struct Incoming {
    int member = 0;
    std::vector<char> packet;
    MPI_Request request = MPI_REQUEST_NULL;
    bool known = false;   ///< the packet is here and fits
    bool posted = false;  ///< the data's receive
    bool arrived = false; ///< the data are here
    bool used = false;
    Stretch data;
    std::vector<char> space;  ///< where data lie until they are used
    const char *at = nullptr; ///< the data, once arrived
  };
  struct Outgoing {
    int member = 0;
    std::vector<char> packet, packed;
    Stretch messages;
    bool done = false;
  };
  struct Mine final : Transfer {
    int tag = 0;
    std::vector<std::unique_ptr<Incoming>>
        incoming; ///< by member where there is one
    std::vector<std::unique_ptr<Outgoing>> outgoing;
    bool eager = false;
    bool reduces = false, added = false;
    int next = 0; ///< member to be added next
    std::vector<char> accumulator, own;
    int64_t count = 0; ///< elements that this rank adds
    // Of a large all-reduce: the owners' results.
    bool resultsStarted = false;
    Stretch results;
  };

  std::unique_ptr<Transfer> makeTransfer() override {
    return std::make_unique<Mine>();
  }
  void begin(Transfer &transfer) override;
  void advance(Transfer &transfer) override;
  uint32_t ticket() override { return 0; }
  void sleep(uint32_t, const Transfer &transfer) override;
  void throwIfFailed() override {}

private:
  void sendTo(Mine &mine, int member, Part part);
  void send(Mine &mine, std::unique_ptr<Outgoing> out, const char *data,
            int64_t bytes);
  void exchangeRows(Mine &mine);
  void expectFrom(Mine &mine, int member);
  void look(Mine &mine, Incoming &in);
  void use(Mine &mine, Incoming &in);
  void addInOrder(Mine &mine);
  int tagOf(const SheafCollective &c, int64_t sequence, bool isPair,
            bool isForward);
  int64_t elementBytes(const Mine &mine) const {
    return elementSize(static_cast<SheafType>(mine.collective.type));
  }
  /// The bytes that a member sends to another.
  int64_t bytesBetween(const Mine &mine, int from, int to) const;
  Reduction reductionOf(const Mine &mine) const {
    return Reduction(static_cast<SheafType>(mine.collective.type),
                     static_cast<SheafReduction>(mine.collective.reduction));
  }

  MPI_Comm comm = MPI_COMM_NULL;
  std::map<uint32_t, std::vector<int64_t>> hashes;
  bool moved = false; ///< something came through since the last sleep
  int idle = 0;
  std::chrono::steady_clock::time_point idleSince;
};

int MpiCommunicator::tagOf(const SheafCollective &c, int64_t sequence,
                           bool isPair, bool isForward) {
  std::vector<int64_t> key = {c.channel, isPair, isForward, c.axis_count};
  for (int32_t i = 0; i < c.axis_count; ++i) {
    key.push_back(c.size[i]);
    key.push_back(c.stride[i]);
  }
  uint64_t sum = 0xcbf29ce484222325;
  for (int64_t value : key)
    for (int byte = 0; byte < 8; ++byte)
      sum = (sum ^ (static_cast<uint64_t>(value) >> 8 * byte & 255)) *
            0x100000001b3;
  // Zero is for messages of no transfer.
  uint32_t hash =
      static_cast<uint32_t>((sum ^ sum >> 32) % ((1 << 20) - 1)) + 1;
  auto [found, isNew] = hashes.emplace(hash, key);
  if (!isNew && found->second != key)
    fail("{}: shares its message tag with another group; use another --mesh "
         "order",
         describe(c));
  return static_cast<int>(hash << 10 | (sequence & 255) << 2);
}

int64_t MpiCommunicator::bytesBetween(const Mine &mine, int from,
                                      int to) const {
  const SheafCollective &c = mine.collective;
  int64_t bytes = c.elements * elementBytes(mine), n = mine.group->size();
  switch (c.kind) {
  case SHEAF_ALL_REDUCE: {
    if (mine.eager)
      return bytes;
    auto [begin, end] = ownedRange(c.elements, n, to);
    return (end - begin) * elementBytes(mine);
  }
  case SHEAF_ALL_TO_ALL:
    // Their numbers go in front of the rows.
    if (c.blocks != 0)
      return c.blocks / n * static_cast<int64_t>(sizeof(int32_t)) +
             (from == mine.group->index
                  ? mine.bytesOfRows(mine.sentRows, mine.blocksFor(to))
                  : mine.bytesOfRows(mine.receivedRows, mine.blocksFrom(from)));
    return bytes / n;
  case SHEAF_REDUCE_SCATTER:
    return bytes / n;
  default:
    return bytes;
  }
}

void MpiCommunicator::sendTo(Mine &mine, int member, Part part) {
  int64_t size = elementBytes(mine), bytes = part.run * part.slices * size;
  auto out = std::make_unique<Outgoing>();
  out->member = member;
  const char *data = mine.send + part.offset * size;
  if (part.slices > 1 && part.run != part.stride) {
    out->packed.resize(bytes);
    copyPart(out->packed.data(), partOf(part.run * part.slices, 1, 1, 0),
             mine.send, part, size);
    data = out->packed.data();
  }
  send(mine, std::move(out), data, bytes);
}

/// Sends the numbers of rows of each member's blocks, then the rows, one
/// block's after another's, and takes this rank's own.
void MpiCommunicator::exchangeRows(Mine &mine) {
  int n = mine.group->size(), me = mine.group->index;
  int64_t block = mine.blockBytes(), row = mine.rowBytes();
  for (int step = 1; step < n; ++step) {
    int m = (me + step) % n;
    expectFrom(mine, m);
    auto out = std::make_unique<Outgoing>();
    out->member = m;
    out->packed.resize(bytesBetween(mine, me, m));
    Part blocks = mine.blocksFor(m);
    char *to = out->packed.data();
    for (int64_t i = 0; i < blocks.run * blocks.slices; ++i) {
      std::memcpy(to, &mine.sentRows[itemOf(blocks, i)], sizeof(int32_t));
      to += sizeof(int32_t);
    }
    for (int64_t i = 0; i < blocks.run * blocks.slices; ++i) {
      int64_t at = itemOf(blocks, i), bytes = mine.sentRows[at] * row;
      copy(to, mine.send + at * block, bytes);
      to += bytes;
    }
    const char *data = out->packed.data();
    int64_t bytes = static_cast<int64_t>(out->packed.size());
    send(mine, std::move(out), data, bytes);
  }
  Part own = mine.blocksFor(me), here = mine.blocksFrom(me);
  for (int64_t i = 0; i < own.run * own.slices; ++i)
    checkRowsOf(mine, me, itemOf(here, i), mine.sentRows[itemOf(own, i)]);
  placeRows(mine, me,
            [&](int64_t i) { return mine.send + itemOf(own, i) * block; });
}

void MpiCommunicator::send(Mine &mine, std::unique_ptr<Outgoing> out,
                           const char *data, int64_t bytes) {
  Header header = {mine.collective, mine.sequence, bytes};
  header.collective.targets = nullptr; // an address means nothing there
  bool isInside = bytes <= eagerBytes;
  out->packet.resize(sizeof(header) + (isInside ? bytes : 0));
  std::memcpy(out->packet.data(), &header, sizeof(header));
  if (isInside && bytes > 0)
    std::memcpy(out->packet.data() + sizeof(header), data, bytes);
  int to = mine.group->members[out->member];
  out->messages.send(comm, out->packet.data(),
                     static_cast<int64_t>(out->packet.size()), to,
                     mine.tag | PacketMessage);
  if (!isInside)
    out->messages.send(comm, data, bytes, to, mine.tag | DataMessage);
  mine.outgoing.push_back(std::move(out));
}

void MpiCommunicator::expectFrom(Mine &mine, int member) {
  auto in = std::make_unique<Incoming>();
  in->member = member;
  in->packet.resize(sizeof(Header) + eagerBytes);
  require(MPI_Irecv(in->packet.data(), static_cast<int>(in->packet.size()),
                    MPI_BYTE, mine.group->members[member],
                    mine.tag | PacketMessage, comm, &in->request),
          "receive");
  mine.incoming[member] = std::move(in);
}

void MpiCommunicator::begin(Transfer &transfer) {
  Mine &mine = static_cast<Mine &>(transfer);
  const SheafCollective &c = mine.collective;
  const Group &group = *mine.group;
  int n = group.size(), me = group.index;
  int64_t size = elementBytes(mine);
  bool isPair = c.kind == SHEAF_SEND || c.kind == SHEAF_RECEIVE;
  mine.tag = tagOf(c, mine.sequence, isPair,
                   isPair && group.members[0] < group.members[1]);
  mine.eager = c.elements * size <= eagerBytes;
  mine.reduces = c.kind == SHEAF_ALL_REDUCE || c.kind == SHEAF_REDUCE_SCATTER;
  mine.incoming.resize(n);
  Part whole = partOf(c.elements, 1, 1, 0);
  auto others = [&](auto visit) {
    for (int i = 1; i < n; ++i)
      visit((me + i) % n);
  };
  switch (c.kind) {
  case SHEAF_ALL_REDUCE:
    mine.count = c.elements;
    if (!mine.eager)
      mine.count = bytesBetween(mine, me, me) / size;
    others([&](int m) {
      Part part = whole;
      if (!mine.eager) {
        auto [begin, end] = ownedRange(c.elements, n, m);
        part = {begin, end - begin, end - begin, 1};
      }
      expectFrom(mine, m);
      sendTo(mine, m, part);
    });
    break;
  case SHEAF_REDUCE_SCATTER:
    mine.count = c.elements / n;
    others([&](int m) {
      expectFrom(mine, m);
      sendTo(mine, m, partOf(c.elements, n, c.send_slices, m));
    });
    break;
  case SHEAF_ALL_GATHER:
    others([&](int m) {
      expectFrom(mine, m);
      sendTo(mine, m, whole);
    });
    copyPart(mine.receive, partOf(c.elements * n, n, c.receive_slices, me),
             mine.send, whole, size);
    break;
  case SHEAF_ALL_TO_ALL:
    if (c.blocks != 0) {
      exchangeRows(mine);
      break;
    }
    others([&](int m) {
      expectFrom(mine, m);
      sendTo(mine, m, partOf(c.elements, n, c.send_slices, m));
    });
    copyPart(mine.receive, partOf(c.elements, n, c.receive_slices, me),
             mine.send, partOf(c.elements, n, c.send_slices, me), size);
    break;
  case SHEAF_BROADCAST:
    if (c.peer == me) {
      others([&](int m) { sendTo(mine, m, whole); });
      if (mine.receive != mine.send)
        copy(mine.receive, mine.send, c.elements * size);
    } else {
      expectFrom(mine, static_cast<int>(c.peer));
    }
    break;
  case SHEAF_PERMUTE: {
    bool hasSource = false;
    for (int m = 0; m < n; ++m)
      if (c.targets[m] == me) {
        hasSource = true;
        if (m == me)
          copy(mine.receive, mine.send, c.elements * size);
        else
          expectFrom(mine, m);
      }
    if (!hasSource && c.elements > 0)
      std::memset(mine.receive, 0, c.elements * size);
    if (c.targets[me] >= 0 && c.targets[me] != me)
      sendTo(mine, static_cast<int>(c.targets[me]), whole);
    break;
  }
  case SHEAF_SEND:
    sendTo(mine, 1, whole);
    break;
  case SHEAF_RECEIVE:
    expectFrom(mine, 0);
    break;
  }
  if (mine.reduces) {
    Reduction reduction = reductionOf(mine);
    mine.accumulator.resize(mine.count * reduction.accumulatorSize());
    // What this rank adds of its own, in one piece.
    if (c.kind == SHEAF_REDUCE_SCATTER && c.send_slices > 1) {
      mine.own.resize(mine.count * size);
      copyPart(mine.own.data(), partOf(mine.count, 1, 1, 0), mine.send,
               partOf(c.elements, n, c.send_slices, me), size);
    }
  }
  advance(mine);
}

/// Moves a packet and its data on as far as they are here.
void MpiCommunicator::look(Mine &mine, Incoming &in) {
  const SheafCollective &c = mine.collective;
  int from = mine.group->members[in.member];
  if (!in.known) {
    int flag = 0;
    require(MPI_Test(&in.request, &flag, MPI_STATUS_IGNORE), "receive");
    if (!flag)
      return;
    moved = true;
    Header header;
    std::memcpy(&header, in.packet.data(), sizeof(header));
    if (std::string wrong = mismatch(c, header.collective, from, mine.sequence);
        !wrong.empty())
      fail("{}", wrong);
    int64_t expected = bytesBetween(mine, in.member, mine.group->index);
    if (header.sequence != mine.sequence || header.bytes != expected)
      fail("ranks disagree: rank {} started {} as transfer {} of its group, "
           "rank {} {} with {} bytes for it, expected {}, as transfer {}",
           rank, describe(c), mine.sequence, from, describe(header.collective),
           header.bytes, expected, header.sequence);
    in.known = true;
    if (header.bytes <= eagerBytes) {
      in.at = in.packet.data() + sizeof(header);
      in.arrived = true;
    }
  }
  if (in.arrived)
    return;
  if (!in.posted) {
    // Contributions wait with their senders until it is nearly their turn.
    if (mine.reduces && in.member > mine.next + 2)
      return;
    int64_t bytes = bytesBetween(mine, in.member, mine.group->index);
    bool isDirect =
        c.kind == SHEAF_PERMUTE || c.kind == SHEAF_BROADCAST ||
        c.kind == SHEAF_RECEIVE ||
        ((c.kind == SHEAF_ALL_GATHER || c.kind == SHEAF_ALL_TO_ALL) &&
         c.receive_slices == 1 && c.blocks == 0);
    char *to = mine.receive;
    if (!isDirect) {
      in.space.resize(bytes);
      to = in.space.data();
    } else if (c.kind == SHEAF_ALL_GATHER || c.kind == SHEAF_ALL_TO_ALL) {
      to += in.member * bytes;
    }
    in.at = to;
    in.data.receive(comm, to, bytes, from, mine.tag | DataMessage);
    in.posted = true;
  }
  if (in.data.isDone()) {
    in.arrived = true;
    moved = true;
  }
}

/// Puts data that have arrived where they belong.
void MpiCommunicator::use(Mine &mine, Incoming &in) {
  const SheafCollective &c = mine.collective;
  int64_t size = elementBytes(mine), n = mine.group->size();
  int64_t bytes = bytesBetween(mine, in.member, mine.group->index);
  Part target = {0, bytes / size, bytes / size, 1};
  if (c.blocks != 0) {
    Part blocks = mine.blocksFrom(in.member);
    int64_t begin = 0;
    for (int64_t i = 0; i < blocks.run * blocks.slices; ++i) {
      int32_t sent;
      std::memcpy(&sent, in.at + begin, sizeof(sent));
      begin += sizeof(sent);
      checkRowsOf(mine, in.member, itemOf(blocks, i), sent);
    }
    placeRows(mine, in.member, [&](int64_t i) {
      const char *rows = in.at + begin;
      begin += mine.receivedRows[itemOf(blocks, i)] * mine.rowBytes();
      return rows;
    });
    in.used = true;
    in.space = {};
    in.packet = {};
    return;
  }
  if (c.kind == SHEAF_ALL_GATHER)
    target = partOf(c.elements * n, n, c.receive_slices, in.member);
  else if (c.kind == SHEAF_ALL_TO_ALL)
    target = partOf(c.elements, n, c.receive_slices, in.member);
  if (in.at != mine.receive + target.offset * size)
    copyPart(mine.receive, target, in.at, partOf(bytes / size, 1, 1, 0), size);
  in.used = true;
  in.space = {};
  in.packet = {};
}

void MpiCommunicator::addInOrder(Mine &mine) {
  Reduction reduction = reductionOf(mine);
  const SheafCollective &c = mine.collective;
  int64_t size = elementBytes(mine), n = mine.group->size();
  int me = mine.group->index;
  for (; mine.next < n; ++mine.next) {
    const char *values;
    Incoming *in = mine.incoming[mine.next].get();
    if (mine.next == me) {
      values = mine.send;
      if (!mine.own.empty())
        values = mine.own.data();
      else if (c.kind == SHEAF_REDUCE_SCATTER)
        values += me * mine.count * size;
      else if (!mine.eager)
        values += ownedRange(c.elements, n, me).first * size;
    } else {
      look(mine, *in);
      if (!in->arrived)
        return;
      values = in->at;
    }
    constexpr int64_t chunk = 1 << 15;
    int64_t wide = reduction.accumulatorSize();
    pool->run((mine.count + chunk - 1) / chunk, [&](int64_t i) {
      int64_t begin = i * chunk, length = std::min(chunk, mine.count - begin);
      char *to = mine.accumulator.data() + begin * wide;
      if (mine.next == 0)
        reduction.first(to, values + begin * size, length);
      else
        reduction.add(to, values + begin * size, length);
    });
    if (in) {
      in->used = true;
      in->space = {};
      in->packet = {};
    }
  }
  mine.added = true;
}

void MpiCommunicator::advance(Transfer &transfer) {
  Mine &mine = static_cast<Mine &>(transfer);
  const SheafCollective &c = mine.collective;
  const Group &group = *mine.group;
  int64_t size = elementBytes(mine);
  bool isSent = true, isHere = true;
  for (auto &out : mine.outgoing)
    if (!out->done) {
      out->done = out->messages.isDone();
      moved |= out->done;
      isSent &= out->done;
    }
  for (auto &in : mine.incoming)
    if (in && !in->used) {
      look(mine, *in);
      if (in->arrived && !mine.reduces)
        use(mine, *in);
      isHere &= in->used;
    }
  if (!mine.reduces) {
    mine.complete = isSent && isHere;
    return;
  }
  if (!mine.added)
    addInOrder(mine);
  // The result may lie where this rank still sends from.
  if (!mine.added || !isSent)
    return;
  bool hasResults = c.kind == SHEAF_ALL_REDUCE && !mine.eager;
  auto range = [&](int m) { return ownedRange(c.elements, group.size(), m); };
  if (!mine.resultsStarted) {
    mine.resultsStarted = true;
    moved = true;
    char *to =
        mine.receive + (hasResults ? range(group.index).first * size : 0);
    reductionOf(mine).finish(to, mine.accumulator.data(), mine.count);
    mine.accumulator = {};
    if (hasResults)
      for (int i = 1; i < group.size(); ++i) {
        int m = (group.index + i) % group.size();
        auto [begin, end] = range(m);
        mine.results.receive(comm, mine.receive + begin * size,
                             (end - begin) * size, group.members[m],
                             mine.tag | ResultMessage);
        mine.results.send(comm, to, mine.count * size, group.members[m],
                          mine.tag | ResultMessage);
      }
  }
  mine.complete = mine.results.isDone();
}

void MpiCommunicator::sleep(uint32_t, const Transfer &transfer) {
  auto now = std::chrono::steady_clock::now();
  if (moved || idle == 0) {
    moved = false;
    idle = 1;
    idleSince = now;
    return;
  }
  if (++idle < 2000) {
    sched_yield();
    return;
  }
  usleep(100);
  const Mine &mine = static_cast<const Mine &>(transfer);
  if (waitLimit > 0 && isLimited(transfer) &&
      Communicator::now() - waitBegin > waitLimit) {
    // Who has not started it; else with whom data are still on their way.
    std::set<int> late, slow;
    for (const auto &in : mine.incoming)
      if (in && !in->used)
        (in->known ? slow : late).insert(mine.group->members[in->member]);
    for (const auto &out : mine.outgoing)
      if (!out->done)
        slow.insert(mine.group->members[out->member]);
    if (late.empty() && slow.empty())
      for (int member : mine.group->members)
        if (member != rank)
          slow.insert(member);
    fail("rank {} has waited for {:g} s{} in {}, which rank {} has not {}",
         rank, waitLimit, standing(), describe(mine.collective),
         fmt::join(late.empty() ? slow : late, ", "),
         late.empty() ? "finished" : "started");
  }
  if (now - idleSince < std::chrono::seconds(1))
    return;
  // Does one that we wait for still run?
  auto ask = [&](int member) {
    int other = mine.group->members[member], flag = 0;
    require(MPI_Iprobe(other, endedTag, comm, &flag, MPI_STATUS_IGNORE),
            "probe");
    if (flag)
      fail("rank {} waits{} in {}; rank {} has ended", rank, standing(),
           describe(mine.collective), other);
  };
  for (const auto &in : mine.incoming)
    if (in && !in->used)
      ask(in->member);
  for (const auto &out : mine.outgoing)
    if (!out->done)
      ask(out->member);
}
} // namespace

MpiProcess::MpiProcess() {
  int provided;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) !=
      MPI_SUCCESS)
    fail("MPI cannot start");
  running = true;
}

MpiProcess::~MpiProcess() = default;

int MpiProcess::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int MpiProcess::size() const {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::unique_ptr<Communicator> MpiProcess::communicator(const Mesh &mesh) {
  return std::make_unique<MpiCommunicator>(rank(), mesh);
}

void MpiProcess::abort() {
  MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

void MpiProcess::finish() {
  if (running)
    MPI_Finalize();
  running = false;
}
