//===- Rules.cpp - The sharding rule of each op ---------------------------===//

#include "dialects/NN/NN.h"
#include "dialects/NN/Quantize.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace sheaf::nn;

//===----------------------------------------------------------------------===//
// The text form
//===----------------------------------------------------------------------===//

int ShardingRule::add(Factor factor) {
  factors.push_back(std::move(factor));
  return static_cast<int>(factors.size()) - 1;
}

bool ShardingRule::mayDefer(int operand, Reduction kind) const {
  if (kind == Reduction::Sum)
    return llvm::is_contained(linearOperands, operand);
  // max over i and min over j do not commute.
  return llvm::is_contained(monotoneOperands, operand) &&
         llvm::all_of(factors, [&](const Factor &factor) {
           return factor.kind != FactorKind::Reduction ||
                  factor.reduction == kind;
         });
}

static StringRef reductionName(Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return "sum";
  case Reduction::Max:
    return "max";
  case Reduction::Min:
    return "min";
  }
  llvm_unreachable("unknown reduction");
}

std::string ShardingRule::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto printValue = [&](const ValueFactors &value) {
    if (value.empty())
      os << "()";
    for (const DimFactors &dim : value) {
      os << "[";
      llvm::interleave(
          dim, os, [&](int factor) { os << factors[factor].name; }, " ");
      os << "]";
    }
  };
  llvm::interleaveComma(operands, os, printValue);
  os << (operands.empty() ? "->" : " ->");
  if (!results.empty())
    os << " ";
  llvm::interleaveComma(results, os, printValue);
  os << " {";
  llvm::interleaveComma(factors, os, [&](const Factor &factor) {
    os << factor.name << "=" << factor.size;
    switch (factor.kind) {
    case FactorKind::Parallel:
      break;
    case FactorKind::Reduction:
      os << " " << reductionName(factor.reduction);
      break;
    case FactorKind::Whole:
      os << " whole";
      break;
    case FactorKind::Halo:
      os << " halo(" << factor.haloBefore << ", " << factor.haloAfter << ")";
      break;
    }
    if (!factor.expansion.empty())
      os << " via " << factor.expansion;
  });
  os << "}";
  auto printOperands = [&](ArrayRef<int> list) {
    os << "(";
    llvm::interleaveComma(list, os);
    os << ")";
  };
  if (linearity != Linearity::None) {
    os << (linearity == Linearity::Joint ? " linear joint"
                                         : " linear separate");
    printOperands(linearOperands);
  }
  if (!monotoneOperands.empty()) {
    os << " monotone";
    printOperands(monotoneOperands);
  }
  return text;
}

namespace {
/// Reads what `str` writes; the first complaint is kept.
class RuleParser {
public:
  RuleParser(StringRef text, std::string &error) : whole(text), error(error) {}

  LogicalResult parse(ShardingRule &rule) {
    if (failed(parseValues(rule.operands)))
      return failure();
    if (!take("->"))
      return expected("'[', '()' or '->'");
    if (failed(parseValues(rule.results)) || failed(parseFactors(rule)))
      return failure();
    if (takeWord("linear")) {
      if (takeWord("joint"))
        rule.linearity = Linearity::Joint;
      else if (takeWord("separate"))
        rule.linearity = Linearity::Separate;
      else
        return expected("'joint' or 'separate' after 'linear'");
      if (failed(parseOperands(rule.linearOperands)))
        return failure();
    }
    if (takeWord("monotone") && failed(parseOperands(rule.monotoneOperands)))
      return failure();
    skipSpace();
    if (position != whole.size())
      return expected(rule.linearity == Linearity::None &&
                              rule.monotoneOperands.empty()
                          ? "'linear', 'monotone' or the end"
                          : "the end");
    return success();
  }

private:
  StringRef rest() const { return whole.drop_front(position); }
  void skipSpace() {
    while (position < whole.size() && llvm::isSpace(whole[position]))
      ++position;
  }
  bool take(StringRef token) {
    skipSpace();
    if (!rest().starts_with(token))
      return false;
    position += token.size();
    return true;
  }
  StringRef peekWord() {
    skipSpace();
    return rest().take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_'; });
  }
  bool takeWord(StringRef word) {
    if (peekWord() != word)
      return false;
    position += word.size();
    return true;
  }
  LogicalResult expected(const Twine &what) {
    skipSpace();
    StringRef found = rest().take_front(12);
    error = ("expected " + what + " at character " + Twine(position + 1) +
             (found.empty() ? Twine(", where the text ends")
                            : ", found '" + found + "'"))
                .str();
    return failure();
  }
  LogicalResult complain(const Twine &what) {
    error = (what + " at character " + Twine(position + 1)).str();
    return failure();
  }

  LogicalResult parseNumber(int64_t &number, const Twine &what) {
    StringRef word = peekWord();
    if (word.empty() || word.getAsInteger(10, number))
      return expected(what);
    position += word.size();
    return success();
  }

  LogicalResult parseValues(SmallVector<ValueFactors> &values) {
    skipSpace();
    if (!rest().starts_with("[") && !rest().starts_with("("))
      return success();
    do {
      ValueFactors &value = values.emplace_back();
      if (take("(")) {
        if (!take(")"))
          return expected("')'; '()' stands for a value without dimensions");
        continue;
      }
      if (!take("["))
        return expected("'[' or '()' for the next value");
      do {
        DimFactors &dim = value.emplace_back();
        while (!take("]")) {
          StringRef name = peekWord();
          if (name.empty())
            return expected("the name of a factor or ']'");
          auto [it, isNew] =
              indices.try_emplace(name, static_cast<int>(indices.size()));
          if (isNew)
            firstUse.push_back({name.str(), position});
          dim.push_back(it->second);
          position += name.size();
        }
      } while (take("["));
    } while (take(","));
    return success();
  }

