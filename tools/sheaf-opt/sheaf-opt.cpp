//===- sheaf-opt.cpp - Runs passes on IR ----------------------------------===//

#include "dialects/NN/NN.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/nn/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  sheaf::registerNNPasses();
  registry.insert<sheaf::nn::NNDialect>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Sheaf pass driver\n", registry));
}
