//===- KernelsBenchmark.cpp - Kernels against a copy ----------------------===//
//
//   kernels-benchmark [threads (default 2)] [name, or part of one]
//
// Prints, for kernels as a training step has them, forward and backward, on
// arrays far larger than the caches, the time, the rate and its ratio to a
// threaded copy, beside the ratio that is wanted. Kernel and copy alternate in
// one run on the runtime's pool, split as the runtime splits a launch; the
// figures are ratios of medians of 9 (under `cpu` with the processor time of
// all threads in place of the time passed, for a busy machine). The bytes of a
// kernel are those of each input and each result once, whatever it reads twice;
// one updated in place counts as both. The copy moves 256 MiB of touched
// memory, in 1 MiB tasks of plain stores of 8 bytes; its bytes are those read
// and those written.
//
// Exits with 1 where a kernel cannot be compiled; a ratio that is missed is
// printed as such.
//
//===----------------------------------------------------------------------===//

#include "Jit.h"
#include "mlir/Parser/Parser.h"
#include "sheaf/Memory.h"
#include "sheaf/ThreadPool.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <cstring>
#include <functional>

using namespace mlir;
using namespace sheaf::test;

namespace {

struct Case {
  const char *name;
  /// The ratio to a copy that is wanted; 0 where none is.
  double target;
  /// A module with a kernel, or several in their order, each on the results of
  /// the one before, which run on small numbers. The types of large tensors are
  /// written $X and so on (see `expand`).
  const char *text;
};

const Case kCases[] = {
    {"rms_norm", 1.0, R"(
func.func @bench(%x: $X, %s: tensor<1024xf32>) -> ($X) attributes {exec.kernel} {
  %y = nn.rms_norm %x, %s eps 1.0e-5 : ($X, tensor<1024xf32>) -> $X
  return %y : $X
})"},
    {"rms_norm backward", 1.0, R"(
func.func @bench(%x: $X, %dy: $X, %s: tensor<1024xf32>) -> ($S, $X) attributes {exec.kernel} {
  %n = nn.constant dense<1.024000e+03> : tensor<f32>
  %eps = nn.constant dense<1.0e-05> : tensor<f32>
  %q = nn.reduce sum_of_squares %x dims [1] keep : ($X) -> $S
  %v = nn.div %q, %n : ($S, tensor<f32>) -> $S
  %w = nn.add %v, %eps : ($S, tensor<f32>) -> $S
  %r = nn.rsqrt %w : $S
  %h = nn.mul %x, %r : ($X, $S) -> $X
  %g = nn.mul %dy, %s : ($X, tensor<1024xf32>) -> $X
  %gh = nn.mul %g, %h : $X
  %a = nn.reduce mean %gh dims [1] keep : ($X) -> $S
  %b = nn.mul %h, %a : ($X, $S) -> $X
  %d = nn.sub %g, %b : $X
  %y = nn.mul %d, %r : ($X, $S) -> $X
  return %r, %y : $S, $X
})"},
    {"rms_norm weights", 1.0, R"(
func.func @bench(%x: $X, %r: $S, %dy: $X) -> (tensor<256x1024xf32>) attributes {exec.kernel} {
  %h = nn.mul %x, %r : ($X, $S) -> $X
  %p = nn.mul %dy, %h : $X
  %0 = nn.reshape %p : $X -> tensor<256x64x1024xf32>
  %1 = nn.reduce sum %0 dims [1] : (tensor<256x64x1024xf32>) -> tensor<256x1024xf32>
  return %1 : tensor<256x1024xf32>
}
func.func @bench2(%x: tensor<256x1024xf32>) -> (tensor<1024xf32>) attributes {exec.kernel} {
  %0 = nn.reduce sum %x dims [0] : (tensor<256x1024xf32>) -> tensor<1024xf32>
  return %0 : tensor<1024xf32>
})"},
    {"layer_norm", 1.0, R"(
func.func @bench(%x: $X, %s: tensor<1024xf32>, %b: tensor<1024xf32>) -> ($X) attributes {exec.kernel} {
  %y = nn.layer_norm %x, %s, %b eps 1.0e-5 : ($X, tensor<1024xf32>, tensor<1024xf32>) -> $X
  return %y : $X
})"},
    {"layer_norm backward", 1.0, R"(
func.func @bench(%x: $X, %dy: $X, %s: tensor<1024xf32>) -> ($S, $S, $X) attributes {exec.kernel} {
  %n = nn.constant dense<1.024000e+03> : tensor<f32>
  %eps = nn.constant dense<1.0e-05> : tensor<f32>
  %m = nn.reduce mean %x dims [1] keep : ($X) -> $S
  %c = nn.sub %x, %m : ($X, $S) -> $X
  %q = nn.reduce sum_of_squares %c dims [1] keep : ($X) -> $S
  %v = nn.div %q, %n : ($S, tensor<f32>) -> $S
  %w = nn.add %v, %eps : ($S, tensor<f32>) -> $S
  %r = nn.rsqrt %w : $S
  %h = nn.mul %c, %r : ($X, $S) -> $X
  %g = nn.mul %dy, %s : ($X, tensor<1024xf32>) -> $X
  %gh = nn.mul %g, %h : $X
  %a = nn.reduce mean %gh dims [1] keep : ($X) -> $S
  %b = nn.reduce mean %g dims [1] keep : ($X) -> $S
  %d = nn.sub %g, %b : ($X, $S) -> $X
  %e = nn.mul %h, %a : ($X, $S) -> $X
  %f = nn.sub %d, %e : $X
  %y = nn.mul %f, %r : ($X, $S) -> $X
  return %m, %r, %y : $S, $S, $X
})"},
    {"layer_norm weights", 1.0, R"(
func.func @bench(%x: $X, %m: $S, %r: $S, %dy: $X) -> (tensor<256x1024xf32>, tensor<256x1024xf32>) attributes {exec.kernel} {
  %c = nn.sub %x, %m : ($X, $S) -> $X
  %h = nn.mul %c, %r : ($X, $S) -> $X
  %p = nn.mul %dy, %h : $X
  %0 = nn.reshape %p : $X -> tensor<256x64x1024xf32>
  %1 = nn.reduce sum %0 dims [1] : (tensor<256x64x1024xf32>) -> tensor<256x1024xf32>
  %2 = nn.reshape %dy : $X -> tensor<256x64x1024xf32>
  %3 = nn.reduce sum %2 dims [1] : (tensor<256x64x1024xf32>) -> tensor<256x1024xf32>
  return %1, %3 : tensor<256x1024xf32>, tensor<256x1024xf32>
}
func.func @bench2(%a: tensor<256x1024xf32>, %b: tensor<256x1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) attributes {exec.kernel} {
  %0 = nn.reduce sum %a dims [0] : (tensor<256x1024xf32>) -> tensor<1024xf32>
  %1 = nn.reduce sum %b dims [0] : (tensor<256x1024xf32>) -> tensor<1024xf32>
  return %0, %1 : tensor<1024xf32>, tensor<1024xf32>
})"},
    {"gelu_bias", 1.0, R"(
func.func @bench(%x: $G, %b: tensor<3072xf32>) -> ($G) attributes {exec.kernel} {
  %h = nn.add %x, %b : ($G, tensor<3072xf32>) -> $G
  %y = nn.gelu_tanh %h : $G
  return %y : $G
})"},
    {"gelu_bias backward", 1.0, R"(
func.func @bench(%h: $G, %dy: $G) -> ($G) attributes {exec.kernel} {
  %ka = nn.constant dense<0.0713548139> : tensor<f32>
  %ka3 = nn.constant dense<0.214064449> : tensor<f32>
  %k = nn.constant dense<1.59576917> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %q = nn.mul %h, %h : $G
  %0 = nn.mul %q, %ka : ($G, tensor<f32>) -> $G
  %1 = nn.add %0, %k : ($G, tensor<f32>) -> $G
  %v = nn.mul %h, %1 : $G
  %s = nn.sigmoid %v : $G
  %2 = nn.mul %q, %ka3 : ($G, tensor<f32>) -> $G
  %3 = nn.add %2, %k : ($G, tensor<f32>) -> $G
  %4 = nn.sub %one, %s : (tensor<f32>, $G) -> $G
  %5 = nn.mul %h, %4 : $G
  %6 = nn.mul %5, %3 : $G
  %7 = nn.add %6, %one : ($G, tensor<f32>) -> $G
  %8 = nn.mul %s, %7 : $G
  %y = nn.mul %dy, %8 : $G
  return %y : $G
})"},
    {"bias weights", 1.0, R"(
func.func @bench(%x: $G) -> (tensor<128x3072xf32>) attributes {exec.kernel} {
  %0 = nn.reshape %x : $G -> tensor<128x64x3072xf32>
  %1 = nn.reduce sum %0 dims [1] : (tensor<128x64x3072xf32>) -> tensor<128x3072xf32>
  return %1 : tensor<128x3072xf32>
}
func.func @bench2(%x: tensor<128x3072xf32>) -> (tensor<3072xf32>) attributes {exec.kernel} {
  %0 = nn.reduce sum %x dims [0] : (tensor<128x3072xf32>) -> tensor<3072xf32>
  return %0 : tensor<3072xf32>
})"},
    {"softmax", 0.65, R"(
func.func @bench(%x: $X) -> ($X) attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : $X
  return %y : $X
})"},
    {"softmax backward", 0.65, R"(
func.func @bench(%y: $X, %dy: $X) -> ($X) attributes {exec.kernel} {
  %p = nn.mul %dy, %y : $X
  %a = nn.reduce sum %p dims [1] keep : ($X) -> $S
  %d = nn.sub %dy, %a : ($X, $S) -> $X
  %dx = nn.mul %y, %d : $X
  return %dx : $X
})"},
    {"cross_entropy", 0.65, R"(
func.func @bench(%x: $L, %t: tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>) attributes {exec.kernel} {
  %l, %e = nn.cross_entropy %x, %t : ($L, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  return %l, %e : tensor<512xf32>, tensor<512xf32>
})"},
    {"cross_entropy backward", 0.65, R"(
func.func @bench(%x: $L, %t: tensor<512xi32>, %e: tensor<512xf32>, %g: tensor<512xf32>) -> ($L) attributes {exec.kernel} {
  %d = nn.cross_entropy_grad %x, %t, %e grad %g : ($L, tensor<512xi32>, tensor<512xf32>, tensor<512xf32>) -> $L
  return %d : $L
})"},
    {"cross_entropy both", 0.65, R"(
func.func @bench(%x: $L, %t: tensor<512xi32>, %g: tensor<512xf32>) -> (tensor<512xf32>, $L) attributes {exec.kernel} {
  %l, %e = nn.cross_entropy %x, %t : ($L, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  %d = nn.cross_entropy_grad %x, %t, %e grad %g : ($L, tensor<512xi32>, tensor<512xf32>, tensor<512xf32>) -> $L
  return %l, %d : tensor<512xf32>, $L
})"},
    {"adamw", 1.5, R"(
func.func @bench(%p: $P, %g: $P, %m: $P, %v: $P, %lr: tensor<f32>, %b1: tensor<f32>, %b2: tensor<f32>, %eps: tensor<f32>, %wd: tensor<f32>, %c1: tensor<f32>, %c2: tensor<f32>, %s: tensor<f32>) -> ($P, $P, $P) attributes {exec.kernel} {
  %p1, %m1, %v1 = nn.adamw %p, %g, %m, %v lr %lr beta1 %b1 beta2 %b2 eps %eps decay %wd corrections %c1, %c2 grad_scale %s : ($P, $P, $P, $P, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> ($P, $P, $P)
  return %p1, %m1, %v1 : $P, $P, $P
})"},
    {"norm of gradients", 0, R"(
func.func @bench(%g: tensor<8192x4096xf32>) -> (tensor<8192xf32>) attributes {exec.kernel} {
  %y = nn.reduce sum_of_squares %g dims [1] : (tensor<8192x4096xf32>) -> tensor<8192xf32>
  return %y : tensor<8192xf32>
})"},
    {"transpose", 0, R"(
func.func @bench(%x: tensor<4096x3072xf32>) -> (tensor<3072x4096xf32>) attributes {exec.kernel} {
  %y = nn.transpose %x [1, 0] : (tensor<4096x3072xf32>) -> tensor<3072x4096xf32>
  return %y : tensor<3072x4096xf32>
})"},
    {"embedding backward", 0, R"(
func.func @bench(%g: tensor<8192x768xf32>, %i: tensor<8192xi32>) -> (tensor<50257x768xf32>) attributes {exec.kernel} {
  %y = nn.gather_grad %g[%i] axis 0 : (tensor<8192x768xf32>, tensor<8192xi32>) -> tensor<50257x768xf32>
  return %y : tensor<50257x768xf32>
})"},
    {"rotary", 0, R"(
func.func @bench(%x: tensor<8x2048x16x64xf32>, %p: tensor<2048xi32>) -> (tensor<8x2048x16x64xf32>) attributes {exec.kernel} {
  %y = nn.rotary %x, %p theta 10000.0 : (tensor<8x2048x16x64xf32>, tensor<2048xi32>) -> tensor<8x2048x16x64xf32>
  return %y : tensor<8x2048x16x64xf32>
})"},
    {"dropout", 0, R"(
func.func @bench(%x: tensor<8x2048x768xf32>, %key: tensor<4xi32>, %stream: tensor<i32>) -> (tensor<8x2048x768xf32>) attributes {exec.kernel} {
  %y = nn.dropout %x, %key, %stream rate 0.1 : (tensor<8x2048x768xf32>, tensor<4xi32>, tensor<i32>) -> tensor<8x2048x768xf32>
  return %y : tensor<8x2048x768xf32>
})"},
    {"normal", 0, R"(
func.func @bench(%key: tensor<4xi32>, %stream: tensor<i32>) -> ($P) attributes {exec.kernel} {
  %y = nn.random normal %key, %stream : (tensor<4xi32>, tensor<i32>) -> $P
  return %y : $P
})"},
};

/// The text of a case with the types of its tensors.
std::string expand(const char *text) {
  std::string result = text;
  for (auto [name, type] : {
           std::pair("$X", "tensor<16384x1024xf32>"), // rows of activations
           std::pair("$S", "tensor<16384x1xf32>"),    // a number for each
           std::pair("$G", "tensor<8192x3072xf32>"),  // of an MLP
           std::pair("$L", "tensor<512x50257xf32>"),  // logits
           std::pair("$P", "tensor<4096x4096xf32>"),  // a parameter
       })
    for (size_t at; (at = result.find(name)) != std::string::npos;)
      result.replace(at, 2, type);
  return result;
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

/// What threads of this process have used of processors so far, in seconds.
double processorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

/// Times of one of the two things that alternate.
struct Times {
  std::vector<double> wall, processor;
  void add(const std::function<void()> &body) {
    double start = processorSeconds();
    wall.push_back(seconds(body));
    processor.push_back(processorSeconds() - start);
  }
};

/// The copy that kernels are measured against.
class Copy {
public:
  Copy() {
    std::memset(from.data(), 1, kBytes);
    std::memset(to.data(), 2, to.bytes());
  }
  void run(sheaf::ThreadPool &pool) {
    pool.run(kBytes / kTask, [&](int64_t task) {
      auto *source = reinterpret_cast<const double *>(
          static_cast<const char *>(from.data()) + task * kTask);
      auto *target = reinterpret_cast<double *>(static_cast<char *>(to.data()) +
                                                kApart + task * kTask);
      for (int64_t i = 0; i < kTask / 8; ++i)
        target[i] = source[i];
    });
  }
  /// Source and target do not begin at the same place in their huge pages: each
  /// store would look like one to what is loaded next, and the copy be slower
  /// than the machine can.
  static constexpr int64_t kBytes = 256 << 20, kTask = 1 << 20, kApart = 67648;

private:
  sheaf::Memory from{kBytes}, to{kBytes + kApart};
};

bool run(const Case &test, sheaf::ThreadPool &pool, Copy &copy) {
  auto context = Jit::makeContext();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(expand(test.text), context.get());
  if (!module)
    return false;
  std::vector<sheaf::Memory> memory;
  auto makeBuffer = [&](Type type) -> void * {
    auto tensor = cast<RankedTensorType>(type);
    int64_t count = tensor.getNumElements();
    // As the runtime keeps buffers.
    auto *data = static_cast<char *>(memory.emplace_back(count * 4).data());
    for (int64_t i = 0; i < count; ++i) {
      int32_t integer = static_cast<int32_t>((i * 2654435761u) >> 8) % 1000;
      float number = 0.5f + static_cast<float>(std::abs(integer)) / 1000;
      std::memcpy(data + 4 * i,
                  tensor.getElementType().isF32()
                      ? static_cast<void *>(&number)
                      : static_cast<void *>(&integer),
                  4);
    }
    return data;
  };
  // The results of a kernel are the arguments of the next one.
  std::vector<std::vector<void *>> buffers;
  std::vector<size_t> inputs;
  double bytes = 0;
  auto functions = llvm::to_vector(module->getOps<func::FuncOp>());
  for (func::FuncOp function : functions) {
    std::vector<void *> own;
    if (!buffers.empty())
      own.assign(buffers.back().begin() + inputs.back(), buffers.back().end());
    auto add = [&](Type type, bool counts) {
      own.push_back(makeBuffer(type));
      bytes += counts ? cast<RankedTensorType>(type).getNumElements() * 4 : 0;
    };
    for (Type type : function.getArgumentTypes())
      if (buffers.empty())
        add(type, true);
    inputs.push_back(own.size());
    for (Type type : function.getResultTypes())
      add(type, function == functions.back());
    buffers.push_back(own);
  }
  std::string error;
  std::unique_ptr<Jit> jit;
  double compile = seconds([&] { jit = Jit::compile(*module, error); });
  if (!jit) {
    llvm::errs() << test.name << ": " << error << "\n";
    return false;
  }
  llvm::ArrayRef<CompiledKernel> kernels = jit->getKernels();
  // In place where the kernel may be, as the compiler does for updates.
  if (StringRef(test.name) == "adamw")
    for (size_t i = 0; i + 1 < kernels[0].inPlace.size(); i += 2)
      if (kernels[0].inPlace[i] != 1) // the gradient stays
        buffers[0][inputs[0] + kernels[0].inPlace[i + 1]] =
            buffers[0][kernels[0].inPlace[i]];

  Times kernelTimes, copyTimes;
  auto launch = [&] {
    // As CpuDevice launches them.
    for (auto [kernel, own] : llvm::zip_equal(kernels, buffers)) {
      int64_t tasks = (kernel.extent + kernel.grain - 1) / kernel.grain;
      pool.run(tasks, [&, &kernel = kernel, &own = own](int64_t task) {
        int64_t begin = task * kernel.grain;
        kernel.entry(own.data(), begin,
                     std::min(begin + kernel.grain, kernel.extent));
      });
    }
  };
  launch();
  copy.run(pool);
  for (int repeat = 0; repeat < 9; ++repeat) {
    kernelTimes.add(launch);
    copyTimes.add([&] { copy.run(pool); });
  }
  double time = median(kernelTimes.wall);
  double rate = bytes / time * 1e-9,
         copyRate = 2 * Copy::kBytes / median(copyTimes.wall) * 1e-9,
         ratio = rate / copyRate;
  // Where other programs take part of the machine, this is nearer to what a
  // kernel can do.
  double processor = bytes / median(kernelTimes.processor) *
                     median(copyTimes.processor) / (2 * Copy::kBytes);
  std::string target, verdict;
  if (test.target > 0) {
    target = llvm::formatv("{0:F2}", test.target);
    verdict = ratio >= test.target ? "PASS" : "MISS";
  }
  llvm::outs() << llvm::formatv("{0,-24} {1,8:F2} {2,7:F2} {3,7:F2} {4,7:F2} "
                                "{5,7} {6,5} {7,7:F2} {8,8:F0}\n",
                                test.name, time * 1e3, rate, copyRate, ratio,
                                target, verdict, processor, compile * 1e3);
  llvm::outs().flush();
  return true;
}
} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  sheaf::ThreadPool pool(threads);
  Copy copy;
  llvm::outs()
      << threads << " threads\n"
      << llvm::formatv(
             "{0,-24} {1,8} {2,7} {3,7} {4,7} {5,7} {6,5} {7,7} {8,8}\n",
             "kernel", "ms", "GB/s", "copy", "ratio", "target", "", "cpu",
             "compile");
  bool ok = true;
  bool exact = argc > 2 && llvm::any_of(kCases, [&](const Case &test) {
                 return StringRef(test.name) == argv[2];
               });
  for (const Case &test : kCases)
    if (argc < 3 || (exact ? StringRef(test.name) == argv[2]
                           : StringRef(test.name).contains(argv[2])))
      ok &= run(test, pool, copy);
  return ok ? 0 : 1;
}
