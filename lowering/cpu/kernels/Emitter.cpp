//===- Emitter.cpp - Emits the loops of a kernel --------------------------===//

#include "lowering/cpu/kernels/Emitter.h"
#include "lowering/NNToLinalg/ScalarOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::cpu;
using namespace sheaf::lowering;
using namespace sheaf::nn;

/// Each sum is taken in stretches of this many steps, and then over stretches,
/// so that rounding errors grow with the root of the length at most.
static constexpr int64_t kStretch = 64;

/// Vectors that a reduction along a row takes at once, each into accumulators
/// of its own: an addition takes several cycles, and does not wait for the one
/// before it.
static constexpr int64_t kChains = 4;

/// Rows that a sweep adds at once: more would be more streams through memory
/// than are fetched ahead, fewer more loads and stores of sums.
static constexpr int64_t kSweptRows = 2;

//===----------------------------------------------------------------------===//
// Scopes and loops
//===----------------------------------------------------------------------===//

Emitter::At::At(Emitter &emitter, unsigned depth) : emitter(emitter) {
  for (unsigned i = depth + 1; i < emitter.scopes.size(); ++i)
    inner.push_back(std::move(emitter.scopes[i]));
  emitter.scopes.resize(depth + 1);
}

Emitter::At::~At() {
  for (std::unique_ptr<Scope> &scope : inner)
    emitter.scopes.push_back(std::move(scope));
}

Emitter::Emitter(func::FuncOp source, func::FuncOp kernel,
                 int64_t streamedBytes)
    : source(source), kernel(kernel), loc(source.getLoc()),
      streamedBytes(streamedBytes) {
  Block *entry = kernel.addEntryBlock();
  open(entry);
  func::ReturnOp::create(builder(), loc);
  builder().setInsertionPoint(entry->getTerminator());
  unsigned inputs = source.getNumArguments();
  for (auto [tensor, memref] : llvm::zip(
           source.getArguments(), entry->getArguments().take_front(inputs)))
    buffers[tensor] = memref;
  for (unsigned i = 0; i < source.getNumResults(); ++i)
    outputs.push_back(entry->getArgument(inputs + i));
  // One dimension is enough from here on.
  auto flatten = [&](Value memref) -> Value {
    auto type = cast<MemRefType>(memref.getType());
    if (type.getRank() == 1)
      return memref;
    int64_t elements = type.getNumElements();
    auto flat = MemRefType::get({elements}, type.getElementType());
    return make<memref::ReinterpretCastOp>(flat, memref, /*offset=*/int64_t(0),
                                           ArrayRef<int64_t>{elements},
                                           ArrayRef<int64_t>{1});
  };
  for (BlockArgument tensor : source.getArguments())
    buffers[tensor] = flatten(buffers[tensor]);
  for (Value &output : outputs)
    output = flatten(output);
}

void Emitter::open(Block *body) {
  auto scope =
      std::make_unique<Scope>(Scope{OpBuilder::atBlockBegin(body), {}, {}, {}});
  scopes.push_back(std::move(scope));
}

void Emitter::close(Operation *loop) {
  scopes.pop_back();
  builder().setInsertionPointAfter(loop);
}

Value Emitter::constant(int64_t value) { return first(Index(value)); }

Emitter::Values Emitter::loop(Value low, Value high, int64_t step,
                              int64_t lanes, std::pair<int64_t, int64_t> range,
                              ArrayRef<Value> values, Body body) {
  Value by = constant(step);
  auto loop = make<scf::ForOp>(low, high, by, values);
  // What is computed outside of the loop from now on goes in front of it.
  builder().setInsertionPoint(loop);
  open(loop.getBody());
  Index index = indexing.of(indexing.addLoop(range.first, range.second, depth(),
                                             lanes, loop.getInductionVar()));
  Values next =
      body(index, llvm::to_vector(llvm::map_range(
                      loop.getRegionIterArgs(),
                      [](BlockArgument arg) -> Value { return arg; })));
  if (!values.empty())
    make<scf::YieldOp>(next);
  close(loop);
  return Values(loop.getResults());
}

Emitter::Values Emitter::loop(int64_t low, int64_t high, ArrayRef<Value> values,
                              Body body) {
  return loop(constant(low), constant(high), 1, 1, {low, high - 1}, values,
              body);
}

void Emitter::vectorLoop(Value low, Value high,
                         std::pair<int64_t, int64_t> range, int64_t multiple,
                         int64_t lanes, llvm::function_ref<void(Index)> body) {
  auto run = [&](Index index, ArrayRef<Value>) -> Values {
    body(index);
    return {};
  };
  // Wide vectors first, then narrow ones, then single elements, as far as the
  // length may leave some over.
  for (int64_t now = lanes;; now = now > kLanes ? kLanes : 1) {
    if (multiple % now == 0) {
      loop(low, high, now, now, range, {}, run);
      return;
    }
    Value rest =
        make<arith::RemUIOp>(make<arith::SubIOp>(high, low), constant(now));
    Value middle = make<arith::SubIOp>(high, rest);
    loop(low, middle, now, now, range, {}, run);
    low = middle;
    multiple = std::gcd(multiple, now);
  }
}

void Emitter::vectorLoop(int64_t low, int64_t high, int64_t lanes,
                         llvm::function_ref<void(Index)> body) {
  auto run = [&](Index index, ArrayRef<Value>) -> Values {
    body(index);
    return {};
  };
  while (lanes > kLanes && high - low < lanes)
    lanes = kLanes;
  int64_t middle = low + (high - low) / lanes * lanes;
  std::pair<int64_t, int64_t> range{low, high - 1};
  if (middle > low)
    loop(constant(low), constant(middle), lanes, lanes, range, {}, run);
  if (high > middle && lanes > kLanes)
    vectorLoop(middle, high, kLanes, body);
  else if (high > middle)
    loop(constant(middle), constant(high), 1, 1, range, {}, run);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static int64_t lanesOf(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.getDimSize(0) : 1;
}

Value Emitter::spread(Value scalar, int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(scalar.getType()))
    return scalar;
  return make<vector::BroadcastOp>(VectorType::get(lanes, scalar.getType()),
                                   scalar);
}

void Emitter::align(Values &values) {
  int64_t lanes = 1;
  for (Value value : values)
    lanes = std::max(lanes, lanesOf(value));
  for (Value &value : values)
    value = spread(value, lanes);
}

Value Emitter::variable(unsigned number, bool allLanes) {
  // A copy: new variables may move the others.
  Variable v = indexing[number];
  if (v.kind == Variable::Kind::Loop) {
    if (v.lanes == 1 || !allLanes)
      return v.value;
    auto type = VectorType::get(v.lanes, builder().getIndexType());
    Value steps = make<arith::ConstantOp>(DenseElementsAttr::get(type, [&] {
      SmallVector<Attribute> numbers;
      for (int64_t lane = 0; lane < v.lanes; ++lane)
        numbers.push_back(builder().getIndexAttr(lane));
      return numbers;
    }()));
    return make<arith::AddIOp>(spread(v.value, v.lanes), steps);
  }
  if (v.kind == Variable::Kind::Data)
    return v.value;
  Value base = v.lanes == 1 ? first(v.base) : all(v.base);
  Value divisor = spread(constant(v.divisor), lanesOf(base));
  bool positive = indexing.range(v.base).first >= 0;
  if (v.kind == Variable::Kind::Div)
    return positive ? make<arith::DivUIOp>(base, divisor).getResult()
                    : make<arith::FloorDivSIOp>(base, divisor).getResult();
  if (positive)
    return make<arith::RemUIOp>(base, divisor);
  Value quotient = make<arith::FloorDivSIOp>(base, divisor);
  return make<arith::SubIOp>(base, make<arith::MulIOp>(quotient, divisor));
}