  LogicalResult parseFactors(ShardingRule &rule) {
    if (!take("{"))
      return expected("'{' and the sizes of the factors");
    // Factors get the order in which they are listed.
    SmallVector<int> listed(indices.size(), -1);
    if (!take("}")) {
      do {
        StringRef name = peekWord();
        if (name.empty())
          return expected("the name of a factor");
        auto it = indices.find(name);
        if (it == indices.end())
          return complain("factor '" + name + "' is in no dimension");
        if (listed[it->second] >= 0)
          return complain("factor '" + name + "' is listed twice");
        position += name.size();
        Factor factor;
        factor.name = name.str();
        if (!take("="))
          return expected("'=' and the size of factor '" + name + "'");
        if (failed(parseNumber(factor.size,
                               "the size of factor '" + name + "'")) ||
            failed(parseKind(factor)))
          return failure();
        listed[it->second] = rule.add(std::move(factor));
      } while (take(","));
      if (!take("}"))
        return expected(
            "'sum', 'max', 'min', 'whole', 'halo(', 'via', ',' or '}'");
    }
    for (auto [i, place] : llvm::enumerate(listed))
      if (place < 0) {
        position = firstUse[i].second;
        return complain("factor '" + firstUse[i].first +
                        "' has no size in {...}; it is used");
      }
    for (auto *values : {&rule.operands, &rule.results})
      for (ValueFactors &value : *values)
        for (DimFactors &dim : value)
          for (int &factor : dim)
            factor = listed[factor];
    return success();
  }

  LogicalResult parseKind(Factor &factor) {
    for (Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::Min})
      if (takeWord(reductionName(reduction))) {
        factor.kind = FactorKind::Reduction;
        factor.reduction = reduction;
        return parseExpansion(factor);
      }
    if (takeWord("whole")) {
      factor.kind = FactorKind::Whole;
    } else if (takeWord("halo")) {
      factor.kind = FactorKind::Halo;
      if (!take("("))
        return expected("'(' after 'halo'");
      if (failed(parseNumber(factor.haloBefore, "the elements before")))
        return failure();
      if (!take(","))
        return expected("',' and the elements after");
      if (failed(parseNumber(factor.haloAfter, "the elements after")))
        return failure();
      if (!take(")"))
        return expected("')'");
    }
    return parseExpansion(factor);
  }

  LogicalResult parseExpansion(Factor &factor) {
    if (!takeWord("via"))
      return success();
    StringRef name = peekWord();
    if (name.empty())
      return expected("the name of an expansion after 'via'");
    factor.expansion = name.str();
    position += name.size();
    return success();
  }

  LogicalResult parseOperands(SmallVector<int> &list) {
    if (!take("("))
      return expected("'(' and numbers of operands");
    do {
      int64_t number = 0;
      if (failed(parseNumber(number, "the number of an operand")))
        return failure();
      if (number > std::numeric_limits<int>::max())
        return complain("no op has operand " + Twine(number));
      list.push_back(static_cast<int>(number));
    } while (take(","));
    if (!take(")"))
      return expected("',' or ')'");
    return success();
  }

  StringRef whole;
  std::string &error;
  size_t position = 0;
  llvm::StringMap<int> indices;
  SmallVector<std::pair<std::string, size_t>> firstUse;
};
} // namespace

FailureOr<ShardingRule> ShardingRule::parse(StringRef text,
                                            std::string &error) {
  ShardingRule rule;
  if (failed(RuleParser(text, error).parse(rule)))
    return failure();
  return rule;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

LogicalResult ShardingRule::verify(Operation *op, std::string &error) const {
  auto complain = [&](const Twine &what) {
    error = what.str();
    return failure();
  };
  llvm::StringSet<> names;
  for (const Factor &factor : factors) {
    if (!names.insert(factor.name).second)
      return complain("factor '" + factor.name + "' is listed twice");
    if (factor.size < 1)
      return complain("factor '" + factor.name + "' has size " +
                      Twine(factor.size) + ", expected at least 1");
    if (factor.haloBefore < 0 || factor.haloAfter < 0)
      return complain("factor '" + factor.name + "' has a negative halo");
  }

  llvm::BitVector used(factors.size());
  auto checkValue = [&](Type type, const ValueFactors &value,
                        const Twine &what) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    int64_t rank = tensor ? tensor.getRank() : 0;
    if (static_cast<int64_t>(value.size()) != rank)
      return complain(what + " has " + Twine(rank) +
                      " dimensions, the rule gives it " + Twine(value.size()));
    llvm::SmallDenseSet<int> seen;
    for (auto [i, dim] : llvm::enumerate(value)) {
      int64_t product = 1;
      bool anySize = false;
      for (int index : dim) {
        if (index < 0 || index >= static_cast<int>(factors.size()))
          return complain("dimension " + Twine(i) + " of " + what +
                          " names factor number " + Twine(index) +
                          ", but there are " + Twine(factors.size()));
        const Factor &factor = factors[index];
        used.set(index);
        if (!seen.insert(index).second)
          return complain("factor '" + factor.name + "' occurs twice in " +
                          what);
        if (__builtin_mul_overflow(product, factor.size, &product))
          return complain("the factors of dimension " + Twine(i) + " of " +
                          what + " give a size that does not fit 64 bits");
        anySize |= factor.expansion == kShiftedWindow;
      }
      if (tensor.isDynamicDim(i))
        continue;
      if (anySize && dim.size() == 1 && tensor.getDimSize(i) <= product)
        continue;
      if (product != tensor.getDimSize(i))
        return complain("dimension " + Twine(i) + " of " + what + " has size " +
                        Twine(tensor.getDimSize(i)) +
                        ", but its factors give " + Twine(product));
    }
    return success();
  };
  auto checkValues = [&](TypeRange types, ArrayRef<ValueFactors> values,
                         StringRef what) -> LogicalResult {
    if (types.size() != values.size())
      return complain("the op has " + Twine(types.size()) + " " + what +
                      "s, the rule " + Twine(values.size()));
    for (auto [i, type, value] : llvm::enumerate(types, values))
      if (failed(checkValue(type, value, what + " " + Twine(i))))
        return failure();
    return success();
  };
  if (failed(checkValues(op->getOperandTypes(), operands, "operand")) ||
      failed(checkValues(op->getResultTypes(), results, "result")))
    return failure();
  if (int unused = used.find_first_unset(); unused >= 0)
    return complain("factor '" + factors[unused].name + "' is in no dimension");

  for (ArrayRef<int> list :
       {ArrayRef<int>(linearOperands), ArrayRef<int>(monotoneOperands)})
    for (int operand : list)
      if (operand < 0 || operand >= static_cast<int>(op->getNumOperands()))
        return complain("the rule is linear or monotone in operand " +
                        Twine(operand) + ", but the op has " +
                        Twine(op->getNumOperands()));
  if ((linearity == Linearity::None) != linearOperands.empty())
    return complain("the rule lists linear operands without saying 'joint' or "
                    "'separate', or the other way round");
  return success();
}

