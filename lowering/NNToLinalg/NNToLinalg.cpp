//===- NNToLinalg.cpp - From nn to linalg ---------------------------------===//

#include "lowering/NNToLinalg/NNToLinalg.h"
#include "dialects/NN/NN.h"
#include "lowering/NNToLinalg/ScalarOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

namespace sheaf {
#define GEN_PASS_DEF_NNTOLINALG
#include "lowering/NNToLinalg/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::lowering;
using namespace sheaf::nn;

namespace {
using Body = llvm::function_ref<void(OpBuilder &, Location, ValueRange)>;
using utils::IteratorType;

RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

RankedTensorType withElementType(RankedTensorType type, Type element) {
  return RankedTensorType::get(type.getShape(), element);
}

Value empty(OpBuilder &b, Location loc, RankedTensorType type) {
  return tensor::EmptyOp::create(b, loc, type.getShape(),
                                 type.getElementType());
}

Value filled(OpBuilder &b, Location loc, RankedTensorType type, Value element) {
  return linalg::FillOp::create(b, loc, element, empty(b, loc, type))
      .getResult(0);
}

/// One element of the result from one of each input.
Value map(OpBuilder &b, Location loc, RankedTensorType type, ValueRange inputs,
          ArrayRef<AffineMap> inputMaps, Body body) {
  SmallVector<AffineMap> maps(inputMaps);
  maps.push_back(b.getMultiDimIdentityMap(type.getRank()));
  SmallVector<IteratorType> iterators(type.getRank(), IteratorType::parallel);
  return linalg::GenericOp::create(b, loc, TypeRange(type), inputs,
                                   ValueRange(empty(b, loc, type)), maps,
                                   iterators, body)
      .getResult(0);
}

void yield(OpBuilder &b, Location loc, Value value) {
  linalg::YieldOp::create(b, loc, value);
}

/// How a tensor is read where the loops are those of a result to which it is
/// broadcast as in NumPy.
AffineMap broadcastMap(OpBuilder &b, RankedTensorType type, int64_t rank) {
  SmallVector<AffineExpr> places;
  for (auto [i, size] : llvm::enumerate(type.getShape()))
    places.push_back(size == 1 ? b.getAffineConstantExpr(0)
                               : b.getAffineDimExpr(rank - type.getRank() + i));
  return AffineMap::get(rank, 0, places, b.getContext());
}

SmallVector<Value> indices(OpBuilder &b, Location loc, int64_t rank) {
  SmallVector<Value> values;
  for (int64_t i = 0; i < rank; ++i)
    values.push_back(linalg::IndexOp::create(b, loc, i));
  return values;
}

struct Decompose : OpInterfaceRewritePattern<DecomposableOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(DecomposableOpInterface op,
                                PatternRewriter &rewriter) const final {
    rewriter.replaceOp(op, op.decompose(rewriter));
    return success();
  }
};

struct ConvertElementwise : RewritePattern {
  ConvertElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const final {
    if (!isScalarOp(op))
      return rewriter.notifyMatchFailure(op, "not a simple elementwise op");
    RankedTensorType type = tensorOf(op->getResult(0));
    SmallVector<AffineMap> maps;
    for (Value operand : op->getOperands())
      maps.push_back(broadcastMap(rewriter, tensorOf(operand), type.getRank()));
    rewriter.replaceOp(
        op, map(rewriter, op->getLoc(), type, op->getOperands(), maps,
                [&](OpBuilder &b, Location loc, ValueRange args) {
                  yield(b, loc, buildScalar(b, loc, op, args.drop_back()));
                }));
    return success();
  }
};

/// A sum (or maximum, ...) of `inputs`, read with `maps`, over the dimensions
/// that the last of `maps`, the result's, lacks.
Value reduce(OpBuilder &b, Location loc, ReduceKind kind, RankedTensorType type,
             ValueRange inputs, ArrayRef<AffineMap> maps, int64_t count) {
  Type element = type.getElementType(), wide = getAccumulatorType(element);
  RankedTensorType wideType = withElementType(type, wide);
  Value init = filled(b, loc, wideType, buildNeutral(b, loc, kind, wide));
  SmallVector<IteratorType> iterators(maps.back().getNumDims(),
                                      IteratorType::reduction);
  for (AffineExpr place : maps.back().getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(place))
      iterators[dim.getPosition()] = IteratorType::parallel;
  Value result =
      linalg::GenericOp::create(
          b, loc, TypeRange(wideType), inputs, ValueRange(init), maps,
          iterators,
          [&](OpBuilder &b, Location loc, ValueRange args) {
            Value product = buildCast(b, loc, args[0], wide);
            if (args.size() == 3)
              product = arith::MulFOp::create(b, loc, product,
                                              buildCast(b, loc, args[1], wide));
            yield(b, loc, buildAccumulate(b, loc, kind, product, args.back()));
          })
          .getResult(0);
  if (kind != ReduceKind::Mean && wide == element)
    return result;
  return map(b, loc, type, result, b.getMultiDimIdentityMap(type.getRank()),
             [&](OpBuilder &b, Location loc, ValueRange args) {
               Value value = args[0];
               if (kind == ReduceKind::Mean)
                 value = arith::DivFOp::create(
                     b, loc, value, buildNumber(b, loc, wide, count));
               yield(b, loc, buildCast(b, loc, value, element));
             });
}

struct ConvertReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  // One with `keep` becomes one without.
  void initialize() { setHasBoundedRewriteRecursion(); }
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const final {
    RankedTensorType type = op.getInput().getType();
    SmallVector<AffineExpr> kept;
    int64_t count = 1;
    for (int64_t i = 0; i < type.getRank(); ++i) {
      bool reduced = llvm::is_contained(op.getDims(), i);
      count *= reduced ? type.getDimSize(i) : 1;
      if (!reduced)
        kept.push_back(rewriter.getAffineDimExpr(i));
      else if (op.getKeep())
        kept.push_back(rewriter.getAffineConstantExpr(0));
    }
    AffineMap maps[] = {rewriter.getMultiDimIdentityMap(type.getRank()),
                        AffineMap::get(type.getRank(), 0, kept, getContext())};
    // A constant in the result's map is not allowed: reduce without `keep`,
    // then put the dimensions back.
    if (op.getKeep()) {
      auto narrow = ReduceOp::create(rewriter, op.getLoc(), op.getKind(),
                                     op.getInput(), op.getDims(), false);
      rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), narrow);
      return success();
    }
    rewriter.replaceOp(op, reduce(rewriter, op.getLoc(), op.getKind(),
                                  op.getType(), op.getInput(), maps, count));
    return success();
  }
};

