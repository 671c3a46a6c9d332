//===- Border.cpp - Open dimensions at the border of dist.manual ----------===//

#include "passes/sharding/Border.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

namespace {
using Dim = std::pair<Value, unsigned>;

/// Which dimensions of a body are the same, and which of them may not be cut.
class Body {
public:
  explicit Body(Block &block) {
    for (BlockArgument argument : block.getArguments())
      add(argument);
    for (Operation &op : block.without_terminator()) {
      for (Value result : op.getResults())
        add(result);
      visit(&op);
    }
  }

  void join(Dim a, Dim b) { classes.unionSets(idOf(a), idOf(b)); }
  void keep(Dim dim) { kept.insert(idOf(dim)); }

  /// The dimensions of each class that may be cut, in the order of the body.
  SmallVector<SmallVector<Dim>> findOpen() {
    llvm::MapVector<int, SmallVector<Dim>> members;
    llvm::SetVector<int> whole;
    for (int id : kept)
      whole.insert(classes.getLeaderValue(id));
    // Where two dimensions of a value are one, as in the sum of a square and
    // its transpose, the same axis would cut both.
    llvm::DenseSet<std::pair<Value, int>> seen;
    for (auto [id, dim] : llvm::enumerate(dims))
      if (int leader = classes.getOrInsertLeaderValue(id);
          !seen.insert({dim.first, leader}).second)
        whole.insert(leader);
    for (auto [id, dim] : llvm::enumerate(dims)) {
      int leader = classes.getOrInsertLeaderValue(id);
      if (!whole.contains(leader))
        members[leader].push_back(dim);
    }
    SmallVector<SmallVector<Dim>> list;
    for (auto &[leader, group] : members)
      list.push_back(std::move(group));
    return list;
  }

private:
  SmallVector<Dim> dims;
  llvm::DenseMap<Dim, int> ids;
  llvm::EquivalenceClasses<int> classes;
  llvm::SetVector<int> kept;

  void add(Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      for (int64_t d = 0; d < type.getRank(); ++d)
        idOf({value, static_cast<unsigned>(d)});
  }
  int idOf(Dim dim) {
    auto [it, isNew] = ids.try_emplace(dim, static_cast<int>(dims.size()));
    if (isNew) {
      dims.push_back(dim);
      classes.insert(it->second);
    }
    return it->second;
  }
  void keepAll(Operation *op) {
    for (ValueRange values :
         {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value value : values)
        if (auto type = dyn_cast<RankedTensorType>(value.getType()))
          for (int64_t d = 0; d < type.getRank(); ++d)
            keep({value, static_cast<unsigned>(d)});
  }

  void visit(Operation *op) {
    // Collectives work on whole parts, but along the dimensions that they cut
    // or put together.
    if (isa<dist::DistDialect>(op->getDialect())) {
      SmallVector<int64_t> moved;
      if (auto gather = dyn_cast<dist::AllGatherOp>(op))
        moved = {static_cast<int64_t>(gather.getDim())};
      else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op))
        moved = {static_cast<int64_t>(scatter.getDim())};
      else if (auto slice = dyn_cast<dist::SliceOp>(op))
        moved = {static_cast<int64_t>(slice.getDim())};
      else if (auto exchange = dyn_cast<dist::AllToAllOp>(op))
        moved = {static_cast<int64_t>(exchange.getSplit()),
                 static_cast<int64_t>(exchange.getConcat())};
      else if (!isa<dist::AllReduceOp, dist::PermuteOp, dist::ShiftOp,
                    dist::BroadcastOp, dist::MakePartialOp, dist::LocalOp>(op))
        return keepAll(op);
      Value from = op->getOperand(0), to = op->getResult(0);
      int64_t rank = cast<RankedTensorType>(to.getType()).getRank();
      for (int64_t d = 0; d < rank; ++d) {
        Dim a(from, d), b(to, d);
        join(a, b);
        if (llvm::is_contained(moved, d))
          keep(a);
      }
      return;
    }
    if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      if (!constant.getValue().isSplat())
        keepAll(op);
      return;
    }
    // A rule that is written tells of the sizes that are there.
    FailureOr<nn::ShardingRule> rule = nn::getRule(op);
    if (failed(rule) || op->getNumRegions() != 0 || op->hasAttr(nn::kRuleAttr))
      return keepAll(op);
    SmallVector<std::optional<Dim>> first(rule->factors.size());
    auto relate = [&](Value value, const nn::ValueFactors &factors) {
      for (auto [d, dim] : llvm::enumerate(factors)) {
        Dim here(value, static_cast<unsigned>(d));
        bool passes = dim.size() == 1;
        for (int f : dim) {
          const nn::Factor &factor = rule->factors[f];
          passes &= factor.kind == nn::FactorKind::Parallel &&
                    factor.expansion.empty();
          // All that have the factor are cut, or none.
          if (first[f])
            join(*first[f], here);
          else
            first[f] = here;
        }
        if (!passes)
          keep(here);
      }
    };
    for (auto [operand, factors] :
         llvm::zip_equal(op->getOperands(), rule->operands))
      relate(operand, factors);
    for (auto [result, factors] :
         llvm::zip_equal(op->getResults(), rule->results))
      relate(result, factors);
  }
};
} // namespace

