//===- Verifiers.cpp - What is legal in dist ------------------------------===//

#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "support/Nearest.h"
#include "support/WordAssembly.h"
#include "llvm/ADT/SmallSet.h"
#include <numeric>
#include <set>

using namespace mlir;
using namespace sheaf::dist;

namespace sheaf::dist {
ParseResult parseMeshAxesList(OpAsmParser &parser, ArrayAttr &axes);
void printMeshAxesList(OpAsmPrinter &printer, ArrayAttr axes);
ParseResult parseAxesList(OpAsmParser &parser, ArrayAttr &axes);
void printAxesList(OpAsmPrinter &printer, ArrayAttr axes);
} // namespace sheaf::dist

static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &axes) {
  return parseMeshAxesList(parser, axes);
}
static void printMeshAxes(OpAsmPrinter &printer, Operation *, ArrayAttr axes) {
  printMeshAxesList(printer, axes);
}
static ParseResult parseAxes(OpAsmParser &parser, ArrayAttr &axes) {
  return parseAxesList(parser, axes);
}
static void printAxes(OpAsmPrinter &printer, Operation *, ArrayAttr axes) {
  printAxesList(printer, axes);
}

//===----------------------------------------------------------------------===//
// Mesh and axes
//===----------------------------------------------------------------------===//

MeshAxisAttr MeshOp::lookup(StringRef name) {
  for (MeshAxisAttr axis : getAxes().getAsRange<MeshAxisAttr>())
    if (axis.getName() == name)
      return axis;
  return nullptr;
}

int64_t MeshOp::getSize(AxisAttr axis) {
  return axis.isWhole() ? lookup(axis.getName()).getSize() : axis.getSize();
}

int64_t MeshOp::getSize(ArrayRef<AxisAttr> axes) {
  int64_t size = 1;
  for (AxisAttr axis : axes)
    size *= getSize(axis);
  return size;
}

int64_t MeshOp::getNumDevices() {
  int64_t devices = 1;
  for (MeshAxisAttr axis : getAxes().getAsRange<MeshAxisAttr>())
    devices *= axis.getSize();
  return devices;
}

/// As many ranks as an artifact may have.
static constexpr int64_t kMostDevices = 1 << 20;

LogicalResult MeshOp::verify() {
  auto module = dyn_cast_or_null<ModuleOp>((*this)->getParentOp());
  if (!module)
    return emitOpError("belongs into a module");
  for (MeshOp other : module.getOps<MeshOp>())
    if (other != *this && other->isBeforeInBlock(*this)) {
      InFlightDiagnostic error =
          emitOpError("is the second mesh of the module, expected one");
      error.attachNote(other.getLoc()) << "the first is here";
      return error;
    }
  llvm::SmallSet<StringRef, 8> names;
  int64_t total = 1;
  for (MeshAxisAttr axis : getAxes().getAsRange<MeshAxisAttr>()) {
    // Explanations and manifests write axes as text: dp:(2)4, dp, tp.
    StringRef name = axis.getName().getValue();
    if (name.empty() || !llvm::all_of(name, [](char c) {
          return llvm::isAlnum(c) || c == '_';
        }))
      return emitOpError("has an axis named ")
             << axis.getName()
             << ", expected letters, digits and '_', as in \"dp\"";
    if (!names.insert(axis.getName()).second)
      return emitOpError("has two axes named ")
             << axis.getName() << ", expected each name once";
    if (__builtin_mul_overflow(total, axis.getSize(), &total) ||
        total > kMostDevices)
      return emitOpError("has more than ") << kMostDevices << " devices";
  }
  if (auto devices = getDevices()) {
    if (static_cast<int64_t>(devices->size()) != total)
      return emitOpError("lists ")
             << devices->size() << " devices, its axes give " << total
             << "; expected each rank from 0 to " << total - 1 << " once";
    SmallVector<bool> seen(total);
    for (int64_t device : *devices) {
      if (device < 0 || device >= total)
        return emitOpError("lists device ")
               << device << ", expected 0 to " << total - 1;
      if (seen[device])
        return emitOpError("lists device ")
               << device << " twice, expected each rank from 0 to " << total - 1
               << " once";
      seen[device] = true;
    }
  }
  return success();
}

static std::string axisText(AxisAttr axis) {
  std::string text;
  llvm::raw_string_ostream os(text);
  axis.printBare(os);
  return text;
}

static std::string axesText(ArrayRef<AxisAttr> axes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(axes, os, [&](AxisAttr axis) { axis.printBare(os); });
  return text;
}

