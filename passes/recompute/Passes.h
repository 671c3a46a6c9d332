//===- Passes.h - Less memory for more computation -------------*- C++ -*-===//
//
// The pass that decides which values of a layer are kept for its backward.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_RECOMPUTE_PASSES_H
#define SHEAF_PASSES_RECOMPUTE_PASSES_H

#include "mlir/Pass/Pass.h"

namespace sheaf {
#define GEN_PASS_DECL
#include "passes/recompute/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/recompute/Passes.h.inc"
} // namespace sheaf

#endif // SHEAF_PASSES_RECOMPUTE_PASSES_H
