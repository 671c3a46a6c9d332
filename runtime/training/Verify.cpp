#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include "sheaf/Training.h"
#include "sheaf/Weights.h"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

using namespace sheaf;
namespace fs = std::filesystem;

namespace {
struct Tolerance {
  /// Of a gradient: relative to its own norm, and to that of all.
  double relative, absolute;
  double loss;
};
/// In narrow floats values are rounded that other ranks round apart; those of 8
/// bits have other factors where microbatches have.
Tolerance toleranceOf(const Manifest &manifest) {
  const std::string &precision = manifest.model.precision;
  if (precision == "fp32")
    return {1e-5, 1e-7, 2e-6};
  if (precision == "bf16" || precision == "fp16")
    return {0.1, 2e-3, 1e-3};
  return {0.3, 5e-3, 1e-3};
}

/// A directory of its own that goes with the object.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "sheaf-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      fail("{}: cannot create a temporary directory: {}", pattern,
           std::strerror(errno));
    path = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
};

int runProgram(std::vector<std::string> words) {
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child;
  if (int error = posix_spawn(&child, arguments[0], nullptr, nullptr,
                              arguments.data(), environ))
    fail("{}: cannot start: {}", words[0], std::strerror(error));
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      fail("{}: cannot wait for it: {}", words[0], std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Compiles the model that the artifact keeps for one device without fusion.
std::string compileReference(const Artifact &artifact,
                             const std::string &directory) {
  if (artifact.model.empty())
    fail("{}: keeps no model to compile a reference from; give one with "
         "--verify=REF.sheaf",
         artifact.path);
  std::string compiler =
      (fs::read_symlink("/proc/self/exe").parent_path() / "sheaf-compile")
          .string();
  if (access(compiler.c_str(), X_OK) != 0)
    fail("{}: not found; put sheaf-compile beside sheaf-run, or give a "
         "reference with --verify=REF.sheaf",
         compiler);
  std::string model = directory + "/model.mlirbc";
  std::string reference = directory + "/reference.sheaf";
  writeFile(model, {reinterpret_cast<const char *>(artifact.model.data()),
                    artifact.model.size()});
  std::vector<std::string> command{compiler, model, "--reference", "-o",
                                   reference};
  const ModelInfo &info = artifact.manifest.model;
  if (info.precision != "fp32" && !info.isStep) {
    command.push_back("--precision=" + info.precision);
    command.insert(command.end(), info.precisionOptions.begin(),
                   info.precisionOptions.end());
  }
  if (int code = runProgram(command))
    fail("compiling the reference failed: {} ended with status {}", compiler,
         code);
  return reference;
}

/// Gives the reference the parameters of the program. All ranks call it; the
/// root has the reference.
void copyParameters(const Program &from, Program *to) {
  Memory space;
  size_t copied = 0;
  for (int source : from.manifest.ofKind(BufferKind::Parameter)) {
    const BufferInfo &buffer = from.manifest.buffers[source];
    const void *whole = from.whole(source, space);
    int index = to ? to->manifest.find(BufferKind::Parameter, buffer.name) : -1;
    if (index < 0)
      continue;
    const BufferInfo &target = to->manifest.buffers[index];
    if (buffer.layout.global != target.shape)
      fail("{}: parameter '{}' {} of the reference is {} in {}; it is "
           "compiled from another model",
           to->artifact.path, target.name, shapeText(target.shape),
           shapeText(buffer.layout.global), from.artifact.path);
    convert(target.type, to->data(index), buffer.type, whole, target.elements);
    ++copied;
  }
  if (to && copied != to->manifest.ofKind(BufferKind::Parameter).size())
    fail("{}: has parameters that are not in {}; it is compiled from another "
         "model",
         to->artifact.path, from.artifact.path);
}

/// Tokens of batch 0: of the data, or random ones where none is given.
void loadBatch(const RunOptions &options, Program &program, uint64_t seed) {
  const ModelInfo &model = program.manifest.model;
  if (!options.data.empty()) {
    TokenFile file(options.data, options.tokenType);
    Batches(file, program.manifest,
            options.order.value_or(DataOrder::Sequential), seed)
        .load(program, 0);
    return;
  }
  std::vector<uint32_t> tokens(model.batch * (model.sequence + 1));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] =
        static_cast<uint32_t>(randomBits(seed, VerifyStream, i) % model.vocab);
  fillBatch(program, tokens);
}

struct Comparison {
  std::string name;
  double difference = 0, norm = 0, tolerance = 0;
  bool passed() const { return difference <= tolerance; }
  double ratio() const { return difference == 0 ? 0 : difference / tolerance; }
};

/// Norms of g - g1 and of g1 for every gradient, in double precision. All ranks
/// call it; the root has the reference and gets the rows.
std::vector<Comparison> compareGradients(const Program &program,
                                         const Program *reference) {
  std::vector<Comparison> rows;
  double all = 0;
  Memory space;
  for (int other : program.manifest.ofKind(BufferKind::Gradient)) {
    const BufferInfo &g = program.manifest.buffers[other];
    const void *whole = program.whole(other, space);
    if (!reference)
      continue;
    int index = reference->manifest.find(BufferKind::Gradient, g.name);
    if (index < 0 ||
        reference->manifest.buffers[index].shape != g.layout.global)
      fail("{}: has no gradient '{}' {}", reference->artifact.path, g.name,
           shapeText(g.layout.global));
    const BufferInfo &g1 = reference->manifest.buffers[index];
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < g1.elements; ++i) {
      double a = element(g.type, whole, i);
      double b = element(g1.type, reference->data(index), i);
      difference += (a - b) * (a - b);
      norm += b * b;
    }
    all += norm;
    rows.push_back({g1.name, std::sqrt(difference), std::sqrt(norm), 0});
  }
  if (reference &&
      rows.size() != reference->manifest.ofKind(BufferKind::Gradient).size())
    fail("{}: has {} gradients, the reference {}", program.artifact.path,
         rows.size(), reference->manifest.ofKind(BufferKind::Gradient).size());
  Tolerance tolerance = toleranceOf(program.manifest);
  for (Comparison &row : rows)
    row.tolerance =
        tolerance.relative * row.norm + tolerance.absolute * std::sqrt(all);
  return rows;
}

