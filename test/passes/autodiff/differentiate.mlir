// RUN: sheaf-opt %s --split-input-file --nn-differentiate=functions=f | FileCheck %s

// The gradient of a product, with roles; the function itself stays.
// CHECK-LABEL: func.func @f(
// CHECK-NEXT: nn.mul
// CHECK-LABEL: func.func @f_gradient(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<4xf32> {nn.param{{[^%]*}}%[[Y:[^ ]*]]: tensor<4xf32> {{[^%]*}}%[[DZ:[^ ]*]]: tensor<4xf32>)
// CHECK-SAME: -> (tensor<4xf32> {nn.result = ["gradient", "x"]}, tensor<4xf32> {nn.result = ["gradient", "y"]})
// CHECK-NEXT: %[[DX:.*]] = nn.mul %[[DZ]], %[[Y]] {nn.role = "weight_gradient"}
// CHECK-NEXT: %[[DY:.*]] = nn.mul %[[DZ]], %[[X]] {nn.role = "weight_gradient"}
// CHECK-NEXT: return %[[DX]], %[[DY]]
func.func @f(%x: tensor<4xf32> {nn.param = #nn.param<"x", axes = [_], init = constant(0)>},
             %y: tensor<4xf32> {nn.param = #nn.param<"y", axes = [_], init = constant(0)>}) -> tensor<4xf32> {
  %z = nn.mul %x, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}

// -----

// Frozen parameters and integers get none, what nothing depends on gets zeros.
// CHECK-LABEL: func.func @f_gradient(
// CHECK-SAME: -> (tensor<4xf32> {nn.result = ["gradient", "w"]}, tensor<2xf32>)
// CHECK-DAG: %[[W:.*]] = nn.mul
// CHECK-DAG: %[[ZERO:.*]] = nn.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK: return %[[W]], %[[ZERO]]
func.func @f(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(0)>},
             %v: tensor<4xf32> {nn.param = #nn.param<"v", axes = [_], init = constant(0), frozen>},
             %ids: tensor<2xi32>, %unused: tensor<2xf32>) -> tensor<4xf32> {
  %z = nn.mul %w, %v : tensor<4xf32>
  return %z : tensor<4xf32>
}

// -----

// Values used twice: gradients are added.
// CHECK-LABEL: func.func @f_gradient(
// CHECK: %[[A:.*]] = nn.mul %[[D:.*]], %[[X:.*]] {nn.role
// CHECK: %[[B:.*]] = nn.mul %[[D]], %[[X]] {nn.role
// CHECK: nn.add %[[A]], %[[B]]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = nn.mul %x, %x : tensor<4xf32>
  return %z : tensor<4xf32>
}

// -----

// Slices that make up a whole: their gradients are put side by side.
// CHECK-LABEL: func.func @f_gradient(
// CHECK-NOT: nn.pad
// CHECK: nn.concatenate %{{.*}}, %{{.*}} dim 1 {{.*}} -> tensor<2x6xf32>
// CHECK-NOT: nn.pad
func.func @f(%x: tensor<2x6xf32>) -> (tensor<2x4xf32>, tensor<2x2xf32>) {
  %b = nn.slice %x offsets [0, 4] sizes [2, 2] : (tensor<2x6xf32>) -> tensor<2x2xf32>
  %a = nn.slice %x offsets [0, 0] sizes [2, 4] : (tensor<2x6xf32>) -> tensor<2x4xf32>
  %c = nn.exp %a : tensor<2x4xf32>
  %d = nn.sin %b : tensor<2x2xf32>
  return %c, %d : tensor<2x4xf32>, tensor<2x2xf32>
}

// -----

// Attention gets the log-sum-exp that its gradient reads.
// CHECK-LABEL: func.func @f_gradient(
// CHECK: %[[Y:.*]], %[[LSE:.*]] = nn.attention
// CHECK: nn.attention_grad {{.*}} result %[[Y]], %[[LSE]] grad
func.func @f(%q: tensor<2x4x2x8xf32>) -> tensor<2x4x2x8xf32> {
  %y = nn.attention %q, %q, %q causal : (tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>) -> tensor<2x4x2x8xf32>
  return %y : tensor<2x4x2x8xf32>
}

// -----

// A layer called twice has one set of functions. What its backward reads of its
// arguments is passed again, and only the activation is kept.
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: nn.forward = "layer_forward", nn.input_gradient = "layer_input_gradient", nn.layer, nn.operands = ["argument 0", "argument 1", "kept 0", "cotangent 0"], nn.results = ["argument 0", "argument 1"], nn.weight_gradient = "layer_weight_gradient"
// CHECK: nn.role = "input_gradient"
// CHECK: nn.role = "weight_gradient"
// CHECK-LABEL: func.func private @layer_input_gradient(
// CHECK-SAME: nn.operands = ["argument 1", "kept 0", "cotangent 0"], nn.results = ["argument 0", "handed 0"]
// CHECK-NOT: weight_gradient"}
// CHECK-LABEL: func.func private @layer_weight_gradient(
// CHECK-SAME: nn.operands = ["argument 0", "handed 0"], nn.results = ["argument 1"]
// CHECK-NOT: input_gradient"}
// CHECK-LABEL: func.func private @layer_forward(
// CHECK-SAME: -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {nn.forward_of = "layer", nn.layer, no_inline}
// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @f_gradient(
// CHECK: %[[A:.*]]:2 = call @layer_forward(
// CHECK: %[[B:.*]]:2 = call @layer_forward(%[[A]]#0
// CHECK: call @layer_backward(%[[A]]#0, %{{.*}}, %[[B]]#1
// CHECK: call @layer_backward(%{{.*}}, %{{.*}}, %[[A]]#1
func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> attributes {nn.layer} {
  %a = nn.einsum "ab,bc->ac"(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %b = nn.tanh %a : tensor<2x4xf32>
  %c = nn.add %b, %x : tensor<2x4xf32>
  return %c : tensor<2x4xf32>
}
func.func @f(%x: tensor<2x4xf32>,
             %w: tensor<4x4xf32> {nn.param = #nn.param<"w", axes = [_, _], init = constant(0)>},
             %v: tensor<4x4xf32> {nn.param = #nn.param<"v", axes = [_, _], init = constant(0)>}) -> tensor<2x4xf32> {
  %y = call @layer(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %z = call @layer(%y, %v) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %z : tensor<2x4xf32>
}

// -----

// Constants and moved values are built again; a result of the layer is passed as
// such; a call without a gradient stays a call.
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: nn.operands = ["argument 0", "result 0", "cotangent 0"]
// CHECK: nn.transpose {{.*}} {nn.role = "forward"}
// CHECK-LABEL: func.func private @layer_forward(
// CHECK-SAME: -> tensor<2x4xf32>
// CHECK-LABEL: func.func @f_gradient(
// CHECK: call @layer(
// CHECK: call @layer_forward(
func.func private @layer(%x: tensor<4x2xf32>) -> tensor<2x4xf32> attributes {nn.layer} {
  %t = nn.transpose %x [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %s = nn.sin %t : tensor<2x4xf32>
  %e = nn.exp %s : tensor<2x4xf32>
  return %e : tensor<2x4xf32>
}
func.func @f(%x: tensor<4x2xf32>, %i: tensor<4x2xi32>) -> tensor<2x4xf32> {
  %c = nn.cast %i : tensor<4x2xi32> -> tensor<4x2xf32>
  %a = call @layer(%c) : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %b = call @layer(%x) : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %d = nn.mul %a, %b : tensor<2x4xf32>
  return %d : tensor<2x4xf32>
}

// -----

// Other functions are inlined; parameters are found through them.
// CHECK-LABEL: func.func private @layer_input_gradient
// CHECK-SAME: nn.results = ["argument 0"
// CHECK-LABEL: func.func private @layer_weight_gradient
// CHECK-SAME: nn.results = ["argument 1"]
// CHECK-LABEL: func.func @f_gradient(
// CHECK-NOT: call @trunk
// CHECK: call @layer_backward
func.func private @layer(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer} {
  %y = nn.mul %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @trunk(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @layer(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @f(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(0)>}, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @trunk(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Different gradients needed: one set of functions for each.
// CHECK-COUNT-2: func.func private @layer_backward{{.*}}(
// CHECK-NOT: func.func private @layer_backward
// CHECK-LABEL: func.func @f_gradient(
func.func private @layer(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer} {
  %z = nn.mul %x, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>, %i: tensor<4xi32>) -> tensor<4xf32> {
  %c = nn.cast %i : tensor<4xi32> -> tensor<4xf32>
  %a = call @layer(%x, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = call @layer(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

// A layer in a layer: its kept values pass through the outer one.
// CHECK-LABEL: func.func private @outer_backward(
// CHECK: call @inner_backward(
// CHECK-LABEL: func.func private @outer_forward(
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32>)
// CHECK: call @inner_forward(
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer} {
  %a = nn.sin %x : tensor<4xf32>
  %b = nn.exp %a : tensor<4xf32>
  %c = nn.sin %b : tensor<4xf32>
  return %c : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer} {
  %a = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = nn.neg %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

// However a cast rounds, its gradient passes as it is; the bits have none.
// CHECK-LABEL: func.func @f(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xi32>) -> tensor<4xbf16>
// CHECK: func.func @f_gradient(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xi32>, %[[DY:.*]]: tensor<4xbf16>) -> tensor<4xf32>
// CHECK: %[[DX:.*]] = nn.cast %[[DY]] {nn.role = "input_gradient"} : tensor<4xbf16> -> tensor<4xf32>
// CHECK: return %[[DX]]
func.func @f(%x: tensor<4xf32>, %b: tensor<4xi32>) -> tensor<4xbf16> {
  %y = nn.cast %x stochastic %b saturate : tensor<4xf32>, tensor<4xi32> -> tensor<4xbf16>
  return %y : tensor<4xbf16>
}
