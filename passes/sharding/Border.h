//===- Border.h - Open dimensions at the border of dist.manual -*- C++ -*-===//
//
// A body that is written for one device may work on parts of its parts. Of an
// open dimension at its border this finds out where the dimension goes in the
// body; where every op and collective lets it through, axes that the body does
// not use may shard it further, and the body's shapes shrink.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_BORDER_H
#define SHEAF_PASSES_SHARDING_BORDER_H

#include "passes/sharding/Shardings.h"

namespace sheaf::sharding {

/// What propagates through a dist.manual.
struct Border {
  /// Relates inputs and results. The first `open` factors are the dimensions
  /// that go through, with the size of a part; the others relate nothing.
  Node node;
  unsigned open = 0;
  /// Atoms that the border or the body names: no open dimension takes them.
  llvm::SmallVector<int> taken;
  /// For each open factor, the dimensions of values of the body that it is.
  llvm::SmallVector<llvm::SmallVector<std::pair<mlir::Value, unsigned>>> inside;
  /// Whether it lies behind axes of the border somewhere: padding would then
  /// stand between elements, so that axes must divide it.
  llvm::SmallVector<bool> divides;

  /// Leaves of what open factors are to get what they may: no axis that is
  /// taken, none that would pad where it may not, nor those behind them.
  void restrict(llvm::MutableArrayRef<DimSharding> factors,
                const MeshInfo &mesh) const;
};

Border findBorder(dist::ManualOp op, const MeshInfo &mesh);

/// Shards each open factor further, by `axes`: the border then names all axes,
/// and the body has the shapes that are left.
void closeBorder(dist::ManualOp op, const Border &border,
                 llvm::ArrayRef<llvm::SmallVector<int, 2>> axes,
                 const MeshInfo &mesh);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_BORDER_H
