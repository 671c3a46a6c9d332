//===- PassFailure.h - Which pass failed, and on what ----------*- C++ -*-===//
//
// signalPassFailure() without a diagnostic ends a pipeline without a word, and a
// diagnostic tells what is wrong with an op, not who says so. This instrumentation
// writes a line for every pass that fails: its name and its op. The line goes to
// standard error past the diagnostics, whose number tests check.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_PASSFAILURE_H
#define SHEAF_SUPPORT_PASSFAILURE_H

#include "mlir/Pass/PassManager.h"

namespace sheaf {

/// Writes "TOOL: the pass 'nn-fuse' failed on 'func.func' @f" where a pass of
/// `manager` fails.
void nameFailingPass(mlir::PassManager &manager, llvm::StringRef tool);

} // namespace sheaf

#endif // SHEAF_SUPPORT_PASSFAILURE_H
