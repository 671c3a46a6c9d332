//===- Decompositions.cpp - Composite ops in simple ones ------------------===//
//
// The reference semantics of the composite ops. Kernels are made of these, too,
// so they are written as rows: reductions keep their dimension, and what is
// reduced comes back by broadcasting. bf16 and f16 are widened to f32 at the
// entry and rounded once at the exit; only the operands of products keep their
// type, as the hardware wants them.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

using namespace mlir;
using namespace sheaf::nn;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// f32 in place of bf16 and f16.
static Value widen(Emit &emit, Value value) {
  return emit.cast(value, getStatisticsType(typeOf(value).getElementType()));
}

/// `value` in the element type of `like`.
static Value castLike(Emit &emit, Value value, Value like) {
  return emit.cast(value, typeOf(like).getElementType());
}

/// `value` where it is not -infinity, there 0: what to subtract from a slice
/// that may be -infinity throughout.
static Value finiteShift(Emit &emit, Value value) {
  Value none = emit.compare(Predicate::EQ, value, -kInfinity);
  return emit.select(none, emit.scalar(value, 0), value);
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

SmallVector<Value> ReluOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  // Not nn.max, whose gradient at 0 is 1/2. NaN stays NaN.
  Value low = emit.compare(Predicate::LE, getInput(), 0);
  return {emit.select(low, emit.scalar(getInput(), 0), getInput())};
}

SmallVector<Value> SiluOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getInput());
  return {castLike(emit, emit.mul(x, emit.make<SigmoidOp>(x)), getInput())};
}

SmallVector<Value> GeluOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getInput());
  Value erf = emit.make<ErfOp>(emit.mul(x, std::numbers::sqrt2 / 2));
  Value half = emit.mul(x, 0.5);
  Value result = emit.mul(half, emit.add(erf, 1));
  return {castLike(emit, result, getInput())};
}

SmallVector<Value> GeluTanhOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getInput());
  // (1 + tanh u) / 2 is the sigmoid of 2u, which takes one exponential and does
  // not cancel where x is negative; 2 u = x (k + k a x^2), k = 2 sqrt(2/pi).
  const double k = 2 * std::sqrt(2 * std::numbers::inv_pi), a = 0.044715;
  Value factor = emit.add(emit.mul(emit.mul(x, x), k * a), k);
  Value result = emit.mul(x, emit.make<SigmoidOp>(emit.mul(x, factor)));
  return {castLike(emit, result, getInput())};
}

//===----------------------------------------------------------------------===//
// Indexed access and random numbers
//===----------------------------------------------------------------------===//

SmallVector<Value> EmbeddingOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  return {emit.make<GatherOp>(getTable(), getIds(), /*axis=*/0, /*batch=*/0)};
}

SmallVector<Value> DropoutOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  double rate = getRate().convertToDouble();
  // The numbers are f32 whatever the input, so that every precision drops the
  // same elements.
  auto type = RankedTensorType::get(getType().getShape(), builder.getF32Type());
  Value uniform = emit.make<RandomOp>(type, Distribution::Uniform, getKey(),
                                      getStream(), /*sample_dim=*/true);
  Value keep = emit.compare(Predicate::GE, uniform, rate);
  Value scaled =
      castLike(emit, emit.div(widen(emit, getInput()), 1 - rate), getInput());
  return {emit.select(keep, scaled, emit.scalar(scaled, 0))};
}

//===----------------------------------------------------------------------===//
// Softmax and norms
//===----------------------------------------------------------------------===//

namespace {
/// The parts of a softmax along a dimension, which they keep with size 1.
struct SoftmaxParts {
  /// The largest element, 0 where all are -infinity.
  Value max;
  /// x - max and its exponential.
  Value shifted, exp;
  /// The sum of `exp`.
  Value sum;
};
} // namespace

static SoftmaxParts emitSoftmax(Emit &emit, Value x, int64_t dim) {
  SoftmaxParts parts;
  parts.max =
      finiteShift(emit, emit.reduce(ReduceKind::Max, x, dim, /*keep=*/true));
  parts.shifted = emit.sub(x, parts.max);
  parts.exp = emit.make<ExpOp>(parts.shifted);
  parts.sum = emit.sum(parts.exp, dim, /*keep=*/true);
  return parts;
}

/// exp / sum, 0 where nothing was summed.
static Value emitProbabilities(Emit &emit, const SoftmaxParts &parts) {
  Value empty = emit.compare(Predicate::EQ, parts.sum, 0);
  return emit.div(parts.exp,
                  emit.select(empty, emit.scalar(parts.sum, 1), parts.sum));
}

