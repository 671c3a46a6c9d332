//===- Accumulate.cpp - Loss and gradients of a whole step ----------------===//
//
// The gradient function holds the forward already; the ops of the loss function
// are put beside it, and those that it has are found again, so that nothing is
// computed twice.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/step/Batch.h"
#include "passes/step/Passes.h"
#include "support/Divisors.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace sheaf {
#define GEN_PASS_DEF_NNACCUMULATE
#include "passes/step/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

/// On a result of the loss: how much of it is added to what is differentiated.
static constexpr llvm::StringLiteral kWeightAttr = "nn.weight";

namespace {
struct NNAccumulate : sheaf::impl::NNAccumulateBase<NNAccumulate> {
  using NNAccumulateBase::NNAccumulateBase;

  void runOnOperation() final {
    SymbolTable symbols(getOperation());
    if (failed(accumulate(symbols)))
      signalPassFailure();
  }

private:
  LogicalResult accumulate(SymbolTable &symbols);
  LogicalResult checkBatch(func::FuncOp loss);
  LogicalResult checkLosses(func::FuncOp loss, func::FuncOp gradient);
  LogicalResult addLoss(func::FuncOp body, func::FuncOp loss,
                        SymbolTable &symbols, SmallVector<Value> &values);
  LogicalResult addCounts(func::FuncOp body, OpBuilder &prologue,
                          const IRMapping &arguments,
                          llvm::DenseMap<Operation *, Value> &counts);
  FailureOr<SmallVector<func::FuncOp>> separateCallees(func::FuncOp body,
                                                       func::FuncOp gradient,
                                                       SymbolTable &symbols);

  /// The arguments that hold a part of the batch.
  SmallVector<unsigned> batch;
  int64_t samples = 0;
};

SmallVector<int64_t> allDims(Value value) {
  return llvm::to_vector(llvm::seq<int64_t>(tensorType(value).getRank()));
}

/// Gives the ops that a builder makes a role.
struct RoleSetter : OpBuilder::Listener {
  explicit RoleSetter(StringRef role) : role(role) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) final {
    if (!op->hasTrait<OpTrait::IsTerminator>() && !isa<nn::MicrobatchesOp>(op))
      setRole(op, role);
  }
  StringRef role;
};
} // namespace

/// Whether `gradient` computes the results of `op`, which has the operands, and
/// may have more results.
static bool computesSame(Operation *op, Operation *gradient,
                         SymbolTable &symbols) {
  if (op->getName() != gradient->getName() ||
      !llvm::equal(op->getOperands(), gradient->getOperands()))
    return false;
  if (auto call = dyn_cast<func::CallOp>(op)) {
    StringRef name = cast<func::CallOp>(gradient).getCallee();
    if (name == call.getCallee())
      return true;
    auto callee = symbols.lookup<func::FuncOp>(name);
    auto layer = callee ? callee->getAttrOfType<StringAttr>(kForwardOfAttr)
                        : StringAttr();
    return layer && layer.getValue() == call.getCallee();
  }
  if (auto a = dyn_cast<nn::AttentionOp>(op)) {
    auto b = cast<nn::AttentionOp>(gradient);
    return a.getProperties().operandSegmentSizes ==
               b.getProperties().operandSegmentSizes &&
           a.getCausal() == b.getCausal() && a.getWindow() == b.getWindow() &&
           a.getScale() == b.getScale() &&
           op->getNumResults() <= gradient->getNumResults();
  }
  return OperationEquivalence::isEquivalentTo(
      op, gradient, OperationEquivalence::exactValueMatch, nullptr,
      OperationEquivalence::IgnoreLocations |
          OperationEquivalence::IgnoreDiscardableAttrs);
}

