// Collectives between the ranks of a mesh, against plain loops over all ranks'
// buffers, on the transport between threads.

#include "CollectiveCases.h"
#include "RankSupport.h"
#include "sheaf/Mesh.h"
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace sheaf;
using namespace sheaf::test;

TEST(Mesh, StridesPartsAndNames) {
  Mesh mesh = {{{"pp", 2}, {"dp", 12}, {"tp", 3}}};
  EXPECT_EQ(mesh.ranks(), 72);
  EXPECT_EQ(mesh.coordinates(71), (std::vector<int64_t>{1, 11, 2}));
  AxisPart dp = mesh.parse("dp"), part = mesh.parse("dp:(2)3");
  EXPECT_EQ(dp.size, 12);
  EXPECT_EQ(dp.stride, 3);
  EXPECT_EQ(part.size, 3);
  EXPECT_EQ(part.stride, 6); // 12 = 2 x 3 x 2: the inner 2 is inside it
  EXPECT_EQ(mesh.nameOf(3, 6), "dp:(2)3");
  EXPECT_EQ(mesh.nameOf(12, 3), "dp");
  EXPECT_EQ(mesh.nameOf(3, 1), "tp");
  EXPECT_EQ(mesh.nameOf(5, 1), "5@1");
  expectError([&] { mesh.parse("cp"); }, "it has pp, dp, tp");
  for (const char *bad :
       {"dp:", "dp:(2)", "dp:(5)2", "dp:(2)5", "dp:(0)2", "dp:2", "dp:(2)3x"})
    expectError([&] { mesh.parse(bad); },
                "no part of the axis 'dp' of size 12");
}

TEST(Mesh, LayoutsCoverATensorOnce) {
  Mesh mesh = {{{"a", 2}, {"b", 3}}};
  struct Case {
    Shape shape;
    std::vector<std::vector<std::string>> axes;
    int64_t blocks;
  };
  for (const Case &c : std::vector<Case>{{{7, 5}, {{"a"}, {"b"}}, 1},
                                         {{7, 5}, {{"b", "a"}, {}}, 1},
                                         {{7, 5}, {{}, {"a", "b"}}, 1},
                                         {{2, 3, 4}, {{}, {"b"}, {}}, 1},
                                         {{8, 3}, {{"b"}, {}}, 2},
                                         {{1, 1}, {{"b"}, {"a"}}, 1},
                                         {{6}, {{}}, 1},
                                         {{}, {}, 1}}) {
    Layout layout;
    layout.global = c.shape;
    layout.blocks.assign(c.shape.size(), 1);
    if (!c.shape.empty())
      layout.blocks[0] = c.blocks;
    for (const auto &names : c.axes) {
      layout.axes.emplace_back();
      for (const std::string &name : names)
        layout.axes.back().push_back(mesh.parse(name));
    }
    for (size_t d = 0; d < c.shape.size(); ++d)
      layout.local.push_back(layout.localSize(d));
    int64_t size = *elementCount(layout.global),
            localSize = *elementCount(layout.local);
    std::vector<int> seen(size, 0);
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      std::vector<int> mine(localSize, 0);
      layout.forEachRun(rank,
                        [&](int64_t local, int64_t global, int64_t length) {
                          for (int64_t i = 0; i < length; ++i) {
                            ASSERT_LT(local + i, localSize);
                            ASSERT_LT(global + i, size);
                            mine[local + i] += 1;
                            seen[global + i] += layout.isFirstOwner(rank);
                          }
                        });
      for (int count : mine)
        EXPECT_LE(count, 1);
    }
    for (int count : seen)
      EXPECT_EQ(count, 1) << shapeText(c.shape);
  }
}

