//===- AttentionBackward.cpp - The backward kernels of attention ----------===//

#include "Attention.h"
#include "AttentionTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace sheaf::cpu {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What both backward kernels need: with P = exp(score - lse) and
/// delta = rowsum(dout * out) - dlse,
///   dscore = P * (dout v^T - delta)
/// (FlashAttention-2, section 2.3.2; dlse enters because d lse / d score = P).
class GradientEmitter : public AttentionTiles {
public:
  using AttentionTiles::AttentionTiles;

protected:
  void setupCommon() {
    queriesTransposed = scratch({blocks.paddedHeadDim, blocks.queries});
    doutTransposed = scratch({blocks.paddedValueDim, blocks.queries});
    tile = scratch({blocks.keys, blocks.queries});
    gradient = scratch({blocks.keys, blocks.queries});
    lse = scratch({blocks.queries});
    delta = scratch({blocks.queries});
    allocateDocuments();
  }

  /// Packs the current block of queries.
  void packBlock() {
    Window doutRows = rowsOf(args.dout, blockStart, head);
    Window outRows = rowsOf(args.out, blockStart, head);
    copyTransposed(rowsOf(args.q, blockStart, head), blockQueries,
                   extent(spec.headDim), queriesTransposed, blocks.queries,
                   spec.headDim, splat(spec.scale));
    copyTransposed(doutRows, blockQueries, extent(spec.valueDim),
                   doutTransposed, blocks.queries, spec.valueDim);

    // Lanes without a query get lse = +inf, so that P = 0 there.
    for (int64_t v = 0; v < queryVectors(); ++v) {
      store(splat(kInfinity), lse, index(0), index(v * lanes));
      store(splat(0.0), delta, index(0), index(v * lanes));
    }
    Window lseRows = rowsOf(args.lse, blockStart, head);
    loop(index(0), blockQueries.value, 1, [&](Value q) {
      Value sum = splat(0.0);
      for (int64_t dv = 0; dv < spec.valueDim; dv += lanes) {
        Value mask = columnMask(extent(spec.valueDim), index(dv));
        sum = fma(load(doutRows, q, index(dv), mask),
                  load(outRows, q, index(dv), mask), sum);
      }
      Value total = sumLanes(sum);
      if (spec.hasLseGradient)
        total = fsub(total, loadScalar(rowsOf(args.dlse, blockStart, head), q,
                                       index(0)));
      storeScalar(total, delta, index(0), q);
      storeScalar(loadScalar(lseRows, q, index(0)), lse, index(0), q);
    });
    // A row without a visible key has lse = -inf; +inf makes its P zero too.
    for (int64_t v = 0; v < queryVectors(); ++v) {
      Value column = index(v * lanes);
      Value value = load(lse, index(0), column);
      store(
          select(fcompare(arith::CmpFPredicate::OEQ, value, splat(-kInfinity)),
                 splat(kInfinity), value),
          lse, index(0), column);
    }
  }

  /// tile = P and gradient = factor * dscore for one tile of keys.
  void probabilitiesAndGradient(Value start, const Extent &keys,
                                double factor) {
    scores(queriesTransposed, tile, start, keys);
    maskTile(tile, start, keys, -kInfinity);
    Window valueRows = rowsOf(args.v, start, kvHead);
    Value zero = splat(0.0);
    product(
        keys, queryVectors(), extent(spec.valueDim),
        [&](Value key, Value dv) { return loadScalar(valueRows, key, dv); },
        [&](Value dv, Value q) { return load(doutTransposed, dv, q); },
        [&](Value, Value) { return zero; },
        [&](Value sum, Value key, Value q) { store(sum, gradient, key, q); });
    for (int64_t begin = 0; begin < queryVectors(); begin += 4) {
      int64_t end = std::min(begin + 4, queryVectors());
      Values columns, lses, deltas;
      for (int64_t v = begin; v < end; ++v) {
        columns.push_back(index(v * lanes));
        lses.push_back(load(lse, index(0), columns.back()));
        deltas.push_back(load(delta, index(0), columns.back()));
      }
      loop(index(0), keys.value, 1, [&](Value k) {
        for (auto [i, column] : llvm::enumerate(columns)) {
          Value p = exp(fsub(load(tile, k, column), lses[i]),
                        /*nonPositive=*/false);
          store(p, tile, k, column);
          Value d = fmul(p, fsub(load(gradient, k, column), deltas[i]));
          store(factor == 1.0 ? d : fmul(d, splat(factor)), gradient, k,
                column);
        }
      });
    }
  }

