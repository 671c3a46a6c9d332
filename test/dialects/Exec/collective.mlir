// RUN: sheaf-opt %s | sheaf-opt | FileCheck %s
// RUN: sheaf-opt %s --emit-bytecode | sheaf-opt | FileCheck %s

// CHECK-LABEL: func.func @collectives
func.func @collectives(%a: memref<8xf32>, %b: memref<8xf32>, %c: memref<4x6xf32>, %d: memref<4x3xf32>) {
  // CHECK: exec.collective all_reduce by sum reads(%{{.*}} : memref<8xf32>) writes(%{{.*}} : memref<8xf32>) sizes [4] strides [2]{{$}}
  exec.collective all_reduce by sum reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [4] strides [2]
  // CHECK: exec.collective all_gather reads(%{{.*}} : memref<4x3xf32>) writes(%{{.*}} : memref<4x6xf32>) sizes [2] strides [1] join 4{{$}}
  exec.collective all_gather reads(%d : memref<4x3xf32>) writes(%c : memref<4x6xf32>) sizes [2] strides [1] join 4
  // CHECK: exec.collective reduce_scatter by max reads(%{{.*}} : memref<4x6xf32>) writes(%{{.*}} : memref<4x3xf32>) sizes [2] strides [1] cut 4 about {axes = ["tp"]}
  exec.collective reduce_scatter by max reads(%c : memref<4x6xf32>) writes(%d : memref<4x3xf32>) sizes [2] strides [1] cut 4 about {axes = ["tp"]}
  // CHECK: exec.collective permute {{.*}} targets [1, -1]
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, -1]
  // CHECK: exec.collective broadcast {{.*}} sizes [2, 2] strides [4, 1] root 3
  exec.collective broadcast reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2, 2] strides [4, 1] root 3
  // A group of one.
  // CHECK: exec.collective all_to_all {{.*}} sizes [] strides []
  exec.collective all_to_all reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [] strides []
  return
}

// Rows by count, on buffers and on tensors.
// CHECK-LABEL: func.func @rows
func.func @rows(%x: memref<2x4x6x8xf32>, %n: memref<2x4xi32>, %m: memref<1x8xi32>, %y: memref<1x8x6x8xf32>) {
  // CHECK: exec.collective all_to_all reads(%{{.*}}, %{{.*}}, %{{.*}} : memref<2x4x6x8xf32>, memref<2x4xi32>, memref<1x8xi32>) writes(%{{.*}} : memref<1x8x6x8xf32>) sizes [2] strides [1]{{$}}
  exec.collective all_to_all reads(%x, %n, %m : memref<2x4x6x8xf32>, memref<2x4xi32>, memref<1x8xi32>)
    writes(%y : memref<1x8x6x8xf32>) sizes [2] strides [1]
  return
}
// CHECK-LABEL: func.func @row_tensors
func.func @row_tensors(%x: tensor<2x4x6x8xf32>, %n: tensor<2x4xi32>, %m: tensor<1x8xi32>) -> tensor<1x8x6x8xf32> {
  // CHECK: exec.transfer all_to_all %{{.*}} counts(%{{.*}}, %{{.*}}) sizes [2] strides [1] : (tensor<2x4x6x8xf32>, tensor<2x4xi32>, tensor<1x8xi32>) -> tensor<1x8x6x8xf32>
  %y = exec.transfer all_to_all %x counts(%n, %m) sizes [2] strides [1]
    : (tensor<2x4x6x8xf32>, tensor<2x4xi32>, tensor<1x8xi32>) -> tensor<1x8x6x8xf32>
  return %y : tensor<1x8x6x8xf32>
}
