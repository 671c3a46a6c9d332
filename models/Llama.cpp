//===- Llama.cpp - Llama --------------------------------------------------===//
//
// Touvron et al. 2023, with names and layouts of Hugging Face's
// LlamaForCausalLM: matrices are stored [out, in].
//
//===----------------------------------------------------------------------===//

#include "models/Builder.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::models;

namespace {
class Llama : public models::Builder {
public:
  using Builder::Builder;

private:
  StringRef prefix() const override { return "model."; }
  StringRef layerPrefix() const override { return "layers."; }
  StringRef embeddingName() const override { return "embed_tokens.weight"; }
  bool hasRotaryPositions() const override { return true; }

  Parameters embeddingParameters() const override;
  Parameters blockParameters() const override;
  Parameters finalParameters() const override;

  Value embed(Value tokens) override;
  Value block(Value x) override;
  Value finish(Value x) override;

  Value normalize(StringRef name, StringRef weight, Value x);
  /// x times the transpose of the matrix of `module`, split into heads; with
  /// its bias, if there is one.
  Value projectToHeads(StringRef name, StringRef module, int64_t heads,
                       Value x);
  /// The end of a product of the MLP or the attention: its bias, if there is
  /// one.
  Value addBias(StringRef name, bool has, StringRef bias, Value product);
  Value rotate(StringRef name, Value x);
};
} // namespace

using Kind = Parameter::Kind;

Parameters Llama::embeddingParameters() const {
  return {{"embed_tokens.weight",
           Kind::Matrix,
           {model.vocab, model.hidden},
           {"vocab", "embed"}}};
}

Parameters Llama::blockParameters() const {
  int64_t h = model.hidden, f = model.ffn;
  int64_t width = model.heads * model.headDim,
          kvWidth = model.kvHeads * model.headDim;
  Parameters parameters;
  auto matrix = [&](const char *module, Kind kind, int64_t out,
                    StringRef outAxis, int64_t in, StringRef inAxis,
                    bool bias) {
    parameters.push_back(
        {std::string(module) + ".weight", kind, {out, in}, {outAxis, inAxis}});
    if (bias)
      parameters.push_back(
          {std::string(module) + ".bias", Kind::Bias, {out}, {outAxis}});
  };
  parameters.push_back({"input_layernorm.weight", Kind::Norm, {h}, {"embed"}});
  bool bias = model.attentionBias;
  matrix("self_attn.q_proj", Kind::Matrix, width, "heads", h, "embed", bias);
  matrix("self_attn.k_proj", Kind::Matrix, kvWidth, "kv_heads", h, "embed",
         bias);
  matrix("self_attn.v_proj", Kind::Matrix, kvWidth, "kv_heads", h, "embed",
         bias);
  matrix("self_attn.o_proj", Kind::OutputMatrix, h, "embed", width, "heads",
         bias);
  parameters.push_back(
      {"post_attention_layernorm.weight", Kind::Norm, {h}, {"embed"}});
  bias = model.mlpBias;
  matrix("mlp.gate_proj", Kind::Matrix, f, "mlp", h, "embed", bias);
  matrix("mlp.up_proj", Kind::Matrix, f, "mlp", h, "embed", bias);
  matrix("mlp.down_proj", Kind::OutputMatrix, h, "embed", f, "mlp", bias);
  return parameters;
}

Parameters Llama::finalParameters() const {
  return {{"norm.weight", Kind::Norm, {model.hidden}, {"embed"}}};
}

Value Llama::normalize(StringRef name, StringRef weight, Value x) {
  return make<nn::RMSNormOp>(name, x, get(weight), number(model.normEps));
}

Value Llama::embed(Value tokens) {
  return make<nn::EmbeddingOp>("embedded", get("embed_tokens.weight"), tokens);
}

Value Llama::projectToHeads(StringRef name, StringRef module, int64_t heads,
                            Value x) {
  int64_t h = model.hidden, d = model.headDim;
  auto called = [&](StringRef suffix) { return (name + suffix).str(); };
  Value weight = reshape(called(".weight"), get((module + ".weight").str()),
                         {heads, d, h});
  Value product = einsum(model.attentionBias ? called(".product") : name.str(),
                         "bse,hde->bshd", x, weight);
  if (!model.attentionBias)
    return product;
  Value bias =
      reshape(called(".bias"), get((module + ".bias").str()), {heads, d});
  return add(name, product, bias);
}

Value Llama::addBias(StringRef name, bool has, StringRef bias, Value product) {
  if (!has)
    return named(name, product);
  return add(name, named((name + ".product").str(), product), get(bias));
}

Value Llama::rotate(StringRef name, Value x) {
  nn::RopeScalingAttr scaling;
  if (const auto &wish = model.ropeScaling)
    scaling = nn::RopeScalingAttr::get(
        x.getContext(), wish->kind, llvm::APFloat(wish->factor),
        llvm::APFloat(wish->low), llvm::APFloat(wish->high), wish->original);
  return make<nn::RotaryOp>(name, x, get("positions"), number(model.ropeTheta),
                            scaling,
                            /*inverse=*/UnitAttr());
}

Value Llama::block(Value x) {
  int64_t h = model.hidden, heads = model.heads, d = model.headDim;

  Value input = normalize("attn.input", "input_layernorm.weight", x);
  Value query = projectToHeads("query", "self_attn.q_proj", heads, input);
  Value key = projectToHeads("key", "self_attn.k_proj", model.kvHeads, input);
  Value value =
      projectToHeads("value", "self_attn.v_proj", model.kvHeads, input);
  query = rotate("query.turned", query);
  key = rotate("key.turned", key);
  Value attended = attention("attended", query, key, value);
  Value outputWeight =
      reshape("attn.weight", get("self_attn.o_proj.weight"), {h, heads, d});
  Value attentionOutput =
      addBias("attn.output", model.attentionBias, "self_attn.o_proj.bias",
              einsum("attn.output", "bshd,ehd->bse", attended, outputWeight));
  x = add("residual", x, attentionOutput);

  Value mlpInput = normalize("mlp.input", "post_attention_layernorm.weight", x);
  auto widen = [&](StringRef name, StringRef module) {
    Value product =
        einsum(name, "bse,fe->bsf", mlpInput, get((module + ".weight").str()));
    return addBias(name, model.mlpBias, (module + ".bias").str(), product);
  };
  Value gate = widen("gate", "mlp.gate_proj");
  Value up = widen("up", "mlp.up_proj");
  Value active = activate("active", gate);
  Value gated = make<nn::MulOp>("gated", active, up);
  Value down = addBias(
      "down", model.mlpBias, "mlp.down_proj.bias",
      einsum("down", "bsf,ef->bse", gated, get("mlp.down_proj.weight")));
  return add("output", x, down);
}

Value Llama::finish(Value x) { return normalize("normed", "norm.weight", x); }

std::unique_ptr<models::Builder> models::createLlama(const Model &model) {
  return std::make_unique<Llama>(model);
}