SmallVector<Value> SoftmaxOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  SoftmaxParts parts = emitSoftmax(emit, widen(emit, getInput()), getDim());
  return {castLike(emit, emitProbabilities(emit, parts), getInput())};
}

SmallVector<Value> LayerNormOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getInput());
  int64_t dim = getType().getRank() - 1;
  Value mean = emit.reduce(ReduceKind::Mean, x, dim, /*keep=*/true);
  Value centered = emit.sub(x, mean);
  Value variance = emit.reduce(ReduceKind::Mean, emit.mul(centered, centered),
                               dim, /*keep=*/true);
  Value factor =
      emit.make<RsqrtOp>(emit.add(variance, getEps().convertToDouble()));
  Value normal = emit.mul(centered, factor);
  Value scaled = emit.mul(normal, widen(emit, getScale()));
  return {castLike(emit, emit.add(scaled, widen(emit, getBias())), getInput())};
}

SmallVector<Value> RMSNormOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getInput());
  int64_t dim = getType().getRank() - 1;
  Value square =
      emit.reduce(ReduceKind::Mean, emit.mul(x, x), dim, /*keep=*/true);
  Value factor =
      emit.make<RsqrtOp>(emit.add(square, getEps().convertToDouble()));
  Value normal = emit.mul(x, factor);
  Value scaled = emit.mul(normal, widen(emit, getScale()));
  return {castLike(emit, scaled, getInput())};
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

SmallVector<double> RotaryOp::getFrequencies() {
  int64_t width = getType().getDimSize(3);
  double theta = getTheta().convertToDouble();
  SmallVector<double> frequencies;
  for (int64_t i = 0; i < width / 2; ++i)
    frequencies.push_back(std::pow(theta, -2.0 * i / width));
  std::optional<RopeScalingAttr> scaling = getScaling();
  if (!scaling)
    return frequencies;
  double factor = scaling->getFactor().convertToDouble();
  double low = scaling->getLow().convertToDouble();
  double high = scaling->getHigh().convertToDouble();
  double original = static_cast<double>(scaling->getOriginal());
  if (scaling->getKind() == "yarn") {
    // `_compute_yarn_parameters` of Hugging Face's transformers: the numbers of
    // the frequencies that turn `high` and `low` times within `original`.
    auto numberOf = [&](double turns) {
      return width * std::log(original / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(theta));
    };
    double first = std::max(std::floor(numberOf(high)), 0.0);
    double end =
        std::min(std::ceil(numberOf(low)), static_cast<double>(width - 1));
    double span = first == end ? 0.001 : end - first;
    for (auto [i, frequency] : llvm::enumerate(frequencies)) {
      double stretched =
          std::clamp((static_cast<double>(i) - first) / span, 0.0, 1.0);
      frequency *= stretched / factor + (1 - stretched);
    }
    return frequencies;
  }
  for (double &frequency : frequencies) {
    if (scaling->getKind() == "linear") {
      frequency /= factor;
      continue;
    }
    // `_compute_llama3_parameters` of Hugging Face's transformers.
    double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < original / high)
      continue;
    if (wavelength > original / low) {
      frequency /= factor;
      continue;
    }
    double smooth = (original / wavelength - low) / (high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
  return frequencies;
}

SmallVector<Value> RotaryOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getInput());
  RankedTensorType type = typeOf(x);
  auto element = cast<FloatType>(type.getElementType());
  int64_t half = type.getDimSize(3) / 2;

  SmallVector<Attribute> numbers;
  for (double frequency : getFrequencies())
    numbers.push_back(builder.getFloatAttr(element, frequency));
  Value frequencies = emit.make<ConstantOp>(
      DenseElementsAttr::get(RankedTensorType::get({half}, element), numbers));
  // [batch, sequence, 1, 1] or [sequence, 1, 1], against [half].
  SmallVector<int64_t> shape(getPositions().getType().getShape());
  shape.append(2, 1);
  Value positions = emit.cast(emit.reshape(getPositions(), shape), element);
  Value angles = emit.mul(positions, frequencies);
  Value cos = emit.make<CosOp>(angles), sin = emit.make<SinOp>(angles);
  if (getInverse())
    sin = emit.make<NegOp>(sin);

  SmallVector<int64_t> offsets(4, 0), sizes(type.getShape());
  sizes[3] = half;
  Value first = emit.make<SliceOp>(x, offsets, sizes, nullptr);
  offsets[3] = half;
  Value second = emit.make<SliceOp>(x, offsets, sizes, nullptr);
  auto turned = [&](Value a, Value b, bool plus) {
    Value along = emit.mul(a, cos), across = emit.mul(b, sin);
    return castLike(emit,
                    plus ? emit.add(along, across) : emit.sub(along, across),
                    getInput());
  };
  Value newFirst = turned(first, second, false);
  Value newSecond = turned(second, first, true);
  return {emit.make<ConcatenateOp>(ValueRange{newFirst, newSecond}, /*dim=*/3)};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// What attention and its gradient share. With the heads cut into G groups of
