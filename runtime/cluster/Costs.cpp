//===- Costs.cpp - how long things take on a cluster ----------------------===//
//
// The formulas of docs/design/simulation.md, and nothing else.
//
//===----------------------------------------------------------------------===//

#include "sheaf/Cluster.h"
#include "sheaf/Error.h"
#include "sheaf/Types.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

using namespace sheaf;

namespace {
constexpr std::array<std::string_view, transferKinds> names = {
    "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"};

/// The value at `x` of the line through points in order of x: on it between
/// two, and as at the nearest beyond them.
double between(const std::vector<std::pair<double, double>> &points, double x) {
  auto above =
      std::find_if(points.begin(), points.end(),
                   [&](const auto &point) { return point.first >= x; });
  if (above == points.end())
    return points.back().second;
  if (above == points.begin() || above->first == x)
    return above->second;
  auto below = std::prev(above);
  double part = (x - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

double linkRate(TransferKind kind, const TransferRow &row) {
  return row.bytesPerSecond * linkShare(kind, row.shape);
}

/// The rate of a device's link in a group of `shape`, or nothing where no row
/// has a group on as many as one node, or on several.
double linkRate(TransferKind kind, const std::vector<TransferRow> &rows,
                GroupShape shape) {
  // By members within a node, of each number by nodes.
  std::map<int64_t, std::vector<std::pair<double, double>>> byMembers;
  for (const TransferRow &row : rows)
    if ((row.shape.nodes > 1) == (shape.nodes > 1))
      byMembers[row.shape.members].emplace_back(
          std::log2(static_cast<double>(row.shape.nodes)), linkRate(kind, row));
  std::vector<std::pair<double, double>> points;
  for (const auto &[members, rates] : byMembers)
    points.emplace_back(
        static_cast<double>(members),
        between(rates, std::log2(static_cast<double>(shape.nodes))));
  return points.empty() ? 0
                        : between(points, static_cast<double>(shape.members));
}

double latencyOf(const Cluster::Transfers &transfers, GroupShape shape) {
  auto place = [&](int64_t members) {
    double n = static_cast<double>(members);
    return transfers.byLogOfMembers ? std::log2(n) : n;
  };
  // Of rows with as many members the one on the nearest number of nodes.
  std::map<int64_t, const TransferRow *> bySize;
  for (const TransferRow &row : transfers.rows) {
    const TransferRow *&nearest = bySize[row.shape.size()];
    if (!nearest || std::abs(row.shape.nodes - shape.nodes) <
                        std::abs(nearest->shape.nodes - shape.nodes))
      nearest = &row;
  }
  std::vector<std::pair<double, double>> points;
  for (const auto &[size, row] : bySize)
    points.emplace_back(place(size), row->latency);
  double x = place(shape.size());
  double latency = between(points, x);
  if (points.size() > 1 && x > points.back().first) {
    auto last = points.end() - 1, before = points.end() - 2;
    double slope =
        (last->second - before->second) / (last->first - before->first);
    latency += std::max(0.0, slope) * (x - last->first);
  }
  return latency;
}
} // namespace

std::string_view sheaf::transferName(TransferKind kind) {
  return names[static_cast<int>(kind)];
}

TransferKind sheaf::transferKindOf(int32_t collectiveKind) {
  switch (collectiveKind) {
  case SHEAF_ALL_REDUCE:
    return TransferKind::AllReduce;
  case SHEAF_ALL_GATHER:
  case SHEAF_BROADCAST:
    return TransferKind::AllGather;
  case SHEAF_REDUCE_SCATTER:
    return TransferKind::ReduceScatter;
  case SHEAF_ALL_TO_ALL:
    return TransferKind::AllToAll;
  default:
    return TransferKind::Send;
  }
}

double sheaf::linkShare(TransferKind kind, GroupShape shape) {
  double members = static_cast<double>(shape.members),
         nodes = static_cast<double>(shape.nodes), size = members * nodes;
  // Of a ring on several nodes each member of a node drives one adapter.
  double ring = (size - 1) / (nodes > 1 ? size * members : size);
  switch (kind) {
  case TransferKind::AllGather:
  case TransferKind::ReduceScatter:
    return ring;
  case TransferKind::AllReduce:
    return 2 * ring;
  case TransferKind::AllToAll:
    return nodes > 1 ? (nodes - 1) / nodes : (members - 1) / members;
  case TransferKind::Send:
    return 1;
  }
  return 1;
}

double Cluster::atLeast(double seconds) const {
  return std::max(device.leastKernel, device.launch + seconds);
}

double Cluster::kernelSeconds(double flops, double bytes) const {
  return atLeast(std::max(flops / device.elementwise.reached(),
                          bytes / device.memory.reached()));
}

const Rate &Cluster::productRate(SheafType type) const {
  auto found = device.products.find(type);
  if (found != device.products.end())
    return found->second;
  std::vector<std::string_view> known;
  for (const auto &[other, rate] : device.products)
    known.push_back(typeName(other));
  fail("{}: device.products has no rate for {}, which the program multiplies; "
       "it has {}: add it, or compile for another precision",
       name, typeName(type), fmt::join(known, ", "));
}

double Cluster::productSeconds(double flops, double bytes, SheafType a,
                               SheafType b) const {
  double rate = productRate(a).reached();
  rate = std::min(rate, productRate(b).reached());
  return atLeast(std::max(flops / rate, bytes / device.memory.reached()));
}

double Cluster::attentionSeconds(double flops, double bytes, SheafType type,
                                 bool isBackward) const {
  double rate =
      productRate(type).stated *
      (isBackward ? device.attentionBackward : device.attentionForward);
  return atLeast(std::max(flops / rate, bytes / device.memory.reached()));
}

TransferCost Cluster::transfer(int32_t collectiveKind, double bytes,
                               GroupShape shape) const {
  TransferCost cost;
  if (shape.size() <= 1) {
    // A copy on the device.
    cost.seconds = copySeconds(2 * bytes);
    return cost;
  }
  TransferKind kind = transferKindOf(collectiveKind);
  const Transfers &all = transfers[static_cast<int>(kind)];
  cost.inNode = shape.nodes == 1 || shape.members > 1;
  cost.acrossNodes = shape.nodes > 1;
  auto listed =
      std::find_if(all.rows.begin(), all.rows.end(),
                   [&](const TransferRow &row) { return row.shape == shape; });
  const TransferRow *nearest = nullptr;
  if (listed != all.rows.end()) {
    nearest = &*listed;
    cost.latency = listed->latency;
    cost.seconds = bytes / listed->bytesPerSecond;
  } else {
    double rate = linkRate(kind, all.rows, shape);
    if (rate == 0)
      fail("{}: communication.transfers has no row for {} {}, which the "
           "program needs for {} in each of {} ({} devices in a node); add one",
           name, transferName(kind),
           shape.nodes > 1 ? "with several nodes" : "with one node",
           shape.members == 1 ? "1 member"
                              : fmt::format("{} members", shape.members),
           shape.nodes == 1 ? "1 node" : fmt::format("{} nodes", shape.nodes),
           devicesPerNode);
    cost.latency = latencyOf(all, shape);
    cost.seconds = bytes * linkShare(kind, shape) / rate;
    for (const TransferRow &row : all.rows)
      if ((row.shape.nodes > 1) == (shape.nodes > 1) &&
          (!nearest || std::abs(row.shape.size() - shape.size()) <
                           std::abs(nearest->shape.size() - shape.size())))
        nearest = &row;
  }
  cost.share = static_cast<double>(nearest->multiprocessors) /
               static_cast<double>(device.multiprocessors);
  return cost;
}

GroupShape Cluster::shapeOf(const std::vector<int> &members) const {
  std::map<int64_t, int64_t> count;
  GroupShape shape;
  for (int rank : members)
    shape.members = std::max(shape.members, ++count[nodeOf(rank)]);
  shape.nodes = std::max<int64_t>(1, static_cast<int64_t>(count.size()));
  return shape;
}
