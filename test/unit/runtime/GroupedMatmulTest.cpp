#include "sheaf/Matmul.h"
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace sheaf;

namespace {
double valueAt(int64_t i) { return ((i * 7919) % 127 - 63) / 64.0; }

/// Where each group's rows begin, [groups, experts + 1].
using Offsets = std::vector<int32_t>;

SheafGroupedMatmul shape(int64_t groups, int64_t rows, int64_t experts,
                         int64_t k, int64_t n, SheafType type) {
  SheafGroupedMatmul p{};
  p.groups = groups, p.rows = rows, p.experts = experts, p.k = k, p.n = n;
  p.parts = 1, p.type = type;
  return p;
}

/// Operands with values, and what plain loops make of them.
template <typename T>
struct Case {
  SheafGroupedMatmul p;
  Offsets offsets;
  std::vector<T> a, b, c;
  std::vector<double> expected;
  int64_t used = 0;

  Case(const SheafGroupedMatmul &p, Offsets offsets_, T before = T(3))
      : p(p), offsets(std::move(offsets_)) {
    int64_t matrices = p.parts * p.experts * p.k * p.n;
    int64_t left = p.groups * p.rows * p.k, right = p.groups * p.rows * p.n;
    a.resize(left);
    b.resize(p.outer ? right : matrices);
    c.assign(p.outer ? matrices : right, before);
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<T>(valueAt(i));
    for (size_t i = 0; i < b.size(); ++i)
      b[i] = static_cast<T>(valueAt(i + 31));
    expected.assign(c.size(), p.accumulate ? double(before) : 0.0);
    for (int64_t group = 0; group < p.groups; ++group)
      for (int64_t expert = 0; expert < p.experts; ++expert) {
        const int32_t *of = offsets.data() + group * (p.experts + 1) + expert;
        int64_t matrix = group / (p.groups / p.parts) * p.experts + expert;
        for (int64_t row = of[0]; row < of[1]; ++row)
          add(group * p.rows + row, matrix);
      }
    // What no expert has is not read.
    std::vector<bool> read(p.groups * p.rows, false);
    for (int64_t group = 0; group < p.groups; ++group)
      for (int64_t row = offsets[group * (p.experts + 1)];
           row < offsets[(group + 1) * (p.experts + 1) - 1]; ++row)
        read[group * p.rows + row] = true;
    for (int64_t row = 0; row < p.groups * p.rows; ++row)
      if (!read[row]) {
        std::fill_n(a.data() + row * p.k, p.k, T(NAN));
        if (p.outer)
          std::fill_n(b.data() + row * p.n, p.n, T(NAN));
      }
  }

  void add(int64_t row, int64_t matrix) {
    ++used;
    for (int64_t l = 0; l < p.k; ++l)
      for (int64_t j = 0; j < p.n; ++j) {
        double x = a[row * p.k + l];
        int64_t at =
            matrix * p.k * p.n + (p.transposed ? j * p.k + l : l * p.n + j);
        if (p.outer)
          expected[at] += x * b[row * p.n + j];
        else
          expected[row * p.n + j] += x * b[at];
      }
  }

  void run(int threads) {
    ASSERT_EQ(checkGroupedMatmul(p), "");
    ThreadPool pool(threads);
    double flops =
        runGroupedMatmul(pool, p, a.data(), b.data(), offsets.data(), c.data());
    EXPECT_EQ(flops, 2.0 * used * p.k * p.n);
    double tolerance = p.type == SHEAF_F64 ? 1e-12 : 1e-3;
    for (size_t i = 0; i < c.size(); ++i)
      ASSERT_NEAR(c[i], expected[i], tolerance) << "element " << i;
  }
};

template <typename T>
void runAll(SheafType type) {
  // An expert without rows, rows before the first and behind the last.
  Offsets uneven = {0, 5, 5, 9, 9, 1, 1, 1, 2, 6, 0, 0, 0, 0, 0};
  for (bool outer : {false, true})
    for (bool transposed : {false, true})
      for (bool accumulate : {false, true}) {
        SheafGroupedMatmul p = shape(3, 9, 4, 7, 5, type);
        p.outer = outer, p.transposed = transposed, p.accumulate = accumulate;
        if ((outer && transposed) || (!outer && accumulate))
          continue;
        Case<T>(p, uneven).run(2);
      }
  // One expert has everything.
  Case<T>(shape(2, 64, 3, 16, 8, type), {0, 0, 64, 64, 0, 0, 64, 64}).run(2);
}
} // namespace

TEST(GroupedMatmul, EqualsPlainLoops) {
  runAll<float>(SHEAF_F32);
  runAll<double>(SHEAF_F64);
}

TEST(GroupedMatmul, PartsHaveExpertsOfTheirOwn) {
  for (bool outer : {false, true}) {
    SheafGroupedMatmul p = shape(4, 6, 2, 5, 3, SHEAF_F64);
    p.parts = 2, p.outer = outer;
    Case<double>(p, {0, 2, 6, 0, 0, 3, 0, 6, 6, 1, 2, 4}).run(3);
  }
}

TEST(GroupedMatmul, LargeProductsAreEqualWithAnyThreads) {
  for (bool outer : {false, true}) {
    SheafGroupedMatmul p = shape(2, 700, 3, 130, 150, SHEAF_F32);
    p.outer = outer;
    Case<float> one(p, {0, 333, 333, 700, 0, 20, 690, 695}), many = one;
    one.run(1);
    many.run(4);
    EXPECT_EQ(one.c, many.c);
  }
}

TEST(GroupedMatmul, WildOffsetsTouchNothingElse) {
  // Falling, negative and beyond the rows: taken as far as they make sense.
  for (bool outer : {false, true}) {
    SheafGroupedMatmul p = shape(1, 4, 3, 2, 2, SHEAF_F64);
    p.outer = outer;
    std::vector<double> a(8, 1.0), b(outer ? 8 : 12, 1.0),
        c(outer ? 12 : 8, 7.0);
    int32_t offsets[] = {-5, 3, 1, 90};
    ThreadPool pool(2);
    double flops =
        runGroupedMatmul(pool, p, a.data(), b.data(), offsets, c.data());
    EXPECT_EQ(flops, 2.0 * 4 * 2 * 2);
    for (double value : c)
      EXPECT_LE(value, 4.0);
  }
}

TEST(GroupedMatmul, RefusesWhatItCannotDo) {
  SheafGroupedMatmul p = shape(4, 6, 2, 5, 3, SHEAF_F32);
  EXPECT_EQ(checkGroupedMatmul(p), "");
  p.type = SHEAF_BF16;
  EXPECT_NE(checkGroupedMatmul(p).find("expected f32 or f64"),
            std::string::npos);
  p.type = SHEAF_F32, p.parts = 3;
  EXPECT_NE(checkGroupedMatmul(p).find("a divisor of its 4 groups"),
            std::string::npos);
  p.parts = 2, p.outer = p.transposed = 1;
  EXPECT_NE(checkGroupedMatmul(p).find("outer and transposed"),
            std::string::npos);
  p.outer = 0, p.k = 0;
  EXPECT_NE(checkGroupedMatmul(p).find("expected at least"), std::string::npos);
}
