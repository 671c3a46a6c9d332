//===- NNDialect.cpp - Registration and the helpers of NN.h ---------------===//

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sheaf::nn;

#include "dialects/NN/NNDialect.cpp.inc"
#include "dialects/NN/NNEnums.cpp.inc"
#include "dialects/NN/NNInterfaces.cpp.inc"

namespace {
/// Every nn op may be inlined anywhere.
struct NNInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void NNDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/NN/NNOps.cpp.inc"
      >();
  registerNNAttributes();
  addInterfaces<NNInliner>();
}

Operation *NNDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                          Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

//===----------------------------------------------------------------------===//
// Emit
//===----------------------------------------------------------------------===//

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Value Emit::cast(Value a, Type element) {
  RankedTensorType type = tensorOf(a);
  if (type.getElementType() == element)
    return a;
  return make<CastOp>(RankedTensorType::get(type.getShape(), element), a);
}

Value Emit::reshape(Value a, ArrayRef<int64_t> shape) {
  RankedTensorType type = tensorOf(a);
  if (type.getShape() == shape)
    return a;
  return make<ReshapeOp>(RankedTensorType::get(shape, type.getElementType()),
                         a);
}

Value Emit::expand(Value a, int64_t dim) {
  SmallVector<int64_t> shape(tensorOf(a).getShape());
  shape.insert(shape.begin() + dim, 1);
  return reshape(a, shape);
}

Value Emit::broadcast(Value a, ArrayRef<int64_t> shape,
                      ArrayRef<int64_t> dims) {
  return make<BroadcastOp>(
      RankedTensorType::get(shape, tensorOf(a).getElementType()), a, dims);
}

Value Emit::scalar(Value like, double value) {
  return constant(RankedTensorType::get({}, tensorOf(like).getElementType()),
                  value);
}

Value Emit::unbroadcast(Value gradient, RankedTensorType to) {
  if (!gradient || gradient.getType() == to)
    return gradient;
  RankedTensorType from = tensorOf(gradient);
  int64_t added = from.getRank() - to.getRank();
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < from.getRank(); ++i)
    if (i < added || (to.getDimSize(i - added) == 1 && from.getDimSize(i) != 1))
      dims.push_back(i);
  Value summed = dims.empty() ? gradient : sum(gradient, dims);
  return reshape(summed, to.getShape());
}
