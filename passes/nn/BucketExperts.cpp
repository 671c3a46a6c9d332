//===- BucketExperts.cpp - Rows by parts of the experts -------------------===//

#include "dialects/NN/NN.h"
#include "mlir/IR/IRMapping.h"
#include "passes/nn/Passes.h"
#include "support/Divisors.h"

namespace sheaf {
#define GEN_PASS_DEF_NNBUCKETEXPERTS
#include "passes/nn/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// What is computed on the rows of one dispatch, up to where it leaves them.
class Rewriter {
public:
  Rewriter(nn::DispatchOp dispatch, nn::ExpertSortOp sort, int64_t parts)
      : dispatch(dispatch), sort(sort), parts(parts),
        experts(static_cast<int64_t>(sort.getCount()) / parts),
        builder(dispatch.getContext()) {}

  void run() {
    builder.setInsertionPointAfter(dispatch);
    ArrayRef<int64_t> position = dispatch.getPosition().getType().getShape();
    ArrayRef<int64_t> shape = dispatch.getType().getShape();
    // The most rows that a part can have: a token chooses an expert once.
    int64_t most =
        std::min(shape[1], position[1] * std::min(position[2], experts));
    if (auto capacity = sort.getCapacity())
      most = std::min<int64_t>(most, experts * *capacity);
    bucketShape = {parts, shape[0], most};
    offsets = localOffsets(dispatch.getLoc(), most);
    SmallVector<int64_t> rows(bucketShape);
    rows.push_back(shape[2]);
    auto bucket = nn::BucketOp::create(
        builder, dispatch.getLoc(),
        RankedTensorType::get(rows, dispatch.getType().getElementType()),
        dispatch.getResult(), sort.getOffsets());
    byParts[dispatch.getResult()] = bucket;
    // Without what is added on the way.
    SmallVector<Operation *> later;
    for (Operation *op = bucket->getNextNode(); op; op = op->getNextNode())
      later.push_back(op);
    for (Operation *op : later)
      rewrite(op);
    for (Operation *op : llvm::reverse(replaced))
      if (op->use_empty())
        op->erase();
  }

private:
  nn::DispatchOp dispatch;
  nn::ExpertSortOp sort;
  int64_t parts, experts;
  OpBuilder builder;
  SmallVector<int64_t> bucketShape;
  Value offsets;
  /// Rows in their order, and the same by parts; and back.
  llvm::DenseMap<Value, Value> byParts, inOrder;
  SmallVector<Operation *> replaced;

  /// Where the rows of each expert begin in its part, [P, B, E / P + 1].
  Value localOffsets(Location loc, int64_t most) {
    nn::Emit emit(builder, loc);
    Type i32 = builder.getI32Type();
    Value part = emit.make<nn::IotaOp>(
        RankedTensorType::get({parts, experts + 1}, i32), 0);
    Value expert = emit.make<nn::IotaOp>(
        RankedTensorType::get({parts, experts + 1}, i32), 1);
    Value which =
        emit.add(emit.mul(part, static_cast<double>(experts)), expert);
    Value each = emit.make<nn::GatherOp>(sort.getOffsets(), which, /*axis=*/1,
                                         /*batch=*/0); // [B, P, E / P + 1]
    Value turned = emit.make<nn::TransposeOp>(each, ArrayRef<int64_t>{1, 0, 2});
    SmallVector<int64_t> sizes(typeOf(turned).getShape());
    sizes.back() = 1;
    Value first = emit.make<nn::SliceOp>(
        turned, builder.getDenseI64ArrayAttr({0, 0, 0}),
        builder.getDenseI64ArrayAttr(sizes), DenseI64ArrayAttr());
    Value local = emit.sub(turned, first);
    return emit.make<nn::MinOp>(local,
                                emit.scalar(local, static_cast<double>(most)));
  }

  void rewrite(Operation *op) {
    bool uses = llvm::any_of(op->getOperands(),
                             [&](Value v) { return byParts.contains(v); });
    if (!uses)
      return;
    builder.setInsertionPoint(op);
    Operation *made = nullptr;
    if (auto product = dyn_cast<nn::GroupedMatmulOp>(op);
        product && product.getOffsets() == sort.getOffsets() &&
        product.getMatrices().getType().getRank() == 3 &&
        byParts.contains(product.getRows())) {
      SmallVector<int64_t> shape{parts, experts};
      llvm::append_range(
          shape, product.getMatrices().getType().getShape().drop_front());
      nn::Emit emit(builder, op->getLoc());
      made = nn::GroupedMatmulOp::create(
          builder, op->getLoc(), byParts.lookup(product.getRows()),
          emit.reshape(product.getMatrices(), shape), offsets,
          product.getTransposedAttr());
    } else if (op->hasTrait<nn::ElementwiseTrait>() &&
               llvm::all_of(op->getOperands(), [&](Value v) {
                 return byParts.contains(v) || typeOf(v).getRank() == 0;
               })) {
      made = builder.clone(*op);
      for (OpOperand &operand : made->getOpOperands())
        if (Value mapped = byParts.lookup(operand.get()))
          operand.set(mapped);
      SmallVector<int64_t> shape(bucketShape);
      shape.push_back(typeOf(op->getResult(0)).getShape().back());
      made->getResult(0).setType(RankedTensorType::get(
          shape, typeOf(op->getResult(0)).getElementType()));
    }
    if (!made) {
      for (OpOperand &operand : op->getOpOperands())
        if (Value mapped = byParts.lookup(operand.get()))
          operand.set(backInOrder(operand.get(), mapped));
      return;
    }
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    byParts[op->getResult(0)] = made->getResult(0);
    replaced.push_back(op);
  }

  Value backInOrder(Value value, Value mapped) {
    Value &known = inOrder[value];
    if (!known)
      known = nn::UnbucketOp::create(builder, value.getLoc(), value.getType(),
                                     mapped, sort.getOffsets());
    return known;
  }
};

struct NNBucketExperts : sheaf::impl::NNBucketExpertsBase<NNBucketExperts> {
  using NNBucketExpertsBase::NNBucketExpertsBase;

  void runOnOperation() final {
    if (parts < 1) {
      emitError(getOperation()->getLoc())
          << "nn-bucket-experts: option 'parts' is " << parts.getValue()
          << ", expected at least 1";
      return signalPassFailure();
    }
    if (parts == 1)
      return;
    SmallVector<nn::DispatchOp> all;
    getOperation()->walk([&](nn::DispatchOp op) { all.push_back(op); });
    for (nn::DispatchOp dispatch : all) {
      auto sort = dispatch.getOrder().getDefiningOp<nn::ExpertSortOp>();
      if (!sort || sort->getBlock() != dispatch->getBlock())
        continue;
      int64_t experts = sort.getCount();
      if (experts % parts) {
        dispatch.emitOpError("goes to ")
            << experts << " experts, which " << parts.getValue()
            << " parts do not divide; the nearest that fit: "
            << nearestDivisors(experts, parts);
        return signalPassFailure();
      }
      Rewriter(dispatch, sort, parts).run();
    }
  }
};
} // namespace
