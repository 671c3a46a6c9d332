//===- sheaf-compile.cpp - The driver -------------------------------------===//

#include "compiler/Compile.h"
#include "compiler/Points.h"
#include "compiler/Remarks.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "passes/pipeline/schedule/Generate.h"
#include "passes/precision/Recipe.h"
#include "passes/sharding/Explain.h"
#include "passes/stages/Layout.h"
#include "support/Divisors.h"
#include "support/Plugins.h"
#include "support/Version.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include <cmath>
#include <csignal>
#include <map>

namespace cl = llvm::cl;
using sheaf::Floor;

static cl::OptionCategory category("sheaf-compile");

static cl::list<std::string> inputs(cl::Positional, cl::OneOrMore,
                                    cl::desc("<model.mlir>"),
                                    cl::cat(category));
static cl::opt<std::string>
    output("o", cl::desc("Write to FILE (text: default standard output)"),
           cl::value_desc("FILE"), cl::cat(category));
static cl::opt<Floor> emit(
    "emit", cl::desc("How far down to go:"), cl::init(Floor::Artifact),
    cl::cat(category),
    cl::values(
        clEnumValN(Floor::Artifact, "artifact",
                   "a shared object for sheaf-run (default)"),
        clEnumValN(Floor::Model, "model", "floor 1, the model"),
        clEnumValN(Floor::Step, "step",
                   "floor 2, the training step on tensors"),
        clEnumValN(Floor::Device, "device",
                   "floor 3, what one device of the mesh does"),
        clEnumValN(Floor::Schedule, "schedule",
                   "floor 4, what each rank of the pipeline computes when"),
        clEnumValN(Floor::ScheduleCSV, "schedule=csv",
                   "the same as CSV of PyTorch's pipelining"),
        clEnumValN(Floor::ScheduleCSVComm, "schedule=csv-comm",
                   "with sends and receives"),
        clEnumValN(Floor::ScheduleIR, "schedule=ir",
                   "those, waits and frees as IR of pipe"),
        clEnumValN(Floor::Exec, "exec",
                   "floor 5, the placed program on buffers"),
        clEnumValN(Floor::LLVM, "llvm", "floor 6, LLVM IR"),
        clEnumValN(Floor::Object, "object",
                   "the object code of the host program, without kernels")));
static cl::opt<std::string> target("target", cl::desc("cpu (default)"),
                                   cl::init("cpu"), cl::cat(category));
static cl::opt<std::string>
    cpu("cpu", cl::desc("Processor to make code for (default: native)"),
        cl::init("native"), cl::cat(category));
static cl::opt<std::string>
    precision("precision",
              cl::desc("Number formats of a step: fp32 (default), the model as "
                       "written; bf16 or fp16, with f32 masters and sums; "
                       "fp8-tensor, fp8-block, fp8-delayed or mxfp8, bf16 with "
                       "products of 8 bits"),
              cl::init("fp32"), cl::value_desc("RECIPE"), cl::cat(category));
static cl::opt<double>
    lossScale("loss-scale",
              cl::desc("fp16: what the loss is first multiplied by (65536)"),
              cl::value_desc("X"), cl::init(65536), cl::cat(category));
static cl::opt<double> lossScaleWindow(
    "loss-scale-window",
    cl::desc("fp16: steps without an overflow that double the scale (2000)"),
    cl::value_desc("N"), cl::init(2000), cl::cat(category));
static cl::opt<int64_t> amaxHistory(
    "amax-history",
    cl::desc("fp8-delayed: of how many steps a scale is made (1024)"),
    cl::value_desc("N"), cl::init(1024), cl::cat(category));
static cl::opt<std::string> gradientType(
    "gradients",
    cl::desc("--precision: gradients are added up in f32 (default), narrow, or "
             "fp8 with a factor"),
    cl::init("f32"), cl::value_desc("f32|narrow|fp8"), cl::cat(category));
static cl::opt<std::string> momentType(
    "moments",
    cl::desc("--precision: the optimizer's moments are f32 (default), narrow, "
             "or fp8 and for squares f16, with factors"),
    cl::init("f32"), cl::value_desc("f32|narrow|fp8"), cl::cat(category));
static cl::opt<std::string> masterType(
    "masters",
    cl::desc("--precision: parameters have masters of f32 (default), f16, or "
             "none; but for f32, updates are rounded up or down at random"),
    cl::init("f32"), cl::value_desc("f32|f16|none"), cl::cat(category));
