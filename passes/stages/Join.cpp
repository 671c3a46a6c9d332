//===- Join.cpp - Both halves of a backward in one function ---------------===//

#include "passes/stages/Join.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/IRMapping.h"
#include "passes/autodiff/LayerFunctions.h"

using namespace mlir;
using namespace sheaf;
using stages::Joined;
using stages::Joiner;

/// Results that are sums into operands, pairs [result, operand].
static ArrayRef<int64_t> accumulations(Operation *op) {
  auto pairs = op->getAttrOfType<DenseI64ArrayAttr>(nn::kAccumulatesAttr);
  return pairs ? pairs.asArrayRef() : ArrayRef<int64_t>();
}

/// The same of a call or function that is joined of two: operands and results
/// of the second stand behind those of the first that stay.
static DenseI64ArrayAttr joinAccumulations(Operation *first, Operation *second,
                                           size_t firstOperands,
                                           ArrayRef<int> wiring,
                                           ArrayRef<bool> kept) {
  SmallVector<int64_t> pairs;
  SmallVector<int64_t> resultOf, operandOf;
  int64_t count = 0;
  for (bool is : kept)
    resultOf.push_back(is ? count++ : -1);
  int64_t results = count;
  count = static_cast<int64_t>(firstOperands);
  for (int from : wiring)
    operandOf.push_back(from < 0 ? count++ : -1);
  ArrayRef<int64_t> own = accumulations(first);
  for (size_t i = 0; i + 1 < own.size(); i += 2)
    pairs.append({resultOf[own[i]], own[i + 1]});
  own = accumulations(second);
  for (size_t i = 0; i + 1 < own.size(); i += 2)
    pairs.append({results + own[i], operandOf[own[i + 1]]});
  return pairs.empty() ? DenseI64ArrayAttr()
                       : DenseI64ArrayAttr::get(first->getContext(), pairs);
}

