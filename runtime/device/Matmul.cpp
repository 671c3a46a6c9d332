#include "sheaf/Matmul.h"
#include "sheaf/Error.h"
#include "sheaf/Memory.h"
#include "sheaf/Types.h"
#include <algorithm>
#include <cblas.h>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

using namespace sheaf;

namespace {
constexpr int64_t blasLimit = std::numeric_limits<int32_t>::max();

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Tiles run on the pool's threads; BLAS must add none of its own.
void useOneBlasThread() {
  [[maybe_unused]] static const bool once = (openblas_set_num_threads(1), true);
}
} // namespace

void sheaf::multiply(const SheafMatmul &p, int64_t m, int64_t n, const float *a,
                     const float *b, float *c) {
  useOneBlasThread();
  cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans,
              p.transpose_b ? CblasTrans : CblasNoTrans, m, n, p.k,
              static_cast<float>(p.alpha), a, p.lda, b, p.ldb,
              static_cast<float>(p.beta), c, p.ldc);
}

void sheaf::multiply(const SheafMatmul &p, int64_t m, int64_t n,
                     const double *a, const double *b, double *c) {
  useOneBlasThread();
  cblas_dgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans,
              p.transpose_b ? CblasTrans : CblasNoTrans, m, n, p.k, p.alpha, a,
              p.lda, b, p.ldb, p.beta, c, p.ldc);
}

namespace {
/// With nothing to sum, C = beta * C; BLAS libraries differ there.
template <typename T>
void scale(const SheafMatmul &p, int64_t m, int64_t n, T *c) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      c[i * p.ldc + j] =
          p.beta == 0 ? T(0) : static_cast<T>(p.beta) * c[i * p.ldc + j];
}

template <typename T>
void runTyped(ThreadPool &pool, const SheafMatmul &p, const T *a, const T *b,
              T *c) {
  MatmulTiles tiles = chooseTiles(p);
  int64_t batches = p.batch[0] * p.batch[1] * p.batch[2];
  int64_t rowTiles = divideUp(p.m, tiles.rows);
  int64_t columnTiles = divideUp(p.n, tiles.columns);
  int64_t perProduct = rowTiles * columnTiles;

  auto runTile = [&](int64_t batch, int64_t tile) {
    int64_t index[3] = {batch / (p.batch[1] * p.batch[2]),
                        batch / p.batch[2] % p.batch[1], batch % p.batch[2]};
    int64_t row = tile / columnTiles * tiles.rows;
    int64_t column = tile % columnTiles * tiles.columns;
    int64_t atA = p.transpose_a ? row : row * p.lda;
    int64_t atB = p.transpose_b ? column * p.ldb : column;
    int64_t atC = row * p.ldc + column;
    for (int d = 0; d < 3; ++d) {
      atA += index[d] * p.stride_a[d];
      atB += index[d] * p.stride_b[d];
      atC += index[d] * p.stride_c[d];
    }
    int64_t m = std::min(tiles.rows, p.m - row);
    int64_t n = std::min(tiles.columns, p.n - column);
    if (p.k == 0)
      scale(p, m, n, c + atC);
    else
      multiply(p, m, n, a + atA, b + atB, c + atC);
  };

  if (perProduct > 1) {
    pool.run(batches * perProduct,
             [&](int64_t i) { runTile(i / perProduct, i % perProduct); });
    return;
  }
  pool.run(divideUp(batches, tiles.batches), [&](int64_t i) {
    int64_t end = std::min(batches, (i + 1) * tiles.batches);
    for (int64_t batch = i * tiles.batches; batch < end; ++batch)
      runTile(batch, 0);
  });
}

/// The tile size that cuts `size` into about `parts`, a multiple of 16.
int64_t cut(int64_t size, int64_t parts) {
  return std::min(size, divideUp(divideUp(size, parts), 16) * 16);
}

