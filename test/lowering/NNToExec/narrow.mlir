// RUN: sheaf-opt %s --split-input-file --nn-to-exec | FileCheck %s

// A product of f32 between casts knows what it is on a device that multiplies bf16;
// what only casts is marked as needless there, and what casts beside other work by
// the bytes that it saves: 32 elements read and 32 written, 2 bytes each.
// CHECK-LABEL: func.func @product(
// CHECK: exec.launch @kernels::@cast_0
// CHECK: exec.matmul {{.*}} dims [4, 8, 8] {{.*}} {exec.narrow = [bf16, bf16, bf16]}
// CHECK: exec.launch @kernels::@cast_add_0
// CHECK-DAG: func.func @cast_0({{.*}} attributes {exec.kernel, exec.narrow_none}
// CHECK-DAG: func.func @cast_add_0({{.*}} attributes {exec.kernel, exec.narrow_saved = 128 : i64}
func.func @product(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %b: tensor<8xbf16>)
    -> tensor<4x8xf32> {
  %a = nn.cast %x : tensor<4x8xbf16> -> tensor<4x8xf32>
  %c = nn.cast %w : tensor<8x8xbf16> -> tensor<8x8xf32>
  %p = nn.einsum "ij,jk->ik"(%a, %c) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = nn.fused(%p, %b : tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xf32> {
  ^bb0(%q: tensor<4x8xf32>, %d: tensor<8xbf16>):
    %r = nn.cast %q : tensor<4x8xf32> -> tensor<4x8xbf16>
    %s = nn.add %r, %d : (tensor<4x8xbf16>, tensor<8xbf16>) -> tensor<4x8xbf16>
    %t = nn.cast %s : tensor<4x8xbf16> -> tensor<4x8xf32>
    nn.yield %t : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// Operands of 8 bits are scaled in front of a product. A result that somebody reads
// in f32 stays what it is.
// CHECK-LABEL: func.func @scaled(
// CHECK: exec.matmul {{.*}} {exec.narrow = [f8E4M3FN, f8E5M2, f32]}
func.func @scaled(%x: tensor<4x8xf8E4M3FN>, %w: tensor<8x8xf8E5M2>, %s: tensor<f32>)
    -> tensor<4x8xf32> {
  %a = nn.cast %x : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %c = nn.cast %w : tensor<8x8xf8E5M2> -> tensor<8x8xf32>
  %d = nn.mul %a, %s : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %e = nn.mul %c, %s : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %p = nn.einsum "ij,jk->ik"(%d, %e) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}

// -----

// What is f32 by itself is no product of anything else, and a cast of an integer is work.
// CHECK-LABEL: func.func @wide(
// CHECK-NOT: exec.narrow
func.func @wide(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %i: tensor<4x8xi32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %p = nn.einsum "ij,jk->ik"(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %f = nn.cast %i : tensor<4x8xi32> -> tensor<4x8xf32>
  return %p, %f : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Attention is a kind of its own, with its products' type.
// CHECK-LABEL: func.func @attend(
// CHECK: func.func @attention_0({{.*}} attributes {exec.kernel, exec.kind = "attention", exec.narrow = [bf16, bf16, bf16, f32], exec.narrow_saved = 384 : i64}
func.func @attend(%x: tensor<1x4x2x8xbf16>) -> tensor<1x4x2x8xf32> {
  %q = nn.cast %x : tensor<1x4x2x8xbf16> -> tensor<1x4x2x8xf32>
  %k = nn.cast %x : tensor<1x4x2x8xbf16> -> tensor<1x4x2x8xf32>
  %v = nn.cast %x : tensor<1x4x2x8xbf16> -> tensor<1x4x2x8xf32>
  %y = nn.attention %q, %k, %v causal scale 0.35 : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
  return %y : tensor<1x4x2x8xf32>
}
