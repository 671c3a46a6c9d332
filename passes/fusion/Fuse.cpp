//===- Fuse.cpp - Groups ops that one kernel computes ---------------------===//

#include "lowering/cpu/kernels/Kernels.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/fusion/Ops.h"
#include "passes/fusion/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace sheaf {
#define GEN_PASS_DEF_NNFUSE
#include "passes/fusion/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::fusion;

namespace {

/// More ops or operands than that take long to compile and bring nothing.
constexpr size_t kMostOps = 64, kMostInputs = 64;
/// Sums over whole tensors in one kernel, and elements that they read: they run
/// on one thread, and a kernel of many would be like no other.
constexpr int kMostSums = 2;
constexpr int64_t kMostSerial = 1 << 16;

struct Group {
  SmallVector<Operation *> ops; // in order
  StringRef reason = "each reads what another computes";
  int64_t rows = 0, columns = 0;
  bool closed = false; // takes in nothing else
};

/// Groups the ops of one block.
class BlockFusion {
public:
  BlockFusion(Block &block, bool print) : block(block), print(print) {}
  void run();

private:
  Block &block;
  bool print;
  std::vector<std::unique_ptr<Group>> groups;
  DenseMap<Operation *, Group *> groupOf;
  DenseMap<Operation *, OpInfo> infos;
  /// An order of the block's groups and single ops, in which each stands after
  /// those that it reads: the place of each op, the same for all of a group,
  /// and an op of what stands in each place (null: nothing). A search for a way
  /// around need not look beyond the group's own places, whatever the block's
  /// length.
  DenseMap<Operation *, size_t> placeOf;
  std::vector<Operation *> places;
  /// In a program of one place along a pipeline, whose others have programs of
  /// their own, what ranks say to each other keeps its order: for each such op
  /// the next and the one before.
  DenseMap<Operation *, Operation *> nextSaid, saidBefore;
  void findSaid();
  /// The ops of the block that come behind `op`.
  SmallVector<Operation *> followersOf(Operation *op) {
    SmallVector<Operation *> followers(op->getUsers());
    if (Operation *next = nextSaid.lookup(op))
      followers.push_back(next);
    return followers;
  }

  const OpInfo &info(Operation *op) {
    auto it = infos.find(op);
    return it != infos.end() ? it->second : infos[op] = classify(op);
  }
  Operation *producer(Value value) {
    Operation *op = value.getDefiningOp();
    return op && op->getBlock() == &block && !isa<nn::ConstantOp>(op) ? op
                                                                      : nullptr;
  }
  Operation *here(Operation *user) {
    return block.findAncestorOpInBlock(*user);
  }
  Group *start(Operation *op);
  void sort(SmallVectorImpl<Operation *> &ops) {
    llvm::sort(
        ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  }
  bool usedOutside(Value value,
                   const llvm::SmallPtrSetImpl<Operation *> &members) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return !members.contains(here(user));
    });
  }
  SmallVector<Value> resultsOf(ArrayRef<Operation *> ops);

  bool tryMerge(Group *a, Group *b);
  std::string refusal(ArrayRef<Operation *> ops, Group &merged);
  std::string refuseEdges(ArrayRef<Operation *> ops);
  bool hasWayAround(ArrayRef<Operation *> ops);
  /// The ops of the group or single op that `op` is.
  ArrayRef<Operation *> unitOf(Operation *const &op) {
    Group *group = groupOf.lookup(op);
    return group && !group->ops.empty() ? ArrayRef<Operation *>(group->ops)
                                        : ArrayRef<Operation *>(op);
  }
  void joinPlaces(Operation *a, Operation *b);
  /// Why `planKernel` refuses groups, by their structure: layers and parameters
  /// repeat the same ones.
  std::map<std::vector<uintptr_t>, std::string> plans;
  /// What was tried and refused, to be said at the end where it is still so.
  struct Refusal {
    Operation *first, *last;
    int64_t bytes; ///< that go from one to the other, stored and read again
    std::string why;
  };
  std::vector<Refusal> refusals;
  void reportRefusals();
  std::string refusePlan(ArrayRef<Operation *> ops, ArrayRef<Value> results);
  void seedColumns();
  void seedGathers();
  void joinProducers(Operation *op);
  void joinSiblings();
  void shareWidened(Group &group);
  void joinQuantised();
  bool joinBands(Value source, ArrayRef<Group *> all);
  void recompute(Group &group);
  bool othersStay(const Group &group, Operation *from, Operation *clone);
  void trim(Group &group);
  void build();
  nn::FusedOp build(Group &group, OpBuilder &builder);
  void report(nn::FusedOp fused, StringRef reason);
};

} // namespace

