//===- ClusterCosts.h - Times on a described cluster ------------*- C++ -*-===//
//
// The cost functions of runtime/cluster for code without exceptions: what they
// throw is kept, and times are 0 from then on. Types and kinds are those of
// sheaf/abi.h.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_OVERLAP_CLUSTERCOSTS_H
#define SHEAF_PASSES_OVERLAP_CLUSTERCOSTS_H

#include "sheaf/abi.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sheaf {

struct Cluster;

/// Seconds; FLOPs and bytes are those of one device.
class ClusterCosts {
public:
  explicit ClusterCosts(const std::string &path);
  ~ClusterCosts();

  double kernel(double flops, double bytes);
  double product(double flops, double bytes, SheafType a, SheafType b);
  double attention(double flops, double bytes, SheafType type, bool isBackward);
  /// A transfer of a whole tensor of so many bytes in the group of the first
  /// rank: `sizes` and `strides` of its axes.
  double transfer(int32_t kind, double bytes, const std::vector<int64_t> &sizes,
                  const std::vector<int64_t> &strides);

  int64_t devicesPerNode();

  /// What was wrong first; empty: nothing.
  const std::string &error() const { return message; }

private:
  std::unique_ptr<Cluster> cluster;
  std::string message;

  template <typename Work>
  auto guard(const Work &work) -> decltype(work());
};

} // namespace sheaf

#endif // SHEAF_PASSES_OVERLAP_CLUSTERCOSTS_H
