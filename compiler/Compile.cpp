//===- Compile.cpp - From model IR to an artifact -------------------------===//

#include "compiler/Compile.h"
#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace sheaf;

namespace {

/// One compilation.
class Compilation {
public:
  Compilation(ModuleOp module, const CompileOptions &options)
      : module(module), options(options) {}

  LogicalResult run(StringRef path);

private:
  ModuleOp module;
  const CompileOptions &options;
  int phase = 0;
  llvm::json::Object manifest;
  std::string modelBytecode;
  /// The kernels in LLVM, in nested modules.
  OwningOpRef<ModuleOp> kernelParts;

  bool isTraining() { return static_cast<bool>(module.lookupSymbol<func::FuncOp>("loss")); }
  LogicalResult runPasses(StringRef name, const Twine &pipeline) {
    return runPasses(module, name, pipeline);
  }
  LogicalResult runPasses(ModuleOp root, StringRef name, const Twine &pipeline);
  LogicalResult makeStep();
  LogicalResult makeExec();
  LogicalResult makeLLVM();
  LogicalResult writeText(StringRef path) { return writeText(module, path); }
  LogicalResult writeText(ModuleOp root, StringRef path);
  LogicalResult writeArtifact(StringRef path);
  LogicalResult writeBytes(StringRef path, StringRef bytes);
  FailureOr<std::vector<std::string>> makeObjects();
};

} // namespace

LogicalResult Compilation::runPasses(ModuleOp root, StringRef name, const Twine &pipeline) {
  PassManager manager(module->getContext(), ModuleOp::getOperationName());
  std::string text = pipeline.str();
  if (failed(parsePassPipeline(text, manager)))
    return module.emitError("internal: phase '") << name << "' has no pipeline '" << text << "'";
  if (failed(applyPassManagerCLOptions(manager)))
    return failure();
  applyDefaultTimingPassManagerCLOptions(manager);
  if (failed(manager.run(root)))
    return failure();
  if (options.dumpPhasesTo.empty())
    return success();
  if (std::error_code error = llvm::sys::fs::create_directories(options.dumpPhasesTo))
    return module.emitError("cannot create '")
           << options.dumpPhasesTo << "': " << error.message();
  llvm::SmallString<128> file(options.dumpPhasesTo);
  std::string number = std::to_string(++phase);
  llvm::sys::path::append(file, (number.size() < 2 ? "0" : "") + number + "-" + name + ".mlir");
  return writeText(root, file);
}

/// Floor 1 to floor 2.
LogicalResult Compilation::makeStep() {
  if (!isTraining()) {
    if (options.differentiate) {
      std::string names;
      for (func::FuncOp function : module.getOps<func::FuncOp>())
        if (function.isPublic())
          names += (names.empty() ? "" : ",") + function.getName().str();
      if (failed(runPasses("differentiate", "nn-differentiate{functions=" + names + "}")))
        return failure();
    }
  } else if (!module.lookupSymbol<func::FuncOp>("step")) {
    std::string scalars;
    for (auto &[name, value] : options.scalars)
      scalars += " " + name + "=" + value;
    bool logits = static_cast<bool>(module.lookupSymbol<func::FuncOp>("logits"));
    if (failed(runPasses("inline", "inline{default-pipeline=},symbol-dce")) ||
        failed(runPasses("differentiate", "nn-differentiate{functions=loss}")) ||
        (options.recompute != "none" &&
         failed(runPasses("recompute", "nn-recompute{policy=" + options.recompute + "}"))) ||
        failed(runPasses("accumulate", "nn-accumulate{function=loss microbatches=" +
                                           Twine(options.microbatches) + "}")) ||
        failed(runPasses("optimizer", "nn-add-optimizer{kind=" + options.optimizer + scalars +
                                          "},nn-add-initializer")) ||
        failed(runPasses("evaluation",
                         Twine("nn-prepare-evaluation{functions=loss") +
                             (logits ? ",logits" : "") + "}")))
      return failure();
    // What is left of floor 1 and no entry goes away.
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!llvm::is_contained({"init", "step", "gradients", "loss", "logits"},
                              function.getName()))
        function.setPrivate();
  }
  if (options.wide && failed(runPasses("widen", "nn-convert-floats{to=f64}")))
    return failure();
  return runPasses("simplify", "symbol-dce,canonicalize,cse,symbol-dce");
}

