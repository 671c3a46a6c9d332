//===- Differentiate.cpp - Reverse-mode differentiation -------------------===//
//
// A function is copied, its ops are walked from the last to the first, and each
// writes the gradients of its operands behind the copy. For a layer, the copy
// is then cut in two: what computes results and kept values, and what computes
// gradients; the latter also in what reaches input gradients and the rest.
//
//===----------------------------------------------------------------------===//

#include "passes/autodiff/LayerFunctions.h"
#include "passes/autodiff/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

namespace sheaf {
#define GEN_PASS_DEF_NNDIFFERENTIATE
#include "passes/autodiff/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
using Flags = SmallVector<bool>;

/// Collects the ops that a builder makes.
struct Collector : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) final {
    ops.insert(op);
  }
  llvm::SetVector<Operation *> ops;
};

/// What has been made of a layer for one set of gradients.
struct Layer {
  func::FuncOp forward, backward;
  /// Of `backward`.
  SmallVector<LayerValue> operands;
  /// The argument whose gradient each result of `backward` is.
  SmallVector<unsigned> results;
};

class Differentiator {
public:
  explicit Differentiator(ModuleOp module) : module(module), symbols(module) {}

  /// Learns which arguments of layers are parameters from all calls that are
  /// reached from `roots`.
  void findParameters(ArrayRef<func::FuncOp> roots);
  LogicalResult differentiate(func::FuncOp function);

private:
  bool isParameter(Value value);
  Flags &parametersOf(func::FuncOp function);
  LogicalResult sweep(func::FuncOp function, ArrayRef<bool> active,
                      ArrayRef<Value> cotangents, Collector &collector,
                      SmallVectorImpl<Value> &argumentGradients,
                      SmallVectorImpl<Value> *activationGradients = nullptr);
  LogicalResult visitCall(func::CallOp call, ArrayRef<bool> needed,
                          ArrayRef<Value> resultGradients, OpBuilder &builder,
                          SmallVectorImpl<Value> &operandGradients);
  FailureOr<Layer *> getLayer(func::FuncOp function, ArrayRef<bool> needed,
                              ArrayRef<bool> cotangents);
  LogicalResult buildLayer(func::FuncOp function, ArrayRef<bool> needed,
                           ArrayRef<bool> cotangents, Layer &layer);

  ModuleOp module;
  SymbolTable symbols;
  llvm::DenseMap<Operation *, Flags> parameters;
  /// By layer, gradients needed and cotangents given.
  std::map<std::tuple<Operation *, std::vector<bool>, std::vector<bool>>, Layer>
      layers;
};
} // namespace

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

Flags &Differentiator::parametersOf(func::FuncOp function) {
  auto [it, isNew] = parameters.try_emplace(function);
  if (isNew)
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      it->second.push_back(
          static_cast<bool>(function.getArgAttr(i, nn::kParamAttr)));
  return it->second;
}

bool Differentiator::isParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return false;
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return function && parametersOf(function)[argument.getArgNumber()];
}

void Differentiator::findParameters(ArrayRef<func::FuncOp> roots) {
  llvm::SetVector<Operation *> reached(roots.begin(), roots.end());
  SmallVector<std::pair<func::CallOp, func::FuncOp>> calls;
  for (size_t i = 0; i < reached.size(); ++i) // Grows while it is walked.
    reached[i]->walk([&](func::CallOp call) {
      if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee())) {
        calls.emplace_back(call, callee);
        if (reached.insert(callee))
          parameters[callee] = Flags(callee.getNumArguments(), true);
      }
    });
  // An argument is one until a call shows that it is not.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [call, callee] : calls)
      for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
        bool is = isParameter(operand);
        bool &known = parametersOf(callee)[i];
        if (known && !is) {
          known = false;
          changed = true;
        }
      }
  }
}

//===----------------------------------------------------------------------===//
// The reverse sweep
//===----------------------------------------------------------------------===//

