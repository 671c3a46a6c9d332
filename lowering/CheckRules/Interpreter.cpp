//===- Interpreter.cpp - Runs small tensor programs -----------------------===//

#include "lowering/CheckRules/Interpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::checking;

namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

unsigned widthOf(Type type) {
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

/// The number that the lowest bits are: i1 without a sign, others with one.
int64_t wrap(uint64_t bits, unsigned width) {
  if (width == 1)
    return bits & 1;
  return width >= 64
             ? static_cast<int64_t>(bits)
             : static_cast<int64_t>(bits << (64 - width)) >> (64 - width);
}
uint64_t withoutSign(int64_t value, unsigned width) {
  return width >= 64 ? value : value & ((uint64_t(1) << width) - 1);
}

Element ofFloat(double value) { return {value, 0}; }
Element ofInteger(int64_t value) { return {0, value}; }

Element ofAttribute(Attribute attribute) {
  if (auto value = dyn_cast<FloatAttr>(attribute)) {
    APFloat number = value.getValue();
    bool loses;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    return ofFloat(number.convertToDouble());
  }
  APInt bits = cast<IntegerAttr>(attribute).getValue();
  return ofInteger(bits.getBitWidth() == 1 ? bits.getZExtValue()
                                           : bits.getSExtValue());
}

/// The bits of a number as a value of type `from`, read as `to`.
Element bitcast(Type from, Type to, Element x) {
  auto fromFloat = dyn_cast<FloatType>(from), toFloat = dyn_cast<FloatType>(to);
  APInt bits(widthOf(from), withoutSign(x.i, widthOf(from)));
  bool loses;
  if (fromFloat) {
    APFloat number(x.f);
    number.convert(fromFloat.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &loses);
    bits = number.bitcastToAPInt();
  }
  if (!toFloat)
    return ofInteger(wrap(bits.getZExtValue(), bits.getBitWidth()));
  APFloat number(toFloat.getFloatSemantics(), bits);
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return ofFloat(number.convertToDouble());
}

/// An op on numbers; nothing where it is not known.
std::optional<Element> scalar(Operation *op, ArrayRef<Element> x) {
  unsigned width =
      op->getNumResults() ? widthOf(op->getResult(0).getType()) : 0;
  auto integer = [&](uint64_t bits) { return ofInteger(wrap(bits, width)); };
  auto nan = [&](double a, double b, double value) {
    return ofFloat(std::isnan(a) || std::isnan(b) ? kNaN : value);
  };
  return llvm::TypeSwitch<Operation *, std::optional<Element>>(op)
      .Case([&](arith::AddFOp) { return ofFloat(x[0].f + x[1].f); })
      .Case([&](arith::SubFOp) { return ofFloat(x[0].f - x[1].f); })
      .Case([&](arith::MulFOp) { return ofFloat(x[0].f * x[1].f); })
      .Case([&](arith::DivFOp) { return ofFloat(x[0].f / x[1].f); })
      .Case([&](arith::RemFOp) { return ofFloat(std::fmod(x[0].f, x[1].f)); })
      .Case([&](arith::NegFOp) { return ofFloat(-x[0].f); })
      .Case([&](arith::MaximumFOp) {
        return nan(x[0].f, x[1].f, std::max(x[0].f, x[1].f));
      })
      .Case([&](arith::MinimumFOp) {
        return nan(x[0].f, x[1].f, std::min(x[0].f, x[1].f));
      })
      .Case(
          [&](arith::MaxNumFOp) { return ofFloat(std::fmax(x[0].f, x[1].f)); })
      .Case(
          [&](arith::MinNumFOp) { return ofFloat(std::fmin(x[0].f, x[1].f)); })
      .Case([&](math::FmaOp) {
        return ofFloat(std::fma(x[0].f, x[1].f, x[2].f));
      })
      .Case([&](math::ExpOp) { return ofFloat(std::exp(x[0].f)); })
      .Case([&](math::LogOp) { return ofFloat(std::log(x[0].f)); })
      .Case([&](math::Log1pOp) { return ofFloat(std::log1p(x[0].f)); })
      .Case([&](math::ExpM1Op) { return ofFloat(std::expm1(x[0].f)); })
      .Case([&](math::SqrtOp) { return ofFloat(std::sqrt(x[0].f)); })
      .Case([&](math::RsqrtOp) { return ofFloat(1 / std::sqrt(x[0].f)); })
      .Case([&](math::SinOp) { return ofFloat(std::sin(x[0].f)); })
      .Case([&](math::CosOp) { return ofFloat(std::cos(x[0].f)); })
      .Case([&](math::TanhOp) { return ofFloat(std::tanh(x[0].f)); })
      .Case([&](math::ErfOp) { return ofFloat(std::erf(x[0].f)); })
      .Case([&](math::AbsFOp) { return ofFloat(std::fabs(x[0].f)); })
      .Case([&](math::FloorOp) { return ofFloat(std::floor(x[0].f)); })
      .Case([&](math::CeilOp) { return ofFloat(std::ceil(x[0].f)); })
      .Case([&](math::RoundEvenOp) { return ofFloat(std::nearbyint(x[0].f)); })
      .Case([&](math::PowFOp) { return ofFloat(std::pow(x[0].f, x[1].f)); })
      .Case([&](math::CopySignOp) {
        return ofFloat(std::copysign(x[0].f, x[1].f));
      })
      // Types are the same on both sides of a comparison: nothing is rounded.
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { return x[0]; })
      .Case<arith::SIToFPOp, arith::UIToFPOp>([&](Operation *cast) {
        bool isSigned = isa<arith::SIToFPOp>(cast);
        unsigned from = widthOf(cast->getOperand(0).getType());
        return ofFloat(isSigned ? double(x[0].i)
                                : double(withoutSign(x[0].i, from)));
      })
      .Case<arith::FPToSIOp, arith::FPToUIOp>([&](auto) {
        return integer(std::fabs(x[0].f) < 9e18 ? static_cast<int64_t>(x[0].f)
                                                : 0);
      })
      .Case([&](arith::AddIOp) {
        return integer(uint64_t(x[0].i) + uint64_t(x[1].i));
      })
      .Case([&](arith::SubIOp) {
        return integer(uint64_t(x[0].i) - uint64_t(x[1].i));
      })
      .Case([&](arith::MulIOp) {
        return integer(uint64_t(x[0].i) * uint64_t(x[1].i));
      })
      .Case<arith::DivSIOp, arith::RemSIOp>([&](Operation *division) {
        if (x[1].i == 0 || x[1].i == -1)
          return integer(
              isa<arith::DivSIOp>(division) && x[1].i ? -uint64_t(x[0].i) : 0);
        return integer(isa<arith::DivSIOp>(division) ? x[0].i / x[1].i
                                                     : x[0].i % x[1].i);
      })
      .Case([&](arith::AndIOp) { return integer(x[0].i & x[1].i); })
      .Case([&](arith::OrIOp) { return integer(x[0].i | x[1].i); })
      .Case([&](arith::XOrIOp) { return integer(x[0].i ^ x[1].i); })
      .Case([&](arith::ShLIOp) {
        return integer(uint64_t(x[1].i) >= width ? 0
                                                 : uint64_t(x[0].i) << x[1].i);
      })
      .Case([&](arith::ShRUIOp) {
        return integer(uint64_t(x[1].i) >= width
                           ? 0
                           : withoutSign(x[0].i, width) >> x[1].i);
      })
      .Case([&](arith::MaxSIOp) { return integer(std::max(x[0].i, x[1].i)); })
      .Case([&](arith::MinSIOp) { return integer(std::min(x[0].i, x[1].i)); })
      .Case<arith::ExtSIOp, arith::IndexCastOp, arith::TruncIOp>(
          [&](auto) { return integer(x[0].i); })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp>([&](Operation *cast) {
        return integer(
            withoutSign(x[0].i, widthOf(cast->getOperand(0).getType())));
      })
      .Case([&](arith::BitcastOp cast) {
        return bitcast(cast.getIn().getType(), cast.getType(), x[0]);
      })
      .Case([&](arith::SelectOp) { return x[0].i ? x[1] : x[2]; })
      .Case([&](arith::CmpFOp test) {
        return ofInteger(arith::applyCmpPredicate(
            test.getPredicate(), APFloat(x[0].f), APFloat(x[1].f)));
      })
      .Case([&](arith::CmpIOp test) {
        unsigned bits = widthOf(test.getLhs().getType());
        return ofInteger(arith::applyCmpPredicate(
            test.getPredicate(), APInt(bits, withoutSign(x[0].i, bits)),
            APInt(bits, withoutSign(x[1].i, bits))));
      })
      .Default([](Operation *) { return std::nullopt; });
}

