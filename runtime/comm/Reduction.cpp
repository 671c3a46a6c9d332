#include "sheaf/Communicator.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

using namespace sheaf;

namespace {
struct BFloat {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

float load(BFloat value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

float load(Half value) {
  uint32_t sign = uint32_t{value.bits} >> 15 << 31,
           exponent = value.bits >> 10 & 31, mantissa = value.bits & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

template <typename T>
T load(T value) {
  return value;
}

/// To nearest, ties to even.
void store(BFloat &target, float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    target.bits = static_cast<uint16_t>(bits >> 16 | 0x40);
  else
    target.bits =
        static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void store(Half &target, float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000;
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    target.bits = static_cast<uint16_t>(sign | 0x7e00);
  else if (magnitude >= 65520.f) // rounds beyond the largest, 65504
    target.bits = static_cast<uint16_t>(sign | 0x7c00);
  else if (magnitude < 0x1p-14f) {
    // The sum has the unit of the last place of a subnormal Half.
    float shifted = magnitude + 0.5f;
    target.bits =
        static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) -
                                      std::bit_cast<uint32_t>(0.5f)));
  } else {
    uint32_t rest = (bits & 0x7fffffff) - (112u << 23);
    target.bits =
        static_cast<uint16_t>(sign | (rest + 0xfff + (rest >> 13 & 1)) >> 13);
  }
}

template <typename T>
void store(T &target, T value) {
  target = value;
}

template <typename T>
struct AccumulatorOf {
  using Type = T;
};
template <>
struct AccumulatorOf<BFloat> {
  using Type = float;
};
template <>
struct AccumulatorOf<Half> {
  using Type = float;
};

template <SheafReduction kind, typename A>
A combine(A a, A b) {
  if constexpr (kind == SHEAF_SUM) {
    if constexpr (std::is_integral_v<A>) // wraps
      return static_cast<A>(static_cast<std::make_unsigned_t<A>>(a) +
                            static_cast<std::make_unsigned_t<A>>(b));
    else
      return a + b;
  } else if constexpr (std::is_floating_point_v<A>) {
    if (a != a)
      return a;
    return (kind == SHEAF_MAX ? b > a : b < a) || b != b ? b : a;
  } else {
    return kind == SHEAF_MAX ? std::max(a, b) : std::min(a, b);
  }
}

/// Calls visit with a null pointer to the element type and the kind as a type.
template <typename Visit>
void dispatch(SheafType type, SheafReduction kind, const Visit &visit) {
  auto ofType = [&](auto *null) {
    if (kind == SHEAF_SUM)
      visit(null, std::integral_constant<SheafReduction, SHEAF_SUM>());
    else if (kind == SHEAF_MAX)
      visit(null, std::integral_constant<SheafReduction, SHEAF_MAX>());
    else
      visit(null, std::integral_constant<SheafReduction, SHEAF_MIN>());
  };
  switch (type) {
  case SHEAF_F64:
    return ofType(static_cast<double *>(nullptr));
  case SHEAF_F32:
    return ofType(static_cast<float *>(nullptr));
  case SHEAF_BF16:
    return ofType(static_cast<BFloat *>(nullptr));
  case SHEAF_F16:
    return ofType(static_cast<Half *>(nullptr));
  case SHEAF_I64:
    return ofType(static_cast<int64_t *>(nullptr));
  case SHEAF_I32:
    return ofType(static_cast<int32_t *>(nullptr));
  case SHEAF_I8:
    return ofType(static_cast<int8_t *>(nullptr));
  case SHEAF_I1:
    return ofType(static_cast<uint8_t *>(nullptr));
  default:
    fail("{} has no reduction", typeName(type));
  }
}

template <typename T>
using Element = std::remove_pointer_t<T>;
} // namespace

void sheaf::checkReduction(int32_t type, int32_t kind) {
  if (kind < SHEAF_SUM || kind > SHEAF_MIN)
    fail("reduction kind {} is not known; expected sum (0), max (1) or min (2)",
         kind);
  if (type == SHEAF_F8E4M3 || type == SHEAF_F8E5M2 || type == SHEAF_F8E8M0 ||
      (type == SHEAF_I1 && kind == SHEAF_SUM))
    fail("a {} of {} between ranks is not known; expected f64, f32, bf16, f16, "
         "i64, i32 "
         "or i8, or max or min of i1",
         kind == SHEAF_SUM   ? "sum"
         : kind == SHEAF_MAX ? "max"
                             : "min",
         typeName(static_cast<SheafType>(type)));
}

int64_t Reduction::accumulatorSize() const {
  return type == SHEAF_BF16 || type == SHEAF_F16 ? 4 : elementSize(type);
}

void Reduction::first(void *accumulator, const void *values,
                      int64_t count) const {
  dispatch(type, kind, [&](auto *null, auto) {
    using T = Element<decltype(null)>;
    auto *to = static_cast<typename AccumulatorOf<T>::Type *>(accumulator);
    const T *from = static_cast<const T *>(values);
    for (int64_t i = 0; i < count; ++i)
      to[i] = load(from[i]);
  });
}

void Reduction::add(void *accumulator, const void *values,
                    int64_t count) const {
  dispatch(type, kind, [&](auto *null, auto reduction) {
    using T = Element<decltype(null)>;
    auto *to = static_cast<typename AccumulatorOf<T>::Type *>(accumulator);
    const T *from = static_cast<const T *>(values);
    for (int64_t i = 0; i < count; ++i)
      to[i] = combine<decltype(reduction)::value>(to[i], load(from[i]));
  });
}

void Reduction::finish(void *result, const void *accumulator,
                       int64_t count) const {
  dispatch(type, kind, [&](auto *null, auto) {
    using T = Element<decltype(null)>;
    T *to = static_cast<T *>(result);
    auto *from =
        static_cast<const typename AccumulatorOf<T>::Type *>(accumulator);
    for (int64_t i = 0; i < count; ++i)
      store(to[i], from[i]);
  });
}

void Reduction::reduce(ThreadPool &pool, void *result,
                       const std::vector<const char *> &sources,
                       int64_t count) const {
  constexpr int64_t block = 1024, blocksPerTask = 64;
  int64_t size = elementSize(type);
  int64_t perTask = block * blocksPerTask;
  pool.run((count + perTask - 1) / perTask, [&](int64_t task) {
    alignas(64) char accumulator[block * 8];
    int64_t end = std::min(count, (task + 1) * perTask);
    for (int64_t at = task * perTask; at < end; at += block) {
      int64_t length = std::min(block, end - at);
      first(accumulator, sources[0] + at * size, length);
      for (size_t i = 1; i < sources.size(); ++i)
        add(accumulator, sources[i] + at * size, length);
      finish(static_cast<char *>(result) + at * size, accumulator, length);
    }
  });
}
