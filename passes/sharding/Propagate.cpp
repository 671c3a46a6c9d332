//===- Propagate.cpp - Give every value a sharding ------------------------===//
//
// Shardings flow in waves: all nodes next to what changed in one wave make
// proposals from the state before it, and every value then chooses among those
// that it got. What is chosen depends on priorities, distances and sizes only,
// never on the order of ops in the file.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Border.h"
#include "passes/sharding/Origins.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Shardings.h"
#include "passes/sharding/Verify.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <deque>

namespace sheaf {
#define GEN_PASS_DEF_DISTPROPAGATE
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

namespace {
/// On a copy of a function, and on the function, while propagation runs: its
/// name.
constexpr llvm::StringLiteral kCopyAttr = "dist.copy_of";

struct State {
  ValueSharding sharding;
  /// Dimensions that take no more axes.
  SmallVector<bool, 4> closed;
  /// Of each dimension, the priority of its weakest axis.
  SmallVector<int64_t, 4> priority;
};

struct Proposal {
  unsigned dim;
  DimSharding sharding;
  int64_t priority;
  int64_t weight; // Elements of the value that it comes from.
  /// Where origins are kept: the op, and for each axis the value next to it.
  Operation *via = nullptr;
  SmallVector<Value, 2> sources;
};

class Propagation {
public:
  Propagation(ModuleOp module, MeshInfo mesh, Origins *origins)
      : module(module), context(module.getContext()), mesh(std::move(mesh)),
        origins(origins) {}

  void run() {
    collect();
    for (auto &[priority, list] : seeds) {
      llvm::SetVector<unsigned> dirty;
      for (const Seed &wish : list)
        if (seed(wish, priority))
          dirty.insert(nodesOf[wish.value].begin(), nodesOf[wish.value].end());
      while (!dirty.empty())
        dirty = wave(dirty);
    }
  }

  /// Gives calls of one function whose operands and results have other
  /// shardings than those of another call a copy of it, where they do not fit
  /// the function as it is; calls that have the same share one. Says whether
  /// there are copies now: then propagation begins anew.
  bool specialise() {
    llvm::MapVector<func::FuncOp, SmallVector<func::CallOp>> calls;
    module.walk([&](func::CallOp call) {
      auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
          call, call.getCalleeAttr());
      if (callee && !callee.isExternal() && callee.isPrivate())
        calls[callee].push_back(call);
    });
    bool any = false;
    copied.clear();
    for (auto &[callee, list] : calls) {
      // Copies of a caller call copies of it: which calls fit shows in the next
      // round.
      if (llvm::any_of(list, [&](func::CallOp call) {
            return copied.contains(call->getParentOfType<func::FuncOp>());
          }))
        continue;
      llvm::MapVector<Attribute, SmallVector<func::CallOp>> groups;
      bool fits = true;
      Operation *end = callee.front().getTerminator();
      for (func::CallOp call : list) {
        SmallVector<Attribute> signature;
        auto add = [&](ValueRange outside, ValueRange inside) {
          for (auto [a, b] : llvm::zip_equal(outside, inside)) {
            if (!isa<RankedTensorType>(a.getType()) || isFree(a) || isFree(b)) {
              signature.push_back(UnitAttr::get(context));
              continue;
            }
            signature.push_back(print(a));
            fits &= signature.back() == print(b);
          }
        };
        add(call.getOperands(), callee.getArguments());
        add(call.getResults(), end->getOperands());
        groups[ArrayAttr::get(context, signature)].push_back(call);
      }
      if (fits || groups.size() == 1)
        continue;
      for (auto &[signature, members] : llvm::drop_begin(groups)) {
        Copies copies;
        StringRef copy = copyOf(callee, copies).getName();
        for (func::CallOp call : members)
          call.setCallee(copy);
      }
      any = true;
    }
    return any;
  }

  using Copies = llvm::DenseMap<Operation *, func::FuncOp>;

