//===- ExecDialect.cpp - Registration and verifiers of exec ---------------===//

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/DialectImplementation.h"
#include "support/WordAssembly.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sheaf::exec;

#include "dialects/Exec/ExecDialect.cpp.inc"
#include "dialects/Exec/ExecEnums.cpp.inc"
#include "dialects/Exec/ExecInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/ExecAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Exec/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Exec/ExecOps.cpp.inc"
      >();
}

bool sheaf::exec::isMemory(Type type) {
  auto memory = dyn_cast<MemRefType>(type);
  if (!memory || !memory.hasStaticShape() || !memory.getLayout().isIdentity() ||
      !memory.getElementType().isIntOrFloat())
    return false;
  // The bytes of every buffer must fit an int64_t.
  int64_t elements = 1;
  for (int64_t size : memory.getShape())
    if (size < 1 || __builtin_mul_overflow(elements, size, &elements))
      return false;
  return elements <= (int64_t(1) << 59) &&
         memory.getElementType().getIntOrFloatBitWidth() <= 64;
}

bool sheaf::exec::isTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getElementType().isIntOrFloat() &&
         isMemory(MemRefType::get(tensor.getShape(), tensor.getElementType()));
}

bool sheaf::exec::isHandle(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 &&
         tensor.getElementType().isInteger(64) && !tensor.getEncoding();
}

/// The buffers of an entry: an array of [kind, name] or [kind, name, more].
static LogicalResult verifyEntry(Operation *op, Attribute value) {
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function) // Lowered already.
    return success();
  auto entry = dyn_cast<ArrayAttr>(value);
  if (!entry || entry.size() != function.getNumArguments())
    return op->emitOpError()
           << "has " << kEntryAttr << " = " << value
           << ", expected an array of [kind, name] for each of the "
           << function.getNumArguments() << " arguments";
  for (auto [item, type] :
       llvm::zip_equal(entry, function.getArgumentTypes())) {
    auto parts = dyn_cast<ArrayAttr>(item);
    // A fifth, a mark of parameters, may stand behind no fourth.
    bool isMarked = parts && parts.size() == 5;
    if (!parts || parts.size() < 2 || parts.size() > 5 ||
        !isa<StringAttr>(parts[0]) || !isa<StringAttr>(parts[1]) ||
        (isMarked && !isa<UnitAttr>(parts[4])) ||
        (parts.size() > 3 && !isa<DictionaryAttr>(parts[3]) &&
         !(isMarked && isa<UnitAttr>(parts[3]))))
      return op->emitOpError()
             << "has " << item << " in " << kEntryAttr
             << ", expected [\"kind\", \"name\"] and, for some kinds, more";
    if (!isMemory(type))
      return op->emitOpError()
             << "is an entry and has an argument of type " << type
             << ", expected a memref of static shape and identity layout";
  }
  return success();
}

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (name == kEntryAttr)
    return verifyEntry(op, value);
  if (name == kScratchAttr || name == "exec.live_bytes" ||
      name == kReadCountAttr || name == kPeakAttr) {
    auto count = dyn_cast<IntegerAttr>(value);
    if (!count || !count.getType().isInteger(64) || count.getInt() < 0)
      return op->emitOpError() << "has " << name << " = " << value
                               << ", expected an i64 of at least 0";
  }
  if (name == kPlaceAttr) {
    auto place = dyn_cast<ArrayAttr>(value);
    auto number = place && place.size() == 2 ? dyn_cast<IntegerAttr>(place[1])
                                             : IntegerAttr();
    if (!number || !isa<StringAttr>(place[0]) || number.getInt() < 0)
      return op->emitOpError() << "has " << kPlaceAttr << " = " << value
                               << ", expected the name of an entry and a "
                                  "number, as [\"step\", 0]";
  }
  if ((name == kActionAttr || name == kScheduleAttr ||
       name == kPeakActionAttr) &&
      !isa<StringAttr>(value))
    return op->emitOpError()
           << "has " << name << " = " << value << ", expected a string";
  if (name == kActionsAttr) {
    auto names = dyn_cast<ArrayAttr>(value);
    if (!names || !llvm::all_of(names, llvm::IsaPred<StringAttr>))
      return op->emitOpError() << "has " << name << " = " << value
                               << ", expected an array of strings";
  }
  if (name == kTableAttr || name == kCollectivesAttr) {
    auto table = dyn_cast<ArrayAttr>(value);
    if (!table || !llvm::all_of(table, llvm::IsaPred<DictionaryAttr>))
      return op->emitOpError() << "has " << name << " = " << value
                               << ", expected an array of dictionaries";
  }
  return success();
}