static std::string axisNames(MeshOp mesh) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(mesh.getAxes().getAsRange<MeshAxisAttr>(), os,
                        [&](MeshAxisAttr axis) { os << axis.getName(); });
  return text;
}

/// Whether two axes have devices in common. A sub-axis takes the strides
/// between outer and outer * size.
static bool overlap(AxisAttr a, AxisAttr b, MeshOp mesh) {
  return a.getName() == b.getName() &&
         a.getOuter() < b.getOuter() * mesh.getSize(b) &&
         b.getOuter() < a.getOuter() * mesh.getSize(a);
}

/// Whether the axes exist and none of their devices is used twice.
static LogicalResult
verifyAxes(ArrayRef<AxisAttr> axes, MeshOp mesh,
           llvm::function_ref<InFlightDiagnostic()> emitError) {
  for (auto [i, axis] : llvm::enumerate(axes)) {
    MeshAxisAttr whole = mesh.lookup(axis.getName());
    if (!whole) {
      InFlightDiagnostic error = emitError()
                                 << "uses axis " << axis.getName()
                                 << ", which the mesh does not have; it has "
                                 << axisNames(mesh);
      SmallVector<StringRef> names;
      for (MeshAxisAttr known : mesh.getAxes().getAsRange<MeshAxisAttr>())
        names.push_back(known.getName());
      if (std::optional<StringRef> near = sheaf::nearest(axis.getName(), names))
        error << "; did you mean \"" << *near << "\"?";
      return error;
    }
    int64_t outer = axis.getOuter(),
            size = axis.isWhole() ? whole.getSize() : axis.getSize();
    if (!axis.isWhole() && (outer > whole.getSize() / size ||
                            whole.getSize() % (outer * size) != 0))
      return emitError() << "uses sub-axis " << axisText(axis)
                         << " of an axis of size " << whole.getSize()
                         << ", which " << outer << " times " << size
                         << " does not divide";
    for (AxisAttr before : axes.take_front(i)) {
      if (overlap(before, axis, mesh))
        return emitError() << "uses axis " << axisText(axis) << " twice"
                           << (before == axis
                                   ? std::string()
                                   : ", the other time as " + axisText(before))
                           << "; leave one of the two out, or shard each by a "
                              "part of the axis, "
                              "as in \"dp\":(1)2 and \"dp\":(2)2";
    }
  }
  return success();
}

static FailureOr<MeshOp> requireMesh(Operation *op) {
  MeshOp mesh = getMesh(op);
  if (!mesh) {
    op->emitOpError("needs a mesh, but the module has none; declare one with "
                    "dist.mesh @mesh [\"dp\" = 2]");
    return failure();
  }
  return mesh;
}

LogicalResult sheaf::dist::verifySharding(
    ShardingAttr sharding, Type type, MeshOp mesh,
    llvm::function_ref<InFlightDiagnostic()> emitError) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return emitError() << "has a sharding, but its type " << type
                       << " is no ranked tensor";
  if (static_cast<int64_t>(sharding.getDims().size()) != tensor.getRank())
    return emitError() << "has a sharding of " << sharding.getDims().size()
                       << " dimensions, its type " << tensor << " has "
                       << tensor.getRank();
  for (auto [i, dim] : llvm::enumerate(sharding.getDims())) {
    if (dim.getBlocks() > 0 && tensor.getDimSize(i) % dim.getBlocks() != 0)
      return emitError() << "has " << dim.getBlocks() << " blocks in dimension "
                         << i << ", whose size is " << tensor.getDimSize(i);
    // Places in an order are i32.
    constexpr int64_t mostChunks = 1 << 20, mostPlaces = 1 << 30;
    if (dim.getBlocks() < -mostChunks ||
        (dim.getBlocks() < 0 && tensor.getDimSize(i) > mostPlaces))
      return emitError() << "has " << -dim.getBlocks()
                         << " chunks in zig-zag order in dimension " << i
                         << ", whose size is " << tensor.getDimSize(i)
                         << ", expected at most " << mostChunks
                         << " chunks, and a size of at most " << mostPlaces;
  }
  return verifyAxes(sharding.getAllAxes(), mesh, emitError);
}

//===----------------------------------------------------------------------===//
// Attributes on other ops
//===----------------------------------------------------------------------===//

