//===- sheaf-reduce.cpp - Makes a failing module smaller ------------------===//
//
// mlir-reduce with Sheaf's dialects and a pass of its own, `--reduce-values`.
// MLIR's `--reduction-tree` deletes ops and functions, which for tensors leads
// nowhere: everything is read by something. Here an op first gives way to one
// of its operands or to zeros, and what nothing reads any more is deleted.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compile.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Reducer/Tester.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "support/ArgumentValues.h"
#include "support/Version.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace sheaf;

namespace {

enum class Step { Drop, UseOperand, UseZeros };

/// Takes one step at one op; false where that op knows no such step.
static bool take(Step step, Operation *op) {
  if (isa<ModuleOp>(op) || op->hasTrait<OpTrait::IsTerminator>())
    return false;
  if (step == Step::Drop) {
    if (!op->use_empty() ||
        (isa<SymbolOpInterface>(op) &&
         !SymbolTable::symbolKnownUseEmpty(op, op->getParentOp())))
      return false;
    op->erase();
    return true;
  }
  if (op->getNumResults() == 0 || op->use_empty() || isa<nn::ConstantOp>(op))
    return false;
  if (step == Step::UseOperand) {
    if (op->getNumResults() != 1)
      return false;
    for (Value operand : op->getOperands())
      if (operand.getType() == op->getResultTypes()[0]) {
        op->replaceAllUsesWith(ValueRange(operand));
        op->erase();
        return true;
      }
    return false;
  }
  OpBuilder builder(op);
  SmallVector<Attribute> zeros;
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getEncoding() || !builder.getZeroAttr(tensor))
      return false;
    zeros.push_back(builder.getZeroAttr(tensor));
  }
  for (auto [result, zero] : llvm::zip_equal(op->getResults(), zeros))
    result.replaceAllUsesWith(
        nn::ConstantOp::create(builder, op->getLoc(), cast<ElementsAttr>(zero))
            .getResult());
  op->erase();
  return true;
}

/// Halves, quarters, ... of all ops at a time (Zeller and Hildebrandt 2002).
struct ReduceValues : PassWrapper<ReduceValues, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReduceValues)
  ReduceValues() = default;
  ReduceValues(const ReduceValues &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "reduce-values"; }
  StringRef getDescription() const override {
    return "replaces values by operands or zeros and deletes what nothing "
           "reads, while the "
           "module stays interesting";
  }
  Option<std::string> test{
      *this, "test",
      llvm::cl::desc("program that ends with 1 on an interesting module, "
                     "with 0 on another")};
  ListOption<std::string> testArgs{
      *this, "test-arg", llvm::cl::desc("its arguments before the file")};

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<nn::NNDialect>();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!llvm::sys::fs::can_execute(test.getValue())) {
      module.emitError("reduce-values: found no program '")
          << test
          << "', expected test=PROGRAM, the path of one that ends with 1 on an "
             "interesting module";
      return signalPassFailure();
    }
    Tester tester(test, testArgs);
    if (tester.isInteresting(module).first != Tester::Interestingness::True) {
      module.emitError("reduce-values: '")
          << test << "' does not find the module interesting";
      return signalPassFailure();
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (Step step : {Step::Drop, Step::UseZeros, Step::UseOperand})
        changed |= reduce(module, step, tester);
    }
  }

  bool reduce(ModuleOp module, Step step, const Tester &tester) {
    auto count = [&] {
      size_t ops = 0;
      module.walk([&](Operation *) { ++ops; });
      return ops;
    };
    bool changed = false;
    for (size_t size = count(); size > 0; size /= 2)
      for (size_t begin = 0; begin < count();) {
        if (attempt(module, step, begin, begin + size, tester))
          changed = true;
        else
          begin += size;
      }
    return changed;
  }

  /// Steps at the ops `begin` to `end`, counted from the last; kept where the
  /// module is valid and interesting.
  bool attempt(ModuleOp module, Step step, size_t begin, size_t end,
               const Tester &tester) {
    OwningOpRef<ModuleOp> copy = module.clone();
    SmallVector<Operation *> ops;
    copy->walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
    size_t taken = 0;
    for (size_t i = begin; i < std::min(end, ops.size()); ++i) {
      Operation *op = ops[ops.size() - 1 - i];
      taken += take(step, op);
    }
    if (!taken)
      return false;
    {
      // What is wrong with an attempt is nobody's concern.
      ScopedDiagnosticHandler silence(&getContext(),
                                      [](Diagnostic &) { return success(); });
      if (failed(verify(*copy)))
        return false;
    }
    if (tester.isInteresting(*copy).first != Tester::Interestingness::True)
      return false;
    module.getBodyRegion().takeBody(copy->getBodyRegion());
    return true;
  }
};

} // namespace

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(printVersion);
  // MLIR's program ends without a word where it cannot write.
  for (const std::string &file : valuesOf("o", argc, argv)) {
    std::string error;
    if (!openOutputFile(file, &error)) {
      llvm::errs() << "sheaf-reduce: " << error << "\n";
      return 1;
    }
  }
  DialectRegistry registry;
  registerAllDialects(registry);
  registerSheafDialects(registry);
  registerSheafPasses();
  PassRegistration<ReduceValues>();
  MLIRContext context(registry);
  return failed(mlirReduceMain(argc, argv, context));
}
