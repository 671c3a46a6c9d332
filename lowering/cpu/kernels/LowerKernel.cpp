//===- LowerKernel.cpp - From a function of nn ops to a kernel ------------===//

#include "lowering/NNToLinalg/ScalarOps.h"
#include "lowering/cpu/kernels/Emitter.h"
#include "lowering/cpu/kernels/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::cpu;
using namespace sheaf::nn;

namespace {

/// A part of a kernel in bands: some of the results, computed on their own.
struct Band {
  OwningOpRef<func::FuncOp> source;
  SmallVector<unsigned> results;
  Plan plan;
  /// Items of a band.
  int64_t items = 1;
};

/// How a kernel is emitted.
struct Strategy {
  /// Set for kernels of an op of their own.
  TopKOp topK;
  ExpertSortOp expertSort;
  GatherGradOp gatherGrad;
  /// What the gradient of a gather is added to.
  Value gatherBase;
  int64_t rowBlock = 0;
  /// What is left of it in bands: extent and grain.
  Plan plan;
  std::vector<Band> bands;
};
} // namespace

/// Replaces composite ops by their decompositions.
static LogicalResult decompose(func::FuncOp function, std::string &error) {
  IRRewriter rewriter(function.getContext());
  while (true) {
    SmallVector<DecomposableOpInterface> composites;
    // A sort has a kernel of its own.
    function.walk([&](DecomposableOpInterface op) {
      if (!isa<ExpertSortOp>(op))
        composites.push_back(op);
    });
    if (composites.empty())
      return success();
    for (DecomposableOpInterface op : composites) {
      rewriter.setInsertionPoint(op);
      Operation *before = op->getPrevNode();
      SmallVector<Value> values = op.decompose(rewriter);
      if (isa<SoftmaxOp, CrossEntropyOp>(op)) {
        Block::iterator first =
            before ? ++Block::iterator(before) : op->getBlock()->begin();
        for (Operation &part : llvm::make_range(first, Block::iterator(op)))
          if (auto max = dyn_cast<ReduceOp>(part);
              max && max.getKind() == ReduceKind::Max)
            max->setAttr(kShiftAttr, rewriter.getUnitAttr());
      }
      if (values.size() != op->getNumResults()) {
        error = ("'" + op->getName().getStringRef() + "' has no decomposition")
                    .str();
        return failure();
      }
      rewriter.replaceOp(op, values);
    }
  }
}

