//===- Explain.h - What collectives cost, and why they are ------*- C++ -*-===//
//
// The collectives of a step on local tensors as a list that programs read, and
// as a table that people do.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_EXPLAIN_H
#define SHEAF_PASSES_SHARDING_EXPLAIN_H

#include "dialects/Dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sheaf::sharding {

/// Bytes that one device sends, on a ring.
double bytesSent(dist::CollectiveOpInterface op, dist::MeshOp mesh);

/// The collectives that one call of `entry` makes, in the order of the program,
/// those of layers and microbatches counted as often as they run. For each an
/// object with kind, axes, group, dtype, elements (of the whole tensor),
/// wire_bytes (that one device sends each time), seconds (what the planner
/// reckons for that), count, phase, op and reason; `layer` where it stands in
/// the function of one, `param` where it gathers a parameter or reduces its
/// gradient, `purpose` for a scalar, `exact` where the rows that are there are
/// sent and wire_bytes are a bound. Empty where the module has no mesh.
llvm::json::Array explainCollectives(mlir::func::FuncOp entry);

/// The parameter that a collective of a function gathers, or whose gradient it
/// reduces; in a layer those of all its calls. None where it is for none, or
/// where that cannot be seen.
llvm::SmallVector<llvm::StringRef> parametersFor(mlir::func::FuncOp function,
                                                 mlir::Operation *op);

/// Where an op of the entry could not follow all wishes: for each an object
/// with op, loc, count, phase, `layer` where it stands in one, `candidates`
/// (what each wants, and the seconds that values are moved if it is followed,
/// where cost decided), `choice` (its number), `by` (priority, cost or size).
llvm::json::Array explainConflicts(mlir::func::FuncOp entry);

/// Floating-point operations of the products of attention that each device does
/// in one call of `entry`, by its place in the mesh: those of the pairs of a
/// query and a key that it sees, which depend on where the queries of a device
/// stand. Empty where no attention asks for positions, or where they are not
/// known before the program runs.
std::vector<double> countAttention(mlir::func::FuncOp entry);

/// What `countAttention` gives as an object with `flops` of each device and
/// `apart`, how much more than the least the most is, as a share of the most.
llvm::json::Object explainAttention(llvm::ArrayRef<double> flops);

/// A line on the same.
void printAttention(llvm::ArrayRef<double> flops, llvm::raw_ostream &os);

/// For each set of axes an object with axes, count, wire_bytes and seconds of a
/// step; where places along pp differ (`places` of a row), of the one that
/// sends most. Scalars are left out.
llvm::json::Array totalsOf(const llvm::json::Array &collectives);

/// Whether `text` is an explanation as --explain=json writes it; else an error
/// says what is missing.
llvm::Expected<llvm::json::Object> parseExplanation(llvm::StringRef text);

/// Writes what the second explanation has more or less than the first:
/// collectives that were added, removed, that send more or less; bytes over
/// each set of axes, memory by kind. Gives whether there is a difference.
bool printDifferences(const llvm::json::Object &before,
                      const llvm::json::Object &after, llvm::raw_ostream &os);

/// A line for each, after a heading; nothing where there is none.
void printConflicts(const llvm::json::Array &conflicts, llvm::raw_ostream &os);

/// One line for each, then the bytes that a device sends over each set of axes.
/// Scalars are counted, not listed.
void printCollectives(const llvm::json::Array &collectives,
                      llvm::raw_ostream &os);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_EXPLAIN_H