using Values = llvm::DenseMap<Value, Tensor>;

struct Run {
  const Devices *devices;
  /// Of each device.
  std::vector<Values> values;

  LogicalResult unknown(Operation *op) {
    return emitError(op->getLoc())
           << op->getName() << " is not known to dist-check-rules; give "
           << "the op it comes from a decomposition into ops of nn";
  }

  static Element reduce(dist::Reduction kind, Element a, Element b,
                        bool isFloat) {
    switch (kind) {
    case dist::Reduction::Sum:
      return isFloat ? ofFloat(a.f + b.f) : ofInteger(a.i + b.i);
    case dist::Reduction::Max:
      return isFloat ? ofFloat(a.f > b.f || std::isnan(a.f) ? a.f : b.f)
                     : ofInteger(std::max(a.i, b.i));
    case dist::Reduction::Min:
      return isFloat ? ofFloat(a.f < b.f || std::isnan(a.f) ? a.f : b.f)
                     : ofInteger(std::min(a.i, b.i));
    }
    return a;
  }

  /// A row of a generic op's loops.
  LogicalResult body(Block &block, Values &outer, ArrayRef<int64_t> index,
                     ArrayRef<Element> arguments,
                     SmallVectorImpl<Element> &yielded) {
    llvm::SmallDenseMap<Value, Element, 32> local;
    for (auto [argument, element] :
         llvm::zip_equal(block.getArguments(), arguments))
      local[argument] = element;
    auto get = [&](Value value) {
      auto it = local.find(value);
      return it != local.end() ? it->second : outer.find(value)->second.data[0];
    };
    for (Operation &op : block) {
      SmallVector<Element, 4> x;
      auto extract = dyn_cast<tensor::ExtractOp>(op);
      for (Value operand : extract ? extract.getIndices() : op.getOperands())
        x.push_back(get(operand));
      if (isa<linalg::YieldOp>(op)) {
        yielded.assign(x.begin(), x.end());
        return success();
      }
      if (auto number = dyn_cast<linalg::IndexOp>(op)) {
        local[number] = ofInteger(index[number.getDim()]);
      } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
        local[constant] = ofAttribute(constant.getValue());
      } else if (extract) {
        Tensor &from = outer.find(extract.getTensor())->second;
        SmallVector<int64_t> place;
        for (auto [size, element] : llvm::zip_equal(from.shape, x)) {
          if (element.i < 0 || element.i >= size)
            return emitError(op.getLoc()) << "reads behind the end of a tensor";
          place.push_back(element.i);
        }
        local[extract] = from.at(place);
      } else if (std::optional<Element> result = scalar(&op, x)) {
        local[op.getResult(0)] = *result;
      } else {
        return unknown(&op);
      }
    }
    return success();
  }

  LogicalResult generic(linalg::GenericOp op, Values &values) {
    SmallVector<int64_t> loops = op.getStaticLoopRanges();
    SmallVector<Tensor> results;
    for (Value init : op.getOutputs())
      results.push_back(values.find(init)->second);
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    size_t inputs = op.getInputs().size();
    Tensor space(loops);
    LogicalResult done = success();
    SmallVector<Element> yielded;
    space.each([&](ArrayRef<int64_t> index, Element &) {
      if (failed(done))
        return;
      SmallVector<Element, 8> arguments;
      for (auto [i, input] : llvm::enumerate(op.getInputs())) {
        Tensor &tensor = values.find(input)->second;
        arguments.push_back(isa<RankedTensorType>(input.getType())
                                ? tensor.at(maps[i].compose(index))
                                : tensor.data[0]);
      }
      for (auto [i, result] : llvm::enumerate(results))
        arguments.push_back(result.at(maps[inputs + i].compose(index)));
      done = body(op.getRegion().front(), values, index, arguments, yielded);
      if (succeeded(done))
        for (auto [i, result] : llvm::enumerate(results))
          result.at(maps[inputs + i].compose(index)) = yielded[i];
    });
    for (auto [result, tensor] : llvm::zip_equal(op.getResults(), results))
      values[result] = std::move(tensor);
    return done;
  }

  LogicalResult one(Operation *op, Values &values) {
    auto get = [&](Value value) -> Tensor & {
      return values.find(value)->second;
    };
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto elements = dyn_cast<ElementsAttr>(constant.getValue())) {
        Tensor tensor(cast<RankedTensorType>(elements.getType()).getShape());
        for (auto [to, from] :
             llvm::zip_equal(tensor.data, elements.getValues<Attribute>()))
          to = ofAttribute(from);
        values[constant] = std::move(tensor);
        return success();
      }
      Tensor number{ArrayRef<int64_t>()};
      number.data[0] = ofAttribute(constant.getValue());
      values[constant] = std::move(number);
      return success();
    }
    if (auto empty = dyn_cast<tensor::EmptyOp>(op)) {
      Tensor tensor(empty.getType().getShape());
      // Nothing may read it.
      for (Element &element : tensor.data)
        element = paddingFor(empty.getType().getElementType());
      values[empty] = std::move(tensor);
      return success();
    }
    if (auto fill = dyn_cast<linalg::FillOp>(op)) {
      Tensor tensor = get(fill.getOutputs()[0]);
      for (Element &element : tensor.data)
        element = get(fill.getInputs()[0]).data[0];
      values[fill.getResult(0)] = std::move(tensor);
      return success();
    }
    if (auto loops = dyn_cast<linalg::GenericOp>(op))
      return generic(loops, values);
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
      Tensor tensor = get(op->getOperand(0));
      tensor.shape.assign(
          cast<RankedTensorType>(op->getResult(0).getType()).getShape());
      values[op->getResult(0)] = std::move(tensor);
      return success();
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
      SmallVector<int64_t> place;
      for (Value index : extract.getIndices())
        place.push_back(get(index).data[0].i);
      Tensor number{ArrayRef<int64_t>()};
      number.data[0] = get(extract.getTensor()).at(place);
      values[extract] = std::move(number);
      return success();
    }
    auto place = [](ArrayRef<int64_t> index, auto slice) {
      SmallVector<int64_t> at;
      for (auto [i, offset, stride] : llvm::zip_equal(
               index, slice.getStaticOffsets(), slice.getStaticStrides()))
        at.push_back(offset + i * stride);
      return at;
    };
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
      // Without the dimensions of size 1 that it drops.
      Tensor full(slice.getStaticSizes());
      Tensor &from = get(slice.getSource());
      full.each([&](ArrayRef<int64_t> index, Element &to) {
        to = from.at(place(index, slice));
      });
      full.shape.assign(slice.getType().getShape());
      values[slice] = std::move(full);
      return success();
    }
    if (auto slice = dyn_cast<tensor::InsertSliceOp>(op)) {
      Tensor to = get(slice.getDest()), from = get(slice.getSource());
      from.shape.assign(slice.getStaticSizes());
      from.each([&](ArrayRef<int64_t> index, Element &x) {
        to.at(place(index, slice)) = x;
      });
      values[slice] = std::move(to);
      return success();
    }
    SmallVector<Element> x;
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        return unknown(op);
      else
        x.push_back(get(operand).data[0]);
    std::optional<Element> result =
        op->getNumResults() == 1 ? scalar(op, x) : std::nullopt;
    if (!result)
      return unknown(op);
    Tensor number{ArrayRef<int64_t>()};
    number.data[0] = *result;
    values[op->getResult(0)] = std::move(number);
    return success();
  }

  /// A collective, or what knows its device, on all devices.
  LogicalResult all(Operation *op) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Type element = type.getElementType();
    bool isFloat = isa<FloatType>(element);
    auto input = [&](int64_t rank) -> Tensor & {
      return values[rank].find(op->getOperand(0))->second;
    };
    SmallVector<dist::AxisAttr> axes;
    if (auto list = op->getAttrOfType<ArrayAttr>("axes"))
      axes.assign(list.getAsRange<dist::AxisAttr>().begin(),
                  list.getAsRange<dist::AxisAttr>().end());
    auto reduced = [&](int64_t rank, dist::Reduction kind) {
      SmallVector<int64_t> group = devices->groupOf(rank, axes);
      Tensor sum = input(group[0]);
      for (int64_t other : ArrayRef<int64_t>(group).drop_front())
        for (auto [to, from] : llvm::zip_equal(sum.data, input(other).data))
          to = reduce(kind, to, from, isFloat);
      return sum;
    };
    /// Tensors one after another, without what lies behind the end of the
    /// result.
    auto joined = [&](ArrayRef<Tensor> parts, unsigned dim) {
      Tensor result(type.getShape());
      int64_t size = parts[0].shape[dim];
      result.each([&](ArrayRef<int64_t> index, Element &to) {
        SmallVector<int64_t> at(index);
        const Tensor &part = parts[index[dim] / size];
        at[dim] %= size;
        to = part.at(at);
      });
      return result;
    };
    std::vector<Tensor> results(values.size());
    for (int64_t rank = 0; rank < static_cast<int64_t>(values.size()); ++rank) {
      int64_t number = devices->indexOf(rank, axes);
      auto made =
          llvm::TypeSwitch<Operation *, std::optional<Tensor>>(op)
              .Case([&](dist::AllGatherOp gather) {
                SmallVector<Tensor> parts;
                for (int64_t other : devices->groupOf(rank, axes))
                  parts.push_back(input(other));
                return joined(parts, gather.getDim());
              })
              .Case([&](dist::AllReduceOp all) {
                return reduced(rank, all.getKind());
              })
              .Case([&](dist::ReduceScatterOp scatter) {
                Tensor sum = reduced(rank, scatter.getKind());
                return shardOf(sum, scatter.getDim(),
                               type.getDimSize(scatter.getDim()), number,
                               paddingFor(element));
              })
              .Case([&](dist::AllToAllOp exchange) {
                SmallVector<Tensor> parts;
                for (int64_t other : devices->groupOf(rank, axes))
                  parts.push_back(shardOf(input(other), exchange.getSplit(),
                                          type.getDimSize(exchange.getSplit()),
                                          number, paddingFor(element)));
                return joined(parts, exchange.getConcat());
              })
              .Case([&](dist::PermuteOp permute) -> std::optional<Tensor> {
                auto shard = [&](int64_t of, dist::ShardingAttr sharding) {
                  SmallVector<int64_t> numbers;
                  for (dist::DimAttr dim : sharding.getDims())
                    numbers.push_back(devices->indexOf(of, dim.getAxes()));
                  return numbers;
                };
                for (int64_t other = 0; other < devices->count(); ++other)
                  if (shard(other, permute.getFrom()) ==
                      shard(rank, permute.getTo()))
                    return input(other);
                return std::nullopt;
              })
              .Case([&](dist::ShiftOp shift) {
                SmallVector<int64_t> group = devices->groupOf(rank, axes);
                int64_t size = group.size();
                return input(group[(number + size - shift.getBy()) % size]);
              })
              .Case([&](dist::BroadcastOp broadcast) {
                return input(devices->groupOf(rank, axes)[broadcast.getRoot()]);
              })
              .Case([&](dist::SliceOp slice) {
                return shardOf(input(rank), slice.getDim(),
                               type.getDimSize(slice.getDim()), number,
                               paddingFor(element));
              })
              .Case([&](dist::MakePartialOp partial) {
                Tensor result = input(rank);
                double infinity = std::numeric_limits<double>::infinity();
                Element neutral =
                    partial.getKind() == dist::Reduction::Sum ? Element()
                    : partial.getKind() == dist::Reduction::Max
                        ? Element{-infinity,
                                  std::numeric_limits<int32_t>::min()}
                        : Element{infinity,
                                  std::numeric_limits<int32_t>::max()};
                if (number != 0)
                  for (Element &x : result.data)
                    x = neutral;
                return result;
              })
              .Case([&](dist::LocalOp) { return input(rank); })
              .Case([&](dist::AxisIndexOp) {
                Tensor result{ArrayRef<int64_t>()};
                result.data[0] = ofInteger(number);
                return result;
              })
              .Default([](Operation *) { return std::nullopt; });
      if (!made)
        return unknown(op);
      results[rank] = std::move(*made);
    }
    for (auto [of, result] : llvm::zip_equal(values, results))
      of[op->getResult(0)] = std::move(result);
    return success();
  }
};
} // namespace

