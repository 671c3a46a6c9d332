//===- CutStages.cpp - The parts of pipeline stages -----------------------===//

#include "dialects/NN/NN.h"
#include "mlir/IR/IRMapping.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/stages/Passes.h"
#include "passes/step/Flops.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <numeric>

namespace sheaf {
#define GEN_PASS_DEF_PIPECUTSTAGES
#include "passes/stages/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {

/// What a part of a stage does, in the order in which one device would.
enum class Kind { Forward, InputGradient, WeightGradient };

struct StagePart {
  int64_t stage = 0;
  Kind kind = Kind::Forward;
  bool operator<(const StagePart &other) const {
    return std::tuple(kind, order()) < std::tuple(other.kind, other.order());
  }
  bool operator==(const StagePart &other) const = default;

private:
  /// The backward goes from the last stage to the first.
  int64_t order() const { return kind == Kind::Forward ? stage : -stage; }
};

struct Options {
  int64_t stages;
  SmallVector<int64_t> layers;
  int64_t embedding;
  bool split;
};

/// Cuts the body of one entry.
class Cutter {
public:
  Cutter(func::FuncOp function, SymbolTable &symbols, const Options &options)
      : function(function), symbols(symbols), options(options) {}

  LogicalResult run();

private:
  func::FuncOp function;
  SymbolTable &symbols;
  const Options &options;
  nn::MicrobatchesOp loop;
  Block *body = nullptr;
  /// Values made of a part of the batch; sums over microbatches.
  DenseSet<Value> perMicrobatch, sums;
  /// Of each op on microbatch data that goes into a part.
  DenseMap<Operation *, StagePart> partOf;
  /// The ops of a part, and what it is made into.
  struct Made {
    SmallVector<Operation *> ops;
    SmallVector<Value> inputs, outputs;
    OwningOpRef<func::FuncOp> function;
    IRMapping mapping;
  };
  std::map<StagePart, Made> parts;

  func::FuncOp calleeOf(Operation *op) {
    auto call = dyn_cast<func::CallOp>(op);
    return call ? symbols.lookup<func::FuncOp>(call.getCallee())
                : func::FuncOp();
  }
  bool isLayer(Operation *op) {
    func::FuncOp callee = calleeOf(op);
    return callee && callee->hasAttr(nn::kLayerAttr) &&
           !callee->hasAttr(kOperandsAttr);
  }
  bool isBackward(Operation *op) {
    func::FuncOp callee = calleeOf(op);
    return callee && callee->hasAttr(kOperandsAttr);
  }
  static StringRef roleOf(Operation *op) {
    auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
    return role ? role.getValue() : StringRef();
  }
  Operation *producer(Value value) {
    Operation *op = value.getDefiningOp();
    return op && op->getBlock() == body ? op : nullptr;
  }
  const StagePart *find(Value value) {
    Operation *op = producer(value);
    auto it = op ? partOf.find(op) : partOf.end();
    return it == partOf.end() ? nullptr : &it->second;
  }

  void findValues();
  LogicalResult splitBackward();
  FailureOr<SmallVector<int64_t>> placeLayers(ArrayRef<Operation *> layers,
                                              double before, double behind);
  LogicalResult assignForward();
  LogicalResult assignBackward();
  FailureOr<std::pair<int64_t, func::CallOp>>
  stageOfBackward(Operation *backward);
  void separateSums();
  LogicalResult checkOrder();
  Value resolve(Made &made, Value value, OpBuilder &builder);
  LogicalResult makeParts();
  StringRef letterOf(Kind kind);
  std::string nameOf(const StagePart &part);
};

} // namespace

