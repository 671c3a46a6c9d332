// Each option of the optimizer is the default of its run-time scalar; the initializer takes the
// parameters of the function that is named.
// RUN: sheaf-opt %s --nn-add-optimizer="lr=0.01 warmup=5 min-lr=0.002 decay-steps=100 weight-decay=0.2 beta1=0.8 beta2=0.7 eps=1e-6 clip=0.25" | FileCheck %s
// RUN: sheaf-opt %s --nn-add-optimizer="kind=sgd momentum=0.6" | FileCheck %s --check-prefix=SGD
// RUN: sheaf-opt %s --nn-add-initializer=function=other | FileCheck %s --check-prefix=INIT

// CHECK-LABEL: func.func @step(
// CHECK-SAME: {nn.default = 1.000000e-02 : f64, nn.scalar = "lr"}
// CHECK-SAME: {nn.default = 5.000000e+00 : f64, nn.scalar = "warmup"}
// CHECK-SAME: {nn.default = 2.000000e-03 : f64, nn.scalar = "min_lr"}
// CHECK-SAME: {nn.default = 1.000000e+02 : f64, nn.scalar = "decay_steps"}
// CHECK-SAME: {nn.default = 2.000000e-01 : f64, nn.scalar = "weight_decay"}
// CHECK-SAME: {nn.default = 8.000000e-01 : f64, nn.scalar = "beta1"}
// CHECK-SAME: {nn.default = 0.69999999999999996 : f64, nn.scalar = "beta2"}
// CHECK-SAME: {nn.default = {{1.0*e-0?6|9.99.*E-7|9.99.*e-07}} : f64, nn.scalar = "eps"}
// CHECK-SAME: {nn.default = 2.500000e-01 : f64, nn.scalar = "clip"}
// SGD-LABEL: func.func @step(
// SGD-SAME: {nn.default = 6.000000e-01 : f64, nn.scalar = "momentum"}
// INIT-LABEL: func.func @init(
// INIT-SAME: -> (tensor<7xf32> {nn.result = ["parameter", "v"]})
func.func @gradients(%w: tensor<2x3xf32> {nn.param = #nn.param<"w", axes = [_, _], init = constant(1)>},
                     %b: tensor<3xf32> {nn.param = #nn.param<"b", axes = [_], init = constant(1), no_decay>},
                     %f: tensor<3xf32> {nn.param = #nn.param<"f", axes = [_], init = constant(1), frozen>})
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<2x3xf32> {nn.result = ["gradient", "w"]},
        tensor<3xf32> {nn.result = ["gradient", "b"]}, tensor<f32> {nn.result = ["result", "grad_norm"]}) {
  %l = nn.reduce sum %w dims [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
  return %l, %w, %b, %l : tensor<f32>, tensor<2x3xf32>, tensor<3xf32>, tensor<f32>
}
func.func @other(%v: tensor<7xf32> {nn.param = #nn.param<"v", axes = [_], init = constant(1)>}) -> tensor<7xf32> {
  return %v : tensor<7xf32>
}
