//===- MakePrograms.cpp - What each place along the pipeline runs ---------===//

#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/pipeline/schedule/Schedule.h"
#include "passes/pipeline/schedule/Text.h"
#include "passes/stages/Describe.h"
#include "passes/stages/Join.h"
#include "passes/stages/Passes.h"
#include "passes/stages/Plan.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include <map>
#include <set>

namespace sheaf {
#define GEN_PASS_DEF_PIPEMAKEPROGRAMS
#include "passes/stages/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using schedule::Action;
using schedule::ActionKind;
using schedule::Schedule;

namespace {

/// Places along the pipeline's axis.
using Places = llvm::SmallBitVector;

/// The axis `pp`: how many places it has, and by how much the number of a place
/// in the mesh grows with one step along it.
struct Axis {
  int64_t size, stride;
};

schedule::Part partOf(StringRef letter) {
  return letter == "F"   ? schedule::Part::Forward
         : letter == "I" ? schedule::Part::InputGradient
         : letter == "W" ? schedule::Part::WeightGradient
                         : schedule::Part::Backward;
}

/// What an argument or result of an entry is, as (kind, name); the same for the
/// argument and the result that updates it. Empty for what every rank may have.
std::string bufferOf(Attribute attr) {
  auto pair = dyn_cast_or_null<ArrayAttr>(attr);
  if (!pair || pair.size() != 2 || !isa<StringAttr>(pair[1]))
    return "";
  StringRef name = cast<StringAttr>(pair[1]).getValue();
  // The factor of a moment is where that is.
  auto [kind, parameter] = name.split(':');
  if (pair[0] == StringAttr::get(pair.getContext(), "scaling") &&
      llvm::is_contained({"moment1", "moment2", "momentum"}, kind))
    name = parameter;
  return name.str();
}

/// The parameter that an argument is, or belongs to.
std::string parameterOf(func::FuncOp function, unsigned i) {
  if (auto param = function.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr))
    return param.getName().getValue().str();
  return bufferOf(function.getArgAttr(i, nn::kStateAttr));
}

/// One entry, as it is for all places.
struct Entry {
  func::FuncOp function;
  nn::MicrobatchesOp loop;
  /// Where the calls of stage parts are.
  Block *body = nullptr;
  std::map<std::pair<int64_t, schedule::Part>, func::CallOp> calls;
  DenseMap<Operation *, std::pair<int64_t, schedule::Part>> partOfCall;
};

class Programs {
public:
  Programs(ModuleOp module, Axis axis)
      : module(module), axis(axis), symbols(module), joiner(symbols) {}
  LogicalResult run(const stages::ScheduleOptions &options);
  /// Changes nothing.
  FailureOr<stages::StepPlan> plan(const stages::ScheduleOptions &options);

private:
  ModuleOp module;
  Axis axis;
  SymbolTable symbols;
  /// Entries share what it makes.
  stages::Joiner joiner;
  SmallVector<Entry> entries;
  Schedule schedule;
  /// Where it was read from; empty for what was made.
  std::string file;
  /// The places that have a parameter, its gradient and its state.
  std::map<std::string, Places> holders;

  LogicalResult prepare(const stages::ScheduleOptions &options);
  LogicalResult findCalls();
  LogicalResult findHolders();
  /// The one that a schedule is made for: @step, else one with a loop.
  Entry *mainEntry();
};

/// What several places know parts of, and is put together behind the last
/// action: the sum of `leaves`, each known where `at` says, or one value that
/// `at` knows.
struct Joined {
  Value value;
  SmallVector<std::pair<Value, int64_t>> leaves;
  Places wanted;
  bool isSum = false;
};

/// The functions of one entry.
class EntryPrograms {
public:
  EntryPrograms(Entry &entry, const Schedule &schedule, Axis axis,
                const std::map<std::string, Places> &holders, StringRef file,
                SymbolTable &symbols, stages::Joiner &joiner)
      : entry(entry), schedule(schedule), axis(axis), holders(holders),
        file(file), symbols(symbols), joiner(joiner), function(entry.function),
        all(axis.size, true) {}

  LogicalResult run();
  /// What the stages cost and hand to each other. Reads of the schedule how
  /// many stages there are.
  schedule::Pipeline describe();
  /// Behind that: the bytes of what each stage adds up over microbatches, and
  /// the types of the values.
  std::vector<int64_t> sumBytes;
  std::vector<Type> types() {
    std::vector<Type> all;
    for (Value value : values)
      all.push_back(value.getType());
    return all;
  }
  /// The schedule with its transfers.
  FailureOr<Schedule> lower();

private:
  Entry &entry;
  const Schedule &schedule;
  Axis axis;
  const std::map<std::string, Places> &holders;
  /// Where the schedule was read from; empty for a recipe.
  StringRef file;
  SymbolTable &symbols;
  stages::Joiner &joiner;
  func::FuncOp function;
  const Places all;
  /// Of stages whose backward is in halves, both in one.
  std::map<int64_t, stages::Joined> wholes;
  /// The text of the action that runs a task, and of that which first reads a
  /// transfer: by value, microbatch and place.
  std::map<schedule::Task, std::string> actionOf;
  std::map<std::tuple<int32_t, int32_t, int32_t>, std::string> readerOf;
  schedule::Pipeline pipeline;
  /// The value of each index into `pipeline.values`.
  SmallVector<Value> values;
  DenseMap<Value, Places> known;
  /// For each accumulator of the loop the calls that its next value needs.
  SmallVector<SmallVector<Operation *>> contributions;
  SmallVector<Joined> joined;

