//===- NNToExec.cpp - From tensors to buffers -----------------------------===//

#include "lowering/NNToExec/NNToExec.h"
#include "dialects/NN/Quantize.h"
#include "lowering/NNToExec/Narrow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <set>

namespace sheaf {
#define GEN_PASS_DEF_NNTOEXEC
#include "lowering/NNToExec/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

static MemRefType bufferType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType());
}

/// Whether a slice takes one run of bytes; `offset` in elements.
static bool isContiguous(nn::SliceOp slice, int64_t &offset) {
  RankedTensorType from = slice.getInput().getType();
  SmallVector<int64_t> strides = slice.getAllStrides();
  // Once a dimension is cut, every dimension before it must have one index.
  bool cut = false;
  int64_t stride = 1;
  offset = 0;
  for (int64_t i = from.getRank() - 1; i >= 0; --i) {
    int64_t size = slice.getSizes()[i];
    if (cut && size != 1)
      return false;
    if (size != from.getDimSize(i)) {
      if (size != 1 && strides[i] != 1)
        return false;
      cut = true;
    }
    offset += slice.getOffsets()[i] * stride;
    stride *= from.getDimSize(i);
  }
  return true;
}

/// Whether the value shares the bytes of its operand; `offset` in elements.
static bool isView(Operation *op, int64_t &offset) {
  offset = 0;
  if (isa<nn::ReshapeOp>(op))
    return true;
  if (auto slice = dyn_cast<nn::SliceOp>(op))
    return isContiguous(slice, offset);
  return false;
}

/// The tensor whose bytes a chain of views shares.
static Value getViewed(Value tensor) {
  int64_t offset;
  while (Operation *op = tensor.getDefiningOp()) {
    if (!isView(op, offset))
      break;
    tensor = op->getOperand(0);
  }
  return tensor;
}

/// Constants are computed where they are used.
static bool isConstant(Operation *op) { return op && isa<nn::ConstantOp>(op); }

/// The number that a scalar constant of type i32 holds.
static std::optional<int32_t> scalarNumber(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  if (!constant || constant.getType().getRank() > 0 ||
      !constant.getType().getElementType().isInteger(32))
    return std::nullopt;
  return *constant.getValue().getValues<int32_t>().begin();
}

/// Whether an op may write `result` over its operand `value`: it reads each
/// element before it writes the one at the same place.
static bool mayOverwrite(Operation *op, Value value, Value result) {
  if (value.getType() != result.getType())
    return false;
  auto fused = dyn_cast<nn::FusedOp>(op);
  if (isa<func::CallOp>(op)) {
    // The accumulator is read by nobody but its addition.
    auto pairs = op->getAttrOfType<DenseI64ArrayAttr>(nn::kAccumulatesAttr);
    int64_t number = cast<OpResult>(result).getResultNumber();
    for (int64_t i = 0; pairs && i + 1 < pairs.size(); i += 2)
      if (pairs[i] == number && op->getOperand(pairs[i + 1]) == value)
        return llvm::count(op->getOperands(), value) == 1;
    return false;
  }
  if (!fused)
    return op->hasTrait<nn::ElementwiseTrait>() ||
           isa<nn::AdamWOp, nn::SGDOp>(op);
  ArrayRef<int64_t> pairs = fused.getInPlace().value_or(ArrayRef<int64_t>());
  int64_t number = cast<OpResult>(result).getResultNumber();
  bool all = false;
  for (OpOperand &operand : op->getOpOperands()) {
    if (operand.get() != value)
      continue;
    bool found = false;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2)
      found |= pairs[i] == operand.getOperandNumber() && pairs[i + 1] == number;
    if (!found)
      return false;
    all = true;
  }
  return all;
}

/// What a kernel is called: by the ops that say most of what it does.
static std::string kernelName(ArrayRef<Operation *> ops) {
  auto rank = [](Operation *op) {
    if (isa<nn::DecomposableOpInterface, nn::ReduceOp>(op))
      return 0;
    return op->hasTrait<nn::ElementwiseTrait>() ? 1 : 2;
  };
  SmallVector<StringRef, 3> names;
  for (int wanted = 0; wanted < 3 && names.size() < 3; ++wanted)
    for (Operation *op : ops) {
      StringRef name = op->getName().stripDialect();
      if (names.size() < 3 && rank(op) == wanted &&
          !llvm::is_contained(names, name) &&
          (!isConstant(op) || ops.size() == 1))
        names.push_back(name);
    }
  return llvm::join(names, "_");
}

namespace {

/// The kernels of the module, one for each structure.
class KernelTable {
public:
  explicit KernelTable(ModuleOp module) : module(module) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    kernels = ModuleOp::create(builder, module.getLoc(), kKernelsName);
  }

  /// The kernel that computes `outputs` from `inputs` by `ops`, in order.
  func::FuncOp getOrCreate(ArrayRef<Operation *> ops, ValueRange inputs,
                           ValueRange outputs) {
    OpBuilder builder(module.getContext());
    Operation *named = ops.back();
    auto kernel = func::FuncOp::create(
        named->getLoc(), "kernel",
        builder.getFunctionType(inputs.getTypes(), outputs.getTypes()));
    Block *body = kernel.addEntryBlock();
    IRMapping mapping;
    mapping.map(inputs, body->getArguments());
    builder.setInsertionPointToStart(body);
    for (Operation *op : ops) {
      Operation *clone = builder.clone(*op, mapping);
      // An op that is given every operand separately keeps them apart.
      if (ops.size() == 1 && op->getNumOperands() == inputs.size())
        clone->setOperands(body->getArguments());
    }
    SmallVector<Value> results;
    for (Value output : outputs)
      results.push_back(mapping.lookup(output));
    func::ReturnOp::create(builder, named->getLoc(), results);
    kernel->setAttr(kKernelAttr, builder.getUnitAttr());

    // Printed text would tell kernels apart, too, but takes longer than all the
    // rest.
    llvm::hash_code hash = hash_value(Type(kernel.getFunctionType()));
    for (Operation &op : *body)
      hash = llvm::hash_combine(hash,
                                OperationEquivalence::computeHash(
                                    &op, OperationEquivalence::ignoreHashValue,
                                    OperationEquivalence::ignoreHashValue,
                                    OperationEquivalence::IgnoreLocations));
    SmallVector<func::FuncOp, 1> &known = byStructure[hash];
    for (func::FuncOp other : known)
      if (other.getFunctionType() == kernel.getFunctionType() &&
          OperationEquivalence::isRegionEquivalentTo(
              &other.getBody(), &kernel.getBody(),
              OperationEquivalence::IgnoreLocations)) {
        kernel->erase();
        return other;
      }
    // softmax_0, add_layer_norm_1, ...
    std::string base = kernelName(ops);
    kernel.setName((base + "_" + Twine(counts[base]++)).str());
    kernel.setPrivate();
    kernel.setPublic();
    measureNarrow(kernel);
    kernels.push_back(kernel);
    known.push_back(kernel);
    return kernel;
  }

