//===- Overlap.cpp - Transfers beside computation -------------------------===//
//
// What computes keeps its order. A transfer is taken apart into its start,
// which moves up, and its wait, which moves down; how far is decided one
// transfer after the other, in the order of the program, on positions of the
// function as it was: `start` and `wait` are the ops in front of which the two
// will stand. What is decided is known to what follows by the buffers that it
// keeps busy, by its place in the order of its communicator, and by the bytes
// that live longer.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/overlap/LiveBytes.h"
#include "passes/overlap/OpCosts.h"
#include "passes/overlap/Passes.h"
#include <map>
#include <set>

namespace sheaf {
#define GEN_PASS_DEF_EXECOVERLAP
#include "passes/overlap/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

namespace {
/// The bytes that may be shared by the buffers of a class: a buffer and its
/// views, the arguments of an entry that are one buffer of the runtime, all
/// arguments of another function (an accumulator is read and written).
using Class = unsigned;
/// That of what may be anything.
constexpr Class kAnything = 0;

/// What the handle of a transfer takes.
constexpr int64_t kHandleBytes = kAlignment;

constexpr int64_t kNoBound = INT64_MAX;
/// How much longer a transfer may take than its cost says.
constexpr double kSlack = 1.25;
/// By how much buffers that are placed may take more than live at once.
constexpr int64_t kPlacementPercent = 3;

/// An op of a block that reads or writes something of a class.
struct Access {
  int at;
  bool isWrite;
};

/// A transfer that is taken apart.
struct Transferred {
  CollectiveOp op;
  int start, wait;
};

/// A communicator: a group and a channel.
using Communicator = std::tuple<ArrayRef<int64_t>, ArrayRef<int64_t>, int64_t>;
Communicator communicatorOf(CollectiveOp op) {
  return {op.getSizes(), op.getStrides(), op.getChannel()};
}

/// What is known of a function once it is done.
struct Summary {
  /// The most bytes of its own buffers that live at once.
  int64_t scratch = 0;
  /// What it starts transfers on, its callees included.
  std::set<Communicator> communicators;
  /// How long it takes.
  double seconds = 0;
};

/// One function.
class Overlapper {
public:
  Overlapper(func::FuncOp function, const llvm::StringMap<Summary> &callees,
             const llvm::SmallDenseSet<Transfer> &kinds, OpCosts *costs,
             int64_t bound, int64_t ahead)
      : function(function), callees(callees), kinds(kinds), costs(costs),
        bound(bound), ahead(ahead) {}

  Summary run();

private:
  func::FuncOp function;
  const llvm::StringMap<Summary> &callees;
  const llvm::SmallDenseSet<Transfer> &kinds;
  OpCosts *costs; ///< null: unknown
  int64_t bound, ahead;
  bool hasCalls = false;

  DenseMap<Value, Class> classes;
  unsigned classCount = 1;
  /// The number of each op, nested ones included, and the buffers' lifetimes in
  /// them.
  DenseMap<Operation *, std::pair<int, int>> numbers;
  struct Lifetime {
    int first, last;
  };
  DenseMap<Value, Lifetime> lifetimes;
  LiveBytes live;

