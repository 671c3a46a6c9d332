// Runs sheaf-run as a user does, on the toy artifact.

#include "TestSupport.h"
#include "sheaf/Safetensors.h"
#include "sheaf/Training.h"
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace sheaf;
using namespace sheaf::test;

namespace {
class Train : public testing::Test {
protected:
  Train() { writeFile(data, trainingText()); }

  /// Runs on the text with a log; `options` may override.
  Outcome run(const std::string &options, const std::string &log = "log") {
    return runToy(fmt::format("--data={} --token-type=u8 --log={} {}", data,
                              directory / log, options));
  }

  /// Fields that do not depend on time, one string a line.
  std::vector<std::string> losses(const std::string &log = "log") {
    std::istringstream in(readFile(directory / log));
    std::vector<std::string> out;
    std::string line;
    while (std::getline(in, line)) {
      auto json = nlohmann::json::parse(line);
      out.push_back(fmt::format("{} {} {} {}", json["step"].dump(),
                                json["loss"].dump(), json["grad_norm"].dump(),
                                json["lr"].dump()));
    }
    return out;
  }

  TempDirectory directory;
  std::string data = directory / "text";
};
} // namespace

TEST_F(Train, LearnsAndLogs) {
  EXPECT_RUN(run("--steps=60 --plot=" + (directory / "p.svg")), 0, "60 steps");
  std::istringstream in(readFile(directory / "log"));
  std::string line;
  double first = 0, last = 0;
  int count = 0;
  while (std::getline(in, line)) {
    auto json = nlohmann::json::parse(line);
    for (const char *key :
         {"step", "loss", "grad_norm", "lr", "tokens_per_s", "step_ms", "mfu"})
      EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json["step"], count);
    (count++ == 0 ? first : last) = json["loss"];
  }
  EXPECT_EQ(count, 60);
  EXPECT_NEAR(first, std::log(256), 0.05);
  EXPECT_LT(last, first - 1);
  EXPECT_NE(readFile(directory / "p.svg").find("<polyline"), std::string::npos);
}

TEST_F(Train, EqualToTheBitWithAnyThreads) {
  for (int threads : {1, 2, 3})
    EXPECT_RUN(run(fmt::format("--steps=20 --order=random --seed=3 "
                               "--threads={} --save={}",
                               threads, directory / std::to_string(threads)),
                   fmt::format("log{}", threads)),
               0, "20 steps");
  EXPECT_EQ(losses("log1"), losses("log2"));
  EXPECT_EQ(losses("log1"), losses("log3"));
  EXPECT_EQ(readFile(directory / "1"), readFile(directory / "2"));
  EXPECT_EQ(readFile(directory / "1"), readFile(directory / "3"));
}

TEST_F(Train, SeedAndOrderMatter) {
  run("--steps=3 --seed=1", "a");
  run("--steps=3 --seed=2", "b");
  run("--steps=3 --seed=1 --order=random", "c");
  EXPECT_NE(losses("a"), losses("b"));
  EXPECT_NE(losses("a"), losses("c"));
}

TEST_F(Train, ResumeEqualsOneRunToTheBit) {
  std::string whole = directory / "whole", part = directory / "part";
  run("--steps=24 --lr=0.02 --save=" + whole, "log1");
  std::string checkpoint = " --checkpoint=" + (directory / "c");
  EXPECT_RUN(
      run("--steps=10 --lr=0.02 --checkpoint-every=5" + checkpoint, "log2"), 0,
      "10 steps");
  // The learning rate is kept by the checkpoint.
  EXPECT_RUN(run("--steps=24 --resume --save=" + part + checkpoint, "log2"), 0,
             "at step 10");
  EXPECT_EQ(losses("log1"), losses("log2"));
  EXPECT_EQ(readFile(whole), readFile(part));
  EXPECT_RUN(run("--steps=24 --resume" + checkpoint), 0, "nothing to do");
  EXPECT_RUN(run("--steps=24" + checkpoint), 1, "earlier run");
  EXPECT_RUN(run("--steps=24 --seed=9 --resume" + checkpoint), 1, "--seed=0");
}

