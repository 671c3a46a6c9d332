//===- Transfers.h - Which values go to which ranks -------------*- C++ -*-===//
//
// For the library alone: numbers the transfers of a pipeline on its ranks.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_TRANSFERS_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_TRANSFERS_H

#include "passes/pipeline/schedule/Schedule.h"
#include <algorithm>

namespace sheaf::schedule {

class Transfers {
public:
  Transfers(const Pipeline &pipeline, const Schedule &schedule)
      : microbatches(schedule.microbatches) {
    first.push_back(0);
    for (const Value &value : pipeline.values) {
      owners.push_back(schedule.rankOf[value.stage]);
      size_t begin = readers.size();
      for (const Use &use : value.uses)
        if (schedule.rankOf[use.stage] != owners.back())
          readers.push_back(schedule.rankOf[use.stage]);
      std::sort(readers.begin() + begin, readers.end());
      readers.erase(std::unique(readers.begin() + begin, readers.end()),
                    readers.end());
      first.push_back(static_cast<int32_t>(readers.size()));
    }
  }

  /// For all microbatches.
  size_t size() const { return readers.size() * microbatches; }
  /// The rank that computes a value.
  int32_t owner(int32_t value) const { return owners[value]; }
  /// [begin, end) of the transfers of a value, without their microbatch.
  int32_t begin(int32_t value) const { return first[value]; }
  int32_t end(int32_t value) const { return first[value + 1]; }
  int32_t reader(int32_t transfer) const { return readers[transfer]; }

  /// The number of a transfer, or -1 where `to` does not read the value.
  int64_t find(int32_t value, int32_t to, int32_t microbatch) const {
    for (int32_t i = begin(value); i < end(value); ++i)
      if (readers[i] == to)
        return int64_t(i) * microbatches + microbatch;
    return -1;
  }
  /// That a send, receive or wait on `rank` is about.
  int64_t of(const Action &action, int32_t value, int32_t rank) const {
    bool sends =
        action.kind == ActionKind::Send || action.kind == ActionKind::WaitSend;
    int32_t from = sends ? rank : action.peer, to = sends ? action.peer : rank;
    return owners[value] == from ? find(value, to, action.task.microbatch) : -1;
  }

private:
  int32_t microbatches;
  std::vector<int32_t> owners, readers, first;
};

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_TRANSFERS_H
