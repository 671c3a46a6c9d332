#include "sheaf/Communicator.h"
#include "sheaf/Json.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <set>

using namespace sheaf;

namespace {
constexpr std::array<std::string_view, 8> kindNames = {
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all",
    "permute",    "broadcast",  "send",           "receive"};
constexpr std::array<std::string_view, 3> reductionNames = {"sum", "max",
                                                            "min"};

bool isPair(const SheafCollective &c) {
  return c.kind == SHEAF_SEND || c.kind == SHEAF_RECEIVE;
}

bool isReduction(const SheafCollective &c) {
  return c.kind == SHEAF_ALL_REDUCE || c.kind == SHEAF_REDUCE_SCATTER;
}

bool overlap(const void *a, int64_t aBytes, const void *b, int64_t bBytes) {
  const char *x = static_cast<const char *>(a),
             *y = static_cast<const char *>(b);
  return aBytes > 0 && bBytes > 0 && x < y + bBytes && y < x + aBytes;
}
} // namespace

void sheaf::checkShape(const SheafCollective &c, int64_t ranks) {
  if (c.kind < 0 || c.kind >= static_cast<int32_t>(kindNames.size()))
    fail("collective of kind {}; expected 0 to {}", c.kind,
         kindNames.size() - 1);
  if (c.type < SHEAF_F64 || c.type > SHEAF_F8E8M0)
    fail("{} of element type {}; expected 0 to {}", kindNames[c.kind], c.type,
         static_cast<int>(SHEAF_F8E8M0));
  if (c.axis_count < 0 || c.axis_count > SHEAF_GROUP_AXES)
    fail("{} over {} axes; expected 0 to {}", kindNames[c.kind], c.axis_count,
         SHEAF_GROUP_AXES);
  if (c.channel < 0)
    fail("{} on channel {}; expected at least 0", kindNames[c.kind], c.channel);
  // By stride, each axis must lie inside one step of the next.
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (int32_t i = 0; i < c.axis_count; ++i) {
    if (c.size[i] < 1 || c.stride[i] < 1 || c.size[i] > ranks ||
        c.stride[i] > ranks || ranks % (c.size[i] * c.stride[i]) != 0)
      fail("{} over an axis of size {} and stride {}, which is none of a mesh "
           "of {} "
           "ranks",
           kindNames[c.kind], c.size[i], c.stride[i], ranks);
    if (c.size[i] > 1)
      axes.emplace_back(c.stride[i], c.size[i]);
  }
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i + 1 < axes.size(); ++i)
    if (axes[i + 1].first % (axes[i].first * axes[i].second) != 0)
      fail("{} over two axes that overlap: sizes {} and {}, strides {} and {}",
           kindNames[c.kind], axes[i].second, axes[i + 1].second, axes[i].first,
           axes[i + 1].first);
}

Group sheaf::makeGroup(const SheafCollective &c, const Mesh &mesh, int rank) {
  // Axes count places; what the training loop sends goes by ranks.
  bool isPlaced = c.channel != controlChannel;
  int64_t self = isPlaced ? mesh.placeOf(rank) : rank;
  int64_t base = self, size = 1, index = 0;
  for (int32_t i = 0; i < c.axis_count; ++i) {
    int64_t at = self / c.stride[i] % c.size[i];
    base -= at * c.stride[i];
    size *= c.size[i];
    index = index * c.size[i] + at;
  }
  Group group;
  group.index = static_cast<int>(index);
  for (int64_t member = 0; member < size; ++member) {
    int64_t rest = member, other = base;
    for (int32_t i = c.axis_count - 1; i >= 0; --i) {
      other += rest % c.size[i] * c.stride[i];
      rest /= c.size[i];
    }
    group.members.push_back(
        static_cast<int>(isPlaced ? mesh.rankAt(other) : other));
  }
  return group;
}

