//===- GPT.cpp - GPT-2 ----------------------------------------------------===//
//
// Radford et al. 2019, with names and layouts of Hugging Face's
// GPT2LMHeadModel: matrices are stored [in, out] ("Conv1D"), and query, key and
// value have one matrix, side by side.
//
//===----------------------------------------------------------------------===//

#include "models/Builder.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::models;

namespace {
class GPT : public models::Builder {
public:
  using Builder::Builder;

private:
  StringRef prefix() const override { return "transformer."; }
  StringRef layerPrefix() const override { return "h."; }
  StringRef embeddingName() const override { return "wte.weight"; }
  bool hasRotaryPositions() const override { return false; }

  Parameters embeddingParameters() const override;
  Parameters blockParameters(unsigned kind) const override;
  Parameters finalParameters() const override;

  Value embed(Value tokens) override;
  Value block(unsigned kind, Value x) override;
  Value finish(Value x) override;

  Value normalize(StringRef name, StringRef norm, Value x);
  /// Part `index` of the fused projection: 0 query, 1 key, 2 value.
  Value project(StringRef name, int64_t index, Value x, Value weights,
                Value biases);
};
} // namespace

using Kind = Parameter::Kind;

Parameters GPT::embeddingParameters() const {
  return {
      {"wte.weight",
       Kind::Matrix,
       {model.vocab, model.hidden},
       {"vocab", "embed"}},
      // Positions have no axis: a table that context parallelism cut would not
      // fit a sequence that it deals out in another order, or a shorter one.
      {"wpe.weight",
       Kind::Matrix,
       {model.positions, model.hidden},
       {"_", "embed"}},
  };
}

Parameters GPT::blockParameters(unsigned) const {
  int64_t h = model.hidden, f = model.ffn, width = model.heads * model.headDim;
  return {
      {"ln_1.weight", Kind::Norm, {h}, {"embed"}},
      {"ln_1.bias", Kind::Bias, {h}, {"embed"}},
      // Query, key and value in turn, and in each of them the heads in turn.
      {"attn.c_attn.weight", Kind::Matrix, {h, 3 * width}, {"embed", "heads"}},
      {"attn.c_attn.bias", Kind::Bias, {3 * width}, {"heads"}},
      {"attn.c_proj.weight",
       Kind::OutputMatrix,
       {width, h},
       {"heads", "embed"}},
      {"attn.c_proj.bias", Kind::Bias, {h}, {"embed"}},
      {"ln_2.weight", Kind::Norm, {h}, {"embed"}},
      {"ln_2.bias", Kind::Bias, {h}, {"embed"}},
      {"mlp.c_fc.weight", Kind::Matrix, {h, f}, {"embed", "mlp"}},
      {"mlp.c_fc.bias", Kind::Bias, {f}, {"mlp"}},
      {"mlp.c_proj.weight", Kind::OutputMatrix, {f, h}, {"mlp", "embed"}},
      {"mlp.c_proj.bias", Kind::Bias, {h}, {"embed"}},
  };
}

Parameters GPT::finalParameters() const {
  return {
      {"ln_f.weight", Kind::Norm, {model.hidden}, {"embed"}},
      {"ln_f.bias", Kind::Bias, {model.hidden}, {"embed"}},
  };
}

Value GPT::normalize(StringRef name, StringRef norm, Value x) {
  return make<nn::LayerNormOp>(name, x, get((norm + ".weight").str()),
                               get((norm + ".bias").str()),
                               number(model.normEps));
}

Value GPT::embed(Value tokens) {
  Value rows = make<nn::EmbeddingOp>("token_rows", get("wte.weight"), tokens);
  Value positions = get("wpe.weight");
  if (model.positions != model.seq)
    positions =
        slice("position_rows", positions, {0, 0}, {model.seq, model.hidden});
  Value x = add("embedded", rows, positions);
  if (model.dropout != 0)
    x = dropout("embedded.kept", x, integer("stream", 0));
  return x;
}

// The parts are cut from the weights, which are smaller than the activations of
// a batch, and before the product, so that the heads are a dimension all the
// way.
Value GPT::project(StringRef name, int64_t index, Value x, Value weights,
                   Value biases) {
  int64_t h = model.hidden, heads = model.heads, d = model.headDim;
  auto called = [&](StringRef suffix) { return (name + suffix).str(); };
  Value weightPart = slice(called(".weight.part"), weights, {0, index, 0, 0},
                           {h, 1, heads, d});
  Value weight = reshape(called(".weight"), weightPart, {h, heads, d});
  Value biasPart =
      slice(called(".bias.part"), biases, {index, 0, 0}, {1, heads, d});
  Value bias = reshape(called(".bias"), biasPart, {heads, d});
  Value product = einsum(called(".product"), "bse,ehd->bshd", x, weight);
  return add(name, product, bias);
}

Value GPT::block(unsigned, Value x) {
  int64_t h = model.hidden, heads = model.heads, d = model.headDim;
  Value stream = model.dropout != 0 ? get("stream") : Value();

  Value input = normalize("attn.input", "ln_1", x);
  Value weights =
      reshape("qkv.weight", get("attn.c_attn.weight"), {h, 3, heads, d});
  Value biases = reshape("qkv.bias", get("attn.c_attn.bias"), {3, heads, d});
  Value query = project("query", 0, input, weights, biases);
  Value key = project("key", 1, input, weights, biases);
  Value value = project("value", 2, input, weights, biases);
  Value attended = attention("attended", query, key, value);
  Value outputWeight =
      reshape("attn.weight", get("attn.c_proj.weight"), {heads, d, h});
  Value attentionProduct =
      einsum("attn.product", "bshd,hde->bse", attended, outputWeight);
  Value attentionOutput =
      add("attn.output", attentionProduct, get("attn.c_proj.bias"));
  if (model.dropout != 0)
    attentionOutput = dropout("attn.kept", attentionOutput, stream);
  x = add("residual", x, attentionOutput);

  Value mlpInput = normalize("mlp.input", "ln_2", x);
  Value upProduct =
      einsum("up.product", "bse,ef->bsf", mlpInput, get("mlp.c_fc.weight"));
  Value up = add("up", upProduct, get("mlp.c_fc.bias"));
  Value active = activate("active", up);
  Value downProduct =
      einsum("down.product", "bsf,fe->bse", active, get("mlp.c_proj.weight"));
  Value down = add("down", downProduct, get("mlp.c_proj.bias"));
  if (model.dropout != 0) {
    Value one = integer("one", 1);
    down = dropout("down.kept", down, add("stream.next", stream, one));
  }
  return add("output", x, down);
}

Value GPT::finish(Value x) { return normalize("normed", "ln_f", x); }

std::unique_ptr<models::Builder> models::createGPT(const Model &model) {
  return std::make_unique<GPT>(model);
}