  Class classOf(Value buffer);
  void number();
  double secondsOf(Operation *op);
  void runOnBlock(Block &block);
  bool isWanted(CollectiveOp op);
  void rewrite(Block &block, ArrayRef<Operation *> ops,
               ArrayRef<Transferred> transfers);
};
} // namespace

//===----------------------------------------------------------------------===//
// Which buffers may share bytes
//===----------------------------------------------------------------------===//

Class Overlapper::classOf(Value buffer) {
  Value root = getRootBuffer(buffer);
  auto [it, isNew] = classes.try_emplace(root, kAnything);
  if (!isNew)
    return it->second;
  if (root.getDefiningOp<BufferOp>())
    it->second = classCount++;
  return it->second;
}

/// Names that ops count by: those of arguments, then each buffer its own.
static void nameArguments(func::FuncOp function,
                          DenseMap<Value, Class> &classes, unsigned &count) {
  auto entry = function->getAttrOfType<ArrayAttr>(kEntryAttr);
  DenseMap<Attribute, Class> known;
  Class shared = count++;
  for (BlockArgument argument : function.getArguments()) {
    Class &name = classes[argument];
    name = shared;
    if (!entry || entry.size() != function.getNumArguments())
      continue;
    auto parts = dyn_cast<ArrayAttr>(entry[argument.getArgNumber()]);
    if (!parts || parts.size() < 2)
      continue;
    auto key = ArrayAttr::get(function.getContext(), {parts[0], parts[1]});
    auto [it, isNew] = known.try_emplace(key, count);
    count += isNew;
    name = it->second;
  }
}

/// The bytes of the buffers that the runtime has for an entry.
static int64_t ownedBytes(func::FuncOp function,
                          const DenseMap<Value, Class> &classes) {
  llvm::DenseSet<Class> counted;
  int64_t bytes = 0;
  if (function->hasAttr(kEntryAttr))
    for (BlockArgument argument : function.getArguments())
      if (counted.insert(classes.lookup(argument)).second)
        bytes += alignUp(getBytes(cast<MemRefType>(argument.getType())));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

void Overlapper::number() {
  int count = 0;
  std::function<void(Block &)> visit = [&](Block &block) {
    for (Operation &op : block) {
      int first = count++;
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          visit(inner);
      numbers[&op] = {first, count - 1};
    }
  };
  visit(function.getBody().front());

  live = LiveBytes(count);
  function.walk([&](Operation *op) {
    if (auto call = dyn_cast<exec::CallOp>(op)) {
      auto [first, last] = numbers.lookup(op);
      live.add(first, last, callees.lookup(call.getCallee()).scratch);
      hasCalls = true;
    }
    auto buffer = dyn_cast<BufferOp>(op);
    if (!buffer)
      return;
    Lifetime lifetime{count, -1};
    Block *block = op->getBlock();
    SmallVector<Value> views{buffer.getResult()};
    while (!views.empty())
      for (Operation *user : views.pop_back_val().getUsers()) {
        if (isa<ViewOp, PartOp>(user)) {
          views.push_back(user->getResult(0));
          continue;
        }
        auto [first, last] =
            numbers.lookup(block->findAncestorOpInBlock(*user));
        lifetime.first = std::min(lifetime.first, first);
        lifetime.last = std::max(lifetime.last, last);
      }
    if (lifetime.last < 0)
      return;
    lifetimes[buffer.getResult()] = lifetime;
    live.add(lifetime.first, lifetime.last,
             alignUp(getBytes(buffer.getType())));
  });
}

//===----------------------------------------------------------------------===//
// Where a transfer may start and be waited for
//===----------------------------------------------------------------------===//

bool Overlapper::isWanted(CollectiveOp op) {
  // The counts of rows are read when it starts.
  return kinds.contains(op.getKind()) && !op.isStarted() &&
         op.getRead().size() == 1;
}

/// Whether an op takes time.
static bool works(Operation *op) {
  return !isPure(op) && !isa<BufferOp, CollectiveOp, StartOp, WaitOp>(op);
}

/// Whether what defines a buffer may move up in its block: buffers and views of
/// them.
static bool mayMoveUp(Value buffer, Block *block) {
  for (Operation *op = buffer.getDefiningOp(); op && op->getBlock() == block;
       op = op->getOperand(0).getDefiningOp()) {
    if (isa<BufferOp>(op))
      break;
    if (!isa<ViewOp>(op))
      return false;
  }
  return true;
}

/// How long the stream of kernels is busy with an op; of a transfer, as if it
/// waited for it.
double Overlapper::secondsOf(Operation *op) {
  if (auto call = dyn_cast<exec::CallOp>(op))
    return callees.lookup(call.getCallee()).seconds;
  if (auto collective = dyn_cast<CollectiveOp>(op))
    return collective.isStarted() ? 0 : costs->transferSeconds(collective);
  double seconds = costs->seconds(op);
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps())
      seconds += secondsOf(&inner);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    if (std::optional<APInt> trips = loop.getStaticTripCount())
      seconds *= static_cast<double>(trips->getSExtValue());
  return seconds;
}

void Overlapper::runOnBlock(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);

