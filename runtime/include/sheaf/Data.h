//===- Data.h - random numbers, token files, batches ------------*- C++ -*-===//
//
// Where the tokens of a step come from. Sample j = step * batch + i reads the
// tokens at [o, o + T]: T inputs and, shifted by one, T targets. In sequential
// order o = j T, wrapping at the end of the file; in random order o comes from
// Philox(seed, j).
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_DATA_H
#define SHEAF_DATA_H

#include "sheaf/Program.h"
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sheaf {

/// Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3,
/// SC 2011): the four words of one counter under one key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

/// 64 random bits of (seed, stream, index): the first two words of Philox with
/// key = seed and counter = (index low, index high, stream, 0), low words
/// first.
uint64_t randomBits(uint64_t seed, uint32_t stream, uint64_t index);

/// Streams of randomBits that the runtime uses.
enum RandomStream : uint32_t {
  OrderStream = 0,  ///< offset of a sample
  SampleStream = 1, ///< a sampled token
  VerifyStream = 2  ///< tokens where --verify has no data
};

enum class TokenType { Auto, U8, U16, U32 };

/// A file of tokens: raw little-endian u8, u16 or u32, or llm.c's with a header
/// of 256 i32 (20240520, 1, count, then u16; 20240801, 7, count, then u32).
/// `Auto` is u16 where there is no header. Tokens are read when asked for, so a
/// large file costs no memory.
class TokenFile {
public:
  /// Throws an Error where the file cannot be read, has a broken header, or is
  /// longer or shorter than its header or element size says.
  explicit TokenFile(const std::string &path, TokenType type = TokenType::Auto);
  ~TokenFile();
  TokenFile(const TokenFile &) = delete;
  TokenFile &operator=(const TokenFile &) = delete;

  const std::string path;
  int64_t size() const { return count; } ///< in tokens

  /// Reads tokens [position, position + length), wrapping at the end, into
  /// `out`. Throws an Error with position and value where a token is not below
  /// `vocab`.
  void read(int64_t position, int64_t length, int64_t vocab, uint32_t *out);

private:
  void readRange(int64_t position, int64_t length, uint32_t *out);
  int file = -1;
  int64_t count = 0, headerBytes = 0;
  int width = 2;
  std::vector<uint8_t> raw;
};

enum class DataOrder { Sequential, Random };

/// Position of sample `j` in a file of `count` tokens. Random order takes
/// randomBits(seed, OrderStream, j) modulo (count - T), so that no sample
/// wraps.
int64_t sampleOffset(DataOrder order, uint64_t seed, int64_t j,
                     int64_t sequence, int64_t count);

/// Fills the batch buffers of a program.
class Batches {
public:
  /// Throws an Error where the file has fewer than T + 1 tokens.
  Batches(TokenFile &file, const Manifest &manifest, DataOrder order,
          uint64_t seed);

  /// Writes this rank's part of the batch of `step` to the batch buffers that
  /// are allocated, and reads no other samples.
  void load(Program &program, int64_t step);

private:
  TokenFile &file;
  DataOrder order;
  uint64_t seed;
  std::vector<uint32_t> tokens;
  std::vector<bool> read;
};

/// Writes this rank's part of a batch: inputs, targets, positions 0..T-1,
/// document 0. `sample(i)` gives the T + 1 tokens of sample i of the batch.
/// What is padding has token 0 and a target of -1, which no loss counts.
void fillBatch(Program &program,
               const std::function<const uint32_t *(int64_t)> &sample);

/// The same from all sequences, one after the other.
void fillBatch(Program &program, const std::vector<uint32_t> &tokens);

} // namespace sheaf

#endif // SHEAF_DATA_H
