//===- KernelsBenchmark.cpp - Kernels against a copy ----------------------===//
//
//   kernels-benchmark [threads (default 2)] [name]
//
// Prints, for kernels of GPT-2's sizes, the time, GB/s (reads and writes of
// each operand once) and the ratio to a threaded copy that alternates with it
// in the same run: medians of 9.
//
//===----------------------------------------------------------------------===//

#include "Jit.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

using namespace mlir;
using namespace sheaf::test;

namespace {

struct Case {
  const char *name;
  /// The body of a module, on arguments that are filled with small numbers.
  const char *text;
};

const Case kCases[] = {
    {"rms_norm", R"(
func.func @rms_norm_bench(%x: tensor<8192x1024xf32>, %s: tensor<1024xf32>) -> tensor<8192x1024xf32> attributes {exec.kernel} {
  %y = nn.rms_norm %x, %s eps 1.0e-5 : (tensor<8192x1024xf32>, tensor<1024xf32>) -> tensor<8192x1024xf32>
  return %y : tensor<8192x1024xf32>
})"},
    {"layer_norm", R"(
func.func @layer_norm_bench(%x: tensor<8192x1024xf32>, %s: tensor<1024xf32>, %b: tensor<1024xf32>) -> tensor<8192x1024xf32> attributes {exec.kernel} {
  %y = nn.layer_norm %x, %s, %b eps 1.0e-5 : (tensor<8192x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<8192x1024xf32>
  return %y : tensor<8192x1024xf32>
})"},
    {"softmax", R"(
func.func @softmax_bench(%x: tensor<8192x1024xf32>) -> tensor<8192x1024xf32> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<8192x1024xf32>
  return %y : tensor<8192x1024xf32>
})"},
    {"cross_entropy", R"(
func.func @cross_entropy_bench(%x: tensor<512x50257xf32>, %t: tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>) attributes {exec.kernel} {
  %l, %e = nn.cross_entropy %x, %t : (tensor<512x50257xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  return %l, %e : tensor<512xf32>, tensor<512xf32>
})"},
    {"cross_entropy_grad", R"(
func.func @cross_entropy_grad_bench(%x: tensor<512x50257xf32>, %t: tensor<512xi32>, %l: tensor<512xf32>, %g: tensor<512xf32>) -> tensor<512x50257xf32> attributes {exec.kernel} {
  %d = nn.cross_entropy_grad %x, %t, %l grad %g : (tensor<512x50257xf32>, tensor<512xi32>, tensor<512xf32>, tensor<512xf32>) -> tensor<512x50257xf32>
  return %d : tensor<512x50257xf32>
})"},
    {"adamw", R"(
func.func @adamw_bench(%p: tensor<4096x2048xf32>, %g: tensor<4096x2048xf32>, %m: tensor<4096x2048xf32>, %v: tensor<4096x2048xf32>, %lr: tensor<f32>, %b1: tensor<f32>, %b2: tensor<f32>, %eps: tensor<f32>, %wd: tensor<f32>, %c1: tensor<f32>, %c2: tensor<f32>, %s: tensor<f32>) -> (tensor<4096x2048xf32>, tensor<4096x2048xf32>, tensor<4096x2048xf32>) attributes {exec.kernel} {
  %p1, %m1, %v1 = nn.adamw %p, %g, %m, %v lr %lr beta1 %b1 beta2 %b2 eps %eps decay %wd corrections %c1, %c2 grad_scale %s : (tensor<4096x2048xf32>, tensor<4096x2048xf32>, tensor<4096x2048xf32>, tensor<4096x2048xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4096x2048xf32>, tensor<4096x2048xf32>, tensor<4096x2048xf32>)
  return %p1, %m1, %v1 : tensor<4096x2048xf32>, tensor<4096x2048xf32>, tensor<4096x2048xf32>
})"},
    {"gelu_bias", R"(
func.func @gelu_bias_bench(%x: tensor<4096x3072xf32>, %b: tensor<3072xf32>) -> tensor<4096x3072xf32> attributes {exec.kernel} {
  %h = nn.add %x, %b : (tensor<4096x3072xf32>, tensor<3072xf32>) -> tensor<4096x3072xf32>
  %y = nn.gelu_tanh %h : tensor<4096x3072xf32>
  return %y : tensor<4096x3072xf32>
})"},
    {"layer_norm_grad", R"(
func.func @layer_norm_grad_bench(%x: tensor<8192x1024xf32>, %dy: tensor<8192x1024xf32>, %s: tensor<1024xf32>) -> tensor<8192x1024xf32> attributes {exec.kernel} {
  %m = nn.reduce mean %x dims [1] keep : (tensor<8192x1024xf32>) -> tensor<8192x1xf32>
  %c = nn.sub %x, %m : (tensor<8192x1024xf32>, tensor<8192x1xf32>) -> tensor<8192x1024xf32>
  %q = nn.mul %c, %c : tensor<8192x1024xf32>
  %v = nn.reduce mean %q dims [1] keep : (tensor<8192x1024xf32>) -> tensor<8192x1xf32>
  %r = nn.rsqrt %v : tensor<8192x1xf32>
  %n = nn.mul %c, %r : (tensor<8192x1024xf32>, tensor<8192x1xf32>) -> tensor<8192x1024xf32>
  %g = nn.mul %dy, %s : (tensor<8192x1024xf32>, tensor<1024xf32>) -> tensor<8192x1024xf32>
  %gn = nn.mul %g, %n : tensor<8192x1024xf32>
  %a = nn.reduce mean %g dims [1] keep : (tensor<8192x1024xf32>) -> tensor<8192x1xf32>
  %b = nn.reduce mean %gn dims [1] keep : (tensor<8192x1024xf32>) -> tensor<8192x1xf32>
  %d = nn.sub %g, %a : (tensor<8192x1024xf32>, tensor<8192x1xf32>) -> tensor<8192x1024xf32>
  %e = nn.mul %n, %b : (tensor<8192x1024xf32>, tensor<8192x1xf32>) -> tensor<8192x1024xf32>
  %f = nn.sub %d, %e : tensor<8192x1024xf32>
  %y = nn.mul %f, %r : (tensor<8192x1024xf32>, tensor<8192x1xf32>) -> tensor<8192x1024xf32>
  return %y : tensor<8192x1024xf32>
})"},
    {"bias_grad", R"(
func.func @bias_grad_bench(%x: tensor<8192x3072xf32>) -> tensor<3072xf32> attributes {exec.kernel} {
  %y = nn.reduce sum %x dims [0] : (tensor<8192x3072xf32>) -> tensor<3072xf32>
  return %y : tensor<3072xf32>
})"},
    {"transpose", R"(
func.func @transpose_bench(%x: tensor<4096x3072xf32>) -> tensor<3072x4096xf32> attributes {exec.kernel} {
  %y = nn.transpose %x [1, 0] : (tensor<4096x3072xf32>) -> tensor<3072x4096xf32>
  return %y : tensor<3072x4096xf32>
})"},
    {"embedding_grad", R"(
func.func @embedding_grad_bench(%g: tensor<8192x768xf32>, %i: tensor<8192xi32>) -> tensor<50257x768xf32> attributes {exec.kernel} {
  %y = nn.gather_grad %g[%i] axis 0 : (tensor<8192x768xf32>, tensor<8192xi32>) -> tensor<50257x768xf32>
  return %y : tensor<50257x768xf32>
})"},
    {"rotary", R"(
func.func @rotary_bench(%x: tensor<8x1024x16x64xf32>, %p: tensor<1024xi32>) -> tensor<8x1024x16x64xf32> attributes {exec.kernel} {
  %y = nn.rotary %x, %p theta 10000.0 : (tensor<8x1024x16x64xf32>, tensor<1024xi32>) -> tensor<8x1024x16x64xf32>
  return %y : tensor<8x1024x16x64xf32>
})"},
    {"normal", R"(
func.func @normal_bench(%key: tensor<4xi32>, %stream: tensor<i32>) -> tensor<4096x2048xf32> attributes {exec.kernel} {
  %y = nn.random normal %key, %stream : (tensor<4xi32>, tensor<i32>) -> tensor<4096x2048xf32>
  return %y : tensor<4096x2048xf32>
})"},
};

/// Runs `task` for each of `count` tasks on some threads.
void parallel(int threads, int64_t count,
              const std::function<void(int64_t)> &task) {
  std::atomic<int64_t> next{0};
  auto work = [&] {
    for (int64_t i; (i = next++) < count;)
      task(i);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(work);
  work();
  for (std::thread &thread : others)
    thread.join();
}

double seconds(const std::function<void()> &body) {
  auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

char *allocate(size_t bytes) {
  return static_cast<char *>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
}

bool run(const Case &test, int threads) {
  auto context = Jit::makeContext();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(test.text, context.get());
  if (!module)
    return false;
  auto function = *module->getOps<func::FuncOp>().begin();
  std::vector<void *> buffers;
  auto add = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    int64_t count = tensor.getNumElements();
    char *data = allocate(count * 4);
    for (int64_t i = 0; i < count; ++i) {
      int32_t integer = static_cast<int32_t>((i * 2654435761u) >> 8) % 1000;
      float number = 0.5f + static_cast<float>(std::abs(integer)) / 1000;
      std::memcpy(data + 4 * i,
                  tensor.getElementType().isF32()
                      ? static_cast<void *>(&number)
                      : static_cast<void *>(&integer),
                  4);
    }
    buffers.push_back(data);
  };
  for (Type type : function.getArgumentTypes())
    add(type);
  for (Type type : function.getResultTypes())
    add(type);
  size_t inputs = function.getNumArguments();
  std::string error;
  double compile = 0;
  std::unique_ptr<Jit> jit;
  compile = seconds([&] { jit = Jit::compile(*module, error); });
  if (!jit) {
    llvm::errs() << test.name << ": " << error << "\n";
    return false;
  }
  const CompiledKernel &kernel = jit->getKernels()[0];
  // In place where the kernel may be, as the compiler does for updates.
  if (StringRef(test.name) == "adamw")
    for (size_t i = 0; i < 3; ++i)
      buffers[inputs + i] = buffers[i == 0 ? 0 : i + 1];

  constexpr int64_t kCopy = 256 << 20, kBlock = 1 << 20;
  static char *from = allocate(kCopy), *to = allocate(kCopy);
  static bool touched =
      (std::memset(from, 1, kCopy), std::memset(to, 2, kCopy), true);
  (void)touched;
  int64_t tasks = (kernel.extent + kernel.grain - 1) / kernel.grain;
  std::vector<double> kernelTimes, copyTimes;
  for (int repeat = 0; repeat < 10; ++repeat) {
    double k = seconds([&] {
      parallel(threads, tasks, [&](int64_t task) {
        int64_t begin = task * kernel.grain;
        kernel.entry(buffers.data(), begin,
                     std::min(begin + kernel.grain, kernel.extent));
      });
    });
    double c = seconds([&] {
      parallel(threads, kCopy / kBlock, [&](int64_t block) {
        // Plain stores, eight bytes an element.
        auto *source = reinterpret_cast<const double *>(from + block * kBlock);
        auto *target = reinterpret_cast<double *>(to + block * kBlock);
        for (int64_t i = 0; i < kBlock / 8; ++i)
          target[i] = source[i];
      });
    });
    if (repeat == 0)
      continue;
    kernelTimes.push_back(k);
    copyTimes.push_back(c);
  }
  double time = median(kernelTimes);
  double rate = kernel.bytes / time * 1e-9,
         copy = 2 * kCopy / median(copyTimes) * 1e-9;
  llvm::outs() << llvm::formatv(
      "{0,-20} {1,8:F2} ms {2,7:F2} GB/s  ratio {3,5:F2}   copy {4,6:F2} GB/s  "
      " compiled in {5,5:F0} ms\n",
      test.name, time * 1e3, rate, rate / copy, copy, compile * 1e3);
  llvm::outs().flush();
  for (size_t i = 0; i < buffers.size(); ++i)
    if (std::find(buffers.begin(), buffers.begin() + i, buffers[i]) ==
        buffers.begin() + i)
      std::free(buffers[i]);
  return true;
}
} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  bool ok = true;
  for (const Case &test : kCases)
    if (argc < 3 || StringRef(test.name) == argv[2])
      ok &= run(test, threads);
  return ok ? 0 : 1;
}
