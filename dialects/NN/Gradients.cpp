//===- Gradients.cpp - The gradient of each op ----------------------------===//
//
// Written so that a fused kernel over rows, or a matrix product, follows: row
// statistics are computed again from the input and keep their dimension, the
// gradient of each operand is a chain of its own, and of an op's operands and
// results the one is read that is likely to be kept anyway.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sheaf::nn;

namespace {
RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
Type elementOf(Value value) { return typeOf(value).getElementType(); }
bool isFloat(Value value) { return isa<FloatType>(elementOf(value)); }

/// Where the gradients of an op are written.
struct Writer : Emit {
  Writer(Gradients &gradients)
      : Emit(gradients.builder, gradients.loc), gradients(gradients) {}
  Gradients &gradients;

  Value dy(unsigned i = 0) { return gradients.ofResult(i); }
  bool needs(unsigned i) { return gradients.needs(i); }
  /// Hands over the gradient of an operand that may have been broadcast.
  void set(unsigned i, Value gradient, Value operand) {
    gradients.set(i, unbroadcast(gradient, typeOf(operand)));
  }
  void set(unsigned i, Value gradient) { gradients.set(i, gradient); }

  /// `a` with every element of dimensions `dims` repeated: undoes a reduction
  /// without `keep`.
  Value repeat(Value a, ArrayRef<int64_t> shape, ArrayRef<int64_t> reduced) {
    SmallVector<int64_t> dims;
    for (int64_t i = 0, e = shape.size(); i < e; ++i)
      if (!llvm::is_contained(reduced, i))
        dims.push_back(i);
    return broadcast(a, shape, dims);
  }
};

SmallVector<int64_t> keptShape(ArrayRef<int64_t> shape,
                               ArrayRef<int64_t> reduced) {
  SmallVector<int64_t> kept(shape);
  for (int64_t dim : reduced)
    kept[dim] = 1;
  return kept;
}
} // namespace

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// The gradient of an op on one operand, where a result gradient is there.
#define UNARY_GRADIENT(OP, FORMULA)                                            \
  void OP::buildGradient(Gradients &gradients) {                               \
    Writer w(gradients);                                                       \
    Value dy = w.dy();                                                         \
    if (!dy || !w.needs(0))                                                    \
      return;                                                                  \
    [[maybe_unused]] Value x = getInput();                                     \
    [[maybe_unused]] Value y = getResult();                                    \
    w.set(0, FORMULA);                                                         \
  }

UNARY_GRADIENT(NegOp, w.make<NegOp>(dy))
UNARY_GRADIENT(AbsOp, w.select(w.compare(Predicate::GT, x, 0.0), dy,
                               w.select(w.compare(Predicate::LT, x, 0.0),
                                        w.make<NegOp>(dy), w.scalar(dy, 0.0))))
UNARY_GRADIENT(ExpOp, w.mul(dy, y))
UNARY_GRADIENT(LogOp, w.div(dy, x))
UNARY_GRADIENT(TanhOp, w.mul(dy, w.sub(1.0, w.mul(y, y))))
UNARY_GRADIENT(ErfOp, w.mul(dy, w.mul(w.make<ExpOp>(w.make<NegOp>(w.mul(x, x))),
                                      M_2_SQRTPI)))
UNARY_GRADIENT(SqrtOp, w.div(w.mul(dy, 0.5), y))
UNARY_GRADIENT(RsqrtOp, w.mul(w.mul(dy, -0.5), w.mul(y, w.mul(y, y))))
UNARY_GRADIENT(SigmoidOp, w.mul(dy, w.mul(y, w.sub(1.0, y))))
UNARY_GRADIENT(SinOp, w.mul(dy, w.make<CosOp>(x)))
UNARY_GRADIENT(CosOp, w.make<NegOp>(w.mul(dy, w.make<SinOp>(x))))
// Reads the result, which the next product keeps anyway.
UNARY_GRADIENT(ReluOp, w.select(w.compare(Predicate::GT, y, 0.0), dy,
                                w.scalar(dy, 0.0)))

void SiluOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  // s + x s (1 - s), with s = sigmoid(x).
  Value x = getInput(), s = w.make<SigmoidOp>(x);
  Value slope = w.mul(s, w.add(w.mul(x, w.sub(1.0, s)), 1.0));
  w.set(0, w.mul(w.dy(), slope));
}

void GeluOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  // The normal distribution function at x, plus x times its density.
  Value x = getInput();
  Value below = w.mul(w.add(w.make<ErfOp>(w.mul(x, M_SQRT1_2)), 1.0), 0.5);
  Value density = w.mul(w.make<ExpOp>(w.mul(w.mul(x, x), -0.5)),
                        M_SQRT1_2 * M_2_SQRTPI / 2);
  w.set(0, w.mul(w.dy(), w.add(below, w.mul(x, density))));
}

void GeluTanhOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  // y = x s with s = sigmoid(v), v = x (k + k a x^2), k = 2 sqrt(2/pi):
  // y' = s + s (1 - s) x v'.
  const double k = M_SQRT1_2 * M_2_SQRTPI * 2, a = 0.044715;
  Value x = getInput(), square = w.mul(x, x);
  Value s = w.make<SigmoidOp>(w.mul(x, w.add(w.mul(square, k * a), k)));
  Value slope = w.add(w.mul(square, 3 * k * a), k);
  Value bend = w.mul(w.mul(x, w.sub(1.0, s)), slope);
  w.set(0, w.mul(w.dy(), w.mul(s, w.add(bend, 1.0))));
}

void AddOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  if (w.needs(0))
    w.set(0, w.dy(), getLhs());
  if (w.needs(1))
    w.set(1, w.dy(), getRhs());
}

void SubOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  if (w.needs(0))
    w.set(0, w.dy(), getLhs());
  if (w.needs(1)) // Negated last, on the smaller of both shapes.
    w.set(1, w.make<NegOp>(w.unbroadcast(w.dy(), typeOf(getRhs()))));
}

void MulOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  if (w.needs(0))
    w.set(0, w.mul(w.dy(), getRhs()), getLhs());
  if (w.needs(1))
    w.set(1, w.mul(w.dy(), getLhs()), getRhs());
}

void DivOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  if (w.needs(0))
    w.set(0, w.div(w.dy(), getRhs()), getLhs());
  if (w.needs(1))
    w.set(1,
          w.make<NegOp>(w.unbroadcast(
              w.div(w.mul(w.dy(), getResult()), getRhs()), typeOf(getRhs()))));
}

/// `first` is the comparison under which an operand wins.
static void extremeGradient(Gradients &gradients, Value lhs, Value rhs,
                            Predicate first) {
  Writer w(gradients);
  if (!w.dy())
    return;
  Value zero = w.scalar(w.dy(), 0.0);
  auto side = [&](unsigned i, Value mine, Value other) {
    if (!w.needs(i))
      return;
    Value tied = w.select(w.compare(Predicate::EQ, mine, other),
                          w.mul(w.dy(), 0.5), zero);
    w.set(i, w.select(w.compare(first, mine, other), w.dy(), tied), mine);
  };
  side(0, lhs, rhs);
  side(1, rhs, lhs);
}
void MaxOp::buildGradient(Gradients &gradients) {
  extremeGradient(gradients, getLhs(), getRhs(), Predicate::GT);
}
void MinOp::buildGradient(Gradients &gradients) {
  extremeGradient(gradients, getLhs(), getRhs(), Predicate::LT);
}

void PowOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  Value a = getLhs(), b = getRhs();
  if (w.needs(0))
    w.set(0, w.mul(w.dy(), w.mul(b, w.make<PowOp>(a, w.add(b, -1.0)))), a);
  if (w.needs(1))
    w.set(1, w.mul(w.dy(), w.mul(getResult(), w.make<LogOp>(a))), b);
}

void SelectOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  Value zero = w.scalar(w.dy(), 0.0);
  if (w.needs(1))
    w.set(1, w.select(getCondition(), w.dy(), zero), getOnTrue());
  if (w.needs(2))
    w.set(2, w.select(getCondition(), zero, w.dy()), getOnFalse());
}

void CastOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0) && isFloat(getInput()))
    w.set(0, w.cast(w.dy(), elementOf(getInput())));
}

