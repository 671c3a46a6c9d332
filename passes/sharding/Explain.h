//===- Explain.h - What each collective costs, and why it is there -*- C++ -*-===//
//
// The collectives of a step on local tensors as a list that programs read, and as a
// table that people do.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_EXPLAIN_H
#define SHEAF_PASSES_SHARDING_EXPLAIN_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sheaf::sharding {

/// The collectives that one call of `entry` makes, in the order of the program, those
/// of layers and microbatches counted as often as they run. For each an object with
/// kind, axes, group, dtype, elements (of the whole tensor), wire_bytes (that one
/// device sends each time), count, phase, op and reason. Empty where the module has no
/// mesh.
llvm::json::Array explainCollectives(mlir::func::FuncOp entry);

/// One line for each, then the bytes that a device sends over each set of axes.
/// Scalars are counted, not listed.
void printCollectives(const llvm::json::Array &collectives, llvm::raw_ostream &os);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_EXPLAIN_H