  Window queriesTransposed, doutTransposed, tile, gradient, lse, delta;
};

class BackwardEmitter : public GradientEmitter {
public:
  using GradientEmitter::GradientEmitter;

  void setup() {
    setupCommon();
    queries = scratch({blocks.queries, blocks.paddedHeadDim});
    dout = scratch({blocks.queries, blocks.paddedValueDim});
    keyTile = scratch({blocks.keys, blocks.paddedHeadDim});
  }

  void task(Value number) {
    Value piece = rem(number, index(pieces));
    Value row = div(number, index(pieces));
    Value ofSample = div(row, index(spec.kvHeads));
    Value ofKvHead = rem(row, index(spec.kvHeads));
    // Whole tiles, so that no tile is shared between pieces.
    int64_t pieceKeys = int64_t(llvm::divideCeil(
                            llvm::divideCeil(spec.keys, blocks.keys), pieces)) *
                        blocks.keys;
    Value firstKey = mul(piece, index(pieceKeys));
    KeyRange keys = {firstKey,
                     min(add(firstKey, index(pieceKeys)), index(spec.keys))};
    Extent keyCount = pieces == 1
                          ? extent(spec.keys)
                          : Extent{max(index(0), sub(keys.high, keys.low))};

    sample = ofSample;
    Value zero = splat(0.0);
    fillRows(rowsOf(args.dk, firstKey, ofKvHead), keyCount, spec.headDim, zero);
    fillRows(rowsOf(args.dv, firstKey, ofKvHead), keyCount, spec.valueDim,
             zero);
    int64_t group = spec.heads / spec.kvHeads;
    loop(group, 1, [&](Value member) {
      Value ofHead = add(mul(ofKvHead, index(group)), member);
      loop(spec.queries, blocks.queries, [&](Value start) {
        beginBlock(ofSample, ofHead, ofKvHead, start);
        Window dq;
        if (pieces == 1) {
          dq = rowsOf(args.dq, blockStart, head);
        } else {
          dq.memref = args.dqPieces;
          dq.origin = {piece, sample, blockStart, head, index(0)};
          dq.rowDim = 2;
          dq.columnDim = 4;
        }
        fillRows(dq, blockQueries, spec.headDim, splat(0.0));
        KeyRange range = visibleKeys();
        if (pieces > 1)
          range = {max(range.low, keys.low), min(range.high, keys.high)};
        ifTrue(compare(arith::CmpIPredicate::slt, range.low, range.high),
               [&] { block(dq, range); });
      });
    });
  }

  int64_t pieces = 1;

private:
  void block(const Window &dq, const KeyRange &range) {
    packBlock();
    copyRows(rowsOf(args.q, blockStart, head), blockQueries, spec.headDim,
             queries);
    copyRows(rowsOf(args.dout, blockStart, head), blockQueries, spec.valueDim,
             dout);
    forEachKeyTile(range, [&](Value start, const Extent &keys) {
      probabilitiesAndGradient(start, keys, spec.scale);
      copyRows(rowsOf(args.k, start, kvHead), keys, spec.headDim, keyTile);
      // dv += P^T dout, dk += dscore^T q, dq += dscore k.
      accumulate(
          rowsOf(args.dv, start, kvHead), keys, spec.valueDim, blockQueries,
          [&](Value key, Value q) { return loadScalar(tile, key, q); }, dout);
      accumulate(
          rowsOf(args.dk, start, kvHead), keys, spec.headDim, blockQueries,
          [&](Value key, Value q) { return loadScalar(gradient, key, q); },
          queries);
      accumulate(
          dq, blockQueries, spec.headDim, keys,
          [&](Value q, Value key) { return loadScalar(gradient, key, q); },
          keyTile);
    });
  }

