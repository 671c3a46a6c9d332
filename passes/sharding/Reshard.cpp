//===- Reshard.cpp - Collectives from one sharding to another -------------===//

#include "passes/sharding/Padding.h"
#include "passes/sharding/Plan.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

AtomSet sharding::setOf(const ValueSharding &sharding) {
  AtomSet set = 0;
  for (const DimSharding &dim : sharding.dims)
    set |= setOf(dim.axes);
  return set;
}

ValueSharding sharding::without(ValueSharding sharding, AtomSet axes) {
  if (axes)
    for (DimSharding &dim : sharding.dims) {
      llvm::erase_if(dim.axes, [&](int atom) { return axes >> atom & 1; });
      if (dim.axes.empty())
        dim.blocks = 1;
    }
  return sharding;
}

namespace {
/// A move between two placements on dimensions that are cut where blocks are.
struct Expanded {
  std::vector<int64_t> shape;
  planner::State from, to;
  /// For each dimension of the tensor its blocks.
  SmallVector<int64_t> blocks;
};
} // namespace

/// Nothing where the blocks of the two sides differ.
static std::optional<Expanded>
expand(RankedTensorType type, const Placement &from, const Placement &to) {
  Expanded result;
  for (auto [size, a, b] :
       llvm::zip_equal(type.getShape(), from.sharding.dims, to.sharding.dims)) {
    int64_t blocks =
        a.axes.empty() ? (b.axes.empty() ? 1 : b.blocks) : a.blocks;
    if (!a.axes.empty() && !b.axes.empty() && !a.sameOrder(b))
      return std::nullopt;
    if (blocks > 1) {
      result.shape.push_back(blocks);
      result.from.dims.emplace_back();
      result.to.dims.emplace_back();
    }
    result.shape.push_back(size / blocks);
    result.from.dims.emplace_back(a.axes.begin(), a.axes.end());
    result.to.dims.emplace_back(b.axes.begin(), b.axes.end());
    result.blocks.push_back(blocks);
  }
  for (int atom : atomsIn(from.partial))
    result.from.partial.push_back(atom);
  for (int atom : atomsIn(to.partial))
    result.to.partial.push_back(atom);
  return result;
}

/// `from` without what is in the way of the blocks and the order of `to`.
static Placement between(const Placement &from, const Placement &to) {
  Placement middle = from;
  for (auto [a, b] : llvm::zip_equal(middle.sharding.dims, to.sharding.dims))
    if (!a.axes.empty() && !b.axes.empty() && !a.sameOrder(b))
      a = DimSharding();
  return middle;
}

namespace {
/// A move in which each dimension keeps its order: dimensions that have another
/// than the tensor's on one side are put into it while they are whole.
struct Ordered {
  RankedTensorType type;
  Placement from, to;
  /// By dimension: the order to put it into before the move, and behind it the
  /// one to take it out of; null where nothing is to be done.
  SmallVector<const DimSharding *> before, behind;
  bool isPlain = true;
};
} // namespace

/// Nothing where the two sides have one dimension in two orders.
static std::optional<Ordered>
inOrder(RankedTensorType type, const Placement &from, const Placement &to) {
  Ordered result{type, from, to, {}, {}};
  SmallVector<int64_t> shape(type.getShape());
  for (auto [size, a, b, plainA, plainB] :
       llvm::zip_equal(shape, from.sharding.dims, to.sharding.dims,
                       result.from.sharding.dims, result.to.sharding.dims)) {
    const DimSharding *&before = result.before.emplace_back(),
                      *&behind = result.behind.emplace_back();
    bool isA = a.zigzag && !a.axes.empty(), isB = b.zigzag && !b.axes.empty();
    if (!a.axes.empty() && !b.axes.empty() && !a.sameOrder(b))
      return std::nullopt;
    if (!isA && !isB)
      continue;
    result.isPlain = false;
    size = isA ? a.orderedSize(size) : b.orderedSize(size);
    before = isA ? nullptr : &b;
    behind = isB ? nullptr : &a;
    plainA.zigzag = plainB.zigzag = 0;
  }
  result.type = RankedTensorType::get(shape, type.getElementType());
  return result;
}

/// Puts dimension `dim`, which is whole, into an order, or out of it to
/// `size` elements. Behind the end there are zeros.
static Value reordered(OpBuilder &builder, Location loc, Value value,
                       int64_t dim, const DimSharding &order, int64_t size,
                       bool isOut, Attribute role) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t all = order.orderedSize(size);
  SmallVector<int32_t> places(isOut ? size : all);
  for (int64_t i = 0; i < all; ++i)
    if (int64_t place = order.placeOf(i, size); !isOut)
      places[i] = static_cast<int32_t>(place);
    else if (place < size)
      places[place] = static_cast<int32_t>(i);
  Value indices = nn::ConstantOp::create(
      builder, loc,
      cast<ElementsAttr>(DenseElementsAttr::get(
          RankedTensorType::get(static_cast<int64_t>(places.size()),
                                builder.getI32Type()),
          ArrayRef<int32_t>(places))));
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = static_cast<int64_t>(places.size());
  Value result = nn::GatherOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), value,
      indices, builder.getI64IntegerAttr(dim), builder.getI64IntegerAttr(0));
  // Partial values stay so.
  result.setType(
      RankedTensorType::get(shape, type.getElementType(), type.getEncoding()));
  if (role)
    for (Value made : {indices, result})
      made.getDefiningOp()->setAttr(nn::kRoleAttr, role);
  return result;
}

static int64_t bytesOf(Type element) {
  return (element.getIntOrFloatBitWidth() + 7) / 8;
}