struct ConvertEinsum : OpRewritePattern<EinsumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EinsumOp op,
                                PatternRewriter &rewriter) const final {
    auto [left, right] = op.getEquation().split("->");
    SmallVector<StringRef> operands;
    left.split(operands, ',');
    std::string letters = right.str();
    for (StringRef names : operands)
      for (char c : names)
        if (!StringRef(letters).contains(c))
          letters += c;
    operands.push_back(right);
    SmallVector<AffineMap> maps;
    for (StringRef names : operands) {
      SmallVector<AffineExpr> places;
      for (char c : names)
        places.push_back(rewriter.getAffineDimExpr(StringRef(letters).find(c)));
      maps.push_back(AffineMap::get(letters.size(), 0, places, getContext()));
    }
    rewriter.replaceOp(op, reduce(rewriter, op.getLoc(), ReduceKind::Sum,
                                  op.getType(), op.getInputs(), maps, 1));
    return success();
  }
};

struct ConvertReshape : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const final {
    Location loc = op.getLoc();
    RankedTensorType from = op.getInput().getType(), to = op.getType();
    if (from == to) {
      rewriter.replaceOp(op, op.getInput());
      return success();
    }
    auto change = [&](Value value, RankedTensorType type) -> Value {
      RankedTensorType now = tensorOf(value);
      if (now == type)
        return value;
      auto groups = getReassociationIndicesForReshape(now, type);
      if (!groups)
        return {};
      if (now.getRank() > type.getRank())
        return tensor::CollapseShapeOp::create(rewriter, loc, type, value,
                                               *groups);
      return tensor::ExpandShapeOp::create(rewriter, loc, type, value, *groups);
    };
    Value result = change(op.getInput(), to);
    if (!result) {
      auto flat =
          RankedTensorType::get(from.getNumElements(), from.getElementType());
      result = change(change(op.getInput(), flat), to);
    }
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct ConvertTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const final {
    SmallVector<AffineExpr> places(op.getType().getRank());
    for (auto [i, dim] : llvm::enumerate(op.getPermutation()))
      places[dim] = rewriter.getAffineDimExpr(i);
    AffineMap from =
        AffineMap::get(op.getType().getRank(), 0, places, getContext());
    rewriter.replaceOp(op, map(rewriter, op.getLoc(), op.getType(),
                               op.getInput(), from,
                               [](OpBuilder &b, Location loc, ValueRange args) {
                                 yield(b, loc, args[0]);
                               }));
    return success();
  }
};

