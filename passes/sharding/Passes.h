//===- Passes.h - From a user's intent to collectives ----------*- C++ -*-===//
//
// Strategies as tables of axis names, propagation of shardings, and
// partitioning into the program of one device.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_PASSES_H
#define SHEAF_PASSES_SHARDING_PASSES_H

#include "mlir/Pass/Pass.h"

namespace sheaf {
#define GEN_PASS_DECL
#include "passes/sharding/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

#endif // SHEAF_PASSES_SHARDING_PASSES_H
