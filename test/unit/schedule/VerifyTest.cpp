//===- VerifyTest.cpp - What is lowered is proved, what is wrong refused --===//
//
// The global order is accepted for every recipe and size, the lazy one refused
// with its circle; each rule has a schedule that breaks it. Small random
// schedules, right and wrong, are also run in every possible order of events by
// a machine written down here, which must come to the same verdict.
//
//===----------------------------------------------------------------------===//

#include "passes/pipeline/schedule/Generate.h"
#include "passes/pipeline/schedule/Lower.h"
#include "passes/pipeline/schedule/Text.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

using namespace sheaf::schedule;

namespace {

Pipeline chain(int32_t stages, ChainBytes bytes = {1, 0, 0}, Link link = {}) {
  return makeChain(std::vector<Stage>(stages), bytes, link);
}

Schedule taken(llvm::Expected<Schedule> schedule) {
  if (schedule)
    return std::move(*schedule);
  ADD_FAILURE() << llvm::toString(schedule.takeError());
  return {};
}

Schedule lowered(const Pipeline &pipeline, const Schedule &schedule,
                 LowerOptions options = {}) {
  Lowered result = lower(pipeline, schedule, options);
  if (auto *problem = std::get_if<Problem>(&result)) {
    ADD_FAILURE() << problem->str();
    return {};
  }
  return std::get<Schedule>(std::move(result));
}

LowerOptions lazy() {
  LowerOptions options;
  options.communication = LowerOptions::Communication::Lazy;
  return options;
}

/// The error of a schedule text, lowered by hand.
std::string errorOf(llvm::StringRef text, const Pipeline &pipeline,
                    VerifyOptions options = {}) {
  Verification result = verify(pipeline, taken(parseText(text, "f")), options);
  return result.problem ? result.problem->str("f") : "";
}
std::string orderError(llvm::StringRef text, const Pipeline &pipeline) {
  std::optional<Problem> problem =
      verifyOrder(pipeline, taken(parseText(text, "f")));
  return problem ? problem->str("f") : "";
}

/// Calls `check` with every recipe, for all sizes for which it is defined.
template <typename F>
void eachRecipe(F check) {
  for (llvm::StringRef name : recipeNames())
    for (int32_t p = 1; p <= 8; ++p)
      for (int32_t m = 1; m <= 4 * p; ++m)
        for (int32_t v = 1; v <= 4; ++v) {
          // With one chunk, these two are 1F1B and GPipe.
          bool hasChunks = name == "interleaved" || name == "bfs";
          if (hasChunks != (v > 1) || (name == "dualpipev" && m < 2 * p))
            continue;
          SCOPED_TRACE(name.str() + " p=" + std::to_string(p) +
                       " m=" + std::to_string(m) + " v=" + std::to_string(v));
          check(name, taken(makeRecipe(name, p, m, v)));
          if (testing::Test::HasFailure())
            return;
        }
}

TEST(GlobalOrder, IsAcceptedForEveryRecipeAndSize) {
  eachRecipe([](llvm::StringRef, const Schedule &schedule) {
    Pipeline pipeline = chain(schedule.stages());
    Schedule low = lowered(pipeline, schedule);
    Verification result = verify(pipeline, low);
    ASSERT_FALSE(result.problem) << result.problem->str();
    // With one queue for each peer, communication that takes no time costs
    // none.
    ASSERT_EQ(result.timing.makespan, clockOf(pipeline, schedule).makespan);
    // No other memory is charged here than what F keeps until W.
    std::vector<int32_t> alive = mostAlive(schedule, Part::WeightGradient);
    for (int32_t rank = 0; rank < schedule.size(); ++rank)
      ASSERT_EQ(result.peaks[rank].bytes, alive[rank]);
  });
}

TEST(GlobalOrder, HidesTransfersAsTheClockDoes) {
  Link link;
  link.latency = .25;
  for (const Schedule &schedule :
       {make1F1B(4, 8), makeZBH1(4, 8), makeZBH2(4, 8)}) {
    Pipeline pipeline = chain(4, {1, 0, 1}, link);
    Verification result = verify(pipeline, lowered(pipeline, schedule));
    ASSERT_FALSE(result.problem) << result.problem->str();
    EXPECT_LE(result.timing.makespan,
              clockOf(pipeline, schedule).makespan * 1.05);
  }
}

/// With one queue a rank the order is right, but a transfer that cannot start
/// holds up what stands behind it.
TEST(GlobalOrder, IsSlowWithOneQueueARank) {
  for (auto [p, m, perPeer, slowest] :
       {std::array{4, 8, 57, 57}, std::array{8, 16, 117, 130}}) {
    Schedule schedule = makeInterleaved(p, m, 2);
    Pipeline pipeline = chain(2 * p);
    EXPECT_EQ(execute(pipeline, lowered(pipeline, schedule)).timing.makespan,
              perPeer);
    LowerOptions options;
    VerifyOptions verifyOptions;
    options.queues = verifyOptions.queues = Queues::OnePerRank;
    Verification slow =
        verify(pipeline, lowered(pipeline, schedule, options), verifyOptions);
    ASSERT_FALSE(slow.problem) << slow.problem->str();
    EXPECT_GE(slow.timing.makespan, slowest);
  }
}

TEST(LazyOrder, DeadlocksForAllButGPipe) {
  eachRecipe([](llvm::StringRef name, const Schedule &schedule) {
    if (name == "gpipe") {
      Pipeline pipeline = chain(schedule.stages());
      EXPECT_FALSE(
          verify(pipeline, lowered(pipeline, schedule, lazy())).problem);
    }
  });
  for (llvm::StringRef name : recipeNames()) {
    if (name == "gpipe" || name == "bfs")
      continue;
    Schedule schedule = taken(makeRecipe(name, 4, 8, 2));
    Pipeline pipeline = chain(schedule.stages());
    for (Queues queues : {Queues::OnePerPeer, Queues::OnePerRank}) {
      VerifyOptions options;
      options.queues = queues;
      std::optional<Problem> problem =
          verify(pipeline, lowered(pipeline, schedule, lazy()), options)
              .problem;
      ASSERT_TRUE(problem) << name.str();
      EXPECT_EQ(problem->text.find("deadlock"), 0u) << problem->str();
      EXPECT_GE(problem->notes.size(), 2u);
    }
  }
}

TEST(LazyOrder, ShowsTheCircle) {
  Pipeline pipeline = chain(2);
  std::optional<Problem> problem =
      verify(pipeline, lowered(pipeline, make1F1B(2, 2), lazy())).problem;
  ASSERT_TRUE(problem);
  EXPECT_EQ(
      problem->str(),
      "rank 0, action 5: error: deadlock: ranks wait for each other in a "
      "circle, expected sends and receives of two ranks in the same order on "
      "both\n"
      "rank 0, action 5: note: 'send(0F1,r1)' is the first in the queue of "
      "rank "
      "0 for rank 1, and 'receive(0F1,r0)' stands behind 'send(1I0,r0)' in the "
      "queue of rank 1 for rank 0\n"
      "rank 1, action 6: note: 'send(1I0,r0)' is the first in the queue of "
      "rank "
      "1 for rank 0, and 'receive(1I0,r1)' stands behind 'send(0F1,r1)' in the "
      "queue of rank 0 for rank 1\n");
}

TEST(Order, IsRefusedWhereItBreaksARule) {
  Pipeline two = chain(2);
  EXPECT_EQ(orderError("r0: F0 F1 B0 B1\nr1: F0 B0 F1 B1\n", two), "");
  EXPECT_EQ(orderError("r0: 0F0 0B0\n", two),
            "f: error: the schedule has 1 stages, expected 2\n");
  EXPECT_EQ(orderError("r0: F0 F1 B0 B1\nr1: F0 B0 B1\n", two),
            "f:2:5: error: '1F1' is missing on rank 1, expected one F of stage "
            "1 for each of the 2 microbatches\n");
  EXPECT_EQ(
      orderError("r0: F0 F1 B0 I1\nr1: F0 B0 F1 B1\n", two),
      "f:1:5: error: '0W1' is missing on rank 0, expected one B, or one I "
      "and one W, of stage 0 for each of the 2 microbatches\n");
  EXPECT_EQ(orderError("r0: F0 B0\nr1: F0 B0 F1048575\n", two),
            "f:1:5: error: '0F1' is missing on rank 0, expected one F of stage "
            "0 for each of the 1048576 microbatches\n");
  EXPECT_EQ(orderError("r0: F0 B0 F0\nr1: F0 B0\n", two),
            "f:1:11: error: stage 0 has '0F0' twice, expected one F for each "
            "microbatch\n"
            "f:1:5: note: '0F0' stands here\n");
  EXPECT_EQ(
      orderError("r0: F0 B0\nr1: F0 B0 W0\n", two),
      "f:2:11: error: stage 1 has '1B0' and '1W0', expected one B, or one "
      "I and one W, for each microbatch\n"
      "f:2:8: note: '1B0' stands here\n");
  EXPECT_EQ(
      orderError("r0: F0 I0 W0\nr1: F0 W0 I0\n", two),
      "f:2:8: error: the order cannot run: actions wait for each other in "
      "a circle, expected every action behind what it reads\n"
      "f:2:8: note: '1W0' reads what rank 1 computes behind '1W0' "
      "itself\n");
  EXPECT_EQ(
      orderError("r0: F0 B0 F1 B1\nr1: F0 F1 B0 B1\n", two),
      "f:1:8: error: the order cannot run: actions wait for each other in "
      "a circle, expected every action behind what it reads\n"
      "f:1:8: note: '0B0' reads what rank 1 computes behind '1F1'\n"
      "f:2:8: note: '1F1' reads what rank 0 computes behind '0B0'\n");
  // The halves of a pair run at the same time.
  EXPECT_EQ(
      orderError("r0: (F0|B0)\n", chain(1)),
      "f:1:5: error: the order cannot run: actions wait for each other in "
      "a circle, expected every action behind what it reads\n"
      "f:1:5: note: '(0F0|0B0)' reads what rank 0 computes behind "
      "'(0F0|0B0)' itself\n");
}

/// Also where a stage keeps nothing from one part to the other.
TEST(Order, HasFThenIThenW) {
  Pipeline bare;
  bare.stages.resize(1);
  EXPECT_EQ(orderError("r0: F0 B0\n", bare), "");
  EXPECT_EQ(orderError("r0: F0 I0 W0\n", bare), "");
  EXPECT_EQ(
      orderError("r0: I0 F0 W0\n", bare),
      "f:1:5: error: '0I0' stands before, or beside, '0F0', expected F, I "
      "and W of a microbatch one after the other\n"
      "f:1:8: note: this must come first\n");
  EXPECT_EQ(
      orderError("r0: F0 W0 I0\n", bare),
      "f:1:8: error: '0W0' stands before, or beside, '0I0', expected F, I "
      "and W of a microbatch one after the other\n"
      "f:1:11: note: this must come first\n");
  EXPECT_EQ(orderError("r0: (F0|B0)\n", bare),
            "f:1:5: error: '(0F0|0B0)' stands before, or beside, '(0F0|0B0)', "
            "expected F, I and W of a microbatch one after the other\n"
            "f:1:5: note: this must come first\n");
}

/// A schedule of two stages by hand; each rule is broken by a word that is left
/// out, doubled or moved.
TEST(Lowered, IsRefusedWhereItBreaksARule) {
  Pipeline two = chain(2, {4, 2, 1});
  const std::string right =
      "r0: 0F0 send(0F0,r1) wait-send(0F0,r1) free(0F0) receive(1I0,r1) "
      "wait-receive(1I0,r1) 0I0 free(1I0) 0W0 free(0F0#1) free(0I0)\n"
      "r1: receive(0F0,r0) wait-receive(0F0,r0) 1F0 free(0F0) 1I0 "
      "send(1I0,r0) 1W0 free(1F0) free(1I0#1) wait-send(1I0,r0) free(1I0)\n";
  EXPECT_EQ(errorOf(right, two), "");
  auto without = [&](const std::string &word, int which = 0) {
    std::string text = right;
    size_t at = text.find(" " + word);
    while (which--)
      at = text.find(" " + word, at + 1);
    return text.erase(at, word.size() + 1);
  };
  auto with = [&](const std::string &word, const std::string &other) {
    std::string text = right;
    return text.replace(text.find(word), word.size(), other);
  };
  EXPECT_EQ(errorOf(without("wait-receive(1I0,r1)"), two),
            "f:1:66: error: '0I0' reads '1I0', which may not be there yet, "
            "expected a wait-receive before\n"
            "f:1:50: note: the receive starts here\n");
  EXPECT_EQ(
      errorOf(without("receive(1I0,r1)"), two),
      "f:1:50: error: 'wait-receive(1I0,r1)' waits for a transfer that is "
      "not started, expected its receive before\n");
  EXPECT_EQ(errorOf(with("receive(1I0,r1) wait-receive(1I0,r1) ", ""), two),
            "f:1:50: error: '0I0' reads '1I0', which rank 0 has not received, "
            "expected a receive from rank 1 and its wait before\n");
  EXPECT_EQ(errorOf(with("0F0 send(0F0,r1)", "send(0F0,r1) 0F0"), two),
            "f:1:5: error: 'send(0F0,r1)' sends '0F0', which is not computed "
            "yet, expected it before\n");
  EXPECT_EQ(errorOf(with("wait-send(0F0,r1) free(0F0)",
                         "free(0F0) wait-send(0F0,r1)"),
                    two),
            "f:1:22: error: 'free(0F0)' frees '0F0' while a transfer uses it, "
            "expected its wait before\n"
            "f:1:5: note: its buffer is from here on\n");
  EXPECT_EQ(
      errorOf(with("0W0 free(0F0#1)", "free(0F0#1) 0W0"), two),
      "f:1:113: error: '0W0' reads '0F0#1', which was freed, expected the "
      "free behind the last use\n"
      "f:1:101: note: freed here\n");
  EXPECT_EQ(errorOf(without("free(0I0)"), two),
            "f:1:101: error: the buffer of '0I0' is never freed on rank 0, "
            "expected a free behind '0W0'\n");
  EXPECT_EQ(errorOf(with("free(0I0)", "free(0I0) free(0I0)"), two),
            "f:1:127: error: 'free(0I0)' frees '0I0' again, expected one free\n"
            "f:1:117: note: freed here\n");
  EXPECT_EQ(errorOf(with("0F0 send", "0F0 send(0F0,r1) send"), two),
            "f:1:22: error: 'send(0F0,r1)' is there twice, expected one "
            "transfer of '0F0'\n"
            "f:1:9: note: the first stands here\n");
  EXPECT_EQ(
      errorOf(with("send(0F0,r1)", "send(0F0#1,r1)"), two),
      "f:1:9: error: 'send(0F0#1,r1)' moves '0F0#1' to rank 1, which does "
      "not read it, expected no transfer of it\n");
  EXPECT_EQ(
      errorOf(with("receive(1I0,r1)", "receive(0F0,r1)"), two),
      "f:1:50: error: 'receive(0F0,r1)' moves '0F0' from rank 1, expected "
      "rank 0, which computes it\n");
  EXPECT_EQ(errorOf(with("send(0F0,r1)", "send(0F0#7,r1)"), two),
            "f:1:9: error: 'send(0F0#7,r1)' means a value that is not there, "
            "expected one that a stage hands on\n");
  EXPECT_EQ(errorOf(with("free(0I0)", "free(0I0) free(1F0)"), two),
            "f:1:127: error: 'free(1F0)' frees '1F0', which rank 0 never has, "
            "expected it on the ranks that compute or read it\n");
  EXPECT_EQ(
      errorOf(with(" 1I0 send(1I0,r0) 1W0", " 1I0 1W0 send(1I0,r0)"), two), "");
  // Whoever sends must wait before the buffer ends, and all must be sent.
  EXPECT_EQ(errorOf(without("wait-send(1I0,r0)"), two),
            "f:2:99: error: 'free(1I0)' frees '1I0' while a transfer uses it, "
            "expected its wait before\n"
            "f:2:56: note: its buffer is from here on\n");
  EXPECT_EQ(errorOf(with("send(1I0,r0) 1W0", "1W0"), two),
            "f:2:86: error: 'wait-send(1I0,r0)' waits for a transfer that is "
            "not started, expected its send before\n");
  EXPECT_EQ(
      errorOf(with(" send(0F0,r1) wait-send(0F0,r1)", ""), two),
      "f:1:5: error: '0F0' goes from rank 0 to rank 1, expected a send on "
      "rank 0\n");
}

TEST(Lowered, WeightsAndTheEndAreInOrder) {
  Pipeline one = chain(1);
  EXPECT_EQ(errorOf("r0: gather(0) 0F0 free-weights(0) gather(0) 0B0 free(0F0) "
                    "free-weights(0) reduce(0) norm update(0)\n",
                    one),
            "");
  EXPECT_EQ(errorOf("r0: gather(0) 0F0 free-weights(0) 0B0 free(0F0)\n", one),
            "f:1:35: error: '0B0' uses the weights of stage 0, which are not "
            "gathered, expected 'gather(0)' before\n");
  EXPECT_EQ(errorOf("r0: gather(0) 0F0 gather(0) 0B0 free(0F0)\n", one),
            "f:1:19: error: 'gather(0)' gathers weights that are gathered, "
            "expected 'free-weights(0)' before\n"
            "f:1:5: note: gathered here\n");
  EXPECT_EQ(errorOf("r0: gather(0) 0F0 0B0 free(0F0)\n", one),
            "f:1:5: error: the weights of stage 0 are never freed, expected "
            "'free-weights(0)'\n");
  EXPECT_EQ(errorOf("r0: 0F0 0B0 free(0F0) free-weights(0)\n", one),
            "f:1:23: error: 'free-weights(0)' frees weights that are not "
            "gathered, expected 'gather(0)' before\n");
  EXPECT_EQ(
      errorOf("r0: 0F0 reduce(0) 0B0 free(0F0)\n", one),
      "f:1:9: error: 'reduce(0)' stands before the last weight gradient of "
      "its stage, expected it behind\n"
      "f:1:19: note: the last stands here\n");
  EXPECT_EQ(errorOf("r0: 0F0 0B0 free(0F0) norm reduce(0)\n", one),
            "f:1:28: error: 'reduce(0)' stands behind the norm, expected it "
            "before\n"
            "f:1:23: note: the norm stands here\n");
  EXPECT_EQ(errorOf("r0: 0F0 0B0 free(0F0) update(0)\n", one),
            "f:1:23: error: 'update(0)' stands before the reduction of the "
            "gradients, expected 'reduce(0)' before\n");
  EXPECT_EQ(errorOf("r0: 0F0 0B0 free(0F0) reduce(0) update(0) norm\n", one),
            "f:1:33: error: 'update(0)' stands before the norm, expected it "
            "behind\n"
            "f:1:43: note: the norm stands here\n");
  EXPECT_EQ(errorOf("r0: 0F0 0B0 free(0F0) reduce(1)\n", one),
            "f:1:23: error: 'reduce(1)' is about a stage that rank 0 does not "
            "have, expected one of its own\n");
  // The norm is a rendezvous of all ranks.
  Pipeline two = chain(2);
  std::string text = printText(lowered(two, make1F1B(2, 2)));
  size_t end = text.find('\n');
  EXPECT_EQ(errorOf(text.substr(0, end) + " norm" + text.substr(end), two),
            "f:2:5: error: rank 1 has no 'norm', which all ranks must reach, "
            "expected one, as on rank 0\n");
  size_t start = text.find("r1:") + 3;
  EXPECT_NE(errorOf(text.substr(0, end) + " norm" +
                        text.substr(end, start - end) + " norm" +
                        text.substr(start),
                    two)
                .find("note: rank 1 waits for all ranks at 'norm', and rank 0 "
                      "is not there"),
            std::string::npos);
}

TEST(Lowered, PoliciesOfWeightsAndTheEpilogueAreAccepted) {
  for (auto weights : {LowerOptions::Weights::GatherOnce,
                       LowerOptions::Weights::GatherEachRun}) {
    LowerOptions options;
    options.weights = weights;
    options.epilogue = options.norm = true;
    for (llvm::StringRef name : recipeNames()) {
      Schedule schedule = taken(makeRecipe(name, 3, 7, 2));
      Pipeline pipeline = chain(schedule.stages());
      for (Stage &stage : pipeline.stages)
        stage.gatheredBytes = 1000;
      Schedule low = lowered(pipeline, schedule, options);
      Verification result = verify(pipeline, low);
      ASSERT_FALSE(result.problem) << name.str() << result.problem->str();
      int64_t stages = weights == LowerOptions::Weights::GatherOnce
                           ? schedule.stages() / schedule.size()
                       : name == "dualpipev" ? 2
                                             : 1;
      for (const Peak &peak : result.peaks)
        EXPECT_EQ(peak.bytes / 1000, stages) << name.str();
    }
  }
  // Breadth-first gathers each stage once in either direction.
  LowerOptions options;
  options.weights = LowerOptions::Weights::GatherEachRun;
  Schedule low = lowered(chain(4), makeBreadthFirst(2, 8, 2), options);
  EXPECT_EQ(std::count_if(low.ranks[0].begin(), low.ranks[0].end(),
                          [](const Action &action) {
                            return action.kind == ActionKind::GatherWeights;
                          }),
            3);
}

TEST(Memory, CountsEveryBuffer) {
  // Kept 100 until W, 10 from I to W, 1 for what crosses the boundary.
  Pipeline two = chain(2, {100, 10, 1});
  two.stages[0].residentBytes = 1000;
  two.stages[1].temporaryBytes = 5000;
  Verification result = verify(two, lowered(two, make1F1B(2, 2)));
  ASSERT_FALSE(result.problem) << result.problem->str();
  // 0F0 0F1 keep 200, and 0F1's boundary is not sent yet; nor is the landing
  // buffer of 1I0 free.
  Schedule low = lowered(two, make1F1B(2, 2));
  EXPECT_EQ(
      printText(low),
      "r0: F0 send(0F0,r1) F1 wait-send(0F0,r1) free(0F0) send(0F1,r1) "
      "receive(1I0,r1) wait-receive(1I0,r1) wait-send(0F1,r1) free(0F1) B0 "
      "free(0F0#1) free(1I0) receive(1I1,r1) wait-receive(1I1,r1) B1 "
      "free(0F1#1) free(1I1)\n"
      "r1: receive(0F0,r0) wait-receive(0F0,r0) F0 free(0F0) "
      "receive(0F1,r0) B0 free(1F0) send(1I0,r0) wait-receive(0F1,r0) F1 "
      "free(0F1) wait-send(1I0,r0) free(1I0) B1 free(1F1) send(1I1,r0) "
      "wait-send(1I1,r0) free(1I1)\n");
  EXPECT_EQ(result.peaks[0].bytes, 1000 + 202);
  EXPECT_EQ(low.ranks[0][result.peaks[0].action].str(), "0F1");
  EXPECT_EQ(result.peaks[1].bytes, 5000 + 102);
  EXPECT_EQ(low.ranks[1][result.peaks[1].action].str(), "1B0");

  // What one part alone needs while it runs: more than both activations.
  two.stages[0].partBytes[static_cast<size_t>(Part::Backward)] = 700;
  Verification more = verify(two, low);
  ASSERT_FALSE(more.problem) << more.problem->str();
  EXPECT_EQ(low.ranks[0][more.peaks[0].action].str(), "0B0");
  EXPECT_GT(more.peaks[0].bytes, 1000 + 700 + 200);
  two.stages[0].partBytes = {};

  VerifyOptions options;
  options.memoryLimit = 1201;
  std::optional<Problem> problem = verify(two, low, options).problem;
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->str(),
            "rank 0, action 2: error: rank 0 needs 1202 bytes at '0F1', "
            "expected at most the memory limit of 1201\n");
  options.memoryLimit = 5102;
  EXPECT_FALSE(verify(two, low, options).problem);
}

