//===- Ring.h - Attention whose keys go round -------------------*- C++ -*-===//
//
// What one device does of attention over a sequence in shards, when keys and
// values go around the ring of the devices: in each step a device attends with
// its queries to the block that it holds, and hands the block on. Results are
// merged by their log-sum-exp (Liu et al. 2023, Ring Attention with Blockwise
// Transformers, section 3). Backwards the gradients of keys and values go round
// with them and then home.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_RING_H
#define SHEAF_PASSES_SHARDING_RING_H

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"

namespace sheaf::sharding {

struct Ring {
  /// The axes around which keys and values go, and how many devices those have.
  mlir::ArrayAttr axes;
  int64_t devices = 1;
  /// Positions of the whole sequence. A device has one chunk of `part` of
  /// them, device i those from i * part on; or two, `zigzag`: of 2 * devices
  /// chunks device i has those of number i and 2 * devices - 1 - i. What is
  /// behind the end is padding, where keys and values are finite.
  int64_t length = 0, part = 0;
  bool zigzag = false;
  /// What the collectives say of themselves, null for nothing: those of keys
  /// and values, and those of their gradients.
  mlir::DictionaryAttr keysReason, gradientsReason;
  /// Over what each gradient (of query, key and value) is still to be summed.
  dist::PartialAttr partial[3];
};

/// The local results of attention on local operands. A pair of chunks of which
/// no query sees a key on any device costs nothing, and a block that nobody
/// looks at any more is not handed on. No bias.
llvm::SmallVector<mlir::Value> buildRing(mlir::OpBuilder &builder,
                                         nn::AttentionOp op,
                                         llvm::ArrayRef<mlir::Value> operands,
                                         const Ring &ring);
/// The same of its gradient.
llvm::SmallVector<mlir::Value> buildRing(mlir::OpBuilder &builder,
                                         nn::AttentionGradOp op,
                                         llvm::ArrayRef<mlir::Value> operands,
                                         const Ring &ring);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_RING_H