  /// A copy of a function and of what it calls; what is called from several
  /// places below it has one copy.
  func::FuncOp copyOf(func::FuncOp function, Copies &copies) {
    if (func::FuncOp known = copies.lookup(function))
      return known;
    auto original = function->getAttrOfType<StringAttr>(kCopyAttr);
    if (!original) {
      original = function.getNameAttr();
      function->setAttr(kCopyAttr, original);
    }
    func::FuncOp copy = function.clone();
    copies[function] = copy;
    copied.insert(function);
    symbols.getSymbolTable(module).insert(copy,
                                          std::next(function->getIterator()));
    copy.walk([&](func::CallOp call) {
      auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
          function, call.getCalleeAttr());
      if (callee && !callee.isExternal() && callee.isPrivate())
        call.setCallee(copyOf(callee, copies).getName());
    });
    return copy;
  }

private:
  ModuleOp module;
  MLIRContext *context;
  MeshInfo mesh;
  /// Where axes came from; null where nobody asks.
  Origins *origins;
  SymbolTableCollection symbols;
  /// The functions that have a copy since the round began.
  llvm::DenseSet<Operation *> copied;
  SmallVector<Node, 0> nodes;
  llvm::DenseMap<Value, SmallVector<unsigned, 4>> nodesOf;
  /// Of each dist.manual, what of it may be sharded further.
  llvm::MapVector<Operation *, Border> borders;
  std::deque<State> allStates;
  llvm::DenseMap<Value, State *> states;
  /// What users wrote, by priority.
  struct Seed {
    Value value;
    dist::ShardingAttr sharding;
    Site site;
  };
  std::map<int64_t, SmallVector<Seed>> seeds;

  State &stateOf(Value value) {
    auto [it, isNew] = states.try_emplace(value);
    if (isNew) {
      it->second = &allStates.emplace_back();
      auto type = dyn_cast<RankedTensorType>(value.getType());
      int64_t rank = type ? type.getRank() : 0;
      it->second->sharding = ValueSharding(rank);
      it->second->closed.assign(rank, false);
      it->second->priority.assign(rank, 0);
    }
    return *it->second;
  }

  void addSeed(Value value, dist::ShardingAttr sharding, const Site &site) {
    std::set<int64_t> priorities;
    for (dist::DimAttr dim : sharding.getDims())
      priorities.insert(dim.getPriority());
    for (int64_t priority : priorities)
      seeds[priority].push_back({value, sharding, site});
  }

