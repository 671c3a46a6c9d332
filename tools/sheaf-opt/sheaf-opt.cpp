//===- sheaf-opt.cpp - Runs passes on IR ----------------------------------===//

#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "lowering/NNToExec/NNToExec.h"
#include "lowering/cpu/kernels/Kernels.h"
#include "passes/memory/Passes.h"
#include "passes/nn/Passes.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  registry.insert<sheaf::nn::NNDialect, sheaf::exec::ExecDialect>();
  sheaf::registerNNToExecPasses();
  sheaf::registerMemoryPasses();
  sheaf::registerNNPasses();
  sheaf::cpu::registerKernelPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Sheaf pass driver\n", registry));
}
