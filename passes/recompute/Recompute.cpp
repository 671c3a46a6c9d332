//===- Recompute.cpp - Less memory for more computation -------------------===//
//
// Forward and backward of a layer are put into one block again, and cut anew
// with other values kept between them.
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Dist.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/recompute/Passes.h"

namespace sheaf {
#define GEN_PASS_DEF_NNRECOMPUTE
#include "passes/recompute/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
struct NNRecompute : sheaf::impl::NNRecomputeBase<NNRecompute> {
  using NNRecomputeBase::NNRecomputeBase;

  void runOnOperation() final {
    if (policy != "none" && policy != "selective" && policy != "full") {
      emitError(getOperation().getLoc())
          << "nn-recompute: option 'policy' is '" << policy
          << "', expected none, selective or full";
      return signalPassFailure();
    }
    if (policy == "none")
      return;
    SymbolTable symbols(getOperation());
    SmallVector<func::FuncOp> backwards;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(kForwardAttr))
        backwards.push_back(function);
    for (func::FuncOp backward : backwards)
      if (failed(rewrite(backward, symbols)))
        return signalPassFailure();
  }

private:
  /// Whether the results of `op` are kept under the policy.
  bool isKept(Operation *op) {
    return policy == "selective" &&
           isa<dist::ConstraintOp, nn::EinsumOp, nn::ScaledEinsumOp,
               nn::AttentionOp, nn::GatherOp, nn::GatherGradOp, nn::EmbeddingOp,
               nn::TopKOp, nn::RouteOp, nn::ExpertSortOp, nn::GroupedMatmulOp,
               nn::GroupedOuterOp, func::CallOp>(op);
  }
  LogicalResult rewrite(func::FuncOp backward, SymbolTable &symbols);
};
} // namespace

