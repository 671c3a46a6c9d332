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
  std::string text = std::string(nameOf(kind)) + "(" + task.str() + "#" +
                     std::to_string(value);
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

int32_t boundaryValue(const Pipeline &pipeline, Part part, int32_t stage) {
  int32_t found = -1;
  for (size_t i = 0; i < pipeline.values.size(); ++i) {
    const Value &value = pipeline.values[i];
    if (value.part != part || value.stage != stage)
      continue;
    bool leaves = false;
    for (const Use &use : value.uses)
      leaves |= use.stage != stage;
    if (!leaves)
      continue;
    if (found >= 0)
      return -1;
    found = static_cast<int32_t>(i);
  }
  return found;
}

} // namespace sheaf::schedule