/// A value without the reshapes on its way.
static Value view(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// Of `select(x == -infinity, 0, x)`, what is subtracted from a row that may be
/// -infinity throughout, the x; null for anything else.
static Value shiftedFrom(Value value) {
  auto select = view(value).getDefiningOp<SelectOp>();
  auto compare =
      select ? view(select.getCondition()).getDefiningOp<CompareOp>() : nullptr;
  if (!compare || compare.getPredicate() != Predicate::EQ)
    return {};
  APFloat number(0.0);
  auto is = [&](Value operand) {
    auto constant = view(operand).getDefiningOp<ConstantOp>();
    return constant &&
           matchPattern(constant.getResult(), m_ConstantFloat(&number));
  };
  if (!is(compare.getRhs()) || !number.isInfinity() || !number.isNegative() ||
      !is(select.getOnTrue()) || !number.isZero() ||
      view(compare.getLhs()) != view(select.getOnFalse()))
    return {};
  return view(select.getOnFalse());
}

/// Where the exponentials of a row are summed, e^(x - m), and needed again over
/// their sum, e^(x - (m + log s)), as in cross entropy with its gradient: the
/// second are the first times a number for each row, e^(m - (m + log s)), and
/// need not be computed anew. Where m or s are infinite or NaN, both are NaN;
/// where 0 is subtracted for m + log s of a row of -infinity, both are 0 if m
/// is 0 there, too.
static void shareExponentials(func::FuncOp function) {
  function.walk([](ExpOp second) {
    auto difference = second.getInput().getDefiningOp<SubOp>();
    if (!difference)
      return;
    Value shifted = shiftedFrom(difference.getRhs());
    Value logSum = shifted ? shifted : view(difference.getRhs());
    auto add = logSum.getDefiningOp<AddOp>();
    auto log = add ? add.getRhs().getDefiningOp<LogOp>() : nullptr;
    auto sum = log ? log.getInput().getDefiningOp<ReduceOp>() : nullptr;
    if (!sum || sum.getKind() != ReduceKind::Sum)
      return;
    auto first = sum.getInput().getDefiningOp<ExpOp>();
    auto centred = first ? first.getInput().getDefiningOp<SubOp>() : nullptr;
    if (!centred || centred.getLhs() != difference.getLhs() ||
        centred.getRhs() != add.getLhs() ||
        (shifted && !shiftedFrom(centred.getRhs())) ||
        centred.getRhs().getType() != difference.getRhs().getType())
      return;
    OpBuilder builder(second);
    Emit emit(builder, second.getLoc());
    Value factor =
        emit.make<ExpOp>(emit.sub(centred.getRhs(), difference.getRhs()));
    second.replaceAllUsesWith(emit.mul(first, factor));
    second.erase();
    if (difference.use_empty())
      difference.erase();
  });
}

/// Marks exponentials of x - max(x) that are only summed: the sum is 1 or more,
/// or 0 where x is -infinity throughout.
static void markSummedExponentials(func::FuncOp function) {
  function.walk([](ExpOp exp) {
    auto difference = exp.getInput().getDefiningOp<SubOp>();
    if (!difference)
      return;
    Value shifted = shiftedFrom(difference.getRhs());
    auto max =
        view(shifted ? shifted : difference.getRhs()).getDefiningOp<ReduceOp>();
    if (!max || max.getKind() != ReduceKind::Max ||
        max.getInput() != difference.getLhs())
      return;
    for (Operation *user : exp->getUsers()) {
      auto sum = dyn_cast<ReduceOp>(user);
      if (!sum || sum.getKind() != ReduceKind::Sum ||
          sum.getDims() != max.getDims())
        return;
    }
    exp->setAttr(kSummedAttr, UnitAttr::get(exp.getContext()));
  });
}

/// The function that computes some of the results of `function`, with all its
/// arguments.
static OwningOpRef<func::FuncOp> takeResults(func::FuncOp function,
                                             ArrayRef<unsigned> results) {
  OwningOpRef<func::FuncOp> taken(function.clone());
  Block &block = taken->front();
  Operation *end = block.getTerminator();
  SmallVector<Value> values;
  for (unsigned i : results)
    values.push_back(end->getOperand(i));
  end->setOperands(values);
  taken->setFunctionType(FunctionType::get(function.getContext(),
                                           function.getArgumentTypes(),
                                           ValueRange(values).getTypes()));
  taken->setAllResultAttrs(ArrayRef<DictionaryAttr>());
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (&op != end && op.use_empty())
      op.erase();
  return taken;
}

/// The reductions that a value is made of.
static void collectReductions(Value value,
                              llvm::SmallSetVector<Operation *, 4> &reductions,
                              llvm::SmallPtrSetImpl<Operation *> &seen) {
  Operation *op = value.getDefiningOp();
  if (!op || !seen.insert(op).second)
    return;
  if (isa<ReduceOp, EinsumOp>(op))
    reductions.insert(op);
  for (Value operand : op->getOperands())
    collectReductions(operand, reductions, seen);
}

bool cpu::isRoundedTo(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 8 &&
         !isa<Float8E8M0FNUType>(element);
}

/// The strategy of a kernel that rounds one tensor to 8 bits in several ways,
/// such as along rows and down columns, which no loops have in common. Each is
/// a kernel of its own, and all do their part of a band of the tensor before
/// the next one, so that it comes from memory once. `error` is that of the
/// whole.
static FailureOr<Strategy> chooseBands(func::FuncOp function,
                                       std::string &error) {
  bool rounds = llvm::any_of(function.front(), [](Operation &op) {
    auto cast = dyn_cast<CastOp>(op);
    Type to = cast ? cast.getType().getElementType() : Type();
    return to && isRoundedTo(to);
  });
  if (!rounds)
    return failure();
  Strategy strategy;
  auto results = function.front().getTerminator()->getOperands();
  std::vector<llvm::SmallSetVector<Operation *, 4>> reductionsOf;
  for (auto [i, result] : llvm::enumerate(results)) {
    llvm::SmallSetVector<Operation *, 4> own;
    llvm::SmallPtrSet<Operation *, 16> seen;
    collectReductions(result, own, seen);
    bool isTaken = false;
    std::string why;
    auto take = [&](ArrayRef<unsigned> taken) -> std::optional<Band> {
      Band band{takeResults(function, taken), SmallVector<unsigned>(taken), {}};
      FailureOr<Plan> plan =
          makePlan(band.source->front().getTerminator()->getOperands(), why);
      if (failed(plan))
        return std::nullopt;
      band.plan = *plan;
      return band;
    };
    for (auto [band, reductions] : llvm::zip(strategy.bands, reductionsOf)) {
      if (reductions != own)
        continue;
      SmallVector<unsigned> more(band.results);
      more.push_back(i);
      if (std::optional<Band> made = take(more)) {
        band = std::move(*made);
        isTaken = true;
        break;
      }
    }
    if (isTaken)
      continue;
    std::optional<Band> made = take(static_cast<unsigned>(i));
    if (!made)
      return failure();
    strategy.bands.push_back(std::move(*made));
    reductionsOf.push_back(std::move(own));
  }
  if (strategy.bands.size() < 2)
    return failure();
  int64_t count = 0;
  for (const Band &band : strategy.bands)
    count = std::gcd(count, band.plan.extent);
  // There would be nothing to share out.
  if (count < 2)
    return failure();
  strategy.plan.extent = count;
  strategy.plan.grain = 1;
  for (Band &band : strategy.bands) {
    band.items = band.plan.extent / count;
    strategy.plan.grain = std::max<int64_t>(
        strategy.plan.grain, llvm::divideCeil(band.plan.grain, band.items));
  }
  error.clear();
  return strategy;
}

/// Whether there are reductions along the last dimension and others.
static bool reducesBothWays(func::FuncOp function) {
  bool along = false, across = false;
  for (auto reduce : function.front().getOps<ReduceOp>()) {
    ArrayRef<int64_t> shape = reduce.getInput().getType().getShape();
    int64_t last = shape.size();
    while (last > 0 && shape[last - 1] == 1)
      --last;
    bool isAlong = llvm::is_contained(reduce.getDims(), last - 1);
    (isAlong ? along : across) = true;
  }
  return along && across;
}

static FailureOr<Strategy> chooseStrategy(func::FuncOp function,
                                          std::string &error) {
  Strategy strategy;
  auto results = function.front().getTerminator()->getOperands();
  if (results.empty()) {
    error = "it has no results";
    return failure();
  }
  auto visitInput = [&](Value input) {
    Indexing indexing;
    Demand demand(indexing);
    Indices place;
    for (int64_t size : tensorOf(input).getShape())
      place.push_back(indexing.of(indexing.addLoop(0, size - 1, 1)));
    if (succeeded(demand.visit(input, place)))
      return success();
    error = demand.error;
    return failure();
  };
  if (auto topK = results[0].getDefiningOp<TopKOp>()) {
    if (!llvm::equal(results, topK->getResults())) {
      error = "beside the results of nn.top_k there can be no others";
      return failure();
    }
    RankedTensorType type = topK.getInput().getType();
    strategy.topK = topK;
    strategy.plan.extent = type.getNumElements() / type.getShape().back();
    int64_t perItem = type.getShape().back() * topK.getK();
    strategy.plan.grain =
        std::clamp<int64_t>(16384 / perItem, 1, strategy.plan.extent);
    if (failed(visitInput(topK.getInput())))
      return failure();
    return strategy;
  }
  if (auto sort = results[0].getDefiningOp<ExpertSortOp>()) {
    Operation *from = sort.getExperts().getDefiningOp();
    if (!llvm::equal(results, sort->getResults()) ||
        (from && !isa<ConstantOp>(from))) {
      error = "nn.expert_sort is a kernel of its own";
      return failure();
    }
    RankedTensorType type = sort.getExperts().getType();
    strategy.expertSort = sort;
    strategy.plan.extent = type.getDimSize(0);
    strategy.plan.grain = 1;
    return strategy;
  }
  auto grad = results[0].getDefiningOp<GatherGradOp>();
  Value base;
  if (auto add = results[0].getDefiningOp<AddOp>())
    for (auto [one, other] : {std::pair(add.getLhs(), add.getRhs()),
                              std::pair(add.getRhs(), add.getLhs())})
      if (!grad && isa<BlockArgument>(one) && one.getType() == add.getType() &&
          other.getType() == add.getType() &&
          other.getDefiningOp<GatherGradOp>() && other.hasOneUse()) {
        grad = other.getDefiningOp<GatherGradOp>();
        base = one;
      }
  if (grad) {
    if (results.size() != 1) {
      error = "beside the result of nn.gather_grad there can be no others";
      return failure();
    }
    RankedTensorType type = grad.getType();
    int64_t outer = 1, rows = type.getDimSize(grad.getAxis());
    for (int64_t size : type.getShape().take_front(grad.getAxis()))
      outer *= size;
    // Each item looks at every index, so that there should be few, and writes a
    // part of the table, so that there should be some.
    int64_t blocks = outer >= 64 ? 1 : std::min<int64_t>(64, rows);
    strategy.gatherGrad = grad;
    strategy.gatherBase = base;
    if (base)
      strategy.plan.inPlace = {cast<BlockArgument>(base).getArgNumber(), 0};
    strategy.rowBlock = llvm::divideCeil(rows, blocks);
    strategy.plan.extent = outer * llvm::divideCeil(rows, strategy.rowBlock);
    strategy.plan.grain = 1;
    if (failed(visitInput(grad.getGrad())) ||
        failed(visitInput(grad.getIndices())))
      return failure();
    return strategy;
  }
  // Loops for all would compute what is reduced down columns for each row.
  if (reducesBothWays(function))
    if (FailureOr<Strategy> bands = chooseBands(function, error);
        succeeded(bands))
      return bands;
  FailureOr<Plan> plan = makePlan(results, error);
  if (failed(plan))
    return chooseBands(function, error);
  strategy.plan = *plan;
  return strategy;
}

static int64_t bytesOf(Type type) {
  auto shaped = cast<ShapedType>(type);
  unsigned bits = shaped.getElementTypeBitWidth();
  return shaped.getNumElements() * std::max(1u, bits / 8);
}

/// Bytes that a kernel reads and writes: all operands and results once, but of
/// a table only the rows that are looked up or added to.
static int64_t bytesMoved(func::FuncOp source, Strategy &strategy) {
  int64_t bytes = 0;
  for (BlockArgument argument : source.getArguments()) {
    int64_t read = 0;
    for (OpOperand &use : argument.getUses()) {
      bool isTable = isa<EmbeddingOp, GatherOp>(use.getOwner()) &&
                     use.getOperandNumber() == 0;
      bool isBase = strategy.gatherBase == argument;
      Value part = isTable  ? use.getOwner()->getResult(0)
                   : isBase ? strategy.gatherGrad.getGrad()
                            : Value(argument);
      read += bytesOf(part.getType());
    }
    bytes += std::min(read, bytesOf(argument.getType()));
  }
  for (Value result : source.front().getTerminator()->getOperands()) {
    int64_t written = bytesOf(result.getType());
    // In place, rows that nothing is added to stay as they are.
    if (strategy.gatherBase)
      written =
          std::min(written, bytesOf(strategy.gatherGrad.getGrad().getType()));
    bytes += written;
  }
  return bytes;
}

/// An exponential is one long chain of operations: a machine with short vectors
/// has four of them to alternate between, rather than two.
static void widenExponentials(Plan &plan, func::FuncOp source,
                              int64_t vectorBytes) {
  bool any = llvm::any_of(source.front().getOperations(),
                          llvm::IsaPred<ExpOp, SigmoidOp, TanhOp>);
  if (any && vectorBytes == 32 && plan.lanes == kLanes &&
      plan.block % (2 * kLanes) == 0)
    plan.lanes = 2 * kLanes;
}

/// Rounding to 8 bits takes many registers, and a wide vector is in several.
static void narrowRoundings(Plan &plan, func::FuncOp source) {
  bool any = llvm::any_of(source.front(), [](Operation &op) {
    auto cast = dyn_cast<CastOp>(op);
    return cast && isRoundedTo(cast.getType().getElementType());
  });
  if (any && plan.lanes == kColumnLanes)
    plan.lanes = kLanes;
}

/// A byte for each element of what has fewer bits.
static MemRefType bufferType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  if (element.isInteger(1) || isa<Float4E2M1FNType>(element))
    element = IntegerType::get(type.getContext(), 8);
  return MemRefType::get(tensor.getShape(), element);
}

