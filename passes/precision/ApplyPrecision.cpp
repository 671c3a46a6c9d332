//===- ApplyPrecision.cpp - A training step in narrower floats ------------===//
//
// Every function is written anew for the element types that it is called with;
// each rounding is an nn.cast that one can see. What is narrow:
//
//   forward       each op of the model takes and gives narrow values; sums,
//                 losses, scores of routers and what is computed from them stay
//                 f32
//   gradients     between products everything is f32; what a product or another
//                 layer reads is rounded once, where it is made, and then every
//                 reader has the rounded value
//   parameters    narrow where the model reads them; the step has an f32 master
//                 of each, which the optimizer updates and rounds
//   their         f32 straight from the products, so that they are accumulated,
//   gradients     reduced, and read by the optimizer in f32
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Dist.h"
#include "dialects/NN/Quantize.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/precision/Passes.h"
#include "passes/precision/Recipe.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"
#include <cmath>

namespace sheaf {
#define GEN_PASS_DEF_NNAPPLYPRECISION
#include "passes/precision/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
/// What a value is, or is made of by moving its elements.
enum class Mark : char {
  None,
  /// A parameter whose products are of 16 bits.
  Weight,
  /// One whose products are of 8 bits, where the recipe has those.
  Matrix,
  /// One whose products choose experts: their results are not rounded.
  Router,
  /// One that stays in f32, and its products with it.
  Wide,
};

Type elementOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getElementType() : Type();
}
bool isScalarConstant(Value value) {
  return tensorType(value).getRank() == 0 &&
         value.getDefiningOp<nn::ConstantOp>();
}

/// Whether an op gives the elements of its input in another place.
bool isMove(Operation *op) {
  return isa<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp, nn::SliceOp,
             nn::PadOp, nn::GatherOp, nn::TopKOp, nn::DropoutOp, nn::RotaryOp,
             nn::BucketOp, nn::UnbucketOp, nn::DispatchOp, nn::CombineOp,
             nn::ConcatenateOp, dist::ConstraintOp>(op);
}

/// Whether an op gives what a parameter is in another shape, or a part of it.
bool isView(Operation *op) {
  return isa<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp, nn::SliceOp,
             nn::PadOp, nn::CastOp, dist::ConstraintOp>(op);
}

/// The products that `value` is made of by moving and adding.
void collectProducts(Value value, llvm::DenseSet<Operation *> &products) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return;
  if (isa<nn::EinsumOp, nn::GroupedOuterOp>(op)) {
    products.insert(op);
  } else if (isa<nn::AddOp, nn::ConcatenateOp>(op)) {
    for (Value operand : op->getOperands())
      collectProducts(operand, products);
  } else if (isMove(op)) {
    collectProducts(op->getOperand(0), products);
  }
}

bool isGradient(Operation *op) {
  auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
  return role && (role == "input_gradient" || role == "weight_gradient");
}
bool hasRole(Operation *op, StringRef name) {
  auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
  return role && role == name;
}

/// Whether state or a result is what the optimizer averages of gradients.
bool isMoment(Attribute what) {
  auto pair = dyn_cast_or_null<ArrayAttr>(what);
  auto kind =
      pair && pair.size() == 2 ? dyn_cast<StringAttr>(pair[0]) : nullptr;
  return kind && llvm::is_contained({"moment1", "moment2", "momentum"},
                                    kind.getValue());
}

/// Gives the ops that a builder makes a role as long as it lives: that of `op`
/// where it has one, or the optimizer's.
struct RoleSetter : OpBuilder::Listener {
  RoleSetter(OpBuilder &builder, Attribute role)
      : builder(builder), role(role) {
    builder.setListener(this);
  }
  RoleSetter(OpBuilder &builder, Operation *op)
      : RoleSetter(builder, op->getAttr(nn::kRoleAttr)) {}
  explicit RoleSetter(OpBuilder &builder)
      : RoleSetter(builder, builder.getStringAttr("optimizer")) {}
  ~RoleSetter() { builder.setListener(nullptr); }
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) final {
    if (role)
      op->setAttr(nn::kRoleAttr, role);
  }
  OpBuilder &builder;
  Attribute role;
};

/// A function written for the types of its arguments.
struct Signature {
  StringRef function;
  SmallVector<Type> types;
  SmallVector<Mark> marks;
  /// Of a function of gradients: the forward that they are of.
  StringRef forward = {};
  std::string key() const {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << function;
    for (auto [type, mark] : llvm::zip_equal(types, marks))
      os << "," << type << static_cast<int>(mark);
    return text;
  }
};

/// The streams of dropout are small numbers, those of parameters begin at 2^30.
constexpr int64_t kFirstRoundingStream = int64_t(1) << 29;

/// How many scales there are is known at the end; until then there are this
/// many.
constexpr int64_t kMostSlots = int64_t(1) << 40;

/// In what a step keeps gradients and moments: f8E4M3FN, or f16 for squares,
/// has a factor beside it.
enum class Storage { F32, Narrow, FP8 };
enum class Masters { F32, F16, None };

/// What a recipe leaves open.
struct Settings {
  /// The scale of a loss in f16: the first one, and how many steps without an
  /// overflow double it.
  double lossScale, lossScaleWindow;
  /// In what gradients of parameters are added up, and the optimizer's moments
  /// kept.
  Storage gradients, moments;
  /// What of a narrow parameter the optimizer updates; but for f32, updates are
  /// rounded up or down at random.
  Masters masters;
  /// How many steps scales of 8-bit floats are made of, where they are delayed.
  int64_t history;
  /// Whether matrices are quantised once a step, where layers are called; else
  /// for each use, in the layer.
  bool quantizesOnce;
  /// Into how many parts, at most, the mesh cuts tokens, and the dimensions of
  /// matrices and activations.
  int64_t tokenParts, tensorParts;
};

class Converter {
public:
  Converter(ModuleOp module, const Recipe &recipe, const Settings &settings,
            const llvm::StringMap<Mark> &parameters,
            const llvm::StringSet<> &quantized)
      : module(module), symbols(module), builder(module.getContext()),
        recipe(recipe), settings(settings),
        narrow(recipe.getNarrowType(module.getContext())),
        wide(builder.getF32Type()), moment(builder.getBF16Type()),
        half(builder.getF16Type()),
        eight(Float8E4M3FNType::get(module.getContext())),
        master(settings.masters == Masters::F16 ? half : wide),
        parameters(parameters), quantized(quantized) {}

  LogicalResult run();

private:
  LogicalResult convertEntry(func::FuncOp entry);
  LogicalResult convertInitializer(func::FuncOp init);
  FailureOr<func::FuncOp> convert(const Signature &signature);
  LogicalResult convertHalves(func::FuncOp backward, func::FuncOp made,
                              const Signature &signature);
  LogicalResult convertBlock(Block &from, bool isEntry);
  LogicalResult convertOp(Operation &op);
  LogicalResult convertCall(func::CallOp call);
  LogicalResult convertLoop(nn::MicrobatchesOp loop);
  nn::MicrobatchesOp addAmaxes(nn::MicrobatchesOp loop, ArrayRef<Value> amaxes);
  LogicalResult convertEinsum(nn::EinsumOp op);
  /// The product of 8-bit floats, of operands of the new program; null where
  /// the recipe has none for it.
  Value convertScaled(nn::EinsumOp op, ValueRange operands, Type element);
  Value convertGrouped(Operation *op, ValueRange operands);
  /// A value as it is after a cast to 8 bits, in f32.
  nn::Quantized quantize(nn::Emit &emit, Value value, bool isGradient,
                         ArrayRef<int64_t> blocks);
  /// The same of the matrix of a product: old operand, and its new value.
  nn::Quantized quantizeMatrix(nn::Emit &emit, Value old, Value value,
                               ArrayRef<int64_t> blocks);
  LogicalResult convertUpdate(Operation &op);

  /// A matrix of 8 bits that a layer takes as two arguments behind its own:
  /// that one of its arguments, moved by ops of the old program.
  struct Need {
    unsigned argument;
    SmallVector<Operation *> views;
    SmallVector<int64_t> blocks;
    Value payload, factors;
  };
  /// What a layer needs in a call with these operands.
  SmallVector<Value> quantizeFor(func::CallOp call, ArrayRef<Need> needs,
                                 ValueRange operands);

  /// Adds an argument to the entry that is written.
  struct Arguments {
    Block *block;
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
  };
  Value addArgument(Arguments &arguments, Type type, NamedAttrList attributes);
  void startScaling(Arguments &arguments, bool isStep, Location loc);
  /// Gives a function that is written the scales of its tensors, and of those
  /// that it calls, as its last argument, and what they were in the end as its
  /// last result.
  void endSlots(func::FuncOp copy, Block *block,
                SmallVectorImpl<Value> &results);
  /// The same of an entry, from the history that is state.
  FailureOr<Value> endHistory(func::FuncOp entry, Arguments &arguments);
  /// Kind and name of the factor of a moment that has these.
  ArrayAttr factorState(Attribute moment) {
    auto pair = cast<ArrayAttr>(moment);
    return builder.getStrArrayAttr(
        {kScalingKind, (cast<StringAttr>(pair[0]).getValue() + ":" +
                        cast<StringAttr>(pair[1]).getValue())
                           .str()});
  }
  Value joinAmaxes(Location loc);
  void scaleNorm(Operation &op);

  bool isFloat(Value value) {
    Type element = elementOf(value);
    return element == narrow || element == wide || element == master;
  }
  bool isNarrow(Value value) { return elementOf(value) == narrow; }

  /// `value`, of the new program, in another element type.
  Value as(Value value, Type element, Operation *reader) {
    if (elementOf(value) == element)
      return value;
    // What was widened is there in its own type.
    if (auto cast = value.getDefiningOp<nn::CastOp>())
      if (elementOf(cast.getInput()) == element &&
          nn::isExactCast(element, elementOf(value)))
        return cast.getInput();
    auto [it, isNew] = scope.casts.try_emplace({value, element});
    if (isNew) {
      it->second = nn::CastOp::create(builder, reader->getLoc(),
                                      tensorType(value).clone(element), value);
      if (Attribute role = reader->getAttr(nn::kRoleAttr))
        it->second.getDefiningOp()->setAttr(nn::kRoleAttr, role);
    }
    return it->second;
  }
  /// The operands of `op` in the new program, floats of them as `element`.
  SmallVector<Value> operandsAs(Operation *op, Type element) {
    return llvm::map_to_vector(op->getOperands(), [&](Value operand) {
      Value value = scope.mapping.lookup(operand);
      return isFloat(value) && !isQuantizedMatrix(operand)
                 ? as(value, element, op)
                 : value;
    });
  }
  /// Whether an old value in a layer is a matrix that is nothing but its
  /// master: what reads it is a product of 8 bits.
  bool isQuantizedMatrix(Value old) {
    return !quantized.empty() && scope.isLayer &&
           scope.marks.lookup(old) == Mark::Matrix &&
           elementOf(scope.mapping.lookup(old)) == master;
  }
  SmallVector<Value> operandsOf(Operation *op) {
    return llvm::map_to_vector(op->getOperands(), [&](Value operand) {
      return scope.mapping.lookup(operand);
    });
  }