  void collect() {
    module.walk([&](Operation *op) {
      if (op->getParentOfType<dist::ManualOp>())
        return; // Written for one device already.
      if (auto manual = dyn_cast<dist::ManualOp>(op)) {
        Site site{Site::Op, op, 0};
        for (auto [input, sharding] : llvm::zip_equal(
                 manual.getInputs(),
                 manual.getInShardings().getAsRange<dist::ShardingAttr>()))
          if (!isFree(input))
            addSeed(input, sharding, site);
        for (auto [result, sharding] : llvm::zip_equal(
                 manual.getResults(),
                 manual.getOutShardings().getAsRange<dist::ShardingAttr>())) {
          addSeed(result, sharding, site);
          close(result, sharding);
        }
        Border border = findBorder(manual, mesh);
        if (border.open != 0)
          nodes.push_back(border.node);
        borders[manual] = std::move(border);
        return;
      }
      appendNodes(op, symbols, nodes);
      if (auto constraint = dyn_cast<dist::ConstraintOp>(op)) {
        addSeed(constraint, constraint.getSharding(), {Site::Op, op, 0});
        close(constraint, constraint.getSharding());
      } else if (auto list =
                     op->getAttrOfType<ArrayAttr>(dist::kShardingsAttr)) {
        // The results of a loop are its last arguments.
        unsigned first =
            op->getNumRegions() == 1 && !op->getRegion(0).empty()
                ? op->getRegion(0).getNumArguments() - op->getNumResults()
                : 0;
        for (auto [i, value, sharding] :
             llvm::enumerate(op->getResults(), list)) {
          addSeed(value, cast<dist::ShardingAttr>(sharding),
                  {Site::Op, op, first + static_cast<unsigned>(i)});
          close(value, cast<dist::ShardingAttr>(sharding));
        }
      }
      if (auto list =
              op->getAttrOfType<ArrayAttr>(dist::kArgumentShardingsAttr))
        for (auto [i, value, sharding] :
             llvm::enumerate(op->getRegion(0).getArguments(), list)) {
          addSeed(value, cast<dist::ShardingAttr>(sharding),
                  {Site::Op, op, static_cast<unsigned>(i)});
          close(value, cast<dist::ShardingAttr>(sharding));
        }
      auto function = dyn_cast<func::FuncOp>(op);
      if (!function || function.isExternal())
        return;
      for (BlockArgument argument : function.getArguments())
        if (auto sharding = function.getArgAttrOfType<dist::ShardingAttr>(
                argument.getArgNumber(), dist::kShardingAttr)) {
          addSeed(argument, sharding,
                  {Site::Argument, op, argument.getArgNumber()});
          close(argument, sharding);
        }
      // What is returned should come as it is wanted, where nothing else speaks
      // against it.
      for (auto [i, operand] :
           llvm::enumerate(function.front().getTerminator()->getOperands()))
        if (auto sharding = function.getResultAttrOfType<dist::ShardingAttr>(
                i, dist::kShardingAttr))
          if (!isFree(operand))
            addSeed(operand, sharding,
                    {Site::Result, op, static_cast<unsigned>(i)});
    });
    for (auto [i, node] : llvm::enumerate(nodes))
      for (Value value : node.values)
        if (value && (nodesOf[value].empty() || nodesOf[value].back() != i))
          nodesOf[value].push_back(i);
  }

  void close(Value value, dist::ShardingAttr sharding) {
    State &state = stateOf(value);
    for (auto [i, dim] : llvm::enumerate(sharding.getDims()))
      state.closed[i] = !dim.getOpen();
  }

  /// Whether the value may take `dim` as the sharding of dimension `d`.
  bool mayTake(Value value, const State &state, unsigned d,
               const DimSharding &dim) {
    const DimSharding &now = state.sharding.dims[d];
    if (dim.axes.size() <= now.axes.size() ||
        !std::equal(now.axes.begin(), now.axes.end(), dim.axes.begin()) ||
        (!now.axes.empty() && !now.sameOrder(dim)))
      return false;
    for (int axis : ArrayRef<int>(dim.axes).drop_front(now.axes.size()))
      if (state.sharding.uses(axis))
        return false;
    // Padding is legal, but no shard of a value without elements.
    int64_t size =
        cast<RankedTensorType>(value.getType()).getDimSize(d) / dim.blocks;
    return size > 1;
  }

  bool seed(const Seed &wish, int64_t priority) {
    Value value = wish.value;
    dist::ShardingAttr attr = wish.sharding;
    State &state = stateOf(value);
    ValueSharding wanted = mesh.parse(attr);
    bool changed = false;
    for (auto [d, dim] : llvm::enumerate(attr.getDims())) {
      if (dim.getPriority() != priority)
        continue;
      const DimSharding &now = state.sharding.dims[d];
      if (wanted.dims[d] == now)
        continue;
      // What is returned otherwise than the value has it is brought there.
      if (state.closed[d] && wish.site.kind == Site::Result)
        continue;
      if (!state.closed[d] && !mayTake(value, state, d, wanted.dims[d]))
        continue;
      if (llvm::any_of(wanted.dims[d].axes, [&](int axis) {
            return state.sharding.uses(axis) &&
                   !llvm::is_contained(now.axes, axis);
          }))
        continue;
      if (origins)
        for (int axis : wanted.dims[d].axes)
          if (!state.sharding.uses(axis))
            origins->addWish(value, axis, wish.site);
      state.sharding.dims[d] = wanted.dims[d];
      state.priority[d] = priority;
      changed = true;
    }
    return changed || priority == 0;
  }

