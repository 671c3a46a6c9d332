//===- LayerFunctions.cpp - The functions made of a layer -----------------===//

#include "passes/autodiff/LayerFunctions.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace sheaf;

static constexpr StringLiteral kKindNames[] = {"argument", "result", "kept", "cotangent",
                                               "handed"};

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

ArrayAttr sheaf::getLayerValuesAttr(MLIRContext *context, ArrayRef<LayerValue> values) {
  Builder builder(context);
  return builder.getArrayAttr(llvm::map_to_vector(values, [&](LayerValue value) -> Attribute {
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
           << attribute << " = " << function->getAttr(attribute) << ", expected a list of "
           << count << ", as nn-differentiate writes it";
  for (Attribute item : list) {
    auto text = dyn_cast<StringAttr>(item);
    std::optional<LayerValue> value = text ? LayerValue::parse(text) : std::nullopt;
    if (!value)
      return function.emitOpError("has ")
             << item << " in " << attribute << ", expected for instance \"kept 0\"";
    values.push_back(*value);
  }
  return values;
}

FailureOr<LayerSet> sheaf::readLayerSet(func::FuncOp backward, SymbolTable &symbols) {
  LayerSet set;
  set.backward = backward;
  for (auto [attribute, function] :
       {std::pair<StringRef, func::FuncOp *>{kForwardAttr, &set.forward},
        {kInputGradientAttr, &set.inputGradient},
        {kWeightGradientAttr, &set.weightGradient}}) {
    auto name = backward->getAttrOfType<FlatSymbolRefAttr>(attribute);
    if (name)
      *function = symbols.lookup<func::FuncOp>(name.getAttr());
    if (!*function)
      return backward.emitOpError("has ")
             << attribute << " = " << backward->getAttr(attribute)
             << ", expected a function of the module, as nn-differentiate writes it";
  }
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
  if (isa<nn::ConstantOp, nn::IotaOp, nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp>(op))
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
  llvm::sort(part.ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
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
      return cast<OpResult>(a).getResultNumber() < cast<OpResult>(b).getResultNumber();
    return cast<BlockArgument>(a).getArgNumber() < cast<BlockArgument>(b).getArgNumber();
  });
  return part;
}

func::FuncOp sheaf::makeFunction(SymbolTable &symbols, StringRef name, Location loc,
                                 const Part &part, ArrayRef<Value> inputs,
                                 ArrayRef<Value> outputs) {
  auto type = FunctionType::get(loc.getContext(), ValueRange(inputs).getTypes(),
                                ValueRange(outputs).getTypes());
  auto function = func::FuncOp::create(loc, name, type);
  function.setPrivate();
  Block *body = function.addEntryBlock();
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  IRMapping mapping;
  mapping.map(inputs, body->getArguments());
  for (Operation *op : part.ops)
    builder.clone(*op, mapping);
  func::ReturnOp::create(builder, loc, llvm::map_to_vector(outputs, [&](Value value) {
    return mapping.lookup(value);
  }));
  symbols.insert(function);
  return function;
}

/// Checks, from `function` on, that every callee is there, has one block, and does
/// not reach itself. `path` holds the functions on the way.
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
             << call.getCallee() << ", which has no body; define it in this module";
    if (path.contains(callee))
      return call.emitOpError("calls @")
             << call.getCallee() << " from within it; a function that calls itself cannot "
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
    auto callee = call ? symbols.lookup<func::FuncOp>(call.getCallee()) : func::FuncOp();
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
      for (Value value : callee.getBody().front().getTerminator()->getOperands())
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
