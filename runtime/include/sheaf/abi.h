//===- abi.h - what an artifact and the runtime share -------------*- C -*-===//
//
// An artifact is an ELF shared object. Its host code and kernels call nothing
// but the functions of the SheafDevice and the SheafCommunicator that the
// context carries, so the same image runs on any device and over any transport,
// in several ranks of one process at a time. It has
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

#define SHEAF_ABI_VERSION 4u

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
  SHEAF_I1 = 9,
  SHEAF_F8E8M0 = 10 ///< powers of two: the factors of blocks
} SheafType;

/// One part of a kernel: the items [begin, end) of its index space. `buffers`
/// are the kernel's operands in order. Parts of one launch may run at the same
/// time, in any order; the values written do not depend on how the space is
/// cut.
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

/// Products of uneven sizes, one for each expert. Operands are A, B, i32
/// offsets [groups, experts + 1], and C. A is [groups, rows, k]; the rows
/// offsets[g][e] to offsets[g][e + 1] of group g belong to expert e, and rows
/// past the last are not read. Without `outer`, B is [experts, k, n] ([experts,
/// n, k] where `transposed`) and row r of C, [groups, rows, n], is row r of A
/// times the matrix of its expert, or zeros past the last. With `outer`, B is
/// [groups, rows, n] and matrix e of C, [experts, k, n], is the sum of A^T B
/// over the rows of expert e, in order, plus what was there where `accumulate`.
/// The groups are `parts` equal runs with experts of their own: there are parts
/// * experts matrices.
typedef struct SheafGroupedMatmul {
  int64_t groups, rows, experts, k, n, parts;
  int32_t transposed, outer, accumulate;
  int32_t type; ///< SheafType of A, B and C
  int32_t id;   ///< index into the manifest's "kernels"
  int32_t reserved;
} SheafGroupedMatmul;

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
  /// `buffers` are A, B, offsets and C.
  void (*grouped_matmul)(SheafContext *context,
                         const SheafGroupedMatmul *matmul,
                         void *const *buffers);
  /// From here on the rank carries out an action of its schedule, an index into
  /// the manifest's "actions"; -1: it has done so. For traces and messages:
  /// changes nothing else.
  void (*mark)(SheafContext *context, int64_t action);
} SheafDevice;

typedef enum SheafCollectiveKind {
  SHEAF_ALL_REDUCE = 0,
  SHEAF_ALL_GATHER = 1,
  SHEAF_REDUCE_SCATTER = 2,
  SHEAF_ALL_TO_ALL = 3,
  SHEAF_PERMUTE = 4,
  SHEAF_BROADCAST = 5,
  SHEAF_SEND = 6,
  SHEAF_RECEIVE = 7
} SheafCollectiveKind;

typedef enum SheafReduction {
  SHEAF_SUM = 0,
  SHEAF_MAX = 1, ///< NaN where an operand is
  SHEAF_MIN = 2  ///< NaN where an operand is
} SheafReduction;

#define SHEAF_GROUP_AXES 8

/// A transfer between the ranks of a group: constant data of the artifact.
/// docs/design/communicator.md says what each kind does with its buffers.
///
/// The group of a rank are the ranks that differ from it only along
/// `axis_count` axes. An axis, or a part of one, is its size and its stride: by
/// how much the rank grows with one step along it. Members are numbered with
/// the first axis outermost.
typedef struct SheafCollective {
  int32_t kind;       ///< SheafCollectiveKind
  int32_t reduction;  ///< SheafReduction; of all-reduce and reduce-scatter
  int32_t type;       ///< SheafType of the elements sent
  int32_t id;         ///< index into the manifest's "collectives", or -1
  int32_t axis_count; ///< 0: a group of one
  int32_t channel;    ///< >= 0; transfers of one group and channel keep their
                      ///< order, those of two channels need not
  int64_t size[SHEAF_GROUP_AXES];
  int64_t stride[SHEAF_GROUP_AXES];
  int64_t elements; ///< of the send buffer (receive: of the receive buffer)
  /// reduce-scatter, all-to-all: the send buffer is [send_slices, parts,
  /// run], part j for member j. 1: the parts lie one after the other.
  int64_t send_slices;
  /// all-gather, all-to-all: the same for the receive buffer.
  int64_t receive_slices;
  int64_t peer;           ///< member: root of a broadcast, other end of a send
  const int64_t *targets; ///< permute: for each member the one that it sends
                          ///< to, or -1
  /// all-to-all by `start_rows`: both buffers are `blocks` blocks of rows of
  /// `width` elements, of which only the first of each block are sent. 0: all.
  int64_t blocks, width;
} SheafCollective;

/// What generated host code may ask of a communicator.
typedef struct SheafCommunicator {
  /// Starts a transfer and returns its handle. Reads `send` and writes
  /// `receive` until the wait; does not block. Where it fails, the runtime
  /// keeps the error and later calls do nothing.
  int64_t (*start)(SheafContext *context, const SheafCollective *collective,
                   const void *send, void *receive);
  /// Returns when the transfer is complete: `receive` is written, `send` may
  /// be. Each handle is waited for once, in any order, before the entry ends.
  void (*wait)(SheafContext *context, int64_t handle);
  /// `start` of an all-to-all with blocks. `buffers` are the send buffer, i32
  /// counts of the rows of its blocks, those of the receive buffer's, as the
  /// members that send them have them, and the receive buffer: in each of its
  /// blocks zeros follow the rows that came. The counts are read before it
  /// returns.
  int64_t (*start_rows)(SheafContext *context,
                        const SheafCollective *collective,
                        void *const *buffers);
} SheafCommunicator;

/// What an entry is called with. The entry returns 0, or a code that the
/// runtime reports.
struct SheafContext {
  const SheafDevice *device;
  void *const *buffers; ///< persistent buffers, in the order of the entry's
                        ///< "arguments" in the manifest
  void *arena;          ///< at least the entry's "arena_bytes"
  void *runtime;        ///< private to the runtime
  const SheafCommunicator *communicator;
  int64_t rank; ///< in the mesh, row-major, the first axis outermost
};

typedef int32_t (*SheafEntry)(SheafContext *context);

#ifdef __cplusplus
}
#endif

#endif // SHEAF_ABI_H
