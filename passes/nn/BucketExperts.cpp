//===- BucketExperts.cpp - Rows by parts of the experts -------------------===//

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/nn/Passes.h"
#include "support/Divisors.h"
#include <cmath>
#include <limits>

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
  Rewriter(nn::DispatchOp dispatch, nn::ExpertSortOp sort, int64_t parts,
           double room)
      : dispatch(dispatch), sort(sort), parts(parts),
        experts(static_cast<int64_t>(sort.getCount()) / parts), room(room),
        builder(dispatch.getContext()) {}

  /// Returns how many rows of each group find no room, [B]; null where all do.
  Value run() {
    builder.setInsertionPointAfter(dispatch);
    ArrayRef<int64_t> position = dispatch.getPosition().getType().getShape();
    ArrayRef<int64_t> shape = dispatch.getType().getShape();
    // The most rows that a part can have: a token chooses an expert once.
    int64_t most =
        std::min(shape[1], position[1] * std::min(position[2], experts));
    if (auto capacity = sort.getCapacity())
      most = std::min<int64_t>(most, experts * *capacity);
    int64_t all = most;
    if (room > 0) {
      double share = static_cast<double>(position[1] * position[2]) /
                     static_cast<double>(parts);
      double asked = std::ceil(room * share);
      if (asked < static_cast<double>(most))
        most = std::max<int64_t>(1, static_cast<int64_t>(asked));
    }
    bucketShape = {parts, shape[0], most};
    Value overflow = localOffsets(dispatch.getLoc(), most, most < all);
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
    return overflow;
  }

private:
  nn::DispatchOp dispatch;
  nn::ExpertSortOp sort;
  int64_t parts, experts;
  double room;
  OpBuilder builder;
  SmallVector<int64_t> bucketShape;
  Value offsets;
  /// Rows in their order, and the same by parts; and back.
  llvm::DenseMap<Value, Value> byParts, inOrder;
  SmallVector<Operation *> replaced;

  /// Where the rows of each expert begin in its part, [P, B, E / P + 1]. Where
  /// there may be more than `most`, returns how many more.
  Value localOffsets(Location loc, int64_t most, bool mayOverflow) {
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
    Value bound = emit.scalar(local, static_cast<double>(most));
    offsets = emit.make<nn::MinOp>(local, bound);
    if (!mayOverflow)
      return nullptr;
    Value rows = emit.make<nn::SliceOp>(
        local, builder.getDenseI64ArrayAttr({0, 0, experts}),
        builder.getDenseI64ArrayAttr(sizes), DenseI64ArrayAttr());
    Value more = emit.sub(rows, bound);
    more = emit.make<nn::MaxOp>(more, emit.scalar(more, 0));
    return emit.cast(
        emit.sum(more, {0, 2}),
        nn::getStatisticsType(dispatch.getType().getElementType()));
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

/// Takes what functions found out of them, to a result of the entry.
class Reporter {
public:
  explicit Reporter(ModuleOp module) : module(module), symbols(module) {}

  void add(func::FuncOp function, Value rows) {
    found[function].push_back(rows);
  }

  void run() {
    if (found.empty())
      return;
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      (void)tells(function);
  }

private:
  ModuleOp module;
  SymbolTable symbols;
  llvm::DenseMap<Operation *, SmallVector<Value>> found;
  llvm::DenseMap<Operation *, bool> known;

  /// Whether the last result of a private function is how many rows of each
  /// group found no room in it and what it calls.
  bool tells(func::FuncOp function) {
    if (function.isExternal())
      return false;
    auto [it, isNew] = known.try_emplace(function, false);
    if (!isNew)
      return it->second;
    SmallVector<Value> rows = found.lookup(function);
    SmallVector<func::CallOp> calls;
    function.walk([&](func::CallOp call) { calls.push_back(call); });
    for (func::CallOp call : calls) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || !tells(callee))
        continue;
      OpBuilder builder(call);
      auto made = func::CallOp::create(builder, call.getLoc(), callee,
                                       call.getOperands());
      made->setDiscardableAttrs(call->getDiscardableAttrDictionary());
      call->replaceAllUsesWith(made->getResults().drop_back());
      call->erase();
      rows.push_back(made->getResults().back());
    }
    if (rows.empty())
      return false;
    Operation *end = function.front().getTerminator();
    OpBuilder builder(end);
    nn::Emit emit(builder, end->getLoc());
    Value sum = rows.front();
    for (Value more : ArrayRef(rows).drop_front())
      sum = emit.add(sum, more);
    if (function.isPrivate()) {
      addResult(function, sum, nullptr);
    } else if (function.getName() == "loss") {
      // Of the whole step: the mean of the groups, so many times.
      auto flags =
          RankedTensorType::get(typeOf(sum).getShape(), builder.getI1Type());
      const bool yes = true;
      Value each = nn::ConstantOp::create(
          builder, end->getLoc(),
          DenseElementsAttr::get(flags, ArrayRef<bool>(yes)));
      Value mean = emit.make<nn::StepMeanOp>(sum, each);
      Value count = emit.make<nn::StepSumOp>(mean.getType(), each);
      if (!function.getResultAttr(0, nn::kResultAttr))
        function.setResultAttr(0, nn::kResultAttr,
                               builder.getStrArrayAttr({"result", "loss"}));
      addResult(function, emit.mul(mean, count),
                builder.getStrArrayAttr({"result", "expert_overflow"}));
    } else {
      spoil(function, sum);
    }
    return known[function] = function.isPrivate();
  }

  void addResult(func::FuncOp function, Value value, Attribute name) {
    Operation *end = function.front().getTerminator();
    end->insertOperands(end->getNumOperands(), value);
    NamedAttrList attributes;
    if (name)
      attributes.set(nn::kResultAttr, name);
    (void)function.insertResult(function.getNumResults(), value.getType(),
                                attributes.getDictionary(module.getContext()));
  }

  /// Where a function has no place to say so: samples of which rows are missing
  /// are no numbers.
  void spoil(func::FuncOp function, Value rows) {
    Operation *end = function.front().getTerminator();
    OpBuilder builder(end);
    nn::Emit emit(builder, end->getLoc());
    for (OpOperand &result : end->getOpOperands()) {
      RankedTensorType type = typeOf(result.get());
      if (type.getRank() == 0 || !isa<FloatType>(type.getElementType()) ||
          type.getDimSize(0) != typeOf(rows).getDimSize(0))
        continue;
      SmallVector<int64_t> shape(type.getRank(), 1);
      shape[0] = type.getDimSize(0);
      Value missing =
          emit.compare(nn::Predicate::GT, emit.reshape(rows, shape), 0);
      Value none =
          emit.scalar(result.get(), std::numeric_limits<double>::quiet_NaN());
      result.set(emit.select(missing, none, result.get()));
    }
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
    if (!(room >= 0) || std::isinf(room)) {
      emitError(getOperation()->getLoc())
          << "nn-bucket-experts: option 'room' is " << room.getValue()
          << ", expected 0 (as many rows as there can be), or how many times "
             "the rows of a part where all have as many";
      return signalPassFailure();
    }
    if (parts == 1)
      return;
    Reporter reporter(getOperation());
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
      if (Value rows = Rewriter(dispatch, sort, parts, room).run())
        reporter.add(dispatch->getParentOfType<func::FuncOp>(), rows);
    }
    reporter.run();
  }
};
} // namespace
