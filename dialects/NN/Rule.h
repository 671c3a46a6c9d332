//===- Rule.h - How the dimensions of an op relate -------------*- C++ -*-===//
//
// The sharding rule of an op, as data. Propagation, partitioning, reshard
// insertion, the cost model and the explain tool read this and nothing else
// about an op.
//
// A rule names factors, as an einsum names letters. Each dimension of each
// operand and result is made of zero or more factors, the outermost first: a
// plain dimension has one, a dimension that a reshape splits or merges has
// several, a broadcast dimension of size 1 has none. Sharding a factor shards
// every dimension that has it.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_DIALECTS_NN_RULE_H
#define SHEAF_DIALECTS_NN_RULE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include <string>

namespace sheaf::nn {

/// What sharding a factor means for the op.
enum class FactorKind {
  /// Each shard is computed from the same shard of the operands.
  Parallel,
  /// Shards of the operands give a partial result, to be combined by
  /// `reduction`.
  Reduction,
  /// The op needs the whole dimension on each device.
  Whole,
  /// A shard needs `haloBefore` and `haloAfter` elements of its neighbours.
  Halo,
};

/// How partial results are combined.
enum class Reduction { Sum, Max, Min };

struct Factor {
  /// A short name, unique in the rule: the einsum's letter, `d0`, ...
  std::string name;
  int64_t size = 1;
  FactorKind kind = FactorKind::Parallel;
  Reduction reduction = Reduction::Sum;
  int64_t haloBefore = 0, haloAfter = 0;
  /// The local code and collectives by which the op can shard this factor
  /// although it is `Whole`: `masked_gather`, `softmax_merge`, `top_k_merge`,
  /// `offset_iota`, `vocab_loss`, `ring`, ...; empty where there are none.
  std::string expansion;
};

/// The factors of one dimension (indices into `factors`), outermost first.
using DimFactors = llvm::SmallVector<int, 1>;
/// The dimensions of one operand or result.
using ValueFactors = llvm::SmallVector<DimFactors>;

/// In what sense f(a1 + a2, ...) = f(a1, ...) + f(a2, ...).
enum class Linearity {
  None,
  /// In all listed operands at once: add, reshape, sum.
  Joint,
  /// In each listed operand while the others are held: einsum, mul.
  Separate,
};

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<ValueFactors> operands;
  llvm::SmallVector<ValueFactors> results;
  Linearity linearity = Linearity::None;
  /// The operands in which the op is linear.
  llvm::SmallVector<int> linearOperands;
  /// The operands in which every result is monotone (non-decreasing): a
  /// maximum or minimum may be taken after the op instead of before it.
  llvm::SmallVector<int> monotoneOperands;

  /// Adds a factor and returns its index.
  int add(Factor factor);
  /// As text, for instance
  /// `[b][s][d], [d][f] -> [b][s][f] {b=8, s=64, d=32 sum, f=96} linear separate(0, 1)`.
  std::string str() const;
  /// Reads what `str` writes. On failure `error` says what was expected where.
  static mlir::FailureOr<ShardingRule> parse(llvm::StringRef text,
                                             std::string &error);
  /// Whether every dimension's size is the product of its factors' sizes.
  mlir::LogicalResult verify(mlir::Operation *op, std::string &error) const;
};

/// The rule of any op: what its interface gives, or its attribute `nn.rule`;
/// failure where it has neither (such an op is replicated).
mlir::FailureOr<ShardingRule> getRule(mlir::Operation *op);

/// The rule of an op that broadcasts like NumPy.
ShardingRule getElementwiseRule(mlir::Operation *op);

} // namespace sheaf::nn

#endif // SHEAF_DIALECTS_NN_RULE_H
