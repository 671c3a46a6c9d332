//===- Ring.cpp - Attention whose keys go round ---------------------------===//

#include "passes/sharding/Ring.h"
#include "llvm/ADT/Sequence.h"
#include <algorithm>
#include <limits>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {
/// A chunk of the queries of a device, and one of the keys that it holds.
struct Pair {
  int64_t queries, keys;
};

/// A result and its log-sum-exp, of the keys seen so far.
struct Merged {
  Value result, lse;
};

/// What forward and gradient have in common.
template <typename Op>
class RingBuilder {
public:
  RingBuilder(OpBuilder &builder, Op op, ArrayRef<Value> local,
              const Ring &ring, unsigned firstOptional)
      : op(op), local(local), ring(ring), emit(builder, op.getLoc()),
        query(operand(0)), key(operand(1)), value(operand(2)),
        queryDocuments(operand(firstOptional + 1)),
        documents(operand(firstOptional + 2)),
        firstPosition(operand(firstOptional + 3)), chunks(ring.zigzag ? 2 : 1) {
  }

protected:
  Op op;
  ArrayRef<Value> local;
  const Ring &ring;
  nn::Emit emit;
  Value query, key, value, queryDocuments, documents, firstPosition;
  int64_t chunks;
  /// The number of this device on the ring, tensor<1xi32>.
  Value device;
  SmallVector<SmallVector<Pair>> steps;

  /// Of a group of operands, as ODS numbers them, the local one; null where
  /// there is none.
  Value operand(unsigned group) {
    auto [index, length] = op.getODSOperandIndexAndLength(group);
    return length ? local[index] : Value();
  }

  //===--------------------------------------------------------------------===//
  // Who sees what
  //===--------------------------------------------------------------------===//

  /// The position at which a chunk of a device begins.
  int64_t begin(int64_t device, int64_t chunk) const {
    return (chunk == 0 ? device : 2 * ring.devices - 1 - device) * ring.part;
  }
  /// Whose block a device holds in a step.
  int64_t owner(int64_t device, int64_t step) const {
    return (device + ring.devices - step) % ring.devices;
  }

  bool isVisible(int64_t device, int64_t step, Pair pair) {
    int64_t q = begin(device, pair.queries),
            k = begin(owner(device, step), pair.keys);
    if (q >= ring.length || k >= ring.length)
      return false;
    if (firstPosition)
      return true;
    // How far queries stand behind keys.
    int64_t most = std::min(q + ring.part, ring.length) - 1 - k,
            least = q - (std::min(k + ring.part, ring.length) - 1);
    if (op.getCausal() && most < 0)
      return false;
    int64_t nearest = least > 0 ? least : most < 0 ? -most : 0;
    return !op.getWindow() || nearest < static_cast<int64_t>(*op.getWindow());
  }

  void init() {
    for (int64_t step = 0; step < ring.devices; ++step) {
      SmallVector<Pair> &pairs = steps.emplace_back();
      for (int64_t q = 0; q < chunks; ++q)
        for (int64_t k = 0; k < chunks; ++k)
          if (llvm::any_of(llvm::seq<int64_t>(ring.devices),
                           [&](int64_t device) {
                             return isVisible(device, step, {q, k});
                           }))
            pairs.push_back({q, k});
    }
    while (steps.size() > 1 && steps.back().empty())
      steps.pop_back();
    auto i32 = RankedTensorType::get({}, emit.builder.getI32Type());
    Value index =
        dist::AxisIndexOp::create(emit.builder, emit.loc, i32, ring.axes);
    device = emit.reshape(index, {1});
  }

  /// A number that depends on the device, tensor<i32>.
  Value perDevice(llvm::function_ref<int64_t(int64_t)> of) {
    SmallVector<int32_t> table;
    for (int64_t i = 0; i < ring.devices; ++i)
      table.push_back(static_cast<int32_t>(of(i)));
    Type element = emit.builder.getI32Type();
    if (llvm::all_equal(table))
      return emit.constant(RankedTensorType::get({}, element), table[0]);
    Value numbers =
        nn::ConstantOp::create(emit.builder, emit.loc,
                               cast<ElementsAttr>(DenseElementsAttr::get(
                                   RankedTensorType::get(ring.devices, element),
                                   ArrayRef<int32_t>(table))));
    IntegerAttr zero = emit.builder.getI64IntegerAttr(0);
    Value mine = nn::GatherOp::create(emit.builder, emit.loc, device.getType(),
                                      numbers, device, zero, zero);
    return emit.reshape(mine, {});
  }