/// What is made of a microbatch's part of the batch, and what adds up over
/// microbatches. The number of the microbatch is known to all stages.
void Cutter::findValues() {
  for (BlockArgument argument : body->getArguments()) {
    unsigned i = argument.getArgNumber();
    if (!loop && function.getArgAttr(i, nn::kBatchAttr))
      perMicrobatch.insert(argument);
    if (loop && i > 0)
      (i <= loop.getSliced().size() ? perMicrobatch : sums).insert(argument);
  }
  for (Operation &op : body->without_terminator()) {
    auto reads = [&](const DenseSet<Value> &set) {
      return llvm::any_of(op.getOperands(),
                          [&](Value value) { return set.contains(value); });
    };
    if (reads(sums))
      sums.insert(op.result_begin(), op.result_end());
    else if (reads(perMicrobatch))
      perMicrobatch.insert(op.result_begin(), op.result_end());
  }
}

/// The call of a layer's backward as calls of its two halves.
LogicalResult Cutter::splitBackward() {
  for (auto call : llvm::make_early_inc_range(body->getOps<func::CallOp>())) {
    if (!isBackward(call))
      continue;
    func::FuncOp callee = calleeOf(call);
    FailureOr<LayerSet> set = readLayerSet(callee, symbols);
    if (failed(set))
      return failure();
    if (!set->inputGradient)
      return call.emitOpError("calls @")
             << call.getCallee()
             << ", which names no gradients of inputs and of weights to split "
                "it into, expected what nn-differentiate makes";
    auto operands = readLayerValues(callee, kOperandsAttr);
    auto results = readLayerValues(callee, kResultsAttr);
    if (failed(operands) || failed(results))
      return failure();
    SmallVector<std::pair<LayerValue, Value>> known;
    for (auto [what, value] : llvm::zip_equal(*operands, call.getOperands()))
      known.emplace_back(what, value);
    DenseMap<unsigned, Value> gradients;
    OpBuilder builder(call);
    for (auto [half, role] :
         {std::pair(set->inputGradient, StringRef("input_gradient")),
          std::pair(set->weightGradient, StringRef("weight_gradient"))}) {
      auto reads = readLayerValues(half, kOperandsAttr);
      auto makes = readLayerValues(half, kResultsAttr);
      if (failed(reads) || failed(makes))
        return failure();
      SmallVector<Value> values;
      for (LayerValue what : *reads) {
        auto *found = llvm::find_if(
            known, [&](const auto &entry) { return entry.first == what; });
        if (found == known.end())
          return call.emitOpError("has no operand '")
                 << what.str() << "', which @" << half.getName() << " reads";
        values.push_back(found->second);
      }
      if (makes->empty())
        continue;
      auto made = func::CallOp::create(builder, call.getLoc(), half, values);
      setRole(made, role);
      for (auto [what, value] : llvm::zip_equal(*makes, made.getResults())) {
        if (what.kind == LayerValue::Handed)
          known.emplace_back(what, value);
        else
          gradients[what.index] = value;
      }
    }
    for (auto [what, value] : llvm::zip_equal(*results, call.getResults()))
      value.replaceAllUsesWith(gradients.lookup(what.index));
    call.erase();
  }
  return success();
}

/// For each layer its stage.
FailureOr<SmallVector<int64_t>>
Cutter::placeLayers(ArrayRef<Operation *> layers, double before,
                    double behind) {
  int64_t count = layers.size(), stages = options.stages;
  SmallVector<int64_t> counts(options.layers);
  if (!counts.empty()) {
    int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t(0));
    if (static_cast<int64_t>(counts.size()) != stages || sum != count) {
      InFlightDiagnostic error = function.emitError("has ")
                                 << count << " layers, and stages are given [";
      llvm::interleaveComma(counts, error);
      return LogicalResult(
          error << "], " << sum << " in all, by --stage-layers, --stage-layout "
                << "or pipe.stage; expected " << count << " in all for "
                << stages << " stages");
    }
  } else {
    if (stages > count)
      return LogicalResult(function.emitError("has ")
                           << count << " layers, which " << stages
                           << " stages cannot share, expected at most " << count
                           << " stages, or how many layers each has");
    SmallVector<double> upTo{0};
    for (Operation *layer : layers)
      upTo.push_back(upTo.back() + countFlops(layer, symbols) + 1);
    auto cost = [&](int64_t begin, int64_t end) {
      return upTo[end] - upTo[begin] + (begin == 0 ? before : 0) +
             (end == count ? behind : 0);
    };
    // best[s][i]: the largest cost of s stages that have the first i layers.
    constexpr double none = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> best(stages + 1,
                                          std::vector<double>(count + 1, none));
    std::vector<std::vector<int64_t>> from(stages + 1,
                                           std::vector<int64_t>(count + 1, 0));
    best[0][0] = 0;
    for (int64_t s = 1; s <= stages; ++s)
      for (int64_t i = s; i <= count; ++i)
        for (int64_t j = s - 1; j < i; ++j)
          if (double most = std::max(best[s - 1][j], cost(j, i));
              most < best[s][i]) {
            best[s][i] = most;
            from[s][i] = j;
          }
    counts.resize(stages);
    for (int64_t s = stages, i = count; s > 0; i = from[s][i], --s)
      counts[s - 1] = i - from[s][i];
  }
  SmallVector<int64_t> stageOf;
  for (auto [stage, number] : llvm::enumerate(counts))
    stageOf.append(number, stage);
  return stageOf;
}

