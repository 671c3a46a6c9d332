//===- Describe.cpp - What stage parts cost -------------------------------===//

#include "passes/stages/Describe.h"
#include "dialects/NN/NN.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/step/Flops.h"

using namespace mlir;
using namespace sheaf;

int64_t stages::bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

double stages::Costs::seconds(func::FuncOp part) {
  double elements = 0;
  for (ArrayRef<Type> types : {part.getArgumentTypes(), part.getResultTypes()})
    for (Type type : types)
      elements +=
          static_cast<double>(cast<RankedTensorType>(type).getNumElements());
  return countFlops(part, symbols) + 8 * elements;
}

int64_t stages::Costs::temporaries(func::FuncOp part) {
  auto [it, isNew] = known.try_emplace(part.getOperation(), 0);
  if (!isNew || part.isExternal())
    return it->second;
  Block &block = part.front();
  llvm::DenseSet<Value> returned(block.getTerminator()->operand_begin(),
                                 block.getTerminator()->operand_end());
  // Bytes that begin and end at each op, by its number.
  DenseMap<Operation *, size_t> numbers;
  for (Operation &op : block)
    numbers.try_emplace(&op, numbers.size());
  std::vector<int64_t> begins(numbers.size()), ends(numbers.size());
  for (Operation &op : block) {
    size_t at = numbers.lookup(&op);
    for (Value value : op.getResults()) {
      if (isRebuilt(value) || returned.contains(value))
        continue;
      size_t last = at;
      for (Operation *user : value.getUsers())
        if (Operation *here = block.findAncestorOpInBlock(*user))
          last = std::max(last, numbers.lookup(here));
      int64_t bytes = bytesOf(value.getType());
      begins[at] += bytes;
      ends[last] += bytes;
    }
    if (auto call = dyn_cast<func::CallOp>(op))
      if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee())) {
        int64_t bytes = temporaries(callee);
        begins[at] += bytes;
        ends[at] += bytes;
      }
  }
  int64_t now = 0, most = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    now += begins[i];
    most = std::max(most, now);
    now -= ends[i];
  }
  return known[part.getOperation()] = most;
}
