//===- NNToExec.h - From tensors to buffers --------------------*- C++ -*-===//
//
// The pass `nn-to-exec` and the analysis of einsums that matrix products do.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_NNTOEXEC_NNTOEXEC_H
#define SHEAF_LOWERING_NNTOEXEC_NNTOEXEC_H

#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace sheaf {

/// A batched row-major matrix product that computes an einsum in place.
struct MatmulPlan {
  /// The einsum's operands change places: the product computes C^T = B^T A^T.
  bool swapped = false;
  int64_t m = 1, n = 1, k = 1;
  bool transposeA = false, transposeB = false;
  int64_t lda = 1, ldb = 1, ldc = 1;
  /// Batch sizes, outermost first, and the strides of A, B, C for each.
  llvm::SmallVector<int64_t, 3> batch;
  std::array<llvm::SmallVector<int64_t, 3>, 3> strides;
};

/// Elements from one index to the next, for each dimension of a tensor.
using Strides = llvm::SmallVector<int64_t>;
Strides rowMajor(llvm::ArrayRef<int64_t> shape);
/// The strides under which a tensor of shape `from` is one of shape `to` with
/// the same elements in the same places; none where no strides do that.
std::optional<Strides> reshapeStrides(llvm::ArrayRef<int64_t> from,
                                      llvm::ArrayRef<int64_t> strides,
                                      llvm::ArrayRef<int64_t> to);

/// The product that computes `einsum` on operands and result as they lie in
/// memory, with the given strides (of A, B and the result); none where the
/// letters do not fall into rows, columns and batches with constant strides, or
/// the element type is neither f32 nor f64.
std::optional<MatmulPlan> planMatmul(nn::EinsumOp einsum,
                                     const std::array<Strides, 3> &strides);
/// The same where all three are stored row by row.
std::optional<MatmulPlan> planMatmul(nn::EinsumOp einsum);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lowering/NNToExec/Passes.h.inc"

} // namespace sheaf

#endif // SHEAF_LOWERING_NNTOEXEC_NNTOEXEC_H