struct ConvertBroadcast : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const final {
    SmallVector<AffineExpr> places;
    for (auto [dim, size] :
         llvm::zip(op.getDims(), op.getInput().getType().getShape()))
      places.push_back(size == 1 ? rewriter.getAffineConstantExpr(0)
                                 : rewriter.getAffineDimExpr(dim));
    AffineMap from =
        AffineMap::get(op.getType().getRank(), 0, places, getContext());
    rewriter.replaceOp(op, map(rewriter, op.getLoc(), op.getType(),
                               op.getInput(), from,
                               [](OpBuilder &b, Location loc, ValueRange args) {
                                 yield(b, loc, args[0]);
                               }));
    return success();
  }
};

SmallVector<OpFoldResult> attributes(OpBuilder &b, ArrayRef<int64_t> numbers) {
  return getAsIndexOpFoldResult(b.getContext(), numbers);
}

struct ConvertSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const final {
    rewriter.replaceOpWithNewOp<tensor::ExtractSliceOp>(
        op, op.getType(), op.getInput(), attributes(rewriter, op.getOffsets()),
        attributes(rewriter, op.getSizes()),
        attributes(rewriter, op.getAllStrides()));
    return success();
  }
};

struct ConvertPad : OpRewritePattern<PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PadOp op,
                                PatternRewriter &rewriter) const final {
    Location loc = op.getLoc();
    Value border = buildNumber(rewriter, loc, op.getType().getElementType(),
                               op.getValue().convertToDouble());
    SmallVector<int64_t> strides = op.getAllInterior();
    for (int64_t &stride : strides)
      ++stride;
    rewriter.replaceOpWithNewOp<tensor::InsertSliceOp>(
        op, op.getInput(), filled(rewriter, loc, op.getType(), border),
        attributes(rewriter, op.getLow()),
        attributes(rewriter, op.getInput().getType().getShape()),
        attributes(rewriter, strides));
    return success();
  }
};

struct ConvertConcatenate : OpRewritePattern<ConcatenateOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatenateOp op,
                                PatternRewriter &rewriter) const final {
    Value result = empty(rewriter, op.getLoc(), op.getType());
    SmallVector<int64_t> offsets(op.getType().getRank(), 0);
    SmallVector<int64_t> strides(op.getType().getRank(), 1);
    for (Value input : op.getInputs()) {
      result = tensor::InsertSliceOp::create(
          rewriter, op.getLoc(), input, result, attributes(rewriter, offsets),
          attributes(rewriter, tensorOf(input).getShape()),
          attributes(rewriter, strides));
      offsets[op.getDim()] += tensorOf(input).getDimSize(op.getDim());
    }
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct ConvertIota : OpRewritePattern<IotaOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(IotaOp op,
                                PatternRewriter &rewriter) const final {
    rewriter.replaceOp(
        op, map(rewriter, op.getLoc(), op.getType(), {}, {},
                [&](OpBuilder &b, Location loc, ValueRange) {
                  Type element = op.getType().getElementType();
                  Type integer =
                      isa<FloatType>(element) ? b.getI64Type() : element;
                  Value index = linalg::IndexOp::create(b, loc, op.getDim());
                  index = arith::IndexCastOp::create(b, loc, integer, index);
                  yield(b, loc, buildCast(b, loc, index, element));
                }));
    return success();
  }
};

