//===- Generate.cpp - The known recipes for schedules ---------------------===//

#include "passes/pipeline/schedule/Generate.h"

#include "support/Nearest.h"
#include "support/Shown.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include <deque>

using namespace llvm;

namespace sheaf::schedule {
namespace {

using enum Part;

/// Writes the list of one rank.
struct Writer {
  std::vector<Action> &actions;
  int32_t microbatches;

  void operator()(Part part, int32_t stage, int32_t microbatch) {
    if (microbatch < microbatches)
      actions.push_back(Action::compute(part, stage, microbatch));
  }
};

/// ZB-H1 and ZB-H2: `ahead` forwards, then for each microbatch its I, the W of
/// `delay` microbatches before, and a forward.
void writeZeroBubble(Schedule &schedule, int32_t rank, int32_t ahead,
                     int32_t delay) {
  int32_t m = schedule.microbatches;
  Writer write{schedule.ranks[rank], m};
  int32_t forward = 0, weight = 0;
  while (forward < std::min(m, ahead))
    write(Forward, rank, forward++);
  for (int32_t i = 0; i < m; ++i) {
    write(InputGradient, rank, i);
    if (i >= delay)
      write(WeightGradient, rank, weight++);
    if (forward < m)
      write(Forward, rank, forward++);
  }
  while (weight < m)
    write(WeightGradient, rank, weight++);
}

} // namespace

Schedule makeGPipe(int32_t ranks, int32_t microbatches) {
  return makeBreadthFirst(ranks, microbatches, 1);
}

Schedule make1F1B(int32_t ranks, int32_t microbatches) {
  Schedule schedule = loopedPlacement(ranks, 1, microbatches);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    Writer write{schedule.ranks[rank], microbatches};
    int32_t ahead = std::min(microbatches, ranks - 1 - rank);
    for (int32_t i = 0; i < ahead; ++i)
      write(Forward, rank, i);
    for (int32_t i = 0; i < microbatches; ++i) {
      write(Forward, rank, ahead + i);
      write(Backward, rank, i);
    }
  }
  return schedule;
}

Schedule makeInterleaved(int32_t ranks, int32_t microbatches, int32_t chunks) {
  if (chunks == 1)
    return make1F1B(ranks, microbatches);
  Schedule schedule = loopedPlacement(ranks, chunks, microbatches);
  int64_t groups = (int64_t(microbatches) + ranks - 1) / ranks;
  int64_t total = groups * ranks * chunks;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    Writer write{schedule.ranks[rank], microbatches};
    auto at = [&](Part part, int64_t k) {
      auto chunk = static_cast<int32_t>(k / ranks % chunks);
      if (part == Backward)
        chunk = chunks - 1 - chunk;
      write(part, chunk * ranks + rank,
            static_cast<int32_t>(k / (int64_t(ranks) * chunks) * ranks +
                                 k % ranks));
    };
    int64_t ahead = std::min(total, 2 * int64_t(ranks - 1 - rank) +
                                        int64_t(chunks - 1) * ranks);
    for (int64_t k = 0; k < ahead; ++k)
      at(Forward, k);
    for (int64_t k = 0; k < total; ++k) {
      if (ahead + k < total)
        at(Forward, ahead + k);
      at(Backward, k);
    }
  }
  return schedule;
}

Schedule makeBreadthFirst(int32_t ranks, int32_t microbatches, int32_t chunks) {
  Schedule schedule = loopedPlacement(ranks, chunks, microbatches);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    Writer write{schedule.ranks[rank], microbatches};
    for (int32_t chunk = 0; chunk < chunks; ++chunk)
      for (int32_t i = 0; i < microbatches; ++i)
        write(Forward, chunk * ranks + rank, i);
    for (int32_t chunk = chunks - 1; chunk >= 0; --chunk)
      for (int32_t i = 0; i < microbatches; ++i)
        write(Backward, chunk * ranks + rank, i);
  }
  return schedule;
}

Schedule makeZBH1(int32_t ranks, int32_t microbatches) {
  Schedule schedule = loopedPlacement(ranks, 1, microbatches);
  for (int32_t rank = 0; rank < ranks; ++rank)
    writeZeroBubble(schedule, rank, ranks - rank, rank);
  return schedule;
}

Schedule makeZBH2(int32_t ranks, int32_t microbatches) {
  Schedule schedule = loopedPlacement(ranks, 1, microbatches);
  for (int32_t rank = 0; rank < ranks; ++rank)
    writeZeroBubble(schedule, rank, 2 * (ranks - rank) - 1, 2 * rank);
  return schedule;
}

Schedule makeZBV(int32_t ranks, int32_t microbatches) {
  Schedule schedule = foldedPlacement(ranks, microbatches);
  int32_t n = std::max(2 * ranks - 1, microbatches);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    Writer write{schedule.ranks[rank], microbatches};
    int32_t stages[2] = {rank, 2 * ranks - 1 - rank};
    int32_t next[2][3] = {};
    auto take = [&](int chunk, Part part) {
      write(part, stages[chunk], next[chunk][static_cast<int>(part)]++);
    };
    auto forwards = [&](int chunk) { return next[chunk][0]; };
    auto whole = [&](int chunk) {
      take(chunk, Forward);
      take(chunk, InputGradient);
      take(chunk, WeightGradient);
    };
    for (int32_t i = 0; i < 2 * (ranks - rank) - 1; ++i)
      take(0, Forward);
    for (int32_t i = 0; i < rank; ++i) {
      take(1, Forward);
      take(0, Forward);
    }
    for (int32_t i = 0; i < ranks - rank; ++i)
      whole(1);
    while (forwards(1) < forwards(0) || forwards(0) < n) {
      if (forwards(0) < n)
        take(0, Forward);
      take(0, InputGradient);
      take(0, WeightGradient);
      whole(1);
    }
    for (int32_t i = 0; i < rank; ++i) {
      take(0, InputGradient);
      take(1, InputGradient);
    }
    for (int32_t i = 0; i < ranks - rank; ++i) {
      take(0, InputGradient);
      take(0, WeightGradient);
    }
    while (next[1][2] < next[1][1])
      take(1, WeightGradient);
    while (next[0][2] < next[0][1])
      take(0, WeightGradient);
  }
  return schedule;
}

