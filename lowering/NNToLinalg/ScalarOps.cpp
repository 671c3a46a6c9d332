//===- ScalarOps.cpp - nn's elementwise ops on elements -------------------===//

#include "lowering/NNToLinalg/ScalarOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::nn;

Type lowering::withElement(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Type lowering::getAccumulatorType(Type element) {
  auto type = dyn_cast<FloatType>(element);
  return type && type.getWidth() < 32 ? Float32Type::get(element.getContext())
                                      : element;
}

Value lowering::buildNumber(OpBuilder &builder, Location loc, Type type,
                            double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr number;
  if (auto floatType = dyn_cast<FloatType>(element))
    number = builder.getFloatAttr(floatType, value);
  else
    number = builder.getIntegerAttr(element, static_cast<int64_t>(value));
  if (auto vector = dyn_cast<VectorType>(type))
    number = DenseElementsAttr::get(vector, number);
  return arith::ConstantOp::create(builder, loc, number);
}

namespace {
using sheaf::lowering::buildNumber;
using sheaf::lowering::getAccumulatorType;
using sheaf::lowering::withElement;

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }
bool isFloat(Value value) { return isa<FloatType>(elementOf(value)); }

/// The operations of arith and math on values of one shape, with few words.
struct Scalars {
  OpBuilder &builder;
  Location loc;

  template <typename Op, typename... Args>
  Value make(Args &&...args) {
    return Op::create(builder, loc, std::forward<Args>(args)...);
  }
  Value number(Value like, double value) {
    return buildNumber(builder, loc, like.getType(), value);
  }
  Value select(Value condition, Value a, Value b) {
    return make<arith::SelectOp>(condition, a, b);
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return make<arith::CmpIOp>(predicate, a, b);
  }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return make<arith::CmpFOp>(predicate, a, b);
  }
  /// f32 for narrower floats.
  Value widen(Value value) {
    Type wide = getAccumulatorType(elementOf(value));
    if (wide == elementOf(value))
      return value;
    return make<arith::ExtFOp>(withElement(value.getType(), wide), value);
  }
  Value narrow(Value value, Type element) {
    if (elementOf(value) == element)
      return value;
    return make<arith::TruncFOp>(withElement(value.getType(), element), value);
  }

  Value divideIntegers(Value a, Value b) {
    Value zero = number(a, 0), one = number(a, 1), minus = number(a, -1);
    Value isZero = compare(arith::CmpIPredicate::eq, b, zero);
    Value isMinus = compare(arith::CmpIPredicate::eq, b, minus);
    // Neither 0 nor -1 reaches the division, which has no value for x / 0 and
    // for the least integer / -1 (which is the least integer here).
    Value safe = select(make<arith::OrIOp>(isZero, isMinus), one, b);
    Value quotient = make<arith::DivSIOp>(a, safe);
    quotient = select(isMinus, make<arith::SubIOp>(zero, a), quotient);
    return select(isZero, zero, quotient);
  }

  Value sigmoid(Value x) {
    Value one = number(x, 1);
    // The sum has no use for what is small (ExpandMath.h).
    Value e =
        make<math::ExpOp>(make<arith::NegFOp>(x), arith::FastMathFlags::afn);
    return make<arith::DivFOp>(one, make<arith::AddFOp>(one, e));
  }

  /// A unary or binary op on f32 or f64.
  Value onFloats(Operation *op, ArrayRef<Value> v) {
    return llvm::TypeSwitch<Operation *, Value>(op)
        .Case([&](NegOp) { return make<arith::NegFOp>(v[0]); })
        .Case([&](AbsOp) { return make<math::AbsFOp>(v[0]); })
        .Case([&](ExpOp) { return make<math::ExpOp>(v[0]); })
        .Case([&](LogOp) { return make<math::LogOp>(v[0]); })
        .Case([&](TanhOp) { return make<math::TanhOp>(v[0]); })
        .Case([&](ErfOp) { return make<math::ErfOp>(v[0]); })
        .Case([&](SqrtOp) { return make<math::SqrtOp>(v[0]); })
        .Case([&](RsqrtOp) {
          return make<arith::DivFOp>(number(v[0], 1), make<math::SqrtOp>(v[0]));
        })
        .Case([&](SigmoidOp) { return sigmoid(v[0]); })
        .Case([&](SinOp) { return make<math::SinOp>(v[0]); })
        .Case([&](CosOp) { return make<math::CosOp>(v[0]); })
        .Case([&](AddOp) { return make<arith::AddFOp>(v[0], v[1]); })
        .Case([&](SubOp) { return make<arith::SubFOp>(v[0], v[1]); })
        .Case([&](MulOp) { return make<arith::MulFOp>(v[0], v[1]); })
        .Case([&](DivOp) { return make<arith::DivFOp>(v[0], v[1]); })
        .Case([&](MaxOp) { return make<arith::MaximumFOp>(v[0], v[1]); })
        .Case([&](MinOp) { return make<arith::MinimumFOp>(v[0], v[1]); })
        .Case([&](PowOp) { return make<math::PowFOp>(v[0], v[1]); });
  }

  Value onIntegers(Operation *op, ArrayRef<Value> v) {
    return llvm::TypeSwitch<Operation *, Value>(op)
        .Case([&](NegOp) { return make<arith::SubIOp>(number(v[0], 0), v[0]); })
        .Case([&](AbsOp) {
          Value zero = number(v[0], 0);
          return select(compare(arith::CmpIPredicate::slt, v[0], zero),
                        make<arith::SubIOp>(zero, v[0]), v[0]);
        })
        .Case([&](NotOp) {
          // -1 is the i1 that is true.
          return make<arith::XOrIOp>(v[0], number(v[0], -1));
        })
        .Case([&](AndOp) { return make<arith::AndIOp>(v[0], v[1]); })
        .Case([&](OrOp) { return make<arith::OrIOp>(v[0], v[1]); })
        .Case([&](AddOp) { return make<arith::AddIOp>(v[0], v[1]); })
        .Case([&](SubOp) { return make<arith::SubIOp>(v[0], v[1]); })
        .Case([&](MulOp) { return make<arith::MulIOp>(v[0], v[1]); })
        .Case([&](DivOp) { return divideIntegers(v[0], v[1]); })
        .Case([&](MaxOp) { return make<arith::MaxSIOp>(v[0], v[1]); })
        .Case([&](MinOp) { return make<arith::MinSIOp>(v[0], v[1]); });
  }

  Value compare(Predicate predicate, Value a, Value b) {
    if (isFloat(a)) {
      arith::CmpFPredicate p = arith::CmpFPredicate::OEQ;
      switch (predicate) {
      case Predicate::EQ:
        p = arith::CmpFPredicate::OEQ;
        break;
      case Predicate::NE:
        p = arith::CmpFPredicate::UNE;
        break;
      case Predicate::LT:
        p = arith::CmpFPredicate::OLT;
        break;
      case Predicate::LE:
        p = arith::CmpFPredicate::OLE;
        break;
      case Predicate::GT:
        p = arith::CmpFPredicate::OGT;
        break;
      case Predicate::GE:
        p = arith::CmpFPredicate::OGE;
        break;
      }
      return compare(p, widen(a), widen(b));
    }
    arith::CmpIPredicate p = arith::CmpIPredicate::eq;
    switch (predicate) {
    case Predicate::EQ:
      p = arith::CmpIPredicate::eq;
      break;
    case Predicate::NE:
      p = arith::CmpIPredicate::ne;
      break;
    case Predicate::LT:
      p = arith::CmpIPredicate::slt;
      break;
    case Predicate::LE:
      p = arith::CmpIPredicate::sle;
      break;
    case Predicate::GT:
      p = arith::CmpIPredicate::sgt;
      break;
    case Predicate::GE:
      p = arith::CmpIPredicate::sge;
      break;
    }
    return compare(p, a, b);
  }

  // Integers with a constant.
  Value iadd(Value a, int64_t b) {
    return make<arith::AddIOp>(a, number(a, b));
  }
  Value iand(Value a, int64_t b) {
    return make<arith::AndIOp>(a, number(a, b));
  }
  Value shl(Value a, int64_t b) { return make<arith::ShLIOp>(a, number(a, b)); }
  Value shr(Value a, int64_t b) {
    return make<arith::ShRUIOp>(a, number(a, b));
  }
  Value isAbove(Value a, int64_t b) {
    return compare(arith::CmpIPredicate::sgt, a, number(a, b));
  }
  /// The word of an f32.
  Value bits(Value a) {
    return make<arith::BitcastOp>(
        withElement(a.getType(), builder.getI32Type()), a);
  }
  /// The number whose code is the low bits of an i32.
  Value fromCode(Value code, FloatType type) {
    Type narrow =
        withElement(code.getType(), builder.getIntegerType(type.getWidth()));
    if (narrow != code.getType())
      code = make<arith::TruncIOp>(narrow, code);
    return make<arith::BitcastOp>(withElement(code.getType(), type), code);
  }

  /// E8M0 as in sheaf/Casts.h: the power of two that is not below the
  /// magnitude, at most 2^127.
  Value toPowerOfTwo(Value x, FloatType type) {
    Value size = iand(bits(x), 0x7fffffff);
    Value code = shr(iadd(size, 0x7fffff), 23);
    code = select(isAbove(size, 0x400000), code, number(code, 0));
    code = make<arith::MinSIOp>(code, number(code, 0xfe));
    code = select(isAbove(size, 0x7f800000), number(code, 0xff), code);
    return fromCode(code, type);
  }
  Value fromPowerOfTwo(Value x) {
    Value byte = make<arith::BitcastOp>(
        withElement(x.getType(), builder.getI8Type()), x);
    Value code = make<arith::ExtUIOp>(
        withElement(x.getType(), builder.getI32Type()), byte);
    Value word = shl(code, 23);
    word = select(isAbove(code, 0), word, number(word, 0x400000));
    word = select(isAbove(code, 0xfe), number(word, 0x7fc00000), word);
    return fromCode(word, builder.getF32Type());
  }

  /// `casts::encodeWith` and `casts::Magnitude::stochastic` of sheaf/Casts.h.
  Value roundByBits(Value x, Value random, FloatType type, bool saturates) {
    // As integers with a sign, none is negative but what is not chosen.
    const llvm::fltSemantics &format = type.getFloatSemantics();
    int mantissa = type.getFPMantissaWidth() - 1;
    int bias = -llvm::APFloat::semanticsMinExponent(format) + 1;
    int cut = 23 - mantissa, rebias = 127 - bias;
    bool isE4M3 = isa<Float8E4M3FNType>(type);
    auto largest = static_cast<int64_t>(
        llvm::APFloat::getLargest(format).bitcastToAPInt().getZExtValue());
    Value word = bits(x);
    Value whole = iand(word, 0x7fffffff);
    Value sign = shl(shr(word, 31), type.getWidth() - 1);
    int64_t most = rebias == 0 ? 0x7f800000 : int64_t{127 + bias + 2} << 23;
    Value size = make<arith::MinSIOp>(whole, number(whole, most));
    Value code = make<arith::AddIOp>(size, shr(random, 32 - cut));
    code = iadd(shr(code, cut), -(int64_t{rebias} << mantissa));
    if (rebias != 0) {
      Value exponent = shr(size, 23);
      Value shift =
          make<arith::SubIOp>(number(exponent, cut + 1 + rebias), exponent);
      shift = make<arith::MaxSIOp>(shift, number(shift, cut));
      shift = make<arith::MinSIOp>(shift, number(shift, 31));
      Value steps =
          make<arith::OrIOp>(iand(size, 0x7fffff), number(size, 0x800000));
      Value more = make<arith::ShRUIOp>(
          random, make<arith::SubIOp>(number(shift, 32), shift));
      steps = make<arith::ShRUIOp>(make<arith::AddIOp>(steps, more), shift);
      steps = select(isAbove(exponent, 0), steps, number(steps, 0));
      code = select(isAbove(exponent, rebias), code, steps);
    }
    code =
        select(isAbove(code, largest),
               number(code, static_cast<double>(largest + !saturates)), code);
    int64_t nan = isE4M3 ? 0x7f : largest + 1 + (int64_t{1} << (mantissa - 1));
    code = select(isAbove(whole, 0x7f800000), number(code, nan), code);
    return fromCode(make<arith::OrIOp>(sign, code), type);
  }

  Value floatToInteger(Value x, IntegerType element) {
    x = widen(x);
    Type to = withElement(x.getType(), element);
    double limit = std::ldexp(1.0, element.getWidth() - 1);
    // The largest float below the limit: past it fptosi has no value.
    int mantissa = cast<FloatType>(elementOf(x)).getFPMantissaWidth();
    int exact = std::min<int>(mantissa, element.getWidth() - 1);
    double last = limit - std::ldexp(1.0, element.getWidth() - 1 - exact);
    Value isNumber = compare(arith::CmpFPredicate::ORD, x, x);
    Value tooLarge = compare(arith::CmpFPredicate::OGE, x, number(x, limit));
    Value safe = select(isNumber, x, number(x, 0));
    safe = make<arith::MinimumFOp>(safe, number(x, last));
    safe = make<arith::MaximumFOp>(safe, number(x, -limit));
    Value result = make<arith::FPToSIOp>(to, safe);
    return select(tooLarge, buildNumber(builder, loc, to, limit - 1), result);
  }
};
} // namespace

