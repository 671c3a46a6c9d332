//===- KernelsToLLVM.cpp - Kernels in range form to the LLVM dialect ------===//

#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "lowering/cpu/kernels/ExpandMath.h"
#include "lowering/cpu/kernels/Kernels.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace sheaf::cpu;

namespace {

/// The conversions proper, in order.
void addConversions(OpPassManager &pm) {
  OpPassManager &functions = pm.nest<func::FuncOp>();
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createSCFToControlFlowPass());
  // What LLVM has no intrinsic for becomes a call, before vectors are
  // converted, of which those calls want the elements.
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions bare;
  bare.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(bare));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// Makes bf16 i16, which after the expansion of casts is only moved: LLVM
/// selects and copies some of it through f32, with a call of a library, where
/// the machine has no bf16.
void moveBF16AsIntegers(ModuleOp module) {
  Type i16 = IntegerType::get(module.getContext(), 16);
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](BFloat16Type) { return i16; });
  replacer.addReplacement([&](FloatAttr number) -> std::optional<Attribute> {
    if (!number.getType().isBF16())
      return std::nullopt;
    return IntegerAttr::get(i16, number.getValue().bitcastToAPInt());
  });
  replacer.addReplacement(
      [&](DenseElementsAttr numbers) -> std::optional<Attribute> {
        if (!numbers.getElementType().isBF16())
          return std::nullopt;
        return numbers.bitcast(i16);
      });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

struct KernelInfo {
  std::string name;
  unsigned buffers;
  LLVM::Linkage linkage;
  DictionaryAttr attributes;
};

/// `@k(void *const *buffers, int64_t begin, int64_t end)` in front of the
/// function that takes the buffers one by one.
void addEntry(ModuleOp module, const KernelInfo &info) {
  auto body = module.lookupSymbol<LLVM::LLVMFuncOp>(info.name);
  MLIRContext *context = module.getContext();
  OpBuilder builder(context);
  Location loc = body.getLoc();
  std::string bodyName = info.name + ".body";
  body.setName(bodyName);
  body.setLinkage(LLVM::Linkage::Internal);
  body.setAlwaysInline(true);

  builder.setInsertionPointAfter(body);
  auto pointer = LLVM::LLVMPointerType::get(context);
  Type i64 = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {pointer, i64, i64});
  auto entry = LLVM::LLVMFuncOp::create(builder, loc, info.name, type);
  entry.setLinkage(info.linkage);
  for (NamedAttribute attribute : info.attributes)
    if (attribute.getName().getValue().starts_with("exec."))
      entry->setAttr(attribute.getName(), attribute.getValue());
  Block *block = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  SmallVector<Value> arguments;
  for (unsigned i = 0; i < info.buffers; ++i) {
    Value slot = LLVM::GEPOp::create(
        builder, loc, pointer, pointer, block->getArgument(0),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    auto load = LLVM::LoadOp::create(builder, loc, pointer, slot);
    load.setInvariant(true);
    arguments.push_back(load);
  }
  arguments.push_back(block->getArgument(1));
  arguments.push_back(block->getArgument(2));
  LLVM::CallOp::create(builder, loc, body, arguments);
  LLVM::ReturnOp::create(builder, loc, ValueRange());

  // Buffers do not overlap but where the kernel allows it. They may be views
  // that begin at any element: nothing is said of alignment.
  llvm::SmallBitVector shared(info.buffers);
  if (auto pairs = info.attributes.getAs<DenseI64ArrayAttr>(kInPlaceAttr)) {
    ArrayRef<int64_t> list = pairs.asArrayRef();
    auto inputs = info.attributes.getAs<IntegerAttr>(kInputsAttr);
    unsigned results = inputs ? inputs.getInt() : 0;
    for (size_t i = 0; i + 1 < list.size(); i += 2) {
      shared.set(list[i]);
      shared.set(results + list[i + 1]);
    }
  }
  for (unsigned i = 0; i < info.buffers; ++i) {
    if (!shared[i])
      body.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                      builder.getUnitAttr());
  }
}
} // namespace

LogicalResult sheaf::cpu::lowerKernelsToLLVM(ModuleOp module,
                                             int64_t vectorBytes) {
  SmallVector<KernelInfo> kernels;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kKernelAttr))
      continue;
    if (!function->hasAttr(kExtentAttr))
      return function.emitError("kernel '")
             << function.getName()
             << "' is not in range form; run cpu-lower-kernels first";
    bool isPrivate = function.isPrivate();
    kernels.push_back(
        {function.getName().str(), function.getNumArguments() - 2,
         isPrivate ? LLVM::Linkage::Internal : LLVM::Linkage::External,
         function->getDiscardableAttrDictionary()});
  }
  RewritePatternSet patterns(module.getContext());
  populateExpandMathPatterns(patterns, /*scales=*/vectorBytes >= 64);
  if (failed(applyPatternsGreedily(module, std::move(patterns))))
    return module.emitError("the expansion of math functions did not end");
  PassManager pm(module.getContext());
  addConversions(pm);
  if (failed(pm.run(module)))
    return failure();
  moveBF16AsIntegers(module);
  for (const KernelInfo &info : kernels)
    addEntry(module, info);
  return success();
}

namespace sheaf {
#define GEN_PASS_DEF_CPULOWERKERNELS
#define GEN_PASS_DEF_CPUKERNELSTOLLVM
#define GEN_PASS_DEF_CPUSPLITREDUCTIONS
#include "lowering/cpu/kernels/Passes.h.inc"
} // namespace sheaf

namespace {
struct LowerKernels : sheaf::impl::CPULowerKernelsBase<LowerKernels> {
  using CPULowerKernelsBase::CPULowerKernelsBase;
  void runOnOperation() final {
    SmallVector<func::FuncOp> kernels;
    getOperation().walk([&](func::FuncOp function) {
      if (function->hasAttr(kKernelAttr) && !function->hasAttr(kExtentAttr))
        kernels.push_back(function);
    });
    for (func::FuncOp kernel : kernels)
      if (failed(lowerKernel(kernel, vectorBytes, streamedBytes)))
        return signalPassFailure();
  }
};

struct SplitReductions : sheaf::impl::CPUSplitReductionsBase<SplitReductions> {
  void runOnOperation() final { splitReductions(getOperation()); }
};

struct KernelsToLLVM : sheaf::impl::CPUKernelsToLLVMBase<KernelsToLLVM> {
  using CPUKernelsToLLVMBase::CPUKernelsToLLVMBase;
  void getDependentDialects(DialectRegistry &registry) const final {
    OpPassManager pm(ModuleOp::getOperationName());
    addConversions(pm);
    pm.getDependentDialects(registry);
  }
  void runOnOperation() final {
    SmallVector<ModuleOp> modules;
    getOperation().walk([&](ModuleOp module) {
      if (llvm::any_of(module.getOps<func::FuncOp>(),
                       [](func::FuncOp function) {
                         return function->hasAttr(kKernelAttr);
                       }))
        modules.push_back(module);
    });
    WalkResult launches =
        getOperation().walk([&](sheaf::exec::LaunchOp launch) {
          launch.emitOpError(
              "names a kernel by its function; cpu-kernels-to-llvm expects the "
              "module of kernels alone, after exec-to-llvm");
          return WalkResult::interrupt();
        });
    if (launches.wasInterrupted())
      return signalPassFailure();
    for (ModuleOp module : modules)
      if (failed(lowerKernelsToLLVM(module, vectorBytes)))
        return signalPassFailure();
  }
};
} // namespace
