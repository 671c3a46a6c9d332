//===- Cube.cpp - An op with its rule, gradient and lowering --------------===//
//
// The op says how it shards, how it is differentiated and what it is made of;
// from that the compiler trains a model that uses it, in kernels fused like any
// other.
//
//===----------------------------------------------------------------------===//

#include "Cube.h"
#include "compiler/Points.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

#include "CubeDialect.cpp.inc"
#define GET_OP_CLASSES
#include "CubeOps.cpp.inc"

using namespace mlir;
using namespace cube;

void CubeDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "CubeOps.cpp.inc"
      >();
}

sheaf::nn::ShardingRule CubeOp::getShardingRule() {
  return sheaf::nn::getElementwiseRule(getOperation());
}

/// The gradient of x^3 is 3 x^2.
void CubeOp::buildGradient(sheaf::nn::Gradients &gradients) {
  if (!gradients.needs(0) || !gradients.ofResult())
    return;
  sheaf::nn::Emit emit(gradients.builder, gradients.loc);
  Value square = emit.mul(getInput(), getInput());
  gradients.set(0, emit.mul(gradients.ofResult(), emit.mul(square, 3.0)));
}

SmallVector<Value> CubeOp::decompose(OpBuilder &builder) {
  sheaf::nn::Emit emit(builder, getLoc());
  return {emit.mul(emit.mul(getInput(), getInput()), getInput())};
}

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Cube", "0.1",
          [](DialectRegistry *registry) {
            registry->insert<CubeDialect, sheaf::nn::NNDialect>();
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Cube", "0.1", [] {
            registerCubePasses();
            // In sheaf-compile it runs by itself, on the model.
            if (sheaf::attachPasses)
              sheaf::attachPasses("model", "func.func(cube-raise)");
          }};
}
