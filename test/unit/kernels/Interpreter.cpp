//===- Interpreter.cpp - nn ops, one by one, in f64 -----------------------===//

#include "Interpreter.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <map>
#include <numeric>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::nn;
using namespace sheaf::test;

namespace {
using Place = std::vector<int64_t>;

int64_t countOf(const Place &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<>());
}
int64_t offsetOf(const Place &place, const Place &shape) {
  int64_t offset = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    offset = offset * shape[i] + place[i];
  return offset;
}
/// Calls `body` for each place of a shape, in order.
void forEach(const Place &shape, llvm::function_ref<void(const Place &)> body) {
  Place place(shape.size(), 0);
  for (int64_t n = countOf(shape); n > 0; --n) {
    body(place);
    for (size_t i = shape.size(); i-- > 0 && ++place[i] == shape[i];)
      place[i] = 0;
  }
}
double at(const Tensor &tensor, const Place &place) {
  return tensor.data[offsetOf(place, tensor.shape)];
}
/// The element at a place that is broadcast as in NumPy.
double broadcastAt(const Tensor &tensor, const Place &place) {
  Place own(place.end() - tensor.shape.size(), place.end());
  for (size_t i = 0; i < own.size(); ++i)
    if (tensor.shape[i] == 1)
      own[i] = 0;
  return at(tensor, own);
}
int32_t wrap(int64_t value) {
  return static_cast<int32_t>(static_cast<uint32_t>(value));
}

double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
}
double smaller(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
}

double integerOp(Operation *op, llvm::ArrayRef<double> v) {
  int64_t a = v[0], b = v.size() > 1 ? static_cast<int64_t>(v[1]) : 0;
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case([&](NegOp) { return wrap(-a); })
      .Case([&](AbsOp) { return wrap(std::abs(a)); })
      .Case([&](AddOp) { return wrap(a + b); })
      .Case([&](SubOp) { return wrap(a - b); })
      .Case([&](MulOp) { return wrap(a * b); })
      .Case([&](DivOp) { return b == 0 ? 0 : wrap(a / b); })
      .Case([&](MaxOp) { return static_cast<double>(std::max(a, b)); })
      .Case([&](MinOp) { return static_cast<double>(std::min(a, b)); })
      .Case([&](NotOp) { return static_cast<double>(!a); })
      .Case([&](AndOp) { return static_cast<double>(a && b); })
      .Case([&](OrOp) { return static_cast<double>(a || b); });
}

double floatOp(Operation *op, llvm::ArrayRef<double> v) {
  double a = v[0], b = v.size() > 1 ? v[1] : 0;
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case([&](NegOp) { return -a; })
      .Case([&](AbsOp) { return std::fabs(a); })
      .Case([&](ExpOp) { return std::exp(a); })
      .Case([&](LogOp) { return std::log(a); })
      .Case([&](TanhOp) { return std::tanh(a); })
      .Case([&](ErfOp) { return std::erf(a); })
      .Case([&](SqrtOp) { return std::sqrt(a); })
      .Case([&](RsqrtOp) { return 1 / std::sqrt(a); })
      .Case([&](SigmoidOp) { return 1 / (1 + std::exp(-a)); })
      .Case([&](SinOp) { return std::sin(a); })
      .Case([&](CosOp) { return std::cos(a); })
      .Case([&](AddOp) { return a + b; })
      .Case([&](SubOp) { return a - b; })
      .Case([&](MulOp) { return a * b; })
      .Case([&](DivOp) { return a / b; })
      .Case([&](MaxOp) { return larger(a, b); })
      .Case([&](MinOp) { return smaller(a, b); })
      .Case([&](PowOp) { return std::pow(a, b); });
}

bool holds(Predicate predicate, double a, double b) {
  switch (predicate) {
  case Predicate::EQ:
    return a == b;
  case Predicate::NE:
    return a != b;
  case Predicate::LT:
    return a < b;
  case Predicate::LE:
    return a <= b;
  case Predicate::GT:
    return a > b;
  case Predicate::GE:
    return a >= b;
  }
  return false;
}

double castTo(Type from, Type to, double value) {
  if (to.isInteger(1))
    return value != 0;
  auto integer = dyn_cast<IntegerType>(to);
  if (!integer)
    return value; // rounded afterwards
  unsigned width = integer.getWidth();
  if (isa<FloatType>(from)) {
    double limit = std::ldexp(1.0, width - 1);
    return std::isnan(value) ? 0
                             : std::clamp(std::trunc(value), -limit, limit - 1);
  }
  return width == 8 ? static_cast<int8_t>(static_cast<int64_t>(value)) : value;
}

