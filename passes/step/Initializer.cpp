//===- Initializer.cpp - The function that makes the initial parameters ---===//

#include "dialects/NN/NN.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/step/Passes.h"

namespace sheaf {
#define GEN_PASS_DEF_NNADDINITIALIZER
#include "passes/step/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

/// The streams of dropout are small numbers; those of parameters begin here.
static constexpr int64_t kFirstStream = int64_t(1) << 30;

namespace {
struct NNAddInitializer : sheaf::impl::NNAddInitializerBase<NNAddInitializer> {
  using NNAddInitializerBase::NNAddInitializerBase;

  void runOnOperation() final {
    SymbolTable symbols(getOperation());
    if (failed(addInit(symbols)))
      signalPassFailure();
  }

private:
  LogicalResult addInit(SymbolTable &symbols);
};
} // namespace

LogicalResult NNAddInitializer::addInit(SymbolTable &symbols) {
  MLIRContext *context = &getContext();
  auto loss = symbols.lookup<func::FuncOp>(function);
  if (!loss)
    return emitError(getOperation().getLoc())
           << "nn-add-initializer: option 'function' names '" << function
           << "', which is no function of the module";
  if (Operation *other = symbols.lookup("init")) {
    InFlightDiagnostic error = loss.emitOpError(
        "cannot get an initializer: there is an @init already");
    error.attachNote(other->getLoc()) << "here";
    return error;
  }
  Location loc = loss.getLoc();
  Builder attribute(context);
  auto key = RankedTensorType::get({4}, attribute.getI32Type());
  auto init =
      func::FuncOp::create(loc, "init", FunctionType::get(context, key, {}));
  Block *block = init.addEntryBlock();
  OpBuilder builder = OpBuilder::atBlockEnd(block);
  nn::Emit emit(builder, loc);
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < loss.getNumArguments(); ++i) {
    auto param = loss.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr);
    if (!param)
      continue;
    auto type = cast<RankedTensorType>(loss.getArgumentTypes()[i]);
    double number = param.getInitValue().convertToDouble();
    Value value;
    if (param.getInit() == nn::Init::Constant) {
      value = emit.constant(type, number);
    } else if (type.getNumElements() > nn::kMostRandom) {
      init.erase();
      return loss.emitOpError("has the parameter ")
             << param.getName() << " of " << type.getNumElements()
             << " elements, expected at most 2^32 where they are random: cut "
                "it in several";
    } else {
      auto drawn = RankedTensorType::get(type.getShape(), builder.getF32Type());
      Value stream =
          emit.constant(RankedTensorType::get({}, builder.getI32Type()),
                        static_cast<double>(kFirstStream + results.size()));
      Value normal = emit.make<nn::RandomOp>(drawn, nn::Distribution::Normal,
                                             block->getArgument(0), stream,
                                             /*sample_dim=*/false);
      value = emit.cast(emit.mul(normal, number), type.getElementType());
    }
    results.push_back(value);
    attributes.push_back(DictionaryAttr::get(
        context,
        attribute.getNamedAttr(
            nn::kResultAttr, attribute.getStrArrayAttr(
                                 {"parameter", param.getName().getValue()}))));
  }
  func::ReturnOp::create(builder, loc, results);
  init.setFunctionType(
      FunctionType::get(context, key, ValueRange(results).getTypes()));
  init.setArgAttr(0, nn::kRngAttr, attribute.getUnitAttr());
  init.setAllResultAttrs(attributes);
  symbols.insert(init);
  return success();
}
