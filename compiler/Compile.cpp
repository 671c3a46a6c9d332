//===- Compile.cpp - From model IR to an artifact -------------------------===//

#include "compiler/Compile.h"
#include "compiler/ExplainPlaces.h"
#include "compiler/Phases.h"
#include "compiler/Remarks.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "dialects/Pipe/Pipe.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/overlap/ClusterCosts.h"
#include "passes/pipeline/Conversion.h"
#include "passes/pipeline/schedule/Text.h"
#include "passes/pipeline/schedule/Verify.h"
#include "passes/precision/Roundings.h"
#include "passes/sharding/Context.h"
#include "passes/sharding/Explain.h"
#include "passes/sharding/Passes.h"
#include "passes/stages/Passes.h"
#include "passes/stages/Plan.h"
#include "passes/step/Flops.h"
#include "runtime/include/sheaf/abi.h"
#include "support/Version.h"
#include "support/WriteFile.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include <map>

using namespace mlir;
using namespace sheaf;

namespace {

// On the module: what lower floors do not show and the manifest says.
constexpr llvm::StringLiteral kVocabularyAttr = "sheaf.vocabulary";
/// On a module: it is on floor 3.
constexpr llvm::StringLiteral kDeviceAttr = "sheaf.device";
/// Of an option that left the choice to the driver what was chosen, until it
/// has been done.
constexpr llvm::StringLiteral kContextAttr = "sheaf.context";
constexpr llvm::StringLiteral kFlopsAttr = "sheaf.flops_per_step";
constexpr llvm::StringLiteral kMicrobatchesAttr = "sheaf.microbatches";
/// How gradients and weights are sent, where they are rounded for that.
constexpr llvm::StringLiteral kWireAttr = "sheaf.wire";
/// The recipe of the step's number formats, and the options beside it.
constexpr llvm::StringLiteral kPrecisionAttr = "sheaf.precision";

/// One compilation.
class Compilation {
public:
  Compilation(ModuleOp module, const CompileOptions &options,
              TimingScope &timing)
      : module(module), options(options), timing(timing),
        phases(module, options, timing), stageLayers(options.stageLayers) {}

  LogicalResult run(StringRef path);

private:
  ModuleOp module;
  const CompileOptions &options;
  TimingScope &timing;
  Phases phases;
  /// The module came in on the floor of models.
  bool isModel = true;
  /// How attention gets its keys, as --context names it, and the ways that
  /// there were where the choice was left open.
  std::string context;
  std::optional<sharding::ContextChoice> contextChoice;
  llvm::json::Object manifest;
  std::string modelBytecode;
  /// How many layers each stage has, by option or by marks in the model.
  std::vector<int64_t> stageLayers;
  /// What a step sends, where that is to be explained.
  llvm::json::Array collectives;
  bool explains = false;
  /// Where it rounds to narrow floats.
  llvm::json::Array roundings;
  /// Of the axis pp.
  dist::LinkSpeed link = {1, 0};
  /// The step as a pipeline, where there is one and it was not skipped.
  std::optional<stages::StepPlan> plan;
  /// The kernels in LLVM, in nested modules.
  OwningOpRef<ModuleOp> kernelParts;

  bool isTraining() {
    return static_cast<bool>(module.lookupSymbol<func::FuncOp>("loss"));
  }
  void annotate();
  /// Whether every option on shardings means something here.
  LogicalResult checkShardingOptions(Floor floor);
  LogicalResult runPasses(StringRef name, const Twine &pipeline) {
    return phases.run(module, name, pipeline);
  }
  /// How many ranks stand along the pipeline, and the options of the passes
  /// that make what they run; 1 where there is none.
  int64_t pipelinePlaces();
  FailureOr<schedule::Schedule> makeSchedule();
  LogicalResult readStageMarks();
  LogicalResult cutStages();
  stages::ScheduleOptions scheduleOptions();
  LogicalResult makePrograms();
  LogicalResult writeSchedule(StringRef path);
  /// What --context=auto stands for.
  LogicalResult chooseContext(bool isResumed);
  std::string exchangePass();
  LogicalResult applyPrecision();
  LogicalResult makeStep();
  FailureOr<std::string> compressPass();
  LogicalResult makeDevice();
  /// Bytes by kind that the step holds on one device, from floor 2; nothing,
  /// with a diagnostic, where it cannot be placed.
  FailureOr<llvm::json::Object> explainWhole();
  LogicalResult explain(llvm::json::Array conflicts, ArrayRef<double> attention,
                        llvm::json::Object whole);
  /// Floor 3 without its mesh.
  LogicalResult makeTransfers();
  LogicalResult makeExec();
  std::string overlapPipeline();
  LogicalResult explainOverlap();
  LogicalResult checkMemory();
  LogicalResult statePeaks();
  LogicalResult makeLLVM();
  LogicalResult writeText(StringRef path) { return writeText(module, path); }
  LogicalResult writeText(ModuleOp root, StringRef path);
  LogicalResult writeArtifact(StringRef path);
  LogicalResult writeBytes(StringRef path, StringRef bytes);
  FailureOr<std::vector<std::string>> makeObjects();
};

} // namespace

int64_t Compilation::pipelinePlaces() {
  for (auto &[axis, size] : options.mesh)
    if (axis == "pp")
      return size;
  if (auto mesh = dist::getMesh(module))
    for (auto axis : mesh.getAxes().getAsRange<dist::MeshAxisAttr>())
      if (axis.getName() == "pp")
        return axis.getSize();
  // Below floor 3.
  if (auto mesh = module->getAttrOfType<ArrayAttr>(exec::kMeshAttr))
    for (auto axis : mesh.getAsRange<ArrayAttr>())
      if (cast<StringAttr>(axis[0]).getValue() == "pp")
        return cast<IntegerAttr>(axis[1]).getInt();
  return 1;
}

/// What each rank of the pipeline computes when; the step is on floor 2.
FailureOr<schedule::Schedule> Compilation::makeSchedule() {
  int64_t microbatches = 1;
  module.walk([&](nn::MicrobatchesOp loop) { microbatches = loop.getCount(); });
  llvm::Expected<schedule::Schedule> plan = stages::makeSchedule(
      options.pipeline, pipelinePlaces(), options.chunks, microbatches);
  if (!plan)
    return LogicalResult(module.emitError("--pipeline=")
                         << options.pipeline << ": "
                         << llvm::toString(plan.takeError()));
  return *plan;
}

/// How many layers each stage has, where `pipe.stage` on the calls of layers in
/// @loss says to which they go.
LogicalResult Compilation::readStageMarks() {
  auto loss = module.lookupSymbol<func::FuncOp>("loss");
  if (pipelinePlaces() < 2 || !loss)
    return success();
  SymbolTable symbols(module);
  std::vector<int64_t> counts;
  func::CallOp marked, unmarked;
  for (auto call : loss.getOps<func::CallOp>()) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || !callee->hasAttr(nn::kLayerAttr))
      continue;
    Attribute mark = call->getAttr(kStageAttr);
    if (!mark) {
      unmarked = call;
      continue;
    }
    auto stage = dyn_cast<IntegerAttr>(mark);
    if (!stage || stage.getInt() < 0 || stage.getInt() >= (1 << 20))
      return call.emitOpError("has ") << kStageAttr << " = " << mark
                                      << ", expected the number of a stage";
    if (stage.getInt() + 1 < static_cast<int64_t>(counts.size()))
      return call.emitOpError("is marked for stage ")
             << stage.getInt() << " behind a layer of stage "
             << counts.size() - 1
             << ", expected layers on stages in their order";
    counts.resize(stage.getInt() + 1);
    ++counts.back();
    marked = call;
  }
  if (!marked)
    return success();
  if (unmarked) {
    InFlightDiagnostic error = unmarked.emitOpError("is a layer without ")
                               << kStageAttr
                               << ", expected one on every layer or on none";
    error.attachNote(marked.getLoc()) << "this one has it";
    return error;
  }
  if (!stageLayers.empty())
    return marked.emitOpError("is marked for a stage, and --stage-layers or "
                              "--stage-layout tells of stages, too, expected "
                              "one of the two");
  stageLayers = std::move(counts);
  return success();
}

/// The step with its microbatch body in stage parts.
LogicalResult Compilation::cutStages() {
  if (pipelinePlaces() < 2)
    return success();
  if (!isTraining())
    return module.emitError("has no @loss, and --mesh has pp=")
           << pipelinePlaces()
           << ": a pipeline runs a training step, expected a model with @loss, "
              "or dp and tp alone";
  // What is made for the costs of stages is made when they are known.
  bool isSplit = options.pipeline == "greedy";
  int64_t count = stageLayers.empty()
                      ? pipelinePlaces() * options.chunks
                      : static_cast<int64_t>(stageLayers.size());
  if (!isSplit) {
    FailureOr<schedule::Schedule> made = makeSchedule();
    if (failed(made))
      return failure();
    count = made->stages();
    for (const auto &line : made->ranks)
      for (const schedule::Action &action : line)
        for (const schedule::Task &task : {action.task, action.other})
          isSplit |=
              task.stage >= 0 && (task.part == schedule::Part::InputGradient ||
                                  task.part == schedule::Part::WeightGradient);
  }
  std::string layers;
  for (int64_t number : stageLayers)
    layers += (layers.empty() ? " layers=" : ",") + std::to_string(number);
  return runPasses("stages", Twine("pipe-cut-stages{stages=") + Twine(count) +
                                 " split=" + (isSplit ? "true" : "false") +
                                 layers +
                                 " embedding=" + Twine(options.embeddingStage) +
                                 "},symbol-dce,canonicalize");
}