TEST(CSV, WithoutWaitsIsCompleted) {
  for (llvm::StringRef name : recipeNames()) {
    Schedule schedule = taken(makeRecipe(name, 3, 6, 2));
    Pipeline pipeline = chain(schedule.stages());
    Schedule low = lowered(pipeline, schedule);
    llvm::Expected<std::string> text = printCSV(low, true);
    ASSERT_TRUE(bool(text));
    Schedule read = taken(parseCSV(*text, "f"));
    Lowered complete = completeBuffers(pipeline, read);
    ASSERT_TRUE(std::holds_alternative<Schedule>(complete)) << name.str();
    EXPECT_EQ(printText(std::get<Schedule>(complete)), printText(low))
        << name.str();
    // What has waits already is not completed again.
    Lowered again = completeBuffers(pipeline, low);
    EXPECT_TRUE(std::holds_alternative<Problem>(again));
  }
}

/// Runs small schedules in every order of events. Knows the rules, and nothing
/// of how the verifier looks for what breaks them.
class Machine {
public:
  Machine(const Pipeline &pipeline, const Schedule &schedule)
      : pipeline(pipeline), schedule(schedule) {}

  bool isFine() {
    std::map<std::tuple<int, int, int>, int> seen;
    for (const std::vector<Action> &actions : schedule.ranks)
      for (const Action &action : actions)
        for (const Task &task : tasksOf(action))
          for (Part part : partsOf(task))
            ++seen[{static_cast<int>(part), task.stage, task.microbatch}];
    if (seen.size() != 3 * pipeline.stages.size() * schedule.microbatches)
      return false;
    for (auto &[key, count] : seen)
      if (count != 1)
        return false;
    State state;
    state.next.resize(schedule.size());
    state.queues.resize(schedule.size() * schedule.size());
    return explore(state);
  }

private:
  /// A value of a microbatch on a rank, or on its way to one.
  using Key = std::tuple<int32_t, int32_t, int32_t>;
  struct State {
    std::vector<size_t> next;
    /// For (rank, peer): what was posted and is not done: (key with the
    /// receiving rank, whether it is a send).
    std::vector<std::vector<std::pair<Key, bool>>> queues;
    /// What may be read; what is being received or sent; transfers that are
    /// done, and whose ends were waited for; what was freed.
    std::set<Key> live, landing, done, freed, sent, received;
    std::map<Key, int> open;
    auto operator<=>(const State &other) const = default;
  };