  /// Whether a reader of a gradient in the old program wants it narrow.
  bool isReadNarrow(Value value);
  /// Records what `from` has become, rounded where that is so.
  void setResult(Value from, Value to, Operation *op, bool rounds) {
    if (elementOf(to) == wide &&
        (rounds || (isGradient(op) && isReadNarrow(from))))
      to = as(to, narrow, op);
    scope.mapping.map(from, keepGradient(from, to, op));
  }
  /// The gradient of a parameter as the settings keep it, in f32.
  Value keepGradient(Value from, Value to, Operation *op) {
    if (settings.gradients == Storage::F32 ||
        !scope.parameterGradients.contains(from))
      return to;
    if (settings.gradients == Storage::Narrow)
      return noteWidened(as(as(to, narrow, op), wide, op));
    nn::Quantized kept;
    {
      RoleSetter role(builder, op);
      nn::Emit emit(builder, op->getLoc());
      kept = scaled(emit, to, eight);
    }
    RoleSetter role(builder);
    nn::Emit emit(builder, op->getLoc());
    return noteWidened(nn::dequantize(emit, kept, wide));
  }
  Value noteWidened(Value value) {
    if (isa_and_nonnull<nn::CastOp, nn::DequantizeOp>(value.getDefiningOp()))
      scope.widened.push_back(value.getDefiningOp());
    return value;
  }
  /// A tensor with one factor, as it is kept from step to step.
  nn::Quantized scaled(nn::Emit &emit, Value value, FloatType format) {
    SmallVector<int64_t> whole(tensorType(value).getRank(), 0);
    return nn::quantize(emit, value, format, whole, nn::ScaleRule::Exact);
  }
  static RankedTensorType factorType(RankedTensorType type) {
    SmallVector<int64_t> ones(type.getRank(), 1);
    return RankedTensorType::get(ones, Float32Type::get(type.getContext()));
  }
  /// The format of a moment whose kind and name are `what`; null where it has
  /// no factor.
  FloatType momentFormat(Attribute what) {
    if (settings.moments != Storage::FP8 || !isMoment(what))
      return {};
    // Squares of small gradients need the exponent.
    return cast<ArrayAttr>(what)[0] == builder.getStringAttr("moment2") ? half
                                                                        : eight;
  }
  /// A copy of `op` with other operands, its results of the types that follow.
  FailureOr<Operation *> copy(Operation *op, ValueRange operands);

  ModuleOp module;
  SymbolTable symbols;
  OpBuilder builder;
  const Recipe &recipe;
  const Settings &settings;
  /// The squares of gradients are too small for f16: moments are bf16.
  Type narrow;
  FloatType wide;
  Type moment;
  FloatType half, eight;
  /// What the optimizer updates.
  FloatType master;
  const llvm::StringMap<Mark> &parameters;
  /// Those that are nothing but their masters.
  const llvm::StringSet<> &quantized;

  /// How the forward of a layer was called whose gradients `signature` gives.
  /// Its number among the versions of that forward; none where none fits.
  std::optional<unsigned> forwardOf(const Signature &signature,
                                    ArrayRef<LayerValue> takes);
  /// Whether an old value is a gradient of an activation.
  bool isGradientValue(Value value);

  llvm::StringMap<func::FuncOp> made;
  /// By old name, in the order in which they were called.
  llvm::StringMap<std::vector<Signature>> signatures;
  /// Functions that are there in the place of others, by their old name, the
  /// first of each.
  llvm::MapVector<StringRef, SmallVector<func::FuncOp>> versions;
  /// With delayed scales: for each tensor of 8 bits of a function that was
  /// written, and of the step, the largest number of its format.
  llvm::DenseMap<Operation *, std::vector<double>> slotsOf;
  std::vector<double> allSlots;
  /// By function that was written; and the arguments that it has not got, as it
  /// reads what was made of them.
  llvm::DenseMap<Operation *, std::vector<Need>> needsOf;
  llvm::DenseMap<Operation *, SmallVector<unsigned>> droppedOf;
  /// Parameters whose masters the step keeps, in the order of its arguments.
  SmallVector<std::pair<StringAttr, RankedTensorType>> masters;

  /// Of the function that is written.
  struct Scope {
    IRMapping mapping;
    llvm::DenseMap<Value, Mark> marks;
    llvm::DenseMap<std::pair<Value, Type>, Value> casts;
    /// Old results that are wanted narrow.
    llvm::DenseSet<Value> wantedNarrow;
    /// By the old argument of the step that is a parameter.
    llvm::DenseMap<Value, Value> masterOf;
    /// By the old argument of the step that is a moment with a factor, and by
    /// the old value that is the next.
    llvm::DenseMap<Value, Value> factorOf;
    llvm::DenseMap<Value, nn::Quantized> moments;
    /// Old products that give the gradient of a matrix.
    llvm::DenseSet<Operation *> matrixGradients;
    /// Old values of an entry that are gradients of parameters.
    llvm::DenseSet<Value> parameterGradients;
    /// What widens gradients for the optimizer.
    SmallVector<Operation *> widened;
    /// Old arguments that are gradients of activations.
    llvm::DenseSet<Value> gradients;
    std::vector<Need> needs;
    /// It is that of a layer.
    bool isLayer = false;
    /// With delayed scales: the scales, the tensors that have one, with the
    /// largest number of each, the largest magnitudes found, and what has been
    /// cast.
    Value scales;
    std::vector<double> slots;
    SmallVector<Value> amaxes;
    llvm::DenseMap<std::pair<Value, Type>, nn::Quantized> delayed;
    /// Of f16: the old norm of all gradients; the scale of this step and one
    /// over it; whether the step counts; what the next step needs.
    Value norm, scale, inverse, isFinite, goodSteps, window;
    /// Scales of updates, unscaled.
    llvm::DenseMap<Value, Value> unscaled;
  } scope;
};
} // namespace

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

bool Converter::isReadNarrow(Value value) {
  if (scope.wantedNarrow.contains(value))
    return true;
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    unsigned index = use.getOperandNumber();
    if (auto einsum = dyn_cast<nn::EinsumOp>(user)) {
      if (einsum.getInputs().size() != 2)
        return false;
      return llvm::none_of(einsum.getInputs(), [&](Value input) {
        return scope.marks.lookup(input) == Mark::Wide;
      });
    }
    if (isa<nn::GroupedMatmulOp>(user))
      return true;
    if (auto attention = dyn_cast<nn::AttentionGradOp>(user))
      return value != attention.getLse() && value != attention.getLseGrad();
    if (auto call = dyn_cast<func::CallOp>(user)) {
      // A gradient has the type of what it is the gradient of.
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      auto list = callee->getAttrOfType<ArrayAttr>(kOperandsAttr);
      auto text = list && index < list.size()
                      ? dyn_cast<StringAttr>(list[index])
                      : StringAttr();
      auto what = text ? LayerValue::parse(text) : std::nullopt;
      if (!what || what->kind != LayerValue::Cotangent)
        return false;
      auto forward = callee->getAttrOfType<StringAttr>(kForwardAttr);
      if (!forward)
        return false;
      auto it = versions.find(forward.getValue());
      return it != versions.end() &&
             what->index < it->second.front().getNumResults() &&
             cast<RankedTensorType>(
                 it->second.front().getResultTypes()[what->index])
                     .getElementType() == narrow;
    }
    return false;
  });
}

FailureOr<Operation *> Converter::copy(Operation *op, ValueRange operands) {
  Operation *made = op->clone();
  made->setOperands(operands);
  builder.insert(made);
  if (auto inferable = dyn_cast<InferTypeOpInterface>(made)) {
    SmallVector<Type> types;
    if (failed(inferable.inferReturnTypes(made->getContext(), made->getLoc(),
                                          operands, made->getAttrDictionary(),
                                          made->getPropertiesStorage(),
                                          made->getRegions(), types)))
      return failure();
    for (auto [result, type] : llvm::zip_equal(made->getResults(), types))
      result.setType(type);
    return made;
  }
  // A result has the type of the first input, or is a statistic of it.
  bool passes = isMove(op) || isa<nn::AttentionOp, nn::AttentionGradOp,
                                  nn::GatherGradOp, nn::CrossEntropyGradOp>(op);
  for (OpResult result : made->getResults())
    if (passes && elementOf(result) == wide &&
        !(isa<nn::AttentionOp>(op) && result.getResultNumber() == 1))
      result.setType(tensorType(result).clone(elementOf(operands[0])));
  return made;
}

/// The block of a dimension, `length` at most, as ops write it: 0 is all of it.
/// Where it has `parts` of one size, for as many devices, no block goes over a
/// border between them.
static int64_t fitBlock(int64_t size, int64_t length, int64_t parts) {
  if (size <= length)
    return 0;
  if (size % parts == 0)
    while (size / parts % length)
      --length;
  return length;
}

/// Cuts the dimensions whose letters `isCut` names in blocks of `length`
/// elements, counted from the innermost one on.
static void cutBlocks(StringRef names, ArrayRef<int64_t> shape,
                      llvm::function_ref<bool(char)> isCut, int64_t length,
                      int64_t parts, llvm::MapVector<char, int64_t> &blocks) {
  for (auto [c, size] : llvm::reverse(llvm::zip_equal(names, shape))) {
    if (!isCut(c) || blocks.contains(c))
      continue;
    blocks[c] = fitBlock(size, length, parts);
    length = std::max<int64_t>(1, length / size);
  }
}

/// The elements of a vector from `from` on.
static Value part(nn::Emit emit, Value vector, int64_t from, int64_t count) {
  return emit.make<nn::SliceOp>(vector, ArrayRef<int64_t>{from},
                                ArrayRef<int64_t>{count}, DenseI64ArrayAttr());
}

nn::Quantized Converter::quantize(nn::Emit &emit, Value value, bool isGradient,
                                  ArrayRef<int64_t> blocks) {
  FloatType format = Float8E4M3FNType::get(builder.getContext());
  if (isGradient && recipe.eightBit->hasWideGradients)
    format = Float8E5M2Type::get(builder.getContext());
  if (!recipe.eightBit->isDelayed)
    return nn::quantize(emit, value, format, blocks, recipe.eightBit->scale);
  // A tensor has one scale, whatever products it is in.
  auto [it, isNew] = scope.delayed.try_emplace({value, format});
  if (!isNew)
    return it->second;
  int64_t slot = scope.slots.size();
  scope.slots.push_back(nn::getLargest(format));
  Value scale = emit.reshape(part(emit, scope.scales, slot, 1), {});
  Value x = emit.cast(value, wide);
  RankedTensorType type = tensorType(x);
  Value payload = emit.cast(emit.mul(x, scale), format);
  Value factor = emit.div(emit.scalar(scale, 1.0), scale);
  SmallVector<int64_t> ones(type.getRank(), 1);
  SmallVector<int64_t> all =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  Value amax = emit.reduce(nn::ReduceKind::Max, emit.make<nn::AbsOp>(x), all);
  scope.amaxes.push_back(emit.reshape(amax, {1}));
  it->second = {payload, emit.reshape(factor, ones),
                SmallVector<int64_t>(blocks)};
  return it->second;
}