/// That an op on whole tensors, or what it says, is not in the body of a
/// dist.manual, where values are the parts of a device.
static LogicalResult verifyNotManual(Operation *op, const Twine &what) {
  auto manual = op->getParentOfType<ManualOp>();
  if (!manual)
    return success();
  InFlightDiagnostic error = op->emitOpError()
                             << what
                             << " in the body of dist.manual, whose values "
                                "are the parts of one device; expected a "
                                "collective on them there, such as "
                                "dist.all_gather or dist.slice, or the op "
                                "outside of it";
  error.attachNote(manual.getLoc()) << "the body is here";
  return error;
}

static LogicalResult verifySlot(Operation *op, Attribute value, Type type,
                                const Twine &what) {
  FailureOr<MeshOp> mesh = requireMesh(op);
  if (failed(mesh))
    return failure();
  auto sharding = dyn_cast<ShardingAttr>(value);
  if (!sharding)
    return op->emitOpError()
           << what << " has " << value
           << " as its sharding, expected #dist.sharding<...>";
  if (auto function = dyn_cast<FunctionOpInterface>(op);
      function && function.isPublic())
    for (auto [i, dim] : llvm::enumerate(sharding.getDims()))
      if (dim.getBlocks() < 0)
        return op->emitOpError()
               << what << " has dimension " << i
               << " in zig-zag order, in which no buffer of an entry lies; "
                  "expected the order on a dist.constraint of it";
  if (failed(verifySharding(sharding, type, *mesh,
                            [&] { return op->emitOpError() << what << " "; })))
    return failure();
  if (sharding.getPartial().empty())
    return success();
  return op->emitOpError()
         << what << " has a sharding that is partial ("
         << stringifyReduction(sharding.getKind()) << " over "
         << axesText(sharding.getPartial())
         << "), expected one that is not: a parameter, and any other value "
            "that a sharding is written for, is whole or in shards; leave out '"
         << stringifyReduction(sharding.getKind())
         << " {...}', partitioning chooses where sums stay open";
}

/// The shape of a whole tensor: as many sizes as the local one has, none
/// smaller.
static LogicalResult verifyGlobalShape(Operation *op, Attribute value,
                                       Type type, const Twine &what) {
  auto shape = dyn_cast<DenseI64ArrayAttr>(value);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!shape || !tensor || shape.size() != tensor.getRank() ||
      !llvm::all_of(shape.asArrayRef(), [](int64_t size) { return size > 0; }))
    return op->emitOpError()
           << what << " has " << value
           << " as its global shape, expected a positive size for each "
              "dimension of "
           << type;
  return success();
}

/// Wishes of which one was followed, as partitioning notes them.
static bool isConflict(Attribute value) {
  auto conflict = dyn_cast<DictionaryAttr>(value);
  if (!conflict)
    return false;
  auto candidates = conflict.getAs<ArrayAttr>("candidates");
  auto choice = conflict.getAs<IntegerAttr>("choice");
  if (!candidates || !choice || !choice.getType().isSignlessInteger(64) ||
      !conflict.getAs<StringAttr>("by"))
    return false;
  int64_t number = choice.getInt();
  return number >= 0 && number < static_cast<int64_t>(candidates.size()) &&
         llvm::all_of(
             candidates,
             [](Attribute value) {
               auto candidate = dyn_cast<DictionaryAttr>(value);
               Attribute seconds =
                   candidate ? candidate.get("seconds") : nullptr;
               return candidate && candidate.getAs<StringAttr>("what") &&
                      (!seconds || isa<FloatAttr>(seconds));
             });
}

/// What passes note beside shardings; nothing where the attribute is not
/// theirs.
static std::optional<LogicalResult> verifyNote(Operation *op,
                                               NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (name == kOriginsAttr || name == kArgumentOriginsAttr) {
    if (isa<DenseI32ArrayAttr>(value))
      return success();
    return op->emitOpError() << name << " must be an array of i32";
  }
  if (name == kBecauseAttr) {
    auto isTexts = [](Attribute value) {
      auto texts = dyn_cast<DictionaryAttr>(value);
      return texts && llvm::all_of(texts, [](NamedAttribute text) {
               return isa<StringAttr>(text.getValue());
             });
    };
    auto list = dyn_cast<ArrayAttr>(value);
    if (isTexts(value) || (list && llvm::all_of(list, isTexts)))
      return success();
    return op->emitOpError()
           << name
           << " must be a dictionary of strings, one for an axis, or "
              "for a loop one such for each argument of its body";
  }
  if (name == kAnnotationsAttr) {
    auto list = dyn_cast<ArrayAttr>(value);
    if (list && llvm::all_of(list, llvm::IsaPred<StringAttr>))
      return success();
    return op->emitOpError()
           << name << " must be an array of strings, each an annotation";
  }
  if (name == kConflictsAttr) {
    auto list = dyn_cast<ArrayAttr>(value);
    if (list && llvm::all_of(list, isConflict))
      return success();
    return op->emitOpError()
           << name
           << " must be an array of conflicts, each a dictionary of "
              "`candidates` (dictionaries of `what`, a string, and "
              "`seconds`, a float or absent), `choice` (the i64 number "
              "of one of them) and `by` (a string)";
  }
  return std::nullopt;
}

