//===- Mpi.h - ranks that are processes -------------------------*- C++ -*-===//
//
// The transport between processes. MPI only moves bytes; additions are ours, in
// the order of the ranks. Without MPI at configure time it is not there, and a
// start under mpirun is an error that says so.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MPI_H
#define SHEAF_MPI_H

#include "sheaf/Communicator.h"
#include <memory>
#include <optional>

namespace sheaf {

/// How many processes mpirun started; nothing where it did not start us.
std::optional<int> startedProcesses();

/// How many of them are on this machine.
int processesOnMachine();

/// MPI from start to end of the process.
class MpiProcess {
public:
  /// Throws an Error where this build has no MPI, or where MPI cannot start.
  MpiProcess();
  ~MpiProcess();
  MpiProcess(const MpiProcess &) = delete;
  MpiProcess &operator=(const MpiProcess &) = delete;

  int rank() const;
  int size() const;
  /// This process's communicator; the mesh has as many ranks as there are
  /// processes.
  std::unique_ptr<Communicator> communicator(const Mesh &mesh);
  /// Ends all processes with status 1.
  [[noreturn]] void abort();
  /// Ends well: all processes must come here.
  void finish();

private:
  bool running = false;
};

} // namespace sheaf

#endif // SHEAF_MPI_H