  Places placesOf(Value value);
  Places holdersOf(StringRef parameter);
  void findEdges();
  LogicalResult findContributions();
  void nameActions(const Schedule &lowered);
  /// Both halves of a stage's backward; no function where it has not both, or
  /// the second reads the first by other ops.
  const stages::Joined &wholeOf(int64_t stage);
  std::string edgeName(int32_t id, int32_t microbatch, int64_t from,
                       int64_t to);
  LogicalResult findJoined();
  /// The index of the value that an action moves: an action counts those of one
  /// producer.
  int32_t valueOf(const Action &action) {
    int32_t number = action.value;
    for (auto [i, value] : llvm::enumerate(pipeline.values))
      if (value.part == action.task.part && value.stage == action.task.stage &&
          number-- == 0)
        return static_cast<int32_t>(i);
    return -1;
  }
  void callsBehind(Value value, llvm::SetVector<Value> &results);
  bool isStageCall(Operation *op) {
    return op && entry.partOfCall.contains(op);
  }
  int64_t placeOfCall(Operation *op) {
    return schedule.rankOf[entry.partOfCall.lookup(op).first];
  }

  friend class Program;
};

/// The function of one place.
class Program {
public:
  Program(EntryPrograms &all, int64_t place)
      : all(all), place(place), builder(all.function.getContext()) {}
  LogicalResult run(ArrayRef<Action> line);

private:
  EntryPrograms &all;
  int64_t place;
  OpBuilder builder;
  func::FuncOp made;
  /// The calls of the body that have been made, by microbatch.
  std::set<std::pair<Operation *, int64_t>> done;
  /// Values outside of the loop, and those of a microbatch.
  DenseMap<Value, Value> outer;
  std::map<std::pair<void *, int64_t>, Value> inner;
  SmallVector<Value> accumulators;
  /// What an action read that is not here.
  Value missing;
  /// Transfers under way, by value and microbatch (and peer, of sends).
  std::map<std::tuple<int32_t, int32_t, int32_t>, std::pair<Value, Value>>
      sends;
  std::map<std::pair<int32_t, int32_t>, std::pair<Value, Value>> receives;

  Value get(Value value, int64_t microbatch);
  Value getOuter(Value value);
  Value copyOf(Operation *op, Value value, function_ref<Value(Value)> operand);
  void call(const schedule::Task &task, StringAttr action);
  void makeCall(func::FuncOp function, func::CallOp like,
                ArrayRef<Value> operands, ArrayRef<Value> results,
                int64_t microbatch, StringAttr action);
  void addUp(Operation *made, int64_t microbatch);
  LogicalResult act(const Action &action);
  DictionaryAttr aboutEdge(const Action &action, int32_t id);
  void join(const Joined &joined);
  exec::TransferOp collective(Value input, exec::Transfer kind, int64_t root,
                              StringRef purpose);
  Value zero(Type type) {
    return nn::ConstantOp::create(builder, all.function.getLoc(),
                                  cast<RankedTensorType>(type), 0.0);
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// What is where
//===----------------------------------------------------------------------===//

/// The parameters that the operands of a call of a stage part are made of.
static std::set<std::string> parametersOf(Entry &entry, func::CallOp call);

/// The results of stage parts that a value is made of by other ops of the body.
void EntryPrograms::callsBehind(Value value, llvm::SetVector<Value> &results) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != entry.body)
    return;
  if (isStageCall(op)) {
    results.insert(value);
    return;
  }
  for (Value operand : op->getOperands())
    callsBehind(operand, results);
}

void EntryPrograms::findEdges() {
  llvm::MapVector<Value, std::vector<schedule::Use>> uses;
  for (auto &[key, call] : entry.calls) {
    llvm::SetVector<Value> results;
    for (Value operand : call->getOperands())
      callsBehind(operand, results);
    for (Value result : results) {
      // B reads what I and W read.
      schedule::Part part = key.second == schedule::Part::Backward
                                ? schedule::Part::InputGradient
                                : key.second;
      uses[result].push_back({part, static_cast<int32_t>(key.first)});
    }
  }
  for (auto &[value, list] : uses) {
    auto [stage, part] = entry.partOfCall.lookup(value.getDefiningOp());
    schedule::Value edge;
    edge.part =
        part == schedule::Part::Backward ? schedule::Part::InputGradient : part;
    edge.stage = static_cast<int32_t>(stage);
    edge.bytes = stages::bytesOf(value.getType());
    edge.uses = list;
    pipeline.values.push_back(edge);
    values.push_back(value);
  }
  pipeline.stages.resize(schedule.stages());
}

schedule::Pipeline EntryPrograms::describe() {
  findEdges();
  schedule::Pipeline made = pipeline;
  for (schedule::Stage &stage : made.stages)
    stage.forward = stage.inputGradient = stage.weightGradient = 0;
  stages::Costs costs(symbols);
  std::map<std::string, std::set<int64_t>> readers;
  for (auto &[key, call] : entry.calls) {
    schedule::Stage &stage = made.stages[key.first];
    auto part = symbols.lookup<func::FuncOp>(call.getCallee());
    double seconds = costs.seconds(part);
    (key.second == schedule::Part::Forward          ? stage.forward
     : key.second == schedule::Part::WeightGradient ? stage.weightGradient
                                                    : stage.inputGradient) =
        seconds;
    int64_t temporaries = costs.temporaries(part);
    stage.partBytes[static_cast<size_t>(key.second)] = temporaries;
    if (key.second != schedule::Part::Forward) {
      int64_t &whole =
          stage.partBytes[static_cast<size_t>(schedule::Part::Backward)];
      whole = std::max(whole, temporaries);
    }
    for (const std::string &parameter : parametersOf(entry, call))
      readers[parameter].insert(key.first);
  }
  // Weights with their state, and the sums of their gradients.
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    for (int64_t stage : readers[parameterOf(function, i)])
      made.stages[stage].residentBytes +=
          stages::bytesOf(function.getArgumentTypes()[i]);
  if (entry.loop)
    for (auto [i, value] :
         llvm::enumerate(entry.body->getTerminator()->getOperands())) {
      llvm::SetVector<Value> results;
      callsBehind(value, results);
      if (results.empty())
        continue;
      int64_t stage = entry.partOfCall.lookup(results[0].getDefiningOp()).first;
      made.stages[stage].residentBytes += stages::bytesOf(value.getType());
      sumBytes.resize(made.stages.size());
      sumBytes[stage] += stages::bytesOf(value.getType());
    }
  return made;
}

LogicalResult EntryPrograms::findContributions() {
  if (!entry.loop)
    return success();
  Operation *yield = entry.body->getTerminator();
  for (Value value : yield->getOperands()) {
    llvm::SetVector<Value> results;
    callsBehind(value, results);
    llvm::SetVector<Operation *> calls;
    for (Value result : results)
      calls.insert(result.getDefiningOp());
    for (Operation *call : calls)
      if (placeOfCall(call) != placeOfCall(calls[0]))
        return call->emitOpError(
            "and another part, which runs on another rank, add to one "
            "accumulator; expected one for each stage, as "
            "pipe-cut-stages makes them");
    contributions.push_back(calls.takeVector());
  }
  return success();
}

Places EntryPrograms::holdersOf(StringRef parameter) {
  auto it = holders.find(parameter.str());
  return it == holders.end() ? all : it->second;
}

/// The places that can compute a value outside of the loop.
Places EntryPrograms::placesOf(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  Places places = all;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    std::string parameter = parameterOf(function, argument.getArgNumber());
    if (!parameter.empty())
      places = holdersOf(parameter);
  } else if (Operation *op = value.getDefiningOp();
             entry.loop && op == entry.loop.getOperation()) {
    auto &calls = contributions[cast<OpResult>(value).getResultNumber()];
    if (!calls.empty()) {
      places.reset();
      places.set(placeOfCall(calls[0]));
    }
  } else if (isStageCall(op)) {
    places.reset();
    places.set(placeOfCall(op));
  } else {
    for (Value operand : op->getOperands())
      places &= placesOf(operand);
  }
  return known[value] = places;
}

