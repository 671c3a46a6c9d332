//===- Passes.h - Schedules of pipelines ------------------------*- C++ -*-===//
//
// Passes on the pipe dialect: thin layers over the library of schedules
// (passes/pipeline/schedule).
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_PASSES_H
#define SHEAF_PASSES_PIPELINE_PASSES_H

#include "dialects/Pipe/Pipe.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace sheaf {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/pipeline/Passes.h.inc"
} // namespace sheaf

#endif // SHEAF_PASSES_PIPELINE_PASSES_H
