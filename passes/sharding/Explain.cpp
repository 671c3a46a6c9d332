//===- Explain.cpp - List the collectives of an entry ---------------------===//

#include "passes/sharding/Explain.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/sharding/Origins.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Shardings.h"
#include "support/Shown.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/JSON.h"
#include <cmath>
#include <map>

namespace sheaf {
#define GEN_PASS_DEF_DISTEXPLAIN
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
/// How many values are looked at to find what a collective is for.
constexpr size_t kLookAt = 64;

struct Explanation {
  sharding::MeshInfo mesh;
  func::FuncOp entry;
  llvm::json::Array list;
  /// How often each op runs, in the order in which they first do.
  llvm::MapVector<Operation *, int64_t> times, conflicts;
  SymbolTableCollection symbols;

  static StringRef phaseOf(Operation *op) {
    auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
    if (!role || role == "forward")
      return "forward";
    return role == "optimizer" ? "optimizer" : "backward";
  }

  /// The layer whose function holds the op, or null: forward and backward
  /// functions name the one that they were made from.
  StringRef layerOf(Operation *op) {
    auto function = op->getParentOfType<func::FuncOp>();
    if (function == entry)
      return {};
    for (int depth = 0; depth < 8; ++depth) {
      auto from = function->getAttrOfType<StringAttr>(kForwardOfAttr);
      if (!from)
        from = function->getAttrOfType<StringAttr>(kForwardAttr);
      if (!from)
        break;
      auto next = symbols.lookupNearestSymbolFrom<func::FuncOp>(function, from);
      if (!next)
        return from.getValue();
      function = next;
    }
    return function.getName();
  }

  /// The name in a pair [kind, name], such as `nn.state` and `nn.result` are.
  static StringRef nameIn(Attribute pair, StringRef kind = {}) {
    auto list = dyn_cast_or_null<ArrayAttr>(pair);
    if (!list || list.size() != 2)
      return {};
    auto first = dyn_cast<StringAttr>(list[0]),
         second = dyn_cast<StringAttr>(list[1]);
    return first && second && (kind.empty() || first == kind)
               ? second.getValue()
               : StringRef();
  }

