//===- ExpandMath.cpp - Functions and small floats in basic steps ---------===//
//
// Polynomials were fitted for the largest weighted error by iteratively
// reweighted least squares on Chebyshev points. Argument reductions follow Cody
// and Waite, "Software Manual for the Elementary Functions" (1980).
//
//===----------------------------------------------------------------------===//

#include "lowering/cpu/kernels/ExpandMath.h"
#include "lowering/NNToLinalg/ScalarOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include <cmath>

using namespace mlir;
using namespace sheaf::lowering;

namespace {

/// Arithmetic on scalars or vectors, with few words.
struct Steps {
  OpBuilder &builder;
  Location loc;
  /// Whether the machine multiplies by a power of two in one instruction.
  bool scales = false;

  template <typename Op, typename... Args>
  Value make(Args &&...args) {
    return Op::create(builder, loc, std::forward<Args>(args)...);
  }
  Value number(Value like, double value) {
    return buildNumber(builder, loc, like.getType(), value);
  }
  Value add(Value a, Value b) { return make<arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) { return make<arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) { return make<arith::MulFOp>(a, b); }
  Value div(Value a, Value b) { return make<arith::DivFOp>(a, b); }
  Value add(Value a, double b) { return add(a, number(a, b)); }
  Value mul(Value a, double b) { return mul(a, number(a, b)); }
  Value fma(Value a, Value b, Value c) { return make<math::FmaOp>(a, b, c); }
  Value fma(Value a, double b, Value c) { return fma(a, number(a, b), c); }
  Value abs(Value a) { return make<math::AbsFOp>(a); }
  Value select(Value c, Value a, Value b) {
    return make<arith::SelectOp>(c, a, b);
  }
  Value less(Value a, Value b) {
    return make<arith::CmpFOp>(arith::CmpFPredicate::OLT, a, b);
  }
  Value less(Value a, double b) { return less(a, number(a, b)); }
  Value is(arith::CmpFPredicate predicate, Value a, double b) {
    return make<arith::CmpFOp>(predicate, a, number(a, b));
  }
  Value equal(Value a, double b) { return is(arith::CmpFPredicate::OEQ, a, b); }
  Value isNaN(Value a) {
    return make<arith::CmpFOp>(arith::CmpFPredicate::UNO, a, a);
  }
  Value both(Value a, Value b) { return make<arith::AndIOp>(a, b); }
  Value either(Value a, Value b) { return make<arith::OrIOp>(a, b); }

  // Integers of the same shape.
  Value bits(Value a) {
    unsigned width = getElementTypeOrSelf(a.getType()).getIntOrFloatBitWidth();
    return make<arith::BitcastOp>(
        withElement(a.getType(), builder.getIntegerType(width)), a);
  }
  Value fromBits(Value a, FloatType type) {
    return make<arith::BitcastOp>(withElement(a.getType(), type), a);
  }
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
  Value sar(Value a, int64_t b) {
    return make<arith::ShRSIOp>(a, number(a, b));
  }
  Value icompare(arith::CmpIPredicate predicate, Value a, int64_t b) {
    return make<arith::CmpIOp>(predicate, a, number(a, b));
  }
  Value resize(Value a, unsigned width) {
    unsigned now = getElementTypeOrSelf(a.getType()).getIntOrFloatBitWidth();
    Type to = withElement(a.getType(), builder.getIntegerType(width));
    if (now == width)
      return a;
    return now < width ? make<arith::ExtUIOp>(to, a)
                       : make<arith::TruncIOp>(to, a);
  }

  /// c[0] + c[1] x + ...
  Value polynomial(Value x, ArrayRef<double> c) {
    Value sum = number(x, c.back());
    for (double next : llvm::reverse(c.drop_back()))
      sum = fma(sum, x, number(x, next));
    return sum;
  }
  Value extend(Value a) {
    return make<arith::ExtFOp>(withElement(a.getType(), builder.getF64Type()),
                               a);
  }
  Value truncate(Value a) {
    return make<arith::TruncFOp>(withElement(a.getType(), builder.getF32Type()),
                                 a);
  }

