// RUN: sheaf-opt %s --cpu-lower-kernels --cpu-kernels-to-llvm="vector-bytes=64" | FileCheck %s
// RUN: sheaf-opt %s --cpu-lower-kernels --cpu-kernels-to-llvm | FileCheck %s --check-prefix=NARROW

// With AVX-512 a power of two is multiplied by in one instruction, for vectors and
// for what they leave over.
// CHECK-LABEL: llvm.func internal @exp.body(
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"
// CHECK: llvm.call_intrinsic "llvm.ldexp"
// NARROW-LABEL: llvm.func internal @exp.body(
// NARROW-NOT: llvm.call_intrinsic
// NARROW: llvm.return
func.func @exp(%x: tensor<70xf32>) -> tensor<70xf32> attributes {exec.kernel} {
  %y = nn.exp %x : tensor<70xf32>
  return %y : tensor<70xf32>
}
