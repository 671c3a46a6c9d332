//===- Optimizer.cpp - The function of one optimizer step -----------------===//

#include "dialects/NN/NN.h"
#include "mlir/IR/IRMapping.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/step/Passes.h"
#include <cmath>

namespace sheaf {
#define GEN_PASS_DEF_NNADDOPTIMIZER
#include "passes/step/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
/// Gives what is not cloned from the gradients the optimizer's role.
struct OptimizerRole : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) final {
    if (!op->hasTrait<OpTrait::IsTerminator>())
      setRole(op, "optimizer");
  }
};

struct NNAddOptimizer : sheaf::impl::NNAddOptimizerBase<NNAddOptimizer> {
  using NNAddOptimizerBase::NNAddOptimizerBase;

  void runOnOperation() final {
    SymbolTable symbols(getOperation());
    if (failed(checkOptions()) || failed(addStep(symbols)))
      signalPassFailure();
  }

private:
  bool isAdam() { return kind == "adamw"; }
  LogicalResult checkOptions();
  LogicalResult addStep(SymbolTable &symbols);

  /// Adds an argument with its attributes to the function that is made.
  Value addArgument(Block *block, Type type, NamedAttrList attributes) {
    argumentAttributes.push_back(attributes.getDictionary(&getContext()));
    return block->addArgument(type, getOperation().getLoc());
  }
  Value addScalar(Block *block, StringRef name, double value) {
    Builder builder(&getContext());
    NamedAttrList attributes;
    attributes.set(nn::kScalarAttr, builder.getStringAttr(name));
    attributes.set("nn.default", builder.getF64FloatAttr(value));
    return addArgument(block, RankedTensorType::get({}, builder.getF32Type()),
                       attributes);
  }

  SmallVector<DictionaryAttr> argumentAttributes;
};
} // namespace

LogicalResult NNAddOptimizer::checkOptions() {
  auto fail = [&](StringRef option) {
    return emitError(getOperation().getLoc())
           << "nn-add-optimizer: option '" << option << "' is ";
  };
  if (kind != "adamw" && kind != "sgd")
    return fail("kind") << "'" << kind << "', expected adamw or sgd";
  for (auto [name, value] : {std::pair<StringRef, double>{"lr", lr},
                             {"warmup", warmup},
                             {"min-lr", minLr},
                             {"decay-steps", decaySteps},
                             {"weight-decay", weightDecay},
                             {"eps", eps},
                             {"clip", clip},
                             {"momentum", momentum}})
    if (!(value >= 0) || !std::isfinite(value))
      return fail(name) << value << ", expected a finite number of at least 0";
  for (auto [name, value] :
       {std::pair<StringRef, double>{"beta1", beta1}, {"beta2", beta2}})
    if (!(value >= 0 && value < 1))
      return fail(name) << value << ", expected at least 0 and below 1";
  return success();
}

