//===- Nearest.h - What a misspelt word may have meant ---------*- C++ -*-===//
//
// For diagnostics: the one of some words that a user most likely meant.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_NEAREST_H
#define SHEAF_SUPPORT_NEAREST_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <optional>

namespace sheaf {

/// The candidate that differs in the fewest letters, of several the first;
/// nothing where all differ in more than a third of them (and in more than
/// two).
inline std::optional<llvm::StringRef>
nearest(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> candidates) {
  std::optional<llvm::StringRef> best;
  unsigned least = std::max<unsigned>(2, word.size() / 3) + 1;
  for (llvm::StringRef candidate : candidates) {
    unsigned distance =
        word.edit_distance(candidate, /*AllowReplacements=*/true, least);
    if (distance < least) {
      best = candidate;
      least = distance;
    }
  }
  return best;
}

} // namespace sheaf

#endif // SHEAF_SUPPORT_NEAREST_H
