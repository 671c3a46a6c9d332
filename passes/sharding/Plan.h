//===- Plan.h - What partitioning is going to do ---------------*- C++ -*-===//
//
// Decided before anything is rewritten: for each op the sharding of its
// factors, and so what it needs of its operands and what it gives; for each
// value over which axes it stays partial behind its definition. And the code
// that moves a local value from one sharding to another, as the planner says.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_PLAN_H
#define SHEAF_PASSES_SHARDING_PLAN_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Shardings.h"
#include <deque>
#include <map>

namespace sheaf::sharding {

/// Atoms as bits.
using AtomSet = uint64_t;

inline llvm::SmallVector<int> atomsIn(AtomSet set) {
  llvm::SmallVector<int> list;
  for (int i = 0; i < 64; ++i)
    if (set >> i & 1)
      list.push_back(i);
  return list;
}
inline AtomSet setOf(llvm::ArrayRef<int> atoms) {
  AtomSet set = 0;
  for (int atom : atoms)
    set |= AtomSet(1) << atom;
  return set;
}
AtomSet setOf(const ValueSharding &sharding);

/// The sharding without some axes.
ValueSharding without(ValueSharding sharding, AtomSet axes);

/// A local value: where its elements are, and what it is still to be summed
/// over.
struct Placement {
  ValueSharding sharding;
  AtomSet partial = 0;

  bool operator==(const Placement &other) const {
    return sharding == other.sharding && partial == other.partial;
  }
};

/// Moves values between placements.
class Resharder {
public:
  explicit Resharder(MeshInfo &mesh) : mesh(mesh) {}

  /// Seconds to move a tensor of global `type`.
  double cost(mlir::RankedTensorType type, const Placement &from,
              const Placement &to);
  /// Builds the collectives. `reason` and `role` go on each (null: none).
  mlir::Value convert(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value local, mlir::RankedTensorType type,
                      const Placement &from, const Placement &to,
                      dist::Reduction kind, mlir::DictionaryAttr reason,
                      mlir::Attribute role);
  /// The local type of a tensor of global `type`.
  mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                   const Placement &placement,
                                   dist::Reduction kind = dist::Reduction::Sum);

private:
  MeshInfo &mesh;
};

/// Several wishes of which an op can follow one.
struct Conflict {
  struct Candidate {
    /// Which dimension of which value wants what.
    std::string what;
    /// To move the op's values if it is followed; negative where that was not
    /// asked: a stronger wish needs no price.
    double seconds = -1;
  };
  llvm::SmallVector<Candidate, 2> candidates;
  /// The candidate that is followed.
  size_t choice = 0;
  /// "priority", "cost" or "size".
  llvm::StringRef by;
};

/// What one op does.
struct OpPlan {
  nn::ShardingRule rule;
  FactorShardings factors;
  llvm::SmallVector<ValueSharding> operands, results;
  /// Of each result, over what it is partial by this op's own reductions, and
  /// how.
  llvm::SmallVector<AtomSet> partial;
  llvm::SmallVector<dist::Reduction> kinds;
  std::vector<Conflict> conflicts;
  /// Of attention whose keys and values go round: the factor of the keys, which
  /// are sharded as the queries, whose factor is the other; else -1.
  int ringKeys = -1, ringQueries = -1;

  bool isRing() const {
    return ringKeys >= 0 && !factors[ringQueries].axes.empty();
  }
  /// The axes that the factors use.
  AtomSet used() const;
};

/// Where partial values are reduced.
enum class Timing { Cheapest, Early, Late };

class Plan {
public:
  /// `keysGoRound`: attention takes keys as they are sharded, if its queries
  /// are, too.
  Plan(mlir::ModuleOp module, MeshInfo &mesh, Timing timing, bool keysGoRound)
      : module(module), mesh(mesh), timing(timing), keysGoRound(keysGoRound),
        resharder(mesh) {}

  void build();

  /// The sharding that propagation gave the value.
  const ValueSharding &shardingOf(mlir::Value value);
  /// Null for an op without a rule.
  const OpPlan *planOf(mlir::Operation *op) const { return ops.lookup(op); }
  /// Over what the value is partial where it is defined, reductions put off
  /// included.
  AtomSet partialAt(mlir::Value value) const {
    return atDefinition.lookup(value);
  }
  /// Over what of that it stays partial.
  AtomSet partialAfter(mlir::Value value) const {
    return atDefinition.lookup(value) & deferred.lookup(value);
  }
  /// Where the value is behind its definition. What is still to be reduced over
  /// an axis is not sharded over it yet.
  Placement placementOf(mlir::Value value) {
    AtomSet partial = partialAfter(value);
    return {without(shardingOf(value), partial), partial};
  }
  /// Calls of a function.
  llvm::ArrayRef<mlir::func::CallOp> callsOf(mlir::func::FuncOp function) {
    return calls[function];
  }
  mlir::func::FuncOp calleeOf(mlir::func::CallOp call);
  Resharder &getResharder() { return resharder; }

private:
  void planOp(mlir::Operation *op);
  const OpPlan *makePlan(mlir::Operation *op);
  void decidePartial();
  AtomSet throughOp(mlir::Operation *op, const OpPlan &plan,
                    llvm::function_ref<AtomSet(mlir::Value)> of);
  bool mayCarry(nn::MicrobatchesOp loop, unsigned accumulator);
  /// What a use wants where it takes nothing partial; nothing where that is not
  /// known.
  std::optional<ValueSharding> wantedBy(mlir::OpOperand &use);
  /// Whether a use can hand on that an operand is partial.
  bool passesOn(mlir::OpOperand &use, int atom);
  /// What it costs to leave an operand partial, where the use passes that on.
  std::optional<double> costThrough(mlir::OpOperand &use, int atom);
  void decide(mlir::Value value);
  double runsOf(mlir::Operation *op);

  mlir::ModuleOp module;
  MeshInfo &mesh;
  Timing timing;
  bool keysGoRound;
  Resharder resharder;
  mlir::SymbolTableCollection symbols;
  /// What the maps point to; of equal shardings one is kept.
  std::deque<OpPlan> plans;
  std::deque<ValueSharding> allShardings;
  llvm::DenseMap<mlir::Attribute, const ValueSharding *> parsed;
  llvm::DenseMap<int64_t, const ValueSharding *> replicated; // By rank.
  llvm::DenseMap<mlir::Value, const ValueSharding *> shardings;
  /// Where one is not 0.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>> priorities;
  llvm::DenseMap<mlir::Operation *, const OpPlan *> ops;
  /// By what an op is and has.
  std::map<std::vector<const void *>, const OpPlan *> equalOps;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::func::CallOp>>
      calls;
  llvm::DenseMap<mlir::Operation *, double> runs;
  llvm::DenseMap<mlir::Value, AtomSet> candidates, deferred, atDefinition;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<double>> costs;
};

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_PLAN_H
