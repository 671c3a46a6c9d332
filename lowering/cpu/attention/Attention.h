//===- Attention.h - CPU kernels of attention -------------------*- C++ -*-===//
//
// Builds the CPU kernels of one attention call, forward and backward, as
// functions on memrefs (func, scf, vector, memref, arith and math). The score
// matrix is never stored: a kernel walks over it in tiles, as in
// FlashAttention-2 (Dao 2023, algorithms 1 and 2), with the vector lanes along
// the queries, so that maxima, sums and exponentials of a row need no
// reduction across lanes and K and V need no packing in the forward pass.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_ATTENTION_ATTENTION_H
#define SHEAF_LOWERING_CPU_ATTENTION_ATTENTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include <array>
#include <cstdint>
#include <optional>

namespace sheaf::cpu {

/// One attention call. Arrays are row-major, contiguous, of static shape:
///
///   q, dq         [B, S, H, D]      k, dk   [B, T, G, D]
///   out, dout     [B, S, H, Dv]     v, dv   [B, T, G, Dv]
///   lse, dlse     [B, S, H]         bias, dbias  [Bb, Hb, S, T]
///   query documents [B, S] of i32   key documents [B, T] of i32
///   first position [] of i32
///
/// Query head h reads key/value head h / (H / G). Query i stands at position
/// p = i + (T - S) among the keys, or, where there is a first position, which
/// is known at run time only, at p = i + that, from -2^29 to 2^29. Key j is
/// visible to it if all that apply hold: causal, j <= p; window W, |p - j| < W;
/// documents, equal ids. score = scale * <q, k> + bias; out = softmax over
/// visible keys, times v; lse = log(sum over visible keys of exp(score)). A row
/// without a visible key (or with all scores -inf) has out = 0, lse = -inf and
/// zero gradients. NaN in an input gives NaN in every output that depends on
/// it; it may also reach outputs of the same tile that depend on it with a
/// weight of zero.
struct AttentionSpec {
  int64_t batch = 1;    // B
  int64_t queries = 1;  // S
  int64_t keys = 1;     // T
  int64_t heads = 1;    // H
  int64_t kvHeads = 1;  // G, divides H
  int64_t headDim = 1;  // D
  int64_t valueDim = 1; // Dv
  bool causal = false;
  std::optional<int64_t> window; // W >= 1
  double scale = 1.0;
  bool hasDocuments = false;
  /// The position of the first query is an argument.
  bool hasFirstPosition = false;
  /// The two leading extents of bias: Bb is 1 or B, Hb is 1 or H.
  std::optional<std::array<int64_t, 2>> bias;
  /// Forward: lse is written. (Backward always reads it.)
  bool wantsLse = true;
  /// Backward: lse has a gradient of its own, dlse.
  bool hasLseGradient = false;
  /// f32 or f64; f64 is the reference path and is not tuned.
  mlir::Type elementType;
};

/// How the kernels use the machine. The result's bits depend on these.
struct AttentionTuning {
  /// Bytes of a vector register: 64 for AVX-512, 32 for AVX2, 16 for SSE.
  int64_t vectorBytes = 64;
  /// Accumulators of the micro-kernel: rows times vectors. Zero: chosen from
  /// vectorBytes (32 registers for AVX-512, 16 otherwise).
  int64_t microRows = 0;
  int64_t microVectors = 0;
  /// Largest tile, in queries and keys. Zero: chosen from shape and scratch.
  int64_t tileQueries = 0;
  int64_t tileKeys = 0;
  /// Below this many heads times samples (G * B) the backward pass cuts the
  /// keys into pieces, at the cost of a buffer; see attentionBackwardPieces.
  int64_t minBackwardTasks = 8;

