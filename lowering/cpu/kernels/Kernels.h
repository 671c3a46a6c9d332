//===- Kernels.h - Kernels for the CPU -------------------------*- C++ -*-===//
//
// Turns an outlined function of nn ops into a CPU kernel, in two steps: loops
// on memrefs that do a range of an index space (what `--emit=exec` shows), then
// the LLVM dialect with the signature of `SheafKernel` in
// runtime/include/sheaf/abi.h.
//
// A group of ops is one kernel where its results can be computed item by item:
// any elementwise and data-moving ops, and reductions. All results must have
// the elements of the largest one, or those of its leading dimensions. The
// items are, in this order of preference, rows (the dimensions on which all
// reductions depend), blocks of columns (where reductions run over leading
// dimensions), or blocks of elements. `nn.top_k` and `nn.gather_grad` end a
// kernel of their own and may have producers in it.
//
// What rounds a tensor to 8 bits in several ways, along rows and down columns,
// is one kernel, too: its items are bands of the tensor, and each way does its
// part of a band before the next band.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_KERNELS_KERNELS_H
#define SHEAF_LOWERING_CPU_KERNELS_KERNELS_H

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace sheaf {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lowering/cpu/kernels/Passes.h.inc"

} // namespace sheaf

namespace sheaf::cpu {

// Attributes of a kernel, which Exec.h describes.
using exec::kBytesAttr;
using exec::kExtentAttr;
using exec::kFlopsAttr;
using exec::kGrainAttr;
using exec::kInPlaceAttr;
using exec::kInputsAttr;
using exec::kKernelAttr;

/// About half of a last cache.
inline constexpr int64_t kStreamedBytes = 16 << 20;

/// Rewrites `@k(tensors) -> tensors` to
/// `@k(memrefs of inputs, memrefs of results, begin: index, end: index)` with
/// the attributes above; an i1 tensor becomes a memref of i8. Composite ops are
/// decomposed. Dense constants become `memref.global`s of the enclosing module.
/// Says why with an error on failure; the function is then unchanged.
/// `vectorBytes` is the width of the target's vector registers, 64, 32 or 16. A
/// result of `streamedBytes` is stored past the caches where it comes of
/// reductions along rows or is the only one: it would push out of them what is
/// needed sooner, and be read into them first.
mlir::FailureOr<mlir::func::FuncOp>
lowerKernel(mlir::func::FuncOp kernel, int64_t vectorBytes = 64,
            int64_t streamedBytes = kStreamedBytes);

/// The same for a kernel whose only op is `nn.attention` or
/// `nn.attention_grad`, with the op's operands as arguments in their order; of
/// the gradient's results it returns either the first three or the fourth.
mlir::FailureOr<mlir::func::FuncOp> lowerAttention(mlir::func::FuncOp kernel,
                                                   int64_t vectorBytes);

/// What a kernel of several ops would be.
struct GroupPlan {
  /// Size of the index space, and items a task.
  int64_t extent = 1, grain = 1;
  /// Pairs (value from outside, result) that may share a buffer.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> inPlace;
};

/// The kernel that computes `results` by `ops`, which stand in order and use
/// only each other and values from outside; none, with `why` filled, where they
/// do not fit into one kernel.
std::optional<GroupPlan> planKernel(llvm::ArrayRef<mlir::Operation *> ops,
                                    mlir::ValueRange results,
                                    std::string *why = nullptr);

/// Whether an element type is one of those in 8 bits or fewer that kernels
/// round tensors to in several ways at once (see above).
bool isRoundedTo(mlir::Type element);

/// Whether `ops`, which use only each other and values from outside, can be one
/// kernel whose results are the values used outside of `ops` (or by nobody).
/// Fills `why` where not.
bool isOneKernel(llvm::ArrayRef<mlir::Operation *> ops,
                 std::string *why = nullptr);

/// Rewrites reductions in `function` whose results are few and inputs large, so
/// that no kernel does much work in one item, or reads memory in large steps:
/// first over fixed blocks, then over the blocks' results. To be called before
/// ops are grouped.
void splitReductions(mlir::func::FuncOp function);

/// Lowers every kernel of `module` (in the form that `lowerKernel` gives) to
/// the LLVM dialect as `void @k(void *const *buffers, int64_t begin, int64_t
/// end)`. Other functions of the module must be in a form that converts to
/// LLVM. `vectorBytes` as above; with 64, the target must have AVX-512.
mlir::LogicalResult lowerKernelsToLLVM(mlir::ModuleOp module,
                                       int64_t vectorBytes = 32);

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_KERNELS_KERNELS_H