  bool empty() { return kernels.getBody()->empty(); }
  ModuleOp getModule() { return kernels; }

private:
  ModuleOp module, kernels;
  DenseMap<size_t, SmallVector<func::FuncOp, 1>> byStructure;
  llvm::StringMap<int> counts;
};

/// A tensor as elements of another at constant strides.
struct Strided {
  Value base;
  int64_t offset = 0;
  Strides strides;
};

/// A product whose operands or result are not stored for themselves.
struct StridedProduct {
  MatmulPlan plan;
  std::array<Strided, 2> operands;
  /// The buffer that holds the result among others, and where it starts.
  Value into;
  int64_t offset = 0;
  Strides strides;
  bool accumulate = false;
};

/// Rewrites one function on tensors into one on buffers.
class FunctionLowering {
public:
  FunctionLowering(func::FuncOp function, KernelTable &kernels)
      : function(function), kernels(kernels), builder(function.getContext()) {}

  FailureOr<func::FuncOp> run();

private:
  func::FuncOp function;
  KernelTable &kernels;
  OpBuilder builder;
  /// The buffer of each tensor.
  DenseMap<Value, Value> buffers;
  /// Where a tensor is wanted by whoever reads it last.
  DenseMap<Value, Value> wanted;
  /// Those that overwrite what was there before the block, and that.
  DenseMap<Value, Value> updates;
  /// Where a product reads or writes parts of other tensors.
  DenseMap<Operation *, StridedProduct> strided;
  /// Products of experts that are added to an accumulator, and its buffer.
  DenseMap<Operation *, Value> addedTo;
  /// Ops that such products make needless.
  DenseSet<Operation *> needless;
  /// Buffers of operands that an op writes over.
  llvm::DenseSet<std::pair<Operation *, Value>> reused;

  LogicalResult lowerBlock(Block &block);
  LogicalResult lowerOp(Operation *op);
  LogicalResult lowerEinsum(nn::EinsumOp einsum);
  bool lowerGrouped(Operation *op);
  LogicalResult lowerMicrobatches(nn::MicrobatchesOp loop);
  void lowerKernel(Operation *op);
  void lowerPair(Operation *op);
  void lowerFused(nn::FusedOp fused);
  bool reuseOperand(Operation *op, Value result);
  bool want(Value value, Value buffer, Value overwritten, Block *block);
  void findStrided();
  bool assemble(nn::ConcatenateOp concat, Value accumulator = {});
  void accumulate(nn::AddOp add);
  void dropParts(nn::ConcatenateOp concat);
  Value flat(Value buffer, int64_t offset);
  /// Launches the kernel that computes `results` from `inputs` by `ops`.
  void launch(Operation *op, ArrayRef<Operation *> ops, ValueRange inputs,
              ValueRange results);
  void launchKernel(Operation *op, func::FuncOp kernel, ValueRange inputs,
                    ValueRange results);
  ArrayAttr entryBuffers();

  /// The numbers of streams that the function names, in one buffer, and where
  /// each stands: kernels that differ in nothing but their stream are one.
  Value streams;
  std::map<int32_t, int64_t> streamPlaces;

  void makeStreams();
  bool isStream(Operation *user, Value operand);
  Value streamOf(Value constant);
  Value lookup(Value tensor);
  void fill(Value constant, Value buffer);
  Value destination(Value tensor);
  bool isLastAccess(Value tensor, Operation *writer);
  bool mayWriteInto(Value result, Value overwritten, Block *block);
  void copy(Location loc, Value from, Value to) {
    if (from != to)
      CopyOp::create(builder, loc, from, to);
  }
};

} // namespace

/// Whether the operand is the stream of random numbers of `user`, or may be one
/// in the layer that `user` calls, and the table has it.
bool FunctionLowering::isStream(Operation *user, Value operand) {
  std::optional<int32_t> number = scalarNumber(operand);
  if (!number || !streamPlaces.contains(*number))
    return false;
  auto random = dyn_cast<nn::RandomOp>(user);
  return random ? random.getStream() == operand : isa<func::CallOp>(user);
}

/// Fills `streams` where the function has more than one stream.
void FunctionLowering::makeStreams() {
  std::set<int32_t> numbers;
  function.walk([&](Operation *op) {
    SmallVector<Value> operands;
    if (auto random = dyn_cast<nn::RandomOp>(op))
      operands.push_back(random.getStream());
    else if (isa<func::CallOp>(op))
      operands.assign(op->operand_begin(), op->operand_end());
    for (Value operand : operands)
      if (std::optional<int32_t> number = scalarNumber(operand))
        numbers.insert(*number);
  });
  if (numbers.size() < 2)
    return;
  SmallVector<int32_t> list(numbers.begin(), numbers.end());
  for (auto [i, number] : llvm::enumerate(list))
    streamPlaces[number] = i;
  auto type = RankedTensorType::get(list.size(), builder.getI32Type());
  OpBuilder scratch(function.getContext());
  OwningOpRef<nn::ConstantOp> table = nn::ConstantOp::create(
      scratch, function.getLoc(),
      DenseElementsAttr::get(type, ArrayRef<int32_t>(list)));
  streams = lookup(table->getResult());
}

/// The element of `streams` that is the constant.
Value FunctionLowering::streamOf(Value constant) {
  auto type = MemRefType::get({}, builder.getI32Type());
  return ViewOp::create(builder, constant.getLoc(), type, streams,
                        streamPlaces.at(*scalarNumber(constant)) *
                            getBytes(type));
}

/// The buffer of a tensor that is read. A constant gets one by a kernel.
Value FunctionLowering::lookup(Value tensor) {
  auto it = buffers.find(tensor);
  if (it != buffers.end())
    return it->second;
  Operation *op = tensor.getDefiningOp();
  assert(isConstant(op) && "tensor without a buffer");
  // At the point of use, not remembered: a loop's body must not own it.
  Value buffer = BufferOp::create(builder, op->getLoc(),
                                  bufferType(tensor.getType()), IntegerAttr());
  fill(tensor, buffer);
  return buffer;
}

/// Computes a constant in `buffer`.
void FunctionLowering::fill(Value constant, Value buffer) {
  Operation *op = constant.getDefiningOp();
  func::FuncOp kernel = kernels.getOrCreate(op, {}, constant);
  auto symbol = SymbolRefAttr::get(builder.getStringAttr(kKernelsName),
                                   FlatSymbolRefAttr::get(kernel));
  LaunchOp::create(builder, op->getLoc(), symbol, ValueRange(), buffer);
}

