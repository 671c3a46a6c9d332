// Runs sheaf-run on artifacts for meshes: ranks as threads, and as processes
// where the build has MPI.

#include "TestSupport.h"
#include "sheaf/Safetensors.h"
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace sheaf;
using namespace sheaf::test;
using Json = nlohmann::json;

namespace {
class Ranks : public testing::Test {
protected:
  Ranks() {
    std::string tokens;
    for (int i = 0; i < 3000; ++i)
      tokens += static_cast<char>((i * i + i / 7 * 3) % 50);
    writeFile(data, tokens);
  }

  Outcome run(const std::string &artifact, const std::string &options,
              const std::string &before = "") {
    return shell(fmt::format("{} {} {} --data={} --token-type=u8 --quiet {}",
                             before, SHEAF_RUN, toy(artifact), data, options));
  }

  /// Fields that do not depend on time.
  std::vector<Json> lines(const std::string &log) {
    std::istringstream in(readFile(directory / log));
    std::vector<Json> out;
    for (std::string line; std::getline(in, line);) {
      Json json = Json::parse(line);
      for (const char *key : {"tokens_per_s", "step_ms", "mfu"})
        json.erase(key);
      out.push_back(json);
    }
    return out;
  }

  void expectClose(const std::vector<Json> &a, const std::vector<Json> &b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      double loss = a[i]["loss"], norm = a[i]["grad_norm"];
      EXPECT_NEAR(loss, b[i]["loss"].get<double>(), 2e-6 * loss) << i;
      EXPECT_NEAR(norm, b[i]["grad_norm"].get<double>(), 2e-5 * norm) << i;
    }
  }

  std::string at(const std::string &name) { return directory / name; }

  TempDirectory directory;
  std::string data = directory / "tokens";
};

const char *const meshes[] = {"bigram", "bigram_dp4", "bigram_dp3_tp2",
                              "bigram_tp4"};
} // namespace

TEST_F(Ranks, EveryMeshTrainsAlike) {
  for (std::string mesh : meshes)
    EXPECT_RUN(
        run(mesh,
            fmt::format("--steps=20 --order=random --seed=5 --log={} --save={} "
                        "--eval-data={} --eval-every=7",
                        at(mesh), at(mesh + ".st"), data)),
        0, "20 steps");
  std::vector<Json> alone = lines("bigram");
  EXPECT_LT(alone[19]["loss"], alone[0]["loss"].get<double>() - 0.05);
  for (std::string mesh : meshes) {
    expectClose(alone, lines(mesh));
    EXPECT_NEAR(lines(mesh)[6]["eval_loss"].get<double>(),
                alone[6]["eval_loss"], 1e-5);
    SafetensorsFile file(at(mesh + ".st")), one(at("bigram.st"));
    EXPECT_EQ(file.tensors.at("table").shape, (Shape{50, 50}));
    std::vector<float> a(2500), b(2500);
    file.read(file.tensors.at("table"), SHEAF_F32, a.data());
    one.read(one.tensors.at("table"), SHEAF_F32, b.data());
    for (int i = 0; i < 2500; ++i)
      ASSERT_NEAR(a[i], b[i], 1e-5) << mesh << " " << i;
  }
}

TEST_F(Ranks, TwoRunsAndAnyThreadsAreEqualToTheBit) {
  for (int threads : {1, 2, 3})
    EXPECT_RUN(
        run("bigram_dp3_tp2",
            fmt::format("--steps=10 --threads={0} --log={1} --save={1}.st",
                        threads, at(std::to_string(threads)))),
        0, "10 steps");
  for (std::string other : {"2", "3"}) {
    EXPECT_EQ(lines("1"), lines(other));
    EXPECT_EQ(readFile(at("1.st")), readFile(at(other + ".st")));
  }
}

