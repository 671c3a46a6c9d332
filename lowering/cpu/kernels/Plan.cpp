//===- Plan.cpp - What a kernel reads, and its loops ----------------------===//

#include "lowering/cpu/kernels/Plan.h"
#include "lowering/NNToLinalg/ScalarOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::cpu;
using namespace sheaf::lowering;
using namespace sheaf::nn;

std::string cpu::shapeText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(shape, os);
  return text + "]";
}

//===----------------------------------------------------------------------===//
// Ops and the places of their operands
//===----------------------------------------------------------------------===//

ReduceKind cpu::kindOf(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getKind();
  return ReduceKind::Sum;
}

/// The letters of an einsum: operands, and the result as the last.
static SmallVector<StringRef> lettersOf(EinsumOp op) {
  auto [left, right] = op.getEquation().split("->");
  SmallVector<StringRef> letters;
  left.split(letters, ',');
  letters.push_back(right);
  return letters;
}

SmallVector<int64_t> cpu::reducedSizes(Operation *op) {
  SmallVector<int64_t> sizes;
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    for (int64_t dim : reduce.getDims())
      sizes.push_back(reduce.getInput().getType().getDimSize(dim));
    return sizes;
  }
  auto einsum = cast<EinsumOp>(op);
  SmallVector<StringRef> letters = lettersOf(einsum);
  std::string seen = letters.back().str();
  for (auto [names, input] : llvm::zip(letters, einsum.getInputs()))
    for (auto [i, c] : llvm::enumerate(names))
      if (!StringRef(seen).contains(c)) {
        seen += c;
        sizes.push_back(tensorOf(input).getDimSize(i));
      }
  return sizes;
}

std::vector<Indices> cpu::reducedPlaces(Operation *op, ArrayRef<Index> place,
                                        ArrayRef<Index> reduced) {
  std::vector<Indices> places;
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    Indices input;
    size_t next = 0, taken = 0;
    for (int64_t i = 0; i < reduce.getInput().getType().getRank(); ++i) {
      if (llvm::is_contained(reduce.getDims(), i)) {
        input.push_back(reduced[taken++]);
        next += reduce.getKeep();
      } else {
        input.push_back(place[next++]);
      }
    }
    places.push_back(input);
    return places;
  }
  SmallVector<StringRef> letters = lettersOf(cast<EinsumOp>(op));
  llvm::SmallDenseMap<char, Index> at;
  for (auto [c, index] : llvm::zip_equal(letters.back(), place))
    at.try_emplace(c, index);
  letters.pop_back();
  size_t taken = 0;
  for (StringRef names : letters) {
    Indices input;
    for (char c : names) {
      if (!at.contains(c))
        at.try_emplace(c, reduced[taken++]);
      input.push_back(at[c]);
    }
    places.push_back(input);
  }
  return places;
}

bool cpu::operandPlaces(Indexing &indexing, Operation *op,
                        ArrayRef<Index> place, std::vector<Indices> &places) {
  if (isScalarOp(op)) {
    for (Value operand : op->getOperands()) {
      ArrayRef<int64_t> shape = tensorOf(operand).getShape();
      Indices aligned(place.take_back(shape.size()));
      for (auto [index, size] : llvm::zip(aligned, shape))
        if (size == 1)
          index = Index(0);
      places.push_back(aligned);
    }
    return true;
  }
  Indices input;
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    Index offset = indexing.linearize(place, reshape.getType().getShape());
    input =
        indexing.delinearize(offset, reshape.getInput().getType().getShape());
  } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
    input.resize(place.size());
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
      input[dim] = place[i];
  } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    for (auto [dim, size] : llvm::zip(
             broadcast.getDims(), broadcast.getInput().getType().getShape()))
      input.push_back(size == 1 ? Index(0) : place[dim]);
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [i, stride] : llvm::enumerate(slice.getAllStrides()))
      input.push_back(indexing.add(indexing.scale(place[i], stride),
                                   Index(slice.getOffsets()[i])));
  } else {
    return false;
  }
  places.push_back(input);
  return true;
}

