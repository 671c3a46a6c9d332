//===- Mesh.h - which part of a tensor a rank has ---------------*- C++ -*-===//
//
// A mesh numbers its places row-major, the first axis outermost; a rank stands
// at each, rank i at place i unless the mesh lists others. An axis, or a part
// of one, is its size and its stride. A sharding says, for each dimension of a
// tensor, the axes over which it is cut, the outermost first.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MESH_H
#define SHEAF_MESH_H

#include "sheaf/Types.h"
#include <span>
#include <string>
#include <vector>

namespace sheaf {

struct MeshAxis {
  std::string name;
  int64_t size;
};

/// An axis or a part of one. `dp:(2)3` is the part of size 3 of dp that has a
/// part of size 2 outside it.
struct AxisPart {
  int64_t size, stride;
  std::string text; ///< as in a manifest
  /// How far along the axis a place of the mesh is.
  int64_t coordinate(int64_t place) const { return place / stride % size; }
};

struct Mesh {
  std::vector<MeshAxis> axes; ///< outermost first
  /// The rank at each place; empty: each at that of its number.
  std::vector<int64_t> devices = {};

  int64_t ranks() const;
  int64_t stride(size_t axis) const;
  int64_t rankAt(int64_t place) const {
    return devices.empty() ? place : devices[place];
  }
  int64_t placeOf(int64_t rank) const;
  /// Where a rank stands along each axis.
  std::vector<int64_t> coordinates(int64_t rank) const;

  /// Reads `dp` or `dp:(2)3`. Throws an Error that names the axes there are, or
  /// that the part does not divide its axis.
  AxisPart parse(const std::string &text) const;
  /// The name of a part: that of an axis, of a part of one, or "size@stride"
  /// where the mesh has none such.
  std::string nameOf(int64_t size, int64_t stride) const;
};

/// The axes of one dimension, the outermost first; none: the dimension is
/// whole.
using DimensionAxes = std::vector<AxisPart>;

/// How many parts the axes cut a dimension into, and which of them a place has.
int64_t partCount(const DimensionAxes &axes);
int64_t partIndex(const DimensionAxes &axes, int64_t place);

/// Consecutive elements along one dimension, in a rank's local part and in the
/// whole tensor.
struct DimensionRange {
  int64_t local, global, length;
};

/// Where a tensor lies. Each dimension of size n cut into k parts has
/// c = ceil(n / k) elements at each place, of which place i's are the elements
/// from i c on, as far as there are; the rest is padding. A dimension of
/// several blocks is that many after one another, each cut so by itself (the
/// microbatches of a batch, the three parts of a fused query, key and value).
struct Layout {
  Shape global, local;
  std::vector<DimensionAxes> axes; ///< one for each dimension, or none at all
  std::vector<int64_t> blocks;     ///< one for each dimension, or none: 1 each
  /// The first place that has a part of it: behind 0 where those before along
  /// the pipeline have none.
  int64_t first = 0;

  int64_t blocksOf(size_t dim) const {
    return blocks.empty() ? 1 : blocks[dim];
  }
  bool isSharded() const;
  /// Whether the root lacks a part of it.
  bool isElsewhere() const { return first != 0 || isSharded(); }
  /// The local size of dimension `dim`.
  int64_t localSize(size_t dim) const;
  /// The ranges of a dimension that are not padding.
  std::vector<DimensionRange> ranges(size_t dim, int64_t place) const;
  /// Calls visit(local, global, length) for runs of elements that are
  /// consecutive in both: all but the padding, in order.
  template <typename Visit>
  void forEachRun(int64_t place, const Visit &visit) const {
    size_t dims = global.size(), inner = dims;
    int64_t run = 1;
    // Whole dimensions at the end are one run.
    while (inner > 0 && (axes.empty() || partCount(axes[inner - 1]) == 1))
      run *= global[--inner];
    if (run == 0)
      return;
    if (inner == 0) {
      visit(int64_t{0}, int64_t{0}, run);
      return;
    }
    std::vector<std::vector<DimensionRange>> all;
    for (size_t dim = 0; dim < inner; ++dim)
      all.push_back(ranges(dim, place));
    walk(all, 0, 0, 0, run, visit);
  }
  /// Whether no place before has the same part.
  bool isFirstOwner(int64_t place) const;

private:
  template <typename Visit>
  void walk(const std::vector<std::vector<DimensionRange>> &all, size_t dim,
            int64_t local, int64_t whole, int64_t run,
            const Visit &visit) const {
    for (const DimensionRange &range : all[dim]) {
      int64_t l = local * this->local[dim] + range.local,
              g = whole * global[dim] + range.global;
      if (dim + 1 == all.size()) {
        visit(l * run, g * run, range.length * run);
        continue;
      }
      for (int64_t i = 0; i < range.length; ++i)
        walk(all, dim + 1, l + i, g + i, run, visit);
    }
  }
};

} // namespace sheaf

#endif // SHEAF_MESH_H
