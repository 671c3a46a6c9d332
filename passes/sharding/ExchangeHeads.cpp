//===- ExchangeHeads.cpp - Whole sequences of a part of the heads ---------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Context.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Strategy.h"
#include <numeric>

namespace sheaf {
#define GEN_PASS_DEF_DISTEXCHANGEHEADS
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
constexpr llvm::StringLiteral kBecause =
    "Ulysses: attention has whole sequences of a part of the heads";

struct DistExchangeHeads
    : sheaf::impl::DistExchangeHeadsBase<DistExchangeHeads> {
  using DistExchangeHeadsBase::DistExchangeHeadsBase;

  void runOnOperation() final {
    if (!mesh.empty() &&
        failed(sharding::declareMesh(getOperation(), mesh, getArgument())))
      return signalPassFailure();
    dist::MeshOp devices = dist::getMesh(getOperation());
    if (!devices) {
      getOperation().emitError("has no mesh; declare one with dist.mesh, or "
                               "name one to dist-exchange-heads");
      return signalPassFailure();
    }
    for (StringRef name : {"dp", "cp", "tp"}) {
      dist::MeshAxisAttr axis = devices.lookup(name);
      sizes[name] = axis ? axis.getSize() : 1;
    }
    if (sizes["cp"] == 1)
      return;
    SmallVector<nn::AttentionOp> ops;
    WalkResult result = getOperation().walk([&](Operation *op) {
      if (isa<nn::AttentionGradOp>(op)) {
        op->emitOpError("is of a gradient; dist-exchange-heads expects a model "
                        "before it is differentiated");
        return WalkResult::interrupt();
      }
      if (auto attention = dyn_cast<nn::AttentionOp>(op))
        ops.push_back(attention);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (nn::AttentionOp op : ops)
      if (failed(exchange(op)))
        return signalPassFailure();
  }

private:
  llvm::StringMap<int64_t> sizes;

  static ArrayRef<int64_t> shapeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }

  /// The outermost `size` devices of an axis; nothing for one.
  SmallVector<dist::AxisAttr> part(StringRef name, int64_t size) {
    MLIRContext *context = &getContext();
    if (size == 1)
      return {};
    return {dist::AxisAttr::get(context, StringAttr::get(context, name), 1,
                                size == sizes[name] ? 0 : size)};
  }

  /// Samples over dp, and what is given over sequence and heads.
  Value constrain(OpBuilder &builder, Value value,
                  ArrayRef<dist::AxisAttr> sequence,
                  ArrayRef<dist::AxisAttr> heads) {
    SmallVector<dist::AxisAttr> samples;
    if (shapeOf(value)[0] > 1)
      samples = part("dp", sizes["dp"]);
    SmallVector<dist::DimAttr> dims;
    for (ArrayRef<dist::AxisAttr> axes :
         {ArrayRef<dist::AxisAttr>(samples), sequence, heads,
          ArrayRef<dist::AxisAttr>()})
      dims.push_back(dist::DimAttr::get(&getContext(), axes, /*open=*/false,
                                        /*priority=*/0, /*blocks=*/1));
    return dist::ConstraintOp::create(
        builder, value.getLoc(), value.getType(), value,
        dist::ShardingAttr::get(&getContext(), dims, dist::Reduction::Sum, {}),
        builder.getStringAttr(kBecause));
  }

  LogicalResult exchange(nn::AttentionOp op) {
    int64_t queries = shapeOf(op.getQuery())[1], keys = shapeOf(op.getKey())[1],
            heads = shapeOf(op.getQuery())[2], groups = shapeOf(op.getKey())[2];
    int64_t cp = sizes["cp"], tp = sizes["tp"];
    // Of one query there is no part to be had.
    if (queries != keys || queries == 1)
      return success();
    if (std::string why = sharding::whyNoExchange(heads, groups, cp, tp);
        !why.empty())
      return op.emitOpError(why);
    // Fewer key heads than devices are over the outermost ones that divide.
    int64_t ofTensor = std::gcd(tp, groups),
            ofContext = ofTensor == tp ? std::gcd(cp, groups / ofTensor) : 1;
    SmallVector<dist::AxisAttr> ofQueries = part("tp", tp),
                                ofKeys = part("tp", ofTensor),
                                sequence = part("cp", cp);
    llvm::append_range(ofQueries, part("cp", cp));
    llvm::append_range(ofKeys, part("cp", ofContext));
    // Both sides of each exchange are written, so that its gradient, which has
    // the same constraints, is one, too.
    OpBuilder builder(op);
    auto toHeads = [&](Value value, int64_t devices,
                       ArrayRef<dist::AxisAttr> axes) {
      return constrain(builder,
                       constrain(builder, value, sequence, part("tp", devices)),
                       {}, axes);
    };
    Value query = toHeads(op.getQuery(), tp, ofQueries);
    Value key = toHeads(op.getKey(), ofTensor, ofKeys);
    Value value = op.getValue() == op.getKey()
                      ? key
                      : toHeads(op.getValue(), ofTensor, ofKeys);
    op.getQueryMutable().set(query);
    op.getKeyMutable().set(key);
    op.getValueMutable().set(value);
    builder.setInsertionPointAfter(op);
    Value inside = constrain(builder, op.getResult(), {}, ofQueries);
    Value result = constrain(builder, inside, sequence, part("tp", tp));
    op.getResult().replaceAllUsesExcept(result, inside.getDefiningOp());
    return success();
  }
};
} // namespace
