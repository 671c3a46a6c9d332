//===- Jit.h - Runs CPU kernels in this process ----------------*- C++ -*-===//
//
// For tests and benchmarks: lowers the kernels of a module, compiles them for
// this machine as an artifact's are (O3), and hands out their entries.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TEST_UNIT_KERNELS_JIT_H
#define SHEAF_TEST_UNIT_KERNELS_JIT_H

#include "mlir/IR/BuiltinOps.h"
#include "sheaf/abi.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include <memory>
#include <string>
#include <vector>

namespace sheaf::test {

struct CompiledKernel {
  std::string name;
  SheafKernel entry = nullptr;
  int64_t extent = 1, grain = 1, bytes = 0, flops = 0;
  std::vector<int64_t> inPlace;
};

class Jit {
public:
  /// A context with what kernels need.
  static std::unique_ptr<mlir::MLIRContext> makeContext();

  enum class Route {
    Kernels,
    /// The same, with all results taken for large ones.
    Streamed,
    /// Through `nn-to-linalg` and upstream's bufferization and loops: the whole
    /// is one item.
    Linalg,
  };
  /// Lowers and compiles `module`, which is changed. `error` says what went
  /// wrong.
  static std::unique_ptr<Jit> compile(mlir::ModuleOp module, std::string &error,
                                      Route route = Route::Kernels);

  const std::vector<CompiledKernel> &getKernels() const { return kernels; }

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<CompiledKernel> kernels;
};

} // namespace sheaf::test

#endif // SHEAF_TEST_UNIT_KERNELS_JIT_H