TEST_F(Ranks, SaveOnOneMeshResumeOnAnother) {
  run("bigram", "--steps=16 --log=" + at("whole"));
  std::string c = " --checkpoint=" + at("c") + " --log=" + at("log");
  EXPECT_RUN(run("bigram_dp4", "--steps=4 --lr=0.5" + c), 0, "4 steps");
  EXPECT_RUN(run("bigram_dp3_tp2", "--steps=8 --resume" + c), 0, "resuming");
  EXPECT_RUN(run("bigram_tp4", "--steps=12 --resume" + c), 0, "at step 8");
  EXPECT_RUN(run("bigram", "--steps=16 --resume" + c), 0, "at step 12");
  expectClose(lines("whole"), lines("log"));
  // Weights alone, too.
  run("bigram_dp4", "--steps=4 --save=" + at("w"));
  run("bigram_tp4", "--steps=0 --load=" + at("w") + " --save=" + at("v"));
  EXPECT_EQ(readFile(at("w")), readFile(at("v")));
  // On one mesh to the bit.
  std::string d = " --checkpoint=" + at("d");
  run("bigram_dp4", "--steps=9 --log=" + at("nine"));
  run("bigram_dp4", "--steps=4 --log=" + at("four") + d);
  run("bigram_dp4", "--steps=9 --resume --log=" + at("four") + d);
  EXPECT_EQ(lines("nine"), lines("four"));
}

TEST_F(Ranks, VerifyCallSampleInfo) {
  for (std::string mesh : meshes)
    EXPECT_RUN(run(mesh, "--verify=" + toy("bigram")), 0, "verified");
  EXPECT_RUN(run("bigram_doubled", "--verify=" + toy("bigram")), 1,
             "first gradient that differs: 'bias'");
  EXPECT_RUN(run("bigram_dp4", "--verify=" + toy("bigram_tp4")), 1,
             "expected 1 for a reference");

  // Whole tensors in and out.
  std::vector<int32_t> tokens(80), targets(80);
  std::vector<float> table(2500, 0.f), bias(50);
  for (int i = 0; i < 80; ++i)
    tokens[i] = i % 50, targets[i] = 7;
  for (int i = 0; i < 50; ++i)
    bias[i] = 0.01f * static_cast<float>(i);
  writeSafetensors(at("in"),
                   {{"batch:tokens", SHEAF_I32, {10, 8}, tokens.data()},
                    {"batch:targets", SHEAF_I32, {10, 8}, targets.data()},
                    {"parameter:table", SHEAF_F32, {50, 50}, table.data()},
                    {"parameter:bias", SHEAF_F32, {50}, bias.data()}});
  for (std::string mesh : meshes) {
    EXPECT_RUN(shell(fmt::format(
                   "{} {} --call=logits,gradients --inputs={} --outputs={}",
                   SHEAF_RUN, toy(mesh), at("in"), at("out"))),
               0, "");
    SafetensorsFile out(at("out"));
    EXPECT_EQ(out.tensors.at("result:logits").shape, (Shape{10, 8, 50}));
    std::vector<float> logits(4000), gradient(2500);
    out.read(out.tensors.at("result:logits"), SHEAF_F32, logits.data());
    for (int i = 0; i < 4000; ++i)
      ASSERT_EQ(logits[i], bias[i % 50]) << mesh << " " << i;
    out.read(out.tensors.at("gradient:table"), SHEAF_F32, gradient.data());
    // 2 of 80 tokens are 0, all with target 7.
    double total = 0;
    for (float b : bias)
      total += std::exp(b);
    EXPECT_NEAR(gradient[3], 2.0 / 80 * std::exp(bias[3]) / total, 1e-7)
        << mesh;
  }

  Outcome a = run("bigram", "--steps=5 --sample=30 --seed=2"),
          b = run("bigram_dp3_tp2", "--steps=5 --sample=30 --seed=2");
  EXPECT_EQ(a.output.substr(a.output.find("sample of")),
            b.output.substr(b.output.find("sample of")));
  EXPECT_RUN(
      shell(fmt::format("{} {} --info", SHEAF_RUN, toy("bigram_dp3_tp2"))), 0,
      "mesh dp=3,tp=2");
}

TEST_F(Ranks, CountsAreThoseOfTheTable) {
  EXPECT_RUN(run("bigram_dp4", "--steps=3 --collectives=" + at("counts")), 0,
             "3 steps");
  Json step = Json::parse(readFile(at("counts")))["entries"]["step"];
  EXPECT_EQ(step["calls"], 3);
  // A gather and a reduce-scatter of the padded table, an all-reduce of the
  // bias, and scalars.
  double bytes = 0;
  std::map<std::string, int64_t> counts;
  for (const Json &row : step["collectives"]) {
    counts[row["kind"]] +=
        row["purpose"] == "" ? row["count"].get<int64_t>() : 0;
    if (row["purpose"] == "")
      bytes += row["wire_bytes"].get<double>() * row["count"].get<double>();
    EXPECT_EQ(row["axes"], Json::array({"dp"}));
    EXPECT_EQ(row["group"], 4);
  }
  EXPECT_EQ(counts["all-gather"], 3);
  EXPECT_EQ(counts["reduce-scatter"], 3);
  EXPECT_EQ(counts["all-reduce"], 3);
  EXPECT_EQ(bytes, 3 * 4 * 0.75 * (2 * 52 * 50 + 2 * 50));
}

