//===- Folds.cpp - Folding and canonicalisation of nn ---------------------===//
//
// What is folded keeps NaN and infinity: x * 0 stays, x - x stays. Zeros may
// change their sign (x + 0 is x). Functions that the host's library rounds
// otherwise than a kernel (exp, log, ...) are not evaluated here. Where a
// result is wider than the operand that it equals, the op stays: folds keep
// types.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "runtime/include/sheaf/Casts.h"
#include <cmath>

using namespace mlir;
using namespace sheaf::nn;

/// Larger constants are folded only where all their elements are equal.
static constexpr int64_t kMaxFoldedElements = 1024;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

static DenseElementsAttr dense(Attribute attribute) {
  return dyn_cast_or_null<DenseElementsAttr>(attribute);
}

/// Whether all elements of a constant equal `value`.
static bool isAll(Attribute attribute, double value) {
  auto elements = dense(attribute);
  if (!elements || !elements.isSplat())
    return false;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble() == value;
  APInt number = elements.getSplatValue<APInt>();
  return (number.getBitWidth() == 1
              ? static_cast<double>(number.getZExtValue())
              : static_cast<double>(number.getSExtValue())) == value;
}

static DenseElementsAttr splat(RankedTensorType type, double value) {
  Builder builder(type.getContext());
  Attribute number;
  if (auto element = dyn_cast<FloatType>(type.getElementType()))
    number = builder.getFloatAttr(element, value);
  else
    number = builder.getIntegerAttr(type.getElementType(),
                                    static_cast<int64_t>(value));
  return DenseElementsAttr::get(type, number);
}

/// The element of an operand of `shape` that a result element at `index` reads.
static int64_t broadcastIndex(ArrayRef<int64_t> index,
                              ArrayRef<int64_t> shape) {
  int64_t position = 0;
  size_t added = index.size() - shape.size();
  for (auto [i, size] : llvm::enumerate(shape))
    position = position * size + (size == 1 ? 0 : index[added + i]);
  return position;
}

/// Evaluates a broadcasting op on constants. `In` and `Out` are APFloat or
/// APInt; `function` takes an ArrayRef<In> and gives an optional Out.
template <typename In, typename Out, typename Function>
static Attribute evaluate(RankedTensorType type, ArrayRef<Attribute> operands,
                          Function function) {
  SmallVector<DenseElementsAttr> constants;
  bool allSplat = true;
  for (Attribute operand : operands) {
    constants.push_back(dense(operand));
    if (!constants.back())
      return {};
    allSplat &= constants.back().isSplat();
  }
  SmallVector<In> numbers;
  if (allSplat) {
    for (DenseElementsAttr constant : constants)
      numbers.push_back(constant.getSplatValue<In>());
    std::optional<Out> value = function(ArrayRef<In>(numbers));
    return value ? DenseElementsAttr::get(type, ArrayRef<Out>(*value))
                 : Attribute();
  }
  if (type.getNumElements() > kMaxFoldedElements)
    return {};
  SmallVector<Out> values;
  SmallVector<int64_t> strides = computeStrides(type.getShape());
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    SmallVector<int64_t> index = delinearize(i, strides);
    numbers.clear();
    for (DenseElementsAttr constant : constants)
      numbers.push_back(constant.getValues<In>()[broadcastIndex(
          index, cast<RankedTensorType>(constant.getType()).getShape())]);
    std::optional<Out> value = function(ArrayRef<In>(numbers));
    if (!value)
      return {};
    values.push_back(*value);
  }
  return DenseElementsAttr::get(type, ArrayRef<Out>(values));
}

/// A number of a narrow float or of f32 as f32.
static float toFloat(const APFloat &number) {
  if (&number.getSemantics() == &APFloat::Float8E8M0FNU())
    return sheaf::decode<sheaf::Format::E8M0>(
        number.bitcastToAPInt().getZExtValue());
  return number.convertToFloat();
}

