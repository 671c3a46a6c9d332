//===- attention.cpp - Attention kernels against a large product ----------===//
//
// Prints the rate of the attention kernels, forward and backward, as a ratio to
// a 1024^3 product by OpenBLAS on the same number of threads in the same run.
// Runs alternate; the figures are medians. Products of attention are counted
// on the tiles computed; the time includes everything.
//
// Usage: attention-benchmark [runs] [vector bytes] [micro rows] [micro vectors]
//                            [tile queries] [tile keys]
//
//===----------------------------------------------------------------------===//

#include "KernelJit.h"

#include "lowering/cpu/attention/Attention.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

extern "C" {
void cblas_sgemm(int order, int transA, int transB, int m, int n, int k,
                 float alpha, const float *a, int lda, const float *b, int ldb,
                 float beta, float *c, int ldc);
void openblas_set_num_threads(int);
char *openblas_get_corename(void);
}

using namespace mlir;
using namespace sheaf::cpu;

namespace {

/// Runs a range of tasks on a fixed number of threads, one task at a time.
class Pool {
public:
  explicit Pool(int threads) {
    for (int i = 1; i < threads; ++i)
      workers.emplace_back([this] { serve(); });
  }
  ~Pool() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (std::thread &worker : workers)
      worker.join();
  }
  void run(int64_t tasks, int64_t taskGrain,
           std::function<void(int64_t, int64_t)> work) {
    {
      std::lock_guard lock(mutex);
      body = std::move(work);
      extent = tasks;
      grain = taskGrain;
      next = 0;
      pending = int(workers.size());
      ++generation;
    }
    wake.notify_all();
    drain();
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return pending == 0; });
  }

private:
  void drain() {
    while (true) {
      int64_t begin = next.fetch_add(grain);
      if (begin >= extent)
        return;
      body(begin, std::min(begin + grain, extent));
    }
  }
  void serve() {
    int seen = 0;
    while (true) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || generation != seen; });
        if (stop)
          return;
        seen = generation;
      }
      drain();
      std::lock_guard lock(mutex);
      if (--pending == 0)
        done.notify_one();
    }
  }
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake, done;
  std::function<void(int64_t, int64_t)> body;
  std::atomic<int64_t> next{0};
  int64_t extent = 0, grain = 1;
  int generation = 0, pending = 0;
  bool stop = false;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<float> randomArray(int64_t count) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(normal(random));
  return result;
}

} // namespace

