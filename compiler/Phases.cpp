//===- Phases.cpp - The steps of the driver, one by one -------------------===//

#include "compiler/Phases.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "support/PassFailure.h"
#include "support/WriteFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <atomic>
#include <csignal>
#include <unistd.h>
#include <utility>

using namespace mlir;
using namespace sheaf;

/// On a dumped module: the phase after which it was written, its number, and
/// the manifest where it is known by then.
static constexpr llvm::StringLiteral kPhaseAttr = "sheaf.phase";
static constexpr llvm::StringLiteral kNumberAttr = "sheaf.phase_number";
static constexpr llvm::StringLiteral kManifestAttr = "sheaf.manifest";

static constexpr Point points[] = {
    {"model", "the model, before anything is done to it"},
    {"gradients", "the model with the functions of its gradients"},
    {"step", "floor 2, the whole step on tensors, simplified"},
    {"device", "floor 3, what one device does"},
    {"fused", "the same with its kernels chosen"},
    {"exec", "the program on buffers, before they are placed"},
    {"placed", "floor 5, the placed program"},
    {"llvm", "host code in the LLVM dialect, kernels in a module"}};

llvm::ArrayRef<Point> sheaf::getPoints() { return points; }

using Attached = std::vector<std::pair<std::string, std::string>>;

static Attached &attachedByPlugins() {
  static Attached attached;
  return attached;
}

void sheaf::attachPasses(StringRef point, StringRef pipeline) {
  attachedByPlugins().emplace_back(point.str(), pipeline.str());
}

/// The compilation that runs. Written to by one at a time: a reproducer is for
/// the driver's single compilation.
static Phases *running = nullptr;
/// What a crash outside of phases is reported with.
static const CompileOptions *reported = nullptr;

Phases::Phases(ModuleOp module, const CompileOptions &options,
               TimingScope &timing)
    : module(module), options(options), timing(timing) {
  if (auto phase = module->getAttrOfType<StringAttr>(kPhaseAttr))
    resumed = skipTo = phase.str();
  if (auto number = module->getAttrOfType<IntegerAttr>(kNumberAttr);
      number && number.getType().isSignlessInteger(64))
    count = number.getInt();
  if (auto text = module->getAttrOfType<StringAttr>(kManifestAttr))
    manifest = text.str();
  module->removeAttr(kPhaseAttr);
  module->removeAttr(kNumberAttr);
  module->removeAttr(kManifestAttr);
  last = resumed;
  outer = std::exchange(running, this);
  if (!options.crashReproducer.empty())
    catchCrashes();
}

Phases::~Phases() { running = outer; }

LogicalResult Phases::checkResumed() {
  if (skipTo.empty())
    return success();
  return module.emitError("was written after the phase '")
         << skipTo
         << "', which does not come with these options; give those that it was "
            "made with";
}

OwningOpRef<ModuleOp> Phases::snapshot() {
  OwningOpRef<ModuleOp> copy = module.clone();
  Builder builder(module.getContext());
  if (!last.empty()) {
    (*copy)->setAttr(kPhaseAttr, builder.getStringAttr(last));
    (*copy)->setAttr(kNumberAttr, builder.getI64IntegerAttr(count));
  }
  if (!manifest.empty())
    (*copy)->setAttr(kManifestAttr, builder.getStringAttr(manifest));
  if (parts)
    for (ModuleOp part : parts.getOps<ModuleOp>())
      copy->getBody()->push_back(part->clone());
  return copy;
}

static std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, OpPrintingFlags().printNameLocAsPrefix());
  os << "\n";
  return text;
}

void Phases::remember(StringRef pipeline) {
  if (options.crashReproducer.empty())
    return;
  before = snapshot();
  beforePipeline = pipeline.str();
}