/// Adds to `body`, made of the gradient function, what is missing of the loss.
LogicalResult NNAccumulate::addLoss(func::FuncOp body, func::FuncOp loss,
                                    SymbolTable &symbols,
                                    SmallVector<Value> &values) {
  OwningOpRef<func::FuncOp> owner(loss.clone());
  func::FuncOp copy = *owner;
  if (failed(inlineCalls(copy, symbols)))
    return failure();
  Block &block = body.getBody().front();
  llvm::DenseMap<std::pair<OperationName, unsigned>, SmallVector<Operation *>>
      known;
  auto keyOf = [](Operation *op) {
    size_t hash = 0;
    for (Value operand : op->getOperands())
      hash = llvm::hash_combine(hash, operand.getAsOpaquePointer());
    return std::make_pair(op->getName(), static_cast<unsigned>(hash));
  };
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    // Where gradients begin is no other 1: it may be scaled.
    if (op.hasAttr(kSeedAttr))
      continue;
    // Equal values are made one, so that what reads them is found by its
    // operands.
    SmallVector<Operation *> &candidates = known[keyOf(&op)];
    auto found = llvm::find_if(candidates, [&](Operation *candidate) {
      return isMemoryEffectFree(&op) &&
             op.getNumResults() == candidate->getNumResults() &&
             computesSame(&op, candidate, symbols);
    });
    if (found == candidates.end()) {
      candidates.push_back(&op);
      continue;
    }
    op.replaceAllUsesWith(*found);
    op.erase();
  }

  OpBuilder builder(block.getTerminator());
  IRMapping mapping;
  mapping.map(copy.getArguments(),
              body.getArguments().take_front(copy.getNumArguments()));
  for (Operation &op : copy.getBody().front().without_terminator()) {
    Operation *added = builder.clone(op, mapping);
    SmallVector<Operation *> &candidates = known[keyOf(added)];
    auto found = llvm::find_if(candidates, [&](Operation *candidate) {
      return computesSame(added, candidate, symbols);
    });
    if (found == candidates.end()) {
      setRole(added, "forward");
      candidates.push_back(added);
      continue;
    }
    for (auto [from, to] : llvm::zip(op.getResults(), (*found)->getResults()))
      mapping.map(from, to);
    added->erase();
  }
  for (Value result : copy.getBody().front().getTerminator()->getOperands())
    values.push_back(mapping.lookup(result));
  return success();
}

/// Computes in the prologue, on the whole batch, the sums of weights that
/// `body` reads. `arguments` maps its arguments.
LogicalResult
NNAccumulate::addCounts(func::FuncOp body, OpBuilder &prologue,
                        const IRMapping &arguments,
                        llvm::DenseMap<Operation *, Value> &counts) {
  llvm::DenseMap<std::pair<Value, Type>, Value> known;
  IRMapping mapping = arguments;
  for (Operation &op : body.getBody().front()) {
    Value weights, result;
    if (auto mean = dyn_cast<nn::StepMeanOp>(op)) {
      weights = mean.getWeights();
      result = mean.getResult();
    } else if (auto sum = dyn_cast<nn::StepSumOp>(op)) {
      weights = sum.getWeights();
      result = sum.getResult();
    } else {
      continue;
    }
    Part part = completePart(
        {}, weights, [](Value value) { return bool(value.getDefiningOp()); });
    for (Value input : part.inputs)
      if (!llvm::is_contained(batch, cast<BlockArgument>(input).getArgNumber()))
        return op.emitOpError("has weights that depend on argument ")
               << cast<BlockArgument>(input).getArgNumber()
               << " of the loss; they may depend on batch arguments (nn.batch) "
                  "alone, so that "
                  "their sum is known before the first microbatch";
    for (Operation *inner : part.ops) {
      if (isa<func::CallOp>(inner))
        return inner->emitOpError(
            "computes weights of nn.step_mean in a layer; compute them "
            "in the function that takes the mean");
      if (!mapping.contains(inner->getResult(0)))
        prologue.clone(*inner, mapping);
    }
    Type element = nn::getStatisticsType(tensorType(result).getElementType());
    Value &count = known[{weights, element}];
    if (!count) {
      nn::Emit emit(prologue, op.getLoc());
      Value whole = emit.cast(mapping.lookup(weights), element);
      count = emit.sum(whole, allDims(whole));
    }
    counts[&op] = count;
  }
  return success();
}

