//===- Jit.cpp - Runs CPU kernels in this process -------------------------===//

#include "Jit.h"
#include "dialects/NN/NN.h"
#include "lowering/cpu/kernels/Kernels.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace sheaf::test;

std::unique_ptr<MLIRContext> Jit::makeContext() {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  registry.insert<nn::NNDialect>();
  auto context = std::make_unique<MLIRContext>(registry);
  context->allowUnregisteredDialects();
  context->loadAllAvailableDialects();
  return context;
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

std::unique_ptr<Jit> Jit::compile(ModuleOp module, std::string &error) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto fail = [&](const llvm::Twine &text) {
    error = text.str();
    return nullptr;
  };
  auto result = std::make_unique<Jit>();
  PassManager pm(module.getContext());
  pm.addPass(cpu::createLowerKernelsPass());
  if (failed(pm.run(module)))
    return fail("the kernels were not lowered");
  module.walk([&](func::FuncOp function) {
    auto number = [&](StringRef name) {
      auto attribute = function->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    if (!function->hasAttr(cpu::kKernelAttr))
      return;
    CompiledKernel kernel{function.getName().str(), nullptr,
                          number(cpu::kExtentAttr), number(cpu::kGrainAttr),
                          number(cpu::kBytesAttr),  number(cpu::kFlopsAttr), {}};
    if (auto pairs = function->getAttrOfType<DenseI64ArrayAttr>(cpu::kInPlaceAttr))
      kernel.inPlace = pairs.asArrayRef().vec();
    result->kernels.push_back(kernel);
  });
  if (failed(cpu::lowerKernelsToLLVM(module)))
    return fail("the kernels were not lowered to LLVM");

  auto context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, *context);
  if (!code)
    return fail("no LLVM IR was made");
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return fail(llvm::toString(builder.takeError()));
  builder->setCodeGenOptLevel(llvm::CodeGenOptLevel::Aggressive);
  auto machine = builder->createTargetMachine();
  if (!machine)
    return fail(llvm::toString(machine.takeError()));
  code->setDataLayout((*machine)->createDataLayout());
  code->setTargetTriple((*machine)->getTargetTriple());
  optimize(*code, **machine);
  if (const char *file = std::getenv("SHEAF_KERNELS_LLVM")) {
    std::error_code failed;
    llvm::raw_fd_ostream os(file, failed);
    code->print(os, nullptr);
  }

  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(*builder).create();
  if (!jit)
    return fail(llvm::toString(jit.takeError()));
  if (auto failed = (*jit)->addIRModule(
          llvm::orc::ThreadSafeModule(std::move(code), std::move(context))))
    return fail(llvm::toString(std::move(failed)));
  for (CompiledKernel &kernel : result->kernels) {
    auto address = (*jit)->lookup(kernel.name);
    if (!address)
      return fail(llvm::toString(address.takeError()));
    kernel.entry = address->toPtr<SheafKernel>();
  }
  result->jit = std::move(*jit);
  return result;
}