/// Emits a kernel in bands: the loops of all in one over bands.
static void emitBands(func::FuncOp kernel, Strategy &strategy,
                      int64_t vectorBytes, int64_t streamedBytes) {
  Location loc = kernel.getLoc();
  Block *entry = kernel.addEntryBlock();
  OpBuilder builder = OpBuilder::atBlockBegin(entry);
  Value begin = entry->getArguments().drop_back().back(),
        end = entry->getArguments().back();
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  auto loop = scf::ForOp::create(builder, loc, begin, end, one);
  func::ReturnOp::create(builder, loc);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  OpBuilder outside(kernel);
  for (Band &band : strategy.bands) {
    func::FuncOp source = *band.source;
    widenExponentials(band.plan, source, vectorBytes);
    narrowRoundings(band.plan, source);
    SmallVector<Type> types;
    for (Type type : source.getArgumentTypes())
      types.push_back(bufferType(type));
    for (Type type : source.getResultTypes())
      types.push_back(bufferType(type));
    types.append(2, builder.getIndexType());
    // Constants that it has become globals of the module.
    auto part =
        func::FuncOp::create(outside, loc, (kernel.getName() + "_band").str(),
                             builder.getFunctionType(types, {}));
    Emitter(source, part, streamedBytes).emit(band.plan);
    Value items = arith::ConstantIndexOp::create(builder, loc, band.items);
    Value from =
        arith::MulIOp::create(builder, loc, loop.getInductionVar(), items);
    Value to = arith::AddIOp::create(builder, loc, from, items);
    IRMapping mapping;
    unsigned inputs = source.getNumArguments();
    for (unsigned i = 0; i < inputs; ++i)
      mapping.map(part.getArgument(i), entry->getArgument(i));
    for (auto [i, result] : llvm::enumerate(band.results))
      mapping.map(part.getArgument(inputs + i),
                  entry->getArgument(inputs + result));
    mapping.map(part.getArgument(types.size() - 2), from);
    mapping.map(part.getArgument(types.size() - 1), to);
    for (Operation &op : part.front().without_terminator())
      builder.clone(op, mapping);
    part.erase();
  }
  // Each would grow the stack again with each band.
  SmallVector<memref::AllocaOp> scratch;
  loop.walk([&](memref::AllocaOp op) { scratch.push_back(op); });
  for (memref::AllocaOp op : scratch)
    op->moveBefore(loop);
}