Element checking::paddingFor(Type element) {
  return isa<FloatType>(element) ? ofFloat(kNaN)
         : element.isInteger(1)  ? ofInteger(1)
                                 : ofInteger(-3);
}

Tensor checking::shardOf(Tensor &whole, unsigned dim, int64_t part,
                         int64_t number, Element padding, int64_t blocks) {
  SmallVector<int64_t> shape = whole.shape;
  int64_t size = shape[dim] / blocks;
  shape[dim] = blocks * part;
  Tensor result(shape);
  result.each([&](ArrayRef<int64_t> index, Element &to) {
    SmallVector<int64_t> at(index);
    int64_t within = index[dim] % part + number * part;
    at[dim] = index[dim] / part * size + within;
    to = within < size ? whole.at(at) : padding;
  });
  return result;
}

int64_t Devices::indexOf(int64_t rank, ArrayRef<dist::AxisAttr> axes) const {
  dist::MeshOp op = mesh;
  int64_t number = 0;
  for (dist::AxisAttr axis : axes) {
    // The devices of the axes behind it count first.
    int64_t inner = 1, size = 1;
    for (auto other :
         llvm::reverse(op.getAxes().getAsRange<dist::MeshAxisAttr>())) {
      size = other.getSize();
      if (other.getName() == axis.getName())
        break;
      inner *= size;
    }
    int64_t own = op.getSize(axis), place = rank / inner % size;
    number = number * own + place / (size / (axis.getOuter() * own)) % own;
  }
  return number;
}

