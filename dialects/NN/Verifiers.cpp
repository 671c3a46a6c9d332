//===- Verifiers.cpp - What is legal in nn --------------------------------===//
//
// Result types are inferred where they follow from the operands; the shape
// checks of those ops stand in `inferReturnTypes`, which the verifier calls,
// too. The others have a verifier.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "dialects/NN/Quantize.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "support/WordAssembly.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <functional>
#include <limits>

using namespace mlir;
using namespace sheaf::nn;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static Type elementOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getElementType() : Type();
}

LogicalResult sheaf::nn::refuseRecursion(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::DenseMap<func::FuncOp, bool> isOpen;
  std::function<LogicalResult(func::FuncOp)> visit =
      [&](func::FuncOp function) {
        isOpen[function] = true;
        WalkResult result = function.walk([&](func::CallOp call) {
          auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
          if (!callee)
            return WalkResult::advance();
          auto known = isOpen.find(callee);
          if (known == isOpen.end())
            return WalkResult(visit(callee));
          if (!known->second)
            return WalkResult::advance();
          call.emitOpError("calls @")
              << callee.getName()
              << ", which is being called: recursion is not supported, "
                 "write the layers one by one";
          return WalkResult::interrupt();
        });
        isOpen[function] = false;
        return failure(result.wasInterrupted());
      };
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (!isOpen.contains(function) && failed(visit(function)))
      return failure();
  return success();
}

LogicalResult sheaf::nn::refuseEncodings(Operation *root, StringRef expected) {
  auto isEncoded = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getEncoding();
  };
  WalkResult result = root->walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (isEncoded(type)) {
        op->emitOpError("has a result of type ")
            << type << ", expected " << expected;
        return WalkResult::interrupt();
      }
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          if (isEncoded(argument.getType())) {
            op->emitOpError("has argument ")
                << argument.getArgNumber() << " of type " << argument.getType()
                << ", expected " << expected;
            return WalkResult::interrupt();
          }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

bool sheaf::nn::isStaticTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return false;
  // The bytes of every tensor must fit an int64_t.
  int64_t elements = 1;
  for (int64_t size : tensor.getShape())
    if (size < 1 || __builtin_mul_overflow(elements, size, &elements))
      return false;
  return elements <= (int64_t(1) << 59);
}
bool sheaf::nn::isScalarOperand(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 &&
         isa<Float64Type, Float32Type>(tensor.getElementType());
}
bool sheaf::nn::isFloatElement(Type type) {
  Type element = elementOf(type);
  return element &&
         isa<Float64Type, Float32Type, BFloat16Type, Float16Type>(element);
}
bool sheaf::nn::isIntElement(Type type) {
  Type element = elementOf(type);
  return element && element.isSignlessInteger(32);
}
bool sheaf::nn::isBoolElement(Type type) {
  Type element = elementOf(type);
  return element && element.isSignlessInteger(1);
}
bool sheaf::nn::isNumberElement(Type type) {
  return isFloatElement(type) || isIntElement(type);
}
bool sheaf::nn::isAnyElement(Type type) {
  Type element = elementOf(type);
  return element && (isNumberElement(type) || isBoolElement(type) ||
                     element.isSignlessInteger(8) || isPayload(element) ||
                     isa<Float8E8M0FNUType>(element));
}
bool sheaf::nn::isNarrowElement(Type type) {
  return isFloatElement(type) && !elementOf(type).isF64();
}
bool sheaf::nn::isPayload(Type element) {
  return isa<Float8E4M3FNType, Float8E5M2Type, Float4E2M1FNType, Float16Type>(
      element);
}
bool sheaf::nn::isPayloadElement(Type type) {
  Type element = elementOf(type);
  return element && isPayload(element);
}
bool sheaf::nn::isFactorElement(Type type) {
  Type element = elementOf(type);
  return element && (element.isF32() || isa<Float8E8M0FNUType>(element));
}

Type sheaf::nn::getStatisticsType(Type element) {
  if (element.isBF16() || element.isF16())
    return Float32Type::get(element.getContext());
  return element;
}

bool sheaf::nn::isExactCast(Type from, Type to) {
  if (from == to)
    return true;
  auto fromFloat = dyn_cast<FloatType>(from), toFloat = dyn_cast<FloatType>(to);
  if (fromFloat && toFloat)
    return llvm::APFloat::isRepresentableBy(fromFloat.getFloatSemantics(),
                                            toFloat.getFloatSemantics());
  if (fromFloat || from.isInteger(1) || to.isInteger(1))
    return false;
  unsigned bits = from.getIntOrFloatBitWidth();
  return toFloat ? toFloat.getFPMantissaWidth() >= bits
                 : to.getIntOrFloatBitWidth() >= bits;
}

FailureOr<SmallVector<int64_t>>
sheaf::nn::broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> shape(a);
  size_t added = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &size = shape[added + i];
    if (size == 1)
      size = b[i];
    else if (b[i] != 1 && b[i] != size)
      return failure();
  }
  return shape;
}

static RankedTensorType ranked(Type type) {
  return dyn_cast<RankedTensorType>(type);
}
static RankedTensorType withShape(RankedTensorType type,
                                  ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type.getElementType());
}
static std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(shape, os);
  return text + "]";
}

/// Whether types are the same, encodings aside: those are another dialect's
/// business.
static bool same(Type a, Type b) {
  auto first = ranked(a), second = ranked(b);
  return first && second && first.getShape() == second.getShape() &&
         first.getElementType() == second.getElementType();
}

/// Broadcasts operand shapes into `shape`.
static LogicalResult inferBroadcast(std::optional<Location> loc,
                                    ValueRange operands,
                                    SmallVector<int64_t> &shape) {
  for (Value operand : operands) {
    auto type = ranked(operand.getType());
    if (!type)
      return failure();
    auto joined = broadcastShapes(shape, type.getShape());
    if (failed(joined))
      return emitOptionalError(loc, "shapes ", shapeText(shape), " and ",
                               shapeText(type.getShape()),
                               " do not broadcast: aligned at the last "
                               "dimension, sizes must be equal or 1");
    shape = *joined;
  }
  return success();
}

/// Indices are i32: a dimension whose indices are values must not be longer.
static LogicalResult checkIndexable(std::optional<Location> loc, StringRef what,
                                    int64_t size) {
  if (size > std::numeric_limits<int32_t>::max())
    return emitOptionalError(loc, what, " has size ", size,
                             ", expected at most 2147483647: indices are i32");
  return success();
}

static LogicalResult inferBinary(std::optional<Location> loc, Value lhs,
                                 Value rhs, SmallVectorImpl<Type> &types) {
  Type element = elementOf(lhs.getType());
  if (!element || element != elementOf(rhs.getType()))
    return emitOptionalError(loc, "operands have element types ", element,
                             " and ", elementOf(rhs.getType()),
                             ", expected the same; use nn.cast on one of them");
  SmallVector<int64_t> shape;
  if (failed(inferBroadcast(loc, {lhs, rhs}, shape)))
    return failure();
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

static bool isCompatible(TypeRange inferred, TypeRange actual) {
  return llvm::equal(inferred, actual, same);
}

#define INFER(OP)                                                              \
  bool OP::isCompatibleReturnTypes(TypeRange inferred, TypeRange actual) {     \
    return isCompatible(inferred, actual);                                     \
  }                                                                            \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,      \
      SmallVectorImpl<Type> &types)

#define INFER_BINARY(OP)                                                       \
  INFER(OP) {                                                                  \
    return inferBinary(loc, adaptor.getLhs(), adaptor.getRhs(), types);        \
  }
INFER_BINARY(AddOp)
INFER_BINARY(SubOp)
INFER_BINARY(MulOp)
INFER_BINARY(DivOp)
INFER_BINARY(MaxOp)
INFER_BINARY(MinOp)
INFER_BINARY(PowOp)
INFER_BINARY(AndOp)
INFER_BINARY(OrOp)
#undef INFER_BINARY

INFER(CompareOp) {
  if (failed(inferBinary(loc, adaptor.getLhs(), adaptor.getRhs(), types)))
    return failure();
  types[0] = RankedTensorType::get(cast<RankedTensorType>(types[0]).getShape(),
                                   IntegerType::get(context, 1));
  return success();
}

