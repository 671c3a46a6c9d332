//===- Builder.h - What the families of models share -----------*- C++ -*-===//
//
// A family says which parameters a model has and how embedding, block and the
// end of the trunk are computed; the rest of the module is the same for all and
// is written here.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_MODELS_BUILDER_H
#define SHEAF_MODELS_BUILDER_H

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "models/Models.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace sheaf::models {

/// A parameter. `name` is what follows `Builder::layerPrefix` or
/// `Builder::prefix` in Hugging Face's name; it is also the name of the value.
struct Parameter {
  /// `Balance`: a bias of the router that no gradient trains.
  enum class Kind { Matrix, OutputMatrix, Bias, Norm, Balance };

  std::string name;
  Kind kind;
  llvm::SmallVector<int64_t, 2> shape;
  llvm::SmallVector<llvm::StringRef, 2>
      axes; ///< The logical axis of each dimension.
};
using Parameters = std::vector<Parameter>;

/// A number for each sample that the blocks of a model have beside their
/// result: a loss of its own, or something to log.
struct Statistic {
  std::string name; ///< in the log
  double weight;    ///< how much of it is added to the loss
  bool isCount;     ///< added up over the samples of a step; else their mean
};

/// Values of a function by name.
using Scope = llvm::StringMap<mlir::Value>;

class Builder {
public:
  explicit Builder(const Model &model) : model(model) {}
  virtual ~Builder() = default;

  mlir::OwningOpRef<mlir::ModuleOp> build(mlir::MLIRContext &context);
  int64_t countParameters() const;

protected:
  /// What Hugging Face puts before the names of the trunk, such as
  /// "transformer.".
  virtual llvm::StringRef prefix() const = 0;
  /// What it puts between that and the number of a layer, such as "h.".
  virtual llvm::StringRef layerPrefix() const = 0;
  virtual Parameters embeddingParameters() const = 0;
  virtual Parameters blockParameters(unsigned kind) const = 0;
  virtual Parameters finalParameters() const = 0;
  /// The embedding table, of which a tied head is the transpose.
  virtual llvm::StringRef embeddingName() const = 0;
  virtual bool hasRotaryPositions() const = 0;
  /// Layers of one kind have one body.
  virtual unsigned blockKind(int64_t) const { return 0; }
  virtual llvm::StringRef blockName(unsigned) const { return "block"; }
  virtual std::vector<Statistic> statistics() const { return {}; }
  /// Whether blocks of this kind have them.
  virtual bool hasStatistics(unsigned) const { return false; }

  // Each takes values from `scope`: parameters by name, and, where the model
  // has them, `positions`, `documents`, `random_key` and `stream`. Activations
  // are [batch, seq, hidden]. A block adds to `blockStatistics` what
  // `statistics` lists, [batch] each.
  virtual mlir::Value embed(mlir::Value tokens) = 0;
  virtual mlir::Value block(unsigned kind, mlir::Value x) = 0;
  virtual mlir::Value finish(mlir::Value x) = 0;

  // For the families: nn ops with a name for their result.
  mlir::Value named(llvm::StringRef name, mlir::Value value);
  mlir::Value get(llvm::StringRef name) const;
  mlir::Value einsum(llvm::StringRef name, llvm::StringRef equation,
                     mlir::Value a, mlir::Value b);
  mlir::Value reshape(llvm::StringRef name, mlir::Value a,
                      llvm::ArrayRef<int64_t> shape);
  mlir::Value slice(llvm::StringRef name, mlir::Value a,
                    llvm::ArrayRef<int64_t> offsets,
                    llvm::ArrayRef<int64_t> sizes);
  mlir::Value add(llvm::StringRef name, mlir::Value a, mlir::Value b);
  mlir::Value activate(llvm::StringRef name, mlir::Value a);
  /// Causal attention of [batch, seq, heads, head_dim] with the masks of the
  /// model; `scale` is that of the op where none is given.
  mlir::Value attention(llvm::StringRef name, mlir::Value query,
                        mlir::Value key, mlir::Value value,
                        std::optional<double> scale = std::nullopt);
  /// `a` with dropout, if the model has any; `stream` sets its random numbers
  /// apart.
  mlir::Value dropout(llvm::StringRef name, mlir::Value a, mlir::Value stream);
  mlir::Value integer(llvm::StringRef name, int64_t value);
  mlir::FloatAttr number(double value);

  template <typename Op, typename... Args>
  mlir::Value make(llvm::StringRef name, Args &&...args) {
    return named(name, Op::create(*builder, builder->getUnknownLoc(),
                                  std::forward<Args>(args)...)
                           ->getResult(0));
  }

  mlir::RankedTensorType floats(llvm::ArrayRef<int64_t> shape);
  mlir::RankedTensorType integers(llvm::ArrayRef<int64_t> shape);

  const Model &model;
  mlir::OpBuilder *builder = nullptr;
  llvm::SmallVector<mlir::Value> blockStatistics;

private:
  struct Argument {
    std::string name;
    mlir::Type type;
    mlir::DictionaryAttr attributes;
  };
  using Arguments = std::vector<Argument>;

  Parameters allParameters() const;
  std::string fullName(llvm::StringRef name) const;
  mlir::DictionaryAttr attributes(llvm::StringRef name, mlir::Attribute value);
  mlir::Attribute describe(const Parameter &parameter);

  /// The parameters as arguments, described where `entry` is set.
  Arguments parameterArguments(const Parameters &parameters, bool entry);
  /// Documents and random key, as far as the model has them.
  void addMaskArguments(Arguments &arguments, bool entry);
  /// Starts a function and brings its arguments into scope.
  mlir::func::FuncOp begin(llvm::StringRef name, const Arguments &arguments,
                           mlir::TypeRange results, bool entry);
  void end(mlir::ValueRange results);
  mlir::ValueRange call(llvm::StringRef name, mlir::func::FuncOp callee,
                        mlir::ValueRange operands);

  /// The function of a block for each kind that the model has.
  using Blocks = std::map<unsigned, mlir::func::FuncOp>;
  mlir::func::FuncOp buildBlock(unsigned kind);
  mlir::func::FuncOp buildTrunk(Blocks &blocks);
  void buildLogits(mlir::func::FuncOp trunk);
  void buildLoss(mlir::func::FuncOp trunk);
  /// Calls the trunk with the arguments of the function in hand, and the head.
  /// Returns the logits and the sums of the statistics over the layers.
  llvm::SmallVector<mlir::Value> computeLogits(mlir::func::FuncOp trunk);
  /// A statistic of the samples as a number of the step; `targets` tell samples
  /// from padding.
  mlir::Value overStep(const Statistic &statistic, mlir::Value ofSamples,
                       mlir::Value targets);

  Scope scope;
};

std::unique_ptr<Builder> createGPT(const Model &model);
std::unique_ptr<Builder> createLlama(const Model &model);
std::unique_ptr<Builder> createMixtral(const Model &model);
std::unique_ptr<Builder> createDeepSeek(const Model &model);

} // namespace sheaf::models

#endif // SHEAF_MODELS_BUILDER_H