/// The functions that `body` calls, directly or not, with the parts that may be
/// called in their place. Those that others reach, too, are copied first.
FailureOr<SmallVector<func::FuncOp>>
NNAccumulate::separateCallees(func::FuncOp body, func::FuncOp gradient,
                              SymbolTable &symbols) {
  auto reach = [&](ArrayRef<func::FuncOp> roots) {
    llvm::SetVector<Operation *> reached;
    auto add = [&](StringRef name) {
      if (auto function = symbols.lookup<func::FuncOp>(name))
        reached.insert(function);
    };
    auto follow = [&](func::FuncOp function) {
      function.walk([&](func::CallOp call) { add(call.getCallee()); });
      for (StringRef attribute :
           {kForwardAttr, kInputGradientAttr, kWeightGradientAttr})
        if (auto name = function->getAttrOfType<StringAttr>(attribute))
          add(name.getValue());
    };
    for (func::FuncOp root : roots)
      follow(root);
    for (size_t i = 0; i < reached.size(); ++i) // Grows while it is walked.
      follow(cast<func::FuncOp>(reached[i]));
    return reached;
  };
  llvm::SetVector<Operation *> mine = reach(body);
  SmallVector<func::FuncOp> others;
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (function != gradient && function.isPublic())
      others.push_back(function);
  llvm::SetVector<Operation *> theirs = reach(others);

  llvm::StringMap<StringAttr> renamed;
  SmallVector<func::FuncOp> result;
  for (Operation *op : mine) {
    auto function = cast<func::FuncOp>(op);
    for (auto call : function.getBody().front().getOps<func::CallOp>()) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || callee.isDeclaration())
        return call.emitOpError("calls @")
               << call.getCallee() << ", which has no body";
    }
    if (!theirs.contains(op)) {
      result.push_back(function);
      continue;
    }
    func::FuncOp copy = function.clone();
    copy.setName((function.getName() + "_microbatch").str());
    renamed[function.getName()] = symbols.insert(copy);
    result.push_back(copy);
  }
  auto rename = [&](func::FuncOp function) {
    function.walk([&](func::CallOp call) {
      if (auto it = renamed.find(call.getCallee()); it != renamed.end())
        call.setCallee(it->second);
    });
    for (StringRef attribute :
         {kForwardAttr, kInputGradientAttr, kWeightGradientAttr})
      if (auto name = function->getAttrOfType<StringAttr>(attribute))
        if (auto it = renamed.find(name.getValue()); it != renamed.end())
          function->setAttr(attribute, it->second);
  };
  rename(body);
  llvm::for_each(result, rename);
  return result;
}

LogicalResult NNAccumulate::checkBatch(func::FuncOp loss) {
  int64_t count = microbatches;
  for (unsigned i = 0; i < loss.getNumArguments(); ++i) {
    if (!loss.getArgAttr(i, nn::kBatchAttr))
      continue;
    int64_t here = tensorType(loss.getArgument(i)).getDimSize(0);
    if (batch.empty())
      samples = here;
    else if (here != samples)
      return loss.emitOpError("argument ")
             << i << " has " << here << " samples and argument " << batch[0]
             << " has " << samples << ", expected the same";
    batch.push_back(i);
  }
  if (microbatches < 1)
    return loss.emitOpError("cannot run in ")
           << count << " microbatches, expected at least 1";
  if (microbatches > 1 && batch.empty())
    return loss.emitOpError("has no batch argument (nn.batch) to cut into ")
           << count << " microbatches";
  if (microbatches > 1 && samples % microbatches)
    return loss.emitOpError("has a batch of ")
           << samples << " samples, which " << count
           << " microbatches do not divide; the nearest that fit: "
           << nearestDivisors(samples, microbatches);
  return success();
}

