#include "sheaf/Memory.h"
#include "sheaf/Error.h"
#include "sheaf/Types.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

using namespace sheaf;

/// The size of a huge page of x86-64, in bytes.
static constexpr int64_t kHugePage = 2 << 20;

Memory::Memory(int64_t bytes) : length(std::max<int64_t>(bytes, 1)) {
  void *mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    fail("cannot allocate {} ({} bytes): {}; {} are available",
         bytesText(bytes), bytes, std::strerror(errno),
         bytesText(availableMemory()));
  pointer = mapped;
  // Weights and activations are gone through in large strides: with small pages
  // a third of a step of GPT-2 124M went into looking them up. A system without
  // huge pages refuses, and nothing is lost.
  if (length >= kHugePage)
    madvise(pointer, length, MADV_HUGEPAGE);
}

Memory::~Memory() {
  if (pointer)
    munmap(pointer, length);
}

void Memory::touch() {
  volatile char *bytes = static_cast<char *>(pointer);
  for (int64_t i = 0; i < length; i += 4096)
    bytes[i] = bytes[i];
}

int64_t Memory::resident() const {
  if (!pointer)
    return 0;
  int64_t page = sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> pages((length + page - 1) / page);
  if (mincore(pointer, length, pages.data()) != 0)
    return length;
  int64_t count = std::count_if(pages.begin(), pages.end(),
                                [](unsigned char is) { return is & 1; });
  return std::min(length, count * page);
}

void Memory::release() {
  if (pointer)
    madvise(pointer, length, MADV_DONTNEED);
}

namespace {
/// The number behind `key` in a file of "key: number kB" lines, in bytes.
int64_t kilobyteField(const char *path, const std::string &key) {
  std::ifstream in(path);
  std::string word;
  while (in >> word) {
    int64_t value;
    if (word == key && in >> value)
      return value * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return -1;
}

int64_t numberIn(const char *path) {
  std::ifstream in(path);
  int64_t value;
  return in >> value ? value : -1;
}
} // namespace

int64_t sheaf::availableMemory() {
  int64_t available = kilobyteField("/proc/meminfo", "MemAvailable:");
  if (available < 0)
    available = std::numeric_limits<int64_t>::max();
  int64_t groupLimit = numberIn("/sys/fs/cgroup/memory.max");
  int64_t groupUsed = numberIn("/sys/fs/cgroup/memory.current");
  if (groupLimit >= 0 && groupUsed >= 0)
    available =
        std::min(available, std::max<int64_t>(0, groupLimit - groupUsed));
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    int64_t mapped = kilobyteField("/proc/self/status", "VmSize:");
    int64_t left =
        static_cast<int64_t>(limit.rlim_cur) - std::max<int64_t>(mapped, 0);
    available = std::min(available, std::max<int64_t>(0, left));
  }
  return available;
}

int64_t sheaf::residentMemory() {
  return kilobyteField("/proc/self/status", "VmRSS:");
}

int64_t sheaf::peakMemory() {
  return kilobyteField("/proc/self/status", "VmHWM:");
}

bool sheaf::resetPeakMemory() {
  int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  bool done = write(file, "5", 1) == 1;
  close(file);
  return done;
}
