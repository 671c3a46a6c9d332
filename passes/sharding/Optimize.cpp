//===- Optimize.cpp - Send less, and less often
//----------------------------===//
//
// Works on the program of one device, where every collective is an op that can
// be seen. What only moves elements (a gather, an exchange) trades places with
// casts and slices; equal collectives become one; gradients that are reduced
// one after another are reduced together.
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/sharding/Explain.h"
#include "passes/sharding/Padding.h"
#include "passes/sharding/Parts.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Shardings.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace sheaf {
#define GEN_PASS_DEF_DISTOPTIMIZE
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t bytesOf(Type element) {
  return (element.getIntOrFloatBitWidth() + 7) / 8;
}

/// The type with another element type; encodings stay.
static RankedTensorType withElement(RankedTensorType type, Type element) {
  return RankedTensorType::get(type.getShape(), element, type.getEncoding());
}

/// Adds to what a collective says of itself.
static void note(Operation *op, const Twine &text) {
  auto reason = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr);
  if (!reason)
    return;
  NamedAttrList fields(reason);
  auto old = dyn_cast_or_null<StringAttr>(fields.get("text"));
  fields.set("text", StringAttr::get(op->getContext(),
                                     (old ? old.getValue() : StringRef()) +
                                         "; " + text));
  op->setAttr(dist::kReasonAttr, fields.getDictionary(op->getContext()));
}

/// What asked for any of `ops` asked for the one that does the work of all: its
/// reason has the annotations of all of theirs. `params` are what it is for.
static void joinReasons(Operation *to, ArrayRef<Operation *> ops,
                        ArrayRef<StringRef> params = {}) {
  NamedAttrList fields;
  llvm::SetVector<Attribute> annotations;
  for (Operation *op : ops) {
    auto reason = op->getAttrOfType<DictionaryAttr>(dist::kReasonAttr);
    if (!reason)
      continue;
    if (fields.empty())
      fields = NamedAttrList(reason);
    if (auto list = reason.getAs<ArrayAttr>("annotations"))
      annotations.insert_range(list);
  }
  Builder builder(to->getContext());
  if (!annotations.empty())
    fields.set("annotations", builder.getArrayAttr(annotations.getArrayRef()));
  if (!params.empty())
    fields.set("params", builder.getStrArrayAttr(params));
  if (!fields.empty())
    to->setAttr(dist::kReasonAttr, fields.getDictionary(to->getContext()));
}

/// Whether a collective only moves elements: what happens to each of them alone
/// may happen before or behind it.
static bool isMove(Operation *op) {
  return op && isa<dist::AllGatherOp, dist::AllToAllOp, dist::PermuteOp,
                   dist::ShiftOp, dist::BroadcastOp>(op);
}

/// Ops without communication that move elements.
static bool isLocalMove(Operation *op) {
  return op && isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp>(op);
}

/// The op with one operand again, on another operand and with another result.
static Operation *rebuild(PatternRewriter &rewriter, Operation *op,
                          Value operand, RankedTensorType result) {
  Operation *copy = op->cloneWithoutRegions();
  copy->setOperands(operand);
  copy->getResult(0).setType(result);
  return rewriter.insert(copy);
}

/// Gives what is built the role of an op.
static void takeRole(Operation *to, Operation *from) {
  if (Attribute role = from->getAttr(nn::kRoleAttr))
    to->setAttr(nn::kRoleAttr, role);
}