FailureOr<ShardingRule> sheaf::nn::getRule(Operation *op) {
  // What a user writes on the op comes first.
  if (auto text = op->getAttrOfType<StringAttr>(kRuleAttr)) {
    std::string error;
    auto rule = ShardingRule::parse(text, error);
    if (failed(rule) || failed(rule->verify(op, error)))
      return failure();
    return rule;
  }
  if (auto interface = dyn_cast<RuleOpInterface>(op))
    return interface.getShardingRule();
  return failure();
}

//===----------------------------------------------------------------------===//
// Building rules
//===----------------------------------------------------------------------===//

namespace {
/// Makes a rule value by value. A dimension of size 1 has no factor: there is
/// nothing to shard.
struct RuleBuilder {
  ShardingRule rule;

  static ArrayRef<int64_t> shapeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }

  DimFactors dim(const Twine &name, int64_t size,
                 FactorKind kind = FactorKind::Parallel,
                 StringRef expansion = "",
                 Reduction reduction = Reduction::Sum) {
    if (size == 1)
      return {};
    Factor factor;
    factor.name = name.str();
    factor.size = size;
    factor.kind = kind;
    factor.reduction = reduction;
    factor.expansion = expansion.str();
    return {rule.add(std::move(factor))};
  }
  /// One parallel factor a dimension, `<prefix>0`, `<prefix>1`, ...
  ValueFactors dims(StringRef prefix, ArrayRef<int64_t> shape) {
    ValueFactors value;
    for (auto [i, size] : llvm::enumerate(shape))
      value.push_back(dim(prefix + Twine(i), size));
    return value;
  }
  Factor &factor(const DimFactors &dim) { return rule.factors[dim.front()]; }

  void joint(ArrayRef<int> operands) {
    rule.linearity = Linearity::Joint;
    rule.linearOperands.assign(operands.begin(), operands.end());
  }
  void separate(ArrayRef<int> operands) {
    rule.linearity = Linearity::Separate;
    rule.linearOperands.assign(operands.begin(), operands.end());
  }
  void monotone(ArrayRef<int> operands) {
    rule.monotoneOperands.assign(operands.begin(), operands.end());
  }
};
} // namespace

/// What an operand of `shape` shows of a broadcast result.
static ValueFactors broadcastFactors(ArrayRef<int64_t> shape,
                                     const ValueFactors &result) {
  ValueFactors value;
  size_t added = result.size() - shape.size();
  for (auto [i, size] : llvm::enumerate(shape))
    value.push_back(size == 1 ? DimFactors() : result[added + i]);
  return value;
}

ShardingRule sheaf::nn::getElementwiseRule(Operation *op) {
  RuleBuilder b;
  if (op->getNumResults() == 0)
    return b.rule;
  ValueFactors result = b.dims("d", RuleBuilder::shapeOf(op->getResult(0)));
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    b.rule.operands.push_back(type ? broadcastFactors(type.getShape(), result)
                                   : ValueFactors());
  }
  b.rule.results.assign(op->getNumResults(), result);

  llvm::TypeSwitch<Operation *>(op)
      .Case<AddOp>([&](auto) {
        b.joint({0, 1});
        b.monotone({0, 1});
      })
      .Case<SubOp>([&](auto) {
        b.joint({0, 1});
        b.monotone({0});
      })
      .Case<NegOp>([&](auto) { b.joint({0}); })
      .Case<MulOp>([&](auto) { b.separate({0, 1}); })
      .Case<DivOp>([&](DivOp div) {
        if (isFloatElement(div.getType()))
          b.separate({0});
      })
      .Case<MaxOp, MinOp, AndOp, OrOp>([&](auto) { b.monotone({0, 1}); })
      .Case<SelectOp>([&](auto) {
        b.joint({1, 2});
        b.monotone({1, 2});
      })
      .Case<ExpOp, LogOp, TanhOp, ErfOp, SqrtOp, SigmoidOp, ReluOp>(
          [&](auto) { b.monotone({0}); })
      .Case<CastOp>([&](CastOp cast) {
        Type from = cast.getInput().getType().getElementType();
        Type to = cast.getType().getElementType();
        if (isExactCast(from, to) && !cast.getSaturate())
          b.joint({0});
        // Rounding keeps the order, but by bits of each device's own; to i1 and
        // to magnitudes it does not hold.
        if (!to.isInteger(1) && !isa<Float8E8M0FNUType>(to) &&
            !cast.getRandom())
          b.monotone({0});
      });
  return b.rule;
}

/// A rule of one operand and one result whose dimensions are the same.
static ShardingRule passThrough(RuleBuilder &b, ValueFactors value) {
  b.rule.operands.push_back(value);
  b.rule.results.push_back(std::move(value));
  return b.rule;
}

//===----------------------------------------------------------------------===//
// Products, reductions, shapes
//===----------------------------------------------------------------------===//

ShardingRule EinsumOp::getShardingRule() {
  RuleBuilder b;
  auto [left, right] = getEquation().split("->");
  SmallVector<StringRef> inputs;
  left.split(inputs, ',');
  llvm::SmallDenseMap<char, DimFactors> factors;
  SmallVector<int> linear;
  for (auto [i, names, input] : llvm::enumerate(inputs, getInputs())) {
    ValueFactors value;
    for (auto [c, size] : llvm::zip_equal(names, RuleBuilder::shapeOf(input))) {
      auto [it, isNew] = factors.try_emplace(c);
      if (isNew)
        it->second = b.dim(Twine(c), size,
                           right.contains(c) ? FactorKind::Parallel
                                             : FactorKind::Reduction);
      value.push_back(it->second);
    }
    b.rule.operands.push_back(std::move(value));
    linear.push_back(i);
  }
  ValueFactors result;
  for (char c : right)
    result.push_back(factors[c]);
  b.rule.results.push_back(std::move(result));
  b.separate(linear);
  return b.rule;
}

