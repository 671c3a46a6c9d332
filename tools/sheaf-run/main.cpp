//===- main.cpp - sheaf-run -----------------------------------------------===//
//
// Trains an artifact on this machine's cores. Parses the command line and calls
// the runtime library, which does the work.
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include "sheaf/Simulation.h"
#include "sheaf/abi.h"
#include <csignal>
#include <cstdio>
#include <exception>
#include <string_view>

using namespace sheaf;

namespace {
/// The first signal ends the run after the step; a second one ends the process.
void installSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) { stopSignal = signal; };
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A file-size limit is then an error of write(), with a message.
  signal(SIGXFSZ, SIG_IGN);
}

int run(const RunOptions &options) {
  if (!options.measureCluster.empty()) {
    writeFile(options.measureCluster, clusterJson(measureCluster()));
    return 0;
  }
  Artifact artifact(options.artifact);
  if (options.info) {
    fmt::print("{}",
               options.infoJson ? describeJson(artifact) : describe(artifact));
    return 0;
  }
  if (options.device == "sim")
    return runSimulated(options, artifact);
  if (options.call.empty())
    installSignals();
  return onRanks(options, artifact, [&](CpuDevice &device) {
    if (!options.call.empty())
      return callEntries(options, device, artifact);
    return options.verify ? verify(options, device, artifact)
                          : train(options, device, artifact);
  });
}
} // namespace

int main(int argc, char **argv) {
  try {
    if (argc == 2 && std::string_view(argv[1]) == "--version") {
      fmt::print("sheaf-run {} (artifacts of ABI {})\n", SHEAF_VERSION,
                 SHEAF_ABI_VERSION);
      return 0;
    }
    std::optional<RunOptions> options = parseOptions({argv + 1, argv + argc});
    if (!options) {
      fmt::print("{}", helpText());
      return 0;
    }
    return run(*options);
  } catch (const Error &error) {
    fmt::print(stderr, "sheaf-run: error: {}\n", error.what());
  } catch (const std::bad_alloc &) {
    fmt::print(stderr, "sheaf-run: error: out of memory\n");
  } catch (const std::exception &error) {
    fmt::print(stderr, "sheaf-run: error: {}\n", error.what());
  }
  return 1;
}
