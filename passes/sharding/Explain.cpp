//===- Explain.cpp - List the collectives of an entry ---------------------===//

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/sharding/Explain.h"
#include "passes/sharding/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"
#include <map>

namespace sheaf {
#define GEN_PASS_DEF_DISTEXPLAIN
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
struct Explanation {
  llvm::json::Array list;
  /// How often each collective runs, in the order in which they first do.
  llvm::MapVector<Operation *, int64_t> times;
  SymbolTableCollection symbols;

  static StringRef phaseOf(Operation *op) {
    auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
    if (!role || role == "forward")
      return "forward";
    return role == "optimizer" ? "optimizer" : "backward";
  }

  void add(dist::CollectiveOpInterface op, dist::MeshOp mesh, int64_t count) {
    auto from = cast<RankedTensorType>(op->getOperand(0).getType());
    auto to = cast<RankedTensorType>(op->getResult(0).getType());
    int64_t group = mesh.getSize(op.getGroupAxes());
    if (group == 1)
      return;
    StringRef kind = op.getCollectiveKind();
    // The whole tensor of the group is the larger side.
    int64_t elements = std::max(from.getNumElements(), to.getNumElements());
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
    double sent = kind == "all-reduce" ? 2 * share * padded
                  : kind == "permute" || kind == "broadcast" ? double(padded)
                                                             : share * padded;
    std::string dtype;
    llvm::raw_string_ostream(dtype) << from.getElementType();
    int64_t bytes = (from.getElementTypeBitWidth() + 7) / 8;
    llvm::json::Array axes;
    for (dist::AxisAttr axis : op.getGroupAxes())
      axes.push_back(axis.getText());
    llvm::json::Object entry{
        {"kind", kind},         {"axes", std::move(axes)},
        {"group", group},       {"dtype", dtype},
        {"elements", elements}, {"wire_bytes", sent * bytes},
        {"count", count},       {"phase", phaseOf(op)}};
    if (from.getRank() == 0)
      entry["purpose"] = "scalar";
    llvm::json::Object reason;
    if (auto why = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr))
      for (NamedAttribute field : why)
        if (auto text = dyn_cast<StringAttr>(field.getValue())) {
          if (field.getName() == "op")
            entry["op"] = text.getValue();
          else
            reason[field.getName().getValue()] = text.getValue();
        }
    entry["reason"] = std::move(reason);
    list.push_back(std::move(entry));
  }

  void visit(Block &block, int64_t count) {
    for (Operation &op : block) {
      if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op))
        times[collective] += count;
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

llvm::json::Array sharding::explainCollectives(func::FuncOp entry) {
  dist::MeshOp mesh = dist::getMesh(entry->getParentOfType<ModuleOp>());
  if (!mesh)
    return {};
  Explanation explanation;
  explanation.visit(entry.front(), 1);
  for (auto [op, count] : explanation.times)
    explanation.add(cast<dist::CollectiveOpInterface>(op), mesh, count);
  return std::move(explanation.list);
}

void sharding::printCollectives(const llvm::json::Array &collectives, llvm::raw_ostream &os) {
  os << llvm::formatv("{0,-15} {1,-10} {2,5} {3,12} {4,6} {5,14} {6,-9}  {7}\n", "kind", "axes",
                      "group", "elements", "count", "wire bytes", "phase", "why");
  std::map<std::string, std::pair<double, int64_t>> totals;
  int64_t scalars = 0;
  for (const llvm::json::Value &value : collectives) {
    const llvm::json::Object &entry = *value.getAsObject();
    int64_t count = entry.getInteger("count").value_or(0);
    if (entry.get("purpose")) {
      scalars += count;
      continue;
    }
    std::string axes;
    for (const llvm::json::Value &axis : *entry.getArray("axes"))
      axes += (axes.empty() ? "" : ",") + axis.getAsString()->str();
    double bytes = entry.getNumber("wire_bytes").value_or(0);
    auto &[sum, times] = totals[axes];
    sum += bytes * count;
    times += count;
    const llvm::json::Object *reason = entry.getObject("reason");
    auto text = [&](StringRef key) {
      return reason ? reason->getString(key).value_or("") : StringRef();
    };
    os << llvm::formatv("{0,-15} {1,-10} {2,5} {3,12} {4,6} {5,14:f0} {6,-9}  {7}{8}{9}\n",
                        entry.getString("kind").value_or(""), axes,
                        entry.getInteger("group").value_or(0),
                        entry.getInteger("elements").value_or(0), count, bytes,
                        entry.getString("phase").value_or(""), text("text"),
                        text("loc").empty() ? "" : "  ", text("loc"));
  }
  for (auto &[axes, total] : totals)
    os << llvm::formatv("in all over {0}: {1} times, {2:f0} bytes sent by each device a step\n",
                        axes, total.second, total.first);
  os << scalars << " reductions of scalars\n";
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
    llvm::outs() << llvm::formatv("{0:2}",
                                  llvm::json::Value(sharding::explainCollectives(entry)))
                 << "\n";
    markAllAnalysesPreserved();
  }
};
} // namespace
