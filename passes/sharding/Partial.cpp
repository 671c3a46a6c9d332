//===- Partial.cpp - What each op needs, and where sums are reduced -------===//
//
// A sum over a sharded dimension is partial. It can be reduced where it is
// computed or, as long as everything that reads it is linear in it, later: once
// for several that are added, or behind a loop. For each value and axis the
// cost of reducing at once is compared with what its uses would cost together;
// the cheaper one is taken, and of two equal ones the earlier. Costs count how
// often a block runs.
//
//===----------------------------------------------------------------------===//

#include "passes/sharding/Plan.h"
#include "llvm/ADT/SetVector.h"
#include <limits>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

AtomSet OpPlan::used() const {
  AtomSet set = 0;
  for (const DimSharding &factor : factors)
    set |= setOf(factor.axes);
  return set;
}

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

const ValueSharding &Plan::shardingOf(Value value) {
  if (const ValueSharding *known = shardings.lookup(value))
    return *known;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  int64_t rank = type ? type.getRank() : 0;
  const ValueSharding *&none = replicated[rank];
  if (!none)
    none = &allShardings.emplace_back(rank);
  return *none;
}

func::FuncOp Plan::calleeOf(func::CallOp call) {
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  return callee && !callee.isExternal() ? callee : nullptr;
}

void Plan::build() {
  auto read = [&](Value value, Attribute attribute) {
    auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attribute);
    if (!sharding || !isa<RankedTensorType>(value.getType()))
      return;
    const ValueSharding *&known = parsed[sharding];
    if (!known)
      known = &allShardings.emplace_back(mesh.parse(sharding));
    shardings[value] = known;
    if (llvm::any_of(sharding.getDims(),
                     [](dist::DimAttr dim) { return dim.getPriority() != 0; }))
      for (dist::DimAttr dim : sharding.getDims())
        priorities[value].push_back(dim.getPriority());
  };
  module.walk([&](Operation *op) {
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      if (!function.isExternal())
        for (BlockArgument argument : function.getArguments())
          read(argument, function.getArgAttr(argument.getArgNumber(),
                                             dist::kShardingAttr));
    } else if (auto constraint = dyn_cast<dist::ConstraintOp>(op)) {
      read(constraint, constraint.getSharding());
    } else if (auto list = op->getAttrOfType<ArrayAttr>(dist::kShardingsAttr)) {
      for (auto [value, sharding] : llvm::zip_equal(op->getResults(), list))
        read(value, sharding);
    }
    if (auto list = op->getAttrOfType<ArrayAttr>(dist::kArgumentShardingsAttr))
      for (auto [value, sharding] :
           llvm::zip_equal(op->getRegion(0).getArguments(), list))
        read(value, sharding);
    if (auto call = dyn_cast<func::CallOp>(op))
      if (func::FuncOp callee = calleeOf(call))
        calls[callee].push_back(call);
  });
  module.walk([&](Operation *op) { planOp(op); });
  decidePartial();
}

void Plan::planOp(Operation *op) {
  if (isa<func::CallOp, dist::ConstraintOp>(op) || op->getNumRegions() != 0 ||
      op->getParentOfType<dist::ManualOp>())
    return;
  // Equal ops on equal shardings have one plan.
  std::vector<const void *> key{op->getName().getAsOpaquePointer(),
                                op->getAttrDictionary().getAsOpaquePointer()};
  bool plain = true;
  auto add = [&](Value value) {
    key.push_back(value.getType().getAsOpaquePointer());
    key.push_back(isFree(value) ? nullptr : &shardingOf(value));
    plain &= !priorities.contains(value);
  };
  llvm::for_each(op->getOperands(), add);
  llvm::for_each(op->getResults(), add);
  if (plain) {
    const OpPlan *&known = equalOps[key];
    if (!known)
      known = makePlan(op);
    if (known)
      ops[op] = known;
  } else if (const OpPlan *own = makePlan(op)) {
    ops[op] = own;
  }
}

