//===- ExecToLLVM.cpp - Host code -----------------------------------------===//

#include "lowering/ExecToLLVM/ExecToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "runtime/include/sheaf/abi.h"
#include "llvm/ADT/StringMap.h"

namespace sheaf {
#define GEN_PASS_DEF_EXECTOLLVM
#include "lowering/ExecToLLVM/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

/// The fields of SheafContext and SheafDevice, in order (abi.h).
enum ContextField { kDevice, kBuffers, kArena, kRuntime, kCommunicator };
enum DeviceField { kLaunch, kMatmul, kCopy };
enum CommunicatorField { kStart, kWait };

static FailureOr<SheafType> abiType(Operation *op, Type type) {
  if (type.isF64())
    return SHEAF_F64;
  if (type.isF32())
    return SHEAF_F32;
  if (type.isBF16())
    return SHEAF_BF16;
  if (type.isF16())
    return SHEAF_F16;
  return op->emitError("a matrix product of ") << type << " is not supported";
}

/// The element type of a transfer.
static FailureOr<SheafType> transferType(Operation *op, Type type) {
  if (isa<Float8E4M3FNType>(type))
    return SHEAF_F8E4M3;
  if (isa<Float8E5M2Type>(type))
    return SHEAF_F8E5M2;
  if (type.isInteger(64))
    return SHEAF_I64;
  if (type.isInteger(32))
    return SHEAF_I32;
  if (type.isInteger(8))
    return SHEAF_I8;
  if (type.isInteger(1))
    return SHEAF_I1;
  if (type.isF64() || type.isF32() || type.isBF16() || type.isF16())
    return abiType(op, type);
  return op->emitError("a transfer of ") << type << " is not supported";
}

namespace {

/// Constants that describe launches and products, one for each kernel and each
/// shape, and the table of what their ids stand for.
class Descriptions {
public:
  Descriptions(ModuleOp module, ModuleOp kernels)
      : module(module), context(module.getContext()), builder(context),
        i32(IntegerType::get(context, 32)), i64(IntegerType::get(context, 64)),
        f64(Float64Type::get(context)), ptr(LLVM::LLVMPointerType::get(context)) {
    if (kernels)
      kernelSymbols.emplace(kernels);
  }

  FailureOr<LLVM::GlobalOp> launch(LaunchOp op);
  FailureOr<LLVM::GlobalOp> matmul(MatmulOp op);
  FailureOr<LLVM::GlobalOp> collective(CollectiveOp op);
  ArrayAttr table() { return builder.getArrayAttr(entries); }
  ArrayAttr collectives() { return builder.getArrayAttr(transfers); }

private:
  ModuleOp module;
  std::optional<SymbolTable> kernelSymbols;
  MLIRContext *context;
  OpBuilder builder;
  Type i32, i64, f64, ptr;
  SmallVector<Attribute> entries, transfers;
  llvm::StringMap<LLVM::GlobalOp> globals;

  int32_t addEntry(StringRef kind, const Twine &name, double flops, double bytes, Location loc);
  /// A constant struct; `fields` builds its fields in order.
  LLVM::GlobalOp addGlobal(StringRef key, const Twine &name, LLVM::LLVMStructType type,
                           function_ref<SmallVector<Value>(OpBuilder &)> fields);
};

/// Writes the host code of one function.
class HostWriter {
public:
  HostWriter(func::FuncOp function, Descriptions &descriptions)
      : function(function), descriptions(descriptions), context(function.getContext()),
        builder(context), ptr(LLVM::LLVMPointerType::get(context)),
        i32(IntegerType::get(context, 32)), i64(IntegerType::get(context, 64)) {}

  LogicalResult run();

private:
  func::FuncOp function;
  Descriptions &descriptions;
  MLIRContext *context;
  OpBuilder builder;
  Type ptr, i32, i64;
  /// Pointers of buffers, numbers of indices.
  DenseMap<Value, Value> values;
  Value contextArgument, scratch, device, table;

  LogicalResult writeBlock(Block &block);
  LogicalResult writeOp(Operation *op);
  LogicalResult writeLoop(scf::ForOp loop);
  void writeEntry(LLVM::LLVMFuncOp body, ArrayAttr entry);

