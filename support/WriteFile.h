//===- WriteFile.h - Files that are there whole or not at all --*- C++ -*-===//
//
// How every tool of the compiler writes its results.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_WRITEFILE_H
#define SHEAF_SUPPORT_WRITEFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace sheaf {

/// Writes `bytes` to the file `path`: beside it first, then by a rename, so
/// that a reader, or whoever comes after a failure, sees the old file or the
/// whole new one.
/// "-" is standard output; what is no regular file (a pipe, a device) is
/// written to. `executable` sets the permission to run it. The error says path
/// and cause.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef bytes,
                      bool executable = false);

} // namespace sheaf

#endif // SHEAF_SUPPORT_WRITEFILE_H
