//===- Builder.cpp - What the families of models share --------------------===//

#include "models/Builder.h"
#include <cmath>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::models;

//===----------------------------------------------------------------------===//
// Ops with names
//===----------------------------------------------------------------------===//

Value models::Builder::named(StringRef name, Value value) {
  value.getDefiningOp()->setLoc(
      NameLoc::get(StringAttr::get(value.getContext(), name)));
  return value;
}

Value models::Builder::get(StringRef name) const {
  auto found = scope.find(name);
  assert(found != scope.end() && "the function has no such argument");
  return found->second;
}

Value models::Builder::einsum(StringRef name, StringRef equation, Value a,
                              Value b) {
  return make<nn::EinsumOp>(name, equation, ValueRange{a, b});
}

Value models::Builder::reshape(StringRef name, Value a,
                               ArrayRef<int64_t> shape) {
  Type element = cast<RankedTensorType>(a.getType()).getElementType();
  return make<nn::ReshapeOp>(name, RankedTensorType::get(shape, element), a);
}

Value models::Builder::slice(StringRef name, Value a, ArrayRef<int64_t> offsets,
                             ArrayRef<int64_t> sizes) {
  return make<nn::SliceOp>(name, a, offsets, sizes, DenseI64ArrayAttr());
}

Value models::Builder::add(StringRef name, Value a, Value b) {
  return make<nn::AddOp>(name, a, b);
}

Value models::Builder::activate(StringRef name, Value a) {
  switch (model.activation) {
  case Activation::Gelu:
    return make<nn::GeluOp>(name, a);
  case Activation::GeluTanh:
    return make<nn::GeluTanhOp>(name, a);
  case Activation::Relu:
    return make<nn::ReluOp>(name, a);
  case Activation::Silu:
    return make<nn::SiluOp>(name, a);
  }
  llvm_unreachable("all activations are listed");
}

Value models::Builder::attention(StringRef name, Value query, Value key,
                                 Value value, std::optional<double> scale) {
  Value documents = model.documents ? get("documents") : Value();
  IntegerAttr window =
      model.window ? builder->getI64IntegerAttr(*model.window) : IntegerAttr();
  // As many queries as results, each as wide as a value.
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(query.getType()).getShape());
  shape.back() = cast<RankedTensorType>(value.getType()).getShape().back();
  return make<nn::AttentionOp>(
      name, floats(shape), /*lse=*/Type(), query, key, value,
      /*bias=*/Value(), documents, documents, /*first_position=*/Value(),
      builder->getUnitAttr(), window, scale ? number(*scale) : FloatAttr());
}

Value models::Builder::dropout(StringRef name, Value a, Value stream) {
  return make<nn::DropoutOp>(name, a, get("random_key"), stream,
                             number(model.dropout));
}

Value models::Builder::integer(StringRef name, int64_t value) {
  return make<nn::ConstantOp>(name, integers({}), static_cast<double>(value));
}

FloatAttr models::Builder::number(double value) {
  return builder->getF64FloatAttr(value);
}

//===----------------------------------------------------------------------===//
// Parameters and functions
//===----------------------------------------------------------------------===//

RankedTensorType models::Builder::floats(ArrayRef<int64_t> shape) {
  Type element = model.doublePrecision ? Type(builder->getF64Type())
                                       : Type(builder->getF32Type());
  return RankedTensorType::get(shape, element);
}

RankedTensorType models::Builder::integers(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder->getI32Type());
}

DictionaryAttr models::Builder::attributes(StringRef name, Attribute value) {
  return builder->getDictionaryAttr(builder->getNamedAttr(name, value));
}

Parameters models::Builder::allParameters() const {
  Parameters all = embeddingParameters();
  for (int64_t layer = 0; layer < model.layers; ++layer)
    for (Parameter parameter : blockParameters(blockKind(layer))) {
      parameter.name =
          (layerPrefix() + Twine(layer) + "." + parameter.name).str();
      all.push_back(std::move(parameter));
    }
  for (Parameter &parameter : finalParameters())
    all.push_back(std::move(parameter));
  if (!model.tied)
    all.push_back({"lm_head.weight",
                   Parameter::Kind::Matrix,
                   {model.vocab, model.hidden},
                   {"vocab", "embed"}});
  return all;
}

