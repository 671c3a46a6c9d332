//===- PassFailure.cpp - Which pass failed, and on what -------------------===//

#include "support/PassFailure.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassInstrumentation.h"

using namespace mlir;

namespace {

struct NameFailingPass : PassInstrumentation {
  NameFailingPass(StringRef tool) : tool(tool) {}

  void runAfterPassFailed(Pass *pass, Operation *op) override {
    // The adaptor that runs passes on nested ops fails with them.
    if (pass->getName().contains("OpToOpPassAdaptor"))
      return;
    std::string line;
    llvm::raw_string_ostream os(line);
    StringRef name = pass->getArgument().empty() ? pass->getName() : pass->getArgument();
    os << tool << ": the pass '" << name << "' failed on '" << op->getName() << "'";
    if (auto symbol = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
      os << " @" << symbol.getValue();
    os << "\n";
    // One write, whole among those of other threads.
    llvm::errs() << line;
  }

  std::string tool;
};

} // namespace

void sheaf::nameFailingPass(PassManager &manager, StringRef tool) {
  manager.addInstrumentation(std::make_unique<NameFailingPass>(tool));
}
