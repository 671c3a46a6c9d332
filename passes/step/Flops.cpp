//===- Flops.cpp - Arithmetic of a function -------------------------------===//

#include "passes/step/Flops.h"
#include "dialects/NN/NN.h"

using namespace mlir;
using namespace sheaf;

static double ofEinsum(StringRef equation, ValueRange inputs) {
  llvm::SmallDenseMap<char, double> sizes;
  StringRef left = equation.split("->").first;
  SmallVector<StringRef> operands;
  left.split(operands, ',');
  for (auto [letters, value] : llvm::zip_equal(operands, inputs))
    for (auto [i, letter] : llvm::enumerate(letters))
      sizes[letter] = cast<RankedTensorType>(value.getType()).getDimSize(i);
  double product = operands.size() == 2 ? 2 : 0;
  for (auto &entry : sizes)
    product *= entry.second;
  return product;
}

double sheaf::countFlops(Operation *op, SymbolTable &symbols) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    return callee ? countFlops(callee, symbols) : 0;
  }
  if (auto einsum = dyn_cast<nn::EinsumOp>(op))
    return ofEinsum(einsum.getEquation(), einsum.getInputs());
  if (auto einsum = dyn_cast<nn::ScaledEinsumOp>(op))
    return ofEinsum(einsum.getEquation(), {einsum.getLhs(), einsum.getRhs()});
  if (auto product = dyn_cast<nn::GroupedMatmulOp>(op)) {
    // Of as many rows as there can be.
    RankedTensorType rows = product.getRows().getType();
    return 2.0 * double(rows.getNumElements()) *
           double(product.getType().getShape().back());
  }
  if (auto attention = dyn_cast<nn::AttentionOp>(op)) {
    RankedTensorType q = attention.getQuery().getType();
    RankedTensorType v = attention.getValue().getType();
    double pairs = double(q.getDimSize(0)) * q.getDimSize(1) * q.getDimSize(2) *
                   v.getDimSize(1);
    return (attention.getCausal() ? 1.0 : 2.0) * pairs *
           (q.getDimSize(3) + v.getDimSize(3));
  }
  return 0;
}

double sheaf::countFlops(func::FuncOp function, SymbolTable &symbols) {
  double flops = 0;
  function.walk([&](Operation *op) {
    if (op != function)
      flops += countFlops(op, symbols);
  });
  return flops;
}