/// A function of losses has the loss of tokens, and what else is logged.
LogicalResult NNAccumulate::checkLosses(func::FuncOp loss,
                                        func::FuncOp gradient) {
  auto isLoss = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 0 && nn::isFloatElement(type);
  };
  if (loss.getNumResults() == 0 || !llvm::all_of(loss.getResultTypes(), isLoss))
    return loss.emitOpError("has results of types (")
           << loss.getResultTypes()
           << "), expected scalars: the loss, and others that are logged";
  if (gradient.getNumArguments() !=
      loss.getNumArguments() + loss.getNumResults())
    return gradient.emitOpError("has ")
           << gradient.getNumArguments() << " arguments, expected those of @"
           << function << " and a cotangent for each result";
  llvm::StringSet<> names{"loss", "grad_norm", "learning_rate"};
  for (unsigned i = 1; i < loss.getNumResults(); ++i) {
    auto what = loss.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr);
    if (!what || what.size() != 2 ||
        what[0] != StringAttr::get(&getContext(), "result") ||
        !isa<StringAttr>(what[1]))
      return loss.emitOpError("result ")
             << i << " has no name, expected nn.result = [\"result\", "
             << "\"name in the log\"]";
    if (!names.insert(cast<StringAttr>(what[1]).getValue()).second)
      return loss.emitOpError("result ")
             << i << " has the name " << what[1]
             << ", which another result has; give it one of its own";
    Attribute weight = loss.getResultAttr(i, kWeightAttr);
    auto number = dyn_cast_or_null<FloatAttr>(weight);
    if (weight && (!number || !number.getValue().isFinite()))
      return loss.emitOpError("result ")
             << i << " has " << kWeightAttr << " = " << weight
             << ", expected a finite number";
  }
  return success();
}

