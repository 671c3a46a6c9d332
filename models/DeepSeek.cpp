//===- DeepSeek.cpp - DeepSeek-V2 and V3 ----------------------------------===//
//
// DeepSeek-AI 2024 (V2, section 2; V3, section 2.1), with names and layouts of
// Hugging Face's DeepseekV2ForCausalLM and DeepseekV3ForCausalLM, without the
// head that predicts a second token.
//
//===----------------------------------------------------------------------===//

#include "models/Mixtral.h"
#include <cmath>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::models;

using Kind = Parameter::Kind;

/// Of the norms of narrow vectors, whatever that of the others.
static constexpr double kLatentEps = 1e-6;

namespace {
class DeepSeek : public Mixtral {
public:
  using Mixtral::Mixtral;

private:
  Names names() const override {
    return {"mlp", "gate_proj", "up_proj", "down_proj", "shared_experts"};
  }
  void addAttentionParameters(Parameters &parameters) const override;
  Value attend(Value input) override;
  Value turn(StringRef name, Value x);
};
} // namespace

void DeepSeek::addAttentionParameters(Parameters &parameters) const {
  const Latent &latent = *model.latent;
  int64_t h = model.hidden, heads = model.heads;
  int64_t width = heads * (latent.plain + latent.turned);
  if (latent.queryRank) {
    addMatrix(parameters, "self_attn.q_a_proj", Kind::Matrix, latent.queryRank,
              "_", h, "embed");
    parameters.push_back({"self_attn.q_a_layernorm.weight",
                          Kind::Norm,
                          {latent.queryRank},
                          {"_"}});
    addMatrix(parameters, "self_attn.q_b_proj", Kind::Matrix, width, "heads",
              latent.queryRank, "_");
  } else {
    addMatrix(parameters, "self_attn.q_proj", Kind::Matrix, width, "heads", h,
              "embed");
  }
  addMatrix(parameters, "self_attn.kv_a_proj_with_mqa", Kind::Matrix,
            latent.rank + latent.turned, "_", h, "embed");
  parameters.push_back(
      {"self_attn.kv_a_layernorm.weight", Kind::Norm, {latent.rank}, {"_"}});
  addMatrix(parameters, "self_attn.kv_b_proj", Kind::Matrix,
            heads * (latent.plain + latent.value), "heads", latent.rank, "_");
  addMatrix(parameters, "self_attn.o_proj", Kind::OutputMatrix, h, "embed",
            heads * latent.value, "heads");
}

/// Rotary positions of [batch, seq, heads, width]. The files have the two
/// numbers of a pair side by side; the op wants halves. Queries and keys are
/// put in order alike, which changes no score.
Value DeepSeek::turn(StringRef name, Value x) {
  if (model.latent->pairs) {
    SmallVector<int64_t> shape(cast<RankedTensorType>(x.getType()).getShape());
    SmallVector<int64_t> pairs(shape);
    pairs.back() /= 2;
    pairs.push_back(2);
    auto called = [&](StringRef suffix) { return (name + suffix).str(); };
    Value split = reshape(called(".pairs"), x, pairs);
    Value halves = make<nn::TransposeOp>(called(".halves"), split,
                                         ArrayRef<int64_t>{0, 1, 2, 4, 3});
    x = reshape(called(".ordered"), halves, shape);
  }
  return rotate(name, x);
}

Value DeepSeek::attend(Value input) {
  const Latent &latent = *model.latent;
  int64_t h = model.hidden, heads = model.heads, b = model.batch, s = model.seq;
  int64_t plain = latent.plain, turned = latent.turned;

  // Queries, by way of a narrow vector.
  Value query;
  if (latent.queryRank) {
    Value narrow = einsum("query.narrow", "bse,re->bsr", input,
                          get("self_attn.q_a_proj.weight"));
    Value normal = normalize("query.normal", "self_attn.q_a_layernorm.weight",
                             narrow, kLatentEps);
    Value weight = reshape("query.weight", get("self_attn.q_b_proj.weight"),
                           {heads, plain + turned, latent.queryRank});
    query = einsum("query", "bsr,hdr->bshd", normal, weight);
  } else {
    Value weight = reshape("query.weight", get("self_attn.q_proj.weight"),
                           {heads, plain + turned, h});
    query = einsum("query", "bse,hde->bshd", input, weight);
  }
  Value queryPlain =
      slice("query.plain", query, {0, 0, 0, 0}, {b, s, heads, plain});
  Value queryTurned =
      turn("query.turned", slice("query.positioned", query, {0, 0, 0, plain},
                                 {b, s, heads, turned}));
  query = make<nn::ConcatenateOp>("query.whole",
                                  ValueRange{queryPlain, queryTurned}, 3);

  // Keys and values from one narrow vector; one positioned key for all heads.
  Value latents = einsum("latent", "bse,re->bsr", input,
                         get("self_attn.kv_a_proj_with_mqa.weight"));
  Value narrow =
      normalize("latent.normal", "self_attn.kv_a_layernorm.weight",
                slice("latent.shared", latents, {0, 0, 0}, {b, s, latent.rank}),
                kLatentEps);
  Value keyTurned =
      slice("key.positioned", latents, {0, 0, latent.rank}, {b, s, turned});
  keyTurned =
      turn("key.turned", reshape("key.single", keyTurned, {b, s, 1, turned}));
  keyTurned =
      make<nn::BroadcastOp>("key.repeated", floats({b, s, heads, turned}),
                            keyTurned, ArrayRef<int64_t>{0, 1, 2, 3});
  Value weight = reshape("latent.weight", get("self_attn.kv_b_proj.weight"),
                         {heads, plain + latent.value, latent.rank});
  Value both = einsum("key_value", "bsr,hdr->bshd", narrow, weight);
  Value keyPlain = slice("key.plain", both, {0, 0, 0, 0}, {b, s, heads, plain});
  Value key =
      make<nn::ConcatenateOp>("key.whole", ValueRange{keyPlain, keyTurned}, 3);
  Value value =
      slice("value", both, {0, 0, 0, plain}, {b, s, heads, latent.value});

  double scale = latent.scale / std::sqrt(static_cast<double>(plain + turned));
  Value attended = attention("attended", query, key, value, scale);
  Value outputWeight = reshape("attn.weight", get("self_attn.o_proj.weight"),
                               {h, heads, latent.value});
  return einsum("attn.output", "bshd,ehd->bse", attended, outputWeight);
}

std::unique_ptr<models::Builder> models::createDeepSeek(const Model &model) {
  return std::make_unique<DeepSeek>(model);
}
