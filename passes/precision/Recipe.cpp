//===- Recipe.cpp - The number formats of a training step -----------------===//

#include "passes/precision/Recipe.h"

using namespace mlir;
using namespace sheaf;

static constexpr Recipe recipes[] = {
    {"fp32", Recipe::Narrow::F32, false},
    {"bf16", Recipe::Narrow::BF16, false},
    {"fp16", Recipe::Narrow::F16, true},
};

std::optional<Recipe> sheaf::lookupRecipe(StringRef name) {
  for (const Recipe &recipe : recipes)
    if (recipe.name == name)
      return recipe;
  return std::nullopt;
}

std::string sheaf::listRecipes() {
  std::string text;
  size_t count = std::size(recipes);
  for (size_t i = 0; i < count; ++i) {
    text += i == 0 ? "" : i + 1 == count ? " or " : ", ";
    text += recipes[i].name;
  }
  return text;
}

Type Recipe::getNarrowType(MLIRContext *context) const {
  switch (narrow) {
  case Narrow::BF16:
    return BFloat16Type::get(context);
  case Narrow::F16:
    return Float16Type::get(context);
  case Narrow::F32:
    break;
  }
  return Float32Type::get(context);
}
