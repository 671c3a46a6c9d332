//===- HuggingFace.cpp - Reads config.json --------------------------------===//
//
// Fields and defaults are those of Hugging Face's GPT2Config, LlamaConfig,
// MistralConfig (a Llama with a sliding window), MixtralConfig, Qwen2MoeConfig,
// Qwen3MoeConfig, DeepseekV2Config and DeepseekV3Config.
//
//===----------------------------------------------------------------------===//

#include "models/Models.h"
#include "support/Shown.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>
#include <map>

using namespace sheaf::models;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

namespace {

/// Fields that do not change the function: tokens, files, generation, heads for
/// other tasks, and how the weights are stored.
constexpr StringRef kHarmless[] = {"_attn_implementation",
                                   "_attn_implementation_autoset",
                                   "_commit_hash",
                                   "_name_or_path",
                                   "architectures",
                                   "attn_implementation",
                                   "auto_map",
                                   "bad_words_ids",
                                   "begin_suppress_tokens",
                                   "bos_token_id",
                                   "chunk_size_feed_forward",
                                   "decoder_start_token_id",
                                   "diversity_penalty",
                                   "do_sample",
                                   "dtype",
                                   "early_stopping",
                                   "encoder_no_repeat_ngram_size",
                                   "eos_token_id",
                                   "exponential_decay_length_penalty",
                                   "finetuning_task",
                                   "forced_bos_token_id",
                                   "forced_eos_token_id",
                                   "gradient_checkpointing",
                                   "id2label",
                                   "is_decoder",
                                   "keys_to_ignore_at_inference",
                                   "label2id",
                                   "length_penalty",
                                   "max_length",
                                   "min_length",
                                   "n_ctx",
                                   "no_repeat_ngram_size",
                                   "num_beam_groups",
                                   "num_beams",
                                   "num_return_sequences",
                                   "output_attentions",
                                   "output_hidden_states",
                                   "output_past",
                                   "output_scores",
                                   "pad_token_id",
                                   "prefix",
                                   "problem_type",
                                   "remove_invalid_values",
                                   "repetition_penalty",
                                   "return_dict",
                                   "return_dict_in_generate",
                                   "sep_token_id",
                                   "summary_activation",
                                   "summary_first_dropout",
                                   "summary_proj_to_labels",
                                   "summary_type",
                                   "summary_use_proj",
                                   "suppress_tokens",
                                   "task_specific_params",
                                   "temperature",
                                   "tf_legacy_loss",
                                   "tokenizer_class",
                                   "top_k",
                                   "top_p",
                                   "torch_dtype",
                                   "torchscript",
                                   "transformers_version",
                                   "typical_p",
                                   "unsloth_fixed",
                                   "unsloth_version",
                                   "use_bfloat16",
                                   "use_cache"};

/// Fields that are supported with one value only (or absent, or null).
struct Fixed {
  StringRef name;
  json::Value value;
};
const Fixed *fixedFields(size_t &count) {
  static const Fixed fields[] = {
      {"add_cross_attention", false},
      {"attention_chunk_size", nullptr},
      {"attention_multiplier", nullptr},
      {"attn_logit_softcapping", nullptr},
      {"cross_attention_hidden_size", nullptr},
      {"embedding_multiplier", 1},
      {"final_logit_softcapping", nullptr},
      {"is_encoder_decoder", false},
      {"logits_scaling", 1},
      {"no_rope_layers", nullptr},
      {"n_routed_experts", nullptr},
      {"num_experts", nullptr},
      {"num_local_experts", nullptr},
      {"partial_rotary_factor", 1},
      {"pretraining_tp", 1},
      {"pruned_heads", json::Object()},
      {"qk_norm", false},
      {"quantization_config", nullptr},
      {"reorder_and_upcast_attn", false},
      {"residual_multiplier", 1},
      {"rope_interleave", false},
      {"rope_interleaved", false},
      {"scale_attn_by_inverse_layer_idx", false},
      {"scale_attn_weights", true},
      {"tie_encoder_decoder", false},
      {"use_qk_norm", false},
  };
  count = std::size(fields);
  return fields;
}

std::string text(const json::Value &value) {
  std::string result;
  llvm::raw_string_ostream os(result);
  // The JSON printer writes 0.1 with 17 digits.
  if (auto number = value.getAsNumber())
    os << llvm::format("%.15g", *number);
  else
    os << value;
  return sheaf::shown(result);
}

bool isSame(const json::Value &a, const json::Value &b) {
  auto x = a.getAsNumber(), y = b.getAsNumber();
  return x && y ? *x == *y : a == b;
}

/// The fields of an object, by type, with errors that name file and field. Null
/// is the same as absent. Remembers what was asked for.
class Fields {
public:
  Fields(StringRef path, std::string prefix, const json::Object &object)
      : path(path), prefix(std::move(prefix)), object(object) {}

