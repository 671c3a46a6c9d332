//===- Documentation.h - What TableGen says of each op ---------*- C++ -*-===//
//
// The documentation of Sheaf's ops, attributes and dialects, as the language
// server shows it on hover and beside a completion. It is what mlir-tblgen writes,
// built into the program.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TOOLS_LSP_DOCUMENTATION_H
#define SHEAF_TOOLS_LSP_DOCUMENTATION_H

#include "llvm/ADT/StringRef.h"

namespace sheaf::lsp {

/// Markdown on an op ("nn.add") or an attribute ("#dist.partial"); empty where there
/// is none. The text lives as long as the program.
llvm::StringRef documentation(llvm::StringRef name);

} // namespace sheaf::lsp

#endif // SHEAF_TOOLS_LSP_DOCUMENTATION_H