LogicalResult NNRecompute::rewrite(func::FuncOp backward,
                                   SymbolTable &symbols) {
  FailureOr<LayerSet> found = readLayerSet(backward, symbols);
  if (failed(found))
    return failure();
  LayerSet old = *found;
  auto operands = readLayerValues(backward, kOperandsAttr);
  auto results = readLayerValues(backward, kResultsAttr);
  if (failed(operands) || failed(results))
    return failure();
  unsigned keptCount = 0;
  for (LayerValue value : *operands)
    if (value.kind == LayerValue::Kept)
      keptCount = std::max(keptCount, value.index + 1);
  if (keptCount == 0)
    return success();
  for (auto [attribute, function] :
       {std::pair(kInputGradientAttr, old.inputGradient),
        std::pair(kWeightGradientAttr, old.weightGradient)})
    if (!function) {
      auto name = backward->getAttrOfType<StringAttr>(attribute);
      InFlightDiagnostic error = backward.emitOpError("has ");
      if (name)
        error << "the " << attribute << " @" << name.getValue()
              << ", which is not in the module";
      else
        error << "no " << attribute;
      return error << "; run nn-recompute right after nn-differentiate, before "
                      "unused functions are removed";
    }
  if (keptCount > old.forward.getNumResults())
    return backward.emitOpError("takes the kept value ")
           << keptCount - 1 << " of @" << old.forward.getName()
           << ", which has " << old.forward.getNumResults() << " results";
  unsigned resultCount = old.forward.getNumResults() - keptCount;

  // The calls, and the forward call that each backward call belongs to.
  SmallVector<std::pair<func::CallOp, func::CallOp>> pairs;
  llvm::SetVector<Operation *> forwardCalls;
  bool direct = true;
  WalkResult walked = getOperation().walk([&](func::CallOp call) {
    StringRef callee = call.getCallee();
    if ((old.inputGradient && callee == old.inputGradient.getName()) ||
        (old.weightGradient && callee == old.weightGradient.getName())) {
      call.emitOpError(
          "calls a part of a backward; run nn-recompute before the backward is "
          "cut in two");
      return WalkResult::interrupt();
    }
    if (callee == old.forward.getName())
      forwardCalls.insert(call);
    if (callee != backward.getName())
      return WalkResult::advance();
    func::CallOp forward;
    for (auto [value, operand] : llvm::zip_equal(*operands, call.getOperands()))
      if (value.kind == LayerValue::Kept) {
        auto source = operand.getDefiningOp<func::CallOp>();
        if (!source || source.getCallee() != old.forward.getName() ||
            (forward && forward != source)) {
          direct = false;
          return WalkResult::advance();
        }
        forward = source;
      }
    pairs.emplace_back(call, forward);
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  // The kept values of a layer within a layer pass through the outer one, which
  // is rewritten as a whole.
  for (Operation *call : forwardCalls)
    for (Value value : call->getResults().drop_front(resultCount))
      for (Operation *user : value.getUsers())
        direct &= isa<func::CallOp>(user) &&
                  cast<func::CallOp>(user).getCallee() == backward.getName();
  if (!direct)
    return success();

  // One block that computes the layer and its gradients.
  OwningOpRef<func::FuncOp> owner(func::FuncOp::create(
      backward.getLoc(), "layer", old.forward.getFunctionType()));
  func::FuncOp scratch = *owner;
  Block *block = scratch.addEntryBlock();
  LayerBlock layer{
      scratch.getNumArguments(),
      {},
      {},
      {},
      {},
      {},
      backward.getName().str(),
      backward->getAttrOfType<StringAttr>(kInputGradientAttr).str(),
      backward->getAttrOfType<StringAttr>(kWeightGradientAttr).str(),
      backward.getLoc()};
  OpBuilder builder = OpBuilder::atBlockEnd(block);
  IRMapping mapping;
  mapping.map(old.forward.getArguments(), block->getArguments());
  llvm::SmallPtrSet<Operation *, 32> forwardOps;
  for (Operation &op : old.forward.getBody().front().without_terminator())
    forwardOps.insert(builder.clone(op, mapping));
  SmallVector<Value> forwardValues;
  for (Value value :
       old.forward.getBody().front().getTerminator()->getOperands())
    forwardValues.push_back(mapping.lookup(value));
  layer.results.assign(forwardValues.begin(),
                       forwardValues.begin() + resultCount);

  IRMapping inner;
  llvm::DenseSet<Value> given;
  for (auto [value, argument] :
       llvm::zip_equal(*operands, backward.getArguments())) {
    switch (value.kind) {
    case LayerValue::Argument:
      inner.map(argument, block->getArgument(value.index));
      break;
    case LayerValue::Result:
      inner.map(argument, layer.results[value.index]);
      given.insert(layer.results[value.index]);
      break;
    case LayerValue::Kept:
      inner.map(argument, forwardValues[resultCount + value.index]);
      break;
    case LayerValue::Cotangent:
      inner.map(argument,
                block->addArgument(argument.getType(), argument.getLoc()));
      layer.cotangentOf.push_back(value.index);
      break;
    case LayerValue::Handed:
      return backward.emitOpError(
          "is handed a value, which only a weight gradient is");
    }
  }
  for (Operation &op : backward.getBody().front().without_terminator()) {
    Operation *copy = builder.clone(op, inner);
    auto role = copy->getAttrOfType<StringAttr>(nn::kRoleAttr);
    if (role && role.getValue() == "forward")
      forwardOps.insert(copy); // Was built again; is so, still.
    else
      layer.gradientOps.push_back(copy);
  }
  // What a parameter is, the weight gradient's results say.
  llvm::SmallDenseSet<unsigned> parameters;
  if (old.weightGradient) {
    auto named = readLayerValues(old.weightGradient, kResultsAttr);
    if (failed(named))
      return failure();
    for (LayerValue value : *named)
      parameters.insert(value.index);
  }
  for (auto [value, gradient] : llvm::zip_equal(
           *results, backward.getBody().front().getTerminator()->getOperands()))
    (parameters.contains(value.index) ? layer.parameterGradients
                                      : layer.inputGradients)
        .emplace_back(value.index, inner.lookup(gradient));

  auto recompute = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op && forwardOps.contains(op) && !given.contains(value) &&
           !isKept(op);
  };
  StringAttr layerName = old.forward->getAttrOfType<StringAttr>(kForwardOfAttr);
  std::string forwardName = old.forward.getName().str();
  SmallVector<DictionaryAttr> argumentAttributes;
  old.forward.getAllArgAttrs(argumentAttributes);
  // The new functions have the names of the old ones.
  for (func::FuncOp function :
       {old.forward, old.backward, old.inputGradient, old.weightGradient})
    if (function)
      symbols.erase(function);
  SmallVector<Value> kept;
  LayerSet set = makeGradientFunctions(symbols, layer, recompute, kept);
  SmallVector<Value> outputs(layer.results);
  llvm::append_range(outputs, kept);
  Part forward = completePart(
      {}, outputs, [](Value value) { return bool(value.getDefiningOp()); });
  set.forward =
      makeFunction(symbols, forwardName, layer.loc, forward,
                   llvm::to_vector_of<Value>(
                       block->getArguments().take_front(layer.arguments)),
                   outputs);
  set.forward.setAllArgAttrs(argumentAttributes);
  linkLayerSet(set, layerName ? layerName
                              : StringAttr::get(&getContext(), forwardName));

  auto newOperands = readLayerValues(set.backward, kOperandsAttr);
  if (failed(newOperands))
    return failure();
  llvm::DenseMap<Operation *, func::CallOp> replaced;
  for (Operation *call : forwardCalls) {
    OpBuilder here(call);
    auto made = func::CallOp::create(here, call->getLoc(), set.forward,
                                     call->getOperands());
    made->setDiscardableAttrs(call->getDiscardableAttrDictionary());
    for (unsigned i = 0; i < resultCount; ++i)
      call->getResult(i).replaceAllUsesWith(made.getResult(i));
    replaced[call] = made;
  }
  for (auto [call, forwardCall] : pairs) {
    func::CallOp source = replaced[forwardCall];
    SmallVector<Value> values;
    for (LayerValue value : *newOperands) {
      if (value.kind == LayerValue::Argument)
        values.push_back(source.getOperand(value.index));
      else if (value.kind == LayerValue::Result)
        values.push_back(source.getResult(value.index));
      else if (value.kind == LayerValue::Kept)
        values.push_back(source.getResult(resultCount + value.index));
      else
        values.push_back(
            call.getOperand(llvm::find(*operands, value) - operands->begin()));
    }
    OpBuilder here(call);
    auto made =
        func::CallOp::create(here, call->getLoc(), set.backward, values);
    made->setDiscardableAttrs(call->getDiscardableAttrDictionary());
    call->replaceAllUsesWith(made);
    call->erase();
  }
  for (Operation *call : forwardCalls)
    call->erase();
  return success();
}