Value Emitter::first(const Index &index) {
  At at(*this, indexing.depth(index));
  Value &known = scopes.back()->numbers[{index, false}];
  if (known)
    return known;
  Value sum;
  for (const Index::Term &term : index.terms) {
    Value value = variable(term.variable, false);
    if (term.coefficient != 1)
      value = make<arith::MulIOp>(value, constant(term.coefficient));
    sum = sum ? make<arith::AddIOp>(sum, value).getResult() : value;
  }
  if (!sum)
    sum = make<arith::ConstantIndexOp>(index.constant);
  else if (index.constant)
    sum = make<arith::AddIOp>(sum, constant(index.constant));
  scopes.back()->numbers[{index, false}] = sum;
  return sum;
}

Value Emitter::all(const Index &index) {
  int64_t lanes = indexing.lanes(index).count;
  if (lanes == 1)
    return first(index);
  At at(*this, indexing.depth(index));
  if (Value known = scopes.back()->numbers[{index, true}])
    return known;
  Value sum = spread(constant(index.constant), lanes);
  for (const Index::Term &term : index.terms) {
    Value value = spread(variable(term.variable, true), lanes);
    Value factor = spread(constant(term.coefficient), lanes);
    sum = make<arith::AddIOp>(sum, make<arith::MulIOp>(value, factor));
  }
  scopes.back()->numbers[{index, true}] = sum;
  return sum;
}

Value Emitter::asInteger(const Index &index, Type element) {
  Indexing::Lanes lanes = indexing.lanes(index);
  At at(*this, indexing.depth(index));
  if (lanes.count == 1)
    return make<arith::IndexCastOp>(element, first(index));
  auto type = VectorType::get(lanes.count, element);
  if (!lanes.step)
    return make<arith::IndexCastOp>(type, all(index));
  Value base = make<arith::IndexCastOp>(element, first(index));
  SmallVector<Attribute> steps;
  for (int64_t lane = 0; lane < lanes.count; ++lane)
    steps.push_back(builder().getIntegerAttr(element, lane * *lanes.step));
  return make<arith::AddIOp>(
      spread(base, lanes.count),
      make<arith::ConstantOp>(DenseElementsAttr::get(type, steps)));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value Emitter::bufferOf(Value tensor) {
  if (Value known = buffers.lookup(tensor))
    return known;
  // A dense constant: a global of the module.
  auto constant = tensor.getDefiningOp<ConstantOp>();
  auto module = kernel->getParentOfType<ModuleOp>();
  ElementsAttr value = constant.getValue();
  Type element = value.getElementType();
  int64_t elements = value.getNumElements();
  if (element.isInteger(1)) {
    SmallVector<int8_t> bytes;
    for (bool bit : value.getValues<bool>())
      bytes.push_back(bit);
    element = builder().getI8Type();
    value = DenseElementsAttr::get(RankedTensorType::get({elements}, element),
                                   ArrayRef<int8_t>(bytes));
  } else if (isa<Float4E2M1FNType>(element)) {
    SmallVector<int8_t> bytes;
    for (const APFloat &number : value.getValues<APFloat>())
      bytes.push_back(
          static_cast<int8_t>(number.bitcastToAPInt().getZExtValue()));
    element = builder().getI8Type();
    value = DenseElementsAttr::get(RankedTensorType::get({elements}, element),
                                   ArrayRef<int8_t>(bytes));
  } else if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    value = dense.reshape(RankedTensorType::get({elements}, element));
  }
  auto type = MemRefType::get({elements}, element);
  OpBuilder global(kernel);
  auto op = memref::GlobalOp::create(
      global, loc, (kernel.getName() + "_constant").str(),
      global.getStringAttr("private"), type, value, /*constant=*/true,
      global.getI64IntegerAttr(64));
  // A name that nobody has, in the place where the op is.
  SymbolTable table(module);
  op->remove();
  table.insert(op, kernel->getIterator());
  At at(*this, 0);
  Value buffer = make<memref::GetGlobalOp>(type, op.getName());
  buffers[tensor] = buffer;
  return buffer;
}

Value Emitter::load(Value buffer, const Index &offset, Type element) {
  Indexing::Lanes lanes = indexing.lanes(offset);
  auto type = cast<MemRefType>(buffer.getType());
  Value loaded;
  if (lanes.count == 1) {
    loaded = make<memref::LoadOp>(buffer, first(offset));
  } else if (lanes.step == 1) {
    auto op = make<vector::LoadOp>(
        VectorType::get(lanes.count, type.getElementType()), buffer,
        first(offset));
    loaded = op;
    if (row &&
        isa_and_nonnull<memref::ReinterpretCastOp>(buffer.getDefiningOp()))
      if (int64_t stride = offset.coefficientOf(*row); stride > 0)
        rowLoads.push_back({op,
                            first(indexing.scale(indexing.of(*row), stride)),
                            stride, pass});
  } else {
    SmallVector<Value> elements;
    Value places = lanes.step ? Value() : all(offset);
    for (int64_t lane = 0; lane < lanes.count; ++lane) {
      Value place = lanes.step
                        ? first(indexing.add(offset, Index(lane * *lanes.step)))
                        : make<vector::ExtractOp>(places, lane).getResult();
      elements.push_back(make<memref::LoadOp>(buffer, place));
    }
    loaded = make<vector::FromElementsOp>(
        VectorType::get(lanes.count, type.getElementType()), elements);
  }
  if (isa<Float4E2M1FNType>(element))
    return make<arith::BitcastOp>(
        withElement(loaded.getType(), element),
        make<arith::TruncIOp>(
            withElement(loaded.getType(), builder().getIntegerType(4)),
            loaded));
  if (!element.isInteger(1))
    return loaded;
  return make<arith::CmpIOp>(arith::CmpIPredicate::ne, loaded,
                             buildNumber(builder(), loc, loaded.getType(), 0));
}

void Emitter::store(Value value, Value buffer, const Index &offset) {
  Indexing::Lanes lanes = indexing.lanes(offset);
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  if (isa<Float4E2M1FNType>(getElementTypeOrSelf(value.getType())))
    value = make<arith::BitcastOp>(
        withElement(value.getType(), builder().getIntegerType(4)), value);
  if (getElementTypeOrSelf(value.getType()) != element)
    value = make<arith::ExtUIOp>(withElement(value.getType(), element), value);
  if (lanes.count == 1) {
    make<memref::StoreOp>(value, buffer, first(offset));
    return;
  }
  value = spread(value, lanes.count);
  if (lanes.step == 1) {
    Value at = first(offset);
    auto streamed = streams.find(buffer);
    if (streamed == streams.end()) {
      make<vector::StoreOp>(value, buffer, at);
      return;
    }
    int64_t bytes =
        std::min(lanes.count, kLanes) * element.getIntOrFloatBitWidth() / 8;
    auto storeAt = [&](OpBuilder &builder, bool past) {
      vector::StoreOp::create(builder, loc, value, buffer, at, past,
                              past ? llvm::MaybeAlign(bytes)
                                   : llvm::MaybeAlign());
    };
    if (!streamed->second) {
      storeAt(builder(), true);
      return;
    }
    auto choice = make<scf::IfOp>(streamed->second, /*withElseRegion=*/true);
    auto inThen = choice.getThenBodyBuilder(),
         inElse = choice.getElseBodyBuilder();
    storeAt(inThen, true);
    storeAt(inElse, false);
    return;
  }
  Value places = lanes.step ? Value() : all(offset);
  for (int64_t lane = 0; lane < lanes.count; ++lane) {
    Value place = lanes.step
                      ? first(indexing.add(offset, Index(lane * *lanes.step)))
                      : make<vector::ExtractOp>(places, lane).getResult();
    make<memref::StoreOp>(make<vector::ExtractOp>(value, lane), buffer, place);
  }
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// Whether an op is worth a store and a load.
static bool takesLong(Operation *op) {
  return isa<ExpOp, LogOp, TanhOp, ErfOp, SigmoidOp, SinOp, CosOp, PowOp>(op);
}

Value Emitter::element(Value tensor, const Indices &place) {
  At at(*this, indexing.depth(place));
  std::pair<void *, Indices> key{tensor.getAsOpaquePointer(), place};
  auto &known = scopes.back()->elements;
  if (auto it = known.find(key); it != known.end())
    return it->second;
  Value value = findRow(tensor, place);
  if (value)
    ;
  else if (Operation *op = tensor.getDefiningOp())
    value = compute(op, tensor, place);
  else
    value = load(bufferOf(tensor),
                 indexing.linearize(place, tensorOf(tensor).getShape()),
                 tensorOf(tensor).getElementType());
  scopes.back()->elements[key] = value;
  return value;
}

Value Emitter::compute(Operation *op, Value result, const Indices &place) {
  std::vector<Indices> places;
  Type elementType = tensorOf(result).getElementType();
  if (operandPlaces(indexing, op, place, places)) {
    Values operands;
    for (auto [operand, at] : llvm::zip_equal(op->getOperands(), places))
      operands.push_back(element(operand, at));
    if (!isScalarOp(op))
      return operands[0];
    align(operands);
    // Now that reductions that it needs have had their passes.
    if (takesLong(op))
      longPasses.insert(pass);
    Value value = buildScalar(builder(), loc, op, operands);
    if (auto exp = value.getDefiningOp<math::ExpOp>();
        exp && op->hasAttr(kSummedAttr))
      exp.setFastmath(arith::FastMathFlags::afn | arith::FastMathFlags::ninf);
    return value;
  }
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](ConstantOp constant) -> Value {
        if (!constant.getValue().isSplat())
          return load(bufferOf(constant),
                      indexing.linearize(place, constant.getType().getShape()),
                      elementType);
        At at(*this, 0);
        auto splat = *constant.getValue().getValues<TypedAttr>().begin();
        return make<arith::ConstantOp>(splat);
      })
      .Case([&](IotaOp iota) {
        if (isa<IntegerType>(elementType))
          return asInteger(place[iota.getDim()], elementType);
        Value number = asInteger(place[iota.getDim()], builder().getI64Type());
        return buildCast(builder(), loc, number, elementType);
      })
      .Case([&](RandomOp random) { return computeRandom(random, place); })
      .Case<ReduceOp, EinsumOp>([&](auto) {
        auto group = groupOf.find(op);
        Operation *single[] = {op};
        reduce(group == groupOf.end() ? ArrayRef<Operation *>(single)
                                      : group->second,
               place);
        return scopes.back()->elements.at({result.getAsOpaquePointer(), place});
      })
      .Case([&](PadOp pad) { return computePad(pad, place); })
      .Case([&](ConcatenateOp concat) {
        return computeConcatenate(concat, place);
      })
      .Case([&](GatherOp gather) { return computeGather(gather, place); });
}