  static std::vector<Task> tasksOf(const Action &action) {
    if (action.kind == ActionKind::Compute)
      return {action.task};
    if (action.kind == ActionKind::FusedPair)
      return {action.task, action.other};
    return {};
  }
  static std::vector<Part> partsOf(const Task &task) {
    if (task.part == Part::Backward)
      return {Part::InputGradient, Part::WeightGradient};
    return {task.part};
  }
  int32_t valueOf(const Action &action) const {
    int32_t number = 0;
    for (size_t i = 0; i < pipeline.values.size(); ++i) {
      const Value &value = pipeline.values[i];
      if (value.part != action.task.part || value.stage != action.task.stage)
        continue;
      if (number++ == action.value)
        return static_cast<int32_t>(i);
    }
    return -1;
  }
  bool reads(int32_t id, int32_t rank) const {
    for (const Use &use : pipeline.values[id].uses)
      if (schedule.rankOf[use.stage] == rank)
        return true;
    return false;
  }

  enum class Step { Blocked, Bad, Done };
  Step compute(State &state, int32_t rank, const Action &action) {
    std::vector<Key> produced;
    for (const Task &task : tasksOf(action)) {
      std::vector<Part> parts = partsOf(task);
      auto has = [&](Part part) {
        return std::find(parts.begin(), parts.end(), part) != parts.end();
      };
      for (size_t i = 0; i < pipeline.values.size(); ++i) {
        const Value &value = pipeline.values[i];
        auto id = static_cast<int32_t>(i);
        Key key{id, task.microbatch, rank};
        bool isOwn = value.stage == task.stage && has(value.part);
        bool isRead = false, leaves = value.uses.empty();
        for (const Use &use : value.uses) {
          bool isHere = use.stage == task.stage && has(use.part);
          isRead |= isHere;
          leaves |= !(isOwn && isHere);
        }
        if (isRead && !isOwn && !state.live.count(key))
          return Step::Bad;
        if (isOwn && leaves)
          produced.push_back(key);
      }
    }
    state.live.insert(produced.begin(), produced.end());
    return Step::Done;
  }