/// Notes the factors of keys and queries of self-attention, if all its operands
/// can go round with the keys.
static void findRing(Operation *op, OpPlan &plan) {
  auto attention = dyn_cast<nn::AttentionOp>(op);
  auto gradient = dyn_cast<nn::AttentionGradOp>(op);
  if (!attention && !gradient)
    return;
  if (attention ? static_cast<bool>(attention.getBias())
                : static_cast<bool>(gradient.getBias()))
    return;
  for (auto [f, factor] : llvm::enumerate(plan.rule.factors))
    if (factor.expansion == "ring") {
      plan.ringKeys = f;
      plan.ringQueries = plan.rule.operands[0][1].front();
    }
}

const OpPlan *Plan::makePlan(Operation *op) {
  SmallVector<Node, 0> nodes;
  appendNodes(op, symbols, nodes);
  if (nodes.empty())
    return nullptr;
  Node &node = nodes.front();
  OpPlan plan;
  plan.rule = node.rule;
  if (keysGoRound)
    findRing(op, plan);

  // What each factor's dimensions have: the strongest wish, then the longest.
  struct Wish {
    DimSharding sharding;
    int64_t priority = 0, weight = 0;
    unsigned value = 0, dim = 0;
  };
  SmallVector<Wish> wishes(plan.rule.factors.size());
  auto describe = [&](const Wish &wish) {
    bool isResult = wish.value >= node.numOperands;
    std::string text = "{";
    for (int axis : wish.sharding.axes)
      text += (text.size() > 1 ? ", " : "") + mesh.nameOf(axis);
    return text + "} of dimension " + std::to_string(wish.dim) +
           (isResult ? " of result " : " of operand ") +
           std::to_string(isResult ? wish.value - node.numOperands
                                   : wish.value);
  };
  // Of the wishes for one factor the first that the one followed is no part of.
  SmallVector<std::optional<Wish>> refused(plan.rule.factors.size());
  for (auto [i, value] : llvm::enumerate(node.values)) {
    if (!value)
      continue;
    const ValueSharding &sharding = shardingOf(value);
    auto known = priorities.find(value);
    for (auto [d, dim] : llvm::enumerate(node.factorsOf(i))) {
      bool complete;
      int64_t priority = known == priorities.end() ? 0 : known->second[d];
      int64_t weight = tensorOf(value).getNumElements();
      for (auto &[factor, own] :
           toFactors(mesh, plan.rule, dim, sharding.dims[d], complete)) {
        if (!isShardable(plan.rule.factors[factor], own))
          continue;
        Wish &wish = wishes[factor];
        auto key = [](int64_t priority, size_t length, int64_t weight) {
          return std::make_tuple(-priority, length, weight);
        };
        Wish here{own, priority, weight, static_cast<unsigned>(i),
                  static_cast<unsigned>(d)};
        size_t common = std::min(own.axes.size(), wish.sharding.axes.size());
        bool differs = !std::equal(own.axes.begin(), own.axes.begin() + common,
                                   wish.sharding.axes.begin()) ||
                       (common && !own.sameOrder(wish.sharding));
        bool follows =
            wish.sharding.axes.empty() ||
            key(priority, own.axes.size(), weight) >
                key(wish.priority, wish.sharding.axes.size(), wish.weight);
        if (differs && !refused[factor])
          refused[factor] = follows ? wish : here;
        if (follows)
          wish = here;
      }
    }
  }
  auto results = [&](const FactorShardings &factors, OpPlan &out) {
    out.operands.clear();
    out.results.clear();
    out.partial.clear();
    out.kinds.clear();
    out.factors = factors;
    // What has the keys has them where the queries are.
    FactorShardings all = factors;
    if (out.ringKeys >= 0)
      all[out.ringKeys] = factors[out.ringQueries];
    for (const nn::ValueFactors &value : out.rule.operands)
      out.operands.push_back(sharding::shardingOf(mesh, out.rule, value, all));
    for (const nn::ValueFactors &value : out.rule.results) {
      out.results.push_back(sharding::shardingOf(mesh, out.rule, value, all));
      AtomSet partial = 0;
      dist::Reduction kind = dist::Reduction::Sum;
      for (auto [f, factor] : llvm::enumerate(out.rule.factors)) {
        if (factor.kind != nn::FactorKind::Reduction ||
            factors[f].axes.empty() ||
            llvm::any_of(value, [&, f = f](const nn::DimFactors &dim) {
              return llvm::is_contained(dim, static_cast<int>(f)) ||
                     (static_cast<int>(f) == out.ringQueries &&
                      llvm::is_contained(dim, out.ringKeys));
            }))
          continue;
        partial |= setOf(factors[f].axes);
        kind = static_cast<dist::Reduction>(factor.reduction);
      }
      out.partial.push_back(partial);
      out.kinds.push_back(kind);
    }
  };
  auto cost = [&](const FactorShardings &factors) {
    OpPlan trial;
    trial.rule = plan.rule;
    trial.ringKeys = plan.ringKeys;
    trial.ringQueries = plan.ringQueries;
    results(factors, trial);
    double sum = 0;
    for (auto [i, value] : llvm::enumerate(node.values)) {
      if (!value)
        continue;
      unsigned r = i - node.numOperands;
      Placement own{shardingOf(value), 0};
      sum += i < node.numOperands
                 ? resharder.cost(tensorOf(value), own, {trial.operands[i], 0})
                 : resharder.cost(tensorOf(value),
                                  {trial.results[r], trial.partial[r]}, own);
    }
    return sum;
  };

  FactorShardings factors;
  for (Wish &wish : wishes)
    factors.push_back(wish.sharding);
  for (auto [wish, other] : llvm::zip_equal(wishes, refused))
    if (other)
      plan.conflicts.push_back(
          {{{describe(wish)}, {describe(*other)}},
           0,
           wish.priority != other->priority ? "priority" : "size"});
  // An axis that several factors claim: the strongest wish, else what costs
  // least.
  for (int atom = 0; atom < mesh.getNumAtoms(); ++atom) {
    SmallVector<int> claims;
    for (auto [f, sharding] : llvm::enumerate(factors))
      if (llvm::is_contained(sharding.axes, atom))
        claims.push_back(f);
    if (claims.size() < 2)
      continue;
    int64_t strongest = std::numeric_limits<int64_t>::max();
    for (int f : claims)
      strongest = std::min(strongest, wishes[f].priority);
    Conflict conflict;
    SmallVector<int> all = claims;
    // The strongest first, those that can still be chosen.
    llvm::stable_sort(all, [&](int a, int b) {
      return wishes[a].priority < wishes[b].priority;
    });
    for (int f : all)
      conflict.candidates.push_back({describe(wishes[f])});
    llvm::erase_if(claims,
                   [&](int f) { return wishes[f].priority != strongest; });
    auto without = [&](int winner) {
      FactorShardings trial = factors;
      for (auto [f, sharding] : llvm::enumerate(trial)) {
        auto *at = llvm::find(sharding.axes, atom);
        if (at != sharding.axes.end() && static_cast<int>(f) != winner)
          sharding.axes.truncate(at - sharding.axes.begin());
      }
      return trial;
    };
    FactorShardings best = without(claims[0]);
    double bestCost = claims.size() > 1 ? cost(best) : 0;
    if (claims.size() > 1)
      conflict.candidates[0].seconds = bestCost;
    for (auto [i, f] : llvm::enumerate(ArrayRef<int>(claims).drop_front())) {
      FactorShardings trial = without(f);
      double c = conflict.candidates[i + 1].seconds = cost(trial);
      if (c < bestCost)
        best = trial, bestCost = c, conflict.choice = i + 1;
    }
    conflict.by = claims.size() > 1 ? "cost" : "priority";
    plan.conflicts.push_back(std::move(conflict));
    factors = best;
  }
  // Every value must be able to say what its factors have; reductions of
  // several kinds do not mix.
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0; i < node.values.size() && !changed; ++i)
      for (const nn::DimFactors &dim : node.factorsOf(i)) {
        bool complete;
        fromFactors(mesh, plan.rule, dim, factors, complete);
        if (complete)
          continue;
        for (int f : llvm::reverse(dim))
          if (!factors[f].axes.empty()) {
            factors[f] = DimSharding();
            changed = true;
            break;
          }
        break;
      }
  }
  results(factors, plan);
  return &plans.emplace_back(std::move(plan));
}

