//===- Recipe.h - The number formats of a training step --------*- C++ -*-===//

#ifndef SHEAF_PASSES_PRECISION_RECIPE_H
#define SHEAF_PASSES_PRECISION_RECIPE_H

#include "mlir/IR/BuiltinTypes.h"
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
  bool scalesLoss;

  bool isF32() const { return narrow == Narrow::F32; }
  /// The element type of weights and activations.
  mlir::Type getNarrowType(mlir::MLIRContext *context) const;
};

std::optional<Recipe> lookupRecipe(llvm::StringRef name);
/// The names of all, "a, b or c".
std::string listRecipes();

} // namespace sheaf

#endif // SHEAF_PASSES_PRECISION_RECIPE_H
