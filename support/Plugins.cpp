//===- Plugins.cpp - Loading what the command line names ------------------===//

#include "support/Plugins.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using llvm::Error;

static Error explain(const std::string &file, Error error) {
  return llvm::createStringError("cannot load plugin '" + file +
                                 "': " + llvm::toString(std::move(error)));
}

Error sheaf::loadDialectPlugin(const std::string &file, mlir::DialectRegistry &registry) {
  llvm::Expected<mlir::DialectPlugin> plugin = mlir::DialectPlugin::load(file);
  if (!plugin)
    return explain(file, plugin.takeError());
  plugin->registerDialectRegistryCallbacks(registry);
  return Error::success();
}

Error sheaf::loadPassPlugin(const std::string &file) {
  llvm::Expected<mlir::PassPlugin> plugin = mlir::PassPlugin::load(file);
  if (!plugin)
    return explain(file, plugin.takeError());
  plugin->registerPassRegistryCallbacks();
  return Error::success();
}
