//===- Text.h - Schedules as text and as CSV --------------------*- C++ -*-===//
//
// Reads and writes schedules. Text has one line a rank, in order:
//
//     r0: 0F0 0F1 0B0 (0F2|0B1) 0B2
//
// with actions `<stage><F|I|W|B><microbatch>`; two in brackets run at the same
// time. A line may leave the stage out where it is the number of the rank.
// Other actions are written as `send(0F1,r1)`, `receive(0F1,r0)`,
// `wait-send(0F1,r1)`, `wait-receive(0F1,r0)`, `free(0F1#2)`, `gather(0)`,
// `free-weights(0)`, `reduce(0)`, `norm`, `update(0)`. Blank lines and what
// stands behind `#` at the beginning of a word is skipped.
//
// The CSV is that of PyTorch's pipelining: a line a rank, cells `0F0`,
// `(0F2;1B1)OVERLAP_F_B`, and with communication `0SEND_F1`, `1RECV_F1`,
// `1SEND_B1`, `0RECV_B1`, `0UNSHARD`, `0RESHARD`, `0REDUCE_GRAD`. It has no
// waits and frees, and no transfers but those between neighbouring stages.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_TEXT_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_TEXT_H

#include "passes/pipeline/schedule/Schedule.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace sheaf::schedule {

enum class Format { Text, CSV };

/// Text, if the first line that is not blank begins with `r` or `#`.
Format guessFormat(llvm::StringRef text);

/// Every action, or compute actions alone. Stages are left out if each rank
/// has one, of its own number.
std::string printText(const Schedule &schedule, bool computeOnly = false);

/// Reads what `printText` writes, or a user. Every stage must be on one rank;
/// `Schedule::microbatches` is one more than the highest. The error begins with
/// `file:row:column: `.
llvm::Expected<Schedule> parseText(llvm::StringRef text, llvm::StringRef file);

/// With communication: sends, receives, and what is done with weights; waits,
/// frees, the norm and the optimizer have no cell and are left out. The error
/// names a transfer that the CSV cannot say.
llvm::Expected<std::string> printCSV(const Schedule &schedule,
                                     bool communication);

/// Reads either CSV; empty cells are skipped. A schedule with communication has
/// no waits and frees; `completeBuffers` (Lower.h) adds them.
llvm::Expected<Schedule> parseCSV(llvm::StringRef text, llvm::StringRef file);

/// Either.
llvm::Expected<Schedule> parse(llvm::StringRef text, llvm::StringRef file);

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_TEXT_H