Indices cpu::gatherIndicesPlace(GatherOp gather, ArrayRef<Index> place) {
  int64_t batch = gather.getBatch();
  Indices at(place.take_front(batch));
  llvm::append_range(
      at, place.slice(gather.getAxis(),
                      gather.getIndices().getType().getRank() - batch));
  return at;
}

Indices cpu::gatherTablePlace(GatherOp gather, ArrayRef<Index> place,
                              const Index &row) {
  int64_t axis = gather.getAxis();
  int64_t chosen = gather.getIndices().getType().getRank() - gather.getBatch();
  Indices at(place.take_front(axis));
  at.push_back(row);
  llvm::append_range(at, place.drop_front(axis + chosen));
  return at;
}

Window cpu::padWindow(Indexing &indexing, PadOp pad, int64_t dim,
                      const Index &index) {
  return {indexing.add(index, Index(-pad.getLow()[dim])),
          pad.getInput().getType().getDimSize(dim),
          pad.getAllInterior()[dim] + 1};
}

int64_t cpu::flopsOf(Operation *op) {
  if (isa<EinsumOp>(op)) {
    int64_t flops = 2 * tensorOf(op->getResult(0)).getNumElements();
    for (int64_t size : reducedSizes(op))
      flops *= size;
    return flops;
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    bool squares = reduce.getKind() == ReduceKind::SumOfSquares;
    return reduce.getInput().getType().getNumElements() * (squares ? 2 : 1);
  }
  if (auto grad = dyn_cast<GatherGradOp>(op))
    return grad.getGrad().getType().getNumElements();
  if (!isScalarOp(op) || isa<CastOp, SelectOp>(op))
    return 0;
  return tensorOf(op->getResult(0)).getNumElements();
}

//===----------------------------------------------------------------------===//
// Demand
//===----------------------------------------------------------------------===//

LogicalResult Demand::visit(Value value, const Indices &place) {
  if (!visited.insert({value.getAsOpaquePointer(), place}).second)
    return success();
  ArrayRef<int64_t> shape = tensorOf(value).getShape();
  Operation *op = value.getDefiningOp();
  if (!op) {
    access(value, indexing.linearize(place, shape));
    return success();
  }
  std::vector<Indices> places;
  if (operandPlaces(indexing, op, place, places)) {
    for (auto [operand, at] : llvm::zip_equal(op->getOperands(), places))
      if (failed(visit(operand, at)))
        return failure();
    return success();
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ConstantOp constant) {
        if (!constant.getValue().isSplat())
          access(value, indexing.linearize(place, shape));
        return success();
      })
      .Case([&](IotaOp iota) {
        access(nullptr, place[iota.getDim()]);
        return success();
      })
      .Case([&](RandomOp random) { return visitRandom(random, place); })
      .Case<ReduceOp, EinsumOp>([&](auto) { return visitReduction(op, place); })
      .Case([&](PadOp pad) {
        Indices inner;
        for (auto [i, index] : llvm::enumerate(place)) {
          Window window = padWindow(indexing, pad, i, index);
          if (window.neverInside(indexing))
            return success();
          inner.push_back(enter(window));
        }
        return visit(pad.getInput(), inner);
      })
      .Case([&](ConcatenateOp concat) {
        int64_t dim = concat.getDim(), offset = 0;
        for (Value input : concat.getInputs()) {
          int64_t size = tensorOf(input).getDimSize(dim);
          Window window{indexing.add(place[dim], Index(-offset)), size, 1};
          offset += size;
          if (window.neverInside(indexing))
            continue;
          Indices inner = place;
          inner[dim] = enter(window);
          if (failed(visit(input, inner)))
            return failure();
        }
        return success();
      })
      .Case([&](GatherOp gather) { return visitGather(gather, place); })
      .Default([&](Operation *) {
        error = ("'" + op->getName().getStringRef() +
                 "' cannot be computed element by element")
                    .str();
        return failure();
      });
}

void Demand::access(Value tensor, const Index &offset) {
  accesses.push_back({tensor, offset, reductionDepth > 0});
}

/// The index in the window's tensor.
Index Demand::enter(const Window &window) {
  if (window.alwaysInside(indexing))
    return window.inner;
  borders.push_back({window.inner, 0});
  borders.push_back({window.inner, window.last() + 1});
  access(nullptr, window.inner);
  return data(window.inner, window.size);
}

