#include "sheaf/Profile.h"
#include "sheaf/Communicator.h"
#include "sheaf/Error.h"
#include "sheaf/Memory.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

using namespace sheaf;

namespace {
/// Beyond this many events a trace takes in no further step: viewers open no
/// larger ones, and memory is not without end.
constexpr size_t mostEvents = 2'000'000;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
} // namespace

double sheaf::measureCopy(ThreadPool &pool) {
  int64_t bytes =
      std::min(int64_t{256} << 20, availableMemory() / 4) / 4096 * 4096;
  // Not at the same place in huge pages, where stores look like ones to what is
  // loaded next.
  constexpr int64_t apart = 67648;
  Memory from(bytes), to(bytes + apart);
  auto each = [&](auto work) {
    int64_t threads = pool.threads();
    pool.run(threads, [&](int64_t i) {
      int64_t begin = bytes * i / threads, end = bytes * (i + 1) / threads;
      work(static_cast<char *>(to.data()) + apart + begin,
           static_cast<char *>(from.data()) + begin, end - begin);
    });
  };
  // A page that was never written has no memory of its own.
  each([](char *a, char *b, int64_t size) {
    std::memset(a, 1, size);
    std::memset(b, 2, size);
  });
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    int64_t start = now();
    each([](char *a, char *b, int64_t size) { std::memcpy(a, b, size); });
    best = std::max(best, 2e9 * bytes / std::max<int64_t>(now() - start, 1));
  }
  return best;
}

Profile::Profile(const Manifest &manifest, ThreadPool &pool, bool traced)
    : manifest(manifest), pool(pool),
      kernels(static_cast<int64_t>(manifest.kernels.size())), traced(traced),
      sums(manifest.kernels.size() + 2), spans(pool.threads()) {
  if (traced)
    pool.watch(spans.data());
}

Profile::~Profile() { pool.watch(nullptr); }

void Profile::beginStep(const std::string &name) {
  steps.push_back(name);
  stepEvents = events.size();
  running = last = -1;
  open.clear();
  stepBegin = now();
}

void Profile::endStep() {
  int64_t end = now();
  stepSeconds += 1e-9 * (end - stepBegin);
  if (!traced || full)
    return;
  events.push_back(
      {0, static_cast<int32_t>(steps.size()) - 1, stepBegin, end, 0, 0});
  // A step is in the trace as a whole or not at all.
  if (events.size() > mostEvents) {
    events.resize(stepEvents);
    full = true;
  }
}

bool Profile::takesEvents() const {
  return traced && !full && events.size() <= mostEvents;
}

/// An action without its microbatches: `2F` of `2F3`, `(0F|3B)` of `(0F4|3B1)`.
static std::string kindOfAction(const std::string &name) {
  std::string kind;
  for (size_t i = 0; i < name.size(); ++i) {
    bool isDigit = name[i] >= '0' && name[i] <= '9';
    // Numbers behind a letter are microbatches, others stages.
    if (isDigit && i > 0 && name[i - 1] >= 'A' && name[i - 1] <= 'Z') {
      while (i + 1 < name.size() && name[i + 1] >= '0' && name[i + 1] <= '9')
        ++i;
      continue;
    }
    kind += name[i];
  }
  return kind;
}

void Profile::mark(int64_t action) {
  int64_t time = now();
  if (action >= 0) {
    actionBegin = time;
    running = action;
    return;
  }
  if (running < 0 || running >= static_cast<int64_t>(manifest.actions.size()))
    return;
  bool goesOn = running == last;
  std::string kind = kindOfAction(manifest.actions[running]);
  auto found =
      std::find_if(actions.begin(), actions.end(),
                   [&](const auto &entry) { return entry.first == kind; });
  if (found == actions.end())
    found = actions.emplace(actions.end(), kind, KernelTime());
  found->second.calls += goesOn ? 0 : 1;
  found->second.seconds += 1e-9 * (time - actionBegin);
  if (takesEvents()) {
    if (goesOn && actionEvent < events.size()) {
      events[actionEvent].end = time;
    } else {
      actionEvent = events.size();
      events.push_back({actionTrack(), static_cast<int32_t>(running),
                        actionBegin, time, 0, 0});
    }
  }
  last = running;
  running = -1;
}

void Profile::started(int64_t handle, const SheafCollective &collective) {
  if (!traced)
    return;
  int64_t bytes = collective.elements *
                  elementSize(static_cast<SheafType>(collective.type)),
          time = now();
  open[handle] = {collective.id, collective.kind, bytes};
  if (takesEvents())
    events.push_back({transferTrack(), collective.id, time, time, bytes, 0,
                      collective.kind});
}

