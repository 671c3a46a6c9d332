//===- CpuDevice.h - the device that runs on this machine's cores -*- C++
//-*-===//
//
// Implements the SheafDevice of abi.h on a thread pool: launches cut into
// tasks of `grain` items, products on OpenBLAS. Generated code cannot be
// unwound, so an error met inside an entry is kept and thrown after it.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_CPUDEVICE_H
#define SHEAF_CPUDEVICE_H

#include "sheaf/Profile.h"
#include "sheaf/ThreadPool.h"
#include "sheaf/abi.h"
#include <optional>
#include <string>

namespace sheaf {

class CpuDevice {
public:
  explicit CpuDevice(int threads) : pool(threads) {}

  ThreadPool pool;

  /// The functions for SheafContext::device; SheafContext::runtime must be
  /// this CpuDevice.
  static const SheafDevice *functions();

  /// Where the time of calls goes, once it is there.
  std::optional<Profile> profile;

  /// Throws the error that a call inside an entry met, if there is one.
  void throwPending();

private:
  friend struct CpuFunctions;
  std::string error;
};

} // namespace sheaf

#endif // SHEAF_CPUDEVICE_H
