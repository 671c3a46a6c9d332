// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-compress="gradients=int8 weights=bf16"
// RUN: echo 'module {}' | not sheaf-opt --dist-compress=gradients=int4 2>&1 | FileCheck %s --check-prefix=FORMAT

// FORMAT: dist-compress: option 'gradients' is 'int4', expected f32, bf16, int8 or fp8

dist.mesh @mesh ["tp" = 2]
// expected-error @below {{dist-compress: sums no gradient over devices that share the batch, and int8 is how that would be sent; expected a mesh with dp or cp, such as --mesh=dp=2, or gradients as f32}}
func.func @step(%x: tensor<4x8xi32> {nn.batch = "tokens"}, %g: tensor<8xf32, #dist.partial<["tp"], sum>>) -> tensor<8xf32> {
  %y = dist.all_reduce sum %g axes ["tp"] {nn.role = "weight_gradient"} : (tensor<8xf32, #dist.partial<["tp"], sum>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @below {{dist-compress: gathers no weights, and bf16 is how they would be sent; expected --zero=1 or above on a mesh with dp or cp, or weights as f32}}
func.func @step(%g: tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32> {
  %y = dist.all_reduce sum %g axes ["dp"] {nn.role = "weight_gradient"} : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
