#include "sheaf/Data.h"

using namespace sheaf;

std::array<uint32_t, 4> sheaf::philox(std::array<uint32_t, 4> c,
                                      std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t{0xD2511F53u} * c[0];
    uint64_t product1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ k[0],
         static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ k[1],
         static_cast<uint32_t>(product0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

uint64_t sheaf::randomBits(uint64_t seed, uint32_t stream, uint64_t index) {
  std::array<uint32_t, 4> words =
      philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
              stream, 0},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return words[0] | uint64_t{words[1]} << 32;
}