struct ConvertConstant : OpRewritePattern<ConstantOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConstantOp op,
                                PatternRewriter &rewriter) const final {
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(
        op, cast<TypedAttr>(op.getValue()));
    return success();
  }
};

struct ConvertGather : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const final {
    int64_t axis = op.getAxis(), batch = op.getBatch(),
            rank = op.getType().getRank();
    int64_t chosen = op.getIndices().getType().getRank() - batch;
    SmallVector<AffineExpr> which;
    for (int64_t i = 0; i < batch; ++i)
      which.push_back(rewriter.getAffineDimExpr(i));
    for (int64_t i = 0; i < chosen; ++i)
      which.push_back(rewriter.getAffineDimExpr(axis + i));
    int64_t size = op.getTable().getType().getDimSize(axis);
    rewriter.replaceOp(
        op,
        map(rewriter, op.getLoc(), op.getType(), op.getIndices(),
            AffineMap::get(rank, 0, which, getContext()),
            [&](OpBuilder &b, Location loc, ValueRange args) {
              // A negative index is a large unsigned number; outside, row 0 is
              // read and not used.
              Value last = buildNumber(b, loc, args[0].getType(), size - 1);
              Value inside = arith::CmpIOp::create(
                  b, loc, arith::CmpIPredicate::ule, args[0], last);
              Value safe = arith::SelectOp::create(
                  b, loc, inside, args[0],
                  buildNumber(b, loc, args[0].getType(), 0));
              SmallVector<Value> place = indices(b, loc, rank);
              place.erase(place.begin() + axis, place.begin() + axis + chosen);
              place.insert(
                  place.begin() + axis,
                  arith::IndexCastOp::create(b, loc, b.getIndexType(), safe));
              Value element =
                  tensor::ExtractOp::create(b, loc, op.getTable(), place);
              Value zero = buildNumber(b, loc, element.getType(), 0);
              yield(b, loc,
                    arith::SelectOp::create(b, loc, inside, element, zero));
            }));
    return success();
  }
};