double Communicator::now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string Communicator::standing() const {
  const std::vector<std::string> *names =
      actionNames.load(std::memory_order_acquire);
  int64_t number = action.load(std::memory_order_relaxed);
  if (!names || number < 0 || number >= static_cast<int64_t>(names->size()))
    return "";
  return fmt::format(" {} action {}",
                     isInAction.load(std::memory_order_relaxed) ? "in"
                                                                : "behind",
                     (*names)[number]);
}

std::string_view sheaf::collectiveName(int32_t kind) { return kindNames[kind]; }

int64_t sheaf::sendBytes(const SheafCollective &c) {
  return c.kind == SHEAF_RECEIVE
             ? 0
             : c.elements * elementSize(static_cast<SheafType>(c.type));
}

int64_t sheaf::receiveBytes(const SheafCollective &c, int64_t size) {
  int64_t bytes = c.elements * elementSize(static_cast<SheafType>(c.type));
  switch (c.kind) {
  case SHEAF_ALL_GATHER:
    return bytes * size;
  case SHEAF_REDUCE_SCATTER:
    return bytes / size;
  case SHEAF_SEND:
    return 0;
  default:
    return bytes;
  }
}

double sheaf::wireBytes(const SheafCollective &c, int64_t size) {
  double bytes = static_cast<double>(sendBytes(c));
  double share = static_cast<double>(size - 1) / static_cast<double>(size);
  switch (c.kind) {
  case SHEAF_ALL_REDUCE:
    return 2 * bytes * static_cast<double>(size - 1) /
           static_cast<double>(size);
  case SHEAF_ALL_GATHER:
    return bytes * static_cast<double>(size - 1);
  case SHEAF_REDUCE_SCATTER:
  case SHEAF_ALL_TO_ALL: // divides
    return bytes / static_cast<double>(size) * static_cast<double>(size - 1);
  default:
    return share > 0 ? bytes : 0;
  }
}

Part sheaf::partOf(int64_t elements, int64_t parts, int64_t slices,
                   int64_t index) {
  int64_t stride = elements / slices, run = stride / parts;
  return {index * run, run, stride, slices};
}

int64_t Communicator::Transfer::rowBytes() const {
  return collective.width *
         elementSize(static_cast<SheafType>(collective.type));
}

int64_t Communicator::Transfer::bytesOfRows(const std::vector<int32_t> &rows,
                                            const Part &blocks) const {
  int64_t sum = 0;
  for (int64_t i = 0; i < blocks.run * blocks.slices; ++i)
    sum += rows[itemOf(blocks, i)];
  return sum * rowBytes();
}

void Communicator::checkRowsOf(const Transfer &transfer, int64_t index,
                               int64_t block, int32_t sent) const {
  if (int32_t expected = transfer.receivedRows[block]; sent != expected)
    fail("ranks disagree: rank {} sends {} rows to block {} of rank {}, which "
         "expects {}, in {}",
         transfer.group->members[index], sent, block, rank, expected,
         describe(transfer.collective));
}

std::pair<int64_t, int64_t> sheaf::ownedRange(int64_t elements, int64_t size,
                                              int64_t index) {
  auto border = [&](int64_t i) {
    return static_cast<int64_t>(static_cast<__int128>(elements) * i / size);
  };
  return {border(index), border(index + 1)};
}

Communicator::Communicator(int rank, Mesh mesh)
    : rank(rank), mesh(std::move(mesh)) {}

Communicator::GroupKey Communicator::keyOf(const SheafCollective &c) {
  GroupKey key = {c.channel, c.axis_count};
  for (int32_t i = 0; i < c.axis_count; ++i) {
    key.push_back(c.size[i]);
    key.push_back(c.stride[i]);
  }
  return key;
}

