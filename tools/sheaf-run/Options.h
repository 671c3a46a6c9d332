//===- Options.h - the command line of sheaf-run ----------------*- C++ -*-===//
//
// One table says for each option its name, what its value is, what it does and
// how it is stored; parsing and --help read it.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_RUN_OPTIONS_H
#define SHEAF_RUN_OPTIONS_H

#include "sheaf/Training.h"
#include <optional>
#include <string>
#include <vector>

namespace sheaf {

/// Reads `--name=value` and `--name value`. Nothing where --help was asked for.
/// Throws an Error that names the option and what was expected.
std::optional<RunOptions> parseOptions(const std::vector<std::string> &words);

std::string helpText();

} // namespace sheaf

#endif // SHEAF_RUN_OPTIONS_H
