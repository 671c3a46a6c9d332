//===- Text.h - names that nearly fit ---------------------------*- C++ -*-===//
//
// For messages: which of the known names someone may have meant.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TEXT_H
#define SHEAF_TEXT_H

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf {

/// Insertions, deletions and changes of a character that make `b` of `a`.
inline size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// The one of `names`, of which there is at least one, that is nearest.
template <typename Names>
std::string nearestName(const Names &names, std::string_view name) {
  return std::string(
      *std::min_element(std::begin(names), std::end(names),
                        [&](std::string_view a, std::string_view b) {
                          return editDistance(a, name) < editDistance(b, name);
                        }));
}

} // namespace sheaf

#endif // SHEAF_TEXT_H