ShardingRule ReduceOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors input, result;
  for (auto [i, size] : llvm::enumerate(RuleBuilder::shapeOf(getInput()))) {
    if (!llvm::is_contained(getDims(), static_cast<int64_t>(i))) {
      input.push_back(b.dim("d" + Twine(i), size));
      result.push_back(input.back());
      continue;
    }
    Reduction reduction = getKind() == ReduceKind::Max   ? Reduction::Max
                          : getKind() == ReduceKind::Min ? Reduction::Min
                                                         : Reduction::Sum;
    // A shard divides by the whole dimension's size.
    input.push_back(b.dim("d" + Twine(i), size, FactorKind::Reduction,
                          getKind() == ReduceKind::Mean ? "global_mean" : "",
                          reduction));
    if (getKeep())
      result.emplace_back();
  }
  b.rule.operands.push_back(std::move(input));
  b.rule.results.push_back(std::move(result));
  switch (getKind()) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    b.joint({0});
    break;
  case ReduceKind::Max:
  case ReduceKind::Min:
    b.monotone({0});
    break;
  case ReduceKind::SumOfSquares:
    break;
  }
  return b.rule;
}

/// Matches sizes from the outermost dimension inwards. The greatest common
/// divisor of what is left of two dimensions is a factor of both; where it is 1
/// the dimensions up to the next common boundary are needed whole.
ShardingRule ReshapeOp::getShardingRule() {
  RuleBuilder b;
  ArrayRef<int64_t> from = RuleBuilder::shapeOf(getInput());
  ArrayRef<int64_t> to = RuleBuilder::shapeOf(getResult());
  ValueFactors input(from.size()), result(to.size());
  int count = 0;
  auto next = [&](int64_t size, FactorKind kind = FactorKind::Parallel) {
    return b.dim("d" + Twine(count++), size, kind);
  };
  size_t i = 0, j = 0;
  int64_t left = 1, right = 1; // What dimension i - 1 and j - 1 still have.
  while (true) {
    while (left == 1 && i < from.size())
      left = from[i++];
    while (right == 1 && j < to.size())
      right = to[j++];
    if (left == 1 && right == 1)
      break;
    if (int64_t common = std::gcd(left, right); common > 1) {
      DimFactors factor = next(common);
      llvm::append_range(input[i - 1], factor);
      llvm::append_range(result[j - 1], factor);
      left /= common;
      right /= common;
      continue;
    }
    // 3 against 4: go on until both sides have the same number of elements.
    llvm::append_range(input[i - 1], next(left, FactorKind::Whole));
    llvm::append_range(result[j - 1], next(right, FactorKind::Whole));
    while (left != right) {
      if (left < right) {
        input[i] = next(from[i], FactorKind::Whole);
        left *= from[i++];
      } else {
        result[j] = next(to[j], FactorKind::Whole);
        right *= to[j++];
      }
    }
    left = right = 1;
  }
  b.rule.operands.push_back(std::move(input));
  b.rule.results.push_back(std::move(result));
  b.joint({0});
  b.monotone({0});
  return b.rule;
}

ShardingRule TransposeOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors input = b.dims("d", RuleBuilder::shapeOf(getInput())), result;
  for (int64_t dim : getPermutation())
    result.push_back(input[dim]);
  b.rule.operands.push_back(std::move(input));
  b.rule.results.push_back(std::move(result));
  b.joint({0});
  b.monotone({0});
  return b.rule;
}

ShardingRule BroadcastOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors result = b.dims("d", RuleBuilder::shapeOf(getResult())), input;
  for (auto [dim, size] :
       llvm::zip_equal(getDims(), RuleBuilder::shapeOf(getInput())))
    input.push_back(size == 1 ? DimFactors() : result[dim]);
  b.rule.operands.push_back(std::move(input));
  b.rule.results.push_back(std::move(result));
  b.joint({0});
  b.monotone({0});
  return b.rule;
}

ShardingRule SliceOp::getShardingRule() {
  RuleBuilder b;
  ArrayRef<int64_t> shape = RuleBuilder::shapeOf(getInput());
  ValueFactors input, result;
  for (auto [i, size, kept] : llvm::enumerate(shape, getSizes())) {
    if (size == kept) {
      input.push_back(b.dim("d" + Twine(i), size));
      result.push_back(input.back());
      continue;
    }
    input.push_back(
        b.dim("d" + Twine(i), size, FactorKind::Whole, kShiftedWindow));
    result.push_back(kept == 1 ? DimFactors() : input.back());
  }
  b.rule.operands.push_back(std::move(input));
  b.rule.results.push_back(std::move(result));
  b.joint({0});
  b.monotone({0});
  return b.rule;
}

ShardingRule PadOp::getShardingRule() {
  RuleBuilder b;
  ArrayRef<int64_t> from = RuleBuilder::shapeOf(getInput());
  ArrayRef<int64_t> to = RuleBuilder::shapeOf(getResult());
  ValueFactors input, result;
  for (auto [i, size, padded] : llvm::enumerate(from, to)) {
    result.push_back(size == padded ? b.dim("d" + Twine(i), size)
                                    : b.dim("d" + Twine(i), padded,
                                            FactorKind::Whole, kShiftedWindow));
    input.push_back(size == 1 ? DimFactors() : result.back());
  }
  b.rule.operands.push_back(std::move(input));
  b.rule.results.push_back(std::move(result));
  if (getValue().isZero())
    b.joint({0});
  b.monotone({0});
  return b.rule;
}

ShardingRule ConcatenateOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors result;
  int64_t joined = getDim();
  for (auto [i, size] : llvm::enumerate(RuleBuilder::shapeOf(getResult())))
    result.push_back(
        static_cast<int64_t>(i) == joined && getInputs().size() > 1
            ? b.dim("d" + Twine(i), size, FactorKind::Whole, kShiftedWindow)
            : b.dim("d" + Twine(i), size));
  SmallVector<int> all;
  for (auto [i, operand] : llvm::enumerate(getInputs())) {
    ValueFactors value = result;
    if (RuleBuilder::shapeOf(operand)[joined] == 1)
      value[joined].clear();
    b.rule.operands.push_back(std::move(value));
    all.push_back(i);
  }
  b.rule.results.push_back(std::move(result));
  b.joint(all);
  b.monotone(all);
  return b.rule;
}

ShardingRule IotaOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors result = b.dims("d", RuleBuilder::shapeOf(getResult()));
  if (!result[getDim()].empty())
    b.factor(result[getDim()]).expansion = "offset_iota";
  b.rule.results.push_back(std::move(result));
  return b.rule;
}