  Value number(Location loc, int64_t value) {
    return LLVM::ConstantOp::create(builder, loc, i64, value);
  }
  Value offset(Location loc, Value base, Value bytes) {
    return LLVM::GEPOp::create(builder, loc, ptr, builder.getI8Type(), base, bytes);
  }
  Value field(Location loc, Value base, int index) {
    Value address = LLVM::GEPOp::create(builder, loc, ptr, ptr, base,
                                        ArrayRef<LLVM::GEPArg>{index});
    return LLVM::LoadOp::create(builder, loc, ptr, address);
  }
  void callDevice(Location loc, DeviceField which, ValueRange arguments) {
    Value callee = field(loc, device, which);
    SmallVector<Value> operands{callee, contextArgument};
    llvm::append_range(operands, arguments);
    SmallVector<Type> types{ptr};
    llvm::append_range(types, arguments.getTypes());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
    LLVM::CallOp::create(builder, loc, type, operands);
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

static std::string locationText(Location loc) {
  if (auto file = loc->findInstanceOf<FileLineColLoc>()) {
    std::string text;
    llvm::raw_string_ostream(text) << file.getFilename().getValue() << ":" << file.getLine()
                                   << ":" << file.getColumn();
    return text;
  }
  return "";
}

int32_t Descriptions::addEntry(StringRef kind, const Twine &name, double flops, double bytes,
                               Location loc) {
  entries.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("kind", builder.getStringAttr(kind)),
       builder.getNamedAttr("name", builder.getStringAttr(name)),
       builder.getNamedAttr("flops", builder.getF64FloatAttr(flops)),
       builder.getNamedAttr("bytes", builder.getF64FloatAttr(bytes)),
       builder.getNamedAttr("loc", builder.getStringAttr(locationText(loc)))}));
  return static_cast<int32_t>(entries.size()) - 1;
}

LLVM::GlobalOp
Descriptions::addGlobal(StringRef key, const Twine &name, LLVM::LLVMStructType type,
                        function_ref<SmallVector<Value>(OpBuilder &)> fields) {
  Location loc = module.getLoc();
  builder.setInsertionPointToStart(module.getBody());
  auto global = LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                                       LLVM::Linkage::Internal, name.str(), Attribute());
  Block *block = builder.createBlock(&global.getInitializerRegion());
  builder.setInsertionPointToStart(block);
  Value value = LLVM::UndefOp::create(builder, loc, type);
  for (auto [i, field] : llvm::enumerate(fields(builder)))
    value = LLVM::InsertValueOp::create(builder, loc, value, field, ArrayRef<int64_t>(i));
  LLVM::ReturnOp::create(builder, loc, value);
  globals[key] = global;
  return global;
}

/// The bytes of its base that a buffer covers; none where an index decides.
static std::optional<std::pair<int64_t, int64_t>> bytesOf(Value buffer) {
  int64_t begin = 0, size = getBytes(cast<MemRefType>(buffer.getType()));
  while (Operation *op = buffer.getDefiningOp()) {
    if (isa<PartOp>(op))
      return std::nullopt;
    auto view = dyn_cast<ViewOp>(op);
    if (!view)
      break;
    begin += view.getOffset();
    buffer = view.getSource();
  }
  return std::pair(begin, begin + size);
}

/// A lowered kernel takes for granted that what it writes overlaps nothing else, but
/// for the pairs that it names.
static LogicalResult checkOverlap(LaunchOp op, func::FuncOp kernel) {
  auto inPlace = kernel->getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr);
  ArrayRef<int64_t> pairs = inPlace ? inPlace.asArrayRef() : ArrayRef<int64_t>();
  size_t reads = op.getRead().size();
  for (auto [i, buffer] : llvm::enumerate(op->getOperands()))
    for (auto [j, written] : llvm::enumerate(op.getWritten())) {
      if (i == reads + j || getBase(buffer) != getBase(written))
        continue;
      auto a = bytesOf(buffer), b = bytesOf(written);
      if (!a || !b || a->second <= b->first || b->second <= a->first)
        continue;
      bool allowed = false;
      if (i < reads && *a == *b && buffer.getType() == written.getType())
        for (size_t p = 0; p + 1 < pairs.size(); p += 2)
          allowed |= pairs[p] == static_cast<int64_t>(i) &&
                     pairs[p + 1] == static_cast<int64_t>(j);
      if (!allowed)
        return op.emitOpError("operand ")
               << i << " overlaps buffer " << j
               << " of those written, and the kernel does not name the two in "
               << kInPlaceAttr << "; give the result a buffer of its own";
    }
  return success();
}

