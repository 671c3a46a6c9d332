//===- Passes.h - From a loss to a training step ---------------*- C++ -*-===//
//
// The passes that make the entries of a training artifact of a loss function
// and its gradient: gradients, step, init, and loss and logits for evaluation.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STEP_PASSES_H
#define SHEAF_PASSES_STEP_PASSES_H

#include "mlir/Pass/Pass.h"

namespace sheaf {
#define GEN_PASS_DECL
#include "passes/step/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/step/Passes.h.inc"
} // namespace sheaf

#endif // SHEAF_PASSES_STEP_PASSES_H
