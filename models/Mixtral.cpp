//===- Mixtral.cpp - Mixtral, and Qwen's mixtures of experts --------------===//
//
// Jiang et al. 2024, with names of Hugging Face's MixtralForCausalLM; and
// Qwen2MoeForCausalLM and Qwen3MoeForCausalLM, which differ in names, in the
// attention and in a shared expert.
//
//===----------------------------------------------------------------------===//

#include "models/Mixtral.h"
#include <cmath>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::models;

using Kind = Parameter::Kind;

std::string Mixtral::matrixName(StringRef matrix) const {
  return (names().module + ".experts." + matrix + ".weight").str();
}

int64_t Mixtral::capacity() const {
  const Experts &experts = *model.experts;
  if (!experts.capacityFactor)
    return 0;
  double share = static_cast<double>(model.seq * experts.perToken) /
                 static_cast<double>(experts.count);
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(*experts.capacityFactor * share)));
}

std::vector<Statistic> Mixtral::statistics() const {
  const Experts &experts = *model.experts;
  std::vector<Statistic> all{
      {"load_balance_loss", experts.balanceLoss, /*isCount=*/false}};
  if (experts.zLoss != 0)
    all.push_back({"router_z_loss", experts.zLoss, /*isCount=*/false});
  if (experts.capacityFactor)
    all.push_back({"dropped_tokens", 0, /*isCount=*/true});
  return all;
}

void Mixtral::addFeedForwardParameters(Parameters &parameters,
                                       unsigned kind) const {
  if (kind == kDense)
    return Llama::addFeedForwardParameters(parameters, kind);
  const Experts &experts = *model.experts;
  Names name = names();
  int64_t h = model.hidden, n = experts.count, f = experts.ffn;
  std::string gate = (name.module + ".gate").str();
  // Every device needs the whole router.
  addMatrix(parameters, gate, Kind::Matrix, n, "_", h, "embed");
  if (experts.bias)
    parameters.push_back(
        {gate + ".e_score_correction_bias", Kind::Balance, {n}, {"_"}});
  for (StringRef matrix : {name.gate, name.up})
    parameters.push_back({matrixName(matrix),
                          Kind::Matrix,
                          {n, f, h},
                          {"expert", "mlp", "embed"}});
  parameters.push_back({matrixName(name.down),
                        Kind::OutputMatrix,
                        {n, h, f},
                        {"expert", "embed", "mlp"}});
  if (experts.sharedFfn == 0)
    return;
  std::string shared = (name.module + "." + name.shared).str();
  addGatedParameters(parameters, shared, h, experts.sharedFfn, false);
  if (experts.sharedGate)
    addMatrix(parameters, shared + "_gate", Kind::Matrix, 1, "_", h, "embed");
}

Value Mixtral::sumOver(StringRef name, Value value, ArrayRef<int64_t> dims,
                       bool keep) {
  return make<nn::ReduceOp>(name, nn::ReduceKind::Sum, value, dims, keep);
}

Value Mixtral::constant(StringRef name, double value) {
  return make<nn::ConstantOp>(name, floats({}), value);
}

/// Returns the logits of the router.
Value Mixtral::route(Value input, Value &weights, Value &chosen) {
  const Experts &experts = *model.experts;
  std::string gate = (names().module + ".gate").str();
  Value logits =
      einsum("router.logits", "bsh,eh->bse", input, get(gate + ".weight"));
  Value bias = experts.bias ? get(gate + ".e_score_correction_bias") : Value();
  auto routed = nn::RouteOp::create(
      *builder, builder->getUnknownLoc(),
      experts.sigmoid ? nn::Scores::Sigmoid : nn::Scores::Softmax, logits, bias,
      experts.perToken, experts.groups, experts.groupsKept, experts.groupBest,
      experts.normalised, llvm::APFloat(experts.scale));
  named("routed", routed.getWeights());
  weights = routed.getWeights();
  chosen = routed.getExperts();
  return logits;
}