  /// The parameter that an argument of the entry is or belongs to.
  StringRef parameterOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != &entry.front())
      return {};
    unsigned i = argument.getArgNumber();
    if (auto param = entry.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr))
      return param.getName();
    return nameIn(entry.getArgAttr(i, nn::kStateAttr));
  }

  /// The parameter that a collective gathers, or whose gradient it reduces;
  /// empty where it is for neither.
  StringRef parameterFor(Operation *op) {
    // What is sent rounded leads nowhere, but says so.
    if (auto reason = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr))
      if (auto params = reason.getAs<ArrayAttr>("params");
          params && params.size() == 1)
        return cast<StringAttr>(params[0]).getValue();
    // Backwards: what changes the place of elements only.
    for (Value value = op->getOperand(0);;) {
      if (StringRef name = parameterOf(value); !name.empty())
        return name;
      Operation *from = value.getDefiningOp();
      if (!from || from->getNumOperands() != 1 || from->getNumRegions() != 0)
        break;
      value = from->getOperand(0);
    }
    return parameterBehind(op->getResult(0));
  }

  /// The parameter whose state a gradient meets, or as whose it is returned.
  /// Notes in `returned`, where it is there, as which results a layer gives it.
  StringRef parameterBehind(Value gradient,
                            llvm::SmallSetVector<unsigned, 2> *returned = {}) {
    llvm::SetVector<Value> reached;
    reached.insert(gradient);
    for (size_t i = 0; i < reached.size() && i < kLookAt; ++i) {
      Value value = reached[i];
      for (OpOperand &use : value.getUses()) {
        Operation *user = use.getOwner();
        if (isa<func::ReturnOp>(user) && user->getParentOp() == entry) {
          if (returned)
            returned->insert(use.getOperandNumber());
          StringRef name = nameIn(
              entry.getResultAttr(use.getOperandNumber(), nn::kResultAttr));
          if (!name.empty())
            return name;
        }
        if (isa<nn::YieldOp>(user)) {
          reached.insert(
              user->getParentOp()->getResult(use.getOperandNumber()));
          continue;
        }
        bool moves = isa<dist::DistDialect>(user->getDialect());
        for (Value other : user->getOperands()) {
          auto argument = dyn_cast<BlockArgument>(other);
          if (argument && argument.getOwner() == &entry.front() &&
              argument.getType() == value.getType() &&
              entry.getArgAttr(argument.getArgNumber(), nn::kStateAttr))
            return parameterOf(argument);
        }
        if (user->getNumResults() != 1 || user->getNumRegions() != 0 ||
            isa<func::CallOp>(user))
          continue;
        // Sums with, and multiples of, the gradient have its shape.
        auto result = dyn_cast<RankedTensorType>(user->getResult(0).getType());
        auto type = cast<RankedTensorType>(value.getType());
        if (result && (moves || result.getShape() == type.getShape() ||
                       (user->getNumOperands() == 1 &&
                        result.getNumElements() == type.getNumElements())))
          reached.insert(user->getResult(0));
      }
    }
    return {};
  }

  /// The parameters of a gradient that is reduced in `function`: of a layer
  /// those of all its calls.
  void addParametersBehind(func::FuncOp function, Value gradient,
                           llvm::SetVector<StringRef> &names, int depth = 0) {
    entry = function;
    llvm::SmallSetVector<unsigned, 2> returned;
    if (StringRef name = parameterBehind(gradient, &returned); !name.empty()) {
      names.insert(name);
      return;
    }
    if (returned.empty() || depth > 8)
      return;
    for (func::FuncOp caller :
         function->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
      caller.walk([&](func::CallOp call) {
        if (call.getCallee() == function.getName())
          for (unsigned i : returned)
            addParametersBehind(caller, call.getResult(i), names, depth + 1);
      });
  }

  /// The nearest result of the entry that a scalar reaches.
  StringRef purposeOf(Operation *op) {
    llvm::SetVector<Value> reached;
    reached.insert(op->getResult(0));
    for (size_t i = 0; i < reached.size() && i < kLookAt; ++i)
      for (OpOperand &use : reached[i].getUses()) {
        Operation *user = use.getOwner();
        if (isa<func::ReturnOp>(user) && user->getParentOp() == entry)
          if (StringRef name = nameIn(
                  entry.getResultAttr(use.getOperandNumber(), nn::kResultAttr));
              !name.empty())
            return name;
        if (isa<nn::YieldOp>(user))
          reached.insert(
              user->getParentOp()->getResult(use.getOperandNumber()));
        else if (user->getNumResults() == 1 &&
                 cast<RankedTensorType>(user->getResult(0).getType())
                         .getRank() == 0)
          reached.insert(user->getResult(0));
      }
    return "scalar";
  }

  void add(dist::CollectiveOpInterface op, int64_t count) {
    auto from = cast<RankedTensorType>(op->getOperand(0).getType());
    auto to = cast<RankedTensorType>(op->getResult(0).getType());
    int64_t group = dist::MeshOp(mesh.op).getSize(op.getGroupAxes());
    if (group == 1)
      return;
    StringRef kind = op.getCollectiveKind();
    // The whole tensor of the group is the larger side.
    int64_t elements = std::max(from.getNumElements(), to.getNumElements());
    double sent = sharding::bytesSent(op, mesh.op);
    // As manifests name it.
    std::string dtype;
    if (isa<Float8E4M3FNType>(from.getElementType()))
      dtype = "f8e4m3";
    else if (isa<Float8E5M2Type>(from.getElementType()))
      dtype = "f8e5m2";
    else
      llvm::raw_string_ostream(dtype) << from.getElementType();
    llvm::json::Array axes;
    std::vector<int> atoms;
    for (dist::AxisAttr axis : op.getGroupAxes()) {
      axes.push_back(axis.getText());
      llvm::append_range(atoms, mesh.atomsOf(axis));
    }
    auto move = llvm::StringSwitch<planner::MoveKind>(kind)
                    .Case("all-gather", planner::MoveKind::AllGather)
                    .Case("reduce-scatter", planner::MoveKind::ReduceScatter)
                    .Case("all-reduce", planner::MoveKind::AllReduce)
                    .Case("all-to-all", planner::MoveKind::AllToAll)
                    .Default(planner::MoveKind::Permute);
    llvm::json::Object entry{
        {"kind", kind},
        {"axes", std::move(axes)},
        {"group", group},
        {"dtype", dtype},
        {"elements", elements},
        {"wire_bytes", sent},
        {"seconds", mesh.planner.seconds(move, atoms, sent)},
        {"count", count},
        {"phase", phaseOf(op)}};
    if (isa<dist::ExchangeRowsOp>(op.getOperation()))
      entry["exact"] = true; // At run time, and here at most.
    if (from.getRank() == 0)
      entry["purpose"] = purposeOf(op);
    else if (StringRef parameter = parameterFor(op); !parameter.empty())
      entry["param"] = parameter;
    if (StringRef layer = layerOf(op); !layer.empty())
      entry["layer"] = layer;
    llvm::json::Object reason;
    if (auto why = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr))
      for (NamedAttribute field : why) {
        StringRef name = field.getName().getValue();
        // Of a collective that is to be found again.
        if (auto number = dyn_cast<IntegerAttr>(field.getValue());
            number && name == "number")
          entry[name] = number.getInt();
        if (auto text = dyn_cast<StringAttr>(field.getValue()))
          (name == "op" ? entry : reason)[name] = text.getValue();
        else if (auto texts = dyn_cast<ArrayAttr>(field.getValue()))
          reason[name] = strings(texts);
      }
    entry["reason"] = std::move(reason);
    list.push_back(std::move(entry));
  }

  static llvm::json::Array strings(ArrayAttr texts) {
    llvm::json::Array array;
    for (auto text : texts.getAsRange<StringAttr>())
      array.push_back(text.getValue());
    return array;
  }

  void visit(Block &block, int64_t count) {
    for (Operation &op : block) {
      if (isa<dist::CollectiveOpInterface>(op))
        times[&op] += count;
      else if (op.hasAttr(dist::kConflictsAttr))
        conflicts[&op] += count;
      if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
            call, call.getCalleeAttr());
        if (callee && !callee.isExternal())
          visit(callee.front(), count);
      }
      auto loop = dyn_cast<nn::MicrobatchesOp>(op);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          visit(inner, loop ? count * loop.getCount() : count);
    }
  }
};

} // namespace

