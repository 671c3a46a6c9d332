//===- Shardings.h - Shardings as the passes compute with them -*- C++ -*-===//
//
// The mesh cut into atoms (whole axes, or the sub-axes that the module uses),
// the sharding of a value on them, and how a sharding passes through a rule:
// from the dimensions of one value to factors and from factors to those of
// another.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_SHARDINGS_H
#define SHEAF_PASSES_SHARDING_SHARDINGS_H

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/sharding/planner/Planner.h"

namespace sheaf::sharding {

/// Axes of one dimension, as numbers of atoms, the outermost first. With
/// `blocks` b the dimension is b blocks, each of which is sharded. With
/// `zigzag` n it is n chunks, in the order 0, n - 1, 1, n - 2, ...; that is
/// what is sharded. One of the two is as it is here.
struct DimSharding {
  llvm::SmallVector<int, 2> axes;
  int64_t blocks = 1, zigzag = 0;

  /// Whether both cut the elements in one order.
  bool sameOrder(const DimSharding &other) const {
    return blocks == other.blocks && zigzag == other.zigzag;
  }
  /// Both in one number, as dist.dim has it.
  int64_t order() const { return axes.empty() ? 1 : zigzag ? -zigzag : blocks; }
  /// The size of a dimension of `size` with all of its last chunk.
  int64_t orderedSize(int64_t size) const {
    return zigzag && !axes.empty() ? zigzag * ((size + zigzag - 1) / zigzag)
                                   : size;
  }
  /// The place in `size` elements of element i of that order; `size` and more
  /// behind their end.
  int64_t placeOf(int64_t i, int64_t size) const {
    int64_t chunk = (size + zigzag - 1) / zigzag, number = i / chunk;
    number = number % 2 == 0 ? number / 2 : zigzag - 1 - number / 2;
    return number * chunk + i % chunk;
  }

  bool operator==(const DimSharding &other) const {
    return axes == other.axes && (sameOrder(other) || axes.empty());
  }
  bool operator!=(const DimSharding &other) const { return !(*this == other); }
};

/// The sharding of a value that is not partial.
struct ValueSharding {
  llvm::SmallVector<DimSharding, 4> dims;

  ValueSharding() = default;
  explicit ValueSharding(int64_t rank) : dims(rank) {}
  bool uses(int atom) const {
    return llvm::any_of(dims, [&](const DimSharding &dim) {
      return llvm::is_contained(dim.axes, atom);
    });
  }
  bool isReplicated() const {
    return llvm::all_of(
        dims, [](const DimSharding &dim) { return dim.axes.empty(); });
  }
  bool operator==(const ValueSharding &other) const {
    return dims == other.dims;
  }
  bool operator!=(const ValueSharding &other) const {
    return !(*this == other);
  }
};

/// Axes as diagnostics name them, in their order: `dp, tp:(2)2`.
std::string axesText(llvm::ArrayRef<dist::AxisAttr> axes);

/// The mesh of a module.
class MeshInfo {
public:
  /// Cuts the axes of the module's mesh at the sub-axes that it uses. Complains
  /// where there is no mesh or where sub-axes cross.
  static mlir::FailureOr<MeshInfo> get(mlir::ModuleOp module);
  /// The same with the sub-axes given.
  static mlir::FailureOr<MeshInfo> get(dist::MeshOp mesh,
                                       llvm::ArrayRef<dist::AxisAttr> used);
  /// The sub-axes that a module uses.
  static llvm::SmallVector<dist::AxisAttr> usedBy(mlir::ModuleOp module);

  dist::MeshOp op;
  planner::Planner planner{planner::Mesh()};

  int64_t sizeOf(int atom) const { return planner.getMesh()[atom].size; }
  int64_t sizeOf(llvm::ArrayRef<int> atoms) const {
    int64_t size = 1;
    for (int atom : atoms)
      size *= sizeOf(atom);
    return size;
  }
  int getNumAtoms() const { return static_cast<int>(atoms.size()); }

  /// The atoms of an axis; none where its size is 1.
  llvm::SmallVector<int> atomsOf(dist::AxisAttr axis) const;
  /// Axes as attributes: neighbouring parts of one axis become one.
  llvm::SmallVector<dist::AxisAttr> axesOf(llvm::ArrayRef<int> atoms) const;
  std::string nameOf(int atom) const;

  ValueSharding parse(dist::ShardingAttr sharding) const;
  dist::ShardingAttr print(const ValueSharding &sharding,
                           bool open = false) const;

  /// ceil(size / devices) in each dimension.
  mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                   const ValueSharding &sharding) const;

private:
  struct Atom {
    llvm::StringRef axis;
    int64_t outer;
  };
  std::vector<Atom> atoms;
};

/// Whether the code for sharding this factor so exists.
bool isShardable(const nn::Factor &factor, const DimSharding &sharding);

/// What an op does with shardings: its values (operands, then results) and
/// their factors. A value that has no say (a splat constant) is null.
struct Node {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<mlir::Value> values;
  unsigned numOperands = 0;
  nn::ShardingRule rule;

  const nn::ValueFactors &factorsOf(unsigned value) const {
    return value < numOperands ? rule.operands[value]
                               : rule.results[value - numOperands];
  }
};

/// A node for two values that are the same; the first is an operand.
Node identity(mlir::Operation *op, mlir::Value a, mlir::Value b);

/// Whether every use may have a copy of its own, of any shape.
bool isFree(mlir::Value value);

/// The nodes of an op: its rule; for calls, loops and returns, what is the same
/// on both sides.
void appendNodes(mlir::Operation *op, mlir::SymbolTableCollection &symbols,
                 llvm::SmallVectorImpl<Node> &nodes);

/// Sharding of each factor.
using FactorShardings = llvm::SmallVector<DimSharding>;

/// Reads off what a dimension's sharding says of its factors, as far as it
/// divides them: {factor, sharding}. `complete` is false where something is
/// left.
llvm::SmallVector<std::pair<int, DimSharding>, 2>
toFactors(const MeshInfo &mesh, const nn::ShardingRule &rule,
          const nn::DimFactors &dim, const DimSharding &sharding,
          bool &complete);

/// The sharding of a dimension from those of its factors. `complete` is false
/// where there is none that says all of it.
DimSharding fromFactors(const MeshInfo &mesh, const nn::ShardingRule &rule,
                        const nn::DimFactors &dim,
                        const FactorShardings &factors, bool &complete);

/// The local shape that `fromFactors` gives each dimension of a value.
ValueSharding shardingOf(const MeshInfo &mesh, const nn::ShardingRule &rule,
                         const nn::ValueFactors &value,
                         const FactorShardings &factors);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_SHARDINGS_H
