#include "sheaf/Mpi.h"
#include <cstdlib>

using namespace sheaf;

MpiProcess::MpiProcess() {
  fail("started as {} processes, but this build has no MPI; install "
       "libopenmpi-dev and "
       "build again, or start without mpirun to run the ranks as threads",
       startedProcesses().value_or(1));
}

MpiProcess::~MpiProcess() = default;
int MpiProcess::rank() const { return 0; }
int MpiProcess::size() const { return 1; }
std::unique_ptr<Communicator> MpiProcess::communicator(const Mesh &) {
  return nullptr;
}
void MpiProcess::abort() { std::exit(1); }
void MpiProcess::finish() {}
