//===- Compress.cpp - Send gradients and weights in fewer bytes -----------===//
//
// A reduction that rounds what it sends is written out: rounded parts go from
// all to all, and are added where they are owned. What is rounded, and by how
// much, is ordinary nn code between collectives.
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/sharding/Explain.h"
#include "passes/sharding/Parts.h"
#include "passes/sharding/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include <cfloat>
#include <cmath>

namespace sheaf {
#define GEN_PASS_DEF_DISTCOMPRESS
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {
/// Numbers that share a factor, at most. A product of blocks has as many, and a
/// factor in f32 adds a thirty-second to the bytes.
constexpr int64_t kBlock = 128;
/// Squares of errors that are added in one go, at most.
constexpr int64_t kLongestRow = 8192;
/// As many rows keep all of a device busy.
constexpr int64_t kManyRows = 32;
/// How many values are looked at to find a parameter.
constexpr int kMostCallers = 16;

/// How numbers are sent.
struct Wire {
  enum Format { F32, BF16, Int8, FP8 } format = F32;

  static std::optional<Wire> parse(StringRef name) {
    for (Format format : {F32, BF16, Int8, FP8})
      if (Wire{format}.name() == name)
        return Wire{format};
    return std::nullopt;
  }
  StringRef name() const {
    constexpr StringLiteral names[] = {"f32", "bf16", "int8", "fp8"};
    return names[format];
  }
  bool isRounded() const { return format != F32; }
  bool isInBlocks() const { return format == Int8 || format == FP8; }

  /// Of a row of `count` numbers, the blocks and what each has. They are equal,
  /// so that there is less padding than there are blocks.
  static std::pair<int64_t, int64_t> blocksOf(int64_t count) {
    int64_t blocks = llvm::divideCeil(count, kBlock);
    return {blocks, llvm::divideCeil(count, blocks)};
  }
  /// Bytes of a row of `count` numbers.
  int64_t bytesOf(int64_t count) const {
    auto [blocks, size] = blocksOf(count);
    return isInBlocks() ? blocks * (size + 4) : count * 2;
  }
  /// What an explanation says of a row of `count` numbers.
  std::string text(int64_t count) const {
    switch (format) {
    case F32:
      return "";
    case BF16:
      return "sent as bf16, rounded: off by at most 1/256 of each number";
    case Int8:
      return "sent as int8, quantised in blocks of " +
             std::to_string(blocksOf(count).second) +
             ": off by at most 1/254 of the largest of a block";
    case FP8:
      return "sent as fp8, quantised in blocks of " +
             std::to_string(blocksOf(count).second) +
             ": off by at most 1/16 of each number";
    }
    return "";
  }
};

/// Rows of numbers as they are sent: [rows, blocks, numbers of a block] and a
/// factor for each block, or [rows, 1, numbers] and no factors.
struct Rounded {
  Value payload, factors;
};

/// Rounds `rows`, [rows, numbers] of f32.
Rounded round(nn::Emit &emit, Value rows, Wire wire) {
  OpBuilder &builder = emit.builder;
  int64_t count = typeOf(rows).getDimSize(0),
          numbers = typeOf(rows).getDimSize(1);
  if (!wire.isInBlocks())
    return {emit.reshape(emit.cast(rows, builder.getBF16Type()),
                         {count, 1, numbers}),
            Value()};
  auto [blocks, size] = Wire::blocksOf(numbers);
  if (int64_t behind = blocks * size - numbers)
    rows = emit.make<nn::PadOp>(
        RankedTensorType::get({count, blocks * size}, builder.getF32Type()),
        rows, ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{0, behind},
        DenseI64ArrayAttr(), APFloat(0.0));
  rows = emit.reshape(rows, {count, blocks, size});
  Value largest = emit.reduce(nn::ReduceKind::Max, emit.make<nn::AbsOp>(rows),
                              {2}, /*keep=*/true);
  Value factors = emit.div(largest, wire.format == Wire::Int8 ? 127.0 : 448.0);
  // Zeros, and what is too small to be divided by, become zeros. A NaN is not
  // less than anything and stays.
  factors = emit.select(
      emit.compare(nn::Predicate::LT, factors, static_cast<double>(FLT_MIN)),
      emit.scalar(factors, 1), factors);
  Value scaled = emit.div(rows, factors);
  if (wire.format == Wire::FP8)
    return {emit.cast(scaled, Float8E4M3FNType::get(builder.getContext())),
            factors};
  // Past 2^23 f32 has no fractions: the sum is rounded to nearest, ties to
  // even. The cast that follows would cut off, and makes 0 of a NaN, which
  // its factor then makes a NaN again.
  double magic = 1.5 * (1 << 23);
  Value nearest = emit.add(scaled, magic);
  nearest = emit.sub(nearest, emit.scalar(nearest, magic));
  return {emit.cast(nearest, builder.getI8Type()), factors};
}

/// The inverse: [rows, `numbers`] of f32.
Value widen(nn::Emit &emit, Rounded rounded, int64_t numbers) {
  Value rows = emit.cast(rounded.payload, emit.builder.getF32Type());
  if (rounded.factors)
    rows = emit.mul(rows, rounded.factors);
  ArrayRef<int64_t> shape = typeOf(rows).getShape();
  int64_t count = shape[0], all = shape[1] * shape[2];
  rows = emit.reshape(rows, {count, all});
  if (all == numbers)
    return rows;
  return emit.make<nn::SliceOp>(
      RankedTensorType::get({count, numbers}, emit.builder.getF32Type()), rows,
      ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{count, numbers},
      DenseI64ArrayAttr());
}

/// Two sums over what a device sends, or parts of them, as vectors.
struct Sums {
  Value error, sent;
};

class Compression {
public:
  Compression(ModuleOp module, dist::MeshOp mesh, Wire gradients, Wire weights,
              bool measures, int64_t node)
      : module(module), mesh(mesh), gradients(gradients), weights(weights),
        measures(measures), node(node), symbols(module),
        builder(module.getContext(), &roles) {}

  LogicalResult run();

private:
  ModuleOp module;
  dist::MeshOp mesh;
  Wire gradients, weights;
  bool measures;
  int64_t node; ///< Devices of a node; 0: unknown.
  SymbolTable symbols;
  /// Whatever is built has the role of what it is built for.
  struct Roles : OpBuilder::Listener {
    void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) final {
      op->setAttr(nn::kRoleAttr, role);
    }
    StringAttr role;
  } roles;
  OpBuilder builder;
  llvm::StringSet<> dataAxes;
  llvm::MapVector<Block *, SmallVector<Sums>> measured;

  void findDataAxes();
  bool sharesBatch(dist::CollectiveOpInterface op);
  bool isGradient(Operation *op);
  bool isPartOfParameter(Value value, int depth = 0);
  /// The whole parameter that a gather of the optimizer's results replaces, and
  /// the part of it that the optimizer changed, which is null where that was a
  /// master; both are null where it is no such gather.
  std::pair<Value, Value> updatedBy(dist::AllGatherOp gather);
  bool isWorthIt(Operation *op, Wire wire, int64_t numbers);

  void nameParameters(Operation *op);
  void begin(Operation *op);
  Value local(nn::Emit &emit, Value value, Attribute encoding = {});
  void explain(Operation *made, Operation *from, const Twine &text);
  Rounded exchange(nn::Emit &emit, Operation *op, ArrayAttr axes,
                   Rounded rounded, int64_t lists, const Twine &text);
  Rounded gather(nn::Emit &emit, Operation *op, ArrayAttr axes, Rounded rounded,
                 const Twine &text);
  Rounded roundAndMeasure(nn::Emit &emit, Value rows);
  std::pair<ArrayAttr, ArrayAttr> splitByNode(ArrayAttr axes);
  Value sumOfParts(nn::Emit &emit, Operation *op, ArrayAttr axes, Value rows,
                   const Twine &text);

  bool compressReduction(Operation *op);
  bool compressGather(dist::AllGatherOp op, Value whole, Value part);
  void addError(func::FuncOp step);
  std::optional<Sums> add(nn::Emit &emit, ArrayRef<Sums> all);
  std::optional<Sums> sumsOf(Block &block);
};
} // namespace

