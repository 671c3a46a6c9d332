//===- CastsTest.cpp - Casts against APFloat and CUDA's headers -----------===//
//
// All signs and exponents with the top 13 bits of the mantissa and four tails,
// and a million random words. Where the CUDA toolkit is installed its host path
// is asked, too.
//
//===----------------------------------------------------------------------===//

#include "sheaf/Casts.h"
#include "llvm/ADT/APFloat.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>
#include <thread>
#include <vector>
#ifdef SHEAF_HAS_CUDA_FP8
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#endif

using namespace sheaf;

namespace {
const llvm::fltSemantics &semanticsOf(Format format) {
  switch (format) {
  case Format::BF16:
    return llvm::APFloat::BFloat();
  case Format::FP16:
    return llvm::APFloat::IEEEhalf();
  case Format::E4M3:
    return llvm::APFloat::Float8E4M3FN();
  case Format::E5M2:
    return llvm::APFloat::Float8E5M2();
  case Format::E2M1:
    return llvm::APFloat::Float4E2M1FN();
  case Format::E8M0:
    return llvm::APFloat::Float8E8M0FNU();
  }
  abort();
}

float floatOf(uint32_t word) { return std::bit_cast<float>(word); }

/// What APFloat says, with what CUDA says where the format has no place for a
/// number: 6 for infinity and NaN in E2M1, scales rounded up.
uint32_t reference(Format format, float x, bool saturates) {
  FormatInfo f = infoOf(format);
  uint32_t sign = std::signbit(x) ? f.sign() : 0;
  if (format == Format::E2M1 && !std::isfinite(x))
    return std::isnan(x) ? 7 : sign | 7;
  auto mode = llvm::APFloat::rmNearestTiesToEven;
  if (format == Format::E8M0) {
    x = std::fabs(x), sign = 0, mode = llvm::APFloat::rmTowardPositive;
    if (x <= std::ldexp(1.0f, -127))
      return 0;
    if (std::isinf(x) || x > std::ldexp(1.0f, 127))
      return saturates ? 0xfe : 0xff;
  }
  llvm::APFloat number(x);
  bool isLossy;
  number.convert(semanticsOf(format), mode, &isLossy);
  auto code = static_cast<uint32_t>(number.bitcastToAPInt().getZExtValue());
  bool isSpecial = !std::isnan(x) &&
                   (f.ieee ? (code & ~f.sign()) > f.largest : number.isNaN());
  return saturates && isSpecial ? sign | f.largest : code;
}

/// The number of a code. APFloat makes infinity of the NaN of E8M0.
float numberOf(Format format, uint32_t code) {
  llvm::APFloat number(semanticsOf(format),
                       llvm::APInt(infoOf(format).bits, code));
  if (number.isNaN())
    return NAN;
  bool isLossy;
  number.convert(llvm::APFloat::IEEEsingle(),
                 llvm::APFloat::rmNearestTiesToEven, &isLossy);
  return number.convertToFloat();
}

bool isNaN(Format format, uint32_t code) {
  FormatInfo f = infoOf(format);
  if (format == Format::E8M0)
    return code == 0xff;
  return format != Format::E2M1 &&
         (code & (f.sign() - 1)) > f.largest + (f.ieee ? 1 : 0);
}

/// Calls `check(word)` until it is false; gives the word where it was.
template <typename Check>
int64_t firstFailure(Check check) {
  constexpr uint32_t tails[] = {0, 1, 0x200, 0x3ff};
  std::vector<int64_t> failures(2, -1);
  auto part = [&](uint32_t sign) {
    for (uint32_t top = 0; top < 1u << 21; ++top)
      for (uint32_t tail : tails)
        if (uint32_t word = sign << 31 | top << 10 | tail; !check(word)) {
          failures[sign] = word;
          return;
        }
    std::mt19937 random(7 + sign);
    for (int i = 0; i < 500000; ++i)
      if (uint32_t word = random(); !check(word)) {
        failures[sign] = word;
        return;
      }
  };
  std::thread other(part, 1);
  part(0);
  other.join();
  return failures[0] >= 0 ? failures[0] : failures[1];
}

template <Format F>
void checkEncoding() {
  SCOPED_TRACE(infoOf(F).name);
  auto failed = firstFailure([](uint32_t word) {
    float x = floatOf(word);
    for (bool saturates : {false, true}) {
      uint32_t expected = reference(F, x, saturates),
               found = encode<F>(x, saturates);
      // Payloads of NaN differ.
      if (found != expected && !(isNaN(F, found) && isNaN(F, expected)))
        return false;
      if (F == Format::E2M1 && !saturates)
        break;
    }
    return true;
  });
  if (failed >= 0) {
    float x = floatOf(static_cast<uint32_t>(failed));
    ADD_FAILURE() << std::hex << failed << " (" << x << "): found "
                  << encode<F>(x, false) << ", saturating "
                  << encode<F>(x, true) << "; expected "
                  << reference(F, x, false) << ", saturating "
                  << reference(F, x, true);
  }
}

template <Format F>
void checkDecoding() {
  SCOPED_TRACE(infoOf(F).name);
  FormatInfo f = infoOf(F);
  for (uint32_t code = 0; code < 1u << f.bits; ++code) {
    float expected = numberOf(F, code), found = decode<F>(code);
    if (std::isnan(expected) ? !std::isnan(found)
                             : std::bit_cast<uint32_t>(expected) !=
                                   std::bit_cast<uint32_t>(found)) {
      ADD_FAILURE() << std::hex << code << ": found " << found << ", expected "
                    << expected;
      return;
    }
    // What is there comes back.
    if (!std::isnan(found)) {
      ASSERT_EQ(encode<F>(found, false), code);
      if constexpr (F != Format::E8M0) {
        ASSERT_EQ(encodeStochastic<F>(found, false, 0xffffffff), code);
      }
    }
  }
}

/// Between two neighbours the upper one comes as often as the place says.
template <Format F>
void checkStochastic() {
  SCOPED_TRACE(infoOf(F).name);
  FormatInfo f = infoOf(F);
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    uint32_t code = random() % f.largest;
    double low = decode<F>(code), high = decode<F>(code + 1);
    // In 16 steps from one to the other, which f32 holds.
    uint32_t step = random() % 16;
    auto x = static_cast<float>(low + (high - low) * step / 16);
    if (x < std::ldexp(1.0f, -126))
      continue;
    uint32_t sign = random() % 2 ? f.sign() : 0;
    uint32_t ups = 0;
    for (uint32_t r = 0; r < 256; ++r) {
      uint32_t found = encodeStochastic<F>(sign ? -x : x, true,
                                           r << 24 | (random() & 0xffffff));
      ASSERT_TRUE(found == (sign | code) || found == (sign | (code + 1)))
          << x << " to " << found;
      ups += found != (sign | code);
    }
    ASSERT_EQ(ups, step * 16) << x << " from " << code;
  }
}
} // namespace

