#include "sheaf/Weights.h"
#include "TestSupport.h"
#include <cstring>

using namespace sheaf;
using namespace sheaf::test;

namespace {
class Weights : public testing::Test {
protected:
  Weights() : artifact(toy()), device(1), program(artifact, device) {
    program.prepare({"init"});
    embed.assign(256 * 32, 0.5f);
    head.assign(256 * 32, -0.25f);
    bias.assign(256, 2.f);
  }
  void write(std::vector<NamedTensor> tensors) {
    writeSafetensors(directory / "w", tensors);
  }
  void load() { loadWeights(program, directory / "w"); }
  float first(int index) { return static_cast<float>(program.value(index)); }
  NamedTensor embedTensor(const char *name = "transformer.wte.weight") {
    return {name, SHEAF_F32, {256, 32}, embed.data()};
  }
  NamedTensor headTensor() {
    return {"head.weight", SHEAF_F32, {256, 32}, head.data()};
  }
  NamedTensor biasTensor() {
    return {"head.bias", SHEAF_F32, {256}, bias.data()};
  }

  TempDirectory directory;
  Artifact artifact;
  CpuDevice device;
  Program program;
  std::vector<float> embed, head, bias;
};
} // namespace

TEST_F(Weights, SaveThenLoad) {
  program.call("init");
  saveWeights(program, directory / "w");
  std::vector<char> before(program.manifest.buffers[0].bytes);
  std::memcpy(before.data(), program.data(0), before.size());
  std::memset(program.data(0), 0, before.size());
  load();
  EXPECT_EQ(std::memcmp(before.data(), program.data(0), before.size()), 0);
}

TEST_F(Weights, TakesHuggingFaceVariations) {
  std::vector<float> mask(16, 1.f);
  NamedTensor attention{"h.0.attn.bias", SHEAF_F32, {1, 1, 4, 4}, mask.data()};
  NamedTensor masked{"h.0.attn.masked_bias", SHEAF_F32, {}, mask.data()};
  NamedTensor rotary{"model.layers.0.self_attn.rotary_emb.inv_freq",
                     SHEAF_F32,
                     {16},
                     mask.data()};
  NamedTensor tied{"lm_head.weight", SHEAF_F32, {256, 32}, embed.data()};
  write({embedTensor("wte.weight"), headTensor(), biasTensor(), attention,
         masked, rotary, tied});
  load();
  EXPECT_EQ(first(0), 0.5f);
  EXPECT_EQ(first(1), -0.25f);

  // A prefix that the model does not have, and half precision.
  std::vector<uint16_t> half(256 * 32, 0x3f80); // 1 in bf16
  write({{"transformer.wte.weight", SHEAF_BF16, {256, 32}, half.data()},
         {"model.head.weight", SHEAF_F32, {256, 32}, head.data()},
         biasTensor()});
  load();
  EXPECT_EQ(first(0), 1.f);

  // A head that is not tied is not dropped in silence.
  NamedTensor untied{"lm_head.weight", SHEAF_F32, {256, 32}, head.data()};
  write({embedTensor(), headTensor(), biasTensor(), untied});
  expectError([&] { load(); }, "differs from 'transformer.wte.weight'");
}

TEST_F(Weights, NamesWhatDoesNotFit) {
  program.call("init");
  float before = first(0);
  write({embedTensor(), headTensor()});
  expectError([&] { load(); },
              "missing from the file (1):\n  'head.bias' [256]");
  EXPECT_EQ(first(0), before); // nothing was changed

  write({embedTensor(),
         headTensor(),
         biasTensor(),
         {"extra", SHEAF_F32, {256}, bias.data()}});
  expectError([&] { load(); }, "not in the model (1):\n  'extra' [256]");

  write({embedTensor(),
         headTensor(),
         {"head.bias", SHEAF_F32, {128}, bias.data()}});
  expectError([&] { load(); },
              "'head.bias': the file has [128], the model [256]");

  write({embedTensor(),
         headTensor(),
         {"head.bias", SHEAF_I32, {256}, bias.data()}});
  expectError([&] { load(); }, "elements of type i32");
}