  /// The choice for a machine with or without AVX-512.
  static AttentionTuning forTarget(bool hasAvx512) {
    AttentionTuning tuning;
    tuning.vectorBytes = hasAvx512 ? 64 : 32;
    return tuning;
  }
};

/// A kernel does the tasks [begin, end) of an index space of `extent` tasks;
/// its last two arguments are begin and end (index). Tasks write disjoint
/// elements, may run at the same time and in any order, and give the same bits
/// however the space is cut. `extent` and `grain` (the least number of tasks
/// worth a dispatch) depend on the spec and the tuning only.
struct BuiltKernel {
  mlir::func::FuncOp function;
  int64_t extent = 0;
  int64_t grain = 1;
  /// Floating-point operations of the products over the tiles computed, and
  /// bytes of the arguments, each counted once; for the whole index space. With
  /// a first position: as if the queries stood amid the keys, which is the mean
  /// over all parts of a sequence.
  double flops = 0;
  double bytes = 0;
};

/// Bytes of stack that one call of a kernel may take for its tiles.
inline constexpr int64_t kAttentionScratchLimit = 240 * 1024;

/// Emits a diagnostic at `loc` and fails if no kernel can be built for `spec`.
llvm::LogicalResult verifyAttentionSpec(mlir::Location loc,
                                        const AttentionSpec &spec,
                                        const AttentionTuning &tuning = {});

/// Arguments: q, k, v, [bias], [query documents, key documents], [first
/// position] -> out, [lse], begin, end. A task is a block of queries of one
/// head.
///
/// The function is created at the builder's insertion point. Fails with a
/// diagnostic where verifyAttentionSpec does.
llvm::FailureOr<BuiltKernel>
buildAttentionForward(mlir::OpBuilder &builder, mlir::Location loc,
                      llvm::StringRef name, const AttentionSpec &spec,
                      const AttentionTuning &tuning = {});

/// The number n of pieces into which the backward kernel cuts the keys, at
/// least two tiles each: 1 where B * G >= tuning.minBackwardTasks. If n > 1 the
/// caller provides a buffer, dqPieces [n, B, S, H, D], that the backward kernel
/// writes in place of dq, and calls the kernel of
/// buildAttentionQueryGradientSum after it. Fails with a diagnostic where
/// verifyAttentionSpec does.
llvm::FailureOr<int64_t>
attentionBackwardPieces(mlir::Location loc, const AttentionSpec &spec,
                        const AttentionTuning &tuning = {});

/// Arguments: q, k, v, out, lse, dout, [dlse], [bias], [query documents, key
/// documents], [first position] -> dq (or dqPieces), dk, dv, begin, end. All
/// three are overwritten. A task is one piece of the keys of one key/value head
/// of one sample, with all its queries, so that scores are recomputed once;
/// rowsum(dout * out) is computed inside.
llvm::FailureOr<BuiltKernel>
buildAttentionBackward(mlir::OpBuilder &builder, mlir::Location loc,
                       llvm::StringRef name, const AttentionSpec &spec,
                       const AttentionTuning &tuning = {});

/// dq as the sum of its pieces, in order. Arguments: dqPieces -> dq, begin,
/// end. A task is one row of one sample. Requires attentionBackwardPieces > 1.
llvm::FailureOr<BuiltKernel>
buildAttentionQueryGradientSum(mlir::OpBuilder &builder, mlir::Location loc,
                               llvm::StringRef name, const AttentionSpec &spec,
                               const AttentionTuning &tuning = {});

/// The gradient of bias, in a kernel of its own because its tasks are cut
/// along (Bb, Hb, queries): each adds up the batches and heads that share one
/// bias, in order. Arguments: the reads of the backward kernel -> dbias,
/// begin, end. Requires spec.bias.
llvm::FailureOr<BuiltKernel>
buildAttentionBiasGradient(mlir::OpBuilder &builder, mlir::Location loc,
                           llvm::StringRef name, const AttentionSpec &spec,
                           const AttentionTuning &tuning = {});

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_ATTENTION_ATTENTION_H