  // Who touches what, by class; ops that may touch anything; and the last op in
  // front of each that starts something on a communicator.
  DenseMap<Class, SmallVector<Access>> accesses;
  SmallVector<int> barriers;
  std::map<Communicator, SmallVector<int>> starts;
  SmallVector<int> worksBefore{0};
  SmallVector<int> unitsAt;
  for (size_t i = 0; i < ops.size(); ++i) {
    Operation *op = ops[i];
    int at = static_cast<int>(i);
    bool isBarrier = false;
    op->walk([&](Operation *inner) {
      auto collective = dyn_cast<CollectiveOp>(inner);
      // Those that are decided have a place of their own.
      if (collective && (inner != op || !isWanted(collective)))
        starts[communicatorOf(collective)].push_back(at);
      if (auto call = dyn_cast<exec::CallOp>(inner))
        for (const Communicator &used :
             callees.lookup(call.getCallee()).communicators)
          starts[used].push_back(at);
      auto access = dyn_cast<AccessOpInterface>(inner);
      if (!access) {
        // Offsets and loops touch nothing; what else there is might.
        isBarrier |= !isPure(inner) && inner->getNumRegions() == 0 &&
                     !inner->hasTrait<OpTrait::IsTerminator>() &&
                     !isa<BufferOp>(inner);
        return;
      }
      for (bool isWrite : {false, true})
        for (Value buffer : isWrite ? access.getWritten() : access.getRead()) {
          Class name = classOf(buffer);
          isBarrier |= name == kAnything;
          accesses[name].push_back({at, isWrite});
        }
    });
    // The end of the block is one, too.
    if (isBarrier || op->hasTrait<OpTrait::IsTerminator>())
      barriers.push_back(at);
    if (isa<exec::CallOp, MatmulOp, GroupedMatmulOp>(op))
      unitsAt.push_back(at);
    worksBefore.push_back(worksBefore.back() + works(op));
  }

  // When each op begins if nothing waits for a transfer that is taken apart,
  // and when each of those has to start for that.
  SmallVector<double> begins{0};
  std::map<Operation *, double> startsBy;
  if (costs)
    for (Operation *op : ops) {
      auto collective = dyn_cast<CollectiveOp>(op);
      begins.push_back(begins.back() + (collective && isWanted(collective)
                                            ? 0
                                            : secondsOf(op)));
    }
  auto firstFrom = [&](double time) {
    int at = llvm::lower_bound(begins, time) - begins.begin();
    return std::min<int>(at, ops.size() - 1);
  };

  /// The last access in front of `at`, and the first behind it, that conflicts
  /// with a transfer that writes the class, or reads it.
  auto around = [&](Class name, bool transferWrites, int at) {
    int before = -1, behind = ops.size() - 1;
    auto &list = accesses[name];
    auto split = llvm::partition_point(
        list, [&](const Access &access) { return access.at < at; });
    for (auto it = split; it != list.begin();)
      if ((--it)->isWrite || transferWrites) {
        before = it->at;
        break;
      }
    for (auto it = split; it != list.end(); ++it)
      if (it->at > at && (it->isWrite || transferWrites)) {
        behind = it->at;
        break;
      }
    return std::pair(before, behind);
  };

  if (costs) {
    std::map<Communicator, double> nextStart;
    for (int at = static_cast<int>(ops.size()) - 1; at >= 0; --at) {
      auto collective = dyn_cast<CollectiveOp>(ops[at]);
      if (!collective || !isWanted(collective))
        continue;
      int last = std::min(
          around(classOf(collective.getRead()[0]), false, at).second,
          around(classOf(collective.getWritten()[0]), true, at).second);
      double by = begins[last];
      Communicator communicator = communicatorOf(collective);
      if (auto next = nextStart.find(communicator); next != nextStart.end())
        by = std::min(by, next->second);
      by -= kSlack * costs->transferSeconds(collective);
      startsBy[collective] = nextStart[communicator] = by;
    }
  }
  std::map<Communicator, double> ends;