std::string Communicator::describe(const SheafCollective &c) const {
  std::vector<std::string> axes;
  for (int32_t i = 0; i < c.axis_count; ++i)
    axes.push_back(c.channel == controlChannel
                       ? "all ranks"
                       : mesh.nameOf(c.size[i], c.stride[i]));
  std::string text(kindNames[c.kind]);
  if (isReduction(c))
    text += fmt::format(" ({})", reductionNames[c.reduction]);
  text += fmt::format(" of {} x {} over {}", c.elements,
                      typeName(static_cast<SheafType>(c.type)),
                      axes.empty() ? "no axis"
                                   : fmt::format("{}", fmt::join(axes, ",")));
  if (c.kind == SHEAF_BROADCAST)
    text += fmt::format(" from member {}", c.peer);
  if (names && c.id >= 0 && c.id < static_cast<int64_t>(names->size()) &&
      !(*names)[c.id].empty())
    text += fmt::format(" ({})", (*names)[c.id]);
  if (c.send_slices != 1 &&
      (c.kind == SHEAF_REDUCE_SCATTER || c.kind == SHEAF_ALL_TO_ALL))
    text += fmt::format(", cut in {} slices", c.send_slices);
  if (c.blocks != 0)
    text += fmt::format(", rows of {} in {} blocks", c.width, c.blocks);
  return text;
}

std::string Communicator::mismatch(const SheafCollective &mine,
                                   const SheafCollective &theirs, int otherRank,
                                   int64_t sequence) const {
  bool kinds = mine.kind == theirs.kind || (isPair(mine) && isPair(theirs));
  bool same = kinds && mine.type == theirs.type &&
              mine.elements == theirs.elements &&
              (!isReduction(mine) || mine.reduction == theirs.reduction) &&
              (mine.kind != SHEAF_BROADCAST || mine.peer == theirs.peer);
  // What goes from one rank to another has one name at both ends.
  auto nameOf = [&](const SheafCollective &c) {
    bool isKnown =
        names && c.id >= 0 && c.id < static_cast<int64_t>(names->size());
    return isKnown ? std::string_view((*names)[c.id]) : std::string_view();
  };
  same &= !isPair(mine) || nameOf(mine) == nameOf(theirs);
  // The other side of an all-to-all is put together by the receiver alone, but
  // what is cut must be cut alike.
  same &= mine.send_slices == theirs.send_slices || isPair(mine) ||
          (mine.kind != SHEAF_REDUCE_SCATTER && mine.kind != SHEAF_ALL_TO_ALL);
  same &= mine.blocks == theirs.blocks && mine.width == theirs.width;
  if (same)
    return "";
  return fmt::format(
      "ranks disagree: rank {} started {}, rank {} {}, both as transfer {} "
      "of their group",
      rank, describe(mine), otherRank, describe(theirs), sequence);
}

void Communicator::check(const SheafCollective &c, int64_t size,
                         const void *send, void *receive) const {
  auto refuse = [&](std::string text) { fail("{}: {}", describe(c), text); };
  constexpr int64_t largest = int64_t{1} << 48;
  if (c.elements < 0 || c.elements > largest)
    refuse(fmt::format("expected 0 to {} elements", largest));
  if (isReduction(c))
    checkReduction(c.type, c.reduction);
  auto divides = [&](int64_t parts, int64_t slices) {
    return slices >= 1 && c.elements % slices == 0 &&
           c.elements / slices % parts == 0;
  };
  if ((c.kind == SHEAF_REDUCE_SCATTER || c.kind == SHEAF_ALL_TO_ALL) &&
      !divides(size, c.send_slices))
    refuse(fmt::format("{} slices are not cut into {} equal parts",
                       c.send_slices, size));
  if ((c.kind == SHEAF_ALL_TO_ALL && !divides(size, c.receive_slices)) ||
      (c.kind == SHEAF_ALL_GATHER && !divides(1, c.receive_slices)))
    refuse(fmt::format("not put together from {} slices", c.receive_slices));
  if ((isPair(c) || c.kind == SHEAF_BROADCAST) &&
      (c.peer < 0 || c.peer >= size))
    refuse(fmt::format("member {} of {}", c.peer, size));
  if (c.kind == SHEAF_PERMUTE) {
    if (!c.targets)
      refuse("no targets");
    std::vector<bool> used(size, false);
    for (int64_t i = 0; i < size; ++i) {
      int64_t target = c.targets[i];
      if (target < -1 || target >= size || (target >= 0 && used[target]))
        refuse(fmt::format(
            "member {} sends to {}, which is none of {} members or has a "
            "sender already",
            i, target, size));
      if (target >= 0)
        used[target] = true;
    }
  }
  int64_t sends = sendBytes(c), receives = receiveBytes(c, size);
  if ((sends > 0 && !send) || (receives > 0 && !receive))
    refuse("a buffer is missing");
  bool mayBeOne = c.kind == SHEAF_ALL_REDUCE || c.kind == SHEAF_BROADCAST;
  if (overlap(send, sends, receive, receives) && !(mayBeOne && send == receive))
    refuse("the send and the receive buffer overlap");
}

