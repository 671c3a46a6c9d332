//===- Manifest.h - what an artifact says about itself ----------*- C++ -*-===//
//
// The parsed and validated manifest of docs/design/artifact.md. Manifests come
// from files that anyone may have written: whatever parse() returns is
// consistent, everything else is an Error that names the field.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MANIFEST_H
#define SHEAF_MANIFEST_H

#include "sheaf/Mesh.h"
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sheaf {

enum class BufferKind {
  Parameter,
  Moment1,
  Moment2,
  Momentum,
  Master,
  Scaling, ///< state that is no parameter's: the scale of a loss
  Gradient,
  Batch,
  Rng,
  Step,
  Scalar,
  Result,
  Input,
  Output,
  Coordinates
};
inline constexpr int bufferKinds = 15;
std::string_view kindName(BufferKind kind);

/// Kinds that a checkpoint keeps: parameters and optimizer state.
bool isState(BufferKind kind);

enum class BatchRole { None, Tokens, Targets, Positions, Documents };

struct BufferInfo {
  std::string name;
  BufferKind kind;
  BatchRole role = BatchRole::None;
  SheafType type;
  Shape shape;      ///< of a rank's part, padding included
  int64_t elements; ///< product of the shape
  int64_t bytes;
  /// The places along the pipeline whose ranks have the buffer, in order; none:
  /// all of them.
  std::vector<int64_t> stages;
  Layout layout;    ///< where the parts lie in the whole tensor
  double value = 0; ///< of a scalar, at compile time
  bool frozen = false, decay = true;

  /// The name of this buffer in a file of named tensors: its name, with
  /// "gradient:", "moment1:", "moment2:", "momentum:", "master:" or "scaling:"
  /// before it for those kinds, most of which share their parameter's name.
  std::string key() const;
};

struct EntryInfo {
  std::string name, symbol;
  std::vector<int> arguments; ///< indices into Manifest::buffers
  int64_t arenaBytes;
  /// What lies in the arena where most of it is in use, and its bytes: in sum
  /// arenaBytes. Empty where the file does not say.
  std::vector<std::pair<std::string, int64_t>> arena;
  /// The most bytes of weights gathered from other ranks that are in the arena
  /// at once.
  int64_t gatheredBytes = 0;
  /// What the verifier of the pipeline's schedule states: the most bytes that a
  /// rank needs, its buffers included (0: not known), and the action at which.
  int64_t peakBytes = 0;
  std::string peakAction;
  /// What the ranks of each place along the pipeline run, where they do not all
  /// run the same. Then the fields above say what all of them name together,
  /// and what the one needs that needs most.
  std::vector<EntryInfo> stages;

  /// What the ranks of a place run.
  const EntryInfo &at(int64_t stage) const {
    return stages.empty() ? *this : stages[stage];
  }
};

struct KernelInfo {
  std::string name, kind, location;
  double flops, bytes; ///< of one call
  /// Of what multiplies: the element type in which a device with products of
  /// narrow types would, where the file says so.
  std::optional<SheafType> type;
  /// The bytes that such a device would move; below 0: the same. 0: what only
  /// casts would be a part of other kernels.
  double narrowBytes = -1;
};

struct CollectiveInfo {
  std::string name, purpose, location;
};

struct ModelInfo {
  std::string name;
  int64_t batch = 0, sequence = 0, vocab = 0, microbatches = 1;
  int64_t parameters = 0;  ///< elements
  double flopsPerStep = 0; ///< of the model: recomputation does not count
  /// The recipe, "fp32" where nothing is said, and what was written beside it.
  std::string precision;
  std::vector<std::string> precisionOptions;
  /// The bytecode is that of a step, which has been made in its recipe.
  bool isStep = false;
};

struct Manifest;
/// The bytes that an entry needs by what they are, as (kind, bytes) in the
/// order of a table: persistent buffers and arena together, in sum all that it
/// needs.
std::vector<std::pair<std::string, int64_t>> memoryOf(const Manifest &manifest,
                                                      const EntryInfo &entry);

struct Manifest {
  std::string producer, target, cpu;
  std::string wire; ///< how gradients and weights are sent; "": as they are
  std::vector<std::string> cpuFeatures;
  Mesh mesh;
  int64_t ranks = 1; ///< of the mesh
  ModelInfo model;
  std::vector<BufferInfo> buffers;
  std::vector<EntryInfo> entries; ///< in the order of the file
  std::vector<KernelInfo> kernels;
  std::vector<CollectiveInfo> collectives;
  /// The place along the pipeline of a rank; 0 where there is none.
  int64_t stageOf(int64_t rank) const;
  /// What a rank of a pipeline carries out, by number: `2F3` is the forward of
  /// stage 2 on microbatch 3.
  std::vector<std::string> actions;
  /// The schedule of the pipeline, a line for each place along its axis.
  std::vector<std::string> schedule;
  std::vector<std::string> purposes;  ///< of the collectives
  std::vector<std::string> transfers; ///< their names

  /// Throws an Error that names what is wrong.
  static Manifest parse(std::string_view text);

  /// Index of a buffer, or -1.
  int find(BufferKind kind, std::string_view name) const;
  int findRole(BatchRole role) const;
  /// Index of the only buffer of a kind (rng, step), or -1.
  int findKind(BufferKind kind) const;
  const EntryInfo *findEntry(std::string_view name) const;
  /// Throws an Error that lists the entries there are.
  const EntryInfo &entry(std::string_view name) const;
  /// Indices of the buffers of a kind, in order.
  std::vector<int> ofKind(BufferKind kind) const;
};

} // namespace sheaf

#endif // SHEAF_MANIFEST_H
