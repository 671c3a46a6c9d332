//===- QuantizeTest.cpp - Payloads and factors by their rules -------------===//
//
// nn.quantize for formats, granularities and scale rules, lowered through
// linalg, on random numbers and on blocks whose largest magnitude is 0,
// denormal, 1e-38, the largest number of f32, infinite or NaN. Codes and
// factors are those of the rules in docs/design/precision.md, to the bit; NaN
// by class. nn.dequantize gives each number times its factor.
//
//===----------------------------------------------------------------------===//

#include "Jit.h"
#include "mlir/Parser/Parser.h"
#include "sheaf/Casts.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::test;

namespace {

// Neither is a multiple of 32 or 128.
constexpr int64_t kRows = 130, kColumns = 200;

struct Granularity {
  int64_t rows, columns; ///< as `blocks` says them
  int64_t height() const { return rows ? std::min(rows, kRows) : kRows; }
  int64_t width() const {
    return columns ? std::min(columns, kColumns) : kColumns;
  }
  int64_t down() const { return (kRows + height() - 1) / height(); }
  int64_t across() const { return (kColumns + width() - 1) / width(); }
  std::string str() const {
    return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  }
};

uint32_t wordOf(float x) { return std::bit_cast<uint32_t>(x); }

struct Case {
  Format format;
  Granularity blocks;
  std::string rule;

  uint8_t encode(float x) const {
    return format == Format::E4M3
               ? sheaf::encode<Format::E4M3>(x, /*saturates=*/true)
               : sheaf::encode<Format::E5M2>(x, /*saturates=*/true);
  }
  float decode(uint8_t code) const {
    return format == Format::E4M3 ? sheaf::decode<Format::E4M3>(code)
                                  : sheaf::decode<Format::E5M2>(code);
  }
  /// Scale and factor of a block.
  std::pair<float, float> scaleOf(float amax) const {
    float largest = decode(static_cast<uint8_t>(infoOf(format).largest));
    if (!(amax > 0 && amax < INFINITY))
      return {1, 1};
    if (rule == "e8m0") {
      float factor = sheaf::decode<Format::E8M0>(
          sheaf::encode<Format::E8M0>(amax / largest, /*saturates=*/true));
      return {1 / factor, factor}; // both powers of two
    }
    float scale = std::min(largest / amax, std::numeric_limits<float>::max());
    if (rule == "power_of_two")
      scale = std::bit_cast<float>(wordOf(scale) & 0x7f800000);
    return {scale, 1 / scale};
  }

  std::string text() const {
    std::string shape = std::to_string(kRows) + "x" + std::to_string(kColumns);
    std::string x = "tensor<" + shape + "xf32>";
    std::string q = "tensor<" + shape + "x" + formatName() + ">";
    std::string f = "tensor<" + std::to_string(blocks.down()) + "x" +
                    std::to_string(blocks.across()) +
                    (rule == "e8m0" ? "xf8E8M0FNU>" : "xf32>");
    return "func.func @f(%x: " + x + ") -> (" + q + ", " + f + ", " + x +
           ") attributes {exec.kernel} {\n  %q, %f = nn.quantize %x to " +
           formatName() + " blocks " + blocks.str() + " scale " + rule +
           " : (" + x + ") -> (" + q + ", " + f +
           ")\n  %y = nn.dequantize %q, %f blocks " + blocks.str() + " : (" +
           q + ", " + f + ") -> " + x + "\n  return %q, %f, %y : " + q + ", " +
           f + ", " + x + "\n}";
  }
  std::string formatName() const {
    return format == Format::E4M3 ? "f8E4M3FN" : "f8E5M2";
  }
};

/// What is tried, by name.
std::vector<std::pair<std::string, std::vector<float>>> inputs() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::pair<std::string, std::vector<float>>> all;
  std::vector<float> plain(kRows * kColumns);
  for (float &x : plain)
    x = std::ldexp(normal(random), static_cast<int>(random() % 18) - 9);
  all.emplace_back("random", plain);
  constexpr float largest = std::numeric_limits<float>::max();
  const float sizes[] = {0.0F, 1e-45F, 3e-39F, 1e-38F, largest};
  for (float size : sizes) {
    std::vector<float> x(plain.size());
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = i % 16 == 0 ? (i % 32 ? -size : size) : size * uniform(random);
    all.emplace_back("as large as " + std::to_string(size), x);
  }
  for (float value : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> x = plain;
    x[3 * kColumns + 5] = x.back() = value;
    all.emplace_back("with " + std::to_string(value), x);
  }
  // Blocks of all kinds in one tensor.
  std::vector<float> mixed = plain;
  const float values[] = {0.0F,   -0.0F,   1e-45F,   1e-40F,
                          1e-38F, largest, INFINITY, NAN};
  for (size_t i = 0; i < std::size(values); ++i) {
    std::fill_n(mixed.begin() + (10 + i) * kColumns, kColumns, values[i]);
    mixed[(30 + i) * kColumns + 100] = values[i];
  }
  all.emplace_back("mixed", mixed);
  return all;
}