//===----------------------------------------------------------------------===//
// Where partial values are reduced
//===----------------------------------------------------------------------===//

/// What of the operands' partial axes passes through to the result of an op
/// with one result; `of` gives those of an operand. Where the op would be
/// sharded over such an axis, it is not, then; so every operand with that
/// dimension must be partial.
AtomSet Plan::throughOp(Operation *op, const OpPlan &plan,
                        llvm::function_ref<AtomSet(Value)> of) {
  if (op->getNumResults() != 1 || plan.isRing() ||
      plan.rule.linearity == nn::Linearity::None)
    return 0;
  AtomSet result = 0, twice = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!plan.rule.mayDefer(i, nn::Reduction::Sum))
      continue;
    AtomSet set = of(operand);
    twice |= result & set;
    result |= set;
  }
  if (plan.rule.linearity == nn::Linearity::Separate)
    result &= ~twice;
  result &= ~plan.partial[0];
  for (auto [f, factor] : llvm::enumerate(plan.factors)) {
    AtomSet here = setOf(factor.axes) & result;
    if (!here)
      continue;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      bool has = llvm::any_of(
          plan.rule.operands[i], [&, f = f](const nn::DimFactors &dim) {
            return llvm::is_contained(dim, static_cast<int>(f));
          });
      if (has && !isFree(operand))
        result &=
            ~(here & ~(plan.rule.mayDefer(i, nn::Reduction::Sum) ? of(operand)
                                                                 : AtomSet(0)));
    }
  }
  return result;
}

