//===- CpuDevice.h - the device of this machine's cores ---------*- C++ -*-===//
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
#include "sheaf/Gathered.h"
#include "sheaf/Profile.h"
#include "sheaf/ThreadPool.h"
#include "sheaf/abi.h"
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace sheaf {

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

  /// Where the time of calls goes, once it is there.
  std::optional<Profile> profile;

  /// Whether the first call of each entry is watched for gathered weights, and
  /// the watch over the call that runs.
  bool watchesGathered = false;
  std::optional<GatheredWeights> gathered;

  /// Throws the error that a call inside an entry met, if there is one.
  void throwPending();

private:
  friend struct CpuFunctions;
  bool stopped() const { return pending || communicator.failed(); }
  void keep(const std::string &message);
  std::exception_ptr pending;
};

} // namespace sheaf

#endif // SHEAF_CPUDEVICE_H