INFER(SelectOp) {
  if (failed(
          inferBinary(loc, adaptor.getOnTrue(), adaptor.getOnFalse(), types)))
    return failure();
  SmallVector<int64_t> shape(cast<RankedTensorType>(types[0]).getShape());
  if (failed(inferBroadcast(loc, adaptor.getCondition(), shape)))
    return failure();
  types[0] = withShape(cast<RankedTensorType>(types[0]), shape);
  return success();
}

LogicalResult CastOp::verify() {
  if (getInput().getType().getShape() != getType().getShape())
    return emitOpError("changes the shape from ")
           << shapeText(getInput().getType().getShape()) << " to "
           << shapeText(getType().getShape())
           << "; use nn.reshape or nn.broadcast for that";
  Type from = getInput().getType().getElementType();
  Type to = getType().getElementType();
  auto isNarrow = [](Type type) {
    return type.isBF16() || type.isF16() || isPayload(type);
  };
  if (from != to && isa<Float8E8M0FNUType>(to) &&
      !(from.isF32() || isNarrow(from)))
    return emitOpError("is from ")
           << from << " to f8E8M0FNU, expected f32, bf16, f16 or an 8-bit "
           << "float; cast to f32 first";
  if (from != to && isa<Float8E8M0FNUType>(from) && !isa<FloatType>(to))
    return emitOpError("is from f8E8M0FNU to ")
           << to << ", expected a float; cast to f32 first";
  if (getSaturate() && (from == to || !isa<FloatType>(from) ||
                        !(isNarrow(to) || isa<Float8E8M0FNUType>(to))))
    return emitOpError("saturates from ")
           << from << " to " << to
           << ", expected another float, and bf16, f16 or an 8-bit float as "
              "the result; leave 'saturate' out";
  if (!getRandom())
    return success();
  if (!from.isF32() || !isNarrow(to) || isa<Float4E2M1FNType>(to))
    return emitOpError("rounds stochastically from ")
           << from << " to " << to
           << ", expected f32 and bf16, f16, f8E4M3FN or f8E5M2";
  auto random = cast<RankedTensorType>(getRandom().getType());
  if (random.getShape() != getType().getShape())
    return emitOpError("has random bits of shape ")
           << shapeText(random.getShape()) << ", expected "
           << shapeText(getType().getShape())
           << ": a word for each element, of nn.random bits";
  return success();
}

//===----------------------------------------------------------------------===//
// Assembly
//===----------------------------------------------------------------------===//

static ParseResult parseBroadcastTypes(OpAsmParser &parser, Type &lhs,
                                       Type &rhs, Type &result) {
  if (parser.getCurrentLocation().getPointer()[0] != '(') {
    if (parser.parseType(lhs))
      return failure();
    rhs = result = lhs;
    return success();
  }
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(type))
    return failure();
  if (type.getNumInputs() != 2 || type.getNumResults() != 1)
    return parser.emitError(loc,
                            "expected two operand types and one result type");
  lhs = type.getInput(0);
  rhs = type.getInput(1);
  result = type.getResult(0);
  return success();
}

static void printBroadcastTypes(OpAsmPrinter &printer, Operation *op, Type lhs,
                                Type rhs, Type result) {
  if (lhs == rhs && lhs == result)
    printer << lhs;
  else
    printer << FunctionType::get(op->getContext(), {lhs, rhs}, result);
}

//===----------------------------------------------------------------------===//
// Products and reductions
//===----------------------------------------------------------------------===//

/// "ab,bc->ac" cut into its operands and result.
static bool splitEquation(StringRef equation,
                          SmallVectorImpl<StringRef> &inputs,
                          StringRef &result) {
  auto [left, right] = equation.split("->");
  if (!equation.contains("->"))
    return false;
  left.split(inputs, ',');
  result = right;
  return llvm::all_of(left,
                      [](char c) { return c == ',' || llvm::isAlpha(c); }) &&
         llvm::all_of(right, llvm::isAlpha);
}

void EinsumOp::build(OpBuilder &builder, OperationState &state,
                     StringRef equation, ValueRange inputs) {
  SmallVector<StringRef> letters;
  StringRef resultLetters;
  bool ok = splitEquation(equation, letters, resultLetters);
  assert(ok && letters.size() == inputs.size() && "malformed equation");
  (void)ok;
  SmallVector<int64_t> shape;
  for (char c : resultLetters)
    for (auto [operand, value] : llvm::zip_equal(letters, inputs)) {
      size_t position = operand.find(c);
      if (position == StringRef::npos)
        continue;
      shape.push_back(
          cast<RankedTensorType>(value.getType()).getDimSize(position));
      break;
    }
  build(builder, state,
        withShape(cast<RankedTensorType>(inputs[0].getType()), shape),
        builder.getStringAttr(equation), inputs);
}

/// Whether an equation fits the types; `letters` are those of the inputs.
static LogicalResult checkEquation(Operation *op, StringRef equation,
                                   TypeRange inputs, RankedTensorType result,
                                   SmallVectorImpl<StringRef> &letters) {
  StringRef resultLetters;
  if (!splitEquation(equation, letters, resultLetters))
    return op->emitOpError("equation '")
           << equation << "' is not of the form \"ab,bc->ac\"";
  if (inputs.empty() || inputs.size() > 2)
    return op->emitOpError("has ")
           << inputs.size()
           << " operands, expected one or two; write a longer product as "
              "several einsums";
  if (letters.size() != inputs.size())
    return op->emitOpError("equation '")
           << equation << "' names " << letters.size()
           << " operands, but there are " << inputs.size();
  llvm::SmallDenseMap<char, int64_t> sizes;
  auto check = [&](StringRef names, RankedTensorType type,
                   const Twine &what) -> LogicalResult {
    if (static_cast<int64_t>(names.size()) != type.getRank())
      return op->emitOpError("equation '")
             << equation << "' gives " << what << " " << names.size()
             << " dimensions, but its type is " << type;
    for (auto [i, c] : llvm::enumerate(names)) {
      if (names.count(c) > 1)
        return op->emitOpError("letter '") << c << "' occurs twice in " << what
                                           << "; take the diagonal beforehand";
      auto [it, isNew] = sizes.try_emplace(c, type.getDimSize(i));
      if (it->second != type.getDimSize(i))
        return op->emitOpError("letter '")
               << c << "' has size " << it->second << " and, in " << what
               << ", size " << type.getDimSize(i);
    }
    return success();
  };
  for (auto [i, names] : llvm::enumerate(letters))
    if (failed(check(names, cast<RankedTensorType>(inputs[i]),
                     "operand " + Twine(i))))
      return failure();
  for (char c : resultLetters)
    if (!sizes.contains(c))
      return op->emitOpError("letter '")
             << c
             << "' of the result is in no operand; use nn.broadcast for a new "
                "dimension";
  return check(resultLetters, result, "the result");
}

LogicalResult EinsumOp::verify() {
  SmallVector<StringRef> letters;
  if (failed(checkEquation(*this, getEquation(), getInputs().getTypes(),
                           getType(), letters)))
    return failure();
  Type element = elementOf(getInputs()[0].getType());
  for (Value input : getInputs())
    if (elementOf(input.getType()) != element)
      return emitOpError("operands have element types ")
             << element << " and " << elementOf(input.getType())
             << ", expected the same; use nn.cast on one of them";
  return success();
}

/// Ascending, distinct, in range.
static LogicalResult checkDims(std::optional<Location> loc,
                               ArrayRef<int64_t> dims, int64_t rank) {
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim < 0 || dim >= rank || (i > 0 && dims[i - 1] >= dim))
      return emitOptionalError(
          loc, "dims ", shapeText(dims),
          " must be ascending, distinct, at least 0 and below the rank, ",
          rank);
  return success();
}

