#include "sheaf/Safetensors.h"
#include "TestSupport.h"
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/resource.h>

using namespace sheaf;
using namespace sheaf::test;

namespace {
std::string fileOf(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

const std::string goodHeader =
    R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, )"
    R"("b": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [8, 12]}})";
} // namespace

TEST(Safetensors, RoundTrip) {
  TempDirectory directory;
  std::string path = directory / "x.safetensors";
  std::vector<float> a = {1, -2, 3.5f, NAN, 0, 6};
  std::vector<int32_t> b = {7};
  std::vector<uint8_t> c = {1, 0, 1};
  writeSafetensors(path,
                   {{"a", SHEAF_F32, {2, 3}, a.data()},
                    {"tr\"icky\xc3\xa9", SHEAF_I32, {}, b.data()},
                    {"empty", SHEAF_F64, {0, 5}, nullptr},
                    {"c", SHEAF_I1, {3}, c.data()}},
                   {{"format", "pt"}});
  SafetensorsFile file(path);
  EXPECT_EQ(file.tensors.size(), 4u);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  std::vector<float> back(6);
  EXPECT_EQ(file.tensors.at("a").shape, (Shape{2, 3}));
  EXPECT_EQ(file.tensors.at("a").offset % 8, 0);
  file.read(file.tensors.at("a"), SHEAF_F32, back.data());
  EXPECT_EQ(std::memcmp(back.data(), a.data(), 24), 0);
  int32_t seven = 0;
  file.read(file.tensors.at("tr\"icky\xc3\xa9"), SHEAF_I32, &seven);
  EXPECT_EQ(seven, 7);
  EXPECT_EQ(file.tensors.at("empty").elements, 0);
}

TEST(Safetensors, ConvertsToWhatIsAskedFor) {
  TempDirectory directory;
  std::string path = directory / "x.safetensors";
  std::vector<uint16_t> bf16 = {0x3f80, 0xc000, 0x7f80, 0x0001};
  std::vector<uint16_t> f16 = {0x3c00, 0xc000, 0x7c00, 0x0001};
  std::vector<double> f64 = {1, -2, 1e300, 0.1};
  std::vector<uint8_t> e4m3 = {0x38, 0xc0, 0x7e, 0x01};
  std::vector<uint8_t> e5m2 = {0x3c, 0xc0, 0x7c, 0x01};
  writeSafetensors(path, {{"bf16", SHEAF_BF16, {4}, bf16.data()},
                          {"f16", SHEAF_F16, {4}, f16.data()},
                          {"f64", SHEAF_F64, {4}, f64.data()},
                          {"e4m3", SHEAF_F8E4M3, {4}, e4m3.data()},
                          {"e5m2", SHEAF_F8E5M2, {4}, e5m2.data()}});
  SafetensorsFile file(path);
  auto read = [&](const char *name) {
    std::vector<float> out(4);
    file.read(file.tensors.at(name), SHEAF_F32, out.data());
    return out;
  };
  EXPECT_EQ(read("bf16"),
            (std::vector<float>{1, -2, INFINITY, std::ldexp(1.f, -133)}));
  EXPECT_EQ(read("f16"),
            (std::vector<float>{1, -2, INFINITY, std::ldexp(1.f, -24)}));
  EXPECT_EQ(read("f64"), (std::vector<float>{1, -2, INFINITY, 0.1f}));
  EXPECT_EQ(read("e4m3"),
            (std::vector<float>{1, -2, 448, std::ldexp(1.f, -9)}));
  EXPECT_EQ(read("e5m2"),
            (std::vector<float>{1, -2, INFINITY, std::ldexp(1.f, -16)}));
}

