//===- Training.h - what sheaf-run does with an artifact --------*- C++ -*-===//
//
// The training loop, verification against a reference, sampling, and calling
// single entries. Each takes the options of the command line and returns the
// process's exit status; what goes wrong is thrown as an Error.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TRAINING_H
#define SHEAF_TRAINING_H

#include "sheaf/Data.h"
#include "sheaf/Program.h"
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sheaf {

struct RunOptions {
  std::string artifact;
  std::string device = "cpu"; ///< or "sim"
  std::string cluster;        ///< description of what "sim" simulates
  std::string report;         ///< of a simulation, as JSON
  std::string measureCluster; ///< no artifact: measures this machine
  std::string data, evalData;
  TokenType tokenType = TokenType::Auto;
  std::optional<DataOrder> order; ///< default: sequential
  std::optional<int64_t> steps;
  std::optional<uint64_t> seed; ///< default: 0
  int threads = 0; ///< of each rank; 0: the cores over the ranks of the process
  std::string collectives;
  std::string log, load, save, plot, trace;
  std::string checkpoint;
  int64_t checkpointEvery = 0; ///< 0: at the end only
  bool resume = false;
  int64_t evalEvery = 0; ///< 0: at the end only
  int64_t evalBatches = 8;
  int64_t sample = 0;
  double temperature = 1;
  std::string prompt;
  bool verify = false;
  std::string reference; ///< empty: made by the sheaf-compile beside us
  bool info = false, infoJson = false, profile = false, memoryReport = false,
       quiet = false;
  std::string call, inputs, outputs;
  /// Seconds after which a transfer that does not come ends the run; 0: never.
  double waitLimit = 600;
  /// Of the times by which transfers are late; none: they are not.
  std::optional<uint64_t> transferDelays;
  std::map<std::string, double> scalars; ///< by buffer name
};

/// Calls `body` on every rank of the artifact's mesh, each with a device of its
/// own: on threads of this process or, started by mpirun, on this process's
/// rank. Returns what the root's body returns. Where a rank fails, the others
/// are taken down; prints the message and returns 1. Throws an Error where the
/// number of processes is not that of the ranks.
int onRanks(const RunOptions &options, const Artifact &artifact,
            const std::function<int(CpuDevice &)> &body);

/// How many of a run's ranks are on this machine.
int localRanks(int ranks);

/// Set by a signal that asks the run to end after the current step.
extern std::atomic<int> stopSignal;

/// Sets the scalars of the command line that the artifact has; throws an Error
/// for one that it has not. Scalars whose buffers are not allocated are
/// skipped.
void setScalars(Program &program, const std::map<std::string, double> &scalars);

int train(const RunOptions &options, CpuDevice &device,
          const Artifact &artifact);

/// Simulates a step on the cluster of the options and says what came out.
int runSimulated(const RunOptions &options, const Artifact &artifact);

/// Compares loss and gradients of one step with a reference; criterion (a) of
/// "equal to one device": |g - g1| <= 1e-5 |g1| + 1e-7 |G|. Returns 1 where one
/// fails. The loss must agree to 2e-6 of its size.
int verify(const RunOptions &options, CpuDevice &device,
           const Artifact &artifact);

/// Calls entries on the tensors of a file and writes all their buffers.
int callEntries(const RunOptions &options, CpuDevice &device,
                const Artifact &artifact);

/// Where --profile or --trace ask for it, measures what the machine can do and
/// lets the device keep times from now on. All ranks call it, and the next.
MachineLimits startProfile(const RunOptions &options, CpuDevice &device,
                           const Manifest &manifest);
/// Prints the root's table and writes the trace of all ranks.
void finishProfile(const RunOptions &options, CpuDevice &device,
                   const MachineLimits &limits);

/// Generates `options.sample` tokens after the prompt with the `logits` entry,
/// one call a token, and prints them: as text where the vocabulary is bytes.
void sampleTokens(const RunOptions &options, Program &program, uint64_t seed);

/// One line of the log.
struct StepRecord {
  int64_t step = 0;
  double loss = 0, gradientNorm = 0, learningRate = 0;
  double tokensPerSecond = 0, milliseconds = 0;
  std::optional<double> mfu; ///< model FLOPs utilisation, 0 to 1
  std::optional<double> evalLoss;
  std::vector<std::pair<std::string, double>> other; ///< auxiliary results
};

/// The JSON object of a record, floats with `digits` digits; a value that is no
/// number is written as null.
std::string logLine(const StepRecord &record, int digits);

/// Appends lines to a file, each whole.
class Log {
public:
  /// With `resumeAt` >= 0 the lines of earlier steps are kept and later ones
  /// dropped; else the file starts empty.
  Log(std::string path, int64_t resumeAt);
  ~Log();
  Log(const Log &) = delete;
  Log &operator=(const Log &) = delete;
  void write(const std::string &line);

private:
  std::string path;
  int file = -1;
};

/// Shows the run on stderr: one line that changes on a terminal, else a line
/// now and then.
class Progress {
public:
  Progress(int64_t first, int64_t steps, bool quiet);
  void show(const StepRecord &record);
  /// Ends the changing line, so that other text can follow.
  void finish();

private:
  int64_t first, steps;
  bool quiet, terminal, open = false;
  double started, shown = 0;
};

/// A curve of `values` over their index in braille characters, with its scale.
std::string plotText(const std::vector<double> &values, int columns, int rows);

/// Points of a curve: step and value.
using Curve = std::vector<std::pair<double, double>>;

/// An SVG picture of the training loss and, where given, the held-out loss.
std::string plotSvg(const Curve &loss, const Curve &evalLoss,
                    const std::string &title);

} // namespace sheaf

#endif // SHEAF_TRAINING_H
