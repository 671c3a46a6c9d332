#include "sheaf/Simulation.h"
#include "Recorder.h"
#include "sheaf/Error.h"
#include "sheaf/Json.h"
#include "sheaf/Types.h"
#include <algorithm>
#include <map>
#include <set>

using namespace sheaf;
using namespace sheaf::sim;
using Json = nlohmann::ordered_json;

namespace {
/// Viewers open no larger traces.
constexpr size_t mostEvents = 2'000'000;

int64_t peakOf(const Manifest &manifest, const EntryInfo &entry) {
  if (entry.peakBytes > 0)
    return entry.peakBytes;
  int64_t sum = 0;
  for (const auto &[kind, bytes] : memoryOf(manifest, entry))
    sum += bytes;
  return sum;
}

std::string traceOf(const Manifest &manifest, const std::string &entry,
                    const std::vector<Recording> &recordings,
                    const std::vector<Queue> &queues, const Outcome &outcome) {
  std::string out = "{\"traceEvents\": [\n";
  size_t events = 0;
  bool isFirst = true, isFull = false;
  auto write = [&](const Json &event) {
    out += isFirst ? "" : ",\n";
    out += event.dump();
    isFirst = false;
  };
  constexpr int stepTrack = 0, actionTrack = 1, computeTrack = 2,
                firstQueue = 3;
  for (size_t i = 0; i < recordings.size(); ++i) {
    const Recording &recording = recordings[i];
    int64_t pid = recording.rank;
    auto name = [&](const char *what, int track, const std::string &text) {
      write({{"name", what},
             {"ph", "M"},
             {"pid", pid},
             {"tid", track},
             {"args", {{"name", text}}}});
    };
    name("process_name", 0,
         recordings.size() > 1 ? fmt::format("rank {}, for place {} along pp",
                                             pid, recording.stage)
                               : fmt::format("rank {}, for all", pid));
    name("thread_name", stepTrack, "steps");
    name("thread_name", computeTrack, "compute stream");
    std::set<int32_t> used;
    bool hasActions = false;
    for (const Span &span : outcome.spans[i]) {
      if (span.kind == Span::Transfer)
        used.insert(span.queue);
      hasActions |= span.kind == Span::Action;
    }
    if (hasActions)
      name("thread_name", actionTrack, "actions");
    for (int32_t queue : used)
      name("thread_name", firstQueue + queue, queues[queue].name);
    auto event = [&](const std::string &title, const std::string &category,
                     int track, double begin, double end, const Json &args) {
      Json json = {{"name", title},
                   {"cat", category},
                   {"ph", "X"},
                   {"pid", pid},
                   {"tid", track},
                   {"ts", begin * 1e6},
                   {"dur", (end - begin) * 1e6}};
      if (!args.empty())
        json["args"] = args;
      write(json);
    };
    event(entry, "step", stepTrack, 0, outcome.seconds, Json::object());
    for (const Span &span : outcome.spans[i]) {
      if (++events > mostEvents) {
        isFull = true;
        break;
      }
      if (span.kind == Span::Work) {
        const WorkInfo &work = recording.works[span.what];
        double alone = recording.program.works[span.what];
        event(work.name, work.kind, computeTrack, span.begin, span.end,
              {{"flops", work.flops},
               {"bytes", work.bytes},
               {"alone_us", alone * 1e6},
               {"location", work.location}});
      } else if (span.kind == Span::Action) {
        event(manifest.actions[span.what], "action", actionTrack, span.begin,
              span.end, Json::object());
      } else {
        const StartInfo &start = recording.starts[span.what];
        std::string kind(collectiveName(start.kind));
        bool isWait = span.kind == Span::Wait;
        event(isWait ? "wait for " + kind : kind, isWait ? "wait" : "transfer",
              isWait ? computeTrack : firstQueue + span.queue, span.begin,
              span.end, {{"bytes", start.bytes}, {"what", start.name}});
      }
    }
  }
  out += "\n]";
  if (isFull)
    out +=
        fmt::format(", \"otherData\": {{\"note\": \"no more than {} events\"}}",
                    mostEvents);
  return out + "}\n";
}

SimulatedPlace placeOf(const Manifest &manifest, const EntryInfo &entry,
                       const Recording &recording, const Spent &spent,
                       const std::vector<StartTime> &times) {
  SimulatedPlace place;
  place.rank = recording.rank;
  place.busy = spent.busy;
  place.stretch = spent.stretch;
  place.exposed = spent.exposed;
  place.idle = spent.idle;
  place.peakBytes = peakOf(manifest, entry);
  for (const Op &op : recording.program.ops) {
    if (op.kind != Op::Work)
      continue;
    place.calls += 1;
    const std::string &kind = recording.works[op.what].kind;
    (kind == "matmul"                  ? place.products
     : kind == "copy"                  ? place.copies
     : kind.rfind("attention", 0) == 0 ? place.attention
                                       : place.kernels) +=
        recording.program.works[op.what];
  }
  for (const TransferCount &row : recording.rows)
    place.transfers.push_back({row});
  for (size_t i = 0; i < times.size(); ++i)
    if (int row = recording.starts[i].row; row >= 0) {
      place.transfers[row].seconds += times[i].seconds;
      place.transfers[row].exposed += times[i].exposed;
    }
  // Waits for what another rank sends belong to no row of what this one sends.
  SimulatedTransfers received;
  received.count.kind = SHEAF_RECEIVE;
  received.count.group = 2;
  for (size_t i = 0; i < times.size(); ++i)
    if (recording.starts[i].kind == SHEAF_RECEIVE) {
      received.count.count += times[i].count;
      received.count.wireBytes +=
          recording.starts[i].bytes * static_cast<double>(times[i].count);
      received.seconds += times[i].seconds;
      received.exposed += times[i].exposed;
    }
  if (received.count.count > 0) {
    received.count.wireBytes /= static_cast<double>(received.count.count);
    received.count.axes = {"pp"};
    place.transfers.push_back(received);
  }
  return place;
}

std::string amountText(double bytes) {
  return bytesText(static_cast<int64_t>(std::min(bytes, 9e18)));
}

std::string secondsText(double seconds) {
  return seconds >= 1      ? fmt::format("{:.3f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.3f} ms", seconds * 1e3)
                           : fmt::format("{:.3f} us", seconds * 1e6);
}

std::string axesText(const std::vector<std::string> &axes) {
  return axes.empty() ? "-" : fmt::format("{}", fmt::join(axes, ","));
}
} // namespace

