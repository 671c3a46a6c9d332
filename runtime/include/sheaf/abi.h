//===- abi.h - the C interface between an artifact and the runtime -*- C -*-===//
//
// An artifact is an ELF shared object. Its host code and kernels call nothing
// but the functions of the SheafDevice that the context carries, so the same
// image runs on any device, in several ranks of one process at a time. It has
// no writable global: whatever changes is reached through the context.
//
// Exported symbols of an artifact:
//   const uint32_t sheaf_abi_version      equal to SHEAF_ABI_VERSION
//   const char     sheaf_manifest[]       JSON text, NUL-terminated
//   const uint64_t sheaf_manifest_size    without the NUL
//   const uint8_t  sheaf_model[]          the model as MLIR bytecode (may be
//   const uint64_t sheaf_model_size       absent; size then 0)
//   int32_t NAME(SheafContext *)          one for each entry in the manifest
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_ABI_H
#define SHEAF_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHEAF_ABI_VERSION 1u

/* Sheaf's own version, which every tool prints with --version. */
#define SHEAF_VERSION "0.1.0"

/// Every buffer that the runtime provides starts at a multiple of this.
#define SHEAF_ALIGNMENT 64

typedef struct SheafContext SheafContext;

/// Element types. An i1 element is one byte, 0 or 1.
typedef enum SheafType {
  SHEAF_F64 = 0,
  SHEAF_F32 = 1,
  SHEAF_BF16 = 2,
  SHEAF_F16 = 3,
  SHEAF_F8E4M3 = 4,
  SHEAF_F8E5M2 = 5,
  SHEAF_I64 = 6,
  SHEAF_I32 = 7,
  SHEAF_I8 = 8,
  SHEAF_I1 = 9
} SheafType;

/// One part of a kernel: the items [begin, end) of its index space. `buffers`
/// are the kernel's operands in order. Parts of one launch may run at the same
/// time, in any order; the values written do not depend on how the space is cut.
typedef void (*SheafKernel)(void *const *buffers, int64_t begin, int64_t end);

/// A kernel launch: constant data of the artifact.
typedef struct SheafLaunch {
  SheafKernel kernel;
  int64_t extent;       ///< size of the index space
  int64_t grain;        ///< items a task; chosen from the shapes alone, >= 1
  int32_t id;           ///< index into the manifest's "kernels"
  int32_t buffer_count; ///< operands, reads first, then writes
} SheafLaunch;

#define SHEAF_MATMUL_BATCH_RANK 3

/// C[b] = alpha * op(A[b]) * op(B[b]) + beta * C[b] on row-major matrices, for
/// every index b of a batch space of up to three dimensions. Strides and
/// leading dimensions are in elements. op(A) is m x k, op(B) is k x n.
typedef struct SheafMatmul {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  int64_t batch[SHEAF_MATMUL_BATCH_RANK]; ///< outermost first, 1 where unused
  int64_t stride_a[SHEAF_MATMUL_BATCH_RANK];
  int64_t stride_b[SHEAF_MATMUL_BATCH_RANK];
  int64_t stride_c[SHEAF_MATMUL_BATCH_RANK];
  int32_t transpose_a, transpose_b; ///< A is stored k x m, B is stored n x k
  int32_t type_a, type_b, type_c;   ///< SheafType
  int32_t id;                       ///< index into the manifest's "kernels"
  double alpha, beta;
} SheafMatmul;

/// What generated host code may ask of a device. Calls are ordered as issued:
/// each sees what earlier ones wrote.
typedef struct SheafDevice {
  void (*launch)(SheafContext *context, const SheafLaunch *launch,
                 void *const *buffers);
  void (*matmul)(SheafContext *context, const SheafMatmul *matmul,
                 const void *a, const void *b, void *c);
  /// Buffers do not overlap.
  void (*copy)(SheafContext *context, void *to, const void *from,
               int64_t bytes);
  void (*zero)(SheafContext *context, void *buffer, int64_t bytes);
} SheafDevice;

/// What an entry is called with. The entry returns 0, or a code that the
/// runtime reports.
struct SheafContext {
  const SheafDevice *device;
  void *const *buffers; ///< persistent buffers, in the order of the entry's
                        ///< "arguments" in the manifest
  void *arena;          ///< at least the entry's "arena_bytes"
  void *runtime;        ///< private to the runtime
};

typedef int32_t (*SheafEntry)(SheafContext *context);

#ifdef __cplusplus
}
#endif

#endif // SHEAF_ABI_H
