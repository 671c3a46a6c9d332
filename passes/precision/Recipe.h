//===- Recipe.h - The number formats of a training step --------*- C++ -*-===//

#ifndef SHEAF_PASSES_PRECISION_RECIPE_H
#define SHEAF_PASSES_PRECISION_RECIPE_H

#include "dialects/NN/NN.h"
#include <optional>
#include <string>

namespace sheaf {

/// The kind of state that is the f32 value of a narrow parameter.
inline constexpr llvm::StringLiteral kMasterKind = "master";
/// The kind of state that is no parameter's: the scale of a loss.
inline constexpr llvm::StringLiteral kScalingKind = "scaling";

/// How a step computes, as `--precision` names it.
struct Recipe {
  llvm::StringLiteral name;
  enum class Narrow { F32, BF16, F16 } narrow;
  /// Gradients are scaled up, and a step where they overflow is left out.
  bool scalesLoss = false;
  /// Products with weights take 8-bit floats.
  struct EightBit {
    /// What a factor belongs to: a tensor, blocks of 1 x 128 and of weights 128
    /// x 128, or 32 along what is summed.
    enum class Granularity { Tensor, Block, Micro } granularity;
    nn::ScaleRule scale;
    /// Whether gradients of activations are f8E5M2.
    bool hasWideGradients;
  };
  std::optional<EightBit> eightBit = std::nullopt;

  bool isF32() const { return narrow == Narrow::F32; }
  /// The element type of weights and activations.
  mlir::Type getNarrowType(mlir::MLIRContext *context) const;
};

std::optional<Recipe> lookupRecipe(llvm::StringRef name);
/// The names of all, "a, b or c".
std::string listRecipes();

} // namespace sheaf

#endif // SHEAF_PASSES_PRECISION_RECIPE_H
