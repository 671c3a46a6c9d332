#include "sheaf/Checkpoint.h"
#include "TestSupport.h"
#include <cstring>
#include <sys/resource.h>

using namespace sheaf;
using namespace sheaf::test;

namespace {
class Checkpoints : public testing::Test {
protected:
  Checkpoints() : artifact(toy()), device(1), program(artifact, device) {
    program.prepare({"init", "step"});
    program.setStep(1, 0);
    program.call("init");
    state.seed = 0xffffffffffffffffu;
    state.order = "random";
    state.dataTokens = 123;
    state.scalars = {{"lr", 0.1}};
  }
  void save(int64_t step) {
    state.step = step;
    saveCheckpoint(program, state, directory.path);
  }
  std::optional<FoundCheckpoint> find() {
    notes.clear();
    return findCheckpoint(directory.path, notes);
  }

  TempDirectory directory;
  Artifact artifact;
  CpuDevice device;
  Program program;
  RunState state;
  std::string notes;
};
} // namespace

TEST_F(Checkpoints, SaveFindLoad) {
  EXPECT_FALSE(find());
  save(5);
  save(10);
  auto found = find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state.step, 10);
  EXPECT_EQ(found->state.seed, state.seed);
  EXPECT_EQ(found->state.order, "random");
  EXPECT_EQ(found->state.dataTokens, 123);
  EXPECT_EQ(found->state.scalars, state.scalars);
  // The older one is gone, and nothing else is left.
  EXPECT_EQ(shell("ls -A " + directory.path).output, "step-00000010\n");

  float value = 0;
  std::memcpy(&value, program.data(0), 4);
  std::memset(program.data(0), 0, 4);
  loadCheckpoint(program, *found);
  EXPECT_EQ(std::memcmp(&value, program.data(0), 4), 0);
}

TEST_F(Checkpoints, SkipsWhatIsNotWhole) {
  save(5);
  shell(fmt::format("cd {0} && cp -r step-00000005 step-00000007 && "
                    "truncate -s -1 step-00000007/optimizer.safetensors && "
                    "mkdir .writing-1-step-00000009 step-x",
                    directory.path));
  auto found = find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state.step, 5);
  EXPECT_NE(notes.find("step-00000007"), std::string::npos);

  // A new save replaces a damaged one of its step and clears what was left.
  save(7);
  EXPECT_EQ(find()->state.step, 7);
  EXPECT_EQ(shell("ls -A " + directory.path).output, "step-00000007\nstep-x\n");

  shell("rm " + directory.path + "/step-00000007/state.json");
  expectError([&] { find(); }, "no whole checkpoint");
  expectError([&] { findCheckpoint(directory / "none", notes); },
              "cannot list directory");
}

TEST_F(Checkpoints, RefusesAnotherModel) {
  save(1);
  Artifact other(toy("toy_f64"));
  Program otherProgram(other, device);
  otherProgram.prepare({"init", "step"});
  expectError([&] { loadCheckpoint(otherProgram, *find()); },
              "is f32 [256, 32], the model has f64 [256, 32]");
}

TEST_F(Checkpoints, AFullDiskKeepsTheOldOne) {
  save(3);
  rlimit old, limit;
  getrlimit(RLIMIT_FSIZE, &old);
  limit = old;
  limit.rlim_cur = 100000; // the parameters fit, the optimizer does not
  auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  expectError([&] { save(4); }, "earlier ones are kept");
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(shell("ls -A " + directory.path).output, "step-00000003\n");
  EXPECT_EQ(find()->state.step, 3);
}