/// The sum, for each row of the table, over all indices that name it.
struct ConvertGatherGrad : OpRewritePattern<GatherGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherGradOp op,
                                PatternRewriter &rewriter) const final {
    Location loc = op.getLoc();
    RankedTensorType type = op.getType();
    int64_t axis = op.getAxis(), batch = op.getBatch(), rank = type.getRank();
    int64_t chosen = op.getIndices().getType().getRank() - batch;
    // The loops: those of the table, then those over indices, in order.
    int64_t loops = rank + chosen;
    SmallVector<AffineExpr> grad, which, table;
    for (int64_t i = 0; i < rank; ++i) {
      AffineExpr dim = rewriter.getAffineDimExpr(i);
      table.push_back(dim);
      if (i < batch)
        which.push_back(dim);
      if (i != axis)
        grad.push_back(dim);
    }
    for (int64_t i = 0; i < chosen; ++i) {
      AffineExpr dim = rewriter.getAffineDimExpr(rank + i);
      which.push_back(dim);
      grad.insert(grad.begin() + axis + i, dim);
    }
    SmallVector<AffineMap> maps;
    for (ArrayRef<AffineExpr> places :
         {ArrayRef(grad), ArrayRef(which), ArrayRef(table)})
      maps.push_back(AffineMap::get(loops, 0, places, getContext()));
    SmallVector<IteratorType> iterators(rank, IteratorType::parallel);
    iterators.append(chosen, IteratorType::reduction);
    Type wide = getAccumulatorType(type.getElementType());
    RankedTensorType wideType = withElementType(type, wide);
    Value zero =
        filled(rewriter, loc, wideType, buildNumber(rewriter, loc, wide, 0));
    Value result =
        linalg::GenericOp::create(
            rewriter, loc, TypeRange(wideType),
            ValueRange{op.getGrad(), op.getIndices()}, ValueRange(zero), maps,
            iterators,
            [&](OpBuilder &b, Location loc, ValueRange args) {
              Value row = linalg::IndexOp::create(b, loc, axis);
              row = arith::IndexCastOp::create(b, loc, args[1].getType(), row);
              Value named = arith::CmpIOp::create(
                  b, loc, arith::CmpIPredicate::eq, args[1], row);
              Value sum = arith::AddFOp::create(
                  b, loc, args[2], buildCast(b, loc, args[0], wide));
              yield(b, loc,
                    arith::SelectOp::create(b, loc, named, sum, args[2]));
            })
            .getResult(0);
    if (wideType != type)
      result = map(
          rewriter, loc, type, result, rewriter.getMultiDimIdentityMap(rank),
          [&](OpBuilder &b, Location loc, ValueRange args) {
            yield(b, loc, buildCast(b, loc, args[0], type.getElementType()));
          });
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// Each of the k results is the first, in the order of the results, of the
/// elements that come after the one before it.
struct ConvertTopK : OpRewritePattern<TopKOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TopKOp op,
                                PatternRewriter &rewriter) const final {
    // Each of the k is a loop of its own.
    constexpr int64_t kMost = 1024;
    if (static_cast<int64_t>(op.getK()) > kMost)
      return op.emitOpError("has k of ")
             << op.getK() << ", nn-to-linalg expects at most " << kMost;
    Location loc = op.getLoc();
    RankedTensorType type = op.getInput().getType();
    int64_t rank = type.getRank();
    Type i32 = rewriter.getI32Type();
    auto rows = RankedTensorType::get(type.getShape().drop_back(),
                                      type.getElementType());
    RankedTensorType rowIndices = withElementType(rows, i32);
    AffineMap whole = rewriter.getMultiDimIdentityMap(rank);
    AffineMap row = whole.dropResult(rank - 1);
    SmallVector<IteratorType> iterators(rank - 1, IteratorType::parallel);
    iterators.push_back(IteratorType::reduction);
    Value none = buildNumber(rewriter, loc, type.getElementType(), 0);
    Value before = buildNumber(rewriter, loc, i32, -1);
    Value lastValues = filled(rewriter, loc, rows, none);
    Value lastIndices = filled(rewriter, loc, rowIndices, before);
    Value values = empty(rewriter, loc, op.getValues().getType());
    Value chosen = empty(rewriter, loc, op.getIndices().getType());
    for (int64_t j = 0; j < static_cast<int64_t>(op.getK()); ++j) {
      Value inits[] = {filled(rewriter, loc, rows, none),
                       filled(rewriter, loc, rowIndices, before)};
      auto step = linalg::GenericOp::create(
          rewriter, loc, TypeRange{rows, rowIndices},
          ValueRange{op.getInput(), lastValues, lastIndices}, inits,
          ArrayRef<AffineMap>{whole, row, row, row, row}, iterators,
          [&](OpBuilder &b, Location loc, ValueRange args) {
            Value index = linalg::IndexOp::create(b, loc, rank - 1);
            index = arith::IndexCastOp::create(b, loc, i32, index);
            auto isUnset = [&](Value index) -> Value {
              return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                           index, buildNumber(b, loc, i32, 0));
            };
            auto comesFirst = [&](Value x, Value i, Value y, Value j) -> Value {
              Value greater = buildGreater(b, loc, x, y);
              Value less = buildGreater(b, loc, y, x);
              Value lower = arith::CmpIOp::create(
                  b, loc, arith::CmpIPredicate::slt, i, j);
              Value yes =
                  arith::ConstantOp::create(b, loc, b.getBoolAttr(true));
              Value tie = arith::AndIOp::create(
                  b, loc, arith::XOrIOp::create(b, loc, less, yes), lower);
              return arith::OrIOp::create(b, loc, greater, tie);
            };
            Value left = arith::OrIOp::create(
                b, loc, isUnset(args[2]),
                comesFirst(args[1], args[2], args[0], index));
            Value better = arith::OrIOp::create(
                b, loc, isUnset(args[4]),
                comesFirst(args[0], index, args[3], args[4]));
            Value take = arith::AndIOp::create(b, loc, left, better);
            Value value =
                arith::SelectOp::create(b, loc, take, args[0], args[3]);
            Value at = arith::SelectOp::create(b, loc, take, index, args[4]);
            linalg::YieldOp::create(b, loc, ValueRange{value, at});
          });
      lastValues = step.getResult(0);
      lastIndices = step.getResult(1);
      SmallVector<int64_t> offsets(rank, 0), strides(rank, 1);
      SmallVector<int64_t> sizes(type.getShape());
      offsets.back() = j;
      sizes.back() = 1;
      auto insert = [&](Value from, Value to) -> Value {
        return tensor::InsertSliceOp::create(
            rewriter, loc, from, to, attributes(rewriter, offsets),
            attributes(rewriter, sizes), attributes(rewriter, strides));
      };
      values = insert(lastValues, values);
      chosen = insert(lastIndices, chosen);
    }
    rewriter.replaceOp(op, {values, chosen});
    return success();
  }
};

