//===- Passes.h - Where buffers live ---------------------------*- C++ -*-===//
//
// Passes that decide the place and lifetime of buffers on the exec floor.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_MEMORY_PASSES_H
#define SHEAF_PASSES_MEMORY_PASSES_H

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace sheaf {

/// On a placed function: the largest sum of bytes alive at one op.
inline constexpr llvm::StringLiteral kLiveAttr = "exec.live_bytes";

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/memory/Passes.h.inc"

} // namespace sheaf

#endif // SHEAF_PASSES_MEMORY_PASSES_H