stages::ScheduleOptions Compilation::scheduleOptions() {
  stages::ScheduleOptions schedule{options.pipeline, options.chunks};
  if (options.memoryLimit >= 0)
    schedule.memoryLimit = options.memoryLimit;
  return schedule;
}

/// The program of each rank of the pipeline.
LogicalResult Compilation::makePrograms() {
  if (pipelinePlaces() < 2)
    return success();
  std::string name = options.pipeline;
  if (!phases.isSkipping()) {
    FailureOr<stages::StepPlan> made =
        stages::planStep(module, scheduleOptions());
    if (failed(made))
      return failure();
    plan = std::move(*made);
    // Costs are not the same behind what comes now.
    if (name == "greedy") {
      name = "module";
      module->setAttr(
          exec::kScheduleAttr,
          StringAttr::get(module.getContext(),
                          schedule::printText(plan->schedule, true)));
    }
  }
  bool isFused = options.codegen.optLevel > 0;
  if (failed(runPasses(
          "programs",
          Twine(isFused ? "nn-accumulate-in-layers,symbol-dce," : "") +
              "pipe-make-programs{schedule='" + name +
              "' chunks=" + Twine(options.chunks) + "},symbol-dce")))
    return failure();
  if (explains && !phases.isSkipping())
    collectives = explainPlaces(module, "step", std::move(collectives), link);
  return success();
}

/// A planned step as IR of pipe.
static OwningOpRef<ModuleOp> makePipeIR(MLIRContext *context,
                                        const stages::StepPlan &plan) {
  std::string text = "pipe.pipeline @step {\n";
  llvm::raw_string_ostream os(text);
  for (const schedule::Stage &stage : plan.pipeline.stages) {
    int64_t temporaries = 0;
    for (int64_t bytes : stage.partBytes)
      temporaries = std::max(temporaries, bytes);
    os << "pipe.stage forward " << llvm::format("%.17e", stage.forward)
       << " input_gradient " << llvm::format("%.17e", stage.inputGradient)
       << " weight_gradient " << llvm::format("%.17e", stage.weightGradient)
       << " {resident_bytes = " << stage.residentBytes
       << " : i64, temporary_bytes = " << temporaries << " : i64}\n";
  }
  for (auto [value, type] : llvm::zip_equal(plan.pipeline.values, plan.types)) {
    os << "pipe.value " << schedule::letterOf(value.part) << " " << value.stage
       << " to [";
    llvm::interleaveComma(value.uses, os, [&](const schedule::Use &use) {
      os << "#pipe.use<" << schedule::letterOf(use.part) << " " << use.stage
         << ">";
    });
    os << "] : " << type << "\n";
  }
  os << "}\n";
  auto module = parseSourceString<ModuleOp>(text, ParserConfig(context));
  if (!module)
    return module;
  auto pipeline = *module->getOps<pipe::PipelineOp>().begin();
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto op = pipe::ScheduleOp::create(builder, module->getLoc(), "step_schedule",
                                     pipeline.getSymName(),
                                     plan.lowered.microbatches);
  op.getBody().emplaceBlock();
  pipe::writeSchedule(op, pipeline, plan.pipeline, plan.lowered,
                      /*withValues=*/true);
  return module;
}

/// Floor 4, as text.
LogicalResult Compilation::writeSchedule(StringRef path) {
  std::string text;
  if (options.emit == Floor::Schedule) {
    text = schedule::printText(plan->schedule, true);
  } else if (options.emit == Floor::ScheduleIR) {
    OwningOpRef<ModuleOp> made = makePipeIR(module.getContext(), *plan);
    return made ? writeText(*made, path) : failure();
  } else {
    bool communicates = options.emit == Floor::ScheduleCSVComm;
    schedule::Schedule actions = communicates ? plan->lowered : plan->schedule;
    // The CSV has no numbers of values: of each part the first that is sent.
    std::map<std::pair<schedule::Part, int32_t>, int32_t> firstSent;
    auto eachTransfer = [&](auto take) {
      for (auto &line : actions.ranks)
        for (schedule::Action &action : line)
          if (action.isTransfer())
            take(action, std::pair(action.task.part, action.task.stage));
    };
    eachTransfer([&](schedule::Action &action, auto producer) {
      int32_t &first =
          firstSent.try_emplace(producer, action.value).first->second;
      first = std::min(first, action.value);
    });
    eachTransfer([&](schedule::Action &action, auto producer) {
      action.value -= firstSent.at(producer);
    });
    llvm::Expected<std::string> csv = schedule::printCSV(actions, communicates);
    if (!csv)
      return module.emitError("cannot be written as CSV: ")
             << llvm::toString(csv.takeError());
    text = std::move(*csv);
  }
  return writeBytes(path, text);
}

/// The axes of the mesh as passes take them.
static std::string meshText(const CompileOptions &options) {
  std::string text;
  for (const auto &[axis, size] : options.mesh)
    text += (text.empty() ? "" : ",") + axis + "=" + std::to_string(size);
  return text;
}

LogicalResult Compilation::chooseContext(bool isResumed) {
  context = "gather";
  // A dump has what was chosen for the model.
  auto chosen = module->getAttrOfType<StringAttr>(kContextAttr);
  if (isResumed && chosen) {
    context = chosen.str();
    if (!llvm::is_contained({"gather", "ring", "zigzag", "ulysses"}, context))
      return module.emitError("has ")
             << kContextAttr << " = " << chosen
             << ", expected gather, ring, zigzag or ulysses";
  }
  auto entry = module.lookupSymbol<func::FuncOp>(isModel ? "loss" : "step");
  dist::MeshOp declared = dist::getMesh(module);
  sharding::ContextMesh mesh;
  llvm::StringRef link = "memory";
  if (declared) {
    for (auto axis : declared.getAxes().getAsRange<dist::MeshAxisAttr>())
      if (axis.getName() == "cp") {
        link = axis.getLink();
        mesh.link = dist::getLinkSpeed(axis);
      }
  } else {
    mesh.link = *dist::lookupLinkClass(link);
  }
  auto sizeOf = [&](StringRef name) -> int64_t {
    for (auto &[axis, size] : options.mesh)
      if (axis == name)
        return size;
    dist::MeshAxisAttr axis = declared ? declared.lookup(name) : nullptr;
    return axis ? axis.getSize() : 1;
  };
  mesh.data = sizeOf("dp"), mesh.context = sizeOf("cp");
  mesh.tensor = sizeOf("tp");
  mesh.flopsPerSecond = sharding::attentionSpeed(link);
  mesh.recomputes = options.recompute == "full";
  if (isResumed || !entry || entry.isExternal() || mesh.context == 1)
    return success();
  int64_t microbatches = isModel ? options.microbatches : 1;
  mesh.data *= microbatches;
  contextChoice = sharding::chooseContext(entry, microbatches, mesh);
  auto exclude = [&](StringRef name, std::string why) {
    for (sharding::ContextWay &way : contextChoice->ways)
      if (way.name == name && way.whyNot.empty())
        way.whyNot = why;
  };
  if (!isModel)
    exclude("ulysses", "is a step already, whose backward keeps what attention "
                       "read");
  if (!options.strategy.empty())
    exclude("zigzag", "--strategy is given, which says where the sequence is");
  contextChoice->choose();
  context = contextChoice->ways[contextChoice->chosen].name;
  module->setAttr(kContextAttr, StringAttr::get(module.getContext(), context));
  return success();
}

/// The pass that exchanges sequence and heads around attention, behind a comma;
/// empty where none is asked for.
std::string Compilation::exchangePass() {
  bool isCut = llvm::any_of(
      options.mesh, [](const auto &axis) { return axis.first == "cp"; });
  return context == "ulysses" && isCut && !options.reference
             ? ",dist-exchange-heads{mesh=" + meshText(options) + "}"
             : "";
}

