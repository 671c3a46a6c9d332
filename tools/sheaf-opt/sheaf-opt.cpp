//===- sheaf-opt.cpp - Runs passes on IR ----------------------------------===//

#include "compiler/Compile.h"
#include "support/Version.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(sheaf::printVersion);
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  sheaf::registerSheafDialects(registry);
  sheaf::registerSheafPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Sheaf pass driver\n", registry));
}