/// R, scores are [B, G, R, S, T].
template <typename Op>
struct AttentionEmitter {
  AttentionEmitter(Op op, OpBuilder &builder)
      : op(op), emit(builder, op.getLoc()) {
    ArrayRef<int64_t> q = typeOf(op.getQuery()).getShape();
    ArrayRef<int64_t> k = typeOf(op.getKey()).getShape();
    batch = q[0], queries = q[1], heads = q[2];
    keys = k[1], groups = k[2];
    wide = getStatisticsType(typeOf(op.getQuery()).getElementType());
  }

  /// [B, S, H, D] as [B, S, G, R, D].
  Value grouped(Value value) {
    int64_t width = typeOf(value).getShape().back();
    return emit.reshape(value, {batch, queries, groups, heads / groups, width});
  }
  /// [B, S, G, R, D] as [B, S, H, D].
  Value ungrouped(Value value) {
    int64_t width = typeOf(value).getShape().back();
    return emit.reshape(value, {batch, queries, heads, width});
  }
  /// [B, S, H] as [B, G, R, S, 1].
  Value perScore(Value value) {
    Value turned = emit.make<TransposeOp>(value, ArrayRef<int64_t>{0, 2, 1});
    return emit.reshape(turned, {batch, groups, heads / groups, queries, 1});
  }
  /// [B, G, R, S, 1] as [B, S, H].
  Value perQuery(Value value) {
    Value merged = emit.reshape(value, {batch, heads, queries});
    return emit.make<TransposeOp>(merged, ArrayRef<int64_t>{0, 2, 1});
  }

  /// A product that keeps the accumulator's precision.
  Value wideEinsum(StringRef equation, Value a, Value b,
                   ArrayRef<int64_t> shape) {
    return emit.make<EinsumOp>(RankedTensorType::get(shape, wide), equation,
                               ValueRange{a, b});
  }
  SmallVector<int64_t> scoreShape() {
    return {batch, groups, heads / groups, queries, keys};
  }

  /// Which key each query sees, broadcastable to the scores; null for all.
  Value mask() {
    Value visible;
    auto also = [&](Value condition) {
      visible =
          visible ? emit.template make<AndOp>(visible, condition) : condition;
    };
    if (op.getCausal() || op.getWindow()) {
      auto index = [&](int64_t rows, int64_t columns, int64_t dim) -> Value {
        auto type =
            RankedTensorType::get({rows, columns}, emit.builder.getI32Type());
        return emit.template make<IotaOp>(type, dim);
      };
      Value query = index(queries, 1, 0), key = index(1, keys, 1);
      if (Value first = op.getFirstPosition())
        query = emit.add(query, first);
      else if (keys != queries)
        query = emit.add(query, static_cast<double>(keys - queries));
      if (op.getCausal())
        also(emit.compare(Predicate::LE, key, query));
      if (op.getWindow()) {
        Value apart = emit.template make<AbsOp>(emit.sub(query, key));
        also(emit.compare(Predicate::LT, apart, windowBound()));
      }
    }
    if (op.getQueryDocuments()) {
      Value query =
          emit.reshape(op.getQueryDocuments(), {batch, 1, 1, queries, 1});
      Value key = emit.reshape(op.getKeyDocuments(), {batch, 1, 1, 1, keys});
      also(emit.compare(Predicate::EQ, query, key));
    }
    return visible;
  }
  /// The window as far as it matters: positions fit 32 bits, it need not.
  double windowBound() {
    return static_cast<double>(std::min<int64_t>(
        *op.getWindow(), std::numeric_limits<int32_t>::max()));
  }

