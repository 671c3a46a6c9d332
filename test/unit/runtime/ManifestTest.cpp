#include "TestSupport.h"
#include "sheaf/Artifact.h"
#include <nlohmann/json.hpp>

using namespace sheaf;
using namespace sheaf::test;
using Json = nlohmann::ordered_json;

namespace {
Json good() {
  return Json::parse(R"({
    "abi": 4, "target": "cpu", "cpu_features": ["avx2"],
    "model": {"name": "m", "batch": 2, "seq": 4, "vocab": 8},
    "buffers": [
      {"name": "w", "kind": "parameter", "dtype": "f32", "shape": [2, 3]},
      {"name": "w", "kind": "moment1", "dtype": "f32", "shape": [2, 3]},
      {"name": "tokens", "kind": "batch", "role": "tokens", "dtype": "i32",
       "shape": [2, 4]},
      {"name": "lr", "kind": "scalar", "dtype": "f32", "shape": [],
       "value": 0.5}],
    "entries": {
      "zeta": {"symbol": "a", "arguments": [0, 1], "arena_bytes": 64},
      "alpha": {"symbol": "b", "arguments": [], "arena_bytes": 0}},
    "kernels": [{"name": "k", "kind": "kernel", "flops": 1, "bytes": 2}]})");
}

/// Applies `change` to a good manifest and expects an error.
template <typename Change>
void expectBad(Change change, const std::string &part) {
  Json json = good();
  change(json);
  expectError([&] { Manifest::parse(json.dump()); }, part);
}
} // namespace

TEST(Manifest, ReadsAGoodOne) {
  Manifest m = Manifest::parse(good().dump());
  EXPECT_EQ(m.model.vocab, 8);
  EXPECT_EQ(m.buffers[0].bytes, 24);
  EXPECT_EQ(m.buffers[0].key(), "w");
  EXPECT_EQ(m.buffers[1].key(), "moment1:w");
  EXPECT_EQ(m.buffers[3].value, 0.5);
  EXPECT_EQ(m.find(BufferKind::Moment1, "w"), 1);
  EXPECT_EQ(m.findRole(BatchRole::Tokens), 2);
  EXPECT_EQ(m.entries[0].name, "zeta"); // the order of the file
  EXPECT_EQ(m.entries[1].name, "alpha");
  expectError([&] { m.entry("step"); }, "it has zeta, alpha");
}

TEST(Manifest, HasTheScheduleOfAPipeline) {
  Json json = good();
  json["actions"] = {"0F0", "(0F1|1B0)"};
  json["schedule"] = {"r0: 0F0"};
  json["entries"]["zeta"]["peak_bytes"] = 100;
  json["entries"]["zeta"]["peak_action"] = "0F0";
  Manifest m = Manifest::parse(json.dump());
  EXPECT_EQ(m.actions, (std::vector<std::string>{"0F0", "(0F1|1B0)"}));
  EXPECT_EQ(m.schedule, std::vector<std::string>{"r0: 0F0"});
  EXPECT_EQ(m.entry("zeta").peakBytes, 100);
  EXPECT_EQ(m.entry("zeta").peakAction, "0F0");
  expectBad([](Json &j) { j["actions"] = {"0F0", 3}; },
            "\"actions\" has an element that is no string");
  expectBad([](Json &j) { j["schedule"] = "r0: 0F0"; }, "expected an array");
}

TEST(Manifest, SaysWhatNarrowProductsWouldDo) {
  Json json = good();
  EXPECT_FALSE(Manifest::parse(json.dump()).kernels[0].type);
  EXPECT_EQ(Manifest::parse(json.dump()).kernels[0].narrowBytes, -1);
  json["kernels"][0]["type"] = "bf16";
  json["kernels"][0]["narrow_bytes"] = 1;
  Manifest m = Manifest::parse(json.dump());
  EXPECT_EQ(m.kernels[0].type, SHEAF_BF16);
  EXPECT_EQ(m.kernels[0].narrowBytes, 1);
  json["kernels"][0]["type"] = "b16";
  expectError([&] { Manifest::parse(json.dump()); },
              "kernel 0 has type \"b16\"; expected an element type");
}

