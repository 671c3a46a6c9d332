//===- fuzz-schedule.cpp - Schedules as text and CSV ----------------------===//
//
// What is read is written and read again, the same; an order that can run is
// lowered to one that the verifier accepts, however odd it is.
//
//===----------------------------------------------------------------------===//

#include "passes/pipeline/schedule/Lower.h"
#include "passes/pipeline/schedule/Text.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace sheaf::schedule;

namespace {
[[noreturn]] void fail(const llvm::Twine &what) {
  llvm::errs() << "broken promise: " << what << "\n";
  abort();
}

template <typename T>
bool taken(llvm::Expected<T> value, T &out) {
  if (!value) {
    if (llvm::toString(value.takeError()).empty())
      fail("an error without a message");
    return false;
  }
  out = std::move(*value);
  return true;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  Schedule schedule, again;
  if (!taken(parse(text, "input"), schedule))
    return 0;
  if (!taken(parseText(printText(schedule), "text"), again) ||
      !again.sameAs(schedule))
    fail("text is not read as it was written");
  std::string csv;
  if (taken(printCSV(schedule, true), csv) &&
      !taken(parseCSV(csv, "csv"), again))
    fail("CSV is not read as it was written");

  Pipeline pipeline =
      makeChain(std::vector<Stage>(schedule.stages()), {1, 1, 1});
  (void)verify(pipeline, schedule);
  (void)completeBuffers(pipeline, schedule);
  Lowered low = lower(pipeline, schedule);
  if (auto *lowered = std::get_if<Schedule>(&low))
    if (std::optional<Problem> problem = verify(pipeline, *lowered).problem)
      fail("an order that can run is lowered to one that is refused: " +
           problem->str());
  return 0;
}