  /// x rounded to an integer, as a float and as an integer, for |x| < 2^22
  /// (f32) or 2^51 (f64): the sum with 1.5 * 2^23 has no bits behind the point.
  /// NaN gives any integer.
  std::pair<Value, Value> round(Value x) {
    bool wide = getElementTypeOrSelf(x.getType()).isF64();
    double magic = std::ldexp(1.5, wide ? 52 : 23);
    Value shifted = add(x, magic);
    Value integer = make<arith::SubIOp>(bits(shifted), bits(number(x, magic)));
    return {sub(shifted, number(x, magic)), integer};
  }

  //===--------------------------------------------------------------------===//
  // f32
  //===--------------------------------------------------------------------===//

  /// The number n nearest to `sign` * x / log 2, in the low bits of
  /// 1.5 * 2^23 + n, and as a float.
  std::pair<Value, Value> nearestPower(Value x, double sign) {
    Value magic = number(x, std::ldexp(1.5, 23));
    Value shifted = fma(x, sign * 1.44269504088896341, magic);
    return {shifted, sub(shifted, magic)};
  }

  /// x 2^n, rounded once, where `scales`; n as `nearestPower` gives it.
  Value scale(Value x, Value shifted, Value n) {
    auto call = [&](StringRef intrinsic, ValueRange operands) {
      return LLVM::CallIntrinsicOp::create(builder, loc, x.getType(),
                                           builder.getStringAttr(intrinsic),
                                           operands)
          .getResults();
    };
    auto vector = dyn_cast<VectorType>(x.getType());
    if (!vector || vector.getShape() != ArrayRef<int64_t>{16})
      return call("llvm.ldexp", {x, sar(shl(bits(shifted), 23), 23)});
    // Takes the power as a float; all lanes, the rounding that is set.
    Value all = make<arith::ConstantOp>(builder.getI16IntegerAttr(-1));
    Value rounding = make<arith::ConstantOp>(builder.getI32IntegerAttr(4));
    return call("llvm.x86.avx512.mask.scalef.ps.512", {x, n, x, all, rounding});
  }
  /// 2^(n + bias - 127), n where a float has its exponent; from -127, which
  /// gives 0, to 128, infinity.
  Value powerOf2(Value n, int64_t bias = 127) {
    return fromBits(iadd(n, bias << 23), builder.getF32Type());
  }

  Value exp(Value x) {
    // The limits are beyond underflow and overflow; NaN passes.
    x = select(less(x, -110.0), number(x, -110), x);
    x = select(is(arith::CmpFPredicate::OGT, x, 100), number(x, 100), x);
    auto [shifted, n] = nearestPower(x, 1);
    Value r = fma(n, -0.693145751953125, x);
    r = fma(n, -1.42860682030941723e-6, r);
    Value fraction =
        polynomial(r, {1, 1, 4.999999341e-01, 1.666652011e-01, 4.166839426e-02,
                       8.368780622e-03, 1.381446475e-03});
    if (scales)
      return scale(fraction, shifted, n);
    // Two factors, as 2^n alone can be too large or too small; the first
    // product is exact.
    Value exponent = shl(bits(shifted), 23);
    Value half = iand(sar(exponent, 1), -(1 << 23));
    Value other = make<arith::SubIOp>(exponent, half);
    return mul(mul(fraction, powerOf2(half)), powerOf2(other));
  }