nn::Quantized Converter::quantizeMatrix(nn::Emit &emit, Value old, Value value,
                                        ArrayRef<int64_t> blocks) {
  // A master is rounded once.
  if (isQuantizedMatrix(old))
    value = scope.mapping.lookup(old);
  SmallVector<Operation *> views;
  Value root = old;
  while (Operation *op = root.getDefiningOp()) {
    if (!isView(op))
      break;
    views.insert(views.begin(), op);
    root = op->getOperand(0);
  }
  auto argument = dyn_cast<BlockArgument>(root);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
               : func::FuncOp();
  // What entries have is quantised where it stands.
  if (!settings.quantizesOnce || !function || !function.isPrivate())
    return quantize(emit, value, /*isGradient=*/false, blocks);
  for (const Need &need : scope.needs)
    if (need.argument == argument.getArgNumber() && need.views == views &&
        ArrayRef(need.blocks) == blocks)
      return {need.payload, need.factors, SmallVector<int64_t>(blocks)};
  RankedTensorType type = tensorType(value);
  Type factor = wide;
  if (recipe.eightBit->scale == nn::ScaleRule::E8M0)
    factor = Float8E8M0FNUType::get(builder.getContext());
  Block *block = emit.builder.getInsertionBlock();
  Need need{
      argument.getArgNumber(), views, SmallVector<int64_t>(blocks),
      block->addArgument(
          type.clone(Float8E4M3FNType::get(builder.getContext())), emit.loc),
      block->addArgument(
          RankedTensorType::get(nn::getFactorShape(type.getShape(), blocks),
                                factor),
          emit.loc)};
  scope.needs.push_back(need);
  return {need.payload, need.factors, SmallVector<int64_t>(blocks)};
}

SmallVector<Value> Converter::quantizeFor(func::CallOp call,
                                          ArrayRef<Need> needs,
                                          ValueRange operands) {
  SmallVector<Value> matrices;
  OpBuilder::InsertPoint here = builder.saveInsertionPoint();
  RoleSetter role(builder, builder.getStringAttr("forward"));
  for (const Need &need : needs) {
    Value value = operands[need.argument];
    // Parameters in front of everything: once a step, whatever loops there are.
    if (auto argument = dyn_cast<BlockArgument>(value);
        argument && isa<func::FuncOp>(argument.getOwner()->getParentOp()))
      builder.setInsertionPointToStart(argument.getOwner());
    for (Operation *view : need.views) {
      Operation *made = view->clone();
      made->setOperand(0, value);
      made->getResult(0).setType(
          tensorType(made->getResult(0)).clone(elementOf(value)));
      made->setAttr(nn::kRoleAttr, builder.getStringAttr("forward"));
      builder.insert(made);
      value = made->getResult(0);
    }
    nn::Emit emit(builder, call.getLoc());
    nn::Quantized matrix =
        quantize(emit, value, /*isGradient=*/false, need.blocks);
    matrices.push_back(matrix.payload);
    matrices.push_back(matrix.factors);
    builder.restoreInsertionPoint(here);
  }
  return matrices;
}

Value Converter::joinAmaxes(Location loc) {
  return scope.amaxes.size() == 1
             ? scope.amaxes.front()
             : nn::Emit(builder, loc)
                   .make<nn::ConcatenateOp>(scope.amaxes, int64_t(0));
}

void Converter::endSlots(func::FuncOp copy, Block *block,
                         SmallVectorImpl<Value> &results) {
  if (!scope.scales)
    return;
  unsigned number = cast<BlockArgument>(scope.scales).getArgNumber();
  if (scope.slots.empty()) {
    block->eraseArgument(number);
    return;
  }
  scope.scales.setType(
      RankedTensorType::get({static_cast<int64_t>(scope.slots.size())}, wide));
  results.push_back(joinAmaxes(copy.getLoc()));
  slotsOf[copy] = scope.slots;
}

FailureOr<Value> Converter::endHistory(func::FuncOp entry,
                                       Arguments &arguments) {
  if (!scope.scales)
    return Value();
  Block *block = arguments.block;
  auto placeholder = cast<BlockArgument>(scope.scales);
  int64_t count = scope.slots.size();
  bool isStep = entry.getName() == "step";
  if (allSlots.empty())
    allSlots = scope.slots;
  if (count == 0) {
    block->eraseArgument(placeholder.getArgNumber());
    return Value();
  }
  // Layers are called in the order of the step, forward first.
  if (count > static_cast<int64_t>(allSlots.size()) ||
      !std::equal(scope.slots.begin(), scope.slots.end(), allSlots.begin()))
    return LogicalResult(
        entry.emitOpError("has ")
        << count << " tensors of 8 bits, which are not the first of the "
        << allSlots.size()
        << " that the step has; expected the layers of one model in their "
           "order");
  int64_t all = allSlots.size();
  NamedAttrList attributes;
  attributes.set(nn::kStateAttr,
                 builder.getStrArrayAttr({kScalingKind, "amax_history"}));
  Value history = addArgument(
      arguments, RankedTensorType::get({settings.history, all}, wide),
      attributes);
  OpBuilder::InsertionGuard guard(builder);
  Value scales;
  {
    builder.setInsertionPointToStart(block);
    RoleSetter role(builder, builder.getStringAttr("forward"));
    nn::Emit emit(builder, entry.getLoc());
    Value most = emit.reduce(nn::ReduceKind::Max, history, {0});
    auto vector = RankedTensorType::get({all}, wide);
    SmallVector<float> largest(allSlots.begin(), allSlots.end());
    Value limit = emit.make<nn::ConstantOp>(
        DenseElementsAttr::get(vector, ArrayRef(largest)));
    Value scale = emit.make<nn::MinOp>(
        emit.div(limit, most),
        emit.scalar(most, std::numeric_limits<float>::max()));
    // Nothing has been seen in front of the first step.
    Value isKnown =
        emit.make<nn::AndOp>(emit.compare(nn::Predicate::GT, most, 0.0),
                             emit.compare(nn::Predicate::LT, most, INFINITY));
    scales = emit.select(isKnown, scale, emit.scalar(most, 1.0));
    if (count < all)
      scales = part(emit, scales, 0, count);
  }
  placeholder.replaceAllUsesWith(scales);
  block->eraseArgument(placeholder.getArgNumber());
  if (!isStep)
    return Value();
  builder.setInsertionPointToEnd(block);
  RoleSetter role(builder);
  nn::Emit emit(builder, entry.getLoc());
  // What is not finite, or all zeros, leaves the scale as it was.
  Value found = emit.reshape(joinAmaxes(entry.getLoc()), {1, all});
  auto row = [&](int64_t from, int64_t rows) {
    return emit.make<nn::SliceOp>(history, ArrayRef<int64_t>{from, 0},
                                  ArrayRef<int64_t>{rows, all},
                                  DenseI64ArrayAttr());
  };
  Value last = row(settings.history - 1, 1);
  Value isFinite = emit.compare(nn::Predicate::LT, found, INFINITY);
  Value isLarge = emit.compare(nn::Predicate::GT, found, 0.0);
  Value next =
      emit.select(emit.make<nn::AndOp>(isFinite, isLarge), found, last);
  if (settings.history == 1)
    return next;
  return emit.make<nn::ConcatenateOp>(
      ValueRange{row(1, settings.history - 1), next}, int64_t(0));
}

Value Converter::convertScaled(nn::EinsumOp op, ValueRange operands,
                               Type element) {
  using Granularity = Recipe::EightBit::Granularity;
  if (!recipe.eightBit || operands.size() != 2 || !scope.isLayer)
    return {};
  bool isWeightGradient = scope.matrixGradients.contains(op);
  int weight = -1;
  for (int i = 0; i < 2 && !isWeightGradient; ++i)
    if (scope.marks.lookup(op.getInputs()[i]) == Mark::Matrix)
      weight = i;
  if (!isWeightGradient && weight < 0)
    return {};
  // Of a gradient of weights one operand is the gradient of the result: the
  // first where both may be, as nn-differentiate writes it.
  bool isGradientOf[2] = {isWeightGradient, false};
  if (isWeightGradient && !isGradientValue(op.getInputs()[0]) &&
      isGradientValue(op.getInputs()[1]))
    std::swap(isGradientOf[0], isGradientOf[1]);
  if (weight >= 0)
    isGradientOf[1 - weight] = isGradient(op);
  auto [left, result] = op.getEquation().split("->");
  auto [first, second] = left.split(",");
  StringRef names[] = {first, second};
  ArrayRef<int64_t> shapes[] = {tensorType(operands[0]).getShape(),
                                tensorType(operands[1]).getShape()};
  // Letters that are summed have blocks in both operands alike.
  auto isSummed = [&, result = result](char c) { return !result.contains(c); };
  llvm::MapVector<char, int64_t> summed;
  int outer = weight == 0 ? 1 : 0;
  SmallVector<int64_t> blocks[2];
  Granularity granularity = recipe.eightBit->granularity;
  int64_t length = granularity == Granularity::Micro ? 32 : 128;
  // Gradients of weights are summed over tokens.
  cutBlocks(names[outer], shapes[outer], isSummed, length,
            isWeightGradient ? settings.tokenParts : settings.tensorParts,
            summed);
  for (int i = 0; i < 2; ++i) {
    llvm::MapVector<char, int64_t> own = summed;
    if (granularity == Granularity::Block && i == weight)
      cutBlocks(
          names[i], shapes[i], [](char) { return true; }, length,
          settings.tensorParts, own);
    for (auto [c, size] : llvm::zip_equal(names[i], shapes[i])) {
      auto it = own.find(c);
      blocks[i].push_back(granularity == Granularity::Tensor ? 0
                          : it == own.end()                  ? 1
                                                             : it->second);
    }
  }
  RoleSetter role(builder, op);
  nn::Emit emit(builder, op.getLoc());
  nn::Quantized both[2];
  for (int i = 0; i < 2; ++i)
    both[i] =
        i == weight
            ? quantizeMatrix(emit, op.getInputs()[i], operands[i], blocks[i])
            : quantize(emit, operands[i], isGradientOf[i], blocks[i]);
  return nn::scaledEinsum(emit, op.getEquation(), both[0], both[1],
                          cast<FloatType>(element));
}

