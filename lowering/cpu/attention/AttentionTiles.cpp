//===- AttentionTiles.cpp - What the attention kernels share --------------===//

#include "AttentionTiles.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace sheaf::cpu {

/// Positions are compared as 32-bit integers, sums and differences included.
static constexpr int64_t kPositionLimit = int64_t(1) << 29;

//===----------------------------------------------------------------------===//
// Tile sizes and counts
//===----------------------------------------------------------------------===//

int64_t forwardScratchBytes(const AttentionBlocks &b) {
  int64_t elements = b.queries * (b.paddedHeadDim + b.paddedValueDim + b.keys +
                                  /*maximum, sum, correction*/ 3);
  return elements * b.elementBytes + b.queries * /*i32*/ 4;
}

int64_t backwardScratchBytes(const AttentionBlocks &b) {
  int64_t elements =
      // q and dout as they are and transposed; two tiles; lse and delta
      b.queries *
          (2 * b.paddedHeadDim + 2 * b.paddedValueDim + 2 * b.keys + 2) +
      // k
      b.keys * b.paddedHeadDim;
  return elements * b.elementBytes + b.queries * 4;
}

int64_t biasGradientScratchBytes(const AttentionBlocks &b) {
  int64_t elements =
      b.queries * (b.paddedHeadDim + b.paddedValueDim + 2 * b.keys + 2);
  return elements * b.elementBytes + b.queries * 4;
}

FailureOr<AttentionBlocks>
chooseBlocks(Location loc, const AttentionSpec &spec,
             const AttentionTuning &tuning,
             function_ref<int64_t(const AttentionBlocks &)> scratch) {
  if (failed(verifyAttentionSpec(loc, spec, tuning)))
    return failure();
  AttentionBlocks blocks;
  blocks.elementBytes = spec.elementType.isF64() ? 8 : 4;
  blocks.lanes = tuning.vectorBytes / blocks.elementBytes;
  bool wide = tuning.vectorBytes >= 64;
  // Measured on Zen 4: 4 x 4 of 32 registers, 6 x 2 of 16.
  blocks.microRows = tuning.microRows ? tuning.microRows : (wide ? 4 : 6);
  blocks.microVectors =
      tuning.microVectors ? tuning.microVectors : (wide ? 4 : 2);
  auto padded = [&](int64_t n) { return llvm::alignTo(n, blocks.lanes); };
  blocks.paddedHeadDim = padded(spec.headDim);
  blocks.paddedValueDim = padded(spec.valueDim);
  blocks.queries =
      std::min<int64_t>(padded(tuning.tileQueries ? tuning.tileQueries : 64),
                        padded(spec.queries));
  blocks.keys = std::min<int64_t>(
      padded(tuning.tileKeys ? tuning.tileKeys : 64), padded(spec.keys));
  while (scratch(blocks) > kAttentionScratchLimit) {
    int64_t &larger =
        blocks.keys >= blocks.queries ? blocks.keys : blocks.queries;
    if (larger <= blocks.lanes) {
      emitError(loc) << "attention with head dimension " << spec.headDim
                     << " and value dimension " << spec.valueDim << " needs "
                     << scratch(blocks)
                     << " bytes of stack for its smallest tile, expected at "
                        "most "
                     << kAttentionScratchLimit
                     << "; use smaller heads or decompose the op";
      return failure();
    }
    larger = padded(larger / 2);
  }
  return blocks;
}