int64_t sheaf::exec::getBytes(MemRefType type) {
  return type.getNumElements() *
         ((type.getElementType().getIntOrFloatBitWidth() + 7) / 8);
}

Value sheaf::exec::getBase(Value buffer) {
  while (Operation *op = buffer.getDefiningOp()) {
    if (auto view = dyn_cast<ViewOp>(op))
      buffer = view.getSource();
    else if (auto part = dyn_cast<PartOp>(op))
      buffer = part.getSource();
    else
      break;
  }
  return buffer;
}

LogicalResult ViewOp::verify() {
  int64_t offset = getOffset();
  int64_t width = getBytes(getType()) / getType().getNumElements();
  if (offset < 0 || offset % width)
    return emitOpError("offset ")
           << offset << " is not a multiple of the element's " << width
           << " bytes";
  if (offset + getBytes(getType()) > getBytes(getSource().getType()))
    return emitOpError("ends at byte ")
           << offset + getBytes(getType()) << " of a source of "
           << getBytes(getSource().getType()) << " bytes";
  return success();
}

LogicalResult PartOp::verify() {
  if (getSource().getType().getElementType() != getType().getElementType() ||
      getBytes(getSource().getType()) % getBytes(getType()))
    return emitOpError("source ")
           << getSource().getType() << " does not hold a whole number of parts "
           << getType();
  return success();
}

/// Operand types against the callee's arguments.
static LogicalResult verifyArguments(Operation *op, func::FuncOp callee,
                                     TypeRange arguments) {
  if (callee.getArgumentTypes() != arguments)
    return op->emitOpError("operands have types (")
        .append(arguments, "), '", callee.getName(), "' expects (",
                callee.getArgumentTypes(), ")");
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("kernel ") << getKernelAttr() << " is not a function";
  // A lowered kernel sees a buffer of less than 8 bits as the bytes it is.
  SmallVector<Type> expected;
  for (Type type : getOperandTypes()) {
    auto memory = cast<MemRefType>(type);
    expected.push_back(memory.getElementType().getIntOrFloatBitWidth() < 8
                           ? MemRefType::get(memory.getShape(),
                                             IntegerType::get(getContext(), 8))
                           : type);
  }
  // A kernel on tensors is not lowered yet; one on buffers ends in its range.
  if (kernel.getNumArguments() > 0 &&
      !isa<IndexType>(kernel.getArgumentTypes().back())) {
    SmallVector<Type> tensors;
    auto asTensor = [](Type type) -> Type {
      auto memory = cast<MemRefType>(type);
      return RankedTensorType::get(memory.getShape(), memory.getElementType());
    };
    for (Type type : getRead().getTypes())
      tensors.push_back(asTensor(type));
    if (kernel.getArgumentTypes() != TypeRange(tensors))
      return emitOpError("reads (").append(getRead().getTypes(), "), '",
                                           kernel.getName(), "' expects (",
                                           kernel.getArgumentTypes(), ")");
    return success();
  }
  if (kernel.getNumArguments() == 0)
    return success();
  expected.append(2, IndexType::get(getContext()));
  return verifyArguments(*this, kernel, expected);
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError("callee ") << getCalleeAttr() << " is not a function";
  return verifyArguments(*this, callee, getOperandTypes());
}

LogicalResult CopyOp::verify() {
  if (getRead().size() != 1 || getWritten().size() != 1 ||
      getRead()[0].getType() != getWritten()[0].getType())
    return emitOpError("copies one buffer to another of the same type");
  return success();
}

