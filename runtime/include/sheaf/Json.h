//===- Json.h - JSON from files that anyone may have written ----*- C++ -*-===//
//
// A strict parser: an object with the same key twice, and nesting without end,
// are errors. `what` begins every message: "manifest", or the name of a file.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_JSON_H
#define SHEAF_JSON_H

#include "sheaf/Error.h"
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf {

inline nlohmann::ordered_json parseJson(std::string_view text,
                                        std::string_view what) {
  using Json = nlohmann::ordered_json;
  std::vector<std::set<std::string>> keys;
  auto callback = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (depth > 64)
      fail("{}: nested deeper than 64 levels", what);
    if (event == Json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == Json::parse_event_t::key &&
             !keys.back().insert(parsed.get<std::string>()).second)
      fail("{}: the key \"{}\" occurs twice in one object", what,
           parsed.get<std::string>());
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), callback);
  } catch (const nlohmann::json::exception &error) {
    fail("{}: not valid JSON: {}", what, error.what());
  }
}

/// A value as it stands in a message, cut where it is long.
inline std::string jsonText(const nlohmann::ordered_json &value) {
  std::string text = value.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

/// A number without a point where it is whole.
inline nlohmann::ordered_json numberJson(double value) {
  constexpr double exact = 9007199254740992; // 2^53
  if (value > -exact && value < exact &&
      static_cast<double>(static_cast<int64_t>(value)) == value)
    return static_cast<int64_t>(value);
  return value;
}

} // namespace sheaf

#endif // SHEAF_JSON_H