void Communicator::checkRows(const SheafCollective &c, int64_t size,
                             const int32_t *sentRows,
                             const int32_t *receivedRows) const {
  auto refuse = [&](std::string text) { fail("{}: {}", describe(c), text); };
  if (c.kind != SHEAF_ALL_TO_ALL || c.blocks < 1 || c.width < 1 ||
      c.elements % c.blocks != 0 || c.elements / c.blocks % c.width != 0)
    refuse(fmt::format("expected an all-to-all of whole rows, found {} blocks "
                       "of rows of {}",
                       c.blocks, c.width));
  for (int64_t slices : {c.send_slices, c.receive_slices})
    if (c.blocks % slices != 0 || c.blocks / slices % size != 0)
      refuse(fmt::format("{} slices of {} blocks are not cut into {} equal "
                         "parts",
                         slices, c.blocks, size));
  if (!sentRows || !receivedRows)
    refuse("the counts of rows are missing");
  int64_t most = c.elements / c.blocks / c.width;
  for (const int32_t *rows : {sentRows, receivedRows})
    for (int64_t i = 0; i < c.blocks; ++i)
      if (rows[i] < 0 || rows[i] > most)
        refuse(fmt::format("block {} {} {} rows; expected 0 to {}", i,
                           rows == sentRows ? "has" : "is to get", rows[i],
                           most));
}

/// Does a part of a transfer. An error of this rank's is told to the others;
/// then, as after one of theirs, no transfer of its goes on.
template <typename Body>
void Communicator::orAbandon(const Body &body) {
  try {
    body();
  } catch (const PeerError &) {
    abandon();
    throw;
  } catch (const Error &error) {
    abort(error.what());
    abandon();
    throw;
  }
}

int64_t Communicator::start(const SheafCollective &collective, const void *send,
                            void *receive) {
  if (collective.blocks != 0)
    fail("a transfer of rows was started without their counts");
  return start(collective, send, nullptr, nullptr, receive);
}

int64_t Communicator::startRows(const SheafCollective &collective,
                                const void *send, const int32_t *sentRows,
                                const int32_t *receivedRows, void *receive) {
  if (collective.blocks == 0)
    fail("counts of rows came with a transfer that has none");
  return start(collective, send, sentRows, receivedRows, receive);
}