  void propose(const Node &node,
               llvm::MapVector<Value, SmallVector<Proposal>> &proposals) {
    // The longest sharding of each factor, if all others begin it.
    struct Best {
      DimSharding sharding;
      int64_t priority = 0, weight = 0;
      bool conflict = false;
      Value source;
    };
    SmallVector<Best> best(node.rule.factors.size());
    for (auto [i, value] : llvm::enumerate(node.values)) {
      if (!value)
        continue;
      State &state = stateOf(value);
      int64_t weight = cast<RankedTensorType>(value.getType()).getNumElements();
      for (auto [d, dim] : llvm::enumerate(node.factorsOf(i))) {
        bool complete;
        for (auto &[factor, own] : toFactors(
                 mesh, node.rule, dim, state.sharding.dims[d], complete)) {
          if (!isShardable(node.rule.factors[factor], own))
            continue;
          Best &entry = best[factor];
          const SmallVector<int, 2> &a = entry.sharding.axes, &b = own.axes;
          size_t common = std::min(a.size(), b.size());
          bool agrees =
              std::equal(a.begin(), a.begin() + common, b.begin()) &&
              (a.empty() || b.empty() || entry.sharding.sameOrder(own));
          std::tuple<int64_t, int64_t> strength(-entry.priority, entry.weight),
              other(-state.priority[d], weight);
          if (a.empty() || (agrees && b.size() > a.size()) ||
              (!agrees && other > strength))
            entry.sharding = own, entry.priority = state.priority[d],
            entry.weight = weight, entry.source = value;
          else if (agrees && a.size() == b.size()) {
            entry.priority = std::min(entry.priority, state.priority[d]);
            entry.weight = std::max(entry.weight, weight);
          } else if (!agrees && other == strength) {
            entry.conflict = true;
          }
        }
      }
    }
    // An axis that two factors claim goes to the stronger wish only, in this
    // op. What the border of a body says is of each value alone.
    MutableArrayRef<Best> rivals(best);
    if (isa<dist::ManualOp>(node.op))
      rivals = rivals.take_front(borders[node.op].open);
    for (int atom = 0; atom < mesh.getNumAtoms(); ++atom) {
      int winner = -1;
      for (auto [f, entry] : llvm::enumerate(rivals)) {
        if (!llvm::is_contained(entry.sharding.axes, atom))
          continue;
        if (winner < 0 ||
            std::make_tuple(-entry.priority, entry.weight) >
                std::make_tuple(-best[winner].priority, best[winner].weight))
          winner = f;
      }
      for (auto [f, entry] : llvm::enumerate(rivals)) {
        auto *at = llvm::find(entry.sharding.axes, atom);
        if (at != entry.sharding.axes.end() && static_cast<int>(f) != winner)
          entry.sharding.axes.truncate(at - entry.sharding.axes.begin());
      }
    }
    FactorShardings factors;
    for (Best &entry : best)
      factors.push_back(entry.conflict ? DimSharding() : entry.sharding);
    if (isa<dist::ManualOp>(node.op))
      borders[node.op].restrict(factors, mesh);
    for (auto [i, value] : llvm::enumerate(node.values)) {
      if (!value)
        continue;
      State &state = stateOf(value);
      for (auto [d, dim] : llvm::enumerate(node.factorsOf(i))) {
        if (state.closed[d])
          continue;
        bool complete;
        DimSharding wanted =
            fromFactors(mesh, node.rule, dim, factors, complete);
        if (!mayTake(value, state, d, wanted))
          continue;
        int64_t priority = 0, weight = 0;
        for (int factor : dim) {
          priority = std::max(priority, best[factor].priority);
          weight = std::max(weight, best[factor].weight);
        }
        Proposal proposal{
            static_cast<unsigned>(d), wanted, priority, weight, nullptr, {}};
        if (origins) {
          proposal.via = node.op;
          for (int axis : wanted.axes)
            for (int factor : dim)
              if (llvm::is_contained(factors[factor].axes, axis))
                proposal.sources.push_back(best[factor].source);
        }
        proposals[value].push_back(std::move(proposal));
      }
    }
  }