/// Those over which a batch is sharded; all where no entry has one.
void Compression::findDataAxes() {
  bool hasBatch = false;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      if (!function.getArgAttr(i, nn::kBatchAttr))
        continue;
      hasBatch = true;
      if (auto sharding = function.getArgAttrOfType<dist::ShardingAttr>(
              i, dist::kShardingAttr))
        for (dist::DimAttr dim : sharding.getDims())
          for (dist::AxisAttr axis : dim.getAxes())
            dataAxes.insert(axis.getName());
    }
  if (!hasBatch)
    for (auto axis : mesh.getAxes().getAsRange<dist::MeshAxisAttr>())
      dataAxes.insert(axis.getName());
}

bool Compression::sharesBatch(dist::CollectiveOpInterface op) {
  SmallVector<dist::AxisAttr> axes = op.getGroupAxes();
  return mesh.getSize(axes) > 1 && llvm::any_of(axes, [&](dist::AxisAttr axis) {
           return dataAxes.contains(axis.getName());
         });
}

bool Compression::isGradient(Operation *op) {
  auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
  if (!isa<dist::AllReduceOp, dist::ReduceScatterOp>(op) || !role ||
      role != "weight_gradient" || typeOf(op->getOperand(0)).getRank() == 0 ||
      op->getAttrOfType<dist::ReductionAttr>("kind").getValue() !=
          dist::Reduction::Sum ||
      !sharesBatch(cast<dist::CollectiveOpInterface>(op)))
    return false;
  // The loads of experts are counts.
  return llvm::none_of(
      parametersFor(op->getParentOfType<func::FuncOp>(), op),
      [](StringRef name) { return name.starts_with(nn::kLoadPrefix); });
}