  /// scale * q.k + bias, -infinity where the query does not see the key.
  Value scores() {
    Value product = wideEinsum("bsgrd,btgd->bgrst", grouped(op.getQuery()),
                               op.getKey(), scoreShape());
    Value scores = emit.mul(product, op.getScaleValue());
    if (Value bias = op.getBias()) {
      ArrayRef<int64_t> shape = typeOf(bias).getShape();
      bool perHead = shape[1] != 1 || heads == 1;
      scores = emit.add(
          scores, emit.reshape(widen(emit, bias),
                               {shape[0], perHead ? groups : 1,
                                perHead ? heads / groups : 1, queries, keys}));
    }
    if (Value visible = mask())
      scores = emit.select(visible, scores, emit.scalar(scores, -kInfinity));
    return scores;
  }

  Op op;
  Emit emit;
  int64_t batch, queries, heads, keys, groups;
  Type wide;
};
} // namespace

SmallVector<Value> AttentionOp::decompose(OpBuilder &builder) {
  AttentionEmitter<AttentionOp> attention(*this, builder);
  Emit &emit = attention.emit;
  SoftmaxParts parts = emitSoftmax(emit, attention.scores(), /*dim=*/4);
  Value probabilities =
      castLike(emit, emitProbabilities(emit, parts), getValue());
  Value result = emit.einsum("bgrst,btgd->bsgrd", {probabilities, getValue()});
  SmallVector<Value> results{attention.ungrouped(result)};
  if (getLse())
    // log 0 is the -infinity of a query that sees nothing.
    results.push_back(
        attention.perQuery(emit.add(parts.max, emit.make<LogOp>(parts.sum))));
  return results;
}

SmallVector<Value> AttentionGradOp::decompose(OpBuilder &builder) {
  AttentionEmitter<AttentionGradOp> attention(*this, builder);
  Emit &emit = attention.emit;
  Value lse = finiteShift(emit, attention.perScore(getLse()));
  Value probabilities = emit.make<ExpOp>(emit.sub(attention.scores(), lse));
  Value grad = attention.grouped(getGrad());
  Value probabilitiesGrad = attention.wideEinsum(
      "bsgrd,btgd->bgrst", grad, getValue(), attention.scoreShape());
  // Dao et al. 2022, appendix B: the softmax's inner product is that of result
  // and gradient.
  Value wideGrad = widen(emit, getGrad());
  Value inner = attention.perScore(emit.sum(
      emit.mul(wideGrad, widen(emit, getForwardResult())), /*dims=*/3));
  if (getLseGrad())
    inner = emit.sub(inner, attention.perScore(getLseGrad()));
  Value scoresGrad =
      emit.mul(probabilities, emit.sub(probabilitiesGrad, inner));
  Value productGrad =
      castLike(emit, emit.mul(scoresGrad, getScaleValue()), getQuery());
  Value p = castLike(emit, probabilities, getValue());

  // Braces evaluate from left to right.
  SmallVector<Value> results{
      attention.ungrouped(
          emit.einsum("bgrst,btgd->bsgrd", {productGrad, getKey()})),
      emit.einsum("bgrst,bsgrd->btgd",
                  {productGrad, attention.grouped(getQuery())}),
      emit.einsum("bgrst,bsgrd->btgd", {p, grad})};
  if (getBias()) {
    RankedTensorType type = typeOf(getBias());
    SmallVector<int64_t> dims;
    if (type.getDimSize(0) == 1 && attention.batch != 1)
      dims.push_back(0);
    if (type.getDimSize(1) == 1 && attention.heads != 1)
      llvm::append_values(dims, 1, 2);
    Value bias = dims.empty() ? scoresGrad : emit.sum(scoresGrad, dims);
    results.push_back(
        castLike(emit, emit.reshape(bias, type.getShape()), getBias()));
  }
  return results;
}

//===----------------------------------------------------------------------===//
// The loss
//===----------------------------------------------------------------------===//

/// Whether targets, as [..., 1], are in [0, V).
static Value emitValid(Emit &emit, Value column, int64_t vocabulary) {
  Value from = emit.compare(Predicate::GE, column, 0);
  Value below =
      emit.compare(Predicate::LT, column, static_cast<double>(vocabulary));
  return emit.make<AndOp>(from, below);
}