  Error error(const Twine &message) const {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   path + ": " + message);
  }
  Error unexpected(StringRef name, const json::Value &value,
                   const Twine &expected) const {
    return error("field '" + prefix + name + "' is " + text(value) +
                 ", expected " + expected);
  }

  const json::Value *find(StringRef name) {
    seen.insert(name);
    const json::Value *value = object.get(name);
    return value && value->kind() != json::Value::Null ? value : nullptr;
  }

  /// Each leaves `result` as it is where the field is absent.
  Error integer(StringRef name, int64_t &result) {
    const json::Value *value = find(name);
    if (!value)
      return Error::success();
    auto number = value->getAsInteger();
    if (!number || *number < 1)
      return unexpected(name, *value, "a whole number of at least 1");
    result = *number;
    return Error::success();
  }
  Error requiredInteger(StringRef name, int64_t &result) {
    if (!find(name))
      return error("field '" + prefix + name +
                   "' is missing, expected a whole number of at least 1");
    return integer(name, result);
  }
  Error number(StringRef name, double &result) {
    const json::Value *value = find(name);
    if (!value)
      return Error::success();
    auto number = value->getAsNumber();
    if (!number)
      return unexpected(name, *value, "a number");
    result = *number;
    return Error::success();
  }
  Error requiredNumber(StringRef name, double &result) {
    if (!find(name))
      return error("field '" + prefix + name +
                   "' is missing, expected a number");
    return number(name, result);
  }
  Error boolean(StringRef name, bool &result) {
    const json::Value *value = find(name);
    if (!value)
      return Error::success();
    auto flag = value->getAsBoolean();
    if (!flag)
      return unexpected(name, *value, "true or false");
    result = *flag;
    return Error::success();
  }
  Error string(StringRef name, StringRef &result) {
    const json::Value *value = find(name);
    if (!value)
      return Error::success();
    auto characters = value->getAsString();
    if (!characters)
      return unexpected(name, *value, "a string");
    result = *characters;
    return Error::success();
  }

  /// `others` are read elsewhere.
  Error checkFixed(llvm::ArrayRef<StringRef> others) {
    size_t count;
    const Fixed *fixed = fixedFields(count);
    for (const Fixed &field : llvm::ArrayRef(fixed, count)) {
      if (llvm::is_contained(others, field.name))
        continue;
      const json::Value *value = find(field.name);
      if (!value || isSame(*value, field.value))
        continue;
      bool absent = field.value.kind() == json::Value::Null;
      return error("field '" + prefix + field.name + "' is " + text(*value) +
                   ", which is not supported; supported: " +
                   (absent ? Twine("null") : Twine(text(field.value))));
    }
    return Error::success();
  }

  /// Names what nobody asked for, in order.
  void warnOfUnknown(llvm::raw_ostream &notes) const {
    std::map<StringRef, const json::Value *> unknown;
    for (const auto &[key, value] : object)
      if (!seen.contains(key) && value.kind() != json::Value::Null &&
          !llvm::is_contained(kHarmless, StringRef(key)))
        unknown[key] = &value;
    for (const auto &[key, value] : unknown)
      notes << "warning: " << path << ": field '" << prefix << key << "' ("
            << text(*value) << ") is not known and has no effect\n";
  }

private:
  StringRef path;
  std::string prefix;
  const json::Object &object;
  llvm::StringSet<> seen;
};