double reduceElements(ReduceKind kind, const std::vector<double> &elements) {
  double result = 0;
  if (kind == ReduceKind::Max || kind == ReduceKind::Min) {
    result = elements[0];
    for (double x : elements)
      result = kind == ReduceKind::Max ? larger(result, x) : smaller(result, x);
    return result;
  }
  for (double x : elements)
    result += kind == ReduceKind::SumOfSquares ? x * x : x;
  return kind == ReduceKind::Mean ? result / elements.size() : result;
}

/// Philox 4x32-10.
std::array<uint32_t, 2> philox(std::array<uint32_t, 4> c, uint32_t k0,
                               uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53u) * c[0], b = uint64_t(0xCD9E8D57u) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k0, uint32_t(b),
         uint32_t(a >> 32) ^ c[3] ^ k1, uint32_t(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c[0], c[1]};
}

struct Interpreter {
  std::map<void *, Tensor> values;

  const Tensor &get(Value value) {
    return values.at(value.getAsOpaquePointer());
  }

  void set(Value value, llvm::function_ref<double(const Place &)> element) {
    auto type = cast<RankedTensorType>(value.getType());
    Tensor tensor{type.getShape().vec(), {}};
    forEach(tensor.shape, [&](const Place &place) {
      tensor.data.push_back(roundTo(type.getElementType(), element(place)));
    });
    values[value.getAsOpaquePointer()] = std::move(tensor);
  }