/// `number`, which is in [0, size), as an index; `base` is what it depends on.
Index Emitter::clamped(Value number, const Index &base, int64_t size) {
  unsigned variable =
      indexing.addData(0, size - 1, depth(), lanesOf(number), number);
  indexing[variable].base = base;
  return indexing.of(variable);
}

std::pair<Value, Index> Emitter::enter(const Window &window) {
  if (window.alwaysInside(indexing))
    return {Value(), window.inner};
  At at(*this, indexing.depth(window.inner));
  Value inner = all(window.inner);
  auto like = [&](int64_t number) {
    return spread(constant(number), lanesOf(inner));
  };
  Value low = make<arith::CmpIOp>(arith::CmpIPredicate::sge, inner, like(0));
  Value high = make<arith::CmpIOp>(arith::CmpIPredicate::sle, inner,
                                   like(window.last()));
  Value inside = make<arith::AndIOp>(low, high);
  // Outside, something inside is read that nobody uses.
  Value safe = make<arith::MaxSIOp>(
      make<arith::MinSIOp>(inner, like(window.last())), like(0));
  if (window.step > 1) {
    Value rest = make<arith::RemUIOp>(safe, like(window.step));
    inside = make<arith::AndIOp>(
        inside, make<arith::CmpIOp>(arith::CmpIPredicate::eq, rest, like(0)));
    safe = make<arith::DivUIOp>(safe, like(window.step));
  }
  return {inside, clamped(safe, window.inner, window.size)};
}

Value Emitter::computePad(PadOp pad, const Indices &place) {
  RankedTensorType type = pad.getType();
  Value border = buildNumber(builder(), loc, type.getElementType(),
                             pad.getValue().convertToDouble());
  Value inside;
  Indices inner;
  for (auto [i, index] : llvm::enumerate(place)) {
    Window window = padWindow(indexing, pad, i, index);
    if (window.neverInside(indexing))
      return border;
    auto [condition, at] = enter(window);
    inner.push_back(at);
    if (condition && inside) {
      Values both{inside, condition};
      align(both);
      inside = make<arith::AndIOp>(both[0], both[1]);
    } else if (condition) {
      inside = condition;
    }
  }
  Value value = element(pad.getInput(), inner);
  if (!inside)
    return value;
  Values operands{inside, value, border};
  align(operands);
  return make<arith::SelectOp>(operands[0], operands[1], operands[2]);
}

Value Emitter::computeConcatenate(ConcatenateOp concat, const Indices &place) {
  int64_t dim = concat.getDim(), offset = 0;
  Value result;
  for (Value input : concat.getInputs()) {
    int64_t size = tensorOf(input).getDimSize(dim);
    Window window{indexing.add(place[dim], Index(-offset)), size, 1};
    offset += size;
    if (window.neverInside(indexing))
      continue;
    auto [inside, at] = enter(window);
    Indices inner = place;
    inner[dim] = at;
    Value value = element(input, inner);
    if (!inside)
      return value;
    if (!result) {
      result = value;
      continue;
    }
    Values operands{inside, value, result};
    align(operands);
    result = make<arith::SelectOp>(operands[0], operands[1], operands[2]);
  }
  return result;
}

Value Emitter::computeGather(GatherOp gather, const Indices &place) {
  Indices at = gatherIndicesPlace(gather, place);
  int64_t size = gather.getTable().getType().getDimSize(gather.getAxis());
  Value id = element(gather.getIndices(), at);
  Value inside;
  Index row;
  {
    // What follows depends on the index alone.
    At outer(*this, indexing.depth(at));
    Value zero = buildNumber(builder(), loc, id.getType(), 0);
    Value last = buildNumber(builder(), loc, id.getType(), size - 1);
    // A negative index is a large unsigned number.
    inside = make<arith::CmpIOp>(arith::CmpIPredicate::ule, id, last);
    Value safe = make<arith::SelectOp>(inside, id, zero);
    Type type = withElement(id.getType(), builder().getIndexType());
    Value number = make<arith::IndexCastOp>(type, safe);
    row = clamped(
        number,
        indexing.linearize(at, gather.getIndices().getType().getShape()), size);
  }
  Value value =
      element(gather.getTable(), gatherTablePlace(gather, place, row));
  Values operands{
      inside, value,
      buildNumber(builder(), loc, gather.getType().getElementType(), 0)};
  align(operands);
  return make<arith::SelectOp>(operands[0], operands[1], operands[2]);
}

Value Emitter::computeRandom(RandomOp random, const Indices &place) {
  Type i32 = builder().getI32Type();
  ArrayRef<int64_t> shape = random.getWholeShape();
  bool sampled = random.getSampleDim();
  // Modulo 2^32, as the counter is.
  auto add = [&](Value a, Value b) {
    Values both{a, b};
    align(both);
    return Value(make<arith::AddIOp>(both[0], both[1]));
  };
  auto offset = [&](unsigned dim) {
    return element(random.getOffsets(), {Index(dim)});
  };
  Value key[4];
  for (int64_t i = 0; i < 4; ++i)
    key[i] = element(random.getKey(), {Index(i)});
  Value stream = element(random.getStream(), {});
  Index within = indexing.linearize(ArrayRef(place).drop_front(sampled),
                                    shape.drop_front(sampled));
  Value counter = asInteger(within, i32);
  if (random.getOffsets()) {
    uint32_t stride = 1;
    for (unsigned dim = shape.size(); dim-- > sampled;) {
      Values both{offset(dim), buildNumber(builder(), loc, i32,
                                           static_cast<int32_t>(stride))};
      align(both);
      counter = add(counter, make<arith::MulIOp>(both[0], both[1]));
      stride *= static_cast<uint32_t>(shape[dim]);
    }
  }
  Values operands{counter};
  if (sampled) {
    Value sample = add(asInteger(place[0], i32), key[3]);
    operands.push_back(random.getOffsets() ? add(sample, offset(0)) : sample);
  } else {
    operands.push_back(buildNumber(builder(), loc, i32, 0));
  }
  operands.append({stream, key[2], key[0], key[1]});
  align(operands);
  auto [word0, word1] =
      buildPhilox(builder(), loc, ArrayRef(operands).take_front(4),
                  ArrayRef(operands).drop_front(4));
  return buildRandom(builder(), loc, random.getDistribution(), word0, word1,
                     random.getType().getElementType());
}