TEST(Manifest, RefusesWhatIsWrong) {
  auto buffer = [](const char *key, Json value) {
    return [=](Json &j) { j["buffers"][0][key] = value; };
  };
  expectBad([](Json &j) { j["abi"] = 1; }, "ABI version 1, this runtime of 4");
  expectBad([](Json &j) { j.erase("abi"); }, "no \"abi\"");
  expectBad([](Json &j) { j["abi"] = "4"; }, "expected a whole number");
  expectBad([](Json &j) { j.erase("buffers"); }, "no \"buffers\"");
  expectBad([](Json &j) { j["buffers"] = 3; }, "expected an array");
  expectBad([](Json &j) { j["buffers"][0] = 3; }, "expected an object");
  expectBad(buffer("name", ""), "is empty");
  expectBad(buffer("name", "a\nb"), "control character");
  expectBad(buffer("name", 7), "expected a string");
  expectBad(buffer("kind", "weight"), "expected one of parameter, moment1");
  expectBad(buffer("dtype", "f31"), "dtype \"f31\"");
  expectBad(buffer("shape", "x"), "expected an array");
  expectBad(buffer("shape", Json::array({-1})), "expected a whole number");
  expectBad(buffer("shape", Json::array({1.5})), "expected a whole number");
  expectBad(buffer("shape", Json::array({1e300})), "expected a whole number");
  expectBad(buffer("shape", Json::array({18446744073709551615u})),
            "expected a whole number");
  // Products that overflow 64 bits, or come out small again.
  expectBad(buffer("shape", Json::array({1ll << 40, 1ll << 40})),
            "larger than");
  expectBad(buffer("shape", Json::array({1ll << 32, 1ll << 32, 1})),
            "larger than");
  expectBad(buffer("shape", Json::array({3, 2})), "its parameter [3, 2]");
  expectBad([](Json &j) { j["buffers"][1]["name"] = "v"; },
            "belongs to no parameter");
  expectBad([](Json &j) { j["buffers"].push_back(j["buffers"][0]); },
            "two buffers 'w'");
  expectBad([](Json &j) { j["buffers"][3]["name"] = "w"; }, "share the name");
  expectBad([](Json &j) { j["buffers"][2]["role"] = "labels"; },
            "expected tokens, targets");
  expectBad([](Json &j) { j["buffers"][2]["shape"] = {4, 2}; },
            "expected [batch, seq]");
  expectBad([](Json &j) { j["buffers"][2]["dtype"] = "f32"; },
            "expected i32 or i64");
  expectBad([](Json &j) { j["buffers"][3]["value"] = "high"; },
            "expected a finite number");
  expectBad([](Json &j) { j["entries"]["zeta"]["arguments"] = {0, 4}; },
            "expected a whole number from 0 to 3");
  expectBad([](Json &j) { j["entries"]["zeta"]["arguments"] = {-1}; },
            "expected a whole number from 0 to 3");
  expectBad(
      [](Json &j) {
        j["entries"]["zeta"]["arena"] = {{"gradients", 1},
                                         {"activations", 2},
                                         {"temporaries", 3},
                                         {"unused", 4}};
      },
      "has 10 bytes in 4 kinds; expected the 64");
  expectBad([](Json &j) { j["entries"]["zeta"]["arena_bytes"] = -5; },
            "expected a whole number");
  expectBad([](Json &j) { j["entries"]["zeta"]["arena_bytes"] = 1ull << 63; },
            "expected a whole number");
  expectBad([](Json &j) { j["entries"]["zeta"]["symbol"] = "a b"; },
            "expected letters");
  expectBad([](Json &j) { j["entries"] = Json::array(); },
            "expected an object");
  expectBad([](Json &j) { j["model"]["batch"] = 0; }, "whole number from 1");
  expectBad([](Json &j) { j["mesh"] = {{"ranks", 0}}; }, "whole number from 1");
  expectBad([](Json &j) { j["kernels"][0].erase("name"); }, "no \"name\"");
}