static cl::opt<std::string> weightType(
    "weights",
    cl::desc("8-bit --precision: a matrix that is read in 8 bits only is kept "
             "narrow, beside its master (default), or quantized, made of the "
             "master once a step"),
    cl::init("narrow"), cl::value_desc("narrow|quantized"), cl::cat(category));
static cl::list<std::string> keepF32(
    "keep-f32",
    cl::desc("Parameters that --precision leaves in f32, with their products: "
             "patterns of names, as in '*.gate.*'"),
    cl::value_desc("PATTERN,..."), cl::CommaSeparated, cl::cat(category));
static cl::opt<std::string> mesh(
    "mesh",
    cl::desc("Devices: axes of pp, dp, cp, tp and their sizes; ep of those "
             "of dp x cp share the experts (one device)"),
    cl::value_desc("AXIS=N,..."), cl::cat(category));
static cl::opt<std::string> expertRows(
    "expert-rows",
    cl::desc("How tokens go to experts on other devices: in buckets with room "
             "for the most that there can be (bucketed, default), or by count "
             "(exact)"),
    cl::init("bucketed"), cl::cat(category));
static cl::opt<double> expertRoom(
    "expert-room",
    cl::desc("Room of a bucket, times the rows that it has where all have as "
             "many; a run stops where more come (0: the most that can)"),
    cl::value_desc("F"), cl::init(0), cl::cat(category));
static cl::opt<int64_t> zero(
    "zero",
    cl::desc("What is sharded over dp x cp: 0 nothing (default), 1 optimizer "
             "state, 2 and gradients, 3 and parameters"),
    cl::init(0), cl::cat(category));
static cl::opt<int64_t>
    zeroGroup("zero-group",
              cl::desc("Shard over the innermost N devices of dp x cp (all)"),
              cl::value_desc("N"), cl::init(0), cl::cat(category));
static cl::opt<int64_t> zeroMinBytes(
    "zero-min-bytes",
    cl::desc("Parameters of fewer bytes stay whole on every device (0)"),
    cl::value_desc("N"), cl::init(0), cl::cat(category));
static cl::opt<std::string>
    zero3Gathers("zero3-gathers",
                 cl::desc("Weights of --zero=3: gathered again (default) for "
                          "each use of each microbatch, or "
                          "gathered once a step and kept (keep)"),
                 cl::init("again"), cl::cat(category));
static cl::opt<std::string>
    accumulate("accumulate",
               cl::desc("Gradients of --zero=2 and 3 between microbatches: "
                        "sharded (default), or whole and "
                        "reduced once a step"),
               cl::init("sharded"), cl::cat(category));
static cl::opt<std::string>
    bucketBytes("bucket-bytes",
                cl::desc("Reduce gradients together, up to N bytes; 0: each "
                         "alone (default); auto: by the "
                         "link of the axis"),
                cl::value_desc("N"), cl::init("0"), cl::cat(category));
static cl::opt<std::string> gradientWire(
    "gradient-wire",
    cl::desc("How gradients are sent to be summed: f32, as they are (default); "
             "bf16; int8 or fp8 (E4M3) in blocks of 128 with a factor each; "
             "the log then has how far off that is (wire_error)"),
    cl::value_desc("FORMAT"), cl::init("f32"), cl::cat(category));
static cl::opt<std::string> weightWire(
    "weight-wire",
    cl::desc("How weights of --zero=3 are sent to be gathered, and the change "
             "of those of --zero=1 and 2: f32 (default), bf16, int8 or fp8"),
    cl::value_desc("FORMAT"), cl::init("f32"), cl::cat(category));
static cl::opt<bool> sequenceParallel(
    "sequence-parallel",
    cl::desc("Shard activations between blocks along the sequence, over tp"),
    cl::cat(category));
static cl::opt<std::string> pipeline(
    "pipeline",
    cl::desc("Schedule of the stages over the axis pp: gpipe (default), 1f1b, "
             "interleaved, bfs, zb-h1, zb-h2, zbv, dualpipev, greedy (made for "
             "what the stages cost), or file:F"),
    cl::value_desc("NAME"), cl::init("gpipe"), cl::cat(category));
static cl::opt<int64_t>
    chunks("chunks",
           cl::desc("Stages of each rank, of interleaved, bfs and greedy (2)"),
           cl::value_desc("V"), cl::init(2), cl::cat(category));
static cl::opt<int64_t> memoryLimit(
    "memory-limit",
    cl::desc("Refuse a step that needs more bytes on a device, and let greedy "
             "keep to it"),
    cl::value_desc("BYTES"), cl::init(-1), cl::cat(category));