/// The step in the number formats that were asked for.
LogicalResult Compilation::applyPrecision() {
  // A reference in f64 is what all precisions are held against.
  if (options.precision == "fp32" || options.wide)
    return success();
  if (options.precision == "fp8-delayed" && pipelinePlaces() > 1)
    return module.emitError("--precision=fp8-delayed has scales that layers "
                            "hand on, which a pipeline does not cut; expected "
                            "--mesh without pp, or --precision=fp8-tensor");
  auto axisSize = [&](StringRef name) -> int64_t {
    for (auto &[axis, size] : options.mesh)
      if (axis == name)
        return size;
    dist::MeshOp declared = dist::getMesh(module);
    dist::MeshAxisAttr axis = declared ? declared.lookup(name) : nullptr;
    return axis ? axis.getSize() : 1;
  };
  std::string keep;
  for (const std::string &pattern : options.keepF32)
    keep += (keep.empty() ? " keep=" : ",") + pattern;
  if (failed(runPasses(
          "precision",
          "nn-apply-precision{recipe=" + options.precision + keep +
              " loss-scale=" + options.lossScale + " loss-scale-window=" +
              options.lossScaleWindow + " gradients=" + options.gradients +
              " moments=" + options.moments +
              " history=" + Twine(options.amaxHistory) +
              // Weights of other ranks are not kept a whole step.
              " once=" +
              (pipelinePlaces() < 2 &&
                       (options.zero < 3 || options.weights == "quantized") &&
                       options.strategy.empty()
                   ? "true"
                   : "false") +
              " token-parts=" + Twine(axisSize("dp") * axisSize("cp")) +
              " tensor-parts=" + Twine(axisSize("tp")) +
              " masters=" + options.masters + " weights=" + options.weights +
              "},canonicalize,cse")))
    return failure();
  SmallVector<StringRef> texts{options.precision};
  llvm::append_range(texts, options.precisionOptions);
  module->setAttr(kPrecisionAttr,
                  Builder(module.getContext()).getStrArrayAttr(texts));
  return success();
}

/// Floor 1 to floor 2.
LogicalResult Compilation::makeStep() {
  if (!isTraining()) {
    if (std::string exchange = exchangePass();
        !exchange.empty() &&
        failed(runPasses("exchange", StringRef(exchange).drop_front())))
      return failure();
    if (options.differentiate) {
      std::string names;
      for (func::FuncOp function : module.getOps<func::FuncOp>())
        if (function.isPublic())
          names += (names.empty() ? "" : ",") + function.getName().str();
      if (failed(runPasses("differentiate",
                           "nn-differentiate{functions=" + names + "}")) ||
          failed(phases.at("gradients")))
        return failure();
    }
  } else if (isModel) {
    std::string scalars;
    for (auto &[name, value] : options.scalars)
      scalars += " " + name + "=" + value;
    bool logits =
        static_cast<bool>(module.lookupSymbol<func::FuncOp>("logits"));
    // Experts on several devices: what is computed on them is, too.
    std::string parts;
    if (options.expertParallel > 1 && !options.reference)
      llvm::raw_string_ostream(parts)
          << ",nn-bucket-experts{parts=" << options.expertParallel
          << " room=" << llvm::format("%.17g", options.expertRoom) << "}";
    if (failed(runPasses("inline", "inline{default-pipeline=},symbol-dce" +
                                       parts + exchangePass())) ||
        failed(readStageMarks()) ||
        failed(
            runPasses("differentiate", "nn-differentiate{functions=loss}")) ||
        failed(phases.at("gradients")) ||
        (options.recompute != "none" &&
         failed(runPasses("recompute",
                          "nn-recompute{policy=" + options.recompute + "}"))) ||
        failed(runPasses("accumulate",
                         "nn-accumulate{function=loss microbatches=" +
                             Twine(options.microbatches) +
                             (pipelinePlaces() > 1 ? " loop=true}" : "}"))) ||
        failed(runPasses("optimizer",
                         "nn-add-optimizer{kind=" + options.optimizer +
                             scalars + "},nn-add-initializer")) ||
        failed(runPasses("evaluation",
                         Twine("nn-prepare-evaluation{functions=loss") +
                             (logits ? ",logits" : "") + "}")) ||
        failed(applyPrecision()))
      return failure();
    module->setAttr(
        kMicrobatchesAttr,
        Builder(module.getContext()).getI64IntegerAttr(options.microbatches));
    // What is left of floor 1 and no entry goes away.
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!llvm::is_contained({"init", "step", "gradients", "loss", "logits"},
                              function.getName()))
        function.setPrivate();
  }
  if (options.wide && failed(runPasses("widen", "nn-convert-floats{to=f64}")))
    return failure();
  return failure(
      // What a cut may call is there until it is made.
      failed(runPasses("simplify",
                       pipelinePlaces() > 1
                           ? "canonicalize,cse"
                           : "symbol-dce,canonicalize,cse,symbol-dce")) ||
      failed(cutStages()) || failed(phases.at("step")));
}

/// Sends gradients and weights rounded, where that is asked for.
FailureOr<std::string> Compilation::compressPass() {
  const CompileOptions defaults;
  bool isGradient = options.gradientWire != defaults.gradientWire;
  if (!isGradient && options.weightWire == defaults.weightWire)
    return std::string();
  // One device sends nothing.
  if (dist::MeshOp mesh = dist::getMesh(module);
      !mesh || mesh.getNumDevices() < 2)
    return std::string();
  module->setAttr(kWireAttr,
                  StringAttr::get(module.getContext(),
                                  "gradients as " + options.gradientWire +
                                      ", weights as " + options.weightWire));
  int64_t node = 0;
  if (!options.cluster.empty()) {
    ClusterCosts cluster(options.cluster);
    node = cluster.devicesPerNode();
    if (!cluster.error().empty())
      return LogicalResult(module.emitError("--cluster: ") << cluster.error());
  }
  return "dist-compress{gradients=" + options.gradientWire +
         " weights=" + options.weightWire + " node=" + std::to_string(node) +
         " error=" + (isGradient ? "true" : "false") + "},canonicalize,cse,";
}

/// Floor 2 to floor 3: what one device of the mesh does.
LogicalResult Compilation::makeDevice() {
  if (options.mesh.empty() && !dist::getMesh(module))
    return success();
  std::string strategy;
  llvm::raw_string_ostream os(strategy);
  // Means over the step are sums and counts, which may be sharded.
  // Of a dropout in zig-zag order the numbers are cut, not the values.
  // Of 8-bit floats each op is sharded on its own: an amax is reduced over the
  // devices that have parts of a block.
  os << "nn-decompose{ops=step_mean,step_sum,quantize,dequantize,scaled_einsum"
     << (context == "zigzag" ? ",dropout" : "")
     << "},dist-apply-strategy{mesh=";
  // An exchange of heads has declared it.
  if (!dist::getMesh(module))
    os << meshText(options);
  if (!options.strategy.empty() && !options.reference)
    os << " strategy='" << options.strategy << "'";
  os << " zero=" << options.zero << " zero-group=" << options.zeroGroup
     << " zero-min-bytes=" << options.zeroMinBytes
     << " zero3-gathers=" << options.zero3Gathers
     << " accumulate=" << options.accumulate
     << " expert-parallel=" << options.expertParallel
     << " zigzag=" << (context == "zigzag" ? "true" : "false")
     << " sequence-parallel=" << (options.sequenceParallel ? "true" : "false")
     << "}";
  if (failed(runPasses("strategy", strategy)))
    return failure();
  if (!options.why.empty()) {
    // In code: the text of a pipeline ends a name at a brace or blank.
    PassManager manager(module->getContext(), ModuleOp::getOperationName());
    DistPropagateOptions propagate;
    propagate.why = options.why;
    manager.addPass(createDistPropagate(propagate));
    return manager.run(module);
  }
  FailureOr<std::string> compress = compressPass();
  if (failed(compress) ||
      failed(runPasses("propagate", "dist-propagate{origins=true}")) ||
      failed(runPasses(
          "partition",
          Twine("dist-partition{context=") +
              (context == "ring" || context == "zigzag" ? "ring" : "gather") +
              " strict=" + Twine(options.strict) +
              "},symbol-dce,canonicalize,cse,dist-verify")) ||
      failed(runPasses(
          "collectives",
          "dist-optimize{bucket-bytes=" + Twine(options.bucketBytes) +
              // They are counted one by one behind.
              "},canonicalize,cse," +
              (options.expertRows == "exact" ? "dist-exchange-rows,cse," : "") +
              *compress + "dist-verify")))
    return failure();
  module->setAttr(kDeviceAttr, UnitAttr::get(module.getContext()));
  module->removeAttr(kContextAttr);
  return success();
}

/// Bytes of a device by kind, of the placed entry.
static llvm::json::Object explainMemory(const llvm::json::Object &manifest,
                                        const llvm::json::Object *entry) {
  llvm::json::Object memory;
  if (!entry)
    return memory;
  // Of the device that needs most.
  if (const llvm::json::Array *stages = entry->getArray("stages")) {
    int64_t most = -1;
    for (const llvm::json::Value &stage : *stages) {
      llvm::json::Object own = explainMemory(manifest, stage.getAsObject());
      int64_t all = 0;
      for (auto &[kind, bytes] : own)
        all += *bytes.getAsInteger();
      if (all > most) {
        most = all;
        memory = std::move(own);
      }
    }
    return memory;
  }
  auto add = [&](StringRef kind, int64_t bytes) {
    memory[kind] = memory.getInteger(kind).value_or(0) + bytes;
  };
  for (const llvm::json::Value &index : *entry->getArray("arguments")) {
    const llvm::json::Object &buffer =
        *(*manifest.getArray("buffers"))[*index.getAsInteger()].getAsObject();
    int64_t elements = 1;
    for (const llvm::json::Value &size : *buffer.getArray("shape"))
      elements *= *size.getAsInteger();
    StringRef type = *buffer.getString("dtype");
    int64_t width = type.ends_with("64")   ? 8
                    : type.ends_with("32") ? 4
                    : type.ends_with("16") ? 2
                                           : 1;
    // A matrix that layers have in 8 bits is a master.
    add(buffer.getBoolean("quantized").value_or(false)
            ? StringRef("master")
            : *buffer.getString("kind"),
        elements * width);
  }
  for (auto &[kind, bytes] : *entry->getObject("arena"))
    add(kind, *bytes.getAsInteger());
  return memory;
}

