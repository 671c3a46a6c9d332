#include "sheaf/Mpi.h"
#include <cstdlib>

using namespace sheaf;

namespace {
/// A number of processes in the environment that a launcher sets.
std::optional<int> countIn(const char *variable) {
  const char *text = std::getenv(variable);
  char *end;
  long value = text ? std::strtol(text, &end, 10) : 0;
  if (!text || end == text || *end != 0 || value < 1 || value > 1 << 20)
    return std::nullopt;
  return static_cast<int>(value);
}
} // namespace

std::optional<int> sheaf::startedProcesses() {
  for (const char *variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (std::optional<int> count = countIn(variable))
      return count;
  return std::nullopt;
}

int sheaf::processesOnMachine() {
  for (const char *variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    if (std::optional<int> count = countIn(variable))
      return *count;
  return startedProcesses().value_or(1);
}