  /// e^x, or e^-x, for what is added to 1 or more, where numbers below e^-87
  /// vanish. `isBounded`: it is no more than 1.
  Value expBesideOne(Value x, bool isNegated, bool isBounded) {
    double sign = isNegated ? -1 : 1, least = -87.5, largest = 89;
    auto cut = [&](double limit, bool isUpper) {
      auto predicate =
          isUpper ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
      x = select(is(predicate, x, limit), number(x, limit), x);
    };
    if (!isNegated || !isBounded)
      cut(isNegated ? -largest : least, /*isUpper=*/false);
    if (isNegated || !isBounded)
      cut(isNegated ? -least : largest, /*isUpper=*/true);
    auto [shifted, n] = nearestPower(x, sign);
    Value r =
        fma(n, -0.69314718055994530942, isNegated ? make<arith::NegFOp>(x) : x);
    SmallVector<double> c = {1,
                             1,
                             4.999922585e-01,
                             1.666711817e-01,
                             4.189098745e-02,
                             8.312430466e-03};
    if (scales)
      return scale(polynomial(r, c), shifted, n);
    // One factor, 2^(n - 1), which is normal up to n = 128, and 0 for -126.
    for (double &coefficient : c)
      coefficient *= 2;
    return mul(polynomial(r, c), powerOf2(shl(bits(shifted), 23), 126));
  }

  Value log(Value x) {
    // Subnormal numbers are scaled up.
    Value tiny = less(x, 1.17549435e-38);
    Value scaled = select(tiny, mul(x, 8388608.0), x);
    Value word = bits(scaled);
    // m in [sqrt(1/2), sqrt(2)), x = 2^e m.
    Value exponent = sar(iadd(word, -0x3f3504f3), 23);
    Value m = fromBits(make<arith::SubIOp>(word, shl(exponent, 23)),
                       builder.getF32Type());
    Value e = make<arith::SIToFPOp>(x.getType(), exponent);
    e = add(e, select(tiny, number(x, -23), number(x, 0)));
    Value f = add(m, -1);
    Value tail =
        polynomial(f, {3.333331008e-01, -2.499998639e-01, 2.000225363e-01,
                       -1.666928028e-01, 1.421808471e-01, -1.238346459e-01,
                       1.187666150e-01, -1.179684874e-01, 6.915213532e-02});
    Value square = mul(f, f);
    Value low = fma(e, 1.42860682030941723e-6, mul(mul(square, f), tail));
    low = fma(square, -0.5, low);
    Value result = fma(e, 0.693145751953125, add(f, low));
    result = select(is(arith::CmpFPredicate::OEQ, x, INFINITY), x, result);
    result = select(equal(x, 0), number(x, -INFINITY), result);
    Value bad = is(arith::CmpFPredicate::ULT, x, 0); // NaN, too
    return select(bad, number(x, NAN), result);
  }

  Value tanh(Value x) {
    Value size = abs(x);
    Value z = mul(x, x);
    Value tail =
        polynomial(z, {-3.333332961e-01, 1.333315789e-01, -5.394056277e-02,
                       2.166634505e-02, -8.091964384e-03, 2.064662036e-03});
    Value small = fma(mul(x, z), tail, x);
    // 1 - 2 / (e^2|x| + 1), with the sign of x.
    Value e = expBesideOne(add(size, size), /*isNegated=*/false,
                           /*isBounded=*/false);
    Value large = sub(number(x, 1), div(number(x, 2), add(e, 1)));
    large = make<math::CopySignOp>(large, x);
    return select(less(size, 0.625), small, large);
  }

  Value erf(Value x) {
    Value size = abs(x);
    Value z = mul(x, x);
    Value small = mul(
        x, polynomial(z, {1.128379167e+00, -3.761263848e-01, 1.128378275e-01,
                          -2.686544582e-02, 5.221074874e-03, -8.484711394e-04,
                          1.127054409e-04, -9.680135240e-06}));
    // 1 - e^-q(|x|), where q is fitted to -log erfc.
    Value cut =
        select(is(arith::CmpFPredicate::OGT, size, 4), number(x, 4), size);
    Value q =
        polynomial(cut, {-1.880402304e-04, 1.129578424e+00, 6.332198931e-01,
                         1.084185773e-01, -2.520825674e-02, 4.204561874e-03,
                         -4.413363770e-04, 2.168684995e-05});
    Value large = sub(number(x, 1),
                      expBesideOne(q, /*isNegated=*/true, /*isBounded=*/true));
    large = make<math::CopySignOp>(large, x);
    return select(less(size, 1.0), small, large);
  }