Simulation sheaf::simulate(const Artifact &artifact, const Cluster &cluster,
                           const std::string &name, std::string *trace) {
  const Manifest &manifest = artifact.manifest;
  const EntryInfo &entry = manifest.entry(name);
  Places places(manifest.mesh);
  Queues queues;
  std::vector<Recording> recordings;
  for (int64_t stage = 0; stage < places.count; ++stage)
    recordings.push_back(
        record(artifact, name, cluster, places, stage, queues));

  Settings settings;
  settings.issue = cluster.device.issue;
  settings.wantsSpans = trace != nullptr;
  settings.actions = &manifest.actions;
  std::vector<Program> programs;
  for (Recording &recording : recordings) {
    settings.names.push_back(fmt::format("rank {}", recording.rank));
    programs.push_back(recording.program);
  }
  Outcome outcome = run(programs, queues.all, settings);
  if (trace)
    *trace = traceOf(manifest, name, recordings, queues.all, outcome);

  Simulation result;
  result.artifact = artifact.path;
  result.cluster = cluster.name;
  result.device = cluster.device.name;
  result.ranks = manifest.ranks;
  result.nodes = cluster.nodeOf(manifest.ranks - 1) + 1;
  result.seconds = outcome.seconds;
  const ModelInfo &model = manifest.model;
  if (outcome.seconds > 0)
    result.tokensPerSecond = static_cast<double>(model.batch) *
                             static_cast<double>(model.sequence) /
                             outcome.seconds;
  result.modelFlops = model.flopsPerStep;
  SheafType type = productTypeOf(model.precision);
  result.mfuType = typeName(type);
  auto rate = cluster.device.products.find(type);
  if (rate != cluster.device.products.end() && outcome.seconds > 0) {
    result.mfuRate = rate->second.stated;
    result.mfu = model.flopsPerStep / outcome.seconds /
                 static_cast<double>(manifest.ranks) / result.mfuRate;
  }
  result.memoryBytes = cluster.device.memoryBytes;
  for (size_t i = 0; i < recordings.size(); ++i) {
    result.places.push_back(placeOf(manifest, entry.at(static_cast<int64_t>(i)),
                                    recordings[i], outcome.spent[i],
                                    outcome.starts[i]));
    result.fits &= static_cast<double>(result.places.back().peakBytes) <=
                   result.memoryBytes;
  }
  return result;
}

