#include "sheaf/Cluster.h"
#include "TestSupport.h"
#include <nlohmann/json.hpp>
#include <string_view>

using namespace sheaf;
using namespace sheaf::test;
using Json = nlohmann::ordered_json;

namespace {
Json good() {
  return Json::parse(R"({
    "name": "toy", "source": ["nowhere", "a test"],
    "device": {
      "name": "toy device", "memory_bytes": 1e9, "multiprocessors": 10,
      "memory": {"bytes_per_second": 1e9, "efficiency": 0.5},
      "products": {"f32": {"flops_per_second": 1e12, "efficiency": 0.5},
                   "bf16": {"flops_per_second": 4e12, "source": "s"}},
      "attention": {"forward_efficiency": 0.5, "backward_efficiency": 0.25},
      "elementwise": {"flops_per_second": 2e9, "efficiency": 0.5},
      "launch_seconds": 1e-6, "least_kernel_seconds": 5e-6,
      "issue_seconds": 1e-6},
    "node": {"devices": 8},
    "communication": {
      "multiprocessors": 2, "latency_by": {"all-reduce": "log-members"},
      "transfers": [
        {"kinds": ["all-gather", "reduce-scatter"], "members_per_node": 2,
         "nodes": 1, "bytes_per_second": 4e9, "latency_seconds": 1e-3},
        {"kinds": ["all-gather"], "members_per_node": 8, "nodes": 1,
         "bytes_per_second": 4e9, "latency_seconds": 7e-3,
         "multiprocessors": 5},
        {"kinds": ["all-gather"], "members_per_node": 8, "nodes": 2,
         "bytes_per_second": 2e9, "latency_seconds": 9e-3},
        {"kinds": ["all-reduce"], "members_per_node": 8, "nodes": 1,
         "bytes_per_second": 1e9, "latency_seconds": 3e-3},
        {"kinds": ["all-reduce"], "members_per_node": 8, "nodes": 2,
         "bytes_per_second": 1e9, "latency_seconds": 5e-3},
        {"kinds": ["all-reduce"], "members_per_node": 8, "nodes": 8,
         "bytes_per_second": 0.5e9, "latency_seconds": 9e-3},
        {"kinds": ["all-to-all"], "members_per_node": 8, "nodes": 2,
         "bytes_per_second": 1e9, "latency_seconds": 1e-3},
        {"kinds": ["send"], "members_per_node": 2, "nodes": 1,
         "bytes_per_second": 2e9, "latency_seconds": 1e-6}]}})");
}

Cluster small() { return Cluster::parse(good().dump(), "toy.json"); }

template <typename Change>
void expectBad(Change change, const std::string &part) {
  Json json = good();
  change(json);
  expectError([&] { Cluster::parse(json.dump(), "toy.json"); }, part);
}

double seconds(int32_t kind, double bytes, int64_t members, int64_t nodes) {
  return small().transfer(kind, bytes, {members, nodes}).all();
}
} // namespace

TEST(Cluster, KernelsTakeTheLongerOfWorkAndMemory) {
  Cluster c = small();
  // Launch, then 1e9 operations at half of 2e9 a second.
  EXPECT_DOUBLE_EQ(c.kernelSeconds(1e9, 1), 1e-6 + 1.0);
  EXPECT_DOUBLE_EQ(c.kernelSeconds(1, 1e9), 1e-6 + 2.0);
  EXPECT_DOUBLE_EQ(c.kernelSeconds(1, 1), 5e-6);
  EXPECT_DOUBLE_EQ(c.copySeconds(5e8), 1e-6 + 1.0);
}