  /// In f64, where two parts of pi/2 serve for all angles up to 1e9.
  Value sinOrCos(Value x, bool cosine) {
    Value a = extend(x);
    Value limited = select(is(arith::CmpFPredicate::OLT, abs(a), 1e15), a,
                           sub(a, a)); // 0, or NaN for infinities
    auto [n, integer] = round(mul(limited, 0.63661977236758134308));
    Value r = fma(n, -1.57079632679489655800, limited);
    r = fma(n, -6.12323399573676603587e-17, r);
    Value z = mul(r, r);
    auto factorials = [](int first, int count) {
      SmallVector<double> c;
      double factorial = 1;
      for (int i = 2; i <= first; ++i)
        factorial *= i;
      for (int k = 0; k < count; ++k) {
        c.push_back((k % 2 ? 1 : -1) / factorial);
        factorial *= (first + 2 * k + 1) * (first + 2 * k + 2);
      }
      return c;
    };
    Value sin = fma(mul(r, z), polynomial(z, factorials(3, 5)), r);
    Value cos = fma(z, polynomial(z, factorials(2, 6)), number(z, 1));
    Value quadrant = cosine ? iadd(integer, 1) : integer;
    Value odd = icompare(arith::CmpIPredicate::ne, iand(quadrant, 1), 0);
    Value negative = icompare(arith::CmpIPredicate::ne, iand(quadrant, 2), 0);
    Value result = select(odd, cos, sin);
    return truncate(select(negative, make<arith::NegFOp>(result), result));
  }

