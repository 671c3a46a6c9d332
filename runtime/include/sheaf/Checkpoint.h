//===- Checkpoint.h - saving and resuming a run -----------------*- C++ -*-===//
//
// A checkpoint is a directory `step-N` in the directory of the run, with
// `parameters.safetensors`, `optimizer.safetensors` and `state.json`. It is
// written aside, synced and renamed, so that a `step-N` is always whole; older
// ones go only when the new one is in place.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_CHECKPOINT_H
#define SHEAF_CHECKPOINT_H

#include "sheaf/Program.h"
#include <map>
#include <optional>
#include <string>

namespace sheaf {

/// What a run is beside its tensors.
struct RunState {
  int64_t step = 0; ///< steps done; the next one has this number
  uint64_t seed = 0;
  std::string order = "sequential";
  int64_t dataTokens = 0; ///< length of the data, 0 where there is none
  std::map<std::string, double> scalars;
};

/// Creates the run's directory where it is missing.
void createRunDirectory(const std::string &directory);

/// One run at a time in a directory, since a save removes older checkpoints.
/// Throws an Error where another process holds it; the system frees it when the
/// process ends, however that is.
class RunLock {
public:
  explicit RunLock(const std::string &path);
  ~RunLock();
  RunLock(const RunLock &) = delete;
  RunLock &operator=(const RunLock &) = delete;

private:
  int directory = -1;
};

/// Writes `step-N`, with whole tensors whatever the mesh, and removes older
/// checkpoints. On an Error the older ones are untouched. All ranks call it;
/// the root writes.
void saveCheckpoint(const Program &program, const RunState &state,
                    const std::string &directory);

struct FoundCheckpoint {
  std::string path;
  RunState state;
};

/// The newest checkpoint that is whole, or nothing where there is none. What
/// was skipped, and why, is added to `notes`. Throws an Error where the
/// directory does not exist, or where there are checkpoints but none is whole.
std::optional<FoundCheckpoint> findCheckpoint(const std::string &directory,
                                              std::string &notes);

/// The same on every rank: the root looks, the others are told.
std::optional<FoundCheckpoint> findCheckpoint(const std::string &directory,
                                              std::string &notes,
                                              Communicator &communicator);

/// Reads this rank's part of parameters and optimizer state. Throws an Error
/// where they are not those of the program.
void loadCheckpoint(Program &program, const FoundCheckpoint &checkpoint);

} // namespace sheaf

#endif // SHEAF_CHECKPOINT_H
