//===- Plan.h - A schedule with its sends and receives ---------*- C++ -*-===//
//
// From the name of a schedule to what each rank does, transfers included.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STAGES_PLAN_H
#define SHEAF_PASSES_STAGES_PLAN_H

#include "passes/pipeline/schedule/Schedule.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace sheaf::stages {

/// The compute actions of a schedule: one of the known recipes by its name, or
/// what the file behind `file:` has. The error says what is wrong with it.
llvm::Expected<schedule::Schedule> makeSchedule(llvm::StringRef name,
                                                int32_t ranks, int32_t chunks,
                                                int32_t microbatches);

/// Puts sends, receives and waits between the compute actions, for the values
/// of `pipeline`, in one global order, and proves that they run. With
/// `forwardOnly` each stage runs its forward once, one behind the other,
/// whatever the schedule says. The error says which action never gets what it
/// reads, or what is missing, and where in `file`, if it was read from one.
llvm::Expected<schedule::Schedule>
addTransfers(const schedule::Schedule &schedule,
             const schedule::Pipeline &pipeline, bool forwardOnly,
             llvm::StringRef file);

} // namespace sheaf::stages

#endif // SHEAF_PASSES_STAGES_PLAN_H