/// What of the memory of a device is there for each parameter of the model, and
/// how many of those there are.
static llvm::json::Object explainParameters(const llvm::json::Object &manifest,
                                            const llvm::json::Object &memory) {
  int64_t count = 0;
  for (const llvm::json::Value &value : *manifest.getArray("buffers")) {
    const llvm::json::Object &buffer = *value.getAsObject();
    if (buffer.getString("kind") != "parameter")
      continue;
    const llvm::json::Array *shape = buffer.getArray("global_shape");
    int64_t elements = 1;
    for (const llvm::json::Value &size :
         shape ? *shape : *buffer.getArray("shape"))
      elements *= *size.getAsInteger();
    count += elements;
  }
  llvm::json::Object all;
  double sum = 0;
  for (StringRef kind : {"parameter", "weights", "gradients", "master",
                         "moment1", "moment2", "momentum"})
    if (std::optional<int64_t> bytes = memory.getInteger(kind);
        bytes && *bytes && count) {
      all[kind] = static_cast<double>(*bytes) / static_cast<double>(count);
      sum += *all.getNumber(kind);
    }
  if (!all.empty()) {
    all["all"] = sum;
    all["parameters"] = count;
  }
  return all;
}

static llvm::json::Object explainMemory(const llvm::json::Object &manifest,
                                        StringRef name) {
  return explainMemory(manifest,
                       manifest.getObject("entries")->getObject(name));
}

/// Gives what is stated of each place along a pipeline: the most bytes of a
/// step, and where it needs them.
static void
eachPeak(const llvm::json::Object &manifest,
         llvm::function_ref<void(int64_t, int64_t, StringRef)> take) {
  const llvm::json::Object *step =
      manifest.getObject("entries")->getObject("step");
  const llvm::json::Array *places = step ? step->getArray("stages") : nullptr;
  if (!places)
    return;
  for (auto [place, value] : llvm::enumerate(*places))
    if (std::optional<int64_t> bytes =
            value.getAsObject()->getInteger("peak_bytes"))
      take(place, *bytes,
           value.getAsObject()->getString("peak_action").value_or(""));
}

/// Without its shardings a program is that of one device.
static void forgetShardings(ModuleOp module) {
  module->walk([](Operation *op) {
    if (auto constraint = dyn_cast<dist::ConstraintOp>(op)) {
      constraint.getResult().replaceAllUsesWith(constraint.getInput());
      constraint.erase();
    } else if (isa<dist::MeshOp>(op)) {
      op->erase();
    } else {
      for (StringRef name :
           {dist::kShardingsAttr, dist::kArgumentShardingsAttr})
        op->removeAttr(name);
      if (auto function = dyn_cast<func::FuncOp>(op)) {
        for (unsigned i = 0; i < function.getNumArguments(); ++i)
          function.removeArgAttr(i, dist::kShardingAttr);
        for (unsigned i = 0; i < function.getNumResults(); ++i)
          function.removeResultAttr(
              i, StringAttr::get(op->getContext(), dist::kShardingAttr));
      }
    }
  });
}

FailureOr<llvm::json::Object> Compilation::explainWhole() {
  OwningOpRef<ModuleOp> copy = module.clone();
  forgetShardings(*copy);
  CompileOptions whole = options;
  whole.mesh.clear();
  whole.dumpPhasesTo.clear();
  whole.printFusion = false;
  whole.memoryLimit = -1;
  // What others attached sees the program that was asked for, and that once.
  whole.attached.clear();
  whole.runsPluginPasses = false;
  DropRemarks quiet(module.getContext());
  TimingScope scope = timing.nest("one device, to compare");
  Compilation one(*copy, whole, scope);
  if (failed(one.makeExec()))
    return failure();
  FailureOr<llvm::json::Object> entries = describeEntries(*copy);
  if (failed(entries))
    return failure();
  return explainMemory(*entries, "step");
}

/// What a step sends and, now that it is placed, what it holds; `whole` is what
/// it would on one device.
LogicalResult Compilation::explain(llvm::json::Array conflicts,
                                   ArrayRef<double> attention,
                                   llvm::json::Object whole) {
  FailureOr<llvm::json::Object> entries = describeEntries(module);
  if (failed(entries))
    return failure();
  llvm::json::Object memory = explainMemory(*entries, "step");
  llvm::json::Object each = explainParameters(*entries, memory);
  if (options.explain == CompileOptions::Explain::Json) {
    llvm::json::Array totals = sharding::totalsOf(collectives);
    llvm::json::Object all{{"collectives", std::move(collectives)},
                           {"totals", std::move(totals)},
                           {"conflicts", std::move(conflicts)},
                           {"memory", std::move(memory)}};
    if (!each.empty())
      all["bytes_per_parameter"] = std::move(each);
    if (!roundings.empty())
      all["roundings"] = std::move(roundings);
    if (contextChoice)
      all["context"] = sharding::explainContext(*contextChoice);
    if (!attention.empty())
      all["attention"] = sharding::explainAttention(attention);
    if (!whole.empty())
      all["memory_one_device"] = std::move(whole);
    llvm::json::Array peaks;
    eachPeak(*entries, [&](int64_t place, int64_t bytes, StringRef action) {
      peaks.push_back(llvm::json::Object{
          {"place", place}, {"bytes", bytes}, {"action", action}});
    });
    if (!peaks.empty())
      all["peaks"] = std::move(peaks);
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(all)))
                 << "\n";
    return success();
  }
  sharding::printCollectives(collectives, llvm::outs());
  if (contextChoice)
    sharding::printContext(*contextChoice, llvm::outs());
  sharding::printAttention(attention, llvm::outs());
  sharding::printConflicts(conflicts, llvm::outs());
  // Kinds that only one of the two has, too.
  std::map<std::string, std::pair<int64_t, int64_t>> kinds;
  std::pair<int64_t, int64_t> sum;
  for (auto &[kind, bytes] : memory)
    kinds[kind.str()].first = *bytes.getAsInteger();
  for (auto &[kind, bytes] : whole)
    kinds[kind.str()].second = *bytes.getAsInteger();
  auto line = [&](StringRef kind, std::pair<int64_t, int64_t> bytes) {
    llvm::outs() << llvm::formatv("{0,-15} {1,16}", kind, bytes.first);
    if (!whole.empty())
      llvm::outs() << llvm::formatv(" {0,16}", bytes.second);
    llvm::outs() << "\n";
    sum.first += bytes.first;
    sum.second += bytes.second;
  };
  llvm::outs() << llvm::formatv("{0,-15} {1,16}{2}\n", "memory",
                                "bytes of each",
                                whole.empty() ? "" : "    of one device");
  for (auto &[kind, bytes] : kinds)
    if (bytes.first || bytes.second)
      line(kind, bytes);
  std::pair<int64_t, int64_t> all = sum;
  line("in all", all);
  if (!each.empty()) {
    // In the order of their making.
    llvm::outs() << "bytes per parameter:";
    for (StringRef kind : {"parameter", "weights", "gradients", "master",
                           "moment1", "moment2", "momentum"})
      if (std::optional<double> bytes = each.getNumber(kind))
        llvm::outs() << llvm::formatv(" {0} {1:F2},", kind, *bytes);
    llvm::outs() << llvm::formatv(" in all {0:F2}, of {1} parameters\n",
                                  *each.getNumber("all"),
                                  *each.getInteger("parameters"));
  }
  printRoundings(roundings, llvm::outs());
  eachPeak(*entries, [&](int64_t place, int64_t bytes, StringRef action) {
    llvm::outs() << "place " << place << " of pp: at most " << bytes
                 << " bytes, at " << action << "\n";
  });
  return success();
}

/// Whether each device has room for a step, now that it is placed.
LogicalResult Compilation::checkMemory() {
  if (options.memoryLimit < 0)
    return success();
  FailureOr<llvm::json::Object> entries = describeEntries(module);
  if (failed(entries))
    return failure();
  const llvm::json::Object *step =
      entries->getObject("entries")->getObject("step");
  if (!step)
    return success();
  auto check = [&](const llvm::json::Object *entry, const Twine &who) {
    std::map<std::string, int64_t> sorted;
    int64_t all = 0;
    llvm::json::Object memory = explainMemory(*entries, entry);
    for (auto &[kind, bytes] : memory) {
      all += *bytes.getAsInteger();
      sorted[kind.str()] = *bytes.getAsInteger();
    }
    std::string kinds;
    for (auto &[kind, bytes] : sorted)
      if (bytes > 0)
        kinds +=
            (kinds.empty() ? "" : ", ") + kind + " " + std::to_string(bytes);
    if (all <= options.memoryLimit)
      return success();
    return LogicalResult(
        module.emitError("needs ")
        << all << " bytes on " << who.str() << " (" << kinds
        << "), more than --memory-limit=" << options.memoryLimit
        << "; expected more microbatches, more devices, --recompute, --zero, "
           "or a limit of at least "
        << all);
  };
  const llvm::json::Array *stages = step->getArray("stages");
  if (!stages)
    return check(step, "each device");
  for (auto [place, stage] : llvm::enumerate(*stages))
    if (failed(check(stage.getAsObject(),
                     "the devices at place " + Twine(place) + " of pp")))
      return failure();
  return success();
}