int64_t models::Builder::countParameters() const {
  auto count = [](const Parameters &parameters) {
    int64_t total = 0;
    for (const Parameter &parameter : parameters) {
      int64_t elements = 1;
      for (int64_t size : parameter.shape)
        elements *= size;
      total += elements;
    }
    return total;
  };
  return count(allParameters());
}

std::string models::Builder::fullName(StringRef name) const {
  // The head stands beside the trunk, not in it.
  if (name == "lm_head.weight")
    return name.str();
  // Files have a tensor for each expert: the star stands for its number, which
  // is the index in the first dimension.
  StringRef experts = ".experts.";
  auto [front, back] = name.split(experts);
  std::string star = back.empty() ? "" : (experts + "*." + back).str();
  return (prefix() + front + star).str();
}

Attribute models::Builder::describe(const Parameter &parameter) {
  nn::Init init = nn::Init::Constant;
  double value = 0;
  bool decay = false, frozen = false;
  double balance = 0;
  switch (parameter.kind) {
  case Parameter::Kind::Matrix:
    init = nn::Init::Normal, value = model.initialDeviation, decay = true;
    break;
  case Parameter::Kind::OutputMatrix:
    // Each layer adds two such products to the residual (Radford et al. 2019,
    // section 2.3).
    init = nn::Init::Normal, decay = true;
    value = model.initialDeviation /
            std::sqrt(2.0 * static_cast<double>(model.layers));
    break;
  case Parameter::Kind::Norm:
    value = 1;
    break;
  case Parameter::Kind::Bias:
    break;
  case Parameter::Kind::Balance:
    balance = model.experts->biasRate;
    frozen = balance == 0;
    break;
  }
  SmallVector<StringAttr> axes;
  for (StringRef axis : parameter.axes)
    axes.push_back(builder->getStringAttr(axis));
  return nn::ParamAttr::get(
      builder->getContext(), builder->getStringAttr(fullName(parameter.name)),
      axes, init, llvm::APFloat(value), frozen, decay, llvm::APFloat(balance));
}

models::Builder::Arguments
models::Builder::parameterArguments(const Parameters &parameters, bool entry) {
  Arguments arguments;
  for (const Parameter &parameter : parameters)
    arguments.push_back({parameter.name, floats(parameter.shape),
                         entry ? attributes(nn::kParamAttr, describe(parameter))
                               : builder->getDictionaryAttr({})});
  return arguments;
}

void models::Builder::addMaskArguments(Arguments &arguments, bool entry) {
  DictionaryAttr none = builder->getDictionaryAttr({});
  if (model.documents)
    arguments.push_back(
        {"documents", integers({model.batch, model.seq}),
         entry ? attributes(nn::kBatchAttr, builder->getStringAttr("documents"))
               : none});
  if (model.dropout != 0)
    arguments.push_back(
        {"random_key", integers({4}),
         entry ? attributes(nn::kRngAttr, builder->getUnitAttr()) : none});
}

func::FuncOp models::Builder::begin(StringRef name, const Arguments &arguments,
                                    TypeRange results, bool entry) {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const Argument &argument : arguments) {
    types.push_back(argument.type);
    attributes.push_back(argument.attributes);
  }
  auto function = func::FuncOp::create(*builder, builder->getUnknownLoc(), name,
                                       builder->getFunctionType(types, results),
                                       {}, attributes);
  if (!entry)
    function.setPrivate();
  Block *body = function.addEntryBlock();
  scope.clear();
  for (auto [argument, value] :
       llvm::zip_equal(arguments, body->getArguments())) {
    value.setLoc(NameLoc::get(builder->getStringAttr(argument.name)));
    scope[argument.name] = value;
  }
  builder->setInsertionPointToStart(body);
  return function;
}

void models::Builder::end(ValueRange results) {
  func::ReturnOp::create(*builder, builder->getUnknownLoc(), results);
  builder->setInsertionPointAfter(builder->getInsertionBlock()->getParentOp());
}