//===----------------------------------------------------------------------===//
// Rows that are kept
//===----------------------------------------------------------------------===//

Value Emitter::findRow(Value tensor, const Indices &place) {
  for (const std::unique_ptr<Scope> &scope : scopes)
    for (const Row &row : scope->rows) {
      if (row.tensor != tensor)
        continue;
      bool same = true;
      for (auto [i, index] : llvm::enumerate(place))
        same &= i == row.dim || index == row.place[i];
      if (same)
        return load(row.buffer, place[row.dim],
                    tensorOf(tensor).getElementType());
    }
  return {};
}

void Emitter::keepRows(const Index &index, int64_t size,
                       std::vector<Row> &rows) {
  // On the stack, and in a cache of the second level: the logits of a token.
  constexpr int64_t kLimit = 256 << 10;
  unsigned variable = index.terms[0].variable;
  for (auto &[key, value] : scopes.back()->elements) {
    Value tensor = Value::getFromOpaquePointer(key.first);
    Operation *op = tensor.getDefiningOp();
    if (!op || !takesLong(op) || tensor.hasOneUse())
      continue;
    const Indices &place = key.second;
    std::optional<unsigned> dim;
    bool simple = true;
    for (auto [i, at] : llvm::enumerate(place)) {
      if (at == index)
        dim = i;
      else
        simple &= !indexing.dependsOn(at, variable);
    }
    if (!dim || !simple || tensorOf(tensor).getDimSize(*dim) != size)
      continue;
    // The loop for the rest of a row comes after that of its vectors.
    auto known = llvm::find_if(rows, [&](const Row &row) {
      return row.tensor == tensor && row.dim == *dim;
    });
    if (known == rows.end()) {
      Type element = tensorOf(tensor).getElementType();
      int64_t bytes = size * element.getIntOrFloatBitWidth() / 8;
      if (element.getIntOrFloatBitWidth() < 8 || keptBytes + bytes > kLimit)
        continue;
      keptBytes += bytes;
      Value buffer;
      {
        At at(*this, 0);
        buffer = make<memref::AllocaOp>(MemRefType::get({size}, element),
                                        builder().getI64IntegerAttr(64));
      }
      rows.push_back({tensor, place, *dim, buffer});
      known = std::prev(rows.end());
    }
    store(value, known->buffer, index);
  }
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void Emitter::reduce(ArrayRef<Operation *> group, const Indices &place) {
  // The loops: joined as far as all operands allow.
  SmallVector<int64_t> sizes = reducedSizes(group[0]), joined;
  Demand demand(indexing);
  SmallVector<unsigned> variables;
  SmallVector<int64_t> pieces;
  int64_t alongRows = 0, across = 0;
  for (bool again : {false, true}) {
    Demand next(indexing);
    Indices reduced;
    variables.clear();
    ArrayRef<int64_t> now = again ? joined : sizes;
    for (int64_t size : now) {
      variables.push_back(indexing.addLoop(0, size - 1, depth() + 1));
      reduced.push_back(indexing.of(variables.back()));
    }
    Indices original =
        again ? indexing.delinearize(indexing.linearize(reduced, now), sizes)
              : Indices(reduced);
    for (Operation *op : group)
      for (auto [operand, at] : llvm::zip_equal(
               op->getOperands(), reducedPlaces(op, place, original)))
        (void)next.visit(operand, at);
    if (!again) {
      Indices offsets;
      for (const Demand::Access &access : next.accesses)
        offsets.push_back(access.offset);
      joined = joinLoops(indexing, variables, sizes, offsets);
      continue;
    }
    if (!joined.empty()) {
      pieces = cutLoop(next, variables.back(), joined.back());
      for (const Demand::Access &access : next.accesses) {
        int64_t coefficient = access.offset.coefficientOf(variables.back());
        alongRows += coefficient == 1;
        across += access.tensor && coefficient > 1;
      }
    }
  }

  int64_t placeLanes = 1;
  for (const Index &index : place)
    placeLanes = std::max(placeLanes, indexing.lanes(index).count);
  // Vectors along the last loop, where the place is one element and memory is
  // read in order.
  bool vectors = placeLanes == 1 && !joined.empty() &&
                 joined.back() >= kLanes && alongRows >= across;

  // What is carried: the accumulator of each op, first the vectors, if any,
  // then those for the rest of the last loop.
  SmallVector<ReduceKind> kinds;
  Values carried;
  auto addAccumulators = [&](int64_t lanes) {
    for (Operation *op : group) {
      Type element =
          getAccumulatorType(tensorOf(op->getResult(0)).getElementType());
      Type type = lanes > 1 ? VectorType::get(lanes, element) : element;
      kinds.push_back(kindOf(op));
      carried.push_back(buildNeutral(builder(), loc, kinds.back(), type));
    }
  };
  if (vectors)
    addAccumulators(kLanes);
  addAccumulators(placeLanes);
  unsigned count = group.size();

  // One row in one pass: what is costly and needed again is kept.
  std::vector<Row> rows;
  bool keeps = placeLanes == 1 && joined.size() == 1 && sizes.size() == 1 &&
               pieces.size() == 1;

  Indices loops;
  auto step = [&](ArrayRef<Value> accumulators) -> Values {
    Indices original =
        indexing.delinearize(indexing.linearize(loops, joined), sizes);
    Values result(accumulators);
    bool lanes = !loops.empty() && indexing.lanes(loops.back()).count > 1;
    unsigned offset = vectors && !lanes ? count : 0;
    for (auto [i, op] : llvm::enumerate(group)) {
      Value &accumulator = result[offset + i];
      Type element = getElementTypeOrSelf(accumulator.getType());
      Values inputs;
      for (auto [operand, at] : llvm::zip_equal(
               op->getOperands(), reducedPlaces(op, place, original)))
        inputs.push_back(
            buildCast(builder(), loc, this->element(operand, at), element));
      inputs.push_back(accumulator);
      align(inputs);
      if (inputs.size() == 3)
        accumulator = make<math::FmaOp>(inputs[0], inputs[1], inputs[2]);
      else if (op->hasAttr(kShiftAttr)) // one instruction
        accumulator =
            make<arith::SelectOp>(make<arith::CmpFOp>(arith::CmpFPredicate::OGT,
                                                      inputs[0], inputs[1]),
                                  inputs[0], inputs[1]);
      else
        accumulator =
            buildAccumulate(builder(), loc, kindOf(op), inputs[0], inputs[1]);
    }
    if (keeps)
      keepRows(loops.back(), joined.back(), rows);
    return result;
  };
  auto neutral = [&](ArrayRef<Value> like) {
    Values result;
    for (auto [kind, value] : llvm::zip_equal(kinds, like))
      result.push_back(buildNeutral(builder(), loc, kind, value.getType()));
    return result;
  };
  auto combine = [&](ArrayRef<Value> a, ArrayRef<Value> b) {
    Values result;
    for (auto [kind, left, right] : llvm::zip_equal(kinds, a, b))
      result.push_back(buildCombine(builder(), loc, kind, left, right));
    return result;
  };
  bool sums = llvm::any_of(kinds, [](ReduceKind kind) {
    return kind != ReduceKind::Max && kind != ReduceKind::Min;
  });

  // One loop in stretches, if it is long.
  auto stretched = [&](int64_t low, int64_t high, int64_t lanes, Values values,
                       Body body) -> Values {
    std::pair<int64_t, int64_t> range{low, high - 1};
    int64_t stretch = kStretch * lanes;
    // The chains of one stretch: step i belongs to chain i mod `chains`. The
    // first goes on with what is carried.
    int64_t chains = lanes > 1 && count <= 2 ? kChains : lanes > 1 ? 2 : 1;
    auto chained = [&](Value from, Value to, bool whole,
                       ArrayRef<Value> start) {
      if (!whole)
        return loop(from, to, lanes, lanes, range, start, body);
      Values all(start);
      for (int64_t i = 1; i < chains; ++i)
        llvm::append_range(all, neutral(start));
      std::pair<int64_t, int64_t> within{low, high - 1 - (chains - 1) * lanes};
      all = loop(from, to, chains * lanes, lanes, within, all,
                 [&](Index index, ArrayRef<Value> now) {
                   Values next;
                   for (int64_t i = 0; i < chains; ++i)
                     llvm::append_range(
                         next, body(indexing.add(index, Index(i * lanes)),
                                    now.slice(i * start.size(), start.size())));
                   return next;
                 });
      for (int64_t half = chains / 2; half >= 1; half /= 2) {
        size_t size = half * start.size();
        Values both;
        for (int64_t i = 0; i < half; ++i)
          llvm::append_range(
              both, combine(ArrayRef(all).slice(i * start.size(), start.size()),
                            ArrayRef(all).slice(size + i * start.size(),
                                                start.size())));
        all = both;
      }
      return all;
    };
    auto piece = [&](int64_t from, int64_t to, ArrayRef<Value> start) {
      int64_t step = chains * lanes, middle = from + (to - from) / step * step;
      Values now(start);
      if (chains > 1 && middle > from)
        now = chained(constant(from), constant(middle), true, now);
      else
        middle = from;
      if (to > middle)
        now = chained(constant(middle), constant(to), false, now);
      return now;
    };
    if (!sums || (high - low) <= 2 * stretch)
      return piece(low, high, values);
    int64_t middle = low + (high - low) / stretch * stretch;
    values =
        loop(constant(low), constant(middle), stretch, 1, {low, middle - 1},
             values, [&](Index start, ArrayRef<Value> totals) {
               Value from = first(start);
               Value to = make<arith::AddIOp>(from, constant(stretch));
               return combine(totals,
                              chained(from, to, chains > 1, neutral(totals)));
             });
    if (high > middle)
      values = combine(values, piece(middle, high, neutral(values)));
    return values;
  };

  std::function<Values(unsigned, ArrayRef<Value>)> nest =
      [&](unsigned dim, ArrayRef<Value> values) -> Values {
    if (dim == joined.size())
      return step(values);
    auto body = [&](Index index, ArrayRef<Value> inner) {
      loops.push_back(index);
      Values result = nest(dim + 1, inner);
      loops.pop_back();
      return result;
    };
    if (!vectors || dim + 1 < joined.size())
      return stretched(0, joined[dim], 1, Values(values), body);
    Values now(values);
    int64_t low = 0;
    for (int64_t high : pieces) {
      int64_t middle = low + (high - low) / kLanes * kLanes;
      if (middle > low)
        now = stretched(low, middle, kLanes, now, body);
      if (high > middle)
        now = loop(middle, high, now, body);
      low = high;
    }
    return now;
  };
  Values totals = nest(0, carried);
  ++pass;
  llvm::append_range(scopes.back()->rows, rows);

  for (auto [i, op] : llvm::enumerate(group)) {
    ReduceKind kind = kindOf(op);
    Value total = totals[i];
    if (vectors) {
      for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
        auto part = [&](int64_t from) {
          return make<vector::ExtractStridedSliceOp>(
                     total, ArrayRef<int64_t>{from}, ArrayRef<int64_t>{half},
                     ArrayRef<int64_t>{1})
              .getResult();
        };
        total = buildCombine(builder(), loc, kind, part(0), part(half));
      }
      total = make<vector::ExtractOp>(total, int64_t(0));
      total = buildCombine(builder(), loc, kind, total, totals[count + i]);
    }
    if (kind == ReduceKind::Mean) {
      int64_t elements = 1;
      for (int64_t size : sizes)
        elements *= size;
      total = make<arith::DivFOp>(
          total, buildNumber(builder(), loc, total.getType(), elements));
    }
    if (op->hasAttr(kShiftAttr)) {
      // Infinity less infinity would be NaN with another sign than what may
      // stand beside it.
      Type type = total.getType();
      Value isInfinite =
          make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, total,
                              buildNumber(builder(), loc, type, INFINITY));
      total = make<arith::SelectOp>(
          isInfinite, buildNumber(builder(), loc, type, NAN), total);
    }
    Value result = op->getResult(0);
    total = buildCast(builder(), loc, total, tensorOf(result).getElementType());
    scopes.back()->elements[{result.getAsOpaquePointer(), place}] = total;
  }
}