INFER(ReduceOp) {
  auto type = ranked(adaptor.getInput().getType());
  if (!type || failed(checkDims(loc, adaptor.getDims(), type.getRank())))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (!llvm::is_contained(adaptor.getDims(), i))
      shape.push_back(type.getDimSize(i));
    else if (adaptor.getKeep())
      shape.push_back(1);
  }
  if (!isFloatElement(type) && adaptor.getKind() == ReduceKind::Mean)
    return emitOptionalError(
        loc, "the mean of integers is not defined; use nn.cast first");
  types.push_back(withShape(type, shape));
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type from ")
           << from.getElementType() << " to " << to.getElementType()
           << "; use nn.cast";
  if (from.getNumElements() != to.getNumElements())
    return emitOpError("changes the number of elements from ")
           << from.getNumElements() << " " << shapeText(from.getShape())
           << " to " << to.getNumElements() << " " << shapeText(to.getShape());
  return success();
}

INFER(TransposeOp) {
  auto type = ranked(adaptor.getInput().getType());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  if (!type)
    return failure();
  if (!isPermutationVector(permutation) ||
      static_cast<int64_t>(permutation.size()) != type.getRank())
    return emitOptionalError(loc, shapeText(permutation),
                             " is not a permutation of the ", type.getRank(),
                             " dimensions");
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(type.getDimSize(dim));
  types.push_back(withShape(type, shape));
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type from ")
           << from.getElementType() << " to " << to.getElementType()
           << "; use nn.cast";
  if (static_cast<int64_t>(getDims().size()) != from.getRank())
    return emitOpError("has ")
           << getDims().size() << " dims, expected one for each of the "
           << from.getRank() << " dimensions of its input";
  if (failed(checkDims(getLoc(), getDims(), to.getRank())))
    return failure();
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (from.getDimSize(i) != 1 && from.getDimSize(i) != to.getDimSize(dim))
      return emitOpError("input dimension ")
             << i << " has size " << from.getDimSize(i)
             << ", expected 1 or the result's " << to.getDimSize(dim);
  return success();
}

static LogicalResult checkCount(std::optional<Location> loc, StringRef what,
                                ArrayRef<int64_t> values, int64_t rank,
                                int64_t least) {
  if (static_cast<int64_t>(values.size()) != rank)
    return emitOptionalError(loc, what, " has ", values.size(),
                             " numbers, expected ", rank);
  for (int64_t value : values)
    if (value < least)
      return emitOptionalError(loc, what, " ", shapeText(values),
                               " must be at least ", least);
  return success();
}

SmallVector<int64_t> SliceOp::getAllStrides() {
  if (getStrides())
    return SmallVector<int64_t>(*getStrides());
  return SmallVector<int64_t>(getInput().getType().getRank(), 1);
}

INFER(SliceOp) {
  auto type = ranked(adaptor.getInput().getType());
  if (!type)
    return failure();
  int64_t rank = type.getRank();
  SmallVector<int64_t> strides(rank, 1);
  if (adaptor.getStrides())
    strides.assign(adaptor.getStrides()->begin(), adaptor.getStrides()->end());
  if (failed(checkCount(loc, "offsets", adaptor.getOffsets(), rank, 0)) ||
      failed(checkCount(loc, "sizes", adaptor.getSizes(), rank, 1)) ||
      failed(checkCount(loc, "strides", strides, rank, 1)))
    return failure();
  for (int64_t i = 0; i < rank; ++i) {
    int64_t last, length = type.getDimSize(i);
    if (__builtin_mul_overflow(adaptor.getSizes()[i] - 1, strides[i], &last) ||
        __builtin_add_overflow(last, adaptor.getOffsets()[i], &last) ||
        last >= length)
      return emitOptionalError(loc, "slice of dimension ", i,
                               " ends at element ", last,
                               ", but the dimension has size ", length);
  }
  types.push_back(withShape(type, adaptor.getSizes()));
  return success();
}

SmallVector<int64_t> PadOp::getAllInterior() {
  if (getInterior())
    return SmallVector<int64_t>(*getInterior());
  return SmallVector<int64_t>(getInput().getType().getRank(), 0);
}

INFER(PadOp) {
  auto type = ranked(adaptor.getInput().getType());
  if (!type)
    return failure();
  int64_t rank = type.getRank();
  SmallVector<int64_t> interior(rank, 0), shape;
  if (adaptor.getInterior())
    interior.assign(adaptor.getInterior()->begin(),
                    adaptor.getInterior()->end());
  if (failed(checkCount(loc, "low", adaptor.getLow(), rank, 0)) ||
      failed(checkCount(loc, "high", adaptor.getHigh(), rank, 0)) ||
      failed(checkCount(loc, "interior", interior, rank, 0)))
    return failure();
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size;
    if (__builtin_mul_overflow(type.getDimSize(i) - 1, interior[i], &size) ||
        __builtin_add_overflow(size, type.getDimSize(i), &size) ||
        __builtin_add_overflow(size, adaptor.getLow()[i], &size) ||
        __builtin_add_overflow(size, adaptor.getHigh()[i], &size))
      return emitOptionalError(loc, "padded size of dimension ", i,
                               " does not fit 64 bits");
    shape.push_back(size);
  }
  types.push_back(withShape(type, shape));
  return success();
}

INFER(ConcatenateOp) {
  if (adaptor.getInputs().empty())
    return emitOptionalError(loc, "expected at least one operand");
  auto first = ranked(adaptor.getInputs()[0].getType());
  int64_t dim = adaptor.getDim();
  if (!first)
    return failure();
  if (dim < 0 || dim >= first.getRank())
    return emitOptionalError(loc, "dim ", dim, " is not a dimension of ",
                             first);
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (auto [i, input] : llvm::enumerate(adaptor.getInputs())) {
    auto type = ranked(input.getType());
    if (!type || type.getElementType() != first.getElementType() ||
        type.getRank() != first.getRank())
      return emitOptionalError(
          loc, "operand ", i, " has type ", input.getType(),
          ", expected the element type and rank of ", first);
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (d != dim && type.getDimSize(d) != first.getDimSize(d))
        return emitOptionalError(loc, "operand ", i, " has size ",
                                 type.getDimSize(d), " in dimension ", d,
                                 ", operand 0 has ", first.getDimSize(d));
    if (__builtin_add_overflow(shape[dim], type.getDimSize(dim), &shape[dim]))
      return emitOptionalError(loc, "size of dimension ", dim,
                               " does not fit 64 bits");
  }
  types.push_back(withShape(first, shape));
  return success();
}

LogicalResult IotaOp::verify() {
  if (getDim() < 0 || getDim() >= getType().getRank())
    return emitOpError("dim ")
           << getDim() << " is not a dimension of " << getType();
  if (isIntElement(getType()))
    return checkIndexable(getLoc(), "dimension",
                          getType().getDimSize(getDim()));
  return success();
}

void ConstantOp::build(OpBuilder &builder, OperationState &state,
                       RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute number;
  if (auto floatType = dyn_cast<FloatType>(element))
    number = builder.getFloatAttr(floatType, value);
  else
    number = builder.getIntegerAttr(element, static_cast<int64_t>(value));
  build(builder, state, type, DenseElementsAttr::get(type, number));
}

//===----------------------------------------------------------------------===//
// Indexed access
//===----------------------------------------------------------------------===//

/// The shape of `nn.gather`'s result.
static FailureOr<SmallVector<int64_t>>
gatherShape(std::optional<Location> loc, RankedTensorType table,
            RankedTensorType indices, int64_t axis, int64_t batch) {
  if (axis < 0 || axis >= table.getRank())
    return emitOptionalError(loc, "axis ", axis,
                             " is not a dimension of the table ", table);
  if (batch < 0 || batch > axis || batch > indices.getRank())
    return emitOptionalError(
        loc, "batch is ", batch,
        ", expected at most the axis and the rank of the indices, ",
        std::min(axis, indices.getRank()));
  for (int64_t i = 0; i < batch; ++i)
    if (table.getDimSize(i) != indices.getDimSize(i))
      return emitOptionalError(loc, "batch dimension ", i, " has size ",
                               table.getDimSize(i), " in the table and ",
                               indices.getDimSize(i), " in the indices");
  SmallVector<int64_t> shape(table.getShape().take_front(axis));
  llvm::append_range(shape, indices.getShape().drop_front(batch));
  llvm::append_range(shape, table.getShape().drop_front(axis + 1));
  return shape;
}