std::string sheaf::simulationTable(const Simulation &s) {
  std::string out;
  auto line = [&]<typename... Args>(fmt::format_string<Args...> format,
                                    Args &&...args) {
    out += fmt::format(format, std::forward<Args>(args)...) + "\n";
  };
  line("simulated step of {} on {}: {} rank{} of {}, {} node{}", s.artifact,
       s.cluster, s.ranks, s.ranks == 1 ? "" : "s", s.device, s.nodes,
       s.nodes == 1 ? "" : "s");
  line("step time     {}", secondsText(s.seconds));
  if (s.tokensPerSecond > 0)
    line("tokens/s      {:.6g} ({:.6g} a device)", s.tokensPerSecond,
         s.tokensPerSecond / static_cast<double>(s.ranks));
  if (s.mfu > 0) {
    line("mfu           {:.1f}% of {:.6g} TFLOP/s in {}", 100 * s.mfu,
         s.mfuRate / 1e12, s.mfuType);
    line("              model FLOPs: forward and backward, half of the "
         "attention where it is causal, no recomputation");
  }
  line("");
  line("{:>6} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}",
       "place", "rank", "busy", "stretch", "exposed", "idle", "products",
       "attention", "kernels", "copies", "peak");
  auto percent = [&](double seconds) {
    return s.seconds > 0 ? fmt::format("{:.1f}%", 100 * seconds / s.seconds)
                         : std::string("-");
  };
  for (size_t i = 0; i < s.places.size(); ++i) {
    const SimulatedPlace &place = s.places[i];
    bool fits = static_cast<double>(place.peakBytes) <= s.memoryBytes;
    line("{:>6} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}{}",
         i, place.rank, percent(place.busy), percent(place.stretch),
         percent(place.exposed), percent(place.idle), percent(place.products),
         percent(place.attention), percent(place.kernels),
         percent(place.copies), bytesText(place.peakBytes),
         fits ? "" : " does not fit");
  }
  line("of a device's {} of memory; parts of the step's time: kernels as if "
       "alone, what sharing",
       amountText(s.memoryBytes));
  line("multiprocessors adds, waits for transfers under way, other waits; "
       "the four behind idle are parts of busy");

  // By kind and axes, at the place where they take longest.
  struct Sum {
    size_t place = 0;
    int64_t count = 0;
    double bytes = 0, seconds = 0, exposed = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (size_t i = 0; i < s.places.size(); ++i) {
    std::map<std::pair<std::string, std::string>, Sum> own;
    for (const SimulatedTransfers &row : s.places[i].transfers) {
      Sum &sum = own[{std::string(collectiveName(row.count.kind)),
                      axesText(row.count.axes)}];
      sum.place = i;
      sum.count += row.count.count;
      sum.bytes += row.count.wireBytes * static_cast<double>(row.count.count);
      sum.seconds += row.seconds;
      sum.exposed += row.exposed;
    }
    for (const auto &[key, sum] : own) {
      auto [found, isNew] = sums.try_emplace(key, sum);
      if (!isNew && sum.seconds > found->second.seconds)
        found->second = sum;
    }
  }
  if (!sums.empty()) {
    line("");
    line("{:<16} {:<12} {:>6} {:>8} {:>12} {:>12} {:>12}", "transfers", "axes",
         "place", "count", "sent", "time", "exposed");
    for (const auto &[key, sum] : sums)
      line("{:<16} {:<12} {:>6} {:>8} {:>12} {:>12} {:>12}", key.first,
           key.second, sum.place, sum.count, amountText(sum.bytes),
           secondsText(sum.seconds), secondsText(sum.exposed));
  }
  return out;
}

std::string sheaf::simulationJson(const Simulation &s) {
  Json places = Json::array();
  for (const SimulatedPlace &place : s.places) {
    Json transfers = Json::array();
    for (const SimulatedTransfers &row : place.transfers) {
      const TransferCount &count = row.count;
      Json json = {{"kind", collectiveName(count.kind)},
                   {"axes", count.axes},
                   {"group", count.group}};
      if (count.kind != SHEAF_RECEIVE) {
        json["dtype"] = typeName(count.type);
        json["elements"] = count.elements;
      }
      json["wire_bytes"] = numberJson(count.wireBytes);
      json["count"] = count.count;
      json["purpose"] = count.purpose;
      json["seconds"] = row.seconds;
      json["exposed_seconds"] = row.exposed;
      transfers.push_back(std::move(json));
    }
    places.push_back({{"rank", place.rank},
                      {"busy_seconds", place.busy},
                      {"stretch_seconds", place.stretch},
                      {"exposed_seconds", place.exposed},
                      {"idle_seconds", place.idle},
                      {"calls", place.calls},
                      {"product_seconds", place.products},
                      {"attention_seconds", place.attention},
                      {"kernel_seconds", place.kernels},
                      {"copy_seconds", place.copies},
                      {"peak_bytes", place.peakBytes},
                      {"transfers", std::move(transfers)}});
  }
  Json json = {{"artifact", s.artifact},
               {"cluster", s.cluster},
               {"device", s.device},
               {"ranks", s.ranks},
               {"nodes", s.nodes},
               {"step_seconds", s.seconds},
               {"tokens_per_s", s.tokensPerSecond},
               {"model_flops", s.modelFlops},
               {"mfu", s.mfu},
               {"mfu_flops_per_second", s.mfuRate},
               {"mfu_type", s.mfuType},
               {"memory_bytes", s.memoryBytes},
               {"fits", s.fits},
               {"places", std::move(places)}};
  return json.dump(1) + "\n";
}
