// RUN: sheaf-opt %s --split-input-file --nn-to-exec | FileCheck %s

// A sort is a kernel, products of uneven sizes are handed to the device with their offsets.
// CHECK-LABEL: func.func @experts(
//  CHECK-SAME: %[[X:.*]]: memref<2x12x8xf32>, %[[E:.*]]: memref<2x6x2xi32>, %[[W:.*]]: memref<4x5x8xf32>,
//  CHECK-SAME: %[[Y:.*]]: memref<2x12x5xf32>, %[[G:.*]]: memref<4x5x8xf32>)
//       CHECK: exec.launch @kernels::@expert_sort_0 reads(%[[E]] : memref<2x6x2xi32>) writes(%{{.*}}, %{{.*}}, %[[O:.*]] : memref<2x12xi32>, memref<2x6x2xi32>, memref<2x5xi32>)
//       CHECK: exec.grouped_matmul reads(%[[X]], %[[W]], %[[O]] : memref<2x12x8xf32>, memref<4x5x8xf32>, memref<2x5xi32>) writes(%[[Y]] : memref<2x12x5xf32>) dims [2, 12, 4, 8, 5] transposed{{$}}
//       CHECK: exec.grouped_matmul reads(%[[Y]], %[[X]], %[[O]] : memref<2x12x5xf32>, memref<2x12x8xf32>, memref<2x5xi32>) writes(%[[G]] : memref<4x5x8xf32>) dims [2, 12, 4, 5, 8] outer{{$}}
func.func @experts(%x: tensor<2x12x8xf32>, %e: tensor<2x6x2xi32>, %w: tensor<4x5x8xf32>) -> (tensor<2x12x5xf32>, tensor<4x5x8xf32>) {
  %o, %p, %q = nn.expert_sort %e of 4 : (tensor<2x6x2xi32>) -> (tensor<2x12xi32>, tensor<2x6x2xi32>, tensor<2x5xi32>)
  %y = nn.grouped_matmul %x, %w, %q transposed : (tensor<2x12x8xf32>, tensor<4x5x8xf32>, tensor<2x5xi32>) -> tensor<2x12x5xf32>
  %g = nn.grouped_outer %y, %x, %q : (tensor<2x12x5xf32>, tensor<2x12x8xf32>, tensor<2x5xi32>) -> tensor<4x5x8xf32>
  return %y, %g : tensor<2x12x5xf32>, tensor<4x5x8xf32>
}

// -----

// Parts of the experts are runs of the groups.
// CHECK-LABEL: func.func @parts(
//       CHECK: exec.grouped_matmul {{.*}} dims [6, 4, 2, 8, 5] parts 2{{$}}
func.func @parts(%x: tensor<2x3x4x8xf32>, %w: tensor<2x2x8x5xf32>, %q: tensor<2x3x3xi32>) -> tensor<2x3x4x5xf32> {
  %y = nn.grouped_matmul %x, %w, %q : (tensor<2x3x4x8xf32>, tensor<2x2x8x5xf32>, tensor<2x3x3xi32>) -> tensor<2x3x4x5xf32>
  return %y : tensor<2x3x4x5xf32>
}

// -----

// The gradients of experts are added to an accumulator by the product itself.
// CHECK-LABEL: func.func @sum(
//       CHECK: scf.for
//       CHECK: exec.grouped_matmul {{.*}} dims [2, 12, 4, 5, 8] outer accumulate{{$}}
//   CHECK-NOT: exec.launch @kernels::@add
//       CHECK: return
func.func @sum(%x: tensor<4x12x8xf32>, %y: tensor<4x12x5xf32>, %q: tensor<4x5xi32>) -> tensor<4x5x8xf32> {
  %zero = nn.constant dense<0.0> : tensor<4x5x8xf32>
  %r = nn.microbatches 2 slices(%x, %y, %q : tensor<4x12x8xf32>, tensor<4x12x5xf32>, tensor<4x5xi32>) inits(%zero : tensor<4x5x8xf32>) -> tensor<4x5x8xf32> {
  ^bb0(%k: tensor<i32>, %a: tensor<2x12x8xf32>, %b: tensor<2x12x5xf32>, %o: tensor<2x5xi32>, %sum: tensor<4x5x8xf32>):
    %g = nn.grouped_outer %b, %a, %o : (tensor<2x12x5xf32>, tensor<2x12x8xf32>, tensor<2x5xi32>) -> tensor<4x5x8xf32>
    %next = nn.add %sum, %g : tensor<4x5x8xf32>
    nn.yield %next : tensor<4x5x8xf32>
  }
  return %r : tensor<4x5x8xf32>
}