/// The code of `value` in `to`, a narrow float; with `random` it
/// is rounded by those bits.
static APFloat encoded(FloatType to, float value, bool saturates,
                       std::optional<uint32_t> random = std::nullopt) {
  auto code = [&]<sheaf::Format F>() -> uint32_t {
    if constexpr (F != sheaf::Format::E8M0)
      if (random)
        return sheaf::encodeStochastic<F>(value, saturates, *random);
    return sheaf::encode<F>(value, saturates);
  };
  uint32_t bits =
      to.isBF16()                 ? code.operator()<sheaf::Format::BF16>()
      : to.isF16()                ? code.operator()<sheaf::Format::FP16>()
      : isa<Float8E4M3FNType>(to) ? code.operator()<sheaf::Format::E4M3>()
      : isa<Float8E5M2Type>(to)   ? code.operator()<sheaf::Format::E5M2>()
      : isa<Float4E2M1FNType>(to) ? code.operator()<sheaf::Format::E2M1>()
                                  : code.operator()<sheaf::Format::E8M0>();
  return APFloat(to.getFloatSemantics(), APInt(to.getWidth(), bits));
}

/// A cast that rounds by random bits, of constants.
static Attribute evaluateStochastic(CastOp op, Attribute input,
                                    Attribute random) {
  auto numbers = dense(input), words = dense(random);
  RankedTensorType type = op.getType();
  if (!numbers || !words)
    return {};
  bool allSplat = numbers.isSplat() && words.isSplat();
  if (!allSplat && type.getNumElements() > kMaxFoldedElements)
    return {};
  SmallVector<APFloat> values;
  for (auto [number, word] : llvm::zip_equal(numbers.getValues<APFloat>(),
                                             words.getValues<APInt>())) {
    values.push_back(encoded(cast<FloatType>(type.getElementType()),
                             number.convertToFloat(), op.saturates(),
                             static_cast<uint32_t>(word.getZExtValue())));
    if (allSplat)
      break;
  }
  return DenseElementsAttr::get(type, ArrayRef<APFloat>(values));
}

/// Evaluates an op whose operands and result have one element type.
template <typename OnFloats, typename OnInts>
static Attribute evaluateNumbers(RankedTensorType type,
                                 ArrayRef<Attribute> operands,
                                 OnFloats onFloats, OnInts onInts) {
  if (isa<FloatType>(type.getElementType()))
    return evaluate<APFloat, APFloat>(
        type, operands, [&](ArrayRef<APFloat> n) -> std::optional<APFloat> {
          return onFloats(n);
        });
  return evaluate<APInt, APInt>(
      type, operands,
      [&](ArrayRef<APInt> n) -> std::optional<APInt> { return onInts(n); });
}

using Floats = ArrayRef<APFloat>;
using Ints = ArrayRef<APInt>;