  // What transfers that are decided keep busy, until which op.
  DenseMap<Class, int> readUntil, writtenUntil;
  std::map<Communicator, int> lastStart;
  SmallVector<Transferred> transfers;
  for (auto [i, op] : llvm::enumerate(ops)) {
    auto collective = dyn_cast<CollectiveOp>(op);
    if (!collective)
      continue;
    int at = i;
    Communicator communicator = communicatorOf(collective);
    // No start moves past another of its communicator.
    int first = 0;
    if (auto it = lastStart.find(communicator); it != lastStart.end())
      first = it->second;
    auto &others = starts[communicator];
    auto other = llvm::lower_bound(others, at);
    if (other != others.begin())
      first = std::max(first, *(other - 1) + 1);
    if (!isWanted(collective)) {
      lastStart[communicator] = at + 1;
      continue;
    }

    Value sent = collective.getRead()[0], received = collective.getWritten()[0];
    Class from = classOf(sent), to = classOf(received);
    int last = ops.size() - 1;
    if (from == kAnything || to == kAnything || from == to) {
      first = at;
      last = at + 1;
    } else {
      for (auto [name, writes] :
           {std::pair(from, false), std::pair(to, true)}) {
        auto [before, behind] = around(name, writes, at);
        first = std::max(first, before + 1);
        last = std::min(last, behind);
        first = std::max(first, writtenUntil.lookup(name));
        if (writes)
          first = std::max(first, readUntil.lookup(name));
      }
      auto barrier = llvm::lower_bound(barriers, at);
      last = std::min(last, *barrier);
      if (barrier != barriers.begin())
        first = std::max(first, *(barrier - 1) + 1);
      if (!mayMoveUp(sent, &block) || !mayMoveUp(received, &block))
        first = at;
    }
    first = std::min(first, at);

    // Where layers are called, a transfer starts no more than so many of them,
    // or of the products between them, in front of what waits for it, and keeps
    // what it sends for no more.
    int wait = last;
    if (costs) {
      // The last op that begins early enough.
      int by = firstFrom(startsBy[collective]);
      if (begins[by] > startsBy[collective])
        by = std::max(0, by - 1);
      first = std::min(at, std::max(first, by));
      double &end = ends[communicator];
      double seconds = costs->transferSeconds(collective);
      end = std::max(end, begins[first]) + seconds;
      if (lifetimes.contains(getRootBuffer(sent)))
        wait = std::max(at + 1, std::min(wait, firstFrom(end + seconds)));
    } else if (hasCalls) {
      int64_t before = llvm::lower_bound(unitsAt, last) - unitsAt.begin();
      int64_t behind =
          llvm::lower_bound(unitsAt, at) - unitsAt.begin() + ahead - 1;
      first = before < ahead ? first : std::max(first, unitsAt[before - ahead]);
      first = std::min(first, at);
      if (behind < int64_t(unitsAt.size()) &&
          lifetimes.contains(getRootBuffer(sent)))
        wait = std::max(at + 1, std::min(wait, unitsAt[behind] + 1));
    }

    // The bytes that live longer, and the handle.
    auto grown = [&](int start, int wait) {
      SmallVector<std::tuple<int, int, int64_t>, 3> more;
      more.emplace_back(numbers[ops[start]].first, numbers[ops[wait]].first,
                        kHandleBytes);
      auto it = lifetimes.find(getRootBuffer(received));
      auto bytes = [](Value buffer) {
        return alignUp(
            getBytes(cast<MemRefType>(getRootBuffer(buffer).getType())));
      };
      if (it != lifetimes.end() && numbers[ops[start]].first < it->second.first)
        more.emplace_back(numbers[ops[start]].first, it->second.first - 1,
                          bytes(received));
      it = lifetimes.find(getRootBuffer(sent));
      if (it != lifetimes.end() && numbers[ops[wait]].first > it->second.last)
        more.emplace_back(it->second.last + 1, numbers[ops[wait]].first,
                          bytes(sent));
      return more;
    };
    auto fits = [&](int start, int wait) {
      auto more = grown(start, wait);
      for (auto [begin, end, bytes] : more)
        live.add(begin, end, bytes);
      bool isEnough = live.most(numbers[ops[start]].first,
                                numbers[ops[wait]].first) <= bound;
      for (auto [begin, end, bytes] : more)
        live.add(begin, end, -bytes);
      return isEnough;
    };
    // The farthest that fits, for each end by itself.
    int wanted = first, wantedWait = wait;
    auto farthest = [](int near, int far, auto &&fits) {
      while (near != far) {
        int step = far < near ? -1 : 1;
        int middle = near + (far - near + step) / 2;
        if (fits(middle))
          near = middle;
        else
          far = middle - step;
      }
      return near;
    };
    first = farthest(at, first, [&](int start) { return fits(start, at + 1); });
    wait = farthest(at + 1, wait, [&](int wait) { return fits(first, wait); });
    if (!fits(first, wait))
      first = at, wait = at + 1;

    int64_t beside = worksBefore[wait] - worksBefore[first];
    if (wanted != first || wantedWait != wait) {
      int64_t lost = worksBefore[wantedWait] - worksBefore[wanted] - beside;
      if (lost > 0)
        remark::missed(
            collective.getLoc(),
            remark::RemarkOpts::name("bounded").category("overlap").function(
                function.getName()))
            << (stringifyTransfer(collective.getKind()).str() +
                " goes on beside " + std::to_string(lost) +
                (lost == 1 ? " op" : " ops") +
                " less: more than the bound of " + std::to_string(bound) +
                " bytes would be in use")
            << remark::metric("Ops", lost) << remark::metric("Bound", bound);
    }
    if (beside == 0) {
      lastStart[communicator] = at + 1;
      continue;
    }
    for (auto [begin, end, bytes] : grown(first, wait))
      live.add(begin, end, bytes);
    for (auto [buffer, isSent] :
         {std::pair(sent, true), std::pair(received, false)})
      if (auto it = lifetimes.find(getRootBuffer(buffer));
          it != lifetimes.end()) {
        it->second.first =
            std::min(it->second.first, numbers[ops[first]].first);
        it->second.last = std::max(it->second.last, numbers[ops[wait]].first);
      }
    int &reads = readUntil[from], &writes = writtenUntil[to];
    reads = std::max(reads, wait);
    writes = std::max(writes, wait);
    lastStart[communicator] = first;
    transfers.push_back({collective, first, wait});
    remark::passed(collective.getLoc(),
                   remark::RemarkOpts::name("started-early")
                       .category("overlap")
                       .function(function.getName()))
        << (stringifyTransfer(collective.getKind()).str() + " goes on beside " +
            std::to_string(beside) + (beside == 1 ? " op" : " ops"))
        << remark::metric("Ops", beside);
  }
  rewrite(block, ops, transfers);
}