  /// In f64: |a|^b = e^(b log |a|), then the special cases of C99, F.9.4.4.
  Value pow(Value base, Value power) {
    Value a = abs(extend(base)), b = extend(power);
    // log a = 2^e m with m in [sqrt(1/2), sqrt(2)); a is normal in f64, or 0.
    Value word = bits(a);
    Value exponent = sar(iadd(word, -0x3fe6a09e667f3bcdLL), 52);
    Value m = fromBits(make<arith::SubIOp>(word, shl(exponent, 52)),
                       builder.getF64Type());
    Value e = make<arith::SIToFPOp>(a.getType(), exponent);
    Value s = div(add(m, -1), add(m, 1));
    SmallVector<double> c;
    for (int k = 0; k < 9; ++k)
      c.push_back(2.0 / (2 * k + 1)); // 2 artanh(s)
    Value log = mul(s, polynomial(mul(s, s), c));
    log = fma(e, 0.69314718055994530942, log);
    log = select(equal(a, 0), number(a, -INFINITY), log);
    log = select(equal(a, INFINITY), a, log);
    // A base of size 1 has logarithm 0, also against an infinite power.
    Value y = select(equal(log, 0), number(a, 0), mul(b, log));
    y = select(less(y, -700.0), number(a, -700), y);
    y = select(is(arith::CmpFPredicate::OGT, y, 700), number(a, 700), y);
    auto [n, integer] = round(mul(y, 1.44269504088896341));
    Value r = fma(n, -0.69314718055994530942, y);
    c.clear();
    double factorial = 1;
    for (int k = 0; k < 11; ++k) {
      factorial *= k ? k : 1;
      c.push_back(1 / factorial);
    }
    Value scale = fromBits(shl(iadd(integer, 1023), 52), builder.getF64Type());
    // e^700 and e^-700 are far outside of f32, and inside of f64.
    Value result = truncate(mul(polynomial(r, c), scale));

    Value whole = make<math::FloorOp>(power);
    Value half = mul(power, 0.5);
    Value isWhole =
        make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, whole, power);
    Value isEven = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ,
                                       make<math::FloorOp>(half), half);
    Value negative =
        icompare(arith::CmpIPredicate::slt, bits(base), 0); // -0, too
    Value one = number(isWhole, -1);
    Value isOdd = both(isWhole, make<arith::XOrIOp>(isEven, one));
    result = select(both(negative, isOdd), make<arith::NegFOp>(result), result);
    // A negative finite base needs a whole power (infinite ones count as
    // whole).
    Value finite = is(arith::CmpFPredicate::OGT, base, -INFINITY);
    Value invalid =
        both(both(less(base, 0.0), finite), make<arith::XOrIOp>(isWhole, one));
    invalid = either(invalid, either(isNaN(base), isNaN(power)));
    result = select(invalid, number(result, NAN), result);
    Value unit = either(equal(power, 0), equal(base, 1));
    return select(unit, number(result, 1), result);
  }

  //===--------------------------------------------------------------------===//
  // Small floats
  //===--------------------------------------------------------------------===//

  /// f64 to f32, rounded so that a second rounding to a narrower type is right:
  /// what is not exact becomes odd (Boldo and Melquiond 2008).
  Value roundToOdd(Value x) {
    Value near = truncate(x);
    Value back = extend(near);
    Value word = bits(near);
    Value exact = make<arith::CmpFOp>(arith::CmpFPredicate::UEQ, back, x);
    Value odd = icompare(arith::CmpIPredicate::ne, iand(word, 1), 0);
    Value below =
        make<arith::CmpFOp>(arith::CmpFPredicate::OLT, abs(back), abs(x));
    Value step = select(below, number(word, 1), number(word, -1));
    Value moved = make<arith::AddIOp>(word, step);
    word = select(either(exact, odd), word, moved);
    return fromBits(word, builder.getF32Type());
  }

  Value encodeBF16(Value x) {
    Value word = bits(x);
    Value odd = iand(shr(word, 16), 1);
    Value rounded = shr(make<arith::AddIOp>(iadd(word, 0x7fff), odd), 16);
    Value quiet = iadd(iand(shr(word, 16), 0xff80), 0x40);
    Value result = select(isNaN(x), quiet, rounded);
    return fromBits(resize(result, 16), builder.getBF16Type());
  }
  Value decodeBF16(Value x) {
    return fromBits(shl(resize(bits(x), 32), 16), builder.getF32Type());
  }

  /// A float of 8 or 4 bits: those of the mantissa, exponent of the least
  /// normal number, codes of the largest finite number and of what NaN becomes.
  struct Small {
    int mantissa, least, largest, nan;
  };
  static Small formatOf(FloatType type) {
    if (isa<Float8E4M3FNType>(type))
      return {3, -6, 0x7e, 0x7f};
    if (isa<Float4E2M1FNType>(type))
      return {1, 0, 0x7, 0x7};
    return {2, -14, 0x7b, 0x7f};
  }

  /// Rounds to nearest even; what is larger than the largest finite number,
  /// infinity included, becomes that.
  Value encodeF8(Value x, FloatType type) {
    Small format = formatOf(type);
    int shift = 23 - format.mantissa;
    Value word = bits(x);
    int width = type.getWidth();
    Value sign = iand(shr(word, 32 - width), 1 << (width - 1));
    Value size = iand(word, 0x7fffffff);
    Value odd = iand(shr(size, shift), 1);
    Value rounded =
        make<arith::AddIOp>(iadd(size, (1 << (shift - 1)) - 1), odd);
    // The exponent 2^least has code 1.
    Value normal =
        iadd(shr(rounded, shift), -((format.least + 126) << format.mantissa));
    // Below, codes count steps of 2^(least - mantissa).
    Value steps = mul(fromBits(size, builder.getF32Type()),
                      std::ldexp(1.0, format.mantissa - format.least));
    Value subnormal = round(steps).second;
    Value isSmall = less(abs(x), std::ldexp(1.0, format.least));
    Value code = select(isSmall, subnormal, normal);
    code = make<arith::MinSIOp>(code, number(code, format.largest));
    code = make<arith::OrIOp>(code, sign);
    // A NaN has a sign, but for the 6 that stands for it in 4 bits.
    Value nan = number(code, format.nan);
    if (width == 8)
      nan = make<arith::OrIOp>(nan, sign);
    code = select(isNaN(x), nan, code);
    return fromBits(resize(code, width), type);
  }
  Value decodeF8(Value x, FloatType type) {
    Small format = formatOf(type);
    int width = type.getWidth(), ofSign = 1 << (width - 1);
    Value word = resize(bits(x), 32);
    Value sign = shl(iand(word, ofSign), 32 - width);
    Value code = iand(word, ofSign - 1);
    Value normal =
        iadd(shl(code, 23 - format.mantissa), (format.least + 126) << 23);
    Type f32 = withElement(x.getType(), builder.getF32Type());
    Value steps = make<arith::SIToFPOp>(f32, code);
    Value subnormal =
        bits(mul(steps, std::ldexp(1.0, format.least - format.mantissa)));
    Value isSmall =
        icompare(arith::CmpIPredicate::slt, code, 1 << format.mantissa);
    Value result = select(isSmall, subnormal, normal);
    if (format.mantissa == 3) { // no infinity, one NaN
      result = select(icompare(arith::CmpIPredicate::eq, code, 0x7f),
                      number(result, 0x7fc00000), result);
    } else if (format.mantissa == 2) {
      Value special = icompare(arith::CmpIPredicate::sge, code, 0x7c);
      Value rest = iadd(shl(iand(code, 3), 21), 0x7f800000);
      result = select(special, rest, result);
    }
    return fromBits(make<arith::OrIOp>(result, sign), builder.getF32Type());
  }
};