LogicalResult MatmulOp::verify() {
  if (getRead().size() != 2 || getWritten().size() != 1)
    return emitOpError("reads two buffers and writes one");
  if (getDims().size() != 3 || getLeading().size() != 3)
    return emitOpError("dims and leading have three numbers each");
  size_t batch = getBatch() ? getBatch()->size() : 0;
  if (batch > 3 || (getStrides() ? getStrides()->size() : 0) != 3 * batch)
    return emitOpError("has ")
           << batch << " batch sizes and "
           << (getStrides() ? getStrides()->size() : 0)
           << " strides, expected at most three sizes and three "
              "strides for each";
  // The last element that each operand touches lies inside its buffer.
  auto [m, n, k] = std::tuple(getDims()[0], getDims()[1], getDims()[2]);
  if (m < 1 || n < 1 || k < 1)
    return emitOpError("dims must be at least 1");
  std::array<std::pair<int64_t, int64_t>, 3> stored = {
      getTransposeA() ? std::pair(k, m) : std::pair(m, k),
      getTransposeB() ? std::pair(n, k) : std::pair(k, n), std::pair(m, n)};
  for (int operand = 0; operand < 3; ++operand) {
    Value buffer = operand < 2 ? getRead()[operand] : getWritten()[0];
    auto [rows, columns] = stored[operand];
    if (getLeading()[operand] < columns)
      return emitOpError("leading dimension ")
             << getLeading()[operand] << " of operand " << operand
             << " is below its " << columns << " columns";
    int64_t last = (rows - 1) * getLeading()[operand] + columns;
    for (size_t i = 0; i < batch; ++i)
      last += ((*getBatch())[i] - 1) * (*getStrides())[operand * batch + i];
    int64_t elements = cast<MemRefType>(buffer.getType()).getNumElements();
    if (last > elements)
      return emitOpError("operand ") << operand << " reaches element " << last
                                     << " of a buffer of " << elements;
  }
  return success();
}

LogicalResult GroupedMatmulOp::verify() {
  if (getRead().size() != 3 || getWritten().size() != 1)
    return emitOpError("reads three buffers and writes one");
  if (getDims().size() != 5 ||
      llvm::any_of(getDims(), [](int64_t size) { return size < 1; }))
    return emitOpError("dims are [")
           << getDims() << "], expected five numbers of at least 1: groups, "
           << "rows, experts, k and n";
  if (getOuter() && getTransposed())
    return emitOpError("is 'outer' and 'transposed', expected one of them");
  if (getAccumulate() && !getOuter())
    return emitOpError("has 'accumulate' without 'outer'");
  auto [groups, rows, experts, k, n] = std::tuple(
      getDims()[0], getDims()[1], getDims()[2], getDims()[3], getDims()[4]);
  int64_t parts = getParts();
  if (parts < 1 || groups % parts)
    return emitOpError("has ") << parts << " parts, expected a divisor of the "
                               << groups << " groups";
  auto check = [&](Value buffer, StringRef what, ArrayRef<int64_t> sizes,
                   bool isOffsets) -> LogicalResult {
    auto type = cast<MemRefType>(buffer.getType());
    int64_t elements = 1;
    for (int64_t size : sizes)
      if (__builtin_mul_overflow(elements, size, &elements))
        return emitOpError(what) << " would have more than 2^63 elements";
    if (type.getNumElements() != elements)
      return emitOpError(what)
             << " is " << type << ", expected " << elements << " elements";
    if (isOffsets
            ? !type.getElementType().isInteger(32)
            : type.getElementType() !=
                  cast<MemRefType>(getRead()[0].getType()).getElementType())
      return emitOpError(what)
             << " is " << type << ", expected elements of "
             << (isOffsets ? "i32" : "the type of the first operand");
    return success();
  };
  SmallVector<int64_t> matrices{parts, experts, k, n}, wide{groups, rows, n};
  return failure(failed(check(getRead()[0], "the first operand",
                              {groups, rows, k}, false)) ||
                 failed(check(getRead()[1], "the second operand",
                              getOuter() ? wide : matrices, false)) ||
                 failed(check(getRead()[2], "the third operand, the offsets,",
                              {groups, experts + 1}, true)) ||
                 failed(check(getWritten()[0], "the result",
                              getOuter() ? matrices : wide, false)));
}