FailureOr<LLVM::GlobalOp> Descriptions::launch(LaunchOp op) {
  StringRef name = op.getKernel().getLeafReference().getValue();
  auto kernel = kernelSymbols ? kernelSymbols->lookup<func::FuncOp>(name) : func::FuncOp();
  if (!kernel)
    return op.emitOpError("launches '") << name << "', which is no kernel of the module";
  if (failed(checkOverlap(op, kernel)))
    return failure();
  std::string key = ("kernel " + name).str();
  auto it = globals.find(key);
  if (it != globals.end())
    return it->second;
  auto extent = kernel->getAttrOfType<IntegerAttr>(kExtentAttr);
  auto grain = kernel->getAttrOfType<IntegerAttr>(kGrainAttr);
  if (!extent || !grain)
    return kernel.emitOpError("is not lowered: expected exec.extent and exec.grain");
  auto figure = [&](StringRef attr) {
    auto value = kernel->getAttrOfType<IntegerAttr>(attr);
    return value ? static_cast<double>(value.getInt()) : 0.0;
  };
  int32_t id = addEntry("kernel", name, figure(kFlopsAttr), figure(kBytesAttr), op.getLoc());

  Location loc = module.getLoc();
  builder.setInsertionPointToStart(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {ptr, i64, i64});
  auto declaration = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  declaration.setVisibility_(LLVM::Visibility::Hidden);
  return addGlobal(key, "launch_" + name,
                   LLVM::LLVMStructType::getLiteral(context, {ptr, i64, i64, i32, i32}),
                   [&](OpBuilder &b) -> SmallVector<Value> {
                     return {LLVM::AddressOfOp::create(b, loc, ptr, name),
                             LLVM::ConstantOp::create(b, loc, i64, extent.getInt()),
                             LLVM::ConstantOp::create(b, loc, i64, grain.getInt()),
                             LLVM::ConstantOp::create(b, loc, i32, id),
                             LLVM::ConstantOp::create(b, loc, i32, op->getNumOperands())};
                   });
}

FailureOr<LLVM::GlobalOp> Descriptions::matmul(MatmulOp op) {
  int64_t m = op.getDims()[0], n = op.getDims()[1], k = op.getDims()[2];
  SmallVector<int64_t> batch(SHEAF_MATMUL_BATCH_RANK, 1);
  SmallVector<int64_t> strides(3 * SHEAF_MATMUL_BATCH_RANK, 0);
  int64_t count = 1;
  if (op.getBatch()) {
    int rank = op.getBatch()->size();
    // Unused batch dimensions stand in front.
    int skip = SHEAF_MATMUL_BATCH_RANK - rank;
    for (int i = 0; i < rank; ++i) {
      batch[skip + i] = (*op.getBatch())[i];
      count *= (*op.getBatch())[i];
      for (int operand = 0; operand < 3; ++operand)
        strides[operand * SHEAF_MATMUL_BATCH_RANK + skip + i] =
            (*op.getStrides())[operand * rank + i];
    }
  }
  SmallVector<int64_t> numbers{m, n, k};
  llvm::append_range(numbers, op.getLeading());
  llvm::append_range(numbers, batch);
  llvm::append_range(numbers, strides);
  SmallVector<int64_t> types;
  for (Value value : op->getOperands()) {
    auto type = abiType(op, cast<MemRefType>(value.getType()).getElementType());
    if (failed(type))
      return failure();
    types.push_back(*type);
  }
  std::string key = "matmul";
  for (int64_t number : llvm::concat<int64_t>(numbers, types))
    key += " " + std::to_string(number);
  key += op.getTransposeA() ? " t" : " n";
  key += op.getTransposeB() ? " t" : " n";
  key += op.getAccumulate() ? " +" : "";
  auto it = globals.find(key);
  if (it != globals.end())
    return it->second;

  std::string name;
  llvm::raw_string_ostream os(name);
  os << "matmul ";
  if (count > 1)
    os << count << " x ";
  os << m << "x" << n << "x" << k;
  double width = getBytes(cast<MemRefType>(op.getWritten()[0].getType())) /
                 cast<MemRefType>(op.getWritten()[0].getType()).getNumElements();
  int32_t id = addEntry("matmul", name, 2.0 * count * m * n * k,
                        width * count * (double(m) * k + double(k) * n + double(m) * n),
                        op.getLoc());
  Location loc = module.getLoc();
  SmallVector<Type> fields(numbers.size(), i64);
  fields.append(6, i32);
  fields.append(2, f64);
  return addGlobal(
      key, "matmul_" + Twine(id), LLVM::LLVMStructType::getLiteral(context, fields),
      [&](OpBuilder &b) {
        SmallVector<Value> values;
        for (int64_t number : numbers)
          values.push_back(LLVM::ConstantOp::create(b, loc, i64, number));
        SmallVector<int64_t> flags{op.getTransposeA(), op.getTransposeB()};
        llvm::append_range(flags, types);
        flags.push_back(id);
        for (int64_t flag : flags)
          values.push_back(LLVM::ConstantOp::create(b, loc, i32, flag));
        for (double factor : {1.0, op.getAccumulate() ? 1.0 : 0.0})
          values.push_back(
              LLVM::ConstantOp::create(b, loc, f64, b.getF64FloatAttr(factor)));
        return values;
      });
}

