// RUN: sheaf-opt %s --exec-to-llvm | FileCheck %s

// What the module's transfers are, in the order of their ids; two that differ in
// nothing are one.
// CHECK: module attributes {exec.collectives = [{axes = ["tp"], loc = "{{.*}}collective.mlir:[[#]]:3"}, {loc = "{{.*}}"}]
// CHECK-DAG: llvm.mlir.global internal constant @targets_1(dense<[1, 0]> : tensor<2xi64>)
// CHECK-DAG: llvm.mlir.global internal constant @collective_0() {{.*}} : !llvm.struct<(i32, i32, i32, i32, i32, i32, i64, {{.*}}, ptr)>
// CHECK-DAG: llvm.mlir.global internal constant @collective_1()
// CHECK-NOT: @collective_2
// CHECK-LABEL: llvm.func internal @body_move
// CHECK-SAME: %[[CONTEXT:[a-z0-9]+]]: !llvm.ptr, %[[A:[a-z0-9]+]]: !llvm.ptr, %[[B:[a-z0-9]+]]: !llvm.ptr
func.func @move(%a: memref<8xf32>, %b: memref<8xf32>) attributes {exec.scratch_bytes = 0 : i64} {
  // The communicator is the fifth field of the context, start and wait its two.
  // CHECK: %[[C:.*]] = llvm.getelementptr %[[CONTEXT]][4]
  // CHECK: %[[COMM:.*]] = llvm.load %[[C]]
  // CHECK: %[[S:.*]] = llvm.getelementptr %[[COMM]][0]
  // CHECK: %[[START:.*]] = llvm.load %[[S]]
  // CHECK: %[[WHAT:.*]] = llvm.mlir.addressof @collective_0
  // CHECK: %[[HANDLE:.*]] = llvm.call %[[START]](%[[CONTEXT]], %[[WHAT]], %[[A]], %[[B]])
  // CHECK: %[[W:.*]] = llvm.getelementptr %[[COMM]][1]
  // CHECK: %[[WAIT:.*]] = llvm.load %[[W]]
  // CHECK: llvm.call %[[WAIT]](%[[CONTEXT]], %[[HANDLE]])
  exec.collective all_reduce by sum reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [4] strides [2] about {axes = ["tp"]}
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.collective all_reduce by sum reads(%b : memref<8xf32>) writes(%a : memref<8xf32>) sizes [4] strides [2] about {axes = ["tp"]}
  return
}
