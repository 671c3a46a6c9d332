//===- CpuDevice.h - the device that runs on this machine's cores -*- C++
//-*-===//
//
// Implements the SheafDevice of abi.h on a thread pool: launches cut into
// tasks of `grain` items, products on OpenBLAS; and the SheafCommunicator on
// this rank's Communicator. Generated code cannot be unwound, so an error met
// inside an entry is kept and thrown after it.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_CPUDEVICE_H
#define SHEAF_CPUDEVICE_H

#include "sheaf/Communicator.h"
#include "sheaf/ThreadPool.h"
#include "sheaf/abi.h"
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace sheaf {

/// What one kernel cost so far.
struct KernelTime {
  int64_t calls = 0;
  double seconds = 0;
};

class CpuDevice {
public:
  /// The device of the only rank.
  explicit CpuDevice(int threads);
  /// The device of one of `local` ranks of this process.
  CpuDevice(int threads, Communicator &communicator, int local);

private:
  std::unique_ptr<ThreadWorld> alone; // before what refers to it

public:
  ThreadPool pool;
  Communicator &communicator;

  /// The functions for SheafContext::device and ::communicator;
  /// SheafContext::runtime must be this CpuDevice.
  static const SheafDevice *functions();
  static const SheafCommunicator *communicatorFunctions();

  /// Measures the time of each kernel from now on. `kernels` is the length of
  /// the manifest's "kernels"; copies and zeroing are counted behind it.
  void startProfile(int64_t kernels);
  const std::vector<KernelTime> &times() const { return profile; }

  /// Throws the error that a call inside an entry met, if there is one.
  void throwPending();

private:
  friend struct CpuFunctions;
  bool stopped() const { return pending || communicator.failed(); }
  void keep(const std::string &message);
  std::vector<KernelTime> profile; // empty: not measured
  std::exception_ptr pending;
};

} // namespace sheaf

#endif // SHEAF_CPUDEVICE_H
