//===- LayerFunctions.h - The functions made of a layer --------*- C++ -*-===//
//
// How the forward, backward, input-gradient and weight-gradient function of a
// layer refer to each other and what their operands are, and the helpers with
// which passes take such functions apart and put them together.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_AUTODIFF_LAYERFUNCTIONS_H
#define SHEAF_PASSES_AUTODIFF_LAYERFUNCTIONS_H

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

namespace sheaf {

/// On layer_forward: the name of the layer that it computes, as a string: the
/// layer may go when nobody calls it.
inline constexpr llvm::StringLiteral kForwardOfAttr = "nn.forward_of";
/// On layer_backward: the names of the other functions of the set, as strings:
/// the parts go where nothing has called them by the end of floor 2.
inline constexpr llvm::StringLiteral kForwardAttr = "nn.forward";
inline constexpr llvm::StringLiteral kInputGradientAttr = "nn.input_gradient";
inline constexpr llvm::StringLiteral kWeightGradientAttr = "nn.weight_gradient";
/// On the three gradient functions: what each operand and result is.
inline constexpr llvm::StringLiteral kOperandsAttr = "nn.operands";
inline constexpr llvm::StringLiteral kResultsAttr = "nn.results";

/// On the constant from which the gradients of a step come: the gradient of a
/// loss by itself.
inline constexpr llvm::StringLiteral kSeedAttr = "nn.seed";

/// What an operand or result of a layer's gradient functions is, in terms of
/// the layer. As text: `argument 0`, `kept 2`.
struct LayerValue {
  enum Kind { Argument, Result, Kept, Cotangent, Handed };
  Kind kind;
  unsigned index;

  bool operator==(const LayerValue &other) const = default;
  std::string str() const;
  static std::optional<LayerValue> parse(llvm::StringRef text);
};

/// The attribute that lists `values`, and its reading; failure with a
/// diagnostic on `function` where the attribute is missing or malformed.
mlir::ArrayAttr getLayerValuesAttr(mlir::MLIRContext *context,
                                   llvm::ArrayRef<LayerValue> values);
mlir::FailureOr<llvm::SmallVector<LayerValue>>
readLayerValues(mlir::func::FuncOp function, llvm::StringRef attribute);

/// The set of functions that a layer_backward belongs to.
/// `inputGradient` and `weightGradient` are null where they have been removed.
struct LayerSet {
  mlir::func::FuncOp forward, backward, inputGradient, weightGradient;
};
/// Reads the references on `backward`; failure with a diagnostic.
mlir::FailureOr<LayerSet> readLayerSet(mlir::func::FuncOp backward,
                                       mlir::SymbolTable &symbols);

/// Whether a value is built again where it is needed, rather than kept: a
/// constant, or its source moved, repeated, or widened.
bool isRebuilt(mlir::Value value);

/// Ops to be put in a function of their own, and the values that they read.
struct Part {
  /// In block order.
  llvm::SmallVector<mlir::Operation *> ops;
  /// What the ops and outputs read and `ops` do not define, in block order,
  /// arguments first.
  llvm::SmallVector<mlir::Value> inputs;
};
/// Completes `ops` (of one block) by the ops that are built again, where
/// `rebuild` allows, for them and for `outputs`.
Part completePart(llvm::ArrayRef<mlir::Operation *> ops,
                  llvm::ArrayRef<mlir::Value> outputs,
                  llvm::function_ref<bool(mlir::Value)> rebuild = isRebuilt);

/// Makes a private function named `name` (or like it) of `part`: its arguments
/// are `inputs`, which hold `part.inputs`, its results `outputs`.
mlir::func::FuncOp makeFunction(mlir::SymbolTable &symbols,
                                llvm::StringRef name, mlir::Location loc,
                                const Part &part,
                                llvm::ArrayRef<mlir::Value> inputs,
                                llvm::ArrayRef<mlir::Value> outputs);

/// A block that computes a layer and, behind it, gradients of its arguments.
struct LayerBlock {
  /// Of the layer. The other arguments of the block are cotangents of results.
  unsigned arguments = 0;
  llvm::SmallVector<unsigned> cotangentOf;
  llvm::SmallVector<mlir::Value> results;
  /// In block order, each with its role: input or weight gradient.
  llvm::SmallVector<mlir::Operation *> gradientOps;
  /// By argument. What is a parameter belongs to the weight gradients.
  llvm::SmallVector<std::pair<unsigned, mlir::Value>> inputGradients,
      parameterGradients;

  std::string backwardName, inputGradientName, weightGradientName;
  mlir::Location loc;
};

/// Makes the three gradient functions of a layer, without `forward`, and lists
/// in `kept` the values that the forward function has to return for them.
/// Forward values for which `recompute` holds are computed again.
LayerSet makeGradientFunctions(mlir::SymbolTable &symbols,
                               const LayerBlock &layer,
                               llvm::function_ref<bool(mlir::Value)> recompute,
                               llvm::SmallVectorImpl<mlir::Value> &kept);

/// Says on the functions of `set` which others belong to it. `layer` is the
/// name of what its forward computes.
void linkLayerSet(const LayerSet &set, mlir::StringAttr layer);

/// Inlines, in `function`, the calls of functions that are not layers.
mlir::LogicalResult inlineCalls(mlir::func::FuncOp function,
                                mlir::SymbolTable &symbols);

/// Erases ops without uses from `block`, the calls of functions included: what
/// is called computes values and nothing else.
void eraseUnused(mlir::Block &block);

/// The tensor type of a value.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// Gives `op` its role.
void setRole(mlir::Operation *op, llvm::StringRef role);

} // namespace sheaf

#endif // SHEAF_PASSES_AUTODIFF_LAYERFUNCTIONS_H