Error readActivation(Fields &fields, StringRef name, Activation &result) {
  StringRef activation;
  if (Error e = fields.string(name, activation))
    return e;
  if (activation.empty())
    return Error::success();
  auto known =
      llvm::StringSwitch<std::optional<Activation>>(activation)
          .Cases({"gelu_new", "gelu_pytorch_tanh"}, Activation::GeluTanh)
          .Case("gelu", Activation::Gelu)
          .Case("relu", Activation::Relu)
          .Cases({"silu", "swish"}, Activation::Silu)
          .Default(std::nullopt);
  if (!known)
    return fields.unexpected(name, activation, "gelu_new, gelu, relu or silu");
  result = *known;
  return Error::success();
}

/// Says that the file asks for dropout; `names` are its fields.
Error noteDropout(Fields &fields, StringRef path,
                  llvm::ArrayRef<StringRef> names, const Twine &advice,
                  llvm::raw_ostream &notes) {
  std::string asked;
  for (StringRef name : names) {
    double rate = 0;
    if (Error e = fields.number(name, rate))
      return e;
    if (rate != 0)
      asked +=
          (Twine(asked.empty() ? "" : ", ") + name + " = " + text(rate)).str();
  }
  if (!asked.empty() && !advice.isTriviallyEmpty())
    notes << "note: " << path << ": dropout (" << asked << ") is " << advice
          << "\n";
  return Error::success();
}

Error readGPT(Fields &fields, StringRef path, Model &model, bool dropoutChosen,
              llvm::raw_ostream &notes) {
  if (Error e = fields.requiredInteger("n_layer", model.layers))
    return e;
  if (Error e = fields.requiredInteger("n_embd", model.hidden))
    return e;
  if (Error e = fields.requiredInteger("n_head", model.heads))
    return e;
  if (Error e = fields.requiredInteger("vocab_size", model.vocab))
    return e;
  if (Error e = fields.integer("n_inner", model.ffn))
    return e;
  if (Error e = fields.integer("n_positions", model.positions))
    return e;
  if (Error e = readActivation(fields, "activation_function", model.activation))
    return e;
  if (Error e = fields.number("layer_norm_epsilon", model.normEps))
    return e;
  if (Error e = noteDropout(
          fields, path, {"embd_pdrop", "resid_pdrop"},
          dropoutChosen ? "" : "off unless --dropout is given", notes))
    return e;
  return noteDropout(fields, path, {"attn_pdrop"},
                     "off: that of attention probabilities is not supported",
                     notes);
}

/// The fields of `yarn` in DeepSeek's files. The factor of cosines and sines is
/// 1 where both of `mscale` are the same; that of the scores is its square.
Error readYarn(Fields &rope, Model &model, RopeScaling &result) {
  result.low = 1;
  result.high = 32;
  if (Error e = rope.number("beta_slow", result.low))
    return e;
  if (Error e = rope.number("beta_fast", result.high))
    return e;
  if (!(result.low > 0 && result.low < result.high))
    return rope.unexpected("beta_slow", result.low,
                           "a positive number less than beta_fast, which is " +
                               text(result.high));
  if (Error e = rope.requiredInteger("original_max_position_embeddings",
                                     result.original))
    return e;
  double scale = 0, allScale = 0;
  if (Error e = rope.requiredNumber("mscale", scale))
    return e;
  if (Error e = rope.requiredNumber("mscale_all_dim", allScale))
    return e;
  if (!model.latent || scale != allScale)
    return rope.unexpected("mscale", scale,
                           "the value of 'mscale_all_dim', " + text(allScale) +
                               ", in a model of DeepSeek; others are not "
                               "supported");
  double factor =
      result.factor > 1 ? 0.1 * allScale * std::log(result.factor) + 1 : 1;
  model.latent->scale = factor * factor;
  return Error::success();
}

