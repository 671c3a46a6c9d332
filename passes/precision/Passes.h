//===- Passes.h - Number formats of a program ------------------*- C++ -*-===//
//
// Passes that decide in which element types a program computes.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PRECISION_PASSES_H
#define SHEAF_PASSES_PRECISION_PASSES_H

#include "dialects/NN/NN.h"
#include "mlir/Pass/Pass.h"

namespace sheaf {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/precision/Passes.h.inc"

} // namespace sheaf

#endif // SHEAF_PASSES_PRECISION_PASSES_H
