//===- LayerFunctions.cpp - The functions made of a layer -----------------===//

#include "passes/autodiff/LayerFunctions.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace sheaf;

static constexpr StringLiteral kKindNames[] = {"argument", "result", "kept",
                                               "cotangent", "handed"};

std::string LayerValue::str() const {
  return (kKindNames[kind] + " " + Twine(index)).str();
}

std::optional<LayerValue> LayerValue::parse(StringRef text) {
  auto [name, number] = text.split(' ');
  LayerValue value;
  const auto *found = llvm::find(kKindNames, name);
  if (found == std::end(kKindNames) || number.getAsInteger(10, value.index))
    return std::nullopt;
  value.kind = static_cast<Kind>(found - std::begin(kKindNames));
  return value;
}

ArrayAttr sheaf::getLayerValuesAttr(MLIRContext *context,
                                    ArrayRef<LayerValue> values) {
  Builder builder(context);
  return builder.getArrayAttr(
      llvm::map_to_vector(values, [&](LayerValue value) -> Attribute {
        return builder.getStringAttr(value.str());
      }));
}

FailureOr<SmallVector<LayerValue>> sheaf::readLayerValues(func::FuncOp function,
                                                          StringRef attribute) {
  SmallVector<LayerValue> values;
  auto list = function->getAttrOfType<ArrayAttr>(attribute);
  size_t count = attribute == kOperandsAttr ? function.getNumArguments()
                                            : function.getNumResults();
  if (!list || list.size() != count)
    return function.emitOpError("has ")
           << attribute << " = " << function->getAttr(attribute)
           << ", expected a list of " << count
           << ", as nn-differentiate writes it";
  for (Attribute item : list) {
    auto text = dyn_cast<StringAttr>(item);
    std::optional<LayerValue> value =
        text ? LayerValue::parse(text) : std::nullopt;
    if (!value)
      return function.emitOpError("has ")
             << item << " in " << attribute
             << ", expected for instance \"kept 0\"";
    values.push_back(*value);
  }
  return values;
}

FailureOr<LayerSet> sheaf::readLayerSet(func::FuncOp backward,
                                        SymbolTable &symbols) {
  LayerSet set;
  set.backward = backward;
  for (auto [attribute, function] :
       {std::pair<StringRef, func::FuncOp *>{kForwardAttr, &set.forward},
        {kInputGradientAttr, &set.inputGradient},
        {kWeightGradientAttr, &set.weightGradient}})
    if (auto name = backward->getAttrOfType<StringAttr>(attribute))
      *function = symbols.lookup<func::FuncOp>(name);
  if (!set.forward || bool(set.inputGradient) != bool(set.weightGradient))
    return backward.emitOpError("names the functions ")
           << backward->getAttr(kForwardAttr) << ", "
           << backward->getAttr(kInputGradientAttr) << " and "
           << backward->getAttr(kWeightGradientAttr)
           << ", expected the first, and both or none of the others, in the "
              "module";
  return set;
}

/// Whether everything that `value` is made of by moving elements is an argument
/// or a constant.
static bool movesArgument(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return true;
  if (isa<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp, nn::SliceOp>(op))
    return movesArgument(op->getOperand(0));
  return isa<nn::ConstantOp, nn::IotaOp>(op);
}

bool sheaf::isRebuilt(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<nn::ConstantOp, nn::IotaOp, nn::ReshapeOp, nn::TransposeOp,
          nn::BroadcastOp>(op))
    return true;
  // A slice of an argument; the source of any other may be much larger than it.
  if (isa<nn::SliceOp>(op))
    return movesArgument(op->getOperand(0));
  if (auto cast = dyn_cast<nn::CastOp>(op))
    return cast.getInput().getType().getElementTypeBitWidth() <
           cast.getType().getElementTypeBitWidth();
  return false;
}

Part sheaf::completePart(ArrayRef<Operation *> ops, ArrayRef<Value> outputs,
                         function_ref<bool(Value)> rebuild) {
  llvm::SetVector<Operation *> chosen(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  auto read = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && chosen.contains(op))
      return;
    if (op && rebuild(value))
      chosen.insert(op);
    else
      inputs.insert(value);
  };
  for (Value output : outputs)
    read(output);
  for (size_t i = 0; i < chosen.size(); ++i) // Grows while it is walked.
    for (Value operand : chosen[i]->getOperands())
      read(operand);
  Part part;
  part.ops = chosen.takeVector();
  llvm::sort(part.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  // A value may have been read before the op that defines it was chosen.
  llvm::SmallPtrSet<Operation *, 32> inside(part.ops.begin(), part.ops.end());
  for (Value value : inputs)
    if (!value.getDefiningOp() || !inside.contains(value.getDefiningOp()))
      part.inputs.push_back(value);
  llvm::sort(part.inputs, [](Value a, Value b) {
    Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
    if (x != y)
      return x && y ? x->isBeforeInBlock(y) : !x;
    if (x)
      return cast<OpResult>(a).getResultNumber() <
             cast<OpResult>(b).getResultNumber();
    return cast<BlockArgument>(a).getArgNumber() <
           cast<BlockArgument>(b).getArgNumber();
  });
  return part;
}