INFER(GatherOp) {
  auto table = ranked(adaptor.getTable().getType());
  auto indices = ranked(adaptor.getIndices().getType());
  if (!table || !indices)
    return failure();
  auto shape =
      gatherShape(loc, table, indices, adaptor.getAxis(), adaptor.getBatch());
  if (failed(shape))
    return failure();
  types.push_back(withShape(table, *shape));
  return success();
}

LogicalResult GatherGradOp::verify() {
  auto shape = gatherShape(getLoc(), getType(), getIndices().getType(),
                           getAxis(), getBatch());
  if (failed(shape))
    return failure();
  auto expected = withShape(getType(), *shape);
  if (!same(getGrad().getType(), expected))
    return emitOpError("gradient has type ")
           << getGrad().getType() << ", expected " << expected
           << " as nn.gather of the result would have";
  return success();
}

INFER(EmbeddingOp) {
  auto table = ranked(adaptor.getTable().getType());
  auto ids = ranked(adaptor.getIds().getType());
  if (!table || !ids)
    return failure();
  if (table.getRank() != 2)
    return emitOptionalError(loc, "table has rank ", table.getRank(),
                             ", expected 2: [vocabulary, width]");
  SmallVector<int64_t> shape(ids.getShape());
  shape.push_back(table.getDimSize(1));
  types.push_back(withShape(table, shape));
  return success();
}

INFER(TopKOp) {
  auto type = ranked(adaptor.getInput().getType());
  if (!type)
    return failure();
  if (type.getRank() == 0)
    return emitOptionalError(loc, "operand has rank 0, expected at least 1");
  if (adaptor.getK() < 1 || adaptor.getK() > type.getShape().back())
    return emitOptionalError(loc, "k is ", adaptor.getK(),
                             ", expected between 1 and ",
                             type.getShape().back());
  if (failed(checkIndexable(loc, "last dimension", type.getShape().back())))
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = adaptor.getK();
  types.push_back(withShape(type, shape));
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 32)));
  return success();
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

static LogicalResult checkKey(std::optional<Location> loc, Type key,
                              Type stream) {
  auto keyType = ranked(key), streamType = ranked(stream);
  if (!keyType || keyType.getShape() != ArrayRef<int64_t>{4})
    return emitOptionalError(loc, "key has type ", key,
                             ", expected tensor<4xi32>");
  if (!streamType || streamType.getRank() != 0)
    return emitOptionalError(loc, "stream has type ", stream,
                             ", expected tensor<i32>");
  return success();
}

/// The counter has 32 bits for the element within a sample.
static LogicalResult checkCounter(std::optional<Location> loc,
                                  RankedTensorType type, bool sampled) {
  int64_t samples = sampled && type.getRank() > 0 ? type.getDimSize(0) : 1;
  if (type.getNumElements() / samples > kMostRandom)
    return emitOptionalError(loc, "more than 2^32 random numbers a sample in ",
                             type);
  if (sampled && type.getRank() == 0)
    return emitOptionalError(loc, "a scalar has no sample dimension");
  return success();
}

LogicalResult RandomOp::verify() {
  Type element = getType().getElementType();
  if ((getDistribution() == Distribution::Bits) != element.isInteger(32))
    return emitOpError("draws ")
           << stringifyDistribution(getDistribution()) << " of type " << element
           << ", expected "
           << (element.isInteger(32) ? "'bits' for i32"
                                     : "i32, or 'uniform' or 'normal'");
  if (static_cast<bool>(getOffsets()) != static_cast<bool>(getWhole()))
    return emitOpError(
        "has offsets without the sizes of the whole tensor, or sizes without "
        "offsets; expected 'at %offsets of [sizes]'");
  if (getOffsets()) {
    int64_t rank = getType().getRank();
    if (static_cast<int64_t>(getWhole()->size()) != rank ||
        cast<RankedTensorType>(getOffsets().getType()).getShape() !=
            ArrayRef<int64_t>(rank))
      return emitOpError("has offsets of type ")
             << getOffsets().getType() << " and " << getWhole()->size()
             << " sizes, expected one of each for each of the " << rank
             << " dimensions";
  }
  return failure(
      failed(checkKey(getLoc(), getKey().getType(), getStream().getType())) ||
      failed(checkCounter(
          getLoc(),
          RankedTensorType::get(getWholeShape(), getType().getElementType()),
          getSampleDim())));
}

INFER(DropoutOp) {
  auto type = ranked(adaptor.getInput().getType());
  double rate = adaptor.getRate().convertToDouble();
  if (!type ||
      failed(checkKey(loc, adaptor.getKey().getType(),
                      adaptor.getStream().getType())) ||
      failed(checkCounter(loc, type, true)))
    return failure();
  if (!(rate >= 0 && rate < 1))
    return emitOptionalError(loc, "rate is ", rate,
                             ", expected at least 0 and below 1");
  types.push_back(type);
  return success();
}

//===----------------------------------------------------------------------===//
// Scaled 8-bit payloads
//===----------------------------------------------------------------------===//

/// A block length, or 0, for each dimension.
static LogicalResult checkBlocks(std::optional<Location> loc,
                                 ArrayRef<int64_t> blocks, int64_t rank) {
  return checkCount(loc, "blocks", blocks, rank, 0);
}

INFER(QuantizeOp) {
  auto type = ranked(adaptor.getInput().getType());
  if (!type || failed(checkBlocks(loc, adaptor.getBlocks(), type.getRank())))
    return failure();
  types.push_back(RankedTensorType::get(type.getShape(), adaptor.getFormat()));
  Type factor = adaptor.getScale() == ScaleRule::E8M0
                    ? Type(Float8E8M0FNUType::get(context))
                    : Type(Float32Type::get(context));
  types.push_back(RankedTensorType::get(
      getFactorShape(type.getShape(), adaptor.getBlocks()), factor));
  return success();
}

/// Whether there is a factor for each block of a payload.
static LogicalResult checkFactors(Operation *op, Value payload, Value factors,
                                  ArrayRef<int64_t> blocks, StringRef whose) {
  auto type = cast<RankedTensorType>(payload.getType());
  if (failed(checkBlocks(op->getLoc(), blocks, type.getRank())))
    return failure();
  SmallVector<int64_t> expected = getFactorShape(type.getShape(), blocks);
  auto found = cast<RankedTensorType>(factors.getType());
  if (found.getShape() != ArrayRef(expected))
    return op->emitOpError("has factors of shape ")
           << shapeText(found.getShape()) << whose << ", expected "
           << shapeText(expected) << ": one for each block "
           << shapeText(blocks) << " of " << shapeText(type.getShape());
  return success();
}

LogicalResult DequantizeOp::verify() {
  if (getType().getShape() != getPayload().getType().getShape())
    return emitOpError("has a result of shape ")
           << shapeText(getType().getShape()) << ", expected the payload's "
           << shapeText(getPayload().getType().getShape());
  return checkFactors(*this, getPayload(), getFactors(), getBlocks(), "");
}