SmallVector<Value> CrossEntropyOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getLogits());
  RankedTensorType type = typeOf(x);
  int64_t dim = type.getRank() - 1;
  double smoothing = getSmoothing().convertToDouble();
  SoftmaxParts parts = emitSoftmax(emit, x, dim);
  Value valid =
      emitValid(emit, emit.expand(getTargets(), dim), type.getDimSize(dim));
  Value logSum = emit.make<LogOp>(parts.sum);
  // lse - logit in terms of what was shifted by the maximum: nothing cancels
  // where logits are large.
  Value zero = emit.scalar(x, 0);
  // 0 for a target that is no class.
  Value target =
      emit.expand(emit.make<GatherOp>(parts.shifted, getTargets(), /*axis=*/dim,
                                      /*batch=*/dim),
                  dim);
  Value loss = emit.sub(
      logSum, smoothing == 0 ? target : emit.mul(target, 1 - smoothing));
  if (smoothing != 0)
    loss = emit.sub(loss, emit.mul(emit.reduce(ReduceKind::Mean, parts.shifted,
                                               dim, /*keep=*/true),
                                   smoothing));
  loss = emit.select(valid, loss, zero);
  ArrayRef<int64_t> shape = type.getShape().drop_back();
  return {emit.reshape(loss, shape),
          emit.reshape(emit.add(parts.max, logSum), shape)};
}

SmallVector<Value> CrossEntropyGradOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getLogits());
  RankedTensorType type = typeOf(x);
  int64_t dim = type.getRank() - 1, vocabulary = type.getDimSize(dim);
  double smoothing = getSmoothing().convertToDouble();
  Value column = emit.expand(getTargets(), dim);
  Value valid = emitValid(emit, column, vocabulary);
  Value ids = emit.make<IotaOp>(
      RankedTensorType::get({vocabulary}, typeOf(column).getElementType()), 0);
  Value chosen = emit.compare(Predicate::EQ, column, ids);
  Value lse = finiteShift(emit, emit.expand(getLse(), dim));
  Value probabilities = emit.make<ExpOp>(emit.sub(x, lse));
  Value high = emit.scalar(x, 1 - smoothing + smoothing / vocabulary);
  Value low = emit.scalar(x, smoothing / vocabulary);
  Value wanted = emit.select(chosen, high, low);
  Value grad = emit.expand(getGrad(), dim);
  Value result = emit.mul(grad, emit.sub(probabilities, wanted));
  result = emit.select(valid, result, emit.scalar(x, 0));
  if (getLseGrad())
    result = emit.add(result,
                      emit.mul(emit.expand(getLseGrad(), dim), probabilities));
  return {castLike(emit, result, getLogits())};
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

SmallVector<Value> RouteOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value x = widen(emit, getLogits());
  ArrayRef<int64_t> shape = typeOf(x).getShape();
  int64_t last = typeOf(x).getRank() - 1, experts = shape.back();
  Value scores;
  if (getScores() == Scores::Softmax) {
    SoftmaxParts parts = emitSoftmax(emit, x, last);
    scores = emitProbabilities(emit, parts);
  } else {
    scores = emit.make<SigmoidOp>(x);
  }
  Value choice =
      getBias() ? emit.add(scores, castLike(emit, getBias(), scores)) : scores;
  int64_t groups = getGroups(), kept = getGroupsKept(), best = getGroupBest();
  if (groups > 1 && kept < groups) {
    SmallVector<int64_t> grouped(shape.drop_back());
    llvm::append_values(grouped, groups, experts / groups);
    Value members = emit.reshape(choice, grouped);
    auto largest = [&](Value value, int64_t k) {
      return TopKOp::create(builder, getLoc(), value, k);
    };
    Value worth = emit.sum(largest(members, best).getValues(), last + 1);
    Value chosen = largest(worth, kept).getIndices(); // [..., kept]
    Value ids = emit.make<IotaOp>(
        RankedTensorType::get({groups, 1}, builder.getI32Type()), 0);
    // [..., groups, kept]
    Value isChosen =
        emit.compare(Predicate::EQ, emit.expand(chosen, last), ids);
    Value count =
        emit.reduce(ReduceKind::Max, emit.cast(isChosen, builder.getI32Type()),
                    last + 1, /*keep=*/true);
    Value open = emit.compare(Predicate::GT, count, 0);
    members = emit.select(open, members, emit.scalar(members, -kInfinity));
    choice = emit.reshape(members, shape);
  }
  Value chosen = TopKOp::create(builder, getLoc(), choice, getK()).getIndices();
  Value weights = emit.make<GatherOp>(scores, chosen, /*axis=*/last,
                                      /*batch=*/last);
  if (getNormalised()) {
    Value sum = emit.add(emit.sum(weights, last, /*keep=*/true), 1e-20);
    weights = emit.div(weights, sum);
  }
  if (double scale = getScale().convertToDouble(); scale != 1)
    weights = emit.mul(weights, scale);
  return {weights, chosen};
}

