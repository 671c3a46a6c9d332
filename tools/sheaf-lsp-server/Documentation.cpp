//===- Documentation.cpp - What TableGen says of each op ------------------===//

#include "Documentation.h"
#include "llvm/ADT/StringMap.h"

using llvm::StringRef;

static constexpr char text[] =
#include "Documentation.inc"
    ;

/// The sections of mlir-tblgen's pages by the name that IR has for their subject.
static llvm::StringMap<StringRef> readSections() {
  llvm::StringMap<StringRef> sections;
  StringRef rest(text, sizeof text - 1);
  auto start = rest.find("\n### ");
  while (start != StringRef::npos) {
    rest = rest.substr(start + 5);
    size_t end = std::min(rest.find("\n### "), std::min(rest.find("\n## "), rest.find("\n# ")));
    auto [title, body] = rest.substr(0, end).split('\n');
    if (title.consume_front("`")) {
      sections[title.split('`').first] = body.trim();
    } else {
      // An attribute's section names the C++ class; its example has the mnemonic.
      for (StringRef tail = body; !(tail = tail.drop_until([](char c) { return c == '#'; })).empty();) {
        tail = tail.drop_front();
        StringRef name = tail.take_while(
            [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
        if (!name.contains('.'))
          continue;
        sections[("#" + name).str()] = body.trim();
        break;
      }
    }
    start = rest.find("\n### ");
  }
  return sections;
}

StringRef sheaf::lsp::documentation(StringRef name) {
  static const llvm::StringMap<StringRef> sections = readSections();
  return sections.lookup(name);
}