ValueRange models::Builder::call(StringRef name, func::FuncOp callee,
                                 ValueRange operands) {
  auto op = func::CallOp::create(*builder, builder->getUnknownLoc(), callee,
                                 operands);
  named(name, op.getResult(0));
  return op.getResults();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

func::FuncOp models::Builder::buildBlock(unsigned kind) {
  RankedTensorType type = floats({model.batch, model.seq, model.hidden});
  DictionaryAttr none = builder->getDictionaryAttr({});
  Arguments arguments = {{"x", type, none}};
  llvm::append_range(
      arguments, parameterArguments(blockParameters(kind), /*entry=*/false));
  if (hasRotaryPositions())
    arguments.push_back({"positions", integers({model.seq}), none});
  addMaskArguments(arguments, /*entry=*/false);
  if (model.dropout != 0)
    arguments.push_back({"stream", integers({}), none});

  SmallVector<Type> types{type};
  if (hasStatistics(kind))
    types.append(statistics().size(), floats({model.batch}));
  func::FuncOp function =
      begin(blockName(kind), arguments, types, /*entry=*/false);
  function->setAttr(nn::kLayerAttr, builder->getUnitAttr());
  function.setNoInline(true);
  blockStatistics.clear();
  SmallVector<Value> results{block(kind, get("x"))};
  llvm::append_range(results, blockStatistics);
  end(results);
  return function;
}

func::FuncOp models::Builder::buildTrunk(Blocks &blocks) {
  Arguments arguments = parameterArguments(allParameters(), /*entry=*/false);
  // The head comes after the trunk.
  if (!model.tied)
    arguments.pop_back();
  arguments.push_back({"tokens", integers({model.batch, model.seq}),
                       builder->getDictionaryAttr({})});
  addMaskArguments(arguments, /*entry=*/false);

  std::vector<Statistic> listed = statistics();
  SmallVector<Type> types{floats({model.batch, model.seq, model.hidden})};
  types.append(listed.size(), floats({model.batch}));
  func::FuncOp function = begin("hidden", arguments, types, /*entry=*/false);
  if (hasRotaryPositions())
    scope["positions"] =
        make<nn::IotaOp>("positions", integers({model.seq}), 0);
  Value x = embed(get("tokens"));
  SmallVector<Value> sums(listed.size());
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    SmallVector<Value> operands = {x};
    std::string number = std::to_string(layer);
    unsigned kind = blockKind(layer);
    for (const Parameter &parameter : blockParameters(kind))
      operands.push_back(
          get((layerPrefix() + number + "." + parameter.name).str()));
    if (hasRotaryPositions())
      operands.push_back(get("positions"));
    if (model.documents)
      operands.push_back(get("documents"));
    if (model.dropout != 0) {
      // Stream 0 is the embedding's; a block uses two.
      operands.push_back(get("random_key"));
      operands.push_back(integer("stream." + number, 1 + 2 * layer));
    }
    ValueRange results = call("x." + number, blocks.at(kind), operands);
    x = results[0];
    if (hasStatistics(kind))
      for (auto [statistic, sum, value] :
           llvm::zip_equal(listed, sums, results.drop_front()))
        sum = sum ? add(statistic.name + "." + number, sum, value) : value;
  }
  // Where no layer has any.
  for (Value &sum : sums)
    if (!sum)
      sum = make<nn::ConstantOp>("none", floats({model.batch}), 0.0);
  SmallVector<Value> results{finish(x)};
  llvm::append_range(results, sums);
  end(results);
  return function;
}

SmallVector<Value> models::Builder::computeLogits(func::FuncOp trunk) {
  // The trunk's arguments have the names that the entries have.
  SmallVector<Value> operands;
  for (BlockArgument argument : trunk.getArguments())
    operands.push_back(get(cast<NameLoc>(argument.getLoc()).getName()));
  ValueRange hidden = call("hidden", trunk, operands);
  Value head = get(model.tied ? embeddingName() : "lm_head.weight");
  SmallVector<Value> results{einsum("logits", "bse,ve->bsv", hidden[0], head)};
  llvm::append_range(results, hidden.drop_front());
  return results;
}

void models::Builder::buildLogits(func::FuncOp trunk) {
  Arguments arguments = parameterArguments(allParameters(), /*entry=*/true);
  arguments.push_back(
      {"tokens", integers({model.batch, model.seq}),
       attributes(nn::kBatchAttr, builder->getStringAttr("tokens"))});
  addMaskArguments(arguments, /*entry=*/true);
  begin("logits", arguments,
        TypeRange(floats({model.batch, model.seq, model.vocab})),
        /*entry=*/true);
  end(computeLogits(trunk).front());
}