Group *BlockFusion::start(Operation *op) {
  auto it = groupOf.find(op);
  if (it != groupOf.end())
    return it->second;
  const OpInfo &own = info(op);
  if (own.kind == Kind::Boundary)
    return nullptr;
  groups.push_back(std::make_unique<Group>());
  Group *group = groups.back().get();
  group->ops = {op};
  group->rows = own.rows;
  group->columns = own.columns;
  groupOf[op] = group;
  return group;
}

SmallVector<Value> BlockFusion::resultsOf(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  SmallVector<Value> results;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (usedOutside(result, members))
        results.push_back(result);
  return results;
}

//===----------------------------------------------------------------------===//
// What may be one group
//===----------------------------------------------------------------------===//

/// Looks at the values that go from one member to another: none may be computed
/// much more often than on its own.
std::string BlockFusion::refuseEdges(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  // Values that hold a reduction or much work for each element.
  llvm::SmallPtrSet<Operation *, 16> reduced, heavy;
  for (Operation *op : ops) {
    const OpInfo &own = info(op);
    if (own.kind == Kind::Reduction)
      reduced.insert(op);
    if (own.costly || own.kind == Kind::Reduction)
      heavy.insert(op);
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *from = operand.get().getDefiningOp();
      if (!from || !members.contains(from))
        continue;
      if (isa<nn::GatherOp, nn::EmbeddingOp>(op) &&
          operand.getOperandNumber() == 0)
        return "a table is read in no order";
      if (reduced.contains(from)) {
        reduced.insert(op);
        if (own.kind == Kind::Move)
          return "what is reduced along rows would be moved to other rows";
      }
      if (!heavy.contains(from))
        continue;
      heavy.insert(op);
      if (own.kind == Kind::Move &&
          isa<nn::RotaryOp, nn::GatherOp, nn::EmbeddingOp>(op))
        return "each element would be computed several times";
      if ((own.kind == Kind::Elementwise || own.kind == Kind::Reduction) &&
          !keepsRows(op, operand.getOperandNumber()))
        return "what is repeated would be computed again for each row";
    }
  }
  return "";
}

/// Whether a path leads out of the group and back in. It would rise in place
/// all the way.
bool BlockFusion::hasWayAround(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  size_t last = 0;
  for (Operation *op : ops)
    last = std::max(last, placeOf.at(op));
  // Groups are visited as a whole.
  llvm::SmallPtrSet<Operation *, 32> seen;
  SmallVector<Operation *> work;
  auto leave = [&](Operation *op) {
    for (Operation *user : followersOf(op)) {
      Operation *next = here(user);
      if (!next)
        continue;
      if (members.contains(next)) {
        if (!members.contains(op))
          return true;
        continue;
      }
      auto place = placeOf.find(next);
      if (place != placeOf.end() && place->second <= last &&
          seen.insert(next).second)
        work.push_back(next);
    }
    return false;
  };
  for (Operation *op : ops)
    leave(op);
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    if (leave(op))
      return true;
    if (Group *group = groupOf.lookup(op))
      for (Operation *member : group->ops)
        if (seen.insert(member).second)
          work.push_back(member);
  }
  return false;
}

/// Gives two units, between which there is no way around, one place (after
/// Pearce and Kelly, A Dynamic Topological Sort Algorithm for Directed Acyclic
/// Graphs, 2006): what the first one reaches on the way to the second's place
/// moves behind both.
void BlockFusion::joinPlaces(Operation *a, Operation *b) {
  if (placeOf.at(a) > placeOf.at(b))
    std::swap(a, b);
  size_t first = placeOf.at(a), last = placeOf.at(b);
  if (first == last)
    return;
  ArrayRef<Operation *> unitA = unitOf(a), unitB = unitOf(b);
  llvm::SmallPtrSet<Operation *, 16> joined(unitA.begin(), unitA.end());
  joined.insert(unitB.begin(), unitB.end());
  llvm::DenseSet<size_t> reached;
  SmallVector<Operation *> work(unitA);
  while (!work.empty())
    for (Operation *user : followersOf(work.pop_back_val())) {
      Operation *next = here(user);
      auto place = next ? placeOf.find(next) : placeOf.end();
      if (place != placeOf.end() && !joined.contains(next) &&
          place->second < last && reached.insert(place->second).second)
        llvm::append_range(work, unitOf(next));
    }
  // What is not reached keeps its order before the two, the rest behind them.
  SmallVector<Operation *> before, behind;
  for (size_t place = first + 1; place < last; ++place)
    if (places[place])
      (reached.contains(place) ? behind : before).push_back(places[place]);
  SmallVector<Operation *> order(before);
  order.push_back(a);
  llvm::append_range(order, behind);
  order.resize(last - first + 1);
  for (auto [i, op] : llvm::enumerate(order)) {
    places[first + i] = op;
    if (op)
      for (Operation *member : unitOf(op))
        placeOf[member] = first + i;
  }
  for (Operation *member : unitB)
    placeOf[member] = placeOf.at(a);
}

