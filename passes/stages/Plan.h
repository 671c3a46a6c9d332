//===- Plan.h - A schedule with its sends and receives ---------*- C++ -*-===//
//
// From the name of a schedule to what each rank does, transfers included.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STAGES_PLAN_H
#define SHEAF_PASSES_STAGES_PLAN_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/pipeline/schedule/Schedule.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace sheaf::stages {

/// An error in the name of `name` where a schedule is not of so many ranks and
/// microbatches.
llvm::Error checkSize(const schedule::Schedule &schedule, llvm::StringRef name,
                      int32_t ranks, int32_t microbatches);

/// The compute actions of a schedule: one of the known recipes by its name, or
/// what the file behind `file:` has, be it text, CSV or IR of `pipe`. The error
/// says what is wrong with it.
llvm::Expected<schedule::Schedule> makeSchedule(llvm::StringRef name,
                                                int32_t ranks, int32_t chunks,
                                                int32_t microbatches);

/// One that is made for what the stages cost, within a limit on the bytes of
/// each rank. The error says which limit would do.
llvm::Expected<schedule::Schedule>
makeGreedySchedule(const schedule::Pipeline &pipeline, int32_t ranks,
                   int32_t microbatches, int64_t memoryLimit);

/// Which schedule is asked for.
struct ScheduleOptions {
  /// A recipe, `greedy`, `file:F`, or `module`: that of its `exec.schedule`.
  std::string name;
  /// Stages of each rank where the recipe leaves that open.
  int64_t chunks = 1;
  /// Bytes of a rank, for greedy.
  int64_t memoryLimit = std::numeric_limits<int64_t>::max();
};

/// The step of a module as a pipeline, and who runs what when.
struct StepPlan {
  schedule::Pipeline pipeline;
  /// Compute actions alone, and with their transfers.
  schedule::Schedule schedule, lowered;
  /// The type of each of the pipeline's values.
  std::vector<mlir::Type> types;
  /// Of each stage, the bytes of what it adds up over microbatches, which are
  /// among its resident bytes.
  std::vector<int64_t> sumBytes;
};

/// For the program of one device behind `dist-to-nn`, cut by `pipe-cut-stages`:
/// what `pipe-make-programs` makes programs of. Diagnostics say what is wrong.
mlir::FailureOr<StepPlan> planStep(mlir::ModuleOp module,
                                   const ScheduleOptions &options);

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
