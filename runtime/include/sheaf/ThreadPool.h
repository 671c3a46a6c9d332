//===- ThreadPool.h - the threads that run a device's tasks -----*- C++ -*-===//
//
// A fixed set of threads, the caller among them, that runs the tasks of one
// job at a time. Which thread runs which task is not fixed, so tasks must not
// depend on it: everything that decides a result is cut by shape alone.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_THREADPOOL_H
#define SHEAF_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sheaf {

/// Cores that this process may run on, at least 1.
int availableCores();

class ThreadPool {
public:
  /// A pool of `threads` >= 1, the caller of run() included. `pools` are as
  /// many like it as share the cores: waiting threads spin only where each has
  /// one.
  explicit ThreadPool(int threads, int pools = 1);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return static_cast<int>(workers.size()) + 1; }

  /// Calls task(i) for every i in [0, count), and returns when all are done;
  /// what they wrote, with non-temporal stores too, is then visible to the
  /// caller and to the tasks of later jobs. One job at a time; tasks must not
  /// throw.
  template <typename Task>
  void run(int64_t count, const Task &task) {
    runErased(
        count,
        [](const void *context, int64_t index) {
          (*static_cast<const Task *>(context))(index);
        },
        &task);
  }

  /// The tasks that one thread ran: from the first one's begin to the last
  /// one's end, in nanoseconds of the steady clock.
  struct alignas(64) Span {
    int64_t begin = 0, end = 0, tasks = 0;
  };
  /// From now on adds each task to the span of its thread, of which there is
  /// one for each; none is written between two jobs. Null: no longer.
  void watch(Span *spans) { watched.store(spans, std::memory_order_relaxed); }

private:
  using Function = void (*)(const void *context, int64_t index);

  void runErased(int64_t count, Function function, const void *context);
  void runBlock(uint32_t count, int64_t base, Function function,
                const void *context);
  bool runOne(int thread);
  void workerLoop(int thread);
  void runTask(Function function, const void *context, int64_t index,
               int thread);

  // The ticket is (job number << 32 | tasks not yet claimed). A thread reads
  // the ticket, then the job, then claims a task by compare-and-swap of the
  // ticket: if that succeeds, the job was not replaced in between, because a
  // job is replaced only after its last task is claimed.
  std::atomic<uint64_t> ticket{0};
  std::atomic<Function> function{nullptr};
  std::atomic<const void *> context{nullptr};
  std::atomic<int64_t> base{0};
  std::atomic<uint32_t> count{0};
  std::atomic<uint32_t> finished{0};
  std::atomic<Span *> watched{nullptr};

  bool spin; // waiting threads spin for a while before they sleep
  std::atomic<int> sleepers{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;
};

} // namespace sheaf

#endif // SHEAF_THREADPOOL_H
