//===- Work.cpp - How much attention each device has to do ----------------===//
//
// Read off the program of one device: where the queries of an attention stand
// among its keys is computed there from the number of the device.
//
//===----------------------------------------------------------------------===//

#include "passes/sharding/Work.h"
#include "dialects/NN/NN.h"
#include "passes/sharding/Explain.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

using namespace mlir;
using namespace sheaf;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The number of a device of the mesh along axes, the first outermost.
static int64_t placeOf(dist::MeshOp mesh, int64_t device,
                       ArrayRef<dist::AxisAttr> axes) {
  int64_t place = 0;
  for (dist::AxisAttr axis : axes) {
    int64_t stride = 1, whole = 1;
    for (Attribute attribute : llvm::reverse(mesh.getAxes())) {
      auto known = cast<dist::MeshAxisAttr>(attribute);
      whole = known.getSize();
      if (known.getName() == axis.getName())
        break;
      stride *= whole;
    }
    int64_t size = mesh.getSize(axis);
    if (!axis.isWhole())
      stride *= whole / (axis.getOuter() * size);
    place = place * size + device / stride % size;
  }
  return place;
}

double sharding::countPairs(int64_t queries, int64_t keys, int64_t first,
                            bool causal, std::optional<int64_t> window) {
  double pairs = 0;
  for (int64_t i = 0; i < queries; ++i) {
    int64_t at = first + i, low = 0, high = keys - 1;
    if (causal)
      high = std::min(high, at);
    if (window) {
      low = std::max(low, at - *window + 1);
      high = std::min(high, at + *window - 1);
    }
    pairs += static_cast<double>(std::max<int64_t>(high - low + 1, 0));
  }
  return pairs;
}

namespace {
/// Integers of a program, as far as they follow from the number of a device.
struct Evaluator {
  dist::MeshOp mesh;
  int64_t device;

  std::optional<std::vector<int64_t>> operator()(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      auto elements = dyn_cast<DenseIntElementsAttr>(constant.getValue());
      if (!elements)
        return std::nullopt;
      std::vector<int64_t> list;
      for (APInt element : elements)
        list.push_back(element.getSExtValue());
      return list;
    }
    if (auto index = dyn_cast<dist::AxisIndexOp>(op))
      return std::vector<int64_t>{placeOf(
          mesh, device,
          llvm::to_vector(index.getAxes().getAsRange<dist::AxisAttr>()))};
    if (auto reshape = dyn_cast<nn::ReshapeOp>(op))
      return (*this)(reshape.getInput());
    if (auto gather = dyn_cast<nn::GatherOp>(op)) {
      auto table = (*this)(gather.getTable()),
           indices = (*this)(gather.getIndices());
      if (!table || !indices || typeOf(gather.getTable()).getRank() != 1)
        return std::nullopt;
      std::vector<int64_t> list;
      for (int64_t i : *indices)
        list.push_back(i >= 0 && i < static_cast<int64_t>(table->size())
                           ? (*table)[i]
                           : 0);
      return list;
    }
    if (!isa<nn::AddOp, nn::SubOp, nn::MulOp>(op) ||
        typeOf(value).getNumElements() != 1)
      return std::nullopt;
    auto a = (*this)(op->getOperand(0)), b = (*this)(op->getOperand(1));
    if (!a || !b)
      return std::nullopt;
    int64_t x = a->front(), y = b->front();
    return std::vector<int64_t>{isa<nn::AddOp>(op)   ? x + y
                                : isa<nn::SubOp>(op) ? x - y
                                                     : x * y};
  }
};

/// The attention of functions, and how often a call of each runs it.
class AttentionCounter {
public:
  using Counts = llvm::MapVector<Operation *, int64_t>;

  const Counts &of(func::FuncOp function) {
    std::unique_ptr<Counts> &known = counts[function];
    if (!known) {
      Counts own;
      visit(function.front(), 1, own);
      counts[function] = std::make_unique<Counts>(std::move(own));
    }
    return *counts[function];
  }

private:
  std::map<Operation *, std::unique_ptr<Counts>> counts;
  SymbolTableCollection symbols;

