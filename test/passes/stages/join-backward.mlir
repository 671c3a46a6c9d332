// RUN: sheaf-opt %s --pipe-make-programs=schedule=1f1b --symbol-dce | FileCheck %s
// RUN: sheaf-opt %s --pipe-make-programs=schedule=zb-h1 --symbol-dce | FileCheck %s --check-prefix=HALVES

// The backward is in halves, and 1f1b has both in one action: one function for both, in it one
// for the halves of each layer. What the first hands to the second is inside of it.

module attributes {exec.mesh = [["pp", 2]]} {
  func.func private @layer_input_gradient(%d: tensor<2xf32>, %w: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
      attributes {nn.layer, nn.operands = ["cotangent 0", "argument 1"], nn.results = ["argument 0", "handed 0"]} {
    %h = nn.exp %d : tensor<2xf32>
    %dx = nn.mul %h, %w : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %dx, %h : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @layer_weight_gradient(%x: tensor<2xf32>, %h: tensor<2xf32>) -> tensor<f32>
      attributes {nn.layer, nn.operands = ["argument 0", "handed 0"], nn.results = ["argument 1"]} {
    %p = nn.mul %x, %h : tensor<2xf32>
    %dw = nn.reduce sum %p dims [0] : (tensor<2xf32>) -> tensor<f32>
    return %dw : tensor<f32>
  }

  func.func private @stage0_forward(%x: tensor<2xf32>, %w: tensor<f32>) -> tensor<2xf32>
      attributes {pipe.part = "F", pipe.stage = 0 : i64} {
    %y = nn.mul %x, %w : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    return %y : tensor<2xf32>
  }
  func.func private @stage1_forward(%x: tensor<2xf32>, %w: tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
      attributes {pipe.part = "F", pipe.stage = 1 : i64} {
    %y = nn.mul %x, %w : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %l = nn.reduce sum %y dims [0] : (tensor<2xf32>) -> tensor<f32>
    return %y, %l : tensor<2xf32>, tensor<f32>
  }

  // Two layers, each of whose halves become one; in the order of the gradients of inputs.
  // CHECK-LABEL: func.func private @layer_backward(
  // CHECK-SAME: %[[D:.*]]: tensor<2xf32>, %[[W:.*]]: tensor<f32>, %[[X:.*]]: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>)
  // CHECK-SAME: attributes {nn.layer}
  // CHECK: %[[H:.*]] = nn.exp %[[D]]
  // CHECK: %[[DX:.*]] = nn.mul %[[H]], %[[W]]
  // CHECK: %[[P:.*]] = nn.mul %[[X]], %[[H]]
  // CHECK: %[[DW:.*]] = nn.reduce sum %[[P]]
  // CHECK: return %[[DX]], %[[DW]]
  // CHECK-LABEL: func.func private @stage1_backward(
  // CHECK-SAME: -> (tensor<2xf32>, tensor<f32>, tensor<f32>)
  // CHECK-SAME: pipe.part = "B", pipe.stage = 1 : i64
  // CHECK: %[[A:.*]]:2 = call @layer_backward(
  // CHECK: %[[B:.*]]:2 = call @layer_backward(%[[A]]#0
  // CHECK: return %[[B]]#0, %[[A]]#1, %[[B]]#1
  func.func private @stage1_input_gradient(%y: tensor<2xf32>, %w: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
      attributes {pipe.part = "I", pipe.stage = 1 : i64} {
    %d, %h = call @layer_input_gradient(%y, %w) {nn.role = "input_gradient"} : (tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
    %e, %g = call @layer_input_gradient(%d, %w) {nn.role = "input_gradient"} : (tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
    return %e, %h, %g : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  func.func private @stage1_weight_gradient(%x: tensor<2xf32>, %h: tensor<2xf32>, %g: tensor<2xf32>) -> (tensor<f32>, tensor<f32>)
      attributes {pipe.part = "W", pipe.stage = 1 : i64} {
    %a = call @layer_weight_gradient(%x, %h) {nn.role = "weight_gradient"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
    %b = call @layer_weight_gradient(%x, %g) {nn.role = "weight_gradient"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
    return %a, %b : tensor<f32>, tensor<f32>
  }
  // A stage whose inputs want no gradient has one half.
  func.func private @stage0_weight_gradient(%x: tensor<2xf32>, %d: tensor<2xf32>) -> tensor<f32>
      attributes {pipe.part = "W", pipe.stage = 0 : i64} {
    %p = nn.mul %x, %d : tensor<2xf32>
    %dw = nn.reduce sum %p dims [0] : (tensor<2xf32>) -> tensor<f32>
    return %dw : tensor<f32>
  }

  // CHECK-LABEL: func.func @gradients_pp0(
  // CHECK: call @stage0_forward({{.*}} {exec.action = "0F0"}
  // CHECK: call @stage0_forward({{.*}} {exec.action = "0F1"}
  // CHECK: call @stage0_weight_gradient({{.*}} {exec.action = "0B0"
  // CHECK: call @stage0_weight_gradient({{.*}} {exec.action = "0B1"
  // CHECK-LABEL: func.func @gradients_pp1(
  // CHECK: call @stage1_forward({{.*}} {exec.action = "1F0"}
  // CHECK: %[[B0:.*]]:3 = call @stage1_backward({{.*}}exec.action = "1B0"
  // CHECK: exec.send %[[B0]]#0 {{.*}}name = "1B0 to 0B0, rank 1 to 0"
  // CHECK: call @stage1_backward({{.*}}exec.action = "1B1"
  // CHECK-NOT: gradient(

  // HALVES-NOT: @layer_backward
  // HALVES-LABEL: func.func @gradients_pp1(
  // HALVES: call @stage1_input_gradient({{.*}}exec.action = "1I0"
  // HALVES: exec.send {{.*}}name = "1I0 to 0W0, rank 1 to 0"
  // HALVES: call @stage1_weight_gradient({{.*}}exec.action = "1W0"
  func.func @gradients(%t: tensor<4xf32>,
      %w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(1)>},
      %v: tensor<f32> {nn.param = #nn.param<"v", axes = [], init = constant(1)>})
      -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<f32> {nn.result = ["gradient", "w"]},
          tensor<f32> {nn.result = ["gradient", "v"]}) {
    %zero = nn.constant dense<0.0> : tensor<f32>
    %s:3 = nn.microbatches 2 slices(%t : tensor<4xf32>) inits(%zero, %zero, %zero : tensor<f32>, tensor<f32>, tensor<f32>)
        -> tensor<f32>, tensor<f32>, tensor<f32> {
    ^bb0(%k: tensor<i32>, %x: tensor<2xf32>, %loss: tensor<f32>, %gw: tensor<f32>, %gv: tensor<f32>):
      %y = func.call @stage0_forward(%x, %w) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
      %z, %l = func.call @stage1_forward(%y, %v) : (tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
      %d, %h, %g = func.call @stage1_input_gradient(%z, %v) {nn.role = "input_gradient"} : (tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
      %dv, %dv2 = func.call @stage1_weight_gradient(%y, %h, %g) {nn.role = "weight_gradient"} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<f32>, tensor<f32>)
      %dw = func.call @stage0_weight_gradient(%x, %d) {nn.role = "weight_gradient"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
      %loss1 = nn.add %loss, %l : tensor<f32>
      %gw1 = nn.add %gw, %dw : tensor<f32>
      %both = nn.add %dv, %dv2 : tensor<f32>
      %gv1 = nn.add %gv, %both : tensor<f32>
      nn.yield %loss1, %gw1, %gv1 : tensor<f32>, tensor<f32>, tensor<f32>
    }
    return %s#0, %s#1, %s#2 : tensor<f32>, tensor<f32>, tensor<f32>
  }
}
