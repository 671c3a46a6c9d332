// RUN: sheaf-opt %s --nn-apply-precision=recipe=bf16 | FileCheck %s
// RUN: sheaf-opt %s --nn-apply-precision=recipe=fp32 | FileCheck %s --check-prefix=SAME
// RUN: sheaf-opt %s "--nn-apply-precision=recipe=bf16 keep=gate*" | FileCheck %s --check-prefix=KEEP
// RUN: sheaf-opt %s --nn-apply-precision=recipe=fp16 | FileCheck %s --check-prefix=SCALE

// SAME-NOT: bf16

// A layer is there once for what it is called with; its values are narrow, but
// for statistics, and what is computed of them.
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xbf16>, %[[W:.*]]: tensor<4x4xbf16>) -> (tensor<2x4xbf16>, tensor<2xf32>)
// CHECK: %[[P:.*]] = nn.einsum "be,ef->bf"(%[[X]], %[[W]]) : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
// CHECK: %[[R:.*]] = nn.silu %[[P]] : tensor<2x4xbf16>
// CHECK: %[[WIDE:.*]] = nn.cast %[[R]] : tensor<2x4xbf16> -> tensor<2x4xf32>
// CHECK: %[[S:.*]] = nn.reduce sum %[[WIDE]] dims [1] : (tensor<2x4xf32>) -> tensor<2xf32>
// CHECK: return %[[R]], %[[S]]
// KEEP-LABEL: func.func private @layer(
// KEEP: nn.einsum "be,ef->bf"(%{{.*}}) : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
// With one kept there is another version.
// KEEP-LABEL: func.func private @layer_narrow
// KEEP-SAME: %[[X:.*]]: tensor<2x4xbf16>, %[[W:.*]]: tensor<4x4xf32>)
// KEEP: %[[WIDE:.*]] = nn.cast %[[X]] : tensor<2x4xbf16> -> tensor<2x4xf32>
// KEEP: %[[P:.*]] = nn.einsum "be,ef->bf"(%[[WIDE]], %[[W]]) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
// KEEP: nn.cast %[[P]] : tensor<2x4xf32> -> tensor<2x4xbf16>
func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>) {
  %p = nn.einsum "be,ef->bf"(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %r = nn.silu %p : tensor<2x4xf32>
  %s = nn.reduce sum %r dims [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  return %r, %s : tensor<2x4xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @logits
// CHECK-SAME: %[[TABLE:.*]]: tensor<8x4xbf16> {nn.param
// CHECK: nn.embedding %[[TABLE]]
// A constant keeps its precision: what it is in is computed in f32 and rounded.
// CHECK: nn.cast %{{.*}} : tensor<2x4xbf16> -> tensor<2x4xf32>
// CHECK: nn.mul %{{.*}} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
// CHECK: nn.cast %{{.*}} : tensor<2x4xf32> -> tensor<2x4xbf16>
// CHECK: call @layer
// CHECK: call @layer
// CHECK: return %{{.*}} : tensor<2x4xf32>
func.func @logits(%table: tensor<8x4xf32> {nn.param = #nn.param<"table", axes = [vocab, embed], init = normal(0.02)>},
                  %u: tensor<4x4xf32> {nn.param = #nn.param<"up", axes = [embed, mlp], init = normal(0.02)>},
                  %g: tensor<4x4xf32> {nn.param = #nn.param<"gate", axes = [embed, mlp], init = normal(0.02)>},
                  %tokens: tensor<2xi32>) -> tensor<2x4xf32> {
  %e = nn.embedding %table[%tokens] : (tensor<8x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
  %tenth = nn.constant dense<0.1> : tensor<f32>
  %x = nn.mul %e, %tenth : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %y:2 = call @layer(%x, %u) : (tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  %z:2 = call @layer(%y#0, %g) : (tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  return %z#0 : tensor<2x4xf32>
}

// The step has masters, behind everything that it had.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:arg0]]: tensor<4x4xbf16> {nn.param
// CHECK-SAME: %[[MASTER:arg[0-9]+]]: tensor<4x4xf32> {nn.state = ["master", "up"]})
// CHECK-SAME: tensor<4x4xbf16> {nn.result = ["parameter", "up"]}
// CHECK-SAME: tensor<4x4xf32> {nn.result = ["master", "up"]}
// A gradient of a parameter is f32 from its product on.
// CHECK: %[[G:.*]] = nn.einsum "bf,be->ef"(%{{.*}}) {nn.role = "weight_gradient"} : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<4x4xf32>
// CHECK: %[[NEW:.*]], %{{.*}} = nn.sgd %[[MASTER]], %[[G]], %{{.*}} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, {{.*}}) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK: %[[ROUNDED:.*]] = nn.cast %[[NEW]] {nn.role = "optimizer"} : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: return %{{.*}}, %{{.*}}, %[[ROUNDED]], %{{.*}}, %[[NEW]]

// The seed of the gradients is scaled, and their norm and the optimizer's factor
// are divided; a step with an overflow leaves everything as it was.
// SCALE-LABEL: func.func @step
// SCALE-SAME: %[[KEPT:arg[0-9]+]]: tensor<f32> {nn.state = ["scaling", "loss_scale"]}
// SCALE-SAME: %[[FIRST:arg[0-9]+]]: tensor<f32> {nn.default = 6.553600e+04 : f64, nn.scalar = "first_loss_scale"}
// SCALE-SAME: %[[GOOD:arg[0-9]+]]: tensor<f32> {nn.state = ["scaling", "good_steps"]}
// SCALE-SAME: %[[WINDOW:arg[0-9]+]]: tensor<f32> {nn.default = 2.000000e+03 : f64, nn.scalar = "loss_scale_window"}
// SCALE: %[[IS:.*]] = nn.compare gt %[[KEPT]]
// SCALE: %[[SCALE:.*]] = nn.select %[[IS]], %[[KEPT]], %[[FIRST]]
// SCALE: %[[INVERSE:.*]] = nn.div %{{.*}}, %[[SCALE]]
// SCALE: nn.mul %{{.*}}, %[[SCALE]] {nn.role = "input_gradient"}
// SCALE: %[[SQRT:.*]] = nn.sqrt
// SCALE: %[[NORM:.*]] = nn.mul %[[SQRT]], %[[INVERSE]]
// SCALE: %[[OK:.*]] = nn.compare lt %[[NORM]]
// SCALE: %[[FACTOR:.*]] = nn.mul %{{.*}}, %[[INVERSE]]
// SCALE: %[[NEW:.*]], %{{.*}} = nn.sgd %[[MASTER:[a-z0-9]+]], {{.*}} grad_scale %[[FACTOR]]
// SCALE: nn.select %[[OK]], %[[NEW]], %[[MASTER]]
// SCALE: nn.add %[[GOOD]]
func.func @step(%w: tensor<4x4xf32> {nn.param = #nn.param<"up", axes = [embed, mlp], init = normal(0.02)>},
                %x: tensor<2x4xf32>, %momentum: tensor<4x4xf32> {nn.state = ["momentum", "up"]},
                %lr: tensor<f32> {nn.scalar = "lr", nn.default = 0.1})
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["result", "grad_norm"]},
        tensor<4x4xf32> {nn.result = ["parameter", "up"]}, tensor<4x4xf32> {nn.result = ["momentum", "up"]}) {
  %seed = nn.constant dense<1.0> : tensor<f32> {nn.role = "input_gradient", nn.seed}
  %p = nn.einsum "be,ef->bf"(%x, %w) {nn.role = "forward"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = nn.reduce sum %p dims [0, 1] {nn.role = "forward"} : (tensor<2x4xf32>) -> tensor<f32>
  %dp = nn.broadcast %seed dims [] {nn.role = "input_gradient"} : tensor<f32> -> tensor<2x4xf32>
  %g = nn.einsum "bf,be->ef"(%dp, %x) {nn.role = "weight_gradient"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %squares = nn.reduce sum_of_squares %g dims [0, 1] {nn.role = "optimizer"} : (tensor<4x4xf32>) -> tensor<f32>
  %norm = nn.sqrt %squares {nn.role = "optimizer"} : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> {nn.role = "optimizer"}
  %new, %m = nn.sgd %w, %g, %momentum lr %lr momentum %one decay %one grad_scale %one {nn.role = "optimizer"}
    : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>)
  return %loss, %norm, %new, %m : tensor<f32>, tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL: func.func @init
// CHECK: %[[DRAWN:.*]] = nn.random normal
// CHECK: %[[NARROW:.*]] = nn.cast %[[DRAWN]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: return %[[NARROW]], %[[DRAWN]] : tensor<4x4xbf16>, tensor<4x4xf32>
func.func @init(%key: tensor<4xi32> {nn.rng}) -> (tensor<4x4xf32> {nn.result = ["parameter", "up"]}) {
  %stream = nn.constant dense<1073741824> : tensor<i32>
  %n = nn.random normal %key, %stream : (tensor<4xi32>, tensor<i32>) -> tensor<4x4xf32>
  return %n : tensor<4x4xf32>
}
