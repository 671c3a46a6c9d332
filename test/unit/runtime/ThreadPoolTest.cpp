#include "sheaf/ThreadPool.h"
#include <gtest/gtest.h>
#include <numeric>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace sheaf;

// Every task runs exactly once, whatever the number of tasks and threads.
TEST(ThreadPool, RunsEachTaskOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 5, 64, 1001}) {
      std::vector<int> runs(count, 0);
      pool.run(count, [&](int64_t i) { runs[i] += 1; });
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(runs[i], 1) << i << " of " << count;
    }
  }
}

// Many short jobs one after the other: a late worker must never run a task of
// a job that is over, and each job sees what the last one wrote.
TEST(ThreadPool, JobsFollowOneAnother) {
  for (int threads : {2, 4}) {
    ThreadPool pool(threads);
    std::vector<int64_t> values(16, 0);
    for (int round = 0; round < 5000; ++round) {
      int64_t count = 1 + round % 16;
      pool.run(count, [&](int64_t i) { values[i] += round; });
    }
    std::vector<int64_t> expected(16, 0);
    for (int round = 0; round < 5000; ++round)
      for (int64_t i = 0; i < 1 + round % 16; ++i)
        expected[i] += round;
    EXPECT_EQ(values, expected);
  }
}

// Workers that went to sleep wake up for the next job.
TEST(ThreadPool, WakesSleepers) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> runs{0};
    pool.run(100, [&](int64_t) { ++runs; });
    EXPECT_EQ(runs, 100);
  }
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
// What tasks write past the caches is there when run() returns.
TEST(ThreadPool, NonTemporalStoresAreVisible) {
  ThreadPool pool(2);
  std::vector<int> data(1 << 16);
  for (int round = 1; round < 200; ++round) {
    pool.run(64, [&](int64_t task) {
      for (int64_t i = task * 1024; i < (task + 1) * 1024; ++i)
        _mm_stream_si32(&data[i], round);
    });
    for (int value : data)
      ASSERT_EQ(value, round);
  }
}
#endif