/// The sum of the gradients of disjoint parts that make up a whole along one
/// dimension, put side by side; null where they are something else.
static Value joinParts(OpBuilder &builder, Location loc,
                       ArrayRef<Value> gradients) {
  struct Place {
    int64_t begin, end;
    Value value;
  };
  std::optional<int64_t> along;
  SmallVector<Place> places;
  for (Value gradient : gradients) {
    auto pad = gradient.getDefiningOp<nn::PadOp>();
    if (!pad || !pad.getValue().isZero() ||
        llvm::any_of(pad.getAllInterior(), [](int64_t n) { return n != 0; }))
      return {};
    for (auto [dim, low, high] : llvm::enumerate(pad.getLow(), pad.getHigh())) {
      if (low == 0 && high == 0)
        continue;
      if (along && *along != static_cast<int64_t>(dim))
        return {};
      along = dim;
      places.push_back(
          {low, pad.getType().getDimSize(dim) - high, pad.getInput()});
    }
  }
  // A part that is padded in no dimension is the whole.
  if (!along || places.size() != gradients.size())
    return {};
  llvm::sort(places,
             [](const Place &a, const Place &b) { return a.begin < b.begin; });
  int64_t at = 0;
  SmallVector<Value> parts;
  for (const Place &place : places) {
    if (place.begin != at)
      return {};
    at = place.end;
    parts.push_back(place.value);
  }
  if (at != tensorType(gradients[0]).getDimSize(*along))
    return {};
  return nn::ConcatenateOp::create(builder, loc, parts, *along);
}

/// Writes the gradients of the active arguments of `function`, null where
/// nothing depends on one, given those of its results (null: nothing depends on
/// it). `activationGradients` collects those of the values that are no
/// parameters and not made of parameters alone.
LogicalResult
Differentiator::sweep(func::FuncOp function, ArrayRef<bool> active,
                      ArrayRef<Value> cotangents, Collector &collector,
                      SmallVectorImpl<Value> &argumentGradients,
                      SmallVectorImpl<Value> *activationGradients) {
  Block &body = function.getBody().front();
  // Values that depend on an active argument through floats.
  llvm::DenseSet<Value> depends, activations;
  for (auto [argument, isActive] : llvm::zip(body.getArguments(), active)) {
    if (isActive)
      depends.insert(argument);
    if (!isParameter(argument))
      activations.insert(argument);
  }
  SmallVector<Operation *> forward;
  for (Operation &op : body.without_terminator()) {
    if (isa<nn::MicrobatchesOp>(op))
      return op.emitOpError(
          "cannot be differentiated; run nn-differentiate before "
          "nn-accumulate, which makes this loop");
    if (op.getNumRegions())
      return op.emitOpError(
          "has a region, expected a model of nn ops and func.call only");
    forward.push_back(&op);
    if (llvm::any_of(op.getOperands(),
                     [&](Value v) { return activations.contains(v); }))
      activations.insert(op.result_begin(), op.result_end());
    if (llvm::any_of(op.getOperands(),
                     [&](Value v) { return depends.contains(v); }))
      for (Value result : op.getResults())
        if (nn::isFloatElement(result.getType()))
          depends.insert(result);
  }

  Operation *terminator = body.getTerminator();
  OpBuilder builder(function.getContext(), &collector);
  builder.setInsertionPoint(terminator);
  llvm::DenseMap<Value, SmallVector<Value>> gradients;
  auto give = [&](Value value, Value gradient) {
    if (!gradient || !depends.contains(value))
      return;
    gradients[value].push_back(gradient);
    if (activationGradients && activations.contains(value))
      activationGradients->push_back(gradient);
  };
  auto take = [&](Value value, Location loc) {
    Value sum;
    auto it = gradients.find(value);
    if (it == gradients.end())
      return sum;
    if (Value joined = joinParts(builder, loc, it->second))
      return joined;
    nn::Emit emit(builder, loc);
    for (Value gradient : it->second)
      sum = sum ? emit.add(sum, gradient) : gradient;
    return sum;
  };
  for (auto [result, cotangent] :
       llvm::zip_equal(terminator->getOperands(), cotangents))
    give(result, cotangent);

  for (Operation *op : llvm::reverse(forward)) {
    SmallVector<Value> resultGradients;
    for (Value result : op->getResults())
      resultGradients.push_back(take(result, op->getLoc()));
    if (llvm::none_of(resultGradients, [](Value v) { return v; }))
      continue;
    // Copied: an op may be replaced while it is differentiated.
    SmallVector<Value> operands(op->getOperands());
    Flags needed = llvm::map_to_vector(
        operands, [&](Value v) { return depends.contains(v); });
    SmallVector<Value> operandGradients;
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (failed(visitCall(call, needed, resultGradients, builder,
                           operandGradients)))
        return failure();
    } else {
      if (auto attention = dyn_cast<nn::AttentionOp>(op);
          attention && !attention.getLse()) {
        // The backward needs the log-sum-exp.
        OpBuilder here(op);
        RankedTensorType query = tensorType(attention.getQuery());
        auto lse = RankedTensorType::get(
            query.getShape().drop_back(),
            nn::getStatisticsType(query.getElementType()));
        auto withLse = nn::AttentionOp::create(
            here, op->getLoc(), attention.getResult().getType(), lse,
            attention.getQuery(), attention.getKey(), attention.getValue(),
            attention.getBias(), attention.getQueryDocuments(),
            attention.getKeyDocuments(), attention.getFirstPosition(),
            attention.getCausalAttr(), attention.getWindowAttr(),
            attention.getScaleAttr());
        withLse->setDiscardableAttrs(op->getDiscardableAttrDictionary());
        attention.getResult().replaceAllUsesWith(withLse.getResult());
        op->erase();
        op = withLse;
        resultGradients.push_back(Value());
      }
      auto differentiable = dyn_cast<nn::GradientOpInterface>(op);
      if (!differentiable)
        return op->emitOpError(
            "has no gradient, but the result to be differentiated "
            "depends on its operands");
      nn::Gradients context(builder, op, resultGradients, needed);
      differentiable.buildGradient(context);
      llvm::append_range(operandGradients, context.get());
    }
    for (auto [operand, gradient] :
         llvm::zip_equal(operands, operandGradients)) {
      if (gradient && gradient.getType() != operand.getType())
        return op->emitOpError("has a gradient of type ")
               << gradient.getType() << " for an operand of type "
               << operand.getType() << "; its buildGradient is wrong";
      give(operand, gradient);
    }
  }
  for (auto [argument, isActive] : llvm::zip(body.getArguments(), active))
    argumentGradients.push_back(isActive ? take(argument, function.getLoc())
                                         : Value());
  return success();
}

