//===- RankValues.h - The values that a rank has ----------------*- C++ -*-===//
//
// For the library alone: a dense table over the values that one rank computes
// or reads, and the microbatches.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_RANKVALUES_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_RANKVALUES_H

#include "passes/pipeline/schedule/Transfers.h"

namespace sheaf::schedule {

template <typename T>
class RankValues {
public:
  RankValues(const Transfers &transfers, size_t values, int32_t rank,
             int32_t microbatches)
      : microbatches(microbatches), rows(values, -1) {
    for (size_t i = 0; i < values; ++i) {
      auto value = static_cast<int32_t>(i);
      bool isHere = transfers.owner(value) == rank;
      for (int32_t t = transfers.begin(value); t < transfers.end(value); ++t)
        isHere |= transfers.reader(t) == rank;
      if (!isHere)
        continue;
      rows[i] = static_cast<int32_t>(here.size());
      here.push_back(value);
    }
    entries.resize(here.size() * microbatches);
  }

  bool has(int32_t value) const { return rows[value] >= 0; }
  T &at(int32_t value, int32_t microbatch) {
    return entries[size_t(rows[value]) * microbatches + microbatch];
  }
  /// The values of the rank, ascending.
  const std::vector<int32_t> &values() const { return here; }

private:
  int32_t microbatches;
  std::vector<int32_t> rows, here;
  std::vector<T> entries;
};

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_RANKVALUES_H
