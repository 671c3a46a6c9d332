//===- Divisors.cpp - The nearest fit of a size that does not divide ------===//

#include "support/Divisors.h"
#include "llvm/ADT/StringExtras.h"

std::string sheaf::nearestDivisors(int64_t value, int64_t wish) {
  int64_t below = 1, above = value;
  for (int64_t divisor = 1; divisor * divisor <= value; ++divisor)
    if (value % divisor == 0)
      for (int64_t candidate : {divisor, value / divisor}) {
        if (candidate <= wish)
          below = std::max(below, candidate);
        if (candidate >= wish)
          above = std::min(above, candidate);
      }
  return below == above ? llvm::utostr(below)
                        : llvm::utostr(below) + " or " + llvm::utostr(above);
}