/// How much longer `tasks` equal tasks take than their even share on each of
/// 2, 4 and 8 threads, averaged with weights. All three count whatever the pool
/// has: the cut must not depend on it.
double imbalance(int64_t tasks) {
  constexpr std::pair<int64_t, double> weights[] = {
      {2, 0.9}, {4, 0.08}, {8, 0.02}};
  double sum = 0;
  for (auto [threads, weight] : weights)
    sum += weight * divideUp(tasks, threads) * threads / tasks;
  return sum;
}
} // namespace

MatmulTiles sheaf::chooseTiles(const SheafMatmul &p) {
  // Below this many operations a task costs more than it brings.
  constexpr double smallest = 1 << 20;
  // Larger tiles bring nothing, and BLAS would touch more memory for them.
  constexpr int64_t largest = 1024;
  // Time of a tile over its time at the peak: 1 + rowCost / rows + columnCost /
  // columns, what packing costs. Fitted to OpenBLAS 0.3.21 on an EPYC with
  // AVX-512, k = 768: within a tenth from 8 to 1024 rows.
  double rowCost = p.transpose_b ? 29 : 14;
  double columnCost = p.transpose_a ? 16 : 6;

  // Up to so many multiplications OpenBLAS has kernels that pack nothing: for
  // few rows ten times as fast (1 x 4096 x 1024: 61 against 6 GFLOP/s).
  constexpr int64_t packedFrom = 1'000'000, fewRows = 32;
  double unpackedCost = p.transpose_a ? 1.6 : p.transpose_b ? 1.25 : 1.1;

  int64_t k = std::max<int64_t>(p.k, 1);
  int64_t batches = std::max<int64_t>(p.batch[0] * p.batch[1] * p.batch[2], 1);
  double work = 2.0 * p.m * p.n * k;
  MatmulTiles best{p.m, p.n, 1};
  if (work < 2 * smallest) {
    best.batches =
        static_cast<int64_t>(std::max(1.0, smallest / std::max(work, 1.0)));
    return best;
  }
  constexpr int64_t parts[] = {1,  2,  3,  4,  6,   8,   12,  16,  24,
                               32, 48, 64, 96, 128, 192, 256, 384, 512};
  double bestCost = std::numeric_limits<double>::infinity();
  int64_t lastRows = 0;
  for (int64_t rowParts : parts) {
    int64_t rows = cut(p.m, rowParts);
    if (rows == lastRows)
      break;
    lastRows = rows;
    int64_t lastColumns = 0;
    for (int64_t columnParts : parts) {
      int64_t columns = cut(p.n, columnParts);
      if (columns == lastColumns)
        break;
      lastColumns = columns;
      if (2.0 * rows * columns * k < smallest)
        break;
      int64_t tasks = divideUp(p.m, rows) * divideUp(p.n, columns) * batches;
      double overhead = 1 + rowCost / rows + columnCost / columns;
      if (p.m <= fewRows && rows * columns * k <= packedFrom)
        overhead = std::min(overhead, unpackedCost);
      double cost = overhead * imbalance(tasks);
      // Beyond the largest size only the cut with the smallest tiles remains.
      if (rows > largest || columns > largest)
        cost +=
            1e3 * (static_cast<double>(rows) + static_cast<double>(columns));
      if (cost < bestCost) {
        bestCost = cost;
        best = {rows, columns, 1};
      }
    }
  }
  return best;
}

std::string sheaf::checkMatmul(const SheafMatmul &p) {
  if (p.type_a != p.type_b || p.type_a != p.type_c ||
      (p.type_a != SHEAF_F32 && p.type_a != SHEAF_F64))
    return fmt::format(
        "a product of types {} x {} -> {} is not known to the CPU device; "
        "expected f32 or f64, all three equal",
        p.type_a, p.type_b, p.type_c);
  if (p.m < 0 || p.n < 0 || p.k < 0)
    return fmt::format("a product has negative size {}x{}x{}", p.m, p.n, p.k);
  if (p.k > blasLimit || p.lda > blasLimit || p.ldb > blasLimit ||
      p.ldc > blasLimit)
    return fmt::format("a product of size {}x{}x{} is too large for BLAS: "
                       "expected k and row strides below 2^31",
                       p.m, p.n, p.k);
  if (p.lda < (p.transpose_a ? p.m : p.k) ||
      p.ldb < (p.transpose_b ? p.k : p.n) || p.ldc < p.n)
    return fmt::format("a product of size {}x{}x{} has a row stride ({}, {}, "
                       "{}) shorter than a row",
                       p.m, p.n, p.k, p.lda, p.ldb, p.ldc);
  for (int64_t batch : p.batch)
    if (batch < 0)
      return fmt::format("a product has negative batch size {}", batch);
  return "";
}

