//===- Strategy.cpp - A strategy as a table -----------------------------===//

#include "passes/sharding/Strategy.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Origins.h"
#include "support/Nearest.h"
#include "support/Shown.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

/// Axes of the mesh that a table may name whether the mesh has them or not.
static constexpr llvm::StringLiteral kMeshAxes[] = {"pp", "dp", "cp", "tp",
                                                    "ep"};
static constexpr llvm::StringLiteral kLogicalAxes[] = {
    "batch",    "seq", "embed", "heads", "kv_heads",
    "head_dim", "mlp", "vocab", "expert"};
static constexpr llvm::StringLiteral kBatchAxes[] = {"batch", "seq"};
static constexpr std::pair<llvm::StringLiteral, StrategyRow::What> kWords[] = {
    {"parameter", StrategyRow::Parameter}, {"batch", StrategyRow::Batch},
    {"value", StrategyRow::Value},         {"state", StrategyRow::State},
    {"gradient", StrategyRow::Gradient},   {"weight", StrategyRow::Weight}};

std::string StrategyRow::describe() const {
  std::string place = placeOf(loc);
  return "strategy: " + text + (place.empty() ? "" : " at " + place);
}

/// The innermost `size` devices of an axis of `devices`.
static std::string innerPart(StringRef axis, int64_t devices, int64_t size) {
  if (size == devices)
    return axis.str();
  return (axis + ":(" + Twine(devices / size) + ")" + Twine(size)).str();
}

std::string sharding::builtinStrategy(int zero, int64_t zeroGroup,
                                      bool sequenceParallel, int64_t data,
                                      int64_t context, int64_t expertParallel,
                                      bool zigzag) {
  std::string table = "parameter heads -> tp\n"
                      "parameter kv_heads -> tp shared\n"
                      "parameter mlp -> tp\n"
                      "parameter vocab -> tp\n"
                      "batch batch -> dp\n";
  std::string order = zigzag && context > 1 ? " zigzag" : "";
  if (context > 1)
    table += "batch seq -> cp" + order + "\n";
  if (expertParallel > 1) {
    // The devices of cp have the same rows: they take theirs first, so that
    // those of dp send only these.
    std::string axes;
    if (context > 1)
      axes = innerPart("cp", context, std::min(expertParallel, context));
    if (expertParallel > context)
      axes += (axes.empty() ? "" : ", ") +
              innerPart("dp", data, expertParallel / context);
    table += "parameter expert -> " + axes + "\n";
  }
  if (sequenceParallel)
    table += "value seq of batch, embed -> " +
             std::string(context > 1 ? "cp, " : "") + "tp" + order +
             " priority 1\n";
  if (zeroGroup == 1)
    return table;
  if (zeroGroup == 0)
    zeroGroup = data * context;
  std::string axes;
  if (zeroGroup > context || context == 1)
    axes = innerPart("dp", data, zeroGroup / context);
  if (context > 1)
    axes += (axes.empty() ? "" : ", ") +
            innerPart("cp", context, std::min(zeroGroup, context));
  static constexpr llvm::StringLiteral stages[] = {"state", "gradient",
                                                   "weight"};
  for (int stage = 0; stage < zero; ++stage)
    table += stages[stage].str() + " largest -> " + axes + "\n";
  return table;
}

LogicalResult sharding::declareMesh(ModuleOp module, ArrayRef<std::string> axes,
                                    StringRef pass) {
  if (dist::MeshOp present = dist::getMesh(module)) {
    present.emitError("the module has a mesh already; leave out the option "
                      "'mesh' of ")
        << pass;
    return failure();
  }
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> list;
  for (StringRef text : axes) {
    auto [name, number] = text.split('=');
    int64_t size;
    if (name.empty() || number.getAsInteger(10, size) || size < 1) {
      module.emitError() << pass << ": mesh has '" << text
                         << "', expected AXIS=N with N at least 1, as in dp=4";
      return failure();
    }
    list.push_back(dist::MeshAxisAttr::get(context,
                                           StringAttr::get(context, name), size,
                                           "memory", nullptr, nullptr));
  }
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  dist::MeshOp op = dist::MeshOp::create(builder, module.getLoc(), "mesh",
                                         builder.getArrayAttr(list), nullptr);
  return op.verify();
}

SmallVector<int64_t> sharding::zeroGroups(int64_t data, int64_t context) {
  SmallVector<int64_t> sizes;
  for (int64_t size = 1; size <= context; ++size)
    if (context % size == 0)
      sizes.push_back(size);
  for (int64_t size = 2; size <= data; ++size)
    if (data % size == 0)
      sizes.push_back(size * context);
  return sizes;
}