FailureOr<LLVM::GlobalOp> Descriptions::collective(CollectiveOp op) {
  auto type = cast<MemRefType>(op.getRead()[0].getType());
  FailureOr<SheafType> element = transferType(op, type.getElementType());
  if (failed(element))
    return failure();
  // The attributes say all there is to say, but for the shapes.
  std::string key = "collective ";
  llvm::raw_string_ostream(key) << type << op->getDiscardableAttrDictionary()
                                << op->getPropertiesAsAttribute();
  auto it = globals.find(key);
  if (it != globals.end())
    return it->second;

  int32_t id = transfers.size();
  NamedAttrList entry(op.getAbout() ? *op.getAbout() : DictionaryAttr::get(context));
  entry.set("loc", builder.getStringAttr(locationText(op.getLoc())));
  transfers.push_back(entry.getDictionary(context));

  Location loc = module.getLoc();
  SmallVector<int64_t> sizes(op.getSizes()), strides(op.getStrides());
  int32_t axes = sizes.size();
  sizes.resize(SHEAF_GROUP_AXES, 1);
  strides.resize(SHEAF_GROUP_AXES, 1);
  std::optional<ArrayRef<int64_t>> targets = op.getTargets();
  std::string targetsName = ("targets_" + Twine(id)).str();
  if (targets) {
    builder.setInsertionPointToStart(module.getBody());
    auto array = LLVM::LLVMArrayType::get(i64, targets->size());
    LLVM::GlobalOp::create(
        builder, loc, array, /*isConstant=*/true, LLVM::Linkage::Internal, targetsName,
        DenseElementsAttr::get(RankedTensorType::get(targets->size(), i64), *targets));
  }
  SmallVector<Type> fields(6, i32);
  fields.append(2 * SHEAF_GROUP_AXES + 4, i64);
  fields.push_back(ptr);
  return addGlobal(key, "collective_" + Twine(id),
                   LLVM::LLVMStructType::getLiteral(context, fields), [&](OpBuilder &b) {
                     SmallVector<Value> values;
                     auto add = [&](Type type, int64_t number) {
                       values.push_back(LLVM::ConstantOp::create(b, loc, type, number));
                     };
                     for (int32_t number :
                          {static_cast<int32_t>(op.getKind()),
                           static_cast<int32_t>(op.getReduction().value_or(Reduction::Sum)),
                           static_cast<int32_t>(*element), id, axes, 0})
                       add(i32, number);
                     for (int64_t number : llvm::concat<int64_t>(sizes, strides))
                       add(i64, number);
                     for (int64_t number :
                          {type.getNumElements(), static_cast<int64_t>(op.getCut()),
                           static_cast<int64_t>(op.getJoin()),
                           static_cast<int64_t>(op.getRoot())})
                       add(i64, number);
                     values.push_back(
                         targets ? Value(LLVM::AddressOfOp::create(b, loc, ptr, targetsName))
                                 : Value(LLVM::ZeroOp::create(b, loc, ptr)));
                     return values;
                   });
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// The name of the internal function for `name`: entries export `sheaf_NAME`.
static std::string bodyName(StringRef name) { return ("body_" + name).str(); }

LogicalResult HostWriter::run() {
  Location loc = function.getLoc();
  if (!function->hasAttr(kScratchAttr))
    return function.emitError("is not placed; run exec-place first");
  builder.setInsertionPoint(function);
  // Context, buffers, scratch memory.
  SmallVector<Type> types(function.getNumArguments() + 2, ptr);
  auto body = LLVM::LLVMFuncOp::create(
      builder, loc, bodyName(function.getName()),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types),
      LLVM::Linkage::Internal);
  Block *block = body.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  contextArgument = block->getArgument(0);
  scratch = block->getArguments().back();
  for (BlockArgument argument : function.getArguments())
    values[argument] = block->getArgument(1 + argument.getArgNumber());

  // One array on the stack serves all launches.
  unsigned most = 0;
  function.walk([&](LaunchOp launch) { most = std::max(most, launch->getNumOperands()); });
  if (most > 0)
    table = LLVM::AllocaOp::create(builder, loc, ptr, ptr, number(loc, most));
  device = field(loc, contextArgument, kDevice);
  if (failed(writeBlock(function.getBody().front())))
    return failure();
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  if (auto entry = function->getAttrOfType<ArrayAttr>(kEntryAttr))
    writeEntry(body, entry);
  return success();
}

