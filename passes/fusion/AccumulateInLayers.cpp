//===- AccumulateInLayers.cpp - Gradients added where they are computed ---===//

#include "mlir/IR/SymbolTable.h"
#include "passes/fusion/Passes.h"
#include "llvm/ADT/StringMap.h"

namespace sheaf {
#define GEN_PASS_DEF_NNACCUMULATEINLAYERS
#include "passes/fusion/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

/// What adds up over calls: the accumulators of a loop, or the operands of a
/// function whose sums it returns.
struct Accumulators {
  Block *block;
  /// For each result of the block the argument that its sum starts from, or -1.
  SmallVector<int64_t> argumentOf;
};

static Accumulators accumulatorsOf(nn::MicrobatchesOp loop) {
  Block *body = &loop.getBody().front();
  Accumulators all{body, {}};
  for (unsigned i = 0; i < loop.getNumResults(); ++i)
    all.argumentOf.push_back(1 + loop.getSliced().size() + i);
  return all;
}

static Accumulators accumulatorsOf(func::FuncOp function) {
  Accumulators all{&function.front(),
                   SmallVector<int64_t>(function.getNumResults(), -1)};
  if (auto pairs =
          function->getAttrOfType<DenseI64ArrayAttr>(nn::kAccumulatesAttr))
    for (int64_t i = 0; i + 1 < pairs.size(); i += 2)
      all.argumentOf[pairs[i]] = pairs[i + 1];
  return all;
}

/// The addition of a call's result to an accumulator whose sum it becomes, if
/// that is all that happens to both.
static nn::AddOp findAccumulation(Value result, const Accumulators &all) {
  if (!result.hasOneUse())
    return nullptr;
  auto add = dyn_cast<nn::AddOp>(*result.user_begin());
  if (!add || add.getType() != result.getType())
    return nullptr;
  Value other = add.getLhs() == result ? add.getRhs() : add.getLhs();
  auto accumulator = dyn_cast<BlockArgument>(other);
  if (!accumulator || accumulator.getOwner() != all.block ||
      !accumulator.hasOneUse() || accumulator.getType() != result.getType() ||
      !add->hasOneUse())
    return nullptr;
  Operation *end = all.block->getTerminator();
  OpOperand &use = *add->use_begin();
  if (use.getOwner() != end ||
      all.argumentOf[use.getOperandNumber()] != accumulator.getArgNumber())
    return nullptr;
  return add;
}

namespace {
struct NNAccumulateInLayers
    : sheaf::impl::NNAccumulateInLayersBase<NNAccumulateInLayers> {
  void runOnOperation() override {
    SmallVector<nn::MicrobatchesOp> loops;
    getOperation().walk(
        [&](nn::MicrobatchesOp loop) { loops.push_back(loop); });
    SymbolTable symbols(getOperation());
    for (nn::MicrobatchesOp loop : loops) {
      regroup(loop);
      rewriteAll(accumulatorsOf(loop), symbols);
    }
    // From a stage part on to the layers that it calls.
    for (size_t i = 0; i < made.size(); ++i) // Grows while it is walked.
      rewriteAll(accumulatorsOf(made[i]), symbols);
  }

  void rewriteAll(const Accumulators &all, SymbolTable &symbols) {
    for (func::CallOp call :
         llvm::make_early_inc_range(all.block->getOps<func::CallOp>()))
      rewrite(call, all, symbols);
  }

  /// accumulator + (x + gather_grad) as (accumulator + x) + gather_grad: the
  /// latter writes few rows.
  void regroup(nn::MicrobatchesOp loop) {
    for (nn::AddOp add : llvm::make_early_inc_range(
             loop.getBody().front().getOps<nn::AddOp>())) {
      Value accumulator = add.getLhs(), sum = add.getRhs();
      if (!isa<BlockArgument>(accumulator))
        std::swap(accumulator, sum);
      auto inner = sum.getDefiningOp<nn::AddOp>();
      if (!isa<BlockArgument>(accumulator) || !inner || !inner->hasOneUse() ||
          inner.getType() != add.getType() ||
          accumulator.getType() != add.getType())
        continue;
      Value dense = inner.getLhs(), grad = inner.getRhs();
      if (!grad.getDefiningOp<nn::GatherGradOp>())
        std::swap(dense, grad);
      if (!grad.getDefiningOp<nn::GatherGradOp>() ||
          dense.getType() != add.getType() || grad.getType() != add.getType())
        continue;
      OpBuilder builder(inner);
      auto first =
          nn::AddOp::create(builder, inner.getLoc(), accumulator, dense);
      first->setDiscardableAttrs(inner->getDiscardableAttrDictionary());
      builder.setInsertionPoint(add);
      auto second =
          nn::AddOp::create(builder, add.getLoc(), first.getResult(), grad);
      second->setDiscardableAttrs(add->getDiscardableAttrDictionary());
      add.replaceAllUsesWith(second.getResult());
      add.erase();
      inner.erase();
    }
  }

  void rewrite(func::CallOp call, const Accumulators &all,
               SymbolTable &symbols) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || callee.isExternal() || !callee.getBody().hasOneBlock())
      return;
    SmallVector<nn::AddOp> adds(call.getNumResults());
    SmallVector<int64_t> pairs;
    for (auto [i, result] : llvm::enumerate(call.getResults()))
      if (nn::AddOp add = findAccumulation(result, all)) {
        pairs.append(
            {static_cast<int64_t>(i),
             static_cast<int64_t>(call.getNumOperands() + pairs.size() / 2)});
        adds[i] = add;
      }
    if (pairs.empty())
      return;
    std::string key = (call.getCallee() + " ").str();
    for (int64_t number : pairs)
      key += std::to_string(number) + ",";
    func::FuncOp &variant = variants[key];
    Builder builder(&getContext());
    auto attribute = builder.getDenseI64ArrayAttr(pairs);
    if (!variant) {
      variant = callee.clone();
      variant.setName((callee.getName() + "_accumulate").str());
      variant.setPrivate();
      // What these say is of the other function.
      for (StringRef name :
           {"nn.forward", "nn.input_gradient", "nn.weight_gradient",
            "nn.forward_of", "nn.operands", "nn.results"})
        variant->removeAttr(name);
      variant->setAttr(nn::kAccumulatesAttr, attribute);
      symbols.insert(variant, callee->getIterator());
      made.push_back(variant);
      Operation *end = variant.front().getTerminator();
      OpBuilder inner(end);
      for (size_t i = 0; i < pairs.size(); i += 2) {
        Value value = end->getOperand(pairs[i]);
        (void)variant.insertArgument(variant.getNumArguments(), value.getType(),
                                     DictionaryAttr(), value.getLoc());
        auto sum = nn::AddOp::create(inner, value.getLoc(),
                                     variant.getArguments().back(), value);
        if (Attribute role = adds[pairs[i]]->getAttr(nn::kRoleAttr))
          sum->setAttr(nn::kRoleAttr, role);
        end->setOperand(pairs[i], sum);
      }
    }
    SmallVector<Value> operands(call.getOperands());
    for (nn::AddOp add : adds)
      if (add)
        operands.push_back(isa<BlockArgument>(add.getLhs()) ? add.getLhs()
                                                            : add.getRhs());
    OpBuilder at(call);
    auto next = func::CallOp::create(at, call.getLoc(), variant, operands);
    next->setDiscardableAttrs(call->getDiscardableAttrDictionary());
    next->setAttr(nn::kAccumulatesAttr, attribute);
    for (auto [i, add] : llvm::enumerate(adds)) {
      if (add) {
        add.replaceAllUsesWith(next.getResult(i));
        add.erase();
      }
    }
    call.replaceAllUsesWith(next.getResults());
    call.erase();
  }

  llvm::StringMap<func::FuncOp> variants;
  SmallVector<func::FuncOp> made;
};
} // namespace
