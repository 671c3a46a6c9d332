//===- WidenProducts.cpp - Products of narrow floats in f32 ---------------===//

#include "passes/precision/Passes.h"

namespace sheaf {
#define GEN_PASS_DEF_NNWIDENPRODUCTS
#include "passes/precision/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
struct NNWidenProducts : sheaf::impl::NNWidenProductsBase<NNWidenProducts> {
  using NNWidenProductsBase::NNWidenProductsBase;

  void runOnOperation() final {
    getOperation().walk([](Operation *op) {
      if (isa<nn::EinsumOp, nn::GroupedMatmulOp, nn::GroupedOuterOp,
              nn::AttentionOp, nn::AttentionGradOp>(op))
        widen(op);
    });
  }

private:
  static bool isNarrow(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type &&
           (type.getElementType().isBF16() || type.getElementType().isF16());
  }

  static void widen(Operation *op) {
    OpBuilder builder(op);
    Type wide = builder.getF32Type();
    Attribute role = op->getAttr(nn::kRoleAttr);
    auto cast = [&](Value value, Type element) -> Value {
      auto type = mlir::cast<RankedTensorType>(value.getType());
      auto made =
          nn::CastOp::create(builder, op->getLoc(), type.clone(element), value);
      if (role)
        made->setAttr(nn::kRoleAttr, role);
      return made;
    };
    for (OpOperand &operand : op->getOpOperands())
      if (isNarrow(operand.get()))
        operand.set(cast(operand.get(), wide));
    builder.setInsertionPointAfter(op);
    for (OpResult result : op->getResults()) {
      if (!isNarrow(result))
        continue;
      auto type = mlir::cast<RankedTensorType>(result.getType());
      result.setType(type.clone(wide));
      Value rounded = cast(result, type.getElementType());
      result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
    }
  }
};
} // namespace
