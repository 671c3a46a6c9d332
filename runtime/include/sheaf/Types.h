//===- Types.h - element types, shapes, conversions -------------*- C++ -*-===//
//
// What the runtime knows about the elements of a buffer: their size, their
// name in a manifest, and how to convert between them.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TYPES_H
#define SHEAF_TYPES_H

#include "sheaf/abi.h"
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf {

using Shape = std::vector<int64_t>;

/// Bytes of one element.
int64_t elementSize(SheafType type);

/// The name in a manifest: "f32", "i1".
std::string_view typeName(SheafType type);
std::optional<SheafType> typeFromName(std::string_view name);

bool isFloat(SheafType type);

/// Product of the dimensions; nothing if one is negative or if the product
/// times `size` does not fit 62 bits.
std::optional<int64_t> elementCount(const Shape &shape, int64_t size = 1);

/// "[4, 8]".
std::string shapeText(const Shape &shape);

/// "1.50 MiB".
std::string bytesText(int64_t bytes);

/// One element as a double. Exact for all types but i64 beyond 2^53.
double element(SheafType type, const void *data, int64_t index);

/// Stores one element, rounded to nearest even. For f64, f32 and integers.
void setElement(SheafType type, void *data, int64_t index, double value);

/// Converts `count` elements; exact where `to` can hold the value, else rounded
/// to nearest. `to` is f32 or f64, or equal to `from`.
void convert(SheafType to, void *target, SheafType from, const void *source,
             int64_t count);

/// Index of the first element that is NaN or infinite, or -1.
int64_t firstNotFinite(SheafType type, const void *data, int64_t count);

} // namespace sheaf

#endif // SHEAF_TYPES_H