ShardingRule ConstantOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors result = b.dims("d", RuleBuilder::shapeOf(getResult()));
  if (!getValue().isSplat())
    for (Factor &factor : b.rule.factors)
      factor.expansion = "constant_shard";
  b.rule.results.push_back(std::move(result));
  return b.rule;
}

//===----------------------------------------------------------------------===//
// Indexed access and random numbers
//===----------------------------------------------------------------------===//

namespace {
/// The dimensions of table, indices and result of a gather.
struct GatherFactors {
  GatherFactors(RuleBuilder &b, ArrayRef<int64_t> tableShape,
                ArrayRef<int64_t> indexShape, int64_t axis, int64_t batch) {
    table = b.dims("d", tableShape);
    rows = table[axis];
    for (auto [i, size] : llvm::enumerate(indexShape))
      indices.push_back(static_cast<int64_t>(i) < batch
                            ? table[i]
                            : b.dim("i" + Twine(i), size));
    ArrayRef<DimFactors> all(table);
    result.append(all.begin(), all.begin() + axis);
    llvm::append_range(result, ArrayRef<DimFactors>(indices).drop_front(batch));
    llvm::append_range(result, all.drop_front(axis + 1));
    chosen.append(indices.begin() + batch, indices.end());
  }
  ValueFactors table, indices, result;
  /// The table's indexed dimension, and the dimensions in its place.
  DimFactors rows;
  ValueFactors chosen;
};
} // namespace

static ShardingRule gatherRule(Value table, Value indices, int64_t axis,
                               int64_t batch) {
  RuleBuilder b;
  GatherFactors dims(b, RuleBuilder::shapeOf(table),
                     RuleBuilder::shapeOf(indices), axis, batch);
  // A row is on one device; the others read zeros.
  if (!dims.rows.empty()) {
    Factor &rows = b.factor(dims.rows);
    rows.kind = FactorKind::Reduction;
    rows.expansion = "masked_gather";
    if (isBoolElement(table.getType()))
      rows.reduction = Reduction::Max;
  }
  b.rule.operands = {dims.table, dims.indices};
  b.rule.results = {dims.result};
  b.joint({0});
  return b.rule;
}

ShardingRule GatherOp::getShardingRule() {
  return gatherRule(getTable(), getIndices(), getAxis(), getBatch());
}

ShardingRule EmbeddingOp::getShardingRule() {
  return gatherRule(getTable(), getIds(), /*axis=*/0, /*batch=*/0);
}

ShardingRule GatherGradOp::getShardingRule() {
  RuleBuilder b;
  GatherFactors dims(b, RuleBuilder::shapeOf(getResult()),
                     RuleBuilder::shapeOf(getIndices()), getAxis(), getBatch());
  if (!dims.rows.empty())
    b.factor(dims.rows).expansion = "masked_gather";
  for (const DimFactors &dim : dims.chosen)
    if (!dim.empty())
      b.factor(dim).kind = FactorKind::Reduction;
  b.rule.operands = {dims.result, dims.indices};
  b.rule.results = {dims.table};
  b.joint({0});
  return b.rule;
}

ShardingRule TopKOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors input = b.dims("d", RuleBuilder::shapeOf(getInput()));
  ValueFactors result = input;
  if (!input.back().empty()) {
    b.factor(input.back()).kind = FactorKind::Whole;
    b.factor(input.back()).expansion = "top_k_merge";
  }
  result.back() = b.dim("k", getK(), FactorKind::Whole);
  b.rule.operands.push_back(std::move(input));
  b.rule.results.assign(2, result);
  return b.rule;
}

static void setExpansion(RuleBuilder &b, const ValueFactors &value,
                         StringRef expansion) {
  for (const DimFactors &dim : value)
    if (!dim.empty())
      b.factor(dim).expansion = expansion.str();
}

ShardingRule RandomOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors result = b.dims("d", RuleBuilder::shapeOf(getResult()));
  setExpansion(b, result, "offset_random");
  b.rule.operands = {{b.dim("key", 4, FactorKind::Whole)}, {}};
  if (getOffsets()) {
    // A part already.
    for (const DimFactors &dim : result)
      if (!dim.empty())
        b.factor(dim).kind = FactorKind::Whole;
    b.rule.operands.push_back(
        {b.dim("at", getType().getRank(), FactorKind::Whole)});
  }
  b.rule.results.push_back(std::move(result));
  return b.rule;
}

ShardingRule DropoutOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors value = b.dims("d", RuleBuilder::shapeOf(getInput()));
  setExpansion(b, value, "offset_random");
  b.rule.operands = {value, {b.dim("key", 4, FactorKind::Whole)}, {}};
  b.rule.results.push_back(std::move(value));
  b.joint({0});
  return b.rule;
}

//===----------------------------------------------------------------------===//
// Scaled 8-bit payloads
//===----------------------------------------------------------------------===//

namespace {
/// How a dimension of a payload, and that of its factors, are made of factors.
struct BlockFactors {
  DimFactors payload, factors;
};
} // namespace

/// A dimension of several blocks is cut between them, where all are whole.
/// `single` says what it is to cut one that is a single block.
static BlockFactors blockFactors(RuleBuilder &b, const Twine &name,
                                 int64_t size, int64_t block,
                                 FactorKind single) {
  int64_t length = getBlockLength(size, block);
  if (length == size && size > 1)
    return {b.dim(name, size, single), {}};
  if (length == 1) {
    DimFactors dim = b.dim(name, size);
    return {dim, dim};
  }
  if (size % length != 0)
    return {
        b.dim(name, size, FactorKind::Whole),
        b.dim(name + "s", llvm::divideCeil(size, length), FactorKind::Whole)};
  DimFactors payload = b.dim(name, size / length), factors = payload;
  llvm::append_range(payload, b.dim(name + "b", length, FactorKind::Whole));
  return {payload, factors};
}

static std::pair<ValueFactors, ValueFactors>
payloadFactors(RuleBuilder &b, ArrayRef<int64_t> shape,
               ArrayRef<int64_t> blocks, FactorKind single) {
  ValueFactors payload, factors;
  for (auto [i, size, block] : llvm::enumerate(shape, blocks)) {
    BlockFactors dim = blockFactors(b, "d" + Twine(i), size, block, single);
    payload.push_back(dim.payload);
    factors.push_back(dim.factors);
  }
  return {payload, factors};
}