  void run(Operation *op) {
    Value result = op->getNumResults() ? op->getResult(0) : Value();
    if (op->hasTrait<ElementwiseTrait>())
      return runElementwise(op);
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](ReduceOp reduce) { runReduce(reduce); })
        .Case([&](EinsumOp einsum) { runEinsum(einsum); })
        .Case([&](ReshapeOp op) {
          Tensor tensor = get(op.getInput());
          tensor.shape = op.getType().getShape().vec();
          values[result.getAsOpaquePointer()] = tensor;
        })
        .Case([&](TransposeOp op) {
          set(result, [&](const Place &place) {
            Place from(place.size());
            for (auto [i, dim] : llvm::enumerate(op.getPermutation()))
              from[dim] = place[i];
            return at(get(op.getInput()), from);
          });
        })
        .Case([&](BroadcastOp op) {
          const Tensor &input = get(op.getInput());
          set(result, [&](const Place &place) {
            Place from;
            for (auto [i, dim] : llvm::enumerate(op.getDims()))
              from.push_back(input.shape[i] == 1 ? 0 : place[dim]);
            return at(input, from);
          });
        })
        .Case([&](SliceOp op) {
          SmallVector<int64_t> strides = op.getAllStrides();
          set(result, [&](const Place &place) {
            Place from;
            for (size_t i = 0; i < place.size(); ++i)
              from.push_back(op.getOffsets()[i] + place[i] * strides[i]);
            return at(get(op.getInput()), from);
          });
        })
        .Case([&](PadOp op) {
          SmallVector<int64_t> interior = op.getAllInterior();
          const Tensor &input = get(op.getInput());
          set(result, [&](const Place &place) {
            Place from;
            for (size_t i = 0; i < place.size(); ++i) {
              int64_t inner = place[i] - op.getLow()[i], step = interior[i] + 1;
              if (inner < 0 || inner % step || inner / step >= input.shape[i])
                return op.getValue().convertToDouble();
              from.push_back(inner / step);
            }
            return at(input, from);
          });
        })
        .Case([&](ConcatenateOp op) {
          set(result, [&](const Place &place) {
            Place from = place;
            for (Value input : op.getInputs()) {
              const Tensor &tensor = get(input);
              int64_t size = tensor.shape[op.getDim()];
              if (from[op.getDim()] < size)
                return at(tensor, from);
              from[op.getDim()] -= size;
            }
            return 0.0;
          });
        })
        .Case([&](IotaOp op) {
          set(result, [&](const Place &place) {
            return static_cast<double>(place[op.getDim()]);
          });
        })
        .Case([&](ConstantOp op) { runConstant(op); })
        .Case([&](GatherOp op) {
          const Tensor &table = get(op.getTable());
          set(result, [&](const Place &place) {
            Place from = placeInTable(op, place, get(op.getIndices()));
            int64_t id = from[op.getAxis()];
            return id < 0 || id >= table.shape[op.getAxis()] ? 0.0
                                                             : at(table, from);
          });
        })
        .Case([&](GatherGradOp op) {
          set(result, [](const Place &) { return 0.0; });
          Tensor table = get(result);
          const Tensor &grad = get(op.getGrad());
          forEach(grad.shape, [&](const Place &place) {
            Place to = placeInTable(op, place, get(op.getIndices()));
            int64_t id = to[op.getAxis()];
            if (id >= 0 && id < table.shape[op.getAxis()])
              table.data[offsetOf(to, table.shape)] += at(grad, place);
          });
          for (double &x : table.data)
            x = roundTo(
                cast<RankedTensorType>(result.getType()).getElementType(), x);
          values[result.getAsOpaquePointer()] = table;
        })
        .Case([&](TopKOp op) { runTopK(op); })
        .Case([&](RandomOp op) { runRandom(op); })
        .Default([](Operation *op) {
          llvm::report_fatal_error("no reference for " +
                                   op->getName().getStringRef());
        });
  }

  void runElementwise(Operation *op) {
    Type from =
        cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
    Type to =
        cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
    set(op->getResult(0), [&](const Place &place) {
      SmallVector<double> v;
      for (Value operand : op->getOperands())
        v.push_back(broadcastAt(get(operand), place));
      if (auto compare = dyn_cast<CompareOp>(op))
        return static_cast<double>(holds(compare.getPredicate(), v[0], v[1]));
      if (isa<SelectOp>(op))
        return v[0] ? v[1] : v[2];
      if (isa<CastOp>(op))
        return castTo(from, to, v[0]);
      return isa<FloatType>(from) ? floatOp(op, v) : integerOp(op, v);
    });
  }

  void runReduce(ReduceOp op) {
    const Tensor &input = get(op.getInput());
    auto type = cast<RankedTensorType>(op.getResult().getType());
    Tensor result{type.getShape().vec(), {}};
    std::vector<std::vector<double>> elements(countOf(result.shape));
    forEach(input.shape, [&](const Place &place) {
      Place to;
      for (size_t i = 0; i < place.size(); ++i) {
        if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(i)))
          to.push_back(place[i]);
        else if (op.getKeep())
          to.push_back(0);
      }
      elements[offsetOf(to, result.shape)].push_back(at(input, place));
    });
    for (const std::vector<double> &group : elements) {
      double value = reduceElements(op.getKind(), group);
      if (type.getElementType().isInteger(32))
        value = wrap(static_cast<int64_t>(value));
      result.data.push_back(roundTo(type.getElementType(), value));
    }
    values[op.getResult().getAsOpaquePointer()] = result;
  }

  void runEinsum(EinsumOp op) {
    // Not bindings, which a lambda cannot capture everywhere.
    std::pair<StringRef, StringRef> sides = op.getEquation().split("->");
    StringRef left = sides.first, right = sides.second;
    SmallVector<StringRef> names;
    left.split(names, ',');
    std::string letters = right.str();
    std::map<char, int64_t> sizes;
    for (auto [operand, input] : llvm::zip(names, op.getInputs()))
      for (auto [i, c] : llvm::enumerate(operand)) {
        sizes[c] = get(input).shape[i];
        if (letters.find(c) == std::string::npos)
          letters += c;
      }
    Place space;
    for (char c : letters)
      space.push_back(sizes[c]);
    auto type = cast<RankedTensorType>(op.getResult().getType());
    Tensor result{type.getShape().vec(), {}};
    result.data.assign(countOf(result.shape), 0);
    forEach(space, [&](const Place &place) {
      auto placeOf = [&](StringRef operand) {
        Place p;
        for (char c : operand)
          p.push_back(place[letters.find(c)]);
        return p;
      };
      double product = 1;
      for (auto [operand, input] : llvm::zip(names, op.getInputs()))
        product *= at(get(input), placeOf(operand));
      result.data[offsetOf(placeOf(right), result.shape)] += product;
    });
    for (double &x : result.data)
      x = roundTo(type.getElementType(), x);
    values[op.getResult().getAsOpaquePointer()] = result;
  }

  void runConstant(ConstantOp op) {
    ElementsAttr value = op.getValue();
    Tensor tensor{op.getType().getShape().vec(), {}};
    if (isa<FloatType>(value.getElementType())) {
      for (APFloat x : value.getValues<APFloat>()) {
        bool lost;
        x.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
        tensor.data.push_back(x.convertToDouble());
      }
    } else {
      for (APInt x : value.getValues<APInt>())
        tensor.data.push_back(x.getBitWidth() == 1
                                  ? static_cast<double>(x.getZExtValue())
                                  : static_cast<double>(x.getSExtValue()));
    }
    values[op.getResult().getAsOpaquePointer()] = tensor;
  }

  /// The place in the table of a gather or its gradient, with the index as it
  /// is.
  template <typename Op>
  static Place placeInTable(Op op, const Place &place, const Tensor &indices) {
    int64_t axis = op.getAxis(), batch = op.getBatch();
    int64_t chosen = indices.shape.size() - batch;
    Place which(place.begin(), place.begin() + batch);
    which.insert(which.end(), place.begin() + axis,
                 place.begin() + axis + chosen);
    Place result(place.begin(), place.begin() + axis);
    result.push_back(static_cast<int64_t>(at(indices, which)));
    result.insert(result.end(), place.begin() + axis + chosen, place.end());
    return result;
  }

  void runTopK(TopKOp op) {
    const Tensor &input = get(op.getInput());
    int64_t length = input.shape.back(), k = op.getK();
    Tensor numbers{op.getValues().getType().getShape().vec(), {}};
    Tensor indices = numbers;
    for (size_t row = 0; row < input.data.size() / length; ++row) {
      std::vector<int64_t> order(length);
      std::iota(order.begin(), order.end(), 0);
      const double *x = input.data.data() + row * length;
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return std::isnan(x[a]) ? !std::isnan(x[b]) : x[a] > x[b];
      });
      for (int64_t j = 0; j < k; ++j) {
        numbers.data.push_back(x[order[j]]);
        indices.data.push_back(order[j]);
      }
    }
    values[op.getValues().getAsOpaquePointer()] = numbers;
    values[op.getIndices().getAsOpaquePointer()] = indices;
  }

  void runRandom(RandomOp op) {
    auto word = [](double x) {
      return static_cast<uint32_t>(static_cast<int64_t>(x));
    };
    const Tensor &key = get(op.getKey());
    Place shape = get(op.getStream()).shape;
    uint32_t stream = word(get(op.getStream()).data[0]);
    Place full = op.getType().getShape().vec();
    bool sampled = op.getSampleDim();
    set(op.getResult(), [&](const Place &place) {
      Place inner(place.begin() + sampled, place.end());
      Place innerShape(full.begin() + sampled, full.end());
      uint32_t sample = sampled ? word(key.data[3]) + place[0] : 0;
      auto w = philox({static_cast<uint32_t>(offsetOf(inner, innerShape)),
                       sample, stream, word(key.data[2])},
                      word(key.data[0]), word(key.data[1]));
      if (op.getDistribution() == Distribution::Bits)
        return static_cast<double>(static_cast<int32_t>(w[0]));
      if (op.getDistribution() == Distribution::Uniform)
        return std::ldexp(w[0] >> 8, -24);
      double u = std::ldexp((w[0] >> 8) + 1, -24),
             v = std::ldexp(w[1] >> 8, -24);
      return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
    });
  }
};
} // namespace

double sheaf::test::roundTo(Type element, double value) {
  auto type = dyn_cast<FloatType>(element);
  if (!type || type.isF64())
    return value;
  APFloat number(value);
  bool lost;
  number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  if (type.getWidth() == 8 && !std::isnan(value)) {
    APFloat largest = APFloat::getLargest(type.getFloatSemantics(), value < 0);
    if (!number.isFinite() ||
        std::fabs(value) > std::fabs(largest.convertToDouble()))
      number = largest;
  }
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}

std::vector<Tensor> sheaf::test::interpret(func::FuncOp function,
                                           ArrayRef<Tensor> arguments) {
  Interpreter interpreter;
  for (auto [argument, tensor] :
       llvm::zip_equal(function.getArguments(), arguments))
    interpreter.values[argument.getAsOpaquePointer()] = tensor;
  for (Operation &op : function.front().without_terminator())
    interpreter.run(&op);
  std::vector<Tensor> results;
  for (Value result : function.front().getTerminator()->getOperands())
    results.push_back(interpreter.get(result));
  return results;
}
