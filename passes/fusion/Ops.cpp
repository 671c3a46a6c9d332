//===- Ops.cpp - What fusion must know of an op ---------------------------===//

#include "passes/fusion/Ops.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::nn;
using namespace sheaf::fusion;

int64_t fusion::bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() *
         std::max(1u, type.getElementTypeBitWidth() / 8);
}

/// Rows or columns of a reduction over `dims`; columns, too, where blocks of
/// rows are reduced; neither where kept and reduced dimensions take turns more
/// often.
static OpInfo classifyReduction(RankedTensorType type, ArrayRef<int64_t> dims) {
  OpInfo info;
  info.kind = Kind::Reduction;
  info.reduced = type.getNumElements();
  int64_t kept = 1;
  // Of the dimensions that are not 1: reduced ones behind kept ones, or before.
  bool behind = true, seenKept = false, seenReduced = false;
  bool wasReduced = false;
  int runs = 0; // of reduced dimensions, one after the other
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (type.getDimSize(i) == 1)
      continue;
    if (llvm::is_contained(dims, i)) {
      runs += !wasReduced;
      wasReduced = seenReduced = true;
    } else {
      behind &= !seenReduced;
      wasReduced = false;
      seenKept = true;
      kept *= type.getDimSize(i);
    }
  }
  if (!seenReduced)
    info.kind = Kind::Elementwise;
  else if (!seenKept)
    info.columns = 1;
  else if (behind)
    info.rows = kept;
  else if (runs == 1)
    info.columns = kept;
  else
    info.kind = Kind::Boundary;
  return info;
}

static bool isContiguous(SliceOp slice) {
  RankedTensorType from = slice.getInput().getType();
  bool cut = false;
  for (int64_t i = from.getRank() - 1; i >= 0; --i) {
    int64_t size = slice.getSizes()[i];
    if (cut && size != 1)
      return false;
    if (size != from.getDimSize(i)) {
      if (size != 1 && slice.getAllStrides()[i] != 1)
        return false;
      cut = true;
    }
  }
  return true;
}

/// Products write the parts of a concatenation where they belong.
static bool isOfProducts(ConcatenateOp concat) {
  return llvm::all_of(concat.getInputs(), [](Value input) {
    while (auto reshape = input.getDefiningOp<ReshapeOp>())
      input = reshape.getInput();
    return static_cast<bool>(input.getDefiningOp<EinsumOp>());
  });
}

OpInfo fusion::classify(Operation *op) {
  auto lastDim = [](RankedTensorType type) {
    return classifyReduction(type, {type.getRank() - 1});
  };
  auto whole = [](RankedTensorType type) {
    return classifyReduction(
        type, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
  };
  auto simple = [](Kind kind, bool costly = false) {
    OpInfo info;
    info.kind = kind;
    info.costly = costly;
    return info;
  };
  auto costly = [](OpInfo info) {
    info.costly = true;
    return info;
  };
  return llvm::TypeSwitch<Operation *, OpInfo>(op)
      .Case([&](ReshapeOp) { return simple(Kind::View); })
      .Case([&](SliceOp slice) {
        return simple(isContiguous(slice) ? Kind::View : Kind::Move);
      })
      .Case([&](ConcatenateOp concat) {
        return simple(isOfProducts(concat) ? Kind::Boundary : Kind::Move);
      })
      .Case<TransposeOp, PadOp, GatherOp, EmbeddingOp>(
          [&](auto) { return simple(Kind::Move); })
      .Case([&](RotaryOp) { return simple(Kind::Move, /*costly=*/true); })
      .Case<BroadcastOp, IotaOp>(
          [&](auto) { return simple(Kind::Elementwise); })
      .Case<RandomOp, DropoutOp, CrossEntropyGradOp, ExpOp, LogOp, TanhOp,
            ErfOp, SigmoidOp, SinOp, CosOp, PowOp, SiluOp, GeluOp, GeluTanhOp>(
          [&](auto) { return simple(Kind::Elementwise, /*costly=*/true); })
      .Case<AdamWOp, SGDOp>([&](auto) { return simple(Kind::Elementwise); })
      .Case([&](ReduceOp reduce) {
        return classifyReduction(reduce.getInput().getType(), reduce.getDims());
      })
      .Case([&](SoftmaxOp softmax) {
        return costly(classifyReduction(softmax.getType(), {softmax.getDim()}));
      })
      .Case<LayerNormOp, RMSNormOp>(
          [&](auto norm) { return lastDim(norm.getInput().getType()); })
      .Case([&](CrossEntropyOp loss) {
        return costly(lastDim(loss.getLogits().getType()));
      })
      .Case([&](StepMeanOp mean) { return whole(mean.getValues().getType()); })
      .Case([&](StepSumOp sum) { return whole(sum.getWeights().getType()); })
      .Default([&](Operation *op) {
        return simple(op->hasTrait<ElementwiseTrait>() ? Kind::Elementwise
                                                       : Kind::Boundary);
      });
}

bool fusion::keepsRows(Operation *op, unsigned number) {
  // Statistics of each token stand in front of what they are used for.
  if (isa<CrossEntropyGradOp, CrossEntropyOp>(op))
    return true;
  auto from = cast<RankedTensorType>(op->getOperand(number).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  if (auto reduce = dyn_cast<ReduceOp>(op))
    to = reduce.getInput().getType();
  if (auto mean = dyn_cast<StepMeanOp>(op))
    to = mean.getValues().getType();
  if (from.getNumElements() == 1)
    return true;
  SmallVector<int64_t> at(to.getRank(), 1);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    for (auto [dim, size] :
         llvm::zip_equal(broadcast.getDims(), from.getShape()))
      at[dim] = size;
  } else {
    if (from.getRank() > to.getRank())
      return from.getNumElements() == to.getNumElements();
    llvm::copy(from.getShape(), at.end() - from.getRank());
  }
  // Once a dimension is repeated, all that follow must be.
  bool repeated = false;
  for (auto [size, full] : llvm::zip_equal(at, to.getShape())) {
    if (full == 1)
      continue;
    if (size == 1)
      repeated = true;
    else if (repeated)
      return false;
  }
  return true;
}
