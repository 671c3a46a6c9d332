//===- Shardings.cpp - Shardings as the passes compute with them ----------===//

#include "passes/sharding/Shardings.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include <set>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

std::string sharding::axesText(ArrayRef<dist::AxisAttr> axes) {
  std::string text;
  for (dist::AxisAttr axis : axes)
    text += (text.empty() ? "" : ", ") + axis.getText();
  return text;
}

SmallVector<dist::AxisAttr> MeshInfo::usedBy(ModuleOp module) {
  llvm::SetVector<dist::AxisAttr> used;
  auto add = [&](Attribute attribute) {
    attribute.walk([&](dist::AxisAttr axis) {
      if (!axis.isWhole())
        used.insert(axis);
    });
  };
  // The same few attributes are on many ops.
  llvm::DenseSet<Attribute> seen;
  auto addOf = [&](Operation *op) {
    for (NamedAttribute attribute : op->getAttrs())
      if ((attribute.getName().getValue().starts_with("dist.") ||
           isa<dist::DistDialect>(op->getDialect()) ||
           isa<FunctionOpInterface>(op)) &&
          seen.insert(attribute.getValue()).second)
        add(attribute.getValue());
  };
  module.walk([&](Operation *op) {
    addOf(op);
    // In the body of a dist.manual types name axes, too.
    if (auto manual = dyn_cast<dist::ManualOp>(op))
      manual.getBody().walk([&](Operation *inner) {
        for (Type type : inner->getResultTypes())
          if (dist::PartialAttr partial = dist::getPartial(type))
            add(partial);
      });
  });
  return used.takeVector();
}

FailureOr<MeshInfo> MeshInfo::get(ModuleOp module) {
  dist::MeshOp op = dist::getMesh(module);
  if (!op) {
    module.emitError("has no mesh; declare one with dist.mesh, or name one to "
                     "dist-apply-strategy");
    return failure();
  }
  return get(op, usedBy(module));
}

FailureOr<MeshInfo> MeshInfo::get(dist::MeshOp op,
                                  ArrayRef<dist::AxisAttr> used) {
  // The places where an axis is cut, as strides from outside.
  llvm::StringMap<std::set<int64_t>> cuts;
  for (auto axis : op.getAxes().getAsRange<dist::MeshAxisAttr>())
    cuts[axis.getName()] = {1, axis.getSize()};
  for (dist::AxisAttr axis : used) {
    cuts[axis.getName()].insert(axis.getOuter());
    cuts[axis.getName()].insert(axis.getOuter() * axis.getSize());
  }

  MeshInfo info;
  info.op = op;
  planner::Mesh mesh;
  for (auto axis : op.getAxes().getAsRange<dist::MeshAxisAttr>()) {
    dist::LinkSpeed speed = dist::getLinkSpeed(axis);
    int64_t before = 1;
    for (int64_t place : cuts[axis.getName()]) {
      if (place == before)
        continue;
      if (place % before != 0) {
        op.emitError("axis ")
            << axis.getName() << " is cut at " << before << " and at " << place
            << " by sub-axes; one must divide the other";
        return failure();
      }
      info.atoms.push_back({axis.getName().getValue(), before});
      mesh.push_back({place / before, {speed.latency, speed.bandwidth}});
      before = place;
    }
  }
  info.planner = planner::Planner(std::move(mesh));
  return info;
}

SmallVector<int> MeshInfo::atomsOf(dist::AxisAttr axis) const {
  SmallVector<int> list;
  int64_t begin = axis.getOuter(), end = begin * axis.getSize();
  for (auto [i, atom] : llvm::enumerate(atoms))
    if (atom.axis == axis.getName() &&
        (axis.isWhole() || (atom.outer >= begin && atom.outer < end)))
      list.push_back(i);
  return list;
}

SmallVector<dist::AxisAttr> MeshInfo::axesOf(ArrayRef<int> list) const {
  SmallVector<dist::AxisAttr> axes;
  MLIRContext *context = op->getContext();
  for (size_t i = 0; i < list.size();) {
    StringRef name = atoms[list[i]].axis;
    int64_t outer = atoms[list[i]].outer, size = 1;
    do
      size *= sizeOf(list[i++]);
    while (i < list.size() && atoms[list[i]].axis == name &&
           list[i] == list[i - 1] + 1);
    bool whole = dist::MeshOp(op).lookup(name).getSize() == size;
    axes.push_back(dist::AxisAttr::get(context, StringAttr::get(context, name),
                                       whole ? 1 : outer, whole ? 0 : size));
  }
  return axes;
}

std::string MeshInfo::nameOf(int atom) const {
  return axesOf(atom).front().getText();
}