/// Follows what moves elements, and calls of layers.
bool Compression::isPartOfParameter(Value value, int depth) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, nn::CastOp,
             dist::SliceOp, dist::AllGatherOp>(op))
      return false;
    value = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function || depth > kMostCallers)
    return false;
  unsigned number = argument.getArgNumber();
  if (function.isPublic())
    return static_cast<bool>(function.getArgAttr(number, nn::kParamAttr));
  bool any = false, all = true;
  module.walk([&](func::CallOp call) {
    if (call.getCallee() != function.getName())
      return;
    any = true;
    all = all && isPartOfParameter(call.getOperand(number), depth + 1);
  });
  return any && all;
}

std::pair<Value, Value> Compression::updatedBy(dist::AllGatherOp gather) {
  // Of a master the parameter has what is rounded of it.
  Value updated = gather.getInput();
  while (auto cast = updated.getDefiningOp<nn::CastOp>())
    updated = cast.getInput();
  bool isRounded = updated != gather.getInput();
  Operation *update = updated.getDefiningOp();
  auto function = dyn_cast<func::FuncOp>(gather->getParentOp());
  if (!function || !function.isPublic() ||
      !isa_and_nonnull<nn::AdamWOp, nn::SGDOp>(update) ||
      updated != update->getResult(0))
    return {};
  for (OpOperand &use : gather->getUses()) {
    if (!isa<func::ReturnOp>(use.getOwner()))
      continue;
    auto what = function.getResultAttrOfType<ArrayAttr>(use.getOperandNumber(),
                                                        nn::kResultAttr);
    if (!what || what.size() != 2)
      continue;
    for (BlockArgument argument : function.getArguments())
      if (auto param = function.getArgAttrOfType<nn::ParamAttr>(
              argument.getArgNumber(), nn::kParamAttr))
        if (param.getName() == what[1] &&
            argument.getType() == gather.getType())
          return {argument, isRounded ? Value() : update->getOperand(0)};
  }
  return {};
}

/// Says why not.
bool Compression::isWorthIt(Operation *op, Wire wire, int64_t numbers) {
  auto element = typeOf(op->getOperand(0)).getElementType();
  int64_t now = numbers * element.getIntOrFloatBitWidth() / 8;
  bool isKnown = element.isF32() || element.isBF16() || element.isF16();
  if (isKnown && wire.bytesOf(numbers) < now)
    return true;
  remark::missed(op->getLoc(), remark::RemarkOpts::name("not-compressed")
                                   .category("sharding")
                                   .function("dist"))
      << "is sent as it is: "
      << (isKnown ? "it would be as many bytes as " + wire.name().str()
                  : std::string("it is no f32, bf16 or f16"));
  return false;
}