namespace {
class Reader {
public:
  Reader(StringRef file, ModuleOp module, dist::MeshOp mesh)
      : file(file), module(module), mesh(mesh) {
    llvm::append_range(logicalAxes, kLogicalAxes);
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (auto param =
                function.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr))
          for (auto axis : param.getAxes())
            if (axis != "_" &&
                !llvm::is_contained(logicalAxes, axis.getValue()))
              logicalAxes.push_back(axis.getValue());
    for (auto axis : mesh.getAxes().getAsRange<dist::MeshAxisAttr>())
      meshAxes.push_back(axis.getName().getValue());
    onMesh = meshAxes.size();
    for (StringRef axis : kMeshAxes)
      if (!llvm::is_contained(meshAxes, axis))
        meshAxes.push_back(axis);
  }

  FailureOr<StrategyTable> read(StringRef text) {
    StrategyTable table;
    for (line = 1; !text.empty(); ++line) {
      std::tie(row, text) = text.split('\n');
      rest = row.take_until([](char c) { return c == '#'; }).rtrim();
      if (rest.trim().empty())
        continue;
      std::string written = rest.trim().str();
      StrategyRow next{StrategyRow::Parameter, {},     {}, {}, false, 0,
                       here(rest.ltrim()),     written};
      if (failed(readRow(next)))
        return failure();
      for (const StrategyRow &other : table)
        if (other.what == next.what && other.axis == next.axis &&
            other.of == next.of) {
          InFlightDiagnostic error =
              emitError(next.loc) << "'" << shown(written) << "' gives what '"
                                  << shown(other.text) << "' gave already";
          error.attachNote(other.loc) << "leave one of the two out";
          return failure();
        }
      table.push_back(std::move(next));
    }
    if (table.empty()) {
      emitError(at(1, 1))
          << "has no rows, expected for instance 'parameter mlp -> tp'";
      return failure();
    }
    return check(table);
  }

private:
  StringRef file, row, rest;
  unsigned line = 1;
  ModuleOp module;
  dist::MeshOp mesh;
  SmallVector<StringRef> logicalAxes, meshAxes;
  size_t onMesh = 0;

  Location at(unsigned number, unsigned column) {
    if (file.empty())
      return UnknownLoc::get(module.getContext());
    // Diagnostics show the row that a column is of, whatever its length.
    constexpr size_t most = 200;
    return FileLineColLoc::get(module.getContext(), file, number,
                               row.size() > most ? 0 : column);
  }
  Location here(StringRef token) {
    return at(line, token.data() - row.data() + 1);
  }

  /// The next word: letters, or one of `->`, `,`.
  StringRef word() {
    rest = rest.ltrim();
    size_t size = rest.starts_with("->") ? 2
                  : rest.starts_with(",")
                      ? 1
                      : std::min(rest.find_first_of(" \t,"), rest.size());
    StringRef token = rest.take_front(size);
    rest = rest.drop_front(size);
    return token;
  }

  LogicalResult expected(StringRef found, const Twine &what,
                         ArrayRef<StringRef> candidates = {}) {
    InFlightDiagnostic error = emitError(here(found));
    if (found.empty())
      error << "the row ends";
    else
      error << "found '" << shown(found) << "'";
    error << ", expected " << what;
    if (std::optional<StringRef> near = nearest(found, candidates);
        near && !found.empty())
      error << "; did you mean '" << *near << "'?";
    return failure();
  }

  static std::string listOf(ArrayRef<StringRef> words) {
    std::string text;
    for (auto [i, word] : llvm::enumerate(words))
      text += (i == 0                  ? ""
               : i + 1 == words.size() ? " or "
                                       : ", ") +
              word.str();
    return text;
  }

  LogicalResult readAxis(std::string &axis, ArrayRef<StringRef> known) {
    StringRef token = word();
    if (!llvm::is_contained(known, token))
      return expected(token, "a logical axis: " + listOf(known), known);
    axis = token.str();
    return success();
  }

  /// An axis as a row names it, with devices outside of it and its own; 0 for
  /// all that are there.
  struct NamedAxis {
    StringRef token, name;
    int64_t outer = 1, size = 0;
    bool overlaps(const NamedAxis &other) const {
      auto isBelow = [](int64_t outer, const NamedAxis &axis) {
        return axis.size == 0 || outer < axis.outer * axis.size;
      };
      return name == other.name && isBelow(outer, other) &&
             isBelow(other.outer, *this);
    }
  };