void Profile::waited(int64_t handle) {
  auto found = open.find(handle);
  if (found == open.end())
    return;
  if (takesEvents())
    events.push_back({transferTrack(), found->second.id, callBegin, now(),
                      found->second.bytes, 0, -1 - found->second.kind});
  open.erase(found);
}

void Profile::begin() {
  if (traced && !full)
    std::fill(spans.begin(), spans.end(), ThreadPool::Span());
  callBegin = now();
}

void Profile::end(int64_t index, double bytes, std::optional<double> counted) {
  int64_t end = now();
  if (index < 0 || index >= static_cast<int64_t>(sums.size()))
    return;
  KernelTime &sum = sums[index];
  sum.calls += 1;
  sum.seconds += 1e-9 * (end - callBegin);
  sum.bytes += index < kernels ? manifest.kernels[index].bytes : bytes;
  double flops =
      counted.value_or(index < kernels ? manifest.kernels[index].flops : 0);
  sum.flops += flops;
  if (!traced || full || events.size() > mostEvents)
    return;
  events.push_back({1, static_cast<int32_t>(index), callBegin, end,
                    static_cast<int64_t>(bytes), flops});
  for (size_t i = 0; i < spans.size(); ++i)
    if (spans[i].tasks > 0)
      events.push_back({static_cast<int32_t>(i) + 2,
                        static_cast<int32_t>(index), spans[i].begin,
                        spans[i].end, spans[i].tasks, 0});
}

std::string Profile::nameOf(int64_t index) const {
  return index < kernels        ? manifest.kernels[index].name
         : index == copyIndex() ? "copy"
                                : "zero";
}

std::string Profile::table(const MachineLimits &limits) const {
  std::vector<size_t> rows;
  double total = 0;
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i].calls > 0) {
      rows.push_back(i);
      total += sums[i].seconds;
    }
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    return sums[a].seconds > sums[b].seconds;
  });
  double count = std::max<double>(1, static_cast<double>(steps.size()));
  std::string out = fmt::format(
      "\nprofile of {} step{}, {} thread{}; limits of this machine: {:.1f} "
      "GFLOP/s (a 1536^3 product), {:.1f} GB/s (a large copy, read and "
      "written)\n",
      steps.size(), steps.size() == 1 ? "" : "s", pool.threads(),
      pool.threads() == 1 ? "" : "s", limits.flops / 1e9, limits.bytes / 1e9);
  out += fmt::format(
      "{:>10} {:>6} {:>8} {:>10} {:>9} {:>8} {:>6} {:<8} {:<9} {}\n",
      "ms a step", "share", "calls", "us a call", "GFLOP/s", "GB/s", "limit",
      "of", "kind", "kernel, where it is from");
  struct Sum {
    double seconds = 0, least = 0;
    int64_t calls = 0;
  };
  std::array<Sum, 3> byKind; // products, kernels, copies
  auto percent = [](double part, double whole) {
    return whole > 0 && part > 0 ? fmt::format("{:.0f}%", 100 * part / whole)
                                 : std::string("-");
  };
  for (size_t i : rows) {
    const KernelTime &sum = sums[i];
    bool known = i < manifest.kernels.size();
    std::string kind = known ? manifest.kernels[i].kind : "copy";
    double compute = limits.flops > 0 ? sum.flops / limits.flops : 0;
    double memory = limits.bytes > 0 ? sum.bytes / limits.bytes : 0;
    bool isProduct = kind == "matmul" || compute > memory;
    double least = kind == "matmul" ? compute : std::max(compute, memory);
    Sum &group = byKind[!known ? 2 : kind == "matmul" ? 0 : 1];
    group.seconds += sum.seconds;
    group.least += least;
    group.calls += sum.calls;
    auto rate = [&](double amount) {
      return amount > 0 ? fmt::format("{:.1f}", amount / sum.seconds / 1e9)
                        : std::string("-");
    };
    std::string name = nameOf(static_cast<int64_t>(i));
    if (known && !manifest.kernels[i].location.empty())
      name += "  " + manifest.kernels[i].location;
    out += fmt::format(
        "{:>10.3f} {:>5.1f}% {:>8.6g} {:>10.1f} {:>9} {:>8} {:>6} {:<8} {:<9} "
        "{}\n",
        sum.seconds / count * 1e3, 100 * sum.seconds / std::max(total, 1e-30),
        sum.calls / count, sum.seconds / sum.calls * 1e6, rate(sum.flops),
        rate(sum.bytes), percent(least, sum.seconds),
        isProduct ? "products" : "copies", kind, name);
  }
  static constexpr const char *names[] = {"products", "kernels", "copies"};
  for (size_t i = 0; i < byKind.size(); ++i)
    if (byKind[i].calls > 0)
      out += fmt::format(
          "{:>10.3f} {:>5.1f}% {:>8.6g} {:>10} {:>9} {:>8} {:>6} all {}\n",
          byKind[i].seconds / count * 1e3,
          100 * byKind[i].seconds / std::max(total, 1e-30),
          byKind[i].calls / count, "", "", "",
          percent(byKind[i].least, byKind[i].seconds), names[i]);
  out += fmt::format("{:>10.3f} of {:.3f} ms a step; the rest is host code\n",
                     total / count * 1e3, stepSeconds / count * 1e3);
  if (!actions.empty())
    out += fmt::format("{:>10} {:>6} {:>8} {:>10}  actions of the schedule\n",
                       "ms a step", "share", "calls", "us a call");
  for (const auto &[kind, time] : actions)
    out += fmt::format(
        "{:>10.3f} {:>5.1f}% {:>8.6g} {:>10.1f}  {}\n",
        time.seconds / count * 1e3,
        100 * time.seconds / std::max(stepSeconds, 1e-30), time.calls / count,
        time.seconds / static_cast<double>(time.calls) * 1e6, kind);
  return out;
}