/// The rotary frequencies: `rope_theta` and `rope_scaling`, or both in
/// `rope_parameters` (Transformers 5).
Error readRope(Fields &fields, StringRef path, Model &model,
               llvm::raw_ostream &notes) {
  if (Error e = fields.number("rope_theta", model.ropeTheta))
    return e;
  int64_t original = 0;
  if (Error e = fields.integer("original_max_position_embeddings", original))
    return e;
  const json::Value *scaling = fields.find("rope_scaling");
  const json::Value *parameters = fields.find("rope_parameters");
  if (scaling && parameters)
    return fields.error("fields 'rope_scaling' and 'rope_parameters' are both "
                        "given, expected one");
  StringRef name = parameters ? "rope_parameters" : "rope_scaling";
  if (parameters)
    scaling = parameters;
  if (!scaling)
    return Error::success();
  if (!scaling->getAsObject())
    return fields.unexpected(name, *scaling, "an object");

  Fields rope(path, (name + ".").str(), *scaling->getAsObject());
  if (Error e = rope.number("rope_theta", model.ropeTheta))
    return e;
  double rotaryPart = 1;
  if (Error e = rope.number("partial_rotary_factor", rotaryPart))
    return e;
  if (rotaryPart != 1)
    return rope.unexpected("partial_rotary_factor", rotaryPart,
                           "1; others are not supported");
  // Older files say `type`; some say both.
  StringRef kind = "default", oldKind;
  if (Error e = rope.string("type", oldKind))
    return e;
  if (!oldKind.empty())
    kind = oldKind;
  if (Error e = rope.string("rope_type", kind))
    return e;
  if (!oldKind.empty() && oldKind != kind)
    return rope.unexpected("type", oldKind,
                           "the value of 'rope_type', \"" + kind + "\"");

  RopeScaling result;
  result.kind = kind.str();
  if (kind == "linear" || kind == "llama3" || kind == "yarn") {
    if (Error e = rope.requiredNumber("factor", result.factor))
      return e;
    if (!(result.factor > 0))
      return rope.unexpected("factor", result.factor, "a positive number");
  } else if (kind != "default") {
    return rope.unexpected(
        rope.find("rope_type") ? "rope_type" : "type", kind,
        "\"default\", \"linear\", \"llama3\" or \"yarn\"; others are not "
        "supported");
  }
  if (kind == "yarn")
    if (Error e = readYarn(rope, model, result))
      return e;
  if (kind == "llama3") {
    if (Error e = rope.requiredNumber("low_freq_factor", result.low))
      return e;
    if (Error e = rope.requiredNumber("high_freq_factor", result.high))
      return e;
    result.original = original;
    if (Error e = original
                      ? rope.integer("original_max_position_embeddings",
                                     result.original)
                      : rope.requiredInteger("original_max_position_embeddings",
                                             result.original))
      return e;
    if (!(result.low > 0 && result.low < result.high))
      return rope.unexpected(
          "low_freq_factor", result.low,
          "a positive number less than high_freq_factor, which is " +
              text(result.high));
  }
  rope.warnOfUnknown(notes);
  if (kind != "default")
    model.ropeScaling = result;
  return Error::success();
}

/// `sliding_window`, which must hold for all layers or none.
Error readWindow(Fields &fields, Model &model) {
  int64_t window = 0, firstWindowed = model.layers;
  bool used = true;
  if (Error e = fields.integer("sliding_window", window))
    return e;
  if (Error e = fields.boolean("use_sliding_window", used))
    return e;
  const json::Value *first = fields.find("max_window_layers");
  if (window == 0 || !used)
    firstWindowed = 0;
  if (first && firstWindowed)
    return fields.unexpected(
        "max_window_layers", *first,
        "none: a sliding window in some of the layers is not supported");
  bool windowed = window != 0 && used;
  if (const json::Value *types = fields.find("layer_types")) {
    const json::Array *list = types->getAsArray();
    if (!list || list->empty())
      return fields.unexpected("layer_types", *types, "a list of strings");
    for (const json::Value &type : *list) {
      auto kind = type.getAsString();
      if (!kind || (*kind != "full_attention" && *kind != "sliding_attention"))
        return fields.unexpected(
            "layer_types", *types,
            "\"full_attention\" or \"sliding_attention\" in all layers");
      if (type != list->front())
        return fields.unexpected(
            "layer_types", *types,
            "the same type in all layers; a mixture is not supported");
    }
    bool sliding = *list->front().getAsString() == "sliding_attention";
    if (sliding && !windowed)
      return fields.unexpected(
          "layer_types", *types,
          "\"full_attention\", as there is no sliding_window");
    windowed = sliding;
  }
  if (windowed)
    model.window = window;
  return Error::success();
}

