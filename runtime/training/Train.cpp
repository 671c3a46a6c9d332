#include "sheaf/Checkpoint.h"
#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include "sheaf/Matmul.h"
#include "sheaf/Mpi.h"
#include "sheaf/Training.h"
#include "sheaf/Weights.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <malloc.h>
#include <memory>

using namespace sheaf;

std::atomic<int> sheaf::stopSignal = 0;

void sheaf::setScalars(Program &program,
                       const std::map<std::string, double> &scalars) {
  for (const auto &[name, value] : scalars) {
    int index = program.manifest.find(BufferKind::Scalar, name);
    if (index < 0) {
      std::vector<std::string> names;
      for (int other : program.manifest.ofKind(BufferKind::Scalar))
        names.push_back(program.manifest.buffers[other].name);
      fail("{}: has no run-time scalar '{}'; it has {}", program.artifact.path,
           name,
           names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    program.fill(index, value);
  }
}

namespace {
double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// One run: its options, its program, and where it stands.
class Training {
public:
  Training(const RunOptions &options, CpuDevice &device,
           const Artifact &artifact)
      : options(options), artifact(artifact), manifest(artifact.manifest),
        program(artifact, device), comm(device.communicator),
        isRoot(comm.isRoot()) {}

  int run();

private:
  void chooseSteps();
  void start();
  void resumeFrom(const FoundCheckpoint &checkpoint);
  void openData();
  StepRecord trainStep(int64_t step);
  double evaluate();
  void checkParameters(const char *when);
  void checkRoom(const std::string &where, double rows);
  [[noreturn]] void explainNotFinite(const StepRecord &record);
  void checkpoint();
  RunState state() const;
  void reportTransfers();
  void finish(double started);
  void reportMemory();
  void reportRanks();

  const RunOptions &options;
  const Artifact &artifact;
  const Manifest &manifest;
  Program program;
  Communicator &comm;
  const bool isRoot; ///< only the root writes and prints

  struct Bad {
    int64_t buffer = -1, element = 0, rank = 0;
    double value = 0;
    size_t count = 0; ///< bad buffers on this rank's part
  };
  Bad firstBad(BufferKind kind);
  [[noreturn]] void failTogether(const std::string &message);
  uint64_t seed = 0;
  DataOrder order = DataOrder::Sequential;
  int64_t first = 0, done = 0, steps = 0; // `done` steps are behind us
  std::optional<RunLock> lock;
  int64_t saved = -1; // step of the newest checkpoint
  std::unique_ptr<TokenFile> data, evalData;
  std::unique_ptr<Batches> batches, evalBatches;
  double peak = 0; // FLOPs a second; 0: not measured
  int digits = 9;
  int64_t residentBefore = 0;
  bool peakWasReset = false;
  Curve losses, evalLosses;
};

void Training::chooseSteps() {
  if (options.steps)
    steps = *options.steps;
  else if (options.sample == 0 && options.save.empty())
    fail("give --steps=N, the number of optimizer steps of the whole run");
  if (steps > 0 && options.data.empty())
    fail("give --data=FILE, a file of tokens to train on");
  // Not after the last step, when the weights would be lost.
  for (const std::string &target :
       {options.save, options.plot, options.trace, options.collectives})
    if (!target.empty() && isRoot)
      checkTarget(target);
  if (options.resume && options.checkpoint.empty())
    fail("--resume needs --checkpoint=DIR, the directory to resume from");
  if (options.checkpointEvery > 0 && options.checkpoint.empty())
    fail("--checkpoint-every needs --checkpoint=DIR");
  if (options.evalEvery > 0 && options.evalData.empty())
    fail("--eval-every needs --eval-data=FILE");
  if (manifest.model.batch < 1 || manifest.model.sequence < 1 ||
      manifest.model.vocab < 1)
    fail("{}: no training artifact: its manifest has no model; use "
         "--call=ENTRY",
         artifact.path);
}

void Training::openData() {
  if (steps > 0) {
    data = std::make_unique<TokenFile>(options.data, options.tokenType);
    batches = std::make_unique<Batches>(*data, manifest, order, seed);
  }
  if (!options.evalData.empty()) {
    evalData = std::make_unique<TokenFile>(options.evalData, options.tokenType);
    evalBatches = std::make_unique<Batches>(*evalData, manifest,
                                            DataOrder::Sequential, seed);
  }
}

void Training::resumeFrom(const FoundCheckpoint &found) {
  const RunState &state = found.state;
  if (options.seed && *options.seed != state.seed)
    fail("{}: was started with --seed={}, not {}; leave --seed out", found.path,
         state.seed, *options.seed);
  std::string wanted =
      options.order == DataOrder::Random ? "random" : "sequential";
  if (options.order && wanted != state.order)
    fail("{}: was started with --order={}, not {}; leave --order out",
         found.path, state.order, wanted);
  seed = state.seed;
  order = state.order == "random" ? DataOrder::Random : DataOrder::Sequential;
  first = done = saved = state.step;
  loadCheckpoint(program, found);
  setScalars(program, state.scalars);
}

/// Parameters, optimizer state and scalars as they are before the first step of
/// this run.
void Training::start() {
  std::vector<std::string> entries = {"init"};
  if (steps > 0 || !options.checkpoint.empty())
    entries.push_back("step");
  if (!options.evalData.empty())
    entries.push_back("loss");
  if (options.sample > 0)
    entries.push_back("logits");
  program.prepare(entries);

  seed = options.seed.value_or(0);
  order = options.order.value_or(DataOrder::Sequential);
  std::optional<FoundCheckpoint> found;
  if (!options.checkpoint.empty() && !options.resume && isRoot)
    createRunDirectory(options.checkpoint);
  // Whoever only samples from a checkpoint may do so beside the run.
  if (!options.checkpoint.empty() && steps > 0 && isRoot)
    lock.emplace(options.checkpoint);
  if (options.resume) {
    std::string notes;
    found = findCheckpoint(options.checkpoint, notes, comm);
    if (isRoot)
      fmt::print(stderr, "{}", notes);
    if (!found && isRoot)
      fmt::print(stderr, "{}: no checkpoint yet, starting at step 0\n",
                 options.checkpoint);
  } else if (!options.checkpoint.empty() && isRoot) {
    std::string notes;
    if (findCheckpoint(options.checkpoint, notes))
      fail("{}: holds the checkpoints of an earlier run; continue it with "
           "--resume, or name another directory",
           options.checkpoint);
  }
  if (found) {
    resumeFrom(*found);
    if (isRoot)
      fmt::print(stderr, "resuming {} at step {}\n", found->path, first);
  } else if (!options.load.empty()) {
    loadWeights(program, options.load);
  } else {
    program.setStep(seed, 0);
    program.call("init");
  }
  setScalars(program, options.scalars);
  openData();
  if (isRoot && found && data && found->state.dataTokens != data->size())
    fmt::print(stderr,
               "warning: the checkpoint was trained on {} tokens, {} has {}; "
               "the run will not be the same\n",
               found->state.dataTokens, options.data, data->size());
  checkParameters("before the first step");
}

/// Ends all ranks with a message that all of them know.
void Training::failTogether(const std::string &message) {
  if (!isRoot)
    while (true)
      comm.barrier(); // until the root's failure is here
  throw Error(message);
}

/// The first value of any rank that is not finite: in the first buffer, on the
/// lowest rank. The same on all ranks, but for `count`.
Training::Bad Training::firstBad(BufferKind kind) {
  Bad mine;
  for (int index : manifest.ofKind(kind)) {
    const BufferInfo &buffer = manifest.buffers[index];
    if (!program.data(index)) // Other ranks have it.
      continue;
    int64_t bad =
        firstNotFinite(buffer.type, program.data(index), buffer.elements);
    if (bad < 0)
      continue;
    if (mine.count++ == 0) {
      mine.buffer = index;
      mine.element = bad;
      mine.value = element(buffer.type, program.data(index), bad);
    }
  }
  constexpr int64_t none = INT64_MAX;
  int64_t buffer = comm.agreeMin(mine.count ? mine.buffer : none);
  if (buffer == none)
    return {};
  int64_t rank = comm.agreeMin(mine.buffer == buffer ? comm.rank : none);
  bool isMine = rank == comm.rank;
  Bad all;
  all.buffer = buffer;
  all.rank = rank;
  all.element = comm.agreeMax(isMine ? mine.element : 0);
  // A NaN does not come through a sum.
  int64_t kindOfValue = comm.agreeMax(!isMine                  ? 0
                                      : std::isnan(mine.value) ? 1
                                      : mine.value > 0         ? 2
                                                               : 3);
  all.value = kindOfValue == 1 ? NAN : kindOfValue == 2 ? INFINITY : -INFINITY;
  all.count =
      static_cast<size_t>(comm.agreeMax(static_cast<int64_t>(mine.count)));
  return all;
}

void Training::checkParameters(const char *when) {
  Bad bad = firstBad(BufferKind::Parameter);
  if (bad.buffer < 0)
    return;
  failTogether(fmt::format(
      "parameter '{}' has the value {} at index {}{} {}",
      manifest.buffers[bad.buffer].name, bad.value, bad.element,
      comm.ranks() > 1 ? fmt::format(" on rank {}", bad.rank) : "", when));
}

/// Rows that were left out on their way to their experts are an error of those
/// who chose the room.
void Training::checkRoom(const std::string &where, double rows) {
  if (rows > 0)
    failTogether(fmt::format(
        "{}: {} rows of tokens found no room on the way to their experts; "
        "compile with a larger --expert-room, or with --expert-rows=exact",
        where, rows));
}

StepRecord Training::trainStep(int64_t step) {
  double begin = seconds();
  batches->load(program, step);
  program.setStep(seed, step);
  program.call("step");

  StepRecord record;
  record.step = step;
  double time = seconds() - begin;
  double tokens = static_cast<double>(manifest.model.batch) *
                  static_cast<double>(manifest.model.sequence);
  record.milliseconds = time * 1e3;
  record.tokensPerSecond = tokens / time;
  if (peak > 0 && manifest.model.flopsPerStep > 0)
    record.mfu = manifest.model.flopsPerStep / time / peak;
  for (int index : program.entry("step").arguments) {
    const BufferInfo &buffer = manifest.buffers[index];
    if (buffer.kind != BufferKind::Result || buffer.elements != 1)
      continue;
    double value = program.value(index);
    if (buffer.name == "loss")
      record.loss = value;
    else if (buffer.name == "grad_norm")
      record.gradientNorm = value;
    else if (buffer.name == "learning_rate")
      record.learningRate = value;
    else
      record.other.emplace_back(buffer.name, value);
  }
  return record;
}

/// Mean held-out loss of the first batches of the held-out data.
double Training::evaluate() {
  int loss = manifest.find(BufferKind::Result, "loss"),
      overflow = manifest.find(BufferKind::Result, "expert_overflow");
  int64_t perBatch = manifest.model.batch * manifest.model.sequence;
  int64_t count = std::clamp<int64_t>((evalData->size() - 1) / perBatch, 1,
                                      options.evalBatches);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    evalBatches->load(program, i);
    program.setStep(seed, done);
    program.call("loss");
    if (overflow >= 0)
      checkRoom(fmt::format("held-out batch {}", i), program.value(overflow));
    sum += program.value(loss);
  }
  return sum / static_cast<double>(count);
}

/// Whether gradients overflowed for their scale alone, and the step left
/// everything as it was.
static bool wasLeftOut(const StepRecord &record) {
  return std::any_of(record.other.begin(), record.other.end(),
                     [](const auto &entry) {
                       return entry.first == "loss_scale" && entry.second > 1;
                     });
}

void Training::explainNotFinite(const StepRecord &record) {
  std::string head =
      fmt::format("step {}: loss {}, gradient norm {}; the run stops and keeps "
                  "no weights of it",
                  record.step, record.loss, record.gradientNorm);
  // After the update the parameters may all be bad, through a gradient norm
  // that is; where they are not, they say where it began.
  auto onRank = [&](const Bad &bad) {
    return comm.ranks() > 1 ? fmt::format(" on rank {}", bad.rank) : "";
  };
  if (Bad bad = firstBad(BufferKind::Parameter); bad.buffer >= 0)
    failTogether(fmt::format("{}\nfirst bad tensor after the update: parameter "
                             "'{}', index {}{} ({} of {} "
                             "parameters have a value that is not finite)",
                             head, manifest.buffers[bad.buffer].name,
                             bad.element, onRank(bad), bad.count,
                             manifest.ofKind(BufferKind::Parameter).size()));
  if (manifest.findEntry("gradients")) {
    batches->load(program, record.step);
    program.setStep(seed, record.step);
    program.call("gradients");
    if (Bad bad = firstBad(BufferKind::Gradient); bad.buffer >= 0)
      failTogether(fmt::format("{}\nall parameters are finite; first bad "
                               "tensor: gradient of '{}', index {}{}",
                               head, manifest.buffers[bad.buffer].name,
                               bad.element, onRank(bad)));
  }
  failTogether(fmt::format(
      "{}\nall parameters and gradients are finite: the loss itself overflows",
      head));
}

RunState Training::state() const {
  RunState state;
  state.step = done;
  state.seed = seed;
  state.order = order == DataOrder::Random ? "random" : "sequential";
  state.dataTokens = data ? data->size() : 0;
  for (int index : manifest.ofKind(BufferKind::Scalar))
    if (program.data(index))
      state.scalars[manifest.buffers[index].name] = program.value(index);
  return state;
}

void Training::checkpoint() {
  saveCheckpoint(program, state(), options.checkpoint);
  // The others wait for the root here, where nobody is told to hurry.
  comm.barrier();
  saved = done;
}

void Training::reportMemory() {
  // The ranks of this process together.
  auto promiseOf = [&](int64_t rank) {
    int64_t stage = manifest.stageOf(rank);
    int64_t bytes = manifest.entry("step").at(stage).arenaBytes;
    if (!options.evalData.empty())
      bytes = std::max(bytes, manifest.entry("loss").at(stage).arenaBytes);
    return bytes;
  };
  int64_t promise = 0;
  if (startedProcesses())
    promise = promiseOf(comm.rank);
  else
    for (int rank = 0; rank < comm.ranks(); ++rank)
      promise += promiseOf(rank);
  int64_t grown = peakMemory() - residentBefore;
  fmt::print("memory: before {} peak {} promised {} bytes; grown by {}, "
             "{:+.1f}% of the "
             "promise{}\n",
             residentBefore, peakMemory(), promise, bytesText(grown),
             promise ? 100.0 * (grown - promise) / promise : 0.0,
             peakWasReset ? "" : "; the peak is that of the whole process");
}

/// What each rank of a pipeline has and what was stated of it. All ranks call
/// it; the root prints.
void Training::reportRanks() {
  std::array<int64_t, 3> mine = {0, program.arenaTouched(),
                                 program.arenaBytes()};
  for (int index : program.entry("step").arguments)
    mine[0] += manifest.buffers[index].bytes;
  if (!isRoot) {
    comm.sendBytesTo(0, mine.data(), sizeof(mine));
    return;
  }
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    std::array<int64_t, 3> its = mine;
    if (rank > 0)
      comm.receiveBytesFrom(rank, its.data(), sizeof(its));
    const EntryInfo &entry = manifest.entry("step").at(manifest.stageOf(rank));
    fmt::print("rank {}: {} bytes: buffers {}, arena {} of {}", rank,
               its[0] + its[1], its[0], its[1], its[2]);
    if (entry.peakBytes > 0)
      fmt::print("; stated {}, at {}", entry.peakBytes, entry.peakAction);
    fmt::print("\n");
  }
}

void Training::reportTransfers() {
  for (const auto &[entry, counts] : comm.counts())
    for (const TransferCount &row : counts.rows)
      fmt::print(
          "{:>10.2f} {:>6} {:>9} {:>10.1f} {:>9} {:>9}  {} {} over {}, {} x "
          "{}\n",
          row.seconds * 1e3, "", row.count, row.seconds / row.count * 1e6, "-",
          fmt::format("{:.1f}", row.wireBytes * row.count / row.seconds / 1e9),
          entry, collectiveName(row.kind), fmt::join(row.axes, ","),
          row.elements, typeName(row.type));
}

void Training::finish(double started) {
  double time = seconds() - started;
  if (done > first) {
    double tokens = static_cast<double>(done - first) *
                    static_cast<double>(manifest.model.batch) *
                    static_cast<double>(manifest.model.sequence);
    if (losses.size() >= 2 && !options.quiet) {
      std::vector<double> values;
      for (auto [step, value] : losses)
        values.push_back(value);
      fmt::print("\nloss, steps {} to {}\n{}\n", first, done - 1,
                 plotText(values, 64, 10));
    }
    fmt::print("{} steps in {:.1f} s, {:.0f} tokens/s, loss {:.4f} -> {:.4f}\n",
               done - first, time, tokens / time, losses.front().second,
               losses.back().second);
    if (!evalLosses.empty())
      fmt::print("held-out loss {:.4f}\n", evalLosses.back().second);
    if (options.memoryReport)
      reportMemory();
  }
  if (!options.plot.empty())
    writeFile(options.plot,
              plotSvg(losses, evalLosses,
                      fmt::format("{}: loss", manifest.model.name)));
}

int Training::run() {
  chooseSteps();
  std::vector<int> parameters = manifest.ofKind(BufferKind::Parameter);
  SheafType type = SHEAF_F32;
  if (!parameters.empty() &&
      manifest.buffers[parameters[0]].type == SHEAF_F64) {
    type = SHEAF_F64;
    digits = 17;
  }
  // Before any buffer is there, so that its memory is free again. It also makes
  // BLAS allocate what it keeps for each thread.
  // The root measures for its machine, while the others wait.
  if (steps > 0) {
    if (isRoot && comm.ranks() > 1) {
      int local = localRanks(comm.ranks());
      ThreadPool pool(program.device.pool.threads() * local);
      peak = measurePeak(pool, type) * comm.ranks() / local;
    } else if (isRoot) {
      peak = measurePeak(program.device.pool, type);
    }
    comm.barrier();
  }
  start();
  if (steps > 0 && manifest.find(BufferKind::Result, "loss") < 0)
    fail("{}: has no result 'loss'", artifact.path);
  if (steps > 0 && first >= steps && isRoot)
    fmt::print(stderr, "nothing to do: the run has {} steps already\n", first);

  Log log(isRoot ? options.log : "", options.resume ? first : -1);
  MachineLimits limits = startProfile(options, program.device, manifest);
  Progress progress(first, steps, options.quiet || !isRoot);
  double started = seconds();
  losses.reserve(std::clamp<int64_t>(steps - first, 0, 1 << 20));

  // What was needed up to here goes back, so that the growth of the process
  // from here on is what the steps need.
  program.releaseArena();
#ifndef SHEAF_SANITIZED // their allocators have no part in glibc's
  malloc_trim(0);
#endif
  peakWasReset = resetPeakMemory();
  residentBefore = residentMemory();

  // A signal may come to one rank alone: all stop after the same step.
  int64_t signal = comm.agreeMax(stopSignal);
  while (done < steps && !signal) {
    StepRecord record = trainStep(done);
    if (!std::isfinite(record.loss) ||
        (!std::isfinite(record.gradientNorm) && !wasLeftOut(record))) {
      progress.finish();
      log.write(logLine(record, digits));
      explainNotFinite(record);
    }
    for (const auto &[name, value] : record.other)
      if (name == "expert_overflow" && value > 0) {
        progress.finish();
        log.write(logLine(record, digits));
        checkRoom(fmt::format("step {}", done), value);
      }
    ++done;
    losses.emplace_back(record.step, record.loss);
    signal = comm.agreeBetweenSteps(stopSignal);
    bool last = done == steps || signal;
    if (evalData &&
        (last || (options.evalEvery > 0 && done % options.evalEvery == 0))) {
      record.evalLoss = evaluate();
      evalLosses.emplace_back(record.step, *record.evalLoss);
    }
    log.write(logLine(record, digits));
    progress.show(record);
    if (options.checkpointEvery > 0 && done % options.checkpointEvery == 0)
      checkpoint();
  }
  progress.finish();
  if (signal && isRoot)
    fmt::print(stderr, "stopped by {} after step {} of {}\n",
               signal == SIGINT ? "Ctrl-C" : "a signal", done, steps);
  if (signal && isRoot && options.checkpoint.empty() && options.save.empty())
    fmt::print(
        stderr,
        "nothing was kept; --checkpoint=DIR keeps a run that ends early, "
        "--save=FILE its weights\n");
  if (!options.checkpoint.empty() && saved != done && steps > 0) {
    checkpoint();
    if (signal && isRoot)
      fmt::print(stderr, "checkpoint saved in {}; go on with --resume\n",
                 options.checkpoint);
  }
  if (!options.save.empty()) {
    saveWeights(program, options.save);
    comm.barrier();
  }
  if (isRoot)
    finish(started);
  if (options.memoryReport && done > first)
    reportRanks();
  finishProfile(options, program.device, limits);
  if (isRoot && options.profile && done > first)
    reportTransfers();
  if (options.sample > 0 && !signal)
    sampleTokens(options, program, seed);
  return signal ? static_cast<int>(128 + signal) : 0;
}
} // namespace

