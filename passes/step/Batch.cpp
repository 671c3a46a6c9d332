//===- Batch.cpp - Functions on fewer samples -----------------------------===//
//
// A dimension that counts samples is joined with every dimension that shares
// its outermost factor in the rule of some op. What is joined with the batch
// arguments is divided.
//
//===----------------------------------------------------------------------===//

#include "passes/step/Batch.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "passes/autodiff/LayerFunctions.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include <map>

using namespace mlir;
using namespace sheaf;
using nn::Factor;
using nn::FactorKind;

namespace {
class Splitter {
public:
  Splitter(func::FuncOp body, ArrayRef<func::FuncOp> callees,
           SymbolTable &symbols, int64_t parts)
      : body(body), symbols(symbols), parts(parts) {
    functions.push_back(body);
    llvm::append_range(functions, callees);
  }

  LogicalResult run(ArrayRef<unsigned> batch) {
    for (func::FuncOp function : functions)
      for (Operation &op : function.getBody().front())
        if (failed(join(&op)))
          return failure();
    for (func::FuncOp function : functions)
      if (function->hasAttr(kInputGradientAttr) && failed(joinParts(function)))
        return failure();
    size = tensorType(body.getArgument(batch[0])).getDimSize(0);
    for (unsigned argument : batch)
      join({body.getArgument(argument), 0}, {body.getArgument(batch[0]), 0});
    root = idOf({body.getArgument(batch[0]), 0});
    for (func::FuncOp function : functions)
      for (Operation &op : function.getBody().front())
        if (failed(check(&op)))
          return failure();
    for (func::FuncOp function : functions)
      if (failed(rewrite(function)))
        return failure();
    return success();
  }

private:
  using Dim = std::pair<Value, unsigned>;

  int idOf(Dim dim) {
    auto [it, isNew] = ids.try_emplace(dim, ids.size());
    if (isNew)
      classes.insert(it->second);
    return it->second;
  }
  void join(Dim a, Dim b) { classes.unionSets(idOf(a), idOf(b)); }
  void join(Value a, Value b) {
    for (unsigned i = 0, e = tensorType(a).getRank(); i < e; ++i)
      join(Dim(a, i), Dim(b, i));
  }
  bool countsSamples(Value value, unsigned dim) {
    return classes.isEquivalent(idOf({value, dim}), root);
  }
  bool hasSamples(Value value) {
    for (unsigned i = 0, e = tensorType(value).getRank(); i < e; ++i)
      if (countsSamples(value, i))
        return true;
    return false;
  }