/// What holds of a transfer on buffers and of one on tensors.
template <typename Op>
static LogicalResult verifyTransfer(Op op, ShapedType from, ShapedType to) {
  if (op.getSizes().size() != op.getStrides().size() ||
      op.getSizes().size() > 8)
    return op.emitOpError("has ")
           << op.getSizes().size() << " sizes and " << op.getStrides().size()
           << " strides, expected one for each of at most eight axes";
  int64_t group = 1;
  for (auto [size, stride] : llvm::zip_equal(op.getSizes(), op.getStrides()))
    if (size < 1 || stride < 1 || __builtin_mul_overflow(group, size, &group) ||
        group > INT32_MAX)
      return op.emitOpError("has the axis ")
             << size << " with stride " << stride
             << ", expected at least 1 each and a group of at most 2^31 - 1 "
                "ranks";
  bool reduces = op.getKind() == Transfer::AllReduce ||
                 op.getKind() == Transfer::ReduceScatter;
  StringRef name = stringifyTransfer(op.getKind());
  if (reduces != op.getReduction().has_value())
    return op.emitOpError(name)
           << (reduces ? " needs a reduction: sum, max or min"
                       : " has a reduction, expected none");
  if (from.getElementType() != to.getElementType())
    return op.emitOpError("reads elements of ")
           << from.getElementType() << " and writes " << to.getElementType();
  int64_t expected = from.getNumElements();
  bool isCut = op.getKind() == Transfer::ReduceScatter ||
               op.getKind() == Transfer::AllToAll;
  bool isJoined =
      op.getKind() == Transfer::AllGather || op.getKind() == Transfer::AllToAll;
  if (op.getKind() == Transfer::AllGather &&
      __builtin_mul_overflow(expected, group, &expected))
    return op.emitOpError("gathers more elements than 64 bits count");
  if (op.getKind() == Transfer::ReduceScatter) {
    if (expected % group)
      return op.emitOpError("cuts ") << expected << " elements for a group of "
                                     << group << ", expected a multiple";
    expected /= group;
  }
  if (to.getNumElements() != expected)
    return op.emitOpError(name)
           << " in a group of " << group << " of " << from << " fills "
           << expected << " elements, expected " << to << " to have as many";
  auto checkSlices = [&](StringRef what, int64_t slices, bool isAllowed,
                         int64_t elements) -> LogicalResult {
    if (slices == 1)
      return success();
    if (!isAllowed)
      return op.emitOpError(name)
             << " has " << what << " " << slices << ", expected none";
    if (slices < 1 || elements % group || (elements / group) % slices)
      return op.emitOpError(what)
             << " " << slices << " and a group of " << group
             << " do not divide the buffer's " << elements << " elements";
    return success();
  };
  if (failed(checkSlices("cut", op.getCut(), isCut, from.getNumElements())) ||
      failed(checkSlices("join", op.getJoin(), isJoined, to.getNumElements())))
    return failure();
  if (op.getKind() == Transfer::AllToAll && from.getNumElements() % group)
    return op.emitOpError("cuts ")
           << from.getNumElements() << " elements for a group of " << group
           << ", expected a multiple";
  if (op.getRoot() < 0 || op.getRoot() >= group ||
      (op.getRoot() && op.getKind() != Transfer::Broadcast))
    return op.emitOpError("has the root ")
           << op.getRoot() << ", expected a member of a broadcast, 0 to "
           << group - 1;
  std::optional<ArrayRef<int64_t>> targets = op.getTargets();
  if ((op.getKind() == Transfer::Permute) != targets.has_value())
    return op.emitOpError(name)
           << (targets ? " has targets, expected none"
                       : " needs targets, one for each member");
  if (targets) {
    llvm::SmallBitVector taken(group);
    if (int64_t(targets->size()) != group)
      return op.emitOpError("has ")
             << targets->size() << " targets for a group of " << group;
    for (int64_t target : *targets) {
      if (target < -1 || target >= group || (target >= 0 && taken.test(target)))
        return op.emitOpError("has the target ")
               << target << ", expected each member once at most, or -1";
      if (target >= 0)
        taken.set(target);
    }
  }
  return success();
}

/// What holds of the counts of an all-to-all of rows, where there are any.
template <typename Op>
static LogicalResult verifyRows(Op op, ShapedType from, ShapedType to,
                                ValueRange counts) {
  if (counts.empty())
    return success();
  if (op.getKind() != Transfer::AllToAll || counts.size() != 2)
    return op.emitOpError(stringifyTransfer(op.getKind()))
           << " has " << counts.size()
           << " counts of rows, expected none, or two of an all_to_all";
  int64_t group = 1;
  for (int64_t size : op.getSizes())
    group *= size;
  const ShapedType sides[] = {from, to};
  for (auto [i, type] : llvm::enumerate(sides)) {
    auto count = cast<ShapedType>(counts[i].getType());
    int64_t slices = i == 0 ? op.getCut() : op.getJoin();
    if (type.getRank() < 2 || !count.getElementType().isInteger(32) ||
        count.getShape() != type.getShape().drop_back(2) ||
        type.getShape().take_back(2) != from.getShape().take_back(2))
      return op.emitOpError("counts the rows of ")
             << type << " by " << count
             << ", expected i32, one for each block, and blocks of equal sizes "
                "on both sides";
    if (count.getNumElements() % slices ||
        count.getNumElements() / slices % group)
      return op.emitOpError("cuts ")
             << count.getNumElements() << " blocks in " << slices
             << " slices for a group of " << group << ", expected a multiple";
  }
  return success();
}

