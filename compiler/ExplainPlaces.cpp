//===- ExplainPlaces.cpp - What each rank of a pipeline sends -------------===//

#include "compiler/ExplainPlaces.h"
#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/overlap/Passes.h"
#include "passes/overlap/Predict.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace sheaf;

/// In the reason of a collective.
static constexpr llvm::StringLiteral kNumber = "number";

void sheaf::numberCollectives(ModuleOp module, bool all) {
  Builder builder(module.getContext());
  int64_t count = 0;
  module.walk([&](dist::CollectiveOpInterface op) {
    if (!all && op.getCollectiveKind() != "permute")
      return;
    NamedAttrList reason;
    if (auto known = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr))
      reason = NamedAttrList(known);
    reason.set(kNumber, builder.getI64IntegerAttr(count++));
    op->setAttr(dist::kReasonAttr, reason.getDictionary(module.getContext()));
  });
}

static DictionaryAttr aboutOf(Operation *op) {
  auto about = op->getAttrOfType<DictionaryAttr>("about");
  return about ? about : DictionaryAttr::get(op->getContext());
}

static std::optional<int64_t> numberOf(Operation *op) {
  auto reason = aboutOf(op).getAs<DictionaryAttr>("reason");
  auto number = reason ? reason.getAs<IntegerAttr>(kNumber) : IntegerAttr();
  return number ? std::optional<int64_t>(number.getInt()) : std::nullopt;
}

static std::string textOf(Operation *op, StringRef key) {
  auto text = aboutOf(op).getAs<StringAttr>(key);
  return text ? text.getValue().str() : "";
}

namespace {
/// How often a call of each function makes each numbered collective.
class Counter {
public:
  explicit Counter(ModuleOp module) : symbols(module) {}
  const std::map<int64_t, int64_t> &of(func::FuncOp function) {
    auto [it, isNew] = known.try_emplace(function.getOperation());
    if (!isNew)
      return it->second;
    std::map<int64_t, int64_t> counts;
    function.walk([&](Operation *op) {
      if (isa<exec::TransferOp>(op)) {
        if (std::optional<int64_t> number = numberOf(op))
          ++counts[*number];
      } else if (auto call = dyn_cast<func::CallOp>(op)) {
        if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
          for (auto [number, times] : of(callee))
            counts[number] += times;
      }
    });
    return it->second = std::move(counts);
  }

private:
  SymbolTable symbols;
  std::map<Operation *, std::map<int64_t, int64_t>> known;
};

/// What places say to each other, over all microbatches.
struct Said {
  std::string kind, dtype, phase, purpose, text;
  int64_t group = 0, elements = 0;
  double bytes = 0;
  auto operator<=>(const Said &other) const = default;
};
} // namespace

/// "0F to 1F, rank 0 to 1" of "0F3 to 1F3, rank 0 to 1": the microbatch goes.
static std::string withoutMicrobatches(StringRef name) {
  std::string text;
  auto [actions, rest] = name.split(',');
  for (size_t i = 0; i < actions.size(); ++i) {
    bool follows = i > 0 && llvm::isUpper(actions[i - 1]);
    while (follows && i < actions.size() && llvm::isDigit(actions[i]))
      ++i;
    if (i < actions.size())
      text += actions[i];
  }
  return rest.empty() ? text : text + "," + rest.str();
}

/// A send, or a collective of scalars over pp; none where `op` is neither.
static std::optional<Said> saidBy(Operation *op) {
  Said said;
  Value value;
  double factor = 1;
  if (auto send = dyn_cast<exec::SendOp>(op)) {
    value = send.getInput();
    said.kind = "send";
    said.group = send.getSize();
    said.text = withoutMicrobatches(textOf(op, "name"));
    // Stages hand activations on forwards, and gradients backwards.
    size_t letter = said.text.find_first_of("FIWB");
    said.phase = letter != std::string::npos && said.text[letter] == 'F'
                     ? "forward"
                     : "backward";
  } else if (auto transfer = dyn_cast<exec::TransferOp>(op);
             transfer && !numberOf(op)) {
    value = transfer.getInput();
    said.kind = transfer.getKind() == exec::Transfer::AllReduce ? "all-reduce"
                                                                : "broadcast";
    said.group = 1;
    for (int64_t size : transfer.getSizes())
      said.group *= size;
    if (said.kind == "all-reduce")
      factor = 2.0 * double(said.group - 1) / double(said.group);
    said.purpose = textOf(op, "purpose");
    said.text = "what stages know parts of";
    said.phase = "backward";
  } else {
    return std::nullopt;
  }
  auto type = cast<RankedTensorType>(value.getType());
  llvm::raw_string_ostream(said.dtype) << type.getElementType();
  said.elements = type.getNumElements();
  said.bytes = factor * double(said.elements) *
               double((type.getElementTypeBitWidth() + 7) / 8);
  return said;
}

/// A row for each count that places have.
static void addRows(llvm::json::Array &rows, const llvm::json::Object &row,
                    const std::map<int64_t, int64_t> &countAt, int64_t places) {
  std::map<int64_t, llvm::json::Array> byCount;
  for (auto [place, count] : countAt)
    if (count > 0)
      byCount[count].push_back(place);
  for (auto &[count, at] : byCount) {
    llvm::json::Object next(row);
    next["count"] = count;
    if (static_cast<int64_t>(at.size()) < places)
      next["places"] = std::move(at);
    rows.push_back(std::move(next));
  }
}