MachineLimits sheaf::startProfile(const RunOptions &options, CpuDevice &device,
                                  const Manifest &manifest) {
  MachineLimits limits;
  // The table is the root's; a trace shows all ranks.
  bool isRoot = device.communicator.isRoot();
  if (options.trace.empty() && !(options.profile && isRoot))
    return limits;
  if (options.profile && isRoot) {
    std::vector<int> parameters = manifest.ofKind(BufferKind::Parameter);
    bool wide = !parameters.empty() &&
                manifest.buffers[parameters[0]].type == SHEAF_F64;
    limits.flops = measurePeak(device.pool, wide ? SHEAF_F64 : SHEAF_F32);
    limits.bytes = measureCopy(device.pool);
  }
  device.profile.emplace(manifest, device.pool, !options.trace.empty());
  return limits;
}

/// The events of all ranks, on the root; the others send theirs.
static std::string gatherTrace(const Profile &profile, Communicator &comm) {
  int64_t zero = comm.agreeMin(profile.firstEvent());
  std::string events = profile.trace(comm.rank, zero);
  if (!comm.isRoot()) {
    auto size = static_cast<int64_t>(events.size());
    comm.sendBytesTo(0, &size, sizeof(size));
    comm.sendBytesTo(0, events.data(), size);
    return "";
  }
  std::string out =
      "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events;
  for (int rank = 1; rank < comm.ranks(); ++rank) {
    int64_t size = 0;
    comm.receiveBytesFrom(rank, &size, sizeof(size));
    events.resize(size);
    comm.receiveBytesFrom(rank, events.data(), size);
    out += ",\n" + events;
  }
  out += "\n]";
  if (std::string note = profile.traceNote(); !note.empty())
    out += fmt::format(", \"note\": \"{}\"", note);
  return out + "}\n";
}

void sheaf::finishProfile(const RunOptions &options, CpuDevice &device,
                          const MachineLimits &limits) {
  if (!device.profile)
    return;
  bool isRoot = device.communicator.isRoot();
  if (options.profile && isRoot)
    fmt::print("{}", device.profile->table(limits));
  if (!options.trace.empty()) {
    std::string trace = gatherTrace(*device.profile, device.communicator);
    if (isRoot)
      writeFile(options.trace, trace);
  }
  device.profile.reset();
}

int sheaf::train(const RunOptions &options, CpuDevice &device,
                 const Artifact &artifact) {
  return Training(options, device, artifact).run();
}