  /// The axes that open dimensions of a dist.manual got: those of its results,
  /// else of its inputs.
  SmallVector<SmallVector<int, 2>> axesInside(const Border &border) {
    const Node &node = border.node;
    FactorShardings factors(border.open);
    auto hear = [&](unsigned i) {
      if (!node.values[i])
        return;
      State &state = stateOf(node.values[i]);
      for (auto [d, dim] : llvm::enumerate(node.factorsOf(i))) {
        bool complete;
        for (auto &[factor, own] :
             toFactors(mesh, node.rule, dim, state.sharding.dims[d], complete))
          if (factor < static_cast<int>(border.open) && own.order() == 1 &&
              own.axes.size() > factors[factor].axes.size())
            factors[factor] = own;
      }
    };
    for (unsigned i = node.numOperands; i < node.values.size(); ++i)
      hear(i);
    FactorShardings ofResults = factors;
    for (unsigned i = 0; i < node.numOperands; ++i)
      hear(i);
    for (auto [own, result] : llvm::zip_equal(factors, ofResults))
      if (!result.axes.empty())
        own = result;
    border.restrict(factors, mesh);
    // Each axis once.
    SmallVector<SmallVector<int, 2>> axes;
    llvm::DenseSet<int> used;
    for (DimSharding &own : factors) {
      auto *end = llvm::find_if(
          own.axes, [&](int atom) { return !used.insert(atom).second; });
      own.axes.truncate(end - own.axes.begin());
      axes.push_back(own.axes);
    }
    return axes;
  }

  llvm::SetVector<unsigned> wave(const llvm::SetVector<unsigned> &dirty) {
    llvm::MapVector<Value, SmallVector<Proposal>> proposals;
    for (unsigned node : dirty)
      propose(nodes[node], proposals);
    llvm::SetVector<unsigned> next;
    for (auto &[value, list] : proposals) {
      llvm::sort(list, [](const Proposal &a, const Proposal &b) {
        auto key = [](const Proposal &p) {
          return std::make_tuple(p.priority, -p.weight, p.dim,
                                 -static_cast<int64_t>(p.sharding.axes.size()),
                                 p.sharding.order(), p.sharding.axes);
        };
        return key(a) < key(b);
      });
      State &state = stateOf(value);
      bool changed = false;
      for (Proposal &proposal : list) {
        if (!mayTake(value, state, proposal.dim, proposal.sharding))
          continue;
        if (origins)
          for (auto [axis, source] :
               llvm::zip(proposal.sharding.axes, proposal.sources))
            if (!state.sharding.uses(axis))
              origins->addStep(value, axis, source, proposal.via);
        state.sharding.dims[proposal.dim] = proposal.sharding;
        state.priority[proposal.dim] =
            std::max(state.priority[proposal.dim], proposal.priority);
        changed = true;
      }
      if (changed)
        next.insert(nodesOf[value].begin(), nodesOf[value].end());
    }
    return next;
  }

  /// Few shardings are on many values.
  std::map<std::vector<int64_t>, dist::ShardingAttr> printed;

  dist::ShardingAttr print(Value value) {
    State &state = stateOf(value);
    std::vector<int64_t> key;
    for (auto [dim, priority] :
         llvm::zip_equal(state.sharding.dims, state.priority)) {
      key.push_back(dim.axes.size());
      key.insert(key.end(), dim.axes.begin(), dim.axes.end());
      if (!dim.axes.empty())
        key.insert(key.end(), {priority, dim.order()});
    }
    dist::ShardingAttr &known = printed[key];
    if (!known)
      known = make(state);
    return known;
  }