LogicalResult verifyAttentionSpec(Location loc, const AttentionSpec &spec,
                                  const AttentionTuning &tuning) {
  if (!spec.elementType ||
      !(spec.elementType.isF32() || spec.elementType.isF64()))
    return emitError(loc) << "attention kernel got element type "
                          << spec.elementType << ", expected f32 or f64";
  std::pair<StringRef, int64_t> extents[] = {
      {"batch", spec.batch},
      {"queries", spec.queries},
      {"keys", spec.keys},
      {"heads", spec.heads},
      {"key/value heads", spec.kvHeads},
      {"head dimension", spec.headDim},
      {"value dimension", spec.valueDim}};
  for (auto [name, extent] : extents)
    if (extent < 1 || extent > kPositionLimit)
      return emitError(loc) << "attention kernel got " << name << " " << extent
                            << ", expected 1 to " << kPositionLimit;
  if (spec.heads % spec.kvHeads != 0)
    return emitError(loc) << "attention kernel got " << spec.heads
                          << " query heads and " << spec.kvHeads
                          << " key/value heads, expected a multiple";
  if (spec.window && *spec.window < 1)
    return emitError(loc) << "attention kernel got window " << *spec.window
                          << ", expected at least 1";
  if (spec.bias) {
    auto [batch, heads] = *spec.bias;
    if ((batch != 1 && batch != spec.batch) ||
        (heads != 1 && heads != spec.heads))
      return emitError(loc)
             << "attention kernel got a bias for " << batch << " samples and "
             << heads << " heads, expected 1 or " << spec.batch
             << " samples and 1 or " << spec.heads << " heads";
  }
  if (tuning.vectorBytes < 16 || tuning.vectorBytes > 64 ||
      !llvm::isPowerOf2_64(tuning.vectorBytes))
    return emitError(loc) << "attention kernel got vectors of "
                          << tuning.vectorBytes
                          << " bytes, expected 16, 32 or 64";
  if (tuning.microRows < 0 || tuning.microVectors < 0 ||
      tuning.tileQueries < 0 || tuning.tileKeys < 0 ||
      tuning.minBackwardTasks < 0)
    return emitError(loc)
           << "attention kernel got a negative tile size or task count";
  return success();
}

/// A window larger than any distance changes nothing and must fit 32 bits.
static int64_t clampedWindow(const AttentionSpec &spec) {
  return std::min(*spec.window, spec.hasFirstPosition
                                    ? 2 * kPositionLimit
                                    : spec.queries + spec.keys);
}

/// The position of the first query, as far as it is known; amid the keys where
/// it is not.
static int64_t expectedPosition(const AttentionSpec &spec) {
  int64_t last = spec.keys - spec.queries;
  return spec.hasFirstPosition ? last / 2 : last;
}

int64_t AttentionTiles::windowSize() const { return clampedWindow(spec); }

TileCount countTiles(const AttentionSpec &spec, const AttentionBlocks &blocks) {
  TileCount count;
  int64_t shift = expectedPosition(spec);
  for (int64_t i = 0; i < spec.queries; i += blocks.queries) {
    int64_t queries = std::min(blocks.queries, spec.queries - i);
    int64_t first = i + shift, last = first + queries - 1;
    int64_t low = 0, high = spec.keys;
    if (spec.causal)
      high = std::min(high, last + 1);
    if (spec.window) {
      low = std::max(low, first - clampedWindow(spec) + 1);
      if (!spec.causal)
        high = std::min(high, last + clampedWindow(spec));
    }
    for (int64_t j = low / blocks.keys * blocks.keys; j < high;
         j += blocks.keys)
      count.scores +=
          double(queries) * double(std::min(blocks.keys, spec.keys - j));
  }
  return count;
}

int64_t grainFor(double flops) {
  // About ten microseconds: well above what handing out a task costs.
  return std::max<int64_t>(1, int64_t(5e5 / std::max(flops, 1.0)));
}

//===----------------------------------------------------------------------===//
// The frame
//===----------------------------------------------------------------------===//

AttentionTiles::AttentionTiles(OpBuilder &builder, Location loc,
                               const AttentionSpec &spec,
                               const AttentionBlocks &blocks)
    : TileEmitter(builder, loc, cast<FloatType>(spec.elementType), blocks.lanes,
                  blocks.microRows, blocks.microVectors),
      spec(spec), blocks(blocks) {}