ValueSharding MeshInfo::parse(dist::ShardingAttr sharding) const {
  ValueSharding value;
  for (dist::DimAttr dim : sharding.getDims()) {
    DimSharding &out = value.dims.emplace_back();
    for (dist::AxisAttr axis : dim.getAxes())
      llvm::append_range(out.axes, atomsOf(axis));
    if (out.axes.empty())
      continue;
    out.blocks = std::max<int64_t>(dim.getBlocks(), 1);
    out.zigzag = std::max<int64_t>(-dim.getBlocks(), 0);
  }
  return value;
}

dist::ShardingAttr MeshInfo::print(const ValueSharding &sharding,
                                   bool open) const {
  MLIRContext *context = op->getContext();
  SmallVector<dist::DimAttr> dims;
  for (const DimSharding &dim : sharding.dims)
    dims.push_back(
        dist::DimAttr::get(context, axesOf(dim.axes), open, 0, dim.order()));
  return dist::ShardingAttr::get(context, dims, dist::Reduction::Sum, {});
}

RankedTensorType MeshInfo::localType(RankedTensorType type,
                                     const ValueSharding &sharding) const {
  SmallVector<int64_t> shape;
  for (auto [size, dim] : llvm::zip_equal(type.getShape(), sharding.dims)) {
    int64_t devices = sizeOf(dim.axes),
            block = dim.orderedSize(size) / dim.blocks;
    shape.push_back(dim.blocks * ((block + devices - 1) / devices));
  }
  return RankedTensorType::get(shape, type.getElementType());
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

bool sharding::isShardable(const nn::Factor &factor,
                           const DimSharding &sharding) {
  StringRef expansion = factor.expansion;
  // Of another order only that code knows that looks at all positions.
  if (sharding.zigzag && !expansion.empty() && expansion != "global_mean" &&
      expansion != "offset_mask")
    return false;
  // Code that asks where a device's part begins knows no blocks.
  if (sharding.blocks != 1 && !expansion.empty() && expansion != "global_mean")
    return false;
  switch (factor.kind) {
  case nn::FactorKind::Parallel:
    return expansion.empty() || expansion == "masked_gather" ||
           expansion == "vocab_loss" || expansion == "offset_iota" ||
           expansion == "offset_mask" || expansion == "offset_random";
  case nn::FactorKind::Reduction:
    return expansion.empty() || expansion == "global_mean" ||
           ((expansion == "masked_gather" || expansion == "offset_mask") &&
            factor.reduction == nn::Reduction::Sum);
  case nn::FactorKind::Whole:
    return expansion == "vocab_loss";
  case nn::FactorKind::Halo:
    return false;
  }
  return false;
}

bool sharding::isFree(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  return constant && constant.getValue().isSplat();
}

Node sharding::identity(Operation *op, Value a, Value b) {
  Node node;
  node.op = op;
  node.values = {a, b};
  node.numOperands = 1;
  auto type = dyn_cast<RankedTensorType>(a.getType());
  nn::ValueFactors dims;
  if (type)
    for (auto [i, size] : llvm::enumerate(type.getShape())) {
      nn::Factor factor;
      factor.name = "d" + std::to_string(i);
      factor.size = size;
      dims.push_back({node.rule.add(factor)});
    }
  node.rule.operands = {dims};
  node.rule.results = {dims};
  return node;
}

void sharding::appendNodes(Operation *op, SymbolTableCollection &symbols,
                           SmallVectorImpl<Node> &nodes) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee =
        symbols.lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr());
    if (!callee || callee.isExternal())
      return;
    for (auto [operand, argument] :
         llvm::zip_equal(call.getOperands(), callee.getArguments()))
      if (!isFree(operand))
        nodes.push_back(identity(op, operand, argument));
    Operation *end = callee.front().getTerminator();
    for (auto [returned, result] :
         llvm::zip_equal(end->getOperands(), call.getResults()))
      if (!isFree(returned))
        nodes.push_back(identity(op, returned, result));
    return;
  }
  if (auto loop = dyn_cast<nn::MicrobatchesOp>(op)) {
    Block &body = loop.getBody().front();
    Operation *end = body.getTerminator();
    size_t slices = loop.getSliced().size();
    for (auto [i, sliced] : llvm::enumerate(loop.getSliced())) {
      Node node = identity(op, sliced, body.getArgument(1 + i));
      if (loop.getCount() > 1) {
        // Dimension 0 of the operand is a block for each microbatch.
        nn::Factor blocks;
        blocks.name = "microbatch";
        blocks.size = loop.getCount();
        blocks.kind = nn::FactorKind::Whole;
        int number = node.rule.add(blocks);
        int rows = node.rule.operands[0][0][0];
        node.rule.factors[rows].size /= loop.getCount();
        node.rule.operands[0][0] = {number, rows};
      }
      nodes.push_back(std::move(node));
    }
    bool given = op->hasAttr(dist::kArgumentShardingsAttr);
    for (auto [i, init, yielded, result] : llvm::enumerate(
             loop.getInits(), end->getOperands(), loop.getResults())) {
      Value argument = body.getArgument(1 + slices + i);
      if (!isFree(init))
        nodes.push_back(identity(op, init, argument));
      nodes.push_back(identity(op, argument, yielded));
      if (!given)
        nodes.push_back(identity(op, yielded, result));
    }
    return;
  }
  if (isa<dist::ConstraintOp>(op) || op->hasTrait<OpTrait::IsTerminator>() ||
      op->getNumRegions() != 0)
    return;
  FailureOr<nn::ShardingRule> rule = nn::getRule(op);
  if (failed(rule))
    return;
  Node node;
  node.op = op;
  node.rule = std::move(*rule);
  node.numOperands = op->getNumOperands();
  for (Value operand : op->getOperands())
    node.values.push_back(isFree(operand) ? Value() : operand);
  for (Value result : op->getResults())
    node.values.push_back(isFree(result) ? Value() : result);
  nodes.push_back(std::move(node));
}