LogicalResult ScaledEinsumOp::verify() {
  SmallVector<StringRef> letters;
  Type operands[] = {getLhs().getType(), getRhs().getType()};
  if (failed(
          checkEquation(*this, getEquation(), operands, getType(), letters)) ||
      failed(checkFactors(*this, getLhs(), getLhsFactors(), getLhsBlocks(),
                          " for operand 0")) ||
      failed(checkFactors(*this, getRhs(), getRhsFactors(), getRhsBlocks(),
                          " for operand 1")))
    return failure();
  for (Value operand : {Value(getLhs()), Value(getRhs())})
    if (Type element =
            cast<RankedTensorType>(operand.getType()).getElementType();
        element.getIntOrFloatBitWidth() != 8)
      return emitOpError("multiplies a payload of ")
             << element
             << ", expected f8E4M3FN or f8E5M2; no other product is built, use "
                "nn.dequantize and nn.einsum";
  if (isa<Float8E5M2Type>(getLhs().getType().getElementType()) &&
      isa<Float8E5M2Type>(getRhs().getType().getElementType()))
    return emitOpError("multiplies f8E5M2 by f8E5M2, which no tensor core "
                       "does; expected f8E4M3FN for one of them");
  Type factors = getLhsFactors().getType().getElementType();
  if (factors != getRhsFactors().getType().getElementType())
    return emitOpError("has factors of ")
           << factors << " and " << getRhsFactors().getType().getElementType()
           << ", expected the same; quantise both by one rule";
  auto isPlane = [](ArrayRef<int64_t> blocks) {
    return llvm::count_if(blocks, [](int64_t block) { return block > 1; }) > 1;
  };
  if (isPlane(getLhsBlocks()) && isPlane(getRhsBlocks()))
    return emitOpError("multiplies blocks ")
           << shapeText(getLhsBlocks()) << " by blocks "
           << shapeText(getRhsBlocks())
           << ", expected blocks along one dimension, as [1, 128], for one of "
              "them";
  StringRef result = getEquation().split("->").second;
  for (auto [i, c] : llvm::enumerate(letters[0])) {
    size_t j = letters[1].find(c);
    if (result.contains(c) || j == StringRef::npos)
      continue;
    int64_t size = getLhs().getType().getDimSize(i);
    int64_t left = getBlockLength(size, getLhsBlocks()[i]);
    int64_t right = getBlockLength(size, getRhsBlocks()[j]);
    if (left != right)
      return emitOpError("letter '") << c << "' is summed in blocks of " << left
                                     << " in operand 0 and of " << right
                                     << " in operand 1, expected the same";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() {
  if (getDim() < 0 || getDim() >= getType().getRank())
    return emitOpError("dim ")
           << getDim() << " is not a dimension of " << getType();
  return success();
}

static LogicalResult inferNorm(std::optional<Location> loc, Value input,
                               ValueRange weights, double eps,
                               SmallVectorImpl<Type> &types) {
  auto type = ranked(input.getType());
  if (!type)
    return failure();
  if (type.getRank() == 0)
    return emitOptionalError(loc, "input has rank 0, expected at least 1");
  auto expected = withShape(type, type.getShape().back());
  for (Value weight : weights)
    if (!same(weight.getType(), expected))
      return emitOptionalError(loc, "scale or bias has type ", weight.getType(),
                               ", expected ", expected,
                               " for the last dimension of ", type);
  if (!(eps >= 0))
    return emitOptionalError(loc, "eps is ", eps, ", expected at least 0");
  types.push_back(type);
  return success();
}

INFER(LayerNormOp) {
  return inferNorm(loc, adaptor.getInput(),
                   {adaptor.getScale(), adaptor.getBias()},
                   adaptor.getEps().convertToDouble(), types);
}
INFER(RMSNormOp) {
  return inferNorm(loc, adaptor.getInput(), adaptor.getScale(),
                   adaptor.getEps().convertToDouble(), types);
}

INFER(RotaryOp) {
  auto type = ranked(adaptor.getInput().getType());
  auto positions = ranked(adaptor.getPositions().getType());
  if (!type || !positions)
    return failure();
  if (type.getRank() != 4 || type.getDimSize(3) % 2)
    return emitOptionalError(loc, "input has type ", type,
                             ", expected [batch, sequence, heads, even width]");
  // Half as many frequencies are constants of the program.
  constexpr int64_t kMaxWidth = 65536;
  if (type.getDimSize(3) > kMaxWidth)
    return emitOptionalError(loc, "heads have width ", type.getDimSize(3),
                             ", expected at most ", kMaxWidth);
  ArrayRef<int64_t> outer = type.getShape().take_front(2);
  if (positions.getShape() != outer &&
      positions.getShape() != outer.drop_front())
    return emitOptionalError(loc, "positions have type ", positions,
                             ", expected shape ", shapeText(outer), " or ",
                             shapeText(outer.drop_front()));
  if (!(adaptor.getTheta().convertToDouble() > 0))
    return emitOptionalError(loc, "theta must be positive");
  types.push_back(type);
  return success();
}

double AttentionOp::getScaleValue() {
  if (getScale())
    return getScale()->convertToDouble();
  return 1.0 /
         std::sqrt(static_cast<double>(getQuery().getType().getShape().back()));
}
double AttentionGradOp::getScaleValue() {
  if (getScale())
    return getScale()->convertToDouble();
  return 1.0 /
         std::sqrt(static_cast<double>(getQuery().getType().getShape().back()));
}

/// What attention and its gradient ask of their common operands.
template <typename Op>
static LogicalResult verifyAttention(Op op, RankedTensorType result,
                                     RankedTensorType lse) {
  auto type = [](Value value) {
    return cast<RankedTensorType>(value.getType());
  };
  RankedTensorType q = type(op.getQuery()), k = type(op.getKey()),
                   v = type(op.getValue());
  for (RankedTensorType t : {q, k, v}) {
    if (t.getRank() != 4)
      return op.emitOpError("query, key and value have types ")
             << q << ", " << k << ", " << v
             << ", expected [batch, sequence, heads, width]";
    if (t.getElementType() != q.getElementType())
      return op.emitOpError(
          "query, key and value have different element types; use nn.cast");
  }
  int64_t B = q.getDimSize(0), S = q.getDimSize(1), H = q.getDimSize(2),
          D = q.getDimSize(3);
  int64_t T = k.getDimSize(1), G = k.getDimSize(2);
  if (failed(checkIndexable(op.getLoc(), "sequence", std::max(S, T))))
    return failure();
  if (k.getDimSize(0) != B || v.getDimSize(0) != B)
    return op.emitOpError("query, key and value have different batch sizes");
  // A decomposition has them.
  if (auto scores = RankedTensorType::get({B, H, S, T}, q.getElementType());
      !isStaticTensor(scores))
    return op.emitOpError("has scores of ")
           << shapeText(scores.getShape())
           << ", expected at most 2^59 elements; cut the sequence";
  if (k.getDimSize(3) != D)
    return op.emitOpError("key has width ")
           << k.getDimSize(3) << ", expected the query's " << D;
  if (v.getDimSize(1) != T || v.getDimSize(2) != G)
    return op.emitOpError("value has shape ")
           << shapeText(v.getShape()) << ", expected the key's sequence " << T
           << " and heads " << G;
  if (H % G)
    return op.emitOpError("has ")
           << H << " query heads, expected a multiple of the " << G
           << " key heads";
  auto expect = [&](RankedTensorType got, RankedTensorType expected,
                    StringRef what) -> LogicalResult {
    if (!same(got, expected))
      return op.emitOpError()
             << what << " has type " << got << ", expected " << expected;
    return success();
  };
  if (failed(
          expect(result, withShape(q, {B, S, H, v.getDimSize(3)}), "result")))
    return failure();
  if (lse &&
      failed(expect(lse,
                    RankedTensorType::get(
                        {B, S, H}, getStatisticsType(q.getElementType())),
                    "log-sum-exp")))
    return failure();
  if (op.getBias()) {
    auto bias = type(op.getBias());
    if (bias.getRank() != 4 ||
        (bias.getDimSize(0) != 1 && bias.getDimSize(0) != B) ||
        (bias.getDimSize(1) != 1 && bias.getDimSize(1) != H) ||
        bias.getDimSize(2) != S || bias.getDimSize(3) != T ||
        bias.getElementType() != q.getElementType())
      return op.emitOpError("bias has type ")
             << bias << ", expected " << withShape(q, {B, H, S, T})
             << ", where the first two sizes may be 1";
  }
  if (op.getQueryDocuments()) {
    auto dq = type(op.getQueryDocuments()), dk = type(op.getKeyDocuments());
    if (dq.getShape() != ArrayRef<int64_t>{B, S} ||
        dk.getShape() != ArrayRef<int64_t>{B, T})
      return op.emitOpError("documents have shapes ")
             << shapeText(dq.getShape()) << " and " << shapeText(dk.getShape())
             << ", expected " << shapeText({B, S}) << " and "
             << shapeText({B, T});
  }
  if (op.getFirstPosition()) {
    auto first = type(op.getFirstPosition());
    if (first.getRank() != 0)
      return op.emitOpError("position of the first query has type ")
             << first << ", expected tensor<i32>";
    if (!op.getCausal() && !op.getWindow())
      return op.emitOpError(
          "has the position of the first query, which matters with causal or "
          "window alone; leave it out");
  }
  if (op.getWindow() && *op.getWindow() < 1)
    return op.emitOpError("window is ")
           << *op.getWindow() << ", expected at least 1";
  if (op.getScale() && !op.getScale()->isFinite())
    return op.emitOpError("scale must be finite");
  return success();
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, getResult().getType(),
                         getLse() ? cast<RankedTensorType>(getLse().getType())
                                  : RankedTensorType());
}

LogicalResult AttentionGradOp::verify() {
  auto lse = cast<RankedTensorType>(getLse().getType());
  if (failed(verifyAttention(*this, getForwardResult().getType(), lse)))
    return failure();
  if (!same(getGrad().getType(), getForwardResult().getType()))
    return emitOpError("gradient has type ")
           << getGrad().getType() << ", expected the result's "
           << getForwardResult().getType();
  if (getLseGrad() && !same(getLseGrad().getType(), lse))
    return emitOpError("gradient of the log-sum-exp has type ")
           << getLseGrad().getType() << ", expected " << lse;
  if (!same(getQueryGrad().getType(), getQuery().getType()) ||
      !same(getKeyGrad().getType(), getKey().getType()) ||
      !same(getValueGrad().getType(), getValue().getType()))
    return emitOpError("results must have the types of query, key and value");
  if (static_cast<bool>(getBiasGrad()) != static_cast<bool>(getBias()) ||
      (getBias() && !same(getBiasGrad().getType(), getBias().getType())))
    return emitOpError(
        "expected a fourth result of the bias's type exactly where there is a "
        "bias");
  return success();
}

static LogicalResult checkLogits(std::optional<Location> loc,
                                 RankedTensorType logits,
                                 RankedTensorType targets, double smoothing) {
  if (logits.getRank() == 0 ||
      logits.getShape().drop_back() != targets.getShape())
    return emitOptionalError(
        loc, "targets have shape ", shapeText(targets.getShape()),
        ", expected that of the logits ", shapeText(logits.getShape()),
        " without the last dimension");
  if (failed(checkIndexable(loc, "vocabulary", logits.getShape().back())))
    return failure();
  if (!(smoothing >= 0 && smoothing < 1))
    return emitOptionalError(loc, "smoothing is ", smoothing,
                             ", expected at least 0 and below 1");
  return success();
}

INFER(CrossEntropyOp) {
  auto logits = ranked(adaptor.getLogits().getType());
  auto targets = ranked(adaptor.getTargets().getType());
  if (!logits || !targets ||
      failed(checkLogits(loc, logits, targets,
                         adaptor.getSmoothing().convertToDouble())))
    return failure();
  types.assign(
      2, RankedTensorType::get(targets.getShape(),
                               getStatisticsType(logits.getElementType())));
  return success();
}

LogicalResult CrossEntropyGradOp::verify() {
  RankedTensorType logits = getLogits().getType();
  if (failed(checkLogits(getLoc(), logits, getTargets().getType(),
                         getSmoothing().convertToDouble())))
    return failure();
  auto perToken =
      RankedTensorType::get(getTargets().getType().getShape(),
                            getStatisticsType(logits.getElementType()));
  for (Value value : {Value(getLse()), Value(getGrad()), Value(getLseGrad())})
    if (value && !same(value.getType(), perToken))
      return emitOpError("operand has type ")
             << value.getType() << ", expected " << perToken;
  if (!same(getType(), logits))
    return emitOpError("result has type ")
           << getType() << ", expected the logits' " << logits;
  return success();
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

INFER(RouteOp) {
  auto logits = ranked(adaptor.getLogits().getType());
  if (!logits)
    return failure();
  if (logits.getRank() == 0)
    return emitOptionalError(
        loc, "logits have rank 0, expected at least the dimension of experts");
  int64_t experts = logits.getShape().back();
  if (failed(checkIndexable(loc, "dimension of experts", experts)))
    return failure();
  if (Value bias = adaptor.getBias()) {
    auto type = ranked(bias.getType());
    if (!type || type.getShape() != ArrayRef<int64_t>{experts})
      return emitOptionalError(loc, "bias has type ", bias.getType(),
                               ", expected a number for each of the ", experts,
                               " experts");
  }
  int64_t groups = adaptor.getGroups(), kept = adaptor.getGroupsKept();
  int64_t best = adaptor.getGroupBest(), k = adaptor.getK();
  if (groups < 1 || experts % groups)
    return emitOptionalError(loc, "groups is ", groups,
                             ", expected a divisor of the ", experts,
                             " experts");
  if (kept < 1 || kept > groups)
    return emitOptionalError(loc, "keep is ", kept,
                             ", expected between 1 and the ", groups,
                             " groups");
  if (best < 1 || best > experts / groups)
    return emitOptionalError(loc, "best is ", best,
                             ", expected between 1 and the ", experts / groups,
                             " experts of a group");
  if (k < 1 || k > kept * (experts / groups))
    return emitOptionalError(loc, "k is ", k, ", expected between 1 and the ",
                             kept * (experts / groups),
                             " experts that can be chosen");
  double scale = adaptor.getScale().convertToDouble();
  if (!(scale > 0) || !std::isfinite(scale))
    return emitOptionalError(loc, "scale is ", scale,
                             ", expected a positive number");
  SmallVector<int64_t> shape(logits.getShape());
  shape.back() = k;
  types.push_back(
      RankedTensorType::get(shape, getStatisticsType(logits.getElementType())));
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 32)));
  return success();
}

