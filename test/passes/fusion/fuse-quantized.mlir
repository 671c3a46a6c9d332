// RUN: sheaf-opt %s --split-input-file "--pass-pipeline=builtin.module(nn-decompose{ops=quantize},canonicalize,cse,func.func(nn-fuse))" | FileCheck %s
// RUN: sheaf-opt %s --split-input-file "--pass-pipeline=builtin.module(nn-decompose{ops=quantize},canonicalize,cse,func.func(nn-fuse{print=true}))" 2>&1 | FileCheck %s --check-prefix=SAID

// Copies along rows and down columns, as a gradient needs them: the tensor is read once, as it is.
// CHECK-LABEL: @both
// CHECK-SAME: (%[[X:.*]]: tensor<256x512xbf16>)
// CHECK: %[[Q:.*]]:4 = nn.fused(%[[X]] : tensor<256x512xbf16>) -> tensor<256x4x1xf32>, tensor<256x4x128xf8E4M3FN>, tensor<2x1x512xf32>, tensor<2x128x512xf8E4M3FN>
// CHECK: nn.reduce max {{.*}} dims [2]
// CHECK: nn.reduce max {{.*}} dims [1]
// CHECK-NOT: nn.fused
// CHECK: return
// SAID: copies of one tensor in 8 bits, and factors, share a pass over it
func.func @both(%x: tensor<256x512xbf16>)
    -> (tensor<256x512xf8E4M3FN>, tensor<256x4xf32>, tensor<256x512xf8E4M3FN>, tensor<2x512xf32>) {
  %p, %f = nn.quantize %x to f8E4M3FN blocks [1, 128] scale power_of_two : (tensor<256x512xbf16>) -> (tensor<256x512xf8E4M3FN>, tensor<256x4xf32>)
  %q, %g = nn.quantize %x to f8E4M3FN blocks [128, 1] scale power_of_two : (tensor<256x512xbf16>) -> (tensor<256x512xf8E4M3FN>, tensor<2x512xf32>)
  return %p, %f, %q, %g : tensor<256x512xf8E4M3FN>, tensor<256x4xf32>, tensor<256x512xf8E4M3FN>, tensor<2x512xf32>
}

// -----

// What a product behind one of them gives does not keep them apart.
// CHECK-LABEL: @between
// CHECK: nn.fused
// CHECK-SAME: tensor<256x16x32xf8E4M3FN>{{.*}}tensor<8x32x512xf8E4M3FN>
// CHECK-NOT: nn.fused
// CHECK: nn.scaled_einsum
func.func @between(%x: tensor<256x512xbf16>, %w: tensor<512x64xf8E4M3FN>, %s: tensor<16x64xf8E8M0FNU>)
    -> (tensor<256x64xbf16>, tensor<256x512xf8E4M3FN>, tensor<8x512xf8E8M0FNU>) {
  %p, %f = nn.quantize %x to f8E4M3FN blocks [1, 32] scale e8m0 {nn.role = "input_gradient"} : (tensor<256x512xbf16>) -> (tensor<256x512xf8E4M3FN>, tensor<256x16xf8E8M0FNU>)
  %y = nn.scaled_einsum "ij,jk->ik"(%p, %w) scales(%f, %s) blocks [1, 32], [32, 1] {nn.role = "input_gradient"} : (tensor<256x512xf8E4M3FN>, tensor<512x64xf8E4M3FN>, tensor<256x16xf8E8M0FNU>, tensor<16x64xf8E8M0FNU>) -> tensor<256x64xbf16>
  %q, %g = nn.quantize %x to f8E4M3FN blocks [32, 1] scale e8m0 {nn.role = "weight_gradient"} : (tensor<256x512xbf16>) -> (tensor<256x512xf8E4M3FN>, tensor<8x512xf8E8M0FNU>)
  return %y, %q, %g : tensor<256x64xbf16>, tensor<256x512xf8E4M3FN>, tensor<8x512xf8E8M0FNU>
}

// -----

// Copies of two tensors have no pass in common.
// CHECK-LABEL: @two
// CHECK-COUNT-2: nn.fused
// CHECK: return
func.func @two(%x: tensor<256x512xbf16>, %z: tensor<256x512xbf16>)
    -> (tensor<256x512xf8E4M3FN>, tensor<256x4xf32>, tensor<256x512xf8E4M3FN>, tensor<2x512xf32>) {
  %p, %f = nn.quantize %x to f8E4M3FN blocks [1, 128] scale power_of_two : (tensor<256x512xbf16>) -> (tensor<256x512xf8E4M3FN>, tensor<256x4xf32>)
  %q, %g = nn.quantize %z to f8E4M3FN blocks [128, 1] scale power_of_two : (tensor<256x512xbf16>) -> (tensor<256x512xf8E4M3FN>, tensor<2x512xf32>)
  return %p, %f, %q, %g : tensor<256x512xf8E4M3FN>, tensor<256x4xf32>, tensor<256x512xf8E4M3FN>, tensor<2x512xf32>
}
