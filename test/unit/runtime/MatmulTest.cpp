#include "sheaf/Matmul.h"
#include <cmath>
#include <gtest/gtest.h>
#include <string_view>

using namespace sheaf;

namespace {
/// Deterministic values in [-1, 1).
double valueAt(int64_t i) {
  uint32_t x = static_cast<uint32_t>(i) * 2654435761u;
  x ^= x >> 15;
  x *= 2246822519u;
  return (x >> 8) * 0x1p-23 - 1;
}

struct Case {
  int64_t m, n, k;
  bool transposeA, transposeB;
  std::array<int64_t, 3> batch = {1, 1, 1};
  double alpha = 1, beta = 0;
  bool shareB = false; // one B for all batches: stride 0
  int64_t pad = 0;     // elements behind each row
};

std::ostream &operator<<(std::ostream &out, const Case &c) {
  return out << c.m << "x" << c.n << "x" << c.k << " " << c.transposeA
             << c.transposeB << " batch " << c.batch[0] << "," << c.batch[1]
             << "," << c.batch[2] << " alpha " << c.alpha << " beta " << c.beta;
}

template <typename T>
struct Product {
  SheafMatmul p{};
  std::vector<T> a, b, c;

  Product(const Case &from, SheafType type) {
    p.m = from.m, p.n = from.n, p.k = from.k;
    p.lda = (from.transposeA ? from.m : from.k) + from.pad;
    p.ldb = (from.transposeB ? from.k : from.n) + from.pad;
    p.ldc = from.n + from.pad;
    int64_t sizeA = (from.transposeA ? from.k : from.m) * p.lda;
    int64_t sizeB = (from.transposeB ? from.n : from.k) * p.ldb;
    int64_t sizeC = from.m * p.ldc, count = 1;
    for (int d = 2; d >= 0; --d) {
      p.batch[d] = from.batch[d];
      p.stride_a[d] = sizeA * count;
      p.stride_b[d] = from.shareB ? 0 : sizeB * count;
      p.stride_c[d] = sizeC * count;
      count *= from.batch[d];
    }
    p.transpose_a = from.transposeA, p.transpose_b = from.transposeB;
    p.type_a = p.type_b = p.type_c = type;
    p.alpha = from.alpha, p.beta = from.beta;
    a.resize(sizeA * count);
    b.resize(sizeB * count);
    c.resize(sizeC * count);
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<T>(valueAt(i));
    for (size_t i = 0; i < b.size(); ++i)
      b[i] = static_cast<T>(valueAt(i + 1000003));
    for (size_t i = 0; i < c.size(); ++i)
      c[i] = static_cast<T>(valueAt(i + 77777));
    // With beta 0 what C held must not matter.
    if (p.beta == 0)
      for (T &value : c)
        value = static_cast<T>(NAN);
  }