LogicalResult
Differentiator::visitCall(func::CallOp call, ArrayRef<bool> needed,
                          ArrayRef<Value> resultGradients, OpBuilder &builder,
                          SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(call.getNumOperands(), Value());
  if (llvm::none_of(needed, [](bool need) { return need; }))
    return success();
  Flags given =
      llvm::map_to_vector(resultGradients, [](Value v) { return bool(v); });
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  FailureOr<Layer *> found = getLayer(callee, needed, given);
  if (failed(found))
    return failure();
  Layer &layer = **found;
  if (!layer.backward) // No result depends on an operand after all.
    return success();

  OpBuilder here(call);
  auto forward = func::CallOp::create(here, call.getLoc(), layer.forward,
                                      call.getOperands());
  unsigned results = call.getNumResults();
  SmallVector<Value> operands;
  for (LayerValue value : layer.operands) {
    switch (value.kind) {
    case LayerValue::Argument:
      operands.push_back(call.getOperand(value.index));
      break;
    case LayerValue::Result:
      operands.push_back(forward.getResult(value.index));
      break;
    case LayerValue::Kept:
      operands.push_back(forward.getResult(results + value.index));
      break;
    case LayerValue::Cotangent:
      operands.push_back(resultGradients[value.index]);
      break;
    case LayerValue::Handed:
      llvm_unreachable("a backward is handed nothing");
    }
  }
  auto backward =
      func::CallOp::create(builder, call.getLoc(), layer.backward, operands);
  for (auto [result, argument] :
       llvm::zip_equal(backward.getResults(), layer.results))
    operandGradients[argument] = result;
  call->replaceAllUsesWith(forward.getResults().take_front(results));
  call->erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

FailureOr<Layer *> Differentiator::getLayer(func::FuncOp function,
                                            ArrayRef<bool> needed,
                                            ArrayRef<bool> cotangents) {
  auto key = std::make_tuple(
      function.getOperation(), std::vector<bool>(needed.begin(), needed.end()),
      std::vector<bool>(cotangents.begin(), cotangents.end()));
  auto it = layers.find(key);
  if (it == layers.end()) {
    Layer layer;
    if (failed(buildLayer(function, needed, cotangents, layer)))
      return failure();
    it = layers.emplace(key, layer).first;
  }
  return &it->second;
}

/// The ops of `among` on which `values` depend.
static llvm::SetVector<Operation *>
sliceOf(ArrayRef<Value> values, const llvm::SetVector<Operation *> &among) {
  llvm::SetVector<Operation *> slice;
  auto add = [&](Value value) {
    if (Operation *op = value.getDefiningOp(); op && among.contains(op))
      slice.insert(op);
  };
  llvm::for_each(values, add);
  for (size_t i = 0; i < slice.size(); ++i) // Grows while it is walked.
    llvm::for_each(slice[i]->getOperands(), add);
  return slice;
}

/// `ops` in block order.
static SmallVector<Operation *>
inOrder(const llvm::SetVector<Operation *> &ops) {
  SmallVector<Operation *> sorted(ops.begin(), ops.end());
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

LogicalResult Differentiator::buildLayer(func::FuncOp function,
                                         ArrayRef<bool> needed,
                                         ArrayRef<bool> given, Layer &layer) {
  // The copy stays outside of the module.
  OwningOpRef<func::FuncOp> owner(function.clone());
  func::FuncOp copy = *owner;
  if (failed(inlineCalls(copy, symbols)))
    return failure();
  Block &body = copy.getBody().front();
  unsigned arguments = body.getNumArguments();
  SmallVector<Value> results(body.getTerminator()->getOperands());
  SmallVector<Value> cotangents;
  SmallVector<unsigned> cotangentOf; // by argument behind those of the layer
  for (auto [i, result] : llvm::enumerate(results)) {
    cotangents.push_back(
        given[i] ? body.addArgument(result.getType(), result.getLoc())
                 : Value());
    if (given[i])
      cotangentOf.push_back(i);
  }
  // The calls within are looked up by flags of the original's arguments.
  Flags isParam = parametersOf(function);
  isParam.append(cotangentOf.size(), false);
  parameters[copy] = isParam;
  Collector collector;
  SmallVector<Value> gradients;
  LogicalResult swept = sweep(copy, needed, cotangents, collector, gradients);
  parameters.erase(copy);
  if (failed(swept))
    return failure();
  results.assign(body.getTerminator()->operand_begin(),
                 body.getTerminator()->operand_end());

  StringRef name = function.getName();
  LayerBlock block{arguments,
                   cotangentOf,
                   results,
                   {},
                   {},
                   {},
                   (name + "_backward").str(),
                   (name + "_input_gradient").str(),
                   (name + "_weight_gradient").str(),
                   function.getLoc()};
  SmallVector<Value> inputGradients, allGradients;
  for (unsigned i = 0; i < arguments; ++i)
    if (gradients[i]) {
      (isParam[i] ? block.parameterGradients : block.inputGradients)
          .emplace_back(i, gradients[i]);
      allGradients.push_back(gradients[i]);
      if (!isParam[i])
        inputGradients.push_back(gradients[i]);
    }
  if (allGradients.empty())
    return success();

  // Cut the gradient ops: what input gradients need, and the rest.
  llvm::SetVector<Operation *> forInputs =
      sliceOf(inputGradients, collector.ops);
  block.gradientOps = inOrder(sliceOf(allGradients, collector.ops));
  for (Operation *op : block.gradientOps)
    setRole(op, forInputs.contains(op) ? "input_gradient" : "weight_gradient");
  for (Operation &op : body.without_terminator())
    if (!collector.ops.contains(&op))
      setRole(&op, "forward");

  SmallVector<Value> kept;
  LayerSet set =
      makeGradientFunctions(symbols, block, [](Value) { return false; }, kept);
  layer.backward = set.backward;
  auto operandsOf = readLayerValues(set.backward, kOperandsAttr);
  auto resultsOf = readLayerValues(set.backward, kResultsAttr);
  if (failed(operandsOf) || failed(resultsOf))
    return failure();
  layer.operands = *operandsOf;
  for (LayerValue value : *resultsOf)
    layer.results.push_back(value.index);

  // The forward function: the copy without gradients.
  SmallVector<Value> outputs(results);
  llvm::append_range(outputs, kept);
  Part forward = completePart(
      {}, outputs, [](Value value) { return bool(value.getDefiningOp()); });
  layer.forward = set.forward = makeFunction(
      symbols, (name + "_forward").str(), function.getLoc(), forward,
      llvm::to_vector_of<Value>(body.getArguments().take_front(arguments)),
      outputs);
  for (unsigned i = 0; i < arguments; ++i)
    if (DictionaryAttr attributes = function.getArgAttrDict(i))
      layer.forward.setArgAttrs(i, attributes);
  linkLayerSet(set, function.getSymNameAttr());
  return success();
}

//===----------------------------------------------------------------------===//
// Entry functions
//===----------------------------------------------------------------------===//

LogicalResult Differentiator::differentiate(func::FuncOp function) {
  MLIRContext *context = function.getContext();
  std::string name = (function.getName() + "_gradient").str();
  if (Operation *other = symbols.lookup(name)) {
    InFlightDiagnostic error =
        function.emitOpError("cannot be differentiated: there is a @")
        << name << " already";
    error.attachNote(other->getLoc()) << "here; rename or remove it";
    return error;
  }
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (nn::isFloatElement(type) && !nn::isStaticTensor(type))
      return function.emitOpError("cannot be differentiated: argument ")
             << i << " has the type " << type
             << ", expected static dimensions of at least 1 and at most 2^59 "
                "elements";
  OwningOpRef<func::FuncOp> owner(function.clone());
  func::FuncOp copy = *owner;
  copy.setName(name);
  if (failed(inlineCalls(copy, symbols)))
    return failure();
  Block &body = copy.getBody().front();
  Operation *terminator = body.getTerminator();

  Flags active, isParam = parametersOf(function);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto param = function.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr);
    active.push_back(nn::isFloatElement(function.getArgumentTypes()[i]) &&
                     !(param && param.getFrozen()));
  }
  SmallVector<Value> cotangents;
  SmallVector<DictionaryAttr> argumentAttributes;
  function.getAllArgAttrs(argumentAttributes);
  for (Value result : terminator->getOperands()) {
    bool isFloat = nn::isFloatElement(result.getType());
    cotangents.push_back(
        isFloat ? body.addArgument(result.getType(), result.getLoc())
                : Value());
    if (isFloat)
      argumentAttributes.push_back(DictionaryAttr::get(context));
  }

  parameters[copy] = isParam;
  parameters[copy].resize(body.getNumArguments(), false);
  Collector collector;
  SmallVector<Value> gradients, inputs;
  LogicalResult swept =
      sweep(copy, active, cotangents, collector, gradients, &inputs);
  parameters.erase(copy);
  if (failed(swept))
    return failure();

  OpBuilder builder(context, &collector);
  builder.setInsertionPoint(terminator);
  SmallVector<Value> results;
  SmallVector<Attribute> resultAttributes;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (!active[i])
      continue;
    if (!gradients[i])
      gradients[i] = nn::ConstantOp::create(
          builder, function.getLoc(), tensorType(body.getArgument(i)), 0.0);
    results.push_back(gradients[i]);
    NamedAttrList attributes;
    if (auto param =
            function.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr))
      attributes.set(nn::kResultAttr,
                     builder.getArrayAttr(
                         {builder.getStringAttr("gradient"), param.getName()}));
    resultAttributes.push_back(attributes.getDictionary(context));
  }
  // Everything leads to gradients of parameters here. What counts is whether an
  // op is on the way to an earlier op of the model, which waits for it.
  llvm::SetVector<Operation *> forInputs = sliceOf(inputs, collector.ops);
  for (Operation &op : body.without_terminator())
    setRole(&op, !collector.ops.contains(&op) ? "forward"
                 : forInputs.contains(&op)    ? "input_gradient"
                                              : "weight_gradient");
  func::ReturnOp::create(builder, terminator->getLoc(), results);
  terminator->erase();
  eraseUnused(body);
  copy.setFunctionType(FunctionType::get(context, body.getArgumentTypes(),
                                         ValueRange(results).getTypes()));
  copy.setArgAttrsAttr({});
  copy.setResAttrsAttr({});
  copy.setAllArgAttrs(argumentAttributes);
  copy.setAllResultAttrs(resultAttributes);
  symbols.insert(owner.release());
  return success();
}