template <typename Op, Value (*expand)(Steps, ValueRange)>
struct ExpandF32 : OpRewritePattern<Op> {
  ExpandF32(MLIRContext *context, bool scales)
      : OpRewritePattern<Op>(context), scales(scales) {}
  bool scales;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const final {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "expected f32");
    rewriter.replaceOp(
        op, expand({rewriter, op.getLoc(), scales}, op->getOperands()));
    return success();
  }
};

struct ExpandExp : OpRewritePattern<math::ExpOp> {
  ExpandExp(MLIRContext *context, bool scales)
      : OpRewritePattern(context), scales(scales) {}
  bool scales;
  LogicalResult matchAndRewrite(math::ExpOp op,
                                PatternRewriter &rewriter) const final {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "expected f32");
    Steps steps{rewriter, op.getLoc(), scales};
    Value x = op.getOperand();
    auto has = [&](arith::FastMathFlags flag) {
      return bitEnumContainsAll(op.getFastmath(), flag);
    };
    if (!has(arith::FastMathFlags::afn)) {
      rewriter.replaceOp(op, steps.exp(x));
      return success();
    }
    auto negation = x.getDefiningOp<arith::NegFOp>();
    rewriter.replaceOp(
        op, steps.expBesideOne(negation ? negation.getOperand() : x,
                               /*isNegated=*/bool(negation),
                               /*isBounded=*/has(arith::FastMathFlags::ninf)));
    return success();
  }
};

/// The larger (smaller) of two, NaN where either is, in three instructions; of
/// zeros the second. What LLVM makes of these ops also orders the signs of
/// zeros, for twice the time.
template <typename Op, arith::CmpFPredicate predicate>
struct ExpandExtreme : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const final {
    Steps s{rewriter, op.getLoc()};
    Value a = op.getLhs(), b = op.getRhs();
    // A comparison with NaN is false and leaves a, NaN or not.
    Value chosen = s.select(s.make<arith::CmpFOp>(predicate, b, a), b, a);
    rewriter.replaceOp(op, s.select(s.isNaN(b), b, chosen));
    return success();
  }
};