/// Products of experts are computed from what the casts leave, in f32.
Value Converter::convertGrouped(Operation *op, ValueRange operands) {
  using Granularity = Recipe::EightBit::Granularity;
  bool isOuter = isa<nn::GroupedOuterOp>(op);
  if (!recipe.eightBit || !scope.isLayer ||
      !(isOuter ? scope.matrixGradients.contains(op)
                : scope.marks.lookup(op->getOperand(1)) == Mark::Matrix))
    return {};
  Granularity granularity = recipe.eightBit->granularity;
  int64_t length = granularity == Granularity::Micro ? 32 : 128;
  RoleSetter role(builder, op);
  nn::Emit emit(builder, op->getLoc());
  SmallVector<Value> widened(operands);
  bool isTransposed = !isOuter && cast<nn::GroupedMatmulOp>(op).getTransposed();
  for (int i = 0; i < 2; ++i) {
    ArrayRef<int64_t> shape = tensorType(operands[i]).getShape();
    int64_t rank = shape.size();
    bool isMatrix = !isOuter && i == 1;
    SmallVector<int64_t> blocks(rank,
                                granularity == Granularity::Tensor ? 0 : 1);
    auto cut = [&](int64_t dim) {
      blocks[dim] = fitBlock(shape[dim], length, settings.tensorParts);
    };
    if (granularity != Granularity::Tensor) {
      // Along what is summed; blocks of matrices along both.
      int64_t inner = isOuter                     ? rank - 2
                      : !isMatrix || isTransposed ? rank - 1
                                                  : rank - 2;
      cut(inner);
      if (isMatrix && granularity == Granularity::Block)
        cut(inner == rank - 1 ? rank - 2 : rank - 1);
    }
    bool gradient = isGradient(op) && !isMatrix &&
                    (!isOuter || isGradientValue(op->getOperand(i)));
    nn::Quantized value =
        isMatrix ? quantizeMatrix(emit, op->getOperand(i), operands[i], blocks)
                 : quantize(emit, operands[i], gradient, blocks);
    widened[i] = nn::dequantize(emit, value, cast<FloatType>(wide));
  }
  FailureOr<Operation *> made = copy(op, widened);
  return succeeded(made) ? (*made)->getResult(0) : Value();
}

LogicalResult Converter::convertEinsum(nn::EinsumOp op) {
  bool isWeightGradient = hasRole(op, "weight_gradient");
  SmallVector<Value> operands = operandsOf(op);
  bool isProduct = operands.size() == 2;
  bool isWide = llvm::any_of(op.getInputs(), [&](Value input) {
    return scope.marks.lookup(input) == Mark::Wide;
  });
  bool isRouter = llvm::any_of(op.getInputs(), [&](Value input) {
    return scope.marks.lookup(input) == Mark::Router;
  });
  bool wasNarrow = llvm::any_of(operands, [&](Value v) { return isNarrow(v); });
  operands = operandsAs(op, isProduct && !isWide ? narrow : wide);
  bool givesNarrow = !isWeightGradient && !isWide && isProduct &&
                     !(isRouter && !isGradient(op));
  Type element = givesNarrow ? narrow : wide;
  Value made =
      isWide || isRouter ? Value() : convertScaled(op, operands, element);
  if (!made) {
    for (auto [old, operand] : llvm::zip_equal(op.getInputs(), operands))
      if (isQuantizedMatrix(old))
        operand = as(operand, isProduct && !isWide ? narrow : wide, op);
    auto plain =
        nn::EinsumOp::create(builder, op.getLoc(), op.getType().clone(element),
                             op.getEquation(), operands);
    plain->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    made = plain;
  }
  setResult(op.getResult(), made, op,
            !isGradient(op) && !isRouter && wasNarrow);
  return success();
}

LogicalResult Converter::convertOp(Operation &op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return convertCall(call);
  if (auto loop = dyn_cast<nn::MicrobatchesOp>(op))
    return convertLoop(loop);
  if (op.getNumRegions())
    return op.emitOpError("has a body, which no recipe but fp32 goes into; "
                          "expected --precision=fp32");
  // What moves a parameter is one.
  if (isView(&op))
    if (Mark mark = scope.marks.lookup(op.getOperand(0)); mark != Mark::None)
      scope.marks[op.getResult(0)] = mark;

  bool isFloating = llvm::any_of(
      llvm::concat<const Value>(SmallVector<Value>(op.getOperands()),
                                SmallVector<Value>(op.getResults())),
      [&](Value value) { return elementOf(value) == wide; });
  SmallVector<Value> operands = operandsOf(&op);
  if (!isFloating || op.getNumOperands() == 0) {
    Operation *made = builder.clone(op, scope.mapping);
    // Where the backward begins.
    if (scope.scale && op.hasAttr(kSeedAttr)) {
      nn::Emit emit(builder, op.getLoc());
      Value scaled = emit.mul(made->getResult(0), scope.scale);
      setRole(scaled.getDefiningOp(), "input_gradient");
      scope.mapping.map(op.getResult(0), scaled);
    }
    return success();
  }
  if (isa<nn::AdamWOp, nn::SGDOp>(op))
    return convertUpdate(op);
  if (auto einsum = dyn_cast<nn::EinsumOp>(op))
    return convertEinsum(einsum);
  if (hasRole(&op, "optimizer")) {
    // The norm of all gradients, rates: as they are.
    Operation *made = builder.clone(op, scope.mapping);
    for (auto [from, to] : llvm::zip(op.getResults(), made->getResults()))
      scope.mapping.map(from, to);
    scaleNorm(op);
    return success();
  }

  bool gradient = isGradient(&op);
  // Whether every float that is no constant is narrow.
  bool isAllNarrow = true, hasScalar = false, hasFloat = false;
  for (Value operand : op.getOperands()) {
    Value value = scope.mapping.lookup(operand);
    if (!isFloat(value))
      continue;
    if (isScalarConstant(operand)) {
      hasScalar = true;
      continue;
    }
    hasFloat = true;
    isAllNarrow &= isNarrow(value);
  }
  isAllNarrow &= hasFloat;

  bool rounds = false;
  if (auto cast = dyn_cast<nn::CastOp>(op)) {
    // One with a rounding of its own rounds f32.
    Value input = operands[0];
    if (!cast.isPlain() && isFloat(input))
      input = as(input, wide, &op);
    auto made = nn::CastOp::create(builder, op.getLoc(), cast.getType(), input,
                                   cast.getRandom() ? operands[1] : Value(),
                                   cast.getSaturate());
    made->setDiscardableAttrs(op.getDiscardableAttrDictionary());
    setResult(op.getResult(0), made.getResult(), &op, false);
    return success();
  }
  if (isa<nn::RMSNormOp, nn::LayerNormOp, nn::EmbeddingOp, nn::AttentionOp>(
          op) &&
      !gradient) {
    bool isTable = isa<nn::EmbeddingOp>(op);
    bool isWideTable =
        isTable && scope.marks.lookup(op.getOperand(0)) == Mark::Wide;
    operands = operandsAs(&op, isWideTable ? wide : narrow);
    rounds = true;
  } else if (auto grad = dyn_cast<nn::AttentionGradOp>(op)) {
    operands.clear();
    for (Value operand : op.getOperands()) {
      Value value = scope.mapping.lookup(operand);
      bool isStatistic =
          operand == grad.getLse() || operand == grad.getLseGrad();
      operands.push_back(
          isFloat(value) ? as(value, isStatistic ? wide : narrow, &op) : value);
    }
  } else if (isa<nn::GroupedMatmulOp>(op)) {
    operands = operandsAs(&op, narrow);
  } else if (isa<nn::CrossEntropyOp, nn::CrossEntropyGradOp, nn::RouteOp>(op)) {
    // The first operand has either type; all else is a statistic.
    for (Value &operand : MutableArrayRef(operands).drop_front())
      if (isFloat(operand))
        operand = as(operand, wide, &op);
  } else if (isa<nn::DispatchOp, nn::CombineOp>(op)) {
    if (op.getNumOperands() > 3)
      operands[3] = as(operands[3], wide, &op);
  } else if (isa<nn::ConcatenateOp>(op)) {
    operands = operandsAs(&op, isAllNarrow ? narrow : wide);
  } else if (isMove(&op)) {
    // The type of the operand passes.
  } else if (isa<nn::GatherGradOp, nn::GroupedOuterOp, nn::ReduceOp,
                 nn::StepMeanOp, nn::StepSumOp, nn::SoftmaxOp>(op)) {
    operands = operandsAs(&op, wide);
  } else if (isa<nn::CompareOp>(op)) {
    operands = operandsAs(&op, isAllNarrow && !hasScalar ? narrow : wide);
  } else {
    // Element by element, or an op that others have added, in f32.
    bool isOwn = isa<nn::NNDialect>(op.getDialect());
    bool staysNarrow = isAllNarrow && !hasScalar && !gradient && isOwn;
    operands = operandsAs(&op, staysNarrow ? narrow : wide);
    rounds = isAllNarrow && !gradient;
  }
  if (isa<nn::GroupedMatmulOp, nn::GroupedOuterOp>(op))
    if (Value product = convertGrouped(&op, operands)) {
      setResult(op.getResult(0), product, &op, isa<nn::GroupedMatmulOp>(op));
      return success();
    }
  FailureOr<Operation *> made = copy(&op, operands);
  if (failed(made))
    return failure();
  for (auto [from, to] :
       llvm::zip_equal(op.getResults(), (*made)->getResults()))
    setResult(from, to, &op,
              rounds && elementOf(from) == wide && from == op.getResult(0));
  return success();
}

/// An update of the optimizer is that of the master. It is left out where
/// gradients overflowed.
LogicalResult Converter::convertUpdate(Operation &op) {
  auto adam = dyn_cast<nn::AdamWOp>(op);
  auto sgd = dyn_cast<nn::SGDOp>(op);
  Value scale = adam ? adam.getGradScale() : sgd.getGradScale();
  unsigned scaleAt =
      (adam ? adam.getGradScaleMutable() : sgd.getGradScaleMutable())
          .getOperandNumber();
  SmallVector<Value> operands = operandsOf(&op);
  if (Value own = scope.masterOf.lookup(op.getOperand(0)))
    operands[0] = own;
  for (auto [old, operand] : llvm::zip_equal(op.getOperands(), operands)) {
    if (Value factor = scope.factorOf.lookup(old)) {
      RoleSetter role(builder);
      nn::Emit emit(builder, op.getLoc());
      SmallVector<int64_t> whole(tensorType(operand).getRank(), 0);
      operand = nn::dequantize(emit, {operand, factor, whole}, wide);
    } else if (Type element = elementOf(operand);
               isa_and_nonnull<FloatType>(element) &&
               element.getIntOrFloatBitWidth() < 32) {
      operand = as(operand, wide, &op);
    }
  }
  nn::Emit emit(builder, op.getLoc());
  if (scope.scale && !scope.isFinite)
    return op.emitOpError("stands in front of the norm of all gradients, by "
                          "which a step of a scaled loss counts or not, "
                          "expected it behind");
  if (scope.scale) {
    Value &unscaled = scope.unscaled[scale];
    if (!unscaled) {
      unscaled = emit.mul(operands[scaleAt], scope.inverse);
      setRole(unscaled.getDefiningOp(), "optimizer");
    }
    operands[scaleAt] = unscaled;
  }
  FailureOr<Operation *> made = copy(&op, operands);
  if (failed(made))
    return failure();
  // Parameter and state, without the gradient between them.
  SmallVector<Value> old{operands[0], operands[2]};
  if (adam)
    old.push_back(operands[3]);
  for (auto [from, to, before] :
       llvm::zip_equal(op.getResults(), (*made)->getResults(), old)) {
    Value value = to;
    if (scope.scale) {
      value = emit.select(scope.isFinite, to, before);
      setRole(value.getDefiningOp(), "optimizer");
    }
    scope.mapping.map(from, value);
  }
  // Moments with factors, before the next parameter's are there in f32.
  for (auto [i, from] : llvm::enumerate(llvm::drop_begin(op.getResults()))) {
    Value before = op.getOperand(2 + i);
    if (!scope.factorOf.contains(before))
      continue;
    RoleSetter role(builder);
    auto format = cast<FloatType>(elementOf(scope.mapping.lookup(before)));
    scope.moments[from] = scaled(emit, scope.mapping.lookup(from), format);
  }
  return success();
}