/// The buffer in which a tensor is to be computed.
Value FunctionLowering::destination(Value tensor) {
  Value buffer = wanted.lookup(tensor);
  if (!buffer)
    buffer = BufferOp::create(builder, tensor.getLoc(),
                              bufferType(tensor.getType()), IntegerAttr());
  buffers[tensor] = buffer;
  return buffer;
}

/// Whether every op that reads the bytes of `tensor`, itself or through a view,
/// is `writer` or comes before it in its block.
bool FunctionLowering::isLastAccess(Value tensor, Operation *writer) {
  for (Operation *user : tensor.getUsers()) {
    Operation *ancestor = writer->getBlock()->findAncestorOpInBlock(*user);
    if (!ancestor)
      return false;
    int64_t offset;
    if (isView(ancestor, offset) || needless.contains(ancestor)) {
      if (!isLastAccess(ancestor->getResult(0), writer))
        return false;
      continue;
    }
    if (isa<func::ReturnOp, nn::YieldOp>(ancestor))
      return false;
    if (ancestor != writer && !ancestor->isBeforeInBlock(writer))
      return false;
  }
  return true;
}

/// Whether `result`, computed in `block`, may be written straight over
/// `overwritten`, which was there when the block began.
bool FunctionLowering::mayWriteInto(Value result, Value overwritten,
                                    Block *block) {
  Operation *writer = result.getDefiningOp();
  if (!writer || writer->getBlock() != block)
    return false;
  int64_t offset;
  if (isView(writer, offset) || isConstant(writer))
    return false;
  if (!overwritten)
    return true;
  if (!isLastAccess(overwritten, writer))
    return false;
  // The writer may read the old bytes only element by element, and not by way
  // of a view.
  for (Value operand : writer->getOperands())
    if (getViewed(operand) == overwritten &&
        (operand != overwritten || !mayOverwrite(writer, operand, result)))
      return false;
  // Nested ops (a loop's body) may read it as well.
  WalkResult reads = writer->walk([&](Operation *op) {
    return op != writer && llvm::is_contained(
                               llvm::map_range(op->getOperands(), getViewed),
                               overwritten)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return !reads.wasInterrupted();
}

/// [kind, name] of an argument or result of an entry; a third attribute says
/// more where there is more to say.
static ArrayAttr bufferName(Builder &builder, StringRef kind, const Twine &name,
                            Attribute info = {}) {
  SmallVector<Attribute, 3> parts{builder.getStringAttr(kind),
                                  builder.getStringAttr(name)};
  if (info)
    parts.push_back(info);
  return builder.getArrayAttr(parts);
}

/// What makes two arguments of an entry one buffer: kind and name.
static std::pair<Attribute, Attribute> identityOf(Attribute buffer) {
  auto parts = cast<ArrayAttr>(buffer);
  return {parts[0], parts[1]};
}

ArrayAttr FunctionLowering::entryBuffers() {
  SmallVector<Attribute> names;
  StringRef entry = function.getName();
  if (auto place = function->getAttrOfType<ArrayAttr>(kPlaceAttr))
    entry = cast<StringAttr>(place[0]).getValue();
  // A rank's part says where it lies in the whole.
  auto addLayout = [&](Attribute layout) {
    if (!layout)
      return;
    SmallVector<Attribute> parts(cast<ArrayAttr>(names.back()).getValue());
    if (parts.size() < 3)
      parts.push_back(builder.getUnitAttr());
    parts.push_back(layout);
    names.back() = builder.getArrayAttr(parts);
  };
  // A matrix that is read in 8 bits only says so.
  auto addMark = [&](Attribute mark) {
    if (!mark)
      return;
    SmallVector<Attribute> parts(cast<ArrayAttr>(names.back()).getValue());
    parts.resize(4, builder.getUnitAttr());
    parts.push_back(mark);
    names.back() = builder.getArrayAttr(parts);
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (auto param =
            function.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr))
      names.push_back(
          bufferName(builder, "parameter", param.getName().getValue(), param));
    else if (auto role =
                 function.getArgAttrOfType<StringAttr>(i, nn::kBatchAttr))
      names.push_back(bufferName(builder, "batch", role.getValue()));
    else if (function.getArgAttr(i, nn::kRngAttr))
      names.push_back(bufferName(builder, "rng", "rng"));
    else if (function.getArgAttr(i, kCoordinatesAttr))
      names.push_back(bufferName(builder, "coordinates", "coordinates"));
    else if (auto scalar =
                 function.getArgAttrOfType<StringAttr>(i, nn::kScalarAttr))
      names.push_back(
          bufferName(builder, scalar.getValue() == "step" ? "step" : "scalar",
                     scalar.getValue(), function.getArgAttr(i, "nn.default")));
    else if (auto state =
                 function.getArgAttrOfType<ArrayAttr>(i, nn::kStateAttr))
      names.push_back(state);
    else if (auto name = function.getArgAttrOfType<StringAttr>(i, "nn.name"))
      names.push_back(
          bufferName(builder, "input", entry + "." + name.getValue()));
    else
      names.push_back(bufferName(builder, "input", entry + ".arg" + Twine(i)));
    addLayout(function.getArgAttr(i, kLayoutAttr));
    addMark(function.getArgAttr(i, nn::kQuantizedAttr));
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (auto result =
            function.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr))
      names.push_back(result);
    else
      names.push_back(bufferName(builder, "output", entry + ".out" + Twine(i)));
    addLayout(function.getResultAttr(i, kLayoutAttr));
  }
  return builder.getArrayAttr(names);
}

