//===- StartEarly.cpp - Transfers beside what does not need them ----------===//

#include "mlir/IR/Remarks.h"
#include "passes/overlap/Passes.h"

namespace sheaf {
#define GEN_PASS_DEF_EXECSTARTEARLY
#include "passes/overlap/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

/// Whether a buffer is an argument of a function.
static bool isArgument(Value root) {
  auto argument = dyn_cast<BlockArgument>(root);
  return argument && argument.getOwner()->isEntryBlock() &&
         isa<func::FuncOp>(argument.getOwner()->getParentOp());
}

/// Whether two buffers may share bytes: views of one buffer, and two arguments
/// of a function, which may be one (an accumulator is read and written). What
/// is neither may be anything.
static bool mayAlias(Value a, Value b) {
  a = getRootBuffer(a), b = getRootBuffer(b);
  if (a == b)
    return true;
  auto isBuffer = [](Value root) {
    return static_cast<bool>(root.getDefiningOp<BufferOp>());
  };
  if ((!isBuffer(a) && !isArgument(a)) || (!isBuffer(b) && !isArgument(b)))
    return true;
  return isArgument(a) && isArgument(b);
}

namespace {
/// A transfer's buffers.
struct Transferred {
  Value sent, received;

  /// Whether `op`, or an op in it, must keep its side of the transfer.
  bool conflictsWith(Operation *op) const {
    return op
        ->walk([&](Operation *inner) {
          auto access = dyn_cast<AccessOpInterface>(inner);
          if (!access)
            // Offsets and loops touch nothing; what else there is might.
            return isPure(inner) || inner->getNumRegions() > 0 ||
                           inner->hasTrait<OpTrait::IsTerminator>() ||
                           isa<BufferOp>(inner)
                       ? WalkResult::advance()
                       : WalkResult::interrupt();
          auto isIn = [&](ValueRange buffers, Value buffer) {
            return llvm::any_of(
                buffers, [&](Value other) { return mayAlias(other, buffer); });
          };
          return isIn(access.getWritten(), sent) ||
                         isIn(access.getWritten(), received) ||
                         isIn(access.getRead(), received)
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  }
};
} // namespace

/// Whether the op starts a transfer, or is a call, which may.
static bool mayTransfer(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        return isa<CollectiveOp, StartOp, exec::CallOp>(inner)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether an op takes time.
static bool works(Operation *op) {
  return !isPure(op) && !isa<BufferOp, CollectiveOp, StartOp, WaitOp>(op);
}

/// Moves what defines a buffer in front of `before`, where it is not there.
static void hoistDefinition(Value buffer, Operation *before) {
  Operation *op = buffer.getDefiningOp();
  if (!op || op->getBlock() != before->getBlock() ||
      op->isBeforeInBlock(before))
    return;
  for (Value operand : op->getOperands())
    hoistDefinition(operand, before);
  op->moveBefore(before);
}

static void startEarly(CollectiveOp collective) {
  Transferred buffers{collective.getRead()[0], collective.getWritten()[0]};
  Block *block = collective->getBlock();
  // Only buffers and their views move up with it.
  auto mayMove = [&](Value buffer) {
    for (Operation *op = buffer.getDefiningOp(); op && op->getBlock() == block;
         op = op->getOperand(0).getDefiningOp()) {
      if (isa<BufferOp>(op))
        break;
      if (!isa<ViewOp>(op))
        return false;
    }
    return true;
  };
  Operation *first = collective;
  int64_t beside = 0;
  if (mayMove(buffers.sent) && mayMove(buffers.received))
    while (Operation *before = first->getPrevNode()) {
      if (mayTransfer(before) || buffers.conflictsWith(before))
        break;
      beside += works(before);
      first = before;
    }
  Operation *last = collective->getNextNode();
  for (;
       !last->hasTrait<OpTrait::IsTerminator>() && !buffers.conflictsWith(last);
       last = last->getNextNode())
    beside += works(last);
  if (beside == 0)
    return;

  OpBuilder builder(collective);
  if (last)
    builder.setInsertionPoint(last);
  else
    builder.setInsertionPointToEnd(block);
  Location loc = collective.getLoc();
  auto handleType = MemRefType::get({}, builder.getI64Type());
  if (first != collective) {
    collective->moveBefore(first);
    hoistDefinition(buffers.sent, collective);
    hoistDefinition(buffers.received, collective);
  }
  auto wait = WaitOp::create(builder, loc, ValueRange(), buffers.received);
  builder.setInsertionPoint(collective);
  Value handle = BufferOp::create(builder, loc, handleType, IntegerAttr());
  wait.getReadMutable().append({handle, buffers.sent});
  collective.getWrittenMutable().append(handle);
  wait->setDiscardableAttrs(collective->getDiscardableAttrDictionary());
  remark::passed(
      loc, remark::RemarkOpts::name("started-early")
               .category("overlap")
               .function(collective->getParentOfType<func::FuncOp>().getName()))
      << (stringifyTransfer(collective.getKind()).str() + " goes on beside " +
          std::to_string(beside) + (beside == 1 ? " op" : " ops"))
      << remark::metric("Ops", beside);
}

namespace {
struct ExecStartEarly : sheaf::impl::ExecStartEarlyBase<ExecStartEarly> {
  using ExecStartEarlyBase::ExecStartEarlyBase;

  void runOnOperation() override {
    llvm::SmallDenseSet<Transfer> wanted;
    for (StringRef name : kinds) {
      std::optional<Transfer> kind = symbolizeTransfer(name);
      if (!kind) {
        getOperation().emitError("exec-start-early: option 'kinds' has '")
            << name
            << "', expected all_reduce, all_gather, reduce_scatter, "
               "all_to_all, permute or broadcast";
        return signalPassFailure();
      }
      wanted.insert(*kind);
    }
    if (wanted.empty())
      wanted.insert(Transfer::Permute);
    SmallVector<CollectiveOp> collectives;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      // Buffers that are placed share bytes.
      bool isPlaced = function
                          .walk([](BufferOp buffer) {
                            return buffer.getOffset() ? WalkResult::interrupt()
                                                      : WalkResult::advance();
                          })
                          .wasInterrupted();
      if (isPlaced)
        continue;
      function.walk([&](CollectiveOp collective) {
        // The counts of rows are read when it starts.
        if (wanted.contains(collective.getKind()) && !collective.isStarted() &&
            collective.getRead().size() == 1)
          collectives.push_back(collective);
      });
    }
    for (CollectiveOp collective : collectives)
      startEarly(collective);
  }
};
} // namespace
