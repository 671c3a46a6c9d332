//===- Conversion.cpp - Between pipe IR and the library -------------------===//

#include "passes/pipeline/Conversion.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace sched = sheaf::schedule;
using sched::Action;
using sched::ActionKind;
using sched::Task;

namespace sheaf::pipe {
namespace {

sched::Part toPart(Part part) {
  switch (part) {
  case Part::Forward:
    return sched::Part::Forward;
  case Part::InputGradient:
    return sched::Part::InputGradient;
  case Part::WeightGradient:
    return sched::Part::WeightGradient;
  case Part::Backward:
    return sched::Part::Backward;
  }
  llvm_unreachable("a part is one of four");
}
Part fromPart(sched::Part part) {
  return static_cast<Part>(static_cast<uint32_t>(part));
}

/// A value of a microbatch: its index in the pipeline, and the microbatch.
using Key = std::pair<int32_t, int32_t>;

SmallVector<Type> typesOf(PipelineOp op) {
  SmallVector<Type> types;
  for (ValueOp value : op.getBody().getOps<ValueOp>())
    types.push_back(value.getType());
  return types;
}

/// Reads the lists of ranks.
class ScheduleReader {
public:
  ScheduleReader(ScheduleOp op, PipelineOp pipelineOp, ReadSchedule &read)
      : op(op), read(read), index(read.pipeline), types(typesOf(pipelineOp)) {}

  LogicalResult run();

private:
  LogicalResult readPlacement();
  LogicalResult readRank(RankOp rank, int32_t number);
  LogicalResult readAction(Operation &op, int32_t rank, Action &action);
  LogicalResult readCompute(ComputeOp op, int32_t rank, Task &task);
  LogicalResult readValues(ComputeOp op, const Task &task);
  /// What an SSA value is, or an error at `user`.
  FailureOr<Key> keyOf(Operation *user, Value value);
  void name(Action &action, Key key);
  std::string textOf(Key key) const;

