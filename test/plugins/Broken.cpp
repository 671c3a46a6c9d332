//===- Broken.cpp - A pass that fails in the ways that a pass can ---------===//

#include "compiler/Points.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

namespace {

struct Broken : PassWrapper<Broken, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Broken)
  Broken() = default;
  Broken(const Broken &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-broken"; }
  StringRef getDescription() const override { return "fails"; }
  Option<std::string> how{
      *this, "how", llvm::cl::desc("crash, silent, error, invalid or none")};

  void runOnOperation() override {
    if (how == "crash")
      abort();
    if (how == "silent")
      return signalPassFailure();
    if (how == "error") {
      getOperation().emitError("is not to my liking");
      return signalPassFailure();
    }
    if (how == "invalid")
      getOperation()->setAttr("function_type", UnitAttr::get(&getContext()));
    getOperation()->setAttr("test.seen", UnitAttr::get(&getContext()));
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Broken", "0.1", [] {
            PassRegistration<Broken>();
            const char *attach = getenv("SHEAF_TEST_ATTACH");
            if (!sheaf::attachPasses || !attach)
              return;
            if (StringRef(attach) == "crash")
              abort();
            // POINT:PIPELINE, or the pass of this plugin.
            auto [point, pipeline] = StringRef(attach).split(':');
            if (pipeline.empty())
              sheaf::attachPasses("model", "func.func(test-broken{how=none})");
            else
              sheaf::attachPasses(point, pipeline);
          }};
}