TEST(Mesh, MicrobatchesAreCutOneByOne) {
  Mesh mesh = {{{"dp", 3}}};
  Layout layout{{8}, {}, {{mesh.parse("dp")}}, {2}};
  EXPECT_EQ(layout.localSize(0), 4); // 2 blocks of ceil(4 / 3)
  std::vector<DimensionRange> ranges = layout.ranges(0, 1);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].global, 2);
  EXPECT_EQ(ranges[0].length, 2);
  EXPECT_EQ(ranges[1].global, 6);
  EXPECT_EQ(ranges[1].local, 2);
  EXPECT_TRUE(layout.ranges(0, 2).empty());
}

// Two channels between the same ranks keep their own order.
TEST(Communicator, AllReduceAddsInRankOrder) {
  runRanks(mesh24(), checkAllReduce);
}

TEST(Communicator, GatherScatterAndExchange) {
  runRanks(mesh24(), checkGatherScatterExchange);
}

TEST(Communicator, ExchangeOfDimensions) {
  runRanks(mesh24(), checkExchangeOfDimensions);
}

TEST(Communicator, ExchangeOfRows) { runRanks(mesh24(), checkExchangeOfRows); }

TEST(Communicator, RowsThatRanksDisagreeOnStopTheRun) {
  Mesh mesh = {{{"dp", 2}}};
  std::string message = runRanksToFailure(mesh, [&](Communicator &c) {
    std::vector<float> a(16), b(16);
    // One row goes to rank 0 and two to rank 1, from both.
    std::vector<int32_t> sent = {1, 2}, received = {1, 2};
    SheafCollective exchange = over(mesh, {"dp"}, SHEAF_ALL_TO_ALL, 16);
    exchange.blocks = 2;
    exchange.width = 4;
    c.wait(c.startRows(exchange, a.data(), sent.data(), received.data(),
                       b.data()));
  });
  EXPECT_TRUE(message.find("rank 1 sends 1 rows to block 1 of rank 0, which "
                           "expects 2") != std::string::npos ||
              message.find("rank 0 sends 2 rows to block 0 of rank 1, which "
                           "expects 1") != std::string::npos)
      << message;
  EXPECT_NE(message.find("ranks disagree"), std::string::npos) << message;
  EXPECT_NE(message.find("rows of 4 in 2 blocks"), std::string::npos)
      << message;
}

TEST(Communicator, PermuteBroadcastSendReceive) {
  runRanks(mesh24(), checkPermuteBroadcastSend);
}

TEST(Communicator, ManyOpenTransfers) { runRanks(mesh24(), checkManyOpen); }

TEST(Communicator, LateTransfersGiveTheSame) {
  runRanks(mesh24(), [](Communicator &c) {
    c.delayTransfers(3);
    checkAllReduce(c);
    checkGatherScatterExchange(c);
    checkExchangeOfRows(c);
    checkPermuteBroadcastSend(c);
    checkManyOpen(c);
  });
}

// What comes shows only behind the wait; what is sent is read behind the start.
TEST(Communicator, LateTransfersShowRaces) {
  runRanks({{{"dp", 2}}}, [](Communicator &c) {
    c.delayTransfers(5);
    std::vector<float> sent(8, 1.f), come(16, 0.f);
    int64_t handle = c.start(over(c.mesh, {"dp"}, SHEAF_ALL_GATHER, 8),
                             sent.data(), come.data());
    for (float value : come)
      EXPECT_TRUE(std::isnan(value));
    sent.assign(8, 2.f);
    c.wait(handle);
    EXPECT_EQ(come, std::vector<float>(16, 2.f));
  });
}

TEST(Communicator, HalvesAddInSingle) { runRanks(mesh24(), checkHalves); }

TEST(Communicator, TheLoopsOwnTransfers) { runRanks(mesh24(), checkControl); }

