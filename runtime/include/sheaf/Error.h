//===- Error.h - the runtime's one error type -------------------*- C++ -*-===//
//
// Everything that can go wrong in the runtime is reported as an Error with a
// message for the user: what was found, what was expected, the nearest fix.
// Lower case, no final period.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_ERROR_H
#define SHEAF_ERROR_H

#include <fmt/format.h>
#include <stdexcept>

namespace sheaf {

class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Throws an Error with the formatted message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

} // namespace sheaf

#endif // SHEAF_ERROR_H
