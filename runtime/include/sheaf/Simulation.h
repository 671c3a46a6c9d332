//===- Simulation.h - a step on virtual clocks ------------------*- C++ -*-===//
//
// The simulated device: an entry of an artifact, carried out on the clocks of a
// described cluster. docs/design/simulation.md says what is modelled.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SIMULATION_H
#define SHEAF_SIMULATION_H

#include "sheaf/Artifact.h"
#include "sheaf/Cluster.h"
#include "sheaf/Communicator.h"
#include <string>
#include <vector>

namespace sheaf {

/// Transfers that one rank starts and that are counted together, of one call.
struct SimulatedTransfers {
  TransferCount count;
  double seconds = 0; ///< of all, from begin to end
  double exposed = 0; ///< while the compute stream waited for them
};

/// What the ranks at one place along the pipeline do. In seconds; busy,
/// stretch, exposed and idle are in sum the time of the call.
struct SimulatedPlace {
  int64_t rank = 0; ///< that stands for them
  double busy = 0, stretch = 0, exposed = 0, idle = 0;
  int64_t calls = 0; ///< of kernels, products and copies
  double products = 0, attention = 0, kernels = 0, copies = 0; ///< busy
  int64_t peakBytes = 0;
  std::vector<SimulatedTransfers> transfers;
};

struct Simulation {
  std::string artifact, cluster, device;
  int64_t ranks = 1, nodes = 1;
  double seconds = 0; ///< of one call
  double tokensPerSecond = 0;
  double modelFlops = 0; ///< of a step, of all ranks
  /// Model FLOP utilisation against the stated rate of products in `mfuType`;
  /// 0 where the artifact or the description does not say enough.
  double mfu = 0, mfuRate = 0;
  std::string mfuType;
  double memoryBytes = 0; ///< of a device
  bool fits = true;
  std::vector<SimulatedPlace> places;
};

/// Simulates one call of an entry. With `trace`, writes the streams of each
/// recorded rank there, as events for Chrome's tracing or Perfetto. Throws an
/// Error where the ranks would wait for each other, or where the description
/// says nothing about what the program needs.
Simulation simulate(const Artifact &artifact, const Cluster &cluster,
                    const std::string &entry = "step",
                    std::string *trace = nullptr);

/// The description of this machine, for CPU ranks of one thread each.
Cluster measureCluster();

std::string simulationTable(const Simulation &simulation);
std::string simulationJson(const Simulation &simulation);

} // namespace sheaf

#endif // SHEAF_SIMULATION_H