void Emitter::reduceFirst(Value tensor, const Indices &place) {
  Demand demand(indexing);
  (void)demand.visit(tensor, place);
  for (const Demand::Reduction &reduction : demand.reductions)
    if (!reduction.nested && indexing.depth(reduction.place) < depth() &&
        llvm::all_of(reduction.place, [&](const Index &index) {
          return indexing.isKnown(index);
        }))
      element(reduction.op->getResult(0), reduction.place);
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Value Emitter::addressOf(Value buffer) {
  At at(*this, 0);
  return make<memref::ExtractAlignedPointerAsIndexOp>(buffer);
}

void Emitter::chooseStreams(const Plan &plan, ValueRange results) {
  unsigned count = plan.sizes.size();
  if (!plan.lane || plan.lanes != kLanes || *plan.lane + 1 != count ||
      plan.inner.back() != *plan.lane)
    return;
  // What works on several tensors in place, as an optimizer does, would have a
  // choice for each. Short runs would be little but their ends.
  int64_t length = plan.sizes[*plan.lane];
  if ((plan.groups.empty() && results.size() > 1) || plan.pieces.size() > 1 ||
      (length % kLanes != 0 && length < 32 * kLanes))
    return;
  for (auto [i, result] : llvm::enumerate(results)) {
    RankedTensorType type = tensorOf(result);
    int64_t elementBytes = type.getElementTypeBitWidth() / 8;
    int64_t bytes = type.getNumElements() * elementBytes;
    if (plan.loopsOf[i] != count || elementBytes == 0 || bytes < streamedBytes)
      continue;
    // Vectors begin at whole lines of the first; what lies otherwise, or takes
    // the place of an operand, is stored as usual.
    Value condition;
    auto require = [&](Value holds) {
      condition =
          condition ? make<arith::AndIOp>(condition, holds).getResult() : holds;
    };
    Value address = addressOf(outputs[i]);
    if (!streamed) {
      streamed = i;
    } else {
      if (type.getElementType() !=
          tensorOf(results[*streamed]).getElementType())
        continue;
      Value apart = make<arith::SubIOp>(address, addressOf(outputs[*streamed]));
      Value rest =
          make<arith::AndIOp>(apart, constant(kLanes * elementBytes - 1));
      require(make<arith::CmpIOp>(arith::CmpIPredicate::eq, rest, constant(0)));
    }
    for (size_t pair = 0; pair + 1 < plan.inPlace.size(); pair += 2)
      if (plan.inPlace[pair + 1] == static_cast<int64_t>(i)) {
        Value input = bufferOf(source.getArgument(plan.inPlace[pair]));
        require(make<arith::CmpIOp>(arith::CmpIPredicate::ne, address,
                                    addressOf(input)));
      }
    streams[outputs[i]] = condition;
  }
}

void Emitter::prefetchRows(scf::ForOp items) {
  // Where a row is gone through several times, memory would rest after the
  // first. In the last two passes the next row is fetched, half of it in each;
  // all of it in the last, where that alone takes long.
  struct Passes {
    unsigned first, beforeLast, last;
  };
  llvm::MapVector<Value, Passes> passesOf;
  for (RowLoad &load : rowLoads) {
    auto [it, isNew] = passesOf.try_emplace(
        load.op.getBase(), Passes{load.pass, load.pass, load.pass});
    Passes &passes = it->second;
    if (load.pass > passes.last) {
      passes.beforeLast = passes.last;
      passes.last = load.pass;
    }
  }
  auto takesAll = [&](const Passes &passes) {
    return longPasses.contains(passes.last) &&
           !longPasses.contains(passes.beforeLast);
  };
  auto isWanted = [&](RowLoad &load) {
    Passes passes = passesOf.lookup(load.op.getBase());
    return passes.first != passes.last &&
           load.pass >= (takesAll(passes) ? passes.last : passes.beforeLast);
  };
  int64_t rowBytes = 0;
  llvm::SmallPtrSet<Operation *, 4> seen;
  for (RowLoad &load : rowLoads)
    if (isWanted(load) && seen.insert(load.op.getBase().getDefiningOp()).second)
      rowBytes +=
          load.stride * load.op.getVectorType().getElementTypeBitWidth() / 8;
  // Into the second level where the first could not hold it; not at all where
  // it would not stay there.
  if (rowBytes == 0 || rowBytes > (512 << 10))
    return;
  OpBuilder start = OpBuilder::atBlockBegin(items.getBody());
  auto number = [&](OpBuilder &builder, int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value).getResult();
  };
  Value next = arith::AddIOp::create(start, loc, items.getInductionVar(),
                                     number(start, 1));
  Value isThere = arith::CmpIOp::create(start, loc, arith::CmpIPredicate::slt,
                                        next, items.getUpperBound());
  llvm::SmallDenseMap<int64_t, Value> steps;
  for (RowLoad &load : rowLoads) {
    if (!isWanted(load))
      continue;
    Value &step = steps[load.stride];
    if (!step)
      step = arith::SelectOp::create(
          start, loc, isThere, number(start, load.stride), number(start, 0));
    // Of a row of n elements, at column c: element c/2 or (n + c)/2, or c.
    OpBuilder after(load.op);
    Passes passes = passesOf.lookup(load.op.getBase());
    Value column =
        arith::SubIOp::create(after, loc, load.op.getIndices()[0], load.row);
    if (!takesAll(passes)) {
      column = arith::ShRUIOp::create(after, loc, column, number(after, 1));
      if (load.pass == passes.last)
        column = arith::AddIOp::create(after, loc, column,
                                       number(after, load.stride / 2));
    }
    Value at = arith::AddIOp::create(
        after, loc, arith::AddIOp::create(after, loc, load.row, column), step);
    memref::PrefetchOp::create(after, loc, load.op.getBase(), at,
                               /*isWrite=*/false,
                               /*localityHint=*/rowBytes <= (8 << 10) ? 3 : 2,
                               /*isDataCache=*/true);
  }
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void Emitter::fetchRows(ValueRange results, const Indices &place,
                        const Index &row, int64_t count, const Index &column,
                        Value ahead) {
  auto accessesAt = [&](const Index &at) {
    Demand demand(indexing);
    for (Value result : results) {
      auto op = result.getDefiningOp<ReduceOp>();
      (void)demand.visit(op.getInput(), reducedPlaces(op, place, {at})[0]);
    }
    return demand.accesses;
  };
  unsigned variable = column.terms[0].variable;
  auto here = accessesAt(row), next = accessesAt(indexing.add(row, Index(1)));
  std::set<std::pair<void *, Index>> seen;
  for (auto [access, other] : llvm::zip_equal(here, next)) {
    Index step = indexing.add(other.offset, indexing.scale(access.offset, -1));
    if (!access.tensor || access.tensor.getDefiningOp() ||
        !indexing.isKnown(access.offset) || !step.isConstant() ||
        access.offset.coefficientOf(variable) != 1 ||
        !seen.insert({access.tensor.getAsOpaquePointer(), access.offset})
             .second)
      continue;
    Value buffer = bufferOf(access.tensor);
    Value distance = make<arith::MulIOp>(ahead, constant(step.constant));
    for (int64_t i = 0; i < count; ++i) {
      Value at = first(indexing.add(access.offset, Index(i * step.constant)));
      make<memref::PrefetchOp>(buffer,
                               ValueRange{make<arith::AddIOp>(at, distance)},
                               /*isWrite=*/false, /*localityHint=*/2,
                               /*isDataCache=*/true);
    }
  }
}

void Emitter::emitSweeps(const Plan &plan) {
  auto results =
      cast<func::ReturnOp>(source.front().getTerminator()).getOperands();
  int64_t rows = reducedSizes(results[0].getDefiningOp())[0];
  int64_t whole = rows / kSweptRows * kSweptRows;
  Indices loops(plan.sizes.size());
  // Takes `count` rows from `row` on, the first of the item or others, and
  // fetches those that are `ahead` further.
  auto sweep = [&](const Index &row, int64_t count, bool isFirst, Value ahead) {
    vectorLoop(0, plan.sizes[*plan.lane], plan.lanes, [&](Index column) {
      loops[*plan.lane] = column;
      Index offset = indexing.linearize(loops, plan.sizes);
      fetchRows(results,
                indexing.delinearize(offset, tensorOf(results[0]).getShape()),
                row, count, column, ahead);
      for (auto [result, output] : llvm::zip(results, outputs)) {
        auto op = result.getDefiningOp<ReduceOp>();
        Indices place =
            indexing.delinearize(offset, tensorOf(result).getShape());
        Type element = tensorOf(result).getElementType(), type = element;
        if (int64_t lanes = indexing.lanes(column).count; lanes > 1)
          type = VectorType::get(lanes, element);
        Value sum = isFirst ? buildNeutral(builder(), loc, op.getKind(), type)
                            : load(output, offset, element);
        for (int64_t i = 0; i < count; ++i) {
          Index reduced[] = {indexing.add(row, Index(i))};
          Values both{this->element(op.getInput(),
                                    reducedPlaces(op, place, reduced)[0]),
                      sum};
          align(both);
          sum = buildAccumulate(builder(), loc, op.getKind(), both[0], both[1]);
        }
        store(sum, output, offset);
      }
    });
  };
  auto arguments = kernel.getArguments();
  loop(arguments.drop_back().back(), arguments.back(), 1, 1,
       {0, plan.extent - 1}, {}, [&](Index item, ArrayRef<Value>) -> Values {
         SmallVector<int64_t> shape;
         for (unsigned dim : plan.items)
           shape.push_back(plan.sizes[dim]);
         for (auto [dim, index] :
              llvm::zip(plan.items, indexing.delinearize(item, shape)))
           loops[dim] = index;
         Value more = make<arith::CmpIOp>(
             arith::CmpIPredicate::slt,
             make<arith::AddIOp>(first(item), constant(1)), arguments.back());
         Value none = constant(0), some = constant(kSweptRows);
         Value atEnd = make<arith::SelectOp>(more, some, none);
         sweep(Index(0), std::min(rows, kSweptRows), /*isFirst=*/true,
               rows >= 2 * kSweptRows ? some : none);
         if (whole > kSweptRows)
           loop(constant(kSweptRows), constant(whole), kSweptRows, 1,
                {kSweptRows, whole - kSweptRows}, {},
                [&](Index row, ArrayRef<Value>) -> Values {
                  Value isLast =
                      make<arith::CmpIOp>(arith::CmpIPredicate::eq, first(row),
                                          constant(whole - kSweptRows));
                  sweep(row, kSweptRows, /*isFirst=*/false,
                        make<arith::SelectOp>(isLast, atEnd, some));
                  return {};
                });
         if (whole > 0 && rows > whole)
           sweep(Index(whole), rows - whole, /*isFirst=*/false, none);
         return {};
       });
}

void Emitter::emit(const Plan &plan) {
  if (plan.sweeps)
    return emitSweeps(plan);
  for (const auto &group : plan.groups)
    for (Operation *op : group)
      groupOf[op] = group;
  auto results =
      cast<func::ReturnOp>(source.front().getTerminator()).getOperands();
  unsigned count = plan.sizes.size();
  Indices loops(count);
  Value begin = kernel.getArguments().drop_back().back();
  Value end = kernel.getArguments().back();
  chooseStreams(plan, results);

  // Where the vector loop over [from, to) meets the first whole line of what is
  // streamed.
  auto firstLine = [&](Value from, Value to) -> Value {
    int64_t bytes = tensorOf(results[*streamed]).getElementTypeBitWidth() / 8;
    Indices start(loops);
    start[*plan.lane] = Index(0);
    Value offset =
        make<arith::AddIOp>(first(indexing.linearize(start, plan.sizes)), from);
    Value address =
        make<arith::AddIOp>(addressOf(outputs[*streamed]),
                            make<arith::MulIOp>(offset, constant(bytes)));
    Value rest = make<arith::AndIOp>(make<arith::SubIOp>(constant(0), address),
                                     constant(kLanes * bytes - 1));
    Value count = make<arith::DivUIOp>(rest, constant(bytes));
    return make<arith::MinSIOp>(make<arith::AddIOp>(from, count), to);
  };
  auto streamLoop = [&](Value from, Value to, std::pair<int64_t, int64_t> range,
                        llvm::function_ref<void(Index)> body) {
    Value line = firstLine(from, to);
    vectorLoop(from, line, range, /*multiple=*/1, /*lanes=*/1, body);
    vectorLoop(line, to, range, /*multiple=*/1, plan.lanes, body);
  };

  // Stores the results whose loops are those that are open.
  auto stores = [&](unsigned opened) {
    std::vector<std::tuple<Value, Value, Index>> stored;
    for (auto [result, own, output] :
         llvm::zip(results, plan.loopsOf, outputs)) {
      if (own != opened)
        continue;
      Index offset = indexing.linearize(ArrayRef(loops).take_front(own),
                                        ArrayRef(plan.sizes).take_front(own));
      Indices place = indexing.delinearize(offset, tensorOf(result).getShape());
      reduceFirst(result, place);
      stored.emplace_back(element(result, place), output, offset);
    }
    for (auto [value, output, offset] : stored)
      store(value, output, offset);
  };

  Index block;
  std::function<void(unsigned)> nest = [&](unsigned level) {
    stores(plan.items.size() + level);
    if (level == plan.inner.size())
      return;
    unsigned dim = plan.inner[level];
    auto body = [&](Index index) {
      loops[dim] = index;
      nest(level + 1);
    };
    int64_t size = plan.sizes[dim];
    if (plan.lane != dim) {
      loop(0, size, {}, [&](Index index, ArrayRef<Value>) -> Values {
        body(index);
        return {};
      });
    } else if (plan.block) {
      Index low = indexing.scale(block, plan.block);
      Value from = first(low);
      Value to = first(indexing.add(low, Index(plan.block)));
      if (size % plan.block)
        to = make<arith::MinSIOp>(to, constant(size));
      if (streamed)
        streamLoop(from, to, {0, size - 1}, body);
      else
        vectorLoop(from, to, {0, size - 1}, std::gcd(size, plan.block),
                   plan.lanes, body);
    } else {
      int64_t low = 0;
      for (int64_t high : plan.pieces) {
        if (streamed)
          streamLoop(constant(low), constant(high), {low, high - 1}, body);
        else
          vectorLoop(low, high, plan.lanes, body);
        low = high;
      }
    }
  };
  scf::ForOp items;
  loop(begin, end, 1, 1, {0, plan.extent - 1}, {},
       [&](Index item, ArrayRef<Value>) -> Values {
         SmallVector<int64_t> shape;
         for (unsigned dim : plan.items)
           shape.push_back(plan.sizes[dim]);
         shape.push_back(plan.blocks());
         Indices at = indexing.delinearize(item, shape);
         block = at.back();
         for (auto [dim, index] : llvm::zip(plan.items, at))
           loops[dim] = index;
         if (plan.items.size() == 1 && plan.blocks() == 1 && at[0] == item)
           row = item.terms[0].variable;
         items = cast<scf::ForOp>(builder().getInsertionBlock()->getParentOp());
         nest(0);
         return {};
       });
  if (row)
    prefetchRows(items);
}

void Emitter::emitTopK(TopKOp op) {
  RankedTensorType type = op.getInput().getType();
  int64_t length = type.getShape().back(), k = op.getK();
  int64_t rows = type.getNumElements() / length;
  Type number = type.getElementType(), i32 = builder().getI32Type();
  auto i32Constant = [&](int64_t value) {
    return buildNumber(builder(), loc, i32, value);
  };
  // Whether (a, i) comes before (b, j) in the order of the results.
  auto before = [&](Value a, Value i, Value b, Value j) -> Value {
    Value less = buildGreater(builder(), loc, b, a);
    Value lower = make<arith::CmpIOp>(arith::CmpIPredicate::slt, i, j);
    Value greater = buildGreater(builder(), loc, a, b);
    Value one = make<arith::ConstantOp>(builder().getBoolAttr(true));
    Value tie = make<arith::AndIOp>(make<arith::XOrIOp>(less, one), lower);
    return make<arith::OrIOp>(greater, tie);
  };
  auto input = [&](Index row, Index at) {
    Indices place = indexing.delinearize(row, type.getShape().drop_back());
    place.push_back(at);
    return element(op.getInput(), place);
  };
  auto arguments = kernel.getArguments();
  loop(arguments.drop_back().back(), arguments.back(), 1, 1, {0, rows - 1}, {},
       [&](Index row, ArrayRef<Value>) -> Values {
         // The j-th is the first of those that come after the one before it.
         Value none = buildNumber(builder(), loc, number, 0);
         loop(0, k, {none, i32Constant(-1)},
              [&](Index j, ArrayRef<Value> last) -> Values {
                Values best =
                    loop(0, length, {none, i32Constant(-1)},
                         [&](Index at, ArrayRef<Value> best) -> Values {
                           Value x = input(row, at), i = asInteger(at, i32);
                           Value minus = i32Constant(-1);
                           Value isFirst = make<arith::CmpIOp>(
                               arith::CmpIPredicate::eq, last[1], minus);
                           Value left = make<arith::OrIOp>(
                               isFirst, before(last[0], last[1], x, i));
                           Value isNone = make<arith::CmpIOp>(
                               arith::CmpIPredicate::eq, best[1], minus);
                           Value better = make<arith::OrIOp>(
                               isNone, before(x, i, best[0], best[1]));
                           Value take = make<arith::AndIOp>(left, better);
                           return {make<arith::SelectOp>(take, x, best[0]),
                                   make<arith::SelectOp>(take, i, best[1])};
                         });
                Index offset = indexing.add(indexing.scale(row, k), j);
                for (auto [value, output] : llvm::zip(best, outputs))
                  store(value, output, offset);
                return best;
              });
         return {};
       });
}

/// Counts the assignments of each expert, gives the experts their rows one
/// after the other, and puts each assignment into the next free row of its
/// expert.
void Emitter::emitExpertSort(ExpertSortOp op) {
  ArrayRef<int64_t> shape = op.getExperts().getType().getShape();
  int64_t groups = shape[0], all = shape[1] * shape[2], experts = op.getCount();
  int64_t rows = op.getOrder().getType().getDimSize(1);
  int64_t capacity = std::min<int64_t>(op.getCapacity().value_or(all), all);
  Type i32 = builder().getI32Type();
  Value from = bufferOf(op.getExperts());
  Value order = outputs[0], position = outputs[1], offsets = outputs[2];
  Value counts = make<memref::AllocaOp>(MemRefType::get({experts}, i32),
                                        builder().getI64IntegerAttr(64));
  auto arguments = kernel.getArguments();
  loop(arguments.drop_back().back(), arguments.back(), 1, 1, {0, groups - 1},
       {}, [&](Index item, ArrayRef<Value>) -> Values {
         Value group = first(item);
         OpBuilder &b = builder();
         auto index = [&](OpBuilder &b, int64_t value) -> Value {
           return arith::ConstantIndexOp::create(b, loc, value);
         };
         auto number = [&](OpBuilder &b, int64_t value) -> Value {
           return arith::ConstantIntOp::create(b, loc, i32, value);
         };
         auto add = [&](OpBuilder &b, Value x, Value y) -> Value {
           return arith::AddIOp::create(b, loc, x, y);
         };
         auto less = [&](OpBuilder &b, Value x, Value y) -> Value {
           return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x,
                                        y);
         };
         auto start = [&](int64_t length) -> Value {
           return arith::MulIOp::create(b, loc, group, index(b, length));
         };
         Value firstAssignment = start(all), firstRow = start(rows),
               firstOffset = start(experts + 1);
         auto forEach = [&](Value low, int64_t high,
                            llvm::function_ref<void(OpBuilder &, Value)> body) {
           scf::ForOp::create(b, loc, low, index(b, high), index(b, 1),
                              ValueRange(),
                              [&](OpBuilder &b, Location, Value i, ValueRange) {
                                body(b, i);
                                scf::YieldOp::create(b, loc);
                              });
         };
         auto clearCounts = [&] {
           forEach(index(b, 0), experts, [&](OpBuilder &b, Value expert) {
             memref::StoreOp::create(b, loc, number(b, 0), counts, expert);
           });
         };
         // Runs `inside` for an assignment to an expert that exists.
         auto forEachAssignment =
             [&](llvm::function_ref<void(OpBuilder &, Value, Value, Value)>
                     inside) {
               forEach(index(b, 0), all, [&](OpBuilder &b, Value i) {
                 Value at = add(b, firstAssignment, i);
                 Value expert = memref::LoadOp::create(b, loc, from, at);
                 // A negative number is a large one without its sign.
                 Value known =
                     arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                           expert, number(b, experts));
                 scf::IfOp::create(b, loc, known, [&](OpBuilder &b, Location) {
                   Value place = arith::IndexCastOp::create(
                       b, loc, b.getIndexType(), expert);
                   inside(b, i, at, place);
                   scf::YieldOp::create(b, loc);
                 });
               });
             };

         clearCounts();
         forEachAssignment([&](OpBuilder &b, Value, Value, Value expert) {
           Value count = memref::LoadOp::create(b, loc, counts, expert);
           memref::StoreOp::create(b, loc, add(b, count, number(b, 1)), counts,
                                   expert);
         });
         memref::StoreOp::create(b, loc, number(b, 0), offsets, firstOffset);
         forEach(index(b, 0), experts, [&](OpBuilder &b, Value expert) {
           Value count = memref::LoadOp::create(b, loc, counts, expert);
           Value most = number(b, capacity);
           Value kept = arith::MinSIOp::create(b, loc, count, most);
           Value at = add(b, firstOffset, expert);
           Value before = memref::LoadOp::create(b, loc, offsets, at);
           memref::StoreOp::create(b, loc, add(b, before, kept), offsets,
                                   add(b, at, index(b, 1)));
         });
         clearCounts();
         forEach(index(b, 0), all, [&](OpBuilder &b, Value i) {
           memref::StoreOp::create(b, loc, number(b, -1), position,
                                   add(b, firstAssignment, i));
         });
         forEachAssignment([&](OpBuilder &b, Value i, Value at, Value expert) {
           Value count = memref::LoadOp::create(b, loc, counts, expert);
           memref::StoreOp::create(b, loc, add(b, count, number(b, 1)), counts,
                                   expert);
           scf::IfOp::create(
               b, loc, less(b, count, number(b, capacity)),
               [&](OpBuilder &b, Location) {
                 Value begin = memref::LoadOp::create(
                     b, loc, offsets, add(b, firstOffset, expert));
                 Value row = add(b, begin, count);
                 memref::StoreOp::create(b, loc, row, position, at);
                 Value place =
                     arith::IndexCastOp::create(b, loc, b.getIndexType(), row);
                 Value assignment = arith::IndexCastOp::create(b, loc, i32, i);
                 memref::StoreOp::create(b, loc, assignment, order,
                                         add(b, firstRow, place));
                 scf::YieldOp::create(b, loc);
               });
         });
         Value last = memref::LoadOp::create(
             b, loc, offsets, add(b, firstOffset, index(b, experts)));
         Value end = arith::IndexCastOp::create(b, loc, b.getIndexType(), last);
         forEach(end, rows, [&](OpBuilder &b, Value row) {
           memref::StoreOp::create(b, loc, number(b, -1), order,
                                   add(b, firstRow, row));
         });
         return {};
       });
}

