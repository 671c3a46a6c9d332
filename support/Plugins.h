//===- Plugins.h - Loading what the command line names ---------*- C++ -*-===//
//
// Plugins of MLIR (mlir/Tools/Plugins), loaded with the error that the dynamic
// loader gives. MLIR's own options print less of it and go on.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_PLUGINS_H
#define SHEAF_SUPPORT_PLUGINS_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/Error.h"

namespace sheaf {

/// Loads a plugin with dialects and adds them to `registry`.
llvm::Error loadDialectPlugin(const std::string &file, mlir::DialectRegistry &registry);

/// Loads a plugin with passes and registers them.
llvm::Error loadPassPlugin(const std::string &file);

} // namespace sheaf

#endif // SHEAF_SUPPORT_PLUGINS_H