/// Empty where the CPU computes `ops` in one kernel that writes `results`.
std::string BlockFusion::refusePlan(ArrayRef<Operation *> ops,
                                    ArrayRef<Value> results) {
  std::vector<uintptr_t> key;
  DenseMap<Value, uintptr_t> numbers;
  auto address = [](auto value) {
    return reinterpret_cast<uintptr_t>(value.getAsOpaquePointer());
  };
  auto numberOf = [&](Value value) {
    return numbers.try_emplace(value, numbers.size()).first->second;
  };
  for (Operation *op : ops) {
    key.insert(key.end(),
               {address(op->getName()), address(op->getAttrDictionary()),
                op->getNumOperands(), op->getNumResults()});
    for (Value operand : op->getOperands())
      key.insert(key.end(), {numberOf(operand), address(operand.getType())});
    for (Value result : op->getResults())
      key.insert(key.end(), {numberOf(result), address(result.getType())});
  }
  for (Value result : results)
    key.push_back(numberOf(result));
  auto [it, isNew] = plans.try_emplace(std::move(key));
  if (isNew && !cpu::planKernel(ops, results, &it->second) &&
      it->second.empty())
    it->second = "it is no kernel";
  return it->second;
}

std::string BlockFusion::refusal(ArrayRef<Operation *> ops, Group &merged) {
  if (ops.size() > kMostOps)
    return "the group would have too many ops";
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  int64_t serial = 0;
  for (Operation *op : ops) {
    const OpInfo &own = info(op);
    if (own.rows && merged.rows && own.rows != merged.rows)
      return "reductions have different numbers of rows";
    if (own.columns && merged.columns && own.columns != merged.columns)
      return "sums have different numbers of columns";
    merged.rows = std::max(merged.rows, own.rows);
    merged.columns = std::max(merged.columns, own.columns);
    if (own.columns)
      serial += own.reduced;
    for (Value operand : op->getOperands())
      if (!members.contains(operand.getDefiningOp()) &&
          !isa_and_nonnull<nn::ConstantOp>(operand.getDefiningOp()))
        inputs.insert(operand);
  }
  if (merged.rows && merged.columns)
    return "reductions along rows and down columns need two passes";
  if (inputs.size() > kMostInputs)
    return "the group would read too many tensors";
  std::string why = refuseEdges(ops);
  if (!why.empty())
    return why;
  SmallVector<Value> results = resultsOf(ops);
  if (results.empty())
    return "nobody reads a result";
  if (merged.columns) {
    for (Value result : results)
      if (elementsOf(result) != merged.columns)
        return "what is reduced down columns is also read elsewhere";
    auto sums = llvm::count_if(
        ops, [&](Operation *op) { return info(op).columns > 0; });
    if (merged.columns == 1 && sums > kMostSums)
      return "there would be many sums in one kernel";
    if (merged.columns == 1 && sums > 1 && serial > kMostSerial)
      return "large sums would run on one thread";
  }
  int64_t most = 0, least = std::numeric_limits<int64_t>::max();
  for (Value result : results) {
    most = std::max(most, elementsOf(result));
    least = std::min(least, elementsOf(result));
  }
  if (least == 1 && most > 1)
    return "a single number is also read elsewhere";
  if (hasWayAround(ops))
    return "another op lies between";
  // Constants are part of a kernel.
  SmallVector<Operation *> all;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (auto constant = operand.getDefiningOp<nn::ConstantOp>())
        if (!llvm::is_contained(all, constant.getOperation()))
          all.push_back(constant);
  llvm::append_range(all, ops);
  return refusePlan(all, results);
}

bool BlockFusion::tryMerge(Group *a, Group *b) {
  if (!a || !b || a == b || a->closed || b->closed)
    return false;
  SmallVector<Operation *> ops(a->ops);
  llvm::append_range(ops, b->ops);
  sort(ops);
  Group merged;
  std::string why = refusal(ops, merged);
  if (!why.empty()) {
    // A view costs nothing where it is.
    auto isView = [&](Operation *op) { return info(op).kind == Kind::View; };
    if (llvm::all_of(a->ops, isView) || llvm::all_of(b->ops, isView))
      return false;
    // The bytes that pass between the two.
    llvm::SmallDenseSet<Value> seen;
    int64_t bytes = 0;
    for (auto [from, to] : {std::pair(a, b), std::pair(b, a)})
      for (Operation *op : to->ops)
        for (Value operand : op->getOperands())
          if (Operation *producer = operand.getDefiningOp();
              producer && groupOf.lookup(producer) == from &&
              seen.insert(operand).second)
            bytes += 2 * bytesOf(operand);
    refusals.push_back({ops.front(), ops.back(), bytes, why});
    return false;
  }
  joinPlaces(a->ops.front(), b->ops.front());
  a->ops = std::move(ops);
  a->rows = merged.rows;
  a->columns = merged.columns;
  for (Operation *op : b->ops)
    groupOf[op] = a;
  b->ops.clear();
  return true;
}