double sharding::bytesSent(dist::CollectiveOpInterface op, dist::MeshOp mesh) {
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  int64_t group = mesh.getSize(op.getGroupAxes());
  StringRef kind = op.getCollectiveKind();
  double share = double(group - 1) / double(group);
  // What is sent has the padding of parts that do not divide.
  int64_t padded = from.getNumElements();
  if (kind == "all-gather")
    padded *= group;
  else if (kind == "reduce-scatter")
    padded = to.getNumElements() * group;
  else if (auto exchange = dyn_cast<dist::AllToAllOp>(op.getOperation()))
    padded = padded / from.getDimSize(exchange.getSplit()) *
             (to.getDimSize(exchange.getSplit()) * group);
  double sent = kind == "all-reduce"                       ? 2 * share * padded
                : kind == "permute" || kind == "broadcast" ? double(padded)
                                                           : share * padded;
  return sent * ((from.getElementTypeBitWidth() + 7) / 8);
}

SmallVector<StringRef> sharding::parametersFor(func::FuncOp function,
                                               Operation *op) {
  Explanation explanation;
  explanation.entry = function;
  if (StringRef name = explanation.parameterFor(op); !name.empty())
    return {name};
  llvm::SetVector<StringRef> names;
  explanation.addParametersBehind(function, op->getResult(0), names);
  return names.takeVector();
}

