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

/// What is wrong with the description, or an empty string. Types are f32 or
/// f64, all three equal; what BLAS is given must fit 31 bits.
std::string checkMatmul(const SheafMatmul &matmul);

/// Computes the product described in abi.h. The description has been checked.
void runMatmul(ThreadPool &pool, const SheafMatmul &matmul, const void *a,
               const void *b, void *c);

/// Compares one product of each type and transposition with plain loops;
/// throws an Error if the BLAS library computes something else.
void checkBlas(ThreadPool &pool);

/// Floating-point operations a second of a large product (`type` f32 or f64)
/// on the pool: the best of several runs.
double measurePeak(ThreadPool &pool, SheafType type);

} // namespace sheaf

#endif // SHEAF_MATMUL_H