ShardingRule QuantizeOp::getShardingRule() {
  RuleBuilder b;
  auto [payload, factors] = payloadFactors(b, RuleBuilder::shapeOf(getInput()),
                                           getBlocks(), FactorKind::Whole);
  b.rule.operands = {payload};
  b.rule.results = {payload, factors};
  return b.rule;
}

ShardingRule DequantizeOp::getShardingRule() {
  RuleBuilder b;
  auto [payload, factors] = payloadFactors(
      b, RuleBuilder::shapeOf(getPayload()), getBlocks(), FactorKind::Parallel);
  b.rule.operands = {payload, factors};
  b.rule.results = {payload};
  return b.rule;
}

ShardingRule ScaledEinsumOp::getShardingRule() {
  RuleBuilder b;
  auto [left, right] = getEquation().split("->");
  auto [first, second] = left.split(",");
  std::pair<StringRef, ArrayRef<int64_t>> operands[] = {
      {first, getLhsBlocks()}, {second, getRhsBlocks()}};
  ArrayRef<int64_t> shapes[] = {RuleBuilder::shapeOf(getLhs()),
                                RuleBuilder::shapeOf(getRhs())};
  // What each letter is made of: where an operand has several blocks of more
  // than one element, those; where two have different ones, it is not cut.
  struct Letter {
    int64_t size = 1, block = 1;
    bool isWhole = false;
    DimFactors dim;
  };
  llvm::MapVector<char, Letter> letters;
  for (auto [operand, shape] : llvm::zip_equal(operands, shapes))
    for (auto [c, size, block] :
         llvm::zip_equal(operand.first, shape, operand.second)) {
      Letter &letter = letters[c];
      letter.size = size;
      int64_t length = getBlockLength(size, block);
      if (length == 1 || length == size)
        continue;
      letter.isWhole |=
          size % length != 0 || (letter.block != 1 && letter.block != length);
      letter.block = length;
    }
  for (auto &[c, letter] : letters) {
    FactorKind kind = letter.isWhole      ? FactorKind::Whole
                      : right.contains(c) ? FactorKind::Parallel
                                          : FactorKind::Reduction;
    bool isCut = !letter.isWhole && letter.block > 1;
    letter.dim =
        b.dim(Twine(c), isCut ? letter.size / letter.block : letter.size, kind);
    if (isCut)
      llvm::append_range(
          letter.dim, b.dim(Twine(c) + "b", letter.block, FactorKind::Whole));
  }
  SmallVector<ValueFactors> factorDims;
  for (auto [i, operand, shape] : llvm::enumerate(operands, shapes)) {
    ValueFactors payload, factors;
    for (auto [c, size, block] :
         llvm::zip_equal(operand.first, shape, operand.second)) {
      Letter &letter = letters[c];
      payload.push_back(letter.dim);
      int64_t length = getBlockLength(size, block);
      if (length == 1)
        factors.push_back(letter.dim);
      else if (length == size)
        factors.emplace_back();
      else if (letter.isWhole)
        factors.push_back(b.dim(Twine(c) + "s" + Twine(i),
                                llvm::divideCeil(size, length),
                                FactorKind::Whole));
      else
        factors.push_back({letter.dim.front()});
    }
    b.rule.operands.push_back(std::move(payload));
    factorDims.push_back(std::move(factors));
  }
  llvm::append_range(b.rule.operands, factorDims);
  ValueFactors result;
  for (char c : right)
    result.push_back(letters[c].dim);
  b.rule.results.push_back(std::move(result));
  return b.rule;
}

//===----------------------------------------------------------------------===//
// Composites of a transformer
//===----------------------------------------------------------------------===//

ShardingRule SoftmaxOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors value = b.dims("d", RuleBuilder::shapeOf(getInput()));
  if (DimFactors &dim = value[getDim()]; !dim.empty()) {
    b.factor(dim).kind = FactorKind::Whole;
    b.factor(dim).expansion = "softmax_merge";
  }
  return passThrough(b, std::move(value));
}

/// Normalisation over the last dimension, which has the weights.
static ShardingRule normRule(Operation *op) {
  RuleBuilder b;
  ValueFactors value = b.dims("d", RuleBuilder::shapeOf(op->getResult(0)));
  if (!value.back().empty())
    b.factor(value.back()).kind = FactorKind::Whole;
  b.rule.operands.push_back(value);
  for (unsigned i = 1; i < op->getNumOperands(); ++i)
    b.rule.operands.push_back({value.back()});
  b.rule.results.push_back(std::move(value));
  return b.rule;
}

ShardingRule LayerNormOp::getShardingRule() { return normRule(*this); }

ShardingRule RMSNormOp::getShardingRule() {
  ShardingRule rule = normRule(*this);
  rule.linearity = Linearity::Joint;
  rule.linearOperands = {1};
  return rule;
}

ShardingRule RotaryOp::getShardingRule() {
  RuleBuilder b;
  ArrayRef<int64_t> shape = RuleBuilder::shapeOf(getInput());
  ValueFactors value{b.dim("b", shape[0]), b.dim("s", shape[1]),
                     b.dim("h", shape[2]),
                     b.dim("d", shape[3], FactorKind::Whole)};
  ArrayRef<DimFactors> outer = ArrayRef<DimFactors>(value).take_front(2);
  if (getPositions().getType().getRank() == 1)
    outer = outer.drop_front();
  b.rule.operands = {value, ValueFactors(outer)};
  b.rule.results = {value};
  b.joint({0});
  return b.rule;
}

