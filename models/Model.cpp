//===- Model.cpp - Defaults and checks of a model's description -----------===//

#include "models/Models.h"
#include "support/Divisors.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Format.h"
#include <cmath>
#include <limits>

using namespace sheaf::models;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// Token numbers, positions and samples are i32 on the device.
constexpr int64_t kLargestSize = std::numeric_limits<int32_t>::max();
/// The type of a tensor of nn has at most this many elements.
constexpr int kTensorBits = 59;
/// A parameter may have fewer, so that the count of all parameters fits an
/// int64_t.
constexpr int kParameterBits = 48;
/// Each layer adds a dozen arguments to the functions of the module.
constexpr int64_t kMostLayers = 1024;

Error error(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

std::string text(double value) {
  std::string result;
  llvm::raw_string_ostream(result) << llvm::format("%.15g", value);
  return result;
}

Error checkSize(StringRef name, int64_t value, int64_t largest = kLargestSize) {
  if (value >= 1 && value <= largest)
    return Error::success();
  return error(name + " is " + Twine(value) + ", expected a number from 1 to " +
               Twine(largest));
}

Error checkTensor(StringRef what, llvm::ArrayRef<int64_t> sizes,
                  int bits = kTensorBits) {
  int64_t elements = 1, limit = int64_t(1) << bits;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(elements, size, &elements) || elements > limit) {
      std::string text;
      llvm::raw_string_ostream os(text);
      llvm::interleave(sizes, os, " x ");
      return error(what + " would have " + text +
                   " elements, expected at most 2^" + Twine(bits) +
                   "; choose smaller sizes");
    }
  return Error::success();
}

/// The multiple of `of` nearest to `value`, at least `of`.
int64_t nearestMultiple(int64_t value, int64_t of) {
  return std::max<int64_t>((value + of / 2) / of, 1) * of;
}
} // namespace

Model::Model(Family family)
    : family(family), activation(family == Family::GPT ? Activation::GeluTanh
                                                       : Activation::Silu),
      tied(family == Family::GPT) {
  if (hasExperts(family))
    experts.emplace();
  if (family != Family::DeepSeek)
    return;
  latent.emplace();
  // The router of V3.
  experts->shared = 1;
  experts->sigmoid = true;
  experts->scale = 2.5;
  experts->bias = true;
  experts->biasRate = 0.001;
}

/// The multiple of `of` that is not below `value`.
static int64_t roundUp(int64_t value, int64_t of) {
  return (value + of - 1) / of * of;
}

