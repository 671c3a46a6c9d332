//===- LiveBytes.h - Bytes in use at each op --------------------*- C++ -*-===//
//
// A tree over the ops of a function: bytes are added to a range of them, and
// the most of a range is asked for, in time logarithmic in their number.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_OVERLAP_LIVEBYTES_H
#define SHEAF_PASSES_OVERLAP_LIVEBYTES_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sheaf {

class LiveBytes {
public:
  explicit LiveBytes(int count = 0) : count(count), nodes(4 * count + 1) {}

  /// Adds to each op of [first, last].
  void add(int first, int last, int64_t bytes) {
    if (first <= last)
      add(0, 0, count - 1, first, last, bytes);
  }
  /// The most at an op of [first, last]; 0 where there is none.
  int64_t most(int first, int last) const {
    return first <= last ? most(0, 0, count - 1, first, last) : 0;
  }
  int64_t most() const { return most(0, count - 1); }

private:
  struct Node {
    int64_t added = 0; ///< to all below, by this node
    int64_t most = 0;  ///< below, what this node adds included
  };
  int count;
  std::vector<Node> nodes;

  void add(int node, int begin, int end, int first, int last, int64_t bytes) {
    if (last < begin || end < first)
      return;
    if (first <= begin && end <= last) {
      nodes[node].added += bytes;
      nodes[node].most += bytes;
      return;
    }
    int middle = begin + (end - begin) / 2;
    add(2 * node + 1, begin, middle, first, last, bytes);
    add(2 * node + 2, middle + 1, end, first, last, bytes);
    nodes[node].most = nodes[node].added + std::max(nodes[2 * node + 1].most,
                                                    nodes[2 * node + 2].most);
  }
  int64_t most(int node, int begin, int end, int first, int last) const {
    if (last < begin || end < first)
      return INT64_MIN;
    if (first <= begin && end <= last)
      return nodes[node].most;
    int middle = begin + (end - begin) / 2;
    int64_t below = std::max(most(2 * node + 1, begin, middle, first, last),
                             most(2 * node + 2, middle + 1, end, first, last));
    return below == INT64_MIN ? below : below + nodes[node].added;
  }
};

} // namespace sheaf

#endif // SHEAF_PASSES_OVERLAP_LIVEBYTES_H
