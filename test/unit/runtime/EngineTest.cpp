#include "sim/Engine.h"
#include "TestSupport.h"
#include <chrono>

using namespace sheaf;
using namespace sheaf::sim;
using sheaf::test::expectError;

namespace {
/// Programs written by hand, a step at a time.
struct Builder {
  Program program;
  int handles = 0;

  Builder &work(double seconds) {
    program.ops.push_back({Op::Work, static_cast<int>(program.works.size())});
    program.works.push_back(seconds);
    return *this;
  }
  int start(int queue, TransferCost cost, const std::string &what = "a") {
    program.ops.push_back({Op::Start, static_cast<int>(program.starts.size())});
    program.starts.push_back({queue, cost, what});
    return handles++;
  }
  Builder &wait(int handle) {
    program.ops.push_back({Op::Wait, handle});
    return *this;
  }
  Builder &mark(int action) {
    program.ops.push_back({Op::Mark, action});
    return *this;
  }
};

TransferCost cost(double latency, double seconds, double share = 0) {
  TransferCost cost;
  cost.latency = latency;
  cost.seconds = seconds;
  cost.share = share;
  cost.inNode = true;
  return cost;
}

Outcome go(const std::vector<Builder> &builders,
           const std::vector<Queue> &queues, Settings settings = {}) {
  std::vector<Program> programs;
  for (const Builder &builder : builders)
    programs.push_back(builder.program);
  Outcome outcome = run(programs, queues, settings);
  for (const Spent &spent : outcome.spent) {
    EXPECT_NEAR(spent.busy + spent.stretch + spent.exposed + spent.idle,
                outcome.seconds, 1e-9 * outcome.seconds);
    EXPECT_GE(spent.busy, 0);
    EXPECT_GE(spent.stretch, 0);
    EXPECT_GE(spent.exposed, 0);
    EXPECT_GE(spent.idle, 0);
  }
  return outcome;
}

const std::vector<Queue> one = {{{0}, false, "tp"}};
const std::vector<Queue> two = {{{0}, false, "tp"}, {{0}, false, "dp"}};
} // namespace

TEST(Engine, AChainTakesItsSum) {
  Builder b;
  b.work(1).work(2).work(0.5);
  Outcome o = go({b}, {});
  EXPECT_DOUBLE_EQ(o.seconds, 3.5);
  EXPECT_DOUBLE_EQ(o.spent[0].busy, 3.5);
}

TEST(Engine, TheHostMayBeSlower) {
  Settings settings;
  settings.issue = 1;
  Builder b;
  b.work(0.25).work(3).work(0.25);
  // Issued at 1, 2, 3; the last begins behind the second.
  Outcome o = go({b}, {}, settings);
  EXPECT_DOUBLE_EQ(o.seconds, 5.25);
  EXPECT_DOUBLE_EQ(o.spent[0].idle, 1.75);
}

TEST(Engine, ATransferAloneIsExposed) {
  Builder b;
  b.work(1);
  b.wait(b.start(0, cost(0.5, 2))).work(1);
  Outcome o = go({b}, one);
  EXPECT_DOUBLE_EQ(o.seconds, 4.5);
  EXPECT_DOUBLE_EQ(o.spent[0].exposed, 2.5);
  EXPECT_DOUBLE_EQ(o.starts[0][0].seconds, 2.5);
  EXPECT_DOUBLE_EQ(o.starts[0][0].exposed, 2.5);
  EXPECT_EQ(o.starts[0][0].count, 1);
}

TEST(Engine, ATransferHidesBesideAKernel) {
  Builder b;
  b.work(1);
  int handle = b.start(0, cost(0.5, 2));
  b.work(2).wait(handle);
  Outcome o = go({b}, one);
  EXPECT_DOUBLE_EQ(o.seconds, 3.5);
  EXPECT_DOUBLE_EQ(o.spent[0].exposed, 0.5);
  EXPECT_DOUBLE_EQ(o.spent[0].stretch, 0);
}

