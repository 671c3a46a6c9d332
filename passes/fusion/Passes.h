//===- Passes.h - Which ops become one kernel ------------------*- C++ -*-===//
//
// The pass that groups nn ops into kernels, after everything that looks at them
// one by one and before they are given buffers.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_FUSION_PASSES_H
#define SHEAF_PASSES_FUSION_PASSES_H

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace sheaf {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/fusion/Passes.h.inc"

} // namespace sheaf

#endif // SHEAF_PASSES_FUSION_PASSES_H