Index Demand::data(const Index &base, int64_t size) {
  unsigned variable = indexing.addData(0, size - 1, indexing.depth(base),
                                       indexing.lanes(base).count);
  indexing[variable].base = base;
  return indexing.of(variable);
}

LogicalResult Demand::visitRandom(RandomOp random, const Indices &place) {
  ArrayRef<int64_t> shape = random.getWholeShape();
  bool sampled = random.getSampleDim();
  access(nullptr, indexing.linearize(ArrayRef(place).drop_front(sampled),
                                     shape.drop_front(sampled)));
  if (sampled)
    access(nullptr, place[0]);
  for (int64_t i = 0; i < 4; ++i)
    if (failed(visit(random.getKey(), {Index(i)})))
      return failure();
  if (random.getOffsets())
    for (unsigned i = 0; i < shape.size(); ++i)
      if (failed(visit(random.getOffsets(), {Index(i)})))
        return failure();
  return visit(random.getStream(), {});
}

LogicalResult Demand::visitReduction(Operation *op, const Indices &place) {
  Reduction reduction{op, place, {}, reductionDepth > 0};
  Indices reduced;
  for (int64_t size : reducedSizes(op)) {
    reduction.variables.push_back(
        indexing.addLoop(0, size - 1, indexing.depth(place) + 1));
    reduced.push_back(indexing.of(reduction.variables.back()));
  }
  reductions.push_back(reduction);
  ++reductionDepth;
  for (auto [operand, at] :
       llvm::zip_equal(op->getOperands(), reducedPlaces(op, place, reduced)))
    if (failed(visit(operand, at)))
      return failure();
  --reductionDepth;
  return success();
}

LogicalResult Demand::visitGather(GatherOp gather, const Indices &place) {
  RankedTensorType table = gather.getTable().getType();
  Indices at = gatherIndicesPlace(gather, place);
  if (failed(visit(gather.getIndices(), at)))
    return failure();
  Index flat = indexing.linearize(at, gather.getIndices().getType().getShape());
  Index row = data(flat, table.getDimSize(gather.getAxis()));
  return visit(gather.getTable(), gatherTablePlace(gather, place, row));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<int64_t> cpu::joinLoops(Indexing &indexing,
                                    ArrayRef<unsigned> variables,
                                    ArrayRef<int64_t> sizes,
                                    ArrayRef<Index> offsets) {
  auto canJoin = [&](unsigned outer, unsigned inner, int64_t size) {
    for (const Index &offset : offsets) {
      if (offset.coefficientOf(outer) != offset.coefficientOf(inner) * size)
        return false;
      for (const Index::Term &term : offset.terms) {
        const Variable &variable = indexing[term.variable];
        if ((variable.kind == Variable::Kind::Div ||
             variable.kind == Variable::Kind::Mod) &&
            (indexing.dependsOn(variable.base, outer) ||
             indexing.dependsOn(variable.base, inner)))
          return false;
      }
    }
    return true;
  };
  SmallVector<int64_t> joined;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (i > 0 && canJoin(variables[i - 1], variables[i], size))
      joined.back() *= size;
    else
      joined.push_back(size);
  }
  return joined;
}

SmallVector<int64_t> cpu::cutLoop(const Demand &demand, unsigned variable,
                                  int64_t size) {
  std::set<int64_t> ends{size};
  for (const auto &[index, value] : demand.borders) {
    if (index.terms.size() != 1 || index.coefficientOf(variable) != 1)
      continue;
    int64_t end = value - index.constant;
    if (end > 0 && end < size)
      ends.insert(end);
  }
  // Many pieces would be much code for little.
  if (ends.size() > 8)
    return {size};
  return SmallVector<int64_t>(ends.begin(), ends.end());
}

/// How many of the leading `sizes` have together `elements` elements.
static std::optional<unsigned> prefixWith(ArrayRef<int64_t> sizes,
                                          int64_t elements) {
  int64_t product = 1;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (product == elements)
      return i;
    product *= size;
  }
  if (product == elements)
    return sizes.size();
  return std::nullopt;
}