Value Converter::addArgument(Arguments &arguments, Type type,
                             NamedAttrList attributes) {
  arguments.types.push_back(type);
  arguments.attributes.push_back(
      attributes.getDictionary(builder.getContext()));
  return arguments.block->addArgument(type, module.getLoc());
}

/// The scale of the loss is state: 0 in front of the first step, which takes
/// the one that is given.
void Converter::startScaling(Arguments &arguments, bool isStep, Location loc) {
  auto number = RankedTensorType::get({}, wide);
  auto state = [&](StringRef name) {
    NamedAttrList attributes;
    attributes.set(nn::kStateAttr,
                   builder.getStrArrayAttr({kScalingKind, name}));
    return addArgument(arguments, number, attributes);
  };
  auto scalar = [&](StringRef name, double value) {
    NamedAttrList attributes;
    attributes.set(nn::kScalarAttr, builder.getStringAttr(name));
    attributes.set("nn.default", builder.getF64FloatAttr(value));
    return addArgument(arguments, number, attributes);
  };
  Value kept = state("loss_scale");
  Value first = scalar("first_loss_scale", settings.lossScale);
  if (isStep) {
    scope.goodSteps = state("good_steps");
    scope.window = scalar("loss_scale_window", settings.lossScaleWindow);
  }
  builder.setInsertionPointToEnd(arguments.block);
  RoleSetter role(builder);
  nn::Emit emit(builder, loc);
  scope.scale =
      emit.select(emit.compare(nn::Predicate::GT, kept, 0.0), kept, first);
  scope.inverse = emit.div(emit.scalar(kept, 1.0), scope.scale);
}

/// The norm of gradients that were not scaled; whether it is finite decides, on
/// all ranks at once, whether the step counts.
void Converter::scaleNorm(Operation &op) {
  if (!scope.scale || scope.norm.getDefiningOp() != &op)
    return;
  RoleSetter role(builder);
  nn::Emit emit(builder, op.getLoc());
  Value norm = emit.mul(scope.mapping.lookup(scope.norm), scope.inverse);
  scope.mapping.map(scope.norm, norm);
  // NaN is not less, either.
  scope.isFinite = emit.compare(nn::Predicate::LT, norm, INFINITY);
}

/// Gives a loop one more accumulator, the largest of `amaxes`, and these to
/// what it stands in.
nn::MicrobatchesOp Converter::addAmaxes(nn::MicrobatchesOp loop,
                                        ArrayRef<Value> amaxes) {
  Location loc = loop.getLoc();
  Block &body = loop.getBody().front();
  Operation *yield = body.getTerminator();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(yield);
  RoleSetter role(builder, builder.getStringAttr("forward"));
  nn::Emit inside(builder, loc);
  Value found = amaxes.size() == 1
                    ? amaxes.front()
                    : inside.make<nn::ConcatenateOp>(amaxes, int64_t(0));
  Value most = body.addArgument(found.getType(), loc);
  SmallVector<Value> values(yield->getOperands());
  values.push_back(inside.make<nn::MaxOp>(most, found));
  yield->setOperands(values);
  builder.setInsertionPoint(loop);
  SmallVector<Value> inits(loop.getInits());
  inits.push_back(nn::Emit(builder, loc).constant(tensorType(found), 0));
  auto made =
      nn::MicrobatchesOp::create(builder, loc, ValueRange(inits).getTypes(),
                                 loop.getCount(), loop.getSliced(), inits);
  made->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  made.getBody().takeBody(loop.getBody());
  loop.erase();
  scope.amaxes.push_back(made.getResults().back());
  return made;
}

/// Moves an addition, with what makes an accumulator of its sum, to where the
/// addend is there, so that it does not wait for those of other parameters.
static void sumEarly(Operation *kept) {
  auto add = kept->getOperand(0).getDefiningOp<nn::AddOp>();
  if (!add)
    return;
  Operation *widened = nullptr, *addend = nullptr;
  for (Value operand : add->getOperands()) {
    Operation *from = operand.getDefiningOp();
    bool isWidened = isa_and_nonnull<nn::CastOp, nn::DequantizeOp>(from) &&
                     isa<BlockArgument>(from->getOperand(0));
    (isWidened ? widened : addend) = from;
  }
  if (!widened || !addend || addend->getBlock() != add->getBlock() ||
      !add->hasOneUse() || !widened->hasOneUse())
    return;
  Operation *last = addend;
  for (Operation *op : {widened, add.getOperation(), kept}) {
    op->moveAfter(last);
    last = op;
  }
}

LogicalResult Converter::convertLoop(nn::MicrobatchesOp loop) {
  Block &body = loop.getBody().front();
  SmallVector<Value> sliced =
      llvm::map_to_vector(loop.getSliced(), [&](Value value) {
        return scope.mapping.lookup(value);
      });
  SmallVector<Value> inits =
      llvm::map_to_vector(loop.getInits(), [&](Value value) {
        return scope.mapping.lookup(value);
      });
  // Accumulators of 8 bits have their factors behind all others.
  SmallVector<unsigned> eights;
  for (auto [i, result] : llvm::enumerate(loop.getResults())) {
    if (!scope.parameterGradients.contains(result))
      continue;
    if (settings.gradients == Storage::Narrow)
      inits[i] = as(inits[i], narrow, loop);
    else if (settings.gradients == Storage::FP8)
      eights.push_back(i);
  }
  for (unsigned i : eights) {
    RoleSetter role(builder, builder.getStringAttr("weight_gradient"));
    nn::Emit emit(builder, loop.getLoc());
    RankedTensorType type = tensorType(inits[i]);
    inits[i] = emit.constant(type.clone(eight), 0);
    inits.push_back(emit.constant(factorType(type), 0));
  }
  auto made = nn::MicrobatchesOp::create(builder, loop.getLoc(),
                                         ValueRange(inits).getTypes(),
                                         loop.getCount(), sliced, inits);
  made->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  Block &block = made.getBody().emplaceBlock();
  for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
    Type type = argument.getType();
    // The number of the microbatch, parts of what is cut, accumulators.
    if (i > sliced.size())
      type = inits[i - 1 - sliced.size()].getType();
    else if (i > 0)
      type = cast<RankedTensorType>(type).clone(elementOf(sliced[i - 1]));
    scope.mapping.map(argument, block.addArgument(type, argument.getLoc()));
  }
  SmallVector<Value> factors = llvm::map_to_vector(eights, [&](unsigned i) {
    return Value(
        block.addArgument(factorType(tensorType(inits[i])), loop.getLoc()));
  });
  auto widen = [&](Value payload, Value factor) {
    nn::Emit emit(builder, loop.getLoc());
    SmallVector<int64_t> whole(tensorType(payload).getRank(), 0);
    return nn::dequantize(emit, {payload, factor, whole}, wide);
  };
  // What is cast inside is not there outside.
  auto outside = scope.casts;
  auto outsideAmaxes = std::exchange(scope.amaxes, {});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&block);
    for (auto [i, factor] : llvm::zip_equal(eights, factors)) {
      RoleSetter role(builder, builder.getStringAttr("weight_gradient"));
      Value argument = body.getArgument(1 + sliced.size() + i);
      scope.mapping.map(argument,
                        widen(scope.mapping.lookup(argument), factor));
    }
    for (Operation &op : body.without_terminator())
      if (failed(convertOp(op)))
        return failure();
    SmallVector<Value> values, ofEights;
    Operation *yield = body.getTerminator();
    for (auto [i, value] : llvm::enumerate(yield->getOperands())) {
      if (llvm::is_contained(eights, i)) {
        RoleSetter role(builder, builder.getStringAttr("weight_gradient"));
        nn::Emit emit(builder, yield->getLoc());
        Value next = scope.mapping.lookup(value);
        nn::Quantized sum = scaled(emit, next, eight);
        sumEarly(sum.payload.getDefiningOp());
        values.push_back(sum.payload);
        ofEights.push_back(sum.factors);
        continue;
      }
      Value next = scope.mapping.lookup(value);
      Value kept = as(next, elementOf(inits[i]), yield);
      if (kept != next)
        sumEarly(kept.getDefiningOp());
      values.push_back(kept);
    }
    llvm::append_range(values, ofEights);
    nn::YieldOp::create(builder, yield->getLoc(), values);
  }
  scope.casts = std::move(outside);
  std::swap(scope.amaxes, outsideAmaxes);
  if (!outsideAmaxes.empty())
    made = addAmaxes(made, outsideAmaxes);
  for (auto [from, to] : llvm::zip(loop.getResults(), made.getResults()))
    scope.mapping.map(from, elementOf(to) == narrow && elementOf(from) == wide
                                ? noteWidened(as(to, wide, loop))
                                : Value(to));
  RoleSetter role(builder);
  for (auto [k, i] : llvm::enumerate(eights))
    scope.mapping.map(
        loop.getResult(i),
        noteWidened(widen(made.getResult(i),
                          made.getResult(loop.getNumResults() + k))));
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult Converter::convertCall(func::CallOp call) {
  Signature signature{call.getCallee(), {}, {}};
  if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
    if (auto forward = callee->getAttrOfType<StringAttr>(kForwardAttr))
      signature.forward = forward.getValue();
  SmallVector<Value> operands = operandsOf(call);
  for (auto [old, value] : llvm::zip_equal(call.getOperands(), operands)) {
    signature.types.push_back(value.getType());
    signature.marks.push_back(scope.marks.lookup(old));
  }
  FailureOr<func::FuncOp> callee = convert(signature);
  if (failed(callee))
    return failure();
  SmallVector<Value> matrices;
  if (auto needs = needsOf.find(*callee); needs != needsOf.end())
    matrices = quantizeFor(call, needs->second, operands);
  auto slots = slotsOf.find(*callee);
  bool hasSlots = slots != slotsOf.end();
  if (hasSlots) {
    RoleSetter role(builder, call);
    operands.push_back(part(nn::Emit(builder, call.getLoc()), scope.scales,
                            scope.slots.size(), slots->second.size()));
    llvm::append_range(scope.slots, slots->second);
  }
  llvm::append_range(operands, matrices);
  for (unsigned i : llvm::reverse(droppedOf[*callee]))
    operands.erase(operands.begin() + i);
  auto made = func::CallOp::create(builder, call.getLoc(), *callee, operands);
  made->setDiscardableAttrs(call->getDiscardableAttrDictionary());
  if (hasSlots)
    scope.amaxes.push_back(made.getResults().back());
  for (auto [from, to] : llvm::zip(call.getResults(), made.getResults()))
    scope.mapping.map(from, keepGradient(from, to, call));
  return success();
}

