//===- Narrow.cpp - What a device with narrow products does ---------------===//

#include "lowering/NNToExec/Narrow.h"
#include "dialects/NN/NN.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

static Type elementOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getElementType() : Type();
}

static bool isNarrow(Type type) {
  return type && isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 32;
}

static bool isEightBits(Type type) {
  return isNarrow(type) && type.getIntOrFloatBitWidth() == 8;
}

/// The tensor of a narrow type that has the elements of `value`, be they cast,
/// moved, or, of 8 bits, scaled; null where there is none.
static Value narrowSource(Value value, int depth = 0) {
  for (; depth < 32; ++depth) {
    if (isNarrow(elementOf(value)))
      return value;
    Operation *op = value.getDefiningOp();
    if (!op) {
      auto argument = cast<BlockArgument>(value);
      auto fused =
          dyn_cast_or_null<nn::FusedOp>(argument.getOwner()->getParentOp());
      if (!fused)
        return {};
      value = fused.getInputs()[argument.getArgNumber()];
    } else if (isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, nn::BroadcastOp,
                   nn::CastOp>(op)) {
      value = op->getOperand(0);
    } else if (auto fused = dyn_cast<nn::FusedOp>(op)) {
      value = fused.getBody().front().getTerminator()->getOperand(
          cast<OpResult>(value).getResultNumber());
    } else if (isa<nn::MulOp>(op)) {
      for (Value operand : op->getOperands())
        if (Value source = narrowSource(operand, depth + 1))
          if (isEightBits(elementOf(source)))
            return source;
      return {};
    } else {
      return {};
    }
  }
  return {};
}

/// The narrow type that every use of `value` rounds it to, or null.
static Type roundedTo(Value value, int depth = 0) {
  Type all;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    Type type;
    if (isa<nn::CastOp>(user))
      type = elementOf(user->getResult(0));
    else if (depth < 32 &&
             isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp>(user))
      type = roundedTo(user->getResult(0), depth + 1);
    else if (auto fused = dyn_cast<nn::FusedOp>(user); fused && depth < 32)
      type =
          roundedTo(fused.getBody().front().getArgument(use.getOperandNumber()),
                    depth + 1);
    if (!isNarrow(type) || (all && all != type))
      return {};
    all = type;
  }
  return all;
}

void sheaf::markNarrow(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (!isa<nn::EinsumOp, nn::GroupedMatmulOp, nn::GroupedOuterOp,
             nn::AttentionOp, nn::AttentionGradOp>(op))
      return;
    SmallVector<Attribute> types;
    bool isAny = false;
    auto add = [&](Value value, Type narrow) {
      Type own = elementOf(value);
      bool isUsed = own && own.isF32() && narrow;
      isAny |= isUsed;
      types.push_back(TypeAttr::get(isUsed ? narrow : own));
    };
    for (Value operand : op->getOperands()) {
      Value source = narrowSource(operand);
      add(operand, source ? elementOf(source) : Type());
    }
    for (Value result : op->getResults())
      add(result, roundedTo(result));
    if (isAny)
      op->setAttr(kNarrowAttr, ArrayAttr::get(op->getContext(), types));
  });
}

/// Bytes that a tensor of f32 has more than one of `type`.
static int64_t savedBytes(Value value, Type type) {
  auto tensor = cast<RankedTensorType>(value.getType());
  if (!tensor.getElementType().isF32() || !isNarrow(type))
    return 0;
  return tensor.getNumElements() * (4 - type.getIntOrFloatBitWidth() / 8);
}

/// Whether `value` is an argument in another type, or a part of one, where
/// `isCast` says that a cast is on the way.
static bool isCastOfArgument(Value value, bool &isCast) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<nn::MulOp>(op)) {
      Value source = narrowSource(value);
      if (!source || !isEightBits(elementOf(source)))
        return false;
      isCast = true;
      value = source;
      continue;
    }
    if (!isa<nn::CastOp, nn::ReshapeOp, nn::SliceOp>(op))
      return false;
    if (isa<nn::CastOp>(op)) {
      // From and to integers is work.
      if (!isa<FloatType>(elementOf(op->getOperand(0))) ||
          !isa<FloatType>(elementOf(op->getResult(0))))
        return false;
      isCast = true;
    }
    value = op->getOperand(0);
  }
  return true;
}

void sheaf::measureNarrow(func::FuncOp kernel) {
  Block &body = kernel.front();
  Operation *end = body.getTerminator();
  Builder builder(kernel.getContext());
  int64_t saved = 0;
  if (llvm::hasSingleElement(body.without_terminator()) &&
      isa<nn::AttentionOp, nn::AttentionGradOp>(body.front())) {
    Operation *op = &body.front();
    bool isForward = isa<nn::AttentionOp>(op);
    kernel->setAttr(
        kKindAttr,
        builder.getStringAttr(isForward ? "attention" : "attention gradient"));
    auto narrow = op->getAttrOfType<ArrayAttr>(kNarrowAttr);
    if (!narrow)
      return;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      saved += savedBytes(operand, cast<TypeAttr>(narrow[i]).getValue());
    // The kernel of a bias's gradient has fewer results.
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (llvm::is_contained(end->getOperands(), result))
        saved += savedBytes(
            result,
            cast<TypeAttr>(narrow[op->getNumOperands() + i]).getValue());
    kernel->setAttr(kNarrowAttr, narrow);
  } else {
    for (BlockArgument argument : body.getArguments())
      saved += savedBytes(argument, roundedTo(argument));
    SmallPtrSet<Value, 4> written;
    for (Value result : end->getOperands())
      if (isNarrow(elementOf(result)))
        written.insert(result);
    bool isNone = end->getNumOperands() > 0, isCast = false;
    for (Value result : end->getOperands()) {
      isNone &= isCastOfArgument(result, isCast);
      Value source = narrowSource(result);
      if (!source || source == result)
        continue;
      saved += savedBytes(result, elementOf(source));
      // In both types: once.
      auto tensor = cast<RankedTensorType>(result.getType());
      if (!written.insert(source).second)
        saved += tensor.getNumElements() *
                 (elementOf(source).getIntOrFloatBitWidth() / 8);
    }
    if (isNone && isCast) {
      kernel->setAttr(kNarrowNoneAttr, builder.getUnitAttr());
      return;
    }
  }
  if (saved > 0)
    kernel->setAttr(kNarrowSavedAttr, builder.getI64IntegerAttr(saved));
}
