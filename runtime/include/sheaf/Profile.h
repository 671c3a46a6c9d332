//===- Profile.h - where the time of a run goes -----------------*- C++ -*-===//
//
// Times of kernels, products and copies, beside what this machine can do: the
// table of --profile and the events of --trace. Both are taken by the device,
// call by call, on the thread that runs the entry; a trace also has what each
// thread of the pool did.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PROFILE_H
#define SHEAF_PROFILE_H

#include "sheaf/Manifest.h"
#include "sheaf/ThreadPool.h"
#include "sheaf/abi.h"
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sheaf {

/// What one kernel, product, or the copies together cost so far.
struct KernelTime {
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0, bytes = 0; ///< of all calls
};

/// What the machine can do, measured just before the run with its threads.
struct MachineLimits {
  double flops = 0; ///< of a large product, a second
  double bytes = 0; ///< of a large copy, read and written, a second
};

/// Bytes a second, read plus written, of a copy on all threads between touched
/// arrays of 256 MiB, which no core keeps in its caches; smaller ones where
/// there is no memory for that. The best of several.
double measureCopy(ThreadPool &pool);

class Profile {
public:
  /// For the kernels of `manifest`. With `traced`, also keeps each call.
  Profile(const Manifest &manifest, ThreadPool &pool, bool traced);
  ~Profile();
  Profile(const Profile &) = delete;
  Profile &operator=(const Profile &) = delete;

  /// Indices behind the manifest's kernels.
  int64_t copyIndex() const { return kernels; }
  int64_t zeroIndex() const { return kernels + 1; }

  /// Around each call of an entry: what lies between is called a step.
  void beginStep(const std::string &name);
  void endStep();
  /// Around each call of a kernel. `bytes` counts where the manifest has no
  /// figure, as for copies; `flops` in place of the manifest's, where the sizes
  /// are data.
  void begin();
  void end(int64_t index, double bytes = 0,
           std::optional<double> flops = std::nullopt);

  /// An action of the pipeline's schedule begins, or with -1 ends. Where an
  /// action begins again right behind itself, it goes on.
  void mark(int64_t action);
  /// A transfer has been started; behind `begin`, it has been waited for.
  void started(int64_t handle, const SheafCollective &collective);
  void waited(int64_t handle);

  const std::vector<KernelTime> &times() const { return sums; }

  /// The table: a row for each kernel with its time a step, its rates, and its
  /// share of the machine's limit, which is the time that its FLOPs take at the
  /// rate of a large product, or its bytes at that of a copy, whichever is
  /// longer, over the time that it took.
  std::string table(const MachineLimits &limits) const;

  /// When the first event began, in ns; the largest number where there is none.
  int64_t firstEvent() const;
  /// Chrome's trace events as JSON objects, a line each with commas between,
  /// which Perfetto opens too: a process for the rank; in it a track for the
  /// steps, one for the calls in order, one for each thread with its part of
  /// each call; for a pipeline one for the actions of the schedule, and where
  /// something was sent one for the starts of transfers and waits for them.
  /// Times are microseconds from `zero`.
  std::string trace(int rank, int64_t zero) const;
  /// What a trace that does not hold all steps says of itself; else empty.
  std::string traceNote() const;

private:
  struct Event {
    int32_t track; ///< 0: steps, 1: calls, 2...: threads, and the two below
    int32_t index; ///< kernel, step, action, or collective
    int64_t begin, end; ///< ns
    int64_t amount;   ///< bytes of a copy or transfer, tasks of a thread's part
    double flops;     ///< of a call
    int32_t kind = 0; ///< of a transfer; waits have -1 - kind
  };
  int32_t actionTrack() const { return pool.threads() + 2; }
  int32_t transferTrack() const { return pool.threads() + 3; }
  bool takesEvents() const;
  const Manifest &manifest;
  ThreadPool &pool;
  int64_t kernels;
  bool traced, full = false;
  std::vector<KernelTime> sums;
  std::vector<std::string> steps;
  double stepSeconds = 0;
  int64_t stepBegin = 0, callBegin = 0;
  size_t stepEvents = 0; ///< number of events when the step began
  std::vector<Event> events;
  std::vector<ThreadPool::Span> spans;
  /// The action that runs, the one before it, and where its event is.
  int64_t running = -1, last = -1, actionBegin = 0;
  size_t actionEvent = SIZE_MAX;
  /// By stage and part, in the order of the first: calls and seconds.
  std::vector<std::pair<std::string, KernelTime>> actions;
  struct Open {
    int32_t id, kind;
    int64_t bytes;
  };
  std::map<int64_t, Open> open; ///< transfers by handle

  std::string nameOf(int64_t index) const;
};

} // namespace sheaf

#endif // SHEAF_PROFILE_H