/// `value` if it has the type of the op's result: a fold may not narrow what a
/// broadcast widened.
template <typename Op>
static OpFoldResult ifSameType(Op op, Value value) {
  return value.getType() == op.getType() ? OpFoldResult(value) : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

#define NO_FOLD(OP)                                                            \
  OpFoldResult OP::fold(FoldAdaptor) { return {}; }
NO_FOLD(ExpOp)
NO_FOLD(LogOp)
NO_FOLD(TanhOp)
NO_FOLD(ErfOp)
NO_FOLD(RsqrtOp)
NO_FOLD(SigmoidOp)
NO_FOLD(SinOp)
NO_FOLD(CosOp)
NO_FOLD(SiluOp)
NO_FOLD(GeluOp)
NO_FOLD(GeluTanhOp)
#undef NO_FOLD

OpFoldResult NegOp::fold(FoldAdaptor adaptor) {
  if (auto inner = getInput().getDefiningOp<NegOp>())
    return inner.getInput();
  return evaluateNumbers(
      getType(), adaptor.getInput(), [](Floats n) { return -n[0]; },
      [](Ints n) { return -n[0]; });
}

OpFoldResult AbsOp::fold(FoldAdaptor adaptor) {
  if (getInput().getDefiningOp<AbsOp>())
    return getInput();
  return evaluateNumbers(
      getType(), adaptor.getInput(), [](Floats n) { return abs(n[0]); },
      [](Ints n) { return n[0].abs(); });
}

OpFoldResult NotOp::fold(FoldAdaptor adaptor) {
  if (auto inner = getInput().getDefiningOp<NotOp>())
    return inner.getInput();
  return evaluate<APInt, APInt>(
      getType(), adaptor.getInput(),
      [](Ints n) -> std::optional<APInt> { return ~n[0]; });
}

OpFoldResult SqrtOp::fold(FoldAdaptor adaptor) {
  // IEEE 754 asks for the nearest number, and double is wide enough that
  // rounding twice gives it, too (Figueroa 1995).
  return evaluate<APFloat, APFloat>(
      getType(), adaptor.getInput(), [](Floats n) -> std::optional<APFloat> {
        APFloat root(std::sqrt(n[0].convertToDouble()));
        bool inexact;
        root.convert(n[0].getSemantics(), APFloat::rmNearestTiesToEven,
                     &inexact);
        return root;
      });
}

OpFoldResult ReluOp::fold(FoldAdaptor adaptor) {
  if (getInput().getDefiningOp<ReluOp>())
    return getInput();
  return evaluate<APFloat, APFloat>(
      getType(), adaptor.getInput(), [](Floats n) -> std::optional<APFloat> {
        return n[0].isNaN() || n[0] > APFloat::getZero(n[0].getSemantics())
                   ? n[0]
                   : APFloat::getZero(n[0].getSemantics());
      });
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  for (auto [number, other] : {std::pair{adaptor.getRhs(), getLhs()},
                               std::pair{adaptor.getLhs(), getRhs()}})
    if (isAll(number, 0))
      if (OpFoldResult same = ifSameType(*this, other))
        return same;
  return evaluateNumbers(
      getType(), adaptor.getOperands(), [](Floats n) { return n[0] + n[1]; },
      [](Ints n) { return n[0] + n[1]; });
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isAll(adaptor.getRhs(), 0))
    if (OpFoldResult same = ifSameType(*this, getLhs()))
      return same;
  // Infinity - infinity is NaN, but integers have none.
  if (getLhs() == getRhs() && isIntElement(getType()))
    return splat(getType(), 0);
  return evaluateNumbers(
      getType(), adaptor.getOperands(), [](Floats n) { return n[0] - n[1]; },
      [](Ints n) { return n[0] - n[1]; });
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  for (auto [number, other] : {std::pair{adaptor.getRhs(), getLhs()},
                               std::pair{adaptor.getLhs(), getRhs()}}) {
    if (isAll(number, 1))
      if (OpFoldResult same = ifSameType(*this, other))
        return same;
    // 0 * NaN is NaN, but integers have none.
    if (isIntElement(getType()) && isAll(number, 0))
      return splat(getType(), 0);
  }
  return evaluateNumbers(
      getType(), adaptor.getOperands(), [](Floats n) { return n[0] * n[1]; },
      [](Ints n) { return n[0] * n[1]; });
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (isAll(adaptor.getRhs(), 1))
    if (OpFoldResult same = ifSameType(*this, getLhs()))
      return same;
  return evaluateNumbers(
      getType(), adaptor.getOperands(), [](Floats n) { return n[0] / n[1]; },
      [](Ints n) {
        return n[1].isZero() ? APInt::getZero(n[1].getBitWidth())
                             : n[0].sdiv(n[1]);
      });
}

