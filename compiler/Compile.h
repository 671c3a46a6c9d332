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
#include <map>
#include <string>

namespace sheaf {

/// Every dialect and pass of Sheaf, and the upstream ones that it uses.
void registerSheafDialects(mlir::DialectRegistry &registry);
void registerSheafPasses();

/// What the driver can print.
enum class Floor { Model, Step, Device, Exec, LLVM, Object, Artifact };

struct CompileOptions {
  Floor emit = Floor::Artifact;
  CodegenOptions codegen;
  int64_t microbatches = 1;
  std::string recompute = "none";
  std::string optimizer = "adamw";
  /// Options of the optimizer pass, such as lr and clip, as written.
  std::map<std::string, std::string> scalars;
  /// One device, composites decomposed, no fusion: what --verify compares with.
  bool reference = false;
  /// ... in f64.
  bool wide = false;
  /// Add `@f_gradient` for each public function of a module without a loss.
  bool differentiate = false;
  /// Axes and sizes, outermost first, as in `dp=4,tp=2`; empty for one device.
  std::string mesh;
  /// How a step is spread over the mesh: options of `dist-apply-strategy`.
  std::string strategy;
  /// Write the module after each phase to numbered files of this folder.
  std::string dumpPhasesTo;
};

/// Takes `module` down to `options.emit` and writes it to `path` ("-": standard
/// output, text floors only). On failure a diagnostic says why and nothing is
/// written.
mlir::LogicalResult compile(mlir::ModuleOp module, const CompileOptions &options,
                            llvm::StringRef path);

} // namespace sheaf

#endif // SHEAF_COMPILER_COMPILE_H