BuiltKernel AttentionTiles::createKernel(StringRef name,
                                         AttentionKernelKind kind,
                                         int64_t pieces,
                                         function_ref<void()> setup,
                                         function_ref<void(Value)> task) {
  OpBuilder::InsertionGuard guard(builder);
  int64_t B = spec.batch, S = spec.queries, T = spec.keys;
  int64_t H = spec.heads, G = spec.kvHeads, D = spec.headDim,
          Dv = spec.valueDim;

  SmallVector<Type> types;
  SmallVector<Value *> slots;
  double bytes = 0;
  auto argument = [&](Value &slot, SmallVector<int64_t> shape,
                      Type element = {}) {
    if (!element)
      element = elementType;
    auto type = MemRefType::get(shape, element);
    types.push_back(type);
    slots.push_back(&slot);
    bytes += double(type.getNumElements()) *
             double(element.getIntOrFloatBitWidth() / 8);
  };
  if (kind == AttentionKernelKind::QueryGradientSum) {
    argument(args.dqPieces, {pieces, B, S, H, D});
    argument(args.dq, {B, S, H, D});
  } else {
    argument(args.q, {B, S, H, D});
    argument(args.k, {B, T, G, D});
    argument(args.v, {B, T, G, Dv});
    if (kind != AttentionKernelKind::Forward) {
      argument(args.out, {B, S, H, Dv});
      argument(args.lse, {B, S, H});
      argument(args.dout, {B, S, H, Dv});
      if (spec.hasLseGradient)
        argument(args.dlse, {B, S, H});
    }
    if (spec.bias)
      argument(args.bias, {(*spec.bias)[0], (*spec.bias)[1], S, T});
    if (spec.hasDocuments) {
      argument(args.queryDocuments, {B, S}, builder.getI32Type());
      argument(args.keyDocuments, {B, T}, builder.getI32Type());
    }
    if (spec.hasFirstPosition)
      argument(args.firstPosition, {}, builder.getI32Type());
  }
  switch (kind) {
  case AttentionKernelKind::Forward:
    argument(args.out, {B, S, H, Dv});
    if (spec.wantsLse)
      argument(args.lse, {B, S, H});
    break;
  case AttentionKernelKind::Backward:
    if (pieces > 1)
      argument(args.dqPieces, {pieces, B, S, H, D});
    else
      argument(args.dq, {B, S, H, D});
    argument(args.dk, {B, T, G, D});
    argument(args.dv, {B, T, G, Dv});
    break;
  case AttentionKernelKind::BiasGradient:
    argument(args.dbias, {(*spec.bias)[0], (*spec.bias)[1], S, T});
    break;
  case AttentionKernelKind::QueryGradientSum:
    break;
  }
  types.push_back(builder.getIndexType());
  types.push_back(builder.getIndexType());

  BuiltKernel kernel;
  kernel.bytes = bytes;
  kernel.function = func::FuncOp::create(
      builder, loc, name, FunctionType::get(builder.getContext(), types, {}));
  Block *entry = kernel.function.addEntryBlock();
  for (auto [slot, value] : llvm::zip(slots, entry->getArguments()))
    *slot = value;
  builder.setInsertionPointToStart(entry);
  setup();
  loop(entry->getArgument(types.size() - 2),
       entry->getArgument(types.size() - 1), 1, task);
  func::ReturnOp::create(builder, loc);
  return kernel;
}

Window AttentionTiles::rowsOf(Value memref, Value start, Value ofHead) {
  Window w;
  w.memref = memref;
  w.origin = {sample, start, ofHead};
  w.rowDim = 1;
  w.columnDim = 2;
  if (cast<MemRefType>(memref.getType()).getRank() == 4) {
    w.origin.push_back(index(0));
    w.columnDim = 3;
  }
  return w;
}

Window AttentionTiles::biasWindow(Value memref, Value start) {
  auto [batches, heads] = *spec.bias;
  Window w;
  w.memref = memref;
  w.origin = {batches == 1 ? index(0) : sample, heads == 1 ? index(0) : head,
              blockStart, start};
  w.rowDim = 2;
  w.columnDim = 3;
  return w;
}

void AttentionTiles::allocateDocuments() {
  if (spec.hasDocuments)
    documents = scratch({blocks.queries}, builder.getI32Type());
}

void AttentionTiles::beginBlock(Value ofSample, Value ofHead, Value ofKvHead,
                                Value start) {
  sample = ofSample;
  head = ofHead;
  kvHead = ofKvHead;
  blockStart = start;
  blockQueries = remaining(spec.queries, start, blocks.queries);
  firstPosition =
      add(start,
          spec.hasFirstPosition
              ? Value(arith::IndexCastOp::create(
                    builder, loc, builder.getIndexType(),
                    memref::LoadOp::create(builder, loc, args.firstPosition)))
              : index(spec.keys - spec.queries));
  if (spec.hasDocuments) {
    Window ids;
    ids.memref = args.queryDocuments;
    ids.origin = {sample, start};
    ids.rowDim = 0;
    ids.columnDim = 1;
    loop(index(0), blockQueries.value, 1, [&](Value i) {
      storeScalar(loadScalar(ids, index(0), i), documents, index(0), i);
    });
  }
}

KeyRange AttentionTiles::visibleKeys() {
  Value keys = index(spec.keys), zero = index(0);
  Value low = zero, high = keys;
  auto clamp = [&](Value v) { return max(zero, min(keys, v)); };
  if (spec.causal)
    high = clamp(add(firstPosition, blockQueries.value));
  if (spec.window) {
    low = clamp(sub(firstPosition, index(windowSize() - 1)));
    if (!spec.causal)
      high = clamp(
          add(add(firstPosition, blockQueries.value), index(windowSize() - 1)));
    low = sub(low, rem(low, index(blocks.keys)));
  }
  return {low, high};
}