FailureOr<func::FuncOp> cpu::lowerKernel(func::FuncOp kernel,
                                         int64_t vectorBytes,
                                         int64_t streamedBytes) {
  if (kernel.getBody().hasOneBlock() &&
      llvm::any_of(kernel.front(), llvm::IsaPred<AttentionOp, AttentionGradOp>))
    return lowerAttention(kernel, vectorBytes);
  std::string error;
  auto fail = [&]() -> LogicalResult {
    return kernel.emitError("kernel '")
           << kernel.getName() << "' cannot be one CPU kernel: " << error
           << "; put its ops into several";
  };
  auto isTensor = [](Type type) {
    return isAnyElement(type) && isStaticTensor(type);
  };
  if (!kernel.getBody().hasOneBlock() ||
      !llvm::all_of(kernel.getArgumentTypes(), isTensor) ||
      !llvm::all_of(kernel.getResultTypes(), isTensor)) {
    error = "expected one block, and static tensors as arguments and results";
    return fail();
  }
  // Work on a copy, so that the input stays as it was on failure.
  func::FuncOp source = kernel.clone();
  llvm::scope_exit erase([&] { source.erase(); });
  if (failed(decompose(source, error)))
    return fail();
  {
    IRRewriter rewriter(source.getContext());
    DominanceInfo dominance;
    eliminateCommonSubExpressions(rewriter, dominance, source);
    shareExponentials(source);
    markSummedExponentials(source);
  }
  FailureOr<Strategy> strategy = chooseStrategy(source, error);
  if (failed(strategy))
    return fail();
  widenExponentials(strategy->plan, source, vectorBytes);
  narrowRoundings(strategy->plan, source);

  OpBuilder builder(kernel);
  int64_t bytes = bytesMoved(source, *strategy), flops = 0;
  SmallVector<Type> types;
  auto addType = [&](Type type) { types.push_back(bufferType(type)); };
  llvm::for_each(kernel.getArgumentTypes(), addType);
  llvm::for_each(kernel.getResultTypes(), addType);
  types.append(2, builder.getIndexType());
  source.walk([&](Operation *op) {
    if (isa_and_nonnull<NNDialect>(op->getDialect()))
      flops += flopsOf(op);
  });

  auto lowered =
      func::FuncOp::create(builder, kernel.getLoc(), kernel.getName(),
                           builder.getFunctionType(types, {}));
  const Plan &plan = strategy->plan;
  lowered->setDiscardableAttrs(kernel->getDiscardableAttrDictionary());
  lowered->setAttr(kKernelAttr, builder.getUnitAttr());
  lowered->setAttr(kExtentAttr, builder.getI64IntegerAttr(plan.extent));
  lowered->setAttr(kGrainAttr, builder.getI64IntegerAttr(plan.grain));
  lowered->setAttr(kFlopsAttr, builder.getI64IntegerAttr(flops));
  lowered->setAttr(kBytesAttr, builder.getI64IntegerAttr(bytes));
  lowered->setAttr(kInputsAttr,
                   builder.getI64IntegerAttr(kernel.getNumArguments()));
  if (!plan.inPlace.empty())
    lowered->setAttr(kInPlaceAttr, builder.getDenseI64ArrayAttr(plan.inPlace));
  lowered.setVisibility(kernel.getVisibility());
  if (!strategy->bands.empty()) {
    emitBands(lowered, *strategy, vectorBytes, streamedBytes);
    kernel.erase();
    return lowered;
  }
  Emitter emitter(source, lowered, streamedBytes);
  if (strategy->topK)
    emitter.emitTopK(strategy->topK);
  else if (strategy->expertSort)
    emitter.emitExpertSort(strategy->expertSort);
  else if (strategy->gatherGrad)
    emitter.emitGatherGrad(strategy->gatherGrad, strategy->rowBlock,
                           strategy->gatherBase);
  else
    emitter.emit(plan);
  kernel.erase();
  return lowered;
}

