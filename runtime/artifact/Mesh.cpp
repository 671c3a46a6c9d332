#include "sheaf/Mesh.h"
#include "sheaf/Error.h"
#include <algorithm>
#include <charconv>

using namespace sheaf;

int64_t Mesh::ranks() const {
  int64_t count = 1;
  for (const MeshAxis &axis : axes)
    count *= axis.size;
  return count;
}

int64_t Mesh::stride(size_t axis) const {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < axes.size(); ++i)
    stride *= axes[i].size;
  return stride;
}

int64_t Mesh::placeOf(int64_t rank) const {
  return devices.empty() ? rank
                         : std::find(devices.begin(), devices.end(), rank) -
                               devices.begin();
}

std::vector<int64_t> Mesh::coordinates(int64_t rank) const {
  std::vector<int64_t> all;
  int64_t place = placeOf(rank);
  for (size_t i = 0; i < axes.size(); ++i)
    all.push_back(place / stride(i) % axes[i].size);
  return all;
}

AxisPart Mesh::parse(const std::string &text) const {
  std::string name = text.substr(0, text.find(':'));
  auto found =
      std::find_if(axes.begin(), axes.end(),
                   [&](const MeshAxis &axis) { return axis.name == name; });
  if (found == axes.end()) {
    std::vector<std::string> names;
    for (const MeshAxis &axis : axes)
      names.push_back(axis.name);
    fail("axis '{}' is not in the mesh; it has {}", text,
         names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  int64_t whole = stride(found - axes.begin());
  if (name.size() == text.size())
    return {found->size, whole, text};
  int64_t before = 0, size = 0;
  const char *at = text.data() + name.size(), *end = text.data() + text.size();
  bool good = end - at > 2 && at[0] == ':' && at[1] == '(';
  if (good) {
    auto [close, error] = std::from_chars(at + 2, end, before);
    good = error == std::errc() && close != end && *close == ')';
    if (good) {
      auto [rest, error] = std::from_chars(close + 1, end, size);
      good = error == std::errc() && rest == end;
    }
  }
  if (!good || before < 1 || size < 1 || before > found->size ||
      found->size % before != 0 || found->size / before % size != 0)
    fail("'{}' is no part of the axis '{}' of size {}; expected {}:(P)K where "
         "P x K "
         "divides {}",
         text, name, found->size, name, found->size);
  return {size, whole * (found->size / before / size), text};
}

std::string Mesh::nameOf(int64_t size, int64_t stride_) const {
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t whole = stride(i), n = axes[i].size;
    if (size == n && stride_ == whole)
      return axes[i].name;
    if (stride_ % whole == 0 && n % (stride_ / whole * size) == 0 &&
        stride_ / whole * size <= n && size > 1)
      return fmt::format("{}:({}){}", axes[i].name,
                         n / (stride_ / whole * size), size);
  }
  return fmt::format("{}@{}", size, stride_);
}

int64_t sheaf::partCount(const DimensionAxes &axes) {
  int64_t count = 1;
  for (const AxisPart &axis : axes)
    count *= axis.size;
  return count;
}

int64_t sheaf::partIndex(const DimensionAxes &axes, int64_t place) {
  int64_t index = 0;
  for (const AxisPart &axis : axes)
    index = index * axis.size + axis.coordinate(place);
  return index;
}

bool Layout::isSharded() const {
  return std::any_of(axes.begin(), axes.end(),
                     [](const DimensionAxes &a) { return partCount(a) > 1; });
}

int64_t Layout::localSize(size_t dim) const {
  if (axes.empty())
    return global[dim];
  int64_t parts = partCount(axes[dim]), pieces = blocksOf(dim);
  int64_t block = global[dim] / pieces;
  return pieces * ((block + parts - 1) / parts);
}

std::vector<DimensionRange> Layout::ranges(size_t dim, int64_t place) const {
  if (axes.empty() || partCount(axes[dim]) == 1)
    return {{0, 0, global[dim]}};
  int64_t pieces = blocksOf(dim), size = global[dim] / pieces;
  int64_t mine = localSize(dim) / pieces;
  int64_t begin = std::min(partIndex(axes[dim], place) * mine, size);
  int64_t length = std::min(mine, size - begin);
  std::vector<DimensionRange> all;
  for (int64_t block = 0; length > 0 && block < pieces; ++block)
    all.push_back({block * mine, block * size + begin, length});
  return all;
}

bool Layout::isFirstOwner(int64_t place) const {
  // What of the place is not given by its parts must be that of the first.
  int64_t given = first;
  for (const DimensionAxes &dimension : axes)
    for (const AxisPart &axis : dimension)
      given += axis.coordinate(place) * axis.stride;
  return given == place;
}
