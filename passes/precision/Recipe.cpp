//===- Recipe.cpp - The number formats of a training step -----------------===//

#include "passes/precision/Recipe.h"

using namespace mlir;
using namespace sheaf;

using EightBit = Recipe::EightBit;

static constexpr Recipe recipes[] = {
    {"fp32", Recipe::Narrow::F32},
    {"bf16", Recipe::Narrow::BF16},
    {"fp16", Recipe::Narrow::F16, /*scalesLoss=*/true},
    {"fp8-tensor", Recipe::Narrow::BF16, false,
     EightBit{EightBit::Granularity::Tensor, nn::ScaleRule::Exact, true}},
    {"fp8-block", Recipe::Narrow::BF16, false,
     EightBit{EightBit::Granularity::Block, nn::ScaleRule::PowerOfTwo, false}},
    {"mxfp8", Recipe::Narrow::BF16, false,
     EightBit{EightBit::Granularity::Micro, nn::ScaleRule::E8M0, false}},
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