TEST(Cluster, ProductsGoByTheirTypes) {
  Cluster c = small();
  EXPECT_DOUBLE_EQ(c.productSeconds(1e12, 8, SHEAF_F32, SHEAF_F32), 1e-6 + 2);
  EXPECT_DOUBLE_EQ(c.productSeconds(1e12, 8, SHEAF_BF16, SHEAF_BF16),
                   1e-6 + 0.25);
  // Of two types the slower.
  EXPECT_DOUBLE_EQ(c.productSeconds(1e12, 8, SHEAF_BF16, SHEAF_F32), 1e-6 + 2);
  // Bound by memory.
  EXPECT_DOUBLE_EQ(c.productSeconds(8, 1e9, SHEAF_BF16, SHEAF_BF16), 1e-6 + 2);
  EXPECT_DOUBLE_EQ(c.attentionSeconds(1e12, 8, SHEAF_BF16, false), 1e-6 + 0.5);
  EXPECT_DOUBLE_EQ(c.attentionSeconds(1e12, 8, SHEAF_BF16, true), 1e-6 + 1);
  expectError([&] { c.productSeconds(1, 1, SHEAF_F8E4M3, SHEAF_F8E5M2); },
              "toy.json: device.products has no rate for f8e4m3, which the "
              "program multiplies; it has f32, bf16");
}

TEST(Cluster, AListedShapeTakesWhatItsRowSays) {
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_GATHER, 4e9, 2, 1), 1e-3 + 1);
  EXPECT_DOUBLE_EQ(seconds(SHEAF_REDUCE_SCATTER, 4e9, 2, 1), 1e-3 + 1);
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_REDUCE, 4e9, 8, 8), 9e-3 + 8);
  EXPECT_DOUBLE_EQ(seconds(SHEAF_SEND, 4e9, 2, 1), 1e-6 + 2);
  EXPECT_DOUBLE_EQ(seconds(SHEAF_PERMUTE, 4e9, 2, 1), 1e-6 + 2);
  EXPECT_DOUBLE_EQ(seconds(SHEAF_BROADCAST, 4e9, 2, 1), 1e-3 + 1);
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_TO_ALL, 0, 8, 2), 1e-3);
  // A group of one copies.
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_REDUCE, 2.5e8, 1, 1), 1e-6 + 1);
}

TEST(Cluster, BetweenShapesTheRateOfALinkIsInterpolated) {
  // All-gathers in a node: links do 4e9 / 2 and 4e9 x 7 / 8; with 5 members the
  // middle, and the latency's, too.
  double rate = (2e9 + 3.5e9) / 2;
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_GATHER, 1e9, 5, 1),
                   4e-3 + 1e9 * 4 / 5 / rate);
  // One member on each of two nodes drives one adapter: 2e9 x 15 / 16 / 8. The
  // latency is that of the row of two members.
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_GATHER, 1e9, 1, 2),
                   1e-3 + 1e9 * (1.0 / 2) / (2e9 * 15 / 16 / 8));
  // More nodes than listed: the link's rate stays, the latency goes on.
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_GATHER, 1e9, 8, 3),
                   11e-3 + 1e9 * (23.0 / 24 / 8) / (2e9 * 15 / 16 / 8));
  // All-reduces: by the logarithm. 4 nodes are halfway from 2 to 8, and 32
  // members from 16 to 64.
  double two = 2e9 * 15 / 16 / 8, eight = 1e9 * 63 / 64 / 8;
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_REDUCE, 1e9, 8, 4),
                   7e-3 + 1e9 * (2 * 31.0 / 32 / 8) / ((two + eight) / 2));
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_REDUCE, 0, 8, 32), 13e-3);
  // An all-to-all sends off its node what is not for it.
  EXPECT_DOUBLE_EQ(seconds(SHEAF_ALL_TO_ALL, 1e9, 8, 4),
                   1e-3 + 1e9 * (3.0 / 4) / (1e9 / 2));
}