#define FORMATS(check)                                                         \
  check<Format::BF16>();                                                       \
  check<Format::FP16>();                                                       \
  check<Format::E4M3>();                                                       \
  check<Format::E5M2>();                                                       \
  check<Format::E2M1>()

TEST(Casts, EncodeAsAPFloat) {
  FORMATS(checkEncoding);
  checkEncoding<Format::E8M0>();
}

TEST(Casts, DecodeAsAPFloat) {
  FORMATS(checkDecoding);
  checkDecoding<Format::E8M0>();
}

TEST(Casts, StochasticIsUnbiased) { FORMATS(checkStochastic); }

TEST(Casts, ArraysAreElementByElement) {
  std::mt19937 random(5);
  std::vector<float> from(1000), back(1000);
  for (float &x : from)
    x = floatOf(random());
  for (int i = 0; i < 6; ++i) {
    auto format = static_cast<Format>(i);
    std::vector<uint8_t> to(bytesOf(format, 1000));
    for (bool saturates : {false, true}) {
      encode(format, saturates, from.data(), to.data(), 1000);
      decode(format, to.data(), back.data(), 1000);
      for (int64_t j = 0; j < 1000; ++j) {
        uint32_t expected = reference(format, from[j], saturates);
        float x = numberOf(format, expected);
        EXPECT_TRUE(std::isnan(x) ? std::isnan(back[j]) : x == back[j])
            << infoOf(format).name << " of " << from[j] << ": " << back[j];
      }
    }
  }
  EXPECT_EQ(bytesOf(Format::E2M1, 1000), 500);
  EXPECT_EQ(bytesOf(Format::BF16, 1000), 2000);
}

#ifdef SHEAF_HAS_CUDA_FP8
TEST(Casts, AsCudaHeaders) {
  auto check = [](const char *name, auto found, auto expected, Format format) {
    int64_t failed = firstFailure([&](uint32_t word) {
      uint32_t a = found(floatOf(word)), b = expected(floatOf(word));
      return a == b || (isNaN(format, a) && isNaN(format, b));
    });
    EXPECT_LT(failed, 0) << name << " of " << std::hex << failed << ": "
                         << found(floatOf(failed)) << ", expected "
                         << expected(floatOf(failed));
  };
  for (bool saturates : {false, true}) {
    __nv_saturation_t mode = saturates ? __NV_SATFINITE : __NV_NOSAT;
    check(
        "e4m3", [=](float x) { return encode<Format::E4M3>(x, saturates); },
        [=](float x) -> uint32_t {
          return __nv_cvt_float_to_fp8(x, mode, __NV_E4M3);
        },
        Format::E4M3);
    check(
        "e5m2", [=](float x) { return encode<Format::E5M2>(x, saturates); },
        [=](float x) -> uint32_t {
          return __nv_cvt_float_to_fp8(x, mode, __NV_E5M2);
        },
        Format::E5M2);
    check(
        "e8m0", [=](float x) { return encode<Format::E8M0>(x, saturates); },
        [=](float x) -> uint32_t {
          return __nv_cvt_float_to_e8m0(x, mode, cudaRoundPosInf);
        },
        Format::E8M0);
  }
  check(
      "e2m1", [](float x) { return encode<Format::E2M1>(x, true); },
      [](float x) -> uint32_t {
        return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest);
      },
      Format::E2M1);
}
#endif

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
