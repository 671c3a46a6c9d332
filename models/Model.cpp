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
      tied(family == Family::GPT) {}

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
  if (!gpt && model.headDim % 2)
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
        "dropout is not part of a llama model, expected 0 (gpt has it)");
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