OpFoldResult MaxOp::fold(FoldAdaptor adaptor) {
  if (getLhs() == getRhs())
    return getLhs();
  return evaluateNumbers(
      getType(), adaptor.getOperands(),
      [](Floats n) { return llvm::maximum(n[0], n[1]); },
      [](Ints n) { return llvm::APIntOps::smax(n[0], n[1]); });
}

OpFoldResult MinOp::fold(FoldAdaptor adaptor) {
  if (getLhs() == getRhs())
    return getLhs();
  return evaluateNumbers(
      getType(), adaptor.getOperands(),
      [](Floats n) { return llvm::minimum(n[0], n[1]); },
      [](Ints n) { return llvm::APIntOps::smin(n[0], n[1]); });
}

OpFoldResult PowOp::fold(FoldAdaptor adaptor) {
  if (isAll(adaptor.getRhs(), 1))
    return ifSameType(*this, getLhs());
  return {};
}

/// `and` and `or`: a constant that leaves the other operand, and one that
/// decides.
template <typename Op>
static OpFoldResult foldLogical(Op op, typename Op::FoldAdaptor adaptor,
                                bool neutral) {
  if (op.getLhs() == op.getRhs())
    return op.getLhs();
  for (auto [number, other] : {std::pair{adaptor.getRhs(), op.getLhs()},
                               std::pair{adaptor.getLhs(), op.getRhs()}}) {
    if (isAll(number, neutral))
      if (OpFoldResult same = ifSameType(op, other))
        return same;
    if (isAll(number, !neutral))
      return splat(op.getType(), !neutral);
  }
  return evaluate<APInt, APInt>(op.getType(), adaptor.getOperands(),
                                [&](Ints n) -> std::optional<APInt> {
                                  return neutral ? n[0] & n[1] : n[0] | n[1];
                                });
}

OpFoldResult AndOp::fold(FoldAdaptor adaptor) {
  return foldLogical(*this, adaptor, /*neutral=*/true);
}
OpFoldResult OrOp::fold(FoldAdaptor adaptor) {
  return foldLogical(*this, adaptor, /*neutral=*/false);
}

OpFoldResult CompareOp::fold(FoldAdaptor adaptor) {
  Predicate predicate = getPredicate();
  auto holds = [&](bool less, bool equal, bool greater) {
    switch (predicate) {
    case Predicate::EQ:
      return equal;
    case Predicate::NE:
      return !equal;
    case Predicate::LT:
      return less;
    case Predicate::LE:
      return less || equal;
    case Predicate::GT:
      return greater;
    case Predicate::GE:
      return greater || equal;
    }
    llvm_unreachable("unknown predicate");
  };
  if (isIntElement(getLhs().getType()))
    return evaluate<APInt, APInt>(
        getType(), adaptor.getOperands(), [&](Ints n) -> std::optional<APInt> {
          return APInt(1, holds(n[0].slt(n[1]), n[0] == n[1], n[0].sgt(n[1])));
        });
  return evaluate<APFloat, APInt>(
      getType(), adaptor.getOperands(), [&](Floats n) -> std::optional<APInt> {
        APFloat::cmpResult order = n[0].compare(n[1]);
        return APInt(1, holds(order == APFloat::cmpLessThan,
                              order == APFloat::cmpEqual,
                              order == APFloat::cmpGreaterThan));
      });
}

OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  if (getOnTrue() == getOnFalse())
    return ifSameType(*this, getOnTrue());
  auto condition = dense(adaptor.getCondition());
  if (!condition || !condition.isSplat())
    return {};
  bool yes = condition.getSplatValue<APInt>().isOne();
  if (OpFoldResult same = ifSameType(*this, yes ? getOnTrue() : getOnFalse()))
    return same;
  auto chosen = dense(yes ? adaptor.getOnTrue() : adaptor.getOnFalse());
  return chosen && chosen.isSplat() ? chosen.resizeSplat(getType())
                                    : OpFoldResult();
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  Type to = getType().getElementType();
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<CastOp>();
      inner && !(*this)->hasAttr(kRuleAttr) && !inner.getSaturate()) {
    Type first = inner.getInput().getType().getElementType();
    Type middle = inner.getType().getElementType();
    // 0 and 1 are numbers of every type.
    if (isExactCast(first, middle) || first.isInteger(1)) {
      bool isSame = inner.getInput().getType() == getType();
      // What is exact stays, but for an infinity that saturates.
      if (isSame && (!saturates() || isa<Float8E4M3FNType>(to)))
        return inner.getInput();
      // Random bits are for f32, and a word for another type.
      if (!isSame && isPlain()) {
        getInputMutable().assign(inner.getInput());
        return getResult();
      }
    }
  }
  auto input = dense(adaptor.getInput());
  if (!input)
    return {};
  if (getRandom())
    return evaluateStochastic(*this, input, adaptor.getRandom());
  Type from = input.getElementType();
  auto toType = dyn_cast<FloatType>(to);
  if (toType && (saturates() || isa<Float4E2M1FNType>(toType))) {
    // As kernels do. A number of f64 would be rounded twice, an integer is left
    // to the machine.
    if (!isa<FloatType>(from) || from.isF64())
      return {};
    return evaluate<APFloat, APFloat>(
        getType(), adaptor.getInput(), [&](Floats n) -> std::optional<APFloat> {
          return encoded(toType, toFloat(n[0]), /*saturates=*/true);
        });
  }
  if (isa<FloatType>(from) && toType)
    return evaluate<APFloat, APFloat>(
        getType(), adaptor.getInput(), [&](Floats n) -> std::optional<APFloat> {
          APFloat value =
              isa<Float8E8M0FNUType>(from) ? APFloat(toFloat(n[0])) : n[0];
          bool inexact;
          value.convert(toType.getFloatSemantics(),
                        APFloat::rmNearestTiesToEven, &inexact);
          return value;
        });
  if (isa<FloatType>(from))
    return evaluate<APFloat, APInt>(
        getType(), adaptor.getInput(), [&](Floats n) -> std::optional<APInt> {
          if (to.isInteger(1))
            return APInt(1, !n[0].isZero());
          llvm::APSInt value(to.getIntOrFloatBitWidth(), /*isUnsigned=*/false);
          bool exact;
          // What does not fit is left to the machine.
          if (n[0].convertToInteger(value, APFloat::rmTowardZero, &exact) ==
              APFloat::opInvalidOp)
            return std::nullopt;
          return value;
        });
  bool isSigned = !from.isInteger(1);
  if (toType)
    return evaluate<APInt, APFloat>(
        getType(), adaptor.getInput(), [&](Ints n) -> std::optional<APFloat> {
          APFloat value(toType.getFloatSemantics());
          value.convertFromAPInt(n[0], isSigned, APFloat::rmNearestTiesToEven);
          return value;
        });
  return evaluate<APInt, APInt>(
      getType(), adaptor.getInput(), [&](Ints n) -> std::optional<APInt> {
        if (to.isInteger(1))
          return APInt(1, !n[0].isZero());
        unsigned bits = to.getIntOrFloatBitWidth();
        return isSigned ? n[0].sextOrTrunc(bits) : n[0].zextOrTrunc(bits);
      });
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// A constant of equal elements in another shape.
static OpFoldResult resized(Attribute attribute, RankedTensorType type) {
  auto constant = dense(attribute);
  return constant && constant.isSplat() ? constant.resizeSplat(type)
                                        : OpFoldResult();
}

