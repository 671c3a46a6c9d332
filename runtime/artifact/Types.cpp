#include "sheaf/Types.h"
#include "sheaf/Casts.h"
#include "sheaf/Error.h"
#include <array>
#include <cmath>
#include <cstring>

using namespace sheaf;

namespace {
struct TypeInfo {
  std::string_view name;
  int64_t size;
};
// In the order of SheafType.
constexpr std::array<TypeInfo, 11> types = {{{"f64", 8},
                                             {"f32", 4},
                                             {"bf16", 2},
                                             {"f16", 2},
                                             {"f8e4m3", 1},
                                             {"f8e5m2", 1},
                                             {"i64", 8},
                                             {"i32", 4},
                                             {"i8", 1},
                                             {"i1", 1},
                                             {"f8e8m0", 1}}};

template <typename T>
T read(const void *data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T>
void write(void *data, int64_t index, T value) {
  std::memcpy(static_cast<char *>(data) + index * sizeof(T), &value, sizeof(T));
}
} // namespace

int64_t sheaf::elementSize(SheafType type) { return types[type].size; }

std::string_view sheaf::typeName(SheafType type) { return types[type].name; }

std::optional<SheafType> sheaf::typeFromName(std::string_view name) {
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].name == name)
      return static_cast<SheafType>(i);
  return std::nullopt;
}

bool sheaf::isFloat(SheafType type) {
  return type <= SHEAF_F8E5M2 || type == SHEAF_F8E8M0;
}

std::optional<int64_t> sheaf::elementCount(const Shape &shape, int64_t size) {
  constexpr int64_t limit = int64_t{1} << 62;
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      return std::nullopt;
    if (dim == 0)
      empty = true;
    else if (count > limit / size / dim)
      return std::nullopt;
    else
      count *= dim;
  }
  return empty ? 0 : count;
}

std::string sheaf::shapeText(const Shape &shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string sheaf::bytesText(int64_t bytes) {
  if (bytes < 1024)
    return fmt::format("{} B", bytes);
  static constexpr const char *units[] = {"KiB", "MiB", "GiB",
                                          "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, units[unit]);
}

double sheaf::element(SheafType type, const void *data, int64_t index) {
  switch (type) {
  case SHEAF_F64:
    return read<double>(data, index);
  case SHEAF_F32:
    return read<float>(data, index);
  case SHEAF_BF16:
    return decode<Format::BF16>(read<uint16_t>(data, index));
  case SHEAF_F16:
    return decode<Format::FP16>(read<uint16_t>(data, index));
  case SHEAF_F8E4M3:
    return decode<Format::E4M3>(read<uint8_t>(data, index));
  case SHEAF_F8E5M2:
    return decode<Format::E5M2>(read<uint8_t>(data, index));
  case SHEAF_I64:
    return static_cast<double>(read<int64_t>(data, index));
  case SHEAF_I32:
    return read<int32_t>(data, index);
  case SHEAF_I8:
    return read<int8_t>(data, index);
  case SHEAF_I1:
    return read<uint8_t>(data, index);
  case SHEAF_F8E8M0:
    return decode<Format::E8M0>(read<uint8_t>(data, index));
  }
  fail("unknown element type {}", static_cast<int>(type));
}

/// The code of a number; 8-bit floats have the largest for what is larger.
template <Format F>
static auto narrow(double value) {
  using Code = std::conditional_t<infoOf(F).bits == 16, uint16_t, uint8_t>;
  return static_cast<Code>(
      encode<F>(static_cast<float>(value), infoOf(F).bits < 16));
}

void sheaf::setElement(SheafType type, void *data, int64_t index,
                       double value) {
  switch (type) {
  case SHEAF_F64:
    return write<double>(data, index, value);
  case SHEAF_F32:
    return write<float>(data, index, static_cast<float>(value));
  // Through f32, as kernels do.
  case SHEAF_BF16:
    return write<uint16_t>(data, index, narrow<Format::BF16>(value));
  case SHEAF_F16:
    return write<uint16_t>(data, index, narrow<Format::FP16>(value));
  case SHEAF_F8E4M3:
    return write<uint8_t>(data, index, narrow<Format::E4M3>(value));
  case SHEAF_F8E5M2:
    return write<uint8_t>(data, index, narrow<Format::E5M2>(value));
  case SHEAF_F8E8M0:
    return write<uint8_t>(data, index, narrow<Format::E8M0>(value));
  case SHEAF_I64:
    return write<int64_t>(data, index, static_cast<int64_t>(value));
  case SHEAF_I32:
    return write<int32_t>(data, index, static_cast<int32_t>(value));
  case SHEAF_I8:
    return write<int8_t>(data, index, static_cast<int8_t>(value));
  case SHEAF_I1:
    return write<uint8_t>(data, index, value != 0);
  }
  fail("unknown element type {}", static_cast<int>(type));
}

void sheaf::convert(SheafType to, void *target, SheafType from,
                    const void *source, int64_t count) {
  if (to == from) {
    if (count > 0)
      std::memcpy(target, source, count * elementSize(to));
    return;
  }
  if (!isFloat(to))
    fail("cannot convert {} to {}", typeName(from), typeName(to));
  for (int64_t i = 0; i < count; ++i)
    setElement(to, target, i, element(from, source, i));
}

int64_t sheaf::firstNotFinite(SheafType type, const void *data, int64_t count) {
  if (!isFloat(type))
    return -1;
  if (type == SHEAF_F32) { // large parameters: no switch for each element
    const float *values = static_cast<const float *>(data);
    for (int64_t i = 0; i < count; ++i)
      if (!std::isfinite(values[i]))
        return i;
    return -1;
  }
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(element(type, data, i)))
      return i;
  return -1;
}
