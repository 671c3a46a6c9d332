//===- Schedule.cpp - Who runs what, when, of a pipeline ------------------===//

#include "passes/pipeline/schedule/Schedule.h"

#include <utility>

namespace sheaf::schedule {

char letterOf(Part part) {
  switch (part) {
  case Part::Forward:
    return 'F';
  case Part::InputGradient:
    return 'I';
  case Part::WeightGradient:
    return 'W';
  case Part::Backward:
    return 'B';
  }
  return '?';
}

std::string Task::str() const {
  return std::to_string(stage) + letterOf(part) + std::to_string(microbatch);
}

const char *nameOf(ActionKind kind) {
  switch (kind) {
  case ActionKind::Compute:
    return "compute";
  case ActionKind::FusedPair:
    return "fused pair";
  case ActionKind::Send:
    return "send";
  case ActionKind::Receive:
    return "receive";
  case ActionKind::WaitSend:
    return "wait-send";
  case ActionKind::WaitReceive:
    return "wait-receive";
  case ActionKind::Free:
    return "free";
  case ActionKind::GatherWeights:
    return "gather";
  case ActionKind::FreeWeights:
    return "free-weights";
  case ActionKind::ReduceGradients:
    return "reduce";
  case ActionKind::ReduceNorm:
    return "norm";
  case ActionKind::Update:
    return "update";
  }
  return "?";
}

std::string Action::str() const {
  switch (kind) {
  case ActionKind::Compute:
    return task.str();
  case ActionKind::FusedPair:
    return "(" + task.str() + "|" + other.str() + ")";
  case ActionKind::ReduceNorm:
    return nameOf(kind);
  case ActionKind::GatherWeights:
  case ActionKind::FreeWeights:
  case ActionKind::ReduceGradients:
  case ActionKind::Update:
    return std::string(nameOf(kind)) + "(" + std::to_string(task.stage) + ")";
  default:
    break;
  }
  std::string text = std::string(nameOf(kind)) + "(" + task.str();
  if (value > 0)
    text += "#" + std::to_string(value);
  if (peer >= 0)
    text += ",r" + std::to_string(peer);
  return text + ")";
}

bool Schedule::sameAs(const Schedule &other) const {
  if (rankOf != other.rankOf || microbatches != other.microbatches ||
      ranks.size() != other.ranks.size())
    return false;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].size() != other.ranks[rank].size())
      return false;
    for (size_t i = 0; i < ranks[rank].size(); ++i)
      if (!ranks[rank][i].sameAs(other.ranks[rank][i]))
        return false;
  }
  return true;
}

Schedule loopedPlacement(int32_t ranks, int32_t chunks, int32_t microbatches) {
  Schedule schedule;
  for (int32_t stage = 0; stage < ranks * chunks; ++stage)
    schedule.rankOf.push_back(stage % ranks);
  schedule.microbatches = microbatches;
  schedule.ranks.resize(ranks);
  return schedule;
}

Schedule foldedPlacement(int32_t ranks, int32_t microbatches) {
  Schedule schedule;
  for (int32_t stage = 0; stage < 2 * ranks; ++stage)
    schedule.rankOf.push_back(stage < ranks ? stage : 2 * ranks - 1 - stage);
  schedule.microbatches = microbatches;
  schedule.ranks.resize(ranks);
  return schedule;
}

double Stage::seconds(Part part) const {
  switch (part) {
  case Part::Forward:
    return forward;
  case Part::InputGradient:
    return inputGradient;
  case Part::WeightGradient:
    return weightGradient;
  case Part::Backward:
    return backward.value_or(inputGradient + weightGradient);
  }
  return 0;
}

double Pipeline::seconds(const Action &action) const {
  if (!action.isCompute())
    return 0;
  double first = stages[action.task.stage].seconds(action.task.part);
  if (action.kind == ActionKind::Compute)
    return first;
  return fusedFactor *
         (first + stages[action.other.stage].seconds(action.other.part));
}

Pipeline makeChain(std::vector<Stage> stages, ChainBytes bytes, Link link) {
  Pipeline pipeline;
  pipeline.stages = std::move(stages);
  pipeline.link = link;
  auto count = static_cast<int32_t>(pipeline.stages.size());
  for (int32_t stage = 0; stage < count; ++stage) {
    using enum Part;
    auto add = [&](Part part, int64_t size, std::vector<Use> uses) {
      pipeline.values.push_back({part, stage, size, std::move(uses), ""});
    };
    if (stage + 1 < count)
      add(Forward, bytes.boundary, {{Forward, stage + 1}});
    if (stage > 0)
      add(InputGradient, bytes.boundary, {{InputGradient, stage - 1}});
    add(Forward, bytes.activation,
        {{InputGradient, stage}, {WeightGradient, stage}});
    add(InputGradient, bytes.gradient, {{WeightGradient, stage}});
  }
  return pipeline;
}

ValueIndex::ValueIndex(const Pipeline &pipeline)
    : stages(static_cast<int32_t>(pipeline.stages.size())),
      produced(pipeline.stages.size() * 4), read(pipeline.stages.size() * 4) {
  auto put = [&](std::vector<std::vector<int32_t>> &lists, Part part,
                 int32_t stage, int32_t value) {
    // Readers may be listed twice.
    std::vector<int32_t> &list = lists[at(part, stage)];
    if (list.empty() || list.back() != value)
      list.push_back(value);
  };
  for (size_t i = 0; i < pipeline.values.size(); ++i) {
    const Value &value = pipeline.values[i];
    auto number = static_cast<int32_t>(i);
    numbers.push_back(
        static_cast<int32_t>(produced[at(value.part, value.stage)].size()));
    put(produced, value.part, value.stage, number);
    bool leaves = value.uses.empty();
    for (Use use : value.uses) {
      put(read, use.part, use.stage, number);
      // Within one action B there is no buffer.
      bool isWithin = value.part != Part::Forward && use.stage == value.stage;
      leaves |= !isWithin;
      if (use.part != Part::Forward && !isWithin)
        put(read, Part::Backward, use.stage, number);
    }
    if (value.part != Part::Forward && leaves)
      put(produced, Part::Backward, value.stage, number);
  }
}

const std::vector<int32_t> &ValueIndex::producedBy(Part part,
                                                   int32_t stage) const {
  return produced[at(part, stage)];
}

const std::vector<int32_t> &ValueIndex::readBy(Part part, int32_t stage) const {
  return read[at(part, stage)];
}

int32_t ValueIndex::of(const Action &action) const {
  if (action.value < 0 || action.task.stage < 0 ||
      action.task.stage >= stages || action.task.part == Part::Backward)
    return -1;
  const std::vector<int32_t> &list =
      produced[at(action.task.part, action.task.stage)];
  return static_cast<size_t>(action.value) < list.size() ? list[action.value]
                                                         : -1;
}

} // namespace sheaf::schedule