std::optional<unsigned> Converter::forwardOf(const Signature &signature,
                                             ArrayRef<LayerValue> takes) {
  auto it = signatures.find(signature.forward);
  if (it == signatures.end())
    return std::nullopt;
  for (auto [number, forward] : llvm::enumerate(it->second)) {
    bool fits = true;
    for (auto [i, value] : llvm::enumerate(takes))
      fits &= value.kind != LayerValue::Argument ||
              (value.index < forward.types.size() &&
               forward.types[value.index] == signature.types[i] &&
               forward.marks[value.index] == signature.marks[i]);
    if (fits)
      return number;
  }
  return std::nullopt;
}

bool Converter::isGradientValue(Value value) {
  Operation *op = value.getDefiningOp();
  return op ? isGradient(op) : scope.gradients.contains(value);
}

FailureOr<func::FuncOp> Converter::convert(const Signature &signature) {
  std::string key = signature.key();
  if (func::FuncOp known = made.lookup(key))
    return known;
  auto function = symbols.lookup<func::FuncOp>(signature.function);
  if (!function || function.isDeclaration())
    return LogicalResult(module.emitError("calls @")
                         << signature.function
                         << ", which has no body in the module");
  // The caller's is put aside.
  Scope callers = std::exchange(scope, Scope());
  scope.isLayer = true;
  OpBuilder::InsertionGuard guard(builder);
  llvm::scope_exit restore([&] { scope = std::move(callers); });

  builder.setInsertionPoint(function);
  auto copy = func::FuncOp::create(
      builder, function.getLoc(), (function.getName() + "_narrow").str(),
      FunctionType::get(builder.getContext(), signature.types, {}));
  copy->setDiscardableAttrs(function->getDiscardableAttrDictionary());
  copy.setVisibility(function.getVisibility());
  Block *block = copy.addEntryBlock();
  Block &old = function.getBody().front();
  if (recipe.eightBit && recipe.eightBit->isDelayed)
    scope.scales = block->addArgument(RankedTensorType::get({kMostSlots}, wide),
                                      function.getLoc());
  for (auto [i, argument] : llvm::enumerate(old.getArguments())) {
    block->getArgument(i).setLoc(argument.getLoc());
    scope.mapping.map(argument, block->getArgument(i));
    scope.marks[argument] = signature.marks[i];
  }
  // The gradient of an argument has its type, that of a parameter is f32.
  Operation *end = old.getTerminator();
  if (function->hasAttr(kOperandsAttr)) {
    auto takes = readLayerValues(function, kOperandsAttr);
    auto gives = readLayerValues(function, kResultsAttr);
    if (failed(takes) || failed(gives))
      return failure();
    for (auto [argument, what] : llvm::zip_equal(old.getArguments(), *takes))
      if (what.kind == LayerValue::Cotangent || what.kind == LayerValue::Handed)
        scope.gradients.insert(argument);
    std::optional<unsigned> number = forwardOf(signature, *takes);
    const Signature *forward =
        number ? &signatures[signature.forward][*number] : nullptr;
    for (auto [value, what] : llvm::zip_equal(end->getOperands(), *gives)) {
      if (what.kind != LayerValue::Argument || !forward ||
          what.index >= forward->types.size())
        continue;
      auto type = dyn_cast<RankedTensorType>(forward->types[what.index]);
      Mark mark = forward->marks[what.index];
      if (mark == Mark::None && type && type.getElementType() == narrow)
        scope.wantedNarrow.insert(value);
      if (mark == Mark::Matrix)
        collectProducts(value, scope.matrixGradients);
    }
  }
  builder.setInsertionPointToEnd(block);
  for (Operation &op : old.without_terminator())
    if (failed(convertOp(op)))
      return failure();
  SmallVector<Value> results;
  for (Value value : end->getOperands()) {
    Value result = scope.mapping.lookup(value);
    if (scope.wantedNarrow.contains(value) && elementOf(result) == wide)
      result = as(result, narrow, end);
    results.push_back(result);
  }
  endSlots(copy, block, results);
  if (!scope.needs.empty())
    needsOf[copy] = scope.needs;
  func::ReturnOp::create(builder, end->getLoc(), results);
  SmallVector<DictionaryAttr> attributes;
  function.getAllArgAttrs(attributes);
  attributes.resize(block->getNumArguments());
  if (settings.quantizesOnce && !quantized.empty()) {
    // A matrix is not handed on beside what was made of it.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    SmallVector<unsigned> &dropped = droppedOf[copy];
    for (BlockArgument argument : old.getArguments())
      if (isQuantizedMatrix(argument) &&
          block->getArgument(argument.getArgNumber()).use_empty())
        dropped.push_back(argument.getArgNumber());
    for (unsigned i : llvm::reverse(dropped)) {
      block->eraseArgument(i);
      attributes.erase(attributes.begin() + i);
    }
  }
  copy.setFunctionType(FunctionType::get(builder.getContext(),
                                         block->getArgumentTypes(),
                                         ValueRange(results).getTypes()));
  copy.setAllArgAttrs(attributes);
  attributes.clear();
  function.getAllResultAttrs(attributes);
  attributes.resize(results.size());
  copy.setAllResultAttrs(attributes);
  symbols.insert(copy);
  made[key] = copy;
  signatures[signature.function].push_back(signature);
  versions[signature.function].push_back(copy);
  if (scope.scales || settings.quantizesOnce) {
    // A pipeline has its own way of cutting layers, which knows of no other
    // arguments.
    for (StringRef attribute :
         {StringRef(kOperandsAttr), StringRef(kResultsAttr),
          StringRef(kForwardAttr), StringRef(kInputGradientAttr),
          StringRef(kWeightGradientAttr)})
      copy->removeAttr(attribute);
    return copy;
  }
  if (function->hasAttr(kForwardAttr) &&
      failed(convertHalves(function, copy, signature)))
    return failure();
  return copy;
}

/// The two halves of a backward, which a pipeline may call in its place.
LogicalResult Converter::convertHalves(func::FuncOp backward, func::FuncOp copy,
                                       const Signature &signature) {
  FailureOr<LayerSet> set = readLayerSet(backward, symbols);
  if (failed(set))
    return failure();
  auto takes = readLayerValues(backward, kOperandsAttr);
  if (failed(takes))
    return failure();
  // The forward that was called with the same arguments.
  if (std::optional<unsigned> number = forwardOf(signature, *takes))
    copy->setAttr(
        kForwardAttr,
        versions.find(set->forward.getName())->second[*number].getNameAttr());
  if (!set->inputGradient)
    return success();
  func::FuncOp inputs;
  for (auto [half, attribute] :
       {std::pair(set->inputGradient, kInputGradientAttr),
        std::pair(set->weightGradient, kWeightGradientAttr)}) {
    auto needs = readLayerValues(half, kOperandsAttr);
    auto hands = readLayerValues(set->inputGradient, kResultsAttr);
    if (failed(needs) || failed(hands))
      return failure();
    Signature own{half.getName(), {}, {}, signature.forward};
    for (LayerValue value : *needs) {
      if (const auto *it = llvm::find(*takes, value); it != takes->end()) {
        own.types.push_back(signature.types[it - takes->begin()]);
        own.marks.push_back(signature.marks[it - takes->begin()]);
      } else if (const auto *it = llvm::find(*hands, value);
                 inputs && it != hands->end()) {
        own.types.push_back(inputs.getResultTypes()[it - hands->begin()]);
        own.marks.push_back(Mark::None);
      } else {
        return half.emitOpError("takes '")
               << value.str() << "', which @" << backward.getName()
               << " does not, expected the operands of a backward or what its "
                  "other half hands over";
      }
    }
    FailureOr<func::FuncOp> made = convert(own);
    if (failed(made))
      return failure();
    if (!inputs)
      inputs = *made;
    copy->setAttr(attribute, made->getNameAttr());
  }
  return success();
}

