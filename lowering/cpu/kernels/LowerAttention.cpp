//===- LowerAttention.cpp - Kernels of nn.attention and its gradient ------===//

#include "dialects/NN/NN.h"
#include "lowering/cpu/attention/Attention.h"
#include "lowering/cpu/kernels/Kernels.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::cpu;

/// What forward and gradient have in common.
template <typename Op>
static AttentionSpec makeSpec(Op op) {
  auto type = [](Value value) {
    return cast<RankedTensorType>(value.getType());
  };
  RankedTensorType q = type(op.getQuery()), k = type(op.getKey()),
                   v = type(op.getValue());
  AttentionSpec spec;
  spec.batch = q.getDimSize(0);
  spec.queries = q.getDimSize(1);
  spec.heads = q.getDimSize(2);
  spec.headDim = q.getDimSize(3);
  spec.keys = k.getDimSize(1);
  spec.kvHeads = k.getDimSize(2);
  spec.valueDim = v.getDimSize(3);
  spec.causal = op.getCausal();
  spec.window = op.getWindow();
  spec.scale = op.getScaleValue();
  spec.hasDocuments = static_cast<bool>(op.getQueryDocuments());
  spec.hasFirstPosition = static_cast<bool>(op.getFirstPosition());
  if (op.getBias())
    spec.bias = {type(op.getBias()).getDimSize(0),
                 type(op.getBias()).getDimSize(1)};
  spec.elementType = q.getElementType();
  return spec;
}

FailureOr<func::FuncOp> cpu::lowerAttention(func::FuncOp kernel,
                                            int64_t vectorBytes) {
  Block &body = kernel.front();
  Operation *op = &body.front();
  Operation *end = body.getTerminator();
  // A kernel of its own: the arguments are the operands, in order.
  if (op->getNextNode() != end ||
      !llvm::equal(op->getOperands(), kernel.getArguments()))
    return LogicalResult(
        kernel.emitError("kernel '")
        << kernel.getName()
        << "' has other ops beside attention; put them into another kernel");
  AttentionTuning tuning;
  tuning.vectorBytes = vectorBytes;
  // The caller has no buffer for pieces of the query's gradient.
  tuning.minBackwardTasks = 1;
  OpBuilder builder(kernel);
  std::string name = kernel.getName().str();
  kernel.setName(name + "_on_tensors");
  FailureOr<BuiltKernel> built;
  if (auto forward = dyn_cast<nn::AttentionOp>(op)) {
    AttentionSpec spec = makeSpec(forward);
    spec.wantsLse = end->getNumOperands() == 2;
    built = buildAttentionForward(builder, kernel.getLoc(), name, spec, tuning);
  } else {
    auto grad = cast<nn::AttentionGradOp>(op);
    AttentionSpec spec = makeSpec(grad);
    spec.hasLseGradient = static_cast<bool>(grad.getLseGrad());
    bool bias = grad.getBiasGrad() && end->getOperand(0) == grad.getBiasGrad();
    built = bias ? buildAttentionBiasGradient(builder, kernel.getLoc(), name,
                                              spec, tuning)
                 : buildAttentionBackward(builder, kernel.getLoc(), name, spec,
                                          tuning);
  }
  if (failed(built)) {
    kernel.setName(name);
    return failure();
  }
  func::FuncOp lowered = built->function;
  lowered->setDiscardableAttrs(kernel->getDiscardableAttrDictionary());
  lowered->setAttr(kKernelAttr, builder.getUnitAttr());
  lowered->setAttr(kExtentAttr, builder.getI64IntegerAttr(built->extent));
  lowered->setAttr(kGrainAttr, builder.getI64IntegerAttr(built->grain));
  lowered->setAttr(kFlopsAttr, builder.getI64IntegerAttr(
                                   static_cast<int64_t>(built->flops)));
  lowered->setAttr(kBytesAttr, builder.getI64IntegerAttr(
                                   static_cast<int64_t>(built->bytes)));
  lowered->setAttr(kInputsAttr,
                   builder.getI64IntegerAttr(kernel.getNumArguments()));
  lowered.setVisibility(kernel.getVisibility());
  kernel.erase();
  return lowered;
}
