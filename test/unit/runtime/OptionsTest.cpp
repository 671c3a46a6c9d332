#include "Options.h"
#include "TestSupport.h"

using namespace sheaf;
using namespace sheaf::test;

TEST(Options, BothSpellings) {
  auto o = parseOptions({"a.sheaf", "--steps=5", "--seed", "7", "--lr", "0.5",
                         "--order=random", "--verify", "--token-type=u8",
                         "--min-lr=1e-5", "--resume"});
  ASSERT_TRUE(o);
  EXPECT_EQ(o->artifact, "a.sheaf");
  EXPECT_EQ(o->steps, 5);
  EXPECT_EQ(o->seed, 7u);
  EXPECT_EQ(o->order, DataOrder::Random);
  EXPECT_TRUE(o->verify && o->resume && o->reference.empty());
  EXPECT_EQ(o->scalars.at("min_lr"), 1e-5);
  EXPECT_EQ(parseOptions({"a", "--verify=b"})->reference, "b");
  EXPECT_EQ(parseOptions({"a"})->waitLimit, 600);
  EXPECT_EQ(parseOptions({"a", "--wait-limit=2.5"})->waitLimit, 2.5);
  EXPECT_FALSE(parseOptions({"a"})->transferDelays);
  EXPECT_EQ(parseOptions({"a", "--transfer-delays=7"})->transferDelays, 7u);
  EXPECT_FALSE(parseOptions({"--help"}));
}

TEST(Options, Refused) {
  auto expect = [](std::vector<std::string> words, const char *part) {
    expectError([&] { parseOptions(words); }, part);
  };
  expect({}, "give an artifact");
  expect({"a", "b"}, "two artifacts");
  expect({"a", "--stepz=3"}, "did you mean --steps?");
  expect({"a", "--steps=-1"}, "whole number");
  expect({"a", "--steps=1e3"}, "whole number");
  expect({"a", "--steps"}, "needs a value");
  expect({"a", "--resume=yes"}, "takes no value");
  expect({"a", "--lr=fast"}, "expected a number");
  expect({"a", "--lr=nan"}, "expected a number");
  expect({"a", "--order=reverse"}, "sequential or random");
  expect({"a", "--device=cuda"}, "expected cpu or sim");
  expect({"a", "--wait-limit=-1"}, "a number of seconds from 0");
  expect({"a", "--transfer-delays=x"}, "a whole number from 0");
  expect({"a", "--device=sim", "--transfer-delays=1"},
         "--transfer-delays belongs to --device=cpu");
  expect({"a", "-x"}, "options start with --");
}

TEST(Options, HelpNamesEveryConvention) {
  std::string help = helpText();
  for (const char *part : {"--checkpoint-every", "--min-lr", "model FLOPs",
                           "Philox(seed, j)", "--verify[=REF]"})
    EXPECT_NE(help.find(part), std::string::npos) << part;
}
