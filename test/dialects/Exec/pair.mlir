// RUN: sheaf-opt %s | sheaf-opt | FileCheck %s
// RUN: sheaf-opt %s --emit-bytecode | sheaf-opt | FileCheck %s

// CHECK-LABEL: func.func @tensors
func.func @tensors(%x: tensor<8xf32>) -> tensor<4xf32> {
  // CHECK: %[[H:.*]] = exec.send %{{.*}} to 1 size 4 stride 2 about {name = "edge"} : tensor<8xf32>
  %h = exec.send %x to 1 size 4 stride 2 about {name = "edge"} : tensor<8xf32>
  // CHECK: %[[G:.*]], %[[Y:.*]] = exec.receive from 0 size 4 stride 2 : tensor<4xf32>
  %g, %started = exec.receive from 0 size 4 stride 2 : tensor<4xf32>
  // CHECK: exec.wait_receive %[[G]], %[[Y]] : tensor<4xf32>
  %y = exec.wait_receive %g, %started : tensor<4xf32>
  // CHECK: exec.wait_send %[[H]], %{{.*}} : tensor<8xf32>
  exec.wait_send %h, %x : tensor<8xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @buffers
func.func @buffers(%x: memref<8xf32>, %y: memref<4xf32>, %h: memref<i64>, %g: memref<i64>) {
  // CHECK: exec.start send reads(%{{.*}} : memref<8xf32>) writes(%{{.*}} : memref<i64>) peer 1 size 4 stride 2{{$}}
  exec.start send reads(%x : memref<8xf32>) writes(%h : memref<i64>) peer 1 size 4 stride 2
  // CHECK: exec.start receive writes(%{{.*}}, %{{.*}} : memref<4xf32>, memref<i64>) peer 0 size 4 stride 2{{$}}
  exec.start receive writes(%y, %g : memref<4xf32>, memref<i64>) peer 0 size 4 stride 2
  // CHECK: exec.wait reads(%{{.*}}, %{{.*}} : memref<i64>, memref<8xf32>){{$}}
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>)
  // CHECK: exec.wait reads(%{{.*}} : memref<i64>) writes(%{{.*}} : memref<4xf32>){{$}}
  exec.wait reads(%g : memref<i64>) writes(%y : memref<4xf32>)
  return
}
