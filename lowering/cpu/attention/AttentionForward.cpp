//===- AttentionForward.cpp - The forward kernel of attention -------------===//

#include "Attention.h"
#include "AttentionTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace sheaf::cpu {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ForwardEmitter : public AttentionTiles {
public:
  using AttentionTiles::AttentionTiles;

  void setup() {
    queriesTransposed = scratch({blocks.paddedHeadDim, blocks.queries});
    outTransposed = scratch({blocks.paddedValueDim, blocks.queries});
    tile = scratch({blocks.keys, blocks.queries});
    maximum = scratch({blocks.queries});
    sum = scratch({blocks.queries});
    correction = scratch({blocks.queries});
    allocateDocuments();
  }

  void task(Value number) {
    Value blocksPerHead = index(llvm::divideCeil(spec.queries, blocks.queries));
    Value row = div(number, blocksPerHead);
    Value ofHead = rem(row, index(spec.heads));
    beginBlock(div(row, index(spec.heads)), ofHead,
               div(ofHead, index(spec.heads / spec.kvHeads)),
               mul(rem(number, blocksPerHead), index(blocks.queries)));

    copyTransposed(rowsOf(args.q, blockStart, head), blockQueries,
                   extent(spec.headDim), queriesTransposed, blocks.queries,
                   spec.headDim, splat(spec.scale));
    fillRows(outTransposed, extent(spec.valueDim), blocks.queries, splat(0.0));
    for (int64_t v = 0; v < queryVectors(); ++v) {
      store(splat(-kInfinity), maximum, index(0), index(v * lanes));
      store(splat(0.0), sum, index(0), index(v * lanes));
    }
    forEachKeyTile(visibleKeys(), [&](Value start, const Extent &keys) {
      scores(queriesTransposed, tile, start, keys);
      maskTile(tile, start, keys, -kInfinity);
      for (int64_t v = 0; v < queryVectors(); v += 4)
        softmaxUpdate(v, std::min(v + 4, queryVectors()), keys);
      Window valueRows = rowsOf(args.v, start, kvHead);
      product(
          extent(spec.valueDim), queryVectors(), keys,
          [&](Value dv, Value key) { return loadScalar(valueRows, key, dv); },
          [&](Value key, Value q) { return load(tile, key, q); },
          [&](Value dv, Value q) {
            return fmul(load(outTransposed, dv, q),
                        load(correction, index(0), q));
          },
          [&](Value value, Value dv, Value q) {
            store(value, outTransposed, dv, q);
          });
    });
    finish();
  }

private:
  /// The online softmax (Milakov and Gimelshein 2018, algorithm 3) of vectors
  /// [begin, end) of the tile: scores become exp(score - maximum).
  void softmaxUpdate(int64_t begin, int64_t end, const Extent &keys) {
    Values columns, maxima, sums, safe;
    for (int64_t v = begin; v < end; ++v) {
      columns.push_back(index(v * lanes));
      maxima.push_back(load(maximum, index(0), columns.back()));
    }
    Values before = maxima;
    // NaN is dropped here and comes back through exp(NaN - maximum).
    maxima =
        loop(index(0), keys.value, 1, maxima, [&](Value k, ValueRange carried) {
          Values next;
          for (auto [column, old] : llvm::zip(columns, carried))
            next.push_back(fmaxDropNaN(load(tile, k, column), old));
          return next;
        });
    for (auto [i, column] : llvm::enumerate(columns)) {
      // Without a visible key so far, -inf - -inf must not become NaN.
      safe.push_back(select(
          fcompare(arith::CmpFPredicate::OEQ, maxima[i], splat(-kInfinity)),
          splat(0.0), maxima[i]));
      Value factor = exp(fsub(before[i], safe[i]), /*nonPositive=*/true);
      store(factor, correction, index(0), column);
      store(maxima[i], maximum, index(0), column);
      sums.push_back(fmul(load(sum, index(0), column), factor));
    }
    sums =
        loop(index(0), keys.value, 1, sums, [&](Value k, ValueRange carried) {
          Values next;
          for (auto [i, column] : llvm::enumerate(columns)) {
            Value p = exp(fsub(load(tile, k, column), safe[i]),
                          /*nonPositive=*/true);
            store(p, tile, k, column);
            next.push_back(fadd(carried[i], p));
          }
          return next;
        });
    for (auto [i, column] : llvm::enumerate(columns))
      store(sums[i], sum, index(0), column);
  }

  void finish() {
    for (int64_t v = 0; v < queryVectors(); ++v) {
      Value column = index(v * lanes);
      Value total = load(sum, index(0), column);
      Value peak = load(maximum, index(0), column);
      // `maximum` becomes lse.
      store(fadd(peak, math::LogOp::create(builder, loc, total)), maximum,
            index(0), column);
    }
    Window outRows = rowsOf(args.out, blockStart, head);
    Value zero = splat(0.0), one = splat(1.0);
    readTransposed(
        [&](Value dv, Value q) {
          Value total = load(sum, index(0), q);
          Value empty = fcompare(arith::CmpFPredicate::OEQ, total, zero);
          return select(empty, zero,
                        fmul(load(outTransposed, dv, q), fdiv(one, total)));
        },
        blockQueries, blocks.queries, extent(spec.valueDim), spec.valueDim,
        [&](Value vector, Value q, Value dv, Value mask) {
          store(vector, outRows, q, dv, mask);
        });
    if (!spec.wantsLse)
      return;
    Window lseRows = rowsOf(args.lse, blockStart, head);
    loop(index(0), blockQueries.value, 1, [&](Value q) {
      storeScalar(loadScalar(maximum, index(0), q), lseRows, q, index(0));
    });
  }

  Window queriesTransposed, outTransposed, tile, maximum, sum, correction;
};

} // namespace

FailureOr<BuiltKernel> buildAttentionForward(OpBuilder &builder, Location loc,
                                             StringRef name,
                                             const AttentionSpec &spec,
                                             const AttentionTuning &tuning) {
  auto blocks = chooseBlocks(loc, spec, tuning, forwardScratchBytes);
  if (failed(blocks))
    return failure();
  ForwardEmitter emitter(builder, loc, spec, *blocks);
  BuiltKernel kernel = emitter.createKernel(
      name, AttentionKernelKind::Forward, /*pieces=*/1,
      [&] { emitter.setup(); }, [&](Value number) { emitter.task(number); });
  kernel.extent = spec.batch * spec.heads *
                  int64_t(llvm::divideCeil(spec.queries, blocks->queries));
  kernel.flops = countTiles(spec, *blocks).scores * double(spec.batch) *
                 double(spec.heads) * 2.0 *
                 double(spec.headDim + spec.valueDim);
  kernel.grain = grainFor(kernel.flops / double(kernel.extent));
  return kernel;
}

} // namespace sheaf::cpu
