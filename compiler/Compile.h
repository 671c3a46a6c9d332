//===- Compile.h - From model IR to an artifact ----------------*- C++ -*-===//
//
// The compiler as a library: its options, its phases in order, and the one call
// that takes a module down to the floor that is asked for. `sheaf-compile` is a
// command line around it.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_COMPILER_COMPILE_H
#define SHEAF_COMPILER_COMPILE_H

#include "lowering/artifact/Artifact.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/Timing.h"
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sheaf {

/// Every dialect and pass of Sheaf, and the upstream ones that it uses.
void registerSheafDialects(mlir::DialectRegistry &registry);
void registerSheafPasses();

/// What the driver can print.
enum class Floor {
  Model,
  Step,
  Device,
  /// The compute actions of each rank of the pipeline, as text and as CSV; with
  /// communication, as CSV and as IR.
  Schedule,
  ScheduleCSV,
  ScheduleCSVComm,
  ScheduleIR,
  Exec,
  LLVM,
  Object,
  Artifact
};

struct CompileOptions {
  Floor emit = Floor::Artifact;
  CodegenOptions codegen;
  int64_t microbatches = 1;
  /// A recipe of nn-apply-precision, and the parameters that stay f32.
  std::string precision = "fp32";
  std::vector<std::string> keepF32;
  /// What was written beside --precision that changes its numbers, as options:
  /// a reference is made with it, too.
  std::vector<std::string> precisionOptions;
  std::string lossScale = "65536", lossScaleWindow = "2000";
  std::string gradients = "f32", moments = "f32", masters = "f32",
              weights = "narrow";
  int64_t amaxHistory = 1024;
  std::string recompute = "none";
  std::string optimizer = "adamw";
  /// The axes of the mesh and their sizes, the outermost first; empty: one
  /// device.
  std::vector<std::pair<std::string, int64_t>> mesh;
  /// A mesh was asked for, be it of one device, whose axes are not in `mesh`:
  /// what is said of shardings is no mistake.
  bool isMeshGiven = false;
  /// Over how many of the innermost devices of dp x cp the experts are sharded,
  /// and how their rows go there: `bucketed`, with the room for the most that
  /// there can be, or `exact`, by count.
  int64_t expertParallel = 1;
  std::string expertRows = "bucketed";
  /// How many times its share of rows a bucket has room for; 0: for the most
  /// that there can be.
  double expertRoom = 0;
  /// What ZeRO shards (0 to 3), and over how many of the innermost devices of
  /// dp (0: all of them).
  int64_t zero = 0, zeroGroup = 0;
  bool sequenceParallel = false;
  /// How attention gets keys and values of a sequence in shards over `cp`:
  /// gather, ring, zigzag or ulysses, or auto: which of them takes the least
  /// time.
  std::string context = "gather";
  /// The schedule of the pipeline's stages over `pp`, and how many stages each
  /// rank has where the schedule leaves that open.
  std::string pipeline = "gpipe";
  int64_t chunks = 2;
  bool isPipelineGiven = false;
  /// The mesh has the axis pp, of one place: what is said of it is no mistake.
  bool isPipelineOfOne = false;
  /// How many layers each stage has; empty: by cost.
  std::vector<int64_t> stageLayers;
  /// The stage of the embedding; -1: the first that reads it.
  int64_t embeddingStage = -1;
  /// The most bytes of a device that a step may need; -1: any.
  int64_t memoryLimit = -1;
  /// Whether transfers start early and are waited for late, and the file that
  /// describes the cluster whose times say when; empty: times are unknown.
  bool overlaps = true;
  std::string cluster;
  /// Parameters of fewer bytes are not sharded by ZeRO.
  int64_t zeroMinBytes = 0;
  /// Whether ZeRO-3 gathers weights `again` for each use, or once a step
  /// (`keep`), and whether gradients of ZeRO-2 and 3 are accumulated `sharded`
  /// or `whole`.
  std::string zero3Gathers = "again", accumulate = "sharded";
  /// Largest flat tensor in which gradients are reduced together, or `auto`.
  std::string bucketBytes = "0";
  /// How gradients that are summed over devices, and weights that are gathered,
  /// are sent: f32 (as they are), bf16, int8 or fp8.
  std::string gradientWire = "f32", weightWire = "f32";
  /// Options of the optimizer pass, such as lr and clip, as written.
  std::map<std::string, std::string> scalars;
  /// One device, composites decomposed, no fusion: what --verify compares with.
  bool reference = false;
  /// ... in f64.
  bool wide = false;
  /// Add `@f_gradient` for each public function of a module without a loss.
  bool differentiate = false;
  /// Say which ops one kernel computes, and which not, and why.
  bool printFusion = false;
  /// Print every collective of a step, with its cost and reason, and what a
  /// device's memory holds.
  enum class Explain { No, Table, Json } explain = Explain::No;
  /// A file with the strategy, instead of `zero`, `zeroGroup` and
  /// `sequenceParallel`.
  std::string strategy;
  /// Say where the axes of this value's sharding came from, and do no more.
  std::string why;
  /// Refuse to move a value unasked where a device sends more bytes; -1: never.
  int64_t strict = -1;
  /// Write the module after each phase to numbered files of this folder, each
  /// of which is accepted as input again.
  std::string dumpPhasesTo;
  /// Pipelines at named points (getPoints in Points.h): point and pipeline.
  std::vector<std::pair<std::string, std::string>> attached;
  /// Whether passes that plugins attached run, too.
  bool runsPluginPasses = true;
  /// Where the module is written that a phase crashed on; empty: nowhere.
  std::string crashReproducer;
  /// The command line and the input in it, to be shown with a reproducer.
  std::vector<std::string> command;
  std::string input;
};

/// From here on a crash of the process, of a parser as well, is reported with
/// the command that shows it again, if `options` ask for reproducers; they must
/// stay as they are.
void reportCrashes(const CompileOptions &options);

/// Takes `module` down to `options.emit` and writes it to `path` ("-": standard
/// output, text floors only; "": nowhere, for an explanation alone). On failure
/// a diagnostic says why and nothing is written. The phases, their passes, code
/// generation and the link are timed in `timing`.
mlir::LogicalResult compile(mlir::ModuleOp module,
                            const CompileOptions &options, llvm::StringRef path,
                            mlir::TimingScope &timing);

} // namespace sheaf

#endif // SHEAF_COMPILER_COMPILE_H