struct ExpandTruncation : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const final {
    auto from = cast<FloatType>(getElementTypeOrSelf(op.getIn().getType()));
    auto to = cast<FloatType>(getElementTypeOrSelf(op.getType()));
    if (to.isF32() || (to.isF16() && from.isF32()))
      return rewriter.notifyMatchFailure(op, "the machine does this");
    Steps s{rewriter, op.getLoc()};
    Value x = op.getIn();
    if (from.isF64())
      x = s.roundToOdd(x);
    else if (!from.isF32())
      x = s.make<arith::ExtFOp>(withElement(x.getType(), rewriter.getF32Type()),
                                x);
    if (to.isF16())
      x = s.make<arith::TruncFOp>(op.getType(), x);
    else
      x = to.isBF16() ? s.encodeBF16(x) : s.encodeF8(x, to);
    rewriter.replaceOp(op, x);
    return success();
  }
};

/// An integer as bf16 or a narrower float, from f64, which has it exactly.
template <typename Op>
struct ExpandFromInteger : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const final {
    auto to = cast<FloatType>(getElementTypeOrSelf(op.getType()));
    if (to.getWidth() > 16 || to.isF16())
      return rewriter.notifyMatchFailure(op, "the machine does this");
    Value wide = Op::create(rewriter, op.getLoc(),
                            withElement(op.getType(), rewriter.getF64Type()),
                            op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), wide);
    return success();
  }
};

struct ExpandExtension : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const final {
    auto from = cast<FloatType>(getElementTypeOrSelf(op.getIn().getType()));
    auto to = cast<FloatType>(getElementTypeOrSelf(op.getType()));
    if (from.isF32() || from.isF16())
      return rewriter.notifyMatchFailure(op, "the machine does this");
    Steps s{rewriter, op.getLoc()};
    Value x =
        from.isBF16() ? s.decodeBF16(op.getIn()) : s.decodeF8(op.getIn(), from);
    if (to.isF64())
      x = s.make<arith::ExtFOp>(op.getType(), x);
    else if (!to.isF32())
      x = s.make<arith::TruncFOp>(op.getType(), x);
    rewriter.replaceOp(op, x);
    return success();
  }
};

Value expandLog(Steps s, ValueRange v) { return s.log(v[0]); }
Value expandTanh(Steps s, ValueRange v) { return s.tanh(v[0]); }
Value expandErf(Steps s, ValueRange v) { return s.erf(v[0]); }
Value expandSin(Steps s, ValueRange v) { return s.sinOrCos(v[0], false); }
Value expandCos(Steps s, ValueRange v) { return s.sinOrCos(v[0], true); }
Value expandPow(Steps s, ValueRange v) { return s.pow(v[0], v[1]); }
} // namespace

void sheaf::cpu::populateExpandMathPatterns(RewritePatternSet &patterns,
                                            bool scales) {
  patterns.add<
      ExpandExp, ExpandF32<math::LogOp, expandLog>,
      ExpandF32<math::TanhOp, expandTanh>, ExpandF32<math::ErfOp, expandErf>,
      ExpandF32<math::SinOp, expandSin>, ExpandF32<math::CosOp, expandCos>,
      ExpandF32<math::PowFOp, expandPow>>(patterns.getContext(), scales);
  patterns.add<ExpandExtreme<arith::MaximumFOp, arith::CmpFPredicate::OGT>,
               ExpandExtreme<arith::MinimumFOp, arith::CmpFPredicate::OLT>,
               ExpandFromInteger<arith::SIToFPOp>,
               ExpandFromInteger<arith::UIToFPOp>, ExpandTruncation,
               ExpandExtension>(patterns.getContext());
}