  /// to[row][0, columns) += sum over depth of a(row, k) * b[k].
  void accumulate(const Window &to, const Extent &rows, int64_t columns,
                  const Extent &depth, function_ref<Value(Value, Value)> a,
                  const Window &b) {
    Extent width = extent(columns);
    product(
        rows, llvm::divideCeil(columns, lanes), depth, a,
        [&](Value k, Value column) { return load(b, k, column); },
        [&](Value row, Value column) {
          return load(to, row, column, columnMask(width, column));
        },
        [&](Value sum, Value row, Value column) {
          store(sum, to, row, column, columnMask(width, column));
        });
  }

  Window queries, dout, keyTile;
};

class QueryGradientSumEmitter : public AttentionTiles {
public:
  using AttentionTiles::AttentionTiles;

  void task(Value number) {
    Value ofSample = div(number, index(spec.queries));
    Value query = rem(number, index(spec.queries));
    loop(spec.heads, 1, [&](Value h) {
      Window to, from;
      to.memref = args.dq;
      to.origin = {ofSample, query, h, index(0)};
      to.rowDim = 2;
      to.columnDim = 3;
      from.memref = args.dqPieces;
      from.origin = {index(0), ofSample, query, h, index(0)};
      from.rowDim = 0;
      from.columnDim = 4;
      loop(spec.headDim, lanes, [&](Value d) {
        Value mask = columnMask(extent(spec.headDim), d);
        Value sum = load(from, index(0), d, mask);
        for (int64_t piece = 1; piece < pieces; ++piece)
          sum = fadd(sum, load(from, index(piece), d, mask));
        store(sum, to, index(0), d, mask);
      });
    });
  }

  int64_t pieces = 1;
};

class BiasGradientEmitter : public GradientEmitter {
public:
  using GradientEmitter::GradientEmitter;

  void setup() { setupCommon(); }

  void task(Value number) {
    // Captured below, which a structured binding cannot be.
    const int64_t batches = (*spec.bias)[0], heads = (*spec.bias)[1];
    Value perHead = index(llvm::divideCeil(spec.queries, blocks.queries));
    Value start = mul(rem(number, perHead), index(blocks.queries));
    Value row = div(number, perHead);
    Value biasHead = rem(row, index(heads)), biasBatch = div(row, index(heads));
    int64_t group = spec.heads / spec.kvHeads;

    Window rows;
    rows.memref = args.dbias;
    rows.origin = {biasBatch, biasHead, start, index(0)};
    rows.rowDim = 2;
    rows.columnDim = 3;
    fillRows(rows, remaining(spec.queries, start, blocks.queries), spec.keys,
             splat(0.0));
    // The samples and heads that share this bias, in order.
    int64_t sharingBatches = batches == 1 ? spec.batch : 1;
    int64_t sharingHeads = heads == 1 ? spec.heads : 1;
    loop(sharingBatches, 1, [&](Value b) {
      loop(sharingHeads, 1, [&](Value h) {
        Value ofHead = heads == 1 ? h : biasHead;
        beginBlock(batches == 1 ? b : biasBatch, ofHead,
                   div(ofHead, index(group)), start);
        packBlock();
        forEachKeyTile(visibleKeys(), [&](Value key, const Extent &keys) {
          probabilitiesAndGradient(key, keys, 1.0);
          Window to = at(rows, index(0), key);
          readTransposed([&](Value k, Value q) { return load(gradient, k, q); },
                         blockQueries, blocks.queries, keys, blocks.keys,
                         [&](Value vector, Value q, Value k, Value mask) {
                           store(fadd(load(to, q, k, mask), vector), to, q, k,
                                 mask);
                         });
        });
      });
    });
  }
};

} // namespace

static int64_t countPieces(const AttentionSpec &spec,
                           const AttentionTuning &tuning,
                           const AttentionBlocks &blocks) {
  int64_t tiles = int64_t(llvm::divideCeil(spec.keys, blocks.keys));
  int64_t wanted =
      int64_t(llvm::divideCeil(std::max<int64_t>(tuning.minBackwardTasks, 1),
                               spec.batch * spec.kvHeads));
  int64_t pieces = std::max<int64_t>(1, std::min(wanted, tiles / 2));
  // Without pieces that would stay empty.
  return llvm::divideCeil(tiles, llvm::divideCeil(tiles, pieces));
}