void AttentionTiles::forEachKeyTile(
    const KeyRange &range, function_ref<void(Value, const Extent &)> body) {
  loop(range.low, range.high, blocks.keys, [&](Value start) {
    body(start, remaining(spec.keys, start, blocks.keys));
  });
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

void AttentionTiles::scores(const Window &queriesTransposed, const Window &tile,
                            Value start, const Extent &keys) {
  Window keyRows = rowsOf(args.k, start, kvHead);
  if (spec.bias)
    copyTransposed(biasWindow(args.bias, start), blockQueries, keys, tile,
                   blocks.queries, blocks.keys);
  Value zero = splat(0.0);
  product(
      keys, queryVectors(), extent(spec.headDim),
      [&](Value key, Value d) { return loadScalar(keyRows, key, d); },
      [&](Value d, Value q) { return load(queriesTransposed, d, q); },
      [&](Value key, Value q) { return spec.bias ? load(tile, key, q) : zero; },
      [&](Value sum, Value key, Value q) { store(sum, tile, key, q); });
}

void AttentionTiles::maskTile(const Window &tile, Value start,
                              const Extent &keys, double value) {
  if (!isMasked())
    return;
  using Predicate = arith::CmpIPredicate;
  Type i32 = builder.getI32Type();
  auto lanesOf = [&](Value number) {
    return splat(number.getType().isIndex() ? Value(arith::IndexCastOp::create(
                                                  builder, loc, i32, number))
                                            : number);
  };
  auto body = [&] {
    SmallVector<int32_t> iota;
    for (int64_t i = 0; i < lanes; ++i)
      iota.push_back(i);
    auto integers = VectorType::get({lanes}, i32);
    Value laneNumbers = arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(integers, ArrayRef(iota)));
    Value hidden = splat(value);
    Values columns, positions, ids;
    for (int64_t v = 0; v < queryVectors(); ++v) {
      columns.push_back(index(v * lanes));
      positions.push_back(
          add(laneNumbers, lanesOf(add(firstPosition, columns.back()))));
      if (spec.hasDocuments)
        ids.push_back(load(documents, index(0), columns.back()));
    }
    loop(index(0), keys.value, 1, [&](Value k) {
      Value j = add(start, k);
      Value key = lanesOf(j), id, after, before;
      if (spec.hasDocuments) {
        Window keyIds;
        keyIds.memref = args.keyDocuments;
        keyIds.origin = {sample, j};
        keyIds.rowDim = 0;
        keyIds.columnDim = 1;
        id = lanesOf(loadScalar(keyIds, index(0), index(0)));
      }
      if (spec.window) {
        after = lanesOf(add(j, index(windowSize())));
        before = lanesOf(sub(j, index(windowSize())));
      }
      for (auto [v, column] : llvm::enumerate(columns)) {
        Value visible;
        auto require = [&](Predicate predicate, Value a, Value b) {
          Value c = compare(predicate, a, b);
          visible = visible
                        ? Value(arith::AndIOp::create(builder, loc, visible, c))
                        : c;
        };
        if (spec.causal)
          require(Predicate::sge, positions[v], key);
        if (spec.window) {
          require(Predicate::slt, positions[v], after);
          if (!spec.causal)
            require(Predicate::sgt, positions[v], before);
        }
        if (spec.hasDocuments)
          require(Predicate::eq, ids[v], id);
        store(select(visible, load(tile, k, column), hidden), tile, k, column);
      }
    });
  };
  if (spec.hasDocuments)
    return body();

  // Some pair is hidden: the last key lies after the first query, or one end
  // of the tile is too far from the other end of the block.
  Value lastKey = add(start, sub(keys.value, index(1)));
  Value lastPosition = add(firstPosition, sub(blockQueries.value, index(1)));
  Value some;
  auto either = [&](Value c) {
    some = some ? Value(arith::OrIOp::create(builder, loc, some, c)) : c;
  };
  if (spec.causal)
    either(compare(Predicate::sgt, lastKey, firstPosition));
  if (spec.window) {
    either(
        compare(Predicate::sge, sub(lastPosition, start), index(windowSize())));
    if (!spec.causal)
      either(compare(Predicate::sge, sub(lastKey, firstPosition),
                     index(windowSize())));
  }
  ifTrue(some, body);
}

} // namespace sheaf::cpu
