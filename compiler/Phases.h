//===- Phases.h - The steps of the driver, one by one ----------*- C++ -*-===//
//
// A compilation is a row of named phases, each a pass pipeline on a module.
// Here a phase is timed, dumped to a numbered file, and kept for a reproducer
// should it crash; passes of others are attached at named points between
// phases. A dumped module says after which phase it was written
// (`sheaf.phase`); given to the driver again, the phases before are skipped.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_COMPILER_PHASES_H
#define SHEAF_COMPILER_PHASES_H

#include "compiler/Compile.h"
#include "compiler/Points.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/Twine.h"

namespace sheaf {

class Phases {
public:
  /// `module` must outlive this, as must the options.
  Phases(mlir::ModuleOp module, const CompileOptions &options,
         mlir::TimingScope &timing);
  ~Phases();

  /// The phase after which the input was dumped; empty for any other input.
  llvm::StringRef resumedAfter() const { return resumed; }
  /// Whether phases are still being skipped.
  bool isSkipping() const { return !skipTo.empty(); }
  /// A diagnostic where the phase that was to be skipped to never came.
  mlir::LogicalResult checkResumed();

  /// Runs `pipeline` on `root`, which is the module or becomes part of it in
  /// dumps.
  mlir::LogicalResult run(mlir::ModuleOp root, llvm::StringRef name,
                          const llvm::Twine &pipeline);
  /// Runs what is attached at a point.
  mlir::LogicalResult at(llvm::StringRef point);

  /// From here on dumps hold these modules, too.
  void setKernels(mlir::ModuleOp kernels) { parts = kernels; }
  /// From here on dumps hold the manifest, which lower floors cannot give.
  void setManifest(std::string json) { manifest = std::move(json); }
  /// The manifest that a dump of a lower floor came with; empty for none.
  llvm::StringRef getManifest() const { return manifest; }

  /// Code generation starts, which is no pass: a crash is reproduced from here.
  void startCodegen();

  /// From here on a crash is reported, once for the process.
  static void catchCrashes();

private:
  /// A copy of the module with its parts and what the driver knows of it.
  mlir::OwningOpRef<mlir::ModuleOp> snapshot();
  mlir::LogicalResult dump(llvm::StringRef name);
  void remember(llvm::StringRef pipeline);
  void reproduce();
  static void onCrash(void *);

  mlir::ModuleOp module, parts;
  const CompileOptions &options;
  mlir::TimingScope &timing;
  std::string resumed, skipTo, last, manifest;
  /// Phases that have run, those before the input was dumped, too.
  int64_t count = 0;
  /// The compilation that this one is a part of, as --explain has one.
  Phases *outer = nullptr;
  /// What the phase that runs was given, for a reproducer.
  mlir::OwningOpRef<mlir::ModuleOp> before;
  std::string beforePipeline;
};

} // namespace sheaf

#endif // SHEAF_COMPILER_PHASES_H
