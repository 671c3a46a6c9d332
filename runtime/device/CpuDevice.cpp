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
  void stop(int64_t index, double bytes = 0,
            std::optional<double> flops = std::nullopt) {
    if (profile)
      profile->end(index, bytes, flops);
  }

private:
  std::optional<Profile> &profile;
};

int64_t groupSize(const SheafCollective &collective) {
  int64_t size = 1;
  for (int32_t i = 0; i < collective.axis_count; ++i)
    size *= collective.size[i];
  return size;
}

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
    Timer timer(device.profile);
    int64_t grain = launch->grain, extent = launch->extent;
    int64_t tasks = extent / grain + (extent % grain != 0);
    device.pool.run(tasks, [&](int64_t i) {
      launch->kernel(buffers, i * grain, std::min(extent, (i + 1) * grain));
    });
    timer.stop(launch->id);
    if (device.gathered)
      device.gathered->ran(buffers, launch->buffer_count);
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
    Timer timer(device.profile);
    runMatmul(device.pool, *matmul, a, b, c);
    timer.stop(matmul->id);
    if (device.gathered) {
      const void *buffers[] = {a, b, c};
      device.gathered->ran(buffers, 3);
    }
  }

  static void groupedMatmul(SheafContext *context,
                            const SheafGroupedMatmul *matmul,
                            void *const *buffers) {
    CpuDevice &device = deviceOf(context);
    if (device.stopped())
      return;
    if (std::string wrong = checkGroupedMatmul(*matmul); !wrong.empty()) {
      device.keep(wrong);
      return;
    }
    Timer timer(device.profile);
    double flops =
        runGroupedMatmul(device.pool, *matmul, buffers[0], buffers[1],
                         static_cast<const int32_t *>(buffers[2]), buffers[3]);
    timer.stop(matmul->id, 0, flops);
    if (device.gathered)
      device.gathered->ran(buffers, 4);
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
    if (device.gathered)
      device.gathered->copied(to, from, bytes);
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
    if (device.gathered)
      device.gathered->ran(&buffer, 1);
  }

  static void mark(SheafContext *context, int64_t action) {
    CpuDevice &device = deviceOf(context);
    device.communicator.mark(action);
    if (device.profile)
      device.profile->mark(action);
  }

  /// Starts a transfer by `how`, which gives its handle, and notes it for who
  /// wants to know.
  template <typename How>
  static int64_t startBy(const How &how, SheafContext *context,
                         const SheafCollective *collective, const void *send,
                         void *receive) {
    CpuDevice &device = deviceOf(context);
    if (device.pending)
      return -1;
    try {
      int64_t handle = how(device.communicator);
      if (device.profile)
        device.profile->started(handle, *collective);
      if (device.gathered)
        device.gathered->start(
            *collective, send, receive,
            receiveBytes(*collective, groupSize(*collective)), handle);
      return handle;
    } catch (...) {
      device.pending = std::current_exception();
      return -1;
    }
  }

  static int64_t start(SheafContext *context, const SheafCollective *collective,
                       const void *send, void *receive) {
    return startBy(
        [=](Communicator &communicator) {
          return communicator.start(*collective, send, receive);
        },
        context, collective, send, receive);
  }

  static int64_t startRows(SheafContext *context,
                           const SheafCollective *collective,
                           void *const *buffers) {
    return startBy(
        [=](Communicator &communicator) {
          return communicator.startRows(
              *collective, buffers[0], static_cast<const int32_t *>(buffers[1]),
              static_cast<const int32_t *>(buffers[2]), buffers[3]);
        },
        context, collective, buffers[0], buffers[3]);
  }

  static void wait(SheafContext *context, int64_t handle) {
    CpuDevice &device = deviceOf(context);
    if (device.pending)
      return;
    try {
      Timer timer(device.profile);
      device.communicator.wait(handle);
      if (device.profile)
        device.profile->waited(handle);
      if (device.gathered)
        device.gathered->wait(handle);
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
  static const SheafCommunicator communicator = {
      CpuFunctions::start, CpuFunctions::wait, CpuFunctions::startRows};
  return &communicator;
}

const SheafDevice *CpuDevice::functions() {
  static const SheafDevice device = {
      CpuFunctions::launch, CpuFunctions::matmul,        CpuFunctions::copy,
      CpuFunctions::zero,   CpuFunctions::groupedMatmul, CpuFunctions::mark};
  return &device;
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