  ScheduleOp op;
  ReadSchedule &read;
  sched::ValueIndex index;
  SmallVector<Type> types;
  llvm::DenseMap<Value, Key> keys;
};

LogicalResult ScheduleReader::readPlacement() {
  auto stages = static_cast<int32_t>(read.pipeline.stages.size());
  std::vector<RankOp> owners(stages);
  read.schedule.rankOf.assign(stages, -1);
  int32_t number = 0;
  for (RankOp rank : op.getBody().getOps<RankOp>()) {
    for (int64_t stage : rank.getStages()) {
      if (stage < 0 || stage >= stages)
        return rank.emitOpError("has stage ")
               << stage << ", expected one of the " << stages << " stages of '@"
               << op.getPipeline() << "'";
      if (owners[stage]) {
        InFlightDiagnostic error = rank.emitOpError("has stage ")
                                   << stage << ", expected it on one rank";
        error.attachNote(owners[stage].getLoc()) << "this rank has it, too";
        return error;
      }
      owners[stage] = rank;
      read.schedule.rankOf[stage] = number;
    }
    ++number;
  }
  for (int32_t stage = 0; stage < stages; ++stage)
    if (!owners[stage])
      return op.emitOpError("has stage ")
             << stage << " on no rank, expected all " << stages
             << " stages of '@" << op.getPipeline() << "'";
  return success();
}

std::string ScheduleReader::textOf(Key key) const {
  const sched::Value &value = read.pipeline.values[key.first];
  std::string text = Task{value.part, value.stage, key.second}.str();
  if (int32_t number = index.numberOf(key.first))
    text += "#" + std::to_string(number);
  return "'" + text + "'";
}

FailureOr<Key> ScheduleReader::keyOf(Operation *user, Value value) {
  auto it = keys.find(value);
  if (it != keys.end())
    return it->second;
  return user->emitOpError(
      "takes a value of another rank, expected those of its own list");
}

void ScheduleReader::name(Action &action, Key key) {
  const sched::Value &value = read.pipeline.values[key.first];
  action.task = {value.part, value.stage, key.second};
  action.value = index.numberOf(key.first);
}

LogicalResult ScheduleReader::readValues(ComputeOp op, const Task &task) {
  const std::vector<int32_t> &reads = index.readBy(task.part, task.stage);
  const std::vector<int32_t> &gives = index.producedBy(task.part, task.stage);
  // Before communication is placed, no action has any.
  if (!op->getNumOperands() && !op->getNumResults())
    return success();
  read.hasCommunication = true;
  if (op.getInputs().size() != reads.size())
    return op.emitOpError("takes ")
           << op.getInputs().size() << " values, expected the " << reads.size()
           << " that '" << task.str() << "' reads";
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    FailureOr<Key> key = keyOf(op, input);
    if (failed(key))
      return failure();
    if (*key != Key{reads[i], task.microbatch})
      return op.emitOpError("operand ")
             << i << " is " << textOf(*key) << ", expected "
             << textOf({reads[i], task.microbatch});
  }
  if (op.getOutputs().size() != gives.size())
    return op.emitOpError("gives ")
           << op.getOutputs().size() << " values, expected the " << gives.size()
           << " that '" << task.str() << "' computes";
  for (auto [i, output] : llvm::enumerate(op.getOutputs())) {
    Type expected = types[gives[i]];
    if (output.getType() != expected)
      return op.emitOpError("result ")
             << i << " is a " << output.getType() << ", expected " << expected;
    keys[output] = {gives[i], task.microbatch};
  }
  return success();
}

LogicalResult ScheduleReader::readCompute(ComputeOp op, int32_t rank,
                                          Task &task) {
  auto stage = static_cast<int64_t>(op.getStage());
  if (stage >= read.schedule.stages() || read.schedule.rankOf[stage] != rank)
    return op.emitOpError("runs stage ")
           << stage << ", expected one that its rank has";
  task = {toPart(op.getPart()), static_cast<int32_t>(stage),
          static_cast<int32_t>(op.getMicrobatch())};
  if (task.microbatch >= read.schedule.microbatches)
    return op.emitOpError("runs microbatch ")
           << task.microbatch << ", expected one of the "
           << read.schedule.microbatches;
  return readValues(op, task);
}

LogicalResult ScheduleReader::readAction(Operation &op, int32_t rank,
                                         Action &action) {
  auto ofStage = [&](ActionKind kind, int64_t stage) {
    action.kind = kind;
    action.task.stage = static_cast<int32_t>(stage);
    return success();
  };
  if (!isa<ComputeOp>(op))
    read.hasCommunication = true;
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](ComputeOp compute) {
        return readCompute(compute, rank, action.task);
      })
      .Case([&](SendOp send) -> LogicalResult {
        FailureOr<Key> key = keyOf(send, send.getValue());
        if (failed(key))
          return failure();
        action.kind = ActionKind::Send;
        action.peer = static_cast<int32_t>(send.getPeer());
        name(action, *key);
        keys[send.getTransfer()] = *key;
        return success();
      })
      .Case([&](ReceiveOp receive) -> LogicalResult {
        action.kind = ActionKind::Receive;
        action.task = {toPart(receive.getPart()),
                       static_cast<int32_t>(receive.getStage()),
                       static_cast<int32_t>(receive.getMicrobatch())};
        action.value = static_cast<int32_t>(receive.getValue());
        action.peer = static_cast<int32_t>(receive.getPeer());
        int32_t id = index.of(action);
        if (id < 0 || action.task.microbatch >= read.schedule.microbatches)
          return receive.emitOpError("means '")
                 << action.task.str() << "#" << action.value
                 << "', which is no value of '@" << this->op.getPipeline()
                 << "', expected one that a stage hands on";
        auto type = cast<TransferType>(receive.getTransfer().getType());
        if (type.getTensor() != types[id])
          return receive.emitOpError("receives a ")
                 << type.getTensor() << ", expected " << types[id];
        keys[receive.getTransfer()] = {id, action.task.microbatch};
        return success();
      })
      .Case([&](WaitSendOp wait) -> LogicalResult {
        auto send = wait.getTransfer().getDefiningOp<SendOp>();
        FailureOr<Key> key = keyOf(wait, wait.getTransfer());
        if (failed(key))
          return failure();
        action.kind = ActionKind::WaitSend;
        action.peer = static_cast<int32_t>(send.getPeer());
        name(action, *key);
        return success();
      })
      .Case([&](WaitReceiveOp wait) -> LogicalResult {
        auto receive = wait.getTransfer().getDefiningOp<ReceiveOp>();
        FailureOr<Key> key = keyOf(wait, wait.getTransfer());
        if (failed(key))
          return failure();
        action.kind = ActionKind::WaitReceive;
        action.peer = static_cast<int32_t>(receive.getPeer());
        name(action, *key);
        keys[wait.getValue()] = *key;
        return success();
      })
      .Case([&](FreeOp free) -> LogicalResult {
        FailureOr<Key> key = keyOf(free, free.getValue());
        if (failed(key))
          return failure();
        action.kind = ActionKind::Free;
        name(action, *key);
        return success();
      })
      .Case([&](GatherWeightsOp gather) {
        return ofStage(ActionKind::GatherWeights, gather.getStage());
      })
      .Case([&](FreeWeightsOp free) {
        return ofStage(ActionKind::FreeWeights, free.getStage());
      })
      .Case([&](ReduceGradientsOp reduce) {
        return ofStage(ActionKind::ReduceGradients, reduce.getStage());
      })
      .Case([&](UpdateOp update) {
        return ofStage(ActionKind::Update, update.getStage());
      })
      .Case([&](ReduceNormOp) {
        action.kind = ActionKind::ReduceNorm;
        return success();
      })
      .Default([](Operation *other) {
        return other->emitOpError("is no action, expected one");
      });
}