func::FuncOp sheaf::makeFunction(SymbolTable &symbols, StringRef name,
                                 Location loc, const Part &part,
                                 ArrayRef<Value> inputs,
                                 ArrayRef<Value> outputs) {
  auto type = FunctionType::get(loc.getContext(), ValueRange(inputs).getTypes(),
                                ValueRange(outputs).getTypes());
  auto function = func::FuncOp::create(loc, name, type);
  function.setPrivate();
  function.setNoInline(true); // A layer stays a function.
  Block *body = function.addEntryBlock();
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  IRMapping mapping;
  mapping.map(inputs, body->getArguments());
  for (auto [input, argument] : llvm::zip_equal(inputs, body->getArguments()))
    argument.setLoc(input.getLoc());
  for (Operation *op : part.ops)
    builder.clone(*op, mapping);
  func::ReturnOp::create(builder, loc,
                         llvm::map_to_vector(outputs, [&](Value value) {
                           return mapping.lookup(value);
                         }));
  symbols.insert(function);
  return function;
}

namespace {
/// Says what the values of a LayerBlock are, and numbers those to be kept.
struct LayerNames {
  const LayerBlock &layer;
  SmallVectorImpl<Value> &kept;

  static std::optional<unsigned> positionIn(ArrayRef<Value> values,
                                            Value value) {
    const Value *found = llvm::find(values, value);
    return found == values.end()
               ? std::nullopt
               : std::optional<unsigned>(found - values.begin());
  }

  LayerValue describe(Value value, ArrayRef<Value> handed) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned number = argument.getArgNumber();
      if (number < layer.arguments)
        return {LayerValue::Argument, number};
      return {LayerValue::Cotangent,
              layer.cotangentOf[number - layer.arguments]};
    }
    if (auto index = positionIn(handed, value))
      return {LayerValue::Handed, *index};
    if (auto index = positionIn(layer.results, value))
      return {LayerValue::Result, *index};
    auto index = positionIn(kept, value);
    if (!index) {
      index = kept.size();
      kept.push_back(value);
    }
    return {LayerValue::Kept, *index};
  }

  /// Puts the inputs of `part` in the order in which operands stand, and says
  /// what each is.
  SmallVector<LayerValue> order(Part &part, ArrayRef<Value> handed) {
    SmallVector<std::pair<LayerValue, Value>> inputs;
    for (Value value : part.inputs)
      inputs.emplace_back(describe(value, handed), value);
    llvm::stable_sort(inputs, [](const auto &a, const auto &b) {
      return std::make_pair(a.first.kind, a.first.index) <
             std::make_pair(b.first.kind, b.first.index);
    });
    SmallVector<LayerValue> values;
    part.inputs.clear();
    for (auto [what, value] : inputs) {
      values.push_back(what);
      part.inputs.push_back(value);
    }
    return values;
  }
};
} // namespace

