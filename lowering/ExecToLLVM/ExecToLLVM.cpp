//===- ExecToLLVM.cpp - Host code -----------------------------------------===//

#include "lowering/ExecToLLVM/ExecToLLVM.h"
#include "lowering/ExecToLLVM/Program.h"
#include "lowering/NNToExec/Narrow.h"
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
  if (isa<Float8E8M0FNUType>(type))
    return SHEAF_F8E8M0;
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

/// The name of the internal function for `name`: entries export `sheaf_NAME`.
static std::string bodyName(StringRef name) { return ("body_" + name).str(); }

/// Its name in a manifest.
static StringRef nameOfType(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return "f8e4m3";
  if (isa<Float8E5M2Type>(type))
    return "f8e5m2";
  return type.isBF16()  ? "bf16"
         : type.isF16() ? "f16"
         : type.isF64() ? "f64"
                        : "f32";
}

namespace {

/// What a device with narrow products would do: the type that it multiplies in,
/// if it does, and the bytes that it moves (below 0: the same).
struct Narrow {
  Type type;
  double bytes = -1;
};

/// Constants that describe launches and products, one for each kernel and each
/// shape, and the table of what their ids stand for.
class Descriptions {
public:
  Descriptions(ModuleOp module, ModuleOp kernels)
      : module(module), context(module.getContext()), builder(context),
        i32(IntegerType::get(context, 32)), i64(IntegerType::get(context, 64)),
        f64(Float64Type::get(context)),
        ptr(LLVM::LLVMPointerType::get(context)) {
    if (kernels)
      kernelSymbols.emplace(kernels);
  }

  /// The index of its description in the artifact's table of descriptions. In
  /// it is its index in `exec.table`, or in `exec.collectives`.
  FailureOr<int32_t> launch(LaunchOp op);
  FailureOr<int32_t> matmul(MatmulOp op);
  FailureOr<int32_t> groupedMatmul(GroupedMatmulOp op);
  FailureOr<int32_t> collective(CollectiveOp op);
  FailureOr<int32_t> pair(StartOp op);
  /// The name of the description with that index.
  StringRef nameOf(int32_t index) { return names[index]; }
  ArrayRef<std::string> descriptions() { return names; }
  ArrayAttr table() { return builder.getArrayAttr(entries); }
  ArrayAttr collectives() { return builder.getArrayAttr(transfers); }
  /// The number of an action of the schedule, and the names by number.
  int64_t action(StringAttr name) {
    auto [it, isNew] = actionNumbers.try_emplace(name, actionNames.size());
    if (isNew)
      actionNames.push_back(name);
    return it->second;
  }
  ArrayAttr actions() { return builder.getArrayAttr(actionNames); }

private:
  ModuleOp module;
  std::optional<SymbolTable> kernelSymbols;
  MLIRContext *context;
  OpBuilder builder;
  Type i32, i64, f64, ptr;
  SmallVector<Attribute> entries, transfers, actionNames;
  DenseMap<Attribute, int64_t> actionNumbers;
  llvm::StringMap<int32_t> indices;
  std::vector<std::string> names;

  int32_t addEntry(StringRef kind, const Twine &name, double flops,
                   double bytes, Location loc, Narrow narrow);
  /// A SheafCollective; `op` says where it comes from and what it is about.
  FailureOr<int32_t> addTransfer(Operation *op, StringRef key, MemRefType type,
                                 DictionaryAttr about, int32_t kind,
                                 int32_t reduction, ArrayRef<int64_t> sizes,
                                 ArrayRef<int64_t> strides, int64_t cut,
                                 int64_t join, int64_t peer,
                                 std::optional<ArrayRef<int64_t>> targets,
                                 int64_t channel = 0, int64_t blocks = 0,
                                 int64_t width = 0);
  /// A constant struct; `fields` builds its fields in order.
  int32_t addGlobal(StringRef key, const Twine &name, LLVM::LLVMStructType type,
                    function_ref<SmallVector<Value>(OpBuilder &)> fields);
};

/// Where a buffer lies: buffer `base` of the function, or -1 for its scratch
/// memory, and bytes into it, of which loops add more.
struct Place {
  int64_t base = -1, offset = 0;
  Value more;
};

/// Writes the host code of one function: programs (Program.h), and code around
/// them where there are loops.
class HostWriter {
public:
  HostWriter(func::FuncOp function, Descriptions &descriptions,
             const llvm::StringMap<int64_t> &functions)
      : function(function), descriptions(descriptions), functions(functions),
        context(function.getContext()), builder(context),
        ptr(LLVM::LLVMPointerType::get(context)),
        i32(IntegerType::get(context, 32)), i64(IntegerType::get(context, 64)) {
  }

