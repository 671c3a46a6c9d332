//===- CollectiveCases.h - what every transport must do ---------*- C++ -*-===//
//
// Collectives against plain loops over all ranks' buffers. Each function is
// called on every rank of a mesh dp=4,tp=2, over any transport.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_COLLECTIVECASES_H
#define SHEAF_COLLECTIVECASES_H

#include "sheaf/Communicator.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

namespace sheaf::test {

inline SheafCollective over(const Mesh &mesh,
                            const std::vector<std::string> &axes,
                            SheafCollectiveKind kind, int64_t elements,
                            SheafType type = SHEAF_F32) {
  SheafCollective c = {};
  c.kind = kind;
  c.type = type;
  c.id = -1;
  c.elements = elements;
  c.send_slices = c.receive_slices = 1;
  for (const std::string &axis : axes) {
    AxisPart part = mesh.parse(axis);
    c.size[c.axis_count] = part.size;
    c.stride[c.axis_count++] = part.stride;
  }
  return c;
}

/// Varying signs and magnitudes: sums depend on their order.
inline float sample(int rank, int64_t i) {
  return std::sin(static_cast<float>(rank * 7919 + i * 31 + 1)) *
         std::pow(10.f, static_cast<float>((i + rank) % 7 - 3));
}

inline std::vector<float> samples(int rank, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = sample(rank, i);
  return values;
}

/// The ranks of a group by hand: those equal to `rank` in all other
/// coordinates.
inline std::vector<int>
groupOf(const Mesh &mesh, const std::vector<std::string> &axes, int rank) {
  std::vector<AxisPart> parts;
  int64_t size = 1;
  for (const std::string &axis : axes) {
    parts.push_back(mesh.parse(axis));
    size *= parts.back().size;
  }
  std::vector<int> members(size);
  for (int64_t other = 0; other < mesh.ranks(); ++other) {
    int64_t difference = other - rank, index = 0;
    for (const AxisPart &part : parts) {
      difference -=
          (part.coordinate(other) - part.coordinate(rank)) * part.stride;
      index = index * part.size + part.coordinate(other);
    }
    if (difference == 0)
      members[index] = static_cast<int>(other);
  }
  return members;
}

inline int indexIn(const std::vector<int> &members, int rank) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) -
                          members.begin());
}

inline Mesh mesh24() { return {{{"dp", 4}, {"tp", 2}}}; }

inline const std::vector<std::vector<std::string>> &axisLists() {
  static const std::vector<std::vector<std::string>> lists = {
      {"dp"},      {"tp"},      {"dp", "tp"},           {"tp", "dp"},
      {"dp:(1)2"}, {"dp:(2)2"}, {"dp:(2)2", "dp:(1)2"}, {"tp", "dp:(1)2"},
      {}};
  return lists;
}

/// Whole axes, parts of axes, in all orders; in place, and few and many
/// elements.
inline void checkAllReduce(Communicator &c) {
  const Mesh &mesh = c.mesh;
  for (const auto &axes : axisLists())
    for (int64_t count : {1, 5, 1000, 5000, 100003})
      for (bool inPlace : {false, true}) {
        std::vector<int> members = groupOf(mesh, axes, c.rank);
        std::vector<float> send = samples(c.rank, count), receive(count, -1);
        if (inPlace)
          receive = send;
        c.wait(c.start(over(mesh, axes, SHEAF_ALL_REDUCE, count),
                       inPlace ? receive.data() : send.data(), receive.data()));
        for (int64_t i = 0; i < count; ++i) {
          float sum = sample(members[0], i);
          for (size_t m = 1; m < members.size(); ++m)
            sum += sample(members[m], i);
          ASSERT_EQ(receive[i], sum) << i;
        }
      }
}

/// All-gather, reduce-scatter and all-to-all, in slices, open at the same time.
inline void checkGatherScatterExchange(Communicator &c) {
  const Mesh &mesh = c.mesh;
  for (const auto &axes : axisLists())
    for (int64_t slices : {1, 3})
      for (int64_t run : {1, 7, 3000}) {
        std::vector<int> members = groupOf(mesh, axes, c.rank);
        int64_t n = members.size(), index = indexIn(members, c.rank);
        int64_t part = slices * run, whole = part * n;
        // Three transfers open at once, waited for in another order on every
        // other rank.
        std::vector<float> local = samples(c.rank, part),
                           full = samples(c.rank, whole);
        std::vector<float> gathered(whole), scattered(part), exchanged(whole);
        SheafCollective gather = over(mesh, axes, SHEAF_ALL_GATHER, part);
        gather.receive_slices = slices;
        SheafCollective scatter = over(mesh, axes, SHEAF_REDUCE_SCATTER, whole);
        scatter.send_slices = slices;
        SheafCollective exchange = over(mesh, axes, SHEAF_ALL_TO_ALL, whole);
        exchange.send_slices = slices;
        int64_t handles[] = {c.start(gather, local.data(), gathered.data()),
                             c.start(scatter, full.data(), scattered.data()),
                             c.start(exchange, full.data(), exchanged.data())};
        for (int i = 0; i < 3; ++i)
          c.wait(handles[c.rank % 2 ? 2 - i : i]);
        EXPECT_EQ(c.open(), 0);
        for (int64_t m = 0; m < n; ++m)
          for (int64_t s = 0; s < slices; ++s)
            for (int64_t r = 0; r < run; ++r) {
              ASSERT_EQ(gathered[(s * n + m) * run + r],
                        sample(members[m], s * run + r));
              ASSERT_EQ(exchanged[m * part + s * run + r],
                        sample(members[m], (s * n + index) * run + r));
            }
        for (int64_t s = 0; s < slices; ++s)
          for (int64_t r = 0; r < run; ++r) {
            int64_t at = (s * n + index) * run + r;
            float sum = sample(members[0], at);
            for (int64_t m = 1; m < n; ++m)
              sum += sample(members[m], at);
            ASSERT_EQ(scattered[s * run + r], sum);
          }
      }
}

