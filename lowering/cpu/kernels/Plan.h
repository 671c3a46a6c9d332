//===- Plan.h - What a kernel reads, and its loops -------------*- C++ -*-===//
//
// A kernel is emitted by demand: each element of a result asks for the elements
// that it is computed from. `Demand` follows that with symbolic indices,
// without emitting anything; `makePlan` decides from it on loops, items and
// vectors.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_KERNELS_PLAN_H
#define SHEAF_LOWERING_CPU_KERNELS_PLAN_H

#include "dialects/NN/NN.h"
#include "lowering/cpu/kernels/Index.h"
#include "llvm/ADT/SmallBitVector.h"
#include <set>
#include <vector>

namespace sheaf::cpu {

/// The lanes of a vector; several vectors for sums down columns, where they
/// also set how much of a row is read at once.
inline constexpr int64_t kLanes = 16, kColumnLanes = 64;

/// On an nn.exp whose results are only added to 1 or more.
inline constexpr llvm::StringLiteral kSummedAttr = "cpu.summed";

/// On an nn.reduce max of which only exponentials of differences to its
/// elements are used, so that it need not be NaN where one of them is: they are
/// then.
inline constexpr llvm::StringLiteral kShiftAttr = "cpu.shift";

inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
std::string shapeText(llvm::ArrayRef<int64_t> shape);

/// How a reduction op combines elements.
nn::ReduceKind kindOf(mlir::Operation *op);

/// Sizes of the dimensions that a reduction op runs over.
llvm::SmallVector<int64_t> reducedSizes(mlir::Operation *op);

/// Where a reduction op reads its operands for the result's `place` and the
/// indices along the reduced dimensions.
std::vector<Indices> reducedPlaces(mlir::Operation *op,
                                   llvm::ArrayRef<Index> place,
                                   llvm::ArrayRef<Index> reduced);

/// Where an op whose result element is made of one element of each operand
/// reads those; false where `op` is not such an op.
bool operandPlaces(Indexing &indexing, mlir::Operation *op,
                   llvm::ArrayRef<Index> place, std::vector<Indices> &places);

/// Where nn.gather reads its indices.
Indices gatherIndicesPlace(nn::GatherOp gather, llvm::ArrayRef<Index> place);
/// Where it reads its table, given the index along the axis.
Indices gatherTablePlace(nn::GatherOp gather, llvm::ArrayRef<Index> place,
                         const Index &row);

/// One dimension of a pad, or one operand of a concatenation: of the indices
/// from 0 on, every `step`-th is one of the `size` elements inside.
struct Window {
  Index inner;
  int64_t size, step;

  /// The largest inner index inside.
  int64_t last() const { return (size - 1) * step; }
  /// What the ranges of variables tell.
  bool alwaysInside(const Indexing &indexing) const {
    auto [low, high] = indexing.range(inner);
    return low >= 0 && high < size && step == 1;
  }
  bool neverInside(const Indexing &indexing) const {
    auto [low, high] = indexing.range(inner);
    return high < 0 || low > last();
  }
};
Window padWindow(Indexing &indexing, nn::PadOp pad, int64_t dim,
                 const Index &index);

/// Arithmetic operations of an op on whole tensors; 0 for data movement.
int64_t flopsOf(mlir::Operation *op);

/// The elements that are needed for those that are visited.
class Demand {
public:
  struct Access {
    mlir::Value tensor; ///< null for a number computed from the place
    Index offset;       ///< row-major
    bool inReduction;
  };
  struct Reduction {
    mlir::Operation *op;
    Indices place;
    llvm::SmallVector<unsigned> variables; ///< of the reduced dimensions
    bool nested;                           ///< needed by another reduction
  };

  explicit Demand(Indexing &indexing) : indexing(indexing) {}

  /// Fails, with `error` set, where an op cannot be in a kernel.
  mlir::LogicalResult visit(mlir::Value value, const Indices &place);

  Indexing &indexing;
  std::vector<Access> accesses;
  std::vector<Reduction> reductions;
  /// Values of an index where something begins or ends (in pad, concatenate): a
  /// loop that is cut there does not need to test.
  std::vector<std::pair<Index, int64_t>> borders;
  std::string error;

private:
  mlir::LogicalResult visitRandom(nn::RandomOp random, const Indices &place);
  mlir::LogicalResult visitReduction(mlir::Operation *op, const Indices &place);
  mlir::LogicalResult visitGather(nn::GatherOp gather, const Indices &place);
  void access(mlir::Value tensor, const Index &offset);
  Index enter(const Window &window);
  Index data(const Index &base, int64_t size);

  std::set<std::pair<void *, Indices>> visited;
  unsigned reductionDepth = 0;
};

/// Joins neighbouring loops through which every access walks as through one.
/// `variables` are those of the loops, outermost first. Returns the sizes of
/// the joined loops.
llvm::SmallVector<int64_t> joinLoops(Indexing &indexing,
                                     llvm::ArrayRef<unsigned> variables,
                                     llvm::ArrayRef<int64_t> sizes,
                                     llvm::ArrayRef<Index> offsets);

/// Where to cut a loop over `variable` from 0 to `size` so that `borders` are
/// met: the ends of the pieces, the last being `size`.
llvm::SmallVector<int64_t> cutLoop(const Demand &demand, unsigned variable,
                                   int64_t size);

/// How the results of a kernel are walked through.
struct Plan {
  /// Sizes of the loops over the largest result, in its order.
  llvm::SmallVector<int64_t> sizes;
  /// The loops that make the index space, and those inside an item, outermost
  /// first. The vector loop is one of `inner`.
  llvm::SmallVector<unsigned> items, inner;
  std::optional<unsigned> lane;
  int64_t lanes = kLanes;
  /// How many elements of the vector loop an item has; 0: all.
  int64_t block = 0;
  /// The pieces of the vector loop, where it is not cut into blocks.
  llvm::SmallVector<int64_t> pieces;
  /// For each result, how many leading loops it has.
  llvm::SmallVector<unsigned> loopsOf;
  int64_t extent = 1, grain = 1;
  /// Each result is a reduction of a few rows of an item, which goes through
  /// them as they lie in memory, a few at a time; meanwhile the results hold
  /// what is reduced so far.
  bool sweeps = false;
  /// Pairs (argument, result).
  llvm::SmallVector<int64_t> inPlace;
  /// Reductions with the same loops and of the same rank in the order of
  /// dependence, which are done in one loop.
  std::vector<llvm::SmallVector<mlir::Operation *>> groups;

  int64_t blocks() const {
    return block ? (sizes[*lane] + block - 1) / block : 1;
  }
};

/// Plans the kernel with these results; on failure `error` says what does not
/// fit together.
mlir::FailureOr<Plan> makePlan(mlir::ValueRange results, std::string &error);

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_KERNELS_PLAN_H