/// Says on the placed programs of a pipeline what a rank needs at most, and
/// where: what the verifier of schedules counts for the parts as they are now.
LogicalResult Compilation::statePeaks() {
  if (!plan)
    return success();
  FailureOr<llvm::json::Object> entries = describeEntries(module);
  if (failed(entries))
    return failure();
  const llvm::json::Object *step =
      entries->getObject("entries")->getObject("step");
  const llvm::json::Array *places = step ? step->getArray("stages") : nullptr;
  if (!places)
    return success();
  schedule::Pipeline pipeline = plan->pipeline;
  for (schedule::Value &value : pipeline.values)
    value.bytes = exec::alignUp(value.bytes);
  for (auto [stage, sum] : llvm::zip_equal(pipeline.stages, plan->sumBytes)) {
    stage.residentBytes = exec::alignUp(sum);
    stage.temporaryBytes = 0;
    stage.partBytes = {};
  }
  std::map<std::string, schedule::Action> actions;
  for (const auto &line : plan->schedule.ranks)
    for (const schedule::Action &action : line)
      actions[action.str()] = action;
  SmallVector<func::FuncOp> programs(places->size());
  SmallVector<int64_t> arenas, persistent;
  SymbolTable symbols(module);
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    auto at = function->getAttrOfType<ArrayAttr>(exec::kPlaceAttr);
    if (!at || cast<StringAttr>(at[0]).getValue() != "step")
      continue;
    programs[cast<IntegerAttr>(at[1]).getInt()] = function;
    function.walk([&](exec::CallOp call) {
      auto name = call->getAttrOfType<StringAttr>(exec::kActionAttr);
      auto action = name ? actions.find(name.str()) : actions.end();
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      auto scratch =
          callee ? callee->getAttrOfType<IntegerAttr>(exec::kScratchAttr)
                 : IntegerAttr();
      if (action == actions.end() || !scratch)
        return;
      for (const schedule::Task &task :
           {action->second.task, action->second.other})
        if (task.stage >= 0) {
          int64_t &bytes = pipeline.stages[task.stage]
                               .partBytes[static_cast<size_t>(task.part)];
          bytes = std::max(bytes, scratch.getInt());
        }
    });
  }
  for (auto [place, value] : llvm::enumerate(*places)) {
    const llvm::json::Object *entry = value.getAsObject();
    int64_t all = 0;
    llvm::json::Object memory = explainMemory(*entries, entry);
    for (auto &[kind, bytes] : memory)
      all += *bytes.getAsInteger();
    arenas.push_back(entry->getInteger("arena_bytes").value_or(0));
    persistent.push_back(all - arenas.back());
    for (auto [stage, rank] : llvm::enumerate(plan->schedule.rankOf))
      if (rank == static_cast<int32_t>(place)) {
        pipeline.stages[stage].residentBytes += persistent.back();
        break;
      }
  }
  schedule::Verification verified = schedule::verify(pipeline, plan->lowered);
  if (verified.problem)
    return module.emitError("has a schedule that does not run: ")
           << verified.problem->str();
  Builder builder(module.getContext());
  for (auto [place, program] : llvm::enumerate(programs)) {
    if (!program || place >= verified.peaks.size())
      continue;
    const schedule::Peak &peak = verified.peaks[place];
    // Buffers have places, between which a little is unused.
    int64_t bytes = std::max(peak.bytes, persistent[place] + arenas[place]);
    program->setAttr(exec::kPeakAttr, builder.getI64IntegerAttr(bytes));
    if (peak.action >= 0)
      program->setAttr(
          exec::kPeakActionAttr,
          builder.getStringAttr(plan->lowered.ranks[place][peak.action].str()));
  }
  return success();
}

/// Floor 3 without its mesh.
LogicalResult Compilation::makeTransfers() {
  std::string cut, stagger;
  if (options.overlaps) {
    // The reference is what overlap must not change.
    if (!options.cluster.empty() && !options.reference)
      cut = ",exec-cut-products{cluster=\"" + options.cluster + "\"}";
    stagger = ",func.func(exec-stagger)";
  }
  if (failed(runPasses("transfers", Twine("dist-to-nn") + cut +
                                        ",nn-widen-products,canonicalize,cse" +
                                        stagger)))
    return failure();
  module->removeAttr(kDeviceAttr);
  if (options.reference &&
      // The reference of sizes that are data is all work with all experts.
      failed(runPasses("decompose", "nn-decompose{keep=expert_sort,"
                                    "grouped_matmul,grouped_outer},"
                                    "canonicalize,cse")))
    return failure();
  if (!options.reference &&
      failed(runPasses("reductions", "nn-decompose{ops=route,quantize,"
                                     "dequantize,scaled_einsum},"
                                     "func.func(cpu-split-reductions)")))
    return failure();
  return success();
}

/// Says in the explanation what transfers go on beside.
LogicalResult Compilation::explainOverlap() {
  if (!explains || phases.isSkipping())
    return success();
  std::optional<ClusterCosts> cluster;
  if (!options.cluster.empty())
    cluster.emplace(options.cluster);
  explainBeside(module, collectives, pipelinePlaces() > 1,
                cluster ? &*cluster : nullptr);
  if (cluster && !cluster->error().empty())
    return module.emitError("--cluster: ") << cluster->error();
  return success();
}

/// The pass that decides when transfers start.
std::string Compilation::overlapPipeline() {
  std::string pipeline =
      "exec-overlap{memory=" +
      std::to_string(std::max<int64_t>(0, options.memoryLimit));
  if (!options.cluster.empty())
    pipeline += " cluster=\"" + options.cluster + "\"";
  return pipeline + "}";
}

/// From there to the placed program.
LogicalResult Compilation::makeExec() {
  if (failed(makeTransfers()) || failed(makePrograms()))
    return failure();
  if (options.codegen.optLevel > 0 &&
      failed(runPasses("fuse",
                       Twine("nn-accumulate-in-layers,symbol-dce,"
                             "func.func(nn-pool-streams,nn-fuse{print=") +
                           (options.printFusion ? "true" : "false") + "})")))
    return failure();
  return failure(
      failed(phases.at("fused")) ||
      failed(runPasses("buffers", "nn-to-exec")) || failed(phases.at("exec")) ||
      (options.overlaps && failed(runPasses("overlap", overlapPipeline()))) ||
      failed(explainOverlap()) ||
      failed(runPasses("place", "exec-place,exec-verify-races")) ||
      failed(phases.at("placed")) ||
      (!phases.isSkipping() &&
       (failed(checkMemory()) || failed(statePeaks()))));
}