  /// Calls `visit(value, dimension, factors)` for operands and results of `op`.
  template <typename Visit>
  static void forEachDim(Operation *op, const nn::ShardingRule &rule,
                         Visit visit) {
    for (auto [value, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
      for (auto [i, factors] : llvm::enumerate(dims))
        visit(value, i, factors);
    for (auto [value, dims] : llvm::zip_equal(op->getResults(), rule.results))
      for (auto [i, factors] : llvm::enumerate(dims))
        visit(Value(value), i, factors);
  }

  /// Joins the dimensions that `op` says are the same.
  LogicalResult join(Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      for (auto [operand, argument] :
           llvm::zip_equal(call.getOperands(), callee.getArguments()))
        join(operand, argument);
      Operation *end = callee.getBody().front().getTerminator();
      for (auto [result, value] :
           llvm::zip_equal(call.getResults(), end->getOperands()))
        join(result, value);
      return success();
    }
    if (auto mean = dyn_cast<nn::StepMeanOp>(op))
      join(mean.getValues(), mean.getWeights());
    if (!hasRule(op))
      return success();
    auto rule = ruleOf(op);
    if (failed(rule)) // Checked later: only an error where it has samples.
      return success();
    SmallVector<std::optional<Dim>> first(rule->factors.size());
    forEachDim(op, *rule,
               [&](Value value, unsigned i, const nn::DimFactors &factors) {
                 if (factors.empty())
                   return;
                 std::optional<Dim> &other = first[factors[0]];
                 if (other)
                   join(*other, Dim(value, i));
                 else
                   other = Dim(value, i);
               });
    return success();
  }

  /// Joins the two parts of a layer_backward with it. Nobody may call them yet.
  LogicalResult joinParts(func::FuncOp backward) {
    FailureOr<LayerSet> set = readLayerSet(backward, symbols);
    if (failed(set))
      return failure();
    if (!set->inputGradient)
      return success();
    auto argumentsOf = [](func::FuncOp function) {
      return llvm::to_vector_of<Value>(function.getArguments());
    };
    auto resultsOf = [](func::FuncOp function) {
      return llvm::to_vector_of<Value>(
          function.getBody().front().getTerminator()->getOperands());
    };
    // By what they are: values of backward, and what is handed over.
    std::map<std::string, Value> operands, results;
    auto joinAll = [&](func::FuncOp function, StringRef attribute,
                       ArrayRef<Value> values,
                       std::map<std::string, Value> &known) -> LogicalResult {
      auto names = readLayerValues(function, attribute);
      if (failed(names))
        return failure();
      for (auto [name, value] : llvm::zip_equal(*names, values)) {
        auto [it, isNew] = known.try_emplace(name.str(), value);
        if (!isNew && it->second.getType() != value.getType())
          return function.emitOpError("has '")
                 << name.str() << "' of type " << value.getType()
                 << " and, in another "
                 << "function of the layer, of type " << it->second.getType();
        if (!isNew)
          join(it->second, value);
        if (name.kind ==
            LayerValue::Handed) // A result of one, an operand of the other.
          operands.try_emplace(name.str(), value);
      }
      return success();
    };
    return failure(
        failed(joinAll(backward, kOperandsAttr, argumentsOf(backward),
                       operands)) ||
        failed(joinAll(backward, kResultsAttr, resultsOf(backward), results)) ||
        failed(joinAll(set->inputGradient, kOperandsAttr,
                       argumentsOf(set->inputGradient), operands)) ||
        failed(joinAll(set->inputGradient, kResultsAttr,
                       resultsOf(set->inputGradient), results)) ||
        failed(joinAll(set->weightGradient, kOperandsAttr,
                       argumentsOf(set->weightGradient), operands)) ||
        failed(joinAll(set->weightGradient, kResultsAttr,
                       resultsOf(set->weightGradient), results)));
  }

  /// A constraint changes no value, so its dimensions are those of its input.
  static FailureOr<nn::ShardingRule> ruleOf(Operation *op) {
    return isa<dist::ConstraintOp>(op) ? nn::getElementwiseRule(op)
                                       : nn::getRule(op);
  }

  /// Ops whose dimensions are joined, and checked, by rule.
  static bool hasRule(Operation *op) {
    return !isa<func::CallOp, func::ReturnOp, nn::StepMeanOp, nn::StepSumOp>(
        op);
  }

  /// Whether `op` gives the same on a part of the samples.
  LogicalResult check(Operation *op) {
    auto fail = [&]() -> InFlightDiagnostic {
      return op->emitOpError("cannot run in microbatches: it ");
    };
    if (!hasRule(op))
      return success();
    auto rule = ruleOf(op);
    if (failed(rule)) {
      if (llvm::any_of(op->getOperands(),
                       [&](Value v) { return hasSamples(v); }) ||
          llvm::any_of(op->getResults(),
                       [&](Value v) { return hasSamples(v); }))
        return fail() << "has no sharding rule that says which dimensions "
                         "count samples; "
                         "give it one as nn.rule";
      return success();
    }
    bool isForward = true;
    if (auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr))
      isForward = role.getValue() == "forward";
    SmallVector<bool> samples(rule->factors.size());
    forEachDim(op, *rule,
               [&](Value value, unsigned i, const nn::DimFactors &factors) {
                 if (!factors.empty() && countsSamples(value, i))
                   samples[factors[0]] = true;
               });
    bool inside = false;
    forEachDim(op, *rule, [&](Value, unsigned, const nn::DimFactors &factors) {
      for (int factor : llvm::drop_begin(factors, factors.empty() ? 0 : 1))
        inside |= samples[factor];
    });
    if (inside)
      return fail() << "puts the samples inside of another dimension; "
                       "transpose them to "
                       "the outermost place";
    for (auto [factor, is] : llvm::zip_equal(rule->factors, samples)) {
      if (!is)
        continue;
      if (factor.size % parts)
        return fail() << "has a dimension of " << factor.size
                      << " for the samples, which " << parts
                      << " does not divide";
      if (factor.kind == FactorKind::Reduction && isForward)
        return fail() << "adds up samples in the forward; keep a value for "
                         "each sample, "
                         "and use nn.step_mean for the mean over the step";
      if (factor.kind == FactorKind::Whole || factor.kind == FactorKind::Halo)
        return fail() << "mixes samples";
      if (factor.expansion == "offset_iota")
        return fail() << "numbers the samples of the batch";
      if (factor.expansion == "masked_gather")
        return fail() << "takes rows of one sample for another; give the "
                         "samples a batch "
                         "dimension";
    }
    if (isa<nn::RandomOp, nn::DropoutOp>(op)) {
      Value result = op->getResult(0);
      bool counted =
          !isa<nn::RandomOp>(op) || cast<nn::RandomOp>(op).getSampleDim();
      for (unsigned i = 0, e = tensorType(result).getRank(); i < e; ++i)
        if (countsSamples(result, i) &&
            (i != 0 || !counted || tensorType(result).getDimSize(0) != size))
          return fail() << "draws random numbers in dimension " << i << " of "
                        << result.getType()
                        << ", which counts samples; expected the " << size
                        << " samples in dimension 0"
                        << (counted ? "" : " and 'sample_dim'");
    }
    if (auto constant = dyn_cast<nn::ConstantOp>(op);
        constant && !constant.getValue().isSplat())
      for (unsigned i = 0, e = constant.getType().getRank(); i < e; ++i)
        if (countsSamples(constant, i))
          return fail()
                 << "has elements that depend on the sample; make them a batch "
                    "argument, or one sample that is broadcast";
    return success();
  }