namespace {
//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

/// cast(move(x)) to fewer bytes becomes move(cast(x)), reshapes and slices
/// between them included.
struct NarrowBeforeMove : OpRewritePattern<nn::CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::CastOp cast,
                                PatternRewriter &rewriter) const final {
    Type element = typeOf(cast).getElementType();
    if (!cast.isPlain())
      return rewriter.notifyMatchFailure(cast, "has a rounding of its own");
    if (bytesOf(element) >= bytesOf(typeOf(cast.getInput()).getElementType()))
      return rewriter.notifyMatchFailure(cast, "is not narrowing");
    SmallVector<Operation *> chain;
    Operation *op = cast.getInput().getDefiningOp();
    while (isLocalMove(op) && op->hasOneUse()) {
      chain.push_back(op);
      op = op->getOperand(0).getDefiningOp();
    }
    if (!isMove(op) || dist::getPartial(op->getOperand(0).getType()))
      return rewriter.notifyMatchFailure(
          cast, "is not of what a collective moved and nothing else reads");
    // Of several uses every one must be this cast.
    if (!op->hasOneUse() &&
        !(chain.empty() && llvm::all_of(op->getUsers(), [&](Operation *user) {
            auto other = dyn_cast<nn::CastOp>(user);
            return other && other.isPlain() &&
                   other.getType() == cast.getType();
          })))
      return rewriter.notifyMatchFailure(
          cast, "the value before the cast has other uses");

    rewriter.setInsertionPoint(op);
    auto narrow = nn::CastOp::create(
        rewriter, cast.getLoc(),
        withElement(typeOf(op->getOperand(0)), element), op->getOperand(0));
    takeRole(narrow, cast);
    Operation *moved = rebuild(rewriter, op, narrow,
                               withElement(typeOf(op->getResult(0)), element));
    std::string name;
    llvm::raw_string_ostream(name) << element;
    note(moved, "sent as " + name + ", cast before");
    Value value = moved->getResult(0);
    for (Operation *between : llvm::reverse(chain)) {
      rewriter.setInsertionPoint(between);
      value = rebuild(rewriter, between, value,
                      withElement(typeOf(between->getResult(0)), element))
                  ->getResult(0);
    }
    if (chain.empty())
      for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
        rewriter.replaceOp(user, value);
    else
      rewriter.replaceOp(cast, value);
    for (Operation *between : chain)
      rewriter.eraseOp(between);
    rewriter.eraseOp(op);
    return success();
  }
};

