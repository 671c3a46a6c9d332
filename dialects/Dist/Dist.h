//===- Dist.h - Meshes, shardings, collectives -----------------*- C++ -*-===//
//
// The public header of the dist dialect: the mesh of devices, the sharding of a
// value as an attribute, and collectives on local tensors. Knows nothing of nn.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_DIALECTS_DIST_DIST_H
#define SHEAF_DIALECTS_DIST_DIST_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace sheaf::dist {
bool isStaticTensor(mlir::Type type);
} // namespace sheaf::dist

#include "dialects/Dist/DistDialect.h.inc"
#include "dialects/Dist/DistEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.h.inc"

#include "dialects/Dist/DistInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.h.inc"

namespace sheaf::dist {

/// Names of discardable attributes of the dialect.
/// On an argument or a result of a function: its sharding.
inline constexpr llvm::StringLiteral kShardingAttr = "dist.sharding";
/// On an argument or a result of a function on local tensors: the shape of the
/// whole tensor, where parts are padded and it does not follow from theirs.
inline constexpr llvm::StringLiteral kGlobalShapeAttr = "dist.global_shape";
/// On an op: an array with the sharding of each result.
inline constexpr llvm::StringLiteral kShardingsAttr = "dist.shardings";
/// On a loop: an array with the sharding of each argument of its body.
inline constexpr llvm::StringLiteral kArgumentShardingsAttr =
    "dist.argument_shardings";
/// Beside a sharding: for an axis, as explanations name it, who asked for it
/// there.
inline constexpr llvm::StringLiteral kBecauseAttr = "dist.because";
/// On the module, between propagation and partitioning: annotations as text.
inline constexpr llvm::StringLiteral kAnnotationsAttr = "dist.annotations";
/// On ops and arguments: for each axis of each result (argument), in the order
/// of its dimensions, the number of the annotation that it came from.
inline constexpr llvm::StringLiteral kOriginsAttr = "dist.origins";
/// The same of the arguments of a loop's body.
inline constexpr llvm::StringLiteral kArgumentOriginsAttr =
    "dist.argument_origins";
/// On an op on local tensors: wishes of which it could follow one, and which it
/// did.
inline constexpr llvm::StringLiteral kConflictsAttr = "dist.conflicts";
/// On a collective: why it is there.
inline constexpr llvm::StringLiteral kReasonAttr = "dist.reason";

/// The mesh that the module of an op declares; null where there is none.
MeshOp getMesh(mlir::Operation *op);

/// Bytes a second and seconds of a link.
struct LinkSpeed {
  double bandwidth, latency;
};
/// Of an axis; what its class does not give stands in the attribute.
LinkSpeed getLinkSpeed(MeshAxisAttr axis);
/// The speed of a class; nothing where there is no such class.
std::optional<LinkSpeed> lookupLinkClass(llvm::StringRef name);

/// The encoding of a local tensor that is partial; null elsewhere.
PartialAttr getPartial(mlir::Type type);
/// `type` with `encoding` (null: none) instead of its own.
mlir::RankedTensorType withPartial(mlir::RankedTensorType type,
                                   PartialAttr encoding);

/// The size of a dimension in the order in which `dim` cuts it: with all of its
/// last chunk, where it has a zig-zag order.
int64_t getOrderedSize(int64_t size, DimAttr dim);

/// Whether the sharding is one for `type` on `mesh`: as many dimensions, axes
/// that exist, none used twice, sub-axes that divide. Complains through
/// `emitError`.
mlir::LogicalResult
verifySharding(ShardingAttr sharding, mlir::Type type, MeshOp mesh,
               llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

} // namespace sheaf::dist

#endif // SHEAF_DIALECTS_DIST_DIST_H