void Emitter::emitGatherGrad(GatherGradOp op, int64_t rowBlock, Value base) {
  RankedTensorType type = op.getType(), ids = op.getIndices().getType();
  int64_t axis = op.getAxis(), batch = op.getBatch();
  int64_t rows = type.getDimSize(axis);
  SmallVector<int64_t> outer(type.getShape().take_front(axis));
  SmallVector<int64_t> chosen(ids.getShape().drop_front(batch));
  SmallVector<int64_t> slice(type.getShape().drop_front(axis + 1));
  auto product = [](ArrayRef<int64_t> sizes) {
    int64_t elements = 1;
    for (int64_t size : sizes)
      elements *= size;
    return elements;
  };
  int64_t width = product(slice), count = product(chosen);
  int64_t blocks = llvm::divideCeil(rows, rowBlock);
  Type element = type.getElementType();
  Type wide = getAccumulatorType(element);

  auto arguments = kernel.getArguments();
  // Where the gradient is added in place, nothing needs to be written first.
  Value apart;
  if (base) {
    Value from = make<memref::ExtractAlignedPointerAsIndexOp>(bufferOf(base));
    Value to = make<memref::ExtractAlignedPointerAsIndexOp>(outputs[0]);
    apart = make<arith::CmpIOp>(arith::CmpIPredicate::ne, from, to);
  }
  loop(arguments.drop_back().back(), arguments.back(), 1, 1,
       {0, product(outer) * blocks - 1}, {},
       [&](Index item, ArrayRef<Value>) -> Values {
         Indices at = indexing.delinearize(item, {product(outer), blocks});
         Index part = at[0];
         Indices front = indexing.delinearize(part, outer);
         Value low = first(indexing.scale(at[1], rowBlock));
         Value high = make<arith::MinSIOp>(
             make<arith::AddIOp>(low, constant(rowBlock)), constant(rows));
         auto offset = [&](Index row, Index column) {
           return indexing.add(
               indexing.scale(indexing.add(indexing.scale(part, rows), row),
                              width),
               column);
         };
         scf::IfOp start;
         if (base) {
           start = make<scf::IfOp>(apart, /*withElseRegion=*/false);
           builder().setInsertionPoint(start);
           open(start.thenBlock());
         }
         loop(low, high, 1, 1, {0, rows - 1}, {},
              [&](Index row, ArrayRef<Value>) {
                vectorLoop(0, width, kLanes, [&](Index column) {
                  Index at = offset(row, column);
                  store(base ? load(bufferOf(base), at, element)
                             : buildNumber(builder(), loc, element, 0),
                        outputs[0], at);
                });
                return Values();
              });
         if (base)
           close(start);
         loop(0, count, {}, [&](Index i, ArrayRef<Value>) {
           Indices which = indexing.delinearize(i, chosen);
           Indices place{ArrayRef<Index>(front).take_front(batch)};
           llvm::append_range(place, which);
           Value id = make<arith::IndexCastOp>(
               builder().getIndexType(), this->element(op.getIndices(), place));
           Value inside = make<arith::AndIOp>(
               make<arith::CmpIOp>(arith::CmpIPredicate::sge, id, low),
               make<arith::CmpIOp>(arith::CmpIPredicate::slt, id, high));
           auto branch = make<scf::IfOp>(inside, /*withElseRegion=*/false);
           builder().setInsertionPoint(branch);
           open(branch.thenBlock());
           Index row = clamped(id, i, rows);
           vectorLoop(0, width, kLanes, [&](Index column) {
             Indices grad(front);
             llvm::append_range(grad, which);
             llvm::append_range(grad, indexing.delinearize(column, slice));
             Value added = this->element(op.getGrad(), grad);
             Value sum = load(outputs[0], offset(row, column), element);
             Values both{buildCast(builder(), loc, sum, wide),
                         buildCast(builder(), loc, added, wide)};
             align(both);
             sum = make<arith::AddFOp>(both[0], both[1]);
             store(buildCast(builder(), loc, sum, element), outputs[0],
                   offset(row, column));
           });
           close(branch);
           return Values();
         });
         return {};
       });
}