int main(int argc, char **argv) {
  auto option = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  auto features = llvm::sys::getHostCPUFeatures();
  AttentionTuning tuning =
      AttentionTuning::forTarget(features.lookup("avx512f"));
  int runs = option(1, 11);
  tuning.vectorBytes = option(2, int(tuning.vectorBytes));
  tuning.microRows = option(3, 0);
  tuning.microVectors = option(4, 0);
  tuning.tileQueries = option(5, 0);
  tuning.tileKeys = option(6, 0);

  auto context = sheaf::test::createContext();
  openblas_set_num_threads(1);
  std::printf("OpenBLAS kernel %s, vectors of %ld bytes, medians of %d "
              "alternating runs\n",
              openblas_get_corename(), long(tuning.vectorBytes), runs);

  struct Shape {
    const char *name;
    AttentionSpec spec;
  };
  std::vector<Shape> shapes;
  AttentionSpec base;
  base.elementType = Float32Type::get(context.get());
  base.heads = base.kvHeads = 8;
  base.queries = base.keys = 1024;
  base.headDim = base.valueDim = 64;
  base.scale = 0.125;
  base.causal = true;
  shapes.push_back({"8 heads, s=1024, d=64, causal", base});
  AttentionSpec full = base;
  full.causal = false;
  shapes.push_back({"the same, not causal", full});
  AttentionSpec grouped = base;
  grouped.kvHeads = 2, grouped.headDim = grouped.valueDim = 128;
  grouped.scale = 0.088388;
  shapes.push_back({"8 heads, 2 kv heads, s=1024, d=128, causal", grouped});
  AttentionSpec ragged = base;
  ragged.queries = ragged.keys = 1000, ragged.headDim = ragged.valueDim = 80;
  shapes.push_back({"8 heads, s=1000, d=80, causal", ragged});

  constexpr int64_t n = 1024;
  std::vector<float> a = randomArray(n * n), b = randomArray(n * n),
                     c(size_t(n * n), 0.f);
  auto seconds = [](auto &&work) {
    auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };

  for (Shape &shape : shapes) {
    const AttentionSpec &s = shape.spec;
    OpBuilder builder(context.get());
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    auto forward = buildAttentionForward(builder, builder.getUnknownLoc(),
                                         "forward", s, tuning);
    auto backward = buildAttentionBackward(builder, builder.getUnknownLoc(),
                                           "backward", s, tuning);
    auto pieces = attentionBackwardPieces(builder.getUnknownLoc(), s, tuning);
    if (failed(forward) || failed(backward) || failed(pieces))
      return 1;
    BuiltKernel sum;
    if (*pieces > 1) {
      auto built = buildAttentionQueryGradientSum(
          builder, builder.getUnknownLoc(), "sum", s, tuning);
      if (failed(built))
        return 1;
      sum = *built;
    }
    sheaf::test::KernelJit jit(*module);

    int64_t queries = s.batch * s.queries * s.heads;
    int64_t keys = s.batch * s.keys * s.kvHeads;
    std::vector<float> q = randomArray(queries * s.headDim),
                       k = randomArray(keys * s.headDim),
                       v = randomArray(keys * s.valueDim),
                       dout = randomArray(queries * s.valueDim);
    std::vector<float> out(dout.size()), lse(static_cast<size_t>(queries)),
        dq(q.size()), dk(k.size()), dv(v.size()),
        dqPieces(*pieces > 1 ? size_t(*pieces) * q.size() : 0);

    for (int threads : {1, 2}) {
      Pool pool(threads);
      auto product = [&] {
        // Each thread makes blocks of rows with one BLAS thread, as the
        // runtime does.
        int64_t rows = n / threads;
        pool.run(threads, 1, [&](int64_t begin, int64_t end) {
          cblas_sgemm(101, 111, 111, int((end - begin) * rows), n, n, 1.f,
                      a.data() + begin * rows * n, n, b.data(), n, 0.f,
                      c.data() + begin * rows * n, n);
        });
      };
      auto call = [&](const char *name, const BuiltKernel &kernel,
                      std::vector<float *> data) {
        auto function = jit.lookup(name);
        pool.run(kernel.extent, kernel.grain, [&](int64_t begin, int64_t end) {
          std::vector<void *> packed;
          for (float *&pointer : data)
            packed.push_back(&pointer);
          packed.push_back(&begin);
          packed.push_back(&end);
          function(packed.data());
        });
      };
      auto runForward = [&] {
        call("forward", *forward,
             {q.data(), k.data(), v.data(), out.data(), lse.data()});
      };
      auto runBackward = [&] {
        call("backward", *backward,
             {q.data(), k.data(), v.data(), out.data(), lse.data(), dout.data(),
              *pieces > 1 ? dqPieces.data() : dq.data(), dk.data(), dv.data()});
        if (*pieces > 1)
          call("sum", sum, {dqPieces.data(), dq.data()});
      };
      product(), runForward(), runBackward();
      std::vector<double> times[3];
      for (int run = 0; run < runs; ++run) {
        times[0].push_back(seconds(product));
        times[1].push_back(seconds(runForward));
        times[2].push_back(seconds(runBackward));
      }
      double rate = 2.0 * n * n * n / median(times[0]);
      double forwardRate = forward->flops / median(times[1]);
      double backwardRate = backward->flops / median(times[2]);
      std::printf("%s, %d thread%s: sgemm %.1f GFLOP/s; forward %.2f ms, %.1f "
                  "GFLOP/s, ratio %.2f; backward %.2f ms, %.1f GFLOP/s, ratio "
                  "%.2f\n",
                  shape.name, threads, threads == 1 ? "" : "s", rate * 1e-9,
                  median(times[1]) * 1e3, forwardRate * 1e-9,
                  forwardRate / rate, median(times[2]) * 1e3,
                  backwardRate * 1e-9, backwardRate / rate);
      std::fflush(stdout);
    }
  }
  return 0;
}
