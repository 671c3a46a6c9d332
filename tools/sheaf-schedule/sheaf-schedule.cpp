//===- sheaf-schedule.cpp - Pipeline schedules, made, read and verified ---===//
//
// Parses the command line, calls the library of schedules, and writes the
// result.
//
//===----------------------------------------------------------------------===//

#include "passes/pipeline/schedule/Costs.h"
#include "passes/pipeline/schedule/Generate.h"
#include "passes/pipeline/schedule/Greedy.h"
#include "passes/pipeline/schedule/Lower.h"
#include "passes/pipeline/schedule/Picture.h"
#include "passes/pipeline/schedule/Text.h"
#include "support/Version.h"
#include "support/WriteFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"
#include <csignal>

using namespace sheaf::schedule;
namespace cl = llvm::cl;

namespace {
cl::OptionCategory ours("Options of sheaf-schedule");

cl::opt<std::string>
    input(cl::Positional,
          cl::desc("A schedule, as text or PyTorch's CSV ('-': "
                   "standard input)"),
          cl::value_desc("file"), cl::cat(ours));
cl::opt<std::string> recipe(
    "pipeline",
    cl::desc("Make one: gpipe|1f1b|interleaved|bfs|zb-h1|zb-h2|zbv|dualpipev|"
             "greedy"),
    cl::value_desc("name"), cl::cat(ours));
cl::opt<int32_t> ranks("ranks", cl::desc("Ranks of the pipeline (4)"),
                       cl::value_desc("N"), cl::init(4), cl::cat(ours));
cl::opt<int32_t> microbatches("microbatches", cl::desc("Microbatches (8)"),
                              cl::value_desc("N"), cl::init(8), cl::cat(ours));
cl::opt<int32_t> chunks(
    "chunks",
    cl::desc("Stages of a rank, of interleaved, bfs and greedy (2; greedy "
             "with --costs: as many as those list)"),
    cl::value_desc("N"), cl::init(2), cl::cat(ours));
cl::opt<Placement>
    placement("placement", cl::desc("Where greedy may put stages (any)"),
              cl::values(clEnumValN(Placement::Any, "any", "What is fastest"),
                         clEnumValN(Placement::Looped, "looped",
                                    "Stage s on rank s mod p"),
                         clEnumValN(Placement::Folded, "folded",
                                    "Stages s and 2p-1-s on rank s")),
              cl::init(Placement::Any), cl::cat(ours));
cl::opt<std::string> costs(
    "costs",
    cl::desc(
        "Times of F, I and W, and of a transfer, as F,I,W[,transfer], or a "
        "JSON file with times and bytes of each stage (1,1,1,0)"),
    cl::value_desc("file"), cl::init("1,1,1"), cl::cat(ours));
cl::opt<int64_t> memoryLimit("memory-limit",
                             cl::desc("The most bytes of a rank"),
                             cl::value_desc("bytes"), cl::cat(ours));

enum class Emit { Text, Actions, CSV, CSVComm, SVG, Trace };
cl::opt<Emit> emit(
    "emit", cl::desc("What to write (text)"),
    cl::values(
        clEnumValN(Emit::Text, "text", "Compute actions, a line a rank"),
        clEnumValN(Emit::Actions, "actions",
                   "Those, with sends, receives, waits and frees"),
        clEnumValN(Emit::CSV, "csv", "PyTorch's CSV, compute actions alone"),
        clEnumValN(Emit::CSVComm, "csv-comm",
                   "PyTorch's CSV with communication"),
        clEnumValN(Emit::SVG, "svg", "A picture with the bubble coloured"),
        clEnumValN(Emit::Trace, "trace", "For Chrome's tracing and Perfetto")),
    cl::init(Emit::Text), cl::cat(ours));
cl::opt<bool>
    verifies("verify",
             cl::desc("Verify sends, receives and memory; print makespan, "
                      "bubbles and peak bytes, no schedule but with -o"),
             cl::cat(ours));
using Communication = LowerOptions::Communication;
cl::opt<Communication> communication(
    "communication", cl::desc("Where sends and receives go (global)"),
    cl::values(clEnumValN(Communication::GlobalOrder, "global",
                          "Where one order of all ranks has them"),
               clEnumValN(Communication::Lazy, "lazy",
                          "Receives just before their use, sends just behind "
                          "their producers (deadlocks)")),
    cl::init(Communication::GlobalOrder), cl::cat(ours));
cl::opt<Queues>
    queues("queues", cl::desc("The queues of a rank (peer)"),
           cl::values(clEnumValN(Queues::OnePerPeer, "peer",
                                 "One for each other rank"),
                      clEnumValN(Queues::OnePerRank, "rank",
                                 "One for all, computation included")),
           cl::init(Queues::OnePerPeer), cl::cat(ours));
using Weights = LowerOptions::Weights;
cl::opt<Weights>
    weights("weights", cl::desc("When weights are gathered (resident)"),
            cl::values(clEnumValN(Weights::Resident, "resident", "Never"),
                       clEnumValN(Weights::GatherOnce, "once",
                                  "Once for all microbatches"),
                       clEnumValN(Weights::GatherEachRun, "each-run",
                                  "For each run of actions of one stage")),
            cl::init(Weights::Resident), cl::cat(ours));
cl::opt<bool> epilogue("epilogue",
                       cl::desc("End with the reduction of gradients, the norm "
                                "and the optimizer"),
                       cl::cat(ours));
cl::opt<std::string>
    output("o", cl::desc("Where the schedule goes (standard output)"),
           cl::value_desc("file"), cl::init("-"), cl::cat(ours));

llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<std::string> readFile(llvm::StringRef path) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
      llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!buffer)
    return error("cannot read '" + path + "': " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

/// The text of --costs, and what stands before its errors.
llvm::Expected<std::pair<std::string, std::string>> readCosts() {
  // A name of a file may have a comma, too, if there is one of that name.
  bool isNumbers =
      llvm::StringRef(costs).find_first_not_of("0123456789.,eE+- ") ==
          llvm::StringRef::npos ||
      (llvm::StringRef(costs).contains(',') && !llvm::sys::fs::exists(costs));
  if (isNumbers)
    return std::pair(costs.getValue(), std::string("--costs"));
  llvm::Expected<std::string> text = readFile(costs);
  if (!text)
    return text.takeError();
  if (!llvm::StringRef(*text).ltrim().starts_with("{"))
    return error(costs + ": no JSON object, expected one, for instance "
                         "{\"forward\": 1}");
  return std::pair(std::move(*text), costs.getValue());
}

bool hasCommunication(const Schedule &schedule) {
  for (const std::vector<Action> &actions : schedule.ranks)
    for (const Action &action : actions)
      if (!action.isCompute())
        return true;
  return false;
}
bool hasWaits(const Schedule &schedule) {
  for (const std::vector<Action> &actions : schedule.ranks)
    for (const Action &action : actions)
      if (action.kind == ActionKind::WaitSend ||
          action.kind == ActionKind::WaitReceive ||
          action.kind == ActionKind::Free)
        return true;
  return false;
}

/// Prints a problem; false.
bool complain(const Problem &problem) {
  llvm::errs() << problem.str(input.empty() ? "" : llvm::StringRef(input));
  return false;
}

/// What the command line asks for, in order; an error, or false where a problem
/// of the schedule was printed.
class Run {
public:
  llvm::Expected<bool> run();

private:
  llvm::Error make();
  llvm::Expected<std::string> print();
  std::string report();

  Schedule schedule;
  Pipeline pipeline;
  /// With communication, and what the verifier found.
  Schedule low;
  Verification verification;
  double lowerBound = -1;
};

llvm::Error Run::make() {
  llvm::Expected<std::pair<std::string, std::string>> text = readCosts();
  if (!text)
    return text.takeError();
  const std::string &costText = text->first, &costName = text->second;
  auto takeCosts = [&](int32_t stages) -> llvm::Error {
    llvm::Expected<Pipeline> read = parseCosts(costText, costName, stages);
    if (!read)
      return read.takeError();
    pipeline = std::move(*read);
    return llvm::Error::success();
  };
  if (recipe.empty() == input.empty())
    return error("expected either --pipeline, to make a schedule, or a file "
                 "with one; see sheaf-schedule --help");
  if (!input.empty()) {
    for (const cl::Option *option : std::initializer_list<const cl::Option *>{
             &ranks, &microbatches, &chunks, &placement})
      if (option->getNumOccurrences())
        return error("--" + option->ArgStr +
                     " and a file exclude each other, expected it with "
                     "--pipeline");
    llvm::Expected<std::string> bytes = readFile(input);
    if (!bytes)
      return bytes.takeError();
    llvm::Expected<Schedule> read = parse(*bytes, input);
    if (!read)
      return read.takeError();
    schedule = std::move(*read);
    return takeCosts(schedule.stages());
  }
  if (recipe != "greedy") {
    if (recipe.getValue().find("greed") == 0)
      return error("unknown schedule '" + recipe + "', expected 'greedy'");
    llvm::Expected<Schedule> made =
        makeRecipe(recipe, ranks, microbatches, chunks);
    if (!made)
      return made.takeError();
    schedule = std::move(*made);
    return takeCosts(schedule.stages());
  }
  llvm::Expected<int32_t> listed = countStages(costText, costName);
  if (!listed)
    return listed.takeError();
  if (ranks < 1 || chunks < 1 || microbatches < 1 ||
      int64_t(ranks) * chunks * microbatches > (1 << 24))
    return error(llvm::Twine(ranks) + " ranks with " + llvm::Twine(chunks) +
                 " chunks and " + llvm::Twine(microbatches) +
                 " microbatches, expected at least 1 of each, and a product of "
                 "at most " +
                 llvm::Twine(1 << 24));
  if (llvm::Error e = takeCosts(*listed ? *listed : ranks * chunks))
    return e;
  GreedyOptions options;
  options.ranks = ranks;
  options.microbatches = microbatches;
  options.placement = placement;
  if (memoryLimit.getNumOccurrences())
    options.memoryLimit = memoryLimit;
  llvm::Expected<GreedyResult> made = makeGreedy(pipeline, options);
  if (!made)
    return made.takeError();
  schedule = std::move(made->schedule);
  lowerBound = made->lowerBound;
  return llvm::Error::success();
}

std::string Run::report() {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << schedule.stages() << " stages on " << schedule.size() << " ranks, "
     << schedule.microbatches << " microbatches\n"
     << printFigures(verification.timing);
  if (lowerBound >= 0)
    os << "no order takes less than " << llvm::format("%.6g", lowerBound)
       << "\n";
  for (int32_t rank = 0; rank < schedule.size(); ++rank) {
    const Peak &peak = verification.peaks[rank];
    os << "rank " << rank << ": at most " << peak.bytes << " bytes";
    if (peak.action >= 0)
      os << ", at action " << peak.action << ", '"
         << low.ranks[rank][peak.action].str() << "'";
    os << "\n";
  }
  return text;
}

llvm::Expected<std::string> Run::print() {
  switch (emit) {
  case Emit::Text: {
    std::string text;
    if (lowerBound >= 0)
      llvm::raw_string_ostream(text)
          << "# makespan "
          << llvm::format("%.6g", clockOf(pipeline, schedule).makespan)
          << ", no order takes less than " << llvm::format("%.6g", lowerBound)
          << "\n";
    return text + printText(schedule, /*computeOnly=*/true);
  }
  case Emit::Actions:
    return printText(low);
  case Emit::CSV:
    return printCSV(schedule, false);
  case Emit::CSVComm:
    return printCSV(low, true);
  case Emit::SVG:
    return printSVG(low, verification.timing);
  case Emit::Trace:
    return printTrace(low, verification.timing);
  }
  return std::string();
}

llvm::Expected<bool> Run::run() {
  if (memoryLimit.getNumOccurrences() && memoryLimit < 0)
    return error("--memory-limit is " + llvm::Twine(memoryLimit) +
                 ", expected a number of bytes");
  if (llvm::Error e = make())
    return e;
  LowerOptions options;
  options.communication = communication;
  options.queues = queues;
  options.weights = weights;
  options.epilogue = options.norm = epilogue;
  if (hasCommunication(schedule)) {
    if (hasWaits(schedule)) {
      low = schedule;
    } else {
      Lowered result = completeBuffers(pipeline, schedule, queues);
      if (auto *problem = std::get_if<Problem>(&result))
        return complain(*problem);
      low = std::get<Schedule>(std::move(result));
    }
  } else {
    Lowered result = lower(pipeline, schedule, options);
    if (auto *problem = std::get_if<Problem>(&result))
      return complain(*problem);
    low = std::get<Schedule>(std::move(result));
  }
  VerifyOptions verifyOptions;
  verifyOptions.queues = queues;
  if (memoryLimit.getNumOccurrences())
    verifyOptions.memoryLimit = memoryLimit;
  verification = sheaf::schedule::verify(pipeline, low, verifyOptions);
  if (verification.problem)
    return complain(*verification.problem);
  if (verifies)
    llvm::outs() << report();
  if (verifies && !output.getNumOccurrences())
    return true;
  llvm::Expected<std::string> text = print();
  if (!text)
    return text.takeError();
  if (llvm::Error e = sheaf::writeFile(output, *text))
    return e;
  return true;
}
} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // A file-size limit is then an error of write(), with a message.
  signal(SIGXFSZ, SIG_IGN);
  cl::HideUnrelatedOptions(ours);
  cl::SetVersionPrinter(sheaf::printVersion);
  cl::ParseCommandLineOptions(
      argc, argv, "Makes, reads, verifies and draws schedules of pipelines.\n");
  llvm::Expected<bool> isFine = Run().run();
  if (!isFine) {
    llvm::WithColor::error(llvm::errs(), "sheaf-schedule")
        << llvm::toString(isFine.takeError()) << "\n";
    return 1;
  }
  return *isFine ? 0 : 1;
}