/// What is rewritten cannot be followed to its parameters any more.
void Compression::nameParameters(Operation *op) {
  auto reason = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr);
  if (!reason || reason.get("params"))
    return;
  SmallVector<StringRef> names =
      parametersFor(op->getParentOfType<func::FuncOp>(), op);
  if (names.empty())
    return;
  NamedAttrList fields(reason);
  fields.set("params", builder.getStrArrayAttr(names));
  op->setAttr(dist::kReasonAttr, fields.getDictionary(op->getContext()));
}

void Compression::begin(Operation *op) {
  builder.setInsertionPoint(op);
  auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
  roles.role = role ? role : builder.getStringAttr("forward");
}

/// `value` as each device has it, or as what it adds to a sum.
Value Compression::local(nn::Emit &emit, Value value, Attribute encoding) {
  RankedTensorType type = typeOf(value);
  if (type.getEncoding() == encoding)
    return value;
  return emit.make<dist::LocalOp>(
      RankedTensorType::get(type.getShape(), type.getElementType(), encoding),
      value);
}

/// Gives `made` the reason of `from`, with more to it.
void Compression::explain(Operation *made, Operation *from, const Twine &text) {
  NamedAttrList fields;
  if (auto reason = from->getAttrOfType<DictionaryAttr>(dist::kReasonAttr))
    fields = NamedAttrList(reason);
  else
    fields.set("kind", builder.getStringAttr("annotation"));
  auto old = dyn_cast_or_null<StringAttr>(fields.get("text"));
  fields.set("text",
             builder.getStringAttr(old ? old.getValue() + "; " + text : text));
  made->setAttr(dist::kReasonAttr, fields.getDictionary(made->getContext()));
}

/// The rows are `lists` lists of one row for each device: row i of each list of
/// each device goes to device i, and all of the first device come first.
Rounded Compression::exchange(nn::Emit &emit, Operation *op, ArrayAttr axes,
                              Rounded rounded, int64_t lists,
                              const Twine &text) {
  auto send = [&](Value value, const Twine &what) -> Value {
    ArrayRef<int64_t> shape = typeOf(value).getShape();
    int64_t rows = shape[0], blocks = shape[1], size = shape[2],
            devices = rows / lists;
    Value apart = emit.reshape(value, {1, lists, devices, blocks, size});
    auto sent = dist::AllToAllOp::create(
        builder, op->getLoc(),
        RankedTensorType::get({devices, lists, 1, blocks, size},
                              typeOf(value).getElementType()),
        apart, /*split=*/2, /*concat=*/0, axes);
    explain(sent, op, what);
    return emit.reshape(sent, {rows, blocks, size});
  };
  return {send(rounded.payload, text),
          rounded.factors ? send(rounded.factors, "the factors of its blocks")
                          : Value()};
}

/// The one row of each device, for all.
Rounded Compression::gather(nn::Emit &emit, Operation *op, ArrayAttr axes,
                            Rounded rounded, const Twine &text) {
  int64_t group =
      mesh.getSize(llvm::to_vector(axes.getAsRange<dist::AxisAttr>()));
  auto send = [&](Value value, const Twine &what) -> Value {
    SmallVector<int64_t> shape(typeOf(value).getShape());
    shape[0] *= group;
    auto sent = dist::AllGatherOp::create(
        builder, op->getLoc(),
        RankedTensorType::get(shape, typeOf(value).getElementType()), value,
        /*dim=*/0, axes);
    explain(sent, op, what);
    return sent;
  };
  return {send(rounded.payload, text),
          rounded.factors ? send(rounded.factors, "the factors of its blocks")
                          : Value()};
}