/// Moves the kernels of `module` into nested modules of the result, a few in
/// each: passes and code generation then share the cores, and no kernel pays
/// for a pass pipeline alone. The constants that a kernel reads go with it.
static OwningOpRef<ModuleOp> splitKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> parts = ModuleOp::create(module.getLoc());
  // A dump of the last phase has them already.
  for (ModuleOp part : llvm::make_early_inc_range(module.getOps<ModuleOp>()))
    if (!part.getSymName())
      part->moveBefore(parts->getBody(), parts->getBody()->end());
  auto kernels = module.lookupSymbol<ModuleOp>(exec::kKernelsName);
  if (!kernels)
    return parts;
  constexpr int perPart = 8;
  SymbolTable symbols(kernels);
  ModuleOp part;
  int count = 0;
  for (func::FuncOp kernel :
       llvm::make_early_inc_range(kernels.getOps<func::FuncOp>())) {
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

/// The floor that a phase leaves a module on, or on its way to the next.
static Floor floorAfter(StringRef phase) {
  // The second of a point is `at-step-2`.
  if (phase.starts_with("at-"))
    phase = phase.take_front(phase.find('-', 3));
  return llvm::StringSwitch<Floor>(phase)
      .Cases({"at-model", "inline", "exchange", "differentiate", "at-gradients",
              "recompute", "accumulate", "optimizer", "evaluation",
              "precision"},
             Floor::Model)
      .Cases({"widen", "simplify", "stages", "at-step"}, Floor::Step)
      .Cases({"strategy", "propagate", "partition", "collectives", "at-device"},
             Floor::Device)
      .Cases({"kernels", "host", "at-llvm", "machine"}, Floor::LLVM)
      .Default(Floor::Exec);
}

/// Whether a manifest that came in with a file has what is read of it here; the
/// runtime checks the rest.
static bool isManifest(const llvm::json::Value &value) {
  const llvm::json::Object *all = value.getAsObject();
  const llvm::json::Array *buffers = all ? all->getArray("buffers") : nullptr;
  if (!buffers || !all->getObject("entries"))
    return false;
  auto isShape = [](const llvm::json::Array &shape) {
    return llvm::all_of(shape, [](const llvm::json::Value &size) {
      return size.getAsInteger().value_or(0) > 0;
    });
  };
  return llvm::all_of(*buffers, [&](const llvm::json::Value &value) {
    const llvm::json::Object *buffer = value.getAsObject();
    if (!buffer || !buffer->getString("name") || !buffer->getString("kind") ||
        !buffer->getArray("shape") || !isShape(*buffer->getArray("shape")))
      return false;
    const llvm::json::Array *global = buffer->getArray("global_shape"),
                            *axes = buffer->getArray("axes");
    return (!global || isShape(*global)) &&
           (!axes || axes->size() <=
                         (global ? global : buffer->getArray("shape"))->size());
  });
}

LogicalResult Compilation::makeLLVM() {
  TimingScope scope = timing.nest("manifest");
  if (phases.isSkipping()) {
    if (floorAfter(phases.resumedAfter()) != Floor::LLVM)
      return phases.checkResumed();
    llvm::Expected<llvm::json::Value> known =
        llvm::json::parse(phases.getManifest());
    if (!known || !isManifest(*known)) {
      llvm::consumeError(known.takeError());
      return module.emitError("was written after the phase '")
             << phases.resumedAfter() << "' and has "
             << (phases.getManifest().empty() ? "no" : "a damaged")
             << " sheaf.manifest, expected that of the file that "
                "--dump-phases-to wrote";
    }
    manifest = std::move(*known->getAsObject());
  } else {
    FailureOr<llvm::json::Object> entries = describeEntries(module);
    if (failed(entries))
      return failure();
    manifest = std::move(*entries);
    std::string text;
    llvm::raw_string_ostream(text)
        << llvm::json::Value(llvm::json::Object(manifest));
    phases.setManifest(std::move(text));
  }
  scope.stop();
  FailureOr<Processor> processor =
      resolveProcessor(module.getLoc(), options.codegen);
  if (failed(processor))
    return failure();
  StringRef features = processor->features;
  int vectorBytes = features.contains("+avx512f") ? 64
                    : features.contains("+avx2")  ? 32
                                                  : 16;
  if (failed(runPasses("kernels", "cpu-lower-kernels{vector-bytes=" +
                                      Twine(vectorBytes) + "}")) ||
      failed(runPasses("host", "exec-to-llvm")) || failed(phases.at("llvm")))
    return failure();
  kernelParts = splitKernels(module);
  phases.setKernels(*kernelParts);
  return phases.run(*kernelParts, "machine",
                    "builtin.module(cpu-kernels-to-llvm{vector-bytes=" +
                        Twine(vectorBytes) + "})");
}

LogicalResult Compilation::writeBytes(StringRef path, StringRef bytes) {
  if (failed(phases.checkResumed()))
    return failure();
  if (llvm::Error error = writeFile(path, bytes))
    return module.emitError(llvm::toString(std::move(error)));
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
  phases.startCodegen();
  TimingScope scope = timing.nest("machine code");
  return compileModules(modules, module, options.codegen, scope);
}

/// The module's own name, else that of its file.
static std::string nameOf(ModuleOp module) {
  if (std::optional<StringRef> name = module.getSymName())
    return name->str();
  auto file = module.getLoc()->findInstanceOf<FileLineColLoc>();
  StringRef stem =
      file ? llvm::sys::path::stem(file.getFilename().strref()) : StringRef();
  return stem.empty() || stem == "-" ? "model" : stem.str();
}

/// What the runtime wants to know of the model as a whole.
static llvm::json::Object describeModel(const llvm::json::Object &manifest,
                                        ModuleOp module) {
  llvm::json::Object model;
  if (auto vocabulary = module->getAttrOfType<IntegerAttr>(kVocabularyAttr))
    model["vocab"] = vocabulary.getInt();
  model["name"] = nameOf(module);
  int64_t parameters = 0;
  for (const llvm::json::Value &value : *manifest.getArray("buffers")) {
    const llvm::json::Object &buffer = *value.getAsObject();
    // Of the whole tensor, where a rank holds a part.
    const llvm::json::Array *global = buffer.getArray("global_shape");
    const llvm::json::Array &shape =
        global ? *global : *buffer.getArray("shape");
    llvm::StringRef kind = *buffer.getString("kind"),
                    name = *buffer.getString("name");
    if (kind == "parameter") {
      int64_t elements = 1;
      for (const llvm::json::Value &size : shape)
        elements *= *size.getAsInteger();
      parameters += elements;
      // The vocabulary, where there is no @logits to tell it.
      if (const llvm::json::Array *axes = buffer.getArray("axes"))
        for (auto [i, axis] : llvm::enumerate(*axes))
          if (axis.getAsString() == StringRef("vocab"))
            model.try_emplace("vocab", *shape[i].getAsInteger());
    } else if (kind == "batch" && shape.size() == 2) {
      model["batch"] = *shape[0].getAsInteger();
      model["seq"] = *shape[1].getAsInteger();
    } else if (kind == "result" && name == "logits" && !shape.empty()) {
      model["vocab"] = *shape.back().getAsInteger();
    }
  }
  model["parameters"] = parameters;
  auto microbatches = module->getAttrOfType<IntegerAttr>(kMicrobatchesAttr);
  model["microbatches"] = microbatches ? microbatches.getInt() : 1;
  if (auto texts = module->getAttrOfType<ArrayAttr>(kPrecisionAttr);
      texts && !texts.empty() &&
      llvm::all_of(texts, llvm::IsaPred<StringAttr>)) {
    model["precision"] = cast<StringAttr>(texts[0]).getValue();
    llvm::json::Array more;
    for (Attribute text : texts.getValue().drop_front())
      more.push_back(cast<StringAttr>(text).getValue());
    if (!more.empty())
      model["precision_options"] = std::move(more);
  }
  if (auto flops = module->getAttrOfType<IntegerAttr>(kFlopsAttr)) {
    // APInt::roundToDouble is wrong beyond 64 bits (LLVM 22).
    llvm::APFloat count(llvm::APFloat::IEEEdouble());
    count.convertFromAPInt(flops.getValue(), /*IsSigned=*/true,
                           llvm::APFloat::rmNearestTiesToEven);
    model["flops_per_step"] = count.convertToDouble();
  }
  return model;
}

LogicalResult Compilation::writeArtifact(StringRef path) {
  if (failed(phases.checkResumed()))
    return failure();
  TimingScope scope = timing.nest("manifest");
  describeKernels(module, manifest);
  describeRanks(module, manifest);
  if (auto wire = module->getAttrOfType<StringAttr>(kWireAttr))
    manifest["wire"] = wire.getValue();
  FailureOr<Processor> processor =
      resolveProcessor(module.getLoc(), options.codegen);
  if (failed(processor))
    return failure();
  // The features that generated code can use; the others (shadow stacks, say)
  // are the kernel's business.
  llvm::json::Array features;
  for (StringRef feature : llvm::split(processor->features, ','))
    if (feature.consume_front("+") &&
        llvm::any_of(
            std::initializer_list<StringRef>{"sse", "ssse", "avx", "fma", "bmi",
                                             "f16c", "lzcnt", "popcnt",
                                             "movbe"},
            [&](StringRef prefix) { return feature.starts_with(prefix); }))
      features.push_back(feature);
  manifest["abi"] = SHEAF_ABI_VERSION;
  manifest["producer"] = kProducer;
  manifest["target"] = "cpu";
  manifest["cpu"] = processor->name;
  manifest["cpu_features"] = std::move(features);
  llvm::json::Object model = describeModel(manifest, module);
  if (!isModel)
    model["is_step"] = true;
  manifest["model"] = std::move(model);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(manifest));

  scope.stop();
  FailureOr<std::vector<std::string>> objects = makeObjects();
  if (failed(objects))
    return failure();
  scope = timing.nest("link");
  FailureOr<std::string> data =
      makeDataObject(module.getLoc(), {{"sheaf_manifest", text},
                                       {"sheaf_model", modelBytecode}});
  if (failed(data))
    return failure();
  objects->push_back(std::move(*data));
  return linkArtifact(module.getLoc(), *objects, path);
}

/// The floor that a module stands on.
static Floor floorOf(ModuleOp module) {
  if (module->hasAttr(kDeviceAttr))
    return Floor::Device;
  Floor floor = Floor::Model;
  if (!module.getOps<LLVM::LLVMFuncOp>().empty())
    return Floor::LLVM;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    // Results of a step say which buffers they are; a model's function of that
    // name is a clash that a pass reports.
    if (function.getName() == "step" && floor == Floor::Model &&
        function.getNumResults() && function.getResultAttr(0, nn::kResultAttr))
      floor = Floor::Step;
    if (llvm::any_of(function.getArgumentTypes(), llvm::IsaPred<MemRefType>))
      floor = Floor::Exec;
  }
  return floor;
}

