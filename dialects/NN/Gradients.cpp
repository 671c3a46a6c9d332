//===- Gradients.cpp - The gradient of each op ----------------------------===//

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace sheaf::nn;

#define NO_GRADIENT(OP)                                                        \
  void OP::buildGradient(Gradients &) {}
NO_GRADIENT(NegOp) NO_GRADIENT(AbsOp) NO_GRADIENT(ExpOp) NO_GRADIENT(LogOp)
NO_GRADIENT(TanhOp) NO_GRADIENT(ErfOp) NO_GRADIENT(SqrtOp) NO_GRADIENT(RsqrtOp)
NO_GRADIENT(SigmoidOp) NO_GRADIENT(SinOp) NO_GRADIENT(CosOp)
NO_GRADIENT(ReluOp) NO_GRADIENT(SiluOp) NO_GRADIENT(GeluOp)
NO_GRADIENT(GeluTanhOp) NO_GRADIENT(AddOp) NO_GRADIENT(SubOp)
NO_GRADIENT(MulOp) NO_GRADIENT(DivOp) NO_GRADIENT(MaxOp) NO_GRADIENT(MinOp)
NO_GRADIENT(PowOp) NO_GRADIENT(SelectOp) NO_GRADIENT(CastOp)
NO_GRADIENT(EinsumOp) NO_GRADIENT(ReduceOp) NO_GRADIENT(ReshapeOp)
NO_GRADIENT(TransposeOp) NO_GRADIENT(BroadcastOp) NO_GRADIENT(SliceOp)
NO_GRADIENT(PadOp) NO_GRADIENT(ConcatenateOp) NO_GRADIENT(GatherOp)
NO_GRADIENT(GatherGradOp) NO_GRADIENT(EmbeddingOp) NO_GRADIENT(TopKOp)
NO_GRADIENT(DropoutOp) NO_GRADIENT(SoftmaxOp) NO_GRADIENT(LayerNormOp)
NO_GRADIENT(RMSNormOp) NO_GRADIENT(RotaryOp) NO_GRADIENT(AttentionOp)
NO_GRADIENT(CrossEntropyOp) NO_GRADIENT(StepMeanOp)