/// The reference: every assignment is compared with every other. The kernel
/// counts.
SmallVector<Value> ExpertSortOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Type i32 = builder.getI32Type();
  ArrayRef<int64_t> shape = getExperts().getType().getShape();
  int64_t groups = shape[0], all = shape[1] * shape[2], count = getCount();
  int64_t rows = getOrder().getType().getDimSize(1);
  auto iota = [&](ArrayRef<int64_t> shape, int64_t dim) -> Value {
    return emit.make<IotaOp>(RankedTensorType::get(shape, i32), dim);
  };
  auto number = [&](Value flag) { return emit.cast(flag, i32); };
  Value experts = emit.reshape(getExperts(), {groups, all});
  Value column = emit.expand(experts, 2); // [B, A, 1]
  Value known = emit.make<AndOp>(
      emit.compare(Predicate::GE, experts, 0),
      emit.compare(Predicate::LT, experts, static_cast<double>(count)));
  // Of the same expert, and before it.
  Value same = emit.compare(Predicate::EQ, column, emit.expand(experts, 1));
  Value earlier = emit.compare(Predicate::LT, iota({1, all}, 1),
                               iota({all, 1}, 0)); // [A, A]
  Value before = emit.sum(number(emit.make<AndOp>(same, earlier)), 2);
  // [B, E]
  Value load = emit.sum(
      number(emit.compare(Predicate::EQ, column, iota({count}, 0))), 1);
  Value stays = known;
  if (getCapacity() && static_cast<int64_t>(*getCapacity()) < all) {
    double capacity = static_cast<double>(*getCapacity());
    stays =
        emit.make<AndOp>(known, emit.compare(Predicate::LT, before, capacity));
    load = emit.make<MinOp>(load, emit.scalar(load, capacity));
  }
  // offsets[j] is the sum of the loads of experts below j.
  Value below = number(emit.compare(Predicate::LT, iota({1, count}, 1),
                                    iota({count + 1, 1}, 0)));
  Value offsets = emit.sum(emit.mul(emit.expand(load, 1), below), 2);
  Value start = emit.make<GatherOp>(offsets, experts, /*axis=*/1, /*batch=*/1);
  Value row = emit.add(start, before);
  Value position = emit.select(stays, row, emit.scalar(row, -1)); // [B, A]
  Value isHere = emit.compare(Predicate::EQ, emit.expand(position, 1),
                              iota({rows, 1}, 0)); // [B, R, A]
  Value numbers = emit.add(iota({all}, 0), 1);
  Value order = emit.sum(emit.mul(number(isHere), numbers), 2);
  order = emit.add(order, -1);
  return {order, emit.reshape(position, shape), offsets};
}

/// Rows or tokens of `input` at `places` [B, ...]; zeros where a place is
/// negative.
static Value gatherRows(Emit &emit, Value input, Value places) {
  return emit.make<GatherOp>(input, places, /*axis=*/1, /*batch=*/1);
}

SmallVector<Value> DispatchOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  ArrayRef<int64_t> shape = getPosition().getType().getShape();
  Value order = getOrder();
  // Integers are rounded toward zero: -1 must stay negative.
  Value token = emit.div(order, static_cast<double>(shape[2]));
  token = emit.select(emit.compare(Predicate::LT, order, 0), order, token);
  Value rows = gatherRows(emit, getInput(), token);
  if (getWeights()) {
    Value weights = emit.reshape(getWeights(), {shape[0], shape[1] * shape[2]});
    Value factor = gatherRows(emit, weights, order); // [B, R]
    rows = castLike(emit, emit.mul(widen(emit, rows), emit.expand(factor, 2)),
                    getInput());
  }
  return {rows};
}

SmallVector<Value> CombineOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value rows = widen(emit, gatherRows(emit, getInput(), getPosition()));
  if (getWeights())
    rows = emit.mul(rows, emit.expand(getWeights(), 3));
  return {castLike(emit, emit.sum(rows, 2), getInput())};
}

