//===- Recorder.h - a program's calls, without the work ---------*- C++ -*-===//
//
// A device and a communicator that write down what host code asks of them.
// Nothing is computed and nothing moves: buffers are addresses without memory,
// and only what host code itself writes, the handles of transfers, is there.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SIM_RECORDER_H
#define SHEAF_SIM_RECORDER_H

#include "Engine.h"
#include "sheaf/Artifact.h"
#include "sheaf/Communicator.h"
#include <exception>
#include <map>
#include <unordered_map>

namespace sheaf::sim {

/// What a work or a start of a recording is.
struct WorkInfo {
  std::string name, kind, location;
  double flops = 0, bytes = 0;
};
struct StartInfo {
  int32_t kind = 0;
  int row = -1;     ///< in Recording::rows, or -1 where nothing is counted
  double bytes = 0; ///< of the whole tensor
  std::string name; ///< the manifest's
};

/// One rank's program and what it is made of.
struct Recording {
  int64_t rank = 0, stage = 0;
  Program program;
  std::vector<WorkInfo> works;   ///< of Program::works
  std::vector<StartInfo> starts; ///< of Program::starts
  std::vector<TransferCount> rows;
};

/// The communicators of all recordings.
class Queues {
public:
  std::vector<Queue> all;
  int find(const std::vector<int64_t> &key, const std::vector<int> &members,
           bool isPair, const std::string &name);

private:
  std::map<std::vector<int64_t>, int> byKey;
};

/// Which ranks there are: a class for each place along the axis pp, and a rank
/// that stands for it.
struct Places {
  explicit Places(const Mesh &mesh);
  const Mesh &mesh;
  int64_t count = 1, stride = 1; ///< of the axis pp
  std::vector<int64_t> placeOf;  ///< in the mesh, by rank
  int64_t ofPlace(int64_t place) const { return place / stride % count; }
  /// Places of the mesh, in order.
  std::vector<int64_t> members(int64_t stage) const;
  int64_t representative(int64_t stage) const {
    return mesh.rankAt(stage * stride);
  }
};

/// The element type of products in a recipe, those of 8 bits left aside.
SheafType productTypeOf(const std::string &precision);

/// Runs an entry as the rank that stands for `stage`.
Recording record(const Artifact &artifact, const std::string &entry,
                 const Cluster &cluster, const Places &places, int64_t stage,
                 Queues &queues);

} // namespace sheaf::sim

#endif // SHEAF_SIM_RECORDER_H
