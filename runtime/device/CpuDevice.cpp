#include "sheaf/CpuDevice.h"
#include "sheaf/Error.h"
#include "sheaf/Matmul.h"
#include <algorithm>
#include <cstring>

using namespace sheaf;

namespace {
/// Bytes a task of a copy: large enough that a task is not felt.
constexpr int64_t copyChunk = 1 << 20;

/// Adds the time it lives to a profile, if there is one.
class Timer {
public:
  Timer(std::optional<Profile> &profile) : profile(profile) {
    if (profile)
      profile->begin();
  }
  void stop(int64_t index, double bytes = 0) {
    if (profile)
      profile->end(index, bytes);
  }

private:
  std::optional<Profile> &profile;
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
    if (!device.error.empty())
      return;
    if (launch->grain < 1 || launch->extent < 0) {
      device.error = fmt::format("kernel {} has extent {} and grain {}; "
                                 "expected at least 0 and 1",
                                 launch->id, launch->extent, launch->grain);
      return;
    }
    Timer timer(device.profile);
    int64_t grain = launch->grain, extent = launch->extent;
    int64_t tasks = extent / grain + (extent % grain != 0);
    device.pool.run(tasks, [&](int64_t i) {
      launch->kernel(buffers, i * grain, std::min(extent, (i + 1) * grain));
    });
    timer.stop(launch->id);
  }

  static void matmul(SheafContext *context, const SheafMatmul *matmul,
                     const void *a, const void *b, void *c) {
    CpuDevice &device = deviceOf(context);
    if (!device.error.empty())
      return;
    device.error = checkMatmul(*matmul);
    if (!device.error.empty())
      return;
    Timer timer(device.profile);
    runMatmul(device.pool, *matmul, a, b, c);
    timer.stop(matmul->id);
  }

  static void copy(SheafContext *context, void *to, const void *from,
                   int64_t bytes) {
    CpuDevice &device = deviceOf(context);
    Timer timer(device.profile);
    device.pool.run((bytes + copyChunk - 1) / copyChunk, [&](int64_t i) {
      std::memcpy(static_cast<char *>(to) + i * copyChunk,
                  static_cast<const char *>(from) + i * copyChunk,
                  std::min(copyChunk, bytes - i * copyChunk));
    });
    if (device.profile)
      timer.stop(device.profile->copyIndex(), 2.0 * bytes);
  }

  static void zero(SheafContext *context, void *buffer, int64_t bytes) {
    CpuDevice &device = deviceOf(context);
    Timer timer(device.profile);
    device.pool.run((bytes + copyChunk - 1) / copyChunk, [&](int64_t i) {
      std::memset(static_cast<char *>(buffer) + i * copyChunk, 0,
                  std::min(copyChunk, bytes - i * copyChunk));
    });
    if (device.profile)
      timer.stop(device.profile->zeroIndex(), bytes);
  }
};
} // namespace sheaf

const SheafDevice *CpuDevice::functions() {
  static const SheafDevice device = {CpuFunctions::launch, CpuFunctions::matmul,
                                     CpuFunctions::copy, CpuFunctions::zero};
  return &device;
}

void CpuDevice::throwPending() {
  if (error.empty())
    return;
  std::string message;
  message.swap(error);
  throw Error(message);
}