func::FuncOp Joiner::makeFunction(func::FuncOp first, func::FuncOp second,
                                  ArrayRef<int> wiring, ArrayRef<bool> kept) {
  std::string key;
  for (int from : wiring)
    key += std::to_string(from) + ",";
  for (bool is : kept)
    key += is ? "k" : "-";
  auto [it, isNew] = made.try_emplace(
      {first.getOperation(), second.getOperation(), key}, func::FuncOp());
  if (!isNew)
    return it->second;
  MLIRContext *context = first.getContext();
  StringRef name = first.getName();
  name = name.take_front(name.find("_input_gradient"));
  auto function =
      func::FuncOp::create(first.getLoc(), (name + "_backward").str(),
                           FunctionType::get(context, {}, {}));
  function.setPrivate();
  // What both are, such as a layer; not what the first alone is.
  for (NamedAttribute attribute : first->getDiscardableAttrs())
    if (!llvm::is_contained({StringRef(nn::kAccumulatesAttr),
                             StringRef(kOperandsAttr), StringRef(kResultsAttr),
                             StringRef(kForwardOfAttr)},
                            attribute.getName().getValue()))
      function->setAttr(attribute.getName(), attribute.getValue());
  function.setNoInline(first.getNoInline());
  Block *block = function.addEntryBlock();
  OpBuilder builder = OpBuilder::atBlockEnd(block);
  IRMapping mapping;
  auto addArgument = [&](BlockArgument from) {
    mapping.map(from, block->addArgument(from.getType(), from.getLoc()));
  };
  for (BlockArgument argument : first.getArguments())
    addArgument(argument);
  Operation *firstEnd = first.front().getTerminator();
  for (Operation &op : first.front().without_terminator())
    builder.clone(op, mapping);
  for (auto [argument, from] : llvm::zip_equal(second.getArguments(), wiring)) {
    if (from < 0)
      addArgument(argument);
    else
      mapping.map(argument,
                  mapping.lookupOrDefault(firstEnd->getOperand(from)));
  }
  for (Operation &op : second.front().without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> returned;
  for (auto [value, is] : llvm::zip_equal(firstEnd->getOperands(), kept))
    if (is)
      returned.push_back(mapping.lookupOrDefault(value));
  for (Value value : second.front().getTerminator()->getOperands())
    returned.push_back(mapping.lookupOrDefault(value));
  func::ReturnOp::create(builder, first.getLoc(), returned);
  function.setFunctionType(FunctionType::get(context, block->getArgumentTypes(),
                                             ValueRange(returned).getTypes()));
  if (DenseI64ArrayAttr pairs = joinAccumulations(
          first, second, first.getNumArguments(), wiring, kept))
    function->setAttr(nn::kAccumulatesAttr, pairs);
  symbols.insert(function, first->getIterator());
  it->second = function;
  joinLayers(function);
  return function;
}

/// Joins each call of gradients of inputs with the one of gradients of weights
/// that it hands values to.
void Joiner::joinLayers(func::FuncOp function) {
  Block &block = function.front();
  DenseSet<Operation *> erased;
  auto isWeights = [](Operation *op) {
    auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
    return role && role == "weight_gradient";
  };
  for (func::CallOp first : llvm::to_vector(block.getOps<func::CallOp>())) {
    if (erased.contains(first) || isWeights(first))
      continue;
    func::CallOp second;
    for (OpResult result : first->getResults())
      for (Operation *user : result.getUsers())
        if (auto call = dyn_cast<func::CallOp>(user);
            call && isWeights(call) &&
            (!second || call->isBeforeInBlock(second)))
          second = call;
    // What the second reads must be there where the first stands.
    if (!second || !llvm::all_of(second.getOperands(), [&](Value operand) {
          Operation *from = operand.getDefiningOp();
          return !from || from == first || from->isBeforeInBlock(first);
        }))
      continue;
    Joined joined = join(first, second);
    if (!joined.function)
      continue;
    OpBuilder builder(first);
    auto call = func::CallOp::create(builder, first.getLoc(), joined.function,
                                     joined.operands);
    call->setDiscardableAttrs(first->getDiscardableAttrDictionary());
    call->removeAttr(nn::kAccumulatesAttr);
    if (Attribute pairs = joined.function->getAttr(nn::kAccumulatesAttr))
      call->setAttr(nn::kAccumulatesAttr, pairs);
    for (auto [from, to] : llvm::zip_equal(joined.results, call.getResults()))
      from.replaceAllUsesWith(to);
    for (Operation *old : {second.getOperation(), first.getOperation()}) {
      erased.insert(old);
      old->erase();
    }
  }
}

Joined Joiner::join(func::CallOp first, func::CallOp second) {
  Joined joined;
  auto firstFunction = symbols.lookup<func::FuncOp>(first.getCallee());
  auto secondFunction = symbols.lookup<func::FuncOp>(second.getCallee());
  if (!firstFunction || !secondFunction || firstFunction.isExternal() ||
      secondFunction.isExternal() || !firstFunction.getBody().hasOneBlock() ||
      !secondFunction.getBody().hasOneBlock())
    return joined;
  joined.operands.assign(first->operand_begin(), first->operand_end());
  SmallVector<int> wiring;
  for (Value operand : second.getOperands()) {
    Operation *from = operand.getDefiningOp();
    if (from == first) {
      // A sum that goes from the one to the other is no argument any more.
      ArrayRef<int64_t> pairs = accumulations(second);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2)
        if (second.getOperand(pairs[i + 1]) == operand)
          return joined;
      wiring.push_back(
          static_cast<int>(cast<OpResult>(operand).getResultNumber()));
      continue;
    }
    // Made of it by an op in between?
    if (from && from->getBlock() == first->getBlock() &&
        first->isBeforeInBlock(from)) {
      SmallVector<Operation *> behind{from};
      DenseSet<Operation *> seen;
      while (!behind.empty()) {
        Operation *op = behind.pop_back_val();
        if (op == first)
          return joined;
        if (seen.insert(op).second)
          for (Value value : op->getOperands())
            if (Operation *next = value.getDefiningOp();
                next && next->getBlock() == first->getBlock())
              behind.push_back(next);
      }
    }
    wiring.push_back(-1);
    joined.operands.push_back(operand);
  }
  SmallVector<bool> kept;
  for (OpResult result : first.getResults()) {
    kept.push_back(llvm::any_of(result.getUsers(), [&](Operation *user) {
      return user != second.getOperation();
    }));
    // A sum stays where its accumulator is.
    for (size_t i = 0; i + 1 < accumulations(first).size(); i += 2)
      kept.back() |= accumulations(first)[i] == result.getResultNumber();
    if (kept.back())
      joined.results.push_back(result);
  }
  joined.results.append(second->result_begin(), second->result_end());
  joined.function = makeFunction(firstFunction, secondFunction, wiring, kept);
  return joined;
}
