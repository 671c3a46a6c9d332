// RUN: sheaf-opt %s "--nn-apply-precision=recipe=bf16 gradients=narrow moments=narrow masters=none" | FileCheck %s

// Moments are narrow, there is no master, and the update is rounded by random bits, for which the
// step gets a key where it has none.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:arg0]]: tensor<4x4xbf16> {nn.param
// CHECK-SAME: %[[M:arg[0-9]+]]: tensor<4x4xbf16> {nn.state = ["momentum", "up"]}
// CHECK-SAME: %[[KEY:arg[0-9]+]]: tensor<4xi32> {nn.rng})
// CHECK-NOT: "master"
// Gradients are added up in bf16.
// CHECK: %[[ZERO:.*]] = nn.cast %{{.*}} : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: %[[SUM:.*]] = nn.microbatches 2 slices(%{{.*}} : tensor<4x4xi32>) inits(%[[ZERO]] : tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: ^bb0(%{{.*}}: tensor<i32>, %{{.*}}: tensor<2x4xi32>, %[[ACCUMULATOR:.*]]: tensor<4x4xbf16>):
// CHECK: nn.add %{{.*}} : tensor<4x4xf32>
// CHECK: nn.yield %{{.*}} : tensor<4x4xbf16>
// CHECK: nn.cast %[[SUM]] {{.*}}: tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK: %[[NEW:.*]], %[[BUFFER:.*]] = nn.sgd
// CHECK: %[[STREAM:.*]] = nn.constant dense<536870912> : tensor<i32>
// CHECK: %[[BITS:.*]] = nn.random bits %[[KEY]], %[[STREAM]]
// CHECK: %[[ROUNDED:.*]] = nn.cast %[[NEW]] stochastic %[[BITS]] {{.*}}: tensor<4x4xf32>, tensor<4x4xi32> -> tensor<4x4xbf16>
// CHECK: %[[KEPT:.*]] = nn.cast %[[BUFFER]] {{.*}}: tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: return %{{.*}}, %{{.*}}, %[[ROUNDED]], %[[KEPT]]
func.func @step(%w: tensor<4x4xf32> {nn.param = #nn.param<"up", axes = [embed, mlp], init = normal(0.02)>},
                %tokens: tensor<4x4xi32> {nn.batch = "tokens"}, %momentum: tensor<4x4xf32> {nn.state = ["momentum", "up"]})
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["result", "grad_norm"]},
        tensor<4x4xf32> {nn.result = ["parameter", "up"]}, tensor<4x4xf32> {nn.result = ["momentum", "up"]}) {
  %zero = nn.constant dense<0.0> : tensor<4x4xf32> {nn.role = "weight_gradient"}
  %g = nn.microbatches 2 slices(%tokens : tensor<4x4xi32>) inits(%zero : tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2x4xi32>, %sum: tensor<4x4xf32>):
    %x = nn.embedding %w[%part] {nn.role = "forward"} : (tensor<4x4xf32>, tensor<2x4xi32>) -> tensor<2x4x4xf32>
    %dw = nn.gather_grad %x[%part] axis 0 {nn.role = "weight_gradient"} : (tensor<2x4x4xf32>, tensor<2x4xi32>) -> tensor<4x4xf32>
    %next = nn.add %sum, %dw {nn.role = "weight_gradient"} : tensor<4x4xf32>
    nn.yield %next : tensor<4x4xf32>
  }
  %squares = nn.reduce sum_of_squares %g dims [0, 1] {nn.role = "optimizer"} : (tensor<4x4xf32>) -> tensor<f32>
  %norm = nn.sqrt %squares {nn.role = "optimizer"} : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> {nn.role = "optimizer"}
  %new, %m = nn.sgd %w, %g, %momentum lr %one momentum %one decay %one grad_scale %one {nn.role = "optimizer"}
    : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>)
  return %norm, %norm, %new, %m : tensor<f32>, tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
