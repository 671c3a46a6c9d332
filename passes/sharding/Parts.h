//===- Parts.h - A tensor as what each device of a group has ----*- C++ -*-===//
//
// Collectives along a dimension cut a tensor, or put it together, for each
// device of a group. Here the same is done by local ops: the parts are rows of
// a matrix, in the order of the devices.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_PARTS_H
#define SHEAF_PASSES_SHARDING_PARTS_H

#include "dialects/NN/NN.h"

namespace sheaf::sharding {

/// The type in another shape; element and encoding stay.
mlir::RankedTensorType withShape(mlir::RankedTensorType type,
                                 llvm::ArrayRef<int64_t> shape);

/// [group, elements of `part`]: a row for each of `group` devices, of what
/// it gets where `value` is cut along `dim` in parts of the shape of `part`.
/// Zeros are put behind the end.
mlir::Value cutInParts(nn::Emit &emit, mlir::Value value, int64_t dim,
                       mlir::RankedTensorType part, int64_t group);

/// The inverse: `rows`, [group, elements of `part`], put together along `dim`;
/// `whole` is the shape of what comes out, behind whose end parts are cut off.
mlir::Value joinParts(nn::Emit &emit, mlir::Value rows, int64_t dim,
                      mlir::RankedTensorType part,
                      llvm::ArrayRef<int64_t> whole);

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_PARTS_H
