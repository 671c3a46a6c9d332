//===- Passes.h - Passes on single nn ops ----------------------*- C++ -*-===//
//
// Passes that look at one nn op at a time: decomposition into simpler ops, and
// printers that tests read.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_NN_PASSES_H
#define SHEAF_PASSES_NN_PASSES_H

#include "mlir/Pass/Pass.h"

namespace sheaf {
#define GEN_PASS_DECL
#include "passes/nn/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/nn/Passes.h.inc"
} // namespace sheaf

#endif // SHEAF_PASSES_NN_PASSES_H
