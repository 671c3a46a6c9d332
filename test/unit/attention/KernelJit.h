//===- KernelJit.h - Compile kernels in memory for tests --------*- C++ -*-===//
//
// Lowers a module of kernels on memrefs to LLVM, compiles it with ORC for this
// machine and hands out functions that take an array of data pointers. Shared
// by the attention tests and the benchmark.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TEST_UNIT_ATTENTION_KERNELJIT_H
#define SHEAF_TEST_UNIT_ATTENTION_KERNELJIT_H

#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>
#include <vector>

namespace sheaf::test {

/// A context with what the kernels and their lowering need.
std::unique_ptr<mlir::MLIRContext> createContext();

class KernelJit {
public:
  /// Lowers `module` in place and compiles it, for `cpu` or, if empty, for this
  /// machine. Prints an error and exits on failure.
  explicit KernelJit(mlir::ModuleOp module, const std::string &cpu = "");

  /// Calls a kernel on bare data pointers for the tasks [begin, end).
  void call(const std::string &name, const std::vector<void *> &data,
            int64_t begin, int64_t end) const;

  /// The address of the packed wrapper, for timing loops.
  using Packed = void (*)(void **);
  Packed lookup(const std::string &name) const;

private:
  std::unique_ptr<mlir::ExecutionEngine> engine;
};

} // namespace sheaf::test

#endif // SHEAF_TEST_UNIT_ATTENTION_KERNELJIT_H
