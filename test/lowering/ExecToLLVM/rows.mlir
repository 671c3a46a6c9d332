// RUN: sheaf-opt %s --exec-to-llvm | FileCheck %s

// An all-to-all of rows is an instruction of its own with four pointers; its description
// has the number of blocks and the width of a row behind all others.
// CHECK-DAG: llvm.mlir.global internal constant @collective_0() {{.*}} : !llvm.struct<(i32, i32, i32, i32, i32, i32, i64, {{.*}}, ptr, i64, i64)>
// CHECK-DAG: @program_f(dense<[1032, 0, 1099511627776, 2199023255552, 3298534883328, 4398046511104]> : tensor<6xi64>)
func.func @f(%x: memref<2x4x6x8xf32>, %n: memref<2x4xi32>, %m: memref<1x8xi32>, %y: memref<1x8x6x8xf32>)
    attributes {exec.scratch_bytes = 0 : i64} {
  exec.collective all_to_all reads(%x, %n, %m : memref<2x4x6x8xf32>, memref<2x4xi32>, memref<1x8xi32>)
    writes(%y : memref<1x8x6x8xf32>) sizes [2] strides [1]
  return
}

// In a loop it is code: the third function of the communicator, a table of the buffers.
// CHECK-LABEL: llvm.func internal @body_parts(
// CHECK-SAME: %[[CONTEXT:[a-z0-9]+]]: !llvm.ptr
// CHECK: %[[TABLE:.*]] = llvm.alloca
// CHECK: %[[C:.*]] = llvm.getelementptr %[[CONTEXT]][4]
// CHECK: %[[COMM:.*]] = llvm.load %[[C]]
// CHECK: %[[S:.*]] = llvm.getelementptr %[[COMM]][2]
// CHECK: %[[START:.*]] = llvm.load %[[S]]
// CHECK: %[[HANDLE:.*]] = llvm.call %[[START]](%[[CONTEXT]], %{{.*}}, %[[TABLE]])
// CHECK: %[[W:.*]] = llvm.getelementptr %[[COMM]][1]
// CHECK: %[[WAIT:.*]] = llvm.load %[[W]]
// CHECK: llvm.call %[[WAIT]](%[[CONTEXT]], %[[HANDLE]])
// CHECK-LABEL: llvm.func internal @run_program(
// CHECK: llvm.switch %{{.*}}[
// CHECK: 8: ^bb
func.func @parts(%a: memref<4x4x6x8xf32>, %n: memref<2x4xi32>, %m: memref<1x8xi32>, %y: memref<1x8x6x8xf32>)
    attributes {exec.scratch_bytes = 0 : i64} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  scf.for %i = %zero to %two step %one {
    %part = exec.part %a[%i] : memref<4x4x6x8xf32> to memref<2x4x6x8xf32>
    exec.collective all_to_all reads(%part, %n, %m : memref<2x4x6x8xf32>, memref<2x4xi32>, memref<1x8xi32>)
      writes(%y : memref<1x8x6x8xf32>) sizes [2] strides [1]
  }
  return
}