bool lowering::isScalarOp(Operation *op) {
  return isa<NegOp, AbsOp, ExpOp, LogOp, TanhOp, ErfOp, SqrtOp, RsqrtOp,
             SigmoidOp, SinOp, CosOp, NotOp, AddOp, SubOp, MulOp, DivOp, MaxOp,
             MinOp, PowOp, AndOp, OrOp, CompareOp, SelectOp, CastOp>(op);
}

Value lowering::buildScalar(OpBuilder &builder, Location loc, Operation *op,
                            ValueRange operands) {
  Scalars s{builder, loc};
  if (auto cast = dyn_cast<CastOp>(op)) {
    Type element = cast.getType().getElementType();
    if (cast.getRandom())
      return buildStochasticCast(builder, loc, operands[0], operands[1],
                                 mlir::cast<FloatType>(element),
                                 cast.saturates());
    return buildCast(builder, loc, operands[0], element, cast.getSaturate());
  }
  if (auto compare = dyn_cast<CompareOp>(op))
    return s.compare(compare.getPredicate(), operands[0], operands[1]);
  if (isa<SelectOp>(op))
    return s.select(operands[0], operands[1], operands[2]);
  if (!isFloat(operands[0]))
    return s.onIntegers(op, llvm::to_vector(operands));
  Type element = elementOf(operands[0]);
  SmallVector<Value> wide;
  for (Value operand : operands)
    wide.push_back(s.widen(operand));
  return s.narrow(s.onFloats(op, wide), element);
}

