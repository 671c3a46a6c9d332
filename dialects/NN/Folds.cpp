//===- Folds.cpp - Folding and canonicalisation of nn ---------------------===//

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace sheaf::nn;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

#define NO_FOLD(OP)                                                            \
  OpFoldResult OP::fold(FoldAdaptor) { return {}; }
NO_FOLD(NegOp) NO_FOLD(AbsOp) NO_FOLD(ExpOp) NO_FOLD(LogOp) NO_FOLD(TanhOp)
NO_FOLD(ErfOp) NO_FOLD(SqrtOp) NO_FOLD(RsqrtOp) NO_FOLD(SigmoidOp)
NO_FOLD(SinOp) NO_FOLD(CosOp) NO_FOLD(NotOp) NO_FOLD(ReluOp) NO_FOLD(SiluOp)
NO_FOLD(GeluOp) NO_FOLD(GeluTanhOp) NO_FOLD(AddOp) NO_FOLD(SubOp)
NO_FOLD(MulOp) NO_FOLD(DivOp) NO_FOLD(MaxOp) NO_FOLD(MinOp) NO_FOLD(PowOp)
NO_FOLD(AndOp) NO_FOLD(OrOp) NO_FOLD(SelectOp) NO_FOLD(CastOp)
NO_FOLD(ReduceOp) NO_FOLD(ReshapeOp) NO_FOLD(TransposeOp) NO_FOLD(BroadcastOp)
NO_FOLD(SliceOp) NO_FOLD(PadOp) NO_FOLD(ConcatenateOp) NO_FOLD(DropoutOp)

void EinsumOp::getCanonicalizationPatterns(RewritePatternSet &, MLIRContext *) {}
void ReduceOp::getCanonicalizationPatterns(RewritePatternSet &, MLIRContext *) {}