namespace {
/// The dimensions of attention. Query heads are [g r]: group and head within
/// the group; keys and values have the groups alone.
struct AttentionFactors {
  template <typename Op>
  AttentionFactors(RuleBuilder &b, Op op) {
    ArrayRef<int64_t> q = RuleBuilder::shapeOf(op.getQuery());
    ArrayRef<int64_t> k = RuleBuilder::shapeOf(op.getKey());
    int64_t valueWidth = RuleBuilder::shapeOf(op.getValue())[3];
    bool positions = op.getCausal() || op.getWindow();
    batch = b.dim("b", q[0]);
    queries =
        b.dim("s", q[1], FactorKind::Parallel, positions ? "offset_mask" : "");
    // Self-attention: queries and keys are sharded alike, and keys and values
    // go round. Else each shard of the keys gives a part that its log-sum-exp
    // weighs.
    keys = b.dim("t", k[1], FactorKind::Whole,
                 q[1] == k[1] ? "ring" : "attention_merge");
    groups = b.dim("g", k[2]);
    members = b.dim("r", q[2] / k[2]);
    heads = groups;
    llvm::append_range(heads, members);
    width = b.dim("d", q[3], FactorKind::Whole);
    this->valueWidth = b.dim("e", valueWidth);
    query = {batch, queries, heads, width};
    key = {batch, keys, groups, width};
    value = {batch, keys, groups, this->valueWidth};
    result = {batch, queries, heads, this->valueWidth};
    lse = {batch, queries, heads};
    if (op.getBias()) {
      ArrayRef<int64_t> shape = RuleBuilder::shapeOf(op.getBias());
      bias = {shape[0] == 1 ? DimFactors() : batch,
              shape[1] == 1 ? DimFactors() : heads, queries, keys};
    }
  }
  DimFactors batch, queries, keys, groups, members, heads, width, valueWidth;
  ValueFactors query, key, value, result, lse, bias;
};
} // namespace

ShardingRule AttentionOp::getShardingRule() {
  RuleBuilder b;
  AttentionFactors dims(b, *this);
  b.rule.operands = {dims.query, dims.key, dims.value};
  if (getBias())
    b.rule.operands.push_back(dims.bias);
  if (getQueryDocuments()) {
    b.rule.operands.push_back({dims.batch, dims.queries});
    b.rule.operands.push_back({dims.batch, dims.keys});
  }
  if (getFirstPosition())
    b.rule.operands.push_back({});
  b.rule.results.push_back(dims.result);
  if (getLse())
    b.rule.results.push_back(dims.lse);
  else
    b.joint({2});
  return b.rule;
}

ShardingRule AttentionGradOp::getShardingRule() {
  RuleBuilder b;
  AttentionFactors dims(b, *this);
  b.rule.operands = {dims.query,  dims.key, dims.value,
                     dims.result, dims.lse, dims.result};
  if (getLseGrad())
    b.rule.operands.push_back(dims.lse);
  if (getBias())
    b.rule.operands.push_back(dims.bias);
  if (getQueryDocuments()) {
    b.rule.operands.push_back({dims.batch, dims.queries});
    b.rule.operands.push_back({dims.batch, dims.keys});
  }
  if (getFirstPosition())
    b.rule.operands.push_back({});
  b.rule.results = {dims.query, dims.key, dims.value};
  if (getBiasGrad())
    b.rule.results.push_back(dims.bias);
  // Keys and values get a gradient from every query and every head of their
  // group, a broadcast bias from all it was broadcast to.
  auto reduce = [&](const DimFactors &dim) {
    if (!dim.empty())
      b.factor(dim).kind = FactorKind::Reduction;
  };
  reduce(dims.queries);
  reduce(dims.members);
  if (getBias() && dims.bias[0].empty())
    reduce(dims.batch);
  if (getBias() && dims.bias[1].empty())
    reduce(dims.groups);
  // The gradient of the scores is a sum over the value's width, unless the
  // log-sum-exp's gradient is added to it.
  if (!dims.valueWidth.empty())
    b.factor(dims.valueWidth).kind =
        getLseGrad() ? FactorKind::Whole : FactorKind::Reduction;
  b.joint(getLseGrad() ? ArrayRef<int>{5, 6} : ArrayRef<int>{5});
  return b.rule;
}

ShardingRule CrossEntropyOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors tokens = b.dims("d", RuleBuilder::shapeOf(getTargets()));
  ValueFactors logits = tokens;
  logits.push_back(b.dim("v", RuleBuilder::shapeOf(getLogits()).back(),
                         FactorKind::Whole, "vocab_loss"));
  b.rule.operands = {logits, tokens};
  b.rule.results = {tokens, tokens};
  return b.rule;
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors tokens = b.dims("d", RuleBuilder::shapeOf(getTargets()));
  ValueFactors logits = tokens;
  // The log-sum-exp is that of the whole vocabulary: no communication.
  logits.push_back(b.dim("v", RuleBuilder::shapeOf(getLogits()).back(),
                         FactorKind::Parallel, "vocab_loss"));
  b.rule.operands = {logits, tokens, tokens, tokens};
  if (getLseGrad())
    b.rule.operands.push_back(tokens);
  b.rule.results = {logits};
  b.joint(getLseGrad() ? ArrayRef<int>{3, 4} : ArrayRef<int>{3});
  return b.rule;
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

ShardingRule RouteOp::getShardingRule() {
  RuleBuilder b;
  ArrayRef<int64_t> shape = RuleBuilder::shapeOf(getLogits());
  ValueFactors tokens = b.dims("d", shape.drop_back());
  ValueFactors logits = tokens, chosen = tokens;
  logits.push_back(b.dim("e", shape.back(), FactorKind::Whole));
  chosen.push_back(b.dim("k", getK(), FactorKind::Whole));
  b.rule.operands = {logits};
  if (getBias())
    b.rule.operands.push_back({logits.back()});
  b.rule.results = {chosen, chosen};
  return b.rule;
}

ShardingRule ExpertSortOp::getShardingRule() {
  RuleBuilder b;
  ArrayRef<int64_t> shape = RuleBuilder::shapeOf(getExperts());
  // A group is sorted as a whole.
  DimFactors group = b.dim("b", shape[0]);
  ValueFactors experts{group, b.dim("s", shape[1], FactorKind::Whole),
                       b.dim("k", shape[2], FactorKind::Whole)};
  b.rule.operands = {experts};
  b.rule.results = {{group, b.dim("r", getOrder().getType().getDimSize(1),
                                  FactorKind::Whole)},
                    experts,
                    {group, b.dim("o", getOffsets().getType().getDimSize(1),
                                  FactorKind::Whole)}};
  return b.rule;
}