Error readLlama(Fields &fields, StringRef path, Model &model,
                llvm::raw_ostream &notes) {
  model.normEps =
      1e-6; // LlamaConfig's default, not that of the released models
  if (Error e = fields.requiredInteger("num_hidden_layers", model.layers))
    return e;
  if (Error e = fields.requiredInteger("hidden_size", model.hidden))
    return e;
  if (Error e = fields.requiredInteger("num_attention_heads", model.heads))
    return e;
  if (Error e = fields.requiredInteger("vocab_size", model.vocab))
    return e;
  if (Error e = fields.requiredInteger("intermediate_size", model.ffn))
    return e;
  if (Error e = fields.integer("num_key_value_heads", model.kvHeads))
    return e;
  if (Error e = fields.integer("head_dim", model.headDim))
    return e;
  if (Error e = readActivation(fields, "hidden_act", model.activation))
    return e;
  if (Error e = fields.number("rms_norm_eps", model.normEps))
    return e;
  if (Error e = fields.boolean("attention_bias", model.attentionBias))
    return e;
  if (Error e = fields.boolean("mlp_bias", model.mlpBias))
    return e;
  int64_t longest = 0;
  if (Error e = fields.integer("max_position_embeddings", longest))
    return e;
  if (longest && model.seq > longest)
    notes << "warning: " << path << ": seq is " << model.seq
          << ", but the model is meant for at most " << longest
          << " tokens (max_position_embeddings)\n";
  if (Error e = readRope(fields, path, model, notes))
    return e;
  if (Error e = readWindow(fields, model))
    return e;
  return noteDropout(fields, path, {"attention_dropout"},
                     "off: that of attention probabilities is not supported",
                     notes);
}

/// A field with a list that must be empty: layers that differ from the others.
Error readNoLayers(Fields &fields, StringRef name) {
  const json::Value *value = fields.find(name);
  if (!value || (value->getAsArray() && value->getAsArray()->empty()))
    return Error::success();
  return fields.unexpected(name, *value, "[]; others are not supported");
}

/// What files with experts call their losses. The loss that balances is part of
/// the model's only where its logits are asked for.
Error readRouterLoss(Fields &fields, StringRef name, Experts &experts) {
  double weight = 0.001;
  bool used = false;
  if (Error e = fields.number(name, weight))
    return e;
  if (Error e = fields.boolean("output_router_logits", used))
    return e;
  experts.balanceLoss = used ? weight : 0;
  return Error::success();
}

Error readMixtral(Fields &fields, StringRef path, Model &model,
                  llvm::raw_ostream &notes) {
  Experts &experts = *model.experts;
  if (Error e = readLlama(fields, path, model, notes))
    return e;
  if (Error e = fields.integer("num_local_experts", experts.count))
    return e;
  if (Error e = fields.integer("num_experts_per_tok", experts.perToken))
    return e;
  double jitter = 0;
  if (Error e = fields.number("router_jitter_noise", jitter))
    return e;
  if (jitter != 0)
    return fields.unexpected("router_jitter_noise", jitter,
                             "0; others are not supported");
  return readRouterLoss(fields, "router_aux_loss_coef", experts);
}

Error readQwen(Fields &fields, StringRef path, StringRef type, Model &model,
               llvm::raw_ostream &notes) {
  Experts &experts = *model.experts;
  bool second = type != "qwen3_moe";
  experts.count = second ? 60 : 128;
  experts.perToken = second ? 4 : 8;
  experts.normalised = false;
  model.headNorm = !second;
  if (Error e = readLlama(fields, path, model, notes))
    return e;
  if (second) {
    model.queryBias = true;
    if (Error e = fields.boolean("qkv_bias", model.queryBias))
      return e;
    experts.sharedGate = true;
    if (Error e = fields.requiredInteger("shared_expert_intermediate_size",
                                         experts.sharedFfn))
      return e;
  }
  if (Error e = fields.integer("num_experts", experts.count))
    return e;
  if (Error e = fields.integer("num_experts_per_tok", experts.perToken))
    return e;
  if (Error e = fields.requiredInteger("moe_intermediate_size", experts.ffn))
    return e;
  if (Error e = fields.boolean("norm_topk_prob", experts.normalised))
    return e;
  int64_t step = 1;
  if (Error e = fields.integer("decoder_sparse_step", step))
    return e;
  if (step != 1)
    return fields.unexpected("decoder_sparse_step", step,
                             "1; others are not supported");
  if (Error e = readNoLayers(fields, "mlp_only_layers"))
    return e;
  return readRouterLoss(fields, "router_aux_loss_coef", experts);
}