TEST(Manifest, MeshesAndShardings) {
  auto sharded = [] {
    Json json = good();
    json["mesh"] = Json::parse(R"({"axes": [{"name": "dp", "size": 4},
                                            {"name": "tp", "size": 2}], "ranks": 8})");
    json["buffers"][0]["global_shape"] = {7, 5};
    json["buffers"][0]["sharding"] = Json::parse(R"([["dp"], ["tp"]])");
    json["buffers"][1]["shape"] = {1, 5};
    json["buffers"][1]["global_shape"] = {7, 5};
    json["buffers"][1]["sharding"] = Json::parse(R"([["tp", "dp"], []])");
    json["buffers"][2]["shape"] = {1, 4};
    json["buffers"][2]["global_shape"] = {2, 4};
    json["buffers"][2]["sharding"] = Json::parse(R"([["dp:(2)2"], []])");
    json["collectives"] = Json::parse(R"([{"name": "c", "purpose": "loss"}])");
    return json;
  };
  Manifest m = Manifest::parse(sharded().dump());
  EXPECT_EQ(m.ranks, 8);
  EXPECT_EQ(m.buffers[0].bytes, 24);
  EXPECT_TRUE(m.buffers[0].layout.isSharded());
  EXPECT_EQ(m.buffers[0].layout.global, (Shape{7, 5}));
  EXPECT_EQ(m.buffers[2].layout.axes[0][0].stride, 2);
  EXPECT_EQ(m.purposes, std::vector<std::string>{"loss"});
  auto bad = [&](auto change, const std::string &part) {
    Json json = sharded();
    change(json);
    expectError([&] { Manifest::parse(json.dump()); }, part);
  };
  bad([](Json &j) { j["mesh"]["ranks"] = 6; },
      "has 6 ranks, the product of its axes is 8");
  bad([](Json &j) { j["mesh"]["devices"] = {0, 1, 2, 3, 4, 5, 6, 6}; },
      "the devices 0, 1, 2, 3, 4, 5, 6, 6; expected each rank from 0 to 7 "
      "once");
  bad([](Json &j) { j["mesh"]["devices"] = {1, 0}; }, "each rank from 0 to 7");
  bad([](Json &j) { j["mesh"]["devices"] = {8, 1, 2, 3, 4, 5, 6, 7}; },
      "from 0 to 7");
  bad([](Json &j) { j["mesh"]["axes"][1]["name"] = "dp"; }, "two axes 'dp'");
  bad([](Json &j) { j["mesh"]["axes"][1]["name"] = "a b"; },
      "expected letters");
  bad([](Json &j) { j["mesh"]["axes"][1]["size"] = 0; }, "whole number from 1");
  bad([](Json &j) { j["buffers"][0]["sharding"][1][0] = "cp"; },
      "axis 'cp' is not in the mesh; it has dp, tp");
  bad([](Json &j) { j["buffers"][0]["sharding"][1][0] = "dp"; },
      "which overlap");
  bad([](Json &j) { j["buffers"][0]["sharding"][1][0] = "dp:(1)2"; },
      "which overlap");
  bad([](Json &j) { j["buffers"][0]["sharding"][0][0] = "dp:(3)2"; },
      "no part of the axis");
  bad([](Json &j) { j["buffers"][0]["sharding"][0][0] = 1; },
      "expected a name");
  bad([](Json &j) { j["buffers"][0]["sharding"] = {"dp", "tp"}; },
      "an array of axes");
  bad([](Json &j) { j["buffers"][0]["sharding"].erase(0); },
      "expected equally many");
  bad([](Json &j) { j["buffers"][0]["shape"] = {2, 2}; },
      "global shape [7, 5] and its sharding give [2, 3]");
  bad([](Json &j) { j["buffers"][1]["global_shape"] = {8, 5}; },
      "its parameter [7, 5]");
  bad([](Json &j) { j["buffers"][0]["blocks"] = 2; }, "expected an array");
  bad([](Json &j) { j["buffers"][0]["blocks"] = {2, 1}; },
      "dimension 0 of 7, which 2 blocks");
  bad([](Json &j) { j["buffers"][0]["blocks"] = {1, 2}; },
      "dimension 1 of 5, which 2 blocks");
  bad([](Json &j) { j["buffers"][0]["blocks"] = {1}; },
      "blocks of 1; expected equally many");
  bad(
      [](Json &j) {
        j["buffers"].push_back({{"name", "at"},
                                {"kind", "coordinates"},
                                {"dtype", "i32"},
                                {"shape", {3}}});
      },
      "one element for each axis");
}

TEST(Manifest, RefusesBrokenText) {
  expectError([] { Manifest::parse(""); }, "not valid JSON");
  expectError([] { Manifest::parse("[]"); }, "expected an object");
  expectError([] { Manifest::parse("{\"abi\": 2, \"abi\": 1}"); },
              "occurs twice");
  expectError([] { Manifest::parse(std::string(100000, '[')); },
              "nested deeper");
  expectError([] { Manifest::parse("{\"abi\": \"\xff\xfe\"}"); },
              "not valid JSON");
  // Every cut of a good one, and every byte of it replaced.
  std::string text = good().dump();
  for (size_t i = 0; i < text.size(); ++i)
    EXPECT_THROW(Manifest::parse(text.substr(0, i)), Error);
  for (size_t i = 0; i < text.size(); ++i)
    for (char c : {'"', '9', '{', '\0'}) {
      std::string changed = text;
      changed[i] = c;
      try {
        Manifest::parse(changed);
      } catch (const Error &) {
      }
    }
}
