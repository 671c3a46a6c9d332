// RUN: sheaf-opt %s --split-input-file --nn-fuse | FileCheck %s
// RUN: sheaf-opt %s --split-input-file --nn-fuse="print" 2>&1 | FileCheck %s --check-prefix=SAY

// A bias and an activation; the constant goes inside.
// CHECK-LABEL: @bias_gelu
// CHECK: nn.fused(%{{.*}}, %{{.*}} : tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32> in_place [0, 0]
// CHECK: nn.constant
// CHECK: nn.add
// CHECK: nn.gelu_tanh
// CHECK: nn.mul
// CHECK: nn.yield
// CHECK: return
// SAY: remark: 3 ops (add, gelu_tanh, mul) in one kernel; 2048 bytes are not stored and read again; each reads what another computes
func.func @bias_gelu(%x: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %a = nn.add %x, %b : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %g = nn.gelu_tanh %a : tensor<8x16xf32>
  %y = nn.mul %g, %two : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// -----

// What is read outside, too, is a result of the group.
// CHECK-LABEL: @residual_norm
// CHECK: %[[F:.*]]:2 = nn.fused
// CHECK: nn.add
// CHECK: nn.layer_norm
// CHECK: return %[[F]]#0, %[[F]]#1
func.func @residual_norm(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>, %s: tensor<16xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %0 = nn.add %x, %y : tensor<8x16xf32>
  %1 = nn.layer_norm %0, %s, %s eps 1.0e-5 : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  return %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// A product bounds groups.
// CHECK-LABEL: @product
// CHECK: nn.exp
// CHECK: nn.einsum
// CHECK: nn.fused
// CHECK: nn.neg
// CHECK: nn.tanh
func.func @product(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = nn.exp %x : tensor<8x16xf32>
  %1 = nn.einsum "ab,bc->ac"(%0, %w) : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %2 = nn.neg %1 : tensor<8x8xf32>
  %3 = nn.tanh %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// -----

// Sums of blocks of rows, too, take in what only they read and share a pass over the
// tensor that both read; its view is inside, so that it is read once.
// CHECK-LABEL: @blocks
// CHECK: %[[F:.*]]:2 = nn.fused(%{{.*}}, %{{.*}} : tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>, tensor<8x16xf32>
// CHECK-DAG: nn.mul
// CHECK-DAG: nn.reshape
// CHECK-DAG: nn.reduce sum
// CHECK-DAG: nn.reduce sum
// CHECK: nn.yield
// CHECK: return %[[F]]
func.func @blocks(%x: tensor<64x16xf32>, %dy: tensor<64x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %p = nn.mul %x, %dy : tensor<64x16xf32>
  %0 = nn.reshape %p : tensor<64x16xf32> -> tensor<8x8x16xf32>
  %1 = nn.reduce sum %0 dims [1] : (tensor<8x8x16xf32>) -> tensor<8x16xf32>
  %2 = nn.reshape %dy : tensor<64x16xf32> -> tensor<8x8x16xf32>
  %3 = nn.reduce sum %2 dims [1] : (tensor<8x8x16xf32>) -> tensor<8x16xf32>
  return %1, %3 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Sums along rows and down columns need two passes; two sums down the columns of one
// tensor share one, with what only they read.
// CHECK-LABEL: @rows_and_columns
// CHECK: %[[R:.*]]:2 = nn.fused
// CHECK: nn.reduce mean
// CHECK: nn.sub
// CHECK: nn.fused(%{{.*}}, %{{.*}} : {{.*}}) -> tensor<16xf32>, tensor<16xf32>
// CHECK: nn.mul
// CHECK: nn.reduce sum
// CHECK: nn.reduce sum
// CHECK-NOT: nn.fused
// SAY: nn.reduce is not fused with nn.{{[a-z]*}}: reductions along rows and down columns need two passes
// SAY: 3 ops (mul, reduce) in one kernel; {{[0-9]+}} bytes are not stored and read again; sums down the columns of one tensor share a pass over it
func.func @rows_and_columns(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x1xf32>, tensor<16xf32>, tensor<16xf32>) {
  %m = nn.reduce mean %x dims [1] keep : (tensor<8x16xf32>) -> tensor<8x1xf32>
  %c = nn.sub %x, %m : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
  %p = nn.mul %d, %m : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
  %a = nn.reduce sum %p dims [0] : (tensor<8x16xf32>) -> tensor<16xf32>
  %b = nn.reduce sum %d dims [0] : (tensor<8x16xf32>) -> tensor<16xf32>
  return %c, %m, %a, %b : tensor<8x16xf32>, tensor<8x1xf32>, tensor<16xf32>, tensor<16xf32>
}

// -----

// What each row would compute again stays a kernel of its own.
// CHECK-LABEL: @repeated
// CHECK-NOT: nn.fused
// SAY: nn.mul is not fused with nn.reduce: what is repeated would be computed again for each row; 128 bytes are stored and read again
func.func @repeated(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x16xf32> {
  %m = nn.reduce max %w dims [1] : (tensor<16x32xf32>) -> tensor<16xf32>
  %y = nn.mul %x, %m : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// -----

// No group around an op that needs a part of it.
// CHECK-LABEL: @way_around
// CHECK: nn.exp
// CHECK: nn.einsum
// CHECK: nn.add
// CHECK-NOT: nn.fused
// SAY: nn.add is not fused with nn.exp: another op lies between; 512 bytes are stored and read again
func.func @way_around(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = nn.exp %x : tensor<8x8xf32>
  %1 = nn.einsum "ab,bc->ac"(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = nn.add %0, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// Cheap and made of less than it is: computed again in both groups.
// CHECK-LABEL: @cheap_again
// CHECK: nn.fused(%{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8x16xf32>)
// CHECK: nn.broadcast
// CHECK: nn.fused
// CHECK: nn.broadcast
func.func @cheap_again(%x: tensor<8x16xf32>, %v: tensor<8xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %b = nn.broadcast %v dims [0] : tensor<8xf32> -> tensor<8x16xf32>
  %0 = nn.mul %x, %b : tensor<8x16xf32>
  %1 = nn.einsum "ab,bc->ac"(%0, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %2 = nn.add %1, %b : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// The gradient of a gather is added in place.
// CHECK-LABEL: @tied
// CHECK: nn.fused(%{{.*}} : {{.*}}) -> tensor<50x24xf32> in_place
// CHECK: nn.gather_grad
// CHECK: nn.add
// SAY: 2 ops (gather_grad, add) in one kernel; {{[0-9]+}} bytes are not stored and read again; the gradient of the gather is added in place
func.func @tied(%g: tensor<9x24xf32>, %t: tensor<9xi32>, %a: tensor<50x24xf32>) -> tensor<50x24xf32> {
  %0 = nn.gather_grad %g[%t] axis 0 : (tensor<9x24xf32>, tensor<9xi32>) -> tensor<50x24xf32>
  %1 = nn.add %a, %0 : tensor<50x24xf32>
  return %1 : tensor<50x24xf32>
}

// -----

// A value is not computed again where that would take from its group what no kernel
// stores beside the rest: one number of each column, beside all of the rows.
// CHECK-LABEL: @not_again
// CHECK: %[[F:.*]]:2 = nn.fused(%{{.*}}, %{{.*}} : tensor<64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>, tensor<8x64xf32>
// CHECK: nn.mul
// CHECK: nn.add
// CHECK: nn.exp
// CHECK: nn.yield
// CHECK: nn.fused(%[[F]]#0, %{{.*}} : tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<64xf32>
// CHECK-NOT: nn.add
// CHECK: nn.reduce sum
func.func @not_again(%x: tensor<8x64xf32>, %b: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>) {
  %s = nn.mul %b, %b : tensor<64xf32>
  %v = nn.add %x, %s : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %w = nn.exp %v : tensor<8x64xf32>
  %p = nn.mul %v, %x : tensor<8x64xf32>
  %r = nn.reduce sum %p dims [0] : (tensor<8x64xf32>) -> tensor<64xf32>
  return %w, %r : tensor<8x64xf32>, tensor<64xf32>
}

// -----

// In a program of one place along a pipeline what ranks say to each other keeps its order, which others share; elsewhere
// all ranks run one program.
// CHECK-LABEL: func.func @place(
// CHECK: nn.exp
// CHECK: exec.transfer all_reduce
// CHECK: exec.transfer broadcast
// CHECK: nn.add
// CHECK-LABEL: func.func @one_program(
// CHECK: nn.fused
// CHECK: exec.transfer all_reduce
func.func @place(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) attributes {exec.place = ["step", 0]} {
  %n = nn.exp %x : tensor<64xf32>
  %r = exec.transfer all_reduce by sum %n sizes [2] strides [1] : (tensor<64xf32>) -> tensor<64xf32>
  %c = exec.transfer broadcast %y sizes [2] strides [1] : (tensor<64xf32>) -> tensor<64xf32>
  %d = nn.add %n, %c : tensor<64xf32>
  return %r, %d : tensor<64xf32>, tensor<64xf32>
}
func.func @one_program(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %n = nn.exp %x : tensor<64xf32>
  %r = exec.transfer all_reduce by sum %n sizes [2] strides [1] : (tensor<64xf32>) -> tensor<64xf32>
  %c = exec.transfer broadcast %y sizes [2] strides [1] : (tensor<64xf32>) -> tensor<64xf32>
  %d = nn.add %n, %c : tensor<64xf32>
  return %r, %d : tensor<64xf32>, tensor<64xf32>
}
