// RUN: sheaf-opt %s --split-input-file --nn-to-exec | FileCheck %s

// A kernel is outlined once for each structure; a constant is computed in the kernel
// that reads it; a result is computed in the buffer that the caller gives, and so is
// what it can overwrite.
// CHECK-LABEL: func.func @once(
// CHECK-SAME: %[[X:.*]]: memref<8xf32>, %[[OUT:.*]]: memref<8xf32>)
// CHECK-SAME: exec.entry = {{\[\[}}"input", "once.arg0"], ["output", "once.out0"]]
// CHECK-SAME: exec.read_count = 1
// CHECK-NOT: exec.buffer
// CHECK: exec.launch @kernels::@mul_0 reads(%[[X]] : {{.*}}) writes(%[[OUT]] :
// CHECK: exec.launch @kernels::@mul_0 reads(%[[OUT]] : {{.*}}) writes(%[[OUT]] :
// CHECK: module @kernels
// CHECK: func.func @mul_0(%{{.*}}: tensor<8xf32>) -> tensor<8xf32> attributes {exec.kernel}
// CHECK-NEXT: nn.constant dense<2.0
// CHECK-NEXT: nn.mul
// CHECK-NOT: @mul_1
func.func @once(%x: tensor<8xf32>) -> tensor<8xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %a = nn.mul %x, %two : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %b = nn.mul %a, %two : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

// A reshape and a slice of neighbouring elements are views; any other slice is a
// kernel. An einsum is a product.
// CHECK-LABEL: func.func @views(
// CHECK-SAME: %[[X:.*]]: memref<4x8xf32>, %[[W:.*]]: memref<8x3xf32>,
// CHECK: %[[V:.*]] = exec.view %[[X]] offset 32 : memref<4x8xf32> to memref<2x8xf32>
// CHECK: exec.matmul reads(%[[V]], %[[W]] : {{.*}} dims [2, 3, 8] leading [8, 3, 3]
// CHECK: exec.launch @kernels::@slice_0 reads(%[[X]]
// CHECK: %[[FLAT:.*]] = exec.view %[[X]] : memref<4x8xf32> to memref<32xf32>
// CHECK: exec.launch @kernels::@exp_0 reads(%[[FLAT]]
func.func @views(%x: tensor<4x8xf32>, %w: tensor<8x3xf32>)
    -> (tensor<2x3xf32>, tensor<4x2xf32>, tensor<32xf32>) {
  %v = nn.slice %x offsets [1, 0] sizes [2, 8] : (tensor<4x8xf32>) -> tensor<2x8xf32>
  %p = nn.einsum "ab,bc->ac"(%v, %w) : (tensor<2x8xf32>, tensor<8x3xf32>) -> tensor<2x3xf32>
  %s = nn.slice %x offsets [0, 3] sizes [4, 2] : (tensor<4x8xf32>) -> tensor<4x2xf32>
  %f = nn.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  %e = nn.exp %f : tensor<32xf32>
  return %p, %s, %e : tensor<2x3xf32>, tensor<4x2xf32>, tensor<32xf32>
}

// -----

// A parameter is overwritten in place by what reads it last, element by element.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME: %[[P:.*]]: memref<8xf32>, %[[OUT:.*]]: memref<8xf32>, %[[OTHER:.*]]: memref<8xf32>)
// CHECK: exec.launch @kernels::@exp_0 reads(%[[P]] : {{.*}}) writes(%[[OTHER]] :
// CHECK: exec.launch @kernels::@neg_0 reads(%[[P]] : {{.*}}) writes(%[[OUT]] :
// CHECK-NOT: exec.copy
func.func @in_place(%p: tensor<8xf32> {nn.state = ["moment1", "p"]})
    -> (tensor<8xf32> {nn.result = ["moment1", "p"]}, tensor<8xf32>) {
  %e = nn.exp %p : tensor<8xf32>
  %n = nn.neg %p : tensor<8xf32>
  return %n, %e : tensor<8xf32>, tensor<8xf32>
}

// -----