static Error completeExperts(Model &model) {
  Experts &experts = *model.experts;
  bool deepSeek = model.family == Family::DeepSeek;
  if (experts.ffn == 0)
    experts.ffn = deepSeek ? roundUp((model.ffn + 8) / 9, 8) : model.ffn;
  // Kernels count the tokens of each.
  if (Error e = checkSize("experts", experts.count, 65536))
    return e;
  for (auto [name, value] :
       {std::pair<StringRef, int64_t>{"experts-per-token", experts.perToken},
        {"expert-ffn", experts.ffn}})
    if (Error e = checkSize(name, value))
      return e;
  if (experts.perToken > experts.count)
    return error("experts-per-token is " + Twine(experts.perToken) +
                 ", expected at most the " + Twine(experts.count) + " experts");
  if (experts.shared < 0 || experts.denseLayers < 0)
    return error("shared-experts and dense-layers are " +
                 Twine(experts.shared) + " and " + Twine(experts.denseLayers) +
                 ", expected at least 0");
  if (experts.denseLayers > model.layers)
    return error("dense-layers is " + Twine(experts.denseLayers) +
                 ", expected at most the " + Twine(model.layers) + " layers");
  if (experts.sharedFfn == 0 && experts.shared > 0) {
    if (Error e = checkSize("shared-experts", experts.shared, 65536))
      return e;
    experts.sharedFfn = experts.shared * experts.ffn;
  }
  if (experts.groups < 1 || experts.count % experts.groups)
    return error("there are " + Twine(experts.groups) +
                 " groups of experts, expected a divisor of the " +
                 Twine(experts.count) + " experts; the nearest: " +
                 sheaf::nearestDivisors(experts.count, experts.groups));
  int64_t perGroup = experts.count / experts.groups;
  if (experts.groupsKept < 1 || experts.groupsKept > experts.groups)
    return error("tokens choose among " + Twine(experts.groupsKept) +
                 " groups, expected 1 to " + Twine(experts.groups));
  if (experts.groupsKept * perGroup < experts.perToken)
    return error("tokens choose " + Twine(experts.perToken) +
                 " experts among the " + Twine(experts.groupsKept * perGroup) +
                 " of " + Twine(experts.groupsKept) +
                 " groups, expected as many at "
                 "least");
  experts.groupBest = std::min(experts.groupBest, perGroup);
  for (auto [name, value] :
       {std::pair<StringRef, double>{"balance-loss", experts.balanceLoss},
        {"z-loss", experts.zLoss},
        {"balance-bias", experts.biasRate}})
    if (!(value >= 0) || !std::isfinite(value))
      return error(name + " is " + text(value) +
                   ", expected a finite number of at least 0");
  if (!(experts.scale > 0) || !std::isfinite(experts.scale))
    return error("the factor of the experts' weights is " +
                 text(experts.scale) + ", expected a positive number");
  if (experts.capacityFactor &&
      (!(*experts.capacityFactor > 0) || !(*experts.capacityFactor <= 1e6)))
    return error("capacity-factor is " + text(*experts.capacityFactor) +
                 ", expected a positive number of at most 1e6");
  if (Error e = checkTensor("the experts' weights",
                            {experts.count, model.hidden, experts.ffn},
                            kParameterBits))
    return e;
  return checkTensor("the experts' activations",
                     {model.batch, model.seq, experts.perToken,
                      std::max(experts.ffn, model.hidden)});
}

/// Sizes of V3, whose hidden size is 7168, in proportion.
static Error completeLatent(Model &model) {
  Latent &latent = *model.latent;
  if (latent.rank == 0) {
    latent.queryRank = roundUp((model.hidden * 3 + 13) / 14, 8);
    latent.rank = roundUp((model.hidden + 13) / 14, 8);
    latent.plain = latent.value = model.headDim;
    latent.turned = roundUp((model.headDim + 1) / 2, 2);
  }
  for (auto [name, value] : {std::pair<StringRef, int64_t>{
                                 "the rank of keys and values", latent.rank},
                             {"the plain width of a key", latent.plain},
                             {"the width of a value", latent.value},
                             {"the turned width of a key", latent.turned}})
    if (Error e = checkSize(name, value, int64_t(1) << 20))
      return e;
  if (latent.queryRank)
    if (Error e = checkSize("the rank of queries", latent.queryRank))
      return e;
  if (latent.turned % 2)
    return error("the turned width of a key is " + Twine(latent.turned) +
                 ", expected an even number: rotary positions turn pairs");
  if (model.kvHeads != model.heads)
    return error("kv-heads is " + Twine(model.kvHeads) + " and heads is " +
                 Twine(model.heads) +
                 ", expected the same: latent attention has no grouped heads");
  int64_t width = latent.plain + std::max(latent.turned, latent.value);
  return checkTensor(
      "the attention weights",
      {std::max(latent.queryRank, model.hidden), model.heads, width},
      kParameterBits);
}