TEST_F(Train, LogIsCutWhereTheRunGoesOn) {
  std::string checkpoint = " --checkpoint=" + (directory / "c");
  run("--steps=6 --checkpoint-every=6" + checkpoint, "log");
  std::string log = readFile(directory / "log");
  // As after a kill: steps past the checkpoint, the last line cut.
  writeFile(directory / "log",
            log + "{\"step\": 6, \"loss\": 1}\n{\"step\": 7");
  run("--steps=8 --resume" + checkpoint, "log");
  run("--steps=8", "whole");
  EXPECT_EQ(losses("log"), losses("whole"));
}

TEST_F(Train, SaveInitialValuesAndLoad) {
  std::string w = directory / "w";
  EXPECT_RUN(runToy("--steps=0 --seed=4 --save=" + w), 0, "");
  SafetensorsFile file(w);
  EXPECT_EQ(file.tensors.size(), 3u);
  run("--steps=3 --seed=4", "a");
  run("--steps=3 --seed=4 --load=" + w, "b");
  EXPECT_EQ(losses("a"), losses("b"));
}

TEST_F(Train, HeldOutLossAndSample) {
  EXPECT_RUN(run("--steps=10 --eval-every=4 --eval-data=" + data), 0,
             "held-out loss");
  std::string log = readFile(directory / "log");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 10);
  size_t evaluations = 0;
  for (size_t at = 0; (at = log.find("eval_loss", at)) != std::string::npos;
       ++at)
    ++evaluations;
  EXPECT_EQ(evaluations, 3u); // after steps 4, 8 and the last
  Outcome a = run("--steps=30 --sample=40 --prompt=sample --quiet");
  Outcome b = run("--steps=30 --sample=40 --prompt=sample --quiet");
  EXPECT_EQ(a.output.substr(a.output.find("sample of")),
            b.output.substr(b.output.find("sample of")));
  EXPECT_RUN(run("--steps=1 --sample=5 --temperature=0"), 0, "sample of 5");
}

TEST_F(Train, StopsOnNaNAndNamesTheTensor) {
  std::string save = directory / "w";
  EXPECT_RUN(run("--steps=50 --lr=1e6 --clip=0 --save=" + save), 0, "");
  // An infinite weight is named before the first step.
  SafetensorsFile good(save);
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  for (const auto &[name, tensor] : good.tensors) {
    values.emplace_back(tensor.elements, 0.f);
    if (name == "head.bias")
      values.back()[3] = NAN;
    if (name == "head.weight")
      values.back()[0] = 3e38f;
  }
  size_t i = 0;
  for (const auto &[name, tensor] : good.tensors)
    tensors.push_back({name, SHEAF_F32, tensor.shape, values[i++].data()});
  writeSafetensors(directory / "bad", tensors);
  EXPECT_RUN(run("--steps=5 --load=" + (directory / "bad")), 1,
             "parameter 'head.bias' has the value nan at index 3");

  // A loss that overflows stops the run with step and tensor.
  values[0][3] = 0; // head.bias comes first
  for (size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].name == "transformer.wte.weight")
      std::fill(values[t].begin(), values[t].end(), 1e30f);
  writeSafetensors(directory / "large", tensors);
  Outcome done = run("--steps=5 --save=" + (directory / "never") +
                     " --load=" + (directory / "large"));
  EXPECT_EQ(done.status, 1) << done.output;
  EXPECT_NE(done.output.find("step 0: loss"), std::string::npos) << done.output;
  EXPECT_NE(done.output.find("first bad tensor"), std::string::npos)
      << done.output;
  EXPECT_FALSE(std::filesystem::exists(directory / "never"));
}

TEST_F(Train, CtrlCSavesACheckpoint) {
  std::string checkpoint = directory / "c";
  Outcome done = shell(fmt::format(
      "{} {} --data={} --token-type=u8 --steps=100000000 --checkpoint={} & "
      "pid=$!; sleep 2; kill -TERM $pid; wait $pid",
      SHEAF_RUN, toy(), data, checkpoint));
  EXPECT_EQ(done.status, 128 + SIGTERM) << done.output;
  EXPECT_NE(done.output.find("go on with --resume"), std::string::npos)
      << done.output;
  EXPECT_RUN(run("--steps=1 --resume --checkpoint=" + checkpoint), 0,
             "resuming");
}