/// `integer` that may be 0.
Error readCount(Fields &fields, StringRef name, int64_t &result) {
  const json::Value *value = fields.find(name);
  if (!value)
    return Error::success();
  auto number = value->getAsInteger();
  if (!number || *number < 0)
    return fields.unexpected(name, *value, "a whole number of at least 0");
  result = *number;
  return Error::success();
}

Error readDeepSeek(Fields &fields, StringRef path, StringRef type, Model &model,
                   llvm::raw_ostream &notes) {
  Experts &experts = *model.experts;
  Latent &latent = *model.latent;
  bool third = type != "deepseek_v2";
  // Defaults of DeepseekV3Config and DeepseekV2Config.
  experts.sigmoid = third;
  experts.normalised = third;
  experts.scale = third ? 2.5 : 1;
  experts.count = third ? 256 : 64;
  experts.perToken = third ? 8 : 2;
  experts.shared = third ? 1 : 2;
  experts.denseLayers = third ? 3 : 0;
  if (Error e = readLlama(fields, path, model, notes))
    return e;
  for (auto [name, size] :
       {std::pair<StringRef, int64_t *>{"kv_lora_rank", &latent.rank},
        {"qk_rope_head_dim", &latent.turned},
        {"qk_nope_head_dim", &latent.plain},
        {"v_head_dim", &latent.value},
        {"moe_intermediate_size", &experts.ffn}})
    if (Error e = fields.requiredInteger(name, *size))
      return e;
  if (Error e = fields.integer("q_lora_rank", latent.queryRank))
    return e;
  if (Error e = fields.boolean("rope_interleave", latent.pairs))
    return e;
  if (Error e = fields.integer("n_routed_experts", experts.count))
    return e;
  if (Error e = fields.integer("num_experts_per_tok", experts.perToken))
    return e;
  if (Error e = readCount(fields, "n_shared_experts", experts.shared))
    return e;
  if (Error e = readCount(fields, "first_k_dense_replace", experts.denseLayers))
    return e;
  if (Error e = fields.boolean("norm_topk_prob", experts.normalised))
    return e;
  if (Error e = fields.number("routed_scaling_factor", experts.scale))
    return e;
  int64_t frequency = 1;
  if (Error e = fields.integer("moe_layer_freq", frequency))
    return e;
  if (frequency != 1)
    return fields.unexpected("moe_layer_freq", frequency,
                             "1; others are not supported");
  StringRef scoring = third ? "sigmoid" : "softmax";
  if (Error e = fields.string("scoring_func", scoring))
    return e;
  if (scoring != "sigmoid" && scoring != "softmax")
    return fields.unexpected("scoring_func", scoring,
                             "\"sigmoid\" or \"softmax\"");
  experts.sigmoid = scoring == "sigmoid";
  StringRef method = third ? "noaux_tc" : "greedy";
  if (Error e = fields.string("topk_method", method))
    return e;
  experts.bias = method == "noaux_tc";
  experts.biasRate = experts.bias ? 0.001 : 0;
  // V3 takes the two best of a group together, V2 the best.
  experts.groupBest = experts.bias ? 2 : 1;
  int64_t groups = third ? 8 : 1, kept = third ? 4 : 1;
  if (Error e = fields.integer("n_group", groups))
    return e;
  if (Error e = fields.integer("topk_group", kept))
    return e;
  if (method == "noaux_tc" || method == "group_limited_greedy") {
    experts.groups = groups;
    experts.groupsKept = kept;
  } else if (method != "greedy") {
    return fields.unexpected(
        "topk_method", method,
        "\"noaux_tc\", \"group_limited_greedy\" or \"greedy\"");
  }
  // V2 does not weigh normalised scores.
  if (!third && experts.normalised)
    experts.scale = 1;
  // How the weights are stored, not what they are multiplied with.
  if (const json::Value *stored = fields.find("quantization_config")) {
    const json::Object *object = stored->getAsObject();
    auto quantised = object ? object->getString("quant_method") : std::nullopt;
    if (!quantised || *quantised != "fp8")
      return fields.unexpected("quantization_config", *stored,
                               "null, or one with the quant_method \"fp8\"");
    notes << "note: " << path << ": the weights are stored in blocks of fp8 "
          << "(quantization_config); convert them before they are loaded\n";
  }
  // What trains: the losses of its own code, and a head that is left out.
  for (StringRef name : {"aux_loss_alpha", "seq_aux", "ep_size"})
    fields.find(name);
  int64_t heads = 0;
  if (Error e = readCount(fields, "num_nextn_predict_layers", heads))
    return e;
  if (heads)
    notes << "note: " << path << ": the head that predicts a second token "
          << "(num_nextn_predict_layers = " << heads << ") is left out\n";
  return Error::success();
}

