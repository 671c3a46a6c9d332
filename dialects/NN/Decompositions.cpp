//===- Decompositions.cpp - Composite ops in simple ones ------------------===//

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace sheaf::nn;

SmallVector<double> RotaryOp::getFrequencies() { return {}; }
#define NO_DECOMPOSITION(OP)                                                   \
  SmallVector<Value> OP::decompose(OpBuilder &) { return {}; }
NO_DECOMPOSITION(ReluOp) NO_DECOMPOSITION(SiluOp) NO_DECOMPOSITION(GeluOp)
NO_DECOMPOSITION(GeluTanhOp) NO_DECOMPOSITION(EmbeddingOp)
NO_DECOMPOSITION(DropoutOp) NO_DECOMPOSITION(SoftmaxOp)
NO_DECOMPOSITION(LayerNormOp) NO_DECOMPOSITION(RMSNormOp)
NO_DECOMPOSITION(RotaryOp) NO_DECOMPOSITION(AttentionOp)
NO_DECOMPOSITION(AttentionGradOp) NO_DECOMPOSITION(CrossEntropyOp)
NO_DECOMPOSITION(CrossEntropyGradOp) NO_DECOMPOSITION(StepMeanOp)
NO_DECOMPOSITION(AdamWOp) NO_DECOMPOSITION(SGDOp)

SmallVector<Value> StepSumOp::decompose(OpBuilder &builder) {
  Emit e(builder, getLoc());
  auto type = llvm::cast<RankedTensorType>(getResult().getType());
  Value weights = e.cast(getWeights(), type.getElementType());
  int64_t rank = llvm::cast<RankedTensorType>(weights.getType()).getRank();
  return {e.sum(weights, llvm::to_vector(llvm::seq<int64_t>(rank)))};
}
