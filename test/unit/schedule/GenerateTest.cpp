//===- GenerateTest.cpp - The recipes give the known orders and figures ---===//
//
// Orders for 4 ranks and 8 microbatches are written down here, actions one by
// one; elsewhere makespans, bubbles and the most activations alive are compared
// with closed forms, over all sizes for which they hold.
//
//===----------------------------------------------------------------------===//

#include "passes/pipeline/schedule/Generate.h"
#include "passes/pipeline/schedule/Clock.h"
#include "passes/pipeline/schedule/Text.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace sheaf::schedule;

namespace {

constexpr const char *k1F1B =
    "r0: F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7\n"
    "r1: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7\n"
    "r2: F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\n"
    "r3: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n";
constexpr const char *kInterleaved =
    "r0: 0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4B0 0F7 4B1 4F4 "
    "4B2 4F5 4B3 4F6 0B0 4F7 0B1 0B2 0B3 4B4 4B5 4B6 4B7 0B4 0B5 0B6 "
    "0B7\n"
    "r1: 1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 1F4 5B0 1F5 5B1 1F6 5B2 1F7 "
    "5B3 5F4 1B0 5F5 1B1 5F6 1B2 5F7 1B3 5B4 5B5 5B6 5B7 1B4 1B5 1B6 "
    "1B7\n"
    "r2: 2F0 2F1 2F2 2F3 6F0 6F1 6F2 6B0 6F3 6B1 2F4 6B2 2F5 6B3 2F6 "
    "2B0 2F7 2B1 6F4 2B2 6F5 2B3 6F6 6B4 6F7 6B5 6B6 6B7 2B4 2B5 2B6 "
    "2B7\n"
    "r3: 3F0 3F1 3F2 3F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 3F4 3B0 3F5 "
    "3B1 3F6 3B2 3F7 3B3 7F4 7B4 7F5 7B5 7F6 7B6 7F7 7B7 3B4 3B5 3B6 "
    "3B7\n";
constexpr const char *kZBH1 =
    "r0: F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 "
    "I6 W6 I7 W7\n"
    "r1: F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 "
    "W5 I7 W6 W7\n"
    "r2: F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 "
    "I7 W5 W6 W7\n"
    "r3: F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 "
    "W4 W5 W6 W7\n";
constexpr const char *kZBH2 =
    "r0: F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 "
    "I6 W6 I7 W7\n"
    "r1: F0 F1 F2 F3 F4 I0 F5 I1 F6 I2 W0 F7 I3 W1 I4 W2 I5 W3 I6 W4 "
    "I7 W5 W6 W7\n"
    "r2: F0 F1 F2 I0 F3 I1 F4 I2 F5 I3 F6 I4 W0 F7 I5 W1 I6 W2 I7 W3 "
    "W4 W5 W6 W7\n"
    "r3: F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1 W2 W3 "
    "W4 W5 W6 W7\n";
constexpr const char *kZBV =
    "r0: 0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 "
    "7W2 7F3 7I3 7W3 0F7 0I0 0W0 7F4 7I4 7W4 0I1 0W1 7F5 7I5 7W5 0I2 "
    "0W2 7F6 7I6 7W6 0I3 0W3 7F7 7I7 7W7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 "
    "0W7\n"
    "r1: 1F0 1F1 1F2 1F3 1F4 6F0 1F5 6F1 6I0 6W0 6F2 6I1 6W1 6F3 6I2 "
    "6W2 1F6 1I0 1W0 6F4 6I3 6W3 1F7 1I1 1W1 6F5 6I4 6W4 1I2 1W2 6F6 "
    "6I5 6W5 1I3 1W3 6F7 6I6 6W6 1I4 6I7 1I5 1W4 1I6 1W5 1I7 1W6 6W7 "
    "1W7\n"
    "r2: 2F0 2F1 2F2 5F0 2F3 5F1 2F4 5F2 5I0 5W0 5F3 5I1 5W1 2F5 2I0 "
    "2W0 5F4 5I2 5W2 2F6 2I1 2W1 5F5 5I3 5W3 2F7 2I2 2W2 5F6 5I4 5W4 "
    "2I3 2W3 5F7 5I5 5W5 2I4 5I6 2I5 5I7 2I6 2W4 2I7 2W5 5W6 5W7 2W6 "
    "2W7\n"
    "r3: 3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4I0 4W0 3F4 3I0 3W0 4F4 4I1 "
    "4W1 3F5 3I1 3W1 4F5 4I2 4W2 3F6 3I2 3W2 4F6 4I3 4W3 3F7 3I3 3W3 "
    "4F7 4I4 4W4 3I4 4I5 3I5 4I6 3I6 4I7 3I7 3W4 4W5 4W6 4W7 3W5 3W6 "
    "3W7\n";

/// A chain in which every stage costs the same, and transfers `transfer`.
Pipeline even(const Schedule &schedule, double f = 1, double i = 1,
              double w = 1, double transfer = 0) {
  Stage stage;
  stage.forward = f;
  stage.inputGradient = i;
  stage.weightGradient = w;
  Link link;
  link.latency = transfer;
  return makeChain(std::vector<Stage>(schedule.stages(), stage), {}, link);
}

Timing timeOf(const Schedule &schedule, double f = 1, double i = 1,
              double w = 1, double transfer = 0) {
  return clockOf(even(schedule, f, i, w, transfer), schedule);
}

Schedule made(llvm::Expected<Schedule> schedule) {
  EXPECT_TRUE(bool(schedule));
  if (!schedule) {
    llvm::consumeError(schedule.takeError());
    return {};
  }
  return std::move(*schedule);
}

double longest(const Timing &timing) {
  return *std::max_element(timing.length.begin(), timing.length.end());
}

using Counts = std::vector<int32_t>;
constexpr double kNear = 1e-9;

/// Every part of every stage and microbatch is there once, and every rank gets
/// to its end.
void expectComplete(const Schedule &schedule, const std::string &name) {
  Timing timing = timeOf(schedule);
  ASSERT_TRUE(timing.cycle.empty()) << name;
  std::vector<int> seen(size_t(schedule.stages()) * schedule.microbatches * 3);
  for (int32_t rank = 0; rank < schedule.size(); ++rank)
    for (const Action &action : schedule.ranks[rank])
      for (const Task &task : action.kind == ActionKind::FusedPair
                                  ? std::vector<Task>{action.task, action.other}
                                  : std::vector<Task>{action.task}) {
        ASSERT_EQ(schedule.rankOf[task.stage], rank) << name;
        ASSERT_LT(task.microbatch, schedule.microbatches) << name;
        size_t at =
            (size_t(task.stage) * schedule.microbatches + task.microbatch) * 3;
        if (task.part == Part::Backward) {
          ++seen[at + 1];
          ++seen[at + 2];
        } else {
          ++seen[at + static_cast<size_t>(task.part)];
        }
      }
  ASSERT_EQ(std::count(seen.begin(), seen.end(), 1),
            static_cast<long>(seen.size()))
      << name;
}

TEST(Orders, AreThoseOfTheRecipes) {
  EXPECT_EQ(printText(make1F1B(4, 8)), k1F1B);
  EXPECT_EQ(printText(makeInterleaved(4, 8, 2)), kInterleaved);
  EXPECT_EQ(printText(makeZBH1(4, 8)), kZBH1);
  EXPECT_EQ(printText(makeZBH2(4, 8)), kZBH2);
  EXPECT_EQ(printText(makeZBV(4, 8)), kZBV);
  EXPECT_EQ(printText(makeGPipe(2, 3)),
            "r0: F0 F1 F2 B0 B1 B2\nr1: F0 F1 F2 B0 B1 B2\n");
  EXPECT_EQ(printText(makeBreadthFirst(2, 2, 2)),
            "r0: 0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\n"
            "r1: 1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1\n");
  EXPECT_EQ(printText(makeInterleaved(4, 8, 1)), k1F1B);
}

/// By the definition: the last rank's first pair is not fused; from microbatch
/// (r+1)/2 of the end on, I and W are apart.
TEST(Orders, DualPipeVFusesPairs) {
  EXPECT_EQ(
      printText(made(makeDualPipeV(2, 4))),
      "r0: 0F0 0F1 0F2 3F0 3I0 3W0 3F1 (0F3|3B1) (3F2|0B0) 3B2 (3F3|0B1) 3B3 "
      "0I2 0W2 0I3 0W3\n"
      "r1: 1F0 2F0 1F1 2F1 1F2 2B0 (2F2|1B0) (1F3|2B1) (2F3|1B1) 2B2 1B2 2I3 "
      "1I3 2W3 1W3\n");
}

TEST(Figures, AreThoseOfFourRanksAndEightMicrobatches) {
  struct Case {
    const char *name;
    Schedule schedule;
    double makespan, span;
    double uneven, unevenSpan;
    Counts untilInput, untilWeight;
  };
  Schedule interleaved = makeInterleaved(4, 8, 2);
  std::vector<Case> cases = {
      {"1f1b", make1F1B(4, 8), 33, 33, 33, 33, {4, 3, 2, 1}, {4, 3, 2, 1}},
      {"interleaved",
       interleaved,
       57,
       57,
       57,
       57,
       {11, 9, 7, 5},
       {11, 9, 7, 5}},
      {"zb-h1", makeZBH1(4, 8), 27, 27, 28.2, 0, {4, 3, 2, 1}, {4, 4, 4, 4}},
      {"zb-h2", makeZBH2(4, 8), 27, 24, 27, 25.8, {7, 5, 3, 1}, {7, 7, 7, 7}},
      {"zbv", makeZBV(4, 8), 51, 48, 51.6, 50.4, {}, {8, 8, 8, 8}},
      {"dualpipev", made(makeDualPipeV(4, 8)), 54, 0, 0, 0, {}, {9, 9, 9, 9}}};
  for (const Case &each : cases) {
    SCOPED_TRACE(each.name);
    Timing timing = timeOf(each.schedule);
    EXPECT_NEAR(timing.makespan, each.makespan, kNear);
    if (each.span != 0) {
      EXPECT_NEAR(longest(timing), each.span, kNear);
    }
    Timing uneven = timeOf(each.schedule, 1, 1.2, .8);
    if (each.uneven != 0) {
      EXPECT_NEAR(uneven.makespan, each.uneven, kNear);
    }
    if (each.unevenSpan != 0) {
      EXPECT_NEAR(longest(uneven), each.unevenSpan, kNear);
    }
    if (!each.untilInput.empty()) {
      EXPECT_EQ(mostAlive(each.schedule, Part::InputGradient), each.untilInput);
    }
    EXPECT_EQ(mostAlive(each.schedule, Part::WeightGradient), each.untilWeight);
  }
}

/// All costs for which a closed form holds, and sizes.
template <typename F>
void eachSize(F check) {
  for (int32_t p = 1; p <= 8; ++p)
    for (int32_t m = 1; m <= 4 * p; ++m) {
      SCOPED_TRACE("p=" + std::to_string(p) + " m=" + std::to_string(m));
      check(p, m);
    }
}

TEST(ClosedForms, OfGPipeAnd1F1B) {
  eachSize([](int32_t p, int32_t m) {
    for (auto [f, i, w] :
         {std::array{1., 1., 1.}, {1., 1.2, .8}, {2., 3., 1.}}) {
      double work = m * (f + i + w), idle = (p - 1) * (f + i + w);
      Schedule gpipe = makeGPipe(p, m), ours = make1F1B(p, m);
      for (const Schedule *schedule : {&gpipe, &ours}) {
        Timing timing = timeOf(*schedule, f, i, w);
        EXPECT_NEAR(timing.makespan, work + idle, kNear);
        EXPECT_NEAR(timing.bubbleOverIdeal(), double(p - 1) / m, kNear);
        EXPECT_NEAR(timing.bubbleOverMakespan(), double(p - 1) / (m + p - 1),
                    kNear);
        EXPECT_NEAR(timing.bubbleBySpan(), 1 - work / longest(timing), kNear);
      }
    }
    Counts all(p, m), few;
    for (int32_t rank = 0; rank < p; ++rank)
      few.push_back(std::min(m, p - rank));
    EXPECT_EQ(mostAlive(makeGPipe(p, m), Part::WeightGradient), all);
    EXPECT_EQ(mostAlive(make1F1B(p, m), Part::WeightGradient), few);
  });
}

TEST(ClosedForms, OfInterleavedAndBreadthFirst) {
  eachSize([](int32_t p, int32_t m) {
    for (int32_t v = 1; v <= 4; ++v) {
      SCOPED_TRACE("v=" + std::to_string(v));
      Schedule schedule = makeInterleaved(p, m, v);
      Schedule breadth = makeBreadthFirst(p, m, v);
      expectComplete(schedule, "interleaved");
      expectComplete(breadth, "bfs");
      EXPECT_EQ(mostAlive(breadth, Part::WeightGradient), Counts(p, m * v));
      for (auto [f, i, w] : {std::array{1., 1., 1.}, {1., 1.2, .8}}) {
        double work = m * v * (f + i + w);
        // Breadth-first waits where there are fewer microbatches than ranks.
        if (m >= p) {
          EXPECT_NEAR(timeOf(breadth, f, i, w).makespan,
                      work + (p - 1) * (f + i + w), kNear);
        }
        if (m % p == 0) {
          EXPECT_NEAR(timeOf(schedule, f, i, w).makespan,
                      work + (p - 1) * (f + i + w), kNear);
        }
      }
      if (m % p != 0 || v == 1)
        continue;
      Counts most;
      for (int32_t rank = 0; rank < p; ++rank)
        most.push_back(std::min(m * v, 2 * (p - 1 - rank) + (v - 1) * p + 1));
      EXPECT_EQ(mostAlive(schedule, Part::WeightGradient), most);
    }
  });
}

TEST(ClosedForms, OfZeroBubble) {
  eachSize([](int32_t p, int32_t m) {
    Schedule first = makeZBH1(p, m), second = makeZBH2(p, m);
    expectComplete(first, "zb-h1");
    expectComplete(second, "zb-h2");
    // Both forms want a W that is no longer than F, too.
    for (auto [f, i, w] :
         {std::array{1., 1., 1.}, {1., 1.2, .8}, {3., 2., 1.}, {2., 3., 1.8}}) {
      double work = m * (f + i + w);
      if (m >= p && w <= i) {
        EXPECT_NEAR(timeOf(first, f, i, w).makespan,
                    work + (p - 1) * (f + i - w), kNear);
      }
      if (m >= 2 * p - 1 && 2 * w <= f + i) {
        Timing timing = timeOf(second, f, i, w);
        double span = work + (p - 1) * (f + i - 2 * w);
        EXPECT_NEAR(longest(timing), span, kNear);
        EXPECT_NEAR(timing.bubbleBySpan(), 1 - work / span, kNear);
      }
    }
    Counts firstInput, firstWeight(p, std::min(m, p)), secondInput;
    for (int32_t rank = 0; rank < p; ++rank) {
      firstInput.push_back(std::min(m, p - rank));
      secondInput.push_back(2 * (p - rank) - 1);
    }
    EXPECT_EQ(mostAlive(first, Part::InputGradient), firstInput);
    if (m >= p) {
      EXPECT_EQ(mostAlive(first, Part::WeightGradient), firstWeight);
    }
    if (m >= 2 * p - 1) {
      EXPECT_EQ(mostAlive(second, Part::InputGradient), secondInput);
      EXPECT_EQ(mostAlive(second, Part::WeightGradient), Counts(p, 2 * p - 1));
    }
  });
}

TEST(ClosedForms, OfFolded) {
  eachSize([](int32_t p, int32_t m) {
    Schedule schedule = makeZBV(p, m);
    expectComplete(schedule, "zbv");
    if (m >= 2 * p - 1) {
      Timing timing = timeOf(schedule);
      EXPECT_NEAR(longest(timing), 6 * m, kNear);
      EXPECT_NEAR(timing.bubbleBySpan(), 0, kNear);
      EXPECT_EQ(mostAlive(schedule, Part::WeightGradient), Counts(p, 2 * p));
    }
    llvm::Expected<Schedule> dual = makeDualPipeV(p, m);
    if (m < 2 * p) {
      EXPECT_EQ(llvm::toString(dual.takeError()),
                "dualpipev is not defined for " + std::to_string(m) +
                    " microbatches on " + std::to_string(p) +
                    " ranks, expected at least " + std::to_string(2 * p) +
                    ", twice the ranks");
      return;
    }
    ASSERT_TRUE(bool(dual));
    expectComplete(*dual, "dualpipev");
    EXPECT_EQ(mostAlive(*dual, Part::WeightGradient), Counts(p, 2 * p + 1));
    for (auto [f, i, w, factor] :
         {std::array{1., 1., 1., 1.}, {1., 1., 1., .75}, {1., 1.2, .8, .9}}) {
      Pipeline pipeline = even(*dual, f, i, w);
      pipeline.fusedFactor = factor;
      double pair = factor * (f + i + w);
      Timing timing = clockOf(pipeline, *dual);
      // Idle time of every rank; a closed form where all of a pair's time is
      // that of its halves.
      if (factor == 1) {
        EXPECT_NEAR(timing.makespan,
                    2 * m * (f + i + w) + (p - 1) * (pair + i + w - 3 * w),
                    kNear);
      }
    }
  });
}

TEST(MeasuredCosts, BubblesBySpan) {
  struct Row {
    int32_t m;
    double f, i, w, transfer, b1F1B, zbH1, zbH2;
  };
  for (const Row &row :
       {Row{24, 18522, 18086, 9337, 601, .2431, .1585, .1083},
        Row{32, 18513, 18086, 9331, 626, .1985, .1242, .0837}}) {
    auto bubble = [&](const Schedule &schedule) {
      Timing timing = timeOf(schedule, row.f, row.i, row.w, row.transfer);
      return std::round(timing.bubbleBySpan() * 1e4) / 1e4;
    };
    EXPECT_EQ(bubble(make1F1B(8, row.m)), row.b1F1B);
    EXPECT_EQ(bubble(makeZBH1(8, row.m)), row.zbH1);
    EXPECT_EQ(bubble(makeZBH2(8, row.m)), row.zbH2);
  }
}

TEST(Recipes, AreFoundByName) {
  for (llvm::StringRef name : recipeNames())
    EXPECT_TRUE(bool(makeRecipe(name, 2, 4, 2))) << name.str();
  auto message = [](llvm::StringRef name, int32_t p, int32_t m, int32_t v) {
    return llvm::toString(makeRecipe(name, p, m, v).takeError());
  };
  EXPECT_EQ(message("1f1", 2, 4, 2), "unknown schedule '1f1', expected '1f1b'");
  EXPECT_EQ(message("something", 2, 4, 2),
            "unknown schedule 'something', expected one of gpipe, 1f1b, "
            "interleaved, bfs, zb-h1, zb-h2, zbv, dualpipev");
  EXPECT_EQ(message("1f1b", 0, 4, 2), "0 ranks, expected at least 1");
  EXPECT_EQ(message("1f1b", 1 << 20, 1 << 20, 1),
            "1048576 ranks with 1 chunks and 1048576 microbatches, expected a "
            "product of at most 67108864");
}

} // namespace