/// Rounds rows of a gradient, and notes by how much.
Rounded Compression::roundAndMeasure(nn::Emit &emit, Value rows) {
  int64_t count = typeOf(rows).getDimSize(0),
          numbers = typeOf(rows).getDimSize(1);
  // Numbers that are rounded one by one are so in rows that are short enough
  // for the same kernel to sum up the squares of errors.
  int64_t parts = 1;
  if (measures && !gradients.isInBlocks() && count < kManyRows) {
    int64_t least = llvm::divideCeil(numbers, kLongestRow);
    for (parts = least; numbers % parts != 0 && parts < 2 * least;)
      ++parts;
    if (numbers % parts != 0)
      parts = 1;
  }
  int64_t each = numbers / parts;
  rows = emit.reshape(rows, {count * parts, each});
  Rounded rounded = round(emit, rows, gradients);
  if (measures) {
    Value error = emit.sub(widen(emit, rounded, each), rows);
    measured[builder.getInsertionBlock()].push_back(
        {emit.reduce(nn::ReduceKind::SumOfSquares, error, {1}),
         emit.reduce(nn::ReduceKind::SumOfSquares, rows, {1})});
  }
  if (parts != 1)
    rounded.payload = emit.reshape(rounded.payload, {count, 1, numbers});
  return rounded;
}

/// The axes of a group that lead from node to node, and those within one; null
/// where the group is in one node, has one device of each, or is cut by nodes
/// in another way.
std::pair<ArrayAttr, ArrayAttr> Compression::splitByNode(ArrayAttr axes) {
  SmallVector<Attribute> across(axes.begin(), axes.end()), within;
  // A row of one node after the other: the last axes are those within.
  for (int64_t below = 1; !across.empty();) {
    auto axis = cast<dist::AxisAttr>(across.back());
    int64_t stride = 1, whole = 1;
    for (auto known :
         llvm::reverse(mesh.getAxes().getAsRange<dist::MeshAxisAttr>())) {
      whole = known.getSize();
      if (known.getName() == axis.getName())
        break;
      stride *= whole;
    }
    int64_t size = mesh.getSize(axis), outer = axis.getOuter();
    if (size == 1) {
      across.pop_back();
      continue;
    }
    stride *= whole / (outer * size);
    if (stride >= node)
      break;
    if (stride < below || node % stride != 0)
      return {};
    across.pop_back();
    if (int64_t places = node / stride; size > places) {
      if (size % places != 0)
        return {};
      auto part = [&](int64_t outer, int64_t size) {
        return dist::AxisAttr::get(module.getContext(), axis.getName(), outer,
                                   size);
      };
      across.push_back(part(outer, size / places));
      within.insert(within.begin(), part(outer * (size / places), places));
      break;
    }
    within.insert(within.begin(), axis);
    below = stride * size;
    if (node % below != 0)
      return {};
  }
  if (across.empty() || within.empty())
    return {};
  return {builder.getArrayAttr(across), builder.getArrayAttr(within)};
}

/// The sum over a group of row i of each, on device i of the group. Between
/// nodes goes what those of one node have added already.
Value Compression::sumOfParts(nn::Emit &emit, Operation *op, ArrayAttr axes,
                              Value rows, const Twine &text) {
  int64_t numbers = typeOf(rows).getDimSize(1);
  auto level = [&](ArrayAttr axes, Value rows, int64_t lists,
                   const Twine &text) {
    int64_t devices = typeOf(rows).getDimSize(0) / lists;
    Rounded received =
        exchange(emit, op, axes, roundAndMeasure(emit, rows), lists, text);
    Value sums = emit.reshape(widen(emit, received, numbers),
                              {devices, lists * numbers});
    return emit.reshape(emit.sum(sums, {0}), {lists, numbers});
  };
  auto [across, within] = splitByNode(axes);
  if (!across)
    return emit.reshape(level(axes, rows, 1, text), {numbers});
  int64_t nodes =
      mesh.getSize(llvm::to_vector(across.getAsRange<dist::AxisAttr>()));
  Value sums = level(within, rows, nodes, text + ", within a node");
  return emit.reshape(level(across, sums, 1, "the sums of nodes, " + text),
                      {numbers});
}