/// What has to be put together, in the order of the entry's ops.
LogicalResult EntryPrograms::findJoined() {
  Block &block = function.front();
  auto isScalar = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getRank() == 0;
  };
  auto isSum = [](Operation *op) {
    auto add = dyn_cast<nn::AddOp>(op);
    return add && add.getLhs().getType() == add.getType() &&
           add.getRhs().getType() == add.getType();
  };
  auto tell = [&](Value value) {
    Places places = placesOf(value);
    if (places.none() || places.all() || !isScalar(value))
      return;
    joined.push_back({value, {{value, places.find_first()}}, all, false});
    known[value] = all;
  };
  // Scalars that are results are known everywhere.
  DenseSet<Value> everywhere;
  Operation *end = block.getTerminator();
  auto result = StringAttr::get(function.getContext(), "result");
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (auto what = function.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr);
        what && what.size() == 2 && what[0] == result)
      everywhere.insert(value);
  auto tellResults = [&](Operation &op) {
    for (Value value : op.getResults())
      if (everywhere.contains(value))
        tell(value);
  };

  // An op whose operands no place has all of is a sum over places, or reads
  // scalars that are told to all.
  DenseSet<Operation *> inSum;
  for (Operation &op : block.without_terminator()) {
    if (isa<nn::MicrobatchesOp>(op) || isStageCall(&op) ||
        op.getNumResults() == 0 || placesOf(op.getResult(0)).any()) {
      tellResults(op);
      continue;
    }
    if (!isSum(&op)) {
      llvm::for_each(op.getOperands(), tell);
      for (Value value : op.getResults())
        known.erase(value);
      if (placesOf(op.getResult(0)).any()) {
        tellResults(op);
        continue;
      }
      InFlightDiagnostic error =
          op.emitOpError("reads values of several stages that no rank has "
                         "together, expected a sum");
      for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
        Places places = placesOf(operand);
        if (places.all())
          continue;
        Diagnostic &note = error.attachNote(operand.getLoc());
        note << "operand " << i << " is known along pp at";
        for (int place : places.set_bits())
          note << " " << place;
      }
      return error;
    }
    // Its user reads a value of nowhere, so it is a sum, too.
    if (op.hasOneUse() && op.user_begin()->getBlock() == &block &&
        isSum(*op.user_begin())) {
      inSum.insert(&op);
      continue;
    }
    Joined sum{op.getResult(0), {}, all, true};
    Places places(axis.size);
    std::function<void(Value)> collect = [&](Value value) {
      Operation *from = value.getDefiningOp();
      if (from && (from == &op || inSum.contains(from))) {
        for (Value operand : from->getOperands())
          collect(operand);
        return;
      }
      Places at = placesOf(value);
      sum.leaves.emplace_back(value, at.find_first());
      places |= at;
    };
    collect(op.getResult(0));
    if (!isScalar(op.getResult(0)))
      sum.wanted = places;
    known[op.getResult(0)] = sum.wanted;
    joined.push_back(std::move(sum));
  }
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (placesOf(value).none())
      return function.emitError("result ")
             << i << " needs values of several stages that no rank has";
  return success();
}