/// Nothing that a user wrote is passed over: an attribute of the dialect that
/// means nothing where it stands.
static LogicalResult refuseAttribute(Operation *op, StringRef name,
                                     ArrayRef<StringRef> expected) {
  InFlightDiagnostic error = op->emitOpError("unknown attribute ")
                             << StringAttr::get(op->getContext(), name)
                             << ", expected ";
  llvm::interleaveComma(expected, error);
  if (std::optional<StringRef> near = sheaf::nearest(name, expected))
    error << "; did you mean " << *near << "?";
  return error;
}

/// On an argument or a result of a function.
static LogicalResult refuseSlotAttribute(Operation *op, StringRef name) {
  return refuseAttribute(op, name, {StringRef(kShardingAttr)});
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned argument,
                                                    NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (function && attribute.getName() == kGlobalShapeAttr)
    return verifyGlobalShape(op, attribute.getValue(),
                             function.getArgumentTypes()[argument],
                             "argument " + Twine(argument));
  if (std::optional<LogicalResult> note = verifyNote(op, attribute);
      function && note)
    return *note;
  if (!function || attribute.getName() != kShardingAttr)
    return refuseSlotAttribute(op, attribute.getName());
  return verifySlot(op, attribute.getValue(),
                    function.getArgumentTypes()[argument],
                    "argument " + Twine(argument));
}

LogicalResult DistDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned result, NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (function && attribute.getName() == kGlobalShapeAttr)
    return verifyGlobalShape(op, attribute.getValue(),
                             function.getResultTypes()[result],
                             "result " + Twine(result));
  if (std::optional<LogicalResult> note = verifyNote(op, attribute);
      function && note)
    return *note;
  if (!function || attribute.getName() != kShardingAttr)
    return refuseSlotAttribute(op, attribute.getName());
  return verifySlot(op, attribute.getValue(), function.getResultTypes()[result],
                    "result " + Twine(result));
}

LogicalResult DistDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kReasonAttr) {
    if (!isa<DictionaryAttr>(attribute.getValue()))
      return op->emitOpError() << name << " must be a dictionary";
    return success();
  }
  if (std::optional<LogicalResult> note = verifyNote(op, attribute))
    return *note;
  // What passes say of functions and slices that they made.
  if (name == "dist.copy_of" || name == "dist.any_padding")
    return success();
  if (isa<FunctionOpInterface>(op))
    return op->emitOpError("has ") << name << ", expected " << kShardingAttr
                                   << " on its arguments and results";
  if (name != kShardingsAttr && name != kArgumentShardingsAttr)
    return refuseAttribute(
        op, name,
        {StringRef(kShardingsAttr), StringRef(kArgumentShardingsAttr)});
  if (failed(verifyNotManual(op, "has " + name + " and stands")))
    return failure();
  TypeRange types = op->getResultTypes();
  SmallVector<Type> arguments;
  bool isArguments = name == kArgumentShardingsAttr;
  if (isArguments) {
    if (op->getNumRegions() != 1 || op->getRegion(0).empty())
      return op->emitOpError() << name << " belongs on an op with a body";
    llvm::append_range(arguments, op->getRegion(0).getArgumentTypes());
    types = arguments;
  }
  auto list = dyn_cast<ArrayAttr>(attribute.getValue());
  if (!list || list.size() != types.size())
    return op->emitOpError()
           << name << " must be an array of " << types.size() << " shardings";
  for (auto [i, value] : llvm::enumerate(list))
    if (failed(verifySlot(op, value, types[i],
                          (isArguments ? "argument " : "result ") + Twine(i))))
      return failure();
  return success();
}

LogicalResult ConstraintOp::verify() {
  if (failed(verifyNotManual(*this, "is on whole tensors and stands")))
    return failure();
  FailureOr<MeshOp> mesh = requireMesh(*this);
  if (failed(mesh))
    return failure();
  if (!getSharding().getPartial().empty())
    return emitOpError(
        "asks for a partial value; a constraint is on a whole one");
  return verifySharding(getSharding(), getType(), *mesh,
                        [&] { return emitOpError(); });
}

