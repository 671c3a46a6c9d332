//===- ScalarOps.h - nn's elementwise ops on elements ----------*- C++ -*-===//
//
// The meaning of each elementwise nn op on single elements, in arith and math.
// Both the conversion to linalg and the kernels are built from it, and it works
// on scalars as well as on vectors, so that there is one definition of every
// op.
//
// Numerics: bf16 and f16 are computed in f32 and rounded once an op; an i1 is
// an i1. Nothing carries fast-math flags: bits do not depend on how loops are
// cut or vectorised.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_NNTOLINALG_SCALAROPS_H
#define SHEAF_LOWERING_NNTOLINALG_SCALAROPS_H

#include "dialects/NN/NN.h"

namespace sheaf::lowering {

/// `element`, or a vector of it where `like` is a vector.
mlir::Type withElement(mlir::Type like, mlir::Type element);

/// The type in which sums over `element` are taken: f32 for narrower floats.
mlir::Type getAccumulatorType(mlir::Type element);

/// `value` as a constant of a scalar or vector type (floats and integers).
mlir::Value buildNumber(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Type type, double value);

/// Whether `buildScalar` knows `op`.
bool isScalarOp(mlir::Operation *op);

/// The result element of the elementwise nn op `op` for the given elements of
/// its operands, all scalars or all vectors of one length.
mlir::Value buildScalar(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Operation *op, mlir::ValueRange operands);

/// nn.cast of a scalar or vector to element type `element`. Float to integer
/// saturates, NaN gives 0; a cast to an 8-bit float saturates, one to bf16 or
/// f16 where it is asked to.
mlir::Value buildCast(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value value, mlir::Type element,
                      bool saturates = false);

/// The cast of f32 that rounds by `random`, 32 bits: the code of
/// `encodeStochastic` in sheaf/Casts.h.
mlir::Value buildStochasticCast(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value value, mlir::Value random,
                                mlir::FloatType element, bool saturates);

/// The element that starts a reduction of `kind` on accumulators of `type`, a
/// scalar or vector.
mlir::Value buildNeutral(mlir::OpBuilder &builder, mlir::Location loc,
                         nn::ReduceKind kind, mlir::Type type);

/// Two accumulators combined (max and min give NaN where either is).
mlir::Value buildCombine(mlir::OpBuilder &builder, mlir::Location loc,
                         nn::ReduceKind kind, mlir::Value a, mlir::Value b);

/// `element`, of the accumulator's type, taken into the accumulator.
mlir::Value buildAccumulate(mlir::OpBuilder &builder, mlir::Location loc,
                            nn::ReduceKind kind, mlir::Value element,
                            mlir::Value accumulator);

/// Words 0 and 1 of Philox 4x32-10 (Salmon et al. 2011, "Parallel random
/// numbers: as easy as 1, 2, 3") for i32 scalars or vectors.
std::pair<mlir::Value, mlir::Value>
buildPhilox(mlir::OpBuilder &builder, mlir::Location loc,
            llvm::ArrayRef<mlir::Value> counter,
            llvm::ArrayRef<mlir::Value> key);

/// The element of `nn.random` from the two words, of float type `element`, or
/// i32 for bits.
mlir::Value buildRandom(mlir::OpBuilder &builder, mlir::Location loc,
                        nn::Distribution distribution, mlir::Value word0,
                        mlir::Value word1, mlir::Type element);

/// Whether float `a` comes strictly before `b` in the falling order of
/// `nn.top_k` (NaN first), values alone.
mlir::Value buildGreater(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value a, mlir::Value b);

} // namespace sheaf::lowering

#endif // SHEAF_LOWERING_NNTOLINALG_SCALAROPS_H