LogicalResult NNAccumulate::accumulate(SymbolTable &symbols) {
  MLIRContext *context = &getContext();
  auto loss = symbols.lookup<func::FuncOp>(function);
  if (!loss || loss.isDeclaration())
    return emitError(getOperation().getLoc())
           << "nn-accumulate: option 'function' names '" << function
           << "', which is no function with a body";
  auto gradient = symbols.lookup<func::FuncOp>(function + "_gradient");
  if (!gradient)
    return loss.emitOpError("has no @")
           << function << "_gradient; run nn-differentiate before";
  if (Operation *other = symbols.lookup("gradients")) {
    InFlightDiagnostic error =
        loss.emitOpError("cannot be accumulated: there is a @gradients "
                         "already");
    error.attachNote(other->getLoc()) << "here";
    return error;
  }
  if (failed(checkLosses(loss, gradient)) || failed(checkBatch(loss)))
    return failure();

  // One body with the loss and the gradients of the trained parameters.
  OwningOpRef<func::FuncOp> owner(gradient.clone());
  func::FuncOp body = *owner;
  Block &block = body.getBody().front();
  unsigned arguments = loss.getNumArguments();
  // What is differentiated is the sum of the losses, each times its weight.
  for (unsigned i = 0; i < loss.getNumResults(); ++i) {
    OpBuilder builder = OpBuilder::atBlockBegin(&block);
    auto weight = loss.getResultAttrOfType<FloatAttr>(i, kWeightAttr);
    Value cotangent = block.getArgument(arguments);
    auto factor =
        nn::ConstantOp::create(builder, body.getLoc(), tensorType(cotangent),
                               i == 0   ? 1.0
                               : weight ? weight.getValueAsDouble()
                                        : 0.0);
    setRole(factor, "input_gradient");
    factor->setAttr(kSeedAttr, builder.getUnitAttr());
    cotangent.replaceAllUsesWith(factor);
    block.eraseArgument(arguments);
  }
  SmallVector<Value> outputs;
  SmallVector<Attribute> resultAttributes;
  Builder attributes(context);
  auto resultAttribute = [&](Attribute value) {
    resultAttributes.push_back(DictionaryAttr::get(
        context, attributes.getNamedAttr(nn::kResultAttr, value)));
  };
  if (failed(addLoss(body, loss, symbols, outputs)))
    return failure();
  resultAttribute(attributes.getStrArrayAttr({"result", "loss"}));
  for (unsigned i = 1; i < loss.getNumResults(); ++i)
    resultAttribute(loss.getResultAttr(i, nn::kResultAttr));
  // Biases that balance experts have no gradient: the load of each expert is
  // added up in its place, and is no part of the norm.
  llvm::DenseSet<Attribute> balanced;
  for (unsigned i = 0; i < loss.getNumArguments(); ++i)
    if (auto param = loss.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr))
      if (!param.getBalance().isZero())
        balanced.insert(param.getName());
  auto loadName = [](Attribute bias) {
    return (nn::kLoadPrefix + cast<StringAttr>(bias).getValue()).str();
  };
  SmallVector<bool> isGradient(outputs.size(), false);
  for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
    if (auto name =
            gradient.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr)) {
      outputs.push_back(value);
      bool isLoad = balanced.contains(name[1]);
      isGradient.push_back(!isLoad);
      resultAttribute(
          isLoad ? attributes.getStrArrayAttr({"result", loadName(name[1])})
                 : name);
    }
  resultAttribute(attributes.getStrArrayAttr({"result", "grad_norm"}));
  block.getTerminator()->setOperands(outputs);
  eraseUnused(block);

  // The entry, with what the prologue computes on the whole batch.
  auto entry =
      func::FuncOp::create(loss.getLoc(), "gradients", loss.getFunctionType());
  OwningOpRef<func::FuncOp> entryOwner(entry);
  Block *main = entry.addEntryBlock();
  for (auto [from, to] :
       llvm::zip_equal(loss.getArguments(), main->getArguments()))
    to.setLoc(from.getLoc());
  RoleSetter forwardRole("forward");
  OpBuilder builder(context, &forwardRole);
  builder.setInsertionPointToEnd(main);
  IRMapping whole;
  whole.map(block.getArguments(), main->getArguments());
  llvm::DenseMap<Operation *, Value> counts;
  if (failed(addCounts(body, builder, whole, counts)))
    return failure();

  if (microbatches > 1) {
    FailureOr<SmallVector<func::FuncOp>> callees =
        separateCallees(body, gradient, symbols);
    if (failed(callees) ||
        failed(splitBatch(body, *callees, symbols, batch, microbatches)))
      return failure();
  }

  // Copies the body to where `builder` is, with `mapping` of its arguments.
  auto copyBody = [&](OpBuilder &builder, IRMapping mapping) {
    for (Operation &op : block.without_terminator()) {
      if (!counts.contains(&op)) {
        builder.clone(op, mapping);
        continue;
      }
      builder.setListener(&forwardRole);
      nn::Emit emit(builder, op.getLoc());
      Value count = counts.lookup(&op), result;
      Type element = tensorType(op.getResult(0)).getElementType();
      if (isa<nn::StepSumOp>(op)) {
        result = emit.cast(count, element);
      } else {
        auto mean = cast<nn::StepMeanOp>(op);
        Type wide = tensorType(count).getElementType();
        Value values = emit.cast(mapping.lookup(mean.getValues()), wide);
        Value weights = mapping.lookup(mean.getWeights());
        bool flags = nn::isBoolElement(weights.getType());
        Value valid =
            flags ? weights : emit.compare(nn::Predicate::NE, weights, 0.0);
        Value weighted =
            flags ? values : emit.mul(values, emit.cast(weights, wide));
        // What does not count may be NaN.
        Value counted = emit.select(valid, weighted, emit.scalar(values, 0.0));
        Value sum = emit.sum(counted, allDims(counted));
        Value mean1 =
            emit.div(sum, emit.make<nn::MaxOp>(count, emit.scalar(count, 1.0)));
        result = emit.cast(mean1, element);
      }
      mapping.map(op.getResult(0), result);
      builder.setListener(nullptr); // Clones keep their roles.
    }
    // Loss and gradients in the type in which they are added up.
    SmallVector<Value> results;
    for (Value output : outputs) {
      Value value = mapping.lookup(output);
      nn::Emit emit(builder, value.getLoc());
      results.push_back(emit.cast(
          value, nn::getStatisticsType(tensorType(value).getElementType())));
    }
    return results;
  };
  RoleSetter gradientRole("weight_gradient");
  SmallVector<Value> sums;
  builder.setListener(nullptr);
  if (microbatches == 1 && !keepLoop) {
    sums = copyBody(builder, whole);
  } else {
    SmallVector<Value> sliced, inits;
    SmallVector<unsigned> slicedArguments;
    for (unsigned i : batch)
      if (!block.getArgument(i).use_empty()) {
        sliced.push_back(main->getArgument(i));
        slicedArguments.push_back(i);
      }
    OpBuilder zeros(context, &gradientRole);
    zeros.setInsertionPointToEnd(main);
    for (Value output : outputs) {
      RankedTensorType type = tensorType(output);
      inits.push_back(nn::ConstantOp::create(
          zeros, loss.getLoc(),
          RankedTensorType::get(type.getShape(),
                                nn::getStatisticsType(type.getElementType())),
          0.0));
    }
    auto loop = nn::MicrobatchesOp::create(builder, loss.getLoc(),
                                           ValueRange(inits).getTypes(),
                                           microbatches, sliced, inits);
    Block *inner = builder.createBlock(&loop.getBody());
    auto index = RankedTensorType::get({}, builder.getI32Type());
    Value number = inner->addArgument(index, loss.getLoc());
    IRMapping mapping = whole;
    for (unsigned i : slicedArguments)
      mapping.map(block.getArgument(i),
                  inner->addArgument(block.getArgument(i).getType(),
                                     block.getArgument(i).getLoc()));
    SmallVector<Value> accumulators;
    for (Value init : inits)
      accumulators.push_back(inner->addArgument(init.getType(), loss.getLoc()));
    // The key's fourth word is the number of the microbatch's first sample.
    builder.setListener(&forwardRole);
    for (BlockArgument argument : block.getArguments())
      if (loss.getArgAttr(argument.getArgNumber(), nn::kRngAttr) &&
          !argument.use_empty()) {
        nn::Emit emit(builder, loss.getLoc());
        auto keyType = tensorType(argument);
        int32_t first = static_cast<int32_t>(samples / microbatches);
        Value step = emit.make<nn::ConstantOp>(
            DenseElementsAttr::get(keyType, ArrayRef<int32_t>{0, 0, 0, first}));
        mapping.map(argument,
                    emit.add(whole.lookup(argument), emit.mul(step, number)));
      }
    builder.setListener(nullptr);
    SmallVector<Value> parts = copyBody(builder, mapping), next;
    builder.setListener(&gradientRole);
    for (auto [accumulator, part] : llvm::zip_equal(accumulators, parts))
      next.push_back(
          nn::AddOp::create(builder, part.getLoc(), accumulator, part));
    nn::YieldOp::create(builder, loss.getLoc(), next);
    sums.assign(loop->result_begin(), loop->result_end());
    builder.setInsertionPointToEnd(main);
  }

  // The norm over all trained parameters, each counted once.
  RoleSetter optimizerRole("optimizer");
  builder.setListener(&optimizerRole);
  nn::Emit emit(builder, loss.getLoc());
  Value squares;
  for (auto [gradient, counts] : llvm::zip_equal(sums, isGradient)) {
    if (!counts)
      continue;
    Value square =
        emit.reduce(nn::ReduceKind::SumOfSquares, gradient, allDims(gradient));
    if (squares) { // f64 and f32 parameters may stand side by side.
      Type wide = tensorType(squares).getElementType();
      if (tensorType(square).getElementType().isF64())
        wide = tensorType(square).getElementType();
      squares = emit.add(emit.cast(squares, wide), emit.cast(square, wide));
    } else {
      squares = square;
    }
  }
  Value norm = squares ? emit.make<nn::SqrtOp>(squares)
                       : emit.constant(tensorType(sums[0]), 0.0);
  SmallVector<Value> results(sums);
  results.push_back(norm);
  func::ReturnOp::create(builder, loss.getLoc(), results);
  for (Operation &op : *main) // What the body did not have a role for.
    if (!op.hasAttr(nn::kRoleAttr) &&
        !isa<func::ReturnOp, nn::MicrobatchesOp>(op))
      setRole(&op, "forward");
  entry.setFunctionType(FunctionType::get(context, loss.getArgumentTypes(),
                                          ValueRange(results).getTypes()));
  SmallVector<DictionaryAttr> argumentAttributes;
  loss.getAllArgAttrs(argumentAttributes);
  entry.setAllArgAttrs(argumentAttributes);
  entry.setAllResultAttrs(resultAttributes);

  symbols.erase(gradient);
  symbols.insert(entryOwner.release());
  return success();
}