//===----------------------------------------------------------------------===//
// The program of a place
//===----------------------------------------------------------------------===//

Value Program::copyOf(Operation *op, Value value,
                      function_ref<Value(Value)> operand) {
  IRMapping mapping;
  for (Value input : op->getOperands())
    mapping.map(input, operand(input));
  Operation *copy = builder.clone(*op, mapping);
  return copy->getResult(cast<OpResult>(value).getResultNumber());
}

/// A value outside of the loop.
Value Program::getOuter(Value value) {
  if (Value known = outer.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (isa_and_present<nn::MicrobatchesOp>(op))
    return accumulators[cast<OpResult>(value).getResultNumber()];
  assert(op && !all.isStageCall(op) && "a value of another place");
  Value made =
      copyOf(op, value, [&](Value operand) { return getOuter(operand); });
  auto results = cast<OpResult>(made).getOwner()->getResults();
  for (auto [from, to] : llvm::zip_equal(op->getResults(), results))
    outer[from] = to;
  return outer.lookup(value);
}

/// A value of the body for one microbatch.
Value Program::get(Value value, int64_t microbatch) {
  Block *body = all.entry.body;
  Operation *op = value.getDefiningOp();
  bool isInside = value.getParentBlock() == body;
  if (!isInside || (!all.entry.loop && !op))
    return getOuter(value);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    nn::MicrobatchesOp loop = all.entry.loop;
    unsigned i = argument.getArgNumber(), slices = loop.getSliced().size();
    if (i > slices)
      return accumulators[i - 1 - slices];
  }
  Value &known = inner[{value.getAsOpaquePointer(), microbatch}];
  if (known)
    return known;
  Location loc = value.getLoc();
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto type = cast<RankedTensorType>(value.getType());
    unsigned i = argument.getArgNumber();
    if (i == 0)
      return known = nn::ConstantOp::create(builder, loc, type,
                                            static_cast<double>(microbatch));
    Value whole = getOuter(all.entry.loop.getSliced()[i - 1]);
    SmallVector<int64_t> offsets(type.getRank(), 0);
    offsets[0] = microbatch * type.getDimSize(0);
    return known = nn::SliceOp::create(
               builder, loc, type, whole, builder.getDenseI64ArrayAttr(offsets),
               builder.getDenseI64ArrayAttr(type.getShape()),
               DenseI64ArrayAttr());
  }
  if (all.isStageCall(op)) {
    // Told behind the action.
    missing = value;
    return known = zero(value.getType());
  }
  Value made = copyOf(op, value,
                      [&](Value operand) { return get(operand, microbatch); });
  auto results = cast<OpResult>(made).getOwner()->getResults();
  for (auto [from, to] : llvm::zip_equal(op->getResults(), results))
    inner[{from.getAsOpaquePointer(), microbatch}] = to;
  return made;
}

/// Adds to the accumulators what a call was the last to make of their next
/// values.
void Program::addUp(Operation *made, int64_t microbatch) {
  if (!all.entry.loop)
    return;
  Operation *yield = all.entry.body->getTerminator();
  for (auto [i, calls] : llvm::enumerate(all.contributions))
    if (llvm::is_contained(calls, made) &&
        llvm::all_of(calls, [&](Operation *other) {
          return done.count({other, microbatch}) > 0;
        }))
      accumulators[i] = get(yield->getOperand(i), microbatch);
}

/// Calls a stage part with the values of a microbatch.
void Program::makeCall(func::FuncOp function, func::CallOp like,
                       ArrayRef<Value> operands, ArrayRef<Value> results,
                       int64_t microbatch, StringAttr action) {
  SmallVector<Value> read;
  for (Value operand : operands)
    read.push_back(get(operand, microbatch));
  auto made = func::CallOp::create(builder, like.getLoc(), function, read);
  made->setDiscardableAttrs(like->getDiscardableAttrDictionary());
  made->removeAttr(nn::kAccumulatesAttr);
  if (Attribute pairs = function->getAttr(nn::kAccumulatesAttr))
    made->setAttr(nn::kAccumulatesAttr, pairs);
  made->setAttr(exec::kActionAttr, action);
  for (auto [result, value] : llvm::zip_equal(results, made.getResults()))
    inner[{result.getAsOpaquePointer(), microbatch}] = value;
}

/// Runs a part; `action` is what the schedule calls it.
void Program::call(const schedule::Task &task, StringAttr action) {
  auto find = [&](schedule::Part part) {
    auto it = all.entry.calls.find({task.stage, part});
    return it == all.entry.calls.end() ? func::CallOp() : it->second;
  };
  SmallVector<func::CallOp, 2> calls;
  if (func::CallOp found = find(task.part)) {
    calls.push_back(found);
  } else if (task.part == schedule::Part::Backward) {
    func::CallOp input = find(schedule::Part::InputGradient),
                 weights = find(schedule::Part::WeightGradient);
    if (const stages::Joined &whole = all.wholeOf(task.stage); whole.function) {
      makeCall(whole.function, input, whole.operands, whole.results,
               task.microbatch, action);
      for (Operation *half : {input.getOperation(), weights.getOperation()})
        done.insert({half, task.microbatch});
      for (Operation *half : {input.getOperation(), weights.getOperation()})
        addUp(half, task.microbatch);
      return;
    }
    for (func::CallOp half : {input, weights})
      if (half)
        calls.push_back(half);
  }
  // A stage may have nothing to do.
  for (func::CallOp from : calls) {
    makeCall(all.symbols.lookup<func::FuncOp>(from.getCallee()), from,
             SmallVector<Value>(from.getOperands()),
             SmallVector<Value>(from.getResults()), task.microbatch, action);
    done.insert({from.getOperation(), task.microbatch});
    addUp(from, task.microbatch);
  }
}