/// LLVM's parser recurses; a file that nests deeper than any config is refused.
bool isNestedTooDeep(StringRef text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  for (char c : text) {
    if (c == '[' || c == '{')
      ++depth;
    if (c == ']' || c == '}')
      --depth;
    if (depth > kDeepest)
      return true;
  }
  return false;
}
} // namespace

Error sheaf::models::readHuggingFaceConfig(StringRef path, Model &model,
                                           bool dropoutChosen,
                                           llvm::raw_ostream &notes) {
  auto error = [&](const Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   path + ": " + message);
  };
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return error("cannot read the file: " + Twine(buffer.getError().message()));
  StringRef contents = (*buffer)->getBuffer();
  if (isNestedTooDeep(contents))
    return error("expected a JSON object with the fields of a model, found one "
                 "nested too deep");
  llvm::Expected<json::Value> value = json::parse(contents);
  if (!value) {
    // "[line:column, byte=offset]: message"
    std::string message = llvm::toString(value.takeError());
    auto [place, what] = StringRef(message).split("]: ");
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   path + ":" +
                                       place.drop_front().split(',').first +
                                       ": not JSON: " + what);
  }
  const json::Object *object = value->getAsObject();
  if (!object)
    return error("expected a JSON object with the fields of a model");
  Fields fields(path, "", *object);

  bool gpt = model.family == Family::GPT;
  StringRef type;
  if (Error e = fields.string("model_type", type))
    return e;
  llvm::SmallVector<StringRef, 2> known, others;
  switch (model.family) {
  case Family::GPT:
    known = {"gpt2"};
    break;
  case Family::Llama:
    known = {"llama", "mistral"};
    break;
  case Family::Mixtral:
    known = {"mixtral"};
    others = {"num_local_experts"};
    break;
  case Family::Qwen:
    known = {"qwen2_moe", "qwen3_moe"};
    others = {"num_experts"};
    break;
  case Family::DeepSeek:
    known = {"deepseek_v2", "deepseek_v3"};
    others = {"n_routed_experts", "rope_interleave", "quantization_config"};
    break;
  }
  if (!type.empty() && !llvm::is_contained(known, type))
    return fields.unexpected("model_type", type,
                             "\"" + llvm::join(known, "\" or \"") + "\"");
  if (Error e = fields.checkFixed(others))
    return e;
  if (Error e = fields.boolean("tie_word_embeddings", model.tied))
    return e;
  if (Error e = fields.number("initializer_range", model.initialDeviation))
    return e;
  if (Error e = gpt ? readGPT(fields, path, model, dropoutChosen, notes)
                : model.family == Family::Mixtral
                    ? readMixtral(fields, path, model, notes)
                : model.family == Family::Qwen
                    ? readQwen(fields, path, type, model, notes)
                : model.family == Family::DeepSeek
                    ? readDeepSeek(fields, path, type, model, notes)
                    : readLlama(fields, path, model, notes))
    return e;
  fields.warnOfUnknown(notes);
  return Error::success();
}
