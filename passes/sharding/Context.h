//===- Context.h - Which way attention gets its keys ------------*- C++ -*-===//

#ifndef SHEAF_PASSES_SHARDING_CONTEXT_H
#define SHEAF_PASSES_SHARDING_CONTEXT_H

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace sheaf::sharding {

/// The devices of a mesh that attention is spread over, and what they and their
/// links can do.
struct ContextMesh {
  /// Sizes of dp, cp and tp.
  int64_t data = 1, context = 1, tensor = 1;
  /// Of cp.
  dist::LinkSpeed link;
  /// Floating-point operations a second that attention reaches on a device.
  double flopsPerSecond = 1;
  /// The backward runs layers again (--recompute=full).
  bool recomputes = false;
};

/// What attention reaches on devices with links of a class: on those whose link
/// is memory, CPU cores, 5e10; on others, H100s, 6e14 (cuDNN and FA4 on H200,
/// causal, head dimension 128: 526 to 675 TF).
double attentionSpeed(llvm::StringRef linkClass);

/// One way to bring queries and keys together over cp.
struct ContextWay {
  /// As --context names it.
  llvm::StringRef name;
  /// Seconds of all attention of a step, forward and backward, with what is
  /// sent for it: on the device that is done last.
  double seconds = 0;
  /// Bytes that a device sends.
  double bytes = 0;
  /// Where the model cannot have it, why.
  std::string whyNot = {};
};

/// The four ways for the attention that `loss` runs, `microbatches` times a
/// step; the first of the cheapest that it can have is `chosen`. Transfers of a
/// ring go on beside the block in hand, others beside nothing.
struct ContextChoice {
  std::vector<ContextWay> ways;
  size_t chosen = 0;
  /// Chooses, where something has become impossible again.
  void choose();
};
ContextChoice chooseContext(mlir::func::FuncOp loss, int64_t microbatches,
                            const ContextMesh &mesh);

/// Why Ulysses cannot have an attention of `heads` query heads and `groups` key
/// heads; empty where it can.
std::string whyNoExchange(int64_t heads, int64_t groups, int64_t context,
                          int64_t tensor);

/// An object with `chosen` and `ways`: name, seconds and bytes, or why_not.
llvm::json::Object explainContext(const ContextChoice &choice);
/// Some lines on the same.
void printContext(const ContextChoice &choice, llvm::raw_ostream &os);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_CONTEXT_H