INFER(ExpertSortOp) {
  auto experts = ranked(adaptor.getExperts().getType());
  if (!experts)
    return failure();
  if (experts.getRank() != 3)
    return emitOptionalError(loc, "experts have shape ",
                             shapeText(experts.getShape()),
                             ", expected [groups, tokens, choices]");
  int64_t count = adaptor.getCount();
  if (count < 1)
    return emitOptionalError(loc, "there are ", count,
                             " experts, expected at least 1");
  // Kernels count the assignments of each on the stack.
  if (count > 65536)
    return emitOptionalError(loc, "there are ", count,
                             " experts, expected at most 65536");
  int64_t rows;
  if (__builtin_mul_overflow(experts.getDimSize(1), experts.getDimSize(2),
                             &rows))
    rows = std::numeric_limits<int64_t>::max();
  if (failed(checkIndexable(loc, "number of assignments of a group", rows)))
    return failure();
  if (std::optional<int64_t> capacity = adaptor.getCapacity()) {
    if (*capacity < 1)
      return emitOptionalError(loc, "capacity is ", *capacity,
                               ", expected at least 1");
    if (*capacity < rows)
      rows = std::min(rows, count * *capacity);
  }
  auto i32 = IntegerType::get(context, 32);
  int64_t groups = experts.getDimSize(0);
  types.push_back(RankedTensorType::get({groups, rows}, i32));
  types.push_back(RankedTensorType::get(experts.getShape(), i32));
  types.push_back(RankedTensorType::get({groups, count + 1}, i32));
  return success();
}

/// Moves `input` between tokens [B, S, H] and rows [B, R, H]; `from` is the
/// number of the second dimension that it must have, of order and position.
template <typename Adaptor>
static LogicalResult inferMove(std::optional<Location> loc, Adaptor adaptor,
                               bool toRows, SmallVectorImpl<Type> &types) {
  auto input = ranked(adaptor.getInput().getType());
  auto order = ranked(adaptor.getOrder().getType());
  auto position = ranked(adaptor.getPosition().getType());
  if (!input || !order || !position)
    return failure();
  if (position.getRank() != 3)
    return emitOptionalError(loc, "position has shape ",
                             shapeText(position.getShape()),
                             ", expected [groups, tokens, choices]");
  int64_t groups = position.getDimSize(0), tokens = position.getDimSize(1);
  if (order.getRank() != 2 || order.getDimSize(0) != groups)
    return emitOptionalError(
        loc, "order has shape ", shapeText(order.getShape()), ", expected [",
        groups, ", rows]: the groups are those of position");
  int64_t rows = order.getDimSize(1), from = toRows ? tokens : rows;
  if (input.getRank() != 3 || input.getDimSize(0) != groups ||
      input.getDimSize(1) != from)
    return emitOptionalError(loc, "input has shape ",
                             shapeText(input.getShape()), ", expected [",
                             groups, ", ", from, ", width]: the ",
                             toRows ? "tokens" : "rows", " of each group");
  if (Value weights = adaptor.getWeights()) {
    auto type = ranked(weights.getType());
    auto expected = RankedTensorType::get(
        position.getShape(), getStatisticsType(input.getElementType()));
    if (!type || !same(type, expected))
      return emitOptionalError(loc, "weights have type ", weights.getType(),
                               ", expected ", expected,
                               ", one for each assignment");
  }
  types.push_back(
      withShape(input, {groups, toRows ? rows : tokens, input.getDimSize(2)}));
  return success();
}

