//===- Costs.h - What stages cost, from a user ------------------*- C++ -*-===//
//
// Reads the costs of a chain of stages. Either numbers, `F,I,W` or
// `F,I,W,transfer`, the same for every stage; or JSON:
//
//     {"forward": 1, "input_gradient": 1, "weight_gradient": 1,
//      "backward": 2, "fused_factor": 1, "latency": 0, "bandwidth": 1e9,
//      "activation_bytes": 1, "gradient_bytes": 0, "boundary_bytes": 0,
//      "resident_bytes": 0, "gathered_bytes": 0, "temporary_bytes": 0,
//      "stages": [{}, {"forward": 2}]}
//
// in which every field may be left out, and those that a stage has count before
// those of all.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_COSTS_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_COSTS_H

#include "passes/pipeline/schedule/Schedule.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace sheaf::schedule {

/// A chain of `stages` stages. `name` stands before the message of an error.
llvm::Expected<Pipeline> parseCosts(llvm::StringRef text, llvm::StringRef name,
                                    int32_t stages);

/// How many stages the text lists; 0 if it lists none.
llvm::Expected<int32_t> countStages(llvm::StringRef text, llvm::StringRef name);

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_COSTS_H
