//===- Origins.cpp - Where each axis of each value came from --------------===//

#include "passes/sharding/Origins.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "support/Nearest.h"
#include "support/SignatureAttrs.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

static std::string text(FileLineColLoc loc) {
  return (loc.getFilename().getValue() + ":" + Twine(loc.getLine()) + ":" +
          Twine(loc.getColumn()))
      .str();
}

std::string sharding::placeOf(Location loc) {
  auto place = loc->findInstanceOf<FileLineColLoc>();
  return place ? text(place) : "";
}

static std::string withPlace(const Twine &what, Location loc) {
  std::string place = placeOf(loc);
  return place.empty() ? what.str() : (what + " at " + place).str();
}

std::string Site::describe(StringRef axis) const {
  auto function = dyn_cast<func::FuncOp>(op);
  Attribute because =
      kind == Argument ? function.getArgAttr(index, dist::kBecauseAttr)
      : kind == Result ? function.getResultAttr(index, dist::kBecauseAttr)
                       : op->getAttr(dist::kBecauseAttr);
  if (auto list = dyn_cast_or_null<ArrayAttr>(because))
    because = index < list.size() ? list[index] : nullptr;
  if (auto texts = dyn_cast_or_null<DictionaryAttr>(because))
    // The mesh may have been cut in other parts when that was written.
    for (NamedAttribute text : texts)
      if (text.getName() == axis ||
          text.getName().getValue().split(':').first == axis.split(':').first)
        return cast<StringAttr>(text.getValue()).str();
  switch (kind) {
  case Argument:
    return withPlace("the sharding of argument " + Twine(index) + " of @" +
                         function.getName(),
                     function.getArgument(index).getLoc());
  case Result:
    return withPlace("the sharding of result " + Twine(index) + " of @" +
                         function.getName(),
                     op->getLoc());
  case Op:
    break;
  }
  if (auto constraint = dyn_cast<dist::ConstraintOp>(op))
    return withPlace(constraint.getBecause().value_or("a constraint"),
                     op->getLoc());
  return withPlace("the sharding of " + op->getName().getStringRef(),
                   op->getLoc());
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

void Origins::write(ModuleOp module, const MeshInfo &mesh) {
  llvm::SetVector<Attribute> annotations;
  Builder builder(module.getContext());
  // Each value's axes lead to one of its neighbours', so most are known
  // already.
  llvm::DenseMap<std::pair<Value, int>, int> known;
  auto rootOf = [&](Value value, int axis) {
    SmallVector<std::pair<Value, int>> way;
    int root = -1;
    while (value) {
      auto it = known.find({value, axis});
      if (it != known.end()) {
        root = it->second;
        break;
      }
      const Step *step = stepOf(value, axis);
      if (!step)
        break;
      way.push_back({value, axis});
      if (!step->source) {
        Attribute wish =
            builder.getStringAttr(step->site.describe(mesh.nameOf(axis)));
        annotations.insert(wish);
        root = llvm::find(annotations, wish) - annotations.begin();
      }
      value = step->source;
    }
    for (auto &place : way)
      known[place] = root;
    return root;
  };
  auto add = [&](SmallVectorImpl<int32_t> &list, Value value,
                 Attribute sharding) {
    for (const DimSharding &dim :
         mesh.parse(cast<dist::ShardingAttr>(sharding)).dims)
      for (int axis : dim.axes)
        list.push_back(rootOf(value, axis));
  };
  auto set = [&](Operation *op, StringRef name, StringRef from,
                 ValueRange values) {
    auto shardings = op->getAttrOfType<ArrayAttr>(from);
    if (!shardings)
      return;
    SmallVector<int32_t> list;
    for (auto [value, sharding] : llvm::zip_equal(values, shardings))
      add(list, value, sharding);
    if (!list.empty())
      op->setAttr(name, builder.getDenseI32ArrayAttr(list));
  };
  module.walk([&](Operation *op) {
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      SignatureAttrs attrs(function);
      for (BlockArgument argument : function.getArguments()) {
        unsigned i = argument.getArgNumber();
        SmallVector<int32_t> list;
        if (Attribute sharding = attrs.getArgAttr(i, dist::kShardingAttr))
          add(list, argument, sharding);
        if (!list.empty())
          attrs.setArgAttr(i, dist::kOriginsAttr,
                           builder.getDenseI32ArrayAttr(list));
      }
      return;
    }
    if (auto constraint = dyn_cast<dist::ConstraintOp>(op)) {
      SmallVector<int32_t> list;
      add(list, constraint, constraint.getSharding());
      if (!list.empty())
        op->setAttr(dist::kOriginsAttr, builder.getDenseI32ArrayAttr(list));
      return;
    }
    set(op, dist::kOriginsAttr, dist::kShardingsAttr, op->getResults());
    if (op->getNumRegions() == 1 && op->getRegion(0).hasOneBlock())
      set(op, dist::kArgumentOriginsAttr, dist::kArgumentShardingsAttr,
          op->getRegion(0).getArguments());
  });
  if (!annotations.empty())
    module->setAttr(dist::kAnnotationsAttr,
                    builder.getArrayAttr(annotations.getArrayRef()));
}