int64_t Communicator::start(const SheafCollective &collective, const void *send,
                            const int32_t *sentRows,
                            const int32_t *receivedRows, void *receive) {
  double began = now();
  throwIfFailed();
  checkShape(collective, ranks());
  GroupKey key = keyOf(collective);
  std::shared_ptr<const Group> &group = groups[key];
  if (!group)
    group = std::make_shared<Group>(makeGroup(collective, mesh, rank));
  check(collective, group->size(), send, receive);
  if (collective.blocks != 0)
    checkRows(collective, group->size(), sentRows, receivedRows);

  std::unique_ptr<Transfer> transfer = makeTransfer();
  transfer->collective = collective;
  transfer->group = group;
  transfer->send = static_cast<const char *>(send);
  transfer->receive = static_cast<char *>(receive);
  if (collective.blocks != 0) {
    transfer->sentRows.assign(sentRows, sentRows + collective.blocks);
    transfer->receivedRows.assign(receivedRows,
                                  receivedRows + collective.blocks);
  }
  if (isPair(collective)) {
    if (collective.peer == group->index)
      fail("{}: rank {} is its own other end", describe(collective), rank);
    int other = group->members[collective.peer];
    bool sender = collective.kind == SHEAF_SEND;
    Group pair;
    pair.members = {sender ? rank : other, sender ? other : rank};
    pair.index = sender ? 0 : 1;
    key.insert(key.end(), {pair.members[0], pair.members[1]});
    transfer->group = std::make_shared<Group>(pair);
  }
  transfer->sequence = sequences[key]++;
  if (current && collective.channel != controlChannel)
    transfer->row = rowOf(collective, *group);
  if (transfer->row >= 0 && collective.blocks != 0) {
    TransferCount &count = (*current)[transfer->row];
    for (int member = 0; member < group->size(); ++member)
      if (member != group->index)
        count.sentBytes += transfer->bytesOfRows(transfer->sentRows,
                                                 transfer->blocksFor(member));
    count.wireBytes =
        static_cast<double>(count.sentBytes) / static_cast<double>(count.count);
  }

  int64_t handle = nextHandle++;
  Transfer &started = *transfer;
  if (delays && collective.channel != controlChannel)
    delay(started, key);
  transfers.emplace(handle, std::move(transfer));
  if (started.hasBegun)
    orAbandon([&] { begin(started); });
  if (started.row >= 0)
    (*current)[started.row].seconds += now() - began;
  return handle;
}

double Communicator::drawDelay() {
  return longestDelay * std::uniform_real_distribution<>()(*delays);
}

/// Has a transfer begin in a wait that comes, on buffers that nobody else sees.
void Communicator::delay(Transfer &transfer, const std::vector<int64_t> &key) {
  const SheafCollective &c = transfer.collective;
  transfer.hasBegun = false;
  transfer.beginsAt = now() + drawDelay();
  transfer.endsAt = transfer.beginsAt + drawDelay();
  transfer.key = key;
  // Of one buffer for both sides either what is sent is read late, or what
  // comes is seen late.
  bool isOne = transfer.send == transfer.receive;
  bool keeps = drawDelay() < longestDelay / 2;
  int64_t sends = sendBytes(c),
          receives = receiveBytes(c, transfer.group->size());
  if (receives == 0)
    return;
  if (isOne && keeps) {
    transfer.sent.assign(transfer.send, transfer.send + sends);
    transfer.send = transfer.sent.data();
  }
  transfer.target = transfer.receive;
  transfer.own.resize(receives);
  transfer.receive = transfer.own.data();
  if (!isOne || keeps)
    std::memset(transfer.target, 255, receives);
}

/// Begins delayed transfers whose time has come, each behind those in front of
/// it in its group and channel. Returns whether all have begun.
bool Communicator::beginDue() {
  double time = now();
  std::set<std::vector<int64_t>> held;
  for (auto &[handle, transfer] : transfers) {
    if (transfer->hasBegun)
      continue;
    if (transfer->beginsAt > time || held.count(transfer->key)) {
      held.insert(transfer->key);
      continue;
    }
    transfer->hasBegun = true;
    begin(*transfer);
  }
  return held.empty();
}

void Communicator::wait(int64_t handle) {
  double began = now();
  auto found = transfers.find(handle);
  if (found == transfers.end())
    fail("a wait for transfer {}, which is not open; {} are", handle,
         transfers.size());
  Transfer &transfer = *found->second;
  waitBegin = began;
  orAbandon([&] {
    while (true) {
      uint32_t seen = ticket();
      throwIfFailed();
      bool haveAllBegun = !delays || beginDue();
      for (auto &[other, open] : transfers)
        if (open->hasBegun && !open->complete)
          advance(*open);
      if (transfer.complete && now() >= transfer.endsAt)
        break;
      if (transfer.complete || !haveAllBegun)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      else
        sleep(seen, transfer);
    }
  });
  if (transfer.target)
    copy(transfer.target, transfer.own.data(),
         static_cast<int64_t>(transfer.own.size()));
  if (transfer.row >= 0 && current)
    (*current)[transfer.row].seconds += now() - began;
  transfers.erase(found);
}

