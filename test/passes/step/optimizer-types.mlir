// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-add-optimizer

// expected-error @below {{result 1 is 'tensor<2xf32>', expected floats in the shape of the parameter "w", 'tensor<f32>'}}
func.func @gradients(%w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(1)>}, %g: tensor<2xf32>)
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<2xf32> {nn.result = ["gradient", "w"]},
        tensor<f32> {nn.result = ["result", "grad_norm"]}) {
  return %w, %g, %w : tensor<f32>, tensor<2xf32>, tensor<f32>
}

// -----

// expected-error @below {{result 2 is 'tensor<2xf32>', expected one number, as nn-accumulate makes it}}
func.func @gradients(%w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(1)>}, %g: tensor<2xf32>)
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["gradient", "w"]},
        tensor<2xf32> {nn.result = ["result", "grad_norm"]}) {
  return %w, %w, %g : tensor<f32>, tensor<f32>, tensor<2xf32>
}