  dist::ShardingAttr make(const State &state) {
    SmallVector<dist::DimAttr> dims;
    for (auto [dim, priority] :
         llvm::zip_equal(state.sharding.dims, state.priority))
      dims.push_back(
          dist::DimAttr::get(context, mesh.axesOf(dim.axes), /*open=*/false,
                             dim.axes.empty() ? 0 : priority, dim.order()));
    return dist::ShardingAttr::get(context, dims, dist::Reduction::Sum, {});
  }

public:
  void write() {
    for (auto &[op, border] : borders)
      closeBorder(cast<dist::ManualOp>(op), border, axesInside(border), mesh);
    auto listOf = [&](ValueRange values) {
      SmallVector<Attribute> list;
      for (Value value : values)
        list.push_back(print(value));
      return ArrayAttr::get(context, list);
    };
    module.walk([&](Operation *op) {
      if (auto function = dyn_cast<func::FuncOp>(op)) {
        if (!function.isExternal())
          for (BlockArgument argument : function.getArguments())
            if (isa<RankedTensorType>(argument.getType()))
              function.setArgAttr(argument.getArgNumber(), dist::kShardingAttr,
                                  print(argument));
        return;
      }
      if (op->getNumResults() == 0 && op->getNumRegions() == 0)
        return;
      if (!llvm::all_of(op->getResultTypes(),
                        llvm::IsaPred<RankedTensorType>) ||
          isa<ModuleOp, dist::ConstraintOp>(op) ||
          op->getParentOfType<dist::ManualOp>())
        return;
      if (op->getNumResults() != 0 && !isFree(op->getResult(0)))
        op->setAttr(dist::kShardingsAttr, listOf(op->getResults()));
      if (isa<nn::MicrobatchesOp>(op))
        op->setAttr(dist::kArgumentShardingsAttr,
                    listOf(op->getRegion(0).getArguments()));
    });
  }
};

/// Copies that came out equal become one.
void mergeCopies(ModuleOp module) {
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::string, func::FuncOp> known;
    llvm::DenseMap<StringAttr, StringAttr> renamed;
    for (func::FuncOp function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      auto original = function->getAttrOfType<StringAttr>(kCopyAttr);
      if (!original)
        continue;
      StringAttr name = function.getNameAttr();
      // What a program does is the same whatever asked for it.
      OwningOpRef<func::FuncOp> bare = function.clone();
      bare->setName(original);
      Annotations::erase(*bare);
      std::string text;
      llvm::raw_string_ostream os(text);
      bare->print(os, OpPrintingFlags().useLocalScope());
      auto [it, isNew] = known.try_emplace(std::move(text), function);
      if (isNew)
        continue;
      renamed[name] = it->second.getNameAttr();
      function.erase();
      changed = true;
    }
    if (changed)
      module.walk([&](func::CallOp call) {
        if (StringAttr name = renamed.lookup(call.getCalleeAttr().getAttr()))
          call.setCallee(name);
      });
  }
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    function->removeAttr(kCopyAttr);
}

struct DistPropagate : sheaf::impl::DistPropagateBase<DistPropagate> {
  using DistPropagateBase::DistPropagateBase;

  void runOnOperation() final {
    FailureOr<MeshInfo> mesh = MeshInfo::get(getOperation());
    if (failed(mesh))
      return signalPassFailure();
    if (failed(sharding::verifyOnTensors(getOperation(), getArgument())) ||
        failed(sharding::verifyManualCalls(getOperation())))
      return signalPassFailure();
    bool keeps = keepOrigins || !why.empty();
    // Each round splits functions whose calls differ.
    while (true) {
      Origins origins;
      Propagation propagation(getOperation(), *mesh,
                              keeps ? &origins : nullptr);
      propagation.run();
      if (propagation.specialise())
        continue;
      propagation.write();
      if (!why.empty() &&
          failed(origins.explain(getOperation(), *mesh, why, llvm::outs())))
        return signalPassFailure();
      // Before copies go: a step may lead through one.
      if (keepOrigins)
        origins.write(getOperation(), *mesh);
      return mergeCopies(getOperation());
    }
  }
};
} // namespace
