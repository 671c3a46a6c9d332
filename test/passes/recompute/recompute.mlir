// RUN: sheaf-opt %s --nn-differentiate=functions=f --nn-recompute | FileCheck %s --check-prefix=NONE
// RUN: sheaf-opt %s --nn-differentiate=functions=f --nn-recompute=policy=selective | FileCheck %s --check-prefix=SELECTIVE
// RUN: sheaf-opt %s --nn-differentiate=functions=f --nn-recompute=policy=full | FileCheck %s --check-prefix=FULL

// Without recompute, both sides of the activation are kept.
// NONE-LABEL: func.func private @layer_backward(
// NONE-SAME: nn.operands = ["argument 0", "argument 1", "argument 2", "kept 0", "kept 1", "cotangent 0"]

// The product is kept; the activation is computed again, by the input gradient for
// both parts.
// SELECTIVE-LABEL: func.func @f_gradient(
// SELECTIVE: %[[A:.*]]:2 = call @layer_forward(
// SELECTIVE: call @layer_backward(%{{.*}}, %{{.*}}, %{{.*}}, %[[A]]#1,
// SELECTIVE-LABEL: func.func private @layer_backward(
// SELECTIVE-SAME: nn.operands = ["argument 0", "argument 1", "argument 2", "kept 0", "cotangent 0"]
// SELECTIVE-NOT: nn.einsum {{.*}}nn.role = "forward"
// SELECTIVE: nn.gelu {{.*}} {nn.role = "forward"}
// SELECTIVE-LABEL: func.func private @layer_input_gradient(
// SELECTIVE-SAME: nn.operands = ["argument 1", "argument 2", "kept 0", "cotangent 0"], nn.results = ["argument 0", "handed 0", "handed 1"]
// SELECTIVE: nn.gelu {{.*}} {nn.role = "forward"}
// SELECTIVE-LABEL: func.func private @layer_weight_gradient(
// SELECTIVE-NOT: nn.gelu
// SELECTIVE-LABEL: func.func private @layer_forward(
// SELECTIVE-SAME: -> (tensor<4x8xf32>, tensor<4x16xf32>)

// Nothing is kept; the last product of the forward is not computed again.
// FULL-LABEL: func.func @f_gradient(
// FULL: %[[A:.*]] = call @layer_forward(
// FULL: call @layer_backward(
// FULL-LABEL: func.func private @layer_backward(
// FULL-SAME: nn.operands = ["argument 0", "argument 1", "argument 2", "cotangent 0"]
// FULL: nn.einsum {{.*}} {nn.role = "forward"}
// FULL-NOT: nn.einsum {{.*}} {nn.role = "forward"}
// FULL-LABEL: func.func private @layer_input_gradient(
// FULL: nn.einsum {{.*}} {nn.role = "forward"}
// FULL-LABEL: func.func private @layer_weight_gradient(
// FULL-LABEL: func.func private @layer_forward(
// FULL-SAME: -> tensor<4x8xf32>
func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> attributes {nn.layer} {
  %a = nn.einsum "ab,bc->ac"(%x, %w) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %b = nn.gelu %a : tensor<4x16xf32>
  %c = nn.einsum "ab,bc->ac"(%b, %v) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}
func.func @f(%x: tensor<4x8xf32>,
             %w: tensor<8x16xf32> {nn.param = #nn.param<"w", axes = [_, _], init = constant(0)>},
             %v: tensor<16x8xf32> {nn.param = #nn.param<"v", axes = [_, _], init = constant(0)>}) -> tensor<4x8xf32> {
  %y = call @layer(%x, %w, %v) : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
