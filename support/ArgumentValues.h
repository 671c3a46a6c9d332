//===- ArgumentValues.h - An option on a command line ----------*- C++ -*-===//
//
// For programs whose options MLIR parses: what stands on the command line,
// before it does.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_ARGUMENTVALUES_H
#define SHEAF_SUPPORT_ARGUMENTVALUES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace sheaf {

/// The values of `--NAME=VALUE` and `--NAME VALUE` on the command line.
inline llvm::SmallVector<std::string> valuesOf(llvm::StringRef name, int argc,
                                               char **argv) {
  llvm::SmallVector<std::string> values;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef argument = argv[i];
    if (!argument.consume_front("-"))
      continue;
    argument.consume_front("-");
    if (!argument.consume_front(name))
      continue;
    if (argument.consume_front("="))
      values.push_back(argument.str());
    else if (argument.empty() && i + 1 < argc)
      values.push_back(argv[++i]);
  }
  return values;
}

} // namespace sheaf

#endif // SHEAF_SUPPORT_ARGUMENTVALUES_H