/// Whether the accumulator goes nowhere but into sums that become its next
/// value.
bool Plan::mayCarry(nn::MicrobatchesOp loop, unsigned accumulator) {
  Block &body = loop.getBody().front();
  Value value = body.getArgument(1 + loop.getSliced().size() + accumulator);
  Operation *end = body.getTerminator();
  while (value.hasOneUse()) {
    OpOperand &use = *value.getUses().begin();
    if (use.getOwner() == end)
      return use.getOperandNumber() == accumulator;
    const OpPlan *plan = planOf(use.getOwner());
    if (!plan || use.getOwner()->getNumResults() != 1 ||
        plan->rule.linearity != nn::Linearity::Joint ||
        !plan->rule.mayDefer(use.getOperandNumber(), nn::Reduction::Sum))
      return false;
    value = use.getOwner()->getResult(0);
  }
  return false;
}

std::optional<ValueSharding> Plan::wantedBy(OpOperand &use) {
  Operation *op = use.getOwner();
  unsigned i = use.getOperandNumber();
  if (auto call = dyn_cast<func::CallOp>(op)) {
    func::FuncOp callee = calleeOf(call);
    return callee ? std::optional(shardingOf(callee.getArgument(i)))
                  : std::nullopt;
  }
  if (auto constraint = dyn_cast<dist::ConstraintOp>(op))
    return shardingOf(constraint);
  if (isa<func::ReturnOp>(op)) {
    auto given =
        cast<func::FuncOp>(op->getParentOp())
            .getResultAttrOfType<dist::ShardingAttr>(i, dist::kShardingAttr);
    return given ? mesh.parse(given) : shardingOf(use.get());
  }
  if (auto loop = dyn_cast<nn::MicrobatchesOp>(op)) {
    if (i < loop.getSliced().size())
      return std::nullopt;
    return shardingOf(loop.getBody().front().getArgument(1 + i));
  }
  if (isa<nn::YieldOp>(op)) {
    auto loop = dyn_cast<nn::MicrobatchesOp>(op->getParentOp());
    if (!loop)
      return std::nullopt;
    return shardingOf(
        loop.getBody().front().getArgument(1 + loop.getSliced().size() + i));
  }
  if (auto manual = dyn_cast<dist::ManualOp>(op))
    return mesh.parse(cast<dist::ShardingAttr>(manual.getInShardings()[i]));
  if (const OpPlan *plan = planOf(op))
    return plan->operands[i];
  return ValueSharding(tensorOf(use.get()).getRank());
}

