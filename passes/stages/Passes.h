//===- Passes.h - A step in stages, a program for each rank ----*- C++ -*-===//
//
// The passes that cut the body of a microbatch into the parts of pipeline
// stages, and that make of those parts and a schedule what each place along
// the pipeline runs (docs/design/stages.md).
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STAGES_PASSES_H
#define SHEAF_PASSES_STAGES_PASSES_H

#include "mlir/Pass/Pass.h"

namespace sheaf {
#define GEN_PASS_DECL
#include "passes/stages/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/stages/Passes.h.inc"

/// On a private function, a stage part: the number of its stage, an i64, and
/// which part it is: "F" forward, "B" backward, or "I" and "W", the gradients
/// of inputs and of weights.
inline constexpr llvm::StringLiteral kStageAttr = "pipe.stage";
inline constexpr llvm::StringLiteral kPartAttr = "pipe.part";

} // namespace sheaf

#endif // SHEAF_PASSES_STAGES_PASSES_H
