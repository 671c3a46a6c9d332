//===- HuggingFace.cpp - Reads config.json --------------------------------===//
//
// Fields and defaults are those of Hugging Face's GPT2Config, LlamaConfig and
// MistralConfig (a Llama with a sliding window).
//
//===----------------------------------------------------------------------===//

#include "models/Models.h"
#include "support/Shown.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
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
      {"num_experts", nullptr},
      {"num_local_experts", nullptr},
      {"partial_rotary_factor", 1},
      {"pretraining_tp", 1},
      {"pruned_heads", json::Object()},
      {"qk_norm", false},
      {"quantization_config", nullptr},
      {"reorder_and_upcast_attn", false},
      {"residual_multiplier", 1},
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

  Error checkFixed() {
    size_t count;
    const Fixed *fixed = fixedFields(count);
    for (const Fixed &field : llvm::ArrayRef(fixed, count)) {
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
  if (kind == "linear" || kind == "llama3") {
    if (Error e = rope.requiredNumber("factor", result.factor))
      return e;
    if (!(result.factor > 0))
      return rope.unexpected("factor", result.factor, "a positive number");
  } else if (kind != "default") {
    return rope.unexpected(
        rope.find("rope_type") ? "rope_type" : "type", kind,
        "\"default\", \"linear\" or \"llama3\"; others are not supported");
  }
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
  bool fits = gpt ? type == "gpt2" : type == "llama" || type == "mistral";
  if (!type.empty() && !fits)
    return fields.unexpected("model_type", type,
                             gpt ? "\"gpt2\"" : "\"llama\" or \"mistral\"");
  if (Error e = fields.checkFixed())
    return e;
  if (Error e = fields.boolean("tie_word_embeddings", model.tied))
    return e;
  if (Error e = fields.number("initializer_range", model.initialDeviation))
    return e;
  if (Error e = gpt ? readGPT(fields, path, model, dropoutChosen, notes)
                    : readLlama(fields, path, model, notes))
    return e;
  fields.warnOfUnknown(notes);
  return Error::success();
}