static cl::opt<std::string> cluster(
    "cluster",
    cl::desc("Description of the cluster whose times decide when transfers "
             "start, and within whose nodes rounded gradients are summed first "
             "(docs/design/simulation.md)"),
    cl::value_desc("FILE"), cl::cat(category));
static cl::opt<bool>
    overlap("overlap",
            cl::desc("Start transfers early and wait for them late (true)"),
            cl::init(true), cl::cat(category));
static cl::list<int64_t> stageLayers(
    "stage-layers",
    cl::desc("How many layers each stage of the pipeline has (by cost)"),
    cl::value_desc("N,..."), cl::CommaSeparated, cl::cat(category));
static cl::opt<std::string> stageLayout(
    "stage-layout",
    cl::desc("What each stage of the pipeline has, as in 'e l*2|l*3|l*2 h': e "
             "embedding, l layers, h head and loss (by cost)"),
    cl::value_desc("TEXT"), cl::cat(category));
static cl::opt<std::string>
    context("context",
            cl::desc("How attention gets keys and values from the other "
                     "devices of cp: gather (default), all at once; ring, from "
                     "neighbour to neighbour; zigzag, the same with equal work "
                     "for causal attention; ulysses, whole sequences of some "
                     "heads; auto, which of them takes the least time"),
            cl::init("gather"), cl::cat(category));
static cl::opt<std::string>
    explain("explain", cl::ValueOptional,
            cl::desc("Print every collective of a step, what it costs and why "
                     "it is there, and the "
                     "memory of a device; =json for programs. Without -o "
                     "nothing is written"),
            cl::value_desc("json"), cl::cat(category));
static cl::opt<std::string>
    strategy("strategy",
             cl::desc("A file with the strategy, rows such as 'parameter mlp "
                      "-> tp', instead of --zero, --zero-group and "
                      "--sequence-parallel"),
             cl::value_desc("FILE"), cl::cat(category));
static cl::opt<std::string>
    why("why",
        cl::desc("Print where each axis of a value's sharding came from, and "
                 "no more: %name or "
                 "@function:%name as in the file, a parameter, the role of a "
                 "batch argument, LINE or "
                 "FILE:LINE"),
        cl::value_desc("VALUE"), cl::cat(category));
static cl::opt<int64_t> strict(
    "strict",
    cl::desc("Refuse to move a value without an annotation that asks for it "
             "where a device sends "
             "more than BYTES; the error says which annotation avoids it"),
    cl::value_desc("BYTES"), cl::init(-1), cl::cat(category));
static cl::opt<bool> diff(
    "diff",
    cl::desc("Compare two files of --explain=json: what the second has more "
             "or less. Exit 0: no difference, 1: some, or an error"),
    cl::cat(category));
static cl::opt<int64_t> microbatches("microbatches",
                                     cl::desc("Microbatches a step (1)"),
                                     cl::init(1), cl::cat(category));
static cl::opt<std::string>
    recompute("recompute", cl::desc("none (default), selective or full"),
              cl::init("none"), cl::cat(category));
static cl::opt<std::string> optimizer("optimizer",
                                      cl::desc("adamw (default) or sgd"),
                                      cl::init("adamw"), cl::cat(category));
static cl::opt<std::string>
    reference("reference", cl::ValueOptional,
              cl::desc("One device, no fusion, -O0: what sheaf-run --verify "
                       "compares with; =f64 computes "
                       "in f64"),
              cl::value_desc("f64"), cl::cat(category));
static cl::opt<bool>
    differentiate("differentiate",
                  cl::desc("Add NAME_gradient for every public function of a "
                           "module without a loss"),
                  cl::cat(category));
static cl::opt<bool> printFusion(
    "print-fusion",
    cl::desc(
        "Say which ops become one kernel and which do not, why, and the bytes"),
    cl::cat(category));
static cl::opt<std::string>
    dumpPhases("dump-phases-to",
               cl::desc("Write the IR after each phase to DIR"),
               cl::value_desc("DIR"), cl::cat(category));
static cl::opt<std::string>
    remarks("remarks", cl::ValueOptional,
            cl::desc("Say what was fused, sharded and placed, and what not and "
                     "why; =REGEX: of the "
                     "categories that match"),
            cl::value_desc("REGEX"), cl::cat(category));
