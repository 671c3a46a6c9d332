#include "sheaf/Casts.h"

using namespace sheaf;

// Loops that become vectors of whatever the machine has.
#if defined(__x86_64__) && defined(__linux__)
#define SHEAF_EACH_MACHINE __attribute__((target_clones("avx2", "default")))
#else
#define SHEAF_EACH_MACHINE
#endif
#define SHEAF_INLINE inline __attribute__((always_inline))

namespace {
template <Format F, typename Code>
SHEAF_INLINE void encodeAll(bool saturates, const float *from, Code *to,
                            int64_t count) {
  // Which of the two is asked for once, not for each element.
  if (saturates)
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<Code>(encode<F>(from[i], true));
  else
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<Code>(encode<F>(from[i], false));
}

template <Format F, typename Code>
SHEAF_INLINE void decodeAll(const Code *from, float *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = decode<F>(from[i]);
}
} // namespace

int64_t sheaf::bytesOf(Format format, int64_t count) {
  return (count * infoOf(format).bits + 7) / 8;
}

SHEAF_EACH_MACHINE
void sheaf::encode(Format format, bool saturates, const float *from, void *to,
                   int64_t count) {
  auto *wide = static_cast<uint16_t *>(to);
  auto *narrow = static_cast<uint8_t *>(to);
  switch (format) {
  case Format::BF16:
    return encodeAll<Format::BF16>(saturates, from, wide, count);
  case Format::FP16:
    return encodeAll<Format::FP16>(saturates, from, wide, count);
  case Format::E4M3:
    return encodeAll<Format::E4M3>(saturates, from, narrow, count);
  case Format::E5M2:
    return encodeAll<Format::E5M2>(saturates, from, narrow, count);
  case Format::E8M0:
    return encodeAll<Format::E8M0>(saturates, from, narrow, count);
  case Format::E2M1:
    for (int64_t i = 0; i < count / 2; ++i)
      narrow[i] = static_cast<uint8_t>(
          encode<Format::E2M1>(from[2 * i], true) |
          encode<Format::E2M1>(from[2 * i + 1], true) << 4);
    return;
  }
}

SHEAF_EACH_MACHINE
void sheaf::decode(Format format, const void *from, float *to, int64_t count) {
  auto *wide = static_cast<const uint16_t *>(from);
  auto *narrow = static_cast<const uint8_t *>(from);
  switch (format) {
  case Format::BF16:
    return decodeAll<Format::BF16>(wide, to, count);
  case Format::FP16:
    return decodeAll<Format::FP16>(wide, to, count);
  case Format::E4M3:
    return decodeAll<Format::E4M3>(narrow, to, count);
  case Format::E5M2:
    return decodeAll<Format::E5M2>(narrow, to, count);
  case Format::E8M0:
    return decodeAll<Format::E8M0>(narrow, to, count);
  case Format::E2M1:
    for (int64_t i = 0; i < count / 2; ++i) {
      to[2 * i] = decode<Format::E2M1>(narrow[i] & 15);
      to[2 * i + 1] = decode<Format::E2M1>(narrow[i] >> 4);
    }
    return;
  }
}