  Step step(State &state, int32_t rank) {
    const Action &action = schedule.ranks[rank][state.next[rank]];
    if (action.isCompute())
      return compute(state, rank, action);
    int32_t id = valueOf(action);
    if (id < 0)
      return Step::Bad;
    int32_t owner = schedule.rankOf[pipeline.values[id].stage];
    Key here{id, action.task.microbatch, rank};
    if (action.kind == ActionKind::Free) {
      if (!state.live.count(here) || state.open[here])
        return Step::Bad;
      state.live.erase(here);
      state.freed.insert(here);
      return Step::Done;
    }
    bool sends =
        action.kind == ActionKind::Send || action.kind == ActionKind::WaitSend;
    int32_t to = sends ? action.peer : rank;
    if ((sends ? rank : action.peer) != owner || to == owner ||
        to >= schedule.size() || !reads(id, to))
      return Step::Bad;
    Key transfer{id, action.task.microbatch, to};
    std::set<Key> &posted = sends ? state.sent : state.received;
    if (action.isTransfer()) {
      if (!posted.insert(transfer).second)
        return Step::Bad;
      if (sends && !state.live.count(here))
        return Step::Bad;
      if (sends)
        ++state.open[here];
      state.queues[rank * schedule.size() + action.peer].push_back(
          {transfer, sends});
      return Step::Done;
    }
    if (!posted.count(transfer))
      return Step::Bad;
    if (sends ? !state.open[here]
              : state.live.count(here) || state.freed.count(here))
      return Step::Bad;
    if (!state.done.count(transfer))
      return Step::Blocked;
    if (sends)
      --state.open[here];
    else
      state.live.insert(here);
    return Step::Done;
  }