void check(const Case &test) {
  auto context = Jit::makeContext();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(test.text(), context.get());
  ASSERT_TRUE(module) << test.text();
  std::string error;
  auto jit = Jit::compile(*module, error, Jit::Route::Linalg);
  ASSERT_TRUE(jit) << error;
  const Granularity &blocks = test.blocks;
  bool powers = test.rule == "e8m0";
  for (auto &[name, x] : inputs()) {
    std::vector<uint8_t> payload(x.size());
    std::vector<uint32_t> factors(blocks.down() * blocks.across());
    std::vector<float> input = x, back(x.size());
    void *pointers[] = {input.data(), payload.data(), factors.data(),
                        back.data()};
    jit->getKernels()[0].entry(pointers, 0, 1);
    const auto *codes = reinterpret_cast<const uint8_t *>(factors.data());
    int wrong = 0;
    auto fail = [&](const char *what, int64_t at, double found,
                    double expected) {
      if (wrong++ == 0)
        ADD_FAILURE() << name << ": " << what << " " << at << " is " << found
                      << ", expected " << expected << "\n"
                      << test.text();
    };
    for (int64_t b = 0; b < blocks.down() * blocks.across(); ++b) {
      int64_t top = b / blocks.across() * blocks.height();
      int64_t left = b % blocks.across() * blocks.width();
      int64_t bottom = std::min(top + blocks.height(), kRows);
      int64_t right = std::min(left + blocks.width(), kColumns);
      float amax = 0;
      for (int64_t i = top; i < bottom; ++i)
        for (int64_t j = left; j < right; ++j) {
          float size = std::fabs(x[i * kColumns + j]);
          amax =
              std::isnan(amax) || std::isnan(size) ? NAN : std::max(amax, size);
        }
      auto [scale, factor] = test.scaleOf(amax);
      float found = powers ? sheaf::decode<Format::E8M0>(codes[b])
                           : std::bit_cast<float>(factors[b]);
      if (wordOf(found) != wordOf(factor))
        fail("factor", b, found, factor);
      for (int64_t i = top; i < bottom; ++i)
        for (int64_t j = left; j < right; ++j) {
          int64_t at = i * kColumns + j;
          float number = test.decode(payload[at]);
          float expected = test.decode(test.encode(x[at] * scale));
          if (std::isnan(expected) ? !std::isnan(number)
                                   : wordOf(number) != wordOf(expected))
            fail("number", at, number, expected);
          if (std::isfinite(amax) && !std::isfinite(number))
            fail("number of a finite block", at, number, expected);
          float product = expected * factor;
          if (std::isnan(product) ? !std::isnan(back[at])
                                  : wordOf(back[at]) != wordOf(product))
            fail("product", at, back[at], product);
        }
    }
  }
}

TEST(quantize, by_the_rules) {
  bool full = std::getenv("SHEAF_FULL");
  std::vector<Granularity> granularities = {
      {0, 0}, {1, 0}, {1, 128}, {128, 128}, {1, 32}};
  if (full)
    granularities.insert(granularities.end(),
                         {{0, 1}, {1, 1}, {3, 0}, {200, 7}});
  for (const Granularity &blocks : granularities)
    for (const char *rule : {"exact", "power_of_two", "e8m0"})
      for (Format format : {Format::E4M3, Format::E5M2})
        // Formats differ in a number alone.
        if (full || format == Format::E4M3 || blocks.columns == 128)
          check({format, blocks, rule});
}

} // namespace