/// Elements are read and written; so many operations take as long.
static double elementCost(Operation *op) {
  double elements = 0;
  for (Value value : op->getResults())
    elements += cast<RankedTensorType>(value.getType()).getNumElements();
  for (Value value : op->getOperands())
    elements += cast<RankedTensorType>(value.getType()).getNumElements();
  return 8 * elements;
}

LogicalResult Cutter::assignForward() {
  SmallVector<Operation *> forward, layers;
  for (Operation &op : body->without_terminator()) {
    if (op.getNumResults() == 0 || !perMicrobatch.contains(op.getResult(0)))
      continue;
    bool isForward = !isBackward(&op) && !roleOf(&op).ends_with("_gradient") &&
                     llvm::none_of(op.getOperands(), [&](Value value) {
                       Operation *from = producer(value);
                       return from && perMicrobatch.contains(value) &&
                              !llvm::is_contained(forward, from);
                     });
    if (!isForward)
      continue;
    forward.push_back(&op);
    if (isLayer(&op))
      layers.push_back(&op);
  }
  DenseSet<Operation *> isForward(forward.begin(), forward.end()), behind,
      feeds;
  for (Operation *op : forward)
    if (llvm::any_of(op->getOperands(), [&](Value value) {
          Operation *from = producer(value);
          return from && (isLayer(from) || behind.contains(from));
        }))
      behind.insert(op);
  for (Operation *op : llvm::reverse(forward))
    if (llvm::any_of(op->getUsers(), [&](Operation *user) {
          return isForward.contains(user) &&
                 (isLayer(user) || feeds.contains(user));
        }))
      feeds.insert(op);
  double costBefore = 0, costBehind = 0;
  for (Operation *op : forward) {
    if (isLayer(op) || isRebuilt(op->getResult(0)))
      continue;
    double cost = countFlops(op, symbols) + elementCost(op);
    if (!feeds.contains(op))
      costBehind += cost;
    else if (!behind.contains(op))
      costBefore += cost;
  }
  if (layers.empty())
    return success();
  FailureOr<SmallVector<int64_t>> stageOf =
      placeLayers(layers, costBefore, costBehind);
  if (failed(stageOf))
    return failure();

  int64_t last = options.stages - 1;
  for (auto [layer, stage] : llvm::zip_equal(layers, *stageOf))
    partOf.try_emplace(layer, StagePart{stage, Kind::Forward});
  for (Operation *op : forward) {
    if (isLayer(op))
      continue;
    if (behind.contains(op) && !feeds.contains(op)) {
      partOf.try_emplace(op, StagePart{last, Kind::Forward});
    } else if (behind.contains(op)) {
      int64_t stage = 0;
      for (Value operand : op->getOperands())
        if (const StagePart *part = find(operand))
          stage = std::max(stage, part->stage);
      partOf.try_emplace(op, StagePart{stage, Kind::Forward});
    }
  }
  // What reads parameters and feeds layers is the embedding.
  if (options.embedding >= 0) {
    std::function<bool(Value)> isParameter = [&](Value value) {
      if (auto argument = dyn_cast<BlockArgument>(value))
        return argument.getOwner() == &function.front() &&
               function.getArgAttr(argument.getArgNumber(), nn::kParamAttr);
      Operation *from = value.getDefiningOp();
      return !perMicrobatch.contains(value) &&
             llvm::any_of(from->getOperands(), isParameter);
    };
    DenseSet<Operation *> embedding;
    for (Operation *op : forward) {
      if (partOf.contains(op) || !feeds.contains(op) ||
          llvm::none_of(op->getOperands(), [&](Value value) {
            Operation *from = producer(value);
            return isParameter(value) || (from && embedding.contains(from));
          }))
        continue;
      embedding.insert(op);
      partOf.try_emplace(op, StagePart{options.embedding, Kind::Forward});
    }
  }
  // What reads no layer goes where it is first wanted.
  for (Operation *op : llvm::reverse(forward)) {
    if (partOf.contains(op))
      continue;
    int64_t stage = options.stages;
    for (Operation *user : op->getUsers())
      if (auto it = partOf.find(user); it != partOf.end())
        stage = std::min(stage, it->second.stage);
    partOf.try_emplace(op,
                       StagePart{stage > last ? last : stage, Kind::Forward});
  }
  return success();
}

