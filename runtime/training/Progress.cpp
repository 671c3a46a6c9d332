#include "sheaf/Error.h"
#include "sheaf/Training.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>

using namespace sheaf;

namespace {
double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string timeText(double seconds) {
  int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600)
    return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string rateText(double rate) {
  if (rate >= 1e6)
    return fmt::format("{:.2f}M", rate / 1e6);
  if (rate >= 1e4)
    return fmt::format("{:.1f}k", rate / 1e3);
  return fmt::format("{:.0f}", rate);
}
} // namespace

Progress::Progress(int64_t first, int64_t steps, bool quiet)
    : first(first), steps(steps), quiet(quiet), terminal(isatty(2)),
      started(now()) {}

void Progress::show(const StepRecord &record) {
  if (quiet)
    return;
  double time = now();
  int64_t done = record.step + 1 - first, left = steps - record.step - 1;
  bool edge = done == 1 || left == 0;
  // A terminal is redrawn at most ten times a second; a file gets a line for
  // each tenth of the run, and one every ten seconds.
  if (terminal ? !edge && time - shown < 0.1
               : !edge && time - shown < 10 &&
                     (record.step + 1) % std::max<int64_t>(1, steps / 10) != 0)
    return;
  shown = time;
  std::string line = fmt::format(
      "step {}/{}  loss {:.4f}  {} tokens/s  {:.1f} ms", record.step + 1, steps,
      record.loss, rateText(record.tokensPerSecond), record.milliseconds);
  if (record.mfu)
    line += fmt::format("  mfu {:.0f}%", *record.mfu * 100);
  if (record.evalLoss)
    line += fmt::format("  held-out {:.4f}", *record.evalLoss);
  line += fmt::format("  left {}", timeText((time - started) / done * left));
  if (terminal)
    fmt::print(stderr, "\r{}\x1b[K", line);
  else
    fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
  open = terminal;
}

void Progress::finish() {
  if (open)
    std::fputc('\n', stderr);
  open = false;
}
