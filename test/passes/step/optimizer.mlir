// RUN: sheaf-opt %s --nn-add-optimizer="lr=0.01 clip=0.5" | FileCheck %s --check-prefixes=CHECK,ADAM
// RUN: sheaf-opt %s --nn-add-optimizer="kind=sgd momentum=0.9" | FileCheck %s --check-prefixes=CHECK,SGD

// Arguments, results, and what is decayed.
// CHECK-LABEL: func.func @gradients(
// CHECK-LABEL: func.func @step(
// ADAM-SAME: %[[M:[^ ]*]]: tensor<2x3xf32> {nn.state = ["moment1", "w"]}
// ADAM-SAME: %[[MB:[^ ]*]]: tensor<3xf32> {nn.state = ["moment1", "b"]}
// ADAM-SAME: %[[V:[^ ]*]]: tensor<2x3xf32> {nn.state = ["moment2", "w"]}
// ADAM-SAME: %[[VB:[^ ]*]]: tensor<3xf32> {nn.state = ["moment2", "b"]}
// SGD-SAME: %[[M:[^ ]*]]: tensor<2x3xf32> {nn.state = ["momentum", "w"]}
// SGD-SAME: %[[MB:[^ ]*]]: tensor<3xf32> {nn.state = ["momentum", "b"]}
// CHECK-SAME: %[[T:[^ ]*]]: tensor<i32> {nn.scalar = "step"}
// ADAM-SAME: {nn.default = 1.000000e-02 : f64, nn.scalar = "lr"}
// CHECK-SAME: nn.scalar = "warmup"}
// CHECK-SAME: nn.scalar = "min_lr"}
// CHECK-SAME: nn.scalar = "decay_steps"}
// CHECK-SAME: %[[WD:[^ ]*]]: tensor<f32> {nn.default = 1.000000e-01 : f64, nn.scalar = "weight_decay"}
// ADAM-SAME: nn.scalar = "beta1"}
// ADAM-SAME: nn.scalar = "beta2"}
// ADAM-SAME: nn.scalar = "eps"}
// ADAM-SAME: {nn.default = 5.000000e-01 : f64, nn.scalar = "clip"}
// SGD-SAME: nn.scalar = "clip"}
// ADAM-NOT: nn.scalar = "momentum"
// SGD-SAME: {nn.default = 9.000000e-01 : f64, nn.scalar = "momentum"}
// CHECK-SAME: -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["result", "grad_norm"]}, tensor<f32> {nn.result = ["result", "learning_rate"]}, tensor<2x3xf32> {nn.result = ["parameter", "w"]}, tensor<3xf32> {nn.result = ["parameter", "b"]}
// ADAM-SAME: {nn.result = ["moment1", "w"]}, tensor<3xf32> {nn.result = ["moment1", "b"]}, tensor<2x3xf32> {nn.result = ["moment2", "w"]}, tensor<3xf32> {nn.result = ["moment2", "b"]})
// SGD-SAME: {nn.result = ["momentum", "w"]}, tensor<3xf32> {nn.result = ["momentum", "b"]})
// ADAM: nn.log {{.*}} : tensor<f64>
// ADAM: nn.adamw %{{.*}}, %{{.*}}, %[[M]], %[[V]] lr {{.*}} decay %[[WD]] {{.*}}nn.role = "optimizer"
// ADAM: nn.adamw %{{.*}}, %{{.*}}, %[[MB]], %[[VB]] lr
// ADAM-NOT: decay %[[WD]]
// SGD: nn.sgd %{{.*}}, %{{.*}}, %[[M]] lr {{.*}} decay %[[WD]]
// SGD: nn.sgd %{{.*}}, %{{.*}}, %[[MB]] lr
// SGD-NOT: decay %[[WD]]
// CHECK: return
func.func @gradients(%w: tensor<2x3xf32> {nn.param = #nn.param<"w", axes = [_, _], init = constant(1)>},
                     %b: tensor<3xf32> {nn.param = #nn.param<"b", axes = [_], init = constant(1), no_decay>},
                     %f: tensor<3xf32> {nn.param = #nn.param<"f", axes = [_], init = constant(1), frozen>})
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<2x3xf32> {nn.result = ["gradient", "w"]},
        tensor<3xf32> {nn.result = ["gradient", "b"]}, tensor<f32> {nn.result = ["result", "grad_norm"]}) {
  %l = nn.reduce sum %w dims [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
  return %l, %w, %b, %l : tensor<f32>, tensor<2x3xf32>, tensor<3xf32>, tensor<f32>
}