static cl::opt<std::string>
    remarksOutput("remarks-output",
                  cl::desc("Write the remarks to FILE, as YAML for opt-viewer"),
                  cl::value_desc("FILE"), cl::cat(category));
static cl::opt<std::string> crashReproducer(
    "crash-reproducer",
    cl::desc(
        "Where the module is written that the compiler crashed on; '': nowhere "
        "(sheaf-compile-crash.mlir)"),
    cl::value_desc("FILE"), cl::init("sheaf-compile-crash.mlir"),
    cl::cat(category));
static cl::list<std::string>
    passAt("pass-at",
           cl::desc("Run a pass pipeline at a point, one of those below"),
           cl::value_desc("POINT:PIPELINE"), cl::cat(category));
static cl::list<std::string>
    dialectPlugins("load-dialect-plugin",
                   cl::desc("Load a plugin with dialects"),
                   cl::value_desc("FILE"), cl::cat(category));
static cl::list<std::string> passPlugins("load-pass-plugin",
                                         cl::desc("Load a plugin with passes"),
                                         cl::value_desc("FILE"),
                                         cl::cat(category));
static cl::opt<char> optLevel("O",
                              cl::desc("Optimisation level, -O0 to -O3 (3)"),
                              cl::Prefix, cl::init('3'), cl::cat(category));

namespace {
/// A run-time scalar: written into the manifest, overridable by sheaf-run.
struct Scalar {
  cl::opt<double> option;
  /// Values from 0 to `most`, or below it, have a meaning.
  double most;
  bool isBelow;
  Scalar(const char *name, double value, const char *text, double most,
         bool isBelow = false)
      : option(llvm::StringRef(name), cl::desc(text), cl::init(value),
               cl::value_desc("X"), cl::cat(category)),
        most(most), isBelow(isBelow) {}
};
} // namespace

static Scalar scalars[] = {
    {"lr", 1e-3, "Learning rate (1e-3)", 1e6},
    {"warmup", 0, "Steps of linear warm-up (0)", 1e9},
    {"min-lr", 0, "Learning rate after decay (0)", 1e6},
    {"decay-steps", 0, "Step at which the cosine decay ends; 0: constant (0)",
     1e9},
    {"weight-decay", 0.1, "Decoupled weight decay (0.1)", 1e6},
    {"beta1", 0.9, "AdamW: decay of the first moment (0.9)", 1, true},
    {"beta2", 0.95, "AdamW: decay of the second moment (0.95)", 1, true},
    {"eps", 1e-8, "AdamW: added to the root of the second moment (1e-8)", 1e6},
    {"clip", 1, "Largest norm of all gradients; 0: no clipping (1)", 1e30},
    {"momentum", 0, "SGD: momentum (0)", 1}};

/// The points that --pass-at knows, under the options.
static std::string describePoints() {
  std::string text =
      "\nPoints, in their order, for --pass-at and for plugins:\n";
  for (const sheaf::Point &point : sheaf::getPoints())
    text += llvm::formatv("  {0,-10} - {1}\n", point.name.data(),
                          point.meaning.data());
  return text;
}

static int fail(const llvm::Twine &message) {
  llvm::errs() << "sheaf-compile: " << message << "\n";
  return 1;
}

/// Axes and sizes, in any order; the mesh has those of more than one device, in
/// the order of ranks: pp outermost, then dp, cp, tp innermost. ep is a part of
/// dp and adds no devices.
static bool parseMesh(llvm::StringRef text, sheaf::CompileOptions &options) {
  constexpr llvm::StringLiteral order[] = {"pp", "dp", "cp", "tp", "ep"};
  std::map<std::string, int64_t> sizes;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    if (part.empty())
      return fail("--mesh has '" + text +
                  "', expected AXIS=N,... with nothing left out, as in "
                  "--mesh=dp=2,tp=2"),
             false;
    auto [axis, size] = part.split('=');
    int64_t value = 0;
    if (!llvm::is_contained(order, axis))
      return fail("--mesh has the axis '" + axis +
                  "', expected pp, dp, cp, tp or ep"),
             false;
    if (size.getAsInteger(10, value) || value < 1)
      return fail("--mesh has '" + part + "', expected " + axis +
                  "=N with N of at least 1"),
             false;
    if (!sizes.emplace(axis, value).second)
      return fail("--mesh has the axis '" + axis + "' twice"), false;
  }
  auto sizeOf = [&](llvm::StringRef axis) {
    auto it = sizes.find(axis.str());
    return it == sizes.end() ? 1 : it->second;
  };
  options.isMeshGiven = !sizes.empty();
  options.isPipelineOfOne = sizes.count("pp") && sizeOf("pp") == 1;
  for (llvm::StringRef axis : order)
    if (auto it = sizes.find(axis.str());
        axis != "ep" && it != sizes.end() && it->second > 1)
      options.mesh.emplace_back(*it);
  if (auto it = sizes.find("ep"); it != sizes.end()) {
    int64_t dp = sizeOf("dp"), cp = sizeOf("cp"), ep = it->second;
    if (cp == 1 && dp % ep)
      return fail("--mesh has ep=" + llvm::Twine(ep) +
                  ", which does not divide dp=" + llvm::Twine(dp) +
                  "; the nearest that fit: " + sheaf::nearestDivisors(dp, ep)),
             false;
    // A part of cp, or all of it and a part of dp.
    if (cp % ep && (ep % cp || dp % (ep / cp)))
      return fail("--mesh has ep=" + llvm::Twine(ep) +
                  ", which is no innermost part of dp=" + llvm::Twine(dp) +
                  " and cp=" + llvm::Twine(cp) +
                  "; expected what divides cp, or cp times what divides dp"),
             false;
    options.expertParallel = ep;
  }
  return true;
}