DictionaryAttr Program::aboutEdge(const Action &action, int32_t id) {
  bool sends = action.kind == ActionKind::Send;
  int64_t from = sends ? place : action.peer, to = sends ? action.peer : place;
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("axes", builder.getStrArrayAttr({"pp"})),
       builder.getNamedAttr(
           "name", builder.getStringAttr(
                       all.edgeName(id, action.task.microbatch, from, to)))});
}

LogicalResult Program::act(const Action &action) {
  Axis axis = all.axis;
  int32_t id = action.isCompute() ? -1 : all.valueOf(action);
  auto key = std::make_tuple(id, action.task.microbatch, action.peer);
  auto landing = std::make_pair(id, action.task.microbatch);
  switch (action.kind) {
  case ActionKind::Compute:
  case ActionKind::FusedPair: {
    StringAttr name = builder.getStringAttr(action.str());
    call(action.task, name);
    if (action.kind == ActionKind::FusedPair)
      call(action.other, name);
    return success();
  }
  case ActionKind::Send: {
    Value value = get(all.values[id], action.task.microbatch);
    Value handle =
        exec::SendOp::create(builder, value.getLoc(), value, action.peer,
                             axis.size, axis.stride, aboutEdge(action, id));
    sends[key] = {handle, value};
    return success();
  }
  case ActionKind::Receive: {
    Value value = all.values[id];
    auto made = exec::ReceiveOp::create(builder, value.getLoc(),
                                        value.getType(), action.peer, axis.size,
                                        axis.stride, aboutEdge(action, id));
    receives[landing] = {made.getHandle(), made.getResult()};
    return success();
  }
  case ActionKind::WaitSend: {
    auto [handle, value] = sends.at(key);
    exec::WaitSendOp::create(builder, value.getLoc(), handle, value);
    return success();
  }
  case ActionKind::WaitReceive: {
    auto [handle, value] = receives.at(landing);
    inner[{all.values[id].getAsOpaquePointer(), action.task.microbatch}] =
        exec::WaitReceiveOp::create(builder, value.getLoc(), value.getType(),
                                    handle, value);
    return success();
  }
  case ActionKind::Free: // A value ends with its last use.
  case ActionKind::GatherWeights:
  case ActionKind::FreeWeights:
  case ActionKind::ReduceGradients:
  case ActionKind::ReduceNorm:
  case ActionKind::Update:
    return success();
  }
  llvm_unreachable("all actions are handled");
}

exec::TransferOp Program::collective(Value input, exec::Transfer kind,
                                     int64_t root, StringRef purpose) {
  MLIRContext *context = builder.getContext();
  exec::ReductionAttr reduction;
  if (kind == exec::Transfer::AllReduce)
    reduction = exec::ReductionAttr::get(context, exec::Reduction::Sum);
  IntegerAttr one = builder.getI64IntegerAttr(1);
  auto about = builder.getDictionaryAttr(
      {builder.getNamedAttr("axes", builder.getStrArrayAttr({"pp"})),
       builder.getNamedAttr("purpose", builder.getStringAttr(purpose))});
  return exec::TransferOp::create(
      builder, input.getLoc(), input.getType(),
      exec::TransferAttr::get(context, kind), reduction, input,
      builder.getDenseI64ArrayAttr(all.axis.size),
      builder.getDenseI64ArrayAttr(all.axis.stride), one, one,
      builder.getI64IntegerAttr(root), DenseI64ArrayAttr(), about);
}

void Program::join(const Joined &joined) {
  auto sumOf = [&](Value sum, Value next) -> Value {
    if (!sum)
      return next;
    auto add = nn::AddOp::create(builder, next.getLoc(), sum, next);
    if (Attribute role = joined.value.getDefiningOp()->getAttr(nn::kRoleAttr))
      add->setAttr(nn::kRoleAttr, role);
    return add;
  };
  Value own;
  for (auto [leaf, at] : joined.leaves)
    if (at == place)
      own = sumOf(own, getOuter(leaf));
  bool isScalar = cast<RankedTensorType>(joined.value.getType()).getRank() == 0;
  if (isScalar) {
    if (!own)
      own = zero(joined.value.getType());
    outer[joined.value] =
        joined.isSum ? collective(own, exec::Transfer::AllReduce, 0, "norm")
                     : collective(own, exec::Transfer::Broadcast,
                                  joined.leaves[0].second, "result");
    return;
  }
  if (!joined.wanted.test(place))
    return;
  // Each sends its part to each other, and all add in one order.
  llvm::SmallSetVector<int64_t, 4> parts;
  for (auto [leaf, at] : joined.leaves)
    parts.insert(at);
  SmallVector<int64_t> from = parts.takeVector();
  llvm::sort(from);
  auto about = builder.getDictionaryAttr(
      {builder.getNamedAttr("axes", builder.getStrArrayAttr({"pp"})),
       builder.getNamedAttr("name",
                            builder.getStringAttr("gradient of a weight of "
                                                  "several stages"))});
  Location loc = joined.value.getLoc();
  SmallVector<exec::ReceiveOp> coming;
  for (int64_t other : from)
    if (other != place)
      coming.push_back(
          exec::ReceiveOp::create(builder, loc, joined.value.getType(), other,
                                  all.axis.size, all.axis.stride, about));
  SmallVector<Value> handles;
  if (own)
    for (int other : joined.wanted.set_bits())
      if (other != place)
        handles.push_back(exec::SendOp::create(
            builder, loc, own, other, all.axis.size, all.axis.stride, about));
  Value sum;
  auto *next = coming.begin();
  for (int64_t other : from) {
    if (other == place) {
      sum = sumOf(sum, own);
      continue;
    }
    exec::ReceiveOp receive = *next++;
    sum = sumOf(sum, exec::WaitReceiveOp::create(
                         builder, loc, receive.getResult().getType(),
                         receive.getHandle(), receive.getResult()));
  }
  for (Value handle : handles)
    exec::WaitSendOp::create(builder, loc, handle, own);
  outer[joined.value] = sum;
}

