//===- Parts.cpp - A tensor as what each device of a group has ------------===//

#include "passes/sharding/Parts.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The product of the sizes before `dim`.
static int64_t sizeBefore(RankedTensorType type, int64_t dim) {
  int64_t size = 1;
  for (int64_t each : type.getShape().take_front(dim))
    size *= each;
  return size;
}

RankedTensorType sharding::withShape(RankedTensorType type,
                                     ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type.getElementType(),
                               type.getEncoding());
}

Value sharding::cutInParts(nn::Emit &emit, Value value, int64_t dim,
                           RankedTensorType part, int64_t group) {
  RankedTensorType type = typeOf(value);
  int64_t behind = part.getDimSize(dim) * group - type.getDimSize(dim);
  if (behind > 0) {
    SmallVector<int64_t> low(type.getRank(), 0), high(type.getRank(), 0),
        shape(type.getShape());
    high[dim] = behind;
    shape[dim] += behind;
    value = emit.make<nn::PadOp>(
        withShape(type, shape), value, ArrayRef<int64_t>(low),
        ArrayRef<int64_t>(high), DenseI64ArrayAttr(), APFloat(0.0));
  }
  int64_t before = sizeBefore(type, dim), rest = part.getNumElements() / before;
  if (before > 1) {
    value =
        emit.make<nn::ReshapeOp>(withShape(type, {before, group, rest}), value);
    value = emit.make<nn::TransposeOp>(withShape(type, {group, before, rest}),
                                       value, ArrayRef<int64_t>{1, 0, 2});
  }
  return emit.make<nn::ReshapeOp>(withShape(type, {group, before * rest}),
                                  value);
}

Value sharding::joinParts(nn::Emit &emit, Value rows, int64_t dim,
                          RankedTensorType part, ArrayRef<int64_t> whole) {
  RankedTensorType type = typeOf(rows);
  int64_t group = type.getDimSize(0), before = sizeBefore(part, dim),
          rest = part.getNumElements() / before;
  if (before > 1) {
    rows =
        emit.make<nn::ReshapeOp>(withShape(type, {group, before, rest}), rows);
    rows = emit.make<nn::TransposeOp>(withShape(type, {before, group, rest}),
                                      rows, ArrayRef<int64_t>{1, 0, 2});
  }
  SmallVector<int64_t> shape(part.getShape());
  shape[dim] *= group;
  Value joined = emit.make<nn::ReshapeOp>(withShape(type, shape), rows);
  if (ArrayRef<int64_t>(shape) == whole)
    return joined;
  SmallVector<int64_t> offsets(shape.size(), 0);
  return emit.make<nn::SliceOp>(withShape(type, whole), joined,
                                ArrayRef<int64_t>(offsets), whole,
                                DenseI64ArrayAttr());
}