LogicalResult ScheduleReader::readRank(RankOp rank, int32_t number) {
  std::vector<Action> &actions = read.schedule.ranks[number];
  bool isSecond = false;
  for (Operation &op : rank.getBody().front()) {
    Action action;
    if (failed(readAction(op, number, action)))
      return failure();
    if (isSecond) {
      actions.back().kind = ActionKind::FusedPair;
      actions.back().other = action.task;
    } else {
      actions.push_back(action);
      read.ops[number].push_back(&op);
    }
    auto compute = dyn_cast<ComputeOp>(op);
    isSecond = compute && compute.getFused();
  }
  return success();
}

LogicalResult ScheduleReader::run() {
  read.schedule.microbatches = static_cast<int32_t>(op.getMicrobatches());
  int64_t ranks = llvm::range_size(op.getBody().getOps<RankOp>());
  read.schedule.ranks.resize(ranks);
  read.ops.resize(ranks);
  if (failed(readPlacement()))
    return failure();
  int32_t number = 0;
  for (RankOp rank : op.getBody().getOps<RankOp>())
    if (failed(readRank(rank, number++)))
      return failure();
  return success();
}

/// Writes the list of one rank.
class RankWriter {
public:
  RankWriter(OpBuilder &builder, Location loc, const sched::Pipeline &pipeline,
             const sched::ValueIndex &index, ArrayRef<Type> valueTypes,
             bool withValues)
      : builder(builder), loc(loc), pipeline(pipeline), index(index),
        valueTypes(valueTypes), withValues(withValues) {}

  void write(const Action &action);

private:
  void compute(const Task &task, bool fused);
  Key keyOf(const Action &action) const {
    return {index.of(action), action.task.microbatch};
  }

  OpBuilder &builder;
  Location loc;
  const sched::Pipeline &pipeline;
  const sched::ValueIndex &index;
  ArrayRef<Type> valueTypes;
  bool withValues;
  llvm::DenseMap<Key, Value> values;
  /// By value and the rank at the other end; sends and receives.
  llvm::DenseMap<std::pair<Key, int32_t>, Value> sends, receives;
};

void RankWriter::compute(const Task &task, bool fused) {
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  if (withValues) {
    for (int32_t id : index.readBy(task.part, task.stage))
      inputs.push_back(values.at({id, task.microbatch}));
    for (int32_t id : index.producedBy(task.part, task.stage))
      types.push_back(valueTypes[id]);
  }
  auto op = ComputeOp::create(builder, loc, types, fromPart(task.part),
                              task.stage, task.microbatch, fused, inputs);
  if (withValues)
    for (auto [id, value] : llvm::zip_equal(
             index.producedBy(task.part, task.stage), op.getOutputs()))
      values[{id, task.microbatch}] = value;
}

void RankWriter::write(const Action &action) {
  Key key;
  if (action.kind >= ActionKind::Send && action.kind <= ActionKind::Free)
    key = keyOf(action);
  switch (action.kind) {
  case ActionKind::Compute:
    compute(action.task, false);
    break;
  case ActionKind::FusedPair:
    compute(action.task, true);
    compute(action.other, false);
    break;
  case ActionKind::Send: {
    Value value = values.at(key);
    auto type = TransferType::get(builder.getContext(),
                                  cast<RankedTensorType>(value.getType()));
    sends[{key, action.peer}] =
        SendOp::create(builder, loc, type, value, action.peer);
    break;
  }
  case ActionKind::Receive: {
    auto type = TransferType::get(
        builder.getContext(), cast<RankedTensorType>(valueTypes[key.first]));
    receives[{key, action.peer}] = ReceiveOp::create(
        builder, loc, type, fromPart(action.task.part), action.task.stage,
        action.task.microbatch, action.value, action.peer);
    break;
  }
  case ActionKind::WaitSend:
    WaitSendOp::create(builder, loc, sends.at({key, action.peer}));
    break;
  case ActionKind::WaitReceive: {
    Value transfer = receives.at({key, action.peer});
    values[key] = WaitReceiveOp::create(
        builder, loc, cast<TransferType>(transfer.getType()).getTensor(),
        transfer);
    break;
  }
  case ActionKind::Free:
    FreeOp::create(builder, loc, values.at(key));
    break;
  case ActionKind::GatherWeights:
    GatherWeightsOp::create(builder, loc, action.task.stage);
    break;
  case ActionKind::FreeWeights:
    FreeWeightsOp::create(builder, loc, action.task.stage);
    break;
  case ActionKind::ReduceGradients:
    ReduceGradientsOp::create(builder, loc, action.task.stage);
    break;
  case ActionKind::ReduceNorm:
    ReduceNormOp::create(builder, loc);
    break;
  case ActionKind::Update:
    UpdateOp::create(builder, loc, action.task.stage);
    break;
  }
}

} // namespace