  RankedTensorType divided(Value value) {
    RankedTensorType type = tensorType(value);
    SmallVector<int64_t> shape(type.getShape());
    for (unsigned i = 0; i < shape.size(); ++i)
      if (countsSamples(value, i))
        shape[i] /= parts;
    return RankedTensorType::get(shape, type.getElementType(),
                                 type.getEncoding());
  }

  LogicalResult rewrite(func::FuncOp function) {
    Block &block = function.getBody().front();
    SmallVector<std::pair<Value, RankedTensorType>> types;
    for (BlockArgument argument : block.getArguments())
      types.emplace_back(argument, divided(argument));
    for (Operation &op : block)
      for (Value result : op.getResults())
        types.emplace_back(result, divided(result));
    for (Operation &op : block)
      if (op.hasAttr(nn::kRuleAttr) && failed(rewriteRule(&op)))
        return failure();
    for (auto [value, type] : types) {
      if (value.getType() == type)
        continue;
      Operation *op = value.getDefiningOp();
      if (auto constant = dyn_cast_or_null<nn::ConstantOp>(op))
        constant.setValueAttr(
            cast<DenseElementsAttr>(constant.getValue()).resizeSplat(type));
      if (auto slice = dyn_cast_or_null<nn::SliceOp>(op)) {
        // Samples are taken whole, or the op would mix them.
        SmallVector<int64_t> sizes(type.getShape());
        slice.setSizes(sizes);
      }
      value.setType(type);
    }
    function.setFunctionType(
        FunctionType::get(function.getContext(), block.getArgumentTypes(),
                          block.getTerminator()->getOperandTypes()));
    return success();
  }

  LogicalResult rewriteRule(Operation *op) {
    auto rule = ruleOf(op);
    if (failed(rule))
      return failure();
    SmallVector<bool> samples(rule->factors.size());
    forEachDim(op, *rule,
               [&](Value value, unsigned i, const nn::DimFactors &factors) {
                 if (!factors.empty() && countsSamples(value, i))
                   samples[factors[0]] = true;
               });
    for (auto [factor, is] : llvm::zip_equal(rule->factors, samples))
      if (is)
        factor.size /= parts;
    op->setAttr(nn::kRuleAttr, StringAttr::get(op->getContext(), rule->str()));
    return success();
  }

  func::FuncOp body;
  SmallVector<func::FuncOp> functions;
  SymbolTable &symbols;
  int64_t parts, size = 0;
  llvm::DenseMap<Dim, int> ids;
  llvm::EquivalenceClasses<int> classes;
  int root = 0;
};
} // namespace

LogicalResult sheaf::splitBatch(func::FuncOp body,
                                ArrayRef<func::FuncOp> callees,
                                SymbolTable &symbols, ArrayRef<unsigned> batch,
                                int64_t parts) {
  return Splitter(body, callees, symbols, parts).run(batch);
}