int64_t sheaf::dist::getOrderedSize(int64_t size, DimAttr dim) {
  int64_t chunks = -dim.getBlocks();
  return chunks <= 0 || dim.getAxes().empty()
             ? size
             : chunks * ((size + chunks - 1) / chunks);
}

/// The part of a tensor that a device holds.
static RankedTensorType partOf(RankedTensorType type, ShardingAttr sharding,
                               MeshOp mesh) {
  SmallVector<int64_t> shape;
  for (auto [size, dim] :
       llvm::zip_equal(type.getShape(), sharding.getDims())) {
    int64_t devices = mesh.getSize(dim.getAxes()),
            blocks = std::max<int64_t>(dim.getBlocks(), 1),
            block = getOrderedSize(size, dim) / blocks;
    shape.push_back(blocks * ((block + devices - 1) / devices));
  }
  return RankedTensorType::get(shape, type.getElementType());
}

LogicalResult ManualOp::verify() {
  if (failed(verifyNotManual(*this, "is on whole tensors and stands")))
    return failure();
  FailureOr<MeshOp> mesh = requireMesh(*this);
  if (failed(mesh))
    return failure();
  auto check = [&](StringRef what, TypeRange types,
                   ArrayAttr shardings) -> LogicalResult {
    if (shardings.size() != types.size())
      return emitOpError("has ")
             << types.size() << " " << what << "s and " << shardings.size()
             << " shardings for them, expected one for each";
    for (auto [i, type, sharding] :
         llvm::enumerate(types, shardings.getAsRange<ShardingAttr>())) {
      auto complain = [&, i = i] {
        return emitOpError() << what << " " << i << " ";
      };
      if (failed(verifySharding(sharding, type, *mesh, complain)))
        return failure();
      if (!sharding.getPartial().empty())
        return complain() << "has a sharding that is partial, expected one "
                             "that is not; reduce "
                             "it in the body, for instance by dist.all_reduce";
    }
    return success();
  };
  return failure(
      failed(check("input", getInputs().getTypes(), getInShardings())) ||
      failed(check("result", getResultTypes(), getOutShardings())));
}

