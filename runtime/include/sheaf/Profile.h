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
#include <array>
#include <cstdint>
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

  const std::vector<KernelTime> &times() const { return sums; }

  /// The table: a row for each kernel with its time a step, its rates, and its
  /// share of the machine's limit, which is the time that its FLOPs take at the
  /// rate of a large product, or its bytes at that of a copy, whichever is
  /// longer, over the time that it took.
  std::string table(const MachineLimits &limits) const;

  /// Chrome's trace events as JSON, which Perfetto opens too: a track for the
  /// steps, one for the calls in order, one for each thread with its part of
  /// each call. Times are microseconds from the first step.
  std::string trace() const;

private:
  struct Event {
    int32_t track;      ///< 0: steps, 1: calls, 2...: threads
    int32_t index;      ///< kernel, or step
    int64_t begin, end; ///< ns
    int64_t amount;     ///< bytes of a copy, tasks of a thread's part
    double flops;       ///< of a call
  };
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

  std::string nameOf(int64_t index) const;
};

} // namespace sheaf

#endif // SHEAF_PROFILE_H
