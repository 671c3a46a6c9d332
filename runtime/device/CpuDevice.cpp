#include "sheaf/CpuDevice.h"
#include "sheaf/Error.h"
#include "sheaf/Matmul.h"
#include <algorithm>
#include <chrono>
#include <cstring>

using namespace sheaf;

namespace {
/// Bytes a task of a copy: large enough that a task is not felt.
constexpr int64_t copyChunk = 1 << 20;

/// Adds the time it lives to `slot` of a profile.
class Timer {
public:
  Timer(std::vector<KernelTime> &profile, int64_t slot) {
    if (slot < 0 || slot >= static_cast<int64_t>(profile.size()))
      return;
    target = &profile[slot];
    start = std::chrono::steady_clock::now();
  }
  ~Timer() {
    if (!target)
      return;
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    target->calls += 1;
    target->seconds += time.count();
  }

private:
  KernelTime *target = nullptr;
  std::chrono::steady_clock::time_point start;
};

CpuDevice &deviceOf(SheafContext *context) {
  return *static_cast<CpuDevice *>(context->runtime);
}
} // namespace

namespace sheaf {
struct CpuFunctions {
  static void launch(SheafContext *context, const SheafLaunch *launch,
                     void *const *buffers) {
    CpuDevice &device = deviceOf(context);
    if (device.stopped())
      return;
    if (launch->grain < 1 || launch->extent < 0) {
      device.keep(fmt::format("kernel {} has extent {} and grain {}; "
                              "expected at least 0 and 1",
                              launch->id, launch->extent, launch->grain));
      return;
    }
    Timer timer(device.profile, launch->id);
    int64_t grain = launch->grain, extent = launch->extent;
    int64_t tasks = extent / grain + (extent % grain != 0);
    device.pool.run(tasks, [&](int64_t i) {
      launch->kernel(buffers, i * grain, std::min(extent, (i + 1) * grain));
    });
  }

  static void matmul(SheafContext *context, const SheafMatmul *matmul,
                     const void *a, const void *b, void *c) {
    CpuDevice &device = deviceOf(context);
    if (device.stopped())
      return;
    if (std::string wrong = checkMatmul(*matmul); !wrong.empty()) {
      device.keep(wrong);
      return;
    }
    Timer timer(device.profile, matmul->id);
    runMatmul(device.pool, *matmul, a, b, c);
  }

  static void copy(SheafContext *context, void *to, const void *from,
                   int64_t bytes) {
    CpuDevice &device = deviceOf(context);
    Timer timer(device.profile,
                static_cast<int64_t>(device.profile.size()) - 2);
    device.pool.run((bytes + copyChunk - 1) / copyChunk, [&](int64_t i) {
      std::memcpy(static_cast<char *>(to) + i * copyChunk,
                  static_cast<const char *>(from) + i * copyChunk,
                  std::min(copyChunk, bytes - i * copyChunk));
    });
  }

  static void zero(SheafContext *context, void *buffer, int64_t bytes) {
    CpuDevice &device = deviceOf(context);
    Timer timer(device.profile,
                static_cast<int64_t>(device.profile.size()) - 1);
    device.pool.run((bytes + copyChunk - 1) / copyChunk, [&](int64_t i) {
      std::memset(static_cast<char *>(buffer) + i * copyChunk, 0,
                  std::min(copyChunk, bytes - i * copyChunk));
    });
  }

  static int64_t start(SheafContext *context, const SheafCollective *collective,
                       const void *send, void *receive) {
    CpuDevice &device = deviceOf(context);
    if (device.pending)
      return -1;
    try {
      return device.communicator.start(*collective, send, receive);
    } catch (...) {
      device.pending = std::current_exception();
      return -1;
    }
  }

  static void wait(SheafContext *context, int64_t handle) {
    CpuDevice &device = deviceOf(context);
    if (device.pending)
      return;
    try {
      device.communicator.wait(handle);
    } catch (...) {
      device.pending = std::current_exception();
    }
  }
};
} // namespace sheaf

CpuDevice::CpuDevice(int threads)
    : alone(std::make_unique<ThreadWorld>(Mesh())), pool(threads),
      communicator(alone->rank(0)) {
  communicator.usePool(pool);
}

CpuDevice::CpuDevice(int threads, Communicator &communicator, int local)
    : pool(threads, local), communicator(communicator) {
  communicator.usePool(pool);
}

const SheafCommunicator *CpuDevice::communicatorFunctions() {
  static const SheafCommunicator communicator = {CpuFunctions::start, CpuFunctions::wait};
  return &communicator;
}

const SheafDevice *CpuDevice::functions() {
  static const SheafDevice device = {CpuFunctions::launch, CpuFunctions::matmul,
                                     CpuFunctions::copy, CpuFunctions::zero};
  return &device;
}

void CpuDevice::startProfile(int64_t kernels) {
  profile.assign(kernels + 2, KernelTime());
}

void CpuDevice::keep(const std::string &message) {
  pending = std::make_exception_ptr(Error(message));
}

void CpuDevice::throwPending() {
  if (!pending)
    return;
  std::exception_ptr error;
  std::swap(error, pending);
  std::rethrow_exception(error);
}
