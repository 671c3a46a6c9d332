//===- IRMutator.cpp - Changes IR by its words ----------------------------===//
//
// Bytes changed at random seldom leave IR that parses, so most changes here
// take words: numbers become other numbers, names and types those of elsewhere
// in the file, in one place or wherever they stand, lines are dropped, doubled
// or moved.
//
//===----------------------------------------------------------------------===//

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {
enum class Kind { Space, Number, Value, Symbol, Type, String, Word, Sign };

struct Token {
  Kind kind;
  std::string text;
};

constexpr std::string_view elementTypes[] = {
    "f32", "f64", "bf16",  "f16",      "i1",    "i8",
    "i32", "i64", "index", "f8E4M3FN", "f8E5M2"};
constexpr std::string_view numbers[] = {
    "0",          "1",          "2",
    "3",          "4",          "5",
    "7",          "8",          "16",
    "17",         "63",         "64",
    "65",         "-1",         "-2",
    "128",        "257",        "65536",
    "2147483647", "4294967296", "9223372036854775807"};

bool isWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ||
         c == '$';
}

std::vector<Token> tokenize(std::string_view text) {
  std::vector<Token> tokens;
  size_t i = 0;
  auto take = [&](Kind kind, size_t length) {
    tokens.push_back({kind, std::string(text.substr(i, length))});
    i += length;
  };
  auto wordLength = [&](size_t from) {
    size_t end = from;
    while (end < text.size() && isWordCharacter(text[end]))
      ++end;
    return end - from;
  };
  while (i < text.size()) {
    char c = text[i];
    if (std::isspace(static_cast<unsigned char>(c))) {
      take(Kind::Space, 1);
    } else if (c == '"') {
      size_t end = text.find('"', i + 1);
      take(Kind::String,
           end == std::string_view::npos ? text.size() - i : end + 1 - i);
    } else if (c == '%' || c == '@' || c == '#' || c == '!' || c == '^') {
      take(c == '%' ? Kind::Value : Kind::Symbol, 1 + wordLength(i + 1));
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      size_t end = i;
      while (end < text.size() &&
             std::isdigit(static_cast<unsigned char>(text[end])))
        ++end;
      take(Kind::Number, end - i);
      // `4xf32` is a number, an x, and more.
      if (i < text.size() && text[i] == 'x')
        take(Kind::Sign, 1);
    } else if (isWordCharacter(c)) {
      size_t length = wordLength(i);
      std::string_view word = text.substr(i, length);
      bool isType = false;
      for (std::string_view type : elementTypes)
        isType |= word == type;
      take(isType ? Kind::Type : Kind::Word, length);
    } else {
      take(Kind::Sign, 1);
    }
  }
  return tokens;
}

/// [first, end) of the line around `at`.
std::pair<size_t, size_t> lineAround(const std::string &text, size_t at) {
  size_t begin = at ? text.rfind('\n', at - 1) : std::string::npos;
  size_t end = text.find('\n', at);
  return {begin == std::string::npos ? 0 : begin + 1,
          end == std::string::npos ? text.size() : end + 1};
}
} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::minstd_rand random(seed);
  auto below = [&](size_t n) { return n ? random() % n : 0; };
  if (size == 0 || below(8) == 0)
    return LLVMFuzzerMutate(data, size, maxSize);

  std::string text(reinterpret_cast<char *>(data), size);
  for (size_t changes = 1 + below(3); changes; --changes) {
    if (below(4) == 0) {
      auto [begin, end] = lineAround(text, below(text.size()));
      std::string line = text.substr(begin, end - begin);
      size_t choice = below(3);
      if (choice != 1) // Drop, or move.
        text.erase(begin, end - begin);
      if (choice != 0 && !text.empty()) // Double, or move.
        text.insert(lineAround(text, below(text.size())).first, line);
      if (text.empty())
        return LLVMFuzzerMutate(data, size, maxSize);
      continue;
    }
    std::vector<Token> tokens = tokenize(text);
    // Another keyword or bracket is seldom grammar.
    bool isGrammar = below(12) == 0;
    std::vector<size_t> candidates;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i].kind != Kind::Space &&
          (tokens[i].kind == Kind::Word || tokens[i].kind == Kind::Sign) ==
              isGrammar)
        candidates.push_back(i);
    if (candidates.empty())
      return LLVMFuzzerMutate(data, size, maxSize);
    Token &token = tokens[candidates[below(candidates.size())]];
    std::vector<std::string> others;
    if (token.kind == Kind::Number && below(2))
      others.push_back(std::string(numbers[below(std::size(numbers))]));
    else if (token.kind == Kind::Type && below(2))
      others.push_back(
          std::string(elementTypes[below(std::size(elementTypes))]));
    else
      for (const Token &other : tokens)
        if (other.kind == token.kind && other.text != token.text)
          others.push_back(other.text);
    std::string before = token.text;
    Kind kind = token.kind;
    if (others.empty() && kind == Kind::Type)
      others.assign(std::begin(elementTypes), std::end(elementTypes));
    else if (others.empty() && kind == Kind::Number)
      others.assign(std::begin(numbers), std::end(numbers));
    if (others.empty() || below(32) == 0)
      token.text.clear();
    else
      token.text = others[below(others.size())];
    // A size or type stands in many places, and most must agree.
    if ((kind == Kind::Number || kind == Kind::Type) && below(2))
      for (Token &each : tokens)
        if (each.kind == kind && each.text == before)
          each.text = token.text;
    text.clear();
    for (const Token &each : tokens)
      text += each.text;
  }
  size_t length = std::min(text.size(), maxSize);
  std::memcpy(data, text.data(), length);
  return length;
}
