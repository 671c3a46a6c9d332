#include "sheaf/Artifact.h"
#include "TestSupport.h"
#include "sheaf/Program.h"
#include <nlohmann/json.hpp>

using namespace sheaf;
using namespace sheaf::test;

namespace {
/// Compiles C text to a shared object.
std::string compile(const TempDirectory &directory, const std::string &source) {
  std::string c = directory / "a.c", out = directory / "a.sheaf";
  writeFile(c, source);
  Outcome done = shell(fmt::format("{} -shared -fPIC -I{} {} -o {}", SHEAF_CC,
                                   SHEAF_INCLUDE, c, out));
  EXPECT_EQ(done.status, 0) << done.output;
  return out;
}

/// C text of an artifact with a manifest and `rest`.
std::string source(const std::string &manifest, const std::string &rest = "",
                   int version = SHEAF_ABI_VERSION, int extraSize = 0) {
  return fmt::format("#include \"sheaf/abi.h\"\n"
                     "const uint32_t sheaf_abi_version = {};\n"
                     "const char sheaf_manifest[] = {};\n"
                     "const uint64_t sheaf_manifest_size = "
                     "sizeof(sheaf_manifest) - 1 + {};\n{}\n",
                     version, nlohmann::json(manifest).dump(), extraSize, rest);
}
} // namespace

TEST(Artifact, Loads) {
  Artifact artifact(toy());
  EXPECT_EQ(artifact.manifest.entries.size(), 5u);
  EXPECT_EQ(artifact.model.size(), 7u);
  std::string text = describe(artifact);
  EXPECT_NE(text.find("transformer.wte.weight"), std::string::npos);
  EXPECT_NE(text.find("arena"), std::string::npos);
}

TEST(Artifact, RefusesWhatIsNoArtifact) {
  TempDirectory directory;
  std::string path = directory / "x.sheaf";
  expectError([&] { Artifact a(path); }, "cannot open");
  writeFile(path, "");
  expectError([&] { Artifact a(path); }, "not an artifact");
  writeFile(path, "plain text, long enough for a header of an object file...");
  expectError([&] { Artifact a(path); }, "expected an ELF shared object");
  std::string whole = readFile(toy());
  for (size_t part : {10ul, 70ul, 200ul, 3000ul}) {
    writeFile(path, whole.substr(0, part));
    EXPECT_THROW(Artifact a(path), Error) << part;
  }
  expectError([&] { Artifact a(compile(directory, "int x;")); },
              "does not export sheaf_abi_version");
}

TEST(Artifact, RefusesWhatItCannotRun) {
  TempDirectory directory;
  std::string empty = R"({"abi": 4, "buffers": [], "entries": {}})";
  expectError([&] { Artifact a(compile(directory, source(empty, "", 9))); },
              "ABI version 9, this runtime has 3");
  expectError(
      [&] {
        Artifact a(
            compile(directory, source(empty, "", SHEAF_ABI_VERSION, 1000)));
      },
      "sheaf_manifest_size");
  expectError(
      [&] {
        Artifact a(compile(directory, source(R"({"abi": 4, "cpu": "future",
          "cpu_features": ["sse2", "avx9000"], "buffers": [], "entries": {}})")));
      },
      "CPU features that this machine lacks: avx9000");
  expectError(
      [&] {
        Artifact a(compile(directory, source(R"({"abi": 4,
          "target": "cuda:sm_90", "buffers": [], "entries": {}})")));
      },
      "target 'cuda:sm_90'");
  expectError(
      [&] {
        Artifact a(compile(directory, source(R"({"abi": 4, "buffers": [],
          "entries": {"f": {"symbol": "absent", "arguments": [],
          "arena_bytes": 0}}})")));
      },
      "symbol 'absent', which is not exported");
}

TEST(Artifact, CpuFeaturesInTheCompilersSpelling) {
  EXPECT_TRUE(missingCpuFeatures({"sse2", "+sse4.2", "sse3", "64bit"}).empty());
  EXPECT_EQ(missingCpuFeatures({"sse2", "nonsense"}),
            std::vector<std::string>{"nonsense"});
}

TEST(Program, RefusesMoreMemoryThanThereIs) {
  TempDirectory directory;
  std::string path = compile(directory, source(R"({"abi": 4,
      "buffers": [{"name": "x", "kind": "input", "dtype": "f32",
                   "shape": [1099511627776]}],
      "entries": {"f": {"symbol": "f", "arguments": [0],
                        "arena_bytes": 281474976710656}}})",
                                               "int f(void *c) { return 0; }"));
  Artifact artifact(path);
  CpuDevice device(1);
  Program program(artifact, device);
  expectError([&] { program.prepare({"f"}); },
              "285873023221760 bytes: buffers 4.00 TiB");
  expectError([&] { program.prepare({"f"}); }, "are available");
}

TEST(Program, ReportsWhatAnEntryReturns) {
  TempDirectory directory;
  std::string path = compile(
      directory, source(R"({"abi": 4, "buffers": [], "entries": {
          "f": {"symbol": "f", "arguments": [], "arena_bytes": 0},
          "g": {"symbol": "g", "arguments": [], "arena_bytes": 0}}})",
                        "int f(SheafContext *c) { return 42; }\n"
                        "int g(SheafContext *c) { SheafMatmul m = {1, 1, 1};\n"
                        "  c->device->matmul(c, &m, 0, 0, 0); return 0; }"));
  Artifact artifact(path);
  CpuDevice device(1);
  Program program(artifact, device);
  expectError([&] { program.call("f"); }, "returned error 42");
  expectError([&] { program.call("g"); }, "shorter than a row");
}

TEST(Program, CountsBytesByKind) {
  Artifact artifact(toy());
  CpuDevice device(1);
  Program program(artifact, device);
  program.prepare({"init", "step"});
  auto bytes = program.bytesByKind();
  EXPECT_EQ(bytes[int(BufferKind::Parameter)], 66560);
  EXPECT_EQ(bytes[int(BufferKind::Moment1)], 66560);
  EXPECT_EQ(bytes[int(BufferKind::Gradient)], 0); // no entry asked for it
  EXPECT_EQ(program.arenaBytes(), 300000);
  for (int index : artifact.manifest.entry("step").arguments)
    EXPECT_EQ(reinterpret_cast<uintptr_t>(program.data(index)) % 64, 0u);
}