TEST(Safetensors, RefusesBrokenFiles) {
  TempDirectory directory;
  std::string path = directory / "x.safetensors";
  std::string data(12, '\0');
  auto expect = [&](const std::string &content, const std::string &part) {
    writeFile(path, content);
    expectError([&] { SafetensorsFile file(path); }, part);
  };
  auto replaced = [&](const std::string &from, const std::string &to) {
    std::string header = goodHeader;
    header.replace(header.find(from), from.size(), to);
    return fileOf(header, data);
  };
  writeFile(path, fileOf(goodHeader, data));
  SafetensorsFile good(path);

  expect("", "at least 8");
  expect("1234567", "at least 8");
  expect(std::string(8, '\xff'), "header claims");
  expect(fileOf(goodHeader, data).substr(0, 60), "header claims");
  expect(fileOf("[]", ""), "expected an object");
  expect(fileOf("{", ""), "not valid JSON");
  expect(fileOf(std::string(1000, '['), ""), "nested deeper");
  expect(fileOf("{\"a\": 3}", ""), "no dtype");
  expect(fileOf("{\"__metadata__\": 3}", ""), "expected an object");
  expect(fileOf("{\"__metadata__\": {\"a\": 3}}", ""), "no string");
  expect(replaced("\"b\"", "\"a\""), "occurs twice");
  expect(replaced("F32", "F33"), "dtype F33");
  expect(replaced("[2]", "[3]"), "needs 12 bytes, its data_offsets give 8");
  expect(replaced("[2]", "[-2]"), "no array of sizes");
  expect(replaced("[2]", "[4294967296, 4294967296, 4]"), "overflows");
  expect(replaced("[2]", "[2.0]"), "no array of sizes");
  expect(replaced("[0, 8]", "[8, 0]"), "is at bytes 8 to 0");
  expect(replaced("[0, 8]", "[0, 8, 9]"), "not two offsets");
  expect(replaced("[0, 8]", "[4, 12]"), "leaving a hole");
  expect(replaced("[8, 12]", "[4, 8]"), "overlapping");
  expect(replaced("[8, 12]", "[10, 14]"), "is at bytes 10 to 14 of 12");
  expect(fileOf(goodHeader, data + "x"), "follow the last tensor");
  expect(fileOf(goodHeader, data.substr(1)), "of 11");
  expect(fileOf("{}", "rest"), "follow the last tensor");
}

// Random damage gives a message or a readable file, never a crash.
TEST(Safetensors, SurvivesRandomDamage) {
  TempDirectory directory;
  std::string path = directory / "x.safetensors";
  std::string good = fileOf(goodHeader, std::string(12, '\1'));
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bad = good;
    for (int changes = 1 + random() % 4; changes > 0; --changes) {
      size_t at = random() % bad.size();
      switch (random() % 3) {
      case 0:
        bad[at] = static_cast<char>(random());
        break;
      case 1:
        bad.erase(at, 1 + random() % 8);
        break;
      default:
        bad.insert(at,
                   std::string(1 + random() % 3, char('0' + random() % 10)));
      }
      if (bad.empty())
        bad = "x";
    }
    FILE *out = std::fopen(path.c_str(), "wb");
    ASSERT_EQ(std::fwrite(bad.data(), 1, bad.size(), out), bad.size());
    std::fclose(out);
    try {
      SafetensorsFile file(path);
      for (const auto &[name, tensor] : file.tensors) {
        std::vector<char> to(tensor.bytes);
        file.read(tensor, tensor.type, to.data());
      }
    } catch (const Error &) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Safetensors, AFullDiskLeavesTheOldFile) {
  TempDirectory directory;
  std::string path = directory / "x.safetensors";
  std::vector<float> small(4, 1.f), large(100000, 2.f);
  writeSafetensors(path, {{"a", SHEAF_F32, {4}, small.data()}});

  rlimit old, limit;
  getrlimit(RLIMIT_FSIZE, &old);
  limit = old;
  limit.rlim_cur = 10000;
  auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  expectError(
      [&] {
        writeSafetensors(path, {{"a", SHEAF_F32, {100000}, large.data()}});
      },
      "cannot write");
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);

  EXPECT_EQ(SafetensorsFile(path).tensors.at("a").elements, 4);
  int entries = 0;
  for ([[maybe_unused]] const auto &entry :
       std::filesystem::directory_iterator(directory.path))
    ++entries;
  EXPECT_EQ(entries, 1); // nothing half-written stays
}
