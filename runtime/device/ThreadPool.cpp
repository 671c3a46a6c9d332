#include "sheaf/ThreadPool.h"
#include <algorithm>
#include <chrono>
#include <limits>
#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace sheaf;

namespace {
void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Makes non-temporal stores of this thread visible before its next store.
void fenceStores() {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// About 30 microseconds: longer than the gap between two kernels of a step,
/// shorter than what a sleeping thread costs the next job.
constexpr int spinRounds = 2000;
} // namespace

int sheaf::availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int threads, int pools)
    : spin(int64_t{threads} * pools <= availableCores()) {
  for (int i = 1; i < threads; ++i)
    workers.emplace_back([this, i] { workerLoop(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping.store(true);
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::runTask(Function f, const void *c, int64_t index, int thread) {
  Span *spans = watched.load(std::memory_order_relaxed);
  if (!spans)
    return f(c, index);
  auto now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  Span &span = spans[thread];
  if (span.tasks++ == 0)
    span.begin = now();
  f(c, index);
  span.end = now();
}

bool ThreadPool::runOne(int thread) {
  uint64_t seen = ticket.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(seen) != 0) {
    Function f = function.load(std::memory_order_relaxed);
    const void *c = context.load(std::memory_order_relaxed);
    int64_t first = base.load(std::memory_order_relaxed);
    uint32_t total = count.load(std::memory_order_relaxed);
    // The reads above must not move behind the claim.
    if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      continue;
    runTask(f, c, first + (total - static_cast<uint32_t>(seen)), thread);
    fenceStores();
    if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 == total)
      finished.notify_all();
    return true;
  }
  return false;
}

void ThreadPool::workerLoop(int thread) {
  int idle = 0;
  while (true) {
    if (runOne(thread)) {
      idle = 0;
      continue;
    }
    if (stopping.load(std::memory_order_relaxed))
      return;
    if (spin && ++idle < spinRounds) {
      relax();
      continue;
    }
    std::unique_lock<std::mutex> lock(mutex);
    // Announced before the ticket is looked at: whoever publishes a job either
    // sees the sleeper, or the sleeper sees the job.
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [this] {
      return stopping.load() ||
             static_cast<uint32_t>(ticket.load(std::memory_order_seq_cst)) != 0;
    });
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
    idle = 0;
  }
}

void ThreadPool::runErased(int64_t total, Function f, const void *c) {
  if (workers.empty() || total <= 1) {
    for (int64_t i = 0; i < total; ++i)
      runTask(f, c, i, 0);
    fenceStores();
    return;
  }
  constexpr int64_t block = std::numeric_limits<int32_t>::max();
  for (int64_t first = 0; first < total; first += block)
    runBlock(static_cast<uint32_t>(std::min(block, total - first)), first, f,
             c);
}

void ThreadPool::runBlock(uint32_t total, int64_t first, Function f,
                          const void *c) {
  function.store(f, std::memory_order_relaxed);
  context.store(c, std::memory_order_relaxed);
  base.store(first, std::memory_order_relaxed);
  count.store(total, std::memory_order_relaxed);
  finished.store(0, std::memory_order_relaxed);
  uint64_t job = (ticket.load(std::memory_order_relaxed) >> 32) + 1;
  ticket.store(job << 32 | total, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0) {
    {
      std::lock_guard<std::mutex> lock(mutex);
    }
    wake.notify_all();
  }
  while (runOne(0)) {
  }
  int rounds = 0;
  while (true) {
    uint32_t done = finished.load(std::memory_order_acquire);
    if (done == total)
      return;
    if (spin && ++rounds < spinRounds)
      relax();
    else
      finished.wait(done, std::memory_order_acquire);
  }
}
