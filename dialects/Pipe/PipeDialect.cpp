//===- PipeDialect.cpp - Registration and verifiers -----------------------===//

#include "dialects/Pipe/Pipe.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace sheaf::pipe;

#include "dialects/Pipe/PipeDialect.cpp.inc"
#include "dialects/Pipe/PipeEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Pipe/PipeAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Pipe/PipeTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Pipe/PipeOps.cpp.inc"

void PipeDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Pipe/PipeOps.cpp.inc"
      >();
  registerPipeTypesAndAttributes();
}

void PipeDialect::registerPipeTypesAndAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Pipe/PipeAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Pipe/PipeTypes.cpp.inc"
      >();
}

bool sheaf::pipe::isWholeTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding() ||
      !tensor.getElementType().isIntOrFloat())
    return false;
  // A product that is no number of bytes is no tensor that anyone has.
  double elements = 1;
  for (int64_t size : tensor.getShape())
    elements *= static_cast<double>(size);
  return elements < 1e14;
}

int64_t sheaf::pipe::bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t bits = tensor.getElementTypeBitWidth();
  return tensor.getNumElements() * ((bits + 7) / 8);
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// A time, or another number that is at least 0.
static LogicalResult verifyTime(Operation *op, StringRef name, APFloat time) {
  if (time.isFinite() && !time.isNegative())
    return success();
  SmallString<16> text;
  time.toString(text);
  return op->emitOpError() << name << " is " << text
                           << ", expected a number of at least 0";
}

LogicalResult PipelineOp::verify() {
  if (failed(verifyTime(*this, "latency", getLatency())) ||
      failed(verifyTime(*this, "fused_factor", getFusedFactor())))
    return failure();
  if (std::optional<APFloat> bandwidth = getBandwidth()) {
    if (failed(verifyTime(*this, "bandwidth", *bandwidth)))
      return failure();
    if (bandwidth->isZero())
      return emitOpError("bandwidth is 0, expected bytes a second");
  }
  return success();
}

LogicalResult PipelineOp::verifyRegions() {
  int64_t stages = 0;
  bool hasValue = false;
  for (Operation &op : getBody().front()) {
    if (isa<StageOp>(op)) {
      if (hasValue)
        return op.emitOpError(
            "stands behind values, expected all stages before "
            "them");
      ++stages;
    } else if (!isa<ValueOp>(op)) {
      return op.emitOpError("stands in a pipeline, expected pipe.stage or "
                            "pipe.value");
    } else {
      hasValue = true;
    }
  }
  if (stages == 0)
    return emitOpError("has no stage, expected at least one");
  for (ValueOp value : getBody().getOps<ValueOp>()) {
    auto check = [&](int64_t stage) -> LogicalResult {
      if (stage >= 0 && stage < stages)
        return success();
      return value.emitOpError("names stage ")
             << stage << ", expected one of the " << stages << " stages";
    };
    if (failed(check(value.getStage())))
      return failure();
    for (UseAttr use : value.getUses().getAsRange<UseAttr>())
      if (failed(check(use.getStage())))
        return failure();
  }
  return success();
}

LogicalResult StageOp::verify() {
  if (failed(verifyTime(*this, "forward", getForward())) ||
      failed(verifyTime(*this, "input_gradient", getInputGradient())) ||
      failed(verifyTime(*this, "weight_gradient", getWeightGradient())))
    return failure();
  if (std::optional<APFloat> backward = getBackward())
    return verifyTime(*this, "backward", *backward);
  return success();
}

LogicalResult ValueOp::verify() {
  if (getPart() == Part::Backward)
    return emitOpError("is computed by a B, expected its half, I or W");
  for (UseAttr use : getUses().getAsRange<UseAttr>())
    if (use.getPart() == Part::Backward)
      return emitOpError("is read by a B, expected its half, I or W");
  return success();
}

LogicalResult ScheduleOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<RankOp>(op))
      return op.emitOpError("stands in a schedule, expected pipe.rank");
  return success();
}

LogicalResult RankOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<PipeDialect>(op.getDialect()))
      return op.emitOpError("stands in the list of a rank, expected actions of "
                            "the pipe dialect");
  return success();
}

LogicalResult ComputeOp::verify() {
  if (getFused() && !isa_and_nonnull<ComputeOp>((*this)->getNextNode()))
    return emitOpError("is fused with the next action, expected a pipe.compute "
                       "behind it");
  if (auto before = dyn_cast_or_null<ComputeOp>((*this)->getPrevNode());
      before && before.getFused() && getFused())
    return emitOpError("is fused with the action before and the one behind, "
                       "expected pairs");
  return success();
}

LogicalResult WaitSendOp::verify() {
  if (!getTransfer().getDefiningOp<SendOp>())
    return emitOpError("waits for no send, expected the result of a pipe.send");
  return success();
}

LogicalResult WaitReceiveOp::verify() {
  if (!getTransfer().getDefiningOp<ReceiveOp>())
    return emitOpError(
        "waits for no receive, expected the result of a pipe.receive");
  return success();
}
