//===- Layout.h - Which stage has what, as text ----------------*- C++ -*-===//
//
// The exact placement of a model on stages, from a user:
//
//     e l*2 | l*3 | l*2 h
//
// has a stage between each two bars; in it `e`, the embedding, `l`, a layer,
// `l*3`, three of them, and `h`, the head with the loss.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_STAGES_LAYOUT_H
#define SHEAF_PASSES_STAGES_LAYOUT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace sheaf::stages {

struct Layout {
  /// How many layers each stage has.
  std::vector<int64_t> layers;
  /// The stage of the embedding; -1: the first that reads it.
  int64_t embedding = -1;
};

/// The error says the column, what was found and what was expected: one
/// embedding, at most, before the layers; one head, at most, behind them and on
/// the last stage.
llvm::Expected<Layout> parseLayout(llvm::StringRef text);

} // namespace sheaf::stages

#endif // SHEAF_PASSES_STAGES_LAYOUT_H
