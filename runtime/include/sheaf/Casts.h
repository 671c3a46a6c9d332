//===- Casts.h - between f32 and narrower number formats --------*- C++ -*-===//
//
// One set of casts for kernels, folding of constants, the runtime and the
// tests: integer code on the words of f32, which compilers turn into vectors.
// A rule that all formats share:
//
//   nearest     to nearest, ties to even
//   stochastic  up with the probability of what is cut off, by given bits; an
//               exact value stays
//   saturating  what is larger than the largest finite number, infinity
//               included, becomes that; else it is infinity, or NaN where the
//               format has no infinity
//   NaN         stays one; E2M1, which has none, gives 6 (as CUDA does)
//
// E8M0 holds powers of two, 2^-127 to 2^127, without sign or zero: a cast takes
// the magnitude and rounds up, so that what is divided by such a scale does not
// grow. Infinity becomes 2^127 where it saturates, else NaN.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_CASTS_H
#define SHEAF_CASTS_H

#include <bit>
#include <cstdint>
#include <string_view>

namespace sheaf {

/// Formats narrower than f32. A code is an unsigned number of so many bits.
enum class Format { BF16, FP16, E4M3, E5M2, E2M1, E8M0 };

/// Of a format with a sign: bits, and the code of the largest finite number.
/// `ieee` says that the code behind that is infinity, and those behind it NaN.
struct FormatInfo {
  std::string_view name;
  int bits, exponent, mantissa;
  uint32_t largest;
  bool ieee;
  constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
  constexpr uint32_t sign() const { return 1u << (bits - 1); }
};
constexpr FormatInfo infoOf(Format format) {
  switch (format) {
  case Format::BF16:
    return {"bf16", 16, 8, 7, 0x7f7f, true};
  case Format::FP16:
    return {"f16", 16, 5, 10, 0x7bff, true};
  case Format::E4M3:
    return {"f8e4m3", 8, 4, 3, 0x7e, false};
  case Format::E5M2:
    return {"f8e5m2", 8, 5, 2, 0x7b, true};
  case Format::E2M1:
    return {"f4e2m1", 4, 2, 1, 0x7, false};
  case Format::E8M0:
    return {"f8e8m0", 8, 8, 0, 0xfe, false};
  }
  return {};
}

namespace casts {
/// `a` where `condition`, else `b`, without a branch: compilers make no vectors
/// of a choice beside sums of floats.
constexpr uint32_t choose(bool condition, uint32_t a, uint32_t b) {
  uint32_t mask = uint32_t{0} - static_cast<uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

/// How the magnitude of a number of f32, a word without its sign and not NaN,
/// gets a code, before it is looked at whether that is too large. A carry from
/// the mantissa goes on into the exponent, as it should.
template <Format F>
struct Magnitude {
  static constexpr FormatInfo f = infoOf(F);
  static constexpr int cut = 23 - f.mantissa, rebias = 127 - f.bias();
  /// Exponents of f32 up to this one are of numbers below the least normal one
  /// of the format, whose codes count steps of the least subnormal one. BF16
  /// has the subnormals of f32.
  static constexpr uint32_t lastSmall = rebias;

  static constexpr uint32_t normal(uint32_t size, uint32_t toAdd) {
    return ((size + toAdd) >> cut) -
           (static_cast<uint32_t>(rebias) << f.mantissa);
  }

  static constexpr uint32_t nearest(uint32_t size) {
    uint32_t code = normal(size, (1u << (cut - 1)) - 1 + (size >> cut & 1));
    if constexpr (rebias == 0)
      return code;
    // A sum with 2^23 has no bits below 1: it is rounded as floats are.
    constexpr float steps = std::bit_cast<float>(
        static_cast<uint32_t>(127 + f.bias() - 1 + f.mantissa) << 23);
    uint32_t small =
        std::bit_cast<uint32_t>(std::bit_cast<float>(size) * steps + 0x1p23f) -
        0x4b000000;
    return choose(size >> 23 > lastSmall, code, small);
  }

  static constexpr uint32_t stochastic(uint32_t size, uint32_t random) {
    uint32_t code = normal(size, random >> (32 - cut));
    if constexpr (rebias == 0)
      return code;
    uint32_t exponent = size >> 23;
    int more = cut + 1 + rebias - static_cast<int>(exponent);
    // Less than 2^-8 of a step: nothing but the highest random bits brings it
    // up, and 31 of them are as good.
    int shift = more > 31 ? 31 : more < cut ? cut : more;
    uint32_t whole = (size & 0x7fffff) | 0x800000;
    uint32_t small =
        exponent == 0 ? 0 : (whole + (random >> (32 - shift))) >> shift;
    return choose(exponent > lastSmall, code, small);
  }
};

/// The code of `x`; `round` gives that of a magnitude.
template <Format F, typename Round>
constexpr uint32_t encodeWith(float x, bool saturates, Round round) {
  constexpr FormatInfo f = infoOf(F);
  uint32_t word = std::bit_cast<uint32_t>(x);
  uint32_t size = word & 0x7fffffff;
  uint32_t sign = word >> 31 << (f.bits - 1);
  if constexpr (F == Format::E2M1) {
    constexpr uint32_t six = 0x40c00000;
    uint32_t code = round(size > six ? six : size);
    return choose(size > 0x7f800000, f.largest, sign | code);
  }
  // What is larger than this gets no finite code.
  constexpr uint32_t most = static_cast<uint32_t>(
      F == Format::BF16 ? 0x7f800000 : (127 + f.bias() + 2) << 23);
  uint32_t code = round(size > most ? most : size);
  uint32_t large = saturates ? f.largest : f.largest + 1;
  // One bit of the mantissa, the highest, in formats with more than one NaN.
  uint32_t nan = f.ieee ? f.largest + 1 + (1u << (f.mantissa - 1)) : 0x7f;
  code = choose(code > f.largest, large, code);
  return sign | choose(size > 0x7f800000, nan, code);
}
} // namespace casts

/// The code of `x`, rounded to nearest even.
template <Format F>
constexpr uint32_t encode(float x, bool saturates) {
  if constexpr (F == Format::E8M0) {
    uint32_t size = std::bit_cast<uint32_t>(x) & 0x7fffffff;
    uint32_t code = (size + 0x7fffff) >> 23;
    // 2^-127 is subnormal in f32: what is not above it has code 0.
    code = size <= 0x400000 ? 0 : code;
    code = size > 0x7f000000 && code > 0xfe ? (saturates ? 0xfe : 0xff) : code;
    return size > 0x7f800000 ? 0xff : code;
  }
  return casts::encodeWith<F>(x, saturates, casts::Magnitude<F>::nearest);
}

/// The code of `x`, rounded away from zero with the probability of what is cut
/// off: `random` are 32 bits, all alike.
template <Format F>
constexpr uint32_t encodeStochastic(float x, bool saturates, uint32_t random) {
  static_assert(F != Format::E8M0, "a scale is rounded up");
  return casts::encodeWith<F>(x, saturates, [=](uint32_t size) {
    return casts::Magnitude<F>::stochastic(size, random);
  });
}

/// The number of a code; exact.
template <Format F>
constexpr float decode(uint32_t code) {
  constexpr FormatInfo f = infoOf(F);
  if constexpr (F == Format::E8M0)
    return std::bit_cast<float>(code == 0xff ? 0x7fc00000
                                : code == 0  ? 0x400000
                                             : code << 23);
  uint32_t size = code & (f.sign() - 1);
  uint32_t sign = (code & f.sign()) << (32 - f.bits);
  if constexpr (F == Format::BF16)
    return std::bit_cast<float>(sign | size << 16);
  uint32_t exponent = size >> f.mantissa;
  uint32_t normal = (size << (23 - f.mantissa)) +
                    (static_cast<uint32_t>(127 - f.bias()) << 23);
  // Steps of the least subnormal number: an integer, as f32, times that.
  uint32_t steps = std::bit_cast<uint32_t>(
      static_cast<float>(static_cast<int32_t>(size)) *
      std::bit_cast<float>(
          static_cast<uint32_t>(127 + 1 - f.bias() - f.mantissa) << 23));
  uint32_t word = casts::choose(exponent != 0, normal, steps);
  if constexpr (F != Format::E2M1)
    word = casts::choose(
        size > f.largest,
        f.ieee && size == f.largest + 1 ? 0x7f800000 : 0x7fc00000, word);
  return std::bit_cast<float>(sign | word);
}

/// Bytes that `count` codes take: two of E2M1 are in one, the first in its low
/// half.
int64_t bytesOf(Format format, int64_t count);
/// Casts arrays; `to` and `from` do not overlap. `count` of E2M1 is even.
void encode(Format format, bool saturates, const float *from, void *to,
            int64_t count);
void decode(Format format, const void *from, float *to, int64_t count);

} // namespace sheaf

#endif // SHEAF_CASTS_H
