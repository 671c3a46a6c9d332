//===- Llama.cpp - Llama --------------------------------------------------===//
//
// Touvron et al. 2023, with names and layouts of Hugging Face's
// LlamaForCausalLM: matrices are stored [out, in].
//
//===----------------------------------------------------------------------===//

#include "models/Llama.h"

using namespace mlir;
using namespace sheaf;
using namespace sheaf::models;

using Kind = Parameter::Kind;

Parameters Llama::embeddingParameters() const {
  return {{"embed_tokens.weight",
           Kind::Matrix,
           {model.vocab, model.hidden},
           {"vocab", "embed"}}};
}

void Llama::addMatrix(Parameters &parameters, StringRef module, Kind kind,
                      int64_t out, StringRef outAxis, int64_t in,
                      StringRef inAxis, bool bias) {
  parameters.push_back(
      {(module + ".weight").str(), kind, {out, in}, {outAxis, inAxis}});
  if (bias)
    parameters.push_back(
        {(module + ".bias").str(), Kind::Bias, {out}, {outAxis}});
}

void Llama::addGatedParameters(Parameters &parameters, StringRef module,
                               int64_t hidden, int64_t width, bool bias) {
  auto called = [&](StringRef name) { return (module + name).str(); };
  addMatrix(parameters, called(".gate_proj"), Kind::Matrix, width, "mlp",
            hidden, "embed", bias);
  addMatrix(parameters, called(".up_proj"), Kind::Matrix, width, "mlp", hidden,
            "embed", bias);
  addMatrix(parameters, called(".down_proj"), Kind::OutputMatrix, hidden,
            "embed", width, "mlp", bias);
}

Parameters Llama::blockParameters(unsigned kind) const {
  int64_t h = model.hidden;
  Parameters parameters;
  parameters.push_back({"input_layernorm.weight", Kind::Norm, {h}, {"embed"}});
  addAttentionParameters(parameters);
  parameters.push_back(
      {"post_attention_layernorm.weight", Kind::Norm, {h}, {"embed"}});
  addFeedForwardParameters(parameters, kind);
  return parameters;
}

void Llama::addAttentionParameters(Parameters &parameters) const {
  int64_t h = model.hidden, d = model.headDim;
  int64_t width = model.heads * d, kvWidth = model.kvHeads * d;
  bool bias = model.attentionBias || model.queryBias;
  addMatrix(parameters, "self_attn.q_proj", Kind::Matrix, width, "heads", h,
            "embed", bias);
  addMatrix(parameters, "self_attn.k_proj", Kind::Matrix, kvWidth, "kv_heads",
            h, "embed", bias);
  addMatrix(parameters, "self_attn.v_proj", Kind::Matrix, kvWidth, "kv_heads",
            h, "embed", bias);
  addMatrix(parameters, "self_attn.o_proj", Kind::OutputMatrix, h, "embed",
            width, "heads", model.attentionBias);
  if (model.headNorm)
    for (const char *name : {"self_attn.q_norm", "self_attn.k_norm"})
      parameters.push_back(
          {std::string(name) + ".weight", Kind::Norm, {d}, {"_"}});
}

void Llama::addFeedForwardParameters(Parameters &parameters, unsigned) const {
  addGatedParameters(parameters, "mlp", model.hidden, model.ffn, model.mlpBias);
}

Parameters Llama::finalParameters() const {
  return {{"norm.weight", Kind::Norm, {model.hidden}, {"embed"}}};
}

Value Llama::normalize(StringRef name, StringRef weight, Value x,
                       std::optional<double> eps) {
  return make<nn::RMSNormOp>(name, x, get(weight),
                             number(eps.value_or(model.normEps)));
}

Value Llama::embed(Value tokens) {
  return make<nn::EmbeddingOp>("embedded", get("embed_tokens.weight"), tokens);
}

Value Llama::projectToHeads(StringRef name, StringRef module, int64_t heads,
                            Value x, bool bias) {
  int64_t h = model.hidden, d = model.headDim;
  auto called = [&](StringRef suffix) { return (name + suffix).str(); };
  Value weight = reshape(called(".weight"), get((module + ".weight").str()),
                         {heads, d, h});
  Value product = einsum(bias ? called(".product") : name.str(),
                         "bse,hde->bshd", x, weight);
  if (!bias)
    return product;
  Value biases =
      reshape(called(".bias"), get((module + ".bias").str()), {heads, d});
  return add(name, product, biases);
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

Value Llama::gatedMLP(StringRef name, StringRef module, Value input,
                      bool bias) {
  auto called = [&](StringRef value) { return (name + value).str(); };
  auto part = [&](StringRef suffix) { return (module + suffix).str(); };
  auto widen = [&](StringRef value, StringRef matrix) {
    Value product = einsum(called(value), "bse,fe->bsf", input,
                           get(part((matrix + ".weight").str())));
    return addBias(called(value), bias, part((matrix + ".bias").str()),
                   product);
  };
  Value gate = widen("gate", ".gate_proj");
  Value up = widen("up", ".up_proj");
  Value active = activate(called("active"), gate);
  Value gated = make<nn::MulOp>(called("gated"), active, up);
  return addBias(called("down"), bias, part(".down_proj.bias"),
                 einsum(called("down"), "bsf,ef->bse", gated,
                        get(part(".down_proj.weight"))));
}

Value Llama::attend(Value input) {
  int64_t h = model.hidden, heads = model.heads, d = model.headDim;
  bool bias = model.attentionBias || model.queryBias;
  Value query = projectToHeads("query", "self_attn.q_proj", heads, input, bias);
  Value key =
      projectToHeads("key", "self_attn.k_proj", model.kvHeads, input, bias);
  Value value =
      projectToHeads("value", "self_attn.v_proj", model.kvHeads, input, bias);
  if (model.headNorm) {
    query = normalize("query.normed", "self_attn.q_norm.weight", query);
    key = normalize("key.normed", "self_attn.k_norm.weight", key);
  }
  query = rotate("query.turned", query);
  key = rotate("key.turned", key);
  Value attended = attention("attended", query, key, value);
  Value outputWeight =
      reshape("attn.weight", get("self_attn.o_proj.weight"), {h, heads, d});
  return addBias(
      "attn.output", model.attentionBias, "self_attn.o_proj.bias",
      einsum("attn.output", "bshd,ehd->bse", attended, outputWeight));
}

Value Llama::feedForward(unsigned, Value input) {
  return gatedMLP("", "mlp", input, model.mlpBias);
}

Value Llama::block(unsigned kind, Value x) {
  Value input = normalize("attn.input", "input_layernorm.weight", x);
  x = add("residual", x, attend(input));
  Value mlpInput = normalize("mlp.input", "post_attention_layernorm.weight", x);
  return add("output", x, feedForward(kind, mlpInput));
}

Value Llama::finish(Value x) { return normalize("normed", "norm.weight", x); }

std::unique_ptr<models::Builder> models::createLlama(const Model &model) {
  return std::make_unique<Llama>(model);
}