/// Reads two explanations and writes what differs.
static int printDiff() {
  for (auto [name, option] : cl::getRegisteredOptions())
    if (option != &diff && option->getNumOccurrences() &&
        llvm::is_contained(option->Categories, &category))
      return fail("--diff only compares two files, expected no " +
                  llvm::Twine(name.size() > 1 ? "--" : "-") + name);
  llvm::SmallVector<llvm::json::Object> sides;
  for (const std::string &file : inputs) {
    std::string error;
    std::unique_ptr<llvm::MemoryBuffer> buffer =
        mlir::openInputFile(file, &error);
    if (!buffer)
      return fail(error);
    llvm::Expected<llvm::json::Object> side =
        sheaf::sharding::parseExplanation(buffer->getBuffer());
    if (!side)
      return fail(file + ": " + llvm::toString(side.takeError()));
    sides.push_back(std::move(*side));
  }
  return sheaf::sharding::printDifferences(sides[0], sides[1], llvm::outs());
}

static std::string number(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // A file-size limit is then an error of write(), with a message.
  signal(SIGXFSZ, SIG_IGN);
  mlir::registerMLIRContextCLOptions();
  mlir::registerAsmPrinterCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  sheaf::registerSheafPasses();
  const std::string points = describePoints();
  cl::extrahelp help(points);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter(sheaf::printVersion);
  cl::ParseCommandLineOptions(
      argc, argv, "Compiles the training step of a model to an artifact\n");

  if (inputs.size() != (diff ? 2 : 1))
    return fail(
        llvm::Twine("found ") + llvm::Twine(inputs.size()) +
        " files, expected " +
        (diff ? "two explanations: --diff A.json B.json" : "one model"));
  if (diff)
    return printDiff();
  const std::string input = inputs.front();

  sheaf::CompileOptions options;
  options.emit = emit;
  options.microbatches = microbatches;
  options.recompute = recompute;
  options.optimizer = optimizer;
  options.differentiate = differentiate;
  options.printFusion = printFusion;
  options.dumpPhasesTo = dumpPhases;
  options.codegen.cpu = cpu;
  options.crashReproducer = crashReproducer;
  options.command.assign(argv, argv + argc);
  options.input = input;
  for (llvm::StringRef text : passAt) {
    auto [point, pipeline] = text.split(':');
    auto points =
        llvm::map_range(sheaf::getPoints(), [](const sheaf::Point &point) {
          return llvm::StringRef(point.name);
        });
    if (!llvm::is_contained(points, point) || pipeline.empty())
      return fail("--pass-at=" + text +
                  ": expected POINT:PIPELINE with a point of " +
                  llvm::join(points, ", "));
    options.attached.emplace_back(point.str(), pipeline.str());
  }
  if (target != "cpu")
    return fail(llvm::Twine("unknown target '") + target + "', expected 'cpu'");
  std::optional<sheaf::Recipe> recipe = sheaf::lookupRecipe(precision);
  if (!recipe)
    return fail("unknown --precision=" + llvm::Twine(precision) +
                ", expected " + sheaf::listRecipes());
  if (keepF32.getNumOccurrences() && recipe->isF32())
    return fail("--keep-f32 names parameters that --precision shall leave "
                "alone, expected --precision, too");
  using Words = llvm::SmallVector<llvm::StringRef>;
  for (const auto &[option, words] :
       {std::pair<cl::opt<std::string> *, Words>{&gradientType,
                                                 {"f32", "narrow", "fp8"}},
        {&momentType, {"f32", "narrow", "fp8"}},
        {&masterType, {"f32", "f16", "none"}},
        {&weightType, {"narrow", "quantized"}}}) {
    if (!llvm::is_contained(words, llvm::StringRef(*option)))
      return fail("unknown --" + llvm::Twine(option->ArgStr) + "=" + *option +
                  ", expected " +
                  llvm::join(llvm::ArrayRef(words).drop_back(), ", ") + " or " +
                  words.back());
    if (option->getNumOccurrences() && recipe->isF32())
      return fail("--" + llvm::Twine(option->ArgStr) +
                  " is about what --precision makes narrow, expected "
                  "--precision, too");
  }
  if (amaxHistory.getNumOccurrences() &&
      !(recipe->eightBit && recipe->eightBit->isDelayed))
    return fail("--amax-history is of --precision=fp8-delayed, expected that, "
                "too");
  if (amaxHistory < 1 || amaxHistory > 1 << 20)
    return fail("--amax-history is " + llvm::Twine(amaxHistory) +
                ", expected a number from 1 to 1048576");
  options.amaxHistory = amaxHistory;
  options.gradients = gradientType;
  options.moments = momentType;
  options.masters = masterType;
  options.weights = weightType;
  if (weightType == "quantized" && !recipe->eightBit)
    return fail("--weights=quantized is of recipes with products of 8 bits, "
                "expected --precision=fp8-tensor, fp8-block, fp8-delayed or "
                "mxfp8");
  if (weightType == "quantized" && masterType == "none")
    return fail("--weights=quantized leaves of a matrix its master, expected "
                "--masters=f32 or f16");
  for (cl::opt<double> *option : {&lossScale, &lossScaleWindow}) {
    if (option->getNumOccurrences() && !recipe->scalesLoss)
      return fail("--" + llvm::Twine(option->ArgStr) +
                  " is of --precision=fp16, expected that, too");
    if (!(*option >= 1) || *option > 1e30)
      return fail("--" + llvm::Twine(option->ArgStr) + " is " +
                  number(*option) + ", expected a number from 1 to 1e30");
  }
  options.precision = precision;
  options.lossScale = number(lossScale);
  options.lossScaleWindow = number(lossScaleWindow);
  options.keepF32.assign(keepF32.begin(), keepF32.end());
  auto note = [&](llvm::StringRef name, const llvm::Twine &value) {
    options.precisionOptions.push_back(("--" + name + "=" + value).str());
  };
  for (const std::string &pattern : keepF32)
    note("keep-f32", pattern);
  for (cl::opt<double> *option : {&lossScale, &lossScaleWindow})
    if (option->getNumOccurrences())
      note(option->ArgStr, number(*option));
  for (cl::opt<std::string> *option :
       {&gradientType, &momentType, &masterType, &weightType})
    if (option->getNumOccurrences())
      note(option->ArgStr, *option);
  if (amaxHistory.getNumOccurrences())
    note(amaxHistory.ArgStr, llvm::Twine(amaxHistory));
  if (mesh.getNumOccurrences() && !parseMesh(mesh, options))
    return 1;
  if (!llvm::is_contained({"gather", "ring", "zigzag", "ulysses", "auto"},
                          context))
    return fail(llvm::Twine("unknown --context=") + context +
                ", expected gather, ring, zigzag, ulysses or auto");
  if (context.getNumOccurrences() && !options.isMeshGiven)
    return fail("--context tells how devices of cp share a sequence: expected "
                "--mesh, too, such as --mesh=cp=2");
  if (zero < 0 || zero > 3)
    return fail("unknown --zero=" + llvm::Twine(zero) +
                ", expected 0, 1, 2 or 3");
  if (explain.getNumOccurrences()) {
    if (!explain.empty() && explain != "json")
      return fail(llvm::Twine("unknown --explain=") + explain +
                  ", expected --explain or --explain=json");
    options.explain = explain.empty() ? sheaf::CompileOptions::Explain::Table
                                      : sheaf::CompileOptions::Explain::Json;
  }
  options.zero = zero;
  options.zeroGroup = zeroGroup;
  options.sequenceParallel = sequenceParallel;
  options.context = context;
  options.pipeline = pipeline;
  options.isPipelineGiven =
      pipeline.getNumOccurrences() || chunks.getNumOccurrences() ||
      stageLayers.getNumOccurrences() || stageLayout.getNumOccurrences();
  if (!llvm::is_contained(sheaf::schedule::recipeNames(), pipeline) &&
      pipeline != "greedy" && !llvm::StringRef(pipeline).starts_with("file:"))
    return fail(llvm::Twine("unknown --pipeline=") + pipeline + ", expected " +
                llvm::join(sheaf::schedule::recipeNames(), ", ") +
                ", greedy or file:F");
  if (memoryLimit.getNumOccurrences() && memoryLimit < 0)
    return fail("--memory-limit is " + llvm::Twine(memoryLimit) +
                ", expected bytes, 0 or more");
  options.memoryLimit = memoryLimit;
  options.cluster = cluster;
  options.overlaps = overlap;
  if (chunks < 1)
    return fail("--chunks must be at least 1");
  bool hasPlaces = llvm::any_of(
      options.mesh, [](const auto &axis) { return axis.first == "pp"; });
  if (chunks.getNumOccurrences() && hasPlaces &&
      !llvm::is_contained({"interleaved", "bfs", "greedy"}, pipeline))
    return fail("--chunks is of --pipeline=interleaved, bfs and greedy, and "
                "--pipeline=" +
                pipeline + " has its own number; leave it out");
  options.chunks = chunks;
  for (int64_t count : stageLayers) {
    if (count < 0)
      return fail("--stage-layers has " + llvm::Twine(count) +
                  ", expected 0 or more layers for each stage");
    options.stageLayers.push_back(count);
  }
  if (stageLayout.getNumOccurrences()) {
    if (stageLayers.getNumOccurrences())
      return fail("--stage-layers and --stage-layout both say which stage has "
                  "how many layers, expected one of them");
    llvm::Expected<sheaf::stages::Layout> layout =
        sheaf::stages::parseLayout(stageLayout);
    if (!layout)
      return fail("--stage-layout=" + stageLayout + ": " +
                  llvm::toString(layout.takeError()));
    options.stageLayers = layout->layers;
    options.embeddingStage = layout->embedding;
  }
  options.strategy = strategy;
  options.why = why;
  options.strict = strict;
  if (!strategy.empty() && (zero || zeroGroup || sequenceParallel))
    return fail("--strategy is given, so --zero, --zero-group and "
                "--sequence-parallel are not; "
                "write them as rows");
  if (!strategy.empty() && context == "zigzag")
    return fail("--strategy is given, so --context=zigzag is not; write 'batch "
                "seq -> cp zigzag' as a row, and give --context=ring");
  if (why.getNumOccurrences() && (why.empty() || !output.empty()))
    return fail("--why answers on standard output and compiles nothing: give "
                "it a value, and no "
                "-o");
  if (strict.getNumOccurrences() && strict < 0)
    return fail("--strict is " + llvm::Twine(strict) +
                ", expected bytes, 0 or more");
  if (zeroMinBytes < 0)
    return fail("--zero-min-bytes must be at least 0");
  options.zeroMinBytes = zeroMinBytes;
  if (!llvm::is_contained({"bucketed", "exact"}, expertRows))
    return fail(llvm::Twine("unknown --expert-rows=") + expertRows +
                ", expected bucketed or exact");
  if (expertRows.getNumOccurrences() && options.expertParallel < 2)
    return fail("--expert-rows tells how tokens go to experts on other "
                "devices: expected --mesh with ep, too, such as "
                "--mesh=dp=2,ep=2");
  options.expertRows = expertRows;
  if (expertRoom.getNumOccurrences() &&
      (options.expertParallel < 2 || expertRows != "bucketed"))
    return fail("--expert-room tells how much room buckets of tokens have on "
                "their way to experts on other devices: expected --mesh with "
                "ep, such as --mesh=dp=2,ep=2, and --expert-rows=bucketed");
  if (!(expertRoom >= 0) || std::isinf(expertRoom))
    return fail(llvm::formatv("--expert-room is {0}, expected 0 or a number "
                              "above, such as 1.5",
                              expertRoom.getValue())
                    .str());
  options.expertRoom = expertRoom;
  if (!llvm::is_contained({"again", "keep"}, zero3Gathers))
    return fail(llvm::Twine("unknown --zero3-gathers=") + zero3Gathers +
                ", expected again or keep");
  options.zero3Gathers = zero3Gathers;
  if (!llvm::is_contained({"sharded", "whole"}, accumulate))
    return fail(llvm::Twine("unknown --accumulate=") + accumulate +
                ", expected sharded or whole");
  options.accumulate = accumulate;
  uint64_t bytes;
  if (bucketBytes != "auto" &&
      llvm::StringRef(bucketBytes).getAsInteger(10, bytes))
    return fail(llvm::Twine("--bucket-bytes has '") + bucketBytes +
                "', expected a number of bytes, or auto");
  options.bucketBytes = bucketBytes;
  for (auto [option, to] : {std::pair{&gradientWire, &options.gradientWire},
                            {&weightWire, &options.weightWire}}) {
    if (!llvm::is_contained({"f32", "bf16", "int8", "fp8"}, *option))
      return fail(llvm::Twine("unknown --") + option->ArgStr + "=" +
                  option->getValue() + ", expected f32, bf16, int8 or fp8");
    *to = option->getValue();
  }
  if (optLevel < '0' || optLevel > '3')
    return fail(llvm::Twine("unknown level -O") + llvm::Twine(optLevel) +
                ", expected -O0, -O1, -O2 or -O3");
  options.codegen.optLevel = optLevel - '0';
  if (!llvm::is_contained({"none", "selective", "full"}, recompute))
    return fail(llvm::Twine("unknown --recompute=") + recompute +
                ", expected none, selective or full");
  if (!llvm::is_contained({"adamw", "sgd"}, optimizer))
    return fail(llvm::Twine("unknown --optimizer=") + optimizer +
                ", expected adamw or sgd");
  if (microbatches < 1)
    return fail("--microbatches must be at least 1");
  if (reference.getNumOccurrences()) {
    if (!reference.empty() && reference != "f64")
      return fail(llvm::Twine("unknown --reference=") + reference +
                  ", expected --reference or "
                  "--reference=f64");
    options.reference = true;
    options.mesh.clear();
    options.wide = reference == "f64";
    options.codegen.optLevel = 0;
  }
  for (Scalar &scalar : scalars) {
    double value = scalar.option;
    // Not a number is in no range.
    if (!(value >= 0 && value <= scalar.most &&
          !(scalar.isBelow && value == scalar.most)))
      return fail(llvm::Twine("--") + scalar.option.ArgStr + "=" +
                  number(value) + ": expected a number from 0 to " +
                  (scalar.isBelow ? "below " : "") + number(scalar.most));
    llvm::SmallString<32> text;
    llvm::raw_svector_ostream(text) << llvm::format("%.17g", value);
    options.scalars[scalar.option.ArgStr.str()] = std::string(text);
  }
  bool isText = options.emit < Floor::Object;
  bool explains = explain.getNumOccurrences() != 0 || !why.empty();
  if (output.empty() && !isText && !explains)
    return fail("an artifact needs a file: give -o FILE");
  // Standard output is the explanation's. A copy: the linker inside resets all
  // command-line options.
  const std::string path(!output.empty() ? output.getValue()
                         : explains      ? ""
                                         : "-");

  sheaf::reportCrashes(options);
  mlir::DialectRegistry registry;
  sheaf::registerSheafDialects(registry);
  for (const std::string &file : dialectPlugins)
    if (llvm::Error error = sheaf::loadDialectPlugin(file, registry))
      return fail(llvm::toString(std::move(error)));
  for (const std::string &file : passPlugins)
    if (llvm::Error error = sheaf::loadPassPlugin(file))
      return fail(llvm::toString(std::move(error)));
  mlir::DefaultTimingManager timingManager;
  mlir::applyDefaultTimingManagerCLOptions(timingManager);
  mlir::TimingScope timing = timingManager.getRootScope();
  mlir::MLIRContext context(registry);
  // A diagnostic points into the user's file; the op in full can be a whole
  // module.
  context.printOpOnDiagnostic(false);
  std::string error;
  if ((remarks.getNumOccurrences() || !remarksOutput.empty()) &&
      failed(sheaf::enableRemarks(
          context, remarks.empty() ? ".*" : remarks.getValue(),
          remarks.getNumOccurrences() != 0, remarksOutput, error)))
    return fail(error);
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(input, &error);
  if (!file)
    return fail(error);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  mlir::SourceMgrDiagnosticHandler diagnostics(sources, &context);
  mlir::TimingScope parsing = timing.nest("parser");
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  parsing.stop();
  if (!module)
    return 1;
  return mlir::failed(sheaf::compile(*module, options, path, timing));
}