std::optional<GroupPlan> cpu::planKernel(ArrayRef<Operation *> ops,
                                         ValueRange results, std::string *why) {
  std::string error;
  auto report = [&](const Twine &text) -> std::optional<GroupPlan> {
    if (why)
      *why = text.str();
    return std::nullopt;
  };
  if (ops.empty())
    return report("it has no ops");
  if (llvm::any_of(ops, llvm::IsaPred<AttentionOp, AttentionGradOp>)) {
    if (ops.size() > 1)
      return report("attention is a kernel of its own");
    return GroupPlan();
  }
  MLIRContext *context = ops[0]->getContext();
  OpBuilder builder(context);
  llvm::SmallPtrSet<Operation *, 8> members(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp() ||
          !members.contains(operand.getDefiningOp()))
        inputs.insert(operand);
  auto isTensor = [](Value value) {
    return isAnyElement(value.getType()) && isStaticTensor(value.getType());
  };
  if (!llvm::all_of(inputs, isTensor) || !llvm::all_of(results, isTensor))
    return report("operands and results must be static tensors");
  auto type = builder.getFunctionType(TypeRange(inputs.getArrayRef()),
                                      results.getTypes());
  auto function =
      func::FuncOp::create(builder, ops[0]->getLoc(), "group", type);
  llvm::scope_exit erase([&] { function.erase(); });
  builder.setInsertionPointToStart(function.addEntryBlock());
  IRMapping mapping;
  mapping.map(inputs.getArrayRef(), function.getArguments());
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  SmallVector<Value> returned;
  for (Value result : results)
    returned.push_back(mapping.lookup(result));
  func::ReturnOp::create(builder, ops[0]->getLoc(), returned);
  if (failed(decompose(function, error)))
    return report(error);
  FailureOr<Strategy> strategy = chooseStrategy(function, error);
  if (failed(strategy))
    return report(error);
  GroupPlan plan;
  plan.extent = strategy->plan.extent;
  plan.grain = strategy->plan.grain;
  ArrayRef<int64_t> pairs = strategy->plan.inPlace;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    plan.inPlace.push_back({inputs[pairs[i]], results[pairs[i + 1]]});
  return plan;
}