/// Floor 2 to the placed program.
LogicalResult Compilation::makeExec() {
  if (options.reference && failed(runPasses("decompose", "nn-decompose,canonicalize,cse")))
    return failure();
  if (!options.reference &&
      failed(runPasses("reductions", "func.func(cpu-split-reductions)")))
    return failure();
  if (options.codegen.optLevel > 0 &&
      failed(runPasses("fuse", "nn-accumulate-in-layers,symbol-dce,func.func(nn-fuse)")))
    return failure();
  return failure(failed(runPasses("buffers", "nn-to-exec")) ||
                 failed(runPasses("place", "exec-place")));
}

/// Moves the kernels of `module` into nested modules of the result, a few in each:
/// passes and code generation then share the cores, and no kernel pays for a pass
/// pipeline alone. The constants that a kernel reads go with it.
static OwningOpRef<ModuleOp> splitKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> parts = ModuleOp::create(module.getLoc());
  auto kernels = module.lookupSymbol<ModuleOp>(exec::kKernelsName);
  if (!kernels)
    return parts;
  constexpr int perPart = 8;
  SymbolTable symbols(kernels);
  ModuleOp part;
  int count = 0;
  for (func::FuncOp kernel : llvm::make_early_inc_range(kernels.getOps<func::FuncOp>())) {
    if (count++ % perPart == 0) {
      OpBuilder builder = OpBuilder::atBlockEnd(parts->getBody());
      part = ModuleOp::create(builder, kernels.getLoc());
    }
    kernel.walk([&](memref::GetGlobalOp use) {
      if (SymbolTable::lookupSymbolIn(part, use.getNameAttr()))
        return;
      Operation *global = symbols.lookup(use.getNameAttr().getValue());
      part.getBody()->push_front(global->clone());
    });
    kernel->moveBefore(part.getBody(), part.getBody()->end());
  }
  kernels.erase();
  return parts;
}

LogicalResult Compilation::makeLLVM() {
  FailureOr<llvm::json::Object> entries = describeEntries(module);
  if (failed(entries))
    return failure();
  manifest = std::move(*entries);
  FailureOr<Processor> processor = resolveProcessor(module.getLoc(), options.codegen);
  if (failed(processor))
    return failure();
  StringRef features = processor->features;
  int vectorBytes = features.contains("+avx512f") ? 64 : features.contains("+avx2") ? 32 : 16;
  if (failed(runPasses("kernels",
                       "cpu-lower-kernels{vector-bytes=" + Twine(vectorBytes) + "}")) ||
      failed(runPasses("host", "exec-to-llvm")))
    return failure();
  kernelParts = splitKernels(module);
  return runPasses(*kernelParts, "machine", "builtin.module(cpu-kernels-to-llvm)");
}

LogicalResult Compilation::writeBytes(StringRef path, StringRef bytes) {
  if (path == "-") {
    llvm::outs() << bytes;
    llvm::outs().flush();
    return success();
  }
  // The file appears whole or not at all.
  llvm::SmallString<128> temporary;
  int descriptor;
  if (std::error_code error =
          llvm::sys::fs::createUniqueFile(path + ".%%%%%%", descriptor, temporary))
    return module.emitError("cannot write '") << path << "': " << error.message();
  llvm::FileRemover remover(temporary);
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << bytes;
  stream.close();
  if (stream.has_error()) {
    std::error_code error = stream.error();
    stream.clear_error();
    return module.emitError("cannot write '") << path << "': " << error.message();
  }
  if (std::error_code error = llvm::sys::fs::setPermissions(
          temporary, static_cast<llvm::sys::fs::perms>(0644)))
    return module.emitError("cannot write '") << path << "': " << error.message();
  if (std::error_code error = llvm::sys::fs::rename(temporary, path))
    return module.emitError("cannot write '") << path << "': " << error.message();
  remover.releaseFile();
  return success();
}