SmallVector<std::pair<int, DimSharding>, 2>
sharding::toFactors(const MeshInfo &mesh, const nn::ShardingRule &rule,
                    const nn::DimFactors &dim, const DimSharding &sharding,
                    bool &complete) {
  SmallVector<std::pair<int, DimSharding>, 2> result;
  complete = true;
  if (sharding.axes.empty())
    return result;
  ArrayRef<int> axes = sharding.axes;
  int64_t blocks = sharding.blocks;
  if (sharding.zigzag && dim.size() != 1) {
    complete = false; // An order of the dimension is none of its factors.
    return result;
  }
  for (auto [i, factor] : llvm::enumerate(dim)) {
    int64_t size = rule.factors[factor].size;
    if (axes.empty())
      break;
    if (blocks > 1 && blocks % size == 0) {
      blocks /= size; // A whole factor is blocks.
      continue;
    }
    DimSharding own;
    own.blocks = blocks;
    own.zigzag = sharding.zigzag;
    if (blocks > 1 && size % blocks != 0)
      break;
    int64_t left = size / blocks;
    // The last factor may be padded: nothing stands behind it.
    bool mayPad = i + 1 == dim.size() && result.empty();
    while (!axes.empty() && (mayPad || left % mesh.sizeOf(axes.front()) == 0)) {
      left = (left + mesh.sizeOf(axes.front()) - 1) / mesh.sizeOf(axes.front());
      own.axes.push_back(axes.front());
      axes = axes.drop_front();
    }
    if (!own.axes.empty())
      result.push_back({factor, own});
    // The next factor is cut only where this one is used up.
    if (left != 1 || blocks > 1)
      break;
  }
  complete = axes.empty();
  return result;
}

DimSharding sharding::fromFactors(const MeshInfo &mesh,
                                  const nn::ShardingRule &rule,
                                  const nn::DimFactors &dim,
                                  const FactorShardings &factors,
                                  bool &complete) {
  DimSharding result;
  complete = true;
  bool mayGoOn = true;
  for (int factor : dim) {
    const DimSharding &own = factors[factor];
    int64_t size = rule.factors[factor].size;
    if (own.axes.empty()) {
      if (result.axes.empty())
        result.blocks *= size;
      else
        mayGoOn = false;
      continue;
    }
    if (!mayGoOn || (!result.axes.empty() && own.blocks != 1) ||
        (own.zigzag && dim.size() != 1)) {
      complete = false;
      break;
    }
    if ((size / own.blocks) % mesh.sizeOf(own.axes) != 0 &&
        (factor != dim.back() || !result.axes.empty())) {
      complete = false; // Padding would stand between elements.
      break;
    }
    if (result.axes.empty())
      result.blocks *= own.blocks;
    result.zigzag = own.zigzag;
    llvm::append_range(result.axes, own.axes);
    mayGoOn = own.blocks == 1 && mesh.sizeOf(own.axes) == size;
  }
  if (result.axes.empty())
    result.blocks = 1;
  return result;
}

ValueSharding sharding::shardingOf(const MeshInfo &mesh,
                                   const nn::ShardingRule &rule,
                                   const nn::ValueFactors &value,
                                   const FactorShardings &factors) {
  ValueSharding result;
  bool complete;
  for (const nn::DimFactors &dim : value)
    result.dims.push_back(fromFactors(mesh, rule, dim, factors, complete));
  return result;
}
