//===- Divisors.h - The nearest size that divides ---------------*- C++ -*-===//
//
// What diagnostics suggest where a number has to divide another.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_DIVISORS_H
#define SHEAF_SUPPORT_DIVISORS_H

#include <cstdint>
#include <string>

namespace sheaf {

/// The divisors of `value` (at least 1) on both sides of `wish`, as text: "4 or
/// 6", or the one there is.
std::string nearestDivisors(int64_t value, int64_t wish);

} // namespace sheaf

#endif // SHEAF_SUPPORT_DIVISORS_H