TEST(Communicator, ChannelsAreIndependent) {
  Mesh mesh = {{{"pp", 2}}};
  runRanks(mesh, [&](Communicator &c) {
    std::vector<float> a(2000, 1), b(2000, 2), x(2000), y(2000);
    SheafCollective first =
        over(mesh, {"pp"}, c.rank ? SHEAF_RECEIVE : SHEAF_SEND, 2000);
    first.peer = 1 - c.rank;
    SheafCollective second = first;
    second.channel = 1;
    if (c.rank == 0) {
      int64_t h = c.start(first, a.data(), nullptr),
              g = c.start(second, b.data(), nullptr);
      c.wait(h);
      c.wait(g);
    } else {
      c.wait(c.start(second, nullptr, y.data()));
      c.wait(c.start(first, nullptr, x.data()));
      EXPECT_EQ(x, a);
      EXPECT_EQ(y, b);
    }
  });
}

// Some ranks are late at starts, some at waits, and each waits in an order of
// its own, on one communicator and on several.
TEST(Communicator, RanksOfDifferentSpeed) {
  for (int channels : {1, 3})
    EXPECT_EQ(runRanksToFailure(
                  mesh24(),
                  [&](Communicator &c) {
                    std::minstd_rand random(c.rank + 1);
                    auto pause = [&](int who) {
                      if (c.rank % 3 == who)
                        std::this_thread::sleep_for(
                            std::chrono::microseconds(random() % 2000));
                    };
                    constexpr int open = 12;
                    for (int round = 0; round < 4; ++round) {
                      std::vector<std::vector<float>> values;
                      std::vector<int64_t> handles;
                      for (int i = 0; i < open; ++i)
                        values.push_back(samples(c.rank, 10 + i * 500));
                      for (int i = 0; i < open; ++i) {
                        pause(0);
                        SheafCollective reduce =
                            over(c.mesh, axisLists()[i % 8], SHEAF_ALL_REDUCE,
                                 static_cast<int64_t>(values[i].size()));
                        reduce.channel = i % channels;
                        handles.push_back(c.start(reduce, values[i].data(),
                                                  values[i].data()));
                      }
                      for (int i = 0; i < open; ++i) {
                        pause(1);
                        c.wait(handles[(i * 5 + c.rank) % open]);
                      }
                      for (int i = 0; i < open; ++i) {
                        std::vector<int> members =
                            groupOf(c.mesh, axisLists()[i % 8], c.rank);
                        float sum = sample(members[0], 5);
                        for (size_t m = 1; m < members.size(); ++m)
                          sum += sample(members[m], 5);
                        ASSERT_EQ(values[i][5], sum);
                      }
                    }
                  },
                  /*waitLimit=*/120),
              "");
}

// Every Half comes back from f32 as it was; values between round to even.
TEST(Reduction, HalfConversionIsExact) {
  for (SheafType type : {SHEAF_F16, SHEAF_BF16}) {
    Reduction reduction(type, SHEAF_SUM);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      uint16_t half = static_cast<uint16_t>(bits), back;
      float value;
      reduction.first(&value, &half, 1);
      double expected = element(type, &half, 0);
      reduction.finish(&back, &value, 1);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value) && std::isnan(element(type, &back, 0)));
        continue;
      }
      ASSERT_EQ(value, static_cast<float>(expected)) << bits;
      ASSERT_EQ(back, half);
      // Halfway to the next in magnitude: to the even one.
      uint16_t up = static_cast<uint16_t>(half + 1);
      double next = element(type, &up, 0);
      if (std::isfinite(expected) && std::isfinite(next)) {
        float middle = static_cast<float>((expected + next) / 2);
        reduction.finish(&back, &middle, 1);
        ASSERT_EQ(back, half & 1 ? up : half) << bits;
      }
    }
  }
}