llvm::json::Array sharding::explainCollectives(func::FuncOp entry) {
  dist::MeshOp mesh = dist::getMesh(entry->getParentOfType<ModuleOp>());
  if (!mesh)
    return {};
  Explanation explanation;
  explanation.entry = entry;
  explanation.visit(entry.front(), 1);
  llvm::SetVector<dist::AxisAttr> axes;
  for (auto [op, count] : explanation.times)
    for (dist::AxisAttr axis :
         cast<dist::CollectiveOpInterface>(op).getGroupAxes())
      if (!axis.isWhole())
        axes.insert(axis);
  FailureOr<MeshInfo> info = MeshInfo::get(mesh, axes.getArrayRef());
  if (failed(info))
    return {};
  explanation.mesh = std::move(*info);
  for (auto [op, count] : explanation.times)
    explanation.add(cast<dist::CollectiveOpInterface>(op), count);
  return std::move(explanation.list);
}

llvm::json::Array sharding::explainConflicts(func::FuncOp entry) {
  Explanation explanation;
  explanation.entry = entry;
  explanation.visit(entry.front(), 1);
  llvm::json::Array list;
  for (auto [op, count] : explanation.conflicts)
    for (auto conflict : op->getAttrOfType<ArrayAttr>(dist::kConflictsAttr)
                             .getAsRange<DictionaryAttr>()) {
      llvm::json::Array candidates;
      for (auto candidate : conflict.getAs<ArrayAttr>("candidates")
                                .getAsRange<DictionaryAttr>()) {
        llvm::json::Object object{
            {"what", candidate.getAs<StringAttr>("what").getValue()}};
        // What cannot be had takes forever, which JSON cannot say.
        if (auto seconds = candidate.getAs<FloatAttr>("seconds");
            seconds && std::isfinite(seconds.getValueAsDouble()))
          object["seconds"] = seconds.getValueAsDouble();
        candidates.push_back(std::move(object));
      }
      llvm::json::Object object{
          {"op", op->getName().getStringRef()},
          {"loc", placeOf(op->getLoc())},
          {"count", count},
          {"phase", Explanation::phaseOf(op)},
          {"candidates", std::move(candidates)},
          {"choice", conflict.getAs<IntegerAttr>("choice").getInt()},
          {"by", conflict.getAs<StringAttr>("by").getValue()}};
      if (StringRef layer = explanation.layerOf(op); !layer.empty())
        object["layer"] = layer;
      list.push_back(std::move(object));
    }
  return list;
}

void sharding::printConflicts(const llvm::json::Array &conflicts,
                              raw_ostream &os) {
  if (!conflicts.empty())
    os << "wishes that could not all be followed\n";
  for (const llvm::json::Value &value : conflicts) {
    const llvm::json::Object &conflict = *value.getAsObject();
    os << *conflict.getString("op") << " at " << *conflict.getString("loc")
       << ", by " << *conflict.getString("by") << ":";
    int64_t choice = *conflict.getInteger("choice");
    for (auto [i, item] : llvm::enumerate(*conflict.getArray("candidates"))) {
      const llvm::json::Object &candidate = *item.getAsObject();
      os << (i ? ", " : " ")
         << (static_cast<int64_t>(i) == choice ? "followed " : "not ")
         << *candidate.getString("what");
      if (std::optional<double> seconds = candidate.getNumber("seconds"))
        os << llvm::formatv(" ({0:f1} us)", 1e6 * *seconds);
    }
    os << "\n";
  }
}

static std::string axesOf(const llvm::json::Object &entry) {
  std::string axes;
  for (const llvm::json::Value &axis : *entry.getArray("axes"))
    axes += (axes.empty() ? "" : ",") + axis.getAsString()->str();
  return axes;
}

