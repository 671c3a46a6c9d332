// The pass finds third powers, in sheaf-opt and in Debian's own mlir-opt, and says so.
// RUN: sheaf-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin --pass-pipeline='builtin.module(func.func(cube-raise))' --remarks-filter=cube -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir
// RUN: mlir-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin --pass-pipeline='builtin.module(func.func(cube-raise))' | FileCheck %s

// REMARK-COUNT-2: remark: [Passed] raised | Category:cube | Remark="a third power"

// CHECK-LABEL: func.func @left
// CHECK-NEXT: cube.cube %arg0
// CHECK-NEXT: return
func.func @left(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.mul %x, %x : tensor<4xf32>
  %y = nn.mul %s, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @right
// CHECK-NEXT: cube.cube %arg0
func.func @right(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.mul %x, %x : tensor<4xf32>
  %y = nn.mul %x, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

// Another value's square stays, and one that is broadcast.
// CHECK-LABEL: func.func @others
// CHECK-NOT: cube.cube
func.func @others(%x: tensor<4xf32>, %z: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = nn.mul %z, %z : tensor<1xf32>
  %y = nn.mul %x, %s : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %q = nn.mul %x, %x : tensor<4xf32>
  %r = nn.mul %q, %y : tensor<4xf32>
  return %y, %r : tensor<4xf32>, tensor<4xf32>
}
