//===- Passes.h - Reverse-mode differentiation -----------------*- C++ -*-===//
//
// The pass that adds gradient functions to a module.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_AUTODIFF_PASSES_H
#define SHEAF_PASSES_AUTODIFF_PASSES_H

#include "mlir/Pass/Pass.h"

namespace sheaf {
#define GEN_PASS_DECL
#include "passes/autodiff/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/autodiff/Passes.h.inc"
} // namespace sheaf

#endif // SHEAF_PASSES_AUTODIFF_PASSES_H