LogicalResult Program::run(ArrayRef<Action> line) {
  func::FuncOp function = all.function;
  Location loc = function.getLoc();
  std::string name = (function.getName() + "_pp" + Twine(place)).str();
  builder.setInsertionPoint(function);
  made = func::FuncOp::create(builder, loc, name, function.getFunctionType());
  made->setAttr(exec::kPlaceAttr,
                builder.getArrayAttr({function.getSymNameAttr(),
                                      builder.getI64IntegerAttr(place)}));
  Block *block = made.addEntryBlock();
  for (auto [from, to] :
       llvm::zip_equal(function.getArguments(), block->getArguments())) {
    to.setLoc(from.getLoc());
    outer[from] = to;
  }
  builder.setInsertionPointToEnd(block);
  if (all.entry.loop)
    for (Value init : all.entry.loop.getInits())
      accumulators.push_back(getOuter(init));
  for (const Action &action : line) {
    if (failed(act(action)))
      return failure();
    if (missing)
      return missing.getDefiningOp()->emitOpError("computes a value that ")
             << action.str() << " reads on rank " << place
             << " of the pipeline before it is there";
  }
  if (!all.entry.loop)
    for (auto &[key, call] : all.entry.calls)
      for (Value result : call->getResults())
        if (auto it = inner.find({result.getAsOpaquePointer(), 0});
            it != inner.end())
          outer[result] = it->second;
  for (const Joined &each : all.joined)
    join(each);

  // What this place has.
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttributes, argumentAttributes;
  auto attributesOf = [](DictionaryAttr attributes, MLIRContext *context) {
    return attributes ? attributes : DictionaryAttr::get(context);
  };
  MLIRContext *context = builder.getContext();
  for (auto [i, value] :
       llvm::enumerate(function.front().getTerminator()->getOperands())) {
    auto what = function.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr);
    Places places = outer.contains(value) && !isa<BlockArgument>(value)
                        ? all.all
                        : all.placesOf(value);
    if (std::string parameter = bufferOf(what);
        !parameter.empty() && what[0] != StringAttr::get(context, "result"))
      places &= all.holdersOf(parameter);
    if (!places.test(place))
      continue;
    results.push_back(getOuter(value));
    resultAttributes.push_back(
        attributesOf(function.getResultAttrDict(i), context));
  }
  auto end = func::ReturnOp::create(builder, loc, results);
  // Ops whose values this place turned out not to need.
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
      if (&op != end && op.use_empty() && isMemoryEffectFree(&op) &&
          !isa<exec::TransferOp>(op)) {
        op.erase();
        changed = true;
      }
  }
  llvm::BitVector unused(block->getNumArguments());
  for (BlockArgument argument : block->getArguments()) {
    unsigned i = argument.getArgNumber();
    if (argument.use_empty())
      unused.set(i);
    else
      argumentAttributes.push_back(
          attributesOf(function.getArgAttrDict(i), context));
  }
  block->eraseArguments(unused);
  made.setFunctionType(FunctionType::get(context, block->getArgumentTypes(),
                                         ValueRange(results).getTypes()));
  made.setAllArgAttrs(argumentAttributes);
  made.setAllResultAttrs(resultAttributes);
  return success();
}

const stages::Joined &EntryPrograms::wholeOf(int64_t stage) {
  auto [it, isNew] = wholes.try_emplace(stage);
  if (!isNew)
    return it->second;
  auto input = entry.calls.find({stage, schedule::Part::InputGradient}),
       weights = entry.calls.find({stage, schedule::Part::WeightGradient});
  if (input != entry.calls.end() && weights != entry.calls.end()) {
    it->second = joiner.join(input->second, weights->second);
    if (func::FuncOp whole = it->second.function)
      whole->setAttr(kPartAttr, StringAttr::get(function.getContext(), "B"));
  }
  return it->second;
}

/// Which action computes each part, and which one each transfer is for.
void EntryPrograms::nameActions(const Schedule &lowered) {
  for (const auto &line : lowered.ranks)
    for (const Action &action : line)
      if (action.isCompute())
        for (schedule::Task task : {action.task, action.other}) {
          if (task.stage < 0)
            continue;
          actionOf[task] = action.str();
          if (task.part != schedule::Part::Backward)
            continue;
          for (schedule::Part half : {schedule::Part::InputGradient,
                                      schedule::Part::WeightGradient}) {
            task.part = half;
            actionOf[task] = action.str();
          }
        }
  for (auto [place, line] : llvm::enumerate(lowered.ranks)) {
    // Values that have come and are not read yet.
    std::set<std::pair<int32_t, int32_t>> landed;
    for (const Action &action : line) {
      if (action.kind == ActionKind::WaitReceive)
        landed.insert({valueOf(action), action.task.microbatch});
      if (!action.isCompute())
        continue;
      for (auto it = landed.begin(); it != landed.end();) {
        auto [id, microbatch] = *it;
        bool reads = false;
        for (const schedule::Use &use : pipeline.values[id].uses)
          for (const schedule::Task &task : {action.task, action.other})
            reads |= task.stage == use.stage && task.microbatch == microbatch &&
                     (task.part == use.part ||
                      (task.part == schedule::Part::Backward &&
                       use.part != schedule::Part::Forward));
        if (!reads) {
          ++it;
          continue;
        }
        readerOf[{id, microbatch, static_cast<int32_t>(place)}] = action.str();
        it = landed.erase(it);
      }
    }
  }
}

