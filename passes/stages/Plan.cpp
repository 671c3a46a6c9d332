//===- Plan.cpp - A schedule with its sends and receives ------------------===//

#include "passes/stages/Plan.h"
#include "dialects/Pipe/Pipe.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "passes/pipeline/Conversion.h"
#include "passes/pipeline/schedule/Generate.h"
#include "passes/pipeline/schedule/Greedy.h"
#include "passes/pipeline/schedule/Lower.h"
#include "passes/pipeline/schedule/Text.h"
#include "llvm/Support/MemoryBuffer.h"
#include <set>
#include <tuple>

using namespace sheaf;
using namespace sheaf::schedule;

/// The schedule of a file with IR; diagnostics say what is wrong with it.
static llvm::Expected<Schedule> parseIR(llvm::StringRef text,
                                        llvm::StringRef file) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<pipe::PipeDialect>();
  auto error = [&](llvm::StringRef what) {
    return llvm::createStringError(file + ": " + what);
  };
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(
          text, mlir::ParserConfig(&context), file);
  if (!module)
    return error("is no IR, expected a module with a pipe.schedule");
  auto schedules = module->getOps<pipe::ScheduleOp>();
  if (!llvm::hasSingleElement(schedules))
    return error("has no or several schedules, expected one pipe.schedule");
  mlir::FailureOr<pipe::ReadSchedule> read =
      pipe::readSchedule(*schedules.begin());
  if (mlir::failed(read))
    return error("has a pipe.schedule that cannot be read");
  return std::move(read->schedule);
}

llvm::Error stages::checkSize(const Schedule &schedule, llvm::StringRef name,
                              int32_t ranks, int32_t microbatches) {
  if (schedule.size() == ranks && schedule.microbatches == microbatches)
    return llvm::Error::success();
  return llvm::createStringError(
      "%s: is a schedule of %d ranks and %d microbatches, expected %d and %d",
      name.str().c_str(), schedule.size(), schedule.microbatches, ranks,
      microbatches);
}

llvm::Expected<Schedule> stages::makeSchedule(llvm::StringRef name,
                                              int32_t ranks, int32_t chunks,
                                              int32_t microbatches) {
  if (!name.consume_front("file:"))
    return makeRecipe(name, ranks, microbatches, chunks);
  if (name.empty())
    return llvm::createStringError("--pipeline=file: names no file, expected "
                                   "one, as in --pipeline=file:schedule.txt");
  auto file = llvm::MemoryBuffer::getFile(name);
  if (!file)
    return llvm::createStringError(file.getError(), "%s: %s",
                                   name.str().c_str(),
                                   file.getError().message().c_str());
  llvm::StringRef text = (*file)->getBuffer().ltrim();
  bool isIR = text.starts_with("module") || text.starts_with("pipe.") ||
              text.starts_with("//");
  llvm::Expected<Schedule> read = isIR ? parseIR((*file)->getBuffer(), name)
                                       : parse((*file)->getBuffer(), name);
  if (!read)
    return read;
  // A CSV names transfers alone.
  if (!isIR && guessFormat(text) == Format::CSV)
    for (std::vector<Action> &line : read->ranks)
      llvm::erase_if(line, [](const Action &action) {
        return !action.isCompute() && !action.isTransfer();
      });
  if (llvm::Error error = checkSize(*read, name, ranks, microbatches))
    return error;
  return read;
}

llvm::Expected<Schedule> stages::makeGreedySchedule(const Pipeline &pipeline,
                                                    int32_t ranks,
                                                    int32_t microbatches,
                                                    int64_t memoryLimit) {
  GreedyOptions options;
  options.ranks = ranks;
  options.microbatches = microbatches;
  options.memoryLimit = memoryLimit;
  llvm::Expected<GreedyResult> made = makeGreedy(pipeline, options);
  if (!made)
    return made.takeError();
  return std::move(made->schedule);
}

