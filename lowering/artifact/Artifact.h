//===- Artifact.h - From LLVM dialect to one ELF file ----------*- C++ -*-===//
//
// The last floor: machine code for host and kernels, the manifest, and the link
// into one shared object (docs/design/artifact.md).
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_ARTIFACT_ARTIFACT_H
#define SHEAF_LOWERING_ARTIFACT_ARTIFACT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/JSON.h"
#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace sheaf {

/// The processor that code is made for.
struct CodegenOptions {
  /// An LLVM processor name; "native" is this machine's.
  std::string cpu = "native";
  /// 0 to 3. Host code is compiled at 0 whatever this is: it is one long run of
  /// calls, in which the optimiser finds nothing and for which its time grows
  /// with the square of the model's depth.
  int optLevel = 3;
};

/// The processor's name and features, "native" resolved.
struct Processor {
  std::string name;
  /// Comma-separated, each with + or -, as LLVM takes them.
  std::string features;
};
mlir::FailureOr<Processor> resolveProcessor(mlir::Location loc,
                                            const CodegenOptions &options);

/// Registers what translation to LLVM IR needs.
void registerCodegenDialects(mlir::DialectRegistry &registry);

/// LLVM IR of a module in the LLVM dialect, optimised. Nested modules are not
/// looked at.
std::unique_ptr<llvm::Module>
translateAndOptimise(mlir::ModuleOp module, llvm::LLVMContext &context,
                     const CodegenOptions &options);

/// Object code of the kernels' modules, each by itself, and of the host's as
/// the last, in parallel, timed in `timing`.
mlir::FailureOr<std::vector<std::string>>
compileModules(mlir::ArrayRef<mlir::ModuleOp> kernels, mlir::ModuleOp host,
               const CodegenOptions &options, mlir::TimingScope &timing);

/// An object file that holds constants as symbols: for each (name, bytes) the
/// array NAME and its size NAME_size.
mlir::FailureOr<std::string>
makeDataObject(mlir::Location loc,
               mlir::ArrayRef<std::pair<std::string, std::string>> constants);

/// Whether `path` is there and no file (a device, a pipe): such a one is
/// written to, never replaced. A directory is not among them.
bool isSpecialFile(llvm::StringRef path);

/// Links object code into the shared object `path`. The file appears whole or
/// not at all.
mlir::LogicalResult linkArtifact(mlir::Location loc,
                                 mlir::ArrayRef<std::string> objects,
                                 llvm::StringRef path);

/// The part of the manifest that placed functions with `exec.entry` state:
/// buffers and entries.
mlir::FailureOr<llvm::json::Object> describeEntries(mlir::ModuleOp module);

/// Adds the kernels of `exec.table`.
void describeKernels(mlir::ModuleOp module, llvm::json::Object &manifest);

/// Adds the axes of the mesh and the transfers of `exec.collectives`.
void describeRanks(mlir::ModuleOp module, llvm::json::Object &manifest);

} // namespace sheaf

#endif // SHEAF_LOWERING_ARTIFACT_ARTIFACT_H