llvm::json::Array sharding::totalsOf(const llvm::json::Array &collectives) {
  struct Sum {
    double bytes = 0, seconds = 0;
    int64_t count = 0;
  };
  struct Total {
    llvm::json::Array axes;
    /// Of all devices, and what those at a place along pp have beside it.
    Sum all;
    std::map<int64_t, Sum> places;
  };
  std::map<std::string, Total> totals;
  for (const llvm::json::Value &value : collectives) {
    const llvm::json::Object &entry = *value.getAsObject();
    if (entry.get("purpose"))
      continue;
    Total &total = totals[axesOf(entry)];
    int64_t count = entry.getInteger("count").value_or(0);
    total.axes = *entry.getArray("axes");
    auto add = [&](Sum &sum) {
      sum.bytes += entry.getNumber("wire_bytes").value_or(0) * count;
      sum.seconds += entry.getNumber("seconds").value_or(0) * count;
      sum.count += count;
    };
    if (const llvm::json::Array *places = entry.getArray("places")) {
      for (const llvm::json::Value &place : *places)
        add(total.places[place.getAsInteger().value_or(0)]);
    } else {
      add(total.all);
    }
  }
  llvm::json::Array list;
  for (auto &[axes, total] : totals) {
    // Of the device that sends most.
    Sum most;
    for (auto &[place, sum] : total.places)
      if (sum.bytes > most.bytes)
        most = sum;
    list.push_back(
        llvm::json::Object{{"axes", std::move(total.axes)},
                           {"count", total.all.count + most.count},
                           {"wire_bytes", total.all.bytes + most.bytes},
                           {"seconds", total.all.seconds + most.seconds}});
  }
  return list;
}

void sharding::printCollectives(const llvm::json::Array &collectives,
                                llvm::raw_ostream &os) {
  os << llvm::formatv(
      "{0,-15} {1,-10} {2,5} {3,12} {4,6} {5,14} {6,10} {7,-9}  {8}\n", "kind",
      "axes", "group", "elements", "count", "wire bytes", "us", "phase", "why");
  int64_t scalars = 0;
  for (const llvm::json::Value &value : collectives) {
    const llvm::json::Object &entry = *value.getAsObject();
    int64_t count = entry.getInteger("count").value_or(0);
    if (entry.get("purpose")) {
      scalars += count;
      continue;
    }
    const llvm::json::Object *reason = entry.getObject("reason");
    auto text = [&](StringRef key) {
      return reason ? reason->getString(key).value_or("") : StringRef();
    };
    os << llvm::formatv(
        "{0,-15} {1,-10} {2,5} {3,12} {4,6} {5,14:f0} {6,10:f1} {7,-9}  {8}",
        entry.getString("kind").value_or(""), axesOf(entry),
        entry.getInteger("group").value_or(0),
        entry.getInteger("elements").value_or(0), count,
        entry.getNumber("wire_bytes").value_or(0),
        1e6 * entry.getNumber("seconds").value_or(0),
        entry.getString("phase").value_or(""), text("text"));
    if (std::optional<StringRef> parameter = entry.getString("param"))
      os << ", " << *parameter;
    if (std::optional<StringRef> layer = entry.getString("layer"))
      os << ", in @" << *layer;
    if (const llvm::json::Array *places = entry.getArray("places")) {
      os << ", at";
      for (const llvm::json::Value &place : *places)
        os << " " << place.getAsInteger().value_or(0);
      os << " of pp";
    }
    if (!text("loc").empty())
      os << "  " << text("loc");
    os << "\n";
    if (std::optional<double> exposed = entry.getNumber("exposed_seconds"))
      os << llvm::formatv("    waited for {0:f1} of {1:f1} us\n",
                          1e6 * *exposed,
                          1e6 * entry.getNumber("seconds").value_or(0));
    if (std::optional<int64_t> parts = entry.getInteger("parts"))
      os << "    in " << *parts << " parts, for products to be beside them\n";
    if (const llvm::json::Array *names = entry.getArray("beside")) {
      // What takes long is named, the rest counted.
      int64_t others = 0;
      StringRef separator = "    beside ";
      for (const llvm::json::Value &item : *names) {
        StringRef name = item.getAsString().value_or("");
        if (!name.starts_with("attention") && name != "a product") {
          ++others;
          continue;
        }
        os << separator << name;
        separator = ", ";
      }
      if (others)
        os << separator << others << (others == 1 ? " kernel" : " kernels")
           << (separator == ", " ? " more" : "");
      os << "\n";
    }
    if (const llvm::json::Array *from =
            reason ? reason->getArray("annotations") : nullptr)
      for (const llvm::json::Value &annotation : *from)
        os << "    because of " << annotation.getAsString().value_or("")
           << "\n";
  }
  for (const llvm::json::Value &value : totalsOf(collectives)) {
    const llvm::json::Object &total = *value.getAsObject();
    os << llvm::formatv(
        "in all over {0}: {1} times, {2:f0} bytes sent by each device a step, "
        "{3:f1} us\n",
        axesOf(total), *total.getInteger("count"),
        *total.getNumber("wire_bytes"), 1e6 * *total.getNumber("seconds"));
  }
  os << scalars << " reductions of scalars\n";
}