LogicalResult ManualOp::verifyRegions() {
  MeshOp mesh = getMesh(*this);
  Block &block = getBody().front();
  auto check = [&](StringRef what, TypeRange parts, TypeRange types,
                   ArrayAttr shardings) -> LogicalResult {
    if (parts.size() != types.size())
      return emitOpError("has a body with ")
             << parts.size() << " " << what << "s, expected " << types.size();
    for (auto [i, part, type, sharding] :
         llvm::enumerate(parts, types, shardings.getAsRange<ShardingAttr>())) {
      RankedTensorType expected =
          partOf(cast<RankedTensorType>(type), sharding, mesh);
      if (part != expected)
        return emitOpError("has a body whose ")
               << what << " " << i << " is " << part
               << ", expected a device's part of " << type << ", " << expected
               << (getPartial(part)
                       ? "; reduce it first, for instance by dist.all_reduce"
                       : "");
    }
    return success();
  };
  return failure(
      failed(check("argument", block.getArgumentTypes(), getInputs().getTypes(),
                   getInShardings())) ||
      failed(check("yielded value", block.getTerminator()->getOperandTypes(),
                   getResultTypes(), getOutShardings())));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

namespace {
/// What the checks of one op on local tensors have in common.
struct LocalCheck {
  Operation *op;
  MeshOp mesh;
  RankedTensorType from, to;
  SmallVector<AxisAttr> list;
  int64_t group = 1;

  LocalCheck(Operation *op) : op(op) {
    from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
    to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  }

  LogicalResult init(ArrayAttr axes) {
    FailureOr<MeshOp> found = requireMesh(op);
    if (failed(found))
      return failure();
    mesh = *found;
    llvm::append_range(list, axes.getAsRange<AxisAttr>());
    if (list.empty())
      return op->emitOpError("has no axes");
    if (failed(verifyAxes(list, mesh, [&] { return op->emitOpError(); })))
      return failure();
    group = mesh.getSize(list);
    for (RankedTensorType type : {from, to})
      if (PartialAttr partial = getPartial(type))
        if (failed(verifyAxes(partial.getAxes(), mesh, [&] {
              return op->emitOpError("has a value of type ")
                     << type << ", which ";
            })))
          return failure();
    if (from.getElementType() != to.getElementType())
      return op->emitOpError("changes the element type from ")
             << from.getElementType() << " to " << to.getElementType();
    if (from.getRank() != to.getRank())
      return op->emitOpError("changes the rank from ")
             << from.getRank() << " to " << to.getRank();
    return success();
  }

  LogicalResult dim(int64_t dim, StringRef name = "dim") {
    if (dim < 0 || dim >= from.getRank())
      return op->emitOpError(name)
             << " is " << dim << ", but " << from << " has " << from.getRank()
             << " dimensions";
    return success();
  }
  /// Dimension `dim` is cut in `group` parts of ceil(n / group).
  LogicalResult parts(int64_t dim, RankedTensorType whole,
                      RankedTensorType part) {
    int64_t expected = (whole.getDimSize(dim) + group - 1) / group;
    if (part.getDimSize(dim) != expected)
      return op->emitOpError("has ")
             << group << " devices in a group and size "
             << whole.getDimSize(dim) << " in dimension " << dim << " of "
             << whole << ", so a part has size " << expected << ", but " << part
             << " has " << part.getDimSize(dim);
    return success();
  }
  LogicalResult others(ArrayRef<int64_t> dims) {
    for (int64_t i = 0; i < from.getRank(); ++i)
      if (!llvm::is_contained(dims, i) &&
          from.getDimSize(i) != to.getDimSize(i))
        return op->emitOpError("changes dimension ")
               << i << " from " << from.getDimSize(i) << " to "
               << to.getDimSize(i);
    return success();
  }
  /// Both are partial alike, and not over the axes of the group: the devices
  /// along those have summands of the same elements.
  LogicalResult samePartial() {
    if (from.getEncoding() != to.getEncoding())
      return op->emitOpError("changes the encoding from ")
             << from << " to " << to;
    if (PartialAttr partial = getPartial(from))
      for (AxisAttr axis : partial.getAxes())
        for (AxisAttr moved : list)
          if (overlap(axis, moved, mesh))
            return op->emitOpError("moves parts along ")
                   << axisText(moved) << ", over which " << from
                   << " is partial; reduce it first, for instance by "
                      "dist.all_reduce";
    return success();
  }
  /// `more` is partial over the axes, `less` is not; else they are alike.
  LogicalResult partialBy(ArrayAttr axes, Reduction kind, RankedTensorType more,
                          RankedTensorType less) {
    SmallVector<AxisAttr> have, left;
    PartialAttr partial = getPartial(more), rest = getPartial(less);
    if (partial)
      llvm::append_range(have, partial.getAxes());
    if (rest)
      llvm::append_range(left, rest.getAxes());
    // Axes and their sub-axes may be written in several ways: compare the
    // pieces that all of them have in common.
    SmallVector<AxisAttr> all(have);
    llvm::append_range(all, left);
    llvm::append_range(all, axes.getAsRange<AxisAttr>());
    auto pieces = [&](ArrayRef<AxisAttr> list) {
      std::set<std::pair<StringRef, int64_t>> result;
      for (AxisAttr axis : list) {
        int64_t begin = axis.getOuter(), end = begin * mesh.getSize(axis);
        result.insert({axis.getName().getValue(), begin});
        for (AxisAttr other : all)
          if (other.getName() == axis.getName())
            for (int64_t cut :
                 {other.getOuter(), other.getOuter() * mesh.getSize(other)})
              if (cut > begin && cut < end)
                result.insert({axis.getName().getValue(), cut});
      }
      return result;
    };
    auto before = pieces(have);
    for (AxisAttr axis : axes.getAsRange<AxisAttr>())
      for (auto &piece : pieces(axis)) {
        if (!before.count(piece))
          return op->emitOpError() << "needs " << more << " to be partial over "
                                   << axisText(axis);
        before.erase(piece);
      }
    for (RankedTensorType type : {more, less})
      if (PartialAttr other = getPartial(type);
          other && other.getKind() != kind)
        return op->emitOpError("is a ")
               << stringifyReduction(kind) << ", but " << type
               << " is partial by " << stringifyReduction(other.getKind())
               << ", expected one kind; reduce by that kind first";
    if (pieces(left) != before)
      return op->emitOpError("leaves the value partial over other axes than ")
             << less << " says";
    return success();
  }
};
} // namespace

LogicalResult AllGatherOp::verify() {
  LocalCheck check(*this);
  return failure(failed(check.init(getAxes())) || failed(check.dim(getDim())) ||
                 failed(check.parts(getDim(), check.to, check.from)) ||
                 failed(check.others({static_cast<int64_t>(getDim())})) ||
                 failed(check.samePartial()));
}

LogicalResult ReduceScatterOp::verify() {
  LocalCheck check(*this);
  return failure(
      failed(check.init(getAxes())) || failed(check.dim(getDim())) ||
      failed(check.parts(getDim(), check.from, check.to)) ||
      failed(check.others({static_cast<int64_t>(getDim())})) ||
      failed(check.partialBy(getAxes(), getKind(), check.from, check.to)));
}

LogicalResult AllReduceOp::verify() {
  LocalCheck check(*this);
  return failure(
      failed(check.init(getAxes())) || failed(check.others({})) ||
      failed(check.partialBy(getAxes(), getKind(), check.from, check.to)));
}

LogicalResult AllToAllOp::verify() {
  LocalCheck check(*this);
  int64_t split = getSplit(), concat = getConcat();
  if (failed(check.init(getAxes())) || failed(check.dim(split, "split")) ||
      failed(check.dim(concat, "concat")))
    return failure();
  if (split == concat)
    return emitOpError("splits and concatenates dimension ")
           << split << ", expected two dimensions";
  return failure(failed(check.parts(split, check.from, check.to)) ||
                 failed(check.parts(concat, check.to, check.from)) ||
                 failed(check.others({split, concat})) ||
                 failed(check.samePartial()));
}

LogicalResult ExchangeRowsOp::verify() {
  LocalCheck check(*this);
  int64_t split = getSplit(), concat = getConcat();
  if (failed(check.init(getAxes())))
    return failure();
  if (check.from.getRank() < 4 || check.to.getRank() != check.from.getRank())
    return emitOpError("moves ")
           << check.from << " to " << check.to
           << ", expected parts and samples of rows, four dimensions or more";
  int64_t most = check.from.getRank() - 3;
  if (split == concat || split < 0 || split > most || concat < 0 ||
      concat > most)
    return emitOpError("splits dimension ")
           << split << " and concatenates " << concat
           << ", expected two of those in front of the rows, 0 to " << most;
  if (failed(check.others({split, concat})) || failed(check.samePartial()))
    return failure();
  if (check.from.getDimSize(split) !=
          check.to.getDimSize(split) * check.group ||
      check.to.getDimSize(concat) !=
          check.from.getDimSize(concat) * check.group)
    return emitOpError("moves ")
           << check.from << " to " << check.to << " in a group of "
           << check.group << ", expected blocks that divide";
  for (auto [counts, rows] :
       {std::pair(getSent(), check.from), std::pair(getReceived(), check.to)}) {
    auto expected = RankedTensorType::get(rows.getShape().drop_back(2),
                                          IntegerType::get(getContext(), 32));
    if (counts.getType() != expected)
      return emitOpError("counts the rows of ")
             << rows << " by " << counts.getType() << ", expected " << expected;
  }
  return success();
}

SmallVector<AxisAttr> PermuteOp::getGroupAxes() {
  // The two sides may cut an axis in different ways. What they use of it, as
  // ranges of strides from outside, is put together: no place twice.
  struct Range {
    StringAttr name;
    int64_t begin, end;
  };
  MeshOp mesh = getMesh(*this);
  SmallVector<Range> ranges;
  SmallVector<StringAttr> names;
  for (auto [from, to] :
       llvm::zip_equal(getFrom().getDims(), getTo().getDims()))
    if (from != to)
      for (DimAttr dim : {from, to})
        for (AxisAttr axis : dim.getAxes()) {
          Range range{axis.getName(), axis.getOuter(),
                      axis.getOuter() * mesh.getSize(axis)};
          // Those that overlap or touch become one.
          for (size_t i = 0; i < ranges.size();) {
            Range other = ranges[i];
            if (other.name != range.name || other.begin > range.end ||
                range.begin > other.end) {
              ++i;
              continue;
            }
            range.begin = std::gcd(range.begin, other.begin);
            range.end = std::lcm(range.end, other.end);
            ranges.erase(ranges.begin() + i);
            i = 0;
          }
          ranges.push_back(range);
          if (!llvm::is_contained(names, axis.getName()))
            names.push_back(axis.getName());
        }
  // Axes as they come first, the parts of one from outside.
  llvm::sort(ranges, [&](const Range &a, const Range &b) {
    return std::pair(llvm::find(names, a.name), a.begin) <
           std::pair(llvm::find(names, b.name), b.begin);
  });
  SmallVector<AxisAttr> axes;
  for (const Range &range : ranges) {
    int64_t size = range.end / range.begin;
    bool whole = mesh.lookup(range.name).getSize() == size;
    axes.push_back(AxisAttr::get(getContext(), range.name,
                                 whole ? 1 : range.begin, whole ? 0 : size));
  }
  return axes;
}

LogicalResult PermuteOp::verify() {
  FailureOr<MeshOp> mesh = requireMesh(*this);
  if (failed(mesh))
    return failure();
  if (getInput().getType() != getType())
    return emitOpError("changes the type from ")
           << getInput().getType() << " to " << getType();
  for (ShardingAttr sharding : {getFrom(), getTo()}) {
    if (failed(verifySharding(sharding, getType(), *mesh,
                              [&] { return emitOpError(); })))
      return failure();
    if (!sharding.getPartial().empty())
      return emitOpError("has a sharding that is partial, expected one that "
                         "is not; that a value is partial stands in its type");
  }
  for (auto [i, from, to] :
       llvm::enumerate(getFrom().getDims(), getTo().getDims()))
    if (mesh->getSize(from.getAxes()) != mesh->getSize(to.getAxes()))
      return emitOpError("has dimension ")
             << i << " in " << mesh->getSize(from.getAxes())
             << " parts before and " << mesh->getSize(to.getAxes())
             << " after, expected as many";
    else if (from.getBlocks() != to.getBlocks() &&
             mesh->getSize(from.getAxes()) > 1)
      return emitOpError("has dimension ")
             << i << " in " << from.getBlocks() << " blocks before and "
             << to.getBlocks()
             << " after, expected as many: whole shards change hands, none is "
                "cut anew; gather the dimension, and cut it by dist.slice";
  return success();
}

LogicalResult ShiftOp::verify() {
  LocalCheck check(*this);
  if (failed(check.init(getAxes())) || failed(check.others({})) ||
      failed(check.samePartial()))
    return failure();
  int64_t by = getBy();
  if (by < 1 || by >= check.group)
    return emitOpError("shifts by ")
           << by << " around a ring of " << check.group
           << (check.group == 1
                   ? ", which moves nothing; leave it out"
                   : ", expected 1 to " + std::to_string(check.group - 1));
  return success();
}

LogicalResult BroadcastOp::verify() {
  LocalCheck check(*this);
  if (failed(check.init(getAxes())) || failed(check.others({})) ||
      failed(check.samePartial()))
    return failure();
  if (getRoot() < 0 || getRoot() >= check.group)
    return emitOpError("comes from device ")
           << getRoot() << " of a group of " << check.group
           << ", expected 0 to " << check.group - 1;
  return success();
}

LogicalResult SliceOp::verify() {
  LocalCheck check(*this);
  return failure(failed(check.init(getAxes())) || failed(check.dim(getDim())) ||
                 failed(check.parts(getDim(), check.from, check.to)) ||
                 failed(check.others({static_cast<int64_t>(getDim())})) ||
                 failed(check.samePartial()));
}

LogicalResult MakePartialOp::verify() {
  LocalCheck check(*this);
  return failure(
      failed(check.init(getAxes())) || failed(check.others({})) ||
      failed(check.partialBy(getAxes(), getKind(), check.to, check.from)));
}

LogicalResult LocalOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  PartialAttr before = getPartial(from), after = getPartial(to);
  auto plain = [](RankedTensorType type) {
    return RankedTensorType::get(type.getShape(), type.getElementType());
  };
  if (plain(from) != plain(to))
    return emitOpError("makes ")
           << to << " of " << from << ", expected the same shape and elements";
  PartialAttr partial = before ? before : after;
  if (!partial || (before && after))
    return emitOpError("makes ")
           << to << " of " << from
           << ", expected that one of them is partial, and the other is not";
  if (partial.getKind() != Reduction::Sum)
    return emitOpError("has a value that is partial by ")
           << stringifyReduction(partial.getKind()) << ", expected sum";
  FailureOr<MeshOp> mesh = requireMesh(*this);
  if (failed(mesh))
    return failure();
  return verifyAxes(partial.getAxes(), *mesh, [&] { return emitOpError(); });
}

LogicalResult AxisIndexOp::verify() {
  FailureOr<MeshOp> mesh = requireMesh(*this);
  if (failed(mesh))
    return failure();
  RankedTensorType type = getType();
  if (type.getRank() != 0 || !type.getElementType().isSignlessInteger(32))
    return emitOpError("gives ") << type << ", expected tensor<i32>";
  return verifyAxes(llvm::to_vector(getAxes().getAsRange<AxisAttr>()), *mesh,
                    [&] { return emitOpError(); });
}

#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.cpp.inc"
