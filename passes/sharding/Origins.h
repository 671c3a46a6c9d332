//===- Origins.h - Where each axis of each value came from -----*- C++ -*-===//
//
// The provenance of shardings: for each axis of each value the value next to it
// that had it first, up to the annotation that a user or a strategy wrote. Kept
// by propagation where somebody asks; handed to partitioning as attributes, so
// that a collective can name the annotations without which it would not be
// there.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_SHARDING_ORIGINS_H
#define SHEAF_PASSES_SHARDING_ORIGINS_H

#include "passes/sharding/Shardings.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/raw_ostream.h"

namespace sheaf::sharding {

/// Where a sharding was written. `index` is that of an argument or result of a
/// function, or of an argument of a loop's body.
struct Site {
  enum Kind { Argument, Result, Op } kind = Op;
  mlir::Operation *op = nullptr;
  unsigned index = 0;

  /// What asks for `axis` there: what its writer said (`dist.because`), else
  /// which argument, result or op it is, with its place in the file.
  std::string describe(llvm::StringRef axis) const;
};

class Origins {
public:
  void addWish(mlir::Value value, int axis, const Site &site) {
    steps.try_emplace({value, axis}, Step{nullptr, nullptr, site});
  }
  /// `source`, an operand or result of `via`, had the axis.
  void addStep(mlir::Value value, int axis, mlir::Value source,
               mlir::Operation *via) {
    steps.try_emplace({value, axis}, Step{source, via, {}});
  }

  /// Writes where the axes of a value came from, step by step. `what` names it
  /// as the option `why` of dist-propagate does. Complains where nothing has
  /// that name.
  mlir::LogicalResult explain(mlir::ModuleOp module, const MeshInfo &mesh,
                              llvm::StringRef what, llvm::raw_ostream &os);

  /// Writes the annotations behind each axis as attributes, where shardings
  /// are.
  void write(mlir::ModuleOp module, const MeshInfo &mesh);

private:
  struct Step {
    mlir::Value source;
    mlir::Operation *via;
    Site site;
  };
  llvm::DenseMap<std::pair<mlir::Value, int>, Step> steps;

  const Step *stepOf(mlir::Value value, int axis) const {
    auto it = steps.find({value, axis});
    return it == steps.end() ? nullptr : &it->second;
  }
};

/// `FILE:LINE:COLUMN` of the first place in a file that a location names; empty
/// where there is none.
std::string placeOf(mlir::Location loc);

/// Reads what `Origins::write` wrote.
class Annotations {
public:
  Annotations() = default;
  Annotations(mlir::ModuleOp module, const MeshInfo &mesh);

  /// Adds the annotations behind the axes in `atoms` that a value has.
  void addTo(llvm::SetVector<llvm::StringRef> &list, mlir::Value value,
             llvm::ArrayRef<int> atoms) const;
  bool empty() const { return texts.empty(); }
  /// Takes the attributes off.
  static void erase(mlir::Operation *root);

private:
  llvm::SmallVector<llvm::StringRef> texts;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<std::pair<int, int>, 2>> roots;
};

} // namespace sheaf::sharding

#endif // SHEAF_PASSES_SHARDING_ORIGINS_H