TEST_F(Train, FullDisk) {
  std::string c = directory / "c";
  run("--steps=2 --checkpoint=" + c);
  Outcome done = shell(fmt::format(
      "ulimit -f 100; {} {} --data={} --token-type=u8 --steps=4 --resume "
      "--checkpoint={}",
      SHEAF_RUN, toy(), data, c));
  EXPECT_EQ(done.status, 1) << done.output;
  EXPECT_NE(done.output.find("earlier ones are kept"), std::string::npos)
      << done.output;
  EXPECT_RUN(run("--steps=4 --resume --checkpoint=" + c), 0, "at step 2");
  EXPECT_RUN(run("--steps=2 --log=/dev/full"), 1, "cannot write the log");
}

TEST_F(Train, Messages) {
  EXPECT_RUN(runToy("--steps=3"), 1, "give --data");
  EXPECT_RUN(runToy("--data=x"), 1, "give --steps");
  EXPECT_RUN(runToy("--data=/nonexistent --steps=1"), 1, "cannot open");
  EXPECT_RUN(run("--steps=1 --weight-decay=1"), 1,
             "has no run-time scalar 'weight_decay'; it has lr, clip");
  EXPECT_RUN(run("--steps=1 --resume"), 1, "--resume needs --checkpoint");
  EXPECT_RUN(run("--steps=1 --save=/nonexistent/x"), 1, "cannot create");
  EXPECT_RUN(runToy("--info"), 0, "mfu");
  EXPECT_RUN(run("--steps=5 --profile --memory-report"), 0, "GFLOP/s");
  EXPECT_RUN(shell(std::string(SHEAF_RUN) + " --help"), 0, "usage:");
}

TEST_F(Train, Verify) {
  EXPECT_RUN(runToy("--verify=" + toy("toy_f64")), 0, "verified");
  EXPECT_RUN(runToy(fmt::format("--verify={} --data={} --token-type=u8",
                                toy("toy_f64"), data)),
             0, "verified");
  EXPECT_RUN(shell(fmt::format("{} {} --verify={}", SHEAF_RUN,
                               toy("toy_broken"), toy("toy_f64"))),
             1, "first gradient that differs: 'transformer.wte.weight'");
  EXPECT_RUN(runToy("--verify=" + toy("toy_large")), 1, "another model");
}

// Without a reference the sheaf-compile beside sheaf-run makes one.
TEST_F(Train, VerifyCompilesAReference) {
  std::string bin = directory / "bin", temporary = directory / "tmp";
  std::filesystem::create_directory(bin);
  std::filesystem::create_directory(temporary);
  std::filesystem::copy_file(SHEAF_RUN, bin + "/sheaf-run");
  std::string command =
      fmt::format("TMPDIR={} {}/sheaf-run {} --verify", temporary, bin, toy());
  EXPECT_RUN(shell(command), 1, "put sheaf-compile beside");
  // Stands for the compiler: checks its command line and the model it is given.
  writeFile(bin + "/sheaf-compile",
            fmt::format("#!/bin/sh\nset -e\n[ \"$2 $3\" = '--reference -o' ]\n"
                        "grep -q toy \"$1\"\ncp {} \"$4\"\n",
                        toy("toy_f64")));
  shell("chmod +x " + bin + "/sheaf-compile");
  EXPECT_RUN(shell(command), 0, "verified");
  writeFile(bin + "/sheaf-compile", "#!/bin/sh\nexit 3\n");
  shell("chmod +x " + bin + "/sheaf-compile");
  EXPECT_RUN(shell(command), 1, "ended with status 3");
  EXPECT_TRUE(std::filesystem::is_empty(temporary)); // cleaned up
}

