// RUN: sheaf-opt %s --exec-to-llvm | FileCheck %s

// What the module's transfers are, in the order of their ids; two that differ in
// nothing are one.
// CHECK: module attributes {exec.collectives = [{axes = ["tp"], loc = "{{.*}}collective.mlir:{{[0-9]+}}:3"}, {loc = "{{.*}}"}
// CHECK-DAG: llvm.mlir.global internal constant @targets_1(dense<[1, 0]> : tensor<2xi64>)
// CHECK-DAG: llvm.mlir.global internal constant @collective_0() {{.*}} : !llvm.struct<(i32, i32, i32, i32, i32, i32, i64, {{.*}}, ptr, i64, i64)>
// CHECK-DAG: llvm.mlir.global internal constant @collective_1()
// CHECK-NOT: @collective_2
// Instruction 4 with two pointers, which transfer, from where and to where.
// CHECK-DAG: @program_move(dense<[516, 0, 1099511627776, 2199023255552, 516, 1, 1099511627776, 2199023255552, 516, 0, 2199023255552, 1099511627776]>
func.func @move(%a: memref<8xf32>, %b: memref<8xf32>) attributes {exec.scratch_bytes = 0 : i64} {
  exec.collective all_reduce by sum reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [4] strides [2] about {axes = ["tp"]}
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.collective all_reduce by sum reads(%b : memref<8xf32>) writes(%a : memref<8xf32>) sizes [4] strides [2] about {axes = ["tp"]}
  return
}

// In a loop, where a buffer moves, it is code: start and wait are the two functions of
// the communicator, the fifth field of the context.
// CHECK-LABEL: llvm.func internal @body_parts(
// CHECK-SAME: %[[CONTEXT:[a-z0-9]+]]: !llvm.ptr
// CHECK: %[[C:.*]] = llvm.getelementptr %[[CONTEXT]][4]
// CHECK: %[[COMM:.*]] = llvm.load %[[C]]
// CHECK: %[[S:.*]] = llvm.getelementptr %[[COMM]][0]
// CHECK: %[[START:.*]] = llvm.load %[[S]]
// CHECK: %[[HANDLE:.*]] = llvm.call %[[START]](%[[CONTEXT]],
// CHECK: %[[W:.*]] = llvm.getelementptr %[[COMM]][1]
// CHECK: %[[WAIT:.*]] = llvm.load %[[W]]
// CHECK: llvm.call %[[WAIT]](%[[CONTEXT]], %[[HANDLE]])
func.func @parts(%a: memref<8xf32>, %b: memref<4xf32>) attributes {exec.scratch_bytes = 0 : i64} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  scf.for %i = %zero to %two step %one {
    %part = exec.part %a[%i] : memref<8xf32> to memref<4xf32>
    exec.collective all_reduce by sum reads(%part : memref<4xf32>) writes(%b : memref<4xf32>) sizes [2] strides [1]
  }
  return
}
