#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include "sheaf/Matmul.h"
#include "sheaf/Mpi.h"
#include "sheaf/Training.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>

using namespace sheaf;

namespace {
/// Ranks that do not come back after another has failed are left alone then.
constexpr std::chrono::seconds patience(8);

std::string meshText(const Manifest &manifest) {
  std::vector<std::string> axes;
  for (const MeshAxis &axis : manifest.mesh.axes)
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return axes.empty() ? "" : fmt::format(" (mesh {})", fmt::join(axes, ","));
}

int run(const RunOptions &options, CpuDevice &device,
        const std::function<int(CpuDevice &)> &body) {
  device.watchesGathered =
      !options.collectives.empty() && device.communicator.isRoot();
  int status = body(device);
  if (!options.collectives.empty() && device.communicator.isRoot())
    writeFile(options.collectives, countsJson(device.communicator));
  return status;
}

/// What a rank's exception says; empty where another rank's failure is behind
/// it.
std::string messageOf(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerError &) {
    return "";
  } catch (const std::bad_alloc &) {
    return "out of memory";
  } catch (const std::exception &other) {
    return other.what();
  }
}

int onThreads(const RunOptions &options, const Artifact &artifact,
              const std::function<int(CpuDevice &)> &body) {
  int ranks = static_cast<int>(artifact.manifest.ranks);
  int threads =
      options.threads ? options.threads : std::max(1, availableCores() / ranks);
  ThreadWorld world(artifact.manifest.mesh, options.waitLimit);
  if (options.transferDelays)
    for (int rank = 0; rank < ranks; ++rank)
      world.rank(rank).delayTransfers(*options.transferDelays);
  if (ranks == 1) {
    CpuDevice device(threads, world.rank(0), 1);
    checkBlas(device.pool);
    return run(options, device, body);
  }

  std::mutex mutex;
  std::condition_variable changed;
  int ended = 0, status = 1;
  bool failed = false;
  std::vector<std::string> messages(ranks);
  auto runRank = [&](int rank) {
    Communicator &communicator = world.rank(rank);
    std::string message;
    bool isGood = false;
    try {
      CpuDevice device(threads, communicator, ranks);
      // BLAS is the process's, so one check is enough; it also sets it up
      // before the ranks call it at the same time.
      if (rank == 0)
        checkBlas(device.pool);
      communicator.barrier();
      int code = run(options, device, body);
      isGood = true;
      if (rank == 0)
        status = code;
    } catch (...) {
      message = messageOf(std::current_exception());
      if (!message.empty())
        communicator.abort(message);
    }
    communicator.abandon();
    communicator.end();
    std::lock_guard<std::mutex> lock(mutex);
    messages[rank] = message;
    failed |= !isGood;
    ended += 1;
    changed.notify_all();
  };
  std::vector<std::thread> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.emplace_back(runRank, rank);
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return ended == ranks || failed; });
  bool areBack =
      changed.wait_for(lock, patience, [&] { return ended == ranks; });
  if (failed) {
    auto [rank, message] = world.failure();
    // What all ranks say, such as that a file is missing, is no rank's own.
    bool isShared =
        std::all_of(messages.begin(), messages.end(),
                    [&](const std::string &m) { return m == messages[0]; });
    std::string head =
        isShared || rank == 0 ? "" : fmt::format("rank {}: ", rank);
    fmt::print(stderr, "sheaf-run: error: {}{}\n", head, message);
    std::fflush(nullptr);
    if (!areBack)
      _exit(1);
  }
  lock.unlock();
  for (std::thread &thread : all)
    thread.join();
  return failed ? 1 : status;
}

int onProcess(const RunOptions &options, const Artifact &artifact,
              const std::function<int(CpuDevice &)> &body) {
  MpiProcess mpi;
  if (mpi.size() != artifact.manifest.ranks) {
    // One of them says it.
    if (mpi.rank() == 0)
      fmt::print(
          stderr,
          "sheaf-run: error: {}: compiled for {} rank{}{}, started as {} "
          "process{}; "
          "use mpirun -n {}, or start without mpirun to run them as threads\n",
          artifact.path, artifact.manifest.ranks,
          artifact.manifest.ranks == 1 ? "" : "s", meshText(artifact.manifest),
          mpi.size(), mpi.size() == 1 ? "" : "es", artifact.manifest.ranks);
    mpi.finish();
    return 1;
  }
  // A process that mpirun has bound has its cores to itself.
  int cores = availableCores(), machine = processesOnMachine();
  bool isBound = cores < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  int threads = options.threads ? options.threads
                : isBound       ? cores
                                : std::max(1, cores / machine);
  try {
    std::unique_ptr<Communicator> communicator =
        mpi.communicator(artifact.manifest.mesh);
    communicator->limitWaits(options.waitLimit);
    if (options.transferDelays)
      communicator->delayTransfers(*options.transferDelays);
    int status;
    {
      CpuDevice device(threads, *communicator, isBound ? 1 : machine);
      checkBlas(device.pool);
      communicator->barrier();
      status = run(options, device, body);
    }
    communicator->end();
    mpi.finish();
    return status;
  } catch (...) {
    std::string message = messageOf(std::current_exception());
    // What all ranks meet, the root says.
    if (mpi.rank() != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (!message.empty())
      fmt::print(stderr, "sheaf-run: error: {}{}\n",
                 mpi.rank() > 0 ? fmt::format("rank {}: ", mpi.rank()) : "",
                 message);
    std::fflush(nullptr);
    mpi.abort();
  }
}
} // namespace

int sheaf::localRanks(int ranks) {
  return startedProcesses() ? std::min(ranks, processesOnMachine()) : ranks;
}

int sheaf::onRanks(const RunOptions &options, const Artifact &artifact,
                   const std::function<int(CpuDevice &)> &body) {
  return startedProcesses() ? onProcess(options, artifact, body)
                            : onThreads(options, artifact, body);
}