  bool explore(const State &state) {
    if (!seen.insert(state).second)
      return true;
    bool moved = false, ended = true;
    int32_t ranks = schedule.size();
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (state.next[rank] == schedule.ranks[rank].size())
        continue;
      ended = false;
      State after = state;
      switch (step(after, rank)) {
      case Step::Bad:
        return false;
      case Step::Blocked:
        break;
      case Step::Done:
        ++after.next[rank];
        moved = true;
        if (!explore(after))
          return false;
      }
    }
    for (int32_t a = 0; a < ranks; ++a)
      for (int32_t b = 0; b < a; ++b) {
        auto &mine = state.queues[a * ranks + b];
        auto &theirs = state.queues[b * ranks + a];
        if (!mine.empty() || !theirs.empty())
          ended = false;
        if (mine.empty() || theirs.empty() ||
            mine.front().first != theirs.front().first ||
            mine.front().second == theirs.front().second)
          continue;
        State after = state;
        after.done.insert(mine.front().first);
        after.queues[a * ranks + b].erase(after.queues[a * ranks + b].begin());
        after.queues[b * ranks + a].erase(after.queues[b * ranks + a].begin());
        moved = true;
        if (!explore(after))
          return false;
      }
    if (ended) {
      // Everything is received, and nothing is left over.
      for (size_t i = 0; i < pipeline.values.size(); ++i)
        for (int32_t rank = 0; rank < ranks; ++rank)
          for (int32_t m = 0; m < schedule.microbatches; ++m)
            if (schedule.rankOf[pipeline.values[i].stage] != rank &&
                reads(static_cast<int32_t>(i), rank) &&
                !state.done.count({static_cast<int32_t>(i), m, rank}))
              return false;
      return state.live.empty() && state.done == state.sent;
    }
    return moved;
  }

  const Pipeline &pipeline;
  const Schedule &schedule;
  std::set<State> seen;
};