/// Whether the reduction reads its operands along its last loop rather than
/// along `lane`.
static bool runsAlongRows(const Demand::Reduction &reduction,
                          const Demand &demand, unsigned lane) {
  if (reduction.variables.empty())
    return false;
  int64_t along = 0, across = 0;
  for (const Demand::Access &access : demand.accesses) {
    if (!access.tensor)
      continue;
    along += access.offset.coefficientOf(reduction.variables.back()) == 1;
    across += access.inReduction && access.offset.coefficientOf(lane) == 1;
  }
  return along > across;
}

/// The arguments whose buffers results may have. Within an item, what is read
/// in the last loops is read at the place that is then written, and what
/// reductions read, which go before, is the item's own.
static SmallVector<int64_t>
findInPlace(const Plan &plan, ValueRange results, const Demand &demand,
            ArrayRef<Index> stores, ArrayRef<unsigned> variables,
            ArrayRef<llvm::SmallBitVector> dependence) {
  SmallVector<int64_t> pairs;
  unsigned count = plan.sizes.size();
  for (unsigned loops : plan.loopsOf)
    if (loops != count)
      return pairs;
  // Items are whole rows: the leading loops.
  bool rows = plan.block == 0;
  int64_t rowSize = 1;
  for (auto [i, loop] : llvm::enumerate(plan.items))
    rows &= loop == i;
  for (unsigned i = plan.items.size(); i < count; ++i)
    rowSize *= plan.sizes[i];
  for (const llvm::SmallBitVector &depends : dependence)
    for (unsigned loop : plan.inner)
      rows &= !depends[loop];

  Indexing &indexing = demand.indexing;
  auto isOwn = [&](const Demand::Access &access, const Index &store) {
    if (!access.inReduction && access.offset == store)
      return true;
    if (!rows)
      return false;
    // What depends on an item alone is read in front of its loops.
    if (!access.inReduction)
      for (unsigned loop : plan.inner)
        if (indexing.dependsOn(access.offset, variables[loop]))
          return false;
    Index rest = access.offset;
    for (unsigned loop : plan.items) {
      int64_t coefficient = rest.coefficientOf(variables[loop]);
      if (coefficient != store.coefficientOf(variables[loop]))
        return false;
      rest = indexing.add(
          rest, indexing.scale(indexing.of(variables[loop]), -coefficient));
    }
    auto [low, high] = indexing.range(rest);
    return low >= 0 && high < rowSize;
  };
  for (auto [i, result] : llvm::enumerate(results)) {
    Block *block = result.getParentBlock();
    for (BlockArgument argument : block->getArguments()) {
      if (argument.getType() != result.getType())
        continue;
      bool read = false, own = true;
      for (const Demand::Access &access : demand.accesses)
        if (access.tensor == argument) {
          read = true;
          own &= isOwn(access, stores[i]);
        }
      if (!read || !own)
        continue;
      pairs.append({argument.getArgNumber(), static_cast<int64_t>(i)});
    }
  }
  return pairs;
}

/// The loop along which operands are read in order that `lane` reads in
/// strides.
static std::optional<unsigned> findTransposed(const Demand &demand,
                                              ArrayRef<unsigned> variables,
                                              unsigned lane) {
  for (const Demand::Access &access : demand.accesses) {
    if (!access.tensor || access.offset.coefficientOf(variables[lane]) <= 1)
      continue;
    for (auto [loop, variable] : llvm::enumerate(variables))
      if (loop != lane && access.offset.coefficientOf(variable) == 1)
        return loop;
  }
  return std::nullopt;
}

/// Reductions that can share a loop: they have the same loops, are needed in
/// the same places, and none depends on another.
static std::vector<SmallVector<Operation *>>
groupReductions(const Demand &demand) {
  llvm::DenseMap<Operation *, int> levels;
  std::function<int(Value)> levelOf = [&](Value value) -> int {
    Operation *op = value.getDefiningOp();
    if (!op)
      return 0;
    if (auto it = levels.find(op); it != levels.end())
      return it->second;
    int level = 0;
    for (Value operand : op->getOperands())
      level = std::max(level, levelOf(operand));
    return levels[op] = level + isa<ReduceOp, EinsumOp>(op);
  };
  std::vector<SmallVector<Operation *>> groups;
  std::vector<const Demand::Reduction *> firsts;
  for (const Demand::Reduction &reduction : demand.reductions) {
    Operation *op = reduction.op;
    int places =
        llvm::count_if(demand.reductions, [&](const Demand::Reduction &other) {
          return other.op == op;
        });
    if (places > 1)
      continue;
    bool found = false;
    for (auto [group, first] : llvm::zip(groups, firsts)) {
      if (first->place != reduction.place ||
          reducedSizes(first->op) != reducedSizes(op) ||
          levelOf(first->op->getResult(0)) != levelOf(op->getResult(0)))
        continue;
      group.push_back(op);
      found = true;
      break;
    }
    if (found)
      continue;
    groups.push_back({op});
    firsts.push_back(&reduction);
  }
  return groups;
}

