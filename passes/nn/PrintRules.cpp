//===- PrintRules.cpp - Say the sharding rule of each op ------------------===//

#include "dialects/NN/NN.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "passes/nn/Passes.h"

namespace sheaf {
#define GEN_PASS_DEF_NNPRINTRULES
#include "passes/nn/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
struct NNPrintRules : sheaf::impl::NNPrintRulesBase<NNPrintRules> {
  void runOnOperation() final {
    bool wrong = false;
    getOperation()->walk([&](Operation *op) {
      if (isa<ModuleOp, FunctionOpInterface>(op) ||
          op->hasTrait<OpTrait::IsTerminator>())
        return;
      FailureOr<nn::ShardingRule> rule = nn::getRule(op);
      if (failed(rule)) {
        op->emitRemark("no rule: replicated");
        return;
      }
      std::string error;
      if (failed(rule->verify(op, error))) {
        op->emitOpError("has the rule ") << rule->str() << ", but " << error;
        wrong = true;
        return;
      }
      op->emitRemark("rule: ") << rule->str();
    });
    if (wrong)
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
