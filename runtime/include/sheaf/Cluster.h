//===- Cluster.h - a cluster's description and cost functions ---*- C++ -*-===//
//
// What a cluster can do, read from a JSON file, and how long kernels, products
// and transfers take on it. Whoever needs a time takes it from here: the
// simulated device and the compiler. docs/design/simulation.md has the format
// and the formulas. All figures are in bytes, seconds, FLOP/s and bytes/s.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_CLUSTER_H
#define SHEAF_CLUSTER_H

#include "sheaf/abi.h"
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf {

/// What a vendor states, and the part of it that is reached.
struct Rate {
  double stated = 0, efficiency = 1;
  double reached() const { return stated * efficiency; }
};

/// A rank's group on the nodes: `members` of it in each of `nodes`.
struct GroupShape {
  int64_t members = 1, nodes = 1;
  int64_t size() const { return members * nodes; }
  bool operator<(const GroupShape &other) const {
    return nodes != other.nodes ? nodes < other.nodes : members < other.members;
  }
  bool operator==(const GroupShape &other) const {
    return nodes == other.nodes && members == other.members;
  }
};

/// The kinds of transfers that a description has figures for.
enum class TransferKind {
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  Send,
};
inline constexpr int transferKinds = 5;
std::string_view transferName(TransferKind kind);

/// By the figures of which kind a SheafCollectiveKind goes: a permute by those
/// of a send, a broadcast by those of an all-gather.
TransferKind transferKindOf(int32_t collectiveKind);

/// One row of the description: an algorithm's bandwidth, whole tensor over
/// time, and its latency.
struct TransferRow {
  GroupShape shape;
  double bytesPerSecond = 0, latency = 0;
  int64_t multiprocessors = 0;
};

/// What a transfer takes.
struct TransferCost {
  double latency = 0, seconds = 0; ///< one after the other; alone on its links
  double share = 0; ///< of the device's multiprocessors, while it is under way
  /// The links that it uses: to the device's node, to the network.
  bool inNode = false, acrossNodes = false;
  double all() const { return latency + seconds; }
};

struct Cluster {
  std::string name; ///< as messages call it: the file

  struct Device {
    std::string name;
    double memoryBytes = 0;
    int64_t multiprocessors = 1;
    Rate memory, elementwise;
    std::map<SheafType, Rate> products;
    double attentionForward = 1, attentionBackward = 1; ///< efficiencies
    double launch = 0;      ///< seconds in front of each kernel
    double leastKernel = 0; ///< seconds of any kernel
    double issue = 0;       ///< seconds of the host for each call
  } device;

  int64_t devicesPerNode = 1;

  struct Transfers {
    std::vector<TransferRow> rows; ///< by shape
    bool byLogOfMembers = false;   ///< the latency
  };
  Transfers transfers[transferKinds];

  /// Throw an Error that starts with the name and says what is wrong, where,
  /// what was expected and what is nearest.
  static Cluster parse(std::string_view text, const std::string &name);
  static Cluster read(const std::string &path);

  //===--- the cost functions ---===//

  /// A kernel of so many operations on single elements that reads and writes
  /// so many bytes.
  double kernelSeconds(double flops, double bytes) const;
  /// A product of matrices of element types `a` and `b`. Throws an Error where
  /// the description has no rate of a type.
  double productSeconds(double flops, double bytes, SheafType a,
                        SheafType b) const;
  double attentionSeconds(double flops, double bytes, SheafType type,
                          bool isBackward) const;
  /// Bytes read and written.
  double copySeconds(double bytes) const { return kernelSeconds(0, bytes); }

  /// A transfer of a whole tensor of so many bytes. Throws an Error where the
  /// description has no row that says anything about groups like this one.
  TransferCost transfer(int32_t collectiveKind, double bytes,
                        GroupShape shape) const;

  /// The shape of a group of ranks, consecutive ones of which fill a node: the
  /// number of nodes, and the most members in one of them.
  GroupShape shapeOf(const std::vector<int> &members) const;
  int64_t nodeOf(int64_t rank) const { return rank / devicesPerNode; }

  /// The rate of products of a type. Throws an Error that lists those there
  /// are.
  const Rate &productRate(SheafType type) const;

private:
  double atLeast(double seconds) const;
};

/// The bytes that go over one device's link in one direction for each byte of
/// the whole tensor: what interpolation between shapes goes by.
double linkShare(TransferKind kind, GroupShape shape);

/// The description as JSON, as read() takes it.
std::string clusterJson(const Cluster &cluster);

} // namespace sheaf

#endif // SHEAF_CLUSTER_H