bool cpu::isOneKernel(ArrayRef<Operation *> ops, std::string *why) {
  llvm::SmallPtrSet<Operation *, 8> members(ops.begin(), ops.end());
  SmallVector<Value> results;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (result.use_empty() ||
          llvm::any_of(result.getUsers(), [&](Operation *user) {
            return !members.contains(user);
          }))
        results.push_back(result);
  return planKernel(ops, results, why).has_value();
}

//===----------------------------------------------------------------------===//
// Large reductions
//===----------------------------------------------------------------------===//

/// The largest divisor of `count` up to `limit`.
static int64_t divisorUpTo(int64_t count, int64_t limit) {
  int64_t best = 1;
  for (int64_t d = 1; d * d <= count && d <= limit; ++d) {
    if (count % d)
      continue;
    best = std::max(best, d);
    if (count / d <= limit)
      best = std::max(best, count / d);
  }
  return best;
}

/// A sum down the columns of a large matrix: first of blocks of rows, which are
/// read as they lie, then of the blocks. A column alone would be read in steps
/// of a row, which no memory likes.
static void splitColumns(ReduceOp op) {
  constexpr int64_t kLarge = 1 << 20, kMostRows = 64, kFewestRows = 8,
                    kBlocks = 32;
  RankedTensorType type = op.getInput().getType();
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    if (dim != static_cast<int64_t>(i))
      return;
  int64_t columns = op.getType().getNumElements();
  int64_t rows = type.getNumElements() / columns;
  ReduceKind kind = op.getKind();
  bool sums = kind == ReduceKind::Sum || kind == ReduceKind::Mean;
  if (!sums || !isa<FloatType>(type.getElementType()) ||
      columns < kColumnLanes || type.getNumElements() < kLarge)
    return;
  int64_t block =
      divisorUpTo(rows, std::clamp(rows / kBlocks, kFewestRows, kMostRows));
  if (block < kFewestRows)
    return; // nearly prime: left as it is
  OpBuilder builder(op);
  Emit emit(builder, op.getLoc());
  SmallVector<Operation *> made;
  auto keep = [&](Value value) {
    if (Operation *part = value.getDefiningOp())
      made.push_back(part);
    return value;
  };
  // The sums of blocks are not rounded to a narrow type.
  Type element = type.getElementType();
  Type wide = lowering::getAccumulatorType(element);
  Value now = op.getInput();
  if (wide != element)
    now = keep(emit.cast(now, wide));
  now = keep(emit.reshape(now, {rows / block, block, columns}));
  now = keep(emit.reduce(ReduceKind::Sum, now, {1}));
  now = keep(emit.reduce(ReduceKind::Sum, now, {0}));
  if (kind == ReduceKind::Mean)
    now = keep(emit.div(now, static_cast<double>(rows)));
  if (wide != element)
    now = keep(emit.cast(now, element));
  if (op.getType() != now.getType())
    now = keep(emit.reshape(now, op.getType().getShape()));
  for (Operation *part : made)
    part->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op.replaceAllUsesWith(now);
  op.erase();
}