/// Whether the items of `plan`, whose vector loop is set, can be blocks of rows
/// that are swept (see Plan::sweeps).
static bool canSweep(const Plan &plan, ValueRange results, const Demand &demand,
                     int64_t items) {
  // Fewer items would not keep threads busy; more rows would be one long chain
  // of additions.
  constexpr int64_t kFewestItems = 16, kMostRows = 128;
  if (*plan.lane + 1 != plan.sizes.size() || items < kFewestItems ||
      plan.sizes[*plan.lane] < kColumnLanes ||
      demand.reductions.size() != results.size())
    return false;
  llvm::SmallPtrSet<Operation *, 4> ops;
  for (const Demand::Reduction &reduction : demand.reductions)
    ops.insert(reduction.op);
  SmallVector<int64_t> rows;
  for (auto [result, own] : llvm::zip(results, plan.loopsOf)) {
    auto op = result.getDefiningOp<ReduceOp>();
    Type element = tensorOf(result).getElementType();
    if (!op || !ops.erase(op) || own != plan.sizes.size() ||
        op.getKind() == ReduceKind::Mean || element.isInteger(1) ||
        getAccumulatorType(element) != element)
      return false;
    SmallVector<int64_t> sizes = reducedSizes(op);
    if (sizes.size() != 1 || sizes[0] < 2 || sizes[0] > kMostRows ||
        (!rows.empty() && rows != sizes))
      return false;
    rows = sizes;
  }
  return true;
}