bool Plan::passesOn(OpOperand &use, int atom) {
  Operation *op = use.getOwner();
  unsigned i = use.getOperandNumber();
  AtomSet bit = AtomSet(1) << atom;
  if (isa<func::ReturnOp>(op)) {
    auto function = cast<func::FuncOp>(op->getParentOp());
    return function.isPrivate() && !callsOf(function).empty() &&
           !function.getResultAttr(i, dist::kShardingAttr) &&
           llvm::all_of(callsOf(function), [&](func::CallOp call) {
             return (candidates.lookup(call.getResult(i)) & bit) != 0;
           });
  }
  if (isa<nn::YieldOp>(op)) {
    auto loop = dyn_cast<nn::MicrobatchesOp>(op->getParentOp());
    return loop && mayCarry(loop, i) &&
           !(setOf(shardingOf(loop.getBody().front().getArgument(
                 1 + loop.getSliced().size() + i))) &
             bit) &&
           (candidates.lookup(loop.getResult(i)) & bit);
  }
  if (isa<dist::ConstraintOp>(op))
    return (candidates.lookup(op->getResult(0)) & bit) != 0;
  const OpPlan *plan = planOf(op);
  return plan && op->getNumResults() == 1 &&
         plan->rule.mayDefer(i, nn::Reduction::Sum) &&
         !(plan->partial[0] & bit) &&
         (candidates.lookup(op->getResult(0)) & bit);
}

std::optional<double> Plan::costThrough(OpOperand &use, int atom) {
  Operation *op = use.getOwner();
  unsigned i = use.getOperandNumber();
  AtomSet bit = AtomSet(1) << atom;
  if (!passesOn(use, atom))
    return std::nullopt;
  if (isa<func::ReturnOp>(op)) {
    double sum = 0;
    for (func::CallOp call : callsOf(cast<func::FuncOp>(op->getParentOp())))
      sum += costs.lookup(call.getResult(i))[atom];
    // Of two equal places gradients are reduced where the layer is called.
    Operation *from = use.get().getDefiningOp();
    auto role = from ? from->getAttrOfType<StringAttr>(nn::kRoleAttr) : nullptr;
    return role && role == "weight_gradient" ? sum * (1 - 1e-6) : sum;
  }
  if (isa<nn::YieldOp>(op))
    return costs.lookup(op->getParentOp()->getResult(i))[atom];
  double cost = costs.lookup(op->getResult(0))[atom];
  const OpPlan *plan = planOf(op);
  if (!plan || plan->rule.linearity != nn::Linearity::Joint)
    return cost;
  // Operands that are reduced before this op for another use share nothing.
  int sharing = 0;
  for (auto [j, operand] : llvm::enumerate(op->getOperands()))
    sharing += plan->rule.mayDefer(j, nn::Reduction::Sum) &&
               (candidates.lookup(operand) & bit) &&
               llvm::all_of(operand.getUses(), [&](OpOperand &other) {
                 return passesOn(other, atom);
               });
  return cost / std::max(sharing, 1);
}

double Plan::runsOf(Operation *op) {
  double times = 1;
  for (Operation *parent = op->getParentOp(); parent;
       parent = parent->getParentOp()) {
    if (auto loop = dyn_cast<nn::MicrobatchesOp>(parent))
      times *= loop.getCount();
    if (isa<func::FuncOp>(parent))
      return times * runs.lookup(parent);
  }
  return times;
}