/// The stage of the layer whose gradient a call computes: that of the call of
/// the layer's forward with the values that it reads, which is the second (null
/// where the gradients of weights have another half before them).
FailureOr<std::pair<int64_t, func::CallOp>>
Cutter::stageOfBackward(Operation *backward) {
  func::FuncOp callee = calleeOf(backward);
  StringRef forward;
  if (auto name = callee->getAttrOfType<StringAttr>(kForwardAttr)) {
    forward = name.getValue();
  } else {
    // A half: its whole names both.
    for (auto other :
         function->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
      for (StringRef half : {kInputGradientAttr, kWeightGradientAttr})
        if (auto name = other->getAttrOfType<StringAttr>(half);
            name && name.getValue() == callee.getName())
          if (auto whole = other->getAttrOfType<StringAttr>(kForwardAttr))
            forward = whole.getValue();
  }
  auto reads = readLayerValues(callee, kOperandsAttr);
  if (failed(reads))
    return failure();
  // What the gradient of the inputs hands over says it, too.
  for (auto [what, operand] : llvm::zip_equal(*reads, backward->getOperands()))
    if (const StagePart *part = find(operand);
        part && what.kind == LayerValue::Handed)
      return std::pair(part->stage, func::CallOp());
  for (auto call : body->getOps<func::CallOp>()) {
    if (call.getCallee() != forward)
      continue;
    bool fits = true;
    for (auto [what, operand] :
         llvm::zip_equal(*reads, backward->getOperands())) {
      if (what.kind == LayerValue::Argument)
        fits &= what.index < call.getNumOperands() &&
                call.getOperand(what.index) == operand;
      else if (what.kind == LayerValue::Result)
        fits &= what.index < call.getNumResults() &&
                call.getResult(what.index) == operand;
      else if (what.kind == LayerValue::Kept)
        fits &= operand.getDefiningOp() == call;
    }
    if (fits)
      return std::pair(partOf.lookup(call).stage, call);
  }
  return LogicalResult(backward->emitOpError("calls @")
                       << callee.getName() << ", and no call of @" << forward
                       << " has the values that it reads");
}

LogicalResult Cutter::assignBackward() {
  Kind weights = options.split ? Kind::WeightGradient : Kind::InputGradient;
  // No gradient of a layer is behind these: the loss's own, and what is made of
  // values of the forward alone, which goes to whoever reads it first.
  DenseSet<Operation *> early;
  // The gradient of the embedding is made of gradients of activations, and no
  // layer is behind it.
  DenseSet<Operation *> leadsToLayer;
  DenseSet<Value> ofActivations;
  if (options.embedding >= 0)
    for (Operation &op : llvm::reverse(body->without_terminator()))
      if (isBackward(&op) || llvm::any_of(op.getUsers(), [&](Operation *user) {
            return leadsToLayer.contains(user);
          }))
        leadsToLayer.insert(&op);
  auto isOfActivation = [&](Value value) {
    return ofActivations.contains(value);
  };
  for (Operation &op : body->without_terminator()) {
    if (op.getNumResults() == 0 || !perMicrobatch.contains(op.getResult(0)) ||
        partOf.contains(&op))
      continue;
    Kind kind = roleOf(&op) == "input_gradient" ? Kind::InputGradient : weights;
    int64_t stage = options.stages;
    if (isBackward(&op)) {
      FailureOr<std::pair<int64_t, func::CallOp>> found = stageOfBackward(&op);
      if (failed(found))
        return failure();
      stage = found->first;
      if (options.embedding >= 0 && found->second) {
        auto results = readLayerValues(calleeOf(&op), kResultsAttr);
        if (failed(results))
          return failure();
        for (auto [what, value] : llvm::zip_equal(*results, op.getResults()))
          if (what.kind == LayerValue::Argument &&
              perMicrobatch.contains(found->second.getOperand(what.index)))
            ofActivations.insert(value);
      }
      // A half has the role of its ops; the whole goes with the inputs.
      if (calleeOf(&op)->hasAttr(kForwardAttr))
        kind = Kind::InputGradient;
    } else {
      int64_t latest = -1;
      for (Value operand : op.getOperands())
        if (const StagePart *part = find(operand)) {
          if (part->kind != Kind::Forward &&
              !early.contains(operand.getDefiningOp()))
            stage = std::min(stage, part->stage);
          latest = std::max(latest, part->stage);
        }
      if (isa<nn::AddOp>(op) && llvm::all_of(op.getOperands(), isOfActivation))
        ofActivations.insert(op.getResult(0));
      else if (llvm::any_of(op.getOperands(), isOfActivation) &&
               !leadsToLayer.contains(&op))
        stage = options.embedding;
      if (stage == options.stages) {
        early.insert(&op);
        stage = latest < 0 ? options.stages - 1 : latest;
      }
    }
    partOf.try_emplace(&op, StagePart{stage, kind});
  }
  for (Operation &op : llvm::reverse(body->without_terminator()))
    if (early.contains(&op))
      for (Operation *user : op.getUsers())
        if (auto it = partOf.find(user); it != partOf.end())
          partOf[&op].stage = std::max(partOf[&op].stage, it->second.stage);
  // What a gradient of an input needs is one.
  for (Operation &op : llvm::reverse(body->without_terminator())) {
    auto it = partOf.find(&op);
    if (it == partOf.end() || it->second.kind != Kind::WeightGradient)
      continue;
    if (llvm::any_of(op.getUsers(), [&](Operation *user) {
          auto other = partOf.find(user);
          return other != partOf.end() &&
                 other->second.kind == Kind::InputGradient;
        }))
      it->second.kind = Kind::InputGradient;
  }
  return success();
}

/// Gives each stage an accumulator of its own where one collects gradients of
/// several.
void Cutter::separateSums() {
  if (!loop)
    return;
  Operation *yield = body->getTerminator();
  unsigned first = 1 + loop.getSliced().size(), count = loop.getNumResults();
  struct Separate {
    unsigned accumulator;
    nn::AddOp root;
    std::map<int64_t, SmallVector<Value>> byStage;
  };
  std::vector<Separate> all;
  SmallVector<Operation *> dead;
  for (unsigned i = 0; i < count; ++i) {
    auto root = yield->getOperand(i).getDefiningOp<nn::AddOp>();
    Value accumulator = body->getArgument(first + i);
    if (!root || root->getBlock() != body || !root->hasOneUse() ||
        (root.getLhs() != accumulator && root.getRhs() != accumulator))
      continue;
    Value sum = root.getLhs() == accumulator ? root.getRhs() : root.getLhs();
    std::map<int64_t, SmallVector<Value>> byStage;
    SmallVector<Operation *> adds;
    std::function<bool(Value, std::optional<int64_t> &)> isOneStage =
        [&](Value value, std::optional<int64_t> &stage) {
          auto add = value.getDefiningOp<nn::AddOp>();
          if (add && partOf.contains(add) && add->hasOneUse() &&
              add.getLhs().getType() == add.getType() &&
              add.getRhs().getType() == add.getType())
            return isOneStage(add.getLhs(), stage) &&
                   isOneStage(add.getRhs(), stage);
          const StagePart *part = find(value);
          int64_t here = part ? part->stage : stage.value_or(0);
          if (stage && *stage != here)
            return false;
          stage = here;
          return true;
        };
    std::function<void(Value)> collect = [&](Value value) {
      std::optional<int64_t> stage;
      if (isOneStage(value, stage)) {
        byStage[*stage].push_back(value);
        return;
      }
      auto add = value.getDefiningOp<nn::AddOp>();
      adds.push_back(add);
      collect(add.getLhs());
      collect(add.getRhs());
    };
    collect(sum);
    if (byStage.size() < 2)
      continue;
    dead.push_back(root);
    llvm::append_range(dead, adds);
    all.push_back({i, root, std::move(byStage)});
  }
  if (all.empty())
    return;

  // One accumulator more for each further stage.
  SmallVector<Value> inits(loop.getInits()), yielded(yield->getOperands());
  SmallVector<Type> types(loop.getResultTypes());
  struct Sum {
    unsigned accumulator;
    SmallVector<unsigned> places;
  };
  SmallVector<Sum> results;
  OpBuilder builder(loop);
  for (Separate &separate : all) {
    Sum sum{separate.accumulator, {}};
    Attribute role = separate.root->getAttr(nn::kRoleAttr);
    for (auto &[stage, values] : separate.byStage) {
      bool isFirst = sum.places.empty();
      unsigned place = isFirst ? separate.accumulator : inits.size();
      sum.places.push_back(place);
      BlockArgument accumulator;
      if (isFirst) {
        accumulator = body->getArgument(first + place);
      } else {
        inits.push_back(inits[separate.accumulator]);
        types.push_back(types[separate.accumulator]);
        yielded.push_back(Value());
        accumulator = body->addArgument(types.back(), separate.root.getLoc());
      }
      builder.setInsertionPoint(yield);
      Value total = accumulator;
      for (Value value : values) {
        auto add =
            nn::AddOp::create(builder, separate.root.getLoc(), total, value);
        if (role)
          add->setAttr(nn::kRoleAttr, role);
        total = add;
      }
      yielded[place] = total;
    }
    results.push_back(sum);
  }
  yield->setOperands(yielded);
  for (Operation *op : dead) {
    partOf.erase(op);
    op->erase();
  }
  builder.setInsertionPoint(loop);
  auto next = nn::MicrobatchesOp::create(
      builder, loop.getLoc(), types, loop.getCount(), loop.getSliced(), inits);
  next->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  next.getBody().takeBody(loop.getBody());
  builder.setInsertionPointAfter(next);
  SmallVector<Value> replaced(next->result_begin(),
                              next->result_begin() + count);
  for (const Sum &sum : results) {
    Value total = next->getResult(sum.places[0]);
    for (unsigned place : ArrayRef<unsigned>(sum.places).drop_front()) {
      auto add = nn::AddOp::create(builder, loop.getLoc(), total,
                                   next->getResult(place));
      setRole(add, "weight_gradient");
      total = add;
    }
    replaced[sum.accumulator] = total;
  }
  loop->replaceAllUsesWith(replaced);
  // The sums read the new loop themselves.
  loop.erase();
  loop = next;
}

LogicalResult Cutter::checkOrder() {
  for (Operation &op : body->without_terminator()) {
    auto it = partOf.find(&op);
    if (it == partOf.end())
      continue;
    for (Value operand : op.getOperands()) {
      const StagePart *from = find(operand);
      if (!from || !(it->second < *from))
        continue;
      InFlightDiagnostic error = op.emitOpError("is in ")
                                 << nameOf(it->second)
                                 << " and reads a value of " << nameOf(*from)
                                 << ", which runs later; a value goes from a "
                                    "stage to itself and to later ones";
      error.attachNote(operand.getLoc()) << "the value is computed here";
      return error;
    }
  }
  return success();
}

StringRef Cutter::letterOf(Kind kind) {
  switch (kind) {
  case Kind::Forward:
    return "F";
  case Kind::InputGradient:
    return options.split ? "I" : "B";
  case Kind::WeightGradient:
    return "W";
  }
  llvm_unreachable("all kinds are handled");
}

std::string Cutter::nameOf(const StagePart &part) {
  StringRef what = part.kind == Kind::Forward          ? "forward"
                   : part.kind == Kind::WeightGradient ? "weight_gradient"
                   : options.split                     ? "input_gradient"
                                                       : "backward";
  // Entries with a backward share their parts.
  std::string prefix = loop ? "" : (function.getName() + "_").str();
  return prefix + "stage" + std::to_string(part.stage) + "_" + what.str();
}

/// What `value` is in the function of a part: made again there, or an operand.
Value Cutter::resolve(Made &made, Value value, OpBuilder &builder) {
  if (Value known = made.mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  bool isHere = op && op->getBlock() == body;
  bool again =
      op && (isHere ? !perMicrobatch.contains(value) || isRebuilt(value)
                    : isa<nn::ConstantOp, nn::IotaOp>(op));
  if (again) {
    for (Value operand : op->getOperands())
      resolve(made, operand, builder);
    builder.clone(*op, made.mapping);
    return made.mapping.lookup(value);
  }
  made.inputs.push_back(value);
  func::FuncOp target = *made.function;
  Value argument = target.front().addArgument(value.getType(), value.getLoc());
  made.mapping.map(value, argument);
  return argument;
}

LogicalResult Cutter::makeParts() {
  for (Operation &op : body->without_terminator())
    if (auto it = partOf.find(&op); it != partOf.end())
      parts[it->second].ops.push_back(&op);
  MLIRContext *context = function.getContext();
  for (auto &[part, made] : parts) {
    made.function = func::FuncOp::create(function.getLoc(), nameOf(part),
                                         FunctionType::get(context, {}, {}));
    func::FuncOp target = *made.function;
    target.setPrivate();
    target.setNoInline(true);
    OpBuilder builder(context);
    Block *block = builder.createBlock(&target.getBody());
    target->setAttr(kStageAttr, builder.getI64IntegerAttr(part.stage));
    target->setAttr(kPartAttr, builder.getStringAttr(letterOf(part.kind)));
    builder.setInsertionPointToEnd(block);
    for (Operation *op : made.ops) {
      // Made again already by an op that moves it?
      if (llvm::any_of(op->getResults(),
                       [&mapping = made.mapping](Value value) {
                         return mapping.contains(value);
                       }))
        continue;
      for (Value operand : op->getOperands())
        resolve(made, operand, builder);
      builder.clone(*op, made.mapping);
    }
  }
  // What others read.
  auto addOutput = [&](Value value) {
    const StagePart *part = find(value);
    if (!part)
      return;
    SmallVector<Value> &outputs = parts.at(*part).outputs;
    if (!llvm::is_contained(outputs, value))
      outputs.push_back(value);
  };
  for (auto &[part, made] : parts)
    llvm::for_each(made.inputs, addOutput);
  for (Operation &op : *body)
    if (!partOf.contains(&op))
      llvm::for_each(op.getOperands(), addOutput);

  OpBuilder builder = OpBuilder::atBlockBegin(body);
  IRMapping mapping;
  for (auto &[part, made] : parts) {
    // In the order in which they are computed, whoever reads them first.
    llvm::sort(made.outputs, [](Value a, Value b) {
      auto x = cast<OpResult>(a), y = cast<OpResult>(b);
      if (x.getOwner() != y.getOwner())
        return x.getOwner()->isBeforeInBlock(y.getOwner());
      return x.getResultNumber() < y.getResultNumber();
    });
    func::FuncOp target = *made.function;
    OpBuilder inner = OpBuilder::atBlockEnd(&target.front());
    SmallVector<Value> returned;
    for (Value value : made.outputs)
      returned.push_back(made.mapping.lookup(value));
    func::ReturnOp::create(inner, function.getLoc(), returned);
    target.setFunctionType(FunctionType::get(context,
                                             target.front().getArgumentTypes(),
                                             ValueRange(returned).getTypes()));
    if (made.outputs.empty())
      continue;
    // Entries that compute the same share it.
    auto known = symbols.lookup<func::FuncOp>(target.getName());
    if (known && known.getFunctionType() == target.getFunctionType() &&
        known->hasAttr(kPartAttr) &&
        OperationEquivalence::isRegionEquivalentTo(
            &known.getBody(), &target.getBody(),
            OperationEquivalence::IgnoreLocations)) {
      target = known;
    } else {
      symbols.insert(made.function.release(), function->getIterator());
    }
    SmallVector<Value> operands;
    for (Value value : made.inputs)
      operands.push_back(mapping.lookupOrDefault(value));
    auto call =
        func::CallOp::create(builder, function.getLoc(), target, operands);
    setRole(call, part.kind == Kind::Forward          ? "forward"
                  : part.kind == Kind::WeightGradient ? "weight_gradient"
                                                      : "input_gradient");
    mapping.map(made.outputs, call.getResults());
  }
  for (Operation &op : *body)
    if (!partOf.contains(&op))
      for (OpOperand &operand : op.getOpOperands())
        operand.set(mapping.lookupOrDefault(operand.get()));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body)))
    if (partOf.contains(&op)) {
      op.dropAllUses();
      op.erase();
    }
  eraseUnused(*body);
  return success();
}