LogicalResult Converter::convertEntry(func::FuncOp entry) {
  scope = Scope();
  bool isStep = entry.getName() == "step";
  Block &old = entry.getBody().front();
  Arguments arguments{nullptr, SmallVector<Type>(entry.getArgumentTypes()), {}};
  SmallVector<Type> &types = arguments.types;
  entry.getAllArgAttrs(arguments.attributes);
  for (unsigned i = 0; i < types.size(); ++i) {
    auto param = entry.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr);
    auto type = dyn_cast<RankedTensorType>(types[i]);
    Attribute state = entry.getArgAttr(i, nn::kStateAttr);
    if (type && type.getElementType() == wide && isMoment(state)) {
      if (settings.moments == Storage::Narrow)
        types[i] = type.clone(moment);
      else if (FloatType format = momentFormat(state))
        types[i] = type.clone(format);
    }
    if (!param || !type || type.getElementType() != wide)
      continue;
    Mark mark = parameters.lookup(param.getName().getValue());
    scope.marks[old.getArgument(i)] = mark;
    if (quantized.contains(param.getName().getValue())) {
      types[i] = type.clone(master);
      NamedAttrList attributes(arguments.attributes[i]);
      attributes.set(nn::kQuantizedAttr, builder.getUnitAttr());
      arguments.attributes[i] = attributes.getDictionary(builder.getContext());
    } else if (mark != Mark::Wide) {
      types[i] = type.clone(narrow);
    }
  }
  builder.setInsertionPoint(entry);
  auto copy =
      func::FuncOp::create(builder, entry.getLoc(), entry.getName(),
                           FunctionType::get(builder.getContext(), types, {}));
  copy->setDiscardableAttrs(entry->getDiscardableAttrDictionary());
  copy.setVisibility(entry.getVisibility());
  Block *block = arguments.block = copy.addEntryBlock();
  for (auto [from, to] :
       llvm::zip_equal(old.getArguments(), block->getArguments())) {
    to.setLoc(from.getLoc());
    scope.mapping.map(from, to);
  }
  if (recipe.eightBit && recipe.eightBit->isDelayed)
    scope.scales = block->addArgument(RankedTensorType::get({kMostSlots}, wide),
                                      entry.getLoc());
  // Updates that are rounded at random, and what they are then.
  llvm::MapVector<Value, int64_t> stochastic;
  llvm::DenseMap<Value, Value> rounded;
  // Masters come behind everything else.
  SmallVector<std::pair<StringAttr, Value>> updated;
  if (isStep)
    for (Operation &op : old)
      if (isa<nn::AdamWOp, nn::SGDOp>(op)) {
        auto argument = dyn_cast<BlockArgument>(op.getOperand(0));
        auto param = argument ? entry.getArgAttrOfType<nn::ParamAttr>(
                                    argument.getArgNumber(), nn::kParamAttr)
                              : nn::ParamAttr();
        if (!param || argument.getType() == types[argument.getArgNumber()])
          continue;
        if (settings.masters != Masters::F32) {
          int64_t elements = tensorType(argument).getNumElements();
          if (elements > nn::kMostRandom)
            return op.emitOpError("updates the parameter ")
                   << param.getName() << " of " << elements
                   << " elements, and with masters="
                   << (settings.masters == Masters::F16 ? "f16" : "none")
                   << " updates are rounded at random; expected at most 2^32 "
                      "elements, masters=f32, or keep="
                   << param.getName().getValue();
          stochastic.insert({op.getResult(0), stochastic.size()});
        }
        if (settings.masters == Masters::None ||
            quantized.contains(param.getName().getValue()))
          continue;
        auto type = cast<RankedTensorType>(argument.getType()).clone(master);
        NamedAttrList attributes;
        attributes.set(
            nn::kStateAttr,
            builder.getStrArrayAttr({kMasterKind, param.getName().getValue()}));
        scope.masterOf[argument] = addArgument(arguments, type, attributes);
        masters.emplace_back(param.getName(), type);
        updated.emplace_back(param.getName(), op.getResult(0));
      }
  // Factors of moments, which are the results of one op.
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    Attribute state = entry.getArgAttr(i, nn::kStateAttr);
    if (!momentFormat(state) || types[i] == old.getArgument(i).getType())
      continue;
    NamedAttrList attributes;
    attributes.set(nn::kStateAttr, factorState(state));
    scope.factorOf[old.getArgument(i)] = addArgument(
        arguments, factorType(tensorType(old.getArgument(i))), attributes);
  }
  Operation *end = old.getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (entry.getResultAttr(i, nn::kResultAttr) ==
        builder.getStrArrayAttr({"result", "grad_norm"}))
      scope.norm = value;
    else if (auto what =
                 entry.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr);
             what && what.size() == 2 &&
             what[0] == builder.getStringAttr("gradient"))
      scope.parameterGradients.insert(value);
  // In the step they are what the optimizer reads.
  for (Operation &op : old)
    if (isa<nn::AdamWOp, nn::SGDOp>(op))
      scope.parameterGradients.insert(op.getOperand(1));
  Value key;
  if (!stochastic.empty()) {
    for (unsigned i = 0; i < entry.getNumArguments(); ++i)
      if (entry.getArgAttr(i, nn::kRngAttr))
        key = block->getArgument(i);
    NamedAttrList attributes;
    attributes.set(nn::kRngAttr, builder.getUnitAttr());
    if (!key)
      key = addArgument(arguments,
                        RankedTensorType::get({4}, builder.getI32Type()),
                        attributes);
  }
  bool hasUpdates = llvm::any_of(
      old, [](Operation &op) { return isa<nn::AdamWOp, nn::SGDOp>(op); });
  if (recipe.scalesLoss && hasUpdates &&
      (!scope.norm || !scope.norm.getDefiningOp() ||
       !hasRole(scope.norm.getDefiningOp(), "optimizer")))
    return entry.emitOpError("has no result [\"result\", \"grad_norm\"] that "
                             "the optimizer computes, by which a step of a "
                             "scaled loss counts or not; run nn-accumulate and "
                             "nn-add-optimizer before");
  if (recipe.scalesLoss && scope.norm)
    startScaling(arguments, isStep, entry.getLoc());
  builder.setInsertionPointToEnd(block);
  for (Operation &op : old.without_terminator())
    if (failed(convertOp(op)))
      return failure();
  // Where they are read first, and no earlier: each is there in f32 for a short
  // while.
  for (Operation *op : scope.widened) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers())
      if (Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
          here && (!first || here->isBeforeInBlock(first)))
        first = here;
    if (first)
      op->moveBefore(first);
  }
  SmallVector<Value> results;
  SmallVector<std::pair<ArrayAttr, Value>> factors;
  SmallVector<DictionaryAttr> resultAttributes;
  entry.getAllResultAttrs(resultAttributes);
  resultAttributes.resize(entry.getNumResults());
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    Type element = elementOf(value);
    auto what = entry.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr);
    if (what && element == wide && what.size() == 2 &&
        what[0] == builder.getStringAttr("parameter"))
      if (auto name = dyn_cast<StringAttr>(what[1]);
          name && parameters.lookup(name.getValue()) != Mark::Wide)
        element = quantized.contains(name.getValue()) ? master : narrow;
    if (settings.moments == Storage::Narrow && element == wide &&
        isMoment(what))
      element = moment;
    Value result = scope.mapping.lookup(value);
    if (momentFormat(what) && element == wide) {
      nn::Quantized kept = scope.moments.lookup(value);
      if (!kept.payload)
        return entry.emitOpError("result ")
               << i << " is " << what
               << ", which no nn.adamw or nn.sgd computes from the state of "
                  "that name, expected what nn-add-optimizer makes";
      results.push_back(kept.payload);
      factors.emplace_back(factorState(what), kept.factors);
      continue;
    }
    // A step that does not count leaves what is balanced, too.
    if (scope.isFinite && isStep && what && what.size() == 2 &&
        what[0] == builder.getStringAttr("parameter") &&
        !isa_and_nonnull<nn::AdamWOp, nn::SGDOp>(value.getDefiningOp()))
      for (unsigned k = 0; k < entry.getNumArguments(); ++k)
        if (auto param =
                entry.getArgAttrOfType<nn::ParamAttr>(k, nn::kParamAttr);
            param && param.getName() == what[1] &&
            block->getArgument(k).getType() == result.getType()) {
          result = nn::Emit(builder, value.getLoc())
                       .select(scope.isFinite, result, block->getArgument(k));
          setRole(result.getDefiningOp(), "optimizer");
        }
    if (stochastic.contains(value)) {
      RoleSetter role(builder);
      nn::Emit emit(builder, value.getLoc());
      int64_t number = stochastic.lookup(value);
      Value stream =
          emit.constant(RankedTensorType::get({}, builder.getI32Type()),
                        static_cast<double>(kFirstRoundingStream + number));
      auto bits = RankedTensorType::get(tensorType(result).getShape(),
                                        builder.getI32Type());
      Value random = emit.make<nn::RandomOp>(bits, nn::Distribution::Bits, key,
                                             stream, /*sample_dim=*/false);
      bool hasMaster = settings.masters == Masters::F16;
      result = emit.make<nn::CastOp>(
          tensorType(result).clone(hasMaster ? master : narrow), result, random,
          /*saturate=*/hasMaster);
      rounded[value] = result;
    }
    // A cast is of the op that gives the value.
    Operation *from = value.getDefiningOp() ? value.getDefiningOp() : end;
    if (element == narrow || element == wide || element == moment ||
        element == master)
      result = as(result, element, from);
    if (scope.scale && what && what.size() == 2 &&
        what[0] == builder.getStringAttr("gradient")) {
      result = nn::Emit(builder, value.getLoc()).mul(result, scope.inverse);
      setRole(result.getDefiningOp(), "optimizer");
    }
    results.push_back(result);
  }
  auto addResult = [&](StringRef kind, StringRef name, Value value) {
    results.push_back(value);
    resultAttributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
        nn::kResultAttr, builder.getStrArrayAttr({kind, name}))));
  };
  for (auto [name, value] : updated) {
    Value own = rounded.lookup(value);
    addResult(kMasterKind, name.getValue(),
              own ? own : scope.mapping.lookup(value));
  }
  for (auto [what, value] : factors)
    addResult(kScalingKind, cast<StringAttr>(what[1]).getValue(), value);
  FailureOr<Value> history = endHistory(entry, arguments);
  if (failed(history))
    return failure();
  if (*history)
    addResult(kScalingKind, "amax_history", *history);
  if (scope.scale && isStep) {
    // Halved by an overflow, doubled by a window without one.
    RoleSetter role(builder);
    nn::Emit emit(builder, entry.getLoc());
    Value zero = emit.scalar(scope.scale, 0.0),
          one = emit.scalar(scope.scale, 1.0);
    Value count = emit.add(scope.goodSteps, 1.0);
    Value isFull = emit.compare(nn::Predicate::GE, count, scope.window);
    Value good = emit.select(isFull, emit.mul(scope.scale, 2.0), scope.scale);
    Value bad = emit.make<nn::MaxOp>(emit.mul(scope.scale, 0.5), one);
    addResult(kScalingKind, "loss_scale",
              emit.select(scope.isFinite, good, bad));
    addResult(
        kScalingKind, "good_steps",
        emit.select(scope.isFinite, emit.select(isFull, zero, count), zero));
    addResult("result", "loss_scale", scope.scale);
  }
  func::ReturnOp::create(builder, end->getLoc(), results);
  copy.setFunctionType(FunctionType::get(builder.getContext(), types,
                                         ValueRange(results).getTypes()));
  copy.setAllArgAttrs(arguments.attributes);
  copy.setAllResultAttrs(resultAttributes);
  symbols.erase(entry);
  symbols.insert(copy);
  return success();
}

/// Initial values are drawn as in f32; the masters have them as they are.
LogicalResult Converter::convertInitializer(func::FuncOp init) {
  Operation *end = init.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  SmallVector<Value> results(end->getOperands());
  SmallVector<DictionaryAttr> attributes;
  init.getAllResultAttrs(attributes);
  llvm::StringMap<Value> drawn;
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    auto what = init.getResultAttrOfType<ArrayAttr>(i, nn::kResultAttr);
    auto known =
        what && what.size() == 2 ? dyn_cast<StringAttr>(what[1]) : StringAttr();
    if (!known || what[0] != builder.getStringAttr("parameter") ||
        elementOf(value) != wide)
      continue;
    StringRef name = known.getValue();
    drawn[name] = value;
    if (parameters.lookup(name) == Mark::Wide)
      continue;
    // Of the master, where that is rounded.
    nn::Emit emit(builder, value.getLoc());
    if (settings.masters == Masters::F16)
      drawn[name] = results[i] = emit.cast(value, master);
    if (!quantized.contains(name))
      results[i] = emit.cast(results[i], narrow);
  }
  for (auto [name, type] : masters) {
    Value value = drawn.lookup(name.getValue());
    if (!value || value.getType() != type)
      return init.emitOpError("has no result [\"parameter\", ")
             << name << "] of type " << type
             << ", as nn-add-initializer makes it";
    results.push_back(value);
    attributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
        nn::kResultAttr,
        builder.getStrArrayAttr({kMasterKind, name.getValue()}))));
  }
  end->setOperands(results);
  init.setFunctionType(FunctionType::get(builder.getContext(),
                                         init.getArgumentTypes(),
                                         ValueRange(results).getTypes()));
  init.setAllResultAttrs(attributes);
  return success();
}