namespace {
struct NNDifferentiate : sheaf::impl::NNDifferentiateBase<NNDifferentiate> {
  using NNDifferentiateBase::NNDifferentiateBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    SmallVector<std::string> names(functions.begin(), functions.end());
    if (names.empty())
      names.push_back("loss");
    SmallVector<func::FuncOp> roots;
    for (StringRef name : names) {
      auto function = module.lookupSymbol<func::FuncOp>(name);
      if (!function || function.isDeclaration()) {
        SmallVector<StringRef> known;
        for (auto other : module.getOps<func::FuncOp>())
          if (other.isPublic() && !other.isDeclaration())
            known.push_back(other.getName());
        emitError(module.getLoc())
            << "nn-differentiate: option 'functions' names '" << name
            << "', which is no function with a body; the module has "
            << (known.empty() ? "none" : llvm::join(known, ", "));
        return signalPassFailure();
      }
      if (llvm::is_contained(roots, function)) {
        emitError(module.getLoc())
            << "nn-differentiate: option 'functions' names '" << name
            << "' twice";
        return signalPassFailure();
      }
      roots.push_back(function);
    }
    Differentiator differentiator(module);
    differentiator.findParameters(roots);
    for (func::FuncOp function : roots)
      if (failed(differentiator.differentiate(function)))
        return signalPassFailure();
  }
};
} // namespace