LogicalResult Cutter::run() {
  for (auto found : function.getOps<nn::MicrobatchesOp>()) {
    if (loop)
      return found.emitOpError("is the second loop over microbatches of @")
             << function.getName() << ", expected one";
    loop = found;
  }
  body = loop ? &loop.getBody().front() : &function.front();
  if (llvm::none_of(*body, [&](Operation &op) { return isLayer(&op); }))
    return success();
  if (!loop &&
      llvm::any_of(*body, [&](Operation &op) { return isBackward(&op); }))
    return function.emitError("@")
           << function.getName()
           << " has a backward outside of nn.microbatches, expected "
              "nn-accumulate{loop=true} before stages are cut";
  if (options.split && failed(splitBackward()))
    return failure();
  findValues();
  if (failed(assignForward()) || failed(assignBackward()))
    return failure();
  separateSums();
  if (failed(checkOrder()))
    return failure();
  return makeParts();
}

namespace {
struct PipeCutStages : sheaf::impl::PipeCutStagesBase<PipeCutStages> {
  using PipeCutStagesBase::PipeCutStagesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(nn::refuseRecursion(module)))
      return signalPassFailure();
    if (stages < 1) {
      emitError(module.getLoc()) << "pipe-cut-stages: option 'stages' is "
                                 << int64_t(stages) << ", expected at least 1";
      return signalPassFailure();
    }
    if (llvm::any_of(layers, [](int64_t count) { return count < 0; })) {
      emitError(module.getLoc())
          << "pipe-cut-stages: option 'layers' has a number below 0";
      return signalPassFailure();
    }
    if (embedding >= stages) {
      emitError(module.getLoc())
          << "pipe-cut-stages: option 'embedding' is " << int64_t(embedding)
          << ", expected a stage below " << int64_t(stages);
      return signalPassFailure();
    }
    Options options{stages, SmallVector<int64_t>(layers.begin(), layers.end()),
                    embedding, split};
    SymbolTable symbols(module);
    for (func::FuncOp function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (function.isPublic() && !function.isDeclaration() &&
          failed(Cutter(function, symbols, options).run()))
        return signalPassFailure();
  }
};
} // namespace