Error sheaf::models::complete(Model &model) {
  bool gpt = model.family == Family::GPT;
  if (Error e = checkSize("layers", model.layers, kMostLayers))
    return e;
  for (auto [name, value] :
       {std::pair<StringRef, int64_t>{"hidden", model.hidden},
        {"heads", model.heads},
        {"vocab", model.vocab},
        {"seq", model.seq},
        {"batch", model.batch}})
    if (Error e = checkSize(name, value))
      return e;

  if (model.kvHeads == 0)
    model.kvHeads = model.heads;
  if (Error e = checkSize("kv-heads", model.kvHeads))
    return e;
  if (gpt && model.kvHeads != model.heads)
    return error("kv-heads is " + Twine(model.kvHeads) + " and heads is " +
                 Twine(model.heads) +
                 ", expected the same: gpt has no grouped key and value heads "
                 "(llama has)");
  if (model.heads % model.kvHeads)
    return error("heads is " + Twine(model.heads) +
                 ", expected a multiple of kv-heads, which is " +
                 Twine(model.kvHeads) + "; the nearest kv-heads that fit: " +
                 nearestDivisors(model.heads, model.kvHeads));

  if (model.headDim == 0) {
    if (model.hidden % model.heads)
      return error("hidden is " + Twine(model.hidden) +
                   ", expected a multiple of heads, which is " +
                   Twine(model.heads) + "; the nearest that fits: " +
                   Twine(nearestMultiple(model.hidden, model.heads)));
    model.headDim = model.hidden / model.heads;
  }
  if (Error e = checkSize("the width of a head", model.headDim))
    return e;
  if (!gpt && !model.latent && model.headDim % 2)
    return error(
        "the width of a head is " + Twine(model.headDim) +
        ", expected an even number: rotary positions turn pairs; with " +
        Twine(model.heads) + " heads, hidden = " +
        Twine((model.headDim + 1) * model.heads) + " fits");

  if (model.ffn == 0)
    model.ffn = gpt ? 4 * model.hidden : (8 * model.hidden + 191) / 192 * 64;
  if (Error e = checkSize("ffn", model.ffn))
    return e;

  if (gpt) {
    if (model.positions == 0)
      model.positions = model.seq;
    if (Error e = checkSize("the number of positions", model.positions))
      return e;
    if (model.seq > model.positions)
      return error("seq is " + Twine(model.seq) +
                   ", but the model has learned positions for " +
                   Twine(model.positions) + " tokens; choose --seq=" +
                   Twine(model.positions) + " or less");
  }

  if (model.window)
    if (Error e = checkSize("window", *model.window))
      return e;
  // Written so that NaN fails, too.
  if (!(model.dropout >= 0 && model.dropout < 1))
    return error("dropout is " + text(model.dropout) +
                 ", expected at least 0 and less than 1");
  if (!gpt && model.dropout != 0)
    return error(
        "dropout is not part of this family of models, expected 0 (gpt has "
        "it)");
  if (!(model.labelSmoothing >= 0 && model.labelSmoothing < 1))
    return error("label-smoothing is " + text(model.labelSmoothing) +
                 ", expected at least 0 and less than 1");
  if (!(model.normEps > 0 && std::isfinite(model.normEps)))
    return error("the epsilon of the norms is " + text(model.normEps) +
                 ", expected a positive number");
  if (!(model.ropeTheta > 0 && std::isfinite(model.ropeTheta)))
    return error("the base of the rotary frequencies is " +
                 text(model.ropeTheta) + ", expected a positive number");
  if (!(model.initialDeviation >= 0 && std::isfinite(model.initialDeviation)))
    return error("the deviation of the initial values is " +
                 text(model.initialDeviation) + ", expected at least 0");

  if (model.experts)
    if (Error e = completeExperts(model))
      return e;
  if (model.latent)
    if (Error e = completeLatent(model))
      return e;
  int64_t width = model.heads * model.headDim; // at most 2^62
  if (Error e = checkTensor("the embedding table", {model.vocab, model.hidden},
                            kParameterBits))
    return e;
  if (Error e = checkTensor("the attention weights", {model.hidden, 3, width},
                            kParameterBits))
    return e;
  if (Error e = checkTensor("an MLP weight", {model.hidden, model.ffn},
                            kParameterBits))
    return e;
  if (gpt)
    if (Error e = checkTensor("the position table",
                              {model.positions, model.hidden}, kParameterBits))
      return e;
  if (Error e =
          checkTensor("the logits", {model.batch, model.seq, model.vocab}))
    return e;
  if (Error e =
          checkTensor("an activation", {model.batch, model.seq, model.hidden}))
    return e;
  if (Error e =
          checkTensor("an activation", {model.batch, model.seq, model.ffn}))
    return e;
  return checkTensor("the queries", {model.batch, model.seq, width});
}
