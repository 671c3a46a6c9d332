#include "sheaf/Memory.h"
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>

using namespace sheaf;

/// What /proc/self/smaps says of the mapping that `address` lies in, after
/// `key`.
static std::string mappingField(const void *address, const std::string &key) {
  std::ifstream in("/proc/self/smaps");
  auto wanted = reinterpret_cast<uintptr_t>(address);
  std::string line;
  bool here = false;
  while (std::getline(in, line)) {
    uintptr_t begin, end;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      here = begin <= wanted && wanted < end;
    else if (here && line.rfind(key, 0) == 0)
      return line.substr(key.size()) + " ";
  }
  return "";
}

// Large buffers ask for huge pages, where the system has them at all.
TEST(Memory, AsksForHugePages) {
  constexpr int64_t large = 32 << 20;
  void *probe = mmap(nullptr, large, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(probe, MAP_FAILED);
  bool hasThem = madvise(probe, large, MADV_HUGEPAGE) == 0;
  munmap(probe, large);
  if (!hasThem)
    GTEST_SKIP() << "this system has no huge pages";
  Memory memory(large);
  EXPECT_NE(mappingField(memory.data(), "VmFlags:").find(" hg "),
            std::string::npos);
}

// A buffer is zero, also after it was given back.
TEST(Memory, IsZeroAgainOnceReleased) {
  Memory memory(5 << 20);
  auto *bytes = static_cast<char *>(memory.data());
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[memory.bytes() - 1], 0);
  std::memset(bytes, 1, memory.bytes());
  memory.release();
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[memory.bytes() - 1], 0);
}