TEST(Communicator, MaxMinAndIntegers) {
  Mesh mesh = {{{"tp", 4}}};
  runRanks(mesh, [&](Communicator &c) {
    float values[3] = {static_cast<float>(c.rank), c.rank == 2 ? NAN : 1.f,
                       -1.f * c.rank};
    float most[3];
    SheafCollective collective = over(mesh, {"tp"}, SHEAF_ALL_REDUCE, 3);
    collective.reduction = SHEAF_MAX;
    c.wait(c.start(collective, values, most));
    EXPECT_EQ(most[0], 3);
    EXPECT_TRUE(std::isnan(most[1]));
    EXPECT_EQ(most[2], 0);
    int32_t number = 1 << 30, total;
    c.wait(c.start(over(mesh, {"tp"}, SHEAF_ALL_REDUCE, 1, SHEAF_I32), &number,
                   &total));
    EXPECT_EQ(total, 0); // wraps
    uint8_t flag = c.rank == 1, any;
    SheafCollective either = over(mesh, {"tp"}, SHEAF_ALL_REDUCE, 1, SHEAF_I1);
    either.reduction = SHEAF_MAX;
    c.wait(c.start(either, &flag, &any));
    EXPECT_EQ(any, 1);
    double big = 1 + c.rank * 1e-16, sum;
    c.wait(c.start(over(mesh, {"tp"}, SHEAF_ALL_REDUCE, 1, SHEAF_F64), &big,
                   &sum));
    EXPECT_EQ(sum, ((1.0 + (1 + 1e-16)) + (1 + 2e-16)) + (1 + 3e-16));
  });
}

