//===- fuzz-config.cpp - Hugging Face configurations ----------------------===//

#include "Support.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/Verifier.h"
#include "models/Models.h"
#include <sys/mman.h>
#include <unistd.h>

using namespace sheaf::models;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int file = memfd_create("config.json", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size))
    abort();
  std::string path = "/proc/self/fd/" + std::to_string(file);
  for (Family family : {Family::GPT, Family::Llama}) {
    Model model(family);
    llvm::Error error =
        readHuggingFaceConfig(path, model, false, llvm::nulls());
    if (!error)
      error = complete(model);
    if (error) {
      llvm::consumeError(std::move(error));
      continue;
    }
    if (countParameters(model) <= 0)
      sheaf::fuzz::fail("a model without parameters was accepted");
    // The text grows with the layers' names alone.
    if (model.layers > 64)
      continue;
    mlir::OwningOpRef<mlir::ModuleOp> module =
        build(sheaf::fuzz::context(), model);
    if (mlir::failed(mlir::verify(*module)))
      sheaf::fuzz::fail(
          "the model of an accepted configuration does not verify");
  }
  close(file);
  return 0;
}