Annotations::Annotations(ModuleOp module, const MeshInfo &mesh) {
  auto list = module->getAttrOfType<ArrayAttr>(dist::kAnnotationsAttr);
  if (!list)
    return;
  for (auto annotation : list.getAsRange<StringAttr>())
    texts.push_back(annotation.getValue());
  auto read = [&](ValueRange values, ArrayRef<Attribute> shardings,
                  Attribute origins) {
    auto numbers = dyn_cast_or_null<DenseI32ArrayAttr>(origins);
    if (!numbers)
      return;
    size_t i = 0;
    for (auto [value, sharding] : llvm::zip(values, shardings))
      for (const DimSharding &dim :
           mesh.parse(cast<dist::ShardingAttr>(sharding)).dims)
        for (int axis : dim.axes)
          if (i < static_cast<size_t>(numbers.size()))
            roots[value].push_back({axis, numbers[i++]});
  };
  module.walk([&](Operation *op) {
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      for (BlockArgument argument : function.getArguments()) {
        unsigned i = argument.getArgNumber();
        if (Attribute sharding = function.getArgAttr(i, dist::kShardingAttr))
          read(argument, sharding, function.getArgAttr(i, dist::kOriginsAttr));
      }
      return;
    }
    if (auto constraint = dyn_cast<dist::ConstraintOp>(op))
      read(op->getResults(), {constraint.getSharding()},
           op->getAttr(dist::kOriginsAttr));
    if (auto shardings = op->getAttrOfType<ArrayAttr>(dist::kShardingsAttr))
      read(op->getResults(), shardings.getValue(),
           op->getAttr(dist::kOriginsAttr));
    if (auto shardings =
            op->getAttrOfType<ArrayAttr>(dist::kArgumentShardingsAttr))
      read(op->getRegion(0).getArguments(), shardings.getValue(),
           op->getAttr(dist::kArgumentOriginsAttr));
  });
}

void Annotations::addTo(llvm::SetVector<StringRef> &list, Value value,
                        ArrayRef<int> atoms) const {
  auto it = roots.find(value);
  if (it == roots.end())
    return;
  for (auto [axis, root] : it->second)
    if (root >= 0 && static_cast<size_t>(root) < texts.size() &&
        llvm::is_contained(atoms, axis))
      list.insert(texts[root]);
}

void Annotations::erase(Operation *root) {
  StringRef names[] = {dist::kAnnotationsAttr, dist::kOriginsAttr,
                       dist::kArgumentOriginsAttr, dist::kBecauseAttr};
  root->walk([&](Operation *op) {
    for (StringRef name : names)
      op->removeAttr(name);
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      SignatureAttrs attrs(function);
      for (StringRef name : names) {
        for (unsigned i = 0; i < function.getNumArguments(); ++i)
          attrs.removeArgAttr(i, name);
        for (unsigned i = 0; i < function.getNumResults(); ++i)
          attrs.removeResultAttr(i, name);
      }
    }
  });
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