//===----------------------------------------------------------------------===//
// Taking them apart
//===----------------------------------------------------------------------===//

/// Moves what defines a buffer in front of `before`, which stood at `at`, where
/// it is not there. `places` are those of the ops of the block; the order that
/// MLIR keeps would be made anew for each.
static void hoistDefinition(Value buffer, Operation *before, int at,
                            DenseMap<Operation *, int> &places) {
  Operation *op = buffer.getDefiningOp();
  auto place = places.find(op);
  if (place == places.end() || place->second < at)
    return;
  place->second = -1;
  for (Value operand : op->getOperands())
    hoistDefinition(operand, before, at, places);
  op->moveBefore(before);
}

void Overlapper::rewrite(Block &block, ArrayRef<Operation *> ops,
                         ArrayRef<Transferred> transfers) {
  // In front of one op, waits stand before starts; both in the order of the
  // program.
  struct Place {
    SmallVector<CollectiveOp> waits, starts;
  };
  std::map<int, Place> places;
  llvm::DenseSet<Operation *> moved;
  for (const Transferred &transfer : transfers) {
    places[transfer.wait].waits.push_back(transfer.op);
    places[transfer.start].starts.push_back(transfer.op);
    moved.insert(transfer.op);
  }
  DenseMap<Operation *, int> numbers;
  for (auto [i, op] : llvm::enumerate(ops))
    numbers[op] = i;
  OpBuilder builder(function.getContext());
  auto handleType = MemRefType::get({}, builder.getI64Type());
  DenseMap<Operation *, Value> handles;
  for (auto &[at, place] : places) {
    // The first op from there on that stays, as the last of a block does;
    // buffers may go where a transfer wants them.
    int stays = at;
    while (moved.contains(ops[stays]) || isa<BufferOp, ViewOp>(ops[stays]))
      ++stays;
    Operation *before = ops[stays];
    for (CollectiveOp op : place.waits) {
      builder.setInsertionPoint(before);
      auto wait = WaitOp::create(
          builder, op.getLoc(), ValueRange{handles.lookup(op), op.getRead()[0]},
          op.getWritten()[0]);
      wait->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    }
    for (CollectiveOp op : place.starts) {
      op->moveBefore(before);
      hoistDefinition(op.getRead()[0], op, stays, numbers);
      hoistDefinition(op.getWritten()[0], op, stays, numbers);
      builder.setInsertionPoint(op);
      Value handle =
          BufferOp::create(builder, op.getLoc(), handleType, IntegerAttr());
      op.getWrittenMutable().append(handle);
      handles[op] = handle;
    }
  }
}