  /// Where the queries of a pair begin among its keys; null where no position
  /// matters.
  Value offset(int64_t step, Pair pair) {
    if (!op.getCausal() && !op.getWindow())
      return {};
    Value at = perDevice([&](int64_t device) {
      return begin(device, pair.queries) -
             begin(owner(device, step), pair.keys);
    });
    return firstPosition ? emit.add(at, firstPosition) : at;
  }

  /// Whether keys behind the end have to be masked: no query before the end
  /// stands before them.
  bool needsMask() {
    return ring.length % (ring.devices * chunks) != 0 &&
           (!op.getCausal() || firstPosition);
  }

  /// Of keys behind the end, where they have to be masked; no query has it.
  static constexpr double kNoDocument = std::numeric_limits<int32_t>::min();

  /// Documents, none of which is `kNoDocument`.
  Value documentsOf(Value given, int64_t chunk) {
    Value own = chunkOf(given, chunk);
    return needsMask()
               ? emit.make<nn::MaxOp>(own, emit.scalar(own, kNoDocument + 1))
               : own;
  }
  /// The documents of a chunk of queries; where keys have to be masked, 0.
  Value queryDocumentsOf(int64_t chunk) {
    if (queryDocuments)
      return documentsOf(queryDocuments, chunk);
    if (!needsMask())
      return {};
    auto type = RankedTensorType::get({typeOf(query).getDimSize(0), ring.part},
                                      emit.builder.getI32Type());
    return emit.constant(type, 0);
  }
  /// Those of a chunk of keys.
  Value keyDocumentsOf(int64_t step, int64_t chunk, Value travelling) {
    if (!needsMask())
      return chunkOf(travelling, chunk);
    Value count = perDevice([&](int64_t device) {
      int64_t first = begin(owner(device, step), chunk);
      return std::clamp<int64_t>(ring.length - first, 0, ring.part);
    });
    Value place = nn::IotaOp::create(
        emit.builder, emit.loc,
        RankedTensorType::get({ring.part}, emit.builder.getI32Type()),
        emit.builder.getI64IntegerAttr(0));
    auto type = RankedTensorType::get({typeOf(key).getDimSize(0), ring.part},
                                      emit.builder.getI32Type());
    Value own =
        travelling ? documentsOf(travelling, chunk) : emit.constant(type, 0);
    return emit.select(emit.compare(nn::Predicate::GE, place, count),
                       emit.scalar(own, kNoDocument), own);
  }

  //===--------------------------------------------------------------------===//
  // Chunks and the ring
  //===--------------------------------------------------------------------===//

  /// A chunk of dimension 1 of a local value.
  Value chunkOf(Value whole, int64_t chunk) {
    if (!whole || chunks == 1)
      return whole;
    RankedTensorType type = typeOf(whole);
    SmallVector<int64_t> offsets(type.getRank(), 0), sizes(type.getShape());
    offsets[1] = chunk * ring.part;
    sizes[1] = ring.part;
    return emit.make<nn::SliceOp>(
        RankedTensorType::get(sizes, type.getElementType()), whole,
        ArrayRef<int64_t>(offsets), ArrayRef<int64_t>(sizes),
        DenseI64ArrayAttr());
  }
  /// The type of a chunk of such a value.
  RankedTensorType chunkType(RankedTensorType type) {
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = ring.part;
    return RankedTensorType::get(shape, type.getElementType());
  }
  Value joined(ArrayRef<Value> parts) {
    return parts.size() == 1
               ? parts[0]
               : emit.make<nn::ConcatenateOp>(ValueRange(parts), 1);
  }