OpFoldResult ReduceOp::fold(FoldAdaptor adaptor) {
  if (getDims().empty() && getKind() != ReduceKind::SumOfSquares)
    return getInput();
  if (getKind() == ReduceKind::Max || getKind() == ReduceKind::Min)
    return resized(adaptor.getInput(), getType());
  return {};
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto constant = dense(adaptor.getInput()))
    return constant.reshape(getType());
  auto inner = getInput().getDefiningOp<ReshapeOp>();
  if (!inner || (*this)->hasAttr(kRuleAttr))
    return {};
  if (inner.getInput().getType() == getType())
    return inner.getInput();
  getInputMutable().assign(inner.getInput());
  return getResult();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (isIdentityPermutation(getPermutation()))
    return getInput();
  if (OpFoldResult constant = resized(adaptor.getInput(), getType()))
    return constant;
  auto inner = getInput().getDefiningOp<TransposeOp>();
  if (!inner || (*this)->hasAttr(kRuleAttr))
    return {};
  SmallVector<int64_t> permutation;
  for (int64_t dim : getPermutation())
    permutation.push_back(inner.getPermutation()[dim]);
  if (isIdentityPermutation(permutation))
    return inner.getInput();
  getInputMutable().assign(inner.getInput());
  setPermutation(permutation);
  return getResult();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (OpFoldResult constant = resized(adaptor.getInput(), getType()))
    return constant;
  auto inner = getInput().getDefiningOp<BroadcastOp>();
  if (!inner || (*this)->hasAttr(kRuleAttr))
    return {};
  SmallVector<int64_t> dims;
  for (int64_t dim : inner.getDims())
    dims.push_back(getDims()[dim]);
  getInputMutable().assign(inner.getInput());
  setDims(dims);
  return getResult();
}

/// The operand of `whole` that `slice` takes exactly.
static Value slicedOperand(SliceOp slice, ConcatenateOp whole) {
  int64_t joined = whole.getDim(), begin = 0;
  for (int64_t stride : slice.getAllStrides())
    if (stride != 1)
      return {};
  for (Value operand : whole.getInputs()) {
    int64_t size = cast<RankedTensorType>(operand.getType()).getDimSize(joined);
    if (slice.getOffsets()[joined] == begin &&
        operand.getType() == slice.getType())
      return operand;
    begin += size;
  }
  return {};
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (OpFoldResult constant = resized(adaptor.getInput(), getType()))
    return constant;
  if (auto whole = getInput().getDefiningOp<ConcatenateOp>())
    if (Value operand = slicedOperand(*this, whole))
      return operand;
  auto inner = getInput().getDefiningOp<SliceOp>();
  if (!inner || (*this)->hasAttr(kRuleAttr))
    return {};
  SmallVector<int64_t> offsets, strides;
  for (auto [offset, stride, innerOffset, innerStride] :
       llvm::zip_equal(getOffsets(), getAllStrides(), inner.getOffsets(),
                       inner.getAllStrides())) {
    offsets.push_back(innerOffset + offset * innerStride);
    strides.push_back(stride * innerStride);
  }
  getInputMutable().assign(inner.getInput());
  setOffsets(offsets);
  if (llvm::all_equal(strides) && (strides.empty() || strides.front() == 1))
    removeStridesAttr();
  else
    setStrides(strides);
  return getResult();
}

OpFoldResult PadOp::fold(FoldAdaptor adaptor) {
  // Padding only adds: an unchanged type is an unchanged value.
  if (getInput().getType() == getType())
    return getInput();
  if (isAll(adaptor.getInput(), getValue().convertToDouble()))
    return resized(adaptor.getInput(), getType());
  return {};
}

OpFoldResult ConcatenateOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs().front();
  return {};
}

