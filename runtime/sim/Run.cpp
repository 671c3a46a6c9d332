//===- Run.cpp - sheaf-run --device=sim -----------------------------------===//

#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include "sheaf/Mpi.h"
#include "sheaf/Simulation.h"
#include "sheaf/Training.h"
#include "sheaf/Types.h"
#include <cstdio>

using namespace sheaf;

namespace {
/// Options that ask for what only a device that computes can give.
void refuseResults(const RunOptions &options) {
  const std::pair<const char *, bool> wanted[] = {
      {"load", !options.load.empty()},
      {"save", !options.save.empty()},
      {"checkpoint", !options.checkpoint.empty()},
      {"resume", options.resume},
      {"eval-data", !options.evalData.empty()},
      {"sample", options.sample > 0},
      {"verify", options.verify},
      {"plot", !options.plot.empty()},
      {"profile", options.profile},
      {"memory-report", options.memoryReport},
      {"collectives", !options.collectives.empty()},
      {"call", !options.call.empty()},
      {"inputs", !options.inputs.empty()},
      {"outputs", !options.outputs.empty()}};
  for (const auto &[name, isWanted] : wanted)
    if (isWanted)
      fail("--{} needs a device that computes, --device=sim does not; "
           "--report and --trace write what it knows",
           name);
}
} // namespace

int sheaf::runSimulated(const RunOptions &options, const Artifact &artifact) {
  if (options.cluster.empty())
    fail("--device=sim needs the description of a cluster: --cluster=FILE, "
         "such as examples/clusters/h100.json");
  refuseResults(options);
  if (startedProcesses())
    fail("--device=sim runs all ranks in one process; start it without mpirun");
  Cluster cluster = Cluster::read(options.cluster);
  std::string trace;
  Simulation result = simulate(artifact, cluster, "step",
                               options.trace.empty() ? nullptr : &trace);
  if (!options.quiet)
    fmt::print("{}", simulationTable(result));
  if (!result.fits) {
    int64_t most = 0;
    for (const SimulatedPlace &place : result.places)
      most = std::max(most, place.peakBytes);
    fmt::print(stderr,
               "sheaf-run: warning: a rank needs {} and a device of {} has {}; "
               "compile with more ranks, a higher --zero, more --microbatches "
               "or --recompute=full\n",
               bytesText(most), options.cluster,
               bytesText(static_cast<int64_t>(result.memoryBytes)));
  }
  if (!options.report.empty())
    writeFile(options.report, simulationJson(result));
  if (!options.trace.empty())
    writeFile(options.trace, trace);
  if (!options.log.empty()) {
    Log log(options.log, -1);
    for (int64_t step = 0; step < options.steps.value_or(1); ++step) {
      std::string line = fmt::format(
          "{{\"step\": {}, \"tokens_per_s\": {:.9g}, \"step_ms\": {:.9g}", step,
          result.tokensPerSecond, result.seconds * 1e3);
      if (result.mfu > 0)
        line += fmt::format(", \"mfu\": {:.9g}", result.mfu);
      log.write(line + "}\n");
    }
  }
  return 0;
}