LogicalResult NNAddOptimizer::addStep(SymbolTable &symbols) {
  MLIRContext *context = &getContext();
  Builder attribute(context);
  auto gradients = symbols.lookup<func::FuncOp>("gradients");
  if (!gradients || gradients.isDeclaration())
    return emitError(getOperation().getLoc())
           << "nn-add-optimizer: the module has no @gradients; run "
              "nn-accumulate before";
  if (Operation *other = symbols.lookup("step")) {
    InFlightDiagnostic error = gradients.emitOpError(
        "cannot get an optimizer: there is a @step already");
    error.attachNote(other->getLoc()) << "here";
    return error;
  }
  // Where each (kind, name) of the results is found.
  Operation *end = gradients.getBody().front().getTerminator();
  std::optional<unsigned> lossResult, normResult;
  llvm::StringMap<unsigned> gradientResults;
  // Losses of their own, and what else is logged.
  SmallVector<unsigned> otherResults;
  for (unsigned i = 0; i < gradients.getNumResults(); ++i) {
    auto what = gradients.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr);
    if (!what || what.size() != 2 || !isa<StringAttr>(what[0]) ||
        !isa<StringAttr>(what[1]))
      return gradients.emitOpError("result ")
             << i
             << " has no nn.result = [kind, name], as nn-accumulate writes it";
    StringRef resultKind = cast<StringAttr>(what[0]).getValue();
    StringRef name = cast<StringAttr>(what[1]).getValue();
    if (resultKind == "gradient")
      gradientResults[name] = i;
    else if (name == "loss")
      lossResult = i;
    else if (name == "grad_norm")
      normResult = i;
    else if (name.starts_with(nn::kLoadPrefix))
      gradientResults[name.drop_front(nn::kLoadPrefix.size())] = i;
    else
      otherResults.push_back(i);
  }
  if (!lossResult || !normResult)
    return gradients.emitOpError(
        "has no results [\"result\", \"loss\"] and [\"result\", "
        "\"grad_norm\"], as nn-accumulate makes them");
  auto typeOf = [&](unsigned result) {
    return dyn_cast<RankedTensorType>(gradients.getResultTypes()[result]);
  };
  for (unsigned i : {*lossResult, *normResult})
    if (RankedTensorType type = typeOf(i);
        !type || type.getRank() != 0 || !type.getElementType().isFloat())
      return gradients.emitOpError("result ")
             << i << " is " << gradients.getResultTypes()[i]
             << ", expected one number, as nn-accumulate makes it";

  auto step = func::FuncOp::create(gradients.getLoc(), "step",
                                   gradients.getFunctionType());
  OwningOpRef<func::FuncOp> owner(step);
  Block *block = step.addEntryBlock();
  for (auto [from, to] :
       llvm::zip_equal(gradients.getArguments(), block->getArguments()))
    to.setLoc(from.getLoc());
  gradients.getAllArgAttrs(argumentAttributes);

  struct Trained {
    nn::ParamAttr param;
    unsigned argument;
    SmallVector<Value, 2> state;
  };
  SmallVector<StringRef> stateKinds{"momentum"};
  if (isAdam())
    stateKinds = {"moment1", "moment2"};
  std::vector<Trained> trained, balanced;
  for (unsigned i = 0; i < gradients.getNumArguments(); ++i) {
    auto param = gradients.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr);
    if (!param || param.getFrozen())
      continue;
    if (!gradientResults.contains(param.getName().getValue()))
      return gradients.emitOpError("has no result [\"gradient\", ")
             << param.getName() << "] for its argument " << i;
    unsigned result = gradientResults[param.getName().getValue()];
    RankedTensorType own = tensorType(gradients.getArgument(i)),
                     type = typeOf(result);
    if (!type || type.getShape() != own.getShape() ||
        !type.getElementType().isFloat())
      return gradients.emitOpError("result ")
             << result << " is " << gradients.getResultTypes()[result]
             << ", expected floats in the shape of the parameter "
             << param.getName() << ", " << own;
    if (param.getBalance().isZero())
      trained.push_back({param, i, {}});
    else
      balanced.push_back({param, i, {}});
  }
  for (StringRef stateKind : stateKinds)
    for (Trained &parameter : trained) {
      RankedTensorType type =
          tensorType(block->getArgument(parameter.argument));
      NamedAttrList attributes;
      attributes.set(nn::kStateAttr,
                     attribute.getStrArrayAttr(
                         {stateKind, parameter.param.getName().getValue()}));
      parameter.state.push_back(addArgument(
          block,
          RankedTensorType::get(type.getShape(),
                                nn::getStatisticsType(type.getElementType())),
          attributes));
    }
  NamedAttrList stepAttributes;
  stepAttributes.set(nn::kScalarAttr, attribute.getStringAttr("step"));
  Value number = addArgument(
      block, RankedTensorType::get({}, attribute.getI32Type()), stepAttributes);
  Value lrArgument = addScalar(block, "lr", lr);
  Value warmupArgument = addScalar(block, "warmup", warmup);
  Value minLrArgument = addScalar(block, "min_lr", minLr);
  Value decayStepsArgument = addScalar(block, "decay_steps", decaySteps);
  Value weightDecayArgument = addScalar(block, "weight_decay", weightDecay);
  Value beta1Argument, beta2Argument, epsArgument, momentumArgument;
  if (isAdam()) {
    beta1Argument = addScalar(block, "beta1", beta1);
    beta2Argument = addScalar(block, "beta2", beta2);
    epsArgument = addScalar(block, "eps", eps);
  }
  Value clipArgument = addScalar(block, "clip", clip);
  if (!isAdam())
    momentumArgument = addScalar(block, "momentum", momentum);

  OpBuilder builder = OpBuilder::atBlockEnd(block);
  IRMapping mapping;
  mapping.map(gradients.getArguments(),
              block->getArguments().take_front(gradients.getNumArguments()));
  for (Operation &op : gradients.getBody().front().without_terminator())
    builder.clone(op, mapping);
  auto resultOf = [&](unsigned i) {
    return mapping.lookup(end->getOperand(i));
  };

  OptimizerRole role;
  builder.setListener(&role);
  nn::Emit emit(builder, gradients.getLoc());
  using nn::Predicate;
  Type f32 = builder.getF32Type(), f64 = builder.getF64Type();

  // The learning rate at this step.
  Value t = emit.cast(number, f32);
  Value next = emit.add(t, 1.0), zero = emit.scalar(t, 0.0),
        one = emit.scalar(t, 1.0);
  // Each branch is computed; none may divide by zero.
  Value rising = emit.div(emit.mul(lrArgument, next),
                          emit.make<nn::MaxOp>(warmupArgument, one));
  Value span =
      emit.make<nn::MaxOp>(emit.sub(decayStepsArgument, warmupArgument), one);
  // Where the warmup goes on to the end of the decay or beyond, the decay is
  // over.
  Value isSpan =
      emit.compare(Predicate::GT, decayStepsArgument, warmupArgument);
  Value done =
      emit.select(isSpan, emit.div(emit.sub(t, warmupArgument), span), one);
  done = emit.make<nn::MinOp>(emit.make<nn::MaxOp>(done, zero), one);
  Value wave =
      emit.mul(emit.add(emit.make<nn::CosOp>(emit.mul(done, M_PI)), 1.0), 0.5);
  Value falling = emit.add(minLrArgument,
                           emit.mul(emit.sub(lrArgument, minLrArgument), wave));
  Value constant = emit.compare(Predicate::EQ, decayStepsArgument, 0.0);
  Value rate = emit.select(emit.compare(Predicate::LT, t, warmupArgument),
                           rising, emit.select(constant, lrArgument, falling));

  // The factor by which gradients are clipped.
  Value norm = emit.cast(resultOf(*normResult), f32);
  Value factor =
      emit.make<nn::MinOp>(emit.div(clipArgument, emit.add(norm, 1e-6)), one);
  Value scale =
      emit.select(emit.compare(Predicate::GT, clipArgument, 0.0), factor, one);

  // 1 - beta^(step + 1), in f64: the difference of nearly equal numbers.
  auto correction = [&](Value beta) {
    Value logarithm = emit.make<nn::LogOp>(emit.cast(beta, f64));
    Value exponent = emit.mul(emit.cast(next, f64), logarithm);
    return emit.cast(emit.sub(1.0, emit.make<nn::ExpOp>(exponent)), f32);
  };
  Value correction1, correction2;
  if (isAdam()) {
    correction1 = correction(beta1Argument);
    correction2 = correction(beta2Argument);
  }

  SmallVector<Value> results{resultOf(*lossResult), resultOf(*normResult),
                             rate};
  SmallVector<DictionaryAttr> resultAttributes;
  auto describe = [&](StringRef resultKind, StringRef name) {
    resultAttributes.push_back(DictionaryAttr::get(
        context,
        attribute.getNamedAttr(nn::kResultAttr,
                               attribute.getStrArrayAttr({resultKind, name}))));
  };
  for (StringRef name : {"loss", "grad_norm", "learning_rate"})
    describe("result", name);
  for (unsigned i : otherResults) {
    results.push_back(resultOf(i));
    auto what = gradients.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr);
    describe("result", cast<StringAttr>(what[1]).getValue());
  }
  SmallVector<SmallVector<Value>> states(stateKinds.size());
  for (Trained &parameter : trained) {
    StringRef name = parameter.param.getName().getValue();
    Value value = block->getArgument(parameter.argument);
    Value gradient = resultOf(gradientResults[name]);
    Value decay = parameter.param.getDecay() ? weightDecayArgument : zero;
    SmallVector<Value> updated;
    if (isAdam()) {
      auto update = nn::AdamWOp::create(
          builder, emit.loc, value, gradient, parameter.state[0],
          parameter.state[1], rate, beta1Argument, beta2Argument, epsArgument,
          decay, correction1, correction2, scale);
      updated.assign(update->result_begin(), update->result_end());
    } else {
      auto update = nn::SGDOp::create(builder, emit.loc, value, gradient,
                                      parameter.state[0], rate,
                                      momentumArgument, decay, scale);
      updated.assign(update->result_begin(), update->result_end());
    }
    results.push_back(updated[0]);
    describe("parameter", name);
    for (auto [list, state] :
         llvm::zip_equal(states, llvm::drop_begin(updated)))
      list.push_back(state);
  }
  // An expert with less than its share of tokens becomes easier to choose (Wang
  // et al. 2024, algorithm 1).
  for (Trained &parameter : balanced) {
    StringRef name = parameter.param.getName().getValue();
    Value value = block->getArgument(parameter.argument);
    Value load = resultOf(gradientResults[name]);
    Value mean = emit.reduce(nn::ReduceKind::Mean, load, {0}, /*keep=*/true);
    double rate = parameter.param.getBalance().convertToDouble();
    Value none = emit.scalar(value, 0);
    Value lower = emit.select(emit.compare(Predicate::GT, load, mean),
                              emit.scalar(value, -rate), none);
    Value move = emit.select(emit.compare(Predicate::LT, load, mean),
                             emit.scalar(value, rate), lower);
    results.push_back(emit.add(value, move));
    describe("parameter", name);
  }
  for (auto [stateKind, list] : llvm::zip_equal(stateKinds, states))
    for (auto [parameter, state] : llvm::zip_equal(trained, list)) {
      results.push_back(state);
      describe(stateKind, parameter.param.getName().getValue());
    }
  func::ReturnOp::create(builder, gradients.getLoc(), results);
  step.setFunctionType(FunctionType::get(context, block->getArgumentTypes(),
                                         ValueRange(results).getTypes()));
  step.setAllArgAttrs(argumentAttributes);
  step.setAllResultAttrs(resultAttributes);
  symbols.insert(owner.release());
  return success();
}