Expected<Schedule> makeDualPipeV(int32_t ranks, int32_t microbatches) {
  if (microbatches < 2 * ranks)
    return createStringError(inconvertibleErrorCode(),
                             "dualpipev is not defined for %d microbatches on "
                             "%d ranks, expected at least %d, twice the ranks",
                             microbatches, ranks, 2 * ranks);
  Schedule schedule = foldedPlacement(ranks, microbatches);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    std::vector<Action> &actions = schedule.ranks[rank];
    int32_t stages[2] = {rank, 2 * ranks - 1 - rank};
    int32_t forwards[2] = {}, backwards[2] = {};
    std::deque<Task> pending;
    auto forward = [&](int chunk) {
      return Task{Forward, stages[chunk], forwards[chunk]++};
    };
    auto backward = [&](int chunk, bool split) {
      Task task{split ? InputGradient : Backward, stages[chunk],
                backwards[chunk]++};
      if (split)
        pending.push_back({WeightGradient, task.stage, task.microbatch});
      return task;
    };
    auto take = [&](Task task) { actions.push_back(Action::compute(task)); };
    auto pair = [&](int first, int second) {
      Task ahead = forward(first);
      actions.push_back(Action::fused(ahead, backward(second, false)));
    };
    auto weight = [&] {
      take(pending.front());
      pending.pop_front();
    };
    int32_t below = ranks - rank - 1;
    for (int32_t i = 0; i < 2 * below; ++i)
      take(forward(0));
    for (int32_t i = 0; i < rank + 1; ++i) {
      take(forward(0));
      take(forward(1));
    }
    for (int32_t i = 0; i < below; ++i) {
      take(backward(1, true));
      weight();
      take(forward(1));
    }
    for (int32_t i = 0; i < microbatches - 2 * ranks + rank + 1; ++i) {
      if (i == 0 && rank == ranks - 1) {
        // The backward is that of the forward just before: nothing to hide.
        take(forward(0));
        take(backward(1, false));
      } else {
        pair(0, 1);
      }
      pair(1, 0);
    }
    for (int32_t i = 0; i < below; ++i) {
      take(backward(1, false));
      pair(1, 0);
    }
    bool split = false;
    for (int32_t i = 0; i < rank + 1; ++i) {
      bool isSwitch = i == (rank + 1) / 2;
      split |= isSwitch && rank % 2 == 1;
      take(backward(1, split));
      split |= isSwitch && rank % 2 == 0;
      take(backward(0, split));
    }
    for (int32_t i = 0; i < below; ++i) {
      weight();
      take(backward(0, true));
    }
    while (!pending.empty())
      weight();
  }
  return schedule;
}

ArrayRef<StringRef> recipeNames() {
  static constexpr StringRef names[] = {"gpipe", "1f1b",     "interleaved",
                                        "bfs",   "zb-h1",    "zb-h2",
                                        "zbv",   "dualpipev"};
  return names;
}

Expected<Schedule> makeRecipe(StringRef name, int32_t ranks,
                              int32_t microbatches, int32_t chunks) {
  auto error = [](const Twine &text) {
    return createStringError(inconvertibleErrorCode(), text);
  };
  for (auto [what, number] : {std::pair("ranks", ranks),
                              {"microbatches", microbatches},
                              {"chunks", chunks}})
    if (number < 1)
      return error(Twine(number) + " " + what + ", expected at least 1");
  if (int64_t(ranks) * chunks * microbatches > (int64_t(1) << 26))
    return error(Twine(ranks) + " ranks with " + Twine(chunks) +
                 " chunks and " + Twine(microbatches) +
                 " microbatches, expected a product of at most " +
                 Twine(1 << 26));
  if (name == "gpipe")
    return makeGPipe(ranks, microbatches);
  if (name == "1f1b")
    return make1F1B(ranks, microbatches);
  if (name == "interleaved")
    return makeInterleaved(ranks, microbatches, chunks);
  if (name == "bfs")
    return makeBreadthFirst(ranks, microbatches, chunks);
  if (name == "zb-h1")
    return makeZBH1(ranks, microbatches);
  if (name == "zb-h2")
    return makeZBH2(ranks, microbatches);
  if (name == "zbv")
    return makeZBV(ranks, microbatches);
  if (name == "dualpipev")
    return makeDualPipeV(ranks, microbatches);
  std::optional<StringRef> meant = nearest(name, recipeNames());
  return error("unknown schedule '" + shown(name) + "', expected " +
               (meant ? ("'" + *meant + "'").str()
                      : "one of " + join(recipeNames(), ", ")));
}

} // namespace sheaf::schedule
