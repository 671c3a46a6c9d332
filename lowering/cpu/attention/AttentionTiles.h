//===- AttentionTiles.h - What the attention kernels share ------*- C++ -*-===//
//
// The parts common to the forward, backward and bias-gradient kernels: the
// choice of tile sizes, the function's frame, the range of keys a block of
// queries sees, masks, and the tile of scores. Tiles are transposed: row k
// belongs to a key, the lanes along a row to queries.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_ATTENTION_ATTENTIONTILES_H
#define SHEAF_LOWERING_CPU_ATTENTION_ATTENTIONTILES_H

#include "Attention.h"
#include "TileEmitter.h"

#include <functional>

namespace sheaf::cpu {

struct AttentionBlocks {
  int64_t lanes = 0;
  int64_t microRows = 0;
  int64_t microVectors = 0;
  int64_t queries = 0; // per tile; a multiple of lanes
  int64_t keys = 0;    // per tile; a multiple of lanes
  int64_t elementBytes = 0;
  int64_t paddedHeadDim = 0;
  int64_t paddedValueDim = 0;
};

/// Bytes of scratch of the kernels with the given tiles.
int64_t forwardScratchBytes(const AttentionBlocks &blocks);
int64_t backwardScratchBytes(const AttentionBlocks &blocks);
int64_t biasGradientScratchBytes(const AttentionBlocks &blocks);

/// The largest tiles, within the tuning's, that keep `scratch` below the
/// limit; or a diagnostic.
llvm::FailureOr<AttentionBlocks>
chooseBlocks(mlir::Location loc, const AttentionSpec &spec,
             const AttentionTuning &tuning,
             llvm::function_ref<int64_t(const AttentionBlocks &)> scratch);

/// The keys [first, last) that a block of queries may see, on the host and in
/// whole tiles; for counting.
struct TileCount {
  /// Sum over one head's blocks of queries of queries times keys computed.
  double scores = 0;
};
TileCount countTiles(const AttentionSpec &spec, const AttentionBlocks &blocks);

/// The least number of tasks worth a dispatch, for tasks of `flops` each.
int64_t grainFor(double flops);

/// The arguments of a kernel; those that the spec has none of are null.
struct AttentionArguments {
  mlir::Value q, k, v, out, lse, dout, dlse, bias, queryDocuments, keyDocuments;
  mlir::Value firstPosition;
  mlir::Value dq, dqPieces, dk, dv, dbias;
};

enum class AttentionKernelKind {
  Forward,
  Backward,
  QueryGradientSum,
  BiasGradient
};

/// The keys [low, high), from and to whole tiles or the last key.
struct KeyRange {
  mlir::Value low, high;
};

class AttentionTiles : public TileEmitter {
public:
  AttentionTiles(mlir::OpBuilder &builder, mlir::Location loc,
                 const AttentionSpec &spec, const AttentionBlocks &blocks);

  /// Creates the function; `setup` emits allocations into its entry, `task`
  /// the body for one task.
  /// `pieces` is that of attentionBackwardPieces.
  BuiltKernel createKernel(llvm::StringRef name, AttentionKernelKind kind,
                           int64_t pieces, llvm::function_ref<void()> setup,
                           llvm::function_ref<void(Value)> task);

  /// Points the members below at a block of queries of one head.
  void beginBlock(Value sample, Value head, Value kvHead, Value blockStart);
  /// Scratch for the ids of the queries' documents, where there are any.
  void allocateDocuments();

  /// The keys that some query of the block may see.
  KeyRange visibleKeys();
  /// Calls body(j, keys) for each tile of keys in the range.
  void forEachKeyTile(
      const KeyRange &range,
      llvm::function_ref<void(Value start, const Extent &keys)> body);

  /// tile[k][q] = scale * <q, k> + bias from the transposed, scaled queries.
  void scores(const Window &queriesTransposed, const Window &tile, Value start,
              const Extent &keys);
  /// Overwrites what is invisible in `tile` with `value`. Emits nothing where
  /// no mask applies, and skips tiles that are visible in whole at run time.
  void maskTile(const Window &tile, Value start, const Extent &keys,
                double value);

  /// Rows [start, ...) of head `head` of a [B, rows, heads, columns] memref.
  Window rowsOf(Value memref, Value start, Value head);
  /// Entries [start, ...) of the current sample of a [B, rows, ...] memref.
  Window biasWindow(Value memref, Value start);

  int64_t queryVectors() const { return blocks.queries / lanes; }

  const AttentionSpec &spec;
  const AttentionBlocks blocks;
  AttentionArguments args;

  // The current block of queries.
  Value sample, head, kvHead;
  Value blockStart;
  Extent blockQueries;
  /// Position among the keys of the block's first query; may be negative.
  Value firstPosition;

private:
  bool isMasked() const {
    return spec.causal || spec.window || spec.hasDocuments;
  }
  int64_t windowSize() const;
  Window documents;
};

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_ATTENTION_ATTENTIONTILES_H