FailureOr<func::FuncOp> FunctionLowering::run() {
  SmallVector<Type> types;
  auto addTypes = [&](TypeRange tensors, StringRef what) -> LogicalResult {
    for (Type type : tensors) {
      if (!nn::isStaticTensor(type) || !nn::isAnyElement(type))
        return function.emitError(what)
               << " of type " << type << ", expected a tensor of static shape"
               << (nn::isStaticTensor(type)
                       ? " of floats, signless integers or i1"
                       : "");
      types.push_back(bufferType(type));
    }
    return success();
  };
  if (failed(addTypes(function.getArgumentTypes(), "argument")) ||
      failed(addTypes(function.getResultTypes(), "result")))
    return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (Attribute result = function.getResultAttr(i, nn::kResultAttr)) {
      auto pair = dyn_cast<ArrayAttr>(result);
      if (!pair || pair.size() != 2 ||
          !llvm::all_of(pair, llvm::IsaPred<StringAttr>))
        return function.emitError("result ")
               << i << " has nn.result = " << result
               << ", expected [\"kind of buffer\", \"name\"]";
    }
  builder.setInsertionPoint(function);
  auto lowered =
      func::FuncOp::create(builder, function.getLoc(), function.getName(),
                           builder.getFunctionType(types, {}));
  lowered.setVisibility(function.getVisibility());
  ArrayAttr entry = entryBuffers();
  if (function.isPublic())
    lowered->setAttr(kEntryAttr, entry);
  if (function->hasAttr(nn::kLayerAttr))
    lowered->setAttr(nn::kLayerAttr, builder.getUnitAttr());
  if (Attribute place = function->getAttr(kPlaceAttr))
    lowered->setAttr(kPlaceAttr, place);
  lowered->setAttr(kReadCountAttr,
                   builder.getI64IntegerAttr(function.getNumArguments()));

  Block *body = lowered.addEntryBlock();
  builder.setInsertionPointToStart(body);
  unsigned reads = function.getNumArguments();
  for (BlockArgument argument : function.getArguments())
    buffers[argument] = body->getArgument(argument.getArgNumber());
  // An accumulator that goes on to a layer is where its sum is wanted: the
  // caller hands over one buffer for both.
  if (auto pairs =
          function->getAttrOfType<DenseI64ArrayAttr>(nn::kAccumulatesAttr))
    for (int64_t p = 0; p + 1 < pairs.size(); p += 2) {
      BlockArgument argument = function.getArgument(pairs[p + 1]);
      if (argument.hasOneUse() && isa<func::CallOp>(*argument.user_begin()))
        buffers[argument] = body->getArgument(reads + pairs[p]);
    }

  findStrided();
  // Results are computed in place where nobody needs what was there.
  Block &source = function.getBody().front();
  auto terminator = cast<func::ReturnOp>(source.getTerminator());
  SmallVector<bool> direct;
  DenseMap<std::pair<Attribute, Attribute>, SmallVector<Value, 1>> readAs;
  DenseMap<std::pair<Attribute, Attribute>, unsigned> writtenAs;
  if (function.isPublic())
    for (unsigned a = 0; a < reads; ++a)
      readAs[identityOf(entry[a])].push_back(function.getArgument(a));
  for (auto [i, value] : llvm::enumerate(terminator.getOperands())) {
    SmallVector<Value, 1> readers;
    if (function.isPublic()) {
      auto identity = identityOf(entry[reads + i]);
      auto [it, isNew] = writtenAs.try_emplace(identity, i);
      if (!isNew)
        return function.emitError("results ")
               << it->second << " and " << i << " are both the "
               << identity.first << " " << identity.second
               << "; give each a name of its own (nn.result)";
      readers = readAs.lookup(identity);
    }
    Value overwritten = readers.empty() ? Value() : readers.front();
    if (auto pairs =
            function->getAttrOfType<DenseI64ArrayAttr>(nn::kAccumulatesAttr))
      for (int64_t p = 0; p + 1 < pairs.size(); p += 2)
        if (pairs[p] == static_cast<int64_t>(i))
          overwritten = function.getArgument(pairs[p + 1]);
    bool ok = readers.size() < 2 &&
              want(value, body->getArgument(reads + i), overwritten, &source);
    direct.push_back(ok || value == overwritten);
  }
  makeStreams();
  if (failed(lowerBlock(source)))
    return failure();

  // The rest is copied at the end: first out of buffers that another copy
  // overwrites, then into place.
  SmallVector<std::pair<Value, Value>> copies;
  for (auto [i, value] : llvm::enumerate(terminator.getOperands())) {
    if (direct[i])
      continue;
    Value from = lookup(value);
    if (isa<BlockArgument>(getBase(from)) && function.isPublic()) {
      Value safe = BufferOp::create(builder, value.getLoc(),
                                    bufferType(value.getType()), IntegerAttr());
      copy(terminator.getLoc(), from, safe);
      from = safe;
    }
    copies.push_back({from, body->getArgument(reads + i)});
  }
  for (auto [from, to] : copies)
    copy(terminator.getLoc(), from, to);
  func::ReturnOp::create(builder, terminator.getLoc());
  return lowered;
}

/// Has `value` computed in `buffer`, over `overwritten` where that is given;
/// false where that cannot be. Remembers it for the tensor that `value` shares
/// its bytes with, and for those that lead to it in place.
bool FunctionLowering::want(Value value, Value buffer, Value overwritten,
                            Block *block) {
  Value root = value;
  while (auto reshape = root.getDefiningOp<nn::ReshapeOp>())
    root = reshape.getInput();
  if (wanted.contains(root) || !mayWriteInto(root, overwritten, block))
    return false;
  auto place = [&](Value tensor) -> Value {
    auto type = bufferType(tensor.getType());
    if (type == buffer.getType())
      return buffer;
    return ViewOp::create(builder, value.getLoc(), type, buffer);
  };
  wanted[root] = place(root);
  if (overwritten)
    updates[root] = overwritten;
  // What the op may write over can be there already.
  for (Value now = root; now;) {
    Operation *op = now.getDefiningOp();
    Value next;
    for (Value operand : op->getOperands())
      if (operand != now && mayOverwrite(op, operand, now) &&
          !wanted.contains(operand) && getViewed(operand) == operand &&
          mayWriteInto(operand, overwritten, block) &&
          isLastAccess(operand, op)) {
        next = operand;
        break;
      }
    if (next) {
      wanted[next] = place(next);
      if (overwritten)
        updates[next] = overwritten;
    }
    now = next;
  }
  return true;
}

/// `buffer` from element `offset` on.
Value FunctionLowering::flat(Value buffer, int64_t offset) {
  if (offset == 0)
    return buffer;
  auto type = cast<MemRefType>(buffer.getType());
  auto rest =
      MemRefType::get({type.getNumElements() - offset}, type.getElementType());
  int64_t width = getBytes(type) / type.getNumElements();
  return ViewOp::create(builder, buffer.getLoc(), rest, buffer, offset * width);
}