//===----------------------------------------------------------------------===//
// Products and reductions
//===----------------------------------------------------------------------===//

void EinsumOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  auto [left, result] = getEquation().split("->");
  SmallVector<StringRef> letters;
  left.split(letters, ',');
  for (unsigned i = 0; i < getInputs().size(); ++i) {
    if (!w.needs(i))
      continue;
    RankedTensorType type = typeOf(getInputs()[i]);
    // The product has the element type of its operands.
    Value dy = w.cast(w.dy(), type.getElementType());
    bool alone = getInputs().size() == 1;
    StringRef other = alone ? StringRef() : letters[1 - i];
    // Letters that only this operand has are repeated after the product.
    std::string found;
    SmallVector<int64_t> dims;
    for (auto [dim, letter] : llvm::enumerate(letters[i]))
      if (result.contains(letter) || other.contains(letter)) {
        found += letter;
        dims.push_back(dim);
      }
    Value gradient = dy;
    if (!alone)
      gradient = w.einsum((result + "," + other + "->" + found).str(),
                          {dy, getInputs()[1 - i]});
    else if (found != result) {
      SmallVector<int64_t> permutation;
      for (char letter : found)
        permutation.push_back(result.find(letter));
      gradient = w.make<TransposeOp>(dy, permutation);
    }
    if (dims.size() != letters[i].size())
      gradient = w.broadcast(gradient, type.getShape(), dims);
    w.set(i, gradient);
  }
}

void ReduceOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  Value x = getInput();
  ArrayRef<int64_t> shape = typeOf(x).getShape();
  SmallVector<int64_t> kept = keptShape(shape, getDims());
  auto repeat = [&](Value a) {
    if (!getKeep())
      return w.repeat(a, shape, getDims());
    SmallVector<int64_t> all(llvm::to_vector(llvm::seq<int64_t>(shape.size())));
    return typeOf(a).getShape() == shape ? a : w.broadcast(a, shape, all);
  };
  switch (getKind()) {
  case ReduceKind::Sum:
    return w.set(0, repeat(w.dy()));
  case ReduceKind::Mean: {
    int64_t count =
        typeOf(x).getNumElements() / typeOf(getResult()).getNumElements();
    return w.set(0, repeat(w.div(w.dy(), static_cast<double>(count))));
  }
  case ReduceKind::SumOfSquares:
    return w.set(0, w.mul(x, w.reshape(w.mul(w.dy(), 2.0), kept)));
  case ReduceKind::Max:
  case ReduceKind::Min: {
    Value attained = w.compare(Predicate::EQ, x, w.reshape(getResult(), kept));
    Value count =
        w.sum(w.cast(attained, elementOf(x)), getDims(), /*keep=*/true);
    Value share = w.div(w.reshape(w.dy(), kept), count);
    return w.set(0, w.select(attained, share, w.scalar(share, 0.0)));
  }
  }
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

void ReshapeOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0))
    w.set(0, w.reshape(w.dy(), typeOf(getInput()).getShape()));
}

void TransposeOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    inverse[dim] = i;
  w.set(0, w.make<TransposeOp>(w.dy(), inverse));
}

void BroadcastOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  RankedTensorType from = typeOf(getInput()), to = typeOf(getResult());
  llvm::SmallSetVector<int64_t, 4> copied;
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (from.getDimSize(i) == to.getDimSize(dim))
      copied.insert(dim);
  SmallVector<int64_t> summed;
  for (int64_t dim = 0; dim < to.getRank(); ++dim)
    if (!copied.contains(dim))
      summed.push_back(dim);
  Value gradient = summed.empty() ? w.dy() : w.sum(w.dy(), summed);
  w.set(0, w.reshape(gradient, from.getShape()));
}

void SliceOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  ArrayRef<int64_t> shape = typeOf(getInput()).getShape();
  SmallVector<int64_t> low(getOffsets()), high, interior;
  for (auto [dim, stride] : llvm::enumerate(getAllStrides())) {
    high.push_back(shape[dim] - low[dim] - (getSizes()[dim] - 1) * stride - 1);
    interior.push_back(stride - 1);
  }
  DenseI64ArrayAttr between;
  if (llvm::any_of(interior, [](int64_t n) { return n != 0; }))
    between = w.builder.getDenseI64ArrayAttr(interior);
  w.set(0, w.make<PadOp>(w.dy(), w.builder.getDenseI64ArrayAttr(low),
                         w.builder.getDenseI64ArrayAttr(high), between,
                         w.builder.getF64FloatAttr(0.0)));
}

void PadOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  SmallVector<int64_t> strides;
  for (int64_t between : getAllInterior())
    strides.push_back(between + 1);
  DenseI64ArrayAttr steps;
  if (llvm::any_of(strides, [](int64_t n) { return n != 1; }))
    steps = w.builder.getDenseI64ArrayAttr(strides);
  w.set(0, w.make<SliceOp>(
               w.dy(), getLowAttr(),
               w.builder.getDenseI64ArrayAttr(typeOf(getInput()).getShape()),
               steps));
}

void ConcatenateOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  SmallVector<int64_t> offsets(typeOf(getResult()).getRank(), 0);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    ArrayRef<int64_t> sizes = typeOf(input).getShape();
    if (w.needs(i))
      w.set(i, w.make<SliceOp>(w.dy(), w.builder.getDenseI64ArrayAttr(offsets),
                               w.builder.getDenseI64ArrayAttr(sizes),
                               DenseI64ArrayAttr()));
    offsets[getDim()] += sizes[getDim()];
  }
}

//===----------------------------------------------------------------------===//
// Indexed access and random numbers
//===----------------------------------------------------------------------===//

void GatherOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0))
    w.set(0, w.make<GatherGradOp>(typeOf(getTable()), w.dy(), getIndices(),
                                  getAxis(), getBatch()));
}

void GatherGradOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0))
    w.set(0, w.make<GatherOp>(w.dy(), getIndices(), getAxis(), getBatch()));
}

void EmbeddingOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0))
    w.set(0, w.make<GatherGradOp>(typeOf(getTable()), w.dy(), getIds(),
                                  int64_t(0), int64_t(0)));
}

void TopKOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy(0) || !w.needs(0))
    return;
  int64_t last = typeOf(getInput()).getRank() - 1;
  w.set(0, w.make<GatherGradOp>(typeOf(getInput()), w.dy(0), getIndices(), last,
                                last));
}

void DropoutOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0)) // Linear in its input, with the same elements kept.
    w.set(0, w.make<DropoutOp>(w.dy(), getKey(), getStream(), getRateAttr()));
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

void SoftmaxOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  Value y = getResult();
  int64_t dim = getDim();
  Value along = w.sum(w.mul(w.dy(), y), dim, /*keep=*/true);
  w.set(0, w.mul(y, w.sub(w.dy(), along)));
}

/// The gradients of a normalisation: `normal()` builds the normalised input,
/// `rstd` is the factor of each row, `centred` whether the mean was taken off.
/// With g = dy * scale: dx = rstd * (g - mean(g) - n * mean(g * n)), where
/// mean(g) occurs if centred.
static void normGradient(Writer &w, Value input, Value scale, Value rstd,
                         bool centred, function_ref<Value()> normal) {
  int64_t last = typeOf(input).getRank() - 1;
  if (w.needs(0)) {
    Value n = normal(), g = w.mul(w.dy(), scale);
    Value along = w.reduce(ReduceKind::Mean, w.mul(g, n), last, /*keep=*/true);
    Value rest = g;
    if (centred)
      rest = w.sub(g, w.reduce(ReduceKind::Mean, g, last, /*keep=*/true));
    w.set(0, w.mul(w.sub(rest, w.mul(n, along)), rstd));
  }
  // The normalised input is built again: a weight gradient may run much later,
  // and need then read the input and the statistics only.
  if (w.needs(1))
    w.set(1, w.mul(w.dy(), normal()), scale);
}

void LayerNormOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  Value x = getInput();
  int64_t last = typeOf(x).getRank() - 1;
  if (w.needs(0) || w.needs(1)) {
    Value mean = w.reduce(ReduceKind::Mean, x, last, /*keep=*/true);
    Value squares =
        w.reduce(ReduceKind::SumOfSquares, w.sub(x, mean), last, /*keep=*/true);
    Value variance =
        w.div(squares, static_cast<double>(typeOf(x).getDimSize(last)));
    Value rstd = w.make<RsqrtOp>(w.add(variance, getEps().convertToDouble()));
    normGradient(w, x, getScale(), rstd, /*centred=*/true,
                 [&] { return w.mul(w.sub(x, mean), rstd); });
  }
  if (w.needs(2))
    w.set(2, w.dy(), getBias());
}

void RMSNormOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || (!w.needs(0) && !w.needs(1)))
    return;
  Value x = getInput();
  int64_t last = typeOf(x).getRank() - 1;
  Value squares = w.reduce(ReduceKind::SumOfSquares, x, last, /*keep=*/true);
  Value mean = w.div(squares, static_cast<double>(typeOf(x).getDimSize(last)));
  Value rstd = w.make<RsqrtOp>(w.add(mean, getEps().convertToDouble()));
  normGradient(w, x, getScale(), rstd, /*centred=*/false,
               [&] { return w.mul(x, rstd); });
}

void RotaryOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0)) // A rotation, whose transpose turns back.
    w.set(0, w.make<RotaryOp>(
                 w.dy(), getPositions(), getThetaAttr(), getScalingAttr(),
                 getInverse() ? UnitAttr() : w.builder.getUnitAttr()));
}

void AttentionOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  Value dy = w.dy(0), dlse = getLse() ? w.dy(1) : Value();
  if (!dy && !dlse)
    return;
  if (!getLse()) {
    emitOpError(
        "cannot be differentiated without its second result, the log-sum-exp");
    return;
  }
  if (!dy)
    dy = w.constant(typeOf(getResult()), 0.0);
  SmallVector<Type> types{getQuery().getType(), getKey().getType(),
                          getValue().getType()};
  if (getBias())
    types.push_back(getBias().getType());
  auto grad = AttentionGradOp::create(
      w.builder, w.loc, getQuery().getType(), getKey().getType(),
      getValue().getType(), getBias() ? getBias().getType() : Type(),
      getQuery(), getKey(), getValue(), getResult(), getLse(), dy, dlse,
      getBias(), getQueryDocuments(), getKeyDocuments(), getFirstPosition(),
      getCausalAttr(), getWindowAttr(), getScaleAttr());
  for (unsigned i = 0; i < types.size(); ++i)
    if (w.needs(i))
      w.set(i, grad->getResult(i));
}

void CrossEntropyOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  Value dloss = w.dy(0), dlse = w.dy(1);
  if ((!dloss && !dlse) || !w.needs(0))
    return;
  if (!dloss)
    dloss = w.constant(typeOf(getLoss()), 0.0);
  w.set(0, w.make<CrossEntropyGradOp>(typeOf(getLogits()), getLogits(),
                                      getTargets(), getLse(), dloss, dlse,
                                      getSmoothingAttr()));
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

void RouteOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  Value x = getLogits();
  int64_t last = typeOf(x).getRank() - 1;
  if (Value dw = w.dy(0); dw && w.needs(0)) {
    Type wide = getStatisticsType(elementOf(x));
    Value logits = w.cast(x, wide);
    Value scores = getScores() == Scores::Softmax
                       ? w.make<SoftmaxOp>(logits, last)
                       : w.make<SigmoidOp>(logits);
    double scale = getScale().convertToDouble();
    Value picked = scale == 1 ? dw : w.mul(dw, scale);
    if (getNormalised()) {
      // Of p / (sum + tiny): (dw - sum(dw * p / sum)) / sum.
      Value chosen =
          w.make<GatherOp>(scores, getExperts(), /*axis=*/last, /*batch=*/last);
      Value sum = w.add(w.sum(chosen, last, /*keep=*/true), 1e-20);
      Value along =
          w.sum(w.mul(picked, w.div(chosen, sum)), last, /*keep=*/true);
      picked = w.div(w.sub(picked, along), sum);
    }
    Value ds = w.make<GatherGradOp>(typeOf(scores), picked, getExperts(),
                                    /*axis=*/last, /*batch=*/last);
    Value dx;
    if (getScores() == Scores::Softmax) {
      Value along = w.sum(w.mul(ds, scores), last, /*keep=*/true);
      dx = w.mul(scores, w.sub(ds, along));
    } else {
      dx = w.mul(ds, w.mul(scores, w.sub(1.0, scores)));
    }
    w.set(0, w.cast(dx, elementOf(x)));
  }
  if (getBias() && w.needs(1)) {
    // The load of each expert: see the op.
    RankedTensorType bias = typeOf(getBias());
    Value ids = w.make<IotaOp>(
        RankedTensorType::get(bias.getShape(), w.builder.getI32Type()), 0);
    Value chosen = w.compare(Predicate::EQ, w.expand(getExperts(), last + 1),
                             ids); // [..., k, E]
    Value load = w.sum(w.cast(chosen, getStatisticsType(bias.getElementType())),
                       llvm::to_vector(llvm::seq<int64_t>(0, last + 1)));
    w.set(1, w.cast(load, bias.getElementType()));
  }
}

