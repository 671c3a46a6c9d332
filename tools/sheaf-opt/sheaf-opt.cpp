//===- sheaf-opt.cpp - Runs passes on IR ----------------------------------===//
//
// mlir-opt with Sheaf's dialects and passes: every option of mlir-opt works.
// Ours are that --help shows what one needs, that a pass that fails is named,
// and that a plugin which cannot be loaded is an error.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compile.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "support/ArgumentValues.h"
#include "support/PassFailure.h"
#include "support/Plugins.h"
#include "support/Version.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/ToolOutputFile.h"

namespace cl = llvm::cl;

static int fail(const llvm::Twine &message) {
  llvm::errs() << "sheaf-opt: " << message << "\n";
  return 1;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::SetVersionPrinter(sheaf::printVersion);
  // What the shared libraries registered: options of LLVM's code generators.
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (option->getOptionHiddenFlag() == cl::NotHidden &&
        !llvm::is_contained({"help", "help-hidden", "version", "color"}, name))
      option->setHiddenFlag(cl::Hidden);
  bool showsOurs = llvm::any_of(
      llvm::ArrayRef(argv + 1, argc - 1), [](llvm::StringRef argument) {
        return argument == "--help" || argument == "-help" || argument == "-h";
      });
  mlir::DialectRegistry registry;
  if (!showsOurs) {
    mlir::registerAllDialects(registry);
    mlir::registerAllPasses();
  }
  sheaf::registerSheafDialects(registry);
  sheaf::registerSheafPasses();

  // MLIR's options of these names load the plugins; that it can be done is seen
  // here.
  for (const std::string &file :
       sheaf::valuesOf("load-dialect-plugin", argc, argv)) {
    mlir::DialectRegistry trial;
    if (llvm::Error error = sheaf::loadDialectPlugin(file, trial))
      return fail(llvm::toString(std::move(error)));
  }
  for (const std::string &file :
       sheaf::valuesOf("load-pass-plugin", argc, argv))
    if (llvm::Error error = sheaf::loadPassPlugin(file))
      return fail(llvm::toString(std::move(error)));

  std::string header =
      mlir::registerCLIOptions("Runs passes on IR. --help lists Sheaf's own, "
                               "--help-hidden and --list-passes every "
                               "pass and option\n",
                               registry);
  auto [input, output] = mlir::parseCLIOptions(argc, argv, header);

  mlir::MlirOptMainConfig config =
      mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects()) {
    llvm::outs() << "Available Dialects: ";
    llvm::interleave(registry.getDialectNames(), llvm::outs(), ",");
    llvm::outs() << "\n";
    return 0;
  }
  if (config.shouldListPasses()) {
    mlir::printRegisteredPasses();
    return 0;
  }
  mlir::MlirOptMainConfig given = config;
  config.setPassPipelineSetupFn([given](mlir::PassManager &manager) {
    sheaf::nameFailingPass(manager, "sheaf-opt");
    return given.setupPassPipeline(manager);
  });

  if (input == "-" && llvm::sys::Process::StandardInIsUserInput())
    llvm::errs() << "sheaf-opt: reading from the terminal\n";
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> source =
      mlir::openInputFile(input, &error);
  if (!source)
    return fail(error);
  std::unique_ptr<llvm::ToolOutputFile> target =
      mlir::openOutputFile(output, &error);
  if (!target)
    return fail(error);
  if (failed(
          mlir::MlirOptMain(target->os(), std::move(source), registry, config)))
    return 1;
  target->keep();
  return 0;
}