/// Follows slices, transposes and reshapes to the tensor of which `value` is a
/// part. Counts those that would be copies.
static Strided traceParts(Value value, int &copies) {
  auto shapeOf = [](Value v) {
    return cast<RankedTensorType>(v.getType()).getShape();
  };
  // From the tensor down to the value, so that each step has strides to work
  // on.
  SmallVector<Operation *> path;
  Value base = value;
  while (Operation *op = base.getDefiningOp()) {
    if (!isa<nn::SliceOp, nn::TransposeOp, nn::ReshapeOp>(op))
      break;
    path.push_back(op);
    base = op->getOperand(0);
  }
  Strided result{base, 0, rowMajor(shapeOf(base))};
  copies = 0;
  for (Operation *op : llvm::reverse(path)) {
    Value to = op->getResult(0);
    int64_t offset;
    bool copy = !isView(op, offset);
    if (auto slice = dyn_cast<nn::SliceOp>(op)) {
      for (auto [stride, start, step] : llvm::zip_equal(
               result.strides, slice.getOffsets(), slice.getAllStrides())) {
        result.offset += start * stride;
        stride *= step;
      }
    } else if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
      Strides old = result.strides;
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        result.strides[i] = old[dim];
    } else {
      auto strides = reshapeStrides(shapeOf(op->getOperand(0)), result.strides,
                                    shapeOf(to));
      if (!strides) {
        // Begins anew behind what must be copied.
        result = {to, 0, rowMajor(shapeOf(to))};
        copies = 0;
        continue;
      }
      result.strides = *strides;
    }
    copies += copy;
  }
  return result;
}

/// Products that can read slices and transposes where they lie, and write parts
/// of a concatenation.
void FunctionLowering::findStrided() {
  SmallVector<nn::EinsumOp> einsums;
  function.walk([&](nn::EinsumOp einsum) {
    if (einsum.getInputs().size() == 2)
      einsums.push_back(einsum);
  });
  for (nn::EinsumOp einsum : einsums) {
    std::array<Strides, 3> strides;
    StridedProduct product;
    int copies[2];
    for (int i = 0; i < 2; ++i) {
      product.operands[i] = traceParts(einsum.getInputs()[i], copies[i]);
      strides[i] = product.operands[i].strides;
    }
    strides[2] = rowMajor(einsum.getType().getShape());
    if (copies[0] + copies[1] == 0)
      continue;
    auto plan = planMatmul(einsum, strides);
    if (!plan)
      continue;
    product.plan = *plan;
    product.strides = strides[2];
    strided[einsum] = product;
  }
  // What only they would read is not computed.
  SmallVector<Operation *> moves;
  function.walk([&](Operation *op) {
    if (isa<nn::SliceOp, nn::TransposeOp, nn::ReshapeOp>(op))
      moves.push_back(op);
  });
  for (Operation *op : llvm::reverse(moves))
    if (llvm::all_of(op->getUsers(), [&](Operation *user) {
          return needless.contains(user) || strided.contains(user);
        }))
      needless.insert(op);
  // A product's base must be a tensor that is computed.
  for (auto &[op, product] : strided)
    for (Strided &operand : product.operands)
      for (Operation *from = operand.base.getDefiningOp();
           isa_and_nonnull<nn::SliceOp, nn::TransposeOp, nn::ReshapeOp>(from);
           from = from->getOperand(0).getDefiningOp())
        needless.erase(from);
}

/// Has the operands of a concatenation computed where they belong; false where
/// one of them cannot be.
/// With an accumulator, a buffer of the concatenation's type, products add to
/// it and nothing else may be among the operands.
bool FunctionLowering::assemble(nn::ConcatenateOp concat, Value accumulator) {
  Block *block = concat->getBlock();
  RankedTensorType type = concat.getType();
  Strides strides = rowMajor(type.getShape());
  int64_t dim = concat.getDim(), start = 0;
  bool contiguous =
      !accumulator && llvm::all_of(type.getShape().take_front(dim),
                                   [](int64_t size) { return size == 1; });
  if (updates.contains(concat.getResult()))
    return false;
  SmallVector<std::pair<Value, int64_t>> parts; // what is computed, and where
  SmallVector<StridedProduct, 2> products;
  llvm::SmallDenseSet<Value> seen;
  for (Value input : concat.getInputs()) {
    auto inputType = cast<RankedTensorType>(input.getType());
    Value root = input;
    bool once = input.hasOneUse();
    while (auto reshape = root.getDefiningOp<nn::ReshapeOp>()) {
      root = reshape.getInput();
      once &= root.hasOneUse();
    }
    int64_t offset = start * strides[dim];
    start += inputType.getDimSize(dim);
    Operation *from = root.getDefiningOp();
    if (!once || wanted.contains(root) || !seen.insert(root).second ||
        !mayWriteInto(root, Value(), block))
      return false;
    parts.push_back({root, offset});
    if (contiguous)
      continue;
    auto einsum = dyn_cast<nn::EinsumOp>(from);
    if (!einsum || einsum.getInputs().size() != 2)
      return false;
    auto own = reshapeStrides(inputType.getShape(), strides,
                              einsum.getType().getShape());
    if (!own)
      return false;
    StridedProduct product;
    auto known = strided.find(einsum);
    if (known != strided.end()) {
      product = known->second;
    } else {
      for (int i = 0; i < 2; ++i) {
        Value operand = einsum.getInputs()[i];
        product.operands[i] = {
            operand, 0,
            rowMajor(cast<RankedTensorType>(operand.getType()).getShape())};
      }
    }
    auto plan = planMatmul(einsum, {product.operands[0].strides,
                                    product.operands[1].strides, *own});
    if (!plan)
      return false;
    product.plan = *plan;
    product.strides = *own;
    product.offset = offset;
    products.push_back(product);
  }
  Value buffer = accumulator ? accumulator : destination(concat.getResult());
  int64_t width =
      getBytes(cast<MemRefType>(buffer.getType())) / type.getNumElements();
  for (auto [i, part] : llvm::enumerate(parts)) {
    auto [root, offset] = part;
    if (contiguous) {
      wanted[root] =
          ViewOp::create(builder, concat.getLoc(), bufferType(root.getType()),
                         buffer, offset * width);
      continue;
    }
    products[i].into = buffer;
    products[i].accumulate = static_cast<bool>(accumulator);
    strided[root.getDefiningOp()] = products[i];
  }
  return true;
}

/// Whether an op is a product of uneven sizes that the device has.
static bool isGrouped(Operation *op) {
  if (!isa<nn::GroupedMatmulOp, nn::GroupedOuterOp>(op))
    return false;
  Type element =
      cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  return isa<Float32Type, Float64Type>(element);
}

