//===- Quantize.cpp - Blocks, scales and what they mean -------------------===//
//
// The reference semantics of scaled payloads. A dimension of several blocks is
// seen as two, behind a border of zeros where the last block is shorter; so
// that factors, with size 1 in place of the elements of a block, broadcast.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Quantize.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace sheaf::nn;

int64_t sheaf::nn::getBlockLength(int64_t size, int64_t block) {
  return block == 0 ? size : std::min(size, block);
}

SmallVector<int64_t> sheaf::nn::getFactorShape(ArrayRef<int64_t> shape,
                                               ArrayRef<int64_t> blocks) {
  SmallVector<int64_t> counts;
  for (auto [size, block] : llvm::zip_equal(shape, blocks))
    counts.push_back(llvm::divideCeil(size, getBlockLength(size, block)));
  return counts;
}

double sheaf::nn::getLargest(FloatType format) {
  return APFloat::getLargest(format.getFloatSemantics()).convertToDouble();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

Quantized sheaf::nn::quantize(Emit &emit, Value input, FloatType format,
                              ArrayRef<int64_t> blocks, ScaleRule rule) {
  auto op = QuantizeOp::create(emit.builder, emit.loc, input,
                               TypeAttr::get(format), blocks, rule);
  return {op.getPayload(), op.getFactors(), SmallVector<int64_t>(blocks)};
}

Value sheaf::nn::dequantize(Emit &emit, const Quantized &value,
                            FloatType element) {
  auto type = cast<RankedTensorType>(value.payload.getType());
  return emit.make<DequantizeOp>(
      RankedTensorType::get(type.getShape(), element), value.payload,
      value.factors, ArrayRef<int64_t>(value.blocks));
}

/// The shape of a product, each letter of which is in an operand.
static SmallVector<int64_t> productShape(StringRef equation, Value lhs,
                                         Value rhs) {
  auto [left, result] = equation.split("->");
  auto [first, second] = left.split(",");
  SmallVector<int64_t> shape;
  for (char c : result) {
    size_t place = first.find(c);
    bool isFirst = place != StringRef::npos;
    auto type = cast<RankedTensorType>((isFirst ? lhs : rhs).getType());
    shape.push_back(type.getDimSize(isFirst ? place : second.find(c)));
  }
  return shape;
}

Value sheaf::nn::scaledEinsum(Emit &emit, StringRef equation,
                              const Quantized &lhs, const Quantized &rhs,
                              FloatType element) {
  auto type = RankedTensorType::get(
      productShape(equation, lhs.payload, rhs.payload), element);
  return emit.make<ScaledEinsumOp>(
      type, equation, lhs.payload, rhs.payload, lhs.factors, rhs.factors,
      ArrayRef<int64_t>(lhs.blocks), ArrayRef<int64_t>(rhs.blocks));
}

//===----------------------------------------------------------------------===//
// Decompositions
//===----------------------------------------------------------------------===//

namespace {
/// A tensor of f32 seen block by block.
struct BlockView {
  BlockView(ArrayRef<int64_t> shape, ArrayRef<int64_t> blocks) : shape(shape) {
    for (auto [size, block] : llvm::zip_equal(shape, blocks)) {
      int64_t length = getBlockLength(size, block);
      int64_t count = llvm::divideCeil(size, length);
      border.push_back(count * length - size);
      padded.push_back(count * length);
      bool isCut = count > 1 && length > 1;
      if (isCut) {
        cut.push_back(count);
        factors.push_back(count);
      }
      if (length > 1)
        within.push_back(cut.size());
      cut.push_back(isCut || count == 1 ? length : count);
      factors.push_back(length > 1 ? 1 : count);
    }
    hasBorder = llvm::any_of(border, [](int64_t size) { return size != 0; });
  }

  /// The elements of each block as dimensions of their own.
  Value split(Emit &emit, Value value) const {
    SmallVector<int64_t> none(border.size(), 0);
    if (hasBorder)
      value = emit.make<PadOp>(value, none, border, DenseI64ArrayAttr(),
                               APFloat(0.0));
    return emit.reshape(value, cut);
  }
  Value join(Emit &emit, Value value) const {
    value = emit.reshape(value, padded);
    if (!hasBorder)
      return value;
    SmallVector<int64_t> none(border.size(), 0);
    return emit.make<SliceOp>(value, none, shape, DenseI64ArrayAttr());
  }
  /// Factors, one a block, so that they broadcast to what `split` gives.
  Value spread(Emit &emit, Value value) const {
    return emit.reshape(value, factors);
  }

  SmallVector<int64_t> shape, border, padded, cut, factors;
  /// The dimensions of `cut` that count within a block.
  SmallVector<int64_t> within;
  bool hasBorder;
};

Value dequantized(Emit &emit, Value payload, Value factors,
                  ArrayRef<int64_t> blocks, Type element) {
  auto type = cast<RankedTensorType>(payload.getType());
  BlockView view(type.getShape(), blocks);
  Type f32 = emit.builder.getF32Type();
  Value numbers = view.split(emit, emit.cast(payload, f32));
  Value by = view.spread(emit, emit.cast(factors, f32));
  return view.join(emit, emit.cast(emit.mul(numbers, by), element));
}
} // namespace

SmallVector<Value> QuantizeOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  BlockView view(getInput().getType().getShape(), getBlocks());
  Type f32 = builder.getF32Type();
  Type powers = Float8E8M0FNUType::get(builder.getContext());
  double largest = getLargest(getFormat());

  Value x = view.split(emit, emit.cast(getInput(), f32));
  Value amax = emit.make<AbsOp>(x);
  if (!view.within.empty())
    amax = emit.reduce(ReduceKind::Max, amax, view.within, /*keep=*/true);
  // False for 0, infinity and NaN, whose blocks are not scaled.
  Value isPositive = emit.compare(Predicate::GT, amax, 0);
  Value isFinite = emit.compare(Predicate::LT, amax,
                                std::numeric_limits<double>::infinity());
  Value isUsable = emit.make<AndOp>(isPositive, isFinite);
  Value one = emit.scalar(amax, 1);
  Value scaled, factors;
  if (getScale() == ScaleRule::E8M0) {
    Value quotient = emit.div(amax, largest);
    // The cast rounds up.
    factors = emit.cast(emit.select(isUsable, quotient, one), powers);
    scaled = emit.div(x, emit.cast(factors, f32));
  } else {
    Value scale = emit.div(emit.scalar(amax, largest), amax);
    // A small amax gives infinity.
    scale = emit.make<MinOp>(
        scale, emit.scalar(scale, std::numeric_limits<float>::max()));
    if (getScale() == ScaleRule::PowerOfTwo) {
      // The power of two that is not below, then the one that is not above.
      Value above = emit.cast(emit.cast(scale, powers), f32);
      Value isAbove = emit.compare(Predicate::GT, above, scale);
      scale = emit.select(isAbove, emit.mul(above, 0.5), above);
    }
    scale = emit.select(isUsable, scale, one);
    scaled = emit.mul(x, scale);
    factors = emit.div(one, scale);
  }
  // To 8 bits or less it saturates by itself.
  Value narrow = emit.make<CastOp>(
      cast<RankedTensorType>(scaled.getType()).clone(getFormat()), scaled,
      /*random=*/Value(),
      /*saturate=*/getFormat().isF16());
  Value payload = view.join(emit, narrow);
  return {payload, emit.reshape(factors, getFactors().getType().getShape())};
}

SmallVector<Value> DequantizeOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  return {dequantized(emit, getPayload(), getFactors(), getBlocks(),
                      getType().getElementType())};
}

SmallVector<Value> ScaledEinsumOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Type f32 = builder.getF32Type();
  Value lhs = dequantized(emit, getLhs(), getLhsFactors(), getLhsBlocks(), f32);
  Value rhs = dequantized(emit, getRhs(), getRhsFactors(), getRhsBlocks(), f32);
  Value sum =
      emit.make<EinsumOp>(RankedTensorType::get(getType().getShape(), f32),
                          getEquation(), ValueRange{lhs, rhs});
  return {emit.cast(sum, getType().getElementType())};
}