Border sharding::findBorder(dist::ManualOp op, const MeshInfo &mesh) {
  Border border;
  border.node.op = op;
  border.node.numOperands = op.getInputs().size();
  Block &block = op.getBody().front();
  Body body(block);
  auto yielded = block.getTerminator()->getOperands();

  // Of the border: the value outside, the one inside, its sharding.
  struct Place {
    Value outside, inside;
    dist::ShardingAttr sharding;
  };
  SmallVector<Place> places;
  for (auto [input, argument, sharding] :
       llvm::zip_equal(op.getInputs(), block.getArguments(),
                       op.getInShardings().getAsRange<dist::ShardingAttr>()))
    places.push_back({input, argument, sharding});
  for (auto [result, value, sharding] :
       llvm::zip_equal(op.getResults(), yielded,
                       op.getOutShardings().getAsRange<dist::ShardingAttr>()))
    places.push_back({result, value, sharding});

  llvm::SetVector<int> taken;
  auto take = [&](Attribute attribute) {
    attribute.walk([&](dist::AxisAttr axis) {
      for (int atom : mesh.atomsOf(axis))
        taken.insert(atom);
    });
  };
  take(op.getInShardings());
  take(op.getOutShardings());
  op.getBody().walk([&](Operation *inner) {
    take(inner->getAttrDictionary());
    for (Type type : inner->getResultTypes())
      if (dist::PartialAttr partial = dist::getPartial(type))
        take(partial);
  });
  border.taken = taken.takeVector();

  for (const Place &place : places) {
    auto type = cast<RankedTensorType>(place.outside.getType());
    for (auto [d, dim] : llvm::enumerate(place.sharding.getDims())) {
      int64_t devices = dist::MeshOp(mesh.op).getSize(dim.getAxes());
      // Behind padding, and between blocks, nothing can be cut further.
      if (!dim.getOpen() || dim.getBlocks() != 1 ||
          type.getDimSize(d) % devices != 0)
        body.keep({place.inside, static_cast<unsigned>(d)});
    }
  }
  nn::ShardingRule &rule = border.node.rule;
  llvm::DenseMap<Dim, int> factorOf;
  for (SmallVector<Dim> &group : body.findOpen()) {
    // One that comes to no border is not asked for either.
    bool reaches = llvm::any_of(places, [&](const Place &place) {
      return llvm::any_of(group,
                          [&](Dim dim) { return dim.first == place.inside; });
    });
    if (!reaches)
      continue;
    auto [value, d] = group.front();
    nn::Factor factor;
    factor.name = "open" + std::to_string(border.open++);
    factor.size = cast<RankedTensorType>(value.getType()).getDimSize(d);
    int number = rule.add(factor);
    for (Dim dim : group)
      factorOf[dim] = number;
    border.divides.push_back(llvm::any_of(places, [&](const Place &place) {
      return llvm::any_of(group, [&](Dim dim) {
        return dim.first == place.inside &&
               dist::MeshOp(mesh.op).getSize(
                   place.sharding.getDims()[dim.second].getAxes()) > 1;
      });
    }));
    border.inside.push_back(std::move(group));
  }
  // What the border says stays with each value.
  for (auto [i, place] : llvm::enumerate(places)) {
    auto type = cast<RankedTensorType>(place.outside.getType());
    nn::ValueFactors factors;
    for (auto [d, dim] : llvm::enumerate(place.sharding.getDims())) {
      auto open = factorOf.find({place.inside, static_cast<unsigned>(d)});
      int64_t devices = dist::MeshOp(mesh.op).getSize(dim.getAxes());
      nn::DimFactors &list = factors.emplace_back();
      nn::Factor own;
      own.name = "v" + std::to_string(i) + "d" + std::to_string(d);
      own.size = open == factorOf.end() ? type.getDimSize(d) : devices;
      own.kind = open == factorOf.end() ? nn::FactorKind::Whole
                                        : nn::FactorKind::Parallel;
      if (own.size > 1)
        list.push_back(rule.add(own));
      if (open != factorOf.end())
        list.push_back(open->second);
    }
    bool isInput = i < border.node.numOperands;
    border.node.values.push_back(
        isInput && isFree(place.outside) ? Value() : place.outside);
    (isInput ? rule.operands : rule.results).push_back(std::move(factors));
  }
  return border;
}