/// Has a product added to an accumulator by itself.
void FunctionLowering::accumulate(nn::AddOp add) {
  Value overwritten = updates.lookup(add.getResult());
  Value buffer = wanted.lookup(add.getResult());
  if (!overwritten || !buffer || !overwritten.hasOneUse())
    return;
  Value value = add.getLhs() == overwritten ? add.getRhs() : add.getLhs();
  if (value == overwritten || value.getType() != add.getType() ||
      (add.getLhs() != overwritten && add.getRhs() != overwritten))
    return;
  Value root = value;
  bool once = root.hasOneUse();
  while (auto reshape = root.getDefiningOp<nn::ReshapeOp>()) {
    root = reshape.getInput();
    once &= root.hasOneUse();
  }
  Operation *from = root.getDefiningOp();
  if (!once || !from || from->getBlock() != add->getBlock() ||
      wanted.contains(root))
    return;
  auto view = [&](Value tensor) -> Value {
    auto type = bufferType(tensor.getType());
    if (type == buffer.getType())
      return buffer;
    return ViewOp::create(builder, add.getLoc(), type, buffer);
  };
  if (auto concat = dyn_cast<nn::ConcatenateOp>(from)) {
    if (!assemble(concat, view(root)))
      return;
    dropParts(concat);
  } else if (auto einsum = dyn_cast<nn::EinsumOp>(from)) {
    StridedProduct product;
    auto known = strided.find(einsum);
    if (known != strided.end()) {
      product = known->second;
    } else {
      auto plan = planMatmul(einsum);
      if (!plan)
        return;
      product.plan = *plan;
      for (int i = 0; i < 2; ++i) {
        Value operand = einsum.getInputs()[i];
        product.operands[i] = {
            operand, 0,
            rowMajor(cast<RankedTensorType>(operand.getType()).getShape())};
      }
    }
    product.into = view(root);
    product.accumulate = true;
    strided[einsum] = product;
  } else if (isa<nn::GroupedOuterOp>(from) && isGrouped(from)) {
    addedTo[from] = view(root);
  } else {
    return;
  }
  // The buffer holds the sum once the product has run.
  for (Value now = value; now != root; now = now.getDefiningOp()->getOperand(0))
    needless.insert(now.getDefiningOp());
  needless.insert(add);
  buffers[add.getResult()] = buffer;
}

/// Nobody else reads the operands of an assembled concatenation.
void FunctionLowering::dropParts(nn::ConcatenateOp concat) {
  needless.insert(concat);
  for (Value input : concat.getInputs())
    while (auto reshape = input.getDefiningOp<nn::ReshapeOp>()) {
      needless.insert(reshape);
      input = reshape.getInput();
    }
}

LogicalResult FunctionLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (auto add = dyn_cast<nn::AddOp>(op))
      accumulate(add);
  // From the last on: an operand may itself be put together.
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (auto concat = dyn_cast<nn::ConcatenateOp>(op))
      if (!needless.contains(concat) && assemble(concat))
        dropParts(concat);
  for (Operation &op : block.without_terminator())
    if (failed(lowerOp(&op)))
      return failure();
  return success();
}

LogicalResult FunctionLowering::lowerOp(Operation *op) {
  if (isConstant(op) || needless.contains(op))
    return success();
  int64_t offset;
  if (isView(op, offset)) {
    auto type = bufferType(op->getResult(0).getType());
    int64_t width = getBytes(type) / type.getNumElements();
    Value source = lookup(op->getOperand(0));
    buffers[op->getResult(0)] =
        ViewOp::create(builder, op->getLoc(), type, source, offset * width);
    return success();
  }
  if (auto einsum = dyn_cast<nn::EinsumOp>(op))
    return lowerEinsum(einsum);
  if (isa<nn::GroupedMatmulOp, nn::GroupedOuterOp>(op) && lowerGrouped(op))
    return success();
  if (auto loop = dyn_cast<nn::MicrobatchesOp>(op))
    return lowerMicrobatches(loop);
  if (auto call = dyn_cast<func::CallOp>(op)) {
    SmallVector<Value> read, written;
    // An accumulator is where its sum is wanted, and stays where it is.
    llvm::SmallDenseMap<int64_t, int64_t> sums;
    if (auto pairs =
            call->getAttrOfType<DenseI64ArrayAttr>(nn::kAccumulatesAttr))
      for (int64_t i = 0; i + 1 < pairs.size(); i += 2)
        sums[pairs[i + 1]] = pairs[i];
    for (Value result : call.getResults())
      written.push_back(reuseOperand(call, result) ? buffers.lookup(result)
                                                   : destination(result));
    for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
      auto sum = sums.find(i);
      if (sum == sums.end()) {
        read.push_back(isStream(call, operand) ? streamOf(operand)
                                               : lookup(operand));
        continue;
      }
      read.push_back(written[sum->second]);
      if (isConstant(operand.getDefiningOp()))
        fill(operand, read.back());
      else
        copy(call.getLoc(), lookup(operand), read.back());
    }
    auto lowered = CallOp::create(builder, call.getLoc(), call.getCallee(),
                                  read, written, IntegerAttr());
    for (StringRef name : {StringRef(nn::kRoleAttr), StringRef(kActionAttr)})
      if (Attribute value = call->getAttr(name))
        lowered->setAttr(name, value);
    return success();
  }
  if (auto fused = dyn_cast<nn::FusedOp>(op)) {
    lowerFused(fused);
    return success();
  }
  if (auto transfer = dyn_cast<TransferOp>(op)) {
    SmallVector<Value> read;
    for (Value operand : transfer->getOperands())
      read.push_back(lookup(operand));
    CollectiveOp::create(
        builder, op->getLoc(), transfer.getKindAttr(),
        transfer.getReductionAttr(), read, destination(transfer),
        transfer.getSizesAttr(), transfer.getStridesAttr(),
        transfer.getCutAttr(), transfer.getJoinAttr(), transfer.getRootAttr(),
        IntegerAttr(), transfer.getTargetsAttr(), transfer.getAboutAttr());
    return success();
  }
  if (isa<SendOp, WaitSendOp, ReceiveOp, WaitReceiveOp>(op)) {
    lowerPair(op);
    return success();
  }
  if (!op->getDialect() || op->getNumRegions() > 0 || !isMemoryEffectFree(op) ||
      !llvm::all_of(op->getOperandTypes(), nn::isStaticTensor) ||
      !llvm::all_of(op->getResultTypes(), nn::isStaticTensor))
    return op->emitOpError(
        "cannot be given buffers: expected nn ops, calls of layers and "
        "nn.microbatches");
  lowerKernel(op);
  return success();
}

