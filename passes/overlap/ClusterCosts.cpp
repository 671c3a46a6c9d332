#include "passes/overlap/ClusterCosts.h"
#include "sheaf/Cluster.h"
#include <exception>

using namespace sheaf;

template <typename Work>
auto ClusterCosts::guard(const Work &work) -> decltype(work()) {
  try {
    return message.empty() ? work() : 0;
  } catch (const std::exception &error) {
    message = error.what();
    return 0;
  }
}

ClusterCosts::ClusterCosts(const std::string &path) {
  guard([&] {
    cluster = std::make_unique<Cluster>(Cluster::read(path));
    return 0;
  });
}

ClusterCosts::~ClusterCosts() = default;

int64_t ClusterCosts::devicesPerNode() {
  return guard([&] { return cluster->devicesPerNode; });
}

double ClusterCosts::kernel(double flops, double bytes) {
  return guard([&] { return cluster->kernelSeconds(flops, bytes); });
}

double ClusterCosts::product(double flops, double bytes, SheafType a,
                             SheafType b) {
  return guard([&] { return cluster->productSeconds(flops, bytes, a, b); });
}

double ClusterCosts::attention(double flops, double bytes, SheafType type,
                               bool isBackward) {
  return guard([&] {
    return cluster->attentionSeconds(flops, bytes, type, isBackward);
  });
}

double ClusterCosts::transfer(int32_t kind, double bytes,
                              const std::vector<int64_t> &sizes,
                              const std::vector<int64_t> &strides) {
  return guard([&] {
    std::vector<int> members{0};
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      std::size_t inner = members.size();
      for (int64_t step = 1; step < sizes[axis]; ++step)
        for (std::size_t i = 0; i < inner; ++i)
          members.push_back(members[i] +
                            static_cast<int>(step * strides[axis]));
    }
    return cluster->transfer(kind, bytes, cluster->shapeOf(members)).all();
  });
}