LogicalResult Converter::run() {
  SmallVector<func::FuncOp> entries, old;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (function.isPrivate())
      old.push_back(function);
    else if (function.getName() != "init" && !function.isDeclaration())
      entries.push_back(function);
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration() && !function.getBody().hasOneBlock())
      return function.emitOpError("has ")
             << function.getBody().getBlocks().size()
             << " blocks, expected one: the ops of a step run one after "
                "another";
  WalkResult calls = module.walk([&](func::CallOp call) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || callee.isPrivate())
      return WalkResult::advance();
    call.emitOpError("calls @")
        << call.getCallee()
        << ", which is public, expected a private function: what the outside "
           "calls has other types than what a step does; inline it, or copy it";
    return WalkResult::interrupt();
  });
  if (calls.wasInterrupted())
    return failure();
  // What has the most tensors says which histories there are.
  auto orderOf = [](func::FuncOp function) {
    return function.getName() == "step"        ? 0
           : function.getName() == "gradients" ? 1
                                               : 2;
  };
  llvm::stable_sort(entries, [&](func::FuncOp a, func::FuncOp b) {
    return orderOf(a) < orderOf(b);
  });
  for (func::FuncOp function : entries)
    if (failed(convertEntry(function)))
      return failure();
  if (auto init = symbols.lookup<func::FuncOp>("init");
      init && !init.isDeclaration())
    if (failed(convertInitializer(init)))
      return failure();
  // What is not called any more goes, and the first version of each has its
  // name.
  for (func::FuncOp function : old)
    symbols.erase(function);
  for (auto &[name, all] : versions) {
    auto rename = [&](func::FuncOp function, StringRef to) -> LogicalResult {
      StringAttr before = function.getNameAttr();
      if (failed(symbols.rename(function, to)))
        return failure();
      // Functions of a layer name each other in strings, too.
      for (func::FuncOp other : module.getOps<func::FuncOp>())
        for (StringRef attribute :
             {StringRef(kForwardAttr), StringRef(kInputGradientAttr),
              StringRef(kWeightGradientAttr)})
          if (other->getAttr(attribute) == before)
            other->setAttr(attribute, function.getNameAttr());
      return success();
    };
    if (failed(rename(all.front(), name)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct NNApplyPrecision : sheaf::impl::NNApplyPrecisionBase<NNApplyPrecision> {
  using NNApplyPrecisionBase::NNApplyPrecisionBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    std::optional<Recipe> found = lookupRecipe(recipe);
    if (!found) {
      emitError(module.getLoc()) << "nn-apply-precision: option 'recipe' is '"
                                 << recipe << "', expected " << listRecipes();
      return signalPassFailure();
    }
    if (found->isF32())
      return;
    for (auto [name, value] :
         {std::pair<StringRef, double>{"loss-scale", lossScale},
          {"loss-scale-window", lossScaleWindow}})
      if (!(value >= 1) || !std::isfinite(value)) {
        emitError(module.getLoc())
            << "nn-apply-precision: option '" << name << "' is " << value
            << ", expected a finite number of at least 1";
        return signalPassFailure();
      }
    if (failed(nn::refuseRecursion(module)))
      return signalPassFailure();
    llvm::StringMap<Mark> marks;
    if (failed(markParameters(marks)))
      return signalPassFailure();
    auto find = [&](StringRef name, StringRef value,
                    ArrayRef<StringRef> words) -> std::optional<size_t> {
      const StringRef *it = llvm::find(words, value);
      if (it != words.end())
        return it - words.begin();
      emitError(module.getLoc())
          << "nn-apply-precision: option '" << name << "' is '" << value
          << "', expected " << llvm::join(words.drop_back(), ", ") << " or "
          << words.back();
      return std::nullopt;
    };
    std::optional<size_t> gradientsAs = find("gradients", gradients,
                                             {"f32", "narrow", "fp8"}),
                          momentsAs = find("moments", moments,
                                           {"f32", "narrow", "fp8"}),
                          mastersAs =
                              find("masters", masters, {"f32", "f16", "none"}),
                          weightsAs =
                              find("weights", weights, {"narrow", "quantized"});
    if (!gradientsAs || !momentsAs || !mastersAs || !weightsAs)
      return signalPassFailure();
    llvm::StringSet<> quantized;
    if (*weightsAs == 1 &&
        failed(findQuantized(*found, static_cast<Masters>(*mastersAs), marks,
                             quantized)))
      return signalPassFailure();
    if (history < 1 || history > (1 << 20)) {
      emitError(module.getLoc())
          << "nn-apply-precision: option 'history' is " << int64_t(history)
          << ", expected 1 to 2^20 steps";
      return signalPassFailure();
    }
    if (tokenParts < 1 || tensorParts < 1) {
      emitError(module.getLoc())
          << "nn-apply-precision: options 'token-parts' and 'tensor-parts' are "
          << int64_t(tokenParts) << " and " << int64_t(tensorParts)
          << ", expected at least 1";
      return signalPassFailure();
    }
    Settings settings{lossScale,
                      lossScaleWindow,
                      static_cast<Storage>(*gradientsAs),
                      static_cast<Storage>(*momentsAs),
                      static_cast<Masters>(*mastersAs),
                      history,
                      once,
                      tokenParts,
                      tensorParts};
    Converter converter(module, *found, settings, marks, quantized);
    if (failed(converter.run()))
      return signalPassFailure();
  }

private:
  LogicalResult markParameters(llvm::StringMap<Mark> &marks);
  LogicalResult findQuantized(const Recipe &found, Masters kept,
                              const llvm::StringMap<Mark> &marks,
                              llvm::StringSet<> &quantized);
};
} // namespace

/// Whether what `value` is moved to is multiplied, and the product chooses
/// experts.
static bool choosesExperts(Value value, bool isProduct, SymbolTable &symbols,
                           llvm::SmallPtrSetImpl<void *> &seen) {
  if (!seen.insert(value.getAsOpaquePointer()).second)
    return false;
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isProduct && isa<nn::RouteOp>(user))
      return use.getOperandNumber() == 0;
    if (auto call = dyn_cast<func::CallOp>(user)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      return callee && !callee.isDeclaration() &&
             choosesExperts(callee.getArgument(use.getOperandNumber()),
                            isProduct, symbols, seen);
    }
    if (auto einsum = dyn_cast<nn::EinsumOp>(user))
      return !isProduct &&
             choosesExperts(einsum.getResult(), true, symbols, seen);
    return isa<nn::ReshapeOp, nn::TransposeOp>(user) &&
           choosesExperts(user->getResult(0), isProduct, symbols, seen);
  });
}

/// Whether `value`, a matrix or what is seen of one, is read by products of 8
/// bits only, those in layers, beside the optimizer's update.
static bool isReadInEightBits(Value value, bool isLayer, SymbolTable &symbols,
                              llvm::SmallPtrSetImpl<void *> &seen) {
  if (!seen.insert(value.getAsOpaquePointer()).second)
    return true;
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto call = dyn_cast<func::CallOp>(user)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      return callee && !callee.isDeclaration() && callee.isPrivate() &&
             isReadInEightBits(callee.getArgument(use.getOperandNumber()),
                               /*isLayer=*/true, symbols, seen);
    }
    if (isa<nn::AdamWOp, nn::SGDOp>(user))
      return !isLayer && use.getOperandNumber() == 0;
    if (isView(user))
      return isReadInEightBits(user->getResult(0), isLayer, symbols, seen);
    if (auto einsum = dyn_cast<nn::EinsumOp>(user))
      return isLayer && einsum.getInputs().size() == 2;
    return isLayer && isa<nn::GroupedMatmulOp>(user) &&
           use.getOperandNumber() == 1;
  });
}

LogicalResult
NNApplyPrecision::findQuantized(const Recipe &found, Masters kept,
                                const llvm::StringMap<Mark> &marks,
                                llvm::StringSet<> &quantized) {
  ModuleOp module = getOperation();
  if (!found.eightBit)
    return emitError(module.getLoc())
           << "nn-apply-precision: option 'weights' is 'quantized', and "
           << "recipe=" << recipe << " has no products of 8 bits; expected one "
           << "of fp8-tensor, fp8-block, fp8-delayed and mxfp8";
  if (kept == Masters::None)
    return emitError(module.getLoc())
           << "nn-apply-precision: option 'weights' is 'quantized', which "
              "leaves of a matrix its master, and option 'masters' is 'none'; "
              "expected f32 or f16";
  SymbolTable symbols(module);
  llvm::StringSet<> others;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (!function.isPublic() || function.isDeclaration())
      continue;
    for (BlockArgument argument : function.getArguments()) {
      auto param = function.getArgAttrOfType<nn::ParamAttr>(
          argument.getArgNumber(), nn::kParamAttr);
      if (!param || marks.lookup(param.getName().getValue()) != Mark::Matrix ||
          elementOf(argument) != Float32Type::get(module.getContext()))
        continue;
      llvm::SmallPtrSet<void *, 8> seen;
      (isReadInEightBits(argument, /*isLayer=*/false, symbols, seen) ? quantized
                                                                     : others)
          .insert(param.getName().getValue());
    }
  }
  for (const auto &other : others)
    quantized.erase(other.getKey());
  if (quantized.empty())
    return emitError(module.getLoc())
           << "nn-apply-precision: option 'weights' is 'quantized', and there "
              "is no matrix that layers read in 8 bits only; expected a model "
              "with layers, or weights=narrow";
  return success();
}

LogicalResult NNApplyPrecision::markParameters(llvm::StringMap<Mark> &marks) {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  std::vector<std::pair<llvm::GlobPattern, bool>> patterns;
  for (const std::string &text : keep) {
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return emitError(module.getLoc())
             << "nn-apply-precision: option 'keep' has the pattern '" << text
             << "': " << llvm::toString(pattern.takeError());
    patterns.emplace_back(std::move(*pattern), false);
  }
  bool hasParameters = false;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (!function.isPublic() || function.isDeclaration())
      continue;
    for (BlockArgument argument : function.getArguments()) {
      auto param = function.getArgAttrOfType<nn::ParamAttr>(
          argument.getArgNumber(), nn::kParamAttr);
      if (!param)
        continue;
      hasParameters = true;
      StringRef name = param.getName().getValue();
      if (marks.contains(name))
        continue;
      // Embedding and head have the vocabulary; norms and biases one dimension.
      bool isMatrix = param.getAxes().size() >= 2 &&
                      llvm::none_of(param.getAxes(), [](StringAttr axis) {
                        return axis.getValue() == "vocab";
                      });
      Mark mark = isMatrix ? Mark::Matrix : Mark::Weight;
      llvm::SmallPtrSet<void *, 8> seen;
      // What moves in small steps of its own is no weight.
      if (!param.getBalance().isZero())
        mark = Mark::Wide;
      else if (choosesExperts(argument, false, symbols, seen))
        mark = Mark::Router;
      for (auto &[pattern, isUsed] : patterns)
        if (pattern.match(name)) {
          mark = Mark::Wide;
          isUsed = true;
        }
      marks[name] = mark;
    }
  }
  if (!hasParameters)
    return emitError(module.getLoc())
           << "nn-apply-precision: no function has a parameter (nn.param), "
              "expected a training step";
  for (auto [pattern, text] : llvm::zip_equal(patterns, keep))
    if (!pattern.second)
      return emitError(module.getLoc())
             << "nn-apply-precision: option 'keep' has '" << text
             << "', which matches the name of no parameter";
  return success();
}