void HostWriter::writeEntry(LLVM::LLVMFuncOp body, ArrayAttr entry) {
  Location loc = function.getLoc();
  builder.setInsertionPointAfter(body);
  auto wrapper = LLVM::LLVMFuncOp::create(builder, loc, ("sheaf_" + function.getName()).str(),
                                          LLVM::LLVMFunctionType::get(i32, ptr));
  Block *block = wrapper.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  contextArgument = block->getArgument(0);
  Value buffers = field(loc, contextArgument, kBuffers);
  Value arena = field(loc, contextArgument, kArena);
  SmallVector<Value> operands{contextArgument};
  // A buffer that is updated in place is one argument of the entry.
  llvm::DenseMap<std::pair<Attribute, Attribute>, int> indices;
  for (Attribute name : entry) {
    auto parts = cast<ArrayAttr>(name);
    auto it = indices.try_emplace({parts[0], parts[1]}, indices.size()).first;
    operands.push_back(field(loc, buffers, it->second));
  }
  operands.push_back(arena);
  LLVM::CallOp::create(builder, loc, body, operands);
  Value zero = LLVM::ConstantOp::create(builder, loc, i32, 0);
  LLVM::ReturnOp::create(builder, loc, zero);
}

LogicalResult HostWriter::writeBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(writeOp(&op)))
      return failure();
  return success();
}

LogicalResult HostWriter::writeLoop(scf::ForOp loop) {
  if (loop.getNumResults() > 0)
    return loop.emitOpError("carries values; loops of this floor carry buffers only");
  Location loc = loop.getLoc();
  Block *before = builder.getInsertionBlock();
  Region *region = before->getParent();
  Block *head = builder.createBlock(region, region->end(), {i64}, {loc});
  Block *body = builder.createBlock(region, region->end());
  Block *after = builder.createBlock(region, region->end());
  builder.setInsertionPointToEnd(before);
  LLVM::BrOp::create(builder, loc, values.lookup(loop.getLowerBound()), head);
  builder.setInsertionPointToEnd(head);
  Value index = head->getArgument(0);
  Value more = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::slt, index,
                                    values.lookup(loop.getUpperBound()));
  LLVM::CondBrOp::create(builder, loc, more, body, after);
  builder.setInsertionPointToEnd(body);
  values[loop.getInductionVar()] = index;
  if (failed(writeBlock(*loop.getBody())))
    return failure();
  Value next =
      LLVM::AddOp::create(builder, loc, index, values.lookup(loop.getStep()));
  LLVM::BrOp::create(builder, loc, next, head);
  builder.setInsertionPointToEnd(after);
  return success();
}

