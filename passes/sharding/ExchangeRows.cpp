//===- ExchangeRows.cpp - Send the rows of experts by count ---------------===//

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/sharding/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sheaf {
#define GEN_PASS_DEF_DISTEXCHANGEROWS
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
/// Ops that are inserted for another have its role.
struct Roles : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) final {
    if (role)
      op->setAttr(nn::kRoleAttr, role);
  }
  Attribute role;
};

/// Moves of whole blocks: along the parts and the samples.
bool movesBlocks(Operation *op) {
  auto isFront = [](int64_t dim) { return dim < 2; };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<dist::SliceOp, dist::AllGatherOp>(
          [&](auto move) { return isFront(move.getDim()); })
      .Case([&](dist::AllToAllOp move) {
        return isFront(move.getSplit()) && isFront(move.getConcat());
      })
      .Default([](Operation *) { return false; });
}

/// The type of the counts of blocks of rows.
RankedTensorType countsOf(Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  return RankedTensorType::get(type.getShape().take_front(2),
                               IntegerType::get(type.getContext(), 32));
}

class Rewriter {
public:
  explicit Rewriter(dist::MeshOp mesh)
      : mesh(mesh), builder(mesh.getContext(), &roles) {}

  /// What is sent is in the order of experts here: the counts go where the rows
  /// go.
  LogicalResult run(nn::BucketOp bucket) {
    Value rows = bucket.getResult();
    if (!reachesExchange(rows))
      return success();
    roles.role = bucket->getAttr(nn::kRoleAttr);
    builder.setInsertionPointAfter(bucket);
    return follow(rows, count(bucket.getLoc(), bucket.getOffsets(), rows));
  }

  /// What comes will be in the order of experts here: the counts go where the
  /// rows come from.
  LogicalResult run(nn::UnbucketOp unbucket) {
    SmallVector<Operation *> moves; // the last first
    bool any = false;
    for (Operation *op = unbucket.getRows().getDefiningOp();
         op && movesBlocks(op); op = op->getOperand(0).getDefiningOp()) {
      moves.push_back(op);
      any |= isa<dist::AllToAllOp>(op);
    }
    if (!any)
      return success();
    // The offsets may be there later than the rows.
    Operation *next = unbucket;
    for (Operation *op : moves) {
      if (!op->hasOneUse())
        break;
      op->moveBefore(next);
      next = op;
    }
    Operation *offsets = unbucket.getOffsets().getDefiningOp();
    if (offsets && offsets->getBlock() == unbucket->getBlock() &&
        !offsets->isBeforeInBlock(moves.back()))
      return moves.back()->emitOpError(
          "moves rows for several readers before their offsets are there, so "
          "that they cannot be sent by count");
    roles.role = unbucket->getAttr(nn::kRoleAttr);
    builder.setInsertionPoint(moves.back());
    Value counts =
        count(unbucket.getLoc(), unbucket.getOffsets(), unbucket.getRows());
    Operation *first = moves.back();
    for (Operation *op : moves) {
      builder.setInsertionPoint(first);
      Value before = move(op, counts, /*back=*/true);
      if (auto exchange = dyn_cast<dist::AllToAllOp>(op))
        if (failed(replace(exchange, before, counts)))
          return failure();
      counts = before;
    }
    return success();
  }

private:
  dist::MeshOp mesh;
  Roles roles;
  OpBuilder builder;
  /// The counts by offsets, parts and most rows; and all moves of counts: what
  /// goes to the experts and what comes back have the same.
  llvm::DenseMap<std::tuple<Value, int64_t, int64_t>, Value> known;
  SmallVector<Operation *> moved;

  /// Whether `op` stands in front of the place where ops are inserted.
  bool isHere(Operation *op) {
    Block *block = builder.getInsertionBlock();
    auto place = builder.getInsertionPoint();
    return op->getBlock() == block &&
           (place == block->end() || op->isBeforeInBlock(&*place));
  }

  static bool reachesExchange(Value rows) {
    return llvm::any_of(rows.getUsers(), [](Operation *user) {
      return movesBlocks(user) && (isa<dist::AllToAllOp>(user) ||
                                   reachesExchange(user->getResult(0)));
    });
  }

