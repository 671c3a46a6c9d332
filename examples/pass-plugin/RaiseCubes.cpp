//===- RaiseCubes.cpp - Find third powers ---------------------------------===//

#include "Cube.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace cube {
#define GEN_PASS_DEF_CUBERAISE
#include "CubePasses.h.inc"
} // namespace cube

using namespace mlir;
using sheaf::nn::MulOp;

namespace {

/// (x * x) * x or x * (x * x), all of one type.
struct RaiseCube : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [square, x] :
         {std::pair(op.getLhs(), op.getRhs()), {op.getRhs(), op.getLhs()}}) {
      auto inner = square.getDefiningOp<MulOp>();
      if (!inner || inner.getLhs() != x || inner.getRhs() != x ||
          x.getType() != op.getType())
        continue;
      remark::passed(op.getLoc(),
                     remark::RemarkOpts::name("raised").category("cube"))
          << "a third power";
      rewriter.replaceOpWithNewOp<cube::CubeOp>(op, op.getType(), x);
      return success();
    }
    return rewriter.notifyMatchFailure(
        op, "not the product of a value and its square");
  }
};

struct CubeRaise : cube::impl::CubeRaiseBase<CubeRaise> {
  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseCube>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError("third powers are found without end");
      signalPassFailure();
    }
  }
};

} // namespace