INFER(DispatchOp) { return inferMove(loc, adaptor, /*toRows=*/true, types); }
INFER(CombineOp) { return inferMove(loc, adaptor, /*toRows=*/false, types); }

/// Rows are [groups, rows, width], offsets [groups, experts + 1], or both with
/// the dimension of parts in front.
static LogicalResult checkRows(std::optional<Location> loc,
                               RankedTensorType rows,
                               RankedTensorType offsets) {
  int64_t rank = rows.getRank();
  if (rank != 3 && rank != 4)
    return emitOptionalError(loc, "rows have shape ",
                             shapeText(rows.getShape()),
                             ", expected [groups, rows, width], or parts in "
                             "front of them");
  if (offsets.getRank() != rank - 1 ||
      offsets.getShape().drop_back() != rows.getShape().drop_back(2) ||
      offsets.getShape().back() < 2)
    return emitOptionalError(loc, "offsets have shape ",
                             shapeText(offsets.getShape()), ", expected ",
                             shapeText(rows.getShape().drop_back(2)),
                             " and experts + 1");
  return success();
}

/// [experts, a, b], or [parts, experts, a, b].
static SmallVector<int64_t> matrixShape(RankedTensorType offsets, int64_t a,
                                        int64_t b) {
  SmallVector<int64_t> shape(offsets.getShape().drop_back(2));
  llvm::append_values(shape, offsets.getShape().back() - 1, a, b);
  return shape;
}

INFER(GroupedMatmulOp) {
  auto rows = ranked(adaptor.getRows().getType());
  auto matrices = ranked(adaptor.getMatrices().getType());
  auto offsets = ranked(adaptor.getOffsets().getType());
  if (!rows || !matrices || !offsets || failed(checkRows(loc, rows, offsets)))
    return failure();
  int64_t rank = rows.getRank(), inner = rows.getShape().back();
  bool transposed = adaptor.getTransposed();
  // The width of the result is free.
  int64_t outer = matrices.getRank() == rank
                      ? matrices.getDimSize(transposed ? rank - 2 : rank - 1)
                      : 1;
  SmallVector<int64_t> expected = matrixShape(
      offsets, transposed ? outer : inner, transposed ? inner : outer);
  if (matrices.getShape() != ArrayRef<int64_t>(expected))
    return emitOptionalError(
        loc, "matrices have shape ", shapeText(matrices.getShape()),
        ", expected ", shapeText(expected), ", where the ",
        transposed ? "first" : "second", " size of a matrix is free");
  if (matrices.getElementType() != rows.getElementType())
    return emitOptionalError(loc, "rows are of ", rows.getElementType(),
                             " and matrices of ", matrices.getElementType(),
                             ", expected the same");
  SmallVector<int64_t> shape(rows.getShape());
  shape.back() = outer;
  types.push_back(withShape(rows, shape));
  return success();
}

INFER(GroupedOuterOp) {
  auto lhs = ranked(adaptor.getLhs().getType());
  auto rhs = ranked(adaptor.getRhs().getType());
  auto offsets = ranked(adaptor.getOffsets().getType());
  if (!lhs || !rhs || !offsets || failed(checkRows(loc, lhs, offsets)) ||
      failed(checkRows(loc, rhs, offsets)))
    return failure();
  if (lhs.getShape().drop_back() != rhs.getShape().drop_back() ||
      lhs.getElementType() != rhs.getElementType())
    return emitOptionalError(loc, "rows have types ", lhs, " and ", rhs,
                             ", expected as many rows of one element type");
  types.push_back(withShape(
      lhs, matrixShape(offsets, lhs.getShape().back(), rhs.getShape().back())));
  return success();
}

/// `rows` are [groups, rows, width], `parts` [parts, groups, most, width].
static LogicalResult checkBuckets(Operation *op, RankedTensorType rows,
                                  RankedTensorType parts,
                                  RankedTensorType offsets) {
  if (rows.getRank() != 3 || parts.getRank() != 4)
    return op->emitOpError("takes rows between ")
           << rows << " and " << parts
           << ", expected [groups, rows, width] and [parts, groups, rows, "
              "width]";
  if (failed(checkRows(op->getLoc(), rows, offsets)))
    return failure();
  if (parts.getDimSize(1) != rows.getDimSize(0) ||
      parts.getDimSize(3) != rows.getDimSize(2) ||
      parts.getElementType() != rows.getElementType())
    return op->emitOpError("takes rows between ")
           << rows << " and " << parts
           << ", expected the same groups, width and element type";
  int64_t experts = offsets.getDimSize(1) - 1, count = parts.getDimSize(0);
  if (experts % count)
    return op->emitOpError("has ")
           << count << " parts, expected a divisor of the " << experts
           << " experts";
  return success();
}

LogicalResult BucketOp::verify() {
  return checkBuckets(*this, getRows().getType(), getType(),
                      getOffsets().getType());
}
LogicalResult UnbucketOp::verify() {
  return checkBuckets(*this, getType(), getRows().getType(),
                      getOffsets().getType());
}

//===----------------------------------------------------------------------===//
// The training step
//===----------------------------------------------------------------------===//

INFER(StepMeanOp) {
  auto values = ranked(adaptor.getValues().getType());
  auto weights = ranked(adaptor.getWeights().getType());
  if (!values || !weights)
    return failure();
  if (values.getShape() != weights.getShape())
    return emitOptionalError(
        loc, "weights have shape ", shapeText(weights.getShape()),
        ", expected that of the values, ", shapeText(values.getShape()));
  types.push_back(withShape(values, {}));
  return success();
}

/// An optimizer's update gives its parameter and each piece of state anew.
static LogicalResult inferUpdate(std::optional<Location> loc,
                                 ValueRange tensors,
                                 SmallVectorImpl<Type> &types) {
  auto parameter = ranked(tensors[0].getType());
  if (!parameter)
    return failure();
  for (Value tensor : tensors) {
    auto type = ranked(tensor.getType());
    if (!type || type.getShape() != parameter.getShape())
      return emitOptionalError(loc, "operand of type ", tensor.getType(),
                               " does not have the parameter's shape ",
                               shapeText(parameter.getShape()));
  }
  return success();
}

INFER(AdamWOp) {
  if (failed(inferUpdate(loc,
                         {adaptor.getParameter(), adaptor.getGrad(),
                          adaptor.getMoment1(), adaptor.getMoment2()},
                         types)))
    return failure();
  llvm::append_values(types, adaptor.getParameter().getType(),
                      adaptor.getMoment1().getType(),
                      adaptor.getMoment2().getType());
  return success();
}

INFER(SGDOp) {
  if (failed(inferUpdate(
          loc, {adaptor.getParameter(), adaptor.getGrad(), adaptor.getBuffer()},
          types)))
    return failure();
  llvm::append_values(types, adaptor.getParameter().getType(),
                      adaptor.getBuffer().getType());
  return success();
}

LogicalResult MicrobatchesOp::verifyRegions() {
  int64_t count = getCount();
  if (count < 1)
    return emitOpError("count is ") << count << ", expected at least 1";
  SmallVector<Type> expected{
      RankedTensorType::get({}, IntegerType::get(getContext(), 32))};
  for (auto [i, value] : llvm::enumerate(getSliced())) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() == 0 || type.getDimSize(0) % count)
      return emitOpError("sliced operand ")
             << i << " of type " << type << " does not divide into " << count
             << " microbatches along dimension 0";
    SmallVector<int64_t> shape(type.getShape());
    shape[0] /= count;
    expected.push_back(withShape(type, shape));
  }
  llvm::append_range(expected, getInits().getTypes());
  if (getBody().getArgumentTypes() != TypeRange(expected))
    return emitOpError("body has arguments of types (")
           << getBody().getArgumentTypes() << "), expected (" << expected
           << ")";
  if (getInits().getTypes() != getResultTypes())
    return emitOpError("results must have the types of the accumulators, (")
           << getInits().getTypes() << ")";
  Operation *yield = getBody().front().getTerminator();
  if (yield->getOperandTypes() != getResultTypes())
    return yield->emitOpError("yields types (")
           << yield->getOperandTypes() << "), expected (" << getResultTypes()
           << ")";
  return success();
}