Summary Overlapper::run() {
  Summary summary;
  // Where layers are called, weights and their gradients travel beside each
  // other and beside what layers send: on channels of their own.
  bool calls =
      function.walk([](exec::CallOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  Builder builder(function.getContext());
  function.walk([&](CollectiveOp op) {
    DictionaryAttr about = op.getAboutAttr();
    if (!calls || (about && about.get("purpose")) || op.getChannel() != 0)
      return;
    auto role = about ? about.getAs<StringAttr>("role") : StringAttr();
    if (op.getKind() == Transfer::AllGather)
      op.setChannel(1);
    else if (op.getReduction() && role && role.getValue() == "weight_gradient")
      op.setChannel(2);
  });
  classCount = 1;
  nameArguments(function, classes, classCount);
  number();
  if (bound != kNoBound)
    bound = std::max(bound - ownedBytes(function, classes), live.most());
  SmallVector<Block *> blocks;
  function.walk<WalkOrder::PostOrder>(
      [&](Block *block) { blocks.push_back(block); });
  for (Block *block : blocks)
    runOnBlock(*block);
  summary.scratch = live.most();
  if (costs)
    for (Operation &op : function.getBody().getOps())
      summary.seconds += secondsOf(&op);
  function.walk([&](Operation *op) {
    if (auto collective = dyn_cast<CollectiveOp>(op))
      summary.communicators.insert(communicatorOf(collective));
    if (auto call = dyn_cast<exec::CallOp>(op)) {
      auto used = callees.find(call.getCallee());
      if (used != callees.end())
        summary.communicators.insert(used->second.communicators.begin(),
                                     used->second.communicators.end());
    }
  });
  return summary;
}

namespace {
struct ExecOverlap : sheaf::impl::ExecOverlapBase<ExecOverlap> {
  using ExecOverlapBase::ExecOverlapBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::SmallDenseSet<Transfer> wanted;
    for (StringRef name : kinds) {
      std::optional<Transfer> kind = symbolizeTransfer(name);
      if (!kind) {
        module.emitError("exec-overlap: option 'kinds' has '")
            << name
            << "', expected all_reduce, all_gather, reduce_scatter, "
               "all_to_all, permute or broadcast";
        return signalPassFailure();
      }
      wanted.insert(*kind);
    }
    if (wanted.empty())
      for (uint32_t kind = 0; kind <= getMaxEnumValForTransfer(); ++kind)
        wanted.insert(static_cast<Transfer>(kind));
    for (auto [option, value] : {std::pair("ahead", int64_t(ahead)),
                                 std::pair("memory", int64_t(memory))})
      if (value < 0) {
        module.emitError("exec-overlap: option '")
            << option << "' is " << value << ", expected at least 0";
        return signalPassFailure();
      }

    std::optional<ClusterCosts> description;
    std::optional<OpCosts> costs;
    if (!cluster.empty()) {
      description.emplace(cluster);
      costs.emplace(module, *description);
    }

    llvm::StringMap<Summary> done;
    llvm::StringMap<bool> open;
    // Callees first.
    std::function<LogicalResult(func::FuncOp)> visit =
        [&](func::FuncOp function) {
          StringRef name = function.getName();
          if (done.contains(name))
            return success();
          if (open[name])
            return LogicalResult(
                function.emitError("calls itself; recursion is not supported"));
          open[name] = true;
          WalkResult result = function.walk([&](exec::CallOp call) {
            auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
            return WalkResult(callee ? visit(callee) : success());
          });
          if (result.wasInterrupted())
            return failure();
          done[name] =
              overlap(function, done, wanted, costs ? &*costs : nullptr);
          if (description && !description->error().empty())
            return LogicalResult(function.emitError("exec-overlap: ")
                                 << description->error());
          return success();
        };
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (failed(visit(function)))
        return signalPassFailure();
  }

private:
  Summary overlap(func::FuncOp function, const llvm::StringMap<Summary> &done,
                  const llvm::SmallDenseSet<Transfer> &wanted, OpCosts *costs) {
    bool isPlain = !function.isExternal();
    function.walk([&](Operation *op) {
      // Buffers that are placed share bytes.
      if (auto buffer = dyn_cast<BufferOp>(op))
        isPlain &= !buffer.getOffset();
      for (Region &region : op->getRegions())
        isPlain &= region.empty() || region.hasOneBlock();
    });
    if (!isPlain)
      return {};
    // Of an entry it is known what else a device holds.
    int64_t bound = memory == 0 ? kNoBound
                    : function->hasAttr(kEntryAttr)
                        ? memory * 100 / (100 + kPlacementPercent)
                        : 0;
    return Overlapper(function, done, wanted, costs, bound, ahead).run();
  }
};
} // namespace