TEST(Communicator, GroupsAreTheListedRanks) {
  // Place i has rank devices[i]; tp is the inner axis.
  Mesh mesh = {{{"dp", 2}, {"tp", 2}}, {3, 1, 0, 2}};
  EXPECT_EQ(mesh.placeOf(0), 2);
  EXPECT_EQ(mesh.coordinates(3), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(mesh.coordinates(2), (std::vector<int64_t>{1, 1}));
  // By rank: those next to it along tp, and along dp.
  const int32_t alongTp[4][2] = {{0, 2}, {3, 1}, {0, 2}, {3, 1}};
  const int32_t alongDp[4][2] = {{3, 0}, {1, 2}, {1, 2}, {3, 0}};
  runRanks(mesh, [&](Communicator &c) {
    int32_t mine = c.rank, seen[2];
    auto gather = [&](const char *axis) {
      c.wait(c.start(over(mesh, {axis}, SHEAF_ALL_GATHER, 1, SHEAF_I32), &mine,
                     seen));
    };
    gather("tp");
    EXPECT_EQ(seen[0], alongTp[c.rank][0]);
    EXPECT_EQ(seen[1], alongTp[c.rank][1]);
    gather("dp");
    EXPECT_EQ(seen[0], alongDp[c.rank][0]);
    EXPECT_EQ(seen[1], alongDp[c.rank][1]);
    // Large enough to go in parts.
    std::vector<float> values(5000, static_cast<float>(c.rank)), sum(5000);
    c.wait(c.start(over(mesh, {"tp"}, SHEAF_ALL_REDUCE, 5000), values.data(),
                   sum.data()));
    auto expected = static_cast<float>(alongTp[c.rank][0] + alongTp[c.rank][1]);
    EXPECT_EQ(sum[0], expected);
    EXPECT_EQ(sum[4999], expected);
    // What the training loop sends goes by ranks: the root is rank 0.
    EXPECT_EQ(c.broadcastText(c.isRoot() ? "root" : "no"), "root");
    EXPECT_EQ(c.agreeMax(c.rank), 3);
    int64_t sent = c.rank;
    if (c.rank == 3)
      c.sendBytesTo(0, &sent, sizeof sent);
    if (c.isRoot()) {
      c.receiveBytesFrom(3, &sent, sizeof sent);
      EXPECT_EQ(sent, 3);
    }
  });
}

TEST(Communicator, CountsWhatStrategiesState) {
  Mesh mesh = mesh24();
  runRanks(mesh, [&](Communicator &c) {
    const std::vector<std::string> purposes = {"", "loss"};
    c.countAs("step", purposes);
    std::vector<float> a(4096), b(4096 * 4);
    SheafCollective reduce = over(mesh, {"dp"}, SHEAF_ALL_REDUCE, 4096);
    for (int i = 0; i < 3; ++i)
      c.wait(c.start(reduce, a.data(), a.data()));
    reduce.id = 1;
    c.wait(c.start(reduce, a.data(), a.data()));
    c.wait(c.start(over(mesh, {"dp"}, SHEAF_ALL_GATHER, 4096), a.data(),
                   b.data()));
    c.wait(c.start(over(mesh, {"tp"}, SHEAF_REDUCE_SCATTER, 4096), a.data(),
                   b.data()));
    c.wait(c.start(over(mesh, {"dp:(1)2"}, SHEAF_ALL_TO_ALL, 4096), a.data(),
                   b.data()));
    c.wait(c.start(over(mesh, {}, SHEAF_ALL_REDUCE, 4096), a.data(), a.data()));
    c.barrier();
    const std::vector<TransferCount> &rows = c.counts().at("step").rows;
    ASSERT_EQ(rows.size(), 5u);
    EXPECT_EQ(rows[0].count, 3);
    EXPECT_EQ(rows[0].wireBytes, 2 * 0.75 * 4096 * 4);
    EXPECT_EQ(rows[0].axes, std::vector<std::string>{"dp"});
    EXPECT_EQ(rows[1].purpose, "loss");
    EXPECT_EQ(rows[2].elements, 4096 * 4);
    EXPECT_EQ(rows[2].wireBytes, 0.75 * 4096 * 4 * 4);
    EXPECT_EQ(rows[3].wireBytes, 0.5 * 4096 * 4);
    EXPECT_EQ(rows[4].wireBytes, 0.5 * 4096 * 4);
    EXPECT_EQ(rows[4].axes, std::vector<std::string>{"dp:(1)2"});
  });
}

TEST(Communicator, MismatchNamesBoth) {
  Mesh mesh = mesh24();
  auto disagree = [&](auto change, const std::string &part) {
    std::string message = runRanksToFailure(mesh, [&](Communicator &c) {
      std::vector<float> a(64), b(64 * 4);
      SheafCollective collective = over(mesh, {"dp"}, SHEAF_ALL_REDUCE, 64);
      if (c.rank == 5)
        change(collective);
      c.wait(c.start(collective, a.data(), b.data()));
    });
    EXPECT_NE(message.find("ranks disagree: rank "), std::string::npos)
        << message;
    EXPECT_NE(message.find("all-reduce (sum) of 64 x f32 over dp"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("rank 5"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  disagree([](SheafCollective &c) { c.kind = SHEAF_ALL_GATHER; },
           "all-gather of 64 x f32 over dp");
  disagree([](SheafCollective &c) { c.elements = 32; }, "of 32 x f32");
  disagree([](SheafCollective &c) { c.type = SHEAF_I32; }, "of 64 x i32");
  disagree([](SheafCollective &c) { c.reduction = SHEAF_MAX; },
           "all-reduce (max)");
}

TEST(Communicator, AFailedRankTakesTheOthersDown) {
  Mesh mesh = mesh24();
  auto began = std::chrono::steady_clock::now();
  std::atomic<int> peers{0};
  std::string message = runRanksToFailure(mesh, [&](Communicator &c) {
    std::vector<float> a(50000), b(200000);
    for (int i = 0; i < 5; ++i) {
      if (c.rank == 3 && i == 4)
        fail("out of luck");
      try {
        c.wait(c.start(over(mesh, {"dp"}, SHEAF_ALL_GATHER, 50000), a.data(),
                       b.data()));
        c.barrier();
      } catch (const PeerError &error) {
        EXPECT_STREQ(error.what(), "rank 3: out of luck");
        peers += 1;
        throw;
      }
    }
  });
  EXPECT_EQ(message, "rank 3: out of luck");
  EXPECT_EQ(peers, 7);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

TEST(Communicator, DeadlocksAreFound) {
  Mesh mesh = {{{"dp", 2}, {"tp", 2}}};
  // Ranks that wait for each other.
  std::string message = runRanksToFailure(mesh, [&](Communicator &c) {
    float a = 0;
    const char *axis = c.rank == 0 ? "dp" : "tp";
    c.wait(c.start(over(mesh, {axis}, SHEAF_ALL_REDUCE, 1), &a, &a));
    c.wait(c.start(over(mesh, {"dp", "tp"}, SHEAF_ALL_REDUCE, 1), &a, &a));
  });
  EXPECT_NE(message.find("no rank can go on"), std::string::npos) << message;
  EXPECT_NE(
      message.find(
          "rank 0 waits in all-reduce (sum) of 1 x f32 over dp, which rank "
          "2 has not started"),
      std::string::npos)
      << message;
  // Ranks that wait for one that has ended.
  message = runRanksToFailure(mesh, [&](Communicator &c) {
    float a = 0;
    if (c.rank != 1)
      c.wait(c.start(over(mesh, {"dp", "tp"}, SHEAF_ALL_REDUCE, 1), &a, &a));
  });
  EXPECT_NE(message.find("rank 1 has ended"), std::string::npos) << message;
}

TEST(Communicator, HangsNameRankActionAndEdge) {
  Mesh mesh = {{{"pp", 2}}};
  const std::vector<std::string> actions = {"0F0", "1F0"}, purposes(2),
                                 names = {"0F0 to 1F0, rank 0 to 1",
                                          "0F1 to 1F1, rank 0 to 1"};
  auto transfer = [&](const Communicator &c, int id) {
    SheafCollective end =
        over(mesh, {"pp"}, c.rank ? SHEAF_RECEIVE : SHEAF_SEND, 8);
    end.peer = 1 - c.rank;
    end.id = id;
    return end;
  };
  auto begin = [&](Communicator &c) {
    c.countAs("step", purposes, names);
    c.nameActions(actions);
    c.mark(c.rank);
  };
  float a[8] = {}, b[8] = {};
  // A rank that never sends, and goes on running.
  auto began = std::chrono::steady_clock::now();
  std::string message = runRanksToFailure(
      mesh,
      [&](Communicator &c) {
        begin(c);
        if (c.rank == 0)
          while (!c.failed())
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        c.mark(-1);
        if (c.rank == 1)
          c.wait(c.start(transfer(c, 0), nullptr, b));
      },
      0.3);
  EXPECT_EQ(message,
            "rank 1: rank 1 has waited for 0.3 s behind action 1F0 in receive "
            "of 8 x f32 over pp (0F0 to 1F0, rank 0 to 1), which rank 0 has "
            "not started; rank 0 is in action 0F0");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  // One that ends without it.
  message = runRanksToFailure(mesh, [&](Communicator &c) {
    begin(c);
    if (c.rank == 1)
      c.wait(c.start(transfer(c, 0), nullptr, b));
  });
  EXPECT_NE(message.find("rank 1 waits in action 1F0 in receive of 8 x f32 "
                         "over pp (0F0 to 1F0, rank 0 to 1), which rank 0 has "
                         "not started; rank 0 has ended"),
            std::string::npos)
      << message;
  // One that sends what comes next instead.
  message = runRanksToFailure(mesh, [&](Communicator &c) {
    begin(c);
    c.wait(c.start(transfer(c, 1 - c.rank), a, c.rank ? b : nullptr));
  });
  EXPECT_NE(message.find("ranks disagree"), std::string::npos) << message;
  EXPECT_NE(
      message.find("receive of 8 x f32 over pp (0F0 to 1F0, rank 0 to 1)"),
      std::string::npos)
      << message;
  EXPECT_NE(message.find("send of 8 x f32 over pp (0F1 to 1F1, rank 0 to 1)"),
            std::string::npos)
      << message;
  // Waits that end in time are no hang.
  EXPECT_EQ(runRanksToFailure(
                mesh,
                [&](Communicator &c) {
                  begin(c);
                  for (int i = 0; i < 8; ++i) {
                    if (c.rank == 0)
                      std::this_thread::sleep_for(
                          std::chrono::milliseconds(250));
                    c.wait(c.start(transfer(c, 0), c.rank ? nullptr : a,
                                   c.rank ? b : nullptr));
                  }
                },
                1.5),
            "");
}

TEST(Communicator, RefusesWrongCollectives) {
  Mesh mesh = mesh24();
  runRanks(mesh, [&](Communicator &c) {
    std::vector<float> a(64), b(64);
    auto refused = [&](auto change, const std::string &part) {
      SheafCollective collective = over(mesh, {"dp"}, SHEAF_REDUCE_SCATTER, 64);
      change(collective);
      expectError([&] { c.start(collective, a.data(), b.data()); }, part);
    };
    refused([](SheafCollective &c) { c.kind = 99; }, "kind 99");
    refused([](SheafCollective &c) { c.type = -1; }, "element type -1");
    refused([](SheafCollective &c) { c.reduction = 3; }, "reduction kind 3");
    refused([](SheafCollective &c) { c.elements = 63; }, "4 equal parts");
    refused([](SheafCollective &c) { c.send_slices = 0; }, "0 slices");
    refused([](SheafCollective &c) { c.axis_count = 9; }, "9 axes");
    refused([](SheafCollective &c) { c.size[0] = 3; },
            "none of a mesh of 8 ranks");
    refused([](SheafCollective &c) { c.channel = -1; }, "channel -1");
    refused(
        [](SheafCollective &c) {
          c.axis_count = 2, c.size[1] = 2, c.stride[1] = 4;
        },
        "overlap");
    refused([](SheafCollective &c) { c.kind = SHEAF_BROADCAST, c.peer = 4; },
            "member 4 of 4");
    refused([](SheafCollective &c) { c.type = SHEAF_F8E4M3; }, "sum of f8e4m3");
    refused([](SheafCollective &c) { c.kind = SHEAF_PERMUTE; }, "no targets");
    static const int64_t twice[] = {1, 1, -1, -1};
    refused(
        [](SheafCollective &c) { c.kind = SHEAF_PERMUTE, c.targets = twice; },
        "has a sender already");
    SheafCollective collective = over(mesh, {"dp"}, SHEAF_ALL_GATHER, 16);
    expectError([&] { c.start(collective, a.data(), a.data()); }, "overlap");
    expectError([&] { c.start(collective, a.data(), nullptr); }, "missing");
    expectError([&] { c.wait(1234); }, "transfer 1234");
    auto refusedRows = [&](auto change, int32_t count,
                           const std::string &part) {
      SheafCollective rows = over(mesh, {"dp"}, SHEAF_ALL_TO_ALL, 64);
      rows.blocks = 8;
      rows.width = 4;
      change(rows);
      std::vector<int32_t> counts(64, count);
      expectError(
          [&] {
            c.startRows(rows, a.data(), counts.data(), counts.data(), b.data());
          },
          part);
    };
    refusedRows([](SheafCollective &c) { c.width = 3; }, 1,
                "8 blocks of rows of 3");
    refusedRows([](SheafCollective &c) { c.kind = SHEAF_ALL_REDUCE; }, 1,
                "expected an all-to-all of whole rows");
    refusedRows([](SheafCollective &c) { c.blocks = 2; }, 1,
                "1 slices of 2 blocks");
    refusedRows([](SheafCollective &) {}, 3,
                "block 0 has 3 rows; expected 0 to 2");
    refusedRows([](SheafCollective &) {}, -1, "block 0 has -1 rows");
    refusedRows([](SheafCollective &c) { c.blocks = 0; }, 1, "that has none");
    collective = over(mesh, {"dp"}, SHEAF_ALL_TO_ALL, 64);
    collective.blocks = 8;
    expectError([&] { c.start(collective, a.data(), b.data()); },
                "without their counts");
  });
}