/// Parts go to the devices that own them, are added, and, where all want the
/// sum, go to all. False where that would not be fewer bytes.
bool Compression::compressReduction(Operation *op) {
  auto scatter = dyn_cast<dist::ReduceScatterOp>(op);
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  int64_t group =
      mesh.getSize(cast<dist::CollectiveOpInterface>(op).getGroupAxes());
  RankedTensorType from = typeOf(op->getOperand(0)),
                   to = typeOf(op->getResult(0));
  int64_t numbers = scatter ? to.getNumElements()
                            : llvm::divideCeil(from.getNumElements(), group);
  if (!isWorthIt(op, gradients, numbers))
    return false;
  nameParameters(op);
  begin(op);
  nn::Emit emit(builder, op->getLoc());
  Type f32 = builder.getF32Type();
  Value own = local(emit, op->getOperand(0));
  auto flat = RankedTensorType::get({numbers}, f32);
  Value rows;
  if (scatter)
    rows = cutInParts(emit, own, scatter.getDim(),
                      RankedTensorType::get(to.getShape(), f32), group);
  else
    rows = cutInParts(emit, emit.reshape(own, {from.getNumElements()}), 0, flat,
                      group);
  if (!from.getElementType().isF32())
    rows = emit.cast(rows, f32);
  std::string text = gradients.text(numbers);
  Value sum = sumOfParts(emit, op, axes, rows, text);
  if (scatter) {
    sum = emit.reshape(sum, to.getShape());
  } else {
    Rounded all =
        gather(emit, op, axes, roundAndMeasure(emit, emit.expand(sum, 0)),
               "the sum, " + text);
    int64_t elements = from.getNumElements();
    sum = joinParts(emit, widen(emit, all, numbers), 0, flat, {elements});
    sum = emit.reshape(sum, to.getShape());
  }
  if (!to.getElementType().isF32())
    sum = emit.cast(sum, to.getElementType());
  op->getResult(0).replaceAllUsesWith(local(emit, sum, to.getEncoding()));
  op->erase();
  return true;
}

/// The part of each device goes to all, which take what was sent; the device
/// itself, too. Where `whole` is there, its change is sent, from `part` to the
/// operand. False where that would not be fewer bytes.
bool Compression::compressGather(dist::AllGatherOp op, Value whole,
                                 Value part) {
  RankedTensorType from = typeOf(op.getInput());
  int64_t numbers = from.getNumElements();
  if (!isWorthIt(op, weights, numbers))
    return false;
  nameParameters(op);
  begin(op);
  nn::Emit emit(builder, op.getLoc());
  Type f32 = builder.getF32Type();
  auto inF32 = [&](Value value) {
    return typeOf(value).getElementType().isF32() ? value
                                                  : emit.cast(value, f32);
  };
  Value value = inF32(op.getInput());
  // From what all have, so that what rounding left out comes with the next
  // step.
  if (whole && !part)
    part = emit.make<dist::SliceOp>(from, whole, op.getDim(), op.getAxes());
  if (whole)
    value = emit.sub(value, inF32(part));
  Value row = emit.reshape(value, {1, numbers});
  std::string text = weights.text(numbers);
  if (whole)
    text = "the change of the weights, " + text;
  Rounded all = gather(emit, op, op.getAxes(), round(emit, row, weights), text);
  Value result = joinParts(emit, widen(emit, all, numbers), op.getDim(), from,
                           op.getType().getShape());
  if (whole)
    result = emit.add(inF32(whole), result);
  if (!from.getElementType().isF32())
    result = emit.cast(result, from.getElementType());
  op.getResult().replaceAllUsesWith(result);
  op.erase();
  return true;
}

std::optional<Sums> Compression::add(nn::Emit &emit, ArrayRef<Sums> all) {
  if (all.empty())
    return std::nullopt;
  if (all.size() == 1 && typeOf(all[0].error).getRank() == 0)
    return all[0];
  auto sum = [&](Value Sums::*member) -> Value {
    SmallVector<Value> parts;
    int64_t count = 0;
    for (const Sums &sums : all) {
      int64_t size = typeOf(sums.*member).getNumElements();
      parts.push_back(emit.reshape(sums.*member, {size}));
      count += size;
    }
    Value joined =
        parts.size() == 1
            ? parts[0]
            : emit.make<nn::ConcatenateOp>(
                  RankedTensorType::get({count}, emit.builder.getF32Type()),
                  parts, 0);
    return emit.sum(joined, {0});
  };
  return Sums{sum(&Sums::error), sum(&Sums::sent)};
}

