// RUN: sheaf-opt %s --split-input-file --nn-differentiate --nn-accumulate=microbatches=2 | FileCheck %s
// RUN: sheaf-opt %s --split-input-file --nn-differentiate --nn-accumulate | FileCheck %s --check-prefix=ONE

// The count of the whole step stands in front of the loop; the loss comes from the
// forward that the gradient computes; the key knows the first sample.
// CHECK-LABEL: func.func @loss(
// CHECK-NOT: @loss_gradient
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: %[[W:.*]]: tensor<8xf32> {nn.param{{[^%]*}}%[[T:.*]]: tensor<4x8xi32> {nn.batch = "tokens"}, %[[G:.*]]: tensor<4x8xi32> {nn.batch = "targets"}, %[[KEY:.*]]: tensor<4xi32> {nn.rng})
// CHECK-SAME: -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<8xf32> {nn.result = ["gradient", "w"]}, tensor<f32> {nn.result = ["result", "grad_norm"]})
// CHECK: %[[VALID:.*]] = nn.compare ge %[[G]]
// CHECK: %[[FLAGS:.*]] = nn.cast %[[VALID]] {{.*}} -> tensor<4x8xf32>
// CHECK: %[[COUNT:.*]] = nn.reduce sum %[[FLAGS]]
// CHECK: %[[SUMS:.*]]:2 = nn.microbatches 2 slices(%[[T]], %[[G]] : tensor<4x8xi32>, tensor<4x8xi32>) inits(
// CHECK-NEXT: ^bb0(%[[K:.*]]: tensor<i32>, %[[TK:.*]]: tensor<2x8xi32>, %[[GK:.*]]: tensor<2x8xi32>, %[[LOSS:.*]]: tensor<f32>, %[[DW:.*]]: tensor<8xf32>):
// CHECK: %[[FIRST:.*]] = nn.constant dense<[0, 0, 0, 2]> : tensor<4xi32>
// CHECK: %[[MOVED:.*]] = nn.mul %[[FIRST]], %[[K]]
// CHECK: %[[HERE:.*]] = nn.add %[[KEY]], %[[MOVED]]
// CHECK: nn.cast %[[TK]] {{.*}} -> tensor<2x8xf32>
// CHECK: nn.dropout {{.*}}, %[[HERE]],
// CHECK: nn.max %[[COUNT]],
// CHECK: %[[NEW:.*]] = nn.add %[[LOSS]],
// CHECK: %[[NEWDW:.*]] = nn.add %[[DW]],
// CHECK: nn.yield %[[NEW]], %[[NEWDW]]
// CHECK: %[[SQUARES:.*]] = nn.reduce sum_of_squares %[[SUMS]]#1
// CHECK: %[[NORM:.*]] = nn.sqrt %[[SQUARES]] {nn.role = "optimizer"}
// CHECK: return %[[SUMS]]#0, %[[SUMS]]#1, %[[NORM]]

// ONE-LABEL: func.func @gradients(
// ONE-NOT: nn.microbatches
// ONE-NOT: nn.step_
// ONE: nn.dropout
// ONE-NOT: nn.constant dense<[0, 0, 0
// ONE: return
func.func @loss(%w: tensor<8xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(1)>},
                %t: tensor<4x8xi32> {nn.batch = "tokens"}, %g: tensor<4x8xi32> {nn.batch = "targets"},
                %key: tensor<4xi32> {nn.rng}) -> tensor<f32> {
  %s = nn.constant dense<0> : tensor<i32>
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  %d = nn.dropout %x, %key, %s rate 0.5 : (tensor<4x8xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x8xf32>
  %y = nn.mul %d, %w : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %zero = nn.constant dense<0> : tensor<i32>
  %valid = nn.compare ge %g, %zero : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi1>
  %l = nn.step_mean %y weights %valid : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Layers are rewritten for the smaller batch, the parts of their backward too, and
// copied where the loss at full batch calls them. Constants, merged dimensions and
// slices follow.
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: tensor<4x8xf32>
// CHECK-LABEL: func.func @loss(
// CHECK: call @layer(
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: tensor<2x8xf32>
// CHECK-LABEL: func.func private @layer_input_gradient(
// CHECK-SAME: tensor<2x8xf32>
// CHECK-LABEL: func.func private @layer_weight_gradient(
// CHECK-SAME: tensor<2x8xf32>
// CHECK-LABEL: func.func private @layer_forward(
// CHECK-SAME: %{{.*}}: tensor<2x8xf32>, %{{.*}}: tensor<8xf32>
// CHECK: nn.reshape {{.*}} : tensor<2x8xf32> -> tensor<16xf32>
// CHECK: nn.constant dense<2.000000e+00> : tensor<16xf32>
// CHECK: nn.slice {{.*}} offsets [0, 2] sizes [2, 4]
// CHECK-LABEL: func.func private @layer_microbatch(
// CHECK-SAME: tensor<2x8xf32>
// CHECK-LABEL: func.func @gradients(
// CHECK: call @layer_microbatch(
// CHECK: call @layer_forward(
// CHECK: call @layer_backward(
func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x4xf32> attributes {nn.layer} {
  %f = nn.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  %two = nn.constant dense<2.0> : tensor<32xf32>
  %m = nn.mul %f, %two : tensor<32xf32>
  %r = nn.reshape %m : tensor<32xf32> -> tensor<4x8xf32>
  %s = nn.sin %r : tensor<4x8xf32>
  %y = nn.mul %s, %w : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %p = nn.slice %y offsets [0, 2] sizes [4, 4] : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return %p : tensor<4x4xf32>
}
func.func @loss(%w: tensor<8xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(1)>},
                %v: tensor<8xf32> {nn.param = #nn.param<"v", axes = [_], init = constant(1), frozen>},
                %t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  %a = call @layer(%x, %v) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x4xf32>
  %b = nn.concatenate %a, %a dim 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %xw = nn.mul %b, %w : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %c = call @layer(%xw, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x4xf32>
  %all = nn.constant dense<true> : tensor<4x4xi1>
  %l = nn.step_mean %c weights %all : (tensor<4x4xf32>, tensor<4x4xi1>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// No parameter: the norm is 0.
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["result", "grad_norm"]})
// CHECK: %[[NORM:.*]] = nn.constant dense<0.000000e+00> : tensor<f32> {nn.role = "optimizer"}
// CHECK: return %{{.*}}, %[[NORM]]
func.func @loss(%t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
  %all = nn.constant dense<true> : tensor<4x8xi1>
  %l = nn.step_mean %x weights %all : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// bf16: loss and gradients are added up in f32.
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: tensor<8xf32> {nn.result = ["gradient", "w"]}
// CHECK: nn.microbatches {{.*}} -> tensor<f32>, tensor<8xf32>
func.func @loss(%w: tensor<8xbf16> {nn.param = #nn.param<"w", axes = [_], init = constant(1)>},
                %t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<bf16> {
  %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xbf16>
  %y = nn.mul %x, %w : (tensor<4x8xbf16>, tensor<8xbf16>) -> tensor<4x8xbf16>
  %all = nn.constant dense<true> : tensor<4x8xi1>
  %l = nn.step_mean %y weights %all : (tensor<4x8xbf16>, tensor<4x8xi1>) -> tensor<bf16>
  return %l : tensor<bf16>
}
