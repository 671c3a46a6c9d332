#include "sheaf/Data.h"
#include "TestSupport.h"
#include <set>

using namespace sheaf;
using namespace sheaf::test;

namespace {
template <typename T>
std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

std::string header(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> words(256, 0);
  words[0] = magic, words[1] = version, words[2] = count;
  return bytesOf(words);
}

std::vector<uint32_t> readAll(TokenFile &file) {
  std::vector<uint32_t> tokens(file.size());
  file.read(0, file.size(), int64_t{1} << 32, tokens.data());
  return tokens;
}
} // namespace

// The known answers of Random123's test vectors for Philox4x32-10.
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(TokenFile, ReadsEveryFormat) {
  TempDirectory directory;
  std::string path = directory / "tokens";
  std::vector<uint16_t> small = {1, 2, 65535, 4};
  std::vector<uint32_t> large = {1, 2, 70000, 4};

  writeFile(path, bytesOf(small));
  TokenFile raw16(path);
  EXPECT_EQ(readAll(raw16), (std::vector<uint32_t>{1, 2, 65535, 4}));

  writeFile(path, bytesOf(large));
  TokenFile raw32(path, TokenType::U32);
  EXPECT_EQ(readAll(raw32), large);

  writeFile(path, header(20240520, 1, 4) + bytesOf(small));
  TokenFile llmc16(path);
  EXPECT_EQ(readAll(llmc16), (std::vector<uint32_t>{1, 2, 65535, 4}));

  writeFile(path, header(20240801, 7, 4) + bytesOf(large));
  TokenFile llmc32(path);
  EXPECT_EQ(readAll(llmc32), large);

  writeFile(path, "caf\xc3\xa9");
  TokenFile bytes(path, TokenType::U8);
  EXPECT_EQ(readAll(bytes), (std::vector<uint32_t>{'c', 'a', 'f', 0xc3, 0xa9}));
}

TEST(TokenFile, RefusesBrokenFiles) {
  TempDirectory directory;
  std::string path = directory / "tokens";
  std::vector<uint16_t> four = {1, 2, 3, 4};
  auto expect = [&](const std::string &content, const std::string &part,
                    TokenType type = TokenType::Auto) {
    writeFile(path, content);
    expectError([&] { TokenFile file(path, type); }, part);
  };
  expect("", "empty");
  expect("abc", "no whole number of u16 tokens");
  expect("abcdef", "no whole number of u32 tokens", TokenType::U32);
  expect(header(20240520, 2, 4) + bytesOf(four), "expected version 1");
  expect(header(20240801, 1, 4) + bytesOf(four), "expected version 7");
  expect(header(20240520, 1, 5) + bytesOf(four), "truncated");
  expect(header(20240520, 1, 3) + bytesOf(four), "damaged");
  expect(header(20240520, 1, -4) + bytesOf(four), "promises -4 tokens");
  expect(header(20240520, 1, 4).substr(0, 600), "truncated");
  expect(header(20240520, 1, 4) + bytesOf(four), "--token-type says u32",
         TokenType::U32);
  expectError([&] { TokenFile file(directory / "none"); }, "cannot open");
  expectError([&] { TokenFile file(directory.path); }, "not a regular file");
}

TEST(TokenFile, NamesATokenOutsideTheVocabulary) {
  TempDirectory directory;
  std::string path = directory / "tokens";
  writeFile(path, bytesOf(std::vector<uint16_t>{1, 2, 300, 4}));
  TokenFile file(path);
  uint32_t out[4];
  expectError([&] { file.read(1, 3, 256, out); },
              "token 300 at position 2 is not below the model's vocabulary of "
              "256");
}

TEST(TokenFile, Wraps) {
  TempDirectory directory;
  std::string path = directory / "tokens";
  writeFile(path, "abcde");
  TokenFile file(path, TokenType::U8);
  std::vector<uint32_t> out(12);
  file.read(8, 12, 256, out.data());
  EXPECT_EQ(out, (std::vector<uint32_t>{'d', 'e', 'a', 'b', 'c', 'd', 'e', 'a',
                                        'b', 'c', 'd', 'e'}));
}

TEST(Data, Offsets) {
  EXPECT_EQ(sampleOffset(DataOrder::Sequential, 1, 0, 16, 100), 0);
  EXPECT_EQ(sampleOffset(DataOrder::Sequential, 1, 3, 16, 100), 48);
  EXPECT_EQ(sampleOffset(DataOrder::Sequential, 1, 7, 16, 100), 12);
  // Past 64 bits of tokens read: no overflow.
  EXPECT_EQ(
      sampleOffset(DataOrder::Sequential, 1, int64_t{1} << 60, 1 << 10, 1000),
      int64_t(((unsigned __int128)1 << 70) % 1000));
  std::set<int64_t> seen;
  for (int64_t j = 0; j < 1000; ++j) {
    int64_t offset = sampleOffset(DataOrder::Random, 5, j, 16, 100);
    EXPECT_GE(offset, 0);
    EXPECT_LT(offset, 84);
    seen.insert(offset);
  }
  EXPECT_EQ(seen.size(), 84u); // every place is drawn
  EXPECT_EQ(sampleOffset(DataOrder::Random, 5, 9, 16, 100),
            sampleOffset(DataOrder::Random, 5, 9, 16, 100));
  EXPECT_NE(randomBits(5, OrderStream, 9), randomBits(6, OrderStream, 9));
}

TEST(Data, BatchHoldsTokensAndTargets) {
  TempDirectory directory;
  std::string path = directory / "tokens", text = trainingText();
  writeFile(path, text);
  Artifact artifact(toy());
  CpuDevice device(1);
  Program program(artifact, device);
  program.prepare({"gradients"});
  TokenFile file(path, TokenType::U8);
  Batches batches(file, artifact.manifest, DataOrder::Sequential, 0);
  batches.load(program, 3);
  auto *tokens = static_cast<int32_t *>(
      program.data(artifact.manifest.findRole(BatchRole::Tokens)));
  auto *targets = static_cast<int32_t *>(
      program.data(artifact.manifest.findRole(BatchRole::Targets)));
  for (int i = 0; i < 4; ++i)
    for (int t = 0; t < 16; ++t) {
      int position = (3 * 4 + i) * 16 + t;
      EXPECT_EQ(tokens[i * 16 + t], text[position]);
      EXPECT_EQ(targets[i * 16 + t], text[position + 1]);
    }

  writeFile(path, "sixteen bytes...");
  TokenFile shortFile(path, TokenType::U8);
  expectError(
      [&] { Batches(shortFile, artifact.manifest, DataOrder::Sequential, 0); },
      "16 tokens; expected at least 17");
}
