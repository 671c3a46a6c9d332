//===- Gathered.h - weights of other ranks that a call holds ----*- C++ -*-===//
//
// Counts, while an entry runs, the bytes of the arena that hold weights
// gathered from other ranks. What the compiler says of lifetimes is not asked:
// a gather counts from where it is waited for, or from where it starts, to the
// last call that finds the gathered
// bytes in place and reads them. To know that, the bytes are hashed at each
// call that is given a pointer to them; so one call of an entry is watched, not
// all.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_GATHERED_H
#define SHEAF_GATHERED_H

#include "sheaf/abi.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace sheaf {

class GatheredWeights {
public:
  /// `bytes` at `begin`.
  struct Range {
    const char *begin;
    int64_t bytes;
    bool has(const void *pointer) const {
      auto at = static_cast<const char *>(pointer);
      return at >= begin && at < begin + bytes;
    }
  };

  GatheredWeights(Range arena, std::vector<Range> parameters)
      : arena(arena), parameters(std::move(parameters)) {}

  /// A transfer starts, and is there, with `bytes` to receive.
  void start(const SheafCollective &collective, const void *send,
             const void *receive, int64_t bytes, int64_t handle);
  void wait(int64_t handle);
  /// A launch or product has run; its reads come first, its last is written.
  void ran(const void *const *buffers, int64_t count);
  /// A copy has run.
  void copied(const void *to, const void *from, int64_t bytes);

  /// The most bytes that were held at once, those on their way included, or
  /// not.
  int64_t most(bool withUnderWay) const;

private:
  struct Gather {
    Range range;
    int64_t started, first, last; ///< numbers of calls: where it starts, where
                                  ///< it is there, and its last use
    uint64_t hash = 0;
    bool isThere = false, isOver = false;
  };

  bool isWeight(const void *pointer) const;
  void add(const void *at, int64_t bytes);
  void touch(const void *pointer);

  Range arena;
  std::vector<Range> parameters;
  std::set<const void *> made; ///< of parameters alone: casts, copies
  std::vector<Gather> gathers;
  std::map<int64_t, std::size_t> open; ///< by handle
  int64_t now = 0;
};

} // namespace sheaf

#endif // SHEAF_GATHERED_H