LayerSet sheaf::makeGradientFunctions(SymbolTable &symbols,
                                      const LayerBlock &layer,
                                      function_ref<bool(Value)> recompute,
                                      SmallVectorImpl<Value> &kept) {
  MLIRContext *context = layer.loc.getContext();
  LayerNames names{layer, kept};
  auto rebuild = [&](Value value) {
    return isRebuilt(value) || recompute(value);
  };
  SmallVector<Value> inputOutputs, parameterOutputs;
  SmallVector<LayerValue> inputResults, parameterResults;
  for (auto [argument, gradient] : layer.inputGradients) {
    inputOutputs.push_back(gradient);
    inputResults.push_back({LayerValue::Argument, argument});
  }
  for (auto [argument, gradient] : layer.parameterGradients) {
    parameterOutputs.push_back(gradient);
    parameterResults.push_back({LayerValue::Argument, argument});
  }
  SmallVector<Value> outputs(inputOutputs);
  llvm::append_range(outputs, parameterOutputs);
  SmallVector<LayerValue> results(inputResults);
  llvm::append_range(results, parameterResults);

  SmallVector<Operation *> inputOps, weightOps;
  for (Operation *op : layer.gradientOps) {
    auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
    (role && role.getValue() == "weight_gradient" ? weightOps : inputOps)
        .push_back(op);
  }
  llvm::SmallPtrSet<Operation *, 32> inFirst(inputOps.begin(), inputOps.end());

  Part backward = completePart(layer.gradientOps, outputs, rebuild);
  SmallVector<LayerValue> backwardOperands = names.order(backward, {});
  // What the second part reads of the first is handed over, unless it is only
  // moved or constant; so is what the first computes again.
  Part weight = completePart(weightOps, parameterOutputs);
  SmallVector<Value> handed;
  for (Value value : weight.inputs)
    if (Operation *op = value.getDefiningOp())
      if (inFirst.contains(op) ||
          (recompute(value) && !llvm::is_contained(kept, value)))
        handed.push_back(value);
  llvm::append_range(inputOutputs, handed);
  for (unsigned i = 0; i < handed.size(); ++i)
    inputResults.push_back({LayerValue::Handed, i});
  Part input = completePart(inputOps, inputOutputs, rebuild);
  SmallVector<LayerValue> inputOperands = names.order(input, {});
  SmallVector<LayerValue> weightOperands = names.order(weight, handed);

  auto make = [&](StringRef name, const Part &part, ArrayRef<Value> values,
                  ArrayRef<LayerValue> operands, ArrayRef<LayerValue> what) {
    func::FuncOp made =
        makeFunction(symbols, name, layer.loc, part, part.inputs, values);
    made->setAttr(nn::kLayerAttr, UnitAttr::get(context));
    made->setAttr(kOperandsAttr, getLayerValuesAttr(context, operands));
    made->setAttr(kResultsAttr, getLayerValuesAttr(context, what));
    return made;
  };
  LayerSet set;
  set.backward =
      make(layer.backwardName, backward, outputs, backwardOperands, results);
  set.inputGradient = make(layer.inputGradientName, input, inputOutputs,
                           inputOperands, inputResults);
  set.weightGradient = make(layer.weightGradientName, weight, parameterOutputs,
                            weightOperands, parameterResults);
  return set;
}

void sheaf::linkLayerSet(const LayerSet &set, StringAttr layer) {
  set.forward->setAttr(nn::kLayerAttr, UnitAttr::get(layer.getContext()));
  set.forward->setAttr(kForwardOfAttr, layer);
  func::FuncOp backward = set.backward, forward = set.forward,
               input = set.inputGradient, weight = set.weightGradient;
  backward->setAttr(kForwardAttr, forward.getSymNameAttr());
  backward->setAttr(kInputGradientAttr, input.getSymNameAttr());
  backward->setAttr(kWeightGradientAttr, weight.getSymNameAttr());
}

/// Checks, from `function` on, that every callee is there, has one block, and
/// does not reach itself. `path` holds the functions on the way.
static LogicalResult checkCalls(func::FuncOp function, SymbolTable &symbols,
                                llvm::SetVector<Operation *> &path,
                                llvm::SmallPtrSetImpl<Operation *> &done) {
  if (done.contains(function))
    return success();
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError("has ")
           << function.getBody().getBlocks().size() << " blocks, expected one";
  path.insert(function);
  for (auto call : function.getBody().front().getOps<func::CallOp>()) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || callee.isDeclaration())
      return call.emitOpError("calls @")
             << call.getCallee()
             << ", which has no body; define it in this module";
    if (path.contains(callee))
      return call.emitOpError("calls @")
             << call.getCallee()
             << " from within it; a function that calls itself cannot "
                "be taken apart";
    if (failed(checkCalls(callee, symbols, path, done)))
      return failure();
  }
  path.pop_back();
  done.insert(function);
  return success();
}

LogicalResult sheaf::inlineCalls(func::FuncOp function, SymbolTable &symbols) {
  llvm::SetVector<Operation *> path;
  llvm::SmallPtrSet<Operation *, 16> done;
  if (failed(checkCalls(function, symbols, path, done)))
    return failure();
  for (Operation *op = &function.getBody().front().front(); op;) {
    Operation *next = op->getNextNode();
    auto call = dyn_cast<func::CallOp>(op);
    auto callee =
        call ? symbols.lookup<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (callee && !callee->hasAttr(nn::kLayerAttr)) {
      OpBuilder builder(call);
      IRMapping mapping;
      mapping.map(callee.getArguments(), call.getOperands());
      Operation *first = nullptr;
      for (Operation &inner : callee.getBody().front().without_terminator()) {
        Operation *copy = builder.clone(inner, mapping);
        first = first ? first : copy;
      }
      SmallVector<Value> results;
      for (Value value :
           callee.getBody().front().getTerminator()->getOperands())
        results.push_back(mapping.lookup(value));
      call->replaceAllUsesWith(results);
      call->erase();
      next = first ? first : next; // What came in may call, too.
    }
    op = next;
  }
  return success();
}

void sheaf::eraseUnused(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>() &&
        (isa<func::CallOp>(op) || isMemoryEffectFree(&op)))
      op.erase();
}

void sheaf::setRole(Operation *op, StringRef role) {
  op->setAttr(nn::kRoleAttr, StringAttr::get(op->getContext(), role));
}
