//===- Stagger.cpp - Gradients are rounded where they are ready -----------===//
//
// A gradient that is rounded before it is sent, and added where it arrives, is
// computed between transfers, and what computes keeps its order behind this.
// So here, on tensors, the ops that lead to a transfer, or come of one, get
// their places: a slot is the space behind an op that stays, and what stands in
// one slot is ordered by how many transfers are in front of it.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "passes/overlap/Passes.h"

namespace sheaf {
#define GEN_PASS_DEF_EXECSTAGGER
#include "passes/overlap/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

static bool hasRole(Operation *op, StringRef name) {
  auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
  return role && role.getValue() == name;
}

/// Whether an op belongs to how gradients are sent, where it leads to a
/// transfer, or to what they are for, where it comes of one.
static bool mayMove(Operation *op) {
  return (hasRole(op, "weight_gradient") ||
          (hasRole(op, "optimizer") && !isa<exec::TransferOp>(op))) &&
         isPure(op) && op->getNumRegions() == 0 &&
         !isa<nn::EinsumOp, nn::GroupedMatmulOp, nn::GroupedOuterOp,
              nn::ScaledEinsumOp, nn::AttentionOp, nn::AttentionGradOp>(op);
}

/// Whether transfers go on beside an op for long.
static bool isUnit(Operation *op) {
  return isa<func::CallOp, nn::MicrobatchesOp>(op);
}

/// Orders a block. What waits for a transfer stands `ahead` units behind it,
/// where there are as many.
static void stagger(Block &block, int64_t ahead) {
  // Ops that lead to a transfer, or come of one.
  llvm::DenseSet<Operation *> moving, sending, arrived;
  for (Operation &op : llvm::reverse(block)) {
    bool leads = isa<exec::TransferOp>(op);
    for (Operation *user : op.getUsers())
      leads |= sending.contains(user);
    if (leads && mayMove(&op) && !hasRole(&op, "optimizer"))
      sending.insert(&op);
  }
  for (Operation &op : block) {
    if (!mayMove(&op))
      continue;
    bool arrives = sending.contains(&op) && isa<exec::TransferOp>(op);
    for (Value operand : op.getOperands())
      arrives |= arrived.contains(operand.getDefiningOp());
    if (arrives)
      arrived.insert(&op);
    if (arrives || sending.contains(&op))
      moving.insert(&op);
  }
  if (moving.empty())
    return;
  DenseMap<Operation *, int> number; // Of ops that stay.
  int stay = 0;
  SmallVector<Operation *> staying;
  SmallVector<int> units;
  for (Operation &op : block) {
    if (moving.contains(&op))
      continue;
    if (isUnit(&op))
      units.push_back(stay);
    number[&op] = stay++;
    staying.push_back(&op);
  }
  if (units.empty())
    return;
  DenseMap<Operation *, int> latest; // The last slot of each op that moves.
  for (Operation &op : llvm::reverse(block)) {
    if (!moving.contains(&op))
      continue;
    int last = stay - 1; // In front of the terminator.
    for (Operation *user : op.getUsers()) {
      Operation *here = block.findAncestorOpInBlock(*user);
      if (!here)
        continue; // In another block, which comes later.
      last = std::min(last, moving.contains(here) ? latest.lookup(here)
                                                  : number.lookup(here));
    }
    latest[&op] = last;
  }

  /// The slot in which what comes of a transfer is read.
  auto behind = [&](int slot) {
    auto next = llvm::lower_bound(units, slot);
    if (next == units.end() || ahead == 0)
      return slot;
    int64_t count = std::min<int64_t>(ahead, units.end() - next);
    return *(next + count - 1) + 1;
  };
  struct Place {
    int slot = 0, transfers = 0;
  };
  DenseMap<Operation *, Place> places;
  std::vector<std::pair<Place, Operation *>> order;
  for (Operation &op : block) {
    if (!moving.contains(&op))
      continue;
    Place place;
    for (Value operand : op.getOperands()) {
      Operation *from = operand.getDefiningOp();
      if (!from || from->getBlock() != &block)
        continue;
      if (!moving.contains(from)) {
        place.slot = std::max(place.slot, number.lookup(from) + 1);
        continue;
      }
      Place other = places.lookup(from);
      bool arrives = isa<exec::TransferOp>(from);
      place.slot =
          std::max(place.slot, arrives ? behind(other.slot) : other.slot);
      place.transfers = std::max(place.transfers, other.transfers + arrives);
    }
    bool isUpdate = hasRole(&op, "optimizer");
    // Behind all units, in front of what waits for transfers of that place.
    if (isUpdate)
      place.slot = std::max(place.slot, units.back() + 1);
    place.slot = std::min(place.slot, latest.lookup(&op));
    if (isUpdate) {
      place.transfers = 0;
      for (Value operand : op.getOperands())
        if (auto other = places.find(operand.getDefiningOp());
            other != places.end() && other->second.slot == place.slot)
          place.transfers = std::max(place.transfers,
                                     other->second.transfers +
                                         isa<exec::TransferOp>(other->first));
    }
    places[&op] = place;
    order.emplace_back(place, &op);
  }
  llvm::stable_sort(order, [](const auto &a, const auto &b) {
    return std::pair(a.first.slot, a.first.transfers) <
           std::pair(b.first.slot, b.first.transfers);
  });
  for (auto &[place, op] : order)
    op->moveBefore(staying[place.slot]);
}

namespace {
struct ExecStagger : sheaf::impl::ExecStaggerBase<ExecStagger> {
  using ExecStaggerBase::ExecStaggerBase;

  LogicalResult initialize(MLIRContext *context) final {
    if (ahead < 0)
      return emitError(UnknownLoc::get(context), "exec-stagger: option 'ahead' "
                                                 "is ")
             << static_cast<int64_t>(ahead) << ", expected at least 0";
    return success();
  }

  void runOnOperation() final {
    getOperation().walk([&](Block *block) { stagger(*block, ahead); });
  }
};
} // namespace
