//===- Codegen.cpp - Object code from the LLVM dialect --------------------===//

#include "lowering/artifact/Artifact.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "runtime/include/sheaf/abi.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include <mutex>

using namespace mlir;
using namespace sheaf;

static void initialiseTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
}

FailureOr<Processor> sheaf::resolveProcessor(Location loc,
                                             const CodegenOptions &options) {
  initialiseTarget();
  Processor processor{options.cpu, ""};
  if (options.cpu == "native") {
    processor.name = llvm::sys::getHostCPUName().str();
    llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    std::vector<std::string> names;
    for (const auto &feature : features)
      names.push_back((feature.second ? "+" : "-") + feature.first().str());
    llvm::sort(names);
    processor.features = llvm::join(names, ",");
  }
  return processor;
}

static std::unique_ptr<llvm::TargetMachine>
createMachine(Location loc, const CodegenOptions &options) {
  FailureOr<Processor> processor = resolveProcessor(loc, options);
  if (failed(processor))
    return nullptr;
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    emitError(loc) << "no code generator for " << triple.str() << ": " << error;
    return nullptr;
  }
  auto level = options.optLevel == 0   ? llvm::CodeGenOptLevel::None
               : options.optLevel == 1 ? llvm::CodeGenOptLevel::Less
               : options.optLevel == 2 ? llvm::CodeGenOptLevel::Default
                                       : llvm::CodeGenOptLevel::Aggressive;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, processor->name, processor->features,
                                  {}, llvm::Reloc::PIC_, std::nullopt, level));
  if (!machine->getMCSubtargetInfo()->isCPUStringValid(processor->name)) {
    emitError(loc) << "unknown processor '" << processor->name << "' for "
                   << triple.str()
                   << ", expected 'native' or a name that LLVM knows";
    return nullptr;
  }
  return machine;
}

void sheaf::registerCodegenDialects(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

static void optimise(llvm::Module &module, llvm::TargetMachine &machine,
                     int level) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::Function &function : module) {
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = level >= 2;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::OptimizationLevel levels[] = {
      llvm::OptimizationLevel::O0, llvm::OptimizationLevel::O1,
      llvm::OptimizationLevel::O2, llvm::OptimizationLevel::O3};
  llvm::ModulePassManager manager =
      level == 0 ? builder.buildO0DefaultPipeline(llvm::OptimizationLevel::O0)
                 : builder.buildPerModuleDefaultPipeline(levels[level]);
  manager.run(module, modules);
}

static std::unique_ptr<llvm::Module> translate(ModuleOp module,
                                               llvm::LLVMContext &context,
                                               llvm::TargetMachine &machine,
                                               int level) {
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(module, context);
  if (!translated) {
    module.emitError("could not be translated to LLVM IR");
    return nullptr;
  }
  optimise(*translated, machine, level);
  return translated;
}

std::unique_ptr<llvm::Module>
sheaf::translateAndOptimise(ModuleOp module, llvm::LLVMContext &context,
                            const CodegenOptions &options) {
  auto machine = createMachine(module.getLoc(), options);
  return machine ? translate(module, context, *machine, options.optLevel)
                 : nullptr;
}

static FailureOr<std::string> emitObject(Location loc, llvm::Module &module,
                                         llvm::TargetMachine &machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    return emitError(loc) << "this target cannot write object files";
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

FailureOr<std::vector<std::string>>
sheaf::compileModules(ArrayRef<ModuleOp> kernels, ModuleOp host,
                      const CodegenOptions &kernelOptions,
                      TimingScope &timing) {
  std::vector<std::string> objects(kernels.size() + 1);
  CodegenOptions hostOptions = kernelOptions;
  hostOptions.optLevel = 0;
  initialiseTarget();
  LogicalResult result = failableParallelForEachN(
      host.getContext(), 0, objects.size(), [&](size_t i) -> LogicalResult {
        bool isHost = i == kernels.size();
        ModuleOp module = isHost ? host : kernels[i];
        const CodegenOptions &options = isHost ? hostOptions : kernelOptions;
        TimingScope scope = timing.nest(isHost ? "host" : "kernels");
        auto machine = createMachine(module.getLoc(), options);
        if (!machine)
          return failure();
        llvm::LLVMContext context;
        auto translated =
            translate(module, context, *machine, options.optLevel);
        if (!translated)
          return failure();
        FailureOr<std::string> object =
            emitObject(module.getLoc(), *translated, *machine);
        if (failed(object))
          return failure();
        objects[i] = std::move(*object);
        return success();
      });
  if (failed(result))
    return failure();
  return objects;
}

FailureOr<std::string>
sheaf::makeDataObject(Location loc,
                      ArrayRef<std::pair<std::string, std::string>> constants) {
  auto machine = createMachine(loc, CodegenOptions{});
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  llvm::Module module("data", context);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  auto add = [&](llvm::Constant *value, llvm::StringRef name) {
    new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true,
                             llvm::GlobalValue::ExternalLinkage, value, name);
  };
  for (const auto &[name, bytes] : constants) {
    add(llvm::ConstantDataArray::getString(context, bytes, /*AddNull=*/true),
        name);
    add(llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), bytes.size()),
        name + "_size");
  }
  add(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context),
                             SHEAF_ABI_VERSION),
      "sheaf_abi_version");
  return emitObject(loc, module, *machine);
}
