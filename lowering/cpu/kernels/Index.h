//===- Index.h - Indices of tensor elements, as expressions ----*- C++ -*-===//
//
// While a kernel is planned and emitted, the place of an element is a tuple of
// indices, and an index is a linear expression over variables: loop counters,
// quotients and remainders by a constant, and numbers read from data. Ranges
// are known, so that a reshape there and back, or a flat loop over several
// dimensions, costs no division, and equal places are recognised as equal.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_KERNELS_INDEX_H
#define SHEAF_LOWERING_CPU_KERNELS_INDEX_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <compare>
#include <deque>

namespace sheaf::cpu {

/// constant + sum of coefficient * variable, variables in rising order.
struct Index {
  struct Term {
    unsigned variable;
    int64_t coefficient;
    auto operator<=>(const Term &) const = default;
  };
  llvm::SmallVector<Term, 2> terms;
  int64_t constant = 0;

  Index() = default;
  Index(int64_t constant) : constant(constant) {}

  bool isConstant() const { return terms.empty(); }
  int64_t coefficientOf(unsigned variable) const {
    for (const Term &term : terms)
      if (term.variable == variable)
        return term.coefficient;
    return 0;
  }
  bool operator==(const Index &other) const {
    return constant == other.constant && terms == other.terms;
  }
  bool operator<(const Index &other) const {
    if (constant != other.constant)
      return constant < other.constant;
    return std::lexicographical_compare(terms.begin(), terms.end(),
                                        other.terms.begin(), other.terms.end());
  }
};

using Indices = llvm::SmallVector<Index, 4>;

struct Variable {
  enum class Kind { Loop, Div, Mod, Data };
  Kind kind;
  /// Inclusive range.
  int64_t low, high;
  /// The scope (loop depth) in which the value is known.
  unsigned depth = 0;
  /// Lanes of a vector: 1 where all have one value. A `Loop` variable with
  /// several lanes stands for `value`, `value` + 1, ...; another one is a
  /// vector of indices.
  int64_t lanes = 1;
  /// Div, Mod: floor(base / divisor) and the rest.
  Index base;
  int64_t divisor = 1;
  /// Loop, Data; null while a kernel is planned.
  mlir::Value value;
};

/// Owns the variables and does arithmetic on indices.
class Indexing {
public:
  unsigned addLoop(int64_t low, int64_t high, unsigned depth, int64_t lanes = 1,
                   mlir::Value value = nullptr);
  unsigned addData(int64_t low, int64_t high, unsigned depth, int64_t lanes = 1,
                   mlir::Value value = nullptr);
  Variable &operator[](unsigned variable) { return variables[variable]; }

  Index of(unsigned variable) const {
    Index index;
    index.terms.push_back({variable, 1});
    return index;
  }
  Index add(const Index &a, const Index &b);
  Index scale(const Index &a, int64_t factor);
  Index floorDiv(const Index &a, int64_t divisor);
  Index mod(const Index &a, int64_t divisor);

  /// The row-major offset of a place in `shape`.
  Index linearize(llvm::ArrayRef<Index> place, llvm::ArrayRef<int64_t> shape);
  /// The place in `shape` at a row-major offset.
  Indices delinearize(const Index &offset, llvm::ArrayRef<int64_t> shape);

  std::pair<int64_t, int64_t> range(const Index &index) const;
  unsigned depth(const Index &index) const;
  unsigned depth(llvm::ArrayRef<Index> place) const;
  /// Whether `index` depends on `variable`, through quotients and rests, too.
  bool dependsOn(const Index &index, unsigned variable) const;
  /// Whether all variables of `index` have values, so that it can be computed.
  bool isKnown(const Index &index) const;
  /// The number of lanes of `index`, and by how much it rises from one lane to
  /// the next; no step where that differs.
  struct Lanes {
    int64_t count = 1;
    std::optional<int64_t> step = 0;
  };
  Lanes lanes(const Index &index) const;

private:
  unsigned derived(Variable::Kind kind, const Index &base, int64_t divisor);
  void normalize(Index &index);

  std::deque<Variable> variables;
};

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_KERNELS_INDEX_H