/// The tokens of a group, its choices and its rows; one of tokens and rows is
/// read at places that numbers name, and is needed whole.
template <typename Op>
static ShardingRule moveRule(Op op, bool toRows) {
  RuleBuilder b;
  ArrayRef<int64_t> position = RuleBuilder::shapeOf(op.getPosition());
  ArrayRef<int64_t> order = RuleBuilder::shapeOf(op.getOrder());
  DimFactors group = b.dim("b", position[0]);
  DimFactors token = b.dim("s", position[1],
                           toRows ? FactorKind::Whole : FactorKind::Parallel);
  DimFactors choice = b.dim("k", position[2], FactorKind::Whole);
  DimFactors row = b.dim("r", order[1], FactorKind::Whole);
  DimFactors width = b.dim("h", RuleBuilder::shapeOf(op.getInput())[2]);
  ValueFactors tokens{group, token, width}, rows{group, row, width},
      assignments{group, token, choice};
  b.rule.operands = {toRows ? tokens : rows, {group, row}, assignments};
  b.rule.results = {toRows ? rows : tokens};
  if (op.getWeights()) {
    b.rule.operands.push_back(assignments);
    b.separate({0, 3});
  } else {
    b.joint({0});
  }
  return b.rule;
}

ShardingRule DispatchOp::getShardingRule() {
  return moveRule(*this, /*toRows=*/true);
}
ShardingRule CombineOp::getShardingRule() {
  return moveRule(*this, /*toRows=*/false);
}

namespace {
/// Rows, matrices and offsets of products of experts; parts stand in front of
/// all three where there are any.
struct ExpertFactors {
  ExpertFactors(RuleBuilder &b, ArrayRef<int64_t> rows,
                ArrayRef<int64_t> offsets, FactorKind group) {
    if (rows.size() == 4)
      front.push_back(b.dim("p", rows[0]));
    groups = b.dim("b", rows[rows.size() - 3], group);
    row = b.dim("r", rows[rows.size() - 2], FactorKind::Whole);
    expert = b.dim("e", offsets.back() - 1, FactorKind::Whole);
    this->offsets =
        with({groups, b.dim("o", offsets.back(), FactorKind::Whole)});
  }
  ValueFactors with(ArrayRef<DimFactors> rest) {
    ValueFactors value(front);
    llvm::append_range(value, rest);
    return value;
  }
  ValueFactors rowsOf(const DimFactors &width) {
    return with({groups, row, width});
  }
  ValueFactors matrices(const DimFactors &a, const DimFactors &b) {
    return with({expert, a, b});
  }
  ValueFactors front, offsets;
  DimFactors groups, row, expert;
};
} // namespace

ShardingRule GroupedMatmulOp::getShardingRule() {
  RuleBuilder b;
  ArrayRef<int64_t> rows = RuleBuilder::shapeOf(getRows());
  ExpertFactors dims(b, rows, RuleBuilder::shapeOf(getOffsets()),
                     FactorKind::Parallel);
  DimFactors inner = b.dim("k", rows.back(), FactorKind::Reduction);
  DimFactors outer = b.dim("n", RuleBuilder::shapeOf(getResult()).back());
  b.rule.operands = {dims.rowsOf(inner),
                     getTransposed() ? dims.matrices(outer, inner)
                                     : dims.matrices(inner, outer),
                     dims.offsets};
  b.rule.results = {dims.rowsOf(outer)};
  b.separate({0, 1});
  return b.rule;
}

ShardingRule GroupedOuterOp::getShardingRule() {
  RuleBuilder b;
  ArrayRef<int64_t> lhs = RuleBuilder::shapeOf(getLhs());
  ExpertFactors dims(b, lhs, RuleBuilder::shapeOf(getOffsets()),
                     FactorKind::Reduction);
  DimFactors left = b.dim("k", lhs.back());
  DimFactors right = b.dim("n", RuleBuilder::shapeOf(getRhs()).back());
  b.rule.operands = {dims.rowsOf(left), dims.rowsOf(right), dims.offsets};
  b.rule.results = {dims.matrices(left, right)};
  b.separate({0, 1});
  return b.rule;
}

/// Rows in the order of experts, and by parts of the experts.
static ShardingRule bucketRule(ArrayRef<int64_t> rows, ArrayRef<int64_t> parts,
                               ArrayRef<int64_t> offsets, bool toParts) {
  RuleBuilder b;
  DimFactors part = b.dim("p", parts[0], FactorKind::Whole);
  DimFactors group = b.dim("b", rows[0]);
  DimFactors row = b.dim("r", rows[1], FactorKind::Whole);
  DimFactors most = b.dim("m", parts[2], FactorKind::Whole);
  DimFactors width = b.dim("h", rows[2]);
  ValueFactors whole{group, row, width}, split{part, group, most, width};
  b.rule.operands = {toParts ? whole : split,
                     {group, b.dim("o", offsets[1], FactorKind::Whole)}};
  b.rule.results = {toParts ? split : whole};
  b.joint({0});
  return b.rule;
}

ShardingRule BucketOp::getShardingRule() {
  return bucketRule(RuleBuilder::shapeOf(getRows()),
                    RuleBuilder::shapeOf(getResult()),
                    RuleBuilder::shapeOf(getOffsets()), /*toParts=*/true);
}
ShardingRule UnbucketOp::getShardingRule() {
  return bucketRule(RuleBuilder::shapeOf(getResult()),
                    RuleBuilder::shapeOf(getRows()),
                    RuleBuilder::shapeOf(getOffsets()), /*toParts=*/false);
}

//===----------------------------------------------------------------------===//
// The training step
//===----------------------------------------------------------------------===//

ShardingRule StepMeanOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors values = b.dims("d", RuleBuilder::shapeOf(getValues()));
  for (Factor &factor : b.rule.factors) {
    factor.kind = FactorKind::Whole;
    factor.expansion = "global_count";
  }
  b.rule.operands = {values, values};
  b.rule.results = {{}};
  b.joint({0});
  return b.rule;
}

ShardingRule StepSumOp::getShardingRule() {
  RuleBuilder b;
  ValueFactors weights = b.dims("d", RuleBuilder::shapeOf(getWeights()));
  for (Factor &factor : b.rule.factors)
    factor.kind = FactorKind::Reduction;
  b.rule.operands = {weights};
  b.rule.results = {{}};
  return b.rule;
}

/// The update of each element from those at the same place.
static ShardingRule updateRule(Operation *op) { return getElementwiseRule(op); }
ShardingRule AdamWOp::getShardingRule() { return updateRule(*this); }
ShardingRule SGDOp::getShardingRule() { return updateRule(*this); }
