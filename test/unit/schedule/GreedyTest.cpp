//===- GreedyTest.cpp - Schedules for stages that are not even ------------===//

#include "passes/pipeline/schedule/Greedy.h"
#include "passes/pipeline/schedule/Generate.h"
#include "passes/pipeline/schedule/Lower.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace sheaf::schedule;

namespace {

GreedyResult taken(llvm::Expected<GreedyResult> result) {
  if (result)
    return std::move(*result);
  ADD_FAILURE() << llvm::toString(result.takeError());
  return {};
}

/// A chain of stages with these numbers of layers, each F 1, I 1.2, W 0.8.
Pipeline layers(const std::vector<double> &counts, int64_t bytes = 1) {
  std::vector<Stage> stages(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    stages[i].forward = counts[i];
    stages[i].inputGradient = 1.2 * counts[i];
    stages[i].weightGradient = .8 * counts[i];
  }
  return makeChain(stages, {bytes, 0, 0});
}

double makespanOf(const Pipeline &pipeline, const Schedule &schedule) {
  Timing timing = clockOf(pipeline, schedule);
  EXPECT_TRUE(timing.cycle.empty());
  EXPECT_GE(timing.makespan, lowerBound(pipeline, schedule) - 1e-9);
  return timing.makespan;
}

/// Of all recipes with as many stages, the least.
double bestRecipe(const Pipeline &pipeline, int32_t p, int32_t m) {
  double best = 1e300;
  auto stages = static_cast<int32_t>(pipeline.stages.size());
  for (llvm::StringRef name : recipeNames()) {
    llvm::Expected<Schedule> schedule = makeRecipe(name, p, m, stages / p);
    if (!schedule) {
      llvm::consumeError(schedule.takeError());
      continue;
    }
    if (schedule->stages() == stages)
      best = std::min(best, makespanOf(pipeline, *schedule));
  }
  return best;
}

/// Stages of two layers, some of three, and a head that costs twice a layer
/// behind the last: every recipe waits somewhere.
TEST(Greedy, BeatsTheRecipesOnUnevenStages) {
  for (std::vector<double> counts :
       {std::vector<double>{2, 2, 3, 2, 2, 2.5, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3},
        {2, 3, 2, 3, 2, 3, 2, 2, 3, 2, 3, 2, 3, 2, 3, 4},
        {1, 2, 2, 3, 2, 2, 2, 3, 2, 2, 2, 3, 2, 2, 2, 4}}) {
    Pipeline pipeline = layers(counts);
    GreedyOptions options;
    options.ranks = 8;
    options.microbatches = 16;
    GreedyResult result = taken(makeGreedy(pipeline, options));
    EXPECT_LT(result.makespan, bestRecipe(pipeline, 8, 16));
    EXPECT_NEAR(makespanOf(pipeline, result.schedule), result.makespan, 1e-9);
    EXPECT_GE(result.makespan, result.lowerBound - 1e-9);
    EXPECT_LT(result.makespan, 1.05 * result.lowerBound);
    Lowered low = lower(pipeline, result.schedule);
    ASSERT_TRUE(std::holds_alternative<Schedule>(low));
    EXPECT_FALSE(verify(pipeline, std::get<Schedule>(low)).problem);
  }
}

/// Where one stage is the slowest by far, ZB-H1 keeps it busy without a pause,
/// and nothing is faster; greedy finds that, too.
TEST(Greedy, IsNeverSlowerThanARecipe) {
  for (auto [p, m] : {std::pair{1, 1}, {2, 1}, {3, 7}, {4, 8}})
    for (int32_t v : {1, 2, 3}) {
      std::vector<double> counts(p * v, 1);
      counts.back() += 2;
      Pipeline pipeline = layers(counts);
      GreedyOptions options;
      options.ranks = p;
      options.microbatches = m;
      GreedyResult result = taken(makeGreedy(pipeline, options));
      EXPECT_LE(result.makespan, bestRecipe(pipeline, p, m) + 1e-9);
      EXPECT_GE(result.makespan, result.lowerBound - 1e-9);
      EXPECT_FALSE(verifyOrder(pipeline, result.schedule));
    }
}

/// The limit holds for the lowered schedule, and the fewer bytes the slower.
TEST(Greedy, KeepsToTheLimit) {
  std::vector<double> counts(8, 1);
  counts.back() += 2;
  double before = 1e300;
  for (int64_t limit : {2, 3, 4, 6, 8, 16}) {
    // What F keeps is a hundred times what crosses a boundary.
    Pipeline pipeline = layers(counts, 100);
    for (Value &value : pipeline.values)
      if (value.uses[0].stage != value.stage)
        value.bytes = 1;
    GreedyOptions options;
    options.ranks = 4;
    options.microbatches = 8;
    options.memoryLimit = limit * 100 + 10;
    GreedyResult result = taken(makeGreedy(pipeline, options));
    EXPECT_LE(result.makespan, before);
    before = result.makespan;
    VerifyOptions verifyOptions;
    verifyOptions.memoryLimit = options.memoryLimit;
    Lowered low = lower(pipeline, result.schedule);
    ASSERT_TRUE(std::holds_alternative<Schedule>(low));
    EXPECT_FALSE(
        verify(pipeline, std::get<Schedule>(low), verifyOptions).problem);
  }
}

TEST(Greedy, SaysWhatDoesNotFit) {
  GreedyOptions options;
  options.ranks = 4;
  options.microbatches = 4;
  options.memoryLimit = 1;
  auto message = [&](const Pipeline &pipeline) {
    return llvm::toString(makeGreedy(pipeline, options).takeError());
  };
  EXPECT_EQ(message(layers(std::vector<double>(8, 1))),
            "no schedule of 8 stages on 4 ranks keeps to 1 bytes a rank, "
            "expected a limit of at least 2");
  EXPECT_EQ(message(layers(std::vector<double>(7, 1))),
            "7 stages on 4 ranks with 4 microbatches, expected a multiple of "
            "the ranks, and at least 1 of each");
  options.placement = Placement::Folded;
  EXPECT_EQ(message(layers(std::vector<double>(4, 1))),
            "4 stages folded on 4 ranks, expected 8: two a rank");
}

/// By hand: of two stages, the second cannot begin before the first has ended
/// its F, works 2 * (2 + 2.4 + 1.6), and I and W of the first must follow.
TEST(Greedy, LowerBound) {
  Pipeline pipeline = layers({1, 2});
  EXPECT_NEAR(lowerBound(pipeline, makeZBH1(2, 2)), 1 + 12, 1e-9);
  EXPECT_NEAR(lowerBound(layers({1, 1}), makeZBH1(2, 1)),
              1 + 1 + 1.2 + 1.2 + .8, 1e-9);
}

} // namespace
