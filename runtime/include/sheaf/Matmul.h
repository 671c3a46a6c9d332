//===- Matmul.h - matrix products on the CPU --------------------*- C++ -*-===//
//
// Products go to OpenBLAS, one BLAS thread a call, cut into tiles of rows and
// columns by shape alone, so that the bits of a result do not depend on the
// number of threads. The summed dimension is never cut.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MATMUL_H
#define SHEAF_MATMUL_H

#include "sheaf/ThreadPool.h"
#include "sheaf/abi.h"
#include <string>

namespace sheaf {

/// How the product is cut: `rows` x `columns` of C a tile, and `batches`
/// consecutive products a task where one product is a single tile.
struct MatmulTiles {
  int64_t rows, columns, batches;
};
MatmulTiles chooseTiles(const SheafMatmul &matmul);

/// One product on the calling thread, of m rows and n columns in place of those
/// of the description; no batch.
void multiply(const SheafMatmul &matmul, int64_t m, int64_t n, const float *a,
              const float *b, float *c);
void multiply(const SheafMatmul &matmul, int64_t m, int64_t n, const double *a,
              const double *b, double *c);

/// What is wrong with the description, or an empty string. Types are f32 or
/// f64, all three equal; what BLAS is given must fit 31 bits.
std::string checkMatmul(const SheafMatmul &matmul);

/// Computes the product described in abi.h. The description has been checked.
void runMatmul(ThreadPool &pool, const SheafMatmul &matmul, const void *a,
               const void *b, void *c);

/// The same for products of uneven sizes.
std::string checkGroupedMatmul(const SheafGroupedMatmul &matmul);

/// Computes the products described in abi.h, each of its own size: nothing is
/// padded. Returns the floating-point operations that it took. Offsets that
/// fall or leave the rows are taken as far as they make sense, so that no
/// memory but the operands' is touched.
double runGroupedMatmul(ThreadPool &pool, const SheafGroupedMatmul &matmul,
                        const void *a, const void *b, const int32_t *offsets,
                        void *c);

/// Compares one product of each type and transposition with plain loops;
/// throws an Error if the BLAS library computes something else.
void checkBlas(ThreadPool &pool);

/// Floating-point operations a second of a large product (`type` f32 or f64)
/// on the pool: the best of several runs.
double measurePeak(ThreadPool &pool, SheafType type);

} // namespace sheaf

#endif // SHEAF_MATMUL_H