void cpu::splitReductions(func::FuncOp function) {
  constexpr int64_t kBlock = 8192;
  SmallVector<ReduceOp> large, columns;
  function.walk([&](ReduceOp op) {
    if (op.getType().getNumElements() > 1)
      columns.push_back(op);
    // All dimensions: otherwise there are rows or columns to share out.
    if (op.getType().getNumElements() == 1 &&
        op.getInput().getType().getNumElements() > 8 * kBlock)
      large.push_back(op);
  });
  llvm::for_each(columns, splitColumns);
  for (ReduceOp op : large) {
    OpBuilder builder(op);
    Emit emit(builder, op.getLoc());
    int64_t count = op.getInput().getType().getNumElements();
    int64_t block = divisorUpTo(count, kBlock);
    if (block < 64)
      continue; // nearly prime: left as it is
    ReduceKind kind = op.getKind();
    ReduceKind partKind = kind == ReduceKind::Mean ? ReduceKind::Sum : kind;
    ReduceKind lastKind =
        partKind == ReduceKind::SumOfSquares ? ReduceKind::Sum : partKind;
    Value flat = emit.reshape(op.getInput(), {count / block, block});
    Value parts = emit.reduce(partKind, flat, {1});
    Value total = emit.reduce(lastKind, parts, {0});
    if (kind == ReduceKind::Mean)
      total = emit.div(total, static_cast<double>(count));
    total = emit.reshape(total, op.getType().getShape());
    for (Operation *user = total.getDefiningOp();
         user && user != flat.getDefiningOp();
         user = user->getOperand(0).getDefiningOp())
      user->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    op.replaceAllUsesWith(total);
    op.erase();
  }
}