SmallVector<int64_t> Devices::groupOf(int64_t rank,
                                      ArrayRef<dist::AxisAttr> axes) const {
  dist::MeshOp op = mesh;
  SmallVector<int64_t> group(op.getSize(axes), -1);
  for (int64_t other = 0; other < count(); ++other) {
    // Equal along all that is not in the group: what the axes add to a number
    // moved out.
    auto rest = [&](int64_t of) {
      int64_t inner = 1, left = of;
      for (auto axis :
           llvm::reverse(op.getAxes().getAsRange<dist::MeshAxisAttr>())) {
        for (dist::AxisAttr own : axes)
          if (own.getName() == axis.getName()) {
            int64_t below = axis.getSize() / (own.getOuter() * op.getSize(own));
            left -= indexOf(of, own) * below * inner;
          }
        inner *= axis.getSize();
      }
      return left;
    };
    if (rest(other) == rest(rank))
      group[indexOf(other, axes)] = other;
  }
  return group;
}

FailureOr<std::vector<std::vector<Tensor>>>
checking::run(func::FuncOp function, const Devices *devices,
              const std::vector<std::vector<Tensor>> &arguments) {
  Run run{devices, std::vector<Values>(arguments.size())};
  for (auto [values, given] : llvm::zip_equal(run.values, arguments))
    for (auto [argument, tensor] :
         llvm::zip_equal(function.getArguments(), given))
      values[argument] = tensor;
  for (Operation &op : function.front()) {
    if (isa<func::ReturnOp>(op)) {
      std::vector<std::vector<Tensor>> results;
      for (Values &values : run.values)
        for (std::vector<Tensor> &list = results.emplace_back();
             Value operand : op.getOperands())
          list.push_back(values.find(operand)->second);
      return results;
    }
    if (isa<dist::DistDialect>(op.getDialect())) {
      if (failed(run.all(&op)))
        return failure();
      continue;
    }
    for (Values &values : run.values)
      if (failed(run.one(&op, values)))
        return failure();
  }
  return failure();
}