void Border::restrict(MutableArrayRef<DimSharding> factors,
                      const MeshInfo &mesh) const {
  for (auto [f, own] : llvm::enumerate(factors.take_front(open))) {
    int64_t left = node.rule.factors[f].size;
    auto *end = llvm::find_if(own.axes, [&, f = f](int atom) {
      if (llvm::is_contained(taken, atom) ||
          (divides[f] && left % mesh.sizeOf(atom) != 0))
        return true;
      left = (left + mesh.sizeOf(atom) - 1) / mesh.sizeOf(atom);
      return false;
    });
    own.axes.truncate(end - own.axes.begin());
  }
}

void sharding::closeBorder(dist::ManualOp op, const Border &border,
                           ArrayRef<SmallVector<int, 2>> axes,
                           const MeshInfo &mesh) {
  MLIRContext *context = op.getContext();
  // The border says which axes there are.
  auto close = [&](ArrayAttr shardings, ArrayRef<nn::ValueFactors> values) {
    SmallVector<Attribute> list;
    for (auto [sharding, factors] :
         llvm::zip_equal(shardings.getAsRange<dist::ShardingAttr>(), values)) {
      SmallVector<dist::DimAttr> dims;
      for (auto [dim, parts] : llvm::zip_equal(sharding.getDims(), factors)) {
        SmallVector<int> atoms;
        for (dist::AxisAttr axis : dim.getAxes())
          llvm::append_range(atoms, mesh.atomsOf(axis));
        if (!parts.empty() && parts.back() < static_cast<int>(border.open))
          llvm::append_range(atoms, axes[parts.back()]);
        dims.push_back(dist::DimAttr::get(context, mesh.axesOf(atoms),
                                          /*open=*/false, dim.getPriority(),
                                          dim.getBlocks()));
      }
      list.push_back(
          dist::ShardingAttr::get(context, dims, dist::Reduction::Sum, {}));
    }
    return ArrayAttr::get(context, list);
  };
  op.setInShardingsAttr(close(op.getInShardings(), border.node.rule.operands));
  op.setOutShardingsAttr(close(op.getOutShardings(), border.node.rule.results));

  llvm::SetVector<Operation *> changed;
  for (auto [factor, group] : llvm::enumerate(border.inside)) {
    int64_t devices = mesh.sizeOf(axes[factor]);
    if (devices == 1)
      continue;
    for (auto [value, d] : group) {
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[d] = (shape[d] + devices - 1) / devices;
      value.setType(RankedTensorType::get(shape, type.getElementType(),
                                          type.getEncoding()));
      if (Operation *made = value.getDefiningOp())
        changed.insert(made);
    }
  }
  // What ops say of their shapes beside their types.
  for (Operation *made : changed) {
    if (auto slice = dyn_cast<nn::SliceOp>(made))
      slice.setSizes(cast<RankedTensorType>(slice.getType()).getShape());
    if (auto constant = dyn_cast<nn::ConstantOp>(made))
      constant.setValueAttr(cast<ElementsAttr>(
          DenseElementsAttr::get(cast<RankedTensorType>(constant.getType()),
                                 cast<SplatElementsAttr>(constant.getValue())
                                     .getSplatValue<Attribute>())));
  }
}