/// move(cast(x)) to more bytes becomes cast(move(x)).
struct MoveBeforeWiden : RewritePattern {
  explicit MoveBeforeWiden(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const final {
    if (!isMove(op))
      return failure();
    SmallVector<Operation *> chain;
    Operation *from = op->getOperand(0).getDefiningOp();
    while (isLocalMove(from) && from->hasOneUse()) {
      chain.push_back(from);
      from = from->getOperand(0).getDefiningOp();
    }
    auto cast = dyn_cast_or_null<nn::CastOp>(from);
    if (!cast || !cast.isPlain() || dist::getPartial(cast.getType()))
      return rewriter.notifyMatchFailure(op, "does not move what was cast");
    Type element = typeOf(cast.getInput()).getElementType();
    if (bytesOf(element) >= bytesOf(typeOf(cast).getElementType()))
      return rewriter.notifyMatchFailure(op, "the cast is not widening");

    Value value = cast.getInput();
    for (Operation *between : llvm::reverse(chain)) {
      rewriter.setInsertionPoint(between);
      value = rebuild(rewriter, between, value,
                      withElement(typeOf(between->getResult(0)), element))
                  ->getResult(0);
    }
    rewriter.setInsertionPoint(op);
    Operation *moved = rebuild(rewriter, op, value,
                               withElement(typeOf(op->getResult(0)), element));
    std::string name;
    llvm::raw_string_ostream(name) << element;
    note(moved, "sent as " + name + ", cast behind");
    auto wide = nn::CastOp::create(
        rewriter, cast.getLoc(), typeOf(op->getResult(0)), moved->getResult(0));
    takeRole(wide, cast);
    rewriter.replaceOp(op, wide);
    for (Operation *between : chain)
      rewriter.eraseOp(between);
    if (cast.use_empty())
      rewriter.eraseOp(cast);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// A gather of a shard and then a slice of the same shard: what both have in
/// common goes away. The outermost axes of both must be the same.
struct SliceOfGather : OpRewritePattern<dist::SliceOp> {
  SliceOfGather(MLIRContext *context, const MeshInfo &mesh)
      : OpRewritePattern(context), mesh(mesh) {}
  const MeshInfo &mesh;

  SmallVector<int> atomsOf(ArrayAttr axes) const {
    SmallVector<int> atoms;
    for (auto axis : axes.getAsRange<dist::AxisAttr>())
      llvm::append_range(atoms, mesh.atomsOf(axis));
    return atoms;
  }
  ArrayAttr axesOf(OpBuilder &builder, ArrayRef<int> atoms) const {
    SmallVector<Attribute> list;
    for (dist::AxisAttr axis : mesh.axesOf(atoms))
      list.push_back(axis);
    return builder.getArrayAttr(list);
  }

  LogicalResult matchAndRewrite(dist::SliceOp slice,
                                PatternRewriter &rewriter) const final {
    auto gather = slice.getInput().getDefiningOp<dist::AllGatherOp>();
    if (!gather)
      return rewriter.notifyMatchFailure(slice, "is not of a gather");
    SmallVector<int> gathered = atomsOf(gather.getAxes()),
                     cut = atomsOf(slice.getAxes());
    Value input = gather.getInput();
    if (slice.getDim() != gather.getDim()) {
      // Cut what is sent.
      if (!gather->hasOneUse() || llvm::any_of(cut, [&](int atom) {
            return llvm::is_contained(gathered, atom);
          }))
        return rewriter.notifyMatchFailure(
            slice, "the gather along another dimension has other uses");
      rewriter.setInsertionPoint(gather);
      SmallVector<int64_t> shape(typeOf(input).getShape());
      shape[slice.getDim()] = slice.getType().getDimSize(slice.getDim());
      Operation *first =
          rebuild(rewriter, slice, input, withShape(typeOf(input), shape));
      Operation *second = rebuild(rewriter, gather, first->getResult(0),
                                  cast<RankedTensorType>(slice.getType()));
      rewriter.replaceOp(slice, second->getResult(0));
      rewriter.eraseOp(gather);
      return success();
    }
    size_t common = 0;
    while (common < std::min(gathered.size(), cut.size()) &&
           gathered[common] == cut[common])
      ++common;
    auto left = ArrayRef(gathered).drop_front(common),
         add = ArrayRef(cut).drop_front(common);
    if (common == 0 || (!left.empty() && !add.empty()))
      return rewriter.notifyMatchFailure(slice, "is of other shards");
    if (!left.empty() && !gather->hasOneUse())
      return rewriter.notifyMatchFailure(slice, "the gather has other uses");
    int64_t size = gather.getType().getDimSize(gather.getDim());
    // Behind the end a shard may hold anything, a slice holds zeros, unless
    // nobody reads them.
    if (size % mesh.sizeOf(left.empty() ? ArrayRef<int>(cut)
                                        : ArrayRef<int>(gathered)) !=
            0 &&
        !slice->hasAttr(kAnyPaddingAttr))
      return rewriter.notifyMatchFailure(slice,
                                         "zeros behind the end are read");
    // With padding the small shards of a large one may not be those of the
    // whole.
    int64_t had = typeOf(input).getDimSize(gather.getDim()),
            keeps = slice.getType().getDimSize(slice.getDim());
    if (std::max(had, keeps) !=
        std::min(had, keeps) * mesh.sizeOf(left.empty() ? add : left))
      return rewriter.notifyMatchFailure(slice, "shards end elsewhere");
    Value value = input;
    rewriter.setInsertionPoint(slice);
    if (!left.empty()) {
      Operation *rest = rebuild(rewriter, gather, input,
                                cast<RankedTensorType>(slice.getType()));
      rest->setAttr("axes", axesOf(rewriter, left));
      note(rest, "over " + Twine(mesh.sizeOf(left)) +
                     " devices of it, as no more is used");
      value = rest->getResult(0);
    } else if (!add.empty()) {
      Operation *rest = rebuild(rewriter, slice, input,
                                cast<RankedTensorType>(slice.getType()));
      rest->setAttr("axes", axesOf(rewriter, add));
      value = rest->getResult(0);
    }
    if (value.getType() != slice.getType())
      return rewriter.notifyMatchFailure(slice, "shards differ in shape");
    rewriter.replaceOp(slice, value);
    if (gather.use_empty())
      rewriter.eraseOp(gather);
    return success();
  }
};

/// Whether all of what reads `value` are slices that leave dimension `dim`
/// whole and together read less than all.
bool readsLess(Value value, int64_t dim) {
  int64_t read = 0;
  for (Operation *user : value.getUsers()) {
    auto slice = dyn_cast<nn::SliceOp>(user);
    if (!slice || slice.getSizes()[dim] != typeOf(value).getDimSize(dim))
      return false;
    read += slice.getType().getNumElements();
  }
  return !value.use_empty() && read < typeOf(value).getNumElements();
}

/// Of a gathered value only slices are used: they are gathered.
struct GatherOfSlice : OpRewritePattern<dist::AllGatherOp> {
  GatherOfSlice(MLIRContext *context, const MeshInfo &mesh)
      : OpRewritePattern(context), mesh(mesh) {}
  const MeshInfo &mesh;

  LogicalResult matchAndRewrite(dist::AllGatherOp gather,
                                PatternRewriter &rewriter) const final {
    int64_t dim = gather.getDim();
    Value input = gather.getInput();
    if (gather->hasOneUse())
      if (auto reshape = dyn_cast<nn::ReshapeOp>(*gather->user_begin()))
        return throughReshape(gather, reshape, rewriter);
    if (succeeded(fromOneShard(gather, rewriter)))
      return success();
    if (!readsLess(gather, dim))
      return rewriter.notifyMatchFailure(
          gather, "not only slices use it, or they use all of it");
    for (Operation *user : llvm::make_early_inc_range(gather->getUsers())) {
      auto slice = cast<nn::SliceOp>(user);
      rewriter.setInsertionPoint(slice);
      SmallVector<int64_t> sizes(slice.getSizes());
      sizes[dim] = typeOf(input).getDimSize(dim);
      auto *local =
          rebuild(rewriter, slice, input, withShape(typeOf(input), sizes));
      cast<nn::SliceOp>(local).setSizes(sizes);
      Operation *part = rebuild(rewriter, gather, local->getResult(0),
                                cast<RankedTensorType>(slice.getType()));
      note(part, "of the part that is used");
      rewriter.replaceOp(slice, part->getResult(0));
    }
    rewriter.eraseOp(gather);
    return success();
  }

  /// Of a value in shards along `dim` only parts of single shards are used, as
  /// of the stacked weights of all layers one layer: the device that has it
  /// sends it, where that takes less time than the gather. In a loop, where
  /// the whole would be held beside every microbatch's activations, also
  /// where it takes more, as long as no element is sent twice.
  LogicalResult fromOneShard(dist::AllGatherOp gather,
                             PatternRewriter &rewriter) const {
    int64_t dim = gather.getDim();
    Value input = gather.getInput();
    std::vector<int> atoms;
    for (dist::AxisAttr axis : gather.getGroupAxes())
      llvm::append_range(atoms, mesh.atomsOf(axis));
    // Each slice is sent by a collective of its own, which takes as many steps
    // as the gather.
    auto seconds = [&](double bytes) {
      return mesh.planner.seconds(planner::MoveKind::AllGather, atoms, bytes);
    };
    double apart = 0;
    int64_t read = 0, part = typeOf(input).getDimSize(dim);
    for (Operation *user : gather->getUsers()) {
      auto slice = dyn_cast<nn::SliceOp>(user);
      if (!slice)
        return failure();
      int64_t first = slice.getOffsets()[dim],
              last = first +
                     (slice.getSizes()[dim] - 1) * slice.getAllStrides()[dim];
      if (first / part != last / part)
        return failure();
      read += slice.getType().getNumElements();
      apart += seconds(double(slice.getType().getNumElements()) *
                       bytesOf(slice.getType().getElementType()));
    }
    bool savesMemory = gather->getParentOfType<nn::MicrobatchesOp>() &&
                       read <= typeOf(gather.getResult()).getNumElements();
    if (gather.use_empty() ||
        (!savesMemory && apart >= seconds(bytesSent(gather, mesh.op))))
      return rewriter.notifyMatchFailure(
          gather, "to send each part by itself takes no less time");
    for (Operation *user : llvm::make_early_inc_range(gather->getUsers())) {
      auto slice = cast<nn::SliceOp>(user);
      rewriter.setInsertionPoint(slice);
      SmallVector<int64_t> offsets(slice.getOffsets());
      int64_t root = offsets[dim] / part;
      offsets[dim] -= root * part;
      auto *local = rebuild(rewriter, slice, input,
                            cast<RankedTensorType>(slice.getType()));
      cast<nn::SliceOp>(local).setOffsets(offsets);
      auto sent = dist::BroadcastOp::create(
          rewriter, gather.getLoc(), slice.getType(), local->getResult(0), root,
          gather.getAxes());
      sent->setDiscardableAttrs(gather->getDiscardableAttrDictionary());
      note(sent, "the part that is used, by the device that has it");
      rewriter.replaceOp(slice, sent);
    }
    rewriter.eraseOp(gather);
    return success();
  }

  /// reshape(gather(x)) becomes gather(reshape(x)) where slices read less of
  /// it.
  static LogicalResult throughReshape(dist::AllGatherOp gather,
                                      nn::ReshapeOp reshape,
                                      PatternRewriter &rewriter) {
    RankedTensorType from = typeOf(gather), to = typeOf(reshape),
                     part = typeOf(gather.getInput());
    int64_t dim = gather.getDim();
    if (from.getDimSize(dim) % part.getDimSize(dim) != 0)
      return rewriter.notifyMatchFailure(gather, "shards are padded");
    int64_t devices = from.getDimSize(dim) / part.getDimSize(dim), before = 1;
    for (int64_t size : from.getShape().take_front(dim))
      before *= size;
    // The dimension of the result that begins where the gathered one does.
    int64_t place = 0;
    for (int64_t product = 1; place < to.getRank(); ++place) {
      if (product == before && to.getDimSize(place) != 1)
        break;
      product *= to.getDimSize(place);
      if (product > before)
        return rewriter.notifyMatchFailure(
            gather, "the reshape mixes the gathered dimension with others");
    }
    if (place == to.getRank() || to.getDimSize(place) % devices != 0 ||
        !readsLess(reshape, place))
      return rewriter.notifyMatchFailure(
          gather, "slices behind the reshape do not leave shards whole");
    SmallVector<int64_t> shape(to.getShape());
    shape[place] /= devices;
    rewriter.setInsertionPoint(reshape);
    Operation *local =
        rebuild(rewriter, reshape, gather.getInput(), withShape(part, shape));
    Operation *whole = rebuild(rewriter, gather, local->getResult(0), to);
    cast<dist::AllGatherOp>(whole).setDim(place);
    rewriter.replaceOp(reshape, whole->getResult(0));
    rewriter.eraseOp(gather);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Equal collectives
//===----------------------------------------------------------------------===//

/// Forward and backward do not share: what the forward gathered would have to
/// be kept until then.
StringRef phaseOf(Operation *op) {
  auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
  if (!role || role == "forward")
    return "forward";
  return role == "optimizer" ? "optimizer" : "backward";
}

/// In a block the second of two equal collectives of one phase takes the
/// first's result.
void mergeEqual(Block &block) {
  using Key = std::tuple<const void *, const void *, const void *, const void *,
                         std::string>;
  std::map<Key, Operation *> known;
  llvm::MapVector<Operation *, int> shared;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        mergeEqual(inner);
    if (!isa<dist::CollectiveOpInterface>(op))
      continue;
    NamedAttrList attributes(op.getAttrDictionary());
    attributes.erase(dist::kReasonAttr);
    attributes.erase(nn::kRoleAttr);
    Key key{op.getName().getAsOpaquePointer(),
            op.getOperand(0).getAsOpaquePointer(),
            op.getResult(0).getType().getAsOpaquePointer(),
            attributes.getDictionary(op.getContext()).getAsOpaquePointer(),
            phaseOf(&op).str()};
    auto [it, isNew] = known.try_emplace(key, &op);
    if (isNew)
      continue;
    op.getResult(0).replaceAllUsesWith(it->second->getResult(0));
    joinReasons(it->second, {it->second, &op});
    op.erase();
    ++shared.insert({it->second, 1}).first->second;
  }
  for (auto [op, uses] : shared)
    note(op, "shared by " + Twine(uses) + " uses");
}

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

/// Collects reductions of gradients: those of one kind, over the same axes and
/// of one element type that follow one another in a block become one on a flat
/// tensor. Each element is added in the same order as before.
class Buckets {
public:
  Buckets(dist::MeshOp mesh, int64_t limit) : mesh(mesh), limit(limit) {}

  void run(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          Buckets(mesh, limit).run(inner);
      closeReadBy(&op);
      if (isGradient(&op))
        add(&op);
    }
    while (!open.empty())
      close(0);
  }

private:
  struct Bucket {
    /// The op, its reduction and axes, the element types with what is partial
    /// before and behind it.
    SmallVector<const void *> key;
    SmallVector<Operation *> members;
    /// What reads results of members and can wait.
    llvm::SetVector<Operation *> waiting;
    int64_t bytes = 0;
  };
  dist::MeshOp mesh;
  int64_t limit;
  SmallVector<Bucket> open;

  static bool isGradient(Operation *op) {
    auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
    return isa<dist::AllReduceOp, dist::ReduceScatterOp>(op) && role &&
           role == "weight_gradient" && typeOf(op->getOperand(0)).getRank() > 0;
  }

  int64_t limitFor(dist::CollectiveOpInterface op) {
    if (limit >= 0)
      return limit;
    // As large as takes 32 times the latency of the slowest link: the latency
    // is then a thirtieth of the cost.
    double bytes = 0;
    for (dist::AxisAttr axis : op.getGroupAxes()) {
      dist::LinkSpeed speed = dist::getLinkSpeed(mesh.lookup(axis.getName()));
      bytes = std::max(bytes, 32 * speed.latency * speed.bandwidth);
    }
    return static_cast<int64_t>(bytes);
  }

  /// Elements that are reduced, padding included.
  int64_t elementsOf(Operation *op) {
    if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op))
      return scatter.getType().getNumElements() *
             mesh.getSize(scatter.getGroupAxes());
    return typeOf(op->getResult(0)).getNumElements();
  }

  bool isReadBy(const Bucket &bucket, Operation *op) {
    return op
        ->walk([&](Operation *inner) {
          for (Value operand : inner->getOperands())
            if (Operation *from = operand.getDefiningOp();
                from && (llvm::is_contained(bucket.members, from) ||
                         bucket.waiting.contains(from)))
              return WalkResult::interrupt();
          return WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// Closes the buckets whose results an op reads. A plain op waits with the
  /// last one that it reads.
  void closeReadBy(Operation *op) {
    bool mayWait = op->getNumRegions() == 0 && isPure(op) &&
                   isa<nn::NNDialect>(op->getDialect()) &&
                   !op->hasTrait<OpTrait::IsTerminator>();
    for (size_t i = open.size(); i-- > 0;) {
      if (!isReadBy(open[i], op))
        continue;
      if (mayWait)
        open[i].waiting.insert(op);
      else
        close(i);
      mayWait = false;
    }
  }

  void add(Operation *op) {
    auto collective = cast<dist::CollectiveOpInterface>(op);
    RankedTensorType type = typeOf(op->getOperand(0));
    int64_t bytes = elementsOf(op) * bytesOf(type.getElementType());
    SmallVector<const void *> key{
        op->getName().getAsOpaquePointer(),
        op->getAttr("kind").getAsOpaquePointer(),
        op->getAttr("axes").getAsOpaquePointer(),
        type.getElementType().getAsOpaquePointer(),
        type.getEncoding().getAsOpaquePointer(),
        typeOf(op->getResult(0)).getEncoding().getAsOpaquePointer()};
    int64_t most = limitFor(collective);
    if (bytes > most)
      return;
    for (size_t i = 0; i < open.size(); ++i)
      if (open[i].key == key) {
        if (open[i].bytes + bytes > most) {
          close(i);
          break;
        }
        open[i].members.push_back(op);
        open[i].bytes += bytes;
        return;
      }
    Bucket bucket;
    bucket.key = key;
    bucket.members.push_back(op);
    bucket.bytes = bytes;
    open.push_back(std::move(bucket));
  }

  Value inParts(nn::Emit &emit, dist::ReduceScatterOp op) {
    return cutInParts(emit, op.getInput(), op.getDim(), op.getType(),
                      mesh.getSize(op.getGroupAxes()));
  }

  void close(size_t i) {
    Bucket bucket = std::move(open[i]);
    open.erase(open.begin() + i);
    if (bucket.members.size() < 2)
      return;
    Operation *last = bucket.members.back();
    // What stands behind it may stay there.
    SmallVector<Operation *> between;
    for (Operation *op : bucket.waiting)
      if (op->isBeforeInBlock(last))
        between.push_back(op);
    OpBuilder builder(last->getContext());
    builder.setInsertionPointAfter(last);
    // Whatever is built has the role of the gradients.
    struct Roles : OpBuilder::Listener {
      void notifyOperationInserted(Operation *inserted,
                                   OpBuilder::InsertPoint) final {
        inserted->setAttr(nn::kRoleAttr, role);
      }
      Attribute role;
    } roles;
    roles.role = last->getAttr(nn::kRoleAttr);
    builder.setListener(&roles);
    nn::Emit emit(builder, last->getLoc());
    bool scatter = isa<dist::ReduceScatterOp>(last);
    SmallVector<Value> parts;
    int64_t each = 0; // Elements along the last dimension of the flat tensor.
    for (Operation *op : bucket.members) {
      emit.loc = op->getLoc();
      Value operand = op->getOperand(0);
      parts.push_back(scatter
                          ? inParts(emit, cast<dist::ReduceScatterOp>(op))
                          : Value(emit.make<nn::ReshapeOp>(
                                withShape(typeOf(operand),
                                          {typeOf(operand).getNumElements()}),
                                operand)));
      each += typeOf(parts.back()).getShape().back();
    }
    emit.loc = last->getLoc();
    RankedTensorType type = typeOf(parts[0]);
    SmallVector<int64_t> shape(type.getShape());
    shape.back() = each;
    int64_t along = shape.size() - 1;
    Value flat =
        emit.make<nn::ConcatenateOp>(withShape(type, shape), parts, along);
    if (scatter)
      shape[0] = 1;
    auto result = RankedTensorType::get(
        shape, type.getElementType(), typeOf(last->getResult(0)).getEncoding());
    Operation *together = last->cloneWithoutRegions();
    together->setOperands(flat);
    together->getResult(0).setType(result);
    if (scatter)
      cast<dist::ReduceScatterOp>(together).setDim(0);
    llvm::SetVector<StringRef> params;
    for (Operation *op : bucket.members)
      for (StringRef param :
           parametersFor(op->getParentOfType<func::FuncOp>(), op))
        params.insert(param);
    joinReasons(together, bucket.members, params.getArrayRef());
    builder.insert(together);
    note(together,
         "a bucket of " + Twine(bucket.members.size()) + " gradients");
    Value reduced = together->getResult(0);
    int64_t offset = 0;
    for (auto [op, part] : llvm::zip_equal(bucket.members, parts)) {
      emit.loc = op->getLoc();
      SmallVector<int64_t> offsets(shape.size(), 0), sizes(shape);
      offsets.back() = offset;
      sizes.back() = typeOf(part).getShape().back();
      offset += sizes.back();
      Value own = emit.make<nn::SliceOp>(
          withShape(result, sizes), reduced, ArrayRef<int64_t>(offsets),
          ArrayRef<int64_t>(sizes), DenseI64ArrayAttr());
      own = emit.make<nn::ReshapeOp>(typeOf(op->getResult(0)), own);
      op->getResult(0).replaceAllUsesWith(own);
    }
    Operation *at = &*std::prev(builder.getInsertionPoint());
    for (Operation *op : between) {
      op->moveAfter(at);
      at = op;
    }
    for (Operation *op : bucket.members)
      op->erase();
  }
};

struct DistOptimize : sheaf::impl::DistOptimizeBase<DistOptimize> {
  using DistOptimizeBase::DistOptimizeBase;

  LogicalResult initialize(MLIRContext *context) final {
    if (bucketBytes == "auto")
      limit = -1;
    else if (StringRef(bucketBytes).getAsInteger(10, limit) || limit < 0)
      return emitError(UnknownLoc::get(context),
                       "dist-optimize: option 'bucket-bytes' is '")
             << bucketBytes << "', expected a number of bytes, or auto";
    return success();
  }

  void runOnOperation() final {
    if (!dist::getMesh(getOperation()))
      return; // One device sends nothing.
    // Collectives name sub-axes, too.
    llvm::SetVector<dist::AxisAttr> used;
    getOperation().walk([&](Operation *op) {
      if (isa<dist::DistDialect>(op->getDialect()) && op->getNumResults() != 0)
        op->getAttrDictionary().walk([&](dist::AxisAttr axis) {
          if (!axis.isWhole())
            used.insert(axis);
        });
    });
    FailureOr<MeshInfo> mesh =
        MeshInfo::get(dist::getMesh(getOperation()), used.getArrayRef());
    if (failed(mesh))
      return signalPassFailure();
    RewritePatternSet patterns(&getContext());
    patterns.add<NarrowBeforeMove, MoveBeforeWiden>(&getContext());
    patterns.add<SliceOfGather, GatherOfSlice>(&getContext(), *mesh);
    GreedyRewriteConfig config;
    config.enableFolding(false);
    config.enableConstantCSE(false);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(
            applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      return signalPassFailure();
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody()) {
        mergeEqual(block);
        if (limit != 0)
          Buckets(mesh->op, limit).run(block);
      }
  }

private:
  int64_t limit = 0;
};
} // namespace