sched::Pipeline readPipeline(PipelineOp op) {
  sched::Pipeline pipeline;
  pipeline.link.latency = op.getLatency().convertToDouble();
  if (std::optional<APFloat> bandwidth = op.getBandwidth())
    pipeline.link.bandwidth = bandwidth->convertToDouble();
  pipeline.fusedFactor = op.getFusedFactor().convertToDouble();
  for (StageOp stage : op.getBody().getOps<StageOp>()) {
    sched::Stage costs;
    costs.forward = stage.getForward().convertToDouble();
    costs.inputGradient = stage.getInputGradient().convertToDouble();
    costs.weightGradient = stage.getWeightGradient().convertToDouble();
    if (std::optional<APFloat> backward = stage.getBackward())
      costs.backward = backward->convertToDouble();
    costs.residentBytes = stage.getResidentBytes();
    costs.gatheredBytes = stage.getGatheredBytes();
    costs.temporaryBytes = stage.getTemporaryBytes();
    pipeline.stages.push_back(costs);
  }
  for (ValueOp value : op.getBody().getOps<ValueOp>()) {
    sched::Value entry;
    entry.part = toPart(value.getPart());
    entry.stage = static_cast<int32_t>(value.getStage());
    entry.bytes = bytesOf(value.getType());
    for (UseAttr use : value.getUses().getAsRange<UseAttr>())
      entry.uses.push_back(
          {toPart(use.getPart()), static_cast<int32_t>(use.getStage())});
    pipeline.values.push_back(std::move(entry));
  }
  return pipeline;
}

FailureOr<ReadSchedule> readSchedule(ScheduleOp op) {
  auto pipelineOp = SymbolTable::lookupNearestSymbolFrom<PipelineOp>(
      op, op.getPipelineAttr());
  if (!pipelineOp)
    return op.emitOpError("is of '@")
           << op.getPipeline() << "', which is no pipe.pipeline, expected one";
  ReadSchedule read;
  read.pipeline = readPipeline(pipelineOp);
  if (failed(ScheduleReader(op, pipelineOp, read).run()))
    return failure();
  return read;
}

void report(ScheduleOp op, const ReadSchedule &read,
            const sched::Problem &problem) {
  auto locationOf = [&](const sched::Remark &remark) -> Location {
    if (remark.rank < 0)
      return op.getLoc();
    if (remark.action >= 0)
      return read.ops[remark.rank][remark.action]->getLoc();
    return (*std::next(op.getBody().getOps<RankOp>().begin(), remark.rank))
        .getLoc();
  };
  InFlightDiagnostic error = emitError(locationOf(problem)) << problem.text;
  for (const sched::Remark &note : problem.notes)
    error.attachNote(locationOf(note)) << note.text;
}

void writeSchedule(ScheduleOp op, PipelineOp pipelineOp,
                   const sched::Pipeline &pipeline,
                   const sched::Schedule &schedule, bool withValues) {
  Location loc = op.getLoc();
  sched::ValueIndex index(pipeline);
  SmallVector<Type> valueTypes = typesOf(pipelineOp);
  OpBuilder builder(op.getContext());
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    builder.setInsertionPointToEnd(&op.getBody().front());
    SmallVector<int64_t> stages;
    for (int32_t stage = 0; stage < schedule.stages(); ++stage)
      if (schedule.rankOf[stage] == rank)
        stages.push_back(stage);
    auto rankOp = RankOp::create(builder, loc, stages);
    builder.setInsertionPointToStart(&rankOp.getBody().emplaceBlock());
    RankWriter writer(builder, loc, pipeline, index, valueTypes, withValues);
    for (const Action &action : schedule.ranks[rank])
      writer.write(action);
  }
}

} // namespace sheaf::pipe