  Value shifted(Value moved, int64_t by, DictionaryAttr why) {
    if (!moved)
      return {};
    auto shift =
        dist::ShiftOp::create(emit.builder, emit.loc, moved.getType(), moved,
                              emit.builder.getI64IntegerAttr(by), ring.axes);
    if (why)
      shift->setAttr(dist::kReasonAttr, why);
    return shift;
  }

  /// Calls `use(step, pairs)` with key, value and documents those that the
  /// device holds then. They are handed on before they are used, so that one
  /// can go on beside the other.
  void goRound(llvm::function_ref<void(int64_t, ArrayRef<Pair>)> use) {
    for (auto [step, pairs] : llvm::enumerate(steps)) {
      bool isLast = step + 1 == steps.size();
      Value nextKey, nextValue, nextDocuments;
      if (!isLast) {
        nextKey = shifted(key, 1, ring.keysReason);
        nextValue = value == key ? nextKey : shifted(value, 1, ring.keysReason);
        nextDocuments = shifted(documents, 1, ring.keysReason);
      }
      use(step, pairs);
      if (!isLast)
        key = nextKey, value = nextValue, documents = nextDocuments;
    }
  }
};

class ForwardBuilder : public RingBuilder<nn::AttentionOp> {
public:
  ForwardBuilder(OpBuilder &builder, nn::AttentionOp op, ArrayRef<Value> local,
                 const Ring &ring)
      : RingBuilder(builder, op, local, ring, /*firstOptional=*/3) {}

  SmallVector<Value> build() {
    init();
    RankedTensorType type = resultType();
    auto statistics =
        RankedTensorType::get(type.getShape().drop_back(),
                              nn::getStatisticsType(type.getElementType()));
    SmallVector<int64_t> parts(chunks, 0);
    for (ArrayRef<Pair> pairs : steps)
      for (Pair pair : pairs)
        ++parts[pair.queries];
    SmallVector<Merged> merged(chunks);
    goRound([&](int64_t step, ArrayRef<Pair> pairs) {
      for (Pair pair : pairs) {
        bool hasLse = op.getLse() || parts[pair.queries] > 1;
        auto block = nn::AttentionOp::create(
            emit.builder, emit.loc, type, hasLse ? Type(statistics) : Type(),
            chunkOf(query, pair.queries), chunkOf(key, pair.keys),
            chunkOf(value, pair.keys), /*bias=*/Value(),
            queryDocumentsOf(pair.queries),
            keyDocumentsOf(step, pair.keys, documents), offset(step, pair),
            op.getCausalAttr(), op.getWindowAttr(), op.getScaleAttr());
        merge(merged[pair.queries], block);
      }
    });
    SmallVector<Value> values, lses;
    for (Merged &own : merged) {
      // A chunk that is padding on every device.
      if (!own.result)
        own = {emit.constant(type, 0),
               emit.constant(statistics,
                             -std::numeric_limits<double>::infinity())};
      values.push_back(emit.cast(own.result, type.getElementType()));
      lses.push_back(own.lse);
    }
    SmallVector<Value> results{joined(values)};
    if (op.getLse())
      results.push_back(joined(lses));
    return results;
  }

private:
  RankedTensorType resultType() {
    SmallVector<int64_t> shape(chunkType(typeOf(query)).getShape());
    shape.back() = typeOf(value).getShape().back();
    return RankedTensorType::get(shape, typeOf(query).getElementType());
  }

  /// exp(lse) is the sum that a result was divided by.
  void merge(Merged &sum, nn::AttentionOp block) {
    if (!sum.result) {
      sum = {block.getResult(), block.getLse()};
      return;
    }
    Type element = typeOf(block.getLse()).getElementType();
    Value most = emit.make<nn::MaxOp>(sum.lse, block.getLse());
    // Where nothing is visible yet there is nothing to shift.
    Value some = emit.compare(nn::Predicate::GT, most,
                              -std::numeric_limits<double>::infinity());
    Value shift = emit.select(some, most, emit.scalar(most, 0));
    Value before = emit.make<nn::ExpOp>(emit.sub(sum.lse, shift));
    Value here = emit.make<nn::ExpOp>(emit.sub(block.getLse(), shift));
    Value total = emit.add(before, here);
    Value divisor = emit.select(some, total, emit.scalar(total, 1));
    auto weighted = [&](Value result, Value weight) {
      return emit.mul(emit.cast(result, element),
                      emit.expand(emit.div(weight, divisor), 3));
    };
    sum.result = emit.add(weighted(sum.result, before),
                          weighted(block.getResult(), here));
    sum.lse = emit.add(shift, emit.make<nn::LogOp>(total));
  }
};