/// Offsets from number `from` on, `count` of them with a step between.
static Value offsetsFrom(Emit &emit, Value offsets, int64_t from, int64_t count,
                         int64_t step = 1) {
  SmallVector<int64_t> sizes(typeOf(offsets).getShape());
  SmallVector<int64_t> starts(sizes.size(), 0), strides(sizes.size(), 1);
  starts.back() = from;
  sizes.back() = count;
  strides.back() = step;
  return emit.make<SliceOp>(offsets, emit.builder.getDenseI64ArrayAttr(starts),
                            emit.builder.getDenseI64ArrayAttr(sizes),
                            emit.builder.getDenseI64ArrayAttr(strides));
}

/// Whether row r of a group is one of expert e, [..., B, R, E].
static Value isRowOf(Emit &emit, Value offsets, int64_t rows) {
  RankedTensorType type = typeOf(offsets);
  int64_t last = type.getRank() - 1, experts = type.getShape().back() - 1;
  Value begin = emit.expand(offsetsFrom(emit, offsets, 0, experts), last);
  Value end = emit.expand(offsetsFrom(emit, offsets, 1, experts), last);
  Value row = emit.make<IotaOp>(
      RankedTensorType::get({rows, 1}, type.getElementType()), 0);
  return emit.make<AndOp>(emit.compare(Predicate::LE, begin, row),
                          emit.compare(Predicate::LT, row, end));
}

SmallVector<Value> GroupedMatmulOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  RankedTensorType type = getType();
  int64_t rank = type.getRank();
  SmallVector<int64_t> shape(type.getShape());
  int64_t rows = shape[rank - 2];
  shape.insert(shape.begin() + rank - 1,
               getOffsets().getType().getShape().back() - 1);
  // Every row with every matrix; one of them is the row's.
  auto all =
      RankedTensorType::get(shape, getStatisticsType(type.getElementType()));
  std::string front = rank == 4 ? "p" : "";
  std::string equation = front + "brk," + front +
                         (getTransposed() ? "enk->" : "ekn->") + front + "bren";
  Value products =
      emit.make<EinsumOp>(all, equation, ValueRange{getRows(), getMatrices()});
  Value mine = emit.expand(isRowOf(emit, getOffsets(), rows), rank);
  Value chosen = emit.select(mine, products, emit.scalar(products, 0));
  return {castLike(emit, emit.sum(chosen, rank - 1), getRows())};
}

SmallVector<Value> GroupedOuterOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  RankedTensorType type = getLhs().getType();
  int64_t rank = type.getRank();
  Value mine =
      emit.expand(isRowOf(emit, getOffsets(), type.getDimSize(rank - 2)), rank);
  // [..., B, R, E, K]; a row past the end may hold anything, on both sides.
  auto only = [&](Value value) {
    return emit.select(mine, emit.expand(value, rank - 1),
                       emit.scalar(value, 0));
  };
  std::string front = rank == 4 ? "p" : "";
  std::string equation = front + "brek," + front + "bren->" + front + "ekn";
  return {emit.einsum(equation, {only(getLhs()), only(getRhs())})};
}

namespace {
/// Where the rows of each part begin and end in a group, [B, P].
struct PartBounds {
  PartBounds(Emit &emit, Value offsets, int64_t parts) {
    int64_t experts = typeOf(offsets).getDimSize(1) - 1;
    int64_t step = experts / parts;
    begin = offsetsFrom(emit, offsets, 0, parts, step);
    end = offsetsFrom(emit, offsets, step, parts, step);
  }
  Value begin, end;
};
} // namespace

SmallVector<Value> BucketOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  ArrayRef<int64_t> shape = getType().getShape(); // [P, B, M, H]
  PartBounds bounds(emit, getOffsets(), shape[0]);
  Value number = emit.make<IotaOp>(
      RankedTensorType::get({shape[2]}, builder.getI32Type()), 0);
  Value row = emit.add(emit.expand(bounds.begin, 2), number); // [B, P, M]
  Value inside = emit.compare(Predicate::LT, row, emit.expand(bounds.end, 2));
  row = emit.select(inside, row, emit.scalar(row, -1));
  return {emit.make<TransposeOp>(gatherRows(emit, getRows(), row),
                                 ArrayRef<int64_t>{1, 0, 2, 3})};
}

