//===- Ops.h - What fusion must know of an op ------------------*- C++ -*-===//
//
// How each nn op reads its operands, as far as it matters for computing several
// ops in one kernel.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_FUSION_OPS_H
#define SHEAF_PASSES_FUSION_OPS_H

#include "dialects/NN/NN.h"

namespace sheaf::fusion {

enum class Kind {
  Boundary,    ///< in no group
  View,        ///< the same bytes under another shape
  Move,        ///< elements in another place
  Elementwise, ///< element by element, with broadcasts
  Reduction,
};

struct OpInfo {
  Kind kind = Kind::Boundary;
  /// Of a reduction along rows (trailing dimensions): their number.
  int64_t rows = 0;
  /// Of a reduction down columns (leading dimensions, or those of blocks of
  /// rows), or over everything: how many results it has.
  int64_t columns = 0;
  /// Elements that a reduction reads.
  int64_t reduced = 0;
  /// Takes much longer than reading an element.
  bool costly = false;
};

OpInfo classify(mlir::Operation *op);

inline int64_t elementsOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getNumElements();
}
int64_t bytesOf(mlir::Value value);

/// Whether an op that computes `result` element by element reads of operand
/// `number` only what belongs to the same leading indices, so that what is
/// computed once a row stays so.
bool keepsRows(mlir::Operation *op, unsigned number);

} // namespace sheaf::fusion

#endif // SHEAF_PASSES_FUSION_OPS_H
