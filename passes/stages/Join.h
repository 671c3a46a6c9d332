//===- Join.h - Both halves of a backward in one function -------*- C++ -*-===//
//
// A stage whose backward is cut into I and W runs both in one action where the
// schedule says B. Here is the function of such an action: the halves of each
// layer one behind the other, so that what the first hands to the second does
// not outlive the layer.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STAGES_JOIN_H
#define SHEAF_PASSES_STAGES_JOIN_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include <map>
#include <tuple>

namespace sheaf::stages {

/// What a call of both functions in one reads and gives, as operands and
/// results of the calls that it stands for.
struct Joined {
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::Value> operands, results;
};

class Joiner {
public:
  explicit Joiner(mlir::SymbolTable &symbols) : symbols(symbols) {}

  /// One function for `first` and then `second`, which may read results of the
  /// first; what nobody else reads of those is no result. Calls of layers in
  /// them are joined alike where the second reads the first. Functions are made
  /// once for all calls that look alike. No function where `second` reads what
  /// depends on `first` by other ops.
  Joined join(mlir::func::CallOp first, mlir::func::CallOp second);

private:
  mlir::SymbolTable &symbols;
  std::map<std::tuple<void *, void *, std::string>, mlir::func::FuncOp> made;

  /// `wiring` has for each operand of the second the result of the first that
  /// it is, or -1; `kept` which results of the first are results.
  mlir::func::FuncOp makeFunction(mlir::func::FuncOp first,
                                  mlir::func::FuncOp second,
                                  llvm::ArrayRef<int> wiring,
                                  llvm::ArrayRef<bool> kept);
  void joinLayers(mlir::func::FuncOp function);
};

} // namespace sheaf::stages

#endif // SHEAF_PASSES_STAGES_JOIN_H