/// Rows come in, columns are put together, and back.
inline void checkExchangeOfDimensions(Communicator &c) {
  const Mesh &mesh = c.mesh;
  // A global [8, 12] matrix: rows cut by dp before, columns after.
  int64_t index = mesh.parse("dp").coordinate(c.rank);
  std::vector<float> send(2 * 12), receive(8 * 3);
  for (int64_t i = 0; i < 24; ++i)
    send[i] = static_cast<float>((index * 2 + i / 12) * 100 + i % 12);
  SheafCollective exchange = over(mesh, {"dp"}, SHEAF_ALL_TO_ALL, 24);
  exchange.send_slices = 2; // columns of 2 rows
  c.wait(c.start(exchange, send.data(), receive.data()));
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t column = 0; column < 3; ++column)
      ASSERT_EQ(receive[row * 3 + column],
                static_cast<float>(row * 100 + index * 3 + column));
  // And back.
  std::vector<float> again(24);
  exchange.send_slices = 1;
  exchange.receive_slices = 2;
  c.wait(c.start(exchange, receive.data(), again.data()));
  EXPECT_EQ(again, send);
}

/// How many rows block `block` of a rank has: any number, none on every third
/// rank.
inline int32_t rowsOf(int rank, int64_t block, int64_t most) {
  return rank % 3 == 1
             ? 0
             : static_cast<int32_t>((rank * 5 + block * 3) % (most + 1));
}

/// Blocks of rows of which only the first are sent: what comes stands in front
/// of zeros, and what is counted is what went to others.
inline void checkExchangeOfRows(Communicator &c) {
  const Mesh &mesh = c.mesh;
  static const std::vector<std::string> purposes;
  for (const auto &axes : axisLists())
    for (int64_t slices : {1, 2})
      for (auto [most, width] : {std::pair<int64_t, int64_t>{3, 2},
                                 std::pair<int64_t, int64_t>{40, 60}}) {
        std::vector<int> members = groupOf(mesh, axes, c.rank);
        int64_t n = members.size(), index = indexIn(members, c.rank);
        int64_t blocks = 2 * slices * n, block = most * width;
        SheafCollective exchange =
            over(mesh, axes, SHEAF_ALL_TO_ALL, blocks * block);
        exchange.blocks = blocks;
        exchange.width = width;
        exchange.receive_slices = slices;
        std::vector<int32_t> sent(blocks), received(blocks);
        for (int64_t i = 0; i < blocks; ++i)
          sent[i] = rowsOf(c.rank, i, most);
        Part there = partOf(blocks, n, 1, index);
        int64_t away = 0;
        for (int64_t m = 0; m < n; ++m) {
          Part here = partOf(blocks, n, slices, m),
               forMember = partOf(blocks, n, 1, m);
          for (int64_t i = 0; i < blocks / n; ++i) {
            received[itemOf(here, i)] =
                rowsOf(members[m], itemOf(there, i), most);
            if (m != index)
              away += sent[itemOf(forMember, i)];
          }
        }
        std::vector<float> send = samples(c.rank, blocks * block),
                           receive(blocks * block, -1);
        std::string entry =
            fmt::format("{} {} {}", fmt::join(axes, ","), slices, most);
        c.countAs(entry, purposes);
        c.wait(c.startRows(exchange, send.data(), sent.data(), received.data(),
                           receive.data()));
        for (int64_t m = 0; m < n; ++m) {
          Part here = partOf(blocks, n, slices, m);
          for (int64_t i = 0; i < blocks / n; ++i) {
            int64_t to = itemOf(here, i), from = itemOf(there, i);
            for (int64_t e = 0; e < block; ++e)
              ASSERT_EQ(receive[to * block + e],
                        e < received[to] * width
                            ? sample(members[m], from * block + e)
                            : 0);
          }
        }
        const std::vector<TransferCount> &rows = c.counts().at(entry).rows;
        if (n == 1) {
          EXPECT_TRUE(rows.empty());
          continue;
        }
        ASSERT_EQ(rows.size(), 1u);
        EXPECT_EQ(rows[0].sentBytes, away * width * 4);
        EXPECT_EQ(rows[0].wireBytes, static_cast<double>(away * width * 4));
      }
}