static std::string shownValue(const llvm::json::Value &value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return shown(text);
}

/// What is wrong with an entry of an explanation; empty where nothing is.
static std::string wrongIn(const llvm::json::Value &item) {
  using llvm::json::Value;
  const llvm::json::Object *entry = item.getAsObject();
  if (!entry)
    return "is " + shownValue(item) + ", expected an object";
  std::string error;
  auto has = [&](StringRef key, bool isNeeded, StringRef expected,
                 llvm::function_ref<bool(const Value &)> isRight) {
    const Value *value = entry->get(key);
    if (!error.empty() || (!value && !isNeeded) || (value && isRight(*value)))
      return;
    error = value ? "has \"" + key.str() + "\": " + shownValue(*value)
                  : "has no \"" + key.str() + "\"";
    error += ", expected " + expected.str();
  };
  auto isText = [](const Value &value) {
    return value.getAsString().has_value();
  };
  auto isPositive = [](const Value &value) {
    return value.getAsInteger().value_or(0) >= 1;
  };
  auto isAmount = [](const Value &value) {
    std::optional<double> number = value.getAsNumber();
    return number && *number >= 0 && std::isfinite(*number);
  };
  has("kind", true,
      "all-reduce, all-gather, reduce-scatter, all-to-all, permute, "
      "broadcast or send",
      [](const Value &value) {
        return llvm::is_contained({"all-reduce", "all-gather", "reduce-scatter",
                                   "all-to-all", "permute", "broadcast",
                                   "send"},
                                  value.getAsString().value_or(""));
      });
  has("axes", true, "the names of axes", [&](const Value &value) {
    const llvm::json::Array *axes = value.getAsArray();
    return axes && !axes->empty() && llvm::all_of(*axes, isText);
  });
  has("count", true, "how often it is made, at least once", isPositive);
  has("wire_bytes", true, "bytes, 0 or more", isAmount);
  has("seconds", false, "seconds, 0 or more", isAmount);
  has("exposed_seconds", false, "seconds, 0 or more", isAmount);
  has("group", false, "devices, at least 1", isPositive);
  has("elements", false, "how many there are, at least 1", isPositive);
  has("parts", false, "how many there are in place of one, at least 1",
      isPositive);
  for (StringRef key : {"dtype", "phase", "purpose", "param", "op", "layer"})
    has(key, false, "a text", isText);
  for (StringRef key : {"places", "beside"})
    has(key, false, "a list",
        [](const Value &value) { return value.getAsArray() != nullptr; });
  has("reason", false, "an object with texts", [&](const Value &value) {
    const llvm::json::Object *reason = value.getAsObject();
    const Value *text = reason ? reason->get("text") : nullptr;
    return reason && (!text || isText(*text));
  });
  return error;
}

llvm::Expected<llvm::json::Object> sharding::parseExplanation(StringRef text) {
  auto wrong = [](const Twine &what) {
    return llvm::createStringError(
        what + ", expected what sheaf-compile --explain=json writes");
  };
  // The parser calls itself for each bracket.
  int64_t depth = 0;
  bool isString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"')
      isString = !isString;
    else if (isString)
      i += text[i] == '\\';
    else if (text[i] == '[' || text[i] == '{')
      ++depth;
    else if (text[i] == ']' || text[i] == '}')
      --depth;
    if (depth > 100)
      return wrong("is nested more than 100 deep");
  }
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value)
    return value.takeError();
  llvm::json::Object *all = value->getAsObject();
  if (!all || !all->getArray("collectives") || !all->getObject("memory"))
    return wrong("has no \"collectives\" or no \"memory\"");
  for (auto [i, item] : llvm::enumerate(*all->getArray("collectives")))
    if (std::string error = wrongIn(item); !error.empty())
      return llvm::createStringError("collective " + Twine(i) + " " + error);
  for (auto &[kind, bytes] : *all->getObject("memory"))
    if (bytes.getAsInteger().value_or(-1) < 0)
      return llvm::createStringError("memory of kind '" + shown(kind) +
                                     "' is " + shownValue(bytes) +
                                     ", expected bytes, 0 or more");
  return std::move(*all);
}

