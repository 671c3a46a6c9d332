//===- NN.h - The tensor IR of models and training steps -------*- C++ -*-===//
//
// The public header of the nn dialect: ops, attributes, interfaces, and the few
// helpers with which gradients and decompositions are written.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_DIALECTS_NN_NN_H
#define SHEAF_DIALECTS_NN_NN_H

#include "dialects/NN/Rule.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace sheaf::nn {

// Predicates of the tensor types that ops take.
bool isStaticTensor(mlir::Type type);
/// Fails, with a diagnostic, at the first value in `root` whose tensor has an
/// encoding (a partial value of a mesh); `expected` ends "X, expected ...".
mlir::LogicalResult refuseEncodings(mlir::Operation *root,
                                    llvm::StringRef expected);
/// Fails, with a diagnostic, at a call that leads back to where it started; no
/// pass ends on those.
mlir::LogicalResult refuseRecursion(mlir::ModuleOp module);
/// So many random numbers of one key there are: their counter has 32 bits.
inline constexpr int64_t kMostRandom = int64_t(1) << 32;
bool isScalarOperand(mlir::Type type);
bool isAnyElement(mlir::Type type);
bool isFloatElement(mlir::Type type);
bool isNumberElement(mlir::Type type);
bool isIntElement(mlir::Type type);
bool isBoolElement(mlir::Type type);
/// f32, bf16 or f16.
bool isNarrowElement(mlir::Type type);
/// Of numbers in 8 bits that have factors beside them, and of those factors.
bool isPayloadElement(mlir::Type type);
bool isFactorElement(mlir::Type type);
/// The element type of a payload.
bool isPayload(mlir::Type element);

/// The element type in which sums, norms, losses and logarithms are kept: f32
/// for bf16 and f16, else `element` itself.
mlir::Type getStatisticsType(mlir::Type element);

/// Whether `to` holds every number of the element type `from`. i1 is no number.
bool isExactCast(mlir::Type from, mlir::Type to);

template <typename ConcreteOp>
class ElementwiseTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, ElementwiseTrait> {};

/// NumPy's broadcast of two shapes; failure where they do not fit.
mlir::FailureOr<llvm::SmallVector<int64_t>>
broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// What `GradientOpInterface::buildGradient` works with.
class Gradients {
public:
  Gradients(mlir::OpBuilder &builder, mlir::Operation *op,
            llvm::ArrayRef<mlir::Value> resultGradients,
            llvm::ArrayRef<bool> needed)
      : builder(builder), loc(op->getLoc()), resultGradients(resultGradients),
        needed(needed), operandGradients(op->getNumOperands()) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  /// The gradient of result `i`; null where nothing depends on the result.
  mlir::Value ofResult(unsigned i = 0) const { return resultGradients[i]; }
  /// Whether the gradient of operand `i` is asked for.
  bool needs(unsigned i) const { return needed[i]; }
  /// Hands over the gradient of operand `i`, of the operand's type.
  void set(unsigned i, mlir::Value gradient) { operandGradients[i] = gradient; }

  /// What was set, null elsewhere.
  llvm::ArrayRef<mlir::Value> get() const { return operandGradients; }

private:
  llvm::SmallVector<mlir::Value> resultGradients;
  llvm::SmallVector<bool> needed;
  llvm::SmallVector<mlir::Value> operandGradients;
};

} // namespace sheaf::nn

#include "dialects/NN/NNDialect.h.inc"
#include "dialects/NN/NNEnums.h.inc"
#include "dialects/NN/NNInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/NN/NNOps.h.inc"

namespace sheaf::nn {

/// Names of discardable attributes of the dialect.
inline constexpr llvm::StringLiteral kParamAttr = "nn.param";
inline constexpr llvm::StringLiteral kBatchAttr = "nn.batch";
inline constexpr llvm::StringLiteral kRngAttr = "nn.rng";
inline constexpr llvm::StringLiteral kScalarAttr = "nn.scalar";
inline constexpr llvm::StringLiteral kStateAttr = "nn.state";
inline constexpr llvm::StringLiteral kResultAttr = "nn.result";
inline constexpr llvm::StringLiteral kLayerAttr = "nn.layer";
inline constexpr llvm::StringLiteral kRuleAttr = "nn.rule";
inline constexpr llvm::StringLiteral kRoleAttr = "nn.role";
/// On a private function and its calls: pairs (result, argument), flat. The
/// result is the argument plus something, and may be computed in its memory.
inline constexpr llvm::StringLiteral kAccumulatesAttr = "nn.accumulates";

/// In front of the name of a bias: the result of a step's gradients that has
/// the load of each expert.
inline constexpr llvm::StringLiteral kLoadPrefix = "load:";

/// Writes nn ops in few words. Operands broadcast; numbers become constants of
/// the element type of the other operand.
class Emit {
public:
  Emit(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  template <typename Op, typename... Args>
  mlir::Value make(Args &&...args) {
    return Op::create(builder, loc, std::forward<Args>(args)...)->getResult(0);
  }

  mlir::Value add(mlir::Value a, mlir::Value b) { return make<AddOp>(a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return make<SubOp>(a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return make<MulOp>(a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return make<DivOp>(a, b); }
  mlir::Value add(mlir::Value a, double b) { return add(a, scalar(a, b)); }
  mlir::Value sub(double a, mlir::Value b) { return sub(scalar(b, a), b); }
  mlir::Value mul(mlir::Value a, double b) { return mul(a, scalar(a, b)); }
  mlir::Value div(mlir::Value a, double b) { return div(a, scalar(a, b)); }
  mlir::Value compare(Predicate p, mlir::Value a, mlir::Value b) {
    return make<CompareOp>(p, a, b);
  }
  mlir::Value compare(Predicate p, mlir::Value a, double b) {
    return compare(p, a, scalar(a, b));
  }
  mlir::Value select(mlir::Value c, mlir::Value a, mlir::Value b) {
    return make<SelectOp>(c, a, b);
  }
  mlir::Value cast(mlir::Value a, mlir::Type element);
  mlir::Value reduce(ReduceKind kind, mlir::Value a,
                     llvm::ArrayRef<int64_t> dims, bool keep = false) {
    return make<ReduceOp>(kind, a, dims, keep);
  }
  mlir::Value sum(mlir::Value a, llvm::ArrayRef<int64_t> dims,
                  bool keep = false) {
    return reduce(ReduceKind::Sum, a, dims, keep);
  }
  mlir::Value einsum(llvm::StringRef equation, mlir::ValueRange inputs) {
    return make<EinsumOp>(equation, inputs);
  }
  mlir::Value reshape(mlir::Value a, llvm::ArrayRef<int64_t> shape);
  /// `a` with a dimension of size 1 put in before dimension `dim`.
  mlir::Value expand(mlir::Value a, int64_t dim);
  mlir::Value broadcast(mlir::Value a, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims);
  /// A rank-0 constant with the element type of `like`.
  mlir::Value scalar(mlir::Value like, double value);
  /// A constant of `type` with every element `value`.
  mlir::Value constant(mlir::RankedTensorType type, double value) {
    return make<ConstantOp>(type, value);
  }
  /// Undoes a broadcast: sums `gradient` over what `to` did not have. Null
  /// stays null.
  mlir::Value unbroadcast(mlir::Value gradient, mlir::RankedTensorType to);
};

} // namespace sheaf::nn

#endif // SHEAF_DIALECTS_NN_NN_H
