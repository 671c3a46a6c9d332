//===- Relay.cpp - Between an editor and MLIR's language server -----------===//

#include "Relay.h"
#include "Documentation.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace sheaf::lsp;

bool sheaf::lsp::readMessage(FILE *stream, std::string &message) {
  size_t length = 0;
  char line[256];
  while (fgets(line, sizeof line, stream)) {
    StringRef text = StringRef(line).trim();
    if (text.empty() && length) {
      // A length is the word of the other side: memory is taken as bytes come.
      message.clear();
      while (message.size() < length) {
        size_t start = message.size();
        size_t size = std::min<size_t>(length - start, 1 << 20);
        message.resize(start + size);
        if (fread(message.data() + start, 1, size, stream) != size)
          return false;
      }
      return true;
    }
    if (text.consume_front_insensitive("content-length:") &&
        text.trim().getAsInteger(10, length))
      return false;
  }
  return false;
}

void sheaf::lsp::writeMessage(FILE *stream, StringRef message) {
  fprintf(stream, "Content-Length: %zu\r\n\r\n", message.size());
  fwrite(message.data(), 1, message.size(), stream);
  fflush(stream);
}

static bool isNameChar(char c) {
  return isAlnum(c) || c == '_' || c == '.' || c == '$';
}

/// The name at a column of a line, with the % or # before it.
static StringRef tokenAt(StringRef line, size_t column) {
  size_t begin = std::min(column, line.size()), end = begin;
  while (begin > 0 && isNameChar(line[begin - 1]))
    --begin;
  while (end < line.size() && isNameChar(line[end]))
    ++end;
  if (begin > 0 && StringRef("%#@").contains(line[begin - 1]))
    --begin;
  else if (begin == end && begin < line.size() &&
           StringRef("%#@").contains(line[begin]))
    return tokenAt(line, begin + 1);
  return line.slice(begin, end);
}

/// The statement or the argument that defines the value `name` above the end of
/// `text`; empty where none does.
static StringRef definitionOf(StringRef name, StringRef text) {
  size_t end = text.size();
  while ((end = text.substr(0, end).rfind(name)) != StringRef::npos) {
    StringRef after = text.substr(end + name.size());
    if (!after.empty() && isNameChar(after[0]))
      continue;
    if (after.starts_with(": ")) {
      // An argument, up to the comma or the parenthesis that ends it.
      int depth = 0;
      size_t length = 0;
      for (; length < after.size(); ++length) {
        char c = after[length];
        if (StringRef("([{<").contains(c))
          ++depth;
        else if (StringRef(")]}").contains(c) ||
                 (c == '>' && after[length - 1] != '-')) {
          if (--depth < 0)
            break;
        } else if (depth == 0 && (c == ',' || c == '\n'))
          break;
      }
      return text.substr(end, name.size() + length).trim();
    }
    size_t start = text.substr(0, end).rfind('\n') + 1;
    StringRef line = text.substr(start).split('\n').first.trim();
    if (line.starts_with("%") && end - start < line.find('=') + 8 &&
        line.substr(0, line.find('=')).contains(name))
      return line;
  }
  return "";
}