/// Products of the forward pass, times three for the step: the usual count of
/// model FLOPs.
static double countStepFlops(ModuleOp module) {
  SymbolTable symbols(module);
  auto loss = symbols.lookup<func::FuncOp>("loss");
  return loss ? 3 * countFlops(loss, symbols) : 0;
}

/// What the passes take for granted of a program on tensors.
static LogicalResult checkTensors(ModuleOp module) {
  if (module.getOps<func::FuncOp>().empty())
    return module.emitError(
        "has no function, expected @loss or functions to call; see "
        "sheaf-model for a model");
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (isa<dist::MeshOp>(op))
      continue;
    if (!function)
      return op.emitOpError(
          "is not compiled; a module holds functions (func.func) alone");
    StringRef name = function.getName();
    if (name.empty() || !llvm::all_of(name, [](char c) {
          return llvm::isAlnum(c) || StringRef("_.$-").contains(c);
        }))
      return function.emitError("function is named '")
             << name << "', expected letters, digits, '_', '.', '$' and '-'";
    auto check = [&](StringRef what, TypeRange types) -> LogicalResult {
      for (auto [i, type] : llvm::enumerate(types)) {
        auto tensor = dyn_cast<RankedTensorType>(type);
        if (!tensor || !nn::isStaticTensor(type) || !nn::isAnyElement(type) ||
            tensor.getEncoding())
          return function.emitError("@") << name << " has the " << what << " "
                                         << i << " of type " << type
                                         << ", expected a tensor with static "
                                            "dimensions of at least 1, without "
                                            "encoding, of f64, f32, bf16, f16, "
                                            "an 8-bit float, i32, i8 or i1";
      }
      return success();
    };
    if (failed(check("argument", function.getArgumentTypes())) ||
        failed(check("result", function.getResultTypes())))
      return failure();
  }
  return nn::refuseRecursion(module);
}

/// Which batch argument, if any, each tensor of a call tree is; a value that is
/// looked up in a table or that names a class bounds the vocabulary.
static void findVocabulary(const SymbolTable &symbols, func::FuncOp function,
                           ArrayRef<bool> isToken, int64_t &vocabulary) {
  llvm::DenseSet<Value> tokens;
  for (auto [argument, is] : llvm::zip_equal(function.getArguments(), isToken))
    if (is)
      tokens.insert(argument);
  auto bound = [&](Value ids, int64_t size) {
    if (tokens.contains(ids))
      vocabulary = vocabulary ? std::min(vocabulary, size) : size;
  };
  function.walk([&](Operation *op) {
    if (auto embedding = dyn_cast<nn::EmbeddingOp>(op)) {
      bound(embedding.getIds(), embedding.getTable().getType().getDimSize(0));
    } else if (auto gather = dyn_cast<nn::GatherOp>(op)) {
      bound(gather.getIndices(),
            gather.getTable().getType().getDimSize(gather.getAxis()));
    } else if (auto loss = dyn_cast<nn::CrossEntropyOp>(op)) {
      bound(loss.getTargets(), loss.getLogits().getType().getShape().back());
    } else if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || callee.isExternal())
        return;
      SmallVector<bool> passed;
      for (Value operand : call.getOperands())
        passed.push_back(tokens.contains(operand));
      if (llvm::is_contained(passed, true))
        findVocabulary(symbols, callee, passed, vocabulary);
    }
  });
}

/// What a loss needs to become a training step that sheaf-run can feed.
static LogicalResult checkLoss(ModuleOp module) {
  auto loss = module.lookupSymbol<func::FuncOp>("loss");
  if (!loss)
    return success();
  if (loss.isExternal())
    return loss.emitError("@loss has no body");
  if (!loss.isPublic())
    return loss.emitError(
        "@loss is private, expected a public function to train");
  if (loss.getNumResults() == 1)
    if (auto type = dyn_cast<RankedTensorType>(loss.getResultTypes()[0]);
        type && type.getRank() == 0 && isa<FloatType>(type.getElementType()) &&
        !type.getElementType().isF32() && !type.getElementType().isF64())
      return loss.emitError("@loss has a result of type ")
             << type << ", expected tensor<f32> or tensor<f64>; use nn.cast";
  RankedTensorType first;
  for (unsigned i = 0; i < loss.getNumArguments(); ++i) {
    if (!loss.getArgAttr(i, nn::kParamAttr) &&
        !loss.getArgAttr(i, nn::kBatchAttr) &&
        !loss.getArgAttr(i, nn::kRngAttr))
      return loss.emitError("@loss has the argument ")
             << i
             << ", which nothing feeds, expected nn.param, nn.batch or nn.rng "
                "on it";
    if (!loss.getArgAttr(i, nn::kBatchAttr))
      continue;
    auto type = cast<RankedTensorType>(loss.getArgumentTypes()[i]);
    if (first && first != type)
      return loss.emitError("@loss has the batch argument ")
             << i << " of type " << type << " and another of type " << first
             << ", expected one shape [batch, sequence]";
    first = type;
  }
  auto logits = module.lookupSymbol<func::FuncOp>("logits");
  if (logits && (logits.isExternal() || !logits.isPublic()))
    return logits.emitError(
        "@logits is taken for sampling, expected a public function "
        "with a body");
  if (logits) {
    auto type = logits.getNumResults() == 1
                    ? dyn_cast<RankedTensorType>(logits.getResultTypes()[0])
                    : RankedTensorType();
    if (!type || type.getRank() != 3)
      return logits.emitError("@logits has results of types (")
             << logits.getResultTypes()
             << "), expected one tensor of [batch, sequence, vocabulary]";
  }
  return success();
}

void Compilation::annotate() {
  Builder builder(module->getContext());
  // More than 64 bits hold where a step takes millions of tokens.
  llvm::APSInt flops(128, /*isUnsigned=*/false);
  bool isExact;
  llvm::APFloat(countStepFlops(module))
      .convertToInteger(flops, llvm::APFloat::rmTowardZero, &isExact);
  module->setAttr(kFlopsAttr,
                  builder.getIntegerAttr(builder.getIntegerType(128), flops));
  auto loss = module.lookupSymbol<func::FuncOp>("loss");
  if (!loss)
    return;
  SmallVector<bool> isToken;
  for (unsigned i = 0; i < loss.getNumArguments(); ++i) {
    auto role = loss.getArgAttrOfType<StringAttr>(i, nn::kBatchAttr);
    isToken.push_back(role && (role == "tokens" || role == "targets"));
  }
  int64_t vocabulary = 0;
  findVocabulary(SymbolTable(module), loss, isToken, vocabulary);
  if (vocabulary)
    module->setAttr(kVocabularyAttr, builder.getI64IntegerAttr(vocabulary));
}

LogicalResult Compilation::checkShardingOptions(Floor floor) {
  if (options.isPipelineGiven && pipelinePlaces() < 2 &&
      !options.isPipelineOfOne && !options.reference)
    return module.emitError("has no pipeline, which --pipeline, --chunks, "
                            "--stage-layers or --stage-layout would tell what "
                            "to do: expected --mesh with pp, such as "
                            "--mesh=pp=2");
  const CompileOptions defaults;
  const std::pair<StringRef, bool> given[] = {
      {"--strategy", options.strategy != defaults.strategy},
      {"--zero", options.zero != defaults.zero},
      {"--zero-group", options.zeroGroup != defaults.zeroGroup},
      {"--zero-min-bytes", options.zeroMinBytes != defaults.zeroMinBytes},
      {"--zero3-gathers", options.zero3Gathers != defaults.zero3Gathers},
      {"--accumulate", options.accumulate != defaults.accumulate},
      {"--sequence-parallel",
       options.sequenceParallel != defaults.sequenceParallel},
      {"--context", options.context != defaults.context},
      {"--bucket-bytes", options.bucketBytes != defaults.bucketBytes},
      {"--gradient-wire", options.gradientWire != defaults.gradientWire},
      {"--weight-wire", options.weightWire != defaults.weightWire},
      {"--strict", options.strict != defaults.strict}};
  std::string names;
  for (auto [name, is] : given)
    if (is)
      names += (names.empty() ? "" : ", ") + name.str();
  if (names.empty())
    return success();
  if (floor > Floor::Step && phases.resumedAfter().empty())
    return module.emitError("is the program of one device already; give ")
           << names << " with the model or the step";
  if (options.bucketBytes != defaults.bucketBytes && pipelinePlaces() > 1)
    return module.emitError("has a pipeline, whose ranks have other gradients, "
                            "and --bucket-bytes=")
           << options.bucketBytes
           << " puts gradients together; expected --bucket-bytes=0";
  for (auto [name, value] : {std::pair<StringRef, StringRef>{
                                 "--gradient-wire", options.gradientWire},
                             {"--weight-wire", options.weightWire}})
    if (value != "f32" && pipelinePlaces() > 1)
      return module.emitError("has a pipeline, in whose stages nothing is "
                              "rounded before it is sent, and ")
             << name << "=" << value << " asks for that; expected " << name
             << "=f32, or a mesh without pp";
  if (options.mesh.empty() && !options.isMeshGiven && !dist::getMesh(module))
    return module.emitError("has no mesh, which ")
           << names
           << " would shard it over: expected --mesh, such as --mesh=dp=2, or "
              "a dist.mesh in the module";
  // What a file shards is not known by a number.
  if (!options.strategy.empty())
    return success();
  if (options.zero3Gathers != defaults.zero3Gathers && options.zero < 3)
    return module.emitError("has weights that are not sharded, with --zero=")
           << options.zero << ", and --zero3-gathers=" << options.zero3Gathers
           << " tells of those that are; expected --zero=3";
  if (options.weightWire != defaults.weightWire && options.zero < 1)
    return module.emitError("has weights that are whole on every device, with "
                            "--zero=")
           << options.zero << ", and --weight-wire=" << options.weightWire
           << " tells how they are gathered; expected --zero=1, 2 or 3";
  if (options.accumulate != defaults.accumulate && options.zero < 2)
    return module.emitError("has gradients that are whole between "
                            "microbatches, with --zero=")
           << options.zero << ", and --accumulate=" << options.accumulate
           << " tells of sharded ones; expected --zero=2 or 3";
  return success();
}