LogicalResult Compilation::writeText(ModuleOp root, StringRef path) {
  std::string text;
  llvm::raw_string_ostream os(text);
  root.print(os, OpPrintingFlags().printNameLocAsPrefix());
  os << "\n";
  return writeBytes(path, text);
}

FailureOr<std::vector<std::string>> Compilation::makeObjects() {
  SmallVector<ModuleOp> modules(kernelParts->getOps<ModuleOp>());
  modules.push_back(module);
  return compileModules(modules, options.codegen);
}

/// What the runtime wants to know of the model as a whole.
static llvm::json::Object describeModel(const llvm::json::Object &manifest, ModuleOp module,
                                        const CompileOptions &options) {
  llvm::json::Object model;
  model["name"] = module.getSymName() ? module.getSymName()->str() : "model";
  int64_t parameters = 0;
  for (const llvm::json::Value &value : *manifest.getArray("buffers")) {
    const llvm::json::Object &buffer = *value.getAsObject();
    const llvm::json::Array &shape = *buffer.getArray("shape");
    llvm::StringRef kind = *buffer.getString("kind"), name = *buffer.getString("name");
    if (kind == "parameter") {
      int64_t elements = 1;
      for (const llvm::json::Value &size : shape)
        elements *= *size.getAsInteger();
      parameters += elements;
    } else if (kind == "batch" && name == "tokens") {
      model["batch"] = *shape[0].getAsInteger();
      model["seq"] = *shape[1].getAsInteger();
    } else if (kind == "result" && name == "logits") {
      model["vocab"] = *shape.back().getAsInteger();
    }
  }
  model["parameters"] = parameters;
  model["microbatches"] = options.microbatches;
  if (auto flops = module->getAttrOfType<FloatAttr>("sheaf.flops_per_step"))
    model["flops_per_step"] = flops.getValueAsDouble();
  return model;
}

LogicalResult Compilation::writeArtifact(StringRef path) {
  describeKernels(module, manifest);
  FailureOr<Processor> processor = resolveProcessor(module.getLoc(), options.codegen);
  if (failed(processor))
    return failure();
  // The features that generated code can use; the others (shadow stacks, say) are
  // the kernel's business.
  llvm::json::Array features;
  for (StringRef feature : llvm::split(processor->features, ','))
    if (feature.consume_front("+") &&
        llvm::any_of(std::initializer_list<StringRef>{"sse", "ssse", "avx", "fma", "bmi", "f16c",
                                                      "lzcnt", "popcnt", "movbe"},
                     [&](StringRef prefix) { return feature.starts_with(prefix); }))
      features.push_back(feature);
  manifest["abi"] = 1;
  manifest["producer"] = "sheaf 0.1.0 (MLIR " LLVM_VERSION_STRING ")";
  manifest["target"] = "cpu";
  manifest["cpu"] = processor->name;
  manifest["cpu_features"] = std::move(features);
  manifest["mesh"] = llvm::json::Object{{"axes", llvm::json::Array()}, {"ranks", 1}};
  manifest["model"] = describeModel(manifest, module, options);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(manifest));

  FailureOr<std::vector<std::string>> objects = makeObjects();
  if (failed(objects))
    return failure();
  FailureOr<std::string> data = makeDataObject(
      module.getLoc(), {{"sheaf_manifest", text}, {"sheaf_model", modelBytecode}});
  if (failed(data))
    return failure();
  objects->push_back(std::move(*data));
  return linkArtifact(module.getLoc(), *objects, path);
}

/// The floor that a module stands on.
static Floor floorOf(ModuleOp module) {
  Floor floor = Floor::Model;
  if (!module.getOps<LLVM::LLVMFuncOp>().empty())
    return Floor::LLVM;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (function.getName() == "step" && floor == Floor::Model)
      floor = Floor::Step;
    if (llvm::any_of(function.getArgumentTypes(), llvm::IsaPred<MemRefType>))
      floor = Floor::Exec;
  }
  return floor;
}

