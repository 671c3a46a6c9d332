//===- KernelJit.cpp - Compile kernels in memory for tests ----------------===//

#include "KernelJit.h"

#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

#include <cstdio>
#include <cstdlib>

using namespace mlir;

namespace sheaf::test {

[[noreturn]] static void fail(const std::string &message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  std::exit(1);
}

std::unique_ptr<MLIRContext> createContext() {
  static bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    registerAllPasses();
    return true;
  }();
  (void)initialized;
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  auto context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

KernelJit::KernelJit(ModuleOp module, const std::string &cpu) {
  // math.log of f32 to a polynomial; everything else goes to LLVM and libm.
  {
    RewritePatternSet patterns(module.getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    if (failed(applyPatternsGreedily(module, std::move(patterns))))
      fail("cannot approximate math functions");
  }
  PassManager manager(module.getContext());
  if (failed(parsePassPipeline(
          "canonicalize,cse,convert-vector-to-scf,convert-scf-to-cf,"
          "convert-vector-to-llvm,convert-math-to-llvm,convert-math-to-libm,"
          "finalize-memref-to-llvm,"
          "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},"
          "convert-arith-to-llvm,convert-index-to-llvm,convert-cf-to-llvm,"
          "convert-ub-to-llvm,reconcile-unrealized-casts,canonicalize,cse",
          manager)))
    fail("cannot parse the lowering pipeline");
  if (failed(manager.run(module)))
    fail("cannot lower the kernels");

  auto target = [&]() -> llvm::orc::JITTargetMachineBuilder {
    if (!cpu.empty()) {
      llvm::Triple triple(llvm::sys::getProcessTriple());
      llvm::orc::JITTargetMachineBuilder builder(triple);
      builder.setCPU(cpu);
      return builder;
    }
    auto host = llvm::orc::JITTargetMachineBuilder::detectHost();
    if (!host)
      fail(llvm::toString(host.takeError()));
    return std::move(*host);
  }();
  target.setCodeGenOptLevel(llvm::CodeGenOptLevel::Aggressive);
  auto forPasses = target.createTargetMachine();
  auto forCode = target.createTargetMachine();
  if (!forPasses || !forCode)
    fail("cannot create a target machine");

  ExecutionEngineOptions options;
  options.transformer = makeOptimizingTransformer(
      /*optLevel=*/3, /*sizeLevel=*/0, forPasses->get());
  options.jitCodeGenOptLevel = llvm::CodeGenOptLevel::Aggressive;
  options.enableObjectDump = std::getenv("SHEAF_DUMP_OBJECT") != nullptr;
  auto created = ExecutionEngine::create(module, options, std::move(*forCode));
  if (!created)
    fail(llvm::toString(created.takeError()));
  engine = std::move(*created);
  if (const char *path = std::getenv("SHEAF_DUMP_OBJECT")) {
    for (Operation &op : module.getBody()->getOperations())
      if (auto symbol = dyn_cast<SymbolOpInterface>(op)) {
        (void)lookup(symbol.getName().str());
        break;
      }
    engine->dumpToObjectFile(path);
  }
}

KernelJit::Packed KernelJit::lookup(const std::string &name) const {
  auto found = engine->lookupPacked(name);
  if (!found)
    fail(llvm::toString(found.takeError()));
  return *found;
}

void KernelJit::call(const std::string &name, const std::vector<void *> &data,
                     int64_t begin, int64_t end) const {
  // A packed argument is the address of the argument's value.
  std::vector<void *> values = data;
  std::vector<void *> packed;
  for (void *&value : values)
    packed.push_back(&value);
  packed.push_back(&begin);
  packed.push_back(&end);
  lookup(name)(packed.data());
}

} // namespace sheaf::test
