//===- NNToLinalg.h - From nn to linalg ------------------------*- C++ -*-===//
//
// The conversion of nn ops to linalg on tensors, and the interface by which
// another dialect adds patterns for ops of its own.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_NNTOLINALG_NNTOLINALG_H
#define SHEAF_LOWERING_NNTOLINALG_NNTOLINALG_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/DialectConversion.h"

namespace sheaf {

/// What a dialect implements so that `nn-to-linalg` converts its ops, too.
class NNToLinalgInterface
    : public mlir::DialectInterface::Base<NNToLinalgInterface> {
public:
  NNToLinalgInterface(mlir::Dialect *dialect) : Base(dialect) {}

  /// Adds patterns, and says in `target` which ops must go away.
  virtual void populatePatterns(mlir::RewritePatternSet &patterns,
                                mlir::ConversionTarget &target) const = 0;
};

/// The patterns for nn's simple ops, and the decomposition of composite ones.
void populateNNToLinalgPatterns(mlir::RewritePatternSet &patterns);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lowering/NNToLinalg/Passes.h.inc"

} // namespace sheaf

#endif // SHEAF_LOWERING_NNTOLINALG_NNTOLINALG_H