LogicalResult HostWriter::writeOp(Operation *op) {
  Location loc = op->getLoc();
  auto pointers = [&](ValueRange buffers) {
    return llvm::map_to_vector(buffers, [&](Value b) { return values.lookup(b); });
  };
  if (auto constant = dyn_cast<arith::ConstantIndexOp>(op)) {
    values[constant] = number(loc, constant.value());
    return success();
  }
  if (auto buffer = dyn_cast<BufferOp>(op)) {
    if (!buffer.getOffset())
      return op->emitOpError("is not placed; run exec-place first");
    values[buffer] = offset(loc, scratch, number(loc, *buffer.getOffset()));
    return success();
  }
  if (auto view = dyn_cast<ViewOp>(op)) {
    values[view] =
        offset(loc, values.lookup(view.getSource()), number(loc, view.getOffset()));
    return success();
  }
  if (auto part = dyn_cast<PartOp>(op)) {
    Value bytes = LLVM::MulOp::create(builder, loc, values.lookup(part.getIndex()),
                                      number(loc, getBytes(part.getType())));
    values[part] = offset(loc, values.lookup(part.getSource()), bytes);
    return success();
  }
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    auto description = descriptions.launch(launch);
    if (failed(description))
      return failure();
    for (auto [i, pointer] : llvm::enumerate(pointers(launch->getOperands()))) {
      Value slot = LLVM::GEPOp::create(builder, loc, ptr, ptr, table,
                                       ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
      LLVM::StoreOp::create(builder, loc, pointer, slot);
    }
    Value address = LLVM::AddressOfOp::create(builder, loc, *description);
    callDevice(loc, kLaunch, {address, table});
    return success();
  }
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    auto description = descriptions.matmul(matmul);
    if (failed(description))
      return failure();
    SmallVector<Value> arguments{LLVM::AddressOfOp::create(builder, loc, *description)};
    llvm::append_range(arguments, pointers(matmul->getOperands()));
    callDevice(loc, kMatmul, arguments);
    return success();
  }
  if (auto copy = dyn_cast<CopyOp>(op)) {
    int64_t bytes = getBytes(cast<MemRefType>(copy.getRead()[0].getType()));
    callDevice(loc, kCopy,
               {values.lookup(copy.getWritten()[0]), values.lookup(copy.getRead()[0]),
                number(loc, bytes)});
    return success();
  }
  if (auto collective = dyn_cast<CollectiveOp>(op)) {
    auto description = descriptions.collective(collective);
    if (failed(description))
      return failure();
    Value communicator = field(loc, contextArgument, kCommunicator);
    auto start = LLVM::LLVMFunctionType::get(i64, {ptr, ptr, ptr, ptr});
    Value handle =
        LLVM::CallOp::create(builder, loc, start,
                             ValueRange{field(loc, communicator, kStart), contextArgument,
                                        LLVM::AddressOfOp::create(builder, loc, *description),
                                        values.lookup(collective.getRead()[0]),
                                        values.lookup(collective.getWritten()[0])})
            .getResult();
    auto wait = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {ptr, i64});
    LLVM::CallOp::create(builder, loc, wait,
                         ValueRange{field(loc, communicator, kWait), contextArgument, handle});
    return success();
  }
  if (auto call = dyn_cast<exec::CallOp>(op)) {
    if (!call.getScratch())
      return op->emitOpError("is not placed; run exec-place first");
    SmallVector<Value> operands{contextArgument};
    llvm::append_range(operands, pointers(call->getOperands()));
    operands.push_back(offset(loc, scratch, number(loc, *call.getScratch())));
    LLVM::CallOp::create(builder, loc, TypeRange(), bodyName(call.getCallee()), operands);
    return success();
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return writeLoop(loop);
  return op->emitOpError("has no host code; expected ops of exec, scf.for or index constants");
}

namespace {
struct ExecToLLVM : sheaf::impl::ExecToLLVMBase<ExecToLLVM> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto kernels = module.lookupSymbol<ModuleOp>(kKernelsName);
    Descriptions descriptions(module, kernels);
    for (func::FuncOp function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (failed(HostWriter(function, descriptions).run()))
        return signalPassFailure();
      function.erase();
    }
    module->setAttr(kTableAttr, descriptions.table());
    module->setAttr(kCollectivesAttr, descriptions.collectives());
  }
};
} // namespace
