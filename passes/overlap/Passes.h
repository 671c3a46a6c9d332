//===- Passes.h - Communication beside computation ----------------*- C++
//-*-===//

#ifndef SHEAF_PASSES_OVERLAP_PASSES_H
#define SHEAF_PASSES_OVERLAP_PASSES_H

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace sheaf {
/// In `about` of a transfer: how many there are in place of one.
inline constexpr llvm::StringLiteral kPartsKey = "parts";

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/overlap/Passes.h.inc"
} // namespace sheaf

#endif // SHEAF_PASSES_OVERLAP_PASSES_H