/// An argument as a shell reads it.
static std::string quote(StringRef argument) {
  if (!argument.empty() && llvm::all_of(argument, [](char c) {
        return llvm::isAlnum(c) || StringRef("-_=./,:@%+").contains(c);
      }))
    return argument.str();
  std::string text = "'";
  for (char c : argument)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// The command line with `input` in the place of the input, as the last line.
static void printCommand(const CompileOptions &options, StringRef input) {
  std::string line;
  for (StringRef argument : options.command)
    line += (line.empty() ? "" : " ") +
            quote(argument == options.input ? input : argument);
  llvm::errs() << line << "\n";
}

void Phases::reproduce() {
  // A crash while this is written shall not come back here.
  running = nullptr;
  std::string text = textOf(*before);
  if (!beforePipeline.empty()) {
    // As MLIR's own reproducers: sheaf-opt --run-reproducer runs the phase
    // alone.
    llvm::raw_string_ostream os(text);
    os << "{-#\n  external_resources: {\n    mlir_reproducer: {\n      "
          "pipeline: \"";
    llvm::printEscapedString(beforePipeline, os);
    os << "\",\n      disable_threading: false,\n      verify_each: true\n    "
          "}\n  }\n#-}\n";
  }
  if (llvm::Error error = writeFile(options.crashReproducer, text)) {
    llvm::errs() << "sheaf-compile: no reproducer: "
                 << llvm::toString(std::move(error)) << "\n";
    return;
  }
  llvm::errs() << "sheaf-compile: this is a fault of the compiler. '"
               << options.crashReproducer << "' has the module before it";
  if (!beforePipeline.empty())
    llvm::errs() << "; sheaf-opt --run-reproducer runs the phase alone";
  llvm::errs() << ". To see the fault again:\n";
  printCommand(options, options.crashReproducer);
}

void Phases::onCrash(void *) {
  if (running && running->before) {
    running->reproduce();
  } else if (reported) {
    // While the input is read, or between phases.
    llvm::errs() << "sheaf-compile: this is a fault of the compiler. To see it "
                    "again:\n";
    printCommand(*reported, reported->input);
  }
}

/// LLVM's handler of signals, for the first thread that crashes. LLVM installs
/// it so that a second one, which a pass on functions in parallel is likely to
/// have, ends the process while the first still writes.
static void onSignal(int number) {
  static std::atomic<pid_t> first = 0;
  pid_t self = gettid(), none = 0;
  if (!first.compare_exchange_strong(none, self) && none != self)
    while (true)
      pause();
  // Once more in the same thread: the report itself crashed.
  if (none == 0)
    llvm::sys::RunSignalHandlers();
  signal(number, SIG_DFL);
  raise(number);
}

void Phases::catchCrashes() {
  static bool done = false;
  if (std::exchange(done, true))
    return;
  llvm::sys::AddSignalHandler(onCrash, nullptr);
  struct sigaction action = {};
  action.sa_handler = onSignal;
  // A stack that overflowed has no room for a handler.
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int number : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP})
    sigaction(number, &action, nullptr);
}

void sheaf::reportCrashes(const CompileOptions &options) {
  if (options.crashReproducer.empty())
    return;
  reported = &options;
  Phases::catchCrashes();
}

void Phases::startCodegen() { remember(""); }

LogicalResult Phases::dump(StringRef name) {
  if (options.dumpPhasesTo.empty())
    return success();
  if (std::error_code error =
          llvm::sys::fs::create_directories(options.dumpPhasesTo))
    return module.emitError("cannot create '")
           << options.dumpPhasesTo << "': " << error.message();
  llvm::SmallString<128> file(options.dumpPhasesTo);
  std::string number = std::to_string(count);
  llvm::sys::path::append(file, (number.size() < 2 ? "0" : "") + number + "-" +
                                    name + ".mlir");
  if (llvm::Error error = writeFile(file, textOf(*snapshot())))
    return module.emitError(llvm::toString(std::move(error)));
  return success();
}

LogicalResult Phases::run(ModuleOp root, StringRef name,
                          const Twine &pipeline) {
  if (!skipTo.empty()) {
    if (name == skipTo)
      skipTo.clear();
    return success();
  }
  PassManager manager(module->getContext(), ModuleOp::getOperationName());
  std::string text = pipeline.str(), reason;
  llvm::raw_string_ostream os(reason);
  if (failed(parsePassPipeline(text, manager, os)))
    return module.emitError("phase '") << name << "' has no pipeline '" << text
                                       << "': " << StringRef(reason).trim();
  if (failed(applyPassManagerCLOptions(manager)))
    return failure();
  nameFailingPass(manager, "sheaf-compile");
  TimingScope scope = timing.nest("phase " + name.str());
  manager.enableTiming(scope);
  std::string whole;
  llvm::raw_string_ostream wholeOs(whole);
  manager.printAsTextualPipeline(wholeOs);
  remember(whole);
  int errors = 0;
  {
    ScopedDiagnosticHandler counter(
        module->getContext(), [&](Diagnostic &diagnostic) {
          errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
          return failure();
        });
    if (failed(manager.run(root)) && errors == 0) {
      module.emitError("the phase '")
          << name << "' failed and does not say why";
      reproduce();
      return failure();
    }
  }
  before = nullptr;
  if (errors)
    return failure();
  last = name.str();
  ++count;
  return dump(name);
}

LogicalResult Phases::at(StringRef point) {
  SmallVector<const Attached *, 2> all{&options.attached};
  if (options.runsPluginPasses)
    all.push_back(&attachedByPlugins());
  // Each is a phase of its own, from which a dump starts again.
  int number = 0;
  for (const Attached *attached : all)
    for (auto &[name, pipeline] : *attached)
      if (name == point) {
        std::string phase = "at-" + point.str();
        if (++number > 1)
          phase += "-" + std::to_string(number);
        if (failed(run(module, phase, pipeline)))
          return failure();
      }
  return success();
}
