//===- fuzz-tokens.cpp - Token files --------------------------------------===//

#include "InputFile.h"
#include "sheaf/Data.h"
#include "sheaf/Error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  InputFile input(data, size);
  for (sheaf::TokenType type : {sheaf::TokenType::Auto, sheaf::TokenType::U8,
                                sheaf::TokenType::U16, sheaf::TokenType::U32}) {
    try {
      sheaf::TokenFile file(input.path(), type);
      if (file.size() < 0 || file.size() > static_cast<int64_t>(size))
        abort();
      uint32_t tokens[64];
      // A window over the end, and one over the whole file where it is short.
      file.read(file.size() - 1, 64, 1 << 16, tokens);
      for (uint32_t token : tokens)
        if (token >= 1 << 16)
          abort();
      file.read(0, 64, 300, tokens);
    } catch (const sheaf::Error &) {
    }
  }
  return 0;
}