void Communicator::copy(void *to, const void *from, int64_t bytes) {
  constexpr int64_t chunk = 1 << 18;
  if (bytes <= chunk || !pool) {
    if (bytes > 0)
      std::memcpy(to, from, bytes);
    return;
  }
  pool->run((bytes + chunk - 1) / chunk, [&](int64_t i) {
    std::memcpy(static_cast<char *>(to) + i * chunk,
                static_cast<const char *>(from) + i * chunk,
                std::min(chunk, bytes - i * chunk));
  });
}

void Communicator::copyPart(char *to, const Part &target, const char *from,
                            const Part &source, int64_t bytes) {
  to += target.offset * bytes;
  from += source.offset * bytes;
  // Runs of the side that is cut finer; the coarser has whole multiples, or
  // not: then the common divisor.
  int64_t run = std::gcd(target.run, source.run);
  int64_t runs = run ? target.run * target.slices / run : 0;
  if (runs == 1)
    return copy(to, from, run * bytes);
  auto place = [run](const Part &part, int64_t i) {
    int64_t perSlice = part.run / run;
    return i / perSlice * part.stride + i % perSlice * run;
  };
  int64_t perTask =
      std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(1, run * bytes));
  auto copyRuns = [&](int64_t task) {
    int64_t end = std::min(runs, (task + 1) * perTask);
    for (int64_t i = task * perTask; i < end; ++i)
      std::memcpy(to + place(target, i) * bytes,
                  from + place(source, i) * bytes, run * bytes);
  };
  int64_t tasks = (runs + perTask - 1) / perTask;
  if (pool && tasks > 1)
    pool->run(tasks, copyRuns);
  else
    for (int64_t task = 0; task < tasks; ++task)
      copyRuns(task);
}

void Communicator::countAs(const std::string &entry,
                           const std::vector<std::string> &purposeOf,
                           const std::vector<std::string> &nameOf) {
  EntryCounts &counts = counted[entry];
  counts.calls += 1;
  current = &counts.rows;
  purposes = &purposeOf;
  names = nameOf.empty() ? nullptr : &nameOf;
}

std::string sheaf::countsJson(const Communicator &communicator) {
  using Json = nlohmann::ordered_json;
  Json entries = Json::object();
  for (const auto &[name, counts] : communicator.counts()) {
    Json rows = Json::array();
    for (const TransferCount &row : counts.rows) {
      Json json = {{"kind", collectiveName(row.kind)},
                   {"axes", row.axes},
                   {"group", row.group},
                   {"dtype", typeName(row.type)},
                   {"elements", row.elements}};
      json["wire_bytes"] = numberJson(row.wireBytes);
      json["count"] = row.count;
      if (row.ofRows)
        json["sent_bytes"] = row.sentBytes;
      json["purpose"] = row.purpose;
      rows.push_back(std::move(json));
    }
    Json entry = {{"calls", counts.calls}};
    if (counts.gatheredBytes > 0) {
      entry["gathered_bytes"] = counts.gatheredBytes;
      entry["gathered_early_bytes"] = counts.gatheredEarlyBytes;
    }
    entry["collectives"] = std::move(rows);
    entries[name] = std::move(entry);
  }
  return Json{{"entries", std::move(entries)}}.dump(1) + "\n";
}

