//===- ConvertFloats.cpp - Another element type for floats ----------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/precision/Passes.h"

namespace sheaf {
#define GEN_PASS_DEF_NNCONVERTFLOATS
#include "passes/precision/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
struct ConvertFloats : sheaf::impl::NNConvertFloatsBase<ConvertFloats> {
  using NNConvertFloatsBase::NNConvertFloatsBase;

  void runOnOperation() override {
    if (to != "f64") {
      getOperation().emitError("nn-convert-floats: unknown type '")
          << to << "', expected 'f64'";
      return signalPassFailure();
    }
    // A schedule says types elsewhere than at values, too.
    WalkResult below =
        getOperation().walk<WalkOrder::PreOrder>([](Operation *op) {
          StringRef dialect = op->getName().getDialectNamespace();
          if (dialect != "pipe" && dialect != "exec")
            return WalkResult::advance();
          op->emitOpError("is of the ")
              << dialect << " dialect; nn-convert-floats expects a program on "
              << "tensors, before schedules and buffers";
          return WalkResult::interrupt();
        });
    if (below.wasInterrupted())
      return signalPassFailure();
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      if (llvm::any_of(function.getArgumentTypes(),
                       llvm::IsaPred<MemRefType>)) {
        function.emitError("nn-convert-floats: @")
            << function.getName()
            << " is on buffers, expected a program on tensors";
        return signalPassFailure();
      }
    // Their factors are f32, and what is wider rounds otherwise.
    WalkResult quantized = getOperation().walk([](Operation *op) {
      auto cast = dyn_cast<nn::CastOp>(op);
      if (!isa<nn::QuantizeOp, nn::DequantizeOp, nn::ScaledEinsumOp>(op) &&
          !(cast && isa<Float8E8M0FNUType>(cast.getType().getElementType())))
        return WalkResult::advance();
      op->emitOpError("is of scaled 8-bit floats; nn-convert-floats expects a "
                      "program without them, before they are put in");
      return WalkResult::interrupt();
    });
    if (quantized.wasInterrupted())
      return signalPassFailure();
    Type element = Float64Type::get(&getContext());
    auto isConverted = [](Type type) {
      return type.isF32() || type.isBF16() || type.isF16();
    };
    auto convert = [&](Type type) -> Type {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && isConverted(tensor.getElementType())
                 ? tensor.clone(element)
                 : type;
    };
    auto convertAll = [&](TypeRange types) {
      return llvm::map_to_vector(types,
                                 [&](Type type) { return convert(type); });
    };
    getOperation().walk([&](Operation *op) {
      for (OpResult result : op->getResults())
        result.setType(convert(result.getType()));
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            argument.setType(convert(argument.getType()));
      if (auto function = dyn_cast<func::FuncOp>(op)) {
        function.setFunctionType(FunctionType::get(
            &getContext(), convertAll(function.getArgumentTypes()),
            convertAll(function.getResultTypes())));
      } else if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
        auto value = dyn_cast<DenseFPElementsAttr>(constant.getValue());
        if (value && isConverted(value.getElementType()))
          constant.setValueAttr(
              value.mapValues(element, [](const APFloat &number) {
                APFloat wide = number;
                bool exact;
                wide.convert(APFloat::IEEEdouble(),
                             APFloat::rmNearestTiesToEven, &exact);
                return wide.bitcastToAPInt();
              }));
      }
    });
    getOperation().walk([](nn::CastOp cast) {
      if (cast.getInput().getType() != cast.getType()) {
        // Nothing of an 8-bit float is too large for f64.
        if (cast.getType().getElementType().isF64())
          cast.setSaturate(false);
        return;
      }
      cast.replaceAllUsesWith(cast.getInput());
      cast.erase();
    });
    // To an 8-bit float, which stays one: the bits are for f32.
    getOperation().walk([](nn::CastOp cast) {
      if (!cast.getRandom() ||
          !cast.getInput().getType().getElementType().isF64())
        return;
      OpBuilder builder(cast);
      nn::Emit emit(builder, cast.getLoc());
      cast.getInputMutable().assign(
          emit.cast(cast.getInput(), builder.getF32Type()));
    });
  }
};
} // namespace