  LogicalResult run();
  /// Of any instruction.
  int64_t mostPointers = 0;

private:
  func::FuncOp function;
  Descriptions &descriptions;
  const llvm::StringMap<int64_t> &functions;
  MLIRContext *context;
  OpBuilder builder;
  Type ptr, i32, i64;
  DenseMap<Value, Place> places;
  /// Numbers of indices.
  DenseMap<Value, Value> values;
  Value contextArgument, buffers, scratch, table;
  /// The instructions of the whole function, and the first that is not yet run.
  std::vector<int64_t> program;
  size_t begin = 0;

  LogicalResult writeBlock(Block &block);
  LogicalResult writeOp(Operation *op);
  LogicalResult writeLoop(scf::ForOp loop);
  LogicalResult writeInstruction(Operation *op, Instruction instruction,
                                 int64_t what, ArrayRef<Place> operands);
  /// The same as code, where an operand moves with a loop.
  void writeCode(Operation *op, Instruction instruction, int64_t what,
                 ArrayRef<Place> operands);
  void flush();
  void writeEntry(LLVM::LLVMFuncOp body);

  std::string programName() { return ("program_" + function.getName()).str(); }
  Value number(Location loc, int64_t value) {
    return LLVM::ConstantOp::create(builder, loc, i64, value);
  }
  Value offset(Location loc, Value base, Value bytes) {
    return LLVM::GEPOp::create(builder, loc, ptr, builder.getI8Type(), base,
                               bytes);
  }
  Value element(Location loc, Value base, int64_t index) {
    return LLVM::GEPOp::create(
        builder, loc, ptr, ptr, base,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  }
  Value field(Location loc, Value base, int64_t index) {
    return LLVM::LoadOp::create(builder, loc, ptr, element(loc, base, index));
  }
  Value pointer(Location loc, const Place &place) {
    Value base = place.base < 0 ? scratch : field(loc, buffers, place.base);
    Value address = offset(loc, base, number(loc, place.offset));
    return place.more ? offset(loc, address, place.more) : address;
  }
  void callDevice(Location loc, DeviceField which, ValueRange arguments) {
    Value callee = field(loc, field(loc, contextArgument, kDevice), which);
    SmallVector<Value> operands{callee, contextArgument};
    llvm::append_range(operands, arguments);
    SmallVector<Type> types{ptr};
    llvm::append_range(types, arguments.getTypes());
    auto type =
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
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
    llvm::raw_string_ostream(text) << file.getFilename().getValue() << ":"
                                   << file.getLine() << ":" << file.getColumn();
    return text;
  }
  return "";
}

int32_t Descriptions::addEntry(StringRef kind, const Twine &name, double flops,
                               double bytes, Location loc, Narrow narrow) {
  SmallVector<NamedAttribute> fields = {
      builder.getNamedAttr("kind", builder.getStringAttr(kind)),
      builder.getNamedAttr("name", builder.getStringAttr(name)),
      builder.getNamedAttr("flops", builder.getF64FloatAttr(flops)),
      builder.getNamedAttr("bytes", builder.getF64FloatAttr(bytes)),
      builder.getNamedAttr("loc", builder.getStringAttr(locationText(loc)))};
  if (narrow.type)
    fields.push_back(builder.getNamedAttr(
        "type", builder.getStringAttr(nameOfType(narrow.type))));
  if (narrow.bytes >= 0)
    fields.push_back(builder.getNamedAttr(
        "narrow_bytes", builder.getF64FloatAttr(narrow.bytes)));
  entries.push_back(builder.getDictionaryAttr(fields));
  return static_cast<int32_t>(entries.size()) - 1;
}

int32_t
Descriptions::addGlobal(StringRef key, const Twine &name,
                        LLVM::LLVMStructType type,
                        function_ref<SmallVector<Value>(OpBuilder &)> fields) {
  Location loc = module.getLoc();
  builder.setInsertionPointToStart(module.getBody());
  auto global =
      LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                             LLVM::Linkage::Internal, name.str(), Attribute());
  Block *block = builder.createBlock(&global.getInitializerRegion());
  builder.setInsertionPointToStart(block);
  Value value = LLVM::UndefOp::create(builder, loc, type);
  for (auto [i, field] : llvm::enumerate(fields(builder)))
    value = LLVM::InsertValueOp::create(builder, loc, value, field,
                                        ArrayRef<int64_t>(i));
  LLVM::ReturnOp::create(builder, loc, value);
  names.push_back(name.str());
  return indices[key] = static_cast<int32_t>(names.size()) - 1;
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

/// A lowered kernel takes for granted that what it writes overlaps nothing
/// else, but for the pairs that it names.
static LogicalResult checkOverlap(LaunchOp op, func::FuncOp kernel) {
  auto inPlace = kernel->getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr);
  ArrayRef<int64_t> pairs =
      inPlace ? inPlace.asArrayRef() : ArrayRef<int64_t>();
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

FailureOr<int32_t> Descriptions::launch(LaunchOp op) {
  StringRef name = op.getKernel().getLeafReference().getValue();
  auto kernel = kernelSymbols ? kernelSymbols->lookup<func::FuncOp>(name)
                              : func::FuncOp();
  if (!kernel)
    return op.emitOpError("launches '")
           << name << "', which is no kernel of the module";
  if (failed(checkOverlap(op, kernel)))
    return failure();
  std::string key = ("kernel " + name).str();
  auto it = indices.find(key);
  if (it != indices.end())
    return it->second;
  auto extent = kernel->getAttrOfType<IntegerAttr>(kExtentAttr);
  auto grain = kernel->getAttrOfType<IntegerAttr>(kGrainAttr);
  if (!extent || !grain)
    return kernel.emitOpError(
        "is not lowered: expected exec.extent and exec.grain");
  auto figure = [&](StringRef attr) {
    auto value = kernel->getAttrOfType<IntegerAttr>(attr);
    return value ? static_cast<double>(value.getInt()) : 0.0;
  };
  Narrow narrow;
  if (kernel->hasAttr(kNarrowNoneAttr))
    narrow.bytes = 0;
  else if (kernel->hasAttr(kNarrowSavedAttr))
    narrow.bytes = std::max(0.0, figure(kBytesAttr) - figure(kNarrowSavedAttr));
  auto kind = kernel->getAttrOfType<StringAttr>(kKindAttr);
  if (kind) {
    // The scores are a product of the first two operands.
    auto types = kernel->getAttrOfType<ArrayAttr>(kNarrowAttr);
    narrow.type =
        types ? cast<TypeAttr>(types[0]).getValue()
              : cast<MemRefType>(op.getRead()[0].getType()).getElementType();
  }
  int32_t id =
      addEntry(kind ? kind.getValue() : "kernel", name, figure(kFlopsAttr),
               figure(kBytesAttr), op.getLoc(), narrow);

  Location loc = module.getLoc();
  builder.setInsertionPointToStart(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {ptr, i64, i64});
  auto declaration = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  declaration.setVisibility_(LLVM::Visibility::Hidden);
  return addGlobal(
      key, "launch_" + name,
      LLVM::LLVMStructType::getLiteral(context, {ptr, i64, i64, i32, i32}),
      [&](OpBuilder &b) -> SmallVector<Value> {
        return {LLVM::AddressOfOp::create(b, loc, ptr, name),
                LLVM::ConstantOp::create(b, loc, i64, extent.getInt()),
                LLVM::ConstantOp::create(b, loc, i64, grain.getInt()),
                LLVM::ConstantOp::create(b, loc, i32, id),
                LLVM::ConstantOp::create(b, loc, i32, op->getNumOperands())};
      });
}

/// Of a product with so many elements in its operands and its result.
static Narrow narrowProduct(ArrayAttr types, std::array<double, 3> elements) {
  Narrow narrow;
  if (!types)
    return narrow;
  narrow.bytes = 0;
  for (auto [type, count] : llvm::zip_equal(types, elements)) {
    Type element = cast<TypeAttr>(type).getValue();
    narrow.bytes += count * element.getIntOrFloatBitWidth() / 8;
  }
  // Of two types the wider.
  Type a = cast<TypeAttr>(types[0]).getValue(),
       b = cast<TypeAttr>(types[1]).getValue();
  narrow.type = a.getIntOrFloatBitWidth() >= b.getIntOrFloatBitWidth() ? a : b;
  return narrow;
}

FailureOr<int32_t> Descriptions::matmul(MatmulOp op) {
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
  auto narrowTypes = op->getAttrOfType<ArrayAttr>(kNarrowAttr);
  if (narrowTypes)
    llvm::raw_string_ostream(key) << narrowTypes;
  auto it = indices.find(key);
  if (it != indices.end())
    return it->second;

  std::string name;
  llvm::raw_string_ostream os(name);
  os << "matmul ";
  if (count > 1)
    os << count << " x ";
  os << m << "x" << n << "x" << k;
  double width =
      getBytes(cast<MemRefType>(op.getWritten()[0].getType())) /
      cast<MemRefType>(op.getWritten()[0].getType()).getNumElements();
  int32_t id = addEntry(
      "matmul", name, 2.0 * count * m * n * k,
      width * count * (double(m) * k + double(k) * n + double(m) * n),
      op.getLoc(),
      narrowProduct(narrowTypes,
                    {double(count) * m * k, double(count) * k * n,
                     double(count) * m * n * (op.getAccumulate() ? 2 : 1)}));
  Location loc = module.getLoc();
  SmallVector<Type> fields(numbers.size(), i64);
  fields.append(6, i32);
  fields.append(2, f64);
  return addGlobal(
      key, "matmul_" + Twine(id),
      LLVM::LLVMStructType::getLiteral(context, fields), [&](OpBuilder &b) {
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

FailureOr<int32_t> Descriptions::groupedMatmul(GroupedMatmulOp op) {
  auto memory = cast<MemRefType>(op.getRead()[0].getType());
  FailureOr<SheafType> type = abiType(op, memory.getElementType());
  if (failed(type))
    return failure();
  SmallVector<int64_t> dims(op.getDims());
  dims.push_back(op.getParts());
  SmallVector<int64_t> flags{op.getTransposed(), op.getOuter(),
                             op.getAccumulate(), *type};
  std::string key = "grouped";
  for (int64_t number : llvm::concat<int64_t>(dims, flags))
    key += " " + std::to_string(number);
  if (Attribute types = op->getAttr(kNarrowAttr))
    llvm::raw_string_ostream(key) << types;
  auto it = indices.find(key);
  if (it != indices.end())
    return it->second;

  std::string name;
  llvm::raw_string_ostream os(name);
  os << (op.getOuter() ? "grouped outer " : "grouped matmul ")
     << dims[2] * dims[5] << " of " << dims[0] * dims[1] << "x" << dims[4]
     << "x" << dims[3];
  double width = memory.getElementTypeBitWidth() / 8.0;
  double rows = double(dims[0]) * dims[1], k = dims[3], n = dims[4];
  double matrices = double(dims[2]) * dims[5] * k * n;
  // Operands: rows, matrices or other rows, offsets; then the result.
  Narrow narrow;
  if (auto types = op->getAttrOfType<ArrayAttr>(kNarrowAttr)) {
    SmallVector<Attribute> moved{types[0], types[1], types[types.size() - 1]};
    narrow = narrowProduct(
        builder.getArrayAttr(moved),
        {rows * k, op.getOuter() ? rows * n : matrices,
         (op.getOuter() ? matrices : rows * n) * (op.getAccumulate() ? 2 : 1)});
  }
  // Where every row is used; what a call does is counted as it runs.
  int32_t id =
      addEntry("matmul", name, 2.0 * rows * k * n,
               width * (rows * k + rows * n + matrices), op.getLoc(), narrow);
  flags.push_back(id);
  flags.push_back(0); // padding of the struct
  Location loc = module.getLoc();
  SmallVector<Type> fields(dims.size(), i64);
  fields.append(flags.size(), i32);
  return addGlobal(
      key, "grouped_" + Twine(id),
      LLVM::LLVMStructType::getLiteral(context, fields), [&](OpBuilder &b) {
        SmallVector<Value> values;
        for (int64_t number : dims)
          values.push_back(LLVM::ConstantOp::create(b, loc, i64, number));
        for (int64_t flag : flags)
          values.push_back(LLVM::ConstantOp::create(b, loc, i32, flag));
        return values;
      });
}

FailureOr<int32_t> Descriptions::collective(CollectiveOp op) {
  auto type = cast<MemRefType>(op.getRead()[0].getType());
  // The attributes say all there is to say, but for the shapes.
  std::string key = "collective ";
  llvm::raw_string_ostream(key) << type << op->getDiscardableAttrDictionary()
                                << op->getPropertiesAsAttribute();
  int64_t blocks = 0, width = 0;
  if (op.getRead().size() > 1) {
    blocks = cast<MemRefType>(op.getRead()[1].getType()).getNumElements();
    width = type.getShape().back();
  }
  return addTransfer(
      op, key, type, op.getAboutAttr(), static_cast<int32_t>(op.getKind()),
      static_cast<int32_t>(op.getReduction().value_or(Reduction::Sum)),
      op.getSizes(), op.getStrides(), op.getCut(), op.getJoin(), op.getRoot(),
      op.getTargets(), op.getChannel(), blocks, width);
}

FailureOr<int32_t> Descriptions::pair(StartOp op) {
  auto type = cast<MemRefType>(op.getBuffer().getType());
  std::string key = "pair ";
  llvm::raw_string_ostream(key) << type << op->getDiscardableAttrDictionary()
                                << op->getPropertiesAsAttribute();
  return addTransfer(op, key, type, op.getAboutAttr(),
                     static_cast<int32_t>(op.getKind()), 0, op.getSize(),
                     op.getStride(), 1, 1, op.getPeer(), std::nullopt);
}

FailureOr<int32_t> Descriptions::addTransfer(
    Operation *op, StringRef key, MemRefType type, DictionaryAttr about,
    int32_t kind, int32_t reduction, ArrayRef<int64_t> axisSizes,
    ArrayRef<int64_t> axisStrides, int64_t cut, int64_t join, int64_t peer,
    std::optional<ArrayRef<int64_t>> targets, int64_t channel, int64_t blocks,
    int64_t width) {
  FailureOr<SheafType> element = transferType(op, type.getElementType());
  if (failed(element))
    return failure();
  auto it = indices.find(key);
  if (it != indices.end())
    return it->second;

  int32_t id = transfers.size();
  NamedAttrList entry(about ? about : DictionaryAttr::get(context));
  entry.set("loc", builder.getStringAttr(locationText(op->getLoc())));
  transfers.push_back(entry.getDictionary(context));

  Location loc = module.getLoc();
  SmallVector<int64_t> sizes(axisSizes), strides(axisStrides);
  int32_t axes = sizes.size();
  sizes.resize(SHEAF_GROUP_AXES, 1);
  strides.resize(SHEAF_GROUP_AXES, 1);
  std::string targetsName = ("targets_" + Twine(id)).str();
  if (targets) {
    builder.setInsertionPointToStart(module.getBody());
    auto array = LLVM::LLVMArrayType::get(i64, targets->size());
    LLVM::GlobalOp::create(
        builder, loc, array, /*isConstant=*/true, LLVM::Linkage::Internal,
        targetsName,
        DenseElementsAttr::get(RankedTensorType::get(targets->size(), i64),
                               *targets));
  }
  SmallVector<Type> fields(6, i32);
  fields.append(2 * SHEAF_GROUP_AXES + 4, i64);
  fields.push_back(ptr);
  fields.append(2, i64);
  return addGlobal(
      key, "collective_" + Twine(id),
      LLVM::LLVMStructType::getLiteral(context, fields), [&](OpBuilder &b) {
        SmallVector<Value> values;
        auto add = [&](Type type, int64_t number) {
          values.push_back(LLVM::ConstantOp::create(b, loc, type, number));
        };
        for (int32_t number : {kind, reduction, static_cast<int32_t>(*element),
                               id, axes, static_cast<int32_t>(channel)})
          add(i32, number);
        for (int64_t number : llvm::concat<int64_t>(sizes, strides))
          add(i64, number);
        for (int64_t number : {type.getNumElements(), cut, join, peer})
          add(i64, number);
        values.push_back(
            targets ? Value(LLVM::AddressOfOp::create(b, loc, ptr, targetsName))
                    : Value(LLVM::ZeroOp::create(b, loc, ptr)));
        for (int64_t number : {blocks, width})
          add(i64, number);
        return values;
      });
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult HostWriter::run() {
  Location loc = function.getLoc();
  if (!function->hasAttr(kScratchAttr))
    return function.emitError("is not placed; run exec-place first");
  builder.setInsertionPoint(function);
  // Context, buffers, scratch memory.
  auto body = LLVM::LLVMFuncOp::create(
      builder, loc, bodyName(function.getName()),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                  {ptr, ptr, ptr}),
      LLVM::Linkage::Internal);
  Block *block = body.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  contextArgument = block->getArgument(0);
  buffers = block->getArgument(1);
  scratch = block->getArgument(2);
  // Arguments come in order, but those of an entry that stand for one buffer,
  // which is updated in place, are one.
  auto entry = function->getAttrOfType<ArrayAttr>(kEntryAttr);
  llvm::DenseMap<std::pair<Attribute, Attribute>, int64_t> indices;
  for (BlockArgument argument : function.getArguments()) {
    int64_t index = argument.getArgNumber();
    if (entry) {
      auto parts = cast<ArrayAttr>(entry[index]);
      index = indices.try_emplace({parts[0], parts[1]}, indices.size())
                  .first->second;
    }
    places[argument] = {index, 0, nullptr};
  }
  if (static_cast<int64_t>(function.getNumArguments()) >= kMostBases)
    return function.emitError("has ")
           << function.getNumArguments() << " arguments, expected fewer than "
           << kMostBases;

  // One array on the stack serves all operations that move with a loop.
  int64_t most = 0;
  function.walk([&](Operation *op) {
    if (op->getParentOfType<scf::ForOp>())
      most = std::max<int64_t>(most, op->getNumOperands() + 1);
  });
  if (most > 0)
    table = LLVM::AllocaOp::create(builder, loc, ptr, ptr, number(loc, most));
  if (failed(writeBlock(function.getBody().front())))
    return failure();
  flush();
  LLVM::ReturnOp::create(builder, loc, ValueRange());

  if (!program.empty()) {
    builder.setInsertionPoint(body);
    auto type = LLVM::LLVMArrayType::get(i64, program.size());
    auto words = DenseElementsAttr::get(
        RankedTensorType::get({static_cast<int64_t>(program.size())}, i64),
        ArrayRef<int64_t>(program));
    LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                           LLVM::Linkage::Internal, programName(), words);
  }
  if (entry)
    writeEntry(body);
  return success();
}

void HostWriter::writeEntry(LLVM::LLVMFuncOp body) {
  Location loc = function.getLoc();
  builder.setInsertionPointAfter(body);
  auto wrapper = LLVM::LLVMFuncOp::create(
      builder, loc, ("sheaf_" + function.getName()).str(),
      LLVM::LLVMFunctionType::get(i32, ptr));
  Block *block = wrapper.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  Value argument = block->getArgument(0);
  LLVM::CallOp::create(builder, loc, body,
                       ValueRange{argument, field(loc, argument, kBuffers),
                                  field(loc, argument, kArena)});
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
    return loop.emitOpError(
        "carries values; loops of this floor carry buffers only");
  flush();
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
  Value more = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::slt,
                                    index, values.lookup(loop.getUpperBound()));
  LLVM::CondBrOp::create(builder, loc, more, body, after);
  builder.setInsertionPointToEnd(body);
  values[loop.getInductionVar()] = index;
  if (failed(writeBlock(*loop.getBody())))
    return failure();
  flush();
  Value next =
      LLVM::AddOp::create(builder, loc, index, values.lookup(loop.getStep()));
  LLVM::BrOp::create(builder, loc, next, head);
  builder.setInsertionPointToEnd(after);
  return success();
}

/// Runs the instructions that have gathered.
void HostWriter::flush() {
  if (begin == program.size())
    return;
  Location loc = function.getLoc();
  Value start = LLVM::AddressOfOp::create(builder, loc, ptr, programName());
  auto at = [&](size_t word) -> Value {
    return LLVM::GEPOp::create(
        builder, loc, ptr, i64, start,
        ValueRange(number(loc, static_cast<int64_t>(word))));
  };
  LLVM::CallOp::create(builder, loc, TypeRange(), kRunName,
                       ValueRange{contextArgument, buffers, scratch, at(begin),
                                  at(program.size())});
  begin = program.size();
}

LogicalResult HostWriter::writeInstruction(Operation *op,
                                           Instruction instruction,
                                           int64_t what,
                                           ArrayRef<Place> operands) {
  if (llvm::any_of(operands, [](const Place &place) { return place.more; })) {
    flush();
    writeCode(op, instruction, what, operands);
    return success();
  }
  mostPointers = std::max<int64_t>(mostPointers, operands.size());
  program.push_back(static_cast<int64_t>(instruction) |
                    static_cast<int64_t>(operands.size()) << 8);
  program.push_back(what);
  for (const Place &place : operands) {
    if (place.offset >= int64_t{1} << kOffsetBits)
      return op->emitOpError("reaches byte ")
             << place.offset << " of a buffer, expected at most "
             << ((int64_t{1} << kOffsetBits) - 1);
    program.push_back((place.base + 1) << kOffsetBits | place.offset);
  }
  return success();
}

void HostWriter::writeCode(Operation *op, Instruction instruction, int64_t what,
                           ArrayRef<Place> operands) {
  Location loc = op->getLoc();
  auto pointers = llvm::map_to_vector(
      operands, [&](const Place &place) { return pointer(loc, place); });
  auto store = [&] {
    for (auto [i, value] : llvm::enumerate(pointers))
      LLVM::StoreOp::create(builder, loc, value, element(loc, table, i));
  };
  auto description = [&]() -> Value {
    return LLVM::AddressOfOp::create(builder, loc, ptr,
                                     descriptions.nameOf(what));
  };
  switch (instruction) {
  case Instruction::Launch:
    store();
    return callDevice(loc, kLaunch, {description(), table});
  case Instruction::Matmul:
    return callDevice(loc, kMatmul,
                      {description(), pointers[0], pointers[1], pointers[2]});
  case Instruction::GroupedMatmul:
    store();
    return callDevice(loc, kGroupedMatmul, {description(), table});
  case Instruction::Copy:
    return callDevice(loc, kCopy,
                      {pointers[1], pointers[0], number(loc, what)});
  case Instruction::Collective:
    return transfer(builder, loc, contextArgument, description(), pointers[0],
                    pointers[1]);
  case Instruction::Start:
    return startTransfer(builder, loc, contextArgument, description(),
                         pointers[0], pointers[1], pointers[2]);
  case Instruction::Wait:
    return waitForTransfer(builder, loc, contextArgument, pointers[0]);
  case Instruction::Rows:
    store();
    return transferRows(builder, loc, contextArgument, description(), table);
  case Instruction::Mark:
    llvm_unreachable("a mark has no operands that move");
  case Instruction::Call:
    store();
    LLVM::CallOp::create(builder, loc, TypeRange(),
                         bodyName(cast<exec::CallOp>(op).getCallee()),
                         ValueRange{contextArgument, table, pointers.back()});
  }
}

LogicalResult HostWriter::writeOp(Operation *op) {
  Location loc = op->getLoc();
  auto placesOf = [&](ValueRange buffers) {
    return llvm::map_to_vector(buffers,
                               [&](Value b) { return places.lookup(b); });
  };
  if (auto constant = dyn_cast<arith::ConstantIndexOp>(op)) {
    values[constant] = number(loc, constant.value());
    return success();
  }
  if (auto buffer = dyn_cast<BufferOp>(op)) {
    if (!buffer.getOffset())
      return op->emitOpError("is not placed; run exec-place first");
    places[buffer] = {-1, static_cast<int64_t>(*buffer.getOffset()), nullptr};
    return success();
  }
  if (auto view = dyn_cast<ViewOp>(op)) {
    Place place = places.lookup(view.getSource());
    place.offset += view.getOffset();
    places[view] = place;
    return success();
  }
  if (auto part = dyn_cast<PartOp>(op)) {
    Place place = places.lookup(part.getSource());
    Value bytes =
        LLVM::MulOp::create(builder, loc, values.lookup(part.getIndex()),
                            number(loc, getBytes(part.getType())));
    place.more =
        place.more
            ? LLVM::AddOp::create(builder, loc, place.more, bytes).getResult()
            : bytes;
    places[part] = place;
    return success();
  }
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    FailureOr<int32_t> description = descriptions.launch(launch);
    if (failed(description))
      return failure();
    return writeInstruction(op, Instruction::Launch, *description,
                            placesOf(launch->getOperands()));
  }
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    FailureOr<int32_t> description = descriptions.matmul(matmul);
    if (failed(description))
      return failure();
    return writeInstruction(op, Instruction::Matmul, *description,
                            placesOf(matmul->getOperands()));
  }
  if (auto grouped = dyn_cast<GroupedMatmulOp>(op)) {
    FailureOr<int32_t> description = descriptions.groupedMatmul(grouped);
    if (failed(description))
      return failure();
    return writeInstruction(op, Instruction::GroupedMatmul, *description,
                            placesOf(grouped->getOperands()));
  }
  if (auto collective = dyn_cast<CollectiveOp>(op)) {
    FailureOr<int32_t> description = descriptions.collective(collective);
    if (failed(description))
      return failure();
    Instruction instruction = collective.isStarted() ? Instruction::Start
                              : collective.getRead().size() > 1
                                  ? Instruction::Rows
                                  : Instruction::Collective;
    return writeInstruction(op, instruction, *description,
                            placesOf(collective->getOperands()));
  }
  if (auto start = dyn_cast<StartOp>(op)) {
    FailureOr<int32_t> description = descriptions.pair(start);
    if (failed(description))
      return failure();
    // Of a send and a receive one of the two buffers is not looked at.
    return writeInstruction(
        op, Instruction::Start, *description,
        placesOf(ValueRange{start.getBuffer(), start.getBuffer(),
                            start.getHandle()}));
  }
  if (isa<WaitOp>(op))
    return writeInstruction(op, Instruction::Wait, 0,
                            placesOf(op->getOperands()));
  if (auto copy = dyn_cast<CopyOp>(op))
    return writeInstruction(
        op, Instruction::Copy,
        getBytes(cast<MemRefType>(copy.getRead()[0].getType())),
        placesOf(copy->getOperands()));
  if (auto call = dyn_cast<exec::CallOp>(op)) {
    if (!call.getScratch())
      return op->emitOpError("is not placed; run exec-place first");
    SmallVector<Place> operands = placesOf(call->getOperands());
    operands.push_back({-1, static_cast<int64_t>(*call.getScratch()), nullptr});
    auto write = [&] {
      return writeInstruction(op, Instruction::Call,
                              functions.lookup(call.getCallee()), operands);
    };
    auto action = call->getAttrOfType<StringAttr>(kActionAttr);
    if (!action)
      return write();
    auto mark = [&](int64_t number) {
      return writeInstruction(op, Instruction::Mark, number, {});
    };
    return failure(failed(mark(descriptions.action(action))) ||
                   failed(write()) || failed(mark(-1)));
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return writeLoop(loop);
  return op->emitOpError(
      "has no host code; expected ops of exec, scf.for or index constants");
}

namespace {
struct ExecToLLVM : sheaf::impl::ExecToLLVMBase<ExecToLLVM> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module->hasAttr(kTableAttr)) {
      module.emitError("exec-to-llvm: has ")
          << kTableAttr << " already, expected a program that was not lowered";
      return signalPassFailure();
    }
    for (Operation &op : *module.getBody())
      if (isa<ExecDialect>(op.getDialect())) {
        op.emitOpError("stands outside of functions, where nothing runs it; "
                       "expected it in one");
        return signalPassFailure();
      }
    auto kernels = module.lookupSymbol<ModuleOp>(kKernelsName);
    Descriptions descriptions(module, kernels);
    llvm::StringMap<int64_t> functions;
    std::vector<std::string> bodies;
    for (func::FuncOp function : module.getOps<func::FuncOp>()) {
      functions[function.getName()] = bodies.size();
      bodies.push_back(bodyName(function.getName()));
    }
    int64_t mostPointers = 1;
    for (func::FuncOp function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      HostWriter writer(function, descriptions, functions);
      if (failed(writer.run()))
        return signalPassFailure();
      mostPointers = std::max(mostPointers, writer.mostPointers);
      function.erase();
    }
    addAddressTable(module, kDescriptionsName, descriptions.descriptions());
    addAddressTable(module, kFunctionsName, bodies);
    addProgramLoop(module, mostPointers);
    module->setAttr(kTableAttr, descriptions.table());
    module->setAttr(kCollectivesAttr, descriptions.collectives());
    if (!descriptions.actions().empty())
      module->setAttr(kActionsAttr, descriptions.actions());
  }
};
} // namespace