void printTable(const std::vector<Comparison> &rows) {
  std::vector<const Comparison *> worst;
  for (const Comparison &row : rows)
    worst.push_back(&row);
  auto badness = [](const Comparison *row) {
    double ratio = row->ratio();
    return std::isnan(ratio) ? INFINITY : ratio;
  };
  std::stable_sort(worst.begin(), worst.end(),
                   [&](const Comparison *a, const Comparison *b) {
                     return badness(a) > badness(b);
                   });
  if (worst.size() > 10)
    worst.resize(10);
  fmt::print("{:>12} {:>12} {:>12} {:>9}  {}\n", "|g - g1|", "|g1|", "allowed",
             "ratio", "gradient, worst first");
  for (const Comparison *row : worst)
    fmt::print("{:>12.4e} {:>12.4e} {:>12.4e} {:>9.3f}  {}{}\n",
               row->difference, row->norm, row->tolerance, row->ratio(),
               row->name, row->passed() ? "" : "  DIFFERS");
}
} // namespace

int sheaf::verify(const RunOptions &options, CpuDevice &device,
                  const Artifact &artifact) {
  if (!artifact.manifest.wire.empty())
    fail("{}: sends {}, and is not expected to equal a reference that rounds "
         "nothing; compile it without --gradient-wire and --weight-wire to "
         "verify it",
         artifact.path, artifact.manifest.wire);
  Program program(artifact, device);
  Communicator &comm = device.communicator;
  // The reference is one rank's, so the root's alone.
  std::unique_ptr<TemporaryDirectory> temporary;
  std::unique_ptr<Artifact> referenceArtifact;
  std::unique_ptr<CpuDevice> referenceDevice;
  std::unique_ptr<Program> reference;
  std::string path = options.reference;
  if (comm.isRoot()) {
    if (path.empty()) {
      temporary = std::make_unique<TemporaryDirectory>();
      path = compileReference(artifact, temporary->path);
    }
    referenceArtifact = std::make_unique<Artifact>(path);
    if (referenceArtifact->manifest.ranks != 1)
      fail("{}: compiled for {} ranks, expected 1 for a reference", path,
           referenceArtifact->manifest.ranks);
    referenceDevice = std::make_unique<CpuDevice>(device.pool.threads());
    reference = std::make_unique<Program>(*referenceArtifact, *referenceDevice);
  }
  const ModelInfo &model = artifact.manifest.model,
                  &model1 = reference ? reference->manifest.model : model;
  if (model.batch != model1.batch || model.sequence != model1.sequence ||
      model.vocab != model1.vocab)
    fail("{}: is compiled from another model: batch, sequence and vocabulary "
         "{}, {}, {}; {} has {}, {}, {}",
         path, model1.batch, model1.sequence, model1.vocab, artifact.path,
         model.batch, model.sequence, model.vocab);
  program.prepare({"init", "gradients"});
  if (reference)
    reference->prepare({"gradients"});

  uint64_t seed = options.seed.value_or(0);
  program.setStep(seed, 0);
  if (options.load.empty())
    program.call("init");
  else
    loadWeights(program, options.load);
  copyParameters(program, reference.get());
  for (Program *each : {&program, reference.get()}) {
    if (!each)
      continue;
    setScalars(*each, options.scalars);
    each->setStep(seed, 0);
    loadBatch(options, *each, seed);
    each->call("gradients");
  }

  auto lossOf = [](Program &each) {
    int index = each.manifest.find(BufferKind::Result, "loss");
    if (index < 0 || !each.data(index))
      fail("{}: entry 'gradients' has no result 'loss'", each.artifact.path);
    return each.value(index);
  };
  std::vector<Comparison> rows = compareGradients(program, reference.get());
  if (!reference)
    return static_cast<int>(comm.agreeMax(0));
  double loss = lossOf(program), loss1 = lossOf(*reference);
  bool lossPassed = std::abs(loss - loss1) <=
                    toleranceOf(artifact.manifest).loss * std::abs(loss1);
  fmt::print("loss {:.9g}, reference {:.9g}, relative difference {:.2e}{}\n",
             loss, loss1, std::abs(loss - loss1) / std::abs(loss1),
             lossPassed ? "" : "  DIFFERS");

  printTable(rows);
  auto firstBad = std::find_if(rows.begin(), rows.end(),
                               [](const Comparison &c) { return !c.passed(); });
  if (firstBad == rows.end() && lossPassed) {
    fmt::print("verified: loss and {} gradients equal the reference\n",
               rows.size());
    comm.agreeMax(0);
    return 0;
  }
  if (!lossPassed)
    fmt::print("first that differs: the loss\n");
  if (firstBad != rows.end())
    fmt::print("first {} that differs: '{}', {} of {} differ\n", "gradient",
               firstBad->name,
               std::count_if(rows.begin(), rows.end(),
                             [](const Comparison &c) { return !c.passed(); }),
               rows.size());
  return static_cast<int>(comm.agreeMax(1));
}