LogicalResult FusedOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("body has arguments of types (")
           << block.getArgumentTypes() << "), expected those of the inputs, ("
           << getInputs().getTypes() << ")";
  Operation *yield = block.getTerminator();
  if (yield->getOperandTypes() != getResultTypes())
    return yield->emitOpError("yields types (")
           << yield->getOperandTypes() << "), expected (" << getResultTypes()
           << ")";
  for (Operation &op : block.without_terminator())
    if (!isa_and_nonnull<NNDialect>(op.getDialect()) || op.getNumRegions() > 0)
      return op.emitOpError(
          "cannot be part of nn.fused, expected nn ops without regions");
  ArrayRef<int64_t> pairs = getInPlace().value_or(ArrayRef<int64_t>());
  if (pairs.size() % 2)
    return emitOpError("in_place has ")
           << pairs.size() << " numbers, expected pairs";
  for (size_t i = 0; i < pairs.size(); i += 2) {
    int64_t input = pairs[i], result = pairs[i + 1];
    if (input < 0 || result < 0 ||
        input >= static_cast<int64_t>(getInputs().size()) ||
        result >= static_cast<int64_t>(getNumResults()))
      return emitOpError("in_place names input ")
             << input << " and result " << result << ", but there are "
             << getInputs().size() << " and " << getNumResults();
    if (getInputs()[input].getType() != getResult(result).getType())
      return emitOpError("in_place names input ")
             << input << " of type " << getInputs()[input].getType()
             << " and result " << result << " of type "
             << getResult(result).getType() << ", expected the same type";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes on functions and ops
//===----------------------------------------------------------------------===//

/// No two parameters have one name. Checked once a function, at its first
/// parameter, as a model has thousands.
static LogicalResult checkParameterNames(FunctionOpInterface function,
                                         unsigned argument) {
  for (unsigned other = 0; other < argument; ++other)
    if (function.getArgAttr(other, kParamAttr))
      return success();
  llvm::DenseMap<StringAttr, unsigned> names;
  for (unsigned i = argument; i < function.getNumArguments(); ++i)
    if (auto param = function.getArgAttrOfType<ParamAttr>(i, kParamAttr)) {
      auto [it, isNew] = names.try_emplace(param.getName(), i);
      if (!isNew)
        return function->emitOpError("argument ")
               << i << " has the parameter name '" << param.getName().getValue()
               << "' of argument " << it->second;
    }
  return success();
}

/// Names go into the artifact's manifest, whose reader takes these alone.
static bool isBufferName(StringRef name) {
  return !name.empty() && name.size() <= 4096 &&
         llvm::none_of(name, [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}
static constexpr llvm::StringLiteral kNameHint =
    "expected 1 to 4096 bytes without control characters";

LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned argument,
                                                  NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitOpError("attribute '")
           << attribute.getName() << "' belongs to a function";
  Type argumentType = function.getArgumentTypes()[argument];
  auto type = dyn_cast<RankedTensorType>(argumentType);
  auto where = [&]() -> InFlightDiagnostic {
    return op->emitOpError("argument ") << argument << " ";
  };
  StringRef name = attribute.getName();
  if (name == kParamAttr) {
    auto param = dyn_cast<ParamAttr>(attribute.getValue());
    if (!param)
      return where() << "has nn.param = " << attribute.getValue()
                     << ", expected #nn.param<...>";
    if (!type || !isFloatElement(type) || !isStaticTensor(type))
      return where() << "is a parameter of type " << argumentType
                     << ", expected a static tensor of floats";
    if (static_cast<int64_t>(param.getAxes().size()) != type.getRank())
      return where() << "names " << param.getAxes().size() << " axes for the "
                     << type.getRank() << " dimensions of " << type
                     << "; write _ for a dimension without a name";
    if (!param.getInitValue().isFinite())
      return where() << "has an initial value that is not finite";
    if (param.getInit() == Init::Normal && param.getInitValue().isNegative())
      return where() << "starts with the standard deviation "
                     << param.getInitValue().convertToDouble()
                     << ", expected at least 0";
    if (param.getName().empty())
      return where() << "is a parameter without a name";
    if (!isBufferName(param.getName().getValue()))
      return where() << "is a parameter whose name is too long or has a "
                        "control character, "
                     << kNameHint;
    return checkParameterNames(function, argument);
  }
  if (name == kBatchAttr) {
    auto role = dyn_cast<StringAttr>(attribute.getValue());
    if (!role ||
        !llvm::is_contained({"tokens", "targets", "positions", "documents"},
                            role.getValue()))
      return where() << "has nn.batch = " << attribute.getValue()
                     << ", expected \"tokens\", \"targets\", \"positions\" or "
                        "\"documents\"";
    if (!type || !isIntElement(type) || type.getRank() != 2 ||
        !isStaticTensor(type))
      return where() << "is part of the batch and has type " << argumentType
                     << ", expected tensor<batch x sequence x i32>";
    return success();
  }
  if (name == kRngAttr) {
    if (!type || !isIntElement(type) || type.getShape() != ArrayRef<int64_t>{4})
      return where() << "is the random key and has type " << argumentType
                     << ", expected tensor<4xi32>";
    return success();
  }
  if (name == kScalarAttr || name == "nn.name") {
    auto text = dyn_cast<StringAttr>(attribute.getValue());
    if (!text)
      return where() << "has " << name << " = " << attribute.getValue()
                     << ", expected a name in quotes";
    if (!isBufferName(text.getValue()))
      return where() << "has " << name << " = " << attribute.getValue() << ", "
                     << kNameHint;
    return success();
  }
  if (name == kStateAttr) {
    auto pair = dyn_cast<ArrayAttr>(attribute.getValue());
    if (!pair || pair.size() != 2 ||
        !llvm::all_of(pair, llvm::IsaPred<StringAttr>))
      return where() << "has nn.state = " << attribute.getValue()
                     << ", expected [\"kind of state\", \"name of parameter\"]";
    if (!llvm::all_of(pair.getAsValueRange<StringAttr>(), isBufferName))
      return where() << "has nn.state = " << attribute.getValue() << ", "
                     << kNameHint;
    return success();
  }
  if (name == kQuantizedAttr) {
    if (!isa<UnitAttr>(attribute.getValue()) ||
        !function.getArgAttr(argument, kParamAttr))
      return where() << "has nn.quantized = " << attribute.getValue()
                     << ", expected a unit attribute beside nn.param";
    return success();
  }
  if (name == "nn.default" || name == "nn.axes")
    return success();
  return where() << "has the unknown attribute '" << name
                 << "', expected nn.param, nn.batch, nn.rng, nn.scalar, "
                    "nn.state or nn.name";
}

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kRuleAttr) {
    auto text = dyn_cast<StringAttr>(attribute.getValue());
    if (!text)
      return op->emitOpError("nn.rule must be a string");
    std::string error;
    auto rule = ShardingRule::parse(text, error);
    if (failed(rule) || failed(rule->verify(op, error)))
      return op->emitOpError("nn.rule: ") << error;
    return success();
  }
  if (name == kRoleAttr) {
    auto role = dyn_cast<StringAttr>(attribute.getValue());
    if (!role || !llvm::is_contained({"forward", "input_gradient",
                                      "weight_gradient", "optimizer"},
                                     role.getValue()))
      return op->emitOpError("nn.role is ")
             << attribute.getValue()
             << ", expected \"forward\", \"input_gradient\", "
                "\"weight_gradient\" or "
                "\"optimizer\"";
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialects/NN/NNOps.cpp.inc"