  /// How many rows each part has of each sample, [P, B]: at most those of a
  /// block of `rows`, by the offsets of experts, [B, E + 1].
  Value count(Location loc, Value offsets, Value rows) {
    ArrayRef<int64_t> shape =
                          cast<RankedTensorType>(offsets.getType()).getShape(),
                      blocks =
                          cast<RankedTensorType>(rows.getType()).getShape();
    int64_t parts = blocks[0], step = (shape[1] - 1) / parts;
    Value &counts = known[{offsets, parts, blocks[2]}];
    if (counts && isHere(counts.getDefiningOp()))
      return counts;
    nn::Emit emit(builder, loc);
    auto from = [&](int64_t first) -> Value {
      return emit.make<nn::SliceOp>(
          offsets, builder.getDenseI64ArrayAttr({0, first}),
          builder.getDenseI64ArrayAttr({shape[0], parts}),
          builder.getDenseI64ArrayAttr({1, step}));
    };
    Value end = from(step), begin = from(0);
    Value each = emit.sub(end, begin);
    each = emit.make<nn::MinOp>(
        each, emit.scalar(each, static_cast<double>(blocks[2])));
    counts = emit.make<nn::TransposeOp>(each, ArrayRef<int64_t>{1, 0});
    return counts;
  }
  /// The counts behind a move of rows, or (`back`) those in front of it, of
  /// which `counts` are behind.
  Value move(Operation *op, Value counts, bool back) {
    Location loc = op->getLoc();
    RankedTensorType type =
        countsOf(back ? op->getOperand(0) : op->getResult(0));
    Operation *made =
        llvm::TypeSwitch<Operation *, Operation *>(op)
            .Case([&](dist::AllToAllOp all) -> Operation * {
              return dist::AllToAllOp::create(
                  builder, loc, type, counts,
                  back ? all.getConcat() : all.getSplit(),
                  back ? all.getSplit() : all.getConcat(), all.getAxes());
            })
            .Case<dist::SliceOp, dist::AllGatherOp>(
                [&](auto one) -> Operation * {
                  if (isa<dist::SliceOp>(op) != back)
                    return dist::SliceOp::create(builder, loc, type, counts,
                                                 one.getDim(), one.getAxes());
                  return dist::AllGatherOp::create(builder, loc, type, counts,
                                                   one.getDim(), one.getAxes());
                });
    for (Operation *other : moved)
      if (isHere(other) &&
          OperationEquivalence::isEquivalentTo(
              other, made,
              OperationEquivalence::IgnoreLocations |
                  OperationEquivalence::IgnoreDiscardableAttrs)) {
        made->erase();
        return other->getResult(0);
      }
    moved.push_back(made);
    if (isa<dist::CollectiveOpInterface>(made))
      explain(made, op, "how many rows there are, sent first");
    return made->getResult(0);
  }

  /// Gives `op` the reason of `from`, with more to it.
  void explain(Operation *op, Operation *from, StringRef text) {
    NamedAttrList fields;
    if (auto reason = from->getAttrOfType<DictionaryAttr>(dist::kReasonAttr))
      fields = NamedAttrList(reason);
    else
      fields.set("kind", builder.getStringAttr("annotation"));
    auto old = dyn_cast_or_null<StringAttr>(fields.get("text"));
    std::string all = old ? old.getValue().str() + "; " : "";
    fields.set("text", builder.getStringAttr(all + text.str()));
    op->setAttr(dist::kReasonAttr, fields.getDictionary(op->getContext()));
  }

  LogicalResult follow(Value rows, Value counts) {
    for (Operation *user : llvm::to_vector(rows.getUsers())) {
      if (!movesBlocks(user) ||
          !(isa<dist::AllToAllOp>(user) || reachesExchange(user->getResult(0))))
        continue;
      builder.setInsertionPoint(user);
      Value next = move(user, counts, /*back=*/false);
      Value result = user->getResult(0);
      if (auto exchange = dyn_cast<dist::AllToAllOp>(user)) {
        FailureOr<Value> made = replace(exchange, counts, next);
        if (failed(made))
          return failure();
        result = *made;
      }
      if (reachesExchange(result) && failed(follow(result, next)))
        return failure();
    }
    return success();
  }

  FailureOr<Value> replace(dist::AllToAllOp exchange, Value sent,
                           Value received) {
    auto from = cast<RankedTensorType>(exchange.getInput().getType()),
         to = cast<RankedTensorType>(exchange.getType());
    int64_t group = mesh.getSize(exchange.getGroupAxes()),
            split = exchange.getSplit(), concat = exchange.getConcat();
    if (from.getDimSize(split) != to.getDimSize(split) * group ||
        to.getDimSize(concat) != from.getDimSize(concat) * group)
      return exchange.emitOpError("moves rows of ")
             << from << " to " << to << " among " << group
             << " devices with padding, which is not sent by count; expected a "
                "batch that dp and the microbatches divide";
    builder.setInsertionPoint(exchange);
    auto made = dist::ExchangeRowsOp::create(
        builder, exchange.getLoc(), to, exchange.getInput(), sent, received,
        split, concat, exchange.getAxes());
    made->setDiscardableAttrs(exchange->getDiscardableAttrDictionary());
    explain(made, exchange, "only rows that are there, at most these bytes");
    exchange.getResult().replaceAllUsesWith(made.getResult());
    exchange.erase();
    return Value(made.getResult());
  }
};

struct DistExchangeRows : sheaf::impl::DistExchangeRowsBase<DistExchangeRows> {
  using DistExchangeRowsBase::DistExchangeRowsBase;

  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (!mesh)
      return;
    Rewriter rewriter(mesh);
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<nn::BucketOp, nn::UnbucketOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      auto bucket = dyn_cast<nn::BucketOp>(op);
      if (failed(bucket ? rewriter.run(bucket)
                        : rewriter.run(cast<nn::UnbucketOp>(op))))
        return signalPassFailure();
    }
  }
};
} // namespace
