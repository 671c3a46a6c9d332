//===- Rules.cpp - The sharding rule of each op ---------------------------===//

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace sheaf::nn;

int ShardingRule::add(Factor factor) {
  factors.push_back(std::move(factor));
  return static_cast<int>(factors.size()) - 1;
}
std::string ShardingRule::str() const { return ""; }
FailureOr<ShardingRule> ShardingRule::parse(StringRef, std::string &) {
  return failure();
}
LogicalResult ShardingRule::verify(Operation *, std::string &) const {
  return success();
}
FailureOr<ShardingRule> sheaf::nn::getRule(Operation *) { return failure(); }
ShardingRule sheaf::nn::getElementwiseRule(Operation *) { return {}; }
#define NO_RULE(OP)                                                            \
  ShardingRule OP::getShardingRule() { return {}; }
NO_RULE(EinsumOp) NO_RULE(ReduceOp) NO_RULE(ReshapeOp) NO_RULE(TransposeOp)
NO_RULE(BroadcastOp) NO_RULE(SliceOp) NO_RULE(PadOp) NO_RULE(ConcatenateOp)
NO_RULE(IotaOp) NO_RULE(ConstantOp) NO_RULE(GatherOp) NO_RULE(GatherGradOp)
NO_RULE(EmbeddingOp) NO_RULE(TopKOp) NO_RULE(RandomOp) NO_RULE(DropoutOp)
NO_RULE(SoftmaxOp) NO_RULE(LayerNormOp) NO_RULE(RMSNormOp) NO_RULE(RotaryOp)
NO_RULE(AttentionOp) NO_RULE(AttentionGradOp) NO_RULE(CrossEntropyOp)
NO_RULE(CrossEntropyGradOp) NO_RULE(StepMeanOp) NO_RULE(AdamWOp) NO_RULE(SGDOp)
