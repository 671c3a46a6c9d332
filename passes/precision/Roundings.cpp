//===- Roundings.cpp - Where a step rounds --------------------------------===//

#include "passes/precision/Roundings.h"
#include "dialects/NN/NN.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Format.h"
#include <map>
#include <tuple>

using namespace mlir;
using namespace sheaf;
namespace json = llvm::json;

/// The narrow type to which an op rounds its results; null where it does not.
static Type roundsTo(Operation *op) {
  auto elementOf = [](Value value) -> Type {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && isa<FloatType>(type.getElementType()) ? type.getElementType()
                                                         : Type();
  };
  // Ops that add up or compute, and casts; others only move.
  bool computes =
      op->hasTrait<nn::ElementwiseTrait>() ||
      isa<nn::EinsumOp, nn::ReduceOp, nn::QuantizeOp, nn::DequantizeOp,
          nn::ScaledEinsumOp, nn::GroupedMatmulOp, nn::GroupedOuterOp,
          nn::SoftmaxOp, nn::LayerNormOp, nn::RMSNormOp, nn::RotaryOp,
          nn::AttentionOp, nn::AttentionGradOp, nn::CrossEntropyGradOp,
          nn::DropoutOp, nn::CombineOp, nn::GatherGradOp>(op);
  if (!computes || op->getNumResults() == 0)
    return {};
  Type to = elementOf(op->getResult(0));
  if (!to || to.getIntOrFloatBitWidth() > 16)
    return {};
  if (auto cast = dyn_cast<nn::CastOp>(op)) {
    Type from = elementOf(cast.getInput());
    if (from && nn::isExactCast(from, to))
      return {};
  }
  return to;
}

json::Array sheaf::explainRoundings(func::FuncOp entry) {
  SymbolTable symbols(entry->getParentOfType<ModuleOp>());
  llvm::SetVector<Operation *> functions;
  functions.insert(entry);
  llvm::MapVector<std::tuple<StringRef, Attribute, Type>,
                  std::map<std::string, int64_t>>
      rows;
  for (unsigned i = 0; i < functions.size(); ++i) {
    auto function = cast<func::FuncOp>(functions[i]);
    function.walk([&](Operation *op) {
      if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
        if (callee && !callee.isDeclaration())
          functions.insert(callee);
      } else if (Type to = roundsTo(op)) {
        ++rows[{function.getName(), op->getAttr(nn::kRoleAttr), to}]
              [op->getName().stripDialect().str()];
      }
    });
  }
  json::Array list;
  for (auto &[key, ops] : rows) {
    auto [function, role, type] = key;
    std::string dtype;
    llvm::raw_string_ostream(dtype) << type;
    json::Object counts;
    for (auto &[name, count] : ops)
      counts[name] = count;
    auto phase = dyn_cast_or_null<StringAttr>(role);
    list.push_back(
        json::Object{{"function", function},
                     {"phase", phase ? phase.getValue() : StringRef("forward")},
                     {"dtype", dtype},
                     {"ops", std::move(counts)}});
  }
  return list;
}

void sheaf::printRoundings(const json::Array &roundings, raw_ostream &os) {
  if (roundings.empty())
    return;
  os << "rounded to narrow floats, by function and phase\n";
  for (const json::Value &value : roundings) {
    const json::Object &row = *value.getAsObject();
    std::map<std::string, int64_t> ops;
    for (const auto &[name, count] : *row.getObject("ops"))
      ops[name.str()] = *count.getAsInteger();
    std::string text;
    for (const auto &[name, count] : ops)
      text += (text.empty() ? "" : ", ") + name +
              (count > 1 ? " " + std::to_string(count) : "");
    os << llvm::format("  %-28s %-16s %-11s ",
                       row.getString("function")->str().c_str(),
                       row.getString("phase")->str().c_str(),
                       row.getString("dtype")->str().c_str())
       << text << "\n";
  }
}