using Random = std::minstd_rand;

/// Stages on ranks at random, with a skip connection now and then.
Schedule randomOrder(Random &random, Pipeline &pipeline) {
  auto below = [&](size_t n) { return static_cast<int32_t>(random() % n); };
  int32_t stages = 2 + below(2), ranks = 2 + below(2);
  pipeline = chain(stages, {1, 1, 1});
  if (stages == 3 && below(2)) {
    pipeline.values.push_back({Part::Forward,
                               0,
                               1,
                               {{Part::Forward, 2}, {Part::WeightGradient, 2}},
                               ""});
    pipeline.values.push_back(
        {Part::InputGradient, 2, 1, {{Part::InputGradient, 0}}, ""});
  }
  Schedule schedule;
  schedule.microbatches = 1 + below(2);
  schedule.ranks.resize(ranks);
  for (int32_t stage = 0; stage < stages; ++stage)
    schedule.rankOf.push_back(below(ranks));
  // One task after another whose inputs are there.
  std::set<Task> left, done;
  for (int32_t stage = 0; stage < stages; ++stage)
    for (int32_t m = 0; m < schedule.microbatches; ++m) {
      left.insert({Part::Forward, stage, m});
      if (below(2)) {
        left.insert({Part::Backward, stage, m});
      } else {
        left.insert({Part::InputGradient, stage, m});
        left.insert({Part::WeightGradient, stage, m});
      }
    }
  ValueIndex index(pipeline);
  while (!left.empty()) {
    std::vector<Task> ready;
    for (const Task &task : left) {
      bool isReady = true;
      for (int32_t id : index.readBy(task.part, task.stage)) {
        const Value &value = pipeline.values[id];
        isReady &= done.count({value.part, value.stage, task.microbatch}) != 0;
      }
      if (isReady)
        ready.push_back(task);
    }
    Task task = ready[below(ready.size())];
    left.erase(task);
    done.insert(task);
    if (task.part == Part::Backward) {
      done.insert({Part::InputGradient, task.stage, task.microbatch});
      done.insert({Part::WeightGradient, task.stage, task.microbatch});
    }
    schedule.ranks[schedule.rankOf[task.stage]].push_back(
        Action::compute(task));
  }
  return schedule;
}

