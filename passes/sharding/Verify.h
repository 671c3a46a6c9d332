//===- Verify.h - Partial values only where they may be ---------*- C++ -*-===//
//
// What dist-verify checks, for passes that take it for granted: what forgets
// which values are partial may not be given any where they are taken as whole;
// and that a program is on tensors.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_VERIFY_H
#define SHEAF_PASSES_SHARDING_VERIFY_H

#include "mlir/IR/BuiltinOps.h"

namespace sheaf::sharding {

/// On the program of one device: whether values that are still to be reduced
/// are over axes of the mesh, go only into ops that may take them, and neither
/// into an entry nor out of one. Else an error stands at the first that is not.
mlir::LogicalResult verifyPartialValues(mlir::Operation *root);

/// Whether the program is on tensors: buffers have no shardings. Else an error
/// stands at the first op or function with a memref, and names `pass`.
mlir::LogicalResult verifyOnTensors(mlir::Operation *root,
                                    llvm::StringRef pass);

/// Whether functions that bodies of dist.manual call, themselves or through
/// others, are without shardings: there they get the parts of one device. Else
/// an error stands at the call.
mlir::LogicalResult verifyManualCalls(mlir::ModuleOp module);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_VERIFY_H