namespace {
/// A sanitizer leaves the signal that ends a rank to the system.
const char *const ownSignals =
    "ASAN_OPTIONS=handle_segv=0 TSAN_OPTIONS=handle_segv=0";
} // namespace

TEST_F(Ranks, AFailedRankTakesTheRunDown) {
  struct {
    const char *how;
    int status;
    const char *message;
  } cases[] = {
      {"1:2:code", 1, "rank 1: entry 'step' of"},
      {"1:2:size", 1, "ranks disagree: rank "},
      {"2:1:skip", 1, "ranks disagree: rank "},
      {"3:1:open", 1, "ended with 1 open transfers"},
      {"1:2:kill", 128 + 9, ""},
      {"1:2:segv", 128 + 11, ""},
  };
  for (const auto &each : cases) {
    auto began = std::chrono::steady_clock::now();
    Outcome done = run("bigram_dp4", "--steps=50 --save=" + at("never"),
                       fmt::format("{} TOY_FAIL={}", ownSignals, each.how));
    EXPECT_EQ(done.status, each.status) << each.how << done.output;
    EXPECT_NE(done.output.find(each.message), std::string::npos) << done.output;
    EXPECT_LT(std::chrono::steady_clock::now() - began,
              std::chrono::seconds(10));
    EXPECT_FALSE(std::filesystem::exists(at("never")));
  }
}

TEST_F(Ranks, MessagesAreSaidOnce) {
  Outcome done = run("bigram_dp4", "--steps=1 --load=/nonexistent");
  EXPECT_EQ(done.status, 1);
  // By whichever rank meets it first.
  EXPECT_EQ(done.output.find("sheaf-run: error: "), 0u) << done.output;
  EXPECT_NE(done.output.find("/nonexistent: cannot open"), std::string::npos)
      << done.output;
  EXPECT_EQ(done.output.find("error", 20), std::string::npos) << done.output;
}

TEST_F(Ranks, NaNNamesRankAndTensor) {
  std::vector<float> table(2500, 0.f), bias(50, 0.f);
  table[45 * 50 + 2] = NAN; // on rank 3 of 4
  writeSafetensors(at("bad"), {{"table", SHEAF_F32, {50, 50}, table.data()},
                               {"bias", SHEAF_F32, {50}, bias.data()}});
  EXPECT_RUN(run("bigram_dp4", "--steps=2 --load=" + at("bad")), 1,
             "parameter 'table' has the value nan at index 302 on rank 3");
  std::fill(table.begin(), table.end(), 1e30f);
  writeSafetensors(at("large"), {{"table", SHEAF_F32, {50, 50}, table.data()},
                                 {"bias", SHEAF_F32, {50}, bias.data()}});
  Outcome done = run("bigram_dp4", "--steps=9 --load=" + at("large") +
                                       " --save=" + at("never"));
  EXPECT_EQ(done.status, 1) << done.output;
  EXPECT_NE(done.output.find("first bad tensor"), std::string::npos)
      << done.output;
  EXPECT_FALSE(std::filesystem::exists(at("never")));
}

TEST_F(Ranks, ASignalStopsAllAfterTheSameStep) {
  Outcome done =
      shell(fmt::format("{} {} --data={} --token-type=u8 --quiet "
                        "--steps=100000000 --checkpoint={} & "
                        "pid=$!; sleep 2; kill -TERM $pid; wait $pid",
                        SHEAF_RUN, toy("bigram_dp4"), data, at("c")));
  EXPECT_EQ(done.status, 128 + SIGTERM) << done.output;
  EXPECT_RUN(
      run("bigram_dp3_tp2", "--steps=1 --resume --checkpoint=" + at("c")), 0,
      "resuming");
}

#ifdef SHEAF_MPIRUN
// Open MPI itself leaks and races, as sanitizers see it.
namespace {
std::string mpirun(int processes) {
  return fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 "
      "ASAN_OPTIONS=detect_leaks=0:handle_segv=0 "
      "TSAN_OPTIONS=report_bugs=0:handle_segv=0 {} -n {}",
      SHEAF_MPIRUN, processes);
}
} // namespace

