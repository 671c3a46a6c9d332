//===- PoolStreams.cpp - Stream numbers as data ---------------------------===//

#include "mlir/IR/Matchers.h"
#include "passes/fusion/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace sheaf {
#define GEN_PASS_DEF_NNPOOLSTREAMS
#include "passes/fusion/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
struct NNPoolStreams : sheaf::impl::NNPoolStreamsBase<NNPoolStreams> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    // The streams of the function, in the order of first use.
    llvm::MapVector<int64_t, SmallVector<OpOperand *>> uses;
    function.walk([&](Operation *op) {
      if (!isa<nn::RandomOp, nn::DropoutOp, func::CallOp>(op))
        return;
      for (OpOperand &operand : op->getOpOperands()) {
        auto type = cast<RankedTensorType>(operand.get().getType());
        auto constant = operand.get().getDefiningOp<nn::ConstantOp>();
        if (!constant || type.getRank() > 0 ||
            !type.getElementType().isInteger(32))
          continue;
        int64_t value =
            (*constant.getValue().getValues<APInt>().begin()).getSExtValue();
        uses[value].push_back(&operand);
      }
    });
    if (uses.size() < 2)
      return;
    SmallVector<int32_t> values;
    for (auto &[value, operands] : uses)
      values.push_back(static_cast<int32_t>(value));
    OpBuilder builder = OpBuilder::atBlockBegin(&function.front());
    Type i32 = builder.getI32Type();
    auto type =
        RankedTensorType::get({static_cast<int64_t>(values.size())}, i32);
    Location loc = function.getLoc();
    Value table = nn::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(values)));
    auto ones = [](int64_t number) { return SmallVector<int64_t>{number}; };
    for (auto [i, entry] : llvm::enumerate(uses)) {
      Value part = nn::SliceOp::create(
          builder, loc, RankedTensorType::get({1}, i32), table,
          builder.getDenseI64ArrayAttr(ones(i)),
          builder.getDenseI64ArrayAttr(ones(1)), DenseI64ArrayAttr());
      Value number = nn::ReshapeOp::create(
          builder, loc, RankedTensorType::get({}, i32), part);
      for (OpOperand *operand : entry.second)
        operand->set(number);
    }
  }
};
} // namespace