// ... but not while somebody reads the old value later, itself or through a view.
// CHECK-LABEL: func.func @read_later(
// CHECK-SAME: %[[P:.*]]: memref<8xf32>, %[[OUT:.*]]: memref<8xf32>,
// CHECK: %[[N:.*]] = exec.buffer : memref<8xf32>
// CHECK: exec.launch @kernels::@neg_0 reads(%[[P]] : {{.*}}) writes(%[[N]] :
// CHECK: exec.launch @kernels::@exp_0
// CHECK: exec.copy reads(%[[N]] : {{.*}}) writes(%[[OUT]] :
func.func @read_later(%p: tensor<8xf32> {nn.state = ["moment1", "p"]})
    -> (tensor<8xf32> {nn.result = ["moment1", "p"]}, tensor<2x4xf32>) {
  %v = nn.reshape %p : tensor<8xf32> -> tensor<2x4xf32>
  %n = nn.neg %p : tensor<8xf32>
  %e = nn.exp %v : tensor<2x4xf32>
  return %n, %e : tensor<8xf32>, tensor<2x4xf32>
}

// -----

// ... nor where an element of the result needs others of the old value.
// CHECK-LABEL: func.func @other_elements(
// CHECK-SAME: %[[P:.*]]: memref<8x8xf32>, %[[OUT:.*]]: memref<8x8xf32>)
// CHECK: %[[T:.*]] = exec.buffer
// CHECK: exec.launch @kernels::@transpose_0 reads(%[[P]] : {{.*}}) writes(%[[T]] :
// CHECK: exec.copy reads(%[[T]] : {{.*}}) writes(%[[OUT]] :
func.func @other_elements(%p: tensor<8x8xf32> {nn.state = ["moment1", "p"]})
    -> (tensor<8x8xf32> {nn.result = ["moment1", "p"]}) {
  %t = nn.transpose %p [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %t : tensor<8x8xf32>
}

// -----

// ... nor by a loop whose body reads it through a view.
// CHECK-LABEL: func.func @read_in_loop(
// CHECK-SAME: %[[P:.*]]: memref<8xf32>, %[[OUT:.*]]: memref<8xf32>)
// CHECK: %[[SUM:.*]] = exec.buffer : memref<8xf32>
// CHECK: scf.for
// CHECK: exec.launch @kernels::@add_0 {{.*}} writes(%[[SUM]] :
// CHECK: exec.copy reads(%[[SUM]] : {{.*}}) writes(%[[OUT]] :
func.func @read_in_loop(%p: tensor<8xf32> {nn.state = ["moment1", "p"]})
    -> (tensor<8xf32> {nn.result = ["moment1", "p"]}) {
  %v = nn.reshape %p : tensor<8xf32> -> tensor<2x4xf32>
  %zero = nn.constant dense<0.0> : tensor<8xf32>
  %r = nn.microbatches 3 inits(%zero : tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%k: tensor<i32>, %acc: tensor<8xf32>):
    %e = nn.exp %v : tensor<2x4xf32>
    %f = nn.reshape %e : tensor<2x4xf32> -> tensor<8xf32>
    %n = nn.add %acc, %f : tensor<8xf32>
    nn.yield %n : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// -----

// Two arguments that change places go through buffers of their own.
// CHECK-LABEL: func.func @swap(
// CHECK-SAME: %[[P:.*]]: memref<8xf32>, %[[Q:.*]]: memref<8xf32>, %[[NEWP:.*]]: memref<8xf32>, %[[NEWQ:.*]]: memref<8xf32>)
// CHECK: %[[A:.*]] = exec.buffer
// CHECK: exec.copy reads(%[[Q]] : {{.*}}) writes(%[[A]] :
// CHECK: %[[B:.*]] = exec.buffer
// CHECK: exec.copy reads(%[[P]] : {{.*}}) writes(%[[B]] :
// CHECK: exec.copy reads(%[[A]] : {{.*}}) writes(%[[NEWP]] :
// CHECK: exec.copy reads(%[[B]] : {{.*}}) writes(%[[NEWQ]] :
func.func @swap(%p: tensor<8xf32> {nn.state = ["moment1", "p"]},
                %q: tensor<8xf32> {nn.state = ["moment1", "q"]})
    -> (tensor<8xf32> {nn.result = ["moment1", "p"]}, tensor<8xf32> {nn.result = ["moment1", "q"]}) {
  return %q, %p : tensor<8xf32>, tensor<8xf32>
}

// -----

// A value that is returned twice is computed once and copied.
// CHECK-LABEL: func.func @twice(
// CHECK-SAME: %[[X:.*]]: memref<8xf32>, %[[A:.*]]: memref<8xf32>, %[[B:.*]]: memref<8xf32>)
// CHECK: exec.launch @kernels::@exp_0 reads(%[[X]] : {{.*}}) writes(%[[A]] :
// CHECK: %[[SAFE:.*]] = exec.buffer
// CHECK: exec.copy reads(%[[A]] : {{.*}}) writes(%[[SAFE]] :
// CHECK: exec.copy reads(%[[SAFE]] : {{.*}}) writes(%[[B]] :
func.func @twice(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = nn.exp %x : tensor<8xf32>
  return %e, %e : tensor<8xf32>, tensor<8xf32>
}

// -----

// The accumulator of a loop is updated in place in the buffer of its result; a slice
// of the batch is a part.
// CHECK-LABEL: func.func @loop(
// CHECK-SAME: %[[X:.*]]: memref<6x4xf32>, %[[OUT:.*]]: memref<2x4xf32>)
// CHECK: exec.launch @kernels::@constant_0 writes(%[[OUT]] :
// CHECK: scf.for %[[I:.*]] =
// CHECK: %[[PART:.*]] = exec.part %[[X]][%[[I]]] : memref<6x4xf32> to memref<2x4xf32>
// CHECK: exec.launch @kernels::@add_0 reads(%[[OUT]], %[[PART]] : {{.*}}) writes(%[[OUT]] :
// CHECK-NOT: exec.copy
func.func @loop(%x: tensor<6x4xf32>) -> tensor<2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<2x4xf32>
  %r = nn.microbatches 3 slices(%x : tensor<6x4xf32>) inits(%zero : tensor<2x4xf32>) -> tensor<2x4xf32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2x4xf32>, %acc: tensor<2x4xf32>):
    %n = nn.add %acc, %part : tensor<2x4xf32>
    nn.yield %n : tensor<2x4xf32>
  }
  return %r : tensor<2x4xf32>
}

