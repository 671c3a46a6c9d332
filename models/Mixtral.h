//===- Mixtral.h - Experts in the place of an MLP --------------*- C++ -*-===//
//
// Mixtral, and what the other families with experts share: a router, experts
// whose matrices are stacked in one tensor a kind, shared experts, losses that
// keep the experts in balance.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MODELS_MIXTRAL_H
#define SHEAF_MODELS_MIXTRAL_H

#include "models/Llama.h"

namespace sheaf::models {

class Mixtral : public Llama {
public:
  using Llama::Llama;

protected:
  /// Layers of kind 0 have experts, those of kind 1 the MLP of Llama.
  static constexpr unsigned kDense = 1;
  unsigned blockKind(int64_t layer) const override {
    return layer < model.experts->denseLayers ? kDense : 0;
  }
  llvm::StringRef blockName(unsigned kind) const override {
    return kind == kDense ? "dense_block" : "block";
  }
  std::vector<Statistic> statistics() const override;
  bool hasStatistics(unsigned kind) const override { return kind != kDense; }

  void addFeedForwardParameters(Parameters &parameters,
                                unsigned kind) const override;
  mlir::Value feedForward(unsigned kind, mlir::Value input) override;

  /// What Hugging Face's files call things.
  struct Names {
    llvm::StringRef module;         ///< what the router and experts are in
    llvm::StringRef gate, up, down; ///< the matrices of an expert
    llvm::StringRef shared;         ///< the shared experts
  };
  virtual Names names() const {
    return {"block_sparse_moe", "w1", "w3", "w2", ""};
  }

private:
  mlir::Value route(mlir::Value input, mlir::Value &weights,
                    mlir::Value &experts);
  void measure(mlir::Value logits, mlir::Value experts, mlir::Value position);
  mlir::Value sumOver(llvm::StringRef name, mlir::Value value,
                      llvm::ArrayRef<int64_t> dims, bool keep = false);
  mlir::Value constant(llvm::StringRef name, double value);
  /// The parameter of the experts' matrix `matrix`.
  std::string matrixName(llvm::StringRef matrix) const;
  int64_t capacity() const;
};

} // namespace sheaf::models

#endif // SHEAF_MODELS_MIXTRAL_H