/// A send or a receive, or the wait for one. The handle is a buffer, too.
void FunctionLowering::lowerPair(Operation *op) {
  Operation *made;
  if (auto send = dyn_cast<SendOp>(op)) {
    Value read = lookup(send.getInput());
    made = StartOp::create(
        builder, op->getLoc(), Pair::Send, read, destination(send.getHandle()),
        send.getPeer(), send.getSize(), send.getStride(), send.getAboutAttr());
  } else if (auto receive = dyn_cast<ReceiveOp>(op)) {
    Value written = destination(receive.getResult());
    made =
        StartOp::create(builder, op->getLoc(), Pair::Receive, ValueRange(),
                        ValueRange{written, destination(receive.getHandle())},
                        receive.getPeer(), receive.getSize(),
                        receive.getStride(), receive.getAboutAttr());
  } else if (auto sent = dyn_cast<WaitSendOp>(op)) {
    made = WaitOp::create(
        builder, op->getLoc(),
        ValueRange{lookup(sent.getHandle()), lookup(sent.getInput())},
        ValueRange());
  } else {
    auto received = cast<WaitReceiveOp>(op);
    Value buffer = lookup(received.getStarted());
    made = WaitOp::create(builder, op->getLoc(), lookup(received.getHandle()),
                          buffer);
    buffers[received.getResult()] = buffer;
  }
  if (Attribute role = op->getAttr(nn::kRoleAttr))
    made->setAttr(nn::kRoleAttr, role);
}

void FunctionLowering::lowerKernel(Operation *op) {
  // Attention's kernels take every operand, and the bias has one of its own.
  if (isa<nn::AttentionOp>(op))
    return launch(op, {op}, op->getOperands(), op->getResults());
  if (isa<nn::AttentionGradOp>(op)) {
    launch(op, {op}, op->getOperands(), op->getResults().take_front(3));
    if (op->getNumResults() > 3)
      launch(op, {op}, op->getOperands(), op->getResults().drop_front(3));
    return;
  }
  SmallVector<Operation *> ops;
  SmallVector<Value> inputs;
  for (Value operand : op->getOperands()) {
    if (isConstant(operand.getDefiningOp()) && !isStream(op, operand)) {
      if (!llvm::is_contained(ops, operand.getDefiningOp()))
        ops.push_back(operand.getDefiningOp());
    } else if (!llvm::is_contained(inputs, operand)) {
      inputs.push_back(operand);
    }
  }
  ops.push_back(op);
  launch(op, ops, inputs, op->getResults());
}

/// Puts `result` into the buffer of an operand that nobody reads any more,
/// where the op may write over it.
bool FunctionLowering::reuseOperand(Operation *op, Value result) {
  if (wanted.contains(result))
    return false;
  for (Value operand : op->getOperands()) {
    Value root = getViewed(operand);
    Operation *from = root.getDefiningOp();
    // What was there before a loop is read again.
    if (!from || from->getBlock() != op->getBlock() || isConstant(from) ||
        root.getType() != operand.getType() ||
        !mayOverwrite(op, operand, result) || !isLastAccess(root, op))
      continue;
    // Read through another view as well?
    if (llvm::any_of(op->getOperands(), [&](Value other) {
          return other != operand && getViewed(other) == root;
        }))
      continue;
    Value buffer = buffers.lookup(root);
    // Not a place that somebody wants, nor one that is taken already.
    if (!buffer || !buffer.getDefiningOp<BufferOp>() || wanted.contains(root) ||
        reused.contains({op, buffer}))
      continue;
    reused.insert({op, buffer});
    buffers[result] = buffer;
    return true;
  }
  return false;
}

void FunctionLowering::lowerFused(nn::FusedOp fused) {
  Block &body = fused.getBody().front();
  // What is only handed on is copied: an argument, and what is yielded twice.
  OpBuilder builder(body.getTerminator());
  SmallPtrSet<Value, 4> yielded;
  for (OpOperand &operand : body.getTerminator()->getOpOperands())
    if (isa<BlockArgument>(operand.get()) ||
        !yielded.insert(operand.get()).second)
      operand.set(nn::ReshapeOp::create(
          builder, fused.getLoc(), operand.get().getType(), operand.get()));
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  func::FuncOp kernel = kernels.getOrCreate(
      ops, body.getArguments(), body.getTerminator()->getOperands());
  launchKernel(fused, kernel, fused.getInputs(), fused.getResults());
}

void FunctionLowering::launch(Operation *op, ArrayRef<Operation *> ops,
                              ValueRange inputs, ValueRange results) {
  launchKernel(op, kernels.getOrCreate(ops, inputs, results), inputs, results);
}

void FunctionLowering::launchKernel(Operation *op, func::FuncOp kernel,
                                    ValueRange inputs, ValueRange results) {
  SmallVector<Value> read, written;
  for (Value input : inputs)
    read.push_back(isStream(op, input) ? streamOf(input) : lookup(input));
  for (Value result : results)
    written.push_back(reuseOperand(op, result) ? buffers.lookup(result)
                                               : destination(result));
  auto symbol = SymbolRefAttr::get(builder.getStringAttr(kKernelsName),
                                   FlatSymbolRefAttr::get(kernel));
  auto launched =
      LaunchOp::create(builder, op->getLoc(), symbol, read, written);
  if (Attribute role = op->getAttr(nn::kRoleAttr))
    launched->setAttr(nn::kRoleAttr, role);
}

LogicalResult FunctionLowering::lowerEinsum(nn::EinsumOp einsum) {
  SmallVector<Value> read;
  Value written;
  std::optional<MatmulPlan> plan;
  auto known = strided.find(einsum);
  if (known != strided.end()) {
    StridedProduct &product = known->second;
    plan = product.plan;
    for (Strided &operand : product.operands)
      read.push_back(flat(lookup(operand.base), operand.offset));
    written = product.into ? flat(product.into, product.offset)
                           : destination(einsum.getResult());
  } else {
    plan = planMatmul(einsum);
    if (!plan) {
      lowerKernel(einsum);
      return success();
    }
    read = {lookup(einsum.getInputs()[0]), lookup(einsum.getInputs()[1])};
    written = destination(einsum.getResult());
  }
  if (plan->swapped)
    std::swap(read[0], read[1]);
  DenseI64ArrayAttr batch, strides;
  if (!plan->batch.empty()) {
    batch = builder.getDenseI64ArrayAttr(plan->batch);
    SmallVector<int64_t> all;
    for (auto &part : plan->strides)
      llvm::append_range(all, part);
    strides = builder.getDenseI64ArrayAttr(all);
  }
  auto matmul = MatmulOp::create(
      builder, einsum.getLoc(), read, written,
      builder.getDenseI64ArrayAttr({plan->m, plan->n, plan->k}),
      builder.getDenseI64ArrayAttr({plan->lda, plan->ldb, plan->ldc}), batch,
      strides, plan->transposeA, plan->transposeB,
      known != strided.end() && known->second.accumulate);
  if (Attribute role = einsum->getAttr(nn::kRoleAttr))
    matmul->setAttr(nn::kRoleAttr, role);
  if (auto narrow = einsum->getAttrOfType<ArrayAttr>(kNarrowAttr)) {
    SmallVector<Attribute> types(narrow.getValue());
    if (plan->swapped)
      std::swap(types[0], types[1]);
    matmul->setAttr(kNarrowAttr, builder.getArrayAttr(types));
  }
  return success();
}