// -----

// Layers are called with the buffers of operands and results.
// CHECK-LABEL: func.func @calls(
// CHECK-SAME: %[[X:.*]]: memref<8xf32>, %[[OUT:.*]]: memref<8xf32>)
// CHECK: %[[A:.*]] = exec.buffer
// CHECK: exec.call @layer reads(%[[X]] : {{.*}}) writes(%[[A]] :
// CHECK: exec.call @layer reads(%[[A]] : {{.*}}) writes(%[[OUT]] :
// CHECK: func.func private @layer(
// CHECK-NOT: exec.entry
func.func @calls(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = call @layer(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = call @layer(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}
func.func private @layer(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = nn.exp %x : tensor<8xf32>
  return %e : tensor<8xf32>
}

// -----

// Random numbers that differ in nothing but their stream share a kernel, which reads
// the stream from a table.
// CHECK-LABEL: func.func @streams(
// CHECK-SAME: %[[KEY:.*]]: memref<4xi32>,
// CHECK: %[[TABLE:.*]] = exec.buffer : memref<2xi32>
// CHECK: exec.launch @kernels::@constant_0 writes(%[[TABLE]] :
// CHECK: %[[ONE:.*]] = exec.view %[[TABLE]] : memref<2xi32> to memref<i32>
// CHECK: exec.launch @kernels::@random_0 reads(%[[KEY]], %[[ONE]] :
// CHECK: %[[TWO:.*]] = exec.view %[[TABLE]] offset 4 : memref<2xi32> to memref<i32>
// CHECK: exec.launch @kernels::@random_0 reads(%[[KEY]], %[[TWO]] :
// CHECK: nn.constant dense<[7, 1073741824]> : tensor<2xi32>
// CHECK-NOT: @random_1
func.func @streams(%key: tensor<4xi32> {nn.rng}) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = nn.constant dense<7> : tensor<i32>
  %b = nn.constant dense<1073741824> : tensor<i32>
  %x = nn.random normal %key, %a : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
  %y = nn.random normal %key, %b : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
  return %x, %y : tensor<8xf32>, tensor<8xf32>
}

// -----

// What a kernel only hands on is copied.
// CHECK-LABEL: func.func @handed_on
// CHECK: exec.launch
// CHECK: %[[EXP:.*]] = nn.exp %[[A:.*]] :
// CHECK: %[[SAME:.*]] = nn.reshape %[[A]]
// CHECK: %[[AGAIN:.*]] = nn.reshape %[[EXP]]
// CHECK: return %[[SAME]], %[[EXP]], %[[AGAIN]]
func.func @handed_on(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0:3 = nn.fused(%x : tensor<4xf32>) -> tensor<4xf32>, tensor<4xf32>, tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %e = nn.exp %a : tensor<4xf32>
    nn.yield %a, %e, %e : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1, %0#2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