TEST(Engine, TakingMultiprocessorsMakesTheGainSmaller) {
  auto seconds = [](double share) {
    Builder b;
    int handle = b.start(0, cost(0, 2, share));
    b.work(3).wait(handle);
    return go({b}, one);
  };
  EXPECT_DOUBLE_EQ(seconds(0).seconds, 3);
  // For 2 seconds a fourth slower.
  EXPECT_DOUBLE_EQ(seconds(0.25).seconds, 3.5);
  EXPECT_DOUBLE_EQ(seconds(0.25).spent[0].stretch, 0.5);
  EXPECT_DOUBLE_EQ(seconds(0.25).spent[0].busy, 3);
  // All of them: as if one behind the other.
  EXPECT_DOUBLE_EQ(seconds(1).seconds, 5);
}

TEST(Engine, TransfersOnOneLinkShareIt) {
  Builder b;
  int first = b.start(0, cost(0, 2)), second = b.start(1, cost(0, 3));
  b.wait(first).wait(second);
  // Both at half of the rate until 4, then the second's last second.
  Outcome o = go({b}, two);
  EXPECT_DOUBLE_EQ(o.starts[0][0].seconds, 4);
  EXPECT_DOUBLE_EQ(o.seconds, 5);
}

TEST(Engine, TransfersOnTwoLinksDoNot) {
  TransferCost network = cost(0, 3);
  network.inNode = false;
  network.acrossNodes = true;
  Builder b;
  int first = b.start(0, cost(0, 2)), second = b.start(1, network);
  b.wait(first).wait(second);
  EXPECT_DOUBLE_EQ(go({b}, two).seconds, 3);
}

TEST(Engine, LatencyTakesNoBandwidth) {
  Builder b;
  int first = b.start(0, cost(0, 2)), second = b.start(1, cost(2, 1));
  b.wait(first).wait(second);
  EXPECT_DOUBLE_EQ(go({b}, two).seconds, 3);
}

TEST(Engine, OneCommunicatorKeepsItsOrder) {
  Builder b;
  int first = b.start(0, cost(1, 1)), second = b.start(0, cost(1, 1));
  b.wait(second).wait(first);
  Outcome o = go({b}, one);
  EXPECT_DOUBLE_EQ(o.seconds, 4);
  EXPECT_DOUBLE_EQ(o.spent[0].exposed, 4);
  // Each is charged with its own time, though one wait sees both.
  EXPECT_DOUBLE_EQ(o.starts[0][0].exposed, 2);
  EXPECT_DOUBLE_EQ(o.starts[0][1].exposed, 2);
}

TEST(Engine, MembersWaitForTheLast) {
  Builder a, b;
  a.work(1);
  a.wait(a.start(0, cost(0, 1)));
  b.work(4);
  b.wait(b.start(0, cost(0, 1)));
  Outcome o = go({a, b}, {{{0, 1}, false, "pp"}});
  EXPECT_DOUBLE_EQ(o.seconds, 5);
  // The wait for the other is no communication.
  EXPECT_DOUBLE_EQ(o.spent[0].idle, 3);
  EXPECT_DOUBLE_EQ(o.spent[0].exposed, 1);
}

TEST(Engine, APipelineTakesWhatItsScheduleSays) {
  // p stages, m microbatches, a unit of work each: m + p - 1 units and the
  // transfers of the first microbatch, if they are as long as they are short.
  const int stages = 4, microbatches = 6;
  const double hop = 0.125;
  std::vector<Queue> queues;
  for (int i = 0; i + 1 < stages; ++i)
    queues.push_back({{i, i + 1}, true, "send"});
  std::vector<Builder> builders(stages);
  for (int s = 0; s < stages; ++s) {
    Builder &b = builders[s];
    std::vector<int> sends;
    for (int m = 0; m < microbatches; ++m) {
      std::string what = std::to_string(m);
      if (s > 0)
        b.wait(b.start(s - 1, cost(0, hop), what));
      b.work(1);
      if (s + 1 < stages)
        sends.push_back(b.start(s, cost(0, hop), what));
    }
    for (int handle : sends)
      b.wait(handle);
  }
  Outcome o = go(builders, queues);
  // A stage posts its receive when it is done with the one before, so each
  // microbatch waits for its hop behind the first stage.
  EXPECT_DOUBLE_EQ(o.seconds, microbatches + (stages - 1) +
                                  hop * (stages - 1 + microbatches - 1));
}