FailureOr<Plan> cpu::makePlan(ValueRange results, std::string &error) {
  Plan plan;
  Value largest = results[0];
  for (Value result : results)
    if (tensorOf(result).getNumElements() > tensorOf(largest).getNumElements())
      largest = result;
  SmallVector<int64_t> &sizes = plan.sizes;
  for (int64_t size : tensorOf(largest).getShape())
    if (size > 1)
      sizes.push_back(size);

  // Twice: with a loop for each dimension, to see which can be joined, then
  // with the joined loops.
  Indexing indexing;
  std::optional<Demand> demand;
  SmallVector<unsigned> variables;
  Indices stores;
  for (bool joined : {false, true}) {
    indexing = Indexing();
    demand.emplace(indexing);
    variables.clear();
    stores.clear();
    plan.loopsOf.clear();
    Indices loops;
    for (int64_t size : sizes) {
      variables.push_back(indexing.addLoop(0, size - 1, variables.size() + 1));
      loops.push_back(indexing.of(variables.back()));
    }
    for (Value result : results) {
      RankedTensorType type = tensorOf(result);
      std::optional<unsigned> prefix = prefixWith(sizes, type.getNumElements());
      if (!prefix) {
        error = "a result of shape " + shapeText(type.getShape()) +
                " does not have leading dimensions of the largest result, of "
                "shape " +
                shapeText(tensorOf(largest).getShape());
        return failure();
      }
      plan.loopsOf.push_back(*prefix);
      stores.push_back(indexing.linearize(ArrayRef(loops).take_front(*prefix),
                                          ArrayRef(sizes).take_front(*prefix)));
      if (failed(demand->visit(
              result, indexing.delinearize(stores.back(), type.getShape())))) {
        error = demand->error;
        return failure();
      }
    }
    if (joined)
      break;
    Indices offsets = stores;
    for (const Demand::Access &access : demand->accesses)
      offsets.push_back(access.offset);
    sizes = joinLoops(indexing, variables, sizes, offsets);
  }
  unsigned count = sizes.size();

  // On which loops each reduction depends.
  SmallVector<llvm::SmallBitVector> dependence;
  llvm::SmallBitVector common(count, true);
  for (const Demand::Reduction &reduction : demand->reductions) {
    llvm::SmallBitVector depends(count);
    for (unsigned i = 0; i < count; ++i)
      for (const Index &index : reduction.place)
        if (indexing.dependsOn(index, variables[i]))
          depends.set(i);
    common &= depends;
    dependence.push_back(depends);
  }
  if (count > 0) {
    plan.lane = count - 1;
    for (auto [reduction, depends] : llvm::zip(demand->reductions, dependence))
      if (depends[count - 1] &&
          runsAlongRows(reduction, *demand, variables[count - 1]))
        plan.lane = std::nullopt;
  }
  int64_t rows = 1;
  for (unsigned i = 0; i < count; ++i) {
    if (plan.lane == i)
      continue;
    if (common[i]) {
      plan.items.push_back(i);
      rows *= sizes[i];
    } else {
      plan.inner.push_back(i);
    }
  }
  // What fewer reductions depend on goes further in.
  llvm::stable_sort(plan.inner, [&](unsigned a, unsigned b) {
    auto uses = [&](unsigned i) {
      return llvm::count_if(dependence,
                            [&](auto &depends) { return depends[i]; });
    };
    return uses(a) > uses(b);
  });
  if (plan.lane) {
    bool outer = common[*plan.lane];
    plan.inner.insert(outer ? plan.inner.begin() : plan.inner.end(),
                      *plan.lane);
    int64_t length = sizes[*plan.lane];
    std::optional<unsigned> across;
    if (demand->reductions.empty())
      across = findTransposed(*demand, variables, *plan.lane);
    if (across) {
      // A vector of columns goes down the rows: each of its lanes then reads
      // along memory, and what a cache line brings is used before it is gone.
      llvm::erase(plan.items, *across);
      plan.inner = {*plan.lane, *across};
      rows /= sizes[*across];
      plan.block = length > kLanes ? kLanes : 0;
    } else if (outer && canSweep(plan, results, *demand, rows)) {
      plan.sweeps = true;
    } else if (outer && !demand->reductions.empty()) {
      if (length >= kColumnLanes)
        plan.lanes = kColumnLanes;
      plan.block = length > plan.lanes ? plan.lanes : 0;
    } else if (outer && length > 1024 && (rows == 1 || length > 8192)) {
      plan.block = rows == 1 ? 1024 : 4096;
    }
    if (!plan.block)
      plan.pieces = cutLoop(*demand, variables[*plan.lane], length);
  }
  plan.extent = rows * plan.blocks();

  // A result is stored once, where exactly its own loops are open.
  SmallVector<unsigned> order(plan.items);
  llvm::append_range(order, plan.inner);
  for (auto [result, own] : llvm::zip(results, plan.loopsOf)) {
    bool once = own == count || (own >= plan.items.size() && !plan.block);
    for (unsigned loop : ArrayRef(order).take_front(own))
      once &= loop < own;
    if (once)
      continue;
    error = "a result of shape " + shapeText(tensorOf(result).getShape()) +
            " would be computed several times beside one of shape " +
            shapeText(tensorOf(largest).getShape());
    return failure();
  }
  if (!plan.sweeps)
    plan.inPlace =
        findInPlace(plan, results, *demand, stores, variables, dependence);

  plan.groups = groupReductions(*demand);

  // About 16k elements a task, more where there are many: a task ends with all
  // that it stored on its way.
  int64_t work = tensorOf(largest).getNumElements();
  for (const Demand::Reduction &reduction : demand->reductions)
    work = std::max(work, flopsOf(reduction.op));
  int64_t perItem = std::max<int64_t>(1, work / plan.extent);
  int64_t perTask = std::clamp<int64_t>(work / 256, 16384, 65536);
  plan.grain = std::clamp<int64_t>(perTask / perItem, 1, plan.extent);
  // Long rows: a few, so that one is fetched while the one before it is done.
  if (!demand->reductions.empty() && !plan.sweeps && plan.extent >= 64)
    plan.grain = std::max<int64_t>(plan.grain, 4);
  return plan;
}
