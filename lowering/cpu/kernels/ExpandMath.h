//===- ExpandMath.h - Functions and small floats in basic steps -*- C++ -*-===//
//
// Rewrites math on f32, scalars and vectors, as polynomials in fused
// multiply-adds, so that no loop calls a library, and conversions from and to
// bf16 and 8-bit floats as integer arithmetic, so that their bits are the same
// on every machine.
//
// Largest errors, relative unless noted: exp 1.2e-7, log 1.2e-7, tanh 2e-7,
// erf 1.5e-7, sin and cos 1e-7 absolute for |x| < 1e9, pow 6e-8. f64 is left
// alone (calls of the C library).
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_KERNELS_EXPANDMATH_H
#define SHEAF_LOWERING_CPU_KERNELS_EXPANDMATH_H

#include "mlir/IR/PatternMatch.h"

namespace sheaf::cpu {

void populateExpandMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_KERNELS_EXPANDMATH_H
