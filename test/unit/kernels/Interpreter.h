//===- Interpreter.h - nn ops, one by one, in f64 --------------*- C++ -*-===//
//
// What kernels are compared with: a plain interpreter of the simple nn ops that
// follows their descriptions, with every sum in f64 and every result rounded to
// its element type. It shares no code with the lowering.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TEST_UNIT_KERNELS_INTERPRETER_H
#define SHEAF_TEST_UNIT_KERNELS_INTERPRETER_H

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace sheaf::test {

/// Elements in row-major order; f64 holds every element type exactly.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data;
};

/// `value` as an element of type `element`.
double roundTo(mlir::Type element, double value);

/// The results of a function of simple ops.
std::vector<Tensor> interpret(mlir::func::FuncOp function,
                              llvm::ArrayRef<Tensor> arguments);

} // namespace sheaf::test

#endif // SHEAF_TEST_UNIT_KERNELS_INTERPRETER_H
