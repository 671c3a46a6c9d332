//===- fuzz-cluster.cpp - Descriptions of clusters ------------------------===//

#include "sheaf/Cluster.h"
#include "sheaf/Error.h"
#include "sheaf/abi.h"
#include <cmath>
#include <cstdlib>

using namespace sheaf;

/// What is accepted says of everything that it has a rate for how long it
/// takes, and no time is less than none.
static void check(double seconds) {
  if (!(seconds >= 0) || std::isinf(seconds))
    abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    Cluster cluster =
        Cluster::parse({reinterpret_cast<const char *>(data), size}, "input");
    check(cluster.kernelSeconds(1e9, 1e6));
    check(cluster.copySeconds(1e6));
    for (const auto &[type, rate] : cluster.device.products) {
      check(cluster.productSeconds(1e9, 1e6, type, type));
      check(cluster.attentionSeconds(1e9, 1e6, type, true));
    }
    for (int kind : {SHEAF_ALL_REDUCE, SHEAF_ALL_GATHER, SHEAF_REDUCE_SCATTER,
                     SHEAF_ALL_TO_ALL, SHEAF_PERMUTE, SHEAF_SEND})
      for (int64_t ranks : {1, 2, 8, 64}) {
        std::vector<int> members;
        for (int64_t i = 0; i < ranks; ++i)
          members.push_back(static_cast<int>(2 * i));
        GroupShape shape = cluster.shapeOf(members);
        try {
          TransferCost cost = cluster.transfer(kind, 1e6, shape);
          check(cost.latency);
          check(cost.seconds);
          check(cost.share);
        } catch (const Error &) {
          // No row of groups like that.
        }
      }
  } catch (const Error &) {
  }
  return 0;
}