TEST_F(Train, CallEntries) {
  std::string in = directory / "in", out = directory / "out";
  std::vector<int32_t> tokens(64, 5), targets(64, 6);
  std::vector<float> embed(256 * 32, 0.f), head(256 * 32, 0.f), bias(256, 0.f);
  std::vector<NamedTensor> inputs = {
      {"batch:tokens", SHEAF_I32, {4, 16}, tokens.data()},
      {"batch:targets", SHEAF_I32, {4, 16}, targets.data()},
      {"parameter:transformer.wte.weight", SHEAF_F32, {256, 32}, embed.data()},
      {"parameter:head.weight", SHEAF_F32, {256, 32}, head.data()},
      {"parameter:head.bias", SHEAF_F32, {256}, bias.data()}};
  writeSafetensors(in, inputs);
  EXPECT_RUN(runToy("--call=gradients --inputs=" + in + " --outputs=" + out), 0,
             "");
  SafetensorsFile file(out);
  EXPECT_EQ(file.tensors.size(), 10u);
  float loss = 0;
  file.read(file.tensors.at("result:loss"), SHEAF_F32, &loss);
  EXPECT_NEAR(loss, std::log(256), 1e-5);
  std::vector<float> gradient(256);
  file.read(file.tensors.at("gradient:head.bias"), SHEAF_F32, gradient.data());
  EXPECT_NEAR(gradient[6], 1.0 / 256 - 1, 1e-6);
  EXPECT_NEAR(gradient[7], 1.0 / 256, 1e-6);

  EXPECT_RUN(runToy("--call=all --inputs=" + in + " --outputs=" + out), 0, "");
  EXPECT_EQ(SafetensorsFile(out).tensors.size(), 22u);
  EXPECT_RUN(runToy("--call=init,loss --outputs=" + out), 0, "");
  EXPECT_RUN(runToy("--call=nothing"), 1, "it has init, step");

  inputs[0].name = "batch:tokenz";
  writeSafetensors(in, inputs);
  EXPECT_RUN(runToy("--call=loss --inputs=" + in), 1,
             "no buffer 'batch:tokenz'");
  inputs[0] = {"batch:tokens", SHEAF_I32, {16, 4}, tokens.data()};
  writeSafetensors(in, inputs);
  EXPECT_RUN(runToy("--call=loss --inputs=" + in), 1,
             "is i32 [16, 4], the buffer is i32 [4, 16]");
}

// The growth of the process during the steps is what the manifest promises.
// Sanitizers keep memory of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Train, MemoryIsWhatTheManifestPromises) {
  Outcome done = shell(fmt::format(
      "{} {} --data={} --token-type=u8 --steps=3 --quiet --memory-report",
      SHEAF_RUN, toy("toy_large"), data));
  ASSERT_EQ(done.status, 0) << done.output;
  long long before = 0, peak = 0, promised = 0;
  size_t at = done.output.find("memory: ");
  ASSERT_NE(at, std::string::npos) << done.output;
  ASSERT_EQ(std::sscanf(done.output.c_str() + at,
                        "memory: before %lld peak %lld promised %lld", &before,
                        &peak, &promised),
            3)
      << done.output;
  EXPECT_NEAR(double(peak - before) / double(promised), 1, 0.05) << done.output;
}
#endif

TEST(Log, Digits) {
  StepRecord record;
  record.step = 3;
  record.loss = 1.0 / 3;
  record.gradientNorm = NAN;
  record.other = {{"auxiliary", 2.5}};
  EXPECT_EQ(logLine(record, 9),
            "{\"step\": 3, \"loss\": 0.333333333, \"grad_norm\": null, "
            "\"lr\": 0, \"tokens_per_s\": 0, \"step_ms\": 0, "
            "\"auxiliary\": 2.5}\n");
  EXPECT_NE(logLine(record, 17).find("0.33333333333333331"), std::string::npos);
}

TEST(Plot, DrawsWithoutCrashing) {
  EXPECT_EQ(plotText({}, 10, 3), "");
  EXPECT_NE(plotText({1}, 10, 3), "");
  EXPECT_NE(plotText({1, NAN, 2}, 10, 3), "");
  EXPECT_EQ(plotText({NAN}, 10, 3), "");
  std::vector<double> many(10000, 1.0);
  std::string text = plotText(many, 64, 10);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_NE(plotSvg({}, {}, "a < b").find("a &lt; b"), std::string::npos);
}
