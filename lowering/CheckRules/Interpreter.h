//===- Interpreter.h - Runs small tensor programs --------------*- C++ -*-===//
//
// Executes a function of linalg, tensor, arith and math ops, and the
// collectives of dist, on all devices of a mesh, step by step together. For
// checks on tensors of a few elements: floats are computed as doubles whatever
// their type, integers wrap.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CHECKRULES_INTERPRETER_H
#define SHEAF_LOWERING_CHECKRULES_INTERPRETER_H

#include "dialects/Dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace sheaf::checking {

/// A number of a tensor: `f` where its type is a float, else `i`.
struct Element {
  double f = 0;
  int64_t i = 0;
};

struct Tensor {
  llvm::SmallVector<int64_t> shape;
  std::vector<Element> data;

  Tensor() = default;
  explicit Tensor(llvm::ArrayRef<int64_t> shape)
      : shape(shape), data(llvm::product_of(shape)) {}
  /// Calls `use(index, element)` for each, in row-major order.
  template <typename Use>
  void each(Use use) {
    llvm::SmallVector<int64_t> index(shape.size(), 0);
    for (Element &element : data) {
      use(llvm::ArrayRef<int64_t>(index), element);
      for (size_t d = shape.size(); d-- > 0;) {
        if (++index[d] < shape[d])
          break;
        index[d] = 0;
      }
    }
  }
  Element &at(llvm::ArrayRef<int64_t> index) {
    int64_t place = 0;
    for (auto [size, i] : llvm::zip_equal(shape, index))
      place = place * size + i;
    return data[place];
  }
  const Element &at(llvm::ArrayRef<int64_t> index) const {
    return const_cast<Tensor *>(this)->at(index);
  }
};

/// Of a dimension of `size` elements in shards of `part`, what a device holds
/// that is the `number`-th: elements behind the end are `padding`. With
/// `blocks` so of each of these.
Tensor shardOf(Tensor &whole, unsigned dim, int64_t part, int64_t number,
               Element padding, int64_t blocks = 1);

/// What stands behind the end of a shard: a float that is not a number, an
/// integer that indexes nothing.
Element paddingFor(mlir::Type element);

/// The devices of a mesh: numbers of ranks, the last axis counted first.
class Devices {
public:
  explicit Devices(dist::MeshOp mesh) : mesh(mesh) {}
  int64_t count() const { return dist::MeshOp(mesh).getNumDevices(); }
  /// The number of a rank along axes, the first of which counts the most.
  int64_t indexOf(int64_t rank, llvm::ArrayRef<dist::AxisAttr> axes) const;
  /// The ranks that differ from this one along the axes only, in their order.
  llvm::SmallVector<int64_t> groupOf(int64_t rank,
                                     llvm::ArrayRef<dist::AxisAttr> axes) const;

private:
  dist::MeshOp mesh;
};

/// Runs a function of one block on every device: arguments and results of each.
/// An op that is not known is an error.
mlir::FailureOr<std::vector<std::vector<Tensor>>>
run(mlir::func::FuncOp function, const Devices *devices,
    const std::vector<std::vector<Tensor>> &arguments);

} // namespace sheaf::checking

#endif // SHEAF_LOWERING_CHECKRULES_INTERPRETER_H
