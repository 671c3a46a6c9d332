//===- Describe.h - What stage parts cost -----------------------*- C++ -*-===//
//
// Time and memory of the functions of stage parts, from their ops on local
// tensors: what a schedule for given costs needs to know of them.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STAGES_DESCRIBE_H
#define SHEAF_PASSES_STAGES_DESCRIBE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include <map>

namespace sheaf::stages {

/// Bytes of a tensor.
int64_t bytesOf(mlir::Type type);

class Costs {
public:
  explicit Costs(mlir::SymbolTable &symbols) : symbols(symbols) {}

  /// The time of one call, in floating-point operations: those of its products,
  /// and eight for each element that it is given or gives.
  double seconds(mlir::func::FuncOp part);
  /// The most bytes that its values take at once, as if each op were run alone:
  /// without its arguments and results, which are the caller's.
  int64_t temporaries(mlir::func::FuncOp part);

private:
  mlir::SymbolTable &symbols;
  std::map<void *, int64_t> known;
};

} // namespace sheaf::stages

#endif // SHEAF_PASSES_STAGES_DESCRIBE_H