class GradientBuilder : public RingBuilder<nn::AttentionGradOp> {
public:
  GradientBuilder(OpBuilder &builder, nn::AttentionGradOp op,
                  ArrayRef<Value> local, const Ring &ring)
      : RingBuilder(builder, op, local, ring, /*firstOptional=*/7),
        types{partial(0, chunkType(typeOf(query))),
              partial(1, chunkType(typeOf(key))),
              partial(2, chunkType(typeOf(value)))} {}

  SmallVector<Value> build() {
    init();
    Value result = operand(3), lse = operand(4), grad = operand(5),
          lseGrad = operand(6);
    SmallVector<Value> ofQuery(chunks);
    // Of the block in hand: the gradients that came with it, and those of all.
    Value travelling[2];
    goRound([&](int64_t step, ArrayRef<Pair> pairs) {
      SmallVector<Value> own[2] = {SmallVector<Value>(chunks),
                                   SmallVector<Value>(chunks)};
      for (Pair pair : pairs) {
        auto block = nn::AttentionGradOp::create(
            emit.builder, emit.loc, types[0], types[1], types[2],
            /*bias_grad=*/Type(), chunkOf(query, pair.queries),
            chunkOf(key, pair.keys), chunkOf(value, pair.keys),
            chunkOf(result, pair.queries), chunkOf(lse, pair.queries),
            chunkOf(grad, pair.queries), chunkOf(lseGrad, pair.queries),
            /*bias=*/Value(), queryDocumentsOf(pair.queries),
            keyDocumentsOf(step, pair.keys, documents), offset(step, pair),
            op.getCausalAttr(), op.getWindowAttr(), op.getScaleAttr());
        addTo(ofQuery[pair.queries], block.getQueryGrad());
        addTo(own[0][pair.keys], block.getKeyGrad());
        addTo(own[1][pair.keys], block.getValueGrad());
      }
      for (Value &all : travelling)
        all = shifted(all, 1, ring.gradientsReason);
      if (!pairs.empty())
        for (int i = 0; i < 2; ++i)
          addTo(travelling[i], joinedGradients(own[i], i + 1));
    });
    if (steps.size() > 1)
      for (Value &all : travelling)
        all = shifted(all, ring.devices - (steps.size() - 1),
                      ring.gradientsReason);
    return SmallVector<Value>{joinedGradients(ofQuery, 0), travelling[0],
                              travelling[1]};
  }

private:
  /// Of a chunk of each gradient.
  RankedTensorType types[3];

  RankedTensorType partial(int i, RankedTensorType type) {
    return dist::withPartial(type, ring.partial[i]);
  }
  void addTo(Value &sum, Value more) {
    if (!sum) {
      sum = more;
      return;
    }
    Type type = sum.getType();
    sum = emit.add(sum, more);
    sum.setType(cast<RankedTensorType>(type)); // Partial values stay so.
  }
  /// The chunks of one gradient; nobody saw one that has none.
  Value joinedGradients(SmallVector<Value> parts, int i) {
    for (Value &part : parts)
      if (!part)
        part = emit.constant(dist::withPartial(types[i], nullptr), 0);
    Value all = joined(parts);
    if (parts.size() > 1)
      all.setType(partial(i, typeOf(all)));
    return all;
  }
};
} // namespace

SmallVector<Value> sharding::buildRing(OpBuilder &builder, nn::AttentionOp op,
                                       ArrayRef<Value> operands,
                                       const Ring &ring) {
  return ForwardBuilder(builder, op, operands, ring).build();
}

SmallVector<Value> sharding::buildRing(OpBuilder &builder,
                                       nn::AttentionGradOp op,
                                       ArrayRef<Value> operands,
                                       const Ring &ring) {
  return GradientBuilder(builder, op, operands, ring).build();
}
