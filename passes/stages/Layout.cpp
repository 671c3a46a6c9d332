//===- Layout.cpp - Which stage has what, as text -------------------------===//

#include "passes/stages/Layout.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>

using namespace llvm;
using namespace sheaf;

Expected<stages::Layout> stages::parseLayout(StringRef text) {
  Layout layout;
  layout.layers.push_back(0);
  int64_t head = -1, total = 0;
  size_t at = 0;
  auto error = [&](const Twine &message) {
    return createStringError("column " + Twine(at + 1) + ": " + message);
  };
  for (; at < text.size(); ++at) {
    auto stage = static_cast<int64_t>(layout.layers.size()) - 1;
    switch (text[at]) {
    case ' ':
    case '\t':
      break;
    case '|':
      layout.layers.push_back(0);
      break;
    case 'e':
      if (layout.embedding >= 0)
        return error("a second embedding, expected one");
      if (total > 0)
        return error("the embedding behind a layer, expected it before");
      layout.embedding = stage;
      break;
    case 'h':
      if (head >= 0)
        return error("a second head, expected one");
      head = stage;
      break;
    case 'l': {
      if (head >= 0)
        return error("a layer behind the head, expected it before");
      int64_t count = 1;
      if (at + 1 < text.size() && text[at + 1] == '*') {
        StringRef rest = text.substr(at + 2);
        size_t before = rest.size();
        at += 2;
        if (rest.consumeInteger(10, count) || count < 1 || count > (1 << 20))
          return error("expected how many layers, a number from 1 to " +
                       Twine(1 << 20));
        at += before - rest.size() - 1;
      }
      layout.layers.back() += count;
      total += count;
      break;
    }
    default:
      return error("'" + Twine(text[at]) +
                   "', expected e (embedding), l or l*N (layers), h (head and "
                   "loss) or | between stages");
    }
  }
  auto last = static_cast<int64_t>(layout.layers.size()) - 1;
  if (head >= 0 && head != last)
    return createStringError("the head is on stage " + Twine(head) + " of " +
                             Twine(last + 1) +
                             ", expected it on the last stage");
  if (total == 0)
    return createStringError("no layer, expected at least one l");
  return layout;
}