namespace {
/// What a user can type to name values, and the values so named.
struct Query {
  ModuleOp module;
  StringRef function, name;
  /// Places that the name stands for: all columns where the last is 0.
  SmallVector<std::tuple<StringRef, unsigned, unsigned>> places;
  llvm::SetVector<StringRef> files;
  /// What could have been meant.
  llvm::SetVector<StringRef> known;
  std::vector<std::unique_ptr<llvm::MemoryBuffer>> buffers;

  void read(StringRef what) {
    if (what.consume_front("@")) {
      std::tie(function, name) = what.split(':');
    } else {
      name = what;
    }
    module.walk([&](Operation *op) { addFile(op->getLoc()); });
    if (name.starts_with("%")) {
      for (StringRef file : files)
        findName(file);
      return;
    }
    // FILE:LINE[:COLUMN] or LINE.
    SmallVector<StringRef> parts;
    name.split(parts, ':');
    unsigned line, column = 0;
    for (StringRef file : files) {
      if (parts.size() == 1 && !parts[0].getAsInteger(10, line))
        places.push_back({file, line, 0});
      else if (parts.size() >= 2 &&
               (file == parts[0] || file.ends_with(("/" + parts[0]).str())) &&
               !parts[1].getAsInteger(10, line) &&
               (parts.size() == 2 || !parts[2].getAsInteger(10, column)))
        places.push_back({file, line, column});
    }
  }

  void addFile(Location loc) {
    loc->walk([&](Location part) {
      if (auto place = dyn_cast<FileLineColLoc>(part))
        files.insert(place.getFilename().getValue());
      return WalkResult::advance();
    });
  }

  /// Where a file defines the name: an op stands behind the `=`, an argument
  /// where its name does.
  void findName(StringRef file) {
    auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/true);
    if (!buffer)
      return;
    buffers.push_back(std::move(*buffer));
    StringRef rest = buffers.back()->getBuffer();
    for (unsigned line = 1; !rest.empty(); ++line) {
      StringRef row;
      std::tie(row, rest) = rest.split('\n');
      row = row.take_until(
          [&](char c) { return c == '/' && row.contains("//"); });
      for (size_t at = row.find('%'); at != StringRef::npos;
           at = row.find('%', at + 1)) {
        StringRef token = row.substr(at).take_front(1);
        token = StringRef(token.data(),
                          1 + row.substr(at + 1)
                                  .take_while([](char c) {
                                    return llvm::isAlnum(c) ||
                                           StringRef("_.$-").contains(c);
                                  })
                                  .size());
        known.insert(token);
        if (token != name)
          continue;
        places.push_back({file, line, static_cast<unsigned>(at + 1)});
        size_t equals = row.find(" = ", at);
        if (equals != StringRef::npos &&
            row.slice(at, equals).find_first_of("(") == StringRef::npos) {
          size_t op = row.find_first_not_of(' ', equals + 3);
          if (op != StringRef::npos)
            places.push_back({file, line, static_cast<unsigned>(op + 1)});
        }
      }
    }
  }

  bool isAt(Location loc) const {
    bool found = false;
    loc->walk([&](Location part) {
      if (auto place = dyn_cast<FileLineColLoc>(part))
        for (auto [file, line, column] : places)
          found |= place.getFilename() == file && place.getLine() == line &&
                   (column == 0 || place.getColumn() == column);
      return found ? WalkResult::interrupt() : WalkResult::advance();
    });
    return found;
  }