inline void checkPermuteBroadcastSend(Communicator &c) {
  const Mesh &mesh = c.mesh;
  for (int64_t count : {3, 20000}) {
    std::vector<int> members = groupOf(mesh, {"dp"}, c.rank);
    int index = indexIn(members, c.rank);
    std::vector<float> mine = samples(c.rank, count), got(count, 7),
                       zero(count, 0);
    // 0 -> 1 -> 2 -> 3, nothing to 0.
    static const int64_t targets[] = {1, 2, 3, -1};
    SheafCollective permute = over(mesh, {"dp"}, SHEAF_PERMUTE, count);
    permute.targets = targets;
    c.wait(c.start(permute, mine.data(), got.data()));
    EXPECT_EQ(got, index == 0 ? zero : samples(members[index - 1], count));

    SheafCollective broadcast = over(mesh, {"dp"}, SHEAF_BROADCAST, count);
    broadcast.peer = 2;
    std::vector<float> shared = index == 2 ? mine : zero;
    c.wait(c.start(broadcast, shared.data(), shared.data()));
    EXPECT_EQ(shared, samples(members[2], count));

    // Around the ring, received first: both ends are open at once.
    SheafCollective send = over(mesh, {"dp"}, SHEAF_SEND, count),
                    receive = over(mesh, {"dp"}, SHEAF_RECEIVE, count);
    send.peer = (index + 1) % 4;
    receive.peer = (index + 3) % 4;
    int64_t r = c.start(receive, nullptr, got.data());
    int64_t s = c.start(send, mine.data(), nullptr);
    c.wait(r);
    c.wait(s);
    EXPECT_EQ(got, samples(members[(index + 3) % 4], count));
  }
}

/// Forty at once, waited for forwards and backwards.
inline void checkManyOpen(Communicator &c) {
  const Mesh &mesh = c.mesh;
  std::vector<std::vector<float>> values;
  std::vector<int64_t> handles;
  for (int i = 0; i < 40; ++i)
    values.push_back(samples(c.rank, 10 + i * 100));
  for (int i = 0; i < 40; ++i)
    handles.push_back(c.start(over(mesh, axisLists()[i % 8], SHEAF_ALL_REDUCE,
                                   static_cast<int64_t>(values[i].size())),
                              values[i].data(), values[i].data()));
  for (int i = 0; i < 40; ++i)
    c.wait(handles[c.rank % 3 ? 39 - i : i]);
  for (int i = 0; i < 40; ++i) {
    std::vector<int> members = groupOf(mesh, axisLists()[i % 8], c.rank);
    float sum = sample(members[0], 5);
    for (size_t m = 1; m < members.size(); ++m)
      sum += sample(members[m], 5);
    ASSERT_EQ(values[i][5], sum);
  }
}

inline void checkHalves(Communicator &c) {
  const Mesh &mesh = c.mesh;
  for (SheafType type : {SHEAF_BF16, SHEAF_F16})
    for (int64_t count : {64, 9000}) {
      // 1 and twice half a unit in the last place: lost one by one.
      uint16_t one = type == SHEAF_BF16 ? 0x3f80 : 0x3c00;
      uint16_t half = type == SHEAF_BF16 ? 0x3b80 : 0x1000; // 2^-8, 2^-11
      uint16_t next = one + 1;
      int64_t index = mesh.parse("dp").coordinate(c.rank);
      std::vector<uint16_t> values(count, index == 0   ? one
                                          : index == 3 ? 0
                                                       : half),
          sum(count);
      c.wait(c.start(over(mesh, {"dp"}, SHEAF_ALL_REDUCE, count, type),
                     values.data(), sum.data()));
      for (uint16_t value : sum)
        ASSERT_EQ(value, next);
    }
}

/// What the training loop sends.
inline void checkControl(Communicator &c) {
  EXPECT_EQ(c.agreeMax(c.rank * 3), 21);
  EXPECT_EQ(c.agreeMin(c.rank - 2), -2);
  EXPECT_EQ(c.agreeSum(c.rank), 28);
  std::string text(10000, 'x');
  EXPECT_EQ(c.broadcastText(c.isRoot() ? text : "other"), text);
  EXPECT_EQ(c.broadcastText(""), "");
  if (c.rank == 6)
    c.sendBytesTo(0, text.data(), 10000);
  if (c.rank == 0) {
    std::string got(10000, ' ');
    c.receiveBytesFrom(6, got.data(), 10000);
    EXPECT_EQ(got, text);
  }
}

} // namespace sheaf::test

#endif // SHEAF_COLLECTIVECASES_H
