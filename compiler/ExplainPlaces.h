//===- ExplainPlaces.h - What each rank of a pipeline sends ----*- C++ -*-===//
//
// Along a pipeline each place runs a program of its own, so that collectives
// are counted in those programs: collectives of a step get numbers before it is
// cut into programs, and are found by them behind.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_COMPILER_EXPLAINPLACES_H
#define SHEAF_COMPILER_EXPLAINPLACES_H

#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace sheaf {

class ClusterCosts;

/// Gives collectives of floor 3 numbers, in their reasons: all, or those that
/// may go on beside something.
void numberCollectives(mlir::ModuleOp module, bool all);

/// The rows of `sharding::explainCollectives`, made of numbered collectives, as
/// the programs of the places along pp run them as `entry`: a row for each
/// count, with `places` where not all places have it; and rows for what the
/// places send to each other, over links of speed `link`.
llvm::json::Array explainPlaces(mlir::ModuleOp module, llvm::StringRef entry,
                                llvm::json::Array rows, dist::LinkSpeed link);

/// Adds to rows of numbered collectives beside what they go on, as `beside`,
/// where the program on buffers starts them early, and of how many parts they
/// are; parts are counted already where `areCounted`. With the costs of a
/// cluster, `seconds` are theirs, and of those of a step `exposed_seconds` is
/// added, what each is waited for on average. Takes the numbers away from rows
/// and program.
void explainBeside(mlir::ModuleOp module, llvm::json::Array &rows,
                   bool areCounted, ClusterCosts *cluster);

} // namespace sheaf

#endif // SHEAF_COMPILER_EXPLAINPLACES_H