/// The sums of all that a block sends, loops and layers included, at its end.
std::optional<Sums> Compression::sumsOf(Block &block) {
  SmallVector<Sums> all = measured.lookup(&block);
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      // The function has got two results more by its first call.
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      unsigned has = call.getNumResults();
      if (!callee || callee.isExternal())
        continue;
      if (callee.getNumResults() == has) {
        std::optional<Sums> sums = sumsOf(callee.front());
        if (!sums)
          continue;
        Operation *end = callee.front().getTerminator();
        end->insertOperands(has, {sums->error, sums->sent});
        for (unsigned i : {has, has + 1})
          (void)callee.insertResult(i, scalar, {});
      }
      builder.setInsertionPoint(call);
      roles.role = builder.getStringAttr("weight_gradient");
      auto next = func::CallOp::create(builder, call.getLoc(), callee,
                                       call.getOperands());
      next->setAttrs(call->getAttrDictionary());
      call.replaceAllUsesWith(next.getResults().take_front(has));
      call.erase();
      all.push_back({next.getResult(has), next.getResult(has + 1)});
    } else if (auto loop = dyn_cast<nn::MicrobatchesOp>(op)) {
      Block *body = &loop.getBody().front();
      std::optional<Sums> each = sumsOf(*body);
      if (!each)
        continue;
      builder.setInsertionPoint(loop);
      roles.role = builder.getStringAttr("weight_gradient");
      nn::Emit emit(builder, loop.getLoc());
      Value zero = emit.constant(scalar, 0);
      SmallVector<Value> inits(loop.getInits());
      inits.append(2, zero);
      SmallVector<Type> types(loop.getResultTypes());
      types.append(2, scalar);
      auto next =
          nn::MicrobatchesOp::create(builder, loop.getLoc(), types,
                                     loop.getCount(), loop.getSliced(), inits);
      next->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
      next.getBody().takeBody(loop.getBody());
      Operation *yield = body->getTerminator();
      builder.setInsertionPoint(yield);
      SmallVector<Value> sums;
      for (Value value : {each->error, each->sent})
        sums.push_back(
            emit.add(body->addArgument(scalar, loop.getLoc()), value));
      yield->insertOperands(yield->getNumOperands(), sums);
      unsigned has = loop.getNumResults();
      loop.replaceAllUsesWith(next.getResults().take_front(has));
      loop.erase();
      all.push_back({next.getResult(has), next.getResult(has + 1)});
    }
  }
  builder.setInsertionPoint(block.getTerminator());
  roles.role = builder.getStringAttr("weight_gradient");
  nn::Emit emit(builder, block.getTerminator()->getLoc());
  return add(emit, all);
}

void Compression::addError(func::FuncOp step) {
  std::optional<Sums> sums = sumsOf(step.front());
  if (!sums)
    return;
  // Other entries call the same layers.
  module.walk([&](func::CallOp call) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    unsigned has = call.getNumResults();
    if (!callee || callee.getNumResults() == has)
      return;
    builder.setInsertionPoint(call);
    auto next = func::CallOp::create(builder, call.getLoc(), callee,
                                     call.getOperands());
    next->setAttrs(call->getAttrDictionary());
    call.replaceAllUsesWith(next.getResults().take_front(has));
    call.erase();
  });
  Operation *end = step.front().getTerminator();
  builder.setInsertionPoint(end);
  roles.role = builder.getStringAttr("optimizer");
  nn::Emit emit(builder, end->getLoc());
  SmallVector<dist::AxisAttr> axes;
  for (auto axis : mesh.getAxes().getAsRange<dist::MeshAxisAttr>())
    if (axis.getSize() > 1)
      axes.push_back(
          dist::AxisAttr::get(module.getContext(), axis.getName().getValue()));
  SmallVector<Attribute> list(axes.begin(), axes.end());
  auto partial =
      dist::PartialAttr::get(module.getContext(), axes, dist::Reduction::Sum);
  auto ofAll = [&](Value value) -> Value {
    auto all = dist::AllReduceOp::create(
        builder, end->getLoc(), value.getType(), dist::Reduction::Sum,
        local(emit, value, partial), builder.getArrayAttr(list));
    all->setAttr(
        dist::kReasonAttr,
        builder.getDictionaryAttr(
            {builder.getNamedAttr("kind", builder.getStringAttr("rule")),
             builder.getNamedAttr(
                 "text", builder.getStringAttr(
                             "how far what is sent is from the gradients, of "
                             "all devices"))}));
    return all;
  };
  Value error = ofAll(sums->error), sent = ofAll(sums->sent);
  // Where no gradient was sent that is not 0, nothing was lost.
  Value share = emit.select(emit.compare(nn::Predicate::EQ, sent, 0.0),
                            emit.scalar(sent, 0), emit.div(error, sent));
  share = emit.make<nn::SqrtOp>(share);
  unsigned number = step.getNumResults();
  end->insertOperands(number, share);
  (void)step.insertResult(
      number, share.getType(),
      builder.getDictionaryAttr(builder.getNamedAttr(
          nn::kResultAttr, builder.getStrArrayAttr({"result", "wire_error"}))));
}