  /// Whether an argument is the parameter or batch of that name, or stands
  /// there.
  bool names(func::FuncOp parent, BlockArgument argument) {
    unsigned i = argument.getArgNumber();
    if (auto param =
            parent.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr)) {
      known.insert(param.getName());
      if (param.getName() == name)
        return true;
    }
    if (auto role = parent.getArgAttrOfType<StringAttr>(i, nn::kBatchAttr)) {
      known.insert(role.getValue());
      if (role == name)
        return true;
    }
    return isAt(argument.getLoc());
  }

  bool isIn(func::FuncOp parent) const {
    return function.empty() || parent.getName() == function;
  }
};
} // namespace

/// What a value is, for people.
static std::string describe(Value value) {
  std::string result;
  llvm::raw_string_ostream os(result);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Operation *parent = argument.getOwner()->getParentOp();
    os << "argument " << argument.getArgNumber() << " of ";
    auto function = dyn_cast<func::FuncOp>(parent);
    if (!function) {
      os << withPlace(parent->getName().getStringRef(), parent->getLoc());
      return result;
    }
    os << "@" << function.getName();
    if (auto param = function.getArgAttrOfType<nn::ParamAttr>(
            argument.getArgNumber(), nn::kParamAttr))
      os << ", parameter " << param.getName();
    std::string place = placeOf(argument.getLoc());
    if (!place.empty())
      os << " at " << place;
    return result;
  }
  Operation *op = value.getDefiningOp();
  if (op->getNumResults() > 1)
    os << "result " << cast<OpResult>(value).getResultNumber() << " of ";
  os << withPlace(op->getName().getStringRef(), op->getLoc());
  if (auto function = op->getParentOfType<func::FuncOp>())
    os << " in @" << function.getName();
  return result;
}

LogicalResult Origins::explain(ModuleOp module, const MeshInfo &mesh,
                               StringRef what, raw_ostream &os) {
  Query query{module, {}, {}, {}, {}, {}, {}};
  query.read(what);
  // A training step has other entries beside it; its own functions tell all.
  llvm::SetVector<Operation *> functions;
  if (auto step = module.lookupSymbol<func::FuncOp>("step");
      step && query.function.empty()) {
    functions.insert(step);
    SymbolTableCollection symbols;
    for (size_t i = 0; i < functions.size(); ++i)
      functions[i]->walk([&](func::CallOp call) {
        if (auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
                call, call.getCalleeAttr()))
          functions.insert(callee);
      });
  } else {
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      functions.insert(function);
  }
  SmallVector<Value> values;
  for (Operation *op : functions) {
    auto function = cast<func::FuncOp>(op);
    if (function.isExternal() || !query.isIn(function))
      continue;
    for (BlockArgument argument : function.getArguments())
      if (query.names(function, argument))
        values.push_back(argument);
    function.walk([&](Operation *inner) {
      if (inner != op && query.isAt(inner->getLoc()))
        llvm::append_range(values, inner->getResults());
    });
  }
  if (values.empty()) {
    InFlightDiagnostic error =
        emitError(module.getLoc(), "nothing is named '")
        << what << "'; expected %name or @function:%name as in the file, "
        << "a parameter, the role of a batch argument, LINE or FILE:LINE";
    SmallVector<StringRef> candidates(query.known.begin(), query.known.end());
    if (std::optional<StringRef> near = nearest(query.name, candidates))
      error << "; the nearest name is '" << *near << "'";
    return failure();
  }
  for (Value value : values) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      continue;
    os << describe(value) << ", " << type << "\n";
    bool any = false;
    for (int axis = 0; axis < mesh.getNumAtoms(); ++axis) {
      const Step *step = stepOf(value, axis);
      if (!step)
        continue;
      any = true;
      os << "  over " << mesh.nameOf(axis) << ":\n";
      for (const Step *next;
           step->source && (next = stepOf(step->source, axis)); step = next)
        os << "    through "
           << withPlace(step->via->getName().getStringRef(),
                        step->via->getLoc())
           << " from " << describe(step->source) << "\n";
      os << "    because of " << step->site.describe(mesh.nameOf(axis)) << "\n";
    }
    if (!any)
      os << "  whole on every device: no sharding reaches it\n";
  }
  return success();
}
