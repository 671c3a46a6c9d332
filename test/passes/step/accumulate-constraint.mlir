// A constraint has the samples of its input; its sharding is that of a microbatch.
// RUN: sheaf-opt %s --nn-differentiate --nn-accumulate=microbatches=2 | FileCheck %s

// CHECK-LABEL: func.func @gradients(
// CHECK: nn.microbatches 2
// CHECK: dist.constraint %{{.*}} <[{"dp"}, {}]> {nn.role = "input_gradient"} : tensor<2x8xf32>
// CHECK: dist.constraint %{{.*}} <[{"dp"}, {}]> {nn.role = "forward"} : tensor<2x8xf32>
// CHECK: nn.yield
dist.mesh @mesh ["dp" = 2]
func.func @loss(%w: tensor<8xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(1)>},
                %t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  %y = nn.mul %x, %w : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %z = dist.constraint %y <[{"dp"}, {}]> : tensor<4x8xf32>
  %zero = nn.constant dense<0> : tensor<i32>
  %valid = nn.compare ge %t, %zero : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi1>
  %l = nn.step_mean %z weights %valid : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
  return %l : tensor<f32>
}
