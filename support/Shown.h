//===- Shown.h - Text of users in diagnostics -------------------*- C++ -*-===//
//
// What stands where a word or a number was expected may be of any length; a
// diagnostic shows its beginning, so that the message stays readable.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_SHOWN_H
#define SHEAF_SUPPORT_SHOWN_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace sheaf {

/// The text, of more than 60 bytes the first and "...".
inline std::string shown(llvm::StringRef text) {
  constexpr size_t most = 60;
  if (text.size() <= most)
    return text.str();
  // The cut may be within a character.
  return llvm::json::fixUTF8(text.take_front(most)) + "...";
}

} // namespace sheaf

#endif // SHEAF_SUPPORT_SHOWN_H