//===----------------------------------------------------------------------===//
// Which groups are tried
//===----------------------------------------------------------------------===//

/// Sums down columns take in what only they read.
void BlockFusion::seedColumns() {
  for (Operation &op : block.without_terminator()) {
    if (!info(&op).columns)
      continue;
    Group *group = start(&op);
    bool changed = true;
    while (changed) {
      changed = false;
      llvm::SmallPtrSet<Operation *, 16> members(group->ops.begin(),
                                                 group->ops.end());
      for (Operation *member : SmallVector<Operation *>(group->ops)) {
        for (Value operand : member->getOperands()) {
          Operation *from = producer(operand);
          if (!from || groupOf.contains(from) ||
              info(from).kind == Kind::Boundary ||
              info(from).kind == Kind::Reduction)
            continue;
          if (llvm::any_of(from->getResults(), [&](Value value) {
                return usedOutside(value, members);
              }))
            continue;
          Group *single = start(from);
          if (tryMerge(group, single)) {
            changed = true;
          } else {
            groupOf.erase(from);
            single->ops.clear();
          }
        }
      }
    }
  }
}

/// The gradient of a gather is added to another gradient in place.
void BlockFusion::seedGathers() {
  for (Operation &op : block.without_terminator()) {
    auto add = dyn_cast<nn::AddOp>(op);
    if (!add || groupOf.contains(add))
      continue;
    for (Value operand : add->getOperands()) {
      auto grad = operand.getDefiningOp<nn::GatherGradOp>();
      if (!grad || grad->getBlock() != &block || !grad->hasOneUse() ||
          groupOf.contains(add))
        continue;
      SmallVector<Operation *> ops{grad, add};
      if (hasWayAround(ops) || !cpu::planKernel(ops, add.getResult()))
        continue;
      joinPlaces(grad, add);
      Group *group = start(add);
      group->ops = ops;
      group->reason = "the gradient of the gather is added in place";
      group->closed = true;
      groupOf[grad] = group;
    }
  }
}

void BlockFusion::joinProducers(Operation *op) {
  if (!start(op))
    return;
  SmallVector<std::pair<int64_t, Operation *>> producers;
  for (Value operand : op->getOperands())
    if (Operation *from = producer(operand))
      if (groupOf.contains(from))
        producers.push_back({bytesOf(operand), from});
  llvm::stable_sort(producers,
                    [](auto &a, auto &b) { return a.first > b.first; });
  SmallVector<Group *> tried;
  for (auto &[bytes, from] : producers) {
    Group *group = groupOf.lookup(from);
    if (llvm::is_contained(tried, group))
      continue;
    tried.push_back(group);
    tryMerge(groupOf.lookup(op), group);
  }
}

/// Sums down the columns of the same tensor share a pass over it.
void BlockFusion::joinSiblings() {
  llvm::MapVector<Value, SmallVector<Operation *>> readers;
  for (auto &group : groups) {
    if (group->columns <= 1)
      continue;
    llvm::SmallPtrSet<Operation *, 16> members(group->ops.begin(),
                                               group->ops.end());
    for (Operation *op : group->ops)
      for (Value operand : op->getOperands())
        if (!members.contains(operand.getDefiningOp()) &&
            elementsOf(operand) > group->columns)
          readers[operand].push_back(op);
  }
  for (auto &[value, ops] : readers)
    for (Operation *op : ArrayRef(ops).drop_front())
      if (Group *group = groupOf.lookup(ops[0]);
          tryMerge(group, groupOf.lookup(op)))
        group->reason =
            "sums down the columns of one tensor share a pass over it";
}