/// Moves, doubles, drops or changes an action.
void change(Random &random, Schedule &schedule) {
  auto below = [&](size_t n) { return static_cast<int32_t>(random() % n); };
  std::vector<Action> &actions = schedule.ranks[below(schedule.ranks.size())];
  if (actions.empty())
    return;
  int32_t at = below(actions.size());
  Action action = actions[at];
  switch (below(8)) {
  case 0:
    actions.erase(actions.begin() + at);
    break;
  case 1:
    actions.insert(actions.begin() + below(actions.size() + 1), action);
    break;
  case 2:
    if (!action.isCompute()) {
      if (below(2))
        actions[at].value ^= 1;
      else if (action.peer >= 0)
        actions[at].peer = below(schedule.ranks.size());
    }
    break;
  case 3:
  case 4:
    if (at + 1 < static_cast<int32_t>(actions.size()))
      std::swap(actions[at], actions[at + 1]);
    break;
  default:
    actions.erase(actions.begin() + at);
    actions.insert(actions.begin() + below(actions.size() + 1), action);
  }
}

TEST(Fuzz, TheVerifierAgreesWithEveryOrderOfEvents) {
  Random random(7);
  int rounds = std::getenv("SHEAF_FULL") ? 20000 : 2000;
  int fine = 0, bad = 0, deadlocks = 0;
  for (int round = 0; round < rounds; ++round) {
    Pipeline pipeline;
    Schedule order = randomOrder(random, pipeline);
    Schedule schedule =
        lowered(pipeline, order, random() % 2 ? lazy() : LowerOptions());
    for (size_t changes = random() % 4; changes; --changes)
      change(random, schedule);
    std::optional<Problem> problem = verify(pipeline, schedule).problem;
    bool isFine = Machine(pipeline, schedule).isFine();
    (isFine ? fine : bad) += 1;
    deadlocks += problem && problem->text.find("deadlock") == 0;
    ASSERT_EQ(!problem, isFine)
        << printText(schedule) << (problem ? problem->str() : "");
  }
  // Each kind is there, many times.
  EXPECT_GT(fine, rounds / 10);
  EXPECT_GT(bad, rounds / 10);
  EXPECT_GT(deadlocks, rounds / 50);
}

} // namespace