  /// The product in plain loops, in double precision.
  std::vector<double> expected() const {
    std::vector<double> out(c.begin(), c.end());
    for (int64_t x = 0; x < p.batch[0]; ++x)
      for (int64_t y = 0; y < p.batch[1]; ++y)
        for (int64_t z = 0; z < p.batch[2]; ++z)
          for (int64_t i = 0; i < p.m; ++i)
            for (int64_t j = 0; j < p.n; ++j) {
              auto at = [&](const int64_t *stride) {
                return x * stride[0] + y * stride[1] + z * stride[2];
              };
              double sum = 0;
              for (int64_t l = 0; l < p.k; ++l)
                sum +=
                    double(a[at(p.stride_a) +
                             (p.transpose_a ? l * p.lda + i : i * p.lda + l)]) *
                    double(b[at(p.stride_b) +
                             (p.transpose_b ? j * p.ldb + l : l * p.ldb + j)]);
              double &to = out[at(p.stride_c) + i * p.ldc + j];
              to = p.alpha * sum + (p.beta == 0 ? 0 : p.beta * to);
            }
    return out;
  }
};

const Case cases[] = {
    {1, 1, 1, false, false},
    {1, 1, 1, true, true},
    {3, 5, 7, false, false},
    {3, 5, 7, true, false},
    {3, 5, 7, false, true},
    {3, 5, 7, true, true},
    {1, 300, 257, false, true},
    {301, 1, 129, true, false},
    {257, 263, 131, false, false, {1, 1, 1}, 0.5, 1},
    {257, 263, 131, true, false, {1, 1, 1}, 1, -2},
    {400, 130, 199, false, true},
    {130, 400, 199, true, true},
    {600, 513, 33, false, false},
    {1000, 40, 70, false, true},
    {17, 19, 23, false, false, {2, 3, 5}},
    {17, 19, 23, true, true, {5, 1, 3}, 2, 1},
    {64, 64, 64, false, true, {4, 8, 1}},
    {200, 180, 90, false, false, {1, 2, 3}},
    {32, 48, 16, false, false, {3, 2, 2}, 1, 0, true},
    {32, 48, 16, false, true, {7, 1, 1}, 1, 1, true, 5},
    {129, 65, 77, true, false, {1, 1, 2}, -1, 0.25, false, 3},
    {20, 30, 0, false, false, {1, 1, 1}, 1, 0.5},
    {20, 30, 0, false, false},
    {0, 30, 4, false, false},
    {20, 0, 4, false, false},
    {20, 20, 4, false, false, {0, 3, 1}},
};

template <typename T>
void checkCase(const Case &from, SheafType type, double tolerance) {
  Product<T> first(from, type);
  ASSERT_EQ(checkMatmul(first.p), "") << from;
  std::vector<double> expected = first.expected();
  {
    ThreadPool pool(1);
    runMatmul(pool, first.p, first.a.data(), first.b.data(), first.c.data());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) // between rows: untouched
      ASSERT_TRUE(std::isnan(first.c[i])) << from << " at " << i;
    else
      ASSERT_NEAR(first.c[i], expected[i],
                  tolerance * (std::sqrt(double(from.k)) + 1))
          << from << " at " << i;
  }
  for (int threads : {2, 3}) {
    ThreadPool pool(threads);
    Product<T> other(from, type);
    runMatmul(pool, other.p, other.a.data(), other.b.data(), other.c.data());
    // By bytes: between rows there is NaN, and an empty result has no data.
    std::string_view bytes(reinterpret_cast<char *>(first.c.data()),
                           first.c.size() * sizeof(T));
    std::string_view otherBytes(reinterpret_cast<char *>(other.c.data()),
                                other.c.size() * sizeof(T));
    ASSERT_TRUE(bytes == otherBytes)
        << from << " differs with " << threads << " threads";
  }
}
} // namespace

TEST(Matmul, EqualsPlainLoopsInSinglePrecision) {
  for (const Case &c : cases)
    checkCase<float>(c, SHEAF_F32, 1e-5);
}

TEST(Matmul, EqualsPlainLoopsInDoublePrecision) {
  for (const Case &c : cases)
    checkCase<double>(c, SHEAF_F64, 1e-13);
}

// Large enough for several tiles in both directions.
TEST(Matmul, LargeProductsAreEqualWithAnyThreads) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      Case c{1024, 1600, 384, transposeA, transposeB};
      Product<float> first(c, SHEAF_F32);
      MatmulTiles tiles = chooseTiles(first.p);
      EXPECT_LT(tiles.rows * tiles.columns, c.m * c.n);
      for (int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        Product<float> other(c, SHEAF_F32);
        runMatmul(pool, other.p, other.a.data(), other.b.data(),
                  other.c.data());
        if (threads == 1)
          first.c = other.c;
        else
          EXPECT_EQ(first.c, other.c) << threads;
      }
    }
}

TEST(Matmul, TilesCoverTheProduct) {
  for (int64_t m : {1, 8, 100, 4096, 50257})
    for (int64_t n : {1, 8, 100, 4096, 50257})
      for (int64_t k : {1, 64, 4096}) {
        Case c{1, 1, 1, false, true};
        Product<float> product(c, SHEAF_F32);
        product.p.m = m, product.p.n = n, product.p.k = k;
        MatmulTiles tiles = chooseTiles(product.p);
        EXPECT_GE(tiles.rows, 1);
        EXPECT_GE(tiles.columns, 1);
        EXPECT_GE(tiles.batches, 1);
        EXPECT_LE(tiles.rows, m);
        EXPECT_LE(tiles.columns, n);
      }
}

TEST(Matmul, RefusesWhatItCannotDo) {
  Case c{4, 4, 4, false, false};
  Product<float> product(c, SHEAF_F32);
  SheafMatmul p = product.p;
  p.type_b = SHEAF_BF16;
  EXPECT_NE(checkMatmul(p).find("expected f32 or f64"), std::string::npos);
  p = product.p;
  p.lda = 3;
  EXPECT_NE(checkMatmul(p).find("shorter than a row"), std::string::npos);
  p = product.p;
  p.k = p.lda = int64_t{1} << 31;
  EXPECT_NE(checkMatmul(p).find("too large for BLAS"), std::string::npos);
  p = product.p;
  p.batch[1] = -1;
  EXPECT_NE(checkMatmul(p).find("negative batch"), std::string::npos);
}

TEST(Matmul, BlasIsChecked) {
  ThreadPool pool(2);
  checkBlas(pool);
  EXPECT_GT(measurePeak(pool, SHEAF_F32), 1e8);
}