/// A value without the views on its way.
static Value viewed(Value value) {
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// The cast that widens a value on its way, behind which only views stand.
static nn::CastOp widened(Value value) {
  auto cast = viewed(value).getDefiningOp<nn::CastOp>();
  return cast && cast.isPlain() &&
                 nn::isExactCast(cast.getInput().getType().getElementType(),
                                 cast.getType().getElementType())
             ? cast
             : nn::CastOp();
}

/// What a value is but for its shape and for how wide it is.
static Value sourceOf(Value value) {
  nn::CastOp cast = widened(value);
  return viewed(cast ? cast.getInput() : value);
}

/// Copies of one tensor in 8 bits, in blocks along rows and down columns, come
/// of one pass over it: the kernel takes it band by band, as no loops have all
/// of them in common.
void BlockFusion::joinQuantised() {
  llvm::MapVector<Value, llvm::SmallSetVector<Group *, 4>> copies;
  for (auto &owned : groups) {
    Group *group = owned.get();
    if (group->ops.empty() || group->closed)
      continue;
    llvm::SmallPtrSet<Operation *, 16> members(group->ops.begin(),
                                               group->ops.end());
    int64_t elements = 0;
    for (Operation *op : group->ops)
      if (auto cast = dyn_cast<nn::CastOp>(op);
          cast && cpu::isRoundedTo(cast.getType().getElementType()))
        elements = std::max(elements, elementsOf(cast));
    if (!elements)
      continue;
    llvm::SmallSetVector<Value, 2> sources;
    llvm::SmallSetVector<Group *, 2> before;
    for (Operation *op : group->ops)
      for (Value operand : op->getOperands()) {
        if (members.contains(operand.getDefiningOp()))
          continue;
        if (elementsOf(operand) == elements)
          sources.insert(sourceOf(operand));
        else if (Operation *from = producer(viewed(operand)))
          if (Group *other = groupOf.lookup(from); other && !other->closed)
            before.insert(other);
      }
    // What is made of several tensors is a copy of none.
    if (sources.size() != 1)
      continue;
    // The factors of columns have a kernel in front.
    for (Group *other : before) {
      llvm::SmallPtrSet<Operation *, 16> own(other->ops.begin(),
                                             other->ops.end());
      bool isOfSource = llvm::all_of(other->ops, [&](Operation *op) {
        return llvm::all_of(op->getOperands(), [&](Value operand) {
          Operation *from = operand.getDefiningOp();
          return own.contains(from) || isa_and_nonnull<nn::ConstantOp>(from) ||
                 sourceOf(operand) == sources[0];
        });
      });
      if (isOfSource)
        copies[sources[0]].insert(other);
    }
    copies[sources[0]].insert(group);
  }
  for (auto &[value, all] : copies)
    if (all.size() > 1)
      joinBands(value, all.getArrayRef());
}

/// Makes one closed group of several, with the views between them, and with
/// what widens `source` for them alone.
bool BlockFusion::joinBands(Value source, ArrayRef<Group *> all) {
  auto collect = [&](bool widens) -> SmallVector<Operation *> {
    llvm::SmallSetVector<Operation *, 32> members;
    for (Group *group : all)
      members.insert(group->ops.begin(), group->ops.end());
    if (widens)
      for (size_t i = 0; i < members.size(); ++i) // Grows while walked.
        for (Value operand : members[i]->getOperands())
          if (nn::CastOp cast = widened(operand);
              cast && sourceOf(operand) == source)
            members.insert(cast);
    for (size_t i = 0; i < members.size(); ++i) // Grows while walked.
      for (Value operand : members[i]->getOperands())
        if (Operation *from = producer(viewed(operand));
            from && members.contains(from))
          for (Operation *view = operand.getDefiningOp(); view != from;
               view = view->getOperand(0).getDefiningOp())
            members.insert(view);
    // Others are taken as a whole.
    for (Operation *op : members) {
      Group *own = start(op);
      if (!own || !llvm::all_of(own->ops, [&](Operation *other) {
            return members.contains(other);
          }))
        return {};
    }
    // What it widens itself is for nobody else.
    llvm::SmallPtrSet<Operation *, 32> all(members.begin(), members.end());
    for (Operation *op : members)
      if (auto cast = dyn_cast<nn::CastOp>(op);
          widens && cast && widened(cast) && sourceOf(cast) == source &&
          usedOutside(cast, all))
        return {};
    SmallVector<Operation *> ops(members.getArrayRef());
    sort(ops);
    if (ops.size() > kMostOps || hasWayAround(ops))
      return {};
    return ops;
  };
  SmallVector<Operation *> ops = collect(/*widens=*/true);
  if (ops.empty())
    ops = collect(/*widens=*/false);
  if (ops.empty())
    return false;
  SmallVector<Operation *> constants;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (auto constant = operand.getDefiningOp<nn::ConstantOp>())
        if (!llvm::is_contained(constants, constant.getOperation()))
          constants.push_back(constant);
  SmallVector<Operation *> kernel(constants);
  llvm::append_range(kernel, ops);
  std::string why = refusePlan(kernel, resultsOf(ops));
  if (!why.empty()) {
    refusals.push_back({ops.front(), ops.back(), 0, why});
    return false;
  }
  // From the first place on: what lies between two has joined before.
  std::vector<Group *> parts;
  for (Operation *op : ops)
    if (Group *own = groupOf.lookup(op); !llvm::is_contained(parts, own))
      parts.push_back(own);
  llvm::sort(parts, [&](Group *a, Group *b) {
    return placeOf.at(a->ops.front()) < placeOf.at(b->ops.front());
  });
  Group *first = parts.front();
  for (Group *next : llvm::drop_begin(parts)) {
    joinPlaces(first->ops.front(), next->ops.front());
    for (Operation *op : next->ops) {
      groupOf[op] = first;
      first->ops.push_back(op);
    }
    next->ops.clear();
  }
  first->ops = ops;
  first->closed = true;
  first->reason =
      "copies of one tensor in 8 bits, and factors, share a pass over it";
  shareWidened(*first);
  return true;
}

/// Another group may have made a wide copy for each op that reads one: one is
/// enough.
void BlockFusion::shareWidened(Group &group) {
  llvm::SmallPtrSet<Operation *, 16> members(group.ops.begin(),
                                             group.ops.end());
  nn::CastOp first;
  llvm::SmallSetVector<nn::CastOp, 4> casts;
  for (Operation *op : group.ops)
    for (Value operand : op->getOperands())
      if (nn::CastOp cast = widened(operand);
          cast && !members.contains(cast) && producer(cast.getResult())) {
        casts.insert(cast);
        if (!first || cast->isBeforeInBlock(first))
          first = cast;
      }
  for (nn::CastOp cast : casts) {
    Group *own = groupOf.lookup(cast);
    if (cast == first || cast.getInput() != first.getInput() ||
        cast.getType() != first.getType() || !own || own->closed ||
        groupOf.lookup(first) != own)
      continue;
    SmallVector<Operation *> rest(own->ops);
    llvm::erase(rest, cast.getOperation());
    cast->replaceAllUsesWith(first);
    Group again;
    if (rest.size() > 1 && !refusal(rest, again).empty())
      continue; // It stays, and is not read.
    own->ops = rest;
    groupOf.erase(cast);
    infos.erase(cast);
    places[placeOf.at(cast)] = rest.front();
    placeOf.erase(cast);
    cast.erase();
  }
}

/// Whether the other groups are still kernels where `clone`, in `group`, stands
/// for `from`: what it reads must come out of theirs, which may not be of the
/// shape of what else they write, and what nobody reads any more does not.
bool BlockFusion::othersStay(const Group &group, Operation *from,
                             Operation *clone) {
  llvm::SmallSetVector<Group *, 4> touched;
  touched.insert(groupOf.lookup(from));
  for (Value operand : clone->getOperands())
    if (Operation *op = producer(operand))
      touched.insert(groupOf.lookup(op));
  for (Group *other : touched) {
    if (!other || other == &group)
      continue;
    SmallVector<Operation *> rest(other->ops);
    if (from->use_empty())
      llvm::erase(rest, from);
    if (other->closed) {
      if (rest.size() != other->ops.size() || resultsOf(rest).size() != 1)
        return false;
      continue;
    }
    Group again;
    if (rest.size() > 1 && !refusal(rest, again).empty())
      return false;
  }
  return true;
}

/// What is stored of a value that comes from 8 bits or fewer: the cast is done
/// again beside what reads it.
static Value payloadOf(Value value) {
  auto cast = value.getDefiningOp<nn::CastOp>();
  if (!cast)
    return value;
  Type from = cast.getInput().getType().getElementType();
  return isa<FloatType>(from) && from.getIntOrFloatBitWidth() <= 8
             ? Value(cast.getInput())
             : value;
}

/// Computes again what is cheap and made of what the group reads anyway, or of
/// less.
void BlockFusion::recompute(Group &group) {
  for (bool changed = true; changed && group.ops.size() < kMostOps;) {
    changed = false;
    llvm::SmallPtrSet<Operation *, 16> members(group.ops.begin(),
                                               group.ops.end());
    llvm::SetVector<Value> inputs;
    for (Operation *op : group.ops)
      for (Value operand : op->getOperands())
        if (!members.contains(operand.getDefiningOp()))
          inputs.insert(operand);
    for (Value input : inputs) {
      Operation *from = producer(input);
      if (!from || members.contains(from) || from->getNumResults() != 1 ||
          info(from).kind != Kind::Elementwise || info(from).costly ||
          !groupOf.contains(from))
        continue;
      int64_t more = 0;
      for (Value operand : from->getOperands())
        if (!inputs.contains(operand) &&
            !isa_and_nonnull<nn::ConstantOp>(operand.getDefiningOp()))
          more += bytesOf(payloadOf(operand));
      if (2 * more > bytesOf(input))
        continue;
      OpBuilder builder(from->getContext());
      builder.setInsertionPointAfter(from);
      Operation *clone = builder.clone(*from);
      infos[clone] = info(from);
      placeOf[clone] = placeOf.at(group.ops.front());
      for (OpOperand &use : llvm::make_early_inc_range(input.getUses()))
        if (members.contains(use.getOwner()))
          use.set(clone->getResult(0));
      SmallVector<Operation *> ops(group.ops);
      ops.push_back(clone);
      sort(ops);
      Group merged;
      if (refusal(ops, merged).empty() && othersStay(group, from, clone)) {
        group.ops = ops;
        groupOf[clone] = &group;
        changed = true;
        if (from->use_empty()) {
          SmallVectorImpl<Operation *> &rest = groupOf.lookup(from)->ops;
          llvm::erase(rest, from);
          groupOf.erase(from);
          infos.erase(from);
          places[placeOf.at(from)] = rest.empty() ? nullptr : rest.front();
          placeOf.erase(from);
          from->erase();
        }
        break;
      }
      clone->getResult(0).replaceAllUsesWith(input);
      infos.erase(clone);
      placeOf.erase(clone);
      clone->erase();
    }
  }
}

/// Views at the border of a group stay outside, where they cost nothing, unless
/// the group reads the same tensor without them, too.
void BlockFusion::trim(Group &group) {
  for (bool changed = true; changed;) {
    changed = false;
    llvm::SmallPtrSet<Operation *, 16> members(group.ops.begin(),
                                               group.ops.end());
    for (Operation *op : group.ops) {
      if (info(op).kind != Kind::View)
        continue;
      Operation *from = op->getOperand(0).getDefiningOp();
      bool first = !from || !members.contains(from);
      bool last = llvm::none_of(op->getUsers(), [&](Operation *user) {
        return members.contains(user);
      });
      if (!first && !last)
        continue;
      if (first &&
          llvm::any_of(op->getOperand(0).getUsers(), [&](Operation *user) {
            return user != op && members.contains(user);
          }))
        continue;
      // A whole tensor of which a part is read is not worth storing.
      if (!first &&
          elementsOf(op->getResult(0)) != elementsOf(op->getOperand(0)))
        continue;
      SmallVector<Operation *> rest(group.ops);
      llvm::erase(rest, op);
      Group merged;
      if (rest.empty() || !refusal(rest, merged).empty())
        continue;
      group.ops = rest;
      groupOf.erase(op);
      changed = true;
      break;
    }
  }
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

static StringRef nameOfFunction(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  return function ? function.getName() : StringRef();
}

/// Says of each two neighbours that are still apart why, and how many bytes
/// that costs.
void BlockFusion::reportRefusals() {
  llvm::DenseSet<std::pair<Operation *, Operation *>> said;
  for (const Refusal &refusal : refusals) {
    // An op may have found its way in by another one.
    Group *first = groupOf.lookup(refusal.first),
          *last = groupOf.lookup(refusal.last);
    if ((first && first == last) || !placeOf.contains(refusal.first) ||
        !placeOf.contains(refusal.last) ||
        !said.insert({refusal.first, refusal.last}).second)
      continue;
    std::string text = "not fused with " +
                       refusal.first->getName().getStringRef().str() + ": " +
                       refusal.why;
    if (refusal.bytes)
      text += "; " + std::to_string(refusal.bytes) +
              " bytes are stored and read again";
    Location loc = refusal.last->getLoc();
    auto remark =
        remark::missed(loc, remark::RemarkOpts::name("not-fused")
                                .category("fusion")
                                .function(nameOfFunction(refusal.last)));
    if (remark)
      remark << (refusal.last->getName().getStringRef().str() + " is " + text)
             << remark::metric("Bytes", refusal.bytes);
    if (print)
      emitRemark(loc, refusal.last->getName().getStringRef()) << " is " << text;
  }
}

void BlockFusion::report(nn::FusedOp fused, StringRef reason) {
  Block &body = fused.getBody().front();
  int64_t saved = 0, count = 0;
  llvm::SetVector<StringRef> names;
  for (Operation &op : body.without_terminator()) {
    if (isa<nn::ConstantOp>(op))
      continue;
    ++count;
    names.insert(op.getName().stripDialect());
    for (Value result : op.getResults()) {
      int64_t uses = 0;
      bool stored = false;
      for (Operation *user : result.getUsers())
        isa<nn::YieldOp>(user) ? stored = true : ++uses;
      saved += bytesOf(result) * (uses + !stored);
    }
  }
  std::string text = std::to_string(count) + " ops (" +
                     llvm::join(names, ", ") + ") in one kernel; " +
                     std::to_string(saved) +
                     " bytes are not stored and read again; " + reason.str();
  auto remark = remark::analysis(
      fused.getLoc(),
      remark::RemarkOpts::name("fused").category("fusion").function(
          nameOfFunction(fused)));
  if (remark)
    remark << text << remark::metric("Bytes", saved);
  if (print)
    fused.emitRemark(text);
}

nn::FusedOp BlockFusion::build(Group &group, OpBuilder &builder) {
  llvm::SmallPtrSet<Operation *, 16> members(group.ops.begin(),
                                             group.ops.end());
  llvm::SetVector<Value> inputs, constants;
  for (Operation *op : group.ops)
    for (Value operand : op->getOperands()) {
      if (members.contains(operand.getDefiningOp()))
        continue;
      (isa_and_nonnull<nn::ConstantOp>(operand.getDefiningOp()) ? constants
                                                                : inputs)
          .insert(operand);
    }
  SmallVector<Value> results = resultsOf(group.ops);
  SmallVector<Operation *> all;
  for (Value constant : constants)
    all.push_back(constant.getDefiningOp());
  llvm::append_range(all, group.ops);
  std::optional<cpu::GroupPlan> plan = cpu::planKernel(all, results);
  SmallVector<int64_t> pairs;
  if (plan)
    for (auto [input, result] : plan->inPlace)
      pairs.append(
          {std::distance(inputs.begin(), llvm::find(inputs, input)),
           std::distance(results.begin(), llvm::find(results, result))});

  Operation *last = group.ops.back();
  auto fused =
      nn::FusedOp::create(builder, last->getLoc(),
                          TypeRange(ValueRange(results)), inputs.getArrayRef(),
                          pairs.empty() ? DenseI64ArrayAttr()
                                        : builder.getDenseI64ArrayAttr(pairs));
  // The role of what it is for: not of the forward ops that are done again.
  for (Operation *op : llvm::reverse(group.ops))
    if (auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr)) {
      fused->setAttr(nn::kRoleAttr, role);
      if (role.getValue() != "forward")
        break;
    }
  Block *body = new Block;
  fused.getBody().push_back(body);
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
  OpBuilder inner = OpBuilder::atBlockEnd(body);
  for (Operation *op : all)
    inner.clone(*op, mapping)->removeAttr(nn::kRoleAttr);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(mapping.lookup(result));
  nn::YieldOp::create(inner, last->getLoc(), yielded);
  for (auto [value, result] : llvm::zip_equal(results, fused.getResults()))
    value.replaceAllUsesWith(result);
  return fused;
}

/// Writes the block anew, with each group where its last op was, or before the
/// first op that needs it.
void BlockFusion::build() {
  auto isFused = [&](Group *group) { return group && group->ops.size() > 1; };
  SmallVector<Operation *> order;
  for (Operation &op : block.without_terminator())
    order.push_back(&op);
  llvm::DenseSet<void *> done;
  SmallVector<std::pair<nn::FusedOp, StringRef>> made;
  OpBuilder builder(block.getTerminator());
  std::function<void(Operation *)> emit = [&](Operation *op) {
    Group *group = groupOf.lookup(op);
    void *unit = isFused(group) ? static_cast<void *>(group) : op;
    if (!done.insert(unit).second)
      return;
    SmallVector<Operation *> ops{op};
    if (isFused(group))
      ops = group->ops;
    if (Operation *before = saidBefore.lookup(op))
      emit(before);
    for (Operation *member : ops)
      member->walk([&](Operation *nested) {
        for (Value operand : nested->getOperands())
          if (Operation *from = operand.getDefiningOp())
            if (from->getBlock() == &block && !isa<nn::FusedOp>(from) &&
                !llvm::is_contained(ops, from))
              emit(from);
      });
    if (isFused(group))
      made.push_back({build(*group, builder), group->reason});
    else
      op->moveBefore(block.getTerminator());
  };
  for (Operation *op : order) {
    Group *group = groupOf.lookup(op);
    if (!isFused(group) || group->ops.back() == op)
      emit(op);
  }
  for (Operation *op : llvm::reverse(order))
    if (isFused(groupOf.lookup(op)))
      op->erase();
  for (auto [fused, reason] : made)
    report(fused, reason);
}

void BlockFusion::findSaid() {
  // exec::kPlaceAttr, whose dialect nothing else here needs.
  if (!block.getParentOp()->hasAttr("exec.place"))
    return;
  Operation *last = nullptr;
  for (Operation &op : block) {
    if (op.getName().getDialectNamespace() != "exec")
      continue;
    if (last) {
      nextSaid[last] = &op;
      saidBefore[&op] = last;
    }
    last = &op;
  }
}

void BlockFusion::run() {
  findSaid();
  for (Operation &op : block) {
    placeOf[&op] = places.size();
    places.push_back(&op);
  }
  seedGathers();
  seedColumns();
  for (Operation &op : block.without_terminator())
    joinProducers(&op);
  joinSiblings();
  for (size_t i = 0; i < groups.size(); ++i)
    if (!groups[i]->ops.empty() && !groups[i]->closed)
      recompute(*groups[i]);
  for (auto &group : groups)
    if (group->ops.size() > 1 && !group->closed)
      trim(*group);
  // Views at the border are gone, behind which loops would not be seen.
  joinQuantised();
  reportRefusals();
  build();
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<nn::ConstantOp>(op) && op.use_empty())
      op.erase();
}

namespace {
struct NNFuse : sheaf::impl::NNFuseBase<NNFuse> {
  using Base::Base;
  void runOnOperation() override {
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) {
      Operation *parent = block->getParentOp();
      if (isa<func::FuncOp, nn::MicrobatchesOp>(parent) && !block->empty())
        blocks.push_back(block);
    });
    for (Block *block : blocks)
      BlockFusion(*block, print).run();
  }
};
} // namespace