struct ConvertRandom : OpRewritePattern<RandomOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RandomOp op,
                                PatternRewriter &rewriter) const final {
    Location loc = op.getLoc();
    SmallVector<Value> key;
    for (int64_t i = 0; i < 4; ++i) {
      Value index = arith::ConstantIndexOp::create(rewriter, loc, i);
      key.push_back(
          tensor::ExtractOp::create(rewriter, loc, op.getKey(), index));
    }
    Value stream =
        tensor::ExtractOp::create(rewriter, loc, op.getStream(), ValueRange());
    ArrayRef<int64_t> shape = op.getWholeShape();
    SmallVector<Value> offsets;
    if (op.getOffsets())
      for (unsigned i = 0; i < shape.size(); ++i) {
        Value index = arith::ConstantIndexOp::create(rewriter, loc, i);
        offsets.push_back(
            tensor::ExtractOp::create(rewriter, loc, op.getOffsets(), index));
      }
    rewriter.replaceOp(
        op, map(rewriter, loc, op.getType(), {}, {},
                [&](OpBuilder &b, Location loc, ValueRange) {
                  Type i32 = b.getI32Type();
                  Value within = buildNumber(b, loc, i32, 0), sample = within;
                  for (auto [i, size] : llvm::enumerate(shape)) {
                    Value index = linalg::IndexOp::create(b, loc, i);
                    index = arith::IndexCastOp::create(b, loc, i32, index);
                    if (!offsets.empty())
                      index = arith::AddIOp::create(b, loc, index, offsets[i]);
                    if (i == 0 && op.getSampleDim()) {
                      sample = arith::AddIOp::create(b, loc, key[3], index);
                      continue;
                    }
                    // Modulo 2^32, as the counter is.
                    Value factor =
                        buildNumber(b, loc, i32, static_cast<int32_t>(size));
                    within = arith::MulIOp::create(b, loc, within, factor);
                    within = arith::AddIOp::create(b, loc, within, index);
                  }
                  auto [word0, word1] =
                      buildPhilox(b, loc, {within, sample, stream, key[2]},
                                  {key[0], key[1]});
                  yield(b, loc,
                        buildRandom(b, loc, op.getDistribution(), word0, word1,
                                    op.getType().getElementType()));
                }));
    return success();
  }
};

struct NNToLinalg : sheaf::impl::NNToLinalgBase<NNToLinalg> {
  void runOnOperation() final {
    MLIRContext *context = &getContext();
    if (failed(refuseEncodings(
            getOperation(),
            "what dist-to-nn leaves: tensors without encoding")))
      return signalPassFailure();
    ConversionTarget target(*context);
    target.addLegalDialect<arith::ArithDialect, linalg::LinalgDialect,
                           math::MathDialect, tensor::TensorDialect>();
    target.addIllegalDialect<NNDialect>();
    target.addLegalOp<MicrobatchesOp, YieldOp>();
    RewritePatternSet patterns(context);
    populateNNToLinalgPatterns(patterns);
    for (Dialect *dialect : context->getLoadedDialects())
      if (auto *interface =
              dialect->getRegisteredInterface<NNToLinalgInterface>())
        interface->populatePatterns(patterns, target);
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

void sheaf::populateNNToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<Decompose, ConvertElementwise, ConvertReduce, ConvertEinsum,
               ConvertReshape, ConvertTranspose, ConvertBroadcast, ConvertSlice,
               ConvertPad, ConvertConcatenate, ConvertIota, ConvertConstant,
               ConvertGather, ConvertGatherGrad, ConvertTopK, ConvertRandom>(
      patterns.getContext());
}