OpFoldResult DropoutOp::fold(FoldAdaptor) {
  return getRate().isZero() ? OpFoldResult(getInput()) : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Replaces `op`; the new op takes over what is known of the old one, but for a
/// rule, which spoke of the old op's dimensions.
template <typename Op, typename... Args>
static void replaceOp(PatternRewriter &rewriter, Operation *op,
                      Args &&...args) {
  DictionaryAttr known = op->getDiscardableAttrDictionary();
  auto replacement =
      rewriter.replaceOpWithNewOp<Op>(op, std::forward<Args>(args)...);
  for (NamedAttribute attribute : known)
    if (attribute.getName() != kRuleAttr)
      replacement->setAttr(attribute.getName(), attribute.getValue());
}
/// The same for an op of which `op` becomes a user.
template <typename Op, typename... Args>
static Value createFor(PatternRewriter &rewriter, Operation *op,
                       Args &&...args) {
  auto created =
      Op::create(rewriter, op->getLoc(), std::forward<Args>(args)...);
  if (Attribute role = op->getAttr(kRoleAttr))
    created->setAttr(kRoleAttr, role);
  return created;
}

static LogicalResult hasRule(PatternRewriter &rewriter, Operation *op) {
  return rewriter.notifyMatchFailure(op, "op has an nn.rule of its own");
}

/// Where a sum is not complete its type says so: it stays the op that it is.
static LogicalResult hasEncoding(PatternRewriter &rewriter, Operation *op) {
  return rewriter.notifyMatchFailure(op, "the result has an encoding");
}

namespace {
/// a + -b is a - b.
struct AddOfNeg : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    if (op->hasAttr(kRuleAttr))
      return hasRule(rewriter, op);
    for (auto [negated, other] : {std::pair{op.getRhs(), op.getLhs()},
                                  std::pair{op.getLhs(), op.getRhs()}})
      if (auto neg = negated.getDefiningOp<NegOp>()) {
        replaceOp<SubOp>(rewriter, op, op.getType(), other, neg.getInput());
        return success();
      }
    return rewriter.notifyMatchFailure(op, "no operand is an nn.neg");
  }
};

/// a - -b is a + b, and 0 - b is -b.
struct SubForms : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op,
                                PatternRewriter &rewriter) const override {
    if (op->hasAttr(kRuleAttr))
      return hasRule(rewriter, op);
    if (auto neg = op.getRhs().getDefiningOp<NegOp>()) {
      replaceOp<AddOp>(rewriter, op, op.getType(), op.getLhs(), neg.getInput());
      return success();
    }
    auto constant = op.getLhs().getDefiningOp<ConstantOp>();
    if (constant && isAll(constant.getValue(), 0) &&
        op.getRhs().getType() == op.getType()) {
      replaceOp<NegOp>(rewriter, op, op.getType(), op.getRhs());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "neither a - -b nor 0 - b");
  }
};

/// A dimension of size 1 need not be reduced, only taken away.
struct ReduceOfUnitDims : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    if (op->hasAttr(kRuleAttr))
      return hasRule(rewriter, op);
    if (op.getType().getEncoding())
      return hasEncoding(rewriter, op);
    RankedTensorType type = op.getInput().getType();
    SmallVector<int64_t> dims;
    for (int64_t dim : op.getDims())
      if (type.getDimSize(dim) != 1)
        dims.push_back(dim);
    if (dims.size() == op.getDims().size() && !dims.empty())
      return rewriter.notifyMatchFailure(op, "no reduced dimension has size 1");
    Value value = op.getInput();
    if (!dims.empty())
      value = createFor<ReduceOp>(rewriter, op, op.getKind(), value, dims,
                                  op.getKeep());
    else if (op.getKind() == ReduceKind::SumOfSquares)
      value = createFor<MulOp>(rewriter, op, value, value);
    if (value.getType() == op.getType())
      rewriter.replaceOp(op, value);
    else
      replaceOp<ReshapeOp>(rewriter, op, op.getType(), value);
    return success();
  }
};

/// "ab,bc->ac" in its parts.
struct Equation {
  explicit Equation(EinsumOp op) {
    auto [left, right] = op.getEquation().split("->");
    SmallVector<StringRef> names;
    left.split(names, ',');
    for (StringRef name : names)
      inputs.push_back(name.str());
    result = right.str();
  }
  std::string str() const { return llvm::join(inputs, ",") + "->" + result; }