int64_t Profile::firstEvent() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const Event &event : events)
    first = std::min(first, event.begin);
  return first;
}

std::string Profile::traceNote() const {
  if (!full)
    return "";
  int64_t whole =
      std::count_if(events.begin(), events.end(),
                    [](const Event &event) { return event.track == 0; });
  return fmt::format("the first {} of {} steps; no more than {} events", whole,
                     steps.size(), mostEvents);
}

std::string Profile::trace(int rank, int64_t zero) const {
  using nlohmann::ordered_json;
  std::string out;
  auto write = [&](const ordered_json &event) {
    out += (out.empty() ? "" : ",\n") + event.dump();
  };
  auto nameTrack = [&](const char *what, int32_t track,
                       const std::string &name) {
    write({{"name", what},
           {"ph", "M"},
           {"pid", rank},
           {"tid", track},
           {"args", {{"name", name}}}});
  };
  nameTrack("process_name", 0, fmt::format("rank {}", rank));
  nameTrack("thread_name", 0, "steps");
  nameTrack("thread_name", 1, "kernels and products");
  for (int32_t i = 0; i < pool.threads(); ++i)
    nameTrack("thread_name", i + 2, fmt::format("thread {}", i));
  auto isOn = [&](int32_t track) {
    return std::any_of(events.begin(), events.end(), [&](const Event &event) {
      return event.track == track;
    });
  };
  if (isOn(actionTrack()))
    nameTrack("thread_name", actionTrack(), "actions");
  if (isOn(transferTrack()))
    nameTrack("thread_name", transferTrack(), "transfers");
  for (const Event &event : events) {
    ordered_json json = {{"name", ""},
                         {"ph", "X"},
                         {"pid", rank},
                         {"tid", event.track},
                         {"ts", 1e-3 * (event.begin - zero)},
                         {"dur", 1e-3 * (event.end - event.begin)}};
    if (event.track == 0) {
      json["name"] = steps[event.index];
    } else if (event.track == actionTrack()) {
      json["name"] = manifest.actions[event.index];
      json["cat"] = "action";
    } else if (event.track == transferTrack()) {
      bool isWait = event.kind < 0;
      std::string name(collectiveName(isWait ? -1 - event.kind : event.kind));
      bool isKnown =
          event.index >= 0 &&
          event.index < static_cast<int64_t>(manifest.collectives.size());
      json["name"] = isWait ? "wait for " + name : name;
      json["cat"] = "transfer";
      json["args"] = {
          {"bytes", event.amount},
          {"what", isKnown ? manifest.collectives[event.index].name : ""}};
    } else {
      bool known = event.index < kernels;
      json["name"] = nameOf(event.index);
      json["cat"] = known ? manifest.kernels[event.index].kind : "copy";
      if (event.track == 1)
        json["args"] = {
            {"bytes", known ? manifest.kernels[event.index].bytes
                            : double(event.amount)},
            {"flops", event.flops},
            {"location", known ? manifest.kernels[event.index].location : ""}};
      else
        json["args"] = {{"tasks", event.amount}};
    }
    write(json);
  }
  return out;
}