void Relay::fromEditor(StringRef message) {
  Expected<json::Value> parsed = json::parse(message);
  const json::Object *object = parsed ? parsed->getAsObject() : nullptr;
  if (!parsed)
    consumeError(parsed.takeError());
  if (!object)
    return;
  std::optional<StringRef> method = object->getString("method");
  const json::Object *params = object->getObject("params");
  const json::Object *document =
      params ? params->getObject("textDocument") : nullptr;
  std::optional<StringRef> uri =
      document ? document->getString("uri") : std::nullopt;
  if (!method || !uri)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (*method == "textDocument/didOpen") {
    documents[uri->str()] = document->getString("text").value_or("").str();
  } else if (*method == "textDocument/didChange") {
    // The server asks for whole documents.
    if (const json::Array *changes = params->getArray("contentChanges"))
      for (const json::Value &change : *changes)
        if (const json::Object *all = change.getAsObject())
          documents[uri->str()] = all->getString("text").value_or("").str();
  } else if (*method == "textDocument/didClose") {
    documents.erase(uri->str());
  } else if (*method == "textDocument/hover" ||
             *method == "textDocument/completion") {
    const json::Object *position = params->getObject("position");
    const json::Value *id = object->get("id");
    if (!position || !id)
      return;
    int64_t number = position->getInteger("line").value_or(0);
    int64_t column = position->getInteger("character").value_or(0);
    StringRef text = documents[uri->str()];
    size_t start = 0;
    for (; number > 0 && start < text.size(); --number)
      start = std::min(text.size(), text.find('\n', start)) + 1;
    StringRef line = text.substr(start).split('\n').first;
    Request request{method->str(),
                    line.substr(0, std::max<int64_t>(0, column)).str(), "", ""};
    StringRef token = tokenAt(line, std::max<int64_t>(0, column));
    request.token = token.str();
    if (token.starts_with("%") && token.size() > 1)
      request.definition =
          definitionOf(token, text.substr(0, start + line.size())).str();
    std::string key;
    raw_string_ostream(key) << *id;
    requests[key] = std::move(request);
  }
}

/// The op that a hover text is about: `"nn.add"` in its first line.
static StringRef subjectOf(StringRef hover) {
  return hover.split('\n').first.split('"').second.split('"').first;
}

std::string Relay::fromServer(StringRef message) {
  Expected<json::Value> parsed = json::parse(message);
  json::Object *object = parsed ? parsed->getAsObject() : nullptr;
  if (!parsed)
    consumeError(parsed.takeError());
  const json::Value *id = object ? object->get("id") : nullptr;
  if (!id || object->get("method"))
    return message.str();
  std::string key;
  raw_string_ostream(key) << *id;
  Request request;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = requests.find(key);
    if (found == requests.end())
      return message.str();
    request = std::move(found->second);
    requests.erase(found);
  }
  if (request.method == "textDocument/hover") {
    json::Object *result = object->getObject("result");
    json::Object *contents = result ? result->getObject("contents") : nullptr;
    std::string text =
        contents ? contents->getString("value").value_or("").str() : "";
    if (!request.definition.empty())
      text += "\n```mlir\n" + request.definition + "\n```\n";
    StringRef help = documentation(request.token);
    if (help.empty())
      help = documentation(subjectOf(text));
    if (!help.empty())
      text += (text.empty() ? "" : "\n---\n\n") + help.str() + "\n";
    if (text.empty())
      return message.str();
    if (!result) {
      (*object)["result"] = json::Object{};
      result = object->getObject("result");
    }
    (*result)["contents"] = json::Object{{"kind", "markdown"}, {"value", text}};
  } else if (json::Object *result = object->getObject("result")) {
    // "  %y = nn.so": the dialect before the last point.
    StringRef before =
        StringRef(request.line).rtrim("abcdefghijklmnopqrstuvwxyz_0123456789");
    StringRef dialect;
    if (before.consume_back("."))
      dialect = before.substr(before.find_last_of(" \t\"#") + 1);
    if (json::Array *items = result->getArray("items"))
      for (json::Value &item : *items)
        if (json::Object *entry = item.getAsObject()) {
          StringRef label = entry->getString("label").value_or("");
          StringRef help = documentation(label);
          if (help.empty() && !dialect.empty())
            help = documentation((dialect + "." + label).str());
          if (help.empty() && !dialect.empty())
            help = documentation(("#" + dialect + "." + label).str());
          if (!help.empty())
            (*entry)["documentation"] =
                json::Object{{"kind", "markdown"}, {"value", help.str()}};
        }
  }
  std::string text;
  raw_string_ostream(text) << *parsed;
  return text;
}