void models::Builder::buildLoss(func::FuncOp trunk) {
  Arguments arguments = parameterArguments(allParameters(), /*entry=*/true);
  for (StringRef name : {"tokens", "targets"})
    arguments.push_back(
        {name.str(), integers({model.batch, model.seq}),
         attributes(nn::kBatchAttr, builder->getStringAttr(name))});
  addMaskArguments(arguments, /*entry=*/true);
  std::vector<Statistic> listed = statistics();
  SmallVector<Type> types(1 + listed.size(), floats({}));
  func::FuncOp function = begin("loss", arguments, types, /*entry=*/true);

  SmallVector<Value> outputs = computeLogits(trunk);
  Value logits = outputs.front();
  Value targets = get("targets");
  Value losses = make<nn::CrossEntropyOp>("losses", logits, targets,
                                          number(model.labelSmoothing));
  // A negative target is not counted.
  Value zero = integer("zero", 0);
  Value valid = make<nn::CompareOp>("valid", nn::Predicate::GE, targets, zero);
  SmallVector<Value> results{make<nn::StepMeanOp>("loss", losses, valid)};
  if (!listed.empty())
    function.setResultAttr(0, nn::kResultAttr,
                           builder->getStrArrayAttr({"result", "loss"}));
  for (auto [i, statistic] : llvm::enumerate(listed)) {
    results.push_back(overStep(statistic, outputs[1 + i], targets));
    function.setResultAttr(
        1 + i, nn::kResultAttr,
        builder->getStrArrayAttr({"result", statistic.name}));
    if (statistic.weight != 0)
      function.setResultAttr(1 + i, "nn.weight", number(statistic.weight));
  }
  end(results);
}

Value models::Builder::overStep(const Statistic &statistic, Value ofSamples,
                                Value targets) {
  // A sample counts where it has a target.
  auto called = [&](StringRef suffix) { return statistic.name + suffix.str(); };
  Value largest = make<nn::ReduceOp>(called(".largest"), nn::ReduceKind::Max,
                                     targets, ArrayRef<int64_t>{1},
                                     /*keep=*/false);
  Value isSample = make<nn::CompareOp>(called(".samples"), nn::Predicate::GE,
                                       largest, integer(called(".zero"), 0));
  if (!statistic.isCount)
    return make<nn::StepMeanOp>(statistic.name, ofSamples, isSample);
  Value mean = make<nn::StepMeanOp>(called(".mean"), ofSamples, isSample);
  Value samples = make<nn::StepSumOp>(called(".count"), floats({}), isSample);
  return make<nn::MulOp>(statistic.name, mean, samples);
}

OwningOpRef<ModuleOp> models::Builder::build(MLIRContext &context) {
  context.loadDialect<nn::NNDialect, func::FuncDialect>();
  OpBuilder opBuilder(&context);
  builder = &opBuilder;
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(opBuilder, opBuilder.getUnknownLoc());
  opBuilder.setInsertionPointToStart(module->getBody());
  Blocks blocks;
  for (int64_t layer = 0; layer < model.layers; ++layer)
    if (unsigned kind = blockKind(layer); !blocks.count(kind))
      blocks[kind] = buildBlock(kind);
  func::FuncOp trunk = buildTrunk(blocks);
  buildLogits(trunk);
  buildLoss(trunk);
  builder = nullptr;
  return module;
}

static std::unique_ptr<models::Builder> create(const Model &model) {
  switch (model.family) {
  case Family::GPT:
    return createGPT(model);
  case Family::Llama:
    return createLlama(model);
  case Family::Mixtral:
  case Family::Qwen:
    return createMixtral(model);
  case Family::DeepSeek:
    return createDeepSeek(model);
  }
  llvm_unreachable("all families are listed");
}

OwningOpRef<ModuleOp> models::build(MLIRContext &context, const Model &model) {
  return create(model)->build(context);
}

int64_t models::countParameters(const Model &model) {
  return create(model)->countParameters();
}