/// What is logged, and what keeps the experts in balance: a number for each
/// sample, which is a routing group.
void Mixtral::measure(Value logits, Value chosen, Value position) {
  const Experts &experts = *model.experts;
  int64_t n = experts.count, k = experts.perToken;
  Value probabilities;
  if (experts.sigmoid) {
    Value scores = make<nn::SigmoidOp>("router.scores", logits);
    Value sum = sumOver("router.sum", scores, {2}, /*keep=*/true);
    probabilities = make<nn::DivOp>("router.probabilities", scores, sum);
  } else {
    probabilities = make<nn::SoftmaxOp>("router.probabilities", logits, 2);
  }
  // Fedus et al. 2021, equations 4 to 6, with k choices a token (DeepSeek-AI
  // 2024, equations 17 to 20): E / (k S) times the tokens of each expert, times
  // the mean of its probabilities.
  Value choices =
      reshape("router.choices", chosen, {model.batch, model.seq, k, 1});
  Value numbers = make<nn::IotaOp>("router.numbers", integers({n}), 0);
  Value isChosen =
      make<nn::CompareOp>("router.chosen", nn::Predicate::EQ, choices, numbers);
  Value counted = make<nn::CastOp>(
      "router.counted", floats({model.batch, model.seq, k, n}), isChosen);
  Value load = sumOver("router.load", counted, {1, 2});
  Value mean = make<nn::ReduceOp>("router.mean", nn::ReduceKind::Mean,
                                  probabilities, ArrayRef<int64_t>{1},
                                  /*keep=*/false);
  Value product = make<nn::MulOp>("router.product", load, mean);
  Value total = sumOver("router.total", product, {1});
  double factor = static_cast<double>(n) / static_cast<double>(k * model.seq);
  blockStatistics.push_back(make<nn::MulOp>(
      "load_balance_loss", total, constant("balance.factor", factor)));
  if (experts.zLoss != 0) {
    // Zoph et al. 2022, equation 5: the mean of the squared log-sum-exp.
    Value largest = make<nn::ReduceOp>("router.max", nn::ReduceKind::Max,
                                       logits, ArrayRef<int64_t>{2},
                                       /*keep=*/true);
    Value shifted = make<nn::SubOp>("router.shifted", logits, largest);
    Value sum =
        sumOver("router.exp.sum", make<nn::ExpOp>("router.exp", shifted), {2},
                /*keep=*/true);
    Value lse = add("router.lse", make<nn::LogOp>("router.log", sum), largest);
    Value square = make<nn::MulOp>("router.square", lse, lse);
    blockStatistics.push_back(make<nn::ReduceOp>(
        "router_z_loss", nn::ReduceKind::Mean, square, ArrayRef<int64_t>{1, 2},
        /*keep=*/false));
  }
  if (experts.capacityFactor) {
    Value isDropped = make<nn::CompareOp>("is.dropped", nn::Predicate::LT,
                                          position, integer("first.row", 0));
    Value flags = make<nn::CastOp>(
        "dropped", floats({model.batch, model.seq, k}), isDropped);
    blockStatistics.push_back(sumOver("dropped_tokens", flags, {1, 2}));
  }
}

Value Mixtral::feedForward(unsigned kind, Value input) {
  if (kind == kDense)
    return Llama::feedForward(kind, input);
  const Experts &experts = *model.experts;
  Names name = names();
  Value weights, chosen;
  Value logits = route(input, weights, chosen);
  IntegerAttr most;
  if (int64_t rows = capacity())
    most = builder->getI64IntegerAttr(rows);
  auto sorted = nn::ExpertSortOp::create(*builder, builder->getUnknownLoc(),
                                         chosen, experts.count, most);
  named("sorted", sorted.getOrder());
  Value order = sorted.getOrder(), position = sorted.getPosition();
  Value offsets = sorted.getOffsets();
  Value rows = make<nn::DispatchOp>("dispatched", input, order, position,
                                    /*weights=*/Value());
  auto product = [&](StringRef value, Value x, StringRef matrix) {
    return make<nn::GroupedMatmulOp>(value, x, get(matrixName(matrix)), offsets,
                                     builder->getUnitAttr());
  };
  Value gate = product("expert.gate", rows, name.gate);
  Value up = product("expert.up", rows, name.up);
  Value active = activate("expert.active", gate);
  Value gated = make<nn::MulOp>("expert.gated", active, up);
  Value down = product("expert.down", gated, name.down);
  Value result =
      make<nn::CombineOp>("combined", down, order, position, weights);
  measure(logits, chosen, position);
  if (experts.sharedFfn == 0)
    return result;
  std::string module = (name.module + "." + name.shared).str();
  Value shared = gatedMLP("shared.", module, input, false);
  if (experts.sharedGate) {
    Value logit = einsum("shared.logit", "bsh,oh->bso", input,
                         get(module + "_gate.weight"));
    Value share = make<nn::SigmoidOp>("shared.share", logit);
    shared = make<nn::MulOp>("shared.part", shared, share);
  }
  return add("mixed", result, shared);
}

namespace {
class Qwen : public Mixtral {
public:
  using Mixtral::Mixtral;

private:
  Names names() const override {
    return {"mlp", "gate_proj", "up_proj", "down_proj", "shared_expert"};
  }
};
} // namespace

std::unique_ptr<models::Builder> models::createMixtral(const Model &model) {
  if (model.family == Family::Qwen)
    return std::make_unique<Qwen>(model);
  return std::make_unique<Mixtral>(model);
}
