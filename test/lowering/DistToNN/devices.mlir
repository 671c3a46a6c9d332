// RUN: sheaf-opt %s --dist-to-nn | FileCheck %s
// Groups are places of the mesh, whatever ranks stand there: the runtime is told.

// CHECK: module attributes {exec.devices = array<i64: 3, 1, 0, 2>, exec.mesh = {{\[\[}}"dp", 2], ["tp", 2]]}
dist.mesh @mesh ["dp" = 2, "tp" = 2] devices [3, 1, 0, 2]

// CHECK: exec.transfer all_gather %{{.*}} sizes [2] strides [2]
func.func @gather(%x: tensor<4xf32>) -> tensor<8xf32> {
  %y = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