/// Products of the forward pass, times three for the step: the usual count of model
/// FLOPs (causal attention counts the half that is visible).
static double countFlops(ModuleOp module) {
  SymbolTable symbols(module);
  std::function<double(func::FuncOp)> count = [&](func::FuncOp function) {
    double flops = 0;
    function.walk([&](Operation *op) {
      if (auto call = dyn_cast<func::CallOp>(op)) {
        if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
          flops += count(callee);
      } else if (auto einsum = dyn_cast<nn::EinsumOp>(op)) {
        llvm::SmallDenseMap<char, double> sizes;
        StringRef left = einsum.getEquation().split("->").first;
        SmallVector<StringRef> operands;
        left.split(operands, ',');
        for (auto [letters, value] : llvm::zip_equal(operands, einsum.getInputs()))
          for (auto [i, letter] : llvm::enumerate(letters))
            sizes[letter] = cast<RankedTensorType>(value.getType()).getDimSize(i);
        double product = operands.size() == 2 ? 2 : 0;
        for (auto &entry : sizes)
          product *= entry.second;
        flops += product;
      } else if (auto attention = dyn_cast<nn::AttentionOp>(op)) {
        RankedTensorType q = attention.getQuery().getType();
        RankedTensorType v = attention.getValue().getType();
        double pairs = double(q.getDimSize(0)) * q.getDimSize(1) * q.getDimSize(2) *
                       v.getDimSize(1);
        flops += (attention.getCausal() ? 1.0 : 2.0) * pairs *
                 (q.getDimSize(3) + v.getDimSize(3));
      }
    });
    return flops;
  };
  auto loss = symbols.lookup<func::FuncOp>("loss");
  return loss ? 3 * count(loss) : 0;
}

LogicalResult Compilation::run(StringRef path) {
  Floor floor = floorOf(module);
  if (floor > options.emit)
    return module.emitError("is on a lower floor than the one asked for; a program only moves "
                            "down");
  if (floor <= Floor::Step) {
    llvm::raw_string_ostream stream(modelBytecode);
    if (failed(writeBytecodeToFile(module, stream)))
      return module.emitError("cannot be written as bytecode");
    module->setAttr("sheaf.flops_per_step",
                    Builder(module.getContext()).getF64FloatAttr(countFlops(module)));
  }
  if (options.emit == Floor::Model)
    return writeText(path);
  if (floor <= Floor::Step && failed(makeStep()))
    return failure();
  if (options.emit == Floor::Step)
    return writeText(path);
  if (floor < Floor::Exec && failed(makeExec()))
    return failure();
  if (options.emit == Floor::Exec)
    return writeText(path);
  if (floor == Floor::LLVM)
    return module.emitError("is LLVM already; give it to LLVM's own tools");
  if (failed(makeLLVM()))
    return failure();
  switch (options.emit) {
  case Floor::LLVM: {
    // Host first, then the kernels, each as LLVM IR after optimisation.
    std::string text;
    llvm::raw_string_ostream os(text);
    SmallVector<ModuleOp> modules{module};
    llvm::append_range(modules, kernelParts->getOps<ModuleOp>());
    for (ModuleOp part : modules) {
      llvm::LLVMContext context;
      std::unique_ptr<llvm::Module> llvmModule =
          translateAndOptimise(part, context, options.codegen);
      if (!llvmModule)
        return failure();
      llvmModule->print(os, nullptr);
    }
    return writeBytes(path, text);
  }
  case Floor::Object: {
    FailureOr<std::vector<std::string>> objects = makeObjects();
    if (failed(objects))
      return failure();
    // The host's object; the kernels stand before it.
    return writeBytes(path, objects->back());
  }
  default:
    return writeArtifact(path);
  }
}

LogicalResult sheaf::compile(ModuleOp module, const CompileOptions &options, StringRef path) {
  return Compilation(module, options).run(path);
}
