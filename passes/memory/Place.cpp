//===- Place.cpp - Offsets for buffers ------------------------------------===//

#include "dialects/NN/NN.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/memory/Passes.h"
#include <map>

namespace sheaf {
#define GEN_PASS_DEF_EXECPLACE
#include "passes/memory/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

namespace {
/// Bytes that must keep one place from op `first` to op `last`.
struct Lifetime {
  Operation *op; // an exec.buffer or an exec.call
  int64_t bytes;
  int first, last;
  int64_t offset = -1;
  bool overlaps(const Lifetime &other) const {
    return first <= other.last && other.first <= last;
  }
};
} // namespace

/// The op of `block` that is or holds `op`.
static Operation *ancestorIn(Block *block, Operation *op) {
  return block->findAncestorOpInBlock(*op);
}

/// The positions of all ops that touch a buffer, itself or through views.
static void extend(Value buffer, Block *block,
                   const DenseMap<Operation *, std::pair<int, int>> &positions,
                   int &first, int &last) {
  for (Operation *user : buffer.getUsers()) {
    if (isa<ViewOp, PartOp>(user)) {
      extend(user->getResult(0), block, positions, first, last);
      continue;
    }
    auto [begin, end] = positions.lookup(ancestorIn(block, user));
    first = std::min(first, begin);
    last = std::max(last, end);
  }
}

/// Places lifetimes in the given order, each at the lowest offset that is free
/// while it lives. Returns the bytes used.
static int64_t placeInOrder(MutableArrayRef<Lifetime> lifetimes,
                            ArrayRef<int> order) {
  SmallVector<const Lifetime *> placed; // by offset
  int64_t total = 0;
  for (int index : order) {
    Lifetime &lifetime = lifetimes[index];
    int64_t offset = 0;
    for (const Lifetime *other : placed) {
      if (!other->overlaps(lifetime))
        continue;
      if (other->offset - offset >= lifetime.bytes)
        break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    lifetime.offset = offset;
    placed.insert(llvm::upper_bound(placed, offset,
                                    [](int64_t value, const Lifetime *l) {
                                      return value < l->offset;
                                    }),
                  &lifetime);
    total = std::max(total, offset + lifetime.bytes);
  }
  return total;
}

/// The largest sum of bytes alive at one position, which is `where`.
static int64_t largestLiveSum(ArrayRef<Lifetime> lifetimes, int positions,
                              int &where) {
  SmallVector<int64_t> change(positions + 2, 0);
  for (const Lifetime &lifetime : lifetimes) {
    change[lifetime.first] += lifetime.bytes;
    change[lifetime.last + 1] -= lifetime.bytes;
  }
  int64_t now = 0, most = 0;
  for (auto [position, step] : llvm::enumerate(change))
    if ((now += step) > most) {
      most = now;
      where = position;
    }
  return most;
}

/// What a buffer holds, by the roles of the ops that write and read it.
static StringRef kindOf(BufferOp buffer) {
  bool fromForward = false, fromGradient = false, fromOptimizer = false,
       toOptimizer = false, toGradient = false, isSummed = false, isCut = false;
  SmallVector<Value> views{buffer.getResult()};
  while (!views.empty()) {
    Value view = views.pop_back_val();
    for (Operation *user : view.getUsers()) {
      if (isa<ViewOp, PartOp>(user)) {
        views.push_back(user->getResult(0));
        continue;
      }
      auto access = dyn_cast<AccessOpInterface>(user);
      auto role = user->getAttrOfType<StringAttr>(nn::kRoleAttr);
      if (auto collective = dyn_cast<CollectiveOp>(user))
        if (DictionaryAttr about = collective.getAboutAttr())
          role = about.getAs<StringAttr>("role");
      if (!access || !role)
        continue;
      if (llvm::is_contained(access.getWritten(), view)) {
        fromForward |= role == "forward";
        isSummed |= !isa<func::FuncOp>(user->getParentOp());
        fromGradient |= role == "input_gradient" || role == "weight_gradient";
        fromOptimizer |= role == "optimizer";
      }
      if (llvm::is_contained(access.getRead(), view)) {
        // Behind the last microbatch the sum over the ranks is read in the
        // place of what it sums.
        toOptimizer |= role == "optimizer" ||
                       (role == "weight_gradient" && isa<CollectiveOp>(user) &&
                        isa<func::FuncOp>(user->getParentOp()));
        toGradient |= role == "input_gradient" || role == "weight_gradient";
        isCut |=
            role == "weight_gradient" && isa<func::FuncOp>(user->getParentOp());
      }
    }
  }
  // Of a sum over microbatches a shard may be what it reads.
  toOptimizer |= isSummed && isCut && fromGradient;
  // The optimizer may write what it makes of a gradient in its place.
  return toOptimizer && (fromGradient || !fromOptimizer) ? "gradients"
         : fromForward && toGradient                     ? "activations"
                                                         : "temporaries";
}

/// The buffers of an entry with weights of other ranks: what an all-gather
/// makes of parameters, and copies of nothing else.
static llvm::DenseSet<Operation *> gatheredWeights(func::FuncOp function) {
  llvm::DenseSet<Value> parameters;
  if (auto entry = function->getAttrOfType<ArrayAttr>(kEntryAttr))
    for (auto [argument, attr] : llvm::zip(function.getArguments(), entry))
      if (cast<StringAttr>(cast<ArrayAttr>(attr)[0]).getValue() == "parameter")
        parameters.insert(argument);
  llvm::DenseSet<Operation *> gathered;
  function.walk<WalkOrder::PreOrder>([&](AccessOpInterface access) {
    auto collective = dyn_cast<CollectiveOp>(access.getOperation());
    bool gathers = collective && collective.getKind() == Transfer::AllGather;
    if (isa<exec::CallOp>(access) || (collective && !gathers) ||
        access.getRead().empty())
      return;
    for (Value read : access.getRead()) {
      Value root = getRootBuffer(read);
      if (!(gathers && parameters.contains(root)) &&
          !(root.getDefiningOp() && gathered.contains(root.getDefiningOp())))
        return;
    }
    for (Value written : access.getWritten())
      if (Operation *buffer = getRootBuffer(written).getDefiningOp())
        gathered.insert(buffer);
  });
  return gathered;
}

/// The buffers of an entry with matrices in 8 bits: what is made of parameters
/// alone.
static llvm::DenseSet<Operation *> eightBitWeights(func::FuncOp function) {
  llvm::DenseSet<Value> made;
  if (auto entry = function->getAttrOfType<ArrayAttr>(kEntryAttr))
    for (auto [argument, attr] : llvm::zip(function.getArguments(), entry))
      if (cast<StringAttr>(cast<ArrayAttr>(attr)[0]).getValue() == "parameter")
        made.insert(argument);
  llvm::DenseSet<Operation *> weights, others;
  function.walk<WalkOrder::PreOrder>([&](AccessOpInterface access) {
    bool isMade = !isa<exec::CallOp>(access) && !access.getRead().empty() &&
                  llvm::all_of(access.getRead(), [&](Value read) {
                    return made.contains(getRootBuffer(read));
                  });
    for (Value written : access.getWritten()) {
      Value root = getRootBuffer(written);
      auto buffer = root.getDefiningOp<BufferOp>();
      if (!isMade) {
        made.erase(root);
        if (buffer)
          others.insert(buffer);
      } else if (buffer && !others.contains(buffer)) {
        made.insert(root);
        Type element = buffer.getType().getElementType();
        if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 8)
          weights.insert(buffer);
      }
    }
  });
  for (Operation *other : others)
    weights.erase(other);
  return weights;
}

static LogicalResult placeFunction(func::FuncOp function,
                                   const llvm::StringMap<int64_t> &scratch) {
  // The position of an op, and of the last op that it holds.
  DenseMap<Operation *, std::pair<int, int>> positions;
  int count = 0;
  std::function<void(Block &)> number = [&](Block &block) {
    for (Operation &op : block) {
      int begin = count++;
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          number(inner);
      positions[&op] = {begin, count - 1};
    }
  };
  number(function.getBody().front());

  SmallVector<Lifetime> lifetimes;
  function.walk([&](Operation *op) {
    if (auto buffer = dyn_cast<BufferOp>(op)) {
      int first = count, last = -1;
      extend(buffer.getResult(), op->getBlock(), positions, first, last);
      if (last < 0)
        first = last = positions[op].first;
      lifetimes.push_back(
          {op, alignUp(getBytes(buffer.getType())), first, last});
    } else if (auto call = dyn_cast<exec::CallOp>(op)) {
      int at = positions[op].first;
      lifetimes.push_back({op, scratch.lookup(call.getCallee()), at, at});
    }
  });

  // More than fits any address space would overflow below.
  int64_t sum = 0;
  for (const Lifetime &lifetime : lifetimes)
    if (__builtin_add_overflow(sum, lifetime.bytes, &sum) ||
        sum > (int64_t(1) << 62))
      return function.emitError(
          "has temporary buffers of more than 2^62 bytes together; no "
          "machine holds them, use smaller tensors");

  int peak = 0;
  int64_t live = largestLiveSum(lifetimes, count, peak);
  // Large buffers first leaves the fewest holes; if it leaves too many, the
  // order of long lives, or of time, is tried and the best kept.
  using Less = std::function<bool(const Lifetime &, const Lifetime &)>;
  auto length = [](const Lifetime &l) { return l.last - l.first; };
  const Less orders[] = {
      [&](const Lifetime &a, const Lifetime &b) { return a.bytes > b.bytes; },
      [&](const Lifetime &a, const Lifetime &b) {
        return std::tuple(-length(a), -a.bytes) <
               std::tuple(-length(b), -b.bytes);
      },
      [&](const Lifetime &a, const Lifetime &b) {
        return a.bytes * (length(a) + 1) > b.bytes * (length(b) + 1);
      },
      [&](const Lifetime &a, const Lifetime &b) { return a.first < b.first; }};
  int64_t best = -1;
  SmallVector<int64_t> offsets(lifetimes.size());
  for (const Less &less : orders) {
    auto order = llvm::to_vector(llvm::seq<int>(0, lifetimes.size()));
    llvm::stable_sort(
        order, [&](int a, int b) { return less(lifetimes[a], lifetimes[b]); });
    int64_t total = placeInOrder(lifetimes, order);
    if (best < 0 || total < best) {
      best = total;
      for (auto [offset, lifetime] : llvm::zip_equal(offsets, lifetimes))
        offset = lifetime.offset;
    }
    if (best * 100 <= live * 101)
      break;
  }
  if (best > kMaxScratchBytes)
    return function.emitError("needs ")
           << best << " bytes of scratch memory, expected at most "
           << kMaxScratchBytes << "; use smaller tensors";
  Builder builder(function.getContext());
  for (auto [offset, lifetime] : llvm::zip_equal(offsets, lifetimes)) {
    if (auto buffer = dyn_cast<BufferOp>(lifetime.op))
      buffer.setOffset(offset);
    else
      cast<exec::CallOp>(lifetime.op).setScratch(offset);
  }
  function->setAttr(kScratchAttr,
                    builder.getI64IntegerAttr(std::max<int64_t>(best, 0)));
  function->setAttr(kLiveAttr, builder.getI64IntegerAttr(live));
  llvm::DenseSet<Operation *> gathered = gatheredWeights(function);
  if (!gathered.empty()) {
    auto ofWeights =
        llvm::filter_to_vector(lifetimes, [&](const Lifetime &lifetime) {
          return gathered.contains(lifetime.op);
        });
    int where = 0;
    function->setAttr(kGatheredAttr, builder.getI64IntegerAttr(largestLiveSum(
                                         ofWeights, count, where)));
  }
  std::map<StringRef, int64_t> kinds{{"activations", 0},
                                     {"gradients", 0},
                                     {"temporaries", 0},
                                     {"unused", best - live},
                                     {"weights", 0}};
  llvm::DenseSet<Operation *> weights = eightBitWeights(function);
  for (const Lifetime &lifetime : lifetimes)
    if (lifetime.first <= peak && peak <= lifetime.last) {
      auto buffer = dyn_cast<BufferOp>(lifetime.op);
      kinds[!buffer                    ? "temporaries"
            : weights.contains(buffer) ? "weights"
                                       : kindOf(buffer)] += lifetime.bytes;
    }
  SmallVector<NamedAttribute> sums;
  for (auto [kind, bytes] : kinds)
    if (bytes || kind != "weights")
      sums.push_back(
          builder.getNamedAttr(kind, builder.getI64IntegerAttr(bytes)));
  function->setAttr(kScratchKindsAttr, builder.getDictionaryAttr(sums));
  if (!lifetimes.empty())
    remark::analysis(
        function.getLoc(),
        remark::RemarkOpts::name("placed").category("memory").function(
            function.getName()))
        << (std::to_string(lifetimes.size()) + " buffers of @" +
            function.getName().str() + " lie in " + std::to_string(best) +
            " bytes; at most " + std::to_string(live) + " are in use at once")
        << remark::metric("Buffers", lifetimes.size())
        << remark::metric("Bytes", best) << remark::metric("Live", live);
  return success();
}

namespace {
struct ExecPlace : sheaf::impl::ExecPlaceBase<ExecPlace> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<int64_t> scratch;
    llvm::StringMap<bool> open;
    // Callees first.
    std::function<LogicalResult(func::FuncOp)> place =
        [&](func::FuncOp function) {
          StringRef name = function.getName();
          if (scratch.contains(name))
            return success();
          if (function.isExternal() || !function.getBody().hasOneBlock())
            return LogicalResult(
                function.emitError("has no body of one block to place"));
          if (open[name])
            return LogicalResult(
                function.emitError("calls itself; recursion is not supported"));
          open[name] = true;
          WalkResult result = function.walk([&](exec::CallOp call) {
            auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
            if (!callee) {
              call.emitOpError("calls '")
                  << call.getCallee() << "', which is not in the module";
              return WalkResult::interrupt();
            }
            return WalkResult(place(callee));
          });
          if (result.wasInterrupted())
            return failure();
          if (failed(placeFunction(function, scratch)))
            return failure();
          scratch[name] =
              function->getAttrOfType<IntegerAttr>(kScratchAttr).getInt();
          return success();
        };
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (failed(place(function)))
        return signalPassFailure();
  }
};
} // namespace
