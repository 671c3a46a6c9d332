// RUN: sheaf-opt %s --nn-differentiate=functions=loss --nn-accumulate=microbatches=2 --nn-add-optimizer=kind=sgd --canonicalize --cse | FileCheck %s

// A loss of its own, which is logged and counts a tenth, and a bias that balances experts: its load
// is added up in the place of a gradient, is no part of the norm, and moves it by the rate.
// CHECK-LABEL: func.func @gradients(
//  CHECK-SAME: -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["result", "other"]},
//  CHECK-SAME: tensor<8x4xf32> {nn.result = ["gradient", "gate"]}, tensor<4xf32> {nn.result = ["result", "load:bias"]},
//  CHECK-SAME: tensor<f32> {nn.result = ["result", "grad_norm"]})
//       CHECK: %[[ALL:.*]]:4 = nn.microbatches 2
//       CHECK: %[[NORM:.*]] = nn.reduce sum_of_squares %[[ALL]]#2 dims [0, 1]
//  CHECK-NEXT: nn.sqrt %[[NORM]]

// CHECK-LABEL: func.func @step(
//  CHECK-SAME: %[[BIAS:[a-z0-9]+]]: tensor<4xf32> {nn.param = #nn.param<"bias", axes = [expert], init = constant(0), no_decay, balance(0.125)>}
//  CHECK-SAME: {nn.state = ["momentum", "gate"]}
//   CHECK-NOT: nn.state = ["momentum", "bias"]
//       CHECK: ["result", "loss"]{{.*}}["result", "grad_norm"]{{.*}}["result", "learning_rate"]{{.*}}["result", "other"]{{.*}}["parameter", "gate"]{{.*}}["parameter", "bias"]
//   CHECK-DAG: %[[DOWN:.*]] = nn.constant dense<-1.250000e-01>
//   CHECK-DAG: %[[UP:.*]] = nn.constant dense<1.250000e-01>
//       CHECK: %[[STEP:.*]]:4 = nn.microbatches 2
//       CHECK: nn.route softmax
//       CHECK: %[[MEAN:.*]] = nn.reduce mean %[[STEP]]#3 dims [0] keep
//       CHECK: %[[MORE:.*]] = nn.compare gt %[[STEP]]#3, %[[MEAN]]
//       CHECK: %[[LOWER:.*]] = nn.select %[[MORE]], %[[DOWN]],
//       CHECK: %[[FEWER:.*]] = nn.compare lt %[[STEP]]#3, %[[MEAN]]
//       CHECK: %[[MOVE:.*]] = nn.select %[[FEWER]], %[[UP]], %[[LOWER]]
//       CHECK: nn.add %[[BIAS]], %[[MOVE]] {nn.role = "optimizer"} : tensor<4xf32>
func.func @loss(%gate: tensor<8x4xf32> {nn.param = #nn.param<"gate", axes = [embed, _], init = normal(0.02)>},
    %bias: tensor<4xf32> {nn.param = #nn.param<"bias", axes = [expert], init = constant(0), no_decay, balance(0.125)>},
    %tokens: tensor<4x8xi32> {nn.batch = "tokens"})
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["result", "other"], nn.weight = 0.1}) {
  %all = nn.constant dense<true> : tensor<4xi1>
  %x = nn.cast %tokens : tensor<4x8xi32> -> tensor<4x8xf32>
  %l = nn.einsum "bh,he->be"(%x, %gate) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %w, %e = nn.route softmax %l bias %bias k 2 : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %s = nn.reduce sum %w dims [1] : (tensor<4x2xf32>) -> tensor<4xf32>
  %q = nn.reduce sum_of_squares %l dims [1] : (tensor<4x4xf32>) -> tensor<4xf32>
  %first = nn.step_mean %s weights %all : (tensor<4xf32>, tensor<4xi1>) -> tensor<f32>
  %second = nn.step_mean %q weights %all : (tensor<4xf32>, tensor<4xi1>) -> tensor<f32>
  return %first, %second : tensor<f32>, tensor<f32>
}