  SmallVector<std::string> inputs;
  std::string result;
};

/// One operand: a transposition, or a sum.
struct EinsumOfOne : OpRewritePattern<EinsumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EinsumOp op,
                                PatternRewriter &rewriter) const override {
    if (op->hasAttr(kRuleAttr))
      return hasRule(rewriter, op);
    if (op.getInputs().size() != 1)
      return rewriter.notifyMatchFailure(op, "two operands");
    if (op.getType().getEncoding())
      return hasEncoding(rewriter, op);
    Value value = op.getInputs().front();
    Type from = cast<RankedTensorType>(value.getType()).getElementType();
    Type to = op.getType().getElementType();
    if (!isExactCast(from, to))
      return rewriter.notifyMatchFailure(op, "rounds after the sum");
    Equation equation(op);
    StringRef letters = equation.inputs.front();
    if (from != to)
      value = createFor<CastOp>(
          rewriter, op,
          RankedTensorType::get(
              cast<RankedTensorType>(value.getType()).getShape(), to),
          value);
    SmallVector<int64_t> summed;
    std::string kept;
    for (auto [i, c] : llvm::enumerate(letters)) {
      if (StringRef(equation.result).contains(c))
        kept += c;
      else
        summed.push_back(i);
    }
    if (!summed.empty())
      value = createFor<ReduceOp>(rewriter, op, ReduceKind::Sum, value, summed,
                                  /*keep=*/false);
    SmallVector<int64_t> permutation;
    for (char c : equation.result)
      permutation.push_back(kept.find(c));
    if (isIdentityPermutation(permutation))
      rewriter.replaceOp(op, value);
    else
      replaceOp<TransposeOp>(rewriter, op, value, permutation);
    return success();
  }
};

/// A transposed operand is the operand with its letters in another order.
struct EinsumOfTranspose : OpRewritePattern<EinsumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EinsumOp op,
                                PatternRewriter &rewriter) const override {
    if (op->hasAttr(kRuleAttr))
      return hasRule(rewriter, op);
    Equation equation(op);
    SmallVector<Value> inputs(op.getInputs());
    bool changed = false;
    for (auto [letters, input] : llvm::zip_equal(equation.inputs, inputs)) {
      auto transpose = input.getDefiningOp<TransposeOp>();
      if (!transpose)
        continue;
      std::string before(letters.size(), ' ');
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        before[dim] = letters[i];
      letters = before;
      input = transpose.getInput();
      changed = true;
    }
    if (!changed)
      return rewriter.notifyMatchFailure(op, "no operand is an nn.transpose");
    replaceOp<EinsumOp>(rewriter, op, op.getType(), equation.str(), inputs);
    return success();
  }
};

/// The same for the result, where nothing else reads it.
struct TransposeOfEinsum : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto einsum = op.getInput().getDefiningOp<EinsumOp>();
    if (!einsum || !einsum->hasOneUse())
      return rewriter.notifyMatchFailure(
          op, "the operand is no nn.einsum, or has other uses");
    if (op->hasAttr(kRuleAttr) || einsum->hasAttr(kRuleAttr))
      return hasRule(rewriter, op);
    Equation equation(einsum);
    std::string result;
    for (int64_t dim : op.getPermutation())
      result += equation.result[dim];
    equation.result = result;
    replaceOp<EinsumOp>(rewriter, op, op.getType(), equation.str(),
                        einsum.getInputs());
    return success();
  }
};
} // namespace

void AddOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                        MLIRContext *context) {
  patterns.add<AddOfNeg>(context);
}
void SubOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                        MLIRContext *context) {
  patterns.add<SubForms>(context);
}
void ReduceOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<ReduceOfUnitDims>(context);
}
void EinsumOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<EinsumOfOne, EinsumOfTranspose>(context);
}
void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<TransposeOfEinsum>(context);
}
