//===- Print.cpp - The text of a model ------------------------------------===//
//
// MLIR prints a function's signature on one line, which for a model has
// thousands of characters. White space does not count between its tokens, so
// the lines are broken afterwards.
//
//===----------------------------------------------------------------------===//

#include "models/Models.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace sheaf::models;

/// Where a signature or a call is broken.
static constexpr size_t kWidth = 120;

/// The parts of `text` between commas outside of all brackets and strings, each
/// with its comma, and the whole as one part where there are none.
static SmallVector<StringRef> splitAtCommas(StringRef text) {
  SmallVector<StringRef> parts;
  size_t depth = 0, start = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"')
      quoted = !quoted; // names of parameters have no quotes in them
    if (quoted)
      continue;
    if (StringRef("([{<").contains(c)) {
      ++depth;
    } else if (StringRef(")]}>").contains(c)) {
      if (c != '>' || i == 0 || text[i - 1] != '-') // not that of ->
        --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(text.slice(start, i + 1));
      start = i + 2; // and the space after it
    }
  }
  parts.push_back(text.substr(start));
  return parts;
}

/// Prints `line`, going on in the next line before it gets longer than kWidth.
static void printFilled(StringRef line, size_t indent, raw_ostream &os) {
  SmallVector<StringRef> parts;
  size_t start = 0;
  for (size_t i = 0; i + 1 < line.size(); ++i)
    if (line[i] == ',' && line[i + 1] == ' ') {
      parts.push_back(line.slice(start, i + 1));
      start = i + 2;
    } else if (line.substr(i).starts_with(" : (") ||
               line.substr(i).starts_with(" -> ")) {
      parts.push_back(line.slice(start, i));
      start = i + 1;
    }
  parts.push_back(line.substr(start));

  size_t column = 0;
  for (StringRef part : parts) {
    if (column == 0) {
      os << part;
      column = part.size();
    } else if (column + 1 + part.size() <= kWidth) {
      os << ' ' << part;
      column += 1 + part.size();
    } else {
      os << '\n';
      os.indent(indent) << part;
      column = indent + part.size();
    }
  }
  os << '\n';
}

/// Prints the signature of a function whose arguments are described, one
/// argument a line.
static void printSignature(StringRef line, size_t indent, raw_ostream &os) {
  size_t open = line.find('('), depth = 0, close = open;
  for (bool quoted = false; close < line.size(); ++close) {
    char c = line[close];
    if (c == '"')
      quoted = !quoted;
    if (quoted)
      continue;
    if (c == '(')
      ++depth;
    if (c == ')' && --depth == 0)
      break;
  }
  os << line.take_front(open + 1) << '\n';
  SmallVector<StringRef> arguments = splitAtCommas(line.slice(open + 1, close));
  for (StringRef argument : llvm::ArrayRef(arguments).drop_back())
    os.indent(indent) << argument << '\n';
  os.indent(indent) << arguments.back() << line.substr(close) << '\n';
}

static void printHeading(const Model &model, raw_ostream &os) {
  auto name = [&]() -> StringRef {
    switch (model.family) {
    case Family::GPT:
      return "GPT";
    case Family::Llama:
      return "Llama";
    case Family::Mixtral:
      return "Mixtral";
    case Family::Qwen:
      return "Qwen";
    case Family::DeepSeek:
      return "DeepSeek";
    }
    llvm_unreachable("all families are listed");
  };
  os << "// " << name() << ", " << countParameters(model)
     << " parameters: " << model.layers << " layers, hidden " << model.hidden
     << ", " << model.heads << " heads";
  if (model.kvHeads != model.heads)
    os << " with " << model.kvHeads << " of key and value";
  os << ", ffn " << model.ffn;
  if (model.experts)
    os << ", " << model.experts->count << " experts of width "
       << model.experts->ffn << ", " << model.experts->perToken << " a token";
  os << ", vocab " << model.vocab << ".\n"
     << "// One step takes " << model.batch << " samples of " << model.seq
     << " tokens. Written by sheaf-model.\n\n";
}

void sheaf::models::print(ModuleOp module, const Model &model,
                          raw_ostream &os) {
  printHeading(model, os);
  std::string text;
  llvm::raw_string_ostream textStream(text);
  module->print(textStream, OpPrintingFlags().printNameLocAsPrefix());
  StringRef rest = text;
  while (!rest.empty()) {
    StringRef line;
    std::tie(line, rest) = rest.split('\n');
    size_t indent = line.size() - line.ltrim().size();
    bool isFunction = line.ltrim().starts_with("func.func ");
    bool isCall = line.contains(" = call @");
    if (isFunction && line.contains("{nn."))
      printSignature(line, indent + 4, os);
    else if (isFunction || isCall)
      printFilled(line, indent + 4, os);
    else
      os << line << '\n';
    // Functions are easier to find with space between them.
    if (line == "  }" && rest.ltrim().starts_with("func.func "))
      os << '\n';
  }
}