TEST(Engine, SendsInBothDirectionsShareNothing) {
  std::vector<Queue> queues = {{{0, 1}, true, "there"}, {{1, 0}, true, "back"}};
  Builder a, b;
  int sent = a.start(0, cost(0, 1)), received = a.start(1, cost(0, 1));
  a.wait(sent).wait(received);
  int got = b.start(0, cost(0, 1)), gave = b.start(1, cost(0, 1));
  b.wait(got).wait(gave);
  EXPECT_DOUBLE_EQ(go({a, b}, queues).seconds, 1);
  // Two on the same way out of a rank do.
  queues = {{{0, 1}, true, "one"}, {{0, 2}, true, "other"}};
  Builder c, d, e;
  int first = c.start(0, cost(0, 1)), second = c.start(1, cost(0, 1));
  c.wait(first).wait(second);
  d.wait(d.start(0, cost(0, 1)));
  e.wait(e.start(1, cost(0, 1)));
  EXPECT_DOUBLE_EQ(go({c, d, e}, queues).seconds, 2);
}

TEST(Engine, SaysWhoWaitsForWhom) {
  std::vector<Queue> queues = {{{0, 1}, true, "there"}, {{1, 0}, true, "back"}};
  Builder a, b;
  a.mark(0).wait(a.start(1, cost(0, 1), "a transfer of 8 x f32"));
  a.wait(a.start(0, cost(0, 1), "x"));
  b.wait(b.start(0, cost(0, 1), "x"));
  b.wait(b.start(1, cost(0, 1), "a transfer of 8 x f32"));
  Settings settings;
  std::vector<std::string> actions = {"0F0"};
  settings.actions = &actions;
  settings.names = {"rank 0", "rank 4"};
  expectError([&] { go({a, b}, queues, settings); },
              "the ranks wait for each other: rank 0 in action 0F0 waits for a "
              "transfer of 8 x f32 on back, which rank 4 has not started; rank "
              "4 waits for x on there, which rank 0 has not started");
  Builder c, d;
  c.wait(c.start(0, cost(0, 1)));
  expectError([&] { go({c, d}, queues); },
              "which program 1 (at its end) has not started");
}

TEST(Engine, SaysWhatDisagrees) {
  Builder a, b;
  a.wait(a.start(0, cost(0, 1), "8 x f32"));
  b.wait(b.start(0, cost(0, 1), "9 x f32"));
  expectError([&] { go({a, b}, {{{0, 1}, false, "pp"}}); },
              "ranks disagree: program 1 starts 9 x f32, program 0 8 x f32");
}

TEST(Engine, SpansAreThoseOfTheStreams) {
  Builder b;
  b.mark(3).work(1);
  int handle = b.start(0, cost(0, 2));
  b.work(1).wait(handle).mark(-1);
  Settings settings;
  settings.wantsSpans = true;
  Outcome o = go({b}, one, settings);
  const auto &spans = o.spans[0];
  ASSERT_EQ(spans.size(), 5u);
  double ends[] = {1, 2, 3, 3, 3};
  Span::Kind kinds[] = {Span::Work, Span::Work, Span::Transfer, Span::Wait,
                        Span::Action};
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].kind, kinds[i]);
    EXPECT_DOUBLE_EQ(spans[i].end, ends[i]);
  }
  EXPECT_EQ(spans[4].what, 3);
  EXPECT_DOUBLE_EQ(spans[3].begin, 2);
}

TEST(Engine, TimeGrowsWithTheCalls) {
  // 64 places that exchange in a ring of sends between 64 x 20000 kernels.
  const int stages = 64, rounds = 2000;
  std::vector<Queue> queues;
  for (int i = 0; i < stages; ++i)
    queues.push_back({{i, (i + 1) % stages}, true, "send"});
  std::vector<Builder> builders(stages);
  for (int s = 0; s < stages; ++s) {
    Builder &b = builders[s];
    for (int round = 0; round < rounds; ++round) {
      int out = b.start(s, cost(1e-5, 1e-4, 0.1));
      int in = b.start((s + stages - 1) % stages, cost(1e-5, 1e-4, 0.1));
      for (int i = 0; i < 10; ++i)
        b.work(1e-5 * (1 + (s + i) % 3));
      b.wait(in).wait(out);
    }
  }
  auto began = std::chrono::steady_clock::now();
  go(builders, queues);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 20);
}