TEST(Cluster, InterpolationIsMonotone) {
  for (const char *file : {"h100", "h200", "a100"}) {
    Cluster c = Cluster::read(std::string(SHEAF_CLUSTERS "/") + file + ".json");
    for (int32_t kind : {SHEAF_ALL_REDUCE, SHEAF_ALL_GATHER,
                         SHEAF_REDUCE_SCATTER, SHEAF_ALL_TO_ALL, SHEAF_SEND}) {
      const auto &rows = c.transfers[static_cast<int>(transferKindOf(kind))];
      for (int64_t members : {1, 2, 3, 5, 8})
        for (int64_t nodes = 1; nodes <= 4096; nodes = nodes * 3 / 2 + 1) {
          if (members * nodes == 1)
            continue;
          // More bytes take longer.
          double last = 0;
          for (double bytes : {0.0, 1e3, 1e6, 1e9, 1e12}) {
            double now = c.transfer(kind, bytes, {members, nodes}).all();
            EXPECT_GE(now, last);
            last = now;
          }
          // The link's rate lies between those of the rows.
          double least = 1e30, most = 0;
          for (const TransferRow &row : rows.rows)
            if ((row.shape.nodes > 1) == (nodes > 1)) {
              double rate = row.bytesPerSecond *
                            linkShare(transferKindOf(kind), row.shape);
              least = std::min(least, rate);
              most = std::max(most, rate);
            }
          double rate = 1e9 *
                        linkShare(transferKindOf(kind), {members, nodes}) /
                        c.transfer(kind, 1e9, {members, nodes}).seconds;
          EXPECT_GE(rate, least * (1 - 1e-12)) << file << members << nodes;
          EXPECT_LE(rate, most * (1 + 1e-12)) << file << members << nodes;
        }
    }
  }
}

TEST(Cluster, TransfersTakeMultiprocessorsAndLinks) {
  Cluster c = small();
  TransferCost inNode = c.transfer(SHEAF_ALL_GATHER, 1, {2, 1});
  EXPECT_DOUBLE_EQ(inNode.share, 0.2);
  EXPECT_TRUE(inNode.inNode && !inNode.acrossNodes);
  // The nearest row's.
  EXPECT_DOUBLE_EQ(c.transfer(SHEAF_ALL_GATHER, 1, {7, 1}).share, 0.5);
  TransferCost across = c.transfer(SHEAF_ALL_GATHER, 1, {1, 2});
  EXPECT_TRUE(!across.inNode && across.acrossNodes);
  TransferCost both = c.transfer(SHEAF_ALL_GATHER, 1, {8, 2});
  EXPECT_TRUE(both.inNode && both.acrossNodes);
}

TEST(Cluster, GroupsHaveShapes) {
  Cluster c = small();
  EXPECT_EQ(c.shapeOf({0, 1, 2, 3}), (GroupShape{4, 1}));
  EXPECT_EQ(c.shapeOf({0, 8, 16}), (GroupShape{1, 3}));
  EXPECT_EQ(c.shapeOf({6, 7, 8}), (GroupShape{2, 2}));
  EXPECT_EQ(c.shapeOf({3}), (GroupShape{1, 1}));
}

TEST(Cluster, SaysWhatHasNoRow) {
  expectError(
      [] { seconds(SHEAF_ALL_TO_ALL, 1, 4, 1); },
      "communication.transfers has no row for all-to-all with one node, "
      "which the program needs for 4 members in each of 1 node (8 "
      "devices in a node)");
  expectError([] { seconds(SHEAF_SEND, 1, 1, 2); },
              "no row for send with several nodes");
}

