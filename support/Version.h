//===- Version.h - What --version prints -----------------------*- C++ -*-===//
//
// The version of Sheaf and of the MLIR that it was built with, as each compiler
// tool prints them.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_VERSION_H
#define SHEAF_SUPPORT_VERSION_H

#include "runtime/include/sheaf/abi.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"

namespace sheaf {

/// "sheaf 0.1.0 (MLIR 22.1.8)": also the producer that a manifest names.
constexpr char kProducer[] =
    "sheaf " SHEAF_VERSION " (MLIR " LLVM_VERSION_STRING ")";

inline void printVersion(llvm::raw_ostream &os) { os << kProducer << "\n"; }

} // namespace sheaf

#endif // SHEAF_SUPPORT_VERSION_H