bool sharding::printDifferences(const llvm::json::Object &before,
                                const llvm::json::Object &after,
                                raw_ostream &os) {
  struct Sides {
    double bytes[2] = {};
    int64_t count[2] = {};
  };
  // What a collective is, without how often and how much.
  std::map<std::string, Sides> collectives;
  std::map<std::string, Sides> totals, memory;
  for (int side = 0; side < 2; ++side) {
    const llvm::json::Object &all = side ? after : before;
    for (const llvm::json::Value &value : *all.getArray("collectives")) {
      const llvm::json::Object &entry = *value.getAsObject();
      std::string what;
      llvm::raw_string_ostream name(what);
      name << entry.getString("kind").value_or("") << " over " << axesOf(entry)
           << ", " << entry.getString("dtype").value_or("") << ", "
           << entry.getString("phase").value_or("");
      for (StringRef key : {"purpose", "param", "op"})
        if (std::optional<StringRef> text = entry.getString(key))
          name << ", " << *text;
      if (std::optional<StringRef> layer = entry.getString("layer"))
        name << ", in @" << *layer;
      if (const llvm::json::Object *reason = entry.getObject("reason"))
        if (std::optional<StringRef> text = reason->getString("text"))
          name << ": " << *text;
      int64_t count = *entry.getInteger("count");
      double bytes = *entry.getNumber("wire_bytes") * count;
      for (Sides *sides : {&collectives[what], &totals[axesOf(entry)]}) {
        sides->bytes[side] += bytes;
        sides->count[side] += count;
      }
    }
    for (auto &[kind, bytes] : *all.getObject("memory"))
      memory[kind.str()].bytes[side] = *bytes.getAsInteger();
  }
  bool differ = false;
  auto line = [&](StringRef name, const Sides &sides, bool isMemory) {
    auto [b, a] = sides.bytes;
    auto [m, n] = sides.count;
    if (a == b && m == n)
      return;
    differ = true;
    bool added = isMemory ? b == 0 : m == 0,
         removed = isMemory ? a == 0 : n == 0;
    os << (added     ? "added    "
           : removed ? "removed  "
           : a > b   ? "grew     "
           : a < b   ? "shrank   "
                     : "changed  ");
    if (!isMemory && !added && !removed && m != n)
      os << m << " -> " << n << " times, ";
    else if (!isMemory)
      os << (added ? n : m) << (m + n == 1 ? " time, " : " times, ");
    if (added || removed || a == b)
      os << llvm::formatv("{0:f0} bytes  ", std::max(a, b));
    else
      os << llvm::formatv("{0:f0} -> {1:f0} bytes  ", b, a);
    os << name << "\n";
  };
  for (auto &[name, sides] : collectives)
    line(name, sides, false);
  for (auto &[axes, sides] : totals)
    line("in all over " + axes, sides, false);
  for (auto &[kind, sides] : memory)
    line("memory: " + kind, sides, true);
  if (!differ)
    os << "no difference\n";
  return differ;
}

namespace {
struct DistExplain : sheaf::impl::DistExplainBase<DistExplain> {
  using DistExplainBase::DistExplainBase;

  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    auto entry = getOperation().lookupSymbol<func::FuncOp>(function);
    if (!mesh || !entry || entry.isExternal()) {
      getOperation().emitError("dist-explain: there is no ")
          << (mesh ? "function @" + function : std::string("mesh"));
      return signalPassFailure();
    }
    llvm::outs() << llvm::formatv(
                        "{0:2}",
                        llvm::json::Value(sharding::explainCollectives(entry)))
                 << "\n";
    markAllAnalysesPreserved();
  }
};
} // namespace
