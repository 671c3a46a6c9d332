#include "sheaf/Simulation.h"
#include "TestSupport.h"
#include "sheaf/Types.h"
#include <map>
#include <nlohmann/json.hpp>

using namespace sheaf;
using namespace sheaf::test;
using Json = nlohmann::ordered_json;

namespace {
constexpr double latency = 1e-3, bandwidth = 1e6;

/// All transfers alike, and nothing else that takes time.
Cluster simple(int64_t devices) {
  std::string rows;
  for (auto [members, nodes] :
       {std::pair(2, 1), {3, 1}, {4, 1}, {6, 1}, {1, 2}, {1, 4}, {2, 2}})
    if (members <= devices)
      rows += fmt::format(
          R"({}{{"kinds": ["all-gather", "reduce-scatter", "all-reduce",
              "all-to-all", "send"], "members_per_node": {}, "nodes": {},
              "bytes_per_second": {}, "latency_seconds": {}}})",
          rows.empty() ? "" : ", ", members, nodes, bandwidth, latency);
  return Cluster::parse(
      fmt::format(R"({{"device": {{"memory_bytes": 1e6, "multiprocessors": 4,
        "memory": {{"bytes_per_second": 1e9}},
        "elementwise": {{"flops_per_second": 1e9}},
        "products": {{"f32": {{"flops_per_second": 1e9}}}}}},
        "node": {{"devices": {}}}, "communication": {{"transfers": [{}]}}}})",
                  devices, rows),
      "simple.json");
}

double wholeBytes(const TransferCount &count) {
  return static_cast<double>(count.elements) *
         static_cast<double>(elementSize(count.type));
}
} // namespace

TEST(Simulation, CountsWhatRanksCount) {
  for (const char *name : {"bigram_dp4", "bigram_dp3_tp2", "bigram_tp4"}) {
    TempDirectory directory;
    std::string tokens;
    for (int i = 0; i < 4000; ++i)
      tokens += static_cast<char>(i * 7 % 50);
    writeFile(directory / "data", tokens);
    std::string counts = directory / "counts.json";
    EXPECT_RUN(
        shell(fmt::format("{} {} --data={} --token-type=u8 --steps=1 "
                          "--threads=1 --collectives={}",
                          SHEAF_RUN, toy(name), directory / "data", counts)),
        0, "");
    std::multimap<std::string, std::pair<int64_t, double>> expected, found;
    Json json = Json::parse(readFile(counts));
    for (const Json &row : json["entries"]["step"]["collectives"])
      expected.emplace(row["kind"].get<std::string>() + row["axes"].dump() +
                           row["elements"].dump() +
                           row["purpose"].get<std::string>(),
                       std::pair(row["count"].get<int64_t>(),
                                 row["wire_bytes"].get<double>()));
    Simulation result = simulate(Artifact(toy(name)), simple(8));
    for (const SimulatedTransfers &row : result.places[0].transfers)
      found.emplace(std::string(collectiveName(row.count.kind)) +
                        Json(row.count.axes).dump() +
                        std::to_string(row.count.elements) + row.count.purpose,
                    std::pair(row.count.count, row.count.wireBytes));
    EXPECT_FALSE(found.empty());
    EXPECT_EQ(found, expected) << name;
  }
}

TEST(Simulation, ProgramsOfTransfersTakeWhatTheRowsSay) {
  // All that this model asks of the device are transfers. Some are open at
  // once, each on a communicator of its own or behind others: none is faster
  // than alone.
  Artifact artifact(toy("bigram_dp4"));
  for (int64_t devices : {8, 1}) {
    Simulation result = simulate(artifact, simple(devices));
    ASSERT_EQ(result.places.size(), 1u);
    const SimulatedPlace &place = result.places[0];
    double alone = 0;
    for (const SimulatedTransfers &row : place.transfers) {
      double one = latency + wholeBytes(row.count) / bandwidth;
      EXPECT_GE(row.seconds,
                one * static_cast<double>(row.count.count) * (1 - 1e-12));
      EXPECT_LE(row.exposed, row.seconds * (1 + 1e-12));
      alone += one * static_cast<double>(row.count.count);
    }
    // One axis, one channel: one behind the other.
    EXPECT_NEAR(result.seconds, alone, 1e-9 * alone);
    EXPECT_NEAR(place.exposed, alone, 1e-9 * alone);
    EXPECT_EQ(place.busy, 0);
    EXPECT_EQ(place.calls, 0);
    EXPECT_EQ(result.nodes, devices == 1 ? 4 : 1);
  }
}

TEST(Simulation, TheReportIsWhole) {
  Simulation result = simulate(Artifact(toy("bigram_dp4")), simple(8));
  Json json = Json::parse(simulationJson(result));
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_DOUBLE_EQ(json["step_seconds"].get<double>(), result.seconds);
  EXPECT_EQ(json["places"].size(), 1u);
  EXPECT_NE(simulationTable(result).find("4 ranks of device, 1 node"),
            std::string::npos)
      << simulationTable(result);
  std::string trace;
  simulate(Artifact(toy("bigram_dp4")), simple(8), "step", &trace);
  size_t transfers = 0;
  Json events = Json::parse(trace)["traceEvents"];
  for (const Json &event : events)
    transfers += event.contains("cat") && event["cat"] == "transfer";
  int64_t count = 0;
  for (const SimulatedTransfers &row : result.places[0].transfers)
    count += row.count.count;
  // And one in a group of one, which sends nothing.
  EXPECT_EQ(static_cast<int64_t>(transfers), count + 1);
}

TEST(Simulation, RefusesWhatIsMissing) {
  Cluster cluster = simple(8);
  cluster.transfers[static_cast<int>(TransferKind::AllGather)].rows.clear();
  expectError(
      [&] { simulate(Artifact(toy("bigram_dp4")), cluster); },
      "entry 'step' of rank 0: simple.json: communication.transfers has "
      "no row for all-gather with one node, which the program needs for "
      "4 members in each of 1 node");
  expectError([&] { simulate(Artifact(toy()), cluster, "stop"); },
              "no entry 'stop'");
}