void sheaf::runMatmul(ThreadPool &pool, const SheafMatmul &p, const void *a,
                      const void *b, void *c) {
  if (p.m == 0 || p.n == 0)
    return;
  if (p.type_a == SHEAF_F32)
    runTyped(pool, p, static_cast<const float *>(a),
             static_cast<const float *>(b), static_cast<float *>(c));
  else
    runTyped(pool, p, static_cast<const double *>(a),
             static_cast<const double *>(b), static_cast<double *>(c));
}

namespace {
/// Small numbers with varying signs, exact in both types.
double sampleValue(int64_t i) { return ((i * 7919) % 127 - 63) / 64.0; }

SheafMatmul plainProduct(int64_t m, int64_t n, int64_t k, SheafType type,
                         bool transposeA, bool transposeB) {
  SheafMatmul p{};
  p.m = m, p.n = n, p.k = k;
  p.lda = transposeA ? m : k;
  p.ldb = transposeB ? k : n;
  p.ldc = n;
  p.batch[0] = p.batch[1] = p.batch[2] = 1;
  p.transpose_a = transposeA, p.transpose_b = transposeB;
  p.type_a = p.type_b = p.type_c = type;
  p.alpha = 1, p.beta = 0;
  return p;
}

template <typename T>
void checkType(ThreadPool &pool, SheafType type, double tolerance) {
  constexpr int64_t m = 67, n = 53, k = 129;
  std::vector<T> a(m * k), b(k * n), c(m * n);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<T>(sampleValue(i));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<T>(sampleValue(i + 31));
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      std::fill(c.begin(), c.end(), T(1));
      SheafMatmul p = plainProduct(m, n, k, type, transposeA, transposeB);
      p.alpha = 0.5, p.beta = 2;
      runMatmul(pool, p, a.data(), b.data(), c.data());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += double(a[transposeA ? l * m + i : i * k + l]) *
                   double(b[transposeB ? j * k + l : l * n + j]);
          double expected = 0.5 * sum + 2;
          if (!(std::abs(c[i * n + j] - expected) <= tolerance))
            fail("the BLAS library computes a wrong {} product: found {} at "
                 "row {}, column {}, expected {}; use another build of "
                 "OpenBLAS, or set OPENBLAS_CORETYPE to a plainer core",
                 typeName(type), c[i * n + j], i, j, expected);
        }
    }
}

template <typename T>
double measureType(ThreadPool &pool, SheafType type) {
  constexpr int64_t size = 1536;
  // As the operands of a step are kept.
  Memory memory[3];
  T *matrices[3];
  for (int i = 0; i < 3; ++i) {
    memory[i] = Memory(size * size * sizeof(T));
    matrices[i] = static_cast<T *>(memory[i].data());
  }
  auto [a, b, c] = matrices;
  for (int64_t i = 0; i < size * size; ++i) {
    a[i] = static_cast<T>(sampleValue(i));
    b[i] = static_cast<T>(sampleValue(i + 17));
  }
  SheafMatmul p = plainProduct(size, size, size, type, false, false);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 4; ++i) {
    auto start = std::chrono::steady_clock::now();
    runMatmul(pool, p, a, b, c);
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return 2.0 * size * size * size / best;
}
} // namespace

void sheaf::checkBlas(ThreadPool &pool) {
  checkType<float>(pool, SHEAF_F32, 1e-4);
  checkType<double>(pool, SHEAF_F64, 1e-12);
}

double sheaf::measurePeak(ThreadPool &pool, SheafType type) {
  return type == SHEAF_F64 ? measureType<double>(pool, SHEAF_F64)
                           : measureType<float>(pool, SHEAF_F32);
}
