// RUN: sheaf-opt %s --nn-differentiate=functions=f | FileCheck %s
// The gradient of a value with a constraint has it, too.

// CHECK-LABEL: func.func @f_gradient(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<4x2xf32>, %[[D:[^ ]*]]: tensor<4x2xf32>)
// CHECK: %[[E:.*]] = nn.exp %[[X]]
// CHECK: dist.constraint %[[E]] <[{"dp"}, {}]> because "a user's" {nn.role = "forward"}
// CHECK: %[[D1:.*]] = nn.mul %[[D]], %
// CHECK: %[[D2:.*]] = dist.constraint %[[D1]] <[{"dp"}, {}]> because "a user's" {nn.role = "input_gradient"}
// CHECK: nn.mul %[[D2]], %[[E]]
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %e = nn.exp %x : tensor<4x2xf32>
  %c = dist.constraint %e <[{"dp"}, {}]> because "a user's" : tensor<4x2xf32>
  %y = nn.sin %c : tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
