//===- fuzz-ir.cpp - The parser, the verifiers and every pass -------------===//
//
// What parses and verifies must print as text and bytecode that read back as
// the same, and every pass must either refuse it or leave IR that verifies.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

static constexpr const char *passNames[] = {
#include "PassNames.inc"
};

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  sheaf::registerSheafPasses();
  return 0;
}

static std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream(text) << *op;
  return text;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  OwningOpRef<ModuleOp> module = sheaf::fuzz::parse(data, size);
  if (!module)
    return 0;
  MLIRContext &context = *module->getContext();

  std::string text = print(*module);
  OwningOpRef<ModuleOp> again = parseSourceString<ModuleOp>(text, &context);
  if (!again)
    sheaf::fuzz::fail("this text was printed and is not read:\n" + text);
  if (print(*again) != text)
    sheaf::fuzz::fail("printed, read and printed is another text:\n" + text +
                      "\nand\n" + print(*again));
  std::string bytecode;
  llvm::raw_string_ostream stream(bytecode);
  if (failed(writeBytecodeToFile(*module, stream)))
    sheaf::fuzz::fail("no bytecode for:\n" + text);
  again = parseSourceString<ModuleOp>(bytecode, &context);
  if (!again || print(*again) != text)
    sheaf::fuzz::fail("bytecode reads as another module than:\n" + text);

  for (const char *name : passNames) {
    OwningOpRef<ModuleOp> copy = module->clone();
    PassManager manager(&context, ModuleOp::getOperationName(),
                        OpPassManager::Nesting::Implicit);
    manager.enableVerifier(false);
    const PassInfo *pass = PassInfo::lookup(name);
    if (!pass)
      sheaf::fuzz::fail(llvm::Twine("no pass is named ") + name);
    // It runs ops element by element.
    StringRef options =
        StringRef(name) == "dist-check-rules" ? "most-loops=16384" : "";
    if (failed(pass->addToPipeline(manager, options, [&](const Twine &message) {
          sheaf::fuzz::fail(llvm::Twine(name) + ": " + message);
          return failure();
        })))
      continue;
    if (succeeded(manager.run(*copy)) && failed(verify(*copy)))
      sheaf::fuzz::fail(llvm::Twine(name) +
                        " leaves what does not verify of:\n" + text);
  }
  return 0;
}