Value lowering::buildStochasticCast(OpBuilder &builder, Location loc,
                                    Value value, Value random,
                                    FloatType element, bool saturates) {
  return Scalars{builder, loc}.roundByBits(value, random, element, saturates);
}

Value lowering::buildCast(OpBuilder &builder, Location loc, Value value,
                          Type element, bool saturates) {
  Scalars s{builder, loc};
  if (elementOf(value) == element)
    return value;
  if (isa<Float8E8M0FNUType>(elementOf(value)))
    value = s.fromPowerOfTwo(value);
  Type from = elementOf(value);
  if (from == element)
    return value;
  if (isa<Float8E8M0FNUType>(element))
    return s.toPowerOfTwo(s.widen(value), mlir::cast<FloatType>(element));
  if (saturates && element.getIntOrFloatBitWidth() == 16) {
    auto type = mlir::cast<FloatType>(element);
    double largest =
        llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
    Value wide = s.widen(value);
    // NaN passes both.
    wide = s.make<arith::MinimumFOp>(wide, s.number(wide, largest));
    value = s.make<arith::MaximumFOp>(wide, s.number(wide, -largest));
    from = elementOf(value);
  }
  Type to = withElement(value.getType(), element);
  auto fromFloat = dyn_cast<FloatType>(from);
  auto toFloat = dyn_cast<FloatType>(element);
  if (element.isInteger(1))
    return fromFloat
               ? s.compare(arith::CmpFPredicate::UNE, s.widen(value),
                           s.number(s.widen(value), 0))
               : s.compare(arith::CmpIPredicate::ne, value, s.number(value, 0));
  if (fromFloat && toFloat) {
    if (toFloat.getWidth() > fromFloat.getWidth())
      return s.make<arith::ExtFOp>(to, value);
    if (toFloat.getWidth() < fromFloat.getWidth())
      return s.make<arith::TruncFOp>(to, value);
    return s.narrow(s.widen(value), element);
  }
  if (fromFloat)
    return s.floatToInteger(value, cast<IntegerType>(element));
  if (toFloat) {
    Type wide = withElement(value.getType(), getAccumulatorType(element));
    Value number = from.isInteger(1) ? s.make<arith::UIToFPOp>(wide, value)
                                     : s.make<arith::SIToFPOp>(wide, value);
    return s.narrow(number, element);
  }
  if (from.isInteger(1))
    return s.make<arith::ExtUIOp>(to, value);
  if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return s.make<arith::ExtSIOp>(to, value);
  return s.make<arith::TruncIOp>(to, value);
}

