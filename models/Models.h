//===- Models.h - Models written in the nn dialect -------------*- C++ -*-===//
//
// Describes a language model of a known family by its sizes, reads that
// description from a Hugging Face config.json, and writes the model as a module
// of the nn dialect: `@block` (a layer), `@hidden` (the trunk), `@logits` and
// `@loss`. Names and layouts of the parameters are those of Hugging Face's
// files.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MODELS_MODELS_H
#define SHEAF_MODELS_MODELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace sheaf::models {

/// `GPT` is GPT-2 (Radford et al. 2019): learned positions, layer norm before
/// each part of a block, biases everywhere. `Llama` (Touvron et al. 2023) has
/// RMS norm, rotary positions, grouped key and value heads and a gated MLP.
/// `Mixtral` (Jiang et al. 2024) is a Llama with experts in the MLP's place,
/// `Qwen` (Qwen2-MoE and Qwen3-MoE) the same under other names, `DeepSeek` (V2
/// and V3, DeepSeek-AI 2024) has latent attention, too.
enum class Family { GPT, Llama, Mixtral, Qwen, DeepSeek };

/// Whether the family has experts.
inline bool hasExperts(Family family) {
  return family != Family::GPT && family != Family::Llama;
}

enum class Activation { Gelu, GeluTanh, Relu, Silu };

/// How rotary frequencies are stretched; see `#nn.rope_scaling`.
struct RopeScaling {
  std::string kind; // "linear", "llama3" or "yarn"
  double factor = 1, low = 1, high = 1;
  int64_t original = 0;
};

/// The experts of a layer and their router; see `nn.route` for how they are
/// chosen. A routing group is a sample.
struct Experts {
  int64_t count = 8;
  int64_t perToken = 2;
  int64_t ffn = 0; ///< Width of an expert; 0 is derived: the model's `ffn`, or
                   ///< a ninth of it rounded up to a multiple of 8 (DeepSeek).
  int64_t shared = 0;    ///< Experts that every token goes through.
  int64_t sharedFfn = 0; ///< Their width together; 0 is derived: shared * ffn.
  bool sharedGate = false; ///< Whether a gate weighs the shared experts (Qwen).
  int64_t denseLayers = 0; ///< First layers, which have an MLP instead.
  bool sigmoid = false, normalised = true;
  double scale = 1;
  int64_t groups = 1, groupsKept = 1, groupBest = 1;
  bool bias = false;   ///< Whether a bias of the choice balances the experts.
  double biasRate = 0; ///< How far a step moves it; 0: not at all.
  double balanceLoss = 0, zLoss = 0; ///< Weights of these losses.
  /// With a factor f an expert takes ceil(f * seq * perToken / count) tokens of
  /// a sample, and the rest are dropped; without one none is.
  std::optional<double> capacityFactor;
};

/// The sizes of latent attention (DeepSeek-V2, section 2.1).
struct Latent {
  int64_t queryRank = 0; ///< 0: queries come straight from the input.
  int64_t rank = 0;      ///< Of keys and values.
  int64_t turned = 0;    ///< Numbers of a query and key with rotary positions,
  int64_t plain = 0;     ///< and without.
  int64_t value = 0;     ///< Width of a value.
  /// Of the scores, beside 1 / sqrt(turned + plain).
  double scale = 1;
  /// Whether the two numbers of a rotary pair lie side by side in the files.
  bool pairs = true;
};

/// A model and the batch of one step. Where a default says "derived",
/// `complete` works it out.
struct Model {
  explicit Model(Family family);

  Family family;
  int64_t layers = 4;
  int64_t hidden = 128;
  int64_t heads = 4;
  int64_t kvHeads = 0; ///< Heads of key and value; 0 is derived: `heads`.
  int64_t headDim = 0; ///< Width of a head; 0 is derived: hidden / heads.
  int64_t ffn = 0;     ///< Width of the MLP; 0 is derived: 4 hidden (GPT), or
                       ///< 8 hidden / 3 rounded up to a multiple of 64.
  int64_t vocab = 256;
  int64_t seq = 128; ///< Tokens of a sample.
  int64_t batch = 8; ///< Samples of a step on all devices together.
  int64_t positions =
      0; ///< Rows of the position table of GPT; 0 is derived: `seq`.

  Activation activation;
  double normEps = 1e-5;
  double initialDeviation = 0.02;
  bool tied; ///< Whether the head is the embedding table.
  bool attentionBias =
      false;              ///< Llama: biases of the four attention projections.
  bool queryBias = false; ///< Qwen: biases of queries, keys and values alone.
  bool headNorm = false;  ///< Qwen3: RMS norm of each query and key.
  bool mlpBias = false;   ///< Llama: biases of the three MLP projections.
  std::optional<Experts> experts; ///< In families with experts.
  std::optional<Latent> latent;   ///< In DeepSeek.
  double ropeTheta = 10000;
  std::optional<RopeScaling> ropeScaling;
  std::optional<int64_t> window; ///< A token sees this many, itself included.

  double dropout = 0; ///< GPT: of the embedding and of both parts of a block.
  double labelSmoothing = 0;
  bool documents = false; ///< Whether attention stays within a document.
  bool doublePrecision = false;
};

/// Fills in the derived sizes and checks everything. The error says what is
/// wrong and what was expected.
llvm::Error complete(Model &model);

/// Takes the shape of `model` (all but `seq` and `batch`, which must be set,
/// and the fields after `window`) from the config.json at `path`. Fields that
/// change the function and are not supported are errors that name the field.
/// Unknown fields, and dropout that the file asks for and the model does not
/// have, go to `notes`, a line each, headed "warning: " or "note: ";
/// `dropoutChosen` says that the user has chosen the dropout and need not be
/// told.
llvm::Error readHuggingFaceConfig(llvm::StringRef path, Model &model,
                                  bool dropoutChosen, llvm::raw_ostream &notes);

/// The number of parameters of a complete model.
int64_t countParameters(const Model &model);

/// Builds the module of a complete model. Values carry their names as
/// locations.
mlir::OwningOpRef<mlir::ModuleOp> build(mlir::MLIRContext &context,
                                        const Model &model);

/// Prints the module that `build` made of `model`: under a heading, with the
/// names of its values, long signatures and calls broken into lines.
void print(mlir::ModuleOp module, const Model &model, llvm::raw_ostream &os);

} // namespace sheaf::models

#endif // SHEAF_MODELS_MODELS_H
