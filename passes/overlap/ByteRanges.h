//===- ByteRanges.h - What is known of each byte ----------------*- C++ -*-===//
//
// A map from ranges of bytes that do not overlap to what is known of them, in
// time logarithmic in their number, and linear in those that are looked at.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_OVERLAP_BYTERANGES_H
#define SHEAF_PASSES_OVERLAP_BYTERANGES_H

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace sheaf {

template <typename Value>
class ByteRanges {
public:
  bool empty() const { return ranges.empty(); }

  /// Sets [begin, end) to a value.
  void set(int64_t begin, int64_t end, Value value) {
    erase(begin, end);
    if (begin < end)
      ranges.emplace(begin, Range{end, std::move(value)});
  }
  /// Forgets [begin, end).
  void erase(int64_t begin, int64_t end) {
    split(begin);
    split(end);
    ranges.erase(ranges.lower_bound(begin), ranges.lower_bound(end));
  }
  /// Calls `visit(begin, end, value)` for each range of [begin, end), in order,
  /// with a null value where nothing is known, until it returns false.
  template <typename Visit>
  void visit(int64_t begin, int64_t end, const Visit &visit) const {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.end > begin)
      --it;
    while (begin < end) {
      bool isGap = it == ranges.end() || it->first > begin;
      int64_t until = std::min(end, !isGap               ? it->second.end
                                    : it == ranges.end() ? end
                                                         : it->first);
      if (!visit(begin, until, isGap ? nullptr : &it->second.value))
        return;
      if (!isGap)
        ++it;
      begin = until;
    }
  }
  /// Calls `change(value)` for all of [begin, end), for a new value where there
  /// is none, and forgets those for which it returns false.
  template <typename Change>
  void change(int64_t begin, int64_t end, const Change &change) {
    split(begin);
    split(end);
    for (auto it = ranges.lower_bound(begin); begin < end;) {
      if (it == ranges.end() || it->first > begin) {
        int64_t until = it == ranges.end() ? end : std::min(end, it->first);
        it = ranges.emplace_hint(it, begin, Range{until, Value()});
      }
      begin = it->second.end;
      it = change(it->second.value) ? std::next(it) : ranges.erase(it);
    }
  }

private:
  struct Range {
    int64_t end;
    Value value;
  };
  std::map<int64_t, Range> ranges; ///< by their first byte

  /// Has a range begin at `at` where one holds it.
  void split(int64_t at) {
    auto it = ranges.lower_bound(at);
    if (it == ranges.begin())
      return;
    --it;
    if (it->second.end <= at)
      return;
    ranges.emplace(at, Range{it->second.end, it->second.value});
    it->second.end = at;
  }
};

} // namespace sheaf

#endif // SHEAF_PASSES_OVERLAP_BYTERANGES_H