Value lowering::buildNeutral(OpBuilder &builder, Location loc, ReduceKind kind,
                             Type type) {
  Type element = getElementTypeOrSelf(type);
  if (kind != ReduceKind::Max && kind != ReduceKind::Min)
    return buildNumber(builder, loc, type, 0);
  bool isMax = kind == ReduceKind::Max;
  if (isa<FloatType>(element))
    return buildNumber(builder, loc, type, isMax ? -INFINITY : INFINITY);
  double limit = std::ldexp(1.0, element.getIntOrFloatBitWidth() - 1);
  return buildNumber(builder, loc, type, isMax ? -limit : limit - 1);
}

Value lowering::buildCombine(OpBuilder &builder, Location loc, ReduceKind kind,
                             Value a, Value b) {
  Scalars s{builder, loc};
  bool floats = isFloat(a);
  switch (kind) {
  case ReduceKind::Max:
    return floats ? s.make<arith::MaximumFOp>(a, b)
                  : s.make<arith::MaxSIOp>(a, b);
  case ReduceKind::Min:
    return floats ? s.make<arith::MinimumFOp>(a, b)
                  : s.make<arith::MinSIOp>(a, b);
  default:
    return floats ? s.make<arith::AddFOp>(a, b) : s.make<arith::AddIOp>(a, b);
  }
}

