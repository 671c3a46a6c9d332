//===- Planner.h - From one sharding to another ----------------*- C++ -*-===//
//
// Finds the cheapest sequence of collectives that moves a value from one
// sharding to another, and its cost. Nothing else in the tree invents a
// sequence of collectives or estimates one. Knows no IR: axes are numbers, a
// sharding is a list of axes for each dimension and a set of axes over which
// the value is partial.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_PLANNER_PLANNER_H
#define SHEAF_PASSES_SHARDING_PLANNER_PLANNER_H

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sheaf::planner {

/// What a transfer over an axis costs.
struct Link {
  /// Seconds for each step of a collective; a group of n takes log2(n) steps (a
  /// tree, which libraries use where latency counts), an all-reduce twice as
  /// many.
  double latency = 0;
  /// Bytes a second that one device sends.
  double bandwidth = 1;
};

/// One axis of the mesh; devices along it are numbered from 0.
struct Axis {
  int64_t size = 1;
  Link link;
};

/// The axes of a mesh, the outermost first.
using Mesh = std::vector<Axis>;

/// Where the elements of a value are. Along a dimension of size n whose axes
/// have k devices together, device i (numbered with the first axis outermost)
/// holds elements [i*c, min(n, (i+1)*c)) with c = ceil(n/k), and padding behind
/// them.
struct State {
  /// For each dimension its axes, the outermost first.
  std::vector<std::vector<int>> dims;
  /// The axes over which the value is a sum (maximum, minimum) of what the
  /// devices hold; ascending.
  std::vector<int> partial;

  auto operator<=>(const State &other) const = default;
  /// For instance `[0 1][] + [2]`.
  std::string str() const;
};

enum class MoveKind {
  /// Takes the last axes off a dimension.
  AllGather,
  /// Puts partial axes behind those of a dimension.
  ReduceScatter,
  AllReduce,
  /// Takes the last axes off one dimension and puts them behind those of
  /// another.
  AllToAll,
  /// Hands whole shards from device to device.
  Permute,
  /// Puts unused axes behind those of a dimension; each device keeps its part.
  Slice,
  /// Makes a value partial: device 0 of the axes keeps it, the others hold the
  /// neutral element.
  MakePartial,
};

const char *nameOf(MoveKind kind);

struct Move {
  MoveKind kind;
  /// The axes of the group; empty for a permutation.
  std::vector<int> axes;
  /// The dimension that loses axes (AllGather, AllToAll) or gains them
  /// (ReduceScatter, Slice); -1 elsewhere.
  int dim = -1;
  /// The dimension that gains axes in an AllToAll.
  int toDim = -1;
  State after;
  /// Seconds.
  double cost = 0;
  /// Bytes that one device sends, on a ring.
  double bytes = 0;
};

struct Plan {
  std::vector<Move> moves;
  /// Seconds.
  double cost = 0;
  /// Bytes of the largest local value on the way, both ends included.
  int64_t peakBytes = 0;
};

/// Plans on one mesh, each question answered once.
class Planner {
public:
  explicit Planner(Mesh mesh) : mesh(std::move(mesh)) {}

  const Mesh &getMesh() const { return mesh; }

  /// The elements of the local part of a tensor of `shape`.
  int64_t localElements(const std::vector<int64_t> &shape,
                        const State &state) const;
  /// The size of a dimension's local part: ceil(size / devices).
  int64_t localSize(int64_t size, const std::vector<int> &axes) const;

  /// Seconds that a collective takes over `axes` in which a device sends
  /// `bytes` (for a local move: writes so many).
  double seconds(MoveKind kind, const std::vector<int> &axes,
                 double bytes) const;

  /// Every single move out of a state whose local value has at most `bound`
  /// bytes afterwards, with the axes in `allowed` only.
  std::vector<Move> movesFrom(const std::vector<int64_t> &shape,
                              int64_t elementBytes, const State &from,
                              const std::vector<int> &allowed,
                              int64_t bound) const;

  /// The cheapest way, of two equal ones that with fewer moves. No local value
  /// on it is larger than `bound` bytes; 0 stands for the larger end, doubled
  /// until there is a way. Uses the axes of `from` and `to` only. A bound below
  /// an end gives a plan without moves and infinite cost.
  const Plan &plan(const std::vector<int64_t> &shape, int64_t elementBytes,
                   const State &from, const State &to, int64_t bound = 0);

private:
  Plan search(const std::vector<int64_t> &shape, int64_t elementBytes,
              const State &from, const State &to, int64_t bound) const;

  Mesh mesh;
  struct Key {
    std::vector<int64_t> shape;
    int64_t elementBytes, bound;
    State from, to;
    auto operator<=>(const Key &other) const = default;
  };
  std::map<Key, Plan> known;
};

} // namespace sheaf::planner

#endif // SHEAF_PASSES_SHARDING_PLANNER_PLANNER_H
