//===- TextTest.cpp - Schedules are read back as they were written --------===//

#include "passes/pipeline/schedule/Text.h"
#include "passes/pipeline/schedule/Generate.h"

#include <gtest/gtest.h>

using namespace sheaf::schedule;

namespace {

template <typename T>
T taken(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  ADD_FAILURE() << llvm::toString(value.takeError());
  return T();
}

std::string textError(llvm::StringRef text) {
  return llvm::toString(parseText(text, "f").takeError());
}
std::string csvError(llvm::StringRef text) {
  return llvm::toString(parseCSV(text, "f").takeError());
}

TEST(Text, IsReadBack) {
  for (llvm::StringRef name : recipeNames())
    for (int32_t p = 1; p <= 4; ++p)
      for (int32_t m : {1, 2, 2 * p, 2 * p + 1}) {
        if (name == "dualpipev" && m < 2 * p)
          continue;
        Schedule schedule = taken(makeRecipe(name, p, m, 3));
        EXPECT_TRUE(taken(parseText(printText(schedule), "f")).sameAs(schedule))
            << name.str();
        EXPECT_TRUE(taken(parseCSV(taken(printCSV(schedule, false)), "f"))
                        .sameAs(schedule))
            << name.str();
        EXPECT_EQ(guessFormat(printText(schedule)), Format::Text);
        EXPECT_EQ(guessFormat(taken(printCSV(schedule, false))), Format::CSV);
      }
}

TEST(Text, HasEveryAction) {
  llvm::StringRef text =
      "r0: gather(0) F0 send(0F0,r1) F1 send(0F1,r1) wait-send(0F0,r1) "
      "free(0F0) free-weights(0) receive(1I0,r1) wait-receive(1I0,r1) B0 "
      "free(0F0#1) reduce(0) norm update(0)\n"
      "r1: (F0|B1) I0 W0\n";
  Schedule schedule = taken(parseText(text, "f"));
  EXPECT_EQ(printText(schedule), text);
  EXPECT_EQ(printText(schedule, true), "r0: F0 F1 B0\nr1: (F0|B1) I0 W0\n");
  const Action &free = schedule.ranks[0][11];
  EXPECT_EQ(free.kind, ActionKind::Free);
  EXPECT_EQ(free.value, 1);
  EXPECT_EQ(free.place.row, 1);
  EXPECT_EQ(free.place.column, 131);
}

TEST(Text, MayHaveCommentsAndBlanks) {
  Schedule schedule =
      taken(parseText("# Two ranks.\n\n  r0:  0F0\t0B0 # all\r\n"
                      "r1: 1F0 1B0",
                      "f"));
  EXPECT_EQ(printText(schedule), "r0: F0 B0\nr1: F0 B0\n");
  EXPECT_EQ(schedule.ranks[0][1].place.column, 12);
  EXPECT_EQ(schedule.ranks[0][1].place.row, 3);
  // A rank may have nothing to do.
  EXPECT_EQ(printText(taken(parseText("r0: 0F0 0B0\nr1:\n", "f"))),
            "r0: 0F0 0B0\nr1:\n");
}

TEST(Text, IsStrict) {
  EXPECT_EQ(textError("0F0 0B0\n"),
            "f:1:1: found '0F0', expected 'r0:' at the beginning of the line");
  EXPECT_EQ(textError("r0: 0F0\n\nr2: 1F0\n"),
            "f:3:1: found rank 2, expected rank 1: one line for each rank, in "
            "order");
  EXPECT_EQ(textError("r0: 0F0 0X1\n"),
            "f:1:9: unknown action '0X1', expected "
            "<stage><F|I|W|B><microbatch>, for instance 0F1");
  EXPECT_EQ(textError("r0: 0F0 0F1x\n"),
            "f:1:9: unknown action '0F1x', expected "
            "<stage><F|I|W|B><microbatch>, for instance 0F1");
  EXPECT_EQ(textError("r0: 0F\n"), "f:1:5: unknown action '0F', expected "
                                   "<stage><F|I|W|B><microbatch>, for instance "
                                   "0F1");
  EXPECT_EQ(textError("r0: 0F0 B0\n"),
            "f:1:9: rank 0 says the stage of some actions and leaves out that "
            "of others, expected one of the two");
  EXPECT_EQ(textError("r0: (0F0|0B0\n"),
            "f:1:5: unknown action '(0F0|0B0', expected a fused pair in "
            "brackets, for instance (0F4|1B1)");
  EXPECT_EQ(textError("r0: (0F0)\n"),
            "f:1:5: unknown action '(0F0)', expected a fused pair in brackets, "
            "for instance (0F4|1B1)");
  EXPECT_EQ(textError("r0: 0F0 1F0\nr1: 1B0 0B0\n"),
            "f:2:5: stage 1 is on rank 0 (f:1:9) and on rank 1, expected all "
            "of a stage on one rank");
  EXPECT_EQ(textError("r0: 0F0 7F0\n"),
            "f:1:9: stage 7 is there, but no rank runs stage 1, expected "
            "stages without a gap");
  EXPECT_EQ(textError("r0: 0F99999999999\n"),
            "f:1:5: the microbatch is too large, expected at most 1048575");
  EXPECT_EQ(textError("r0: 99999999F0\n"),
            "f:1:5: the stage is too large, expected at most 1048575");
  EXPECT_EQ(textError(""), "f:1:1: no action, expected a schedule: a line for "
                           "each rank, for instance 'r0: 0F0 0B0'");
  EXPECT_EQ(textError("r0: 0F0 sent(0F0,r1)\n"),
            "f:1:9: unknown action 'sent(0F0,r1)', expected 'send(...)'");
  EXPECT_EQ(textError("r0: 0F0 send(0F0)\n"),
            "f:1:9: unknown action 'send(0F0)', expected "
            "send(<value>,r<rank>), for instance send(0F1,r1)");
  EXPECT_EQ(textError("r0: 0F0 send(0B0,r1)\n"),
            "f:1:9: 'send(0B0,r1)' names a value of a B, expected that of its "
            "half, F, I or W");
  EXPECT_EQ(textError("r0: 0F0 free(0F0,r1)\n"),
            "f:1:9: unknown action 'free(0F0,r1)', expected free(<value>), "
            "for instance free(0F1)");
  EXPECT_EQ(textError("r0: 0F0 gather(0F0)\n"),
            "f:1:9: unknown action 'gather(0F0)', expected gather(<stage>), "
            "for instance gather(0)");
}

TEST(CSV, IsPyTorchs) {
  llvm::StringRef text = "0UNSHARD,0F0,0SEND_F0,(0F1;0B0)OVERLAP_F_B,0RECV_B1,"
                         "0I1,0W1,0RESHARD,0REDUCE_GRAD\n"
                         "1RECV_F0,1F0,1B0,1SEND_B0\n";
  Schedule schedule = taken(parseCSV(text, "f"));
  EXPECT_EQ(printText(schedule),
            "r0: gather(0) F0 send(0F0,r1) (F1|B0) receive(1I1,r1) I1 W1 "
            "free-weights(0) reduce(0)\n"
            "r1: receive(0F0,r0) F0 B0 send(1I0,r0)\n");
  EXPECT_EQ(taken(printCSV(schedule, true)), text);
  EXPECT_EQ(taken(printCSV(schedule, false)),
            "0F0,(0F1;0B0)OVERLAP_F_B,0I1,0W1\n1F0,1B0\n");
  // Bubbles are empty cells, and a rank may have nothing else.
  EXPECT_EQ(printText(taken(parseCSV("0F0,,, 0B0,\r\n,,\n,\n", "f"))),
            "r0: 0F0 0B0\nr1:\nr2:\n");
  Schedule idle = taken(parseText("r0: 0F0 0B0\nr1:\n", "f"));
  EXPECT_TRUE(taken(parseCSV(taken(printCSV(idle, true)), "f")).sameAs(idle));
}

TEST(CSV, IsStrict) {
  EXPECT_EQ(csvError("0F0,0X1\n"),
            "f:1:5: unknown action '0X1', expected the action 'F'");
  EXPECT_EQ(csvError("0F0, 0SENDF1\n"),
            "f:1:6: unknown action '0SENDF1', expected the action 'SEND_F'");
  EXPECT_EQ(csvError("0F0,0F\n"),
            "f:1:5: unknown action '0F', expected a microbatch behind F");
  EXPECT_EQ(csvError("0F0,0UNSHARD1\n"),
            "f:1:5: unknown action '0UNSHARD1', expected no microbatch behind "
            "UNSHARD");
  EXPECT_EQ(csvError("0F0,1RECV_B0\n"),
            "f:1:5: no rank runs stage 2, which is at the other end of this "
            "transfer");
  EXPECT_EQ(csvError("0F0,0RECV_F0\n"),
            "f:1:5: '0RECV_F0' receives from the stage before the first");
  EXPECT_EQ(csvError("0F0,0SEND_B0\n"),
            "f:1:5: '0SEND_B0' sends to the stage before the first");
  EXPECT_EQ(csvError("0F0,(0F1;0B0)OVERLAP\n"),
            "f:1:5: unknown action '(0F1;0B0)OVERLAP', expected a fused pair, "
            "for instance (0F4;1B1)OVERLAP_F_B");
  EXPECT_EQ(csvError("0F0,-1F0\n"),
            "f:1:5: unknown action '-1F0', expected "
            "<stage><action><microbatch>, for instance 0F1, 0SEND_F1 or "
            "0UNSHARD");
}

TEST(CSV, RefusesWhatItCannotSay) {
  Schedule schedule = taken(
      parseText("r0: 0F0 send(0F0,r2) 0B0\nr1: 1F0 1B0\nr2: 2F0 2B0\n", "f"));
  EXPECT_EQ(llvm::toString(printCSV(schedule, true).takeError()),
            "rank 0: 'send(0F0,r2)' has no form in the CSV, which has "
            "transfers between neighbouring stages alone; expected schedule "
            "text");
}

} // namespace
