//===- TileEmitter.h - Vector code on tiles ---------------------*- C++ -*-===//
//
// The building blocks that the attention kernels share, each of which emits IR
// at the builder's insertion point: vector arithmetic of one lane count,
// windows on memrefs, a register-blocked product, transposing copies and an
// exponential. Nothing here knows about attention.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_ATTENTION_TILEEMITTER_H
#define SHEAF_LOWERING_CPU_ATTENTION_TILEEMITTER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace sheaf::cpu {

/// A number of rows or columns: a constant where the shape is known to divide,
/// otherwise a value.
struct Extent {
  mlir::Value value;
  /// The constant, or -1.
  int64_t known = -1;
  bool isMultipleOf(int64_t n) const { return known >= 0 && known % n == 0; }
};

/// A matrix inside a memref: element (r, c) is at `origin` with r added in
/// dimension `rowDim` and c in `columnDim`. Columns are contiguous.
struct Window {
  mlir::Value memref;
  llvm::SmallVector<mlir::Value, 4> origin;
  unsigned rowDim = 0;
  unsigned columnDim = 1;
};

class TileEmitter {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value, 8>;

  TileEmitter(mlir::OpBuilder &builder, mlir::Location loc,
              mlir::FloatType elementType, int64_t lanes, int64_t microRows,
              int64_t microVectors);

  // Integers of type index; constants fold.
  Value index(int64_t value);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value rem(Value a, Value b);
  Value min(Value a, Value b);
  Value max(Value a, Value b);
  Value compare(mlir::arith::CmpIPredicate predicate, Value a, Value b);
  Extent extent(int64_t value) { return {index(value), value}; }
  /// min(step, total - start), known if step divides total.
  Extent remaining(int64_t total, Value start, int64_t step);

  // Vectors of `lanes` elements.
  Value splat(double value);
  Value splat(Value scalar);
  Value fadd(Value a, Value b);
  Value fsub(Value a, Value b);
  Value fmul(Value a, Value b);
  Value fdiv(Value a, Value b);
  Value fma(Value a, Value b, Value c);
  Value fcompare(mlir::arith::CmpFPredicate predicate, Value a, Value b);
  Value select(Value condition, Value a, Value b);
  /// a > b ? a : b. A NaN in a is dropped, one in b is kept.
  Value fmaxDropNaN(Value a, Value b);
  /// The natural exponential. f32: own polynomial, error below 1 ulp, results
  /// below 2^-126.5 are zero; from 88.37 on +inf; exp(-inf) = 0, NaN stays NaN.
  /// f64: math.exp. `nonPositive` promises x <= 0 or NaN.
  Value exp(Value x, bool nonPositive);
  /// The sum of the lanes, in a tree of halves.
  Value sumLanes(Value vector);

  // Memory. A mask of null means all lanes.
  Value loadScalar(const Window &w, Value row, Value column);
  void storeScalar(Value scalar, const Window &w, Value row, Value column);
  Value load(const Window &w, Value row, Value column, Value mask = {});
  void store(Value vector, const Window &w, Value row, Value column,
             Value mask = {});
  /// The lanes of the vector at `column` that lie below `columns`; null if
  /// they all do at every multiple of the lane count.
  Value columnMask(const Extent &columns, Value column);
  /// Stack memory, aligned for vectors; the insertion point must be in the
  /// entry block.
  Window scratch(llvm::ArrayRef<int64_t> shape, mlir::Type type = {});
  Window at(const Window &w, Value row, Value column);

  /// for (i = lower; i < upper; i += step) body(i)
  void loop(Value lower, Value upper, int64_t step,
            llvm::function_ref<void(Value)> body);
  void loop(int64_t upper, int64_t step, llvm::function_ref<void(Value)> body) {
    loop(index(0), index(upper), step, body);
  }
  Values loop(Value lower, Value upper, int64_t step, mlir::ValueRange init,
              llvm::function_ref<Values(Value, mlir::ValueRange)> body);
  void ifTrue(Value condition, llvm::function_ref<void()> body);

  /// C = first(row, column) + A B for C of `rows` by `vectors` vectors, summed
  /// over `depth` in order. `a(row, k)` gives a scalar, `b(k, column)` a
  /// vector; columns count elements. `store` takes each finished vector.
  void product(const Extent &rows, int64_t vectors, const Extent &depth,
               llvm::function_ref<Value(Value row, Value k)> a,
               llvm::function_ref<Value(Value k, Value column)> b,
               llvm::function_ref<Value(Value row, Value column)> first,
               llvm::function_ref<void(Value, Value row, Value column)> store);

  /// lanes x lanes: vector i of the result holds element i of each input.
  Values transpose(Values rows);
  /// to[c][r] = from[r][c], for r in [0, toColumns), c in [0, columns rounded
  /// up to lanes); zero outside `rows` and `columns`. Scaled if `scale` is set.
  void copyTransposed(const Window &from, const Extent &rows,
                      const Extent &columns, const Window &to,
                      int64_t toColumns, int64_t maxColumns, Value scale = {});
  /// Calls sink(vector, r, c, mask) for each run of lanes of the transpose of
  /// `from`, whose vectors read(c, r) gives; r < rows, c < columns.
  void
  readTransposed(llvm::function_ref<Value(Value c, Value r)> read,
                 const Extent &rows, int64_t maxRows, const Extent &columns,
                 int64_t maxColumns,
                 llvm::function_ref<void(Value, Value, Value, Value)> sink);
  /// to[r][c] = from[r][c] for r < rows, with zeros from `columns` up to the
  /// next multiple of lanes.
  void copyRows(const Window &from, const Extent &rows, int64_t columns,
                const Window &to);
  void fillRows(const Window &to, const Extent &rows, int64_t columns,
                Value vector);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const mlir::FloatType elementType;
  const int64_t lanes;
  const int64_t microRows;
  const int64_t microVectors;
  const mlir::VectorType vectorType;

private:
  void microKernel(Value row, int64_t rows, Value column, int64_t vectors,
                   const Extent &depth,
                   llvm::function_ref<Value(Value, Value)> a,
                   llvm::function_ref<Value(Value, Value)> b,
                   llvm::function_ref<Value(Value, Value)> first,
                   llvm::function_ref<void(Value, Value, Value)> store);
  mlir::SmallVector<Value> indices(const Window &w, Value row, Value column);
};

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_ATTENTION_TILEEMITTER_H