/// The stages one after the other, each forward once.
static Schedule passOnce(const Schedule &schedule, const Pipeline &pipeline) {
  Schedule made = schedule;
  made.microbatches = 1;
  for (std::vector<Action> &line : made.ranks)
    line.clear();
  for (int32_t stage = 0; stage < schedule.stages(); ++stage) {
    int32_t rank = schedule.rankOf[stage];
    made.ranks[rank].push_back(Action::compute(Part::Forward, stage, 0));
    int32_t number = -1;
    for (const Value &value : pipeline.values) {
      if (value.stage != stage)
        continue;
      ++number;
      std::set<int32_t> readers;
      for (const Use &use : value.uses)
        if (schedule.rankOf[use.stage] != rank)
          readers.insert(schedule.rankOf[use.stage]);
      for (int32_t reader : readers) {
        Action action;
        action.task = {value.part, stage, 0};
        action.value = number;
        for (auto [kind, at, peer] :
             {std::tuple(ActionKind::Send, rank, reader),
              std::tuple(ActionKind::WaitSend, rank, reader),
              std::tuple(ActionKind::Receive, reader, rank),
              std::tuple(ActionKind::WaitReceive, reader, rank)}) {
          action.kind = kind;
          action.peer = peer;
          made.ranks[at].push_back(action);
        }
      }
    }
  }
  return made;
}

/// Where a file says something else about transfers, waits and frees than
/// `made`, in which they are placed; of kinds that it does not name it says
/// nothing.
static std::optional<Problem> compareGiven(const Schedule &given,
                                           const Schedule &made) {
  std::set<ActionKind> kinds{ActionKind::Compute, ActionKind::FusedPair};
  auto problemAt = [&](int32_t rank, size_t action, std::string text) {
    Problem problem;
    problem.rank = rank;
    problem.action = static_cast<int32_t>(action);
    if (action < given.ranks[rank].size())
      problem.place = given.ranks[rank][action].place;
    problem.text = std::move(text);
    return problem;
  };
  for (int32_t rank = 0; rank < given.size(); ++rank)
    for (auto [i, action] : llvm::enumerate(given.ranks[rank])) {
      kinds.insert(action.kind);
      if (action.kind > ActionKind::Free)
        return problemAt(rank, i,
                         "'" + action.str() +
                             "' is what the step does itself, expected compute "
                             "actions, transfers, waits and frees");
    }
  if (kinds.size() == 2)
    return std::nullopt;
  // Between two actions of these the order of waits and frees means nothing.
  // Which of a producer's values it is, files number in their own way.
  auto inOrder = [&](const std::vector<Action> &line) {
    std::vector<std::pair<Action, size_t>> actions;
    for (auto [i, action] : llvm::enumerate(line))
      if (kinds.count(action.kind))
        actions.emplace_back(action, i);
    auto isFixed = [](const auto &entry) {
      return entry.first.isCompute() || entry.first.isTransfer();
    };
    for (auto begin = actions.begin(); begin != actions.end();) {
      auto end = std::find_if(begin, actions.end(), isFixed);
      std::stable_sort(begin, end, [](const auto &a, const auto &b) {
        return std::tuple(a.first.kind, a.first.task, a.first.peer) <
               std::tuple(b.first.kind, b.first.task, b.first.peer);
      });
      begin = end == actions.end() ? end : std::next(end);
    }
    return actions;
  };
  for (int32_t rank = 0; rank < given.size(); ++rank) {
    auto found = inOrder(given.ranks[rank]), wanted = inOrder(made.ranks[rank]);
    for (size_t i = 0; i < std::max(found.size(), wanted.size()); ++i) {
      const Action *a = i < found.size() ? &found[i].first : nullptr,
                   *b = i < wanted.size() ? &wanted[i].first : nullptr;
      if (a && b && a->kind == b->kind && a->task == b->task &&
          a->other == b->other && a->peer == b->peer)
        continue;
      auto name = [](const Action *action) {
        return action ? "'" + action->str() + "'" : std::string("the end");
      };
      return problemAt(rank, a ? found[i].second : given.ranks[rank].size(),
                       name(a) +
                           " stands where the one order of all transfers has " +
                           name(b) +
                           ", expected that, or compute actions alone: "
                           "transfers, waits and frees are placed");
    }
  }
  return std::nullopt;
}

llvm::Expected<Schedule> stages::addTransfers(const Schedule &schedule,
                                              const Pipeline &pipeline,
                                              bool forwardOnly,
                                              llvm::StringRef file) {
  if (forwardOnly)
    return passOnce(schedule, pipeline);
  Lowered lowered = lower(pipeline, schedule);
  if (auto *problem = std::get_if<Problem>(&lowered))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   problem->str(file));
  Schedule made = std::get<Schedule>(std::move(lowered));
  std::optional<Problem> problem = verify(pipeline, made).problem;
  if (!problem)
    problem = compareGiven(schedule, made);
  if (problem)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   problem->str(file));
  return made;
}
