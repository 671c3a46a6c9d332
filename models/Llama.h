//===- Llama.h - Llama, and what is built on it ----------------*- C++ -*-===//
//
// Families with Llama's block, RMS norm in front of an attention and of a
// feed-forward part, derive from it and say what differs.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MODELS_LLAMA_H
#define SHEAF_MODELS_LLAMA_H

#include "models/Builder.h"

namespace sheaf::models {

class Llama : public Builder {
public:
  using Builder::Builder;

protected:
  llvm::StringRef prefix() const override { return "model."; }
  llvm::StringRef layerPrefix() const override { return "layers."; }
  llvm::StringRef embeddingName() const override {
    return "embed_tokens.weight";
  }
  bool hasRotaryPositions() const override { return true; }

  Parameters embeddingParameters() const override;
  Parameters blockParameters(unsigned kind) const override;
  Parameters finalParameters() const override;

  mlir::Value embed(mlir::Value tokens) override;
  mlir::Value block(unsigned kind, mlir::Value x) override;
  mlir::Value finish(mlir::Value x) override;

  // The parts of a block, which get the normalised input.
  virtual void addAttentionParameters(Parameters &parameters) const;
  virtual void addFeedForwardParameters(Parameters &parameters,
                                        unsigned kind) const;
  virtual mlir::Value attend(mlir::Value input);
  virtual mlir::Value feedForward(unsigned kind, mlir::Value input);

  /// Adds the matrix of a module, stored [out, in], and its bias.
  static void addMatrix(Parameters &parameters, llvm::StringRef module,
                        Parameter::Kind kind, int64_t out,
                        llvm::StringRef outAxis, int64_t in,
                        llvm::StringRef inAxis, bool bias = false);
  /// The three matrices of a gated MLP below `module`.
  static void addGatedParameters(Parameters &parameters, llvm::StringRef module,
                                 int64_t hidden, int64_t width, bool bias);
  /// `eps` is that of the model where none is given.
  mlir::Value normalize(llvm::StringRef name, llvm::StringRef weight,
                        mlir::Value x,
                        std::optional<double> eps = std::nullopt);
  /// A gated MLP with the matrices below `module`; `name` stands in front of
  /// the names of its values.
  mlir::Value gatedMLP(llvm::StringRef name, llvm::StringRef module,
                       mlir::Value input, bool bias);
  /// x times the transpose of the matrix of `module`, split into heads; with
  /// its bias, if there is one.
  mlir::Value projectToHeads(llvm::StringRef name, llvm::StringRef module,
                             int64_t heads, mlir::Value x, bool bias);
  /// The end of a product of the MLP or the attention: its bias, if there is
  /// one.
  mlir::Value addBias(llvm::StringRef name, bool has, llvm::StringRef bias,
                      mlir::Value product);
  mlir::Value rotate(llvm::StringRef name, mlir::Value x);
};

} // namespace sheaf::models

#endif // SHEAF_MODELS_LLAMA_H