double Resharder::cost(RankedTensorType type, const Placement &from,
                       const Placement &to) {
  if (std::optional<Ordered> ordered = inOrder(type, from, to);
      ordered && !ordered->isPlain)
    return cost(ordered->type, ordered->from, ordered->to);
  std::optional<Expanded> expanded = expand(type, from, to);
  if (!expanded) {
    Placement middle = between(from, to);
    return cost(type, from, middle) + cost(type, middle, to);
  }
  return mesh.planner
      .plan(expanded->shape, bytesOf(type.getElementType()), expanded->from,
            expanded->to)
      .cost;
}

RankedTensorType Resharder::localType(RankedTensorType type,
                                      const Placement &placement,
                                      dist::Reduction kind) {
  RankedTensorType local = mesh.localType(type, placement.sharding);
  if (!placement.partial)
    return local;
  return dist::withPartial(
      local,
      dist::PartialAttr::get(type.getContext(),
                             mesh.axesOf(atomsIn(placement.partial)), kind));
}

Value Resharder::convert(OpBuilder &builder, Location loc, Value local,
                         RankedTensorType type, const Placement &from,
                         const Placement &to, dist::Reduction kind,
                         DictionaryAttr reason, Attribute role) {
  if (from == to)
    return local;
  if (std::optional<Ordered> ordered = inOrder(type, from, to);
      ordered && !ordered->isPlain) {
    for (auto [d, order] : llvm::enumerate(ordered->before))
      if (order)
        local = reordered(builder, loc, local, d, *order, type.getDimSize(d),
                          /*isOut=*/false, role);
    local = convert(builder, loc, local, ordered->type, ordered->from,
                    ordered->to, kind, reason, role);
    for (auto [d, order] : llvm::enumerate(ordered->behind))
      if (order)
        local = reordered(builder, loc, local, d, *order, type.getDimSize(d),
                          /*isOut=*/true, role);
    return local;
  }
  std::optional<Expanded> expanded = expand(type, from, to);
  if (!expanded) {
    Placement middle = between(from, to);
    local =
        convert(builder, loc, local, type, from, middle, kind, reason, role);
    return convert(builder, loc, local, type, middle, to, kind, reason, role);
  }
  const planner::Plan &plan =
      mesh.planner.plan(expanded->shape, bytesOf(type.getElementType()),
                        expanded->from, expanded->to);
  auto typeOf = [&](const planner::State &state) {
    SmallVector<int64_t> shape;
    for (auto [size, axes] : llvm::zip_equal(expanded->shape, state.dims))
      shape.push_back(mesh.planner.localSize(size, axes));
    auto plain = RankedTensorType::get(shape, type.getElementType());
    if (state.partial.empty())
      return plain;
    return dist::withPartial(
        plain, dist::PartialAttr::get(type.getContext(),
                                      mesh.axesOf(state.partial), kind));
  };
  bool blocks = llvm::any_of(expanded->blocks, [](int64_t b) { return b > 1; });
  auto mark = [&](Operation *op, bool isCollective) {
    if (reason && isCollective)
      op->setAttr(dist::kReasonAttr, reason);
    if (role)
      op->setAttr(nn::kRoleAttr, role);
    return op->getResult(0);
  };
  if (blocks && !plan.moves.empty())
    local =
        mark(nn::ReshapeOp::create(builder, loc, typeOf(expanded->from), local),
             false);
  auto axesOf = [&](ArrayRef<int> atoms) {
    SmallVector<Attribute> list;
    for (dist::AxisAttr axis : mesh.axesOf(atoms))
      list.push_back(axis);
    return builder.getArrayAttr(list);
  };
  auto shardingAttr = [&](const planner::State &state) {
    ValueSharding sharding;
    for (auto &axes : state.dims)
      sharding.dims.push_back(
          {SmallVector<int, 2>(axes.begin(), axes.end()), 1});
    return mesh.print(sharding);
  };
  const planner::State *state = &expanded->from;
  for (const planner::Move &move : plan.moves) {
    RankedTensorType after = typeOf(move.after);
    Operation *op = nullptr;
    switch (move.kind) {
    case planner::MoveKind::AllGather:
      op = dist::AllGatherOp::create(builder, loc, after, local, move.dim,
                                     axesOf(move.axes));
      break;
    case planner::MoveKind::ReduceScatter:
      op = dist::ReduceScatterOp::create(builder, loc, after, kind, local,
                                         move.dim, axesOf(move.axes));
      break;
    case planner::MoveKind::AllReduce:
      op = dist::AllReduceOp::create(builder, loc, after, kind, local,
                                     axesOf(move.axes));
      break;
    case planner::MoveKind::AllToAll:
      op = dist::AllToAllOp::create(builder, loc, after, local, move.toDim,
                                    move.dim, axesOf(move.axes));
      break;
    case planner::MoveKind::Permute:
      op = dist::PermuteOp::create(builder, loc, after, local,
                                   shardingAttr(*state),
                                   shardingAttr(move.after));
      break;
    case planner::MoveKind::Slice:
      op = dist::SliceOp::create(builder, loc, after, local, move.dim,
                                 axesOf(move.axes));
      // Ops that read what is behind the end put there what they need.
      if (typeOf(*state).getDimSize(move.dim) % mesh.sizeOf(move.axes) != 0)
        op->setAttr(kAnyPaddingAttr, builder.getUnitAttr());
      break;
    case planner::MoveKind::MakePartial:
      op = dist::MakePartialOp::create(builder, loc, after, kind, local,
                                       axesOf(move.axes));
      break;
    }
    local = mark(op, isa<dist::CollectiveOpInterface>(op));
    state = &move.after;
  }
  RankedTensorType wanted = localType(type, to, kind);
  if (local.getType() != wanted)
    local = mark(nn::ReshapeOp::create(builder, loc, wanted, local), false);
  return local;
}