LogicalResult Compilation::run(StringRef path) {
  bool isResumed = !phases.resumedAfter().empty();
  Floor floor = isResumed ? floorAfter(phases.resumedAfter()) : floorOf(module);
  if (floor > options.emit)
    return module.emitError(
        "is on a lower floor than the one asked for; a program only moves "
        "down");
  isModel = floor == Floor::Model;
  if (!isModel && !isResumed &&
      (options.microbatches != 1 || options.recompute != "none"))
    return module.emitError(
        "is a step already, whose microbatches and recomputation are "
        "chosen; give --microbatches and --recompute with the model");
  if (floor > Floor::Step && !isResumed && !options.mesh.empty())
    return module.emitError(
        "is the program of one device already; give --mesh with the model "
        "or the step");
  // What a phase wrote has the mesh that the option asked for.
  if (dist::MeshOp mesh = dist::getMesh(module);
      mesh && options.isMeshGiven && !isResumed)
    return mesh.emitError("the module has a mesh already, and --mesh asks for "
                          "one, too; expected one of the two, leave out --mesh "
                          "or this dist.mesh");
  if (failed(checkShardingOptions(floor)))
    return failure();
  context = options.context;
  if (context == "ulysses" && isTraining() && !isModel && !isResumed)
    return module.emitError("is a step already, whose backward keeps what "
                            "attention read; give --context=ulysses with the "
                            "model");
  if (options.precision != "fp32" && !isResumed && !(isModel && isTraining()))
    return module.emitError("--precision=")
           << options.precision
           << " makes the step of a model compute in other numbers, expected a "
              "model with @loss, or --precision=fp32";
  // A dump behind the recipe is in its numbers.
  auto made = module->getAttrOfType<ArrayAttr>(kPrecisionAttr);
  StringRef recipe = made && !made.empty() && isa<StringAttr>(made[0])
                         ? cast<StringAttr>(made[0]).getValue()
                         : StringRef("fp32");
  bool isBehind = isResumed && (phases.resumedAfter() == "precision" ||
                                floor > Floor::Model);
  if (isBehind && options.precision != "fp32" && options.precision != recipe)
    return module.emitError("was made in ")
           << recipe << ", and --precision is " << options.precision
           << ", expected the recipe that it was made with";
  explains = options.explain != CompileOptions::Explain::No;
  if (!options.why.empty() &&
      (floor > Floor::Step || options.emit < Floor::Device ||
       (options.mesh.empty() && !dist::getMesh(module))))
    return module.emitError(
        "--why tells of shardings: expected a model or a step, a mesh of more "
        "than one device, and --emit=device or lower");
  if (explains && (floor > Floor::Device || options.emit < Floor::Device))
    return module.emitError(
        "--explain tells of a step on its mesh: expected a model, a step or a "
        "device's program, and --emit=device or lower");
  // Phases are told by their names then: each comes, and those before are
  // skipped.
  if (isResumed)
    floor = std::min(floor, Floor::Step);
  if (floor <= Floor::Step && !isResumed) {
    TimingScope scope = timing.nest("checks and bytecode");
    if (failed(checkTensors(module)) ||
        (floor == Floor::Model && failed(checkLoss(module))))
      return failure();
    llvm::raw_string_ostream stream(modelBytecode);
    if (failed(writeBytecodeToFile(module, stream)))
      return module.emitError("cannot be written as bytecode");
    annotate();
  }
  if (context == "auto" && failed(chooseContext(isResumed)))
    return failure();
  if (isModel && failed(phases.at("model")))
    return failure();
  if (options.emit == Floor::Model) {
    module->removeAttr(kContextAttr);
    return writeText(path);
  }
  if (options.reference && floor <= Floor::Step) {
    bool isManual =
        module.walk([](dist::ManualOp) { return WalkResult::interrupt(); })
            .wasInterrupted();
    if (isManual)
      return module.emitError(
          "has a part that is written for one device of a mesh (dist.manual), "
          "so there is no program of one device to compare with");
    forgetShardings(module);
  }
  if (floor <= Floor::Step && failed(makeStep()))
    return failure();
  // Of a dump behind the step what that has left of them.
  if (auto step = module.lookupSymbol<func::FuncOp>("step"); explains && step)
    roundings = explainRoundings(step);
  if (options.emit == Floor::Step) {
    module->removeAttr(kContextAttr);
    return writeText(path);
  }
  bool isSchedule =
      options.emit >= Floor::Schedule && options.emit <= Floor::ScheduleIR;
  if (isSchedule && pipelinePlaces() < 2)
    return module.emitError("has no pipeline to schedule, expected --mesh "
                            "with pp, such as --mesh=pp=2");
  // Costs and transfers are those of a device, by which a file is checked, too;
  // recipes are known here.
  bool needsDevice = options.pipeline == "greedy" ||
                     StringRef(options.pipeline).starts_with("file:") ||
                     options.emit == Floor::ScheduleCSVComm ||
                     options.emit == Floor::ScheduleIR;
  if (isSchedule && !needsDevice) {
    FailureOr<schedule::Schedule> made = makeSchedule();
    if (failed(made))
      return failure();
    plan = stages::StepPlan{{}, *made, *made, {}, {}};
    return writeSchedule(path);
  }
  llvm::json::Array conflicts;
  std::vector<double> attention;
  llvm::json::Object whole;
  // What a device's share is a share of. A body that is written for a device
  // has no program of one.
  bool isManual =
      module.walk([](dist::ManualOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  if (explains && options.why.empty() && floor <= Floor::Step &&
      !phases.isSkipping() && !isManual &&
      (!options.mesh.empty() || dist::getMesh(module)) &&
      module.lookupSymbol<func::FuncOp>("step")) {
    FailureOr<llvm::json::Object> bytes = explainWhole();
    if (failed(bytes))
      return failure();
    whole = std::move(*bytes);
  }
  if (floor <= Floor::Step &&
      (failed(makeDevice()) || failed(phases.at("device"))))
    return failure();
  if (!options.why.empty())
    return success();
  if (options.emit == Floor::Device && !path.empty() && failed(writeText(path)))
    return failure();
  if (explains) {
    auto step = module.lookupSymbol<func::FuncOp>("step");
    if (!step)
      return module.emitError(
          "has no training step to explain; --explain needs a model with "
          "@loss");
    numberCollectives(module, pipelinePlaces() > 1 || !options.cluster.empty());
    if (pipelinePlaces() > 1) {
      for (auto axis :
           dist::getMesh(module).getAxes().getAsRange<dist::MeshAxisAttr>())
        if (axis.getName() == "pp")
          link = dist::getLinkSpeed(axis);
    }
    collectives = sharding::explainCollectives(step);
    conflicts = sharding::explainConflicts(step);
    attention = sharding::countAttention(step);
  }
  if (isSchedule) {
    if (failed(makeTransfers()))
      return failure();
    FailureOr<stages::StepPlan> made =
        stages::planStep(module, scheduleOptions());
    if (failed(made))
      return failure();
    plan = std::move(*made);
    return writeSchedule(path);
  }
  // An explanation tells of memory, too, which is known where it is placed.
  if (options.emit == Floor::Device && !explains)
    return success();
  if (floor < Floor::Exec && failed(makeExec()))
    return failure();
  if (explains &&
      failed(explain(std::move(conflicts), attention, std::move(whole))))
    return failure();
  if (options.emit == Floor::Device || path.empty())
    return success();
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
    CodegenOptions hostOptions = options.codegen;
    hostOptions.optLevel = 0;
    llvm::append_range(modules, kernelParts->getOps<ModuleOp>());
    for (ModuleOp part : modules) {
      llvm::LLVMContext context;
      std::unique_ptr<llvm::Module> llvmModule = translateAndOptimise(
          part, context, part == module ? hostOptions : options.codegen);
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

LogicalResult sheaf::compile(ModuleOp module, const CompileOptions &options,
                             StringRef path, TimingScope &timing) {
  return Compilation(module, options, timing).run(path);
}