Value sheaf::exec::getRootBuffer(Value buffer) {
  while (Operation *op = buffer.getDefiningOp()) {
    if (!isa<ViewOp, PartOp>(op))
      break;
    buffer = op->getOperand(0);
  }
  return buffer;
}

static bool isHandleMemory(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  return type.getRank() == 0 && type.getElementType().isInteger(64);
}

LogicalResult CollectiveOp::verify() {
  if (getRead().empty() || getWritten().empty() || getWritten().size() > 2 ||
      (isStarted() && !isHandleMemory(getWritten()[1])))
    return emitOpError("reads one buffer and writes one, and a handle, "
                       "memref<i64>, where it is only started");
  if (isStarted() && getRead().size() > 1)
    return emitOpError("is started only and has counts of rows, which are read "
                       "until it is done; expected one that is waited for");
  if (int64_t channel = getChannel(); channel < 0 || channel > 255)
    return emitOpError("is on channel ")
           << channel << ", expected one from 0 to 255";
  auto from = cast<ShapedType>(getRead()[0].getType()),
       to = cast<ShapedType>(getWritten()[0].getType());
  return failure(failed(verifyTransfer(*this, from, to)) ||
                 failed(verifyRows(*this, from, to, getRead().drop_front())));
}

LogicalResult TransferOp::verify() {
  return failure(
      failed(verifyTransfer(*this, getInput().getType(), getType())) ||
      failed(verifyRows(*this, getInput().getType(), getType(), getCounts())));
}

/// What holds of an end of a transfer between two ranks.
template <typename Op>
static LogicalResult verifyPair(Op op) {
  if (op.getSize() < 2 || op.getStride() < 1)
    return op.emitOpError("has an axis of size ")
           << op.getSize() << " and stride " << op.getStride()
           << ", expected at least 2 and at least 1";
  if (op.getPeer() < 0 || op.getPeer() >= op.getSize())
    return op.emitOpError("has the peer ")
           << op.getPeer() << ", expected a member of the group, 0 to "
           << op.getSize() - 1;
  return success();
}

void SendOp::build(OpBuilder &builder, OperationState &state, Value input,
                   int64_t peer, int64_t size, int64_t stride,
                   DictionaryAttr about) {
  build(builder, state, RankedTensorType::get({}, builder.getI64Type()), input,
        builder.getI64IntegerAttr(peer), builder.getI64IntegerAttr(size),
        builder.getI64IntegerAttr(stride), about);
}

void ReceiveOp::build(OpBuilder &builder, OperationState &state, Type type,
                      int64_t peer, int64_t size, int64_t stride,
                      DictionaryAttr about) {
  build(builder, state, RankedTensorType::get({}, builder.getI64Type()), type,
        builder.getI64IntegerAttr(peer), builder.getI64IntegerAttr(size),
        builder.getI64IntegerAttr(stride), about);
}

LogicalResult SendOp::verify() { return verifyPair(*this); }
LogicalResult ReceiveOp::verify() { return verifyPair(*this); }

Value StartOp::getBuffer() {
  return getKind() == Pair::Send ? getRead()[0] : getWritten()[0];
}
Value StartOp::getHandle() { return getWritten().back(); }

LogicalResult StartOp::verify() {
  bool sends = getKind() == Pair::Send;
  if (getRead().size() != (sends ? 1 : 0) ||
      getWritten().size() != (sends ? 1 : 2) || !isHandleMemory(getHandle()))
    return emitOpError(sends ? "reads one buffer and writes the handle, "
                               "memref<i64>"
                             : "writes one buffer and the handle, memref<i64>");
  return verifyPair(*this);
}

LogicalResult WaitOp::verify() {
  if (getRead().empty() || getRead().size() > 2 || getWritten().size() > 1 ||
      getRead().size() + getWritten().size() < 2 ||
      !isHandleMemory(getRead()[0]))
    return emitOpError("reads the handle, memref<i64>, and the buffer that is "
                       "sent, and writes the one that comes");
  return success();
}