TEST(Cluster, RefusesBadFiles) {
  expectError([] { Cluster::parse("{", "toy.json"); },
              "toy.json: not valid JSON");
  expectError([] { Cluster::parse("[]", "toy.json"); },
              "toy.json: the file is []; expected an object with name, device");
  expectError([] { Cluster::parse(R"({"name": 1, "name": 2})", "toy.json"); },
              "\"name\" occurs twice");
  expectError([] { Cluster::read("/no/such.json"); }, "/no/such.json");
  expectBad([](Json &j) { j["devices"] = 8; },
            "toy.json: devices is no key of a description; did you mean "
            "\"device\"?");
  expectBad([](Json &j) { j["device"]["memmory"] = 8; },
            "device.memmory is no key of a description; did you mean "
            "\"memory\"?");
  expectBad([](Json &j) { j["device"].erase("memory_bytes"); },
            "device.memory_bytes is missing");
  expectBad([](Json &j) { j["device"]["memory_bytes"] = "80 GB"; },
            "device.memory_bytes is \"80 GB\"; expected bytes above 0");
  expectBad([](Json &j) { j["device"]["memory_bytes"] = -1; },
            "device.memory_bytes is -1; expected bytes above 0");
  expectBad([](Json &j) { j["device"]["memory"]["efficiency"] = 1.5; },
            "device.memory.efficiency is 1.5; expected a part of what is "
            "stated, above 0 and at most 1");
  expectBad([](Json &j) { j["device"]["multiprocessors"] = 1.5; },
            "device.multiprocessors is 1.5; expected a whole number from 1");
  expectBad([](Json &j) { j["device"]["products"] = Json::object(); },
            "device.products is empty");
  expectBad([](Json &j) { j["device"]["products"]["b16"] = 1; },
            "device.products.b16 is no key of a description; did you mean "
            "\"bf16\"?");
  expectBad([](Json &j) { j["device"]["products"]["f32"] = 1; },
            "device.products.f32 is 1; expected an object with "
            "flops_per_second");
  expectBad([](Json &j) { j["device"]["issue_seconds"] = -1; },
            "device.issue_seconds is -1; expected seconds of at least 0");
  expectBad([](Json &j) { j["device"]["source"] = 3; },
            "device.source is 3; expected a text or a list of texts");
  expectBad([](Json &j) { j["node"]["devices"] = 0; },
            "node.devices is 0; expected a whole number from 1");
  expectBad([](Json &j) { j["node"]["devices"] = 1e300; },
            "node.devices is 1e+300; expected a whole number from 1");
  expectBad([](Json &j) { j["communication"]["transfers"] = 3; },
            "communication.transfers is 3; expected a list of rows");
  auto row = [](Json &j) -> Json & {
    return j["communication"]["transfers"][0];
  };
  expectBad([&](Json &j) { row(j)["kinds"] = {"all-gater"}; },
            "communication.transfers[0].kinds is \"all-gater\"; expected "
            "all-gather, reduce-scatter, all-reduce, all-to-all, send; did you "
            "mean all-gather?");
  expectBad([&](Json &j) { row(j)["kinds"] = "all-gather"; },
            "communication.transfers[0].kinds is \"all-gather\"; expected a "
            "list of kinds");
  expectBad([&](Json &j) { row(j)["members_per_node"] = 9; },
            "communication.transfers[0].members_per_node is 9; expected a "
            "whole number from 1 to 8");
  expectBad([&](Json &j) { row(j)["members_per_node"] = 1; },
            "communication.transfers[0] has 1 member in 1 node");
  expectBad(
      [&](Json &j) { row(j)["members_per_node"] = 8; },
      "communication.transfers[1] is the second row for all-gather with 8 "
      "members in each of 1 nodes");
  expectBad([&](Json &j) { row(j).erase("latency_seconds"); },
            "communication.transfers[0].latency_seconds is missing");
  expectBad([&](Json &j) { row(j)["bytes_per_second"] = 0; },
            "communication.transfers[0].bytes_per_second is 0; expected");
  expectBad([&](Json &j) { row(j)["multiprocessors"] = 11; },
            "communication.transfers[0].multiprocessors is 11; expected a "
            "whole number from 0 to 10");
  expectBad([](Json &j) { j["communication"]["latency_by"]["send"] = "n"; },
            "communication.latency_by.send is \"n\"; expected \"members\" or");
}

TEST(Cluster, SurvivesDamagedFiles) {
  std::string whole = good().dump();
  uint32_t state = 1;
  auto next = [&](size_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<size_t>(state >> 8) % below;
  };
  constexpr std::string_view bytes = "0123456789-.eE\"{}[],:nulltrue \xff";
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (size_t change = 0; change <= next(3); ++change)
      text[next(text.size())] = bytes[next(bytes.size())];
    try {
      Cluster c = Cluster::parse(text, "toy.json");
      c.kernelSeconds(1, 1);
      ++read;
    } catch (const Error &error) {
      EXPECT_EQ(std::string(error.what()).rfind("toy.json: ", 0), 0u);
    }
  }
  EXPECT_GT(read, 0);
}

TEST(Cluster, WritesWhatItReads) {
  Cluster c = small();
  std::string text = clusterJson(c);
  Cluster again = Cluster::parse(text, c.name);
  EXPECT_EQ(text, clusterJson(again));
  EXPECT_DOUBLE_EQ(again.transfer(SHEAF_ALL_REDUCE, 1e9, {8, 4}).all(),
                   seconds(SHEAF_ALL_REDUCE, 1e9, 8, 4));
}