TEST(Mpi, CollectivesBetweenProcesses) {
  Outcome done =
      shell(fmt::format("{} {} --gtest_color=no", mpirun(8), SHEAF_MPI_TEST));
  EXPECT_EQ(done.status, 0) << done.output;
  size_t passed = 0;
  for (size_t at = 0;
       (at = done.output.find("[  PASSED  ] 8 tests", at)) != std::string::npos;
       ++at)
    ++passed;
  EXPECT_EQ(passed, 8u) << done.output;
}

TEST(Mpi, FailuresTakeTheOthersDown) {
  auto expect = [](const std::string &how, const std::string &part) {
    auto began = std::chrono::steady_clock::now();
    Outcome done =
        shell(fmt::format("{} {} {}", mpirun(8), SHEAF_MPI_TEST, how));
    EXPECT_NE(done.status, 0) << how;
    EXPECT_NE(done.output.find(part), std::string::npos) << done.output;
    EXPECT_LT(std::chrono::steady_clock::now() - began,
              std::chrono::seconds(how == "ended" ? 40 : 20))
        << how;
  };
  expect("mismatch", "ranks disagree: rank ");
  expect("rows", "ranks disagree: rank 0 sends ");
  expect("ended", "rank 1 has ended");
  expect("kill", "signal 9");
}

TEST_F(Ranks, ProcessesEqualThreadsToTheBit) {
  for (std::string mesh : {"bigram_dp4", "bigram_dp3_tp2", "bigram"}) {
    int ranks = mesh == "bigram_dp4" ? 4 : mesh == "bigram" ? 1 : 6;
    std::string options = "--steps=12 --order=random --log={0} --save={0}.st "
                          "--checkpoint={0}.c --collectives={0}.json";
    auto with = [&](const std::string &name) {
      return fmt::format(fmt::runtime(options), at(name));
    };
    EXPECT_RUN(run(mesh, with(mesh + "t")), 0, "12 steps");
    EXPECT_RUN(run(mesh, with(mesh + "p"), mpirun(ranks)), 0, "12 steps");
    EXPECT_EQ(lines(mesh + "t"), lines(mesh + "p"));
    EXPECT_EQ(readFile(at(mesh + "t.st")), readFile(at(mesh + "p.st")));
    EXPECT_EQ(readFile(at(mesh + "t.json")), readFile(at(mesh + "p.json")));
    EXPECT_EQ(readFile(at(mesh + "t.c/step-00000012/optimizer.safetensors")),
              readFile(at(mesh + "p.c/step-00000012/optimizer.safetensors")));
    EXPECT_RUN(run(mesh, "--verify=" + toy("bigram"), mpirun(ranks)), 0,
               "verified");
  }
}

TEST_F(Ranks, WrongNumberOfProcesses) {
  EXPECT_RUN(run("bigram_dp4", "--steps=1", mpirun(3)), 1,
             "compiled for 4 ranks (mesh dp=4,tp=1), started as 3 processes");
  EXPECT_RUN(run("bigram_dp4", "--steps=1", mpirun(1)), 1,
             "started as 1 process;");
  EXPECT_RUN(run("bigram", "--steps=1", mpirun(2)), 1,
             "compiled for 1 rank (mesh dp=1,tp=1), started as 2 processes");
}

TEST_F(Ranks, AFailedProcessTakesTheRunDown) {
  struct {
    const char *how, *message;
  } cases[] = {{"1:2:code", "rank 1: entry 'step' of"},
               {"1:2:kill", "signal 9"},
               {"1:2:segv", "signal 11"},
               {"1:2:size", "ranks disagree"}};
  for (const auto &each : cases) {
    auto began = std::chrono::steady_clock::now();
    Outcome done = run("bigram_dp4", "--steps=50",
                       fmt::format("TOY_FAIL={} {}", each.how, mpirun(4)));
    EXPECT_NE(done.status, 0) << each.how;
    EXPECT_NE(done.output.find(each.message), std::string::npos) << done.output;
    EXPECT_LT(std::chrono::steady_clock::now() - began,
              std::chrono::seconds(10))
        << each.how;
  }
}
#endif

// A launcher's environment without MPI is an error that says so.
#ifndef SHEAF_MPIRUN
TEST_F(Ranks, NoMpiInThisBuild) {
  EXPECT_RUN(run("bigram_dp4", "--steps=1", "OMPI_COMM_WORLD_SIZE=4"), 1,
             "started as 4 processes, but this build has no MPI");
}
#endif
