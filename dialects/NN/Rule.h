//===- Rule.h - How the dimensions of an op relate -------------*- C++ -*-===//
//
// The sharding rule of an op, as data. Propagation, partitioning, reshard
// insertion, the cost model and the explain tool read this and nothing else
// about an op.
//
// A rule names factors, as an einsum names letters. Each dimension of each
// operand and result is made of zero or more factors, the outermost first: a
// plain dimension has one, a dimension that a reshape splits or merges has
// several, a dimension of size 1 has none. Sharding a factor shards every
// dimension that has it.
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
  /// Shards of the operands give partial results, to be combined by
  /// `reduction`; of several results only those that lack the factor.
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
  /// The code that a sharded factor needs beyond the op on local shapes; empty
  /// where there is none. With `Whole` it has the collectives by which the
  /// factor can be sharded after all, and the results are complete:
  /// `softmax_merge`, `top_k_merge`, `vocab_loss`, `ring`, `attention_merge`,
  /// `shifted_window`, `global_count`. With the other kinds it is local code
  /// that knows where its shard begins or how large the whole is:
  /// `masked_gather`, `offset_iota`, `offset_random`, `offset_mask`,
  /// `constant_shard`, `global_mean`.
  std::string expansion;
};

/// The expansion of sliced, padded and concatenated dimensions. The only factor
/// whose dimensions may have different sizes; its own is the largest.
inline constexpr llvm::StringLiteral kShiftedWindow = "shifted_window";

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
  /// The operands in which every result is monotone (non-decreasing), element
  /// by element: a maximum or minimum may be taken after the op instead of
  /// before it. A reduction by `max` lets a maximum pass, not a minimum
  /// (`mayDefer`).
  llvm::SmallVector<int> monotoneOperands;

  /// Adds a factor and returns its index.
  int add(Factor factor);
  /// Whether the reduction of a partial `operand` may be put off until after
  /// the op. Where linearity is joint and the kind a sum, all linear operands
  /// must be partial together.
  bool mayDefer(int operand, Reduction kind) const;
  /// As text, for instance
  /// `[b][s][d], [d][f] -> [b][s][f] {b=8, s=64, d=32 sum, f=96} linear
  /// separate(0, 1)`.
  /// `()` is a value without dimensions, `[]` a dimension without factors,
  /// `[a b]` one of two. After a factor's size: nothing (parallel), `sum`,
  /// `max`, `min`, `whole` or `halo(1, 2)`, then `via` and the expansion. After
  /// the factors: `linear joint(...)` or `linear separate(...)`,
  /// `monotone(...)`.
  std::string str() const;
  /// Reads what `str` writes. On failure `error` says what was expected where.
  static mlir::FailureOr<ShardingRule> parse(llvm::StringRef text,
                                             std::string &error);
  /// Whether the rule fits the op: every dimension's size is the product of its
  /// factors' sizes (see `kShiftedWindow`), every factor is used, every operand
  /// named exists. On failure `error` says what does not.
  mlir::LogicalResult verify(mlir::Operation *op, std::string &error) const;
};

/// The rule of any op: its attribute `nn.rule`, else what its interface gives;
/// failure where it has neither (such an op is replicated).
mlir::FailureOr<ShardingRule> getRule(mlir::Operation *op);

/// The rule of an op that broadcasts like NumPy.
ShardingRule getElementwiseRule(mlir::Operation *op);

} // namespace sheaf::nn

#endif // SHEAF_DIALECTS_NN_RULE_H
