//===- Strategy.h - A strategy as a table --------------------*- C++ -*-===//
//
// What data, tensor, sequence parallelism and ZeRO have in common: rows that
// give logical axes, of parameters, of the batch or of other values, axes of
// the mesh. The strategies that the driver knows are such tables, written here
// as text; users write their own in a file.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_STRATEGY_H
#define SHEAF_PASSES_SHARDING_STRATEGY_H

#include "passes/sharding/Shardings.h"

namespace sheaf::sharding {

/// One row of a strategy:
///
///     parameter AXIS -> MESH AXES [shared]
///     batch     AXIS -> MESH AXES [zigzag]
///     value     AXIS of AXIS, ... -> MESH AXES [zigzag] [priority N]
///     state     largest -> MESH AXES
///     gradient  largest -> MESH AXES
///     weight    largest -> MESH AXES
///
/// Mesh axes are names or parts of axes (`dp:(2)4`), with commas between them;
/// one that the mesh lacks shards nothing. `shared`: where the axis does not
/// divide, over the outermost part of the mesh axis that does. The last three
/// rows add axes to the largest dimension of the optimizer's state, of
/// accumulators, of weights. `zigzag`: the sequence, cut in twice as many
/// chunks as the first axis has devices, in zig-zag order; the batch is put
/// into it where it is read.
struct StrategyRow {
  enum What { Parameter, Batch, Value, State, Gradient, Weight } what;
  /// The logical axis, empty for the last three.
  std::string axis;
  /// The logical axes that a value must have beside it.
  llvm::SmallVector<std::string, 4> of;
  /// Those of the mesh alone.
  llvm::SmallVector<dist::AxisAttr, 2> meshAxes;
  bool shared = false;
  int64_t priority = 0;
  mlir::Location loc;
  /// As written.
  std::string text;
  bool zigzag = false;

  /// For explanations: the row, and where it stands if that is a file.
  std::string describe() const;
};

using StrategyTable = std::vector<StrategyRow>;

/// The table of the driver's options, as text. `data` and `context` are the
/// sizes of dp and cp, `zeroGroup` is 0 or one of `zeroGroups`,
/// `expertParallel` one of them; `zigzag` is of the sequence over cp.
std::string builtinStrategy(int zero, int64_t zeroGroup, bool sequenceParallel,
                            int64_t data, int64_t context,
                            int64_t expertParallel, bool zigzag);

/// Declares a mesh of `axes`, each AXIS=N, the outermost first. Complains in
/// the name of `pass` where the module has one.
mlir::LogicalResult declareMesh(mlir::ModuleOp module,
                                llvm::ArrayRef<std::string> axes,
                                llvm::StringRef pass);

/// How many of the innermost devices of dp x cp ZeRO and experts may be sharded
/// over: so many that they are a part of cp, or all of cp and a part of dp. In
/// order.
llvm::SmallVector<int64_t> zeroGroups(int64_t data, int64_t context);

/// Reads a table. `file` is where it stands, empty for one that is built in;
/// logical axes are those that the project knows and those of the module's
/// parameters.
mlir::FailureOr<StrategyTable> parseStrategy(llvm::StringRef text,
                                             llvm::StringRef file,
                                             mlir::ModuleOp module,
                                             dist::MeshOp mesh);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_STRATEGY_H