SmallVector<Value> UnbucketOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  ArrayRef<int64_t> shape = getRows().getType().getShape(); // [P, B, M, H]
  int64_t rows = getType().getDimSize(1);
  PartBounds bounds(emit, getOffsets(), shape[0]);
  Value number =
      emit.make<IotaOp>(RankedTensorType::get({rows}, builder.getI32Type()), 0);
  Value begin = emit.expand(bounds.begin, 2), end = emit.expand(bounds.end, 2);
  // [B, P, R]: the place in the part; outside of it an index reads zeros.
  Value place = emit.sub(number, begin);
  Value inside = emit.make<AndOp>(emit.compare(Predicate::GE, place, 0),
                                  emit.compare(Predicate::LT, number, end));
  place = emit.select(inside, place, emit.scalar(place, -1));
  Value turned = emit.make<TransposeOp>(place, ArrayRef<int64_t>{1, 0, 2});
  Value each = emit.make<GatherOp>(widen(emit, getRows()), turned, /*axis=*/2,
                                   /*batch=*/2); // [P, B, R, H]
  return {castLike(emit, emit.sum(each, 0), getRows())};
}

//===----------------------------------------------------------------------===//
// The training step
//===----------------------------------------------------------------------===//

SmallVector<Value> StepMeanOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Value values = widen(emit, getValues());
  SmallVector<int64_t> dims =
      llvm::to_vector(llvm::seq<int64_t>(0, typeOf(values).getRank()));
  Value weights = castLike(emit, getWeights(), values);
  bool flags = isBoolElement(getWeights().getType());
  Value counts =
      flags ? getWeights() : emit.compare(Predicate::NE, getWeights(), 0);
  Value counted =
      emit.select(counts, flags ? values : emit.mul(values, weights),
                  emit.scalar(values, 0));
  Value total = emit.sum(weights, dims);
  Value sum = emit.sum(counted, dims);
  Value count = emit.make<MaxOp>(total, emit.scalar(total, 1));
  Value mean = emit.div(sum, count);
  return {castLike(emit, mean, getValues())};
}

SmallVector<Value> StepSumOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Type element = getStatisticsType(getType().getElementType());
  Value weights = emit.cast(getWeights(), element);
  int64_t rank = typeOf(weights).getRank();
  Value sum = emit.sum(weights, llvm::to_vector(llvm::seq<int64_t>(rank)));
  return {castLike(emit, sum, getResult())};
}

/// The widest of f32 and the element types of `values`.
static Type updateType(ValueRange values, Builder builder) {
  Type widest = builder.getF32Type();
  for (Value value : values)
    if (typeOf(value).getElementType().isF64())
      widest = builder.getF64Type();
  return widest;
}

SmallVector<Value> AdamWOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Type type = updateType(
      {getParameter(), getGrad(), getMoment1(), getMoment2()}, builder);
  auto in = [&](Value value) { return emit.cast(value, type); };
  // beta * old + (1 - beta) * seen
  auto average = [&](Value beta, Value old, Value seen) {
    Value kept = emit.mul(beta, old);
    return emit.add(kept, emit.mul(emit.sub(1, beta), seen));
  };
  Value p = in(getParameter()), grad = in(getGrad());
  Value oldM = in(getMoment1()), oldV = in(getMoment2());
  Value beta1 = in(getBeta1()), beta2 = in(getBeta2());
  Value g = emit.mul(grad, in(getGradScale()));
  Value m = average(beta1, oldM, g);
  Value v = average(beta2, oldV, emit.mul(g, g));
  Value root = emit.make<SqrtOp>(emit.div(v, in(getCorrection2())));
  Value below = emit.add(root, in(getEps()));
  Value direction = emit.div(emit.div(m, in(getCorrection1())), below);
  Value decayed = emit.mul(in(getDecay()), p);
  Value lr = in(getLr());
  Value step = emit.mul(lr, emit.add(decayed, direction));
  return {castLike(emit, emit.sub(p, step), getParameter()),
          castLike(emit, m, getMoment1()), castLike(emit, v, getMoment2())};
}

SmallVector<Value> SGDOp::decompose(OpBuilder &builder) {
  Emit emit(builder, getLoc());
  Type type = updateType({getParameter(), getGrad(), getBuffer()}, builder);
  auto in = [&](Value value) { return emit.cast(value, type); };
  Value p = in(getParameter()), grad = in(getGrad());
  Value momentum = in(getMomentum()), buffer = in(getBuffer());
  Value g = emit.mul(grad, in(getGradScale()));
  Value b = emit.add(emit.mul(momentum, buffer), g);
  Value decayed = emit.mul(in(getDecay()), p);
  Value lr = in(getLr());
  Value step = emit.mul(lr, emit.add(decayed, b));
  return {castLike(emit, emit.sub(p, step), getParameter()),
          castLike(emit, b, getBuffer())};
}