/// Rows times the matrix of their expert, or the sum of their outer products.
bool FunctionLowering::lowerGrouped(Operation *op) {
  if (!isGrouped(op))
    return false;
  auto sizesOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  bool outer = isa<nn::GroupedOuterOp>(op);
  auto product = dyn_cast<nn::GroupedMatmulOp>(op);
  ArrayRef<int64_t> rows = sizesOf(op->getOperand(0));
  ArrayRef<int64_t> matrices =
      sizesOf(outer ? op->getResult(0) : op->getOperand(1));
  // Groups, rows, experts, k, n; parts stand in front where there are any.
  bool isCut = rows.size() == 4;
  int64_t parts = isCut ? rows[0] : 1;
  rows = rows.drop_front(isCut);
  matrices = matrices.drop_front(isCut);
  int64_t n = outer ? matrices[2] : sizesOf(op->getResult(0)).back();
  SmallVector<Value> read;
  for (Value operand : op->getOperands())
    read.push_back(lookup(operand));
  auto sum = addedTo.find(op);
  bool accumulate = sum != addedTo.end();
  Value written = accumulate ? sum->second : destination(op->getResult(0));
  auto lowered = GroupedMatmulOp::create(
      builder, op->getLoc(), read, written,
      builder.getDenseI64ArrayAttr(
          {parts * rows[0], rows[1], matrices[0], rows[2], n}),
      parts, product && product.getTransposed(), outer, accumulate);
  for (StringRef name : {StringRef(nn::kRoleAttr), StringRef(kNarrowAttr)})
    if (Attribute value = op->getAttr(name))
      lowered->setAttr(name, value);
  return true;
}

LogicalResult FunctionLowering::lowerMicrobatches(nn::MicrobatchesOp loop) {
  Location loc = loop.getLoc();
  int64_t count = loop.getCount();
  Block &body = loop.getBody().front();
  auto yield = cast<nn::YieldOp>(body.getTerminator());

  // Accumulators live in the buffers of the loop's results.
  SmallVector<Value> accumulators;
  for (auto [init, result] :
       llvm::zip_equal(loop.getInits(), loop.getResults())) {
    Value buffer = destination(result);
    accumulators.push_back(buffer);
    Operation *op = init.getDefiningOp();
    if (isConstant(op)) {
      func::FuncOp kernel = kernels.getOrCreate(op, {}, init);
      auto symbol = SymbolRefAttr::get(builder.getStringAttr(kKernelsName),
                                       FlatSymbolRefAttr::get(kernel));
      LaunchOp::create(builder, loc, symbol, ValueRange(), buffer);
    } else {
      copy(loc, lookup(init), buffer);
    }
  }
  // The microbatch's number as device data: one element of 0, 1, 2, ...
  Value numbers;
  BlockArgument number = body.getArgument(0);
  if (!number.use_empty()) {
    auto type = RankedTensorType::get({count}, builder.getI32Type());
    OpBuilder scratch(loop.getContext());
    OwningOpRef<nn::IotaOp> iota = nn::IotaOp::create(scratch, loc, type, 0);
    func::FuncOp kernel =
        kernels.getOrCreate(iota->getOperation(), {}, iota->getResult());
    numbers = BufferOp::create(builder, loc, bufferType(type), IntegerAttr());
    auto symbol = SymbolRefAttr::get(builder.getStringAttr(kKernelsName),
                                     FlatSymbolRefAttr::get(kernel));
    LaunchOp::create(builder, loc, symbol, ValueRange(), numbers);
  }
  SmallVector<Value> sliced;
  for (Value value : loop.getSliced())
    sliced.push_back(lookup(value));

  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value end = arith::ConstantIndexOp::create(builder, loc, count);
  auto loweredLoop = scf::ForOp::create(builder, loc, zero, end, one);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loweredLoop.getBody());
  Value index = loweredLoop.getInductionVar();
  auto part = [&](BlockArgument argument, Value source) {
    if (!argument.use_empty())
      buffers[argument] = PartOp::create(
          builder, loc, bufferType(argument.getType()), source, index);
  };
  if (numbers)
    part(number, numbers);
  for (auto [i, source] : llvm::enumerate(sliced))
    part(body.getArgument(1 + i), source);
  unsigned first = 1 + sliced.size();
  for (auto [i, buffer] : llvm::enumerate(accumulators))
    buffers[body.getArgument(first + i)] = buffer;

  SmallVector<bool> direct;
  for (auto [i, value] : llvm::enumerate(yield.getValues())) {
    Value accumulator = body.getArgument(first + i);
    bool ok = want(value, accumulators[i], accumulator, &body);
    direct.push_back(ok || value == accumulator);
  }
  if (failed(lowerBlock(body)))
    return failure();
  SmallVector<std::pair<Value, Value>> copies;
  for (auto [i, value] : llvm::enumerate(yield.getValues())) {
    if (direct[i])
      continue;
    Value from = lookup(value);
    if (llvm::is_contained(accumulators, getBase(from))) {
      Value safe = BufferOp::create(builder, loc, bufferType(value.getType()),
                                    IntegerAttr());
      copy(loc, from, safe);
      from = safe;
    }
    copies.push_back({from, accumulators[i]});
  }
  for (auto [from, to] : copies)
    copy(loc, from, to);
  return success();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct NNToExec : sheaf::impl::NNToExecBase<NNToExec> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    if (failed(nn::refuseEncodings(
            module, "what dist-to-nn leaves: tensors without encoding")))
      return signalPassFailure();
    if (Operation *taken = module.lookupSymbol(kKernelsName)) {
      taken->emitError("has the name '")
          << kKernelsName
          << "', which the module of kernels gets; give it another";
      return signalPassFailure();
    }
    // Callees and callers are changed together; a call's types agree at the
    // end.
    KernelTable kernels(module);
    for (func::FuncOp function : functions) {
      if (function.isExternal()) {
        function.emitError("has no body; every function must be defined");
        return signalPassFailure();
      }
      if (!function.getBody().hasOneBlock()) {
        function.emitError(
            "has several blocks; expected straight-line nn code");
        return signalPassFailure();
      }
      markNarrow(function);
      FailureOr<func::FuncOp> lowered =
          FunctionLowering(function, kernels).run();
      if (failed(lowered))
        return signalPassFailure();
      function.erase();
    }
    if (kernels.empty())
      kernels.getModule().erase();
  }
};
} // namespace