  LogicalResult readMeshAxis(StrategyRow &next,
                             SmallVectorImpl<NamedAxis> &before) {
    StringRef token = word();
    auto [name, part] = token.split(':');
    if (!llvm::is_contained(meshAxes, name))
      return expected(name, "an axis of the mesh: " + listOf(meshAxes),
                      meshAxes);
    int64_t outer = 1, size = 0;
    if (name.size() != token.size()) {
      StringRef outerText, sizeText;
      std::tie(outerText, sizeText) = part.split(')');
      if (!outerText.consume_front("(") || outerText.getAsInteger(10, outer) ||
          sizeText.getAsInteger(10, size) || outer < 1 || size < 1)
        return expected(
            token,
            "an axis, or a part of one with the devices outside of it and its "
            "own, as in dp:(2)4");
    }
    NamedAxis named{token, name, outer, size};
    for (const NamedAxis &other : before)
      if (named.overlaps(other))
        return emitError(here(token))
               << "'" << shown(token) << "' has devices of " << name
               << " that '" << shown(other.token)
               << "' before it has; expected each once in a row, leave one of "
                  "the two out";
    before.push_back(named);
    size_t number = llvm::find(meshAxes, name) - meshAxes.begin();
    if (number >= onMesh)
      return success();
    int64_t devices = mesh.lookup(name).getSize();
    if (size != 0 && (outer > devices / size || devices % (outer * size) != 0))
      return emitError(here(token))
             << "'" << shown(token) << "' is a part of " << name << ", whose "
             << devices << " devices are not a multiple of " << outer << " * "
             << size;
    if (outer == 1 && size == devices)
      size = 0;
    if (devices > 1 && size != 1)
      next.meshAxes.push_back(dist::AxisAttr::get(
          module.getContext(), StringAttr::get(module.getContext(), name),
          outer, size));
    return success();
  }

  LogicalResult readRow(StrategyRow &next) {
    StringRef what = word();
    SmallVector<StringRef> words;
    bool found = false;
    for (auto [name, kind] : kWords) {
      words.push_back(name);
      if (what == name)
        next.what = kind, found = true;
    }
    if (!found)
      return expected(what, listOf(words), words);
    if (next.what >= StrategyRow::State) {
      StringRef token = word();
      if (token != "largest")
        return expected(token, "'largest'", {StringRef("largest")});
    } else if (failed(readAxis(next.axis, next.what == StrategyRow::Batch
                                              ? SmallVector<StringRef>(
                                                    std::begin(kBatchAxes),
                                                    std::end(kBatchAxes))
                                              : logicalAxes))) {
      return failure();
    }
    StringRef token = word();
    if (next.what == StrategyRow::Value && token == "of")
      do {
        if (failed(readAxis(next.of.emplace_back(), logicalAxes)))
          return failure();
        token = word();
      } while (token == ",");
    if (token != "->")
      return expected(token,
                      next.what == StrategyRow::Value && next.of.empty()
                          ? "'of' and the other axes of the values, or '->'"
                          : "'->'");
    SmallVector<NamedAxis> named;
    do {
      if (failed(readMeshAxis(next, named)))
        return failure();
      token = word();
    } while (token == ",");
    bool mayOrder =
        next.what == StrategyRow::Value || next.what == StrategyRow::Batch;
    if (mayOrder && next.axis == "seq" && token == "zigzag") {
      next.zigzag = true;
      token = word();
    }
    if (next.what == StrategyRow::Parameter && token == "shared") {
      next.shared = true;
      token = word();
    } else if (next.what == StrategyRow::Value && token == "priority") {
      token = word();
      if (token.getAsInteger(10, next.priority) || next.priority < 0)
        return expected(token, "a priority: 0, the strongest, or more");
      token = word();
    }
    if (!token.empty())
      return expected(token, "the end of the row");
    return success();
  }

  /// The rows for the largest dimension belong together.
  FailureOr<StrategyTable> check(StrategyTable &table) {
    const StrategyRow *rows[3] = {};
    for (const StrategyRow &row : table)
      if (row.what >= StrategyRow::State)
        rows[row.what - StrategyRow::State] = &row;
    for (int i = 1; i < 3; ++i)
      if (rows[i] &&
          (!rows[i - 1] || rows[i - 1]->meshAxes != rows[i]->meshAxes)) {
        emitError(rows[i]->loc)
            << "'" << shown(rows[i]->text) << "' needs '" << kWords[i + 2].first
            << " largest' over the same axes, expected that row, too";
        return failure();
      }
    return std::move(table);
  }
};
} // namespace

FailureOr<StrategyTable> sharding::parseStrategy(StringRef text, StringRef file,
                                                 ModuleOp module,
                                                 dist::MeshOp mesh) {
  return Reader(file, module, mesh).read(text);
}