/// For each assignment, the product of its row of `rows` with its token of
/// `tokens`, summed over the width: the gradient of the weights.
static Value alongAssignments(Writer &w, Value rows, Value tokens,
                              Value position) {
  Type wide = getStatisticsType(elementOf(rows));
  Value each = w.make<GatherOp>(rows, position, /*axis=*/1, /*batch=*/1);
  Value product = w.mul(w.cast(each, wide), w.cast(w.expand(tokens, 2), wide));
  return w.sum(product, 3);
}

void DispatchOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  if (w.needs(0))
    w.set(0,
          w.make<CombineOp>(w.dy(), getOrder(), getPosition(), getWeights()));
  if (getWeights() && w.needs(3))
    w.set(3, alongAssignments(w, w.dy(), getInput(), getPosition()));
}

void CombineOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  if (w.needs(0))
    w.set(0,
          w.make<DispatchOp>(w.dy(), getOrder(), getPosition(), getWeights()));
  if (getWeights() && w.needs(3))
    w.set(3, alongAssignments(w, getInput(), w.dy(), getPosition()));
}

void GroupedMatmulOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  bool transposed = getTransposed();
  if (w.needs(0))
    w.set(0, w.make<GroupedMatmulOp>(w.dy(), getMatrices(), getOffsets(),
                                     transposed ? UnitAttr()
                                                : w.builder.getUnitAttr()));
  if (w.needs(1))
    w.set(1, w.make<GroupedOuterOp>(transposed ? w.dy() : getRows(),
                                    transposed ? getRows() : w.dy(),
                                    getOffsets()));
}

void BucketOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0))
    w.set(0, w.make<UnbucketOp>(typeOf(getRows()), w.dy(), getOffsets()));
}

void UnbucketOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (w.dy() && w.needs(0))
    w.set(0, w.make<BucketOp>(typeOf(getRows()), w.dy(), getOffsets()));
}

void GroupedOuterOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy())
    return;
  if (w.needs(0))
    w.set(0, w.make<GroupedMatmulOp>(getRhs(), w.dy(), getOffsets(),
                                     w.builder.getUnitAttr()));
  if (w.needs(1))
    w.set(1,
          w.make<GroupedMatmulOp>(getLhs(), w.dy(), getOffsets(), UnitAttr()));
}

void StepMeanOp::buildGradient(Gradients &gradients) {
  Writer w(gradients);
  if (!w.dy() || !w.needs(0))
    return;
  // The count is an op of its own: it is that of the whole step, which
  // nn-accumulate puts in its place.
  Value weights = getWeights(), dy = w.dy();
  Type wide = getStatisticsType(elementOf(dy));
  Value count = w.make<StepSumOp>(RankedTensorType::get({}, wide), weights);
  Value share =
      w.div(w.cast(dy, wide), w.make<MaxOp>(count, w.scalar(count, 1.0)));
  share = w.cast(share, elementOf(dy));
  if (isBoolElement(weights.getType()))
    w.set(0, w.select(weights, share, w.scalar(share, 0.0)));
  else
    w.set(0, w.mul(w.cast(weights, elementOf(dy)), share));
}