LogicalResult Compression::run() {
  findDataAxes();
  // Found before anything is rewritten, behind which nothing is found.
  SmallVector<Operation *> reductions;
  struct Gather {
    dist::AllGatherOp op;
    Value whole, part;
  };
  SmallVector<Gather> gathers;
  module.walk([&](Operation *op) {
    if (gradients.isRounded() && isGradient(op))
      reductions.push_back(op);
    auto gather = dyn_cast<dist::AllGatherOp>(op);
    if (!gather || !weights.isRounded() || dist::getPartial(gather.getType()) ||
        !sharesBatch(gather))
      return;
    if (isPartOfParameter(gather.getInput()))
      gathers.push_back({gather, Value(), Value()});
    else if (auto [whole, part] = updatedBy(gather); whole)
      gathers.push_back({gather, whole, part});
  });
  auto step = symbols.lookup<func::FuncOp>("step");
  bool isStep = step && !step.isExternal() && mesh.getNumDevices() > 1;
  if (isStep && gradients.isRounded() && reductions.empty())
    return step.emitError("dist-compress: sums no gradient over devices that "
                          "share the batch, and ")
           << gradients.name()
           << " is how that would be sent; expected a mesh with dp or cp, such "
              "as --mesh=dp=2, or gradients as f32";
  if (isStep && weights.isRounded() && gathers.empty())
    return step.emitError("dist-compress: gathers no weights, and ")
           << weights.name()
           << " is how they would be sent; expected --zero=1 or above on a "
              "mesh with dp or cp, or weights as f32";
  for (Operation *op : reductions)
    compressReduction(op);
  for (Gather &gather : gathers)
    compressGather(gather.op, gather.whole, gather.part);
  if (measures && step && !step.isExternal())
    addError(step);
  return success();
}

namespace {
struct DistCompress : sheaf::impl::DistCompressBase<DistCompress> {
  using DistCompressBase::DistCompressBase;

  LogicalResult initialize(MLIRContext *context) final {
    for (auto [option, value, wire] :
         {std::tuple<StringRef, StringRef, Wire *>{"gradients", gradients,
                                                   &gradientWire},
          {"weights", weights, &weightWire}}) {
      std::optional<Wire> parsed = Wire::parse(value);
      if (!parsed)
        return emitError(UnknownLoc::get(context), "dist-compress: option '")
               << option << "' is '" << value
               << "', expected f32, bf16, int8 or fp8";
      *wire = *parsed;
    }
    if (node < 0)
      return emitError(UnknownLoc::get(context), "dist-compress: option 'node' "
                                                 "is ")
             << static_cast<int64_t>(node) << ", expected at least 0";
    return success();
  }

  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    // One device sends nothing.
    if (!mesh || (!gradientWire.isRounded() && !weightWire.isRounded()))
      return markAllAnalysesPreserved();
    if (failed(Compression(getOperation(), mesh, gradientWire, weightWire,
                           error && gradientWire.isRounded(), node)
                   .run()))
      signalPassFailure();
  }

private:
  Wire gradientWire, weightWire;
};
} // namespace