FailureOr<int64_t> attentionBackwardPieces(Location loc,
                                           const AttentionSpec &spec,
                                           const AttentionTuning &tuning) {
  auto blocks = chooseBlocks(loc, spec, tuning, backwardScratchBytes);
  if (failed(blocks))
    return failure();
  return countPieces(spec, tuning, *blocks);
}

FailureOr<BuiltKernel> buildAttentionBackward(OpBuilder &builder, Location loc,
                                              StringRef name,
                                              const AttentionSpec &spec,
                                              const AttentionTuning &tuning) {
  auto blocks = chooseBlocks(loc, spec, tuning, backwardScratchBytes);
  if (failed(blocks))
    return failure();
  BackwardEmitter emitter(builder, loc, spec, *blocks);
  emitter.pieces = countPieces(spec, tuning, *blocks);
  BuiltKernel kernel = emitter.createKernel(
      name, AttentionKernelKind::Backward, emitter.pieces,
      [&] { emitter.setup(); }, [&](Value number) { emitter.task(number); });
  kernel.extent = spec.batch * spec.kvHeads * emitter.pieces;
  // Scores, dq and dk take 2 D operations a score, dout v^T and dv 2 Dv.
  kernel.flops = countTiles(spec, *blocks).scores * double(spec.batch) *
                 double(spec.heads) *
                 (6.0 * double(spec.headDim) + 4.0 * double(spec.valueDim));
  kernel.grain = grainFor(kernel.flops / double(kernel.extent));
  return kernel;
}

FailureOr<BuiltKernel>
buildAttentionQueryGradientSum(OpBuilder &builder, Location loc, StringRef name,
                               const AttentionSpec &spec,
                               const AttentionTuning &tuning) {
  auto blocks = chooseBlocks(loc, spec, tuning, backwardScratchBytes);
  if (failed(blocks))
    return failure();
  QueryGradientSumEmitter emitter(builder, loc, spec, *blocks);
  emitter.pieces = countPieces(spec, tuning, *blocks);
  if (emitter.pieces == 1)
    return emitError(loc) << "attention backward does not cut its keys into "
                             "pieces here, so there is no sum to build";
  BuiltKernel kernel = emitter.createKernel(
      name, AttentionKernelKind::QueryGradientSum, emitter.pieces, [] {},
      [&](Value number) { emitter.task(number); });
  kernel.extent = spec.batch * spec.queries;
  double perTask =
      double(emitter.pieces - 1) * double(spec.heads) * double(spec.headDim);
  kernel.flops = perTask * double(kernel.extent);
  // Bound by memory: an addition takes about as long as ten in a product.
  kernel.grain = grainFor(10 * perTask);
  return kernel;
}

FailureOr<BuiltKernel>
buildAttentionBiasGradient(OpBuilder &builder, Location loc, StringRef name,
                           const AttentionSpec &spec,
                           const AttentionTuning &tuning) {
  if (!spec.bias)
    return emitError(loc) << "attention bias gradient got a spec without bias";
  auto blocks = chooseBlocks(loc, spec, tuning, biasGradientScratchBytes);
  if (failed(blocks))
    return failure();
  BiasGradientEmitter emitter(builder, loc, spec, *blocks);
  BuiltKernel kernel = emitter.createKernel(
      name, AttentionKernelKind::BiasGradient, /*pieces=*/1,
      [&] { emitter.setup(); }, [&](Value number) { emitter.task(number); });
  kernel.extent = (*spec.bias)[0] * (*spec.bias)[1] *
                  int64_t(llvm::divideCeil(spec.queries, blocks->queries));
  kernel.flops = countTiles(spec, *blocks).scores * double(spec.batch) *
                 double(spec.heads) * 2.0 *
                 double(spec.headDim + spec.valueDim);
  kernel.grain = grainFor(kernel.flops / double(kernel.extent));
  return kernel;
}

} // namespace sheaf::cpu
