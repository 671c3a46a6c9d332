//===- Jit.cpp - Runs CPU kernels in this process -------------------------===//

#include "Jit.h"
#include "dialects/NN/NN.h"
#include "lowering/NNToLinalg/NNToLinalg.h"
#include "lowering/cpu/kernels/Kernels.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace sheaf;
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

/// nn to loops on memrefs by way of linalg, in the form of a kernel with one
/// item.
static LogicalResult lowerByLinalg(ModuleOp module) {
  PassManager pm(module.getContext());
  pm.addNestedPass<func::FuncOp>(sheaf::createNNToLinalg());
  bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(createCanonicalizerPass());
  pm.addPass(bufferization::createOneShotBufferizePass(bufferize));
  bufferization::BufferResultsToOutParamsPassOptions out;
  out.modifyPublicFunctions = true;
  pm.addPass(bufferization::createBufferResultsToOutParamsPass(out));
  if (failed(pm.run(module)))
    return failure();
  // Copies as loops: the C library of this process has no memrefCopy.
  module.walk([](memref::CopyOp op) {
    OpBuilder builder(op);
    linalg::CopyOp::create(builder, op.getLoc(), op.getSource(),
                           op.getTarget());
    op.erase();
  });
  PassManager loops(module.getContext());
  loops.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  if (failed(loops.run(module)))
    return failure();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(cpu::kKernelAttr))
      continue;
    Builder builder(module.getContext());
    for (int i = 0; i < 2; ++i)
      if (failed(function.insertArgument(function.getNumArguments(),
                                         builder.getIndexType(), {},
                                         function.getLoc())))
        return failure();
    function->setAttr(cpu::kExtentAttr, builder.getI64IntegerAttr(1));
    function->setAttr(cpu::kGrainAttr, builder.getI64IntegerAttr(1));
  }
  return success();
}

std::unique_ptr<Jit> Jit::compile(ModuleOp module, std::string &error,
                                  Route route) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto fail = [&](const llvm::Twine &text) {
    error = text.str();
    return nullptr;
  };
  auto result = std::make_unique<Jit>();
  if (route == Route::Linalg) {
    if (failed(lowerByLinalg(module)))
      return fail("linalg was not lowered");
  } else {
    PassManager pm(module.getContext());
    CPULowerKernelsOptions options;
    if (route == Route::Streamed)
      options.streamedBytes = 1;
    pm.addPass(createCPULowerKernels(options));
    if (failed(pm.run(module)))
      return fail("the kernels were not lowered");
  }
  module.walk([&](func::FuncOp function) {
    auto number = [&](StringRef name) {
      auto attribute = function->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    if (!function->hasAttr(cpu::kKernelAttr))
      return;
    CompiledKernel kernel{function.getName().str(),
                          nullptr,
                          number(cpu::kExtentAttr),
                          number(cpu::kGrainAttr),
                          number(cpu::kBytesAttr),
                          number(cpu::kFlopsAttr),
                          {}};
    if (auto pairs =
            function->getAttrOfType<DenseI64ArrayAttr>(cpu::kInPlaceAttr))
      kernel.inPlace = pairs.asArrayRef().vec();
    result->kernels.push_back(kernel);
  });
  bool wide = llvm::sys::getHostCPUFeatures().lookup("avx512f");
  if (failed(cpu::lowerKernelsToLLVM(module, wide ? 64 : 32)))
    return fail("the kernels were not lowered to LLVM");

  auto context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, *context);
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

  auto jit =
      llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(*builder).create();
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