Value lowering::buildAccumulate(OpBuilder &builder, Location loc,
                                ReduceKind kind, Value element,
                                Value accumulator) {
  Scalars s{builder, loc};
  if (kind != ReduceKind::SumOfSquares)
    return buildCombine(builder, loc, kind, accumulator, element);
  if (isFloat(element))
    return s.make<math::FmaOp>(element, element, accumulator);
  return s.make<arith::AddIOp>(accumulator,
                               s.make<arith::MulIOp>(element, element));
}

std::pair<Value, Value> lowering::buildPhilox(OpBuilder &builder, Location loc,
                                              ArrayRef<Value> counter,
                                              ArrayRef<Value> key) {
  Scalars s{builder, loc};
  Value c[4] = {counter[0], counter[1], counter[2], counter[3]};
  Value k[2] = {key[0], key[1]};
  Type wide = withElement(c[0].getType(), builder.getI64Type());
  auto vector = dyn_cast<VectorType>(c[0].getType());
  // Vectors: the machine multiplies the low halves of 64-bit lanes. Those of
  // even and odd lanes are multiplied where they are; to widen all of them and
  // narrow the products takes twice the time.
  auto multiplyPairs = [&](Value a,
                           uint32_t factor) -> std::pair<Value, Value> {
    auto pairs =
        VectorType::get(vector.getDimSize(0) / 2, builder.getI64Type());
    auto number = [&](int64_t value) {
      return buildNumber(builder, loc, pairs, value);
    };
    constexpr int64_t kLow = 0xffffffff, kHigh = ~kLow;
    Value both = s.make<vector::BitCastOp>(pairs, a);
    Value even = s.make<arith::MulIOp>(
        s.make<arith::AndIOp>(both, number(kLow)), number(factor));
    Value odd = s.make<arith::MulIOp>(s.make<arith::ShRUIOp>(both, number(32)),
                                      number(factor));
    Value high =
        s.make<arith::OrIOp>(s.make<arith::ShRUIOp>(even, number(32)),
                             s.make<arith::AndIOp>(odd, number(kHigh)));
    Value low = s.make<arith::OrIOp>(s.make<arith::AndIOp>(even, number(kLow)),
                                     s.make<arith::ShLIOp>(odd, number(32)));
    return {s.make<vector::BitCastOp>(vector, high),
            s.make<vector::BitCastOp>(vector, low)};
  };
  auto multiply = [&](Value a, uint32_t factor) -> std::pair<Value, Value> {
    if (vector && vector.getRank() == 1 && vector.getDimSize(0) % 2 == 0)
      return multiplyPairs(a, factor);
    Value product =
        s.make<arith::MulIOp>(s.make<arith::ExtUIOp>(wide, a),
                              buildNumber(builder, loc, wide, factor));
    Value high =
        s.make<arith::ShRUIOp>(product, buildNumber(builder, loc, wide, 32));
    return {s.make<arith::TruncIOp>(c[0].getType(), high),
            s.make<arith::TruncIOp>(c[0].getType(), product)};
  };
  auto bump = [&](Value v, uint32_t by) {
    return s.make<arith::AddIOp>(v, s.number(v, static_cast<int32_t>(by)));
  };
  for (int round = 0; round < 10; ++round) {
    auto [high0, low0] = multiply(c[0], 0xD2511F53u);
    auto [high1, low1] = multiply(c[2], 0xCD9E8D57u);
    Value first =
        s.make<arith::XOrIOp>(s.make<arith::XOrIOp>(high1, c[1]), k[0]);
    Value third =
        s.make<arith::XOrIOp>(s.make<arith::XOrIOp>(high0, c[3]), k[1]);
    c[0] = first;
    c[1] = low1;
    c[2] = third;
    c[3] = low0;
    k[0] = bump(k[0], 0x9E3779B9u);
    k[1] = bump(k[1], 0xBB67AE85u);
  }
  return {c[0], c[1]};
}

