//===- Execute.h - Running a schedule, with what becomes of transfers -----===//
//
// For the library alone.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_EXECUTE_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_EXECUTE_H

#include "passes/pipeline/schedule/Transfers.h"
#include "passes/pipeline/schedule/Verify.h"

namespace sheaf::schedule {

/// `done` gets the end of each transfer; infinity where it never ends.
Execution execute(const Pipeline &pipeline, const Schedule &schedule,
                  Queues queues, const ValueIndex &index,
                  const Transfers &transfers, std::vector<double> &done);

/// A remark about an action of a schedule.
Remark remarkAt(const Schedule &schedule, int32_t rank, int32_t action,
                std::string text);

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_EXECUTE_H