llvm::json::Array sheaf::explainPlaces(ModuleOp module, StringRef entry,
                                       llvm::json::Array rows,
                                       dist::LinkSpeed link) {
  Counter counter(module);
  // By what it is, the count at each place.
  std::map<int64_t, std::map<int64_t, int64_t>> numbered;
  std::map<Said, std::map<int64_t, int64_t>> between;
  int64_t places = 0;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    auto at = function->getAttrOfType<ArrayAttr>(exec::kPlaceAttr);
    if (!at || cast<StringAttr>(at[0]).getValue() != entry)
      continue;
    int64_t place = cast<IntegerAttr>(at[1]).getInt();
    places = std::max(places, place + 1);
    for (auto [number, count] : counter.of(function))
      numbered[number][place] = count;
    function.walk([&](Operation *op) {
      if (std::optional<Said> said = saidBy(op))
        ++between[*said][place];
    });
  }
  llvm::json::Array all;
  for (const llvm::json::Value &value : rows) {
    llvm::json::Object row(*value.getAsObject());
    int64_t number = row.getInteger(kNumber).value_or(-1);
    addRows(all, row, numbered[number], places);
  }
  for (auto &[said, countAt] : between) {
    llvm::json::Object row{
        {"kind", said.kind},
        {"axes", llvm::json::Array{"pp"}},
        {"group", said.group},
        {"dtype", said.dtype},
        {"elements", said.elements},
        {"wire_bytes", said.bytes},
        {"seconds", link.latency + said.bytes / link.bandwidth},
        {"phase", said.phase},
        {"reason", llvm::json::Object{{"kind", "stage"}, {"text", said.text}}}};
    if (!said.purpose.empty())
      row["purpose"] = said.purpose;
    addRows(all, row, countAt, places);
  }
  return all;
}

/// The names of the kernels and products between a start and its wait; of a
/// kernel that the function launches several times, which of the times.
static SmallVector<std::string> namesBetween(exec::CollectiveOp start,
                                             Operation *wait) {
  auto function = start->getParentOfType<func::FuncOp>();
  auto kernelOf = [](Operation *op) -> Attribute {
    auto launch = dyn_cast<exec::LaunchOp>(op);
    return launch ? launch.getKernel().getLeafReference() : Attribute();
  };
  SmallVector<std::string> names;
  for (Operation *op = start->getNextNode(); op && op != wait;
       op = op->getNextNode()) {
    if (isa<exec::MatmulOp, exec::GroupedMatmulOp>(op)) {
      if (!llvm::is_contained(names, "a product"))
        names.push_back("a product");
      continue;
    }
    Attribute kernel = kernelOf(op);
    if (!kernel)
      continue;
    int64_t which = 0, times = 0;
    function.walk([&](exec::LaunchOp launch) {
      if (kernelOf(launch) != kernel)
        return;
      ++times;
      if (launch == op)
        which = times;
    });
    std::string name = cast<StringAttr>(kernel).getValue().str();
    if (times > 1)
      name +=
          " (" + std::to_string(which) + " of " + std::to_string(times) + ")";
    names.push_back(name);
  }
  return names;
}

void sheaf::explainBeside(ModuleOp module, llvm::json::Array &rows,
                          bool areCounted, ClusterCosts *cluster) {
  struct Sum {
    double count = 0, seconds = 0, exposed = 0;
  };
  std::map<int64_t, Sum> waited;
  if (cluster) {
    OpCosts costs(module, *cluster);
    for (func::FuncOp function : module.getOps<func::FuncOp>()) {
      auto place = function->getAttrOfType<ArrayAttr>(exec::kPlaceAttr);
      if (place ? cast<StringAttr>(place[0]).getValue() == "step"
                : function.getName() == "step")
        predictExposure(
            function, costs,
            [&](exec::CollectiveOp op, double seconds, double exposed) {
              if (std::optional<int64_t> number = numberOf(op)) {
                Sum &sum = waited[*number];
                ++sum.count;
                sum.seconds += seconds;
                sum.exposed += exposed;
              }
            });
    }
  }
  std::map<int64_t, SmallVector<std::string>> beside;
  std::map<int64_t, int64_t> parts;
  module.walk([&](exec::CollectiveOp op) {
    std::optional<int64_t> number = numberOf(op);
    if (!number)
      return;
    if (auto count = aboutOf(op).getAs<IntegerAttr>(kPartsKey))
      parts[*number] = count.getInt();
    if (op.isStarted())
      for (Operation *user : op.getWritten()[1].getUsers())
        if (isa<exec::WaitOp>(user))
          beside[*number] = namesBetween(op, user);
    NamedAttrList about(aboutOf(op)),
        reason(aboutOf(op).getAs<DictionaryAttr>("reason"));
    reason.erase(kNumber);
    about.set("reason", reason.getDictionary(module.getContext()));
    op.setAboutAttr(about.getDictionary(module.getContext()));
  });
  for (llvm::json::Value &value : rows) {
    llvm::json::Object &row = *value.getAsObject();
    std::optional<int64_t> number = row.getInteger(kNumber);
    row.erase(kNumber);
    if (auto cut = number ? parts.find(*number) : parts.end();
        cut != parts.end()) {
      row["parts"] = cut->second;
      if (!areCounted)
        row["count"] = row.getInteger("count").value_or(1) * cut->second;
      row["elements"] = row.getInteger("elements").value_or(0) / cut->second;
      for (StringRef key : {"wire_bytes", "seconds"})
        row[key] =
            row.getNumber(key).value_or(0) / static_cast<double>(cut->second);
    }
    if (auto sum = number ? waited.find(*number) : waited.end();
        sum != waited.end()) {
      row["seconds"] = sum->second.seconds / sum->second.count;
      row["exposed_seconds"] = sum->second.exposed / sum->second.count;
    }
    auto found = number ? beside.find(*number) : beside.end();
    if (found == beside.end())
      continue;
    llvm::json::Array names;
    for (const std::string &name : found->second)
      names.push_back(name);
    row["beside"] = std::move(names);
  }
}