  void visit(Block &block, int64_t times, Counts &own) {
    for (Operation &op : block) {
      if (isa<nn::AttentionOp, nn::AttentionGradOp>(op))
        own[&op] += times;
      if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
            call, call.getCalleeAttr());
        if (callee && !callee.isExternal())
          for (auto &[attention, count] : of(callee))
            own[attention] += times * count;
      }
      auto loop = dyn_cast<nn::MicrobatchesOp>(op);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          visit(inner, loop ? times * loop.getCount() : times, own);
    }
  }
};
} // namespace

llvm::MapVector<Operation *, int64_t>
sharding::attentionOf(func::FuncOp entry) {
  return AttentionCounter().of(entry);
}

/// Adds what each device does for one op; false where that is not known.
template <typename Op>
static bool addWork(Op op, double perPair, int64_t times, dist::MeshOp mesh,
                    std::vector<double> &flops) {
  ArrayRef<int64_t> q = typeOf(op.getQuery()).getShape(),
                    k = typeOf(op.getKey()).getShape();
  std::map<int64_t, double> known;
  for (auto [device, sum] : llvm::enumerate(flops)) {
    int64_t first = k[1] - q[1];
    if (Value given = op.getFirstPosition()) {
      auto numbers = Evaluator{mesh, static_cast<int64_t>(device)}(given);
      if (!numbers)
        return false;
      first = numbers->front();
    }
    auto [it, isNew] = known.try_emplace(first);
    if (isNew)
      it->second = sharding::countPairs(q[1], k[1], first, op.getCausal(),
                                        op.getWindow());
    sum += it->second * perPair * static_cast<double>(q[0] * q[2] * times);
  }
  return true;
}

std::vector<double> sharding::countAttention(func::FuncOp entry) {
  dist::MeshOp mesh = dist::getMesh(entry->getParentOfType<ModuleOp>());
  if (!mesh)
    return {};
  std::vector<double> flops(mesh.getNumDevices());
  bool anyPosition = false;
  for (auto &found : attentionOf(entry)) {
    Operation *op = found.first;
    int64_t times = found.second;
    auto width = [&](unsigned i) {
      return static_cast<double>(typeOf(op->getOperand(i)).getShape().back());
    };
    // Query and value; of the backward scores, their gradient, and three more.
    double d = width(0), dv = width(2);
    if (auto forward = dyn_cast<nn::AttentionOp>(op)) {
      anyPosition |= static_cast<bool>(forward.getFirstPosition());
      if (!addWork(forward, 2 * d + 2 * dv, times, mesh, flops))
        return {};
    } else {
      auto gradient = cast<nn::AttentionGradOp>(op);
      anyPosition |= static_cast<bool>(gradient.getFirstPosition());
      if (!addWork(gradient, 6 * d + 4 * dv, times, mesh, flops))
        return {};
    }
  }
  return anyPosition ? flops : std::vector<double>();
}

/// By how much the most is more than the least, as a share of it.
static double apart(ArrayRef<double> flops) {
  auto [least, most] = std::minmax_element(flops.begin(), flops.end());
  return *most > 0 ? (*most - *least) / *most : 0;
}

llvm::json::Object sharding::explainAttention(ArrayRef<double> flops) {
  llvm::json::Array list;
  for (double of : flops)
    list.push_back(of);
  return llvm::json::Object{{"flops", std::move(list)},
                            {"apart", flops.empty() ? 0.0 : apart(flops)}};
}

void sharding::printAttention(ArrayRef<double> flops, raw_ostream &os) {
  if (flops.empty())
    return;
  auto [least, most] = std::minmax_element(flops.begin(), flops.end());
  os << llvm::formatv("attention of a step: {0:f0} FLOPs on the device that "
                      "has least, {1:f0} on the one that has most, {2:f1}% "
                      "apart\n",
                      *least, *most, 100 * apart(flops));
}