/// "0F3 to 1F3, rank 0 to 1".
std::string EntryPrograms::edgeName(int32_t id, int32_t microbatch,
                                    int64_t from, int64_t to) {
  const schedule::Value &value = pipeline.values[id];
  std::string text =
      actionOf[schedule::Task{value.part, value.stage, microbatch}];
  std::string reader = readerOf[{id, microbatch, static_cast<int32_t>(to)}];
  if (!reader.empty())
    text += " to " + reader;
  return text + ", rank " + std::to_string(from) + " to " + std::to_string(to);
}

FailureOr<Schedule> EntryPrograms::lower() {
  findEdges();
  llvm::Expected<Schedule> lowered = stages::addTransfers(
      schedule, pipeline, /*forwardOnly=*/!entry.loop, file);
  if (!lowered)
    return LogicalResult(
        function.emitError("cannot run the schedule: ")
        << llvm::StringRef(llvm::toString(lowered.takeError())).rtrim());
  return std::move(*lowered);
}

LogicalResult EntryPrograms::run() {
  FailureOr<Schedule> lowered = lower();
  if (failed(lowered) || failed(findContributions()) || failed(findJoined()))
    return failure();
  nameActions(*lowered);
  for (int64_t place = 0; place < axis.size; ++place)
    if (failed(Program(*this, place).run(lowered->ranks[place])))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// So many fit every number that schedules count with.
static constexpr int64_t kMostStages = 1 << 20;

LogicalResult Programs::findCalls() {
  if (failed(nn::refuseRecursion(module)))
    return failure();
  SymbolTable symbols(module);
  WalkResult result = module.walk([&](func::CallOp call) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || !callee.isPublic() || callee.isDeclaration())
      return WalkResult::advance();
    call.emitOpError("calls @")
        << callee.getName()
        << ", an entry, which becomes a program for each place along pp; "
           "expected a private function";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  for (func::FuncOp function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    if (!function.isPublic() || function.isDeclaration())
      continue;
    Entry entry;
    entry.function = function;
    for (auto loop : function.getOps<nn::MicrobatchesOp>()) {
      if (entry.loop)
        return loop.emitOpError("is the second loop over microbatches of @")
               << function.getName() << ", expected one";
      entry.loop = loop;
    }
    entry.body = entry.loop ? &entry.loop.getBody().front() : &function.front();
    WalkResult result = function.walk([&](func::CallOp call) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      auto stage = callee ? callee->getAttrOfType<IntegerAttr>(kStageAttr)
                          : IntegerAttr();
      auto part =
          callee ? callee->getAttrOfType<StringAttr>(kPartAttr) : StringAttr();
      if (!stage || !part)
        return WalkResult::advance();
      if (call->getBlock() != entry.body) {
        call.emitOpError("calls a stage part outside of the loop over "
                         "microbatches, expected all in one block");
        return WalkResult::interrupt();
      }
      if (stage.getInt() < 0 || stage.getInt() >= kMostStages) {
        callee.emitOpError("has ") << kStageAttr << " = " << stage.getInt()
                                   << ", expected 0 to " << kMostStages - 1;
        return WalkResult::interrupt();
      }
      auto key = std::make_pair(stage.getInt(), partOf(part.getValue()));
      if (!entry.calls.emplace(key, call).second) {
        call.emitOpError("calls part ")
            << part << " of stage " << stage.getInt()
            << " a second time, expected each part once";
        return WalkResult::interrupt();
      }
      entry.partOfCall[call] = key;
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    entries.push_back(std::move(entry));
  }
  return success();
}

static std::set<std::string> parametersOf(Entry &entry, func::CallOp call) {
  std::set<std::string> parameters;
  llvm::SetVector<Value> reached(call->operand_begin(), call->operand_end());
  for (size_t i = 0; i < reached.size(); ++i) { // Grows while walked.
    Value value = reached[i];
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      // A slice of the batch; an accumulator starts from no parameter.
      if (argument.getOwner() != &entry.function.front())
        continue;
      std::string parameter =
          parameterOf(entry.function, argument.getArgNumber());
      if (!parameter.empty())
        parameters.insert(std::move(parameter));
    } else if (!entry.partOfCall.contains(value.getDefiningOp())) {
      reached.insert(value.getDefiningOp()->operand_begin(),
                     value.getDefiningOp()->operand_end());
    }
  }
  return parameters;
}

LogicalResult Programs::findHolders() {
  for (Entry &entry : entries)
    for (auto &[key, call] : entry.calls)
      for (const std::string &parameter : parametersOf(entry, call))
        holders.try_emplace(parameter, Places(axis.size))
            .first->second.set(schedule.rankOf[key.first]);
  // What no stage reads is with the first.
  for (Entry &entry : entries)
    for (unsigned i = 0; i < entry.function.getNumArguments(); ++i)
      if (std::string parameter = parameterOf(entry.function, i);
          !parameter.empty()) {
        auto [it, isNew] = holders.try_emplace(parameter, Places(axis.size));
        if (isNew)
          it->second.set(0);
      }
  return success();
}

Entry *Programs::mainEntry() {
  Entry *main = nullptr;
  for (Entry &entry : entries)
    if (entry.loop && !entry.calls.empty() &&
        (!main || entry.function.getName() == "step"))
      main = &entry;
  return main;
}

LogicalResult Programs::prepare(const stages::ScheduleOptions &options) {
  if (failed(findCalls()))
    return failure();
  int64_t stages = 0, microbatches = 1;
  for (Entry &entry : entries) {
    for (auto &[key, call] : entry.calls)
      stages = std::max(stages, key.first + 1);
    if (entry.loop)
      microbatches = entry.loop.getCount();
  }
  if (stages == 0)
    return module.emitError("has no entry with stage parts to run on ")
           << axis.size << " ranks, expected what pipe-cut-stages makes";
  auto places = static_cast<int32_t>(axis.size);
  auto count = static_cast<int32_t>(microbatches);
  Entry *main = mainEntry();
  if (options.name == "greedy" && !main)
    return module.emitError("has no entry with a loop over microbatches, which "
                            "a greedy schedule is made for");
  auto make = [&]() -> llvm::Expected<Schedule> {
    if (options.name == "module") {
      auto text = module->getAttrOfType<StringAttr>(exec::kScheduleAttr);
      llvm::Expected<Schedule> read =
          schedule::parseText(text ? text.getValue() : "", exec::kScheduleAttr);
      if (!read)
        return read;
      if (llvm::Error error =
              stages::checkSize(*read, exec::kScheduleAttr, places, count))
        return error;
      return read;
    }
    if (options.name != "greedy")
      return stages::makeSchedule(options.name, places,
                                  static_cast<int32_t>(options.chunks), count);
    Schedule none;
    none.rankOf.assign(stages, 0);
    return stages::makeGreedySchedule(
        EntryPrograms(*main, none, axis, holders, "", symbols, joiner)
            .describe(),
        places, count, options.memoryLimit);
  };
  llvm::Expected<Schedule> made = make();
  if (!made)
    return module.emitError(llvm::toString(made.takeError()));
  schedule = std::move(*made);
  StringRef name = options.name;
  file = name.consume_front("file:") ? name.str() : "";
  stages = schedule.stages();
  for (Entry &entry : entries)
    for (auto &[key, call] : entry.calls)
      if (key.first >= stages)
        return call->emitOpError("calls a part of stage ")
               << key.first << ", and there are " << stages << " stages, 0 to "
               << stages - 1;
  return findHolders();
}

FailureOr<stages::StepPlan>
Programs::plan(const stages::ScheduleOptions &options) {
  if (failed(prepare(options)))
    return failure();
  Entry *main = mainEntry();
  if (!main)
    return LogicalResult(module.emitError(
        "has no entry with a loop over microbatches to schedule"));
  EntryPrograms programs(*main, schedule, axis, holders, file, symbols, joiner);
  FailureOr<Schedule> lowered = programs.lower();
  if (failed(lowered))
    return failure();
  EntryPrograms described(*main, schedule, axis, holders, file, symbols,
                          joiner);
  schedule::Pipeline pipeline = described.describe();
  described.sumBytes.resize(pipeline.stages.size());
  return stages::StepPlan{std::move(pipeline), schedule, std::move(*lowered),
                          described.types(), std::move(described.sumBytes)};
}

LogicalResult Programs::run(const stages::ScheduleOptions &options) {
  if (failed(prepare(options)))
    return failure();
  for (Entry &entry : entries)
    if (failed(
            EntryPrograms(entry, schedule, axis, holders, file, symbols, joiner)
                .run()))
      return failure();
  for (Entry &entry : entries)
    entry.function.erase();
  module->setAttr(exec::kScheduleAttr,
                  StringAttr::get(module.getContext(),
                                  schedule::printText(schedule, true)));
  return success();
}

/// The axis pp of the module's mesh.
static FailureOr<Axis> pipelineAxis(ModuleOp module) {
  std::optional<Axis> axis;
  int64_t stride = 1;
  if (auto mesh = module->getAttrOfType<ArrayAttr>(exec::kMeshAttr))
    for (auto entry : llvm::reverse(mesh.getAsRange<ArrayAttr>())) {
      int64_t size = cast<IntegerAttr>(entry[1]).getInt();
      if (cast<StringAttr>(entry[0]).getValue() == "pp")
        axis = Axis{size, stride};
      stride *= size;
    }
  if (!axis || axis->size < 2)
    return LogicalResult(
        module.emitError("has no mesh with an axis pp of at least 2 places "
                         "(exec.mesh), expected what dist-to-nn leaves of "
                         "--mesh=pp=2"));
  return *axis;
}

FailureOr<stages::StepPlan> stages::planStep(ModuleOp module,
                                             const ScheduleOptions &options) {
  FailureOr<Axis> axis = pipelineAxis(module);
  if (failed(axis))
    return failure();
  return Programs(module, *axis).plan(options);
}

namespace {
struct PipeMakePrograms : sheaf::impl::PipeMakeProgramsBase<PipeMakePrograms> {
  using PipeMakeProgramsBase::PipeMakeProgramsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Axis> axis = pipelineAxis(module);
    stages::ScheduleOptions options{schedule, chunks};
    if (memoryLimit > 0)
      options.memoryLimit = memoryLimit;
    if (failed(axis) || failed(Programs(module, *axis).run(options)))
      signalPassFailure();
  }
};
} // namespace
