//===- Memory.h - aligned memory and what the machine has left --*- C++ -*-===//
//
// Buffers come straight from the system, one mapping each, so that freeing one
// gives its pages back and the process's resident size can be compared with
// what a manifest promises.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MEMORY_H
#define SHEAF_MEMORY_H

#include <cstdint>
#include <utility>

namespace sheaf {

/// A mapping of zero bytes, page aligned, in huge pages where the system has
/// them and the size is worth it. Pages are not resident until they are
/// touched.
class Memory {
public:
  Memory() = default;
  /// Throws an Error with the size where the system refuses.
  explicit Memory(int64_t bytes);
  ~Memory();
  Memory(Memory &&other) noexcept { *this = std::move(other); }
  Memory &operator=(Memory &&other) noexcept {
    std::swap(pointer, other.pointer);
    std::swap(length, other.length);
    return *this;
  }

  void *data() const { return pointer; }
  int64_t bytes() const { return length; }

  /// Bytes of it that are resident.
  int64_t resident() const;
  /// Makes every page resident.
  void touch();
  /// Gives all pages back to the system; the contents are zero again.
  void release();

private:
  void *pointer = nullptr;
  int64_t length = 0;
};

/// Bytes that can still be allocated without swapping: the least of what the
/// system, the control group and the address-space limit leave.
int64_t availableMemory();

/// Resident bytes of this process now, and the largest since start or since
/// resetPeakMemory().
int64_t residentMemory();
int64_t peakMemory();
/// Starts peakMemory() anew; false where the system does not allow it.
bool resetPeakMemory();

} // namespace sheaf

#endif // SHEAF_MEMORY_H
