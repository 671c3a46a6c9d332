//===- ExpandMath.h - Functions and small floats in basic steps -*- C++ -*-===//
//
// Rewrites math on f32, scalars and vectors, as polynomials in fused
// multiply-adds, so that no loop calls a library, and conversions from and to
// bf16 and 8-bit floats as integer arithmetic, so that their bits are the same
// on every machine.
//
// Relative errors, as tests check them: exp and log 2e-7, tanh and erf 3e-7,
// 1 / (1 + exp(-x)) 4e-7, sin and cos 1e-7 for |x| up to 1e5 (1e-7 absolute up
// to 1e9). An exp marked `afn`, for what is added to 1 or more, has error 4e-7,
// and is 0 below e^-87; one marked `ninf`, too, is no more than 1. pow is
// computed in f64 and rounded. f64 is left alone (calls of the C library).
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_KERNELS_EXPANDMATH_H
#define SHEAF_LOWERING_CPU_KERNELS_EXPANDMATH_H

#include "mlir/IR/PatternMatch.h"

namespace sheaf::cpu {

/// `scales`: the machine multiplies vectors by powers of two in one instruction
/// (AVX-512); the results are the same.
void populateExpandMathPatterns(mlir::RewritePatternSet &patterns, bool scales);

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_KERNELS_EXPANDMATH_H