Value lowering::buildRandom(OpBuilder &builder, Location loc,
                            Distribution distribution, Value word0, Value word1,
                            Type element) {
  if (distribution == Distribution::Bits)
    return word0;
  Scalars s{builder, loc};
  Type compute = withElement(word0.getType(), getAccumulatorType(element));
  auto bits = [&](Value word) { // 24 bits, so that the float is exact
    return s.make<arith::ShRUIOp>(word, s.number(word, 8));
  };
  auto scaled = [&](Value integer) -> Value {
    Value number = s.make<arith::SIToFPOp>(compute, integer);
    return s.make<arith::MulFOp>(number,
                                 s.number(number, std::ldexp(1.0, -24)));
  };
  if (distribution == Distribution::Uniform)
    return s.narrow(scaled(bits(word0)), element);
  Value u = scaled(s.make<arith::AddIOp>(bits(word0), s.number(word0, 1)));
  Value v = scaled(bits(word1));
  Value radius = s.make<math::SqrtOp>(
      s.make<arith::MulFOp>(s.number(u, -2), s.make<math::LogOp>(u)));
  Value angle =
      s.make<arith::MulFOp>(v, s.number(v, 2 * 3.14159265358979323846));
  return s.narrow(s.make<arith::MulFOp>(radius, s.make<math::CosOp>(angle)),
                  element);
}

Value lowering::buildGreater(OpBuilder &builder, Location loc, Value a,
                             Value b) {
  Scalars s{builder, loc};
  a = s.widen(a);
  b = s.widen(b);
  Value larger = s.compare(arith::CmpFPredicate::OGT, a, b);
  Value onlyA =
      s.make<arith::AndIOp>(s.compare(arith::CmpFPredicate::UNO, a, a),
                            s.compare(arith::CmpFPredicate::ORD, b, b));
  return s.make<arith::OrIOp>(larger, onlyA);
}