void Plan::decide(Value value) {
  AtomSet set = candidates.lookup(value), later = 0;
  if (!set)
    return;
  SmallVector<double> cost(mesh.getNumAtoms(), kInfinity);
  for (int atom : atomsIn(set)) {
    AtomSet bit = AtomSet(1) << atom;
    Placement partial{without(shardingOf(value), bit), bit};
    double now =
        runsOf(value.getDefiningOp()) *
        resharder.cost(tensorOf(value), partial, {shardingOf(value), 0});
    double uses = 0;
    // Uses in one block that want the same share it.
    SmallVector<std::pair<Block *, ValueSharding>> paid;
    for (OpOperand &use : value.getUses()) {
      if (std::optional<double> through = costThrough(use, atom)) {
        uses += *through;
        continue;
      }
      std::optional<ValueSharding> wanted = wantedBy(use);
      if (!wanted) {
        uses = kInfinity;
        break;
      }
      std::pair<Block *, ValueSharding> key{use.getOwner()->getBlock(),
                                            *wanted};
      if (llvm::is_contained(paid, key))
        continue;
      paid.push_back(key);
      uses += runsOf(use.getOwner()) *
              resharder.cost(tensorOf(value), partial, {*wanted, 0});
    }
    bool late = timing == Timing::Late &&
                llvm::all_of(value.getUses(), [&](OpOperand &use) {
                  return passesOn(use, atom);
                });
    if (late || (timing == Timing::Cheapest && uses < now * (1 - 1e-9)))
      later |= bit;
    cost[atom] = std::min(now, uses);
  }
  costs[value] = std::move(cost);
  deferred[value] = later;
}

void Plan::decidePartial() {
  // Callees before callers.
  llvm::SetVector<func::FuncOp> order;
  std::function<void(func::FuncOp)> visit = [&](func::FuncOp function) {
    if (order.contains(function))
      return;
    function.walk([&](func::CallOp call) {
      if (func::FuncOp callee = calleeOf(call))
        visit(callee);
    });
    order.insert(function);
  };
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      visit(function);

  // How often each function runs.
  for (func::FuncOp function : llvm::reverse(order)) {
    double times = function.isPublic() || callsOf(function).empty() ? 1 : 0;
    for (func::CallOp call : callsOf(function))
      times += runsOf(call);
    runs[function] = times;
  }

  auto forward = [&](llvm::DenseMap<Value, AtomSet> &map, bool isFinal) {
    auto of = [&](Value value) {
      AtomSet set = map.lookup(value);
      return isFinal ? set & deferred.lookup(value) : set;
    };
    for (func::FuncOp function : order)
      function.walk([&](Operation *op) {
        if (auto call = dyn_cast<func::CallOp>(op)) {
          func::FuncOp callee = calleeOf(call);
          if (!callee)
            return;
          Operation *end = callee.front().getTerminator();
          for (auto [returned, result] :
               llvm::zip_equal(end->getOperands(), call.getResults())) {
            AtomSet set = of(returned);
            map[result] = set;
          }
        } else if (auto loop = dyn_cast<nn::MicrobatchesOp>(op)) {
          // The body was walked before: operations are visited in post-order.
          Operation *end = loop.getBody().front().getTerminator();
          for (auto [i, yielded, result] :
               llvm::enumerate(end->getOperands(), loop.getResults())) {
            AtomSet set = of(yielded);
            map[result] = set;
            if (isFinal)
              map[loop.getBody().front().getArgument(
                  1 + loop.getSliced().size() + i)] = set;
          }
        } else if (auto constraint = dyn_cast<dist::ConstraintOp>(op)) {
          // Sums over axes that it does not ask for pass.
          map[constraint] =
              of(constraint.getInput()) & ~setOf(shardingOf(constraint));
        } else if (const OpPlan *plan = planOf(op)) {
          for (auto [i, result] : llvm::enumerate(op->getResults())) {
            AtomSet own = plan->kinds[i] == dist::Reduction::Sum || isFinal
                              ? plan->partial[i]
                              : 0;
            map[result] = own | throughOp(op, *plan, of);
          }
        }
      });
  };
  forward(candidates, /*isFinal=*/false);

  // Callers before callees, uses before definitions.
  std::function<void(Block &)> backward = [&](Block &block) {
    for (Operation &op : llvm::reverse(block)) {
      for (Value result : op.getResults())
        decide(result);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          backward(inner);
    }
  };
  for (func::FuncOp function : llvm::reverse(order))
    backward(function.front());
  // An accumulator is what is added to it; so are the sums on its way.
  forward(atDefinition, /*isFinal=*/true);
  module.walk([&](nn::MicrobatchesOp loop) {
    for (BlockArgument argument : loop.getBody().front().getArguments())
      deferred[argument] = ~AtomSet(0);
  });
}