TransferCount sheaf::countOf(const SheafCollective &c, const Mesh &mesh,
                             int64_t size,
                             const std::vector<std::string> &purposes) {
  TransferCount row;
  row.kind = c.kind;
  for (int32_t i = 0; i < c.axis_count; ++i)
    if (c.size[i] > 1)
      row.axes.push_back(mesh.nameOf(c.size[i], c.stride[i]));
  row.group = size;
  row.type = static_cast<SheafType>(c.type);
  row.elements = c.kind == SHEAF_ALL_GATHER ? c.elements * size : c.elements;
  row.wireBytes = wireBytes(c, size);
  row.ofRows = c.blocks != 0;
  if (c.id >= 0 && c.id < static_cast<int64_t>(purposes.size()))
    row.purpose = purposes[c.id];
  return row;
}

int sheaf::addCount(std::vector<TransferCount> &rows, TransferCount row) {
  for (size_t i = 0; i < rows.size(); ++i) {
    TransferCount &other = rows[i];
    if (other.kind == row.kind && other.elements == row.elements &&
        other.type == row.type && other.group == row.group &&
        other.ofRows == row.ofRows && other.axes == row.axes &&
        other.purpose == row.purpose) {
      other.count += 1;
      return static_cast<int>(i);
    }
  }
  row.count = 1;
  rows.push_back(std::move(row));
  return static_cast<int>(rows.size()) - 1;
}

int Communicator::rowOf(const SheafCollective &c, const Group &group) {
  if (group.size() == 1 || c.kind == SHEAF_RECEIVE)
    return -1;
  return addCount(*current, countOf(c, mesh, group.size(), *purposes));
}

//===----------------------------------------------------------------------===//
// What the training loop sends
//===----------------------------------------------------------------------===//

namespace {
SheafCollective overAll(int64_t ranks, SheafCollectiveKind kind, SheafType type,
                        int64_t elements) {
  SheafCollective c = {};
  c.kind = kind;
  c.type = type;
  c.id = -1;
  c.axis_count = 1;
  c.channel = controlChannel;
  c.size[0] = ranks;
  c.stride[0] = 1;
  c.elements = elements;
  c.send_slices = c.receive_slices = 1;
  return c;
}
} // namespace

void Communicator::runControl(SheafCollective &collective, const void *send,
                              void *receive) {
  wait(start(collective, send, receive));
}

int64_t Communicator::agreeMax(int64_t value) {
  if (ranks() == 1)
    return value;
  SheafCollective c = overAll(ranks(), SHEAF_ALL_REDUCE, SHEAF_I64, 1);
  c.reduction = SHEAF_MAX;
  int64_t result = 0;
  runControl(c, &value, &result);
  return result;
}

int64_t Communicator::agreeBetweenSteps(int64_t value) {
  limitsControl = true;
  int64_t result = agreeMax(value);
  limitsControl = false;
  return result;
}

double Communicator::agreeSum(double value) {
  if (ranks() == 1)
    return value;
  SheafCollective c = overAll(ranks(), SHEAF_ALL_REDUCE, SHEAF_F64, 1);
  double result = 0;
  runControl(c, &value, &result);
  return result;
}

std::string Communicator::broadcastText(const std::string &text) {
  if (ranks() == 1)
    return text;
  int64_t length = agreeMax(isRoot() ? static_cast<int64_t>(text.size()) : 0);
  std::string result(length, '\0');
  if (isRoot())
    result = text;
  SheafCollective c = overAll(ranks(), SHEAF_BROADCAST, SHEAF_I8, length);
  runControl(c, result.data(), result.data());
  return result;
}

void Communicator::sendBytesTo(int target, const void *data, int64_t bytes) {
  SheafCollective c = overAll(ranks(), SHEAF_SEND, SHEAF_I8, bytes);
  c.peer = target;
  runControl(c, data, nullptr);
}

void Communicator::receiveBytesFrom(int source, void *data, int64_t bytes) {
  SheafCollective c = overAll(ranks(), SHEAF_RECEIVE, SHEAF_I8, bytes);
  c.peer = source;
  runControl(c, nullptr, data);
}
