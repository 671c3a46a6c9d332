//===- Quantize.h - Writes 8-bit payloads with factors ---------*- C++ -*-===//
//
// What a pass needs to put `nn.quantize`, `nn.dequantize` and
// `nn.scaled_einsum` into a program, and how tensors are cut into blocks.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_DIALECTS_NN_QUANTIZE_H
#define SHEAF_DIALECTS_NN_QUANTIZE_H

#include "dialects/NN/NN.h"

namespace sheaf::nn {

/// On the argument of an entry that is a parameter: a matrix that is read in 8
/// bits only. What layers get is made of it once a step, so that ZeRO shards it
/// as the optimizer's state.
inline constexpr llvm::StringLiteral kQuantizedAttr = "nn.quantized";

/// The elements of a whole block along a dimension of `size`, for which
/// `block` is written: 0 is all of them.
int64_t getBlockLength(int64_t size, int64_t block);

/// How many blocks there are along each dimension, the last ones perhaps
/// shorter.
llvm::SmallVector<int64_t> getFactorShape(llvm::ArrayRef<int64_t> shape,
                                          llvm::ArrayRef<int64_t> blocks);

/// The largest finite number of a payload's format.
double getLargest(mlir::FloatType format);

/// A tensor as a payload and what its blocks are multiplied by.
struct Quantized {
  mlir::Value payload, factors;
  llvm::SmallVector<int64_t> blocks;
};

/// `nn.quantize` of a tensor of f32, bf16 or f16; `format` is f8E4M3FN or
/// f8E5M2.
Quantized quantize(Emit &emit, mlir::Value input, mlir::FloatType format,
                   llvm::ArrayRef<int64_t> blocks, ScaleRule rule);

/// `nn.dequantize` to f32, bf16 or f16.
mlir::Value dequantize(Emit &emit, const Quantized &value,
                       mlir::FloatType element);

/// `nn.scaled_einsum`; the shape of the result follows from the equation. What
/// the verifier refuses is the caller's business.
mlir::Value scaledEinsum(Emit &emit, llvm::StringRef equation,
                         const Quantized &lhs, const Quantized &rhs,
                         mlir::FloatType element);

} // namespace sheaf::nn

#endif // SHEAF_DIALECTS_NN_QUANTIZE_H
