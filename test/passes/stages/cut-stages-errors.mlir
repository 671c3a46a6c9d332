// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --pipe-cut-stages=stages=3
// RUN: not sheaf-opt %s --split-input-file --pipe-cut-stages="stages=2 layers=1,2" 2>&1 | FileCheck %s
// RUN: not sheaf-opt %s --split-input-file --pipe-cut-stages=stages=0 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not sheaf-opt %s --split-input-file --pipe-cut-stages="stages=2 layers=-1,3" 2>&1 | FileCheck %s --check-prefix=BELOW
// CHECK: error: has 2 layers, and stages are given [{{[0-9, ]+}}], 3 in all, by --stage-layers, --stage-layout or pipe.stage; expected 2 in all for 2 stages
// STAGES: error: pipe-cut-stages: option 'stages' is 0, expected at least 1
// BELOW: error: pipe-cut-stages: option 'layers' has a number below 0

// More stages than layers.
func.func private @layer(%x: tensor<4x1xi32>) -> tensor<4x1xi32> attributes {nn.layer} {
  return %x : tensor<4x1xi32>
}
// expected-error@+1 {{has 2 layers, which 3 stages cannot share, expected at most 2 stages, or how many layers each has}}
func.func @logits(%x: tensor<4x1xi32> {nn.batch = "tokens"}) -> tensor<4x1xi32> {
  %y = call @layer(%x) : (tensor<4x1xi32>) -> tensor<4x1xi32>
  %z = call @layer(%y) : (tensor<4x1xi32>) -> tensor<4x1xi32>
  return %z : tensor<4x1xi32>
}

// -----

// Two loops have no one body to cut.
func.func private @layer(%x: tensor<2x1xi32>) -> tensor<2x1xi32> attributes {nn.layer} {
  return %x : tensor<2x1xi32>
}
func.func @step(%x: tensor<4x1xi32> {nn.batch = "tokens"}, %s: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %a = nn.microbatches 2 slices(%x : tensor<4x1xi32>) inits(%s : tensor<f32>) -> tensor<f32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2x1xi32>, %acc: tensor<f32>):
    nn.yield %acc : tensor<f32>
  }
  // expected-error@+1 {{is the second loop over microbatches of @step, expected one}}
  %b = nn.microbatches 2 slices(%x : tensor<4x1xi32>) inits(%s : tensor<f32>) -> tensor<f32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2x1xi32>, %acc: tensor<f32>):
    nn.yield %acc : tensor<f32>
  }
  return %a, %b : tensor<f32>, tensor<f32>
}

// -----

// A backward without a loop.
func.func private @layer_forward(%x: tensor<4x1xi32>, %w: tensor<4x1xi32>) -> tensor<4x1xi32> attributes {nn.layer} {
  %y = nn.mul %x, %w : tensor<4x1xi32>
  return %y : tensor<4x1xi32>
}
func.func private @layer_backward(%w: tensor<4x1xi32>, %d: tensor<4x1xi32>) -> tensor<4x1xi32>
    attributes {nn.layer, nn.forward = "layer_forward", nn.operands = ["argument 1", "cotangent 0"], nn.results = ["argument 0"]} {
  %y = nn.mul %d, %w : tensor<4x1xi32>
  return %y : tensor<4x1xi32>
}
// expected-error@+1 {{@gradients has a backward outside of nn.microbatches, expected nn-accumulate{loop=true} before stages are cut}}
func.func @gradients(%x: tensor<4x1xi32> {nn.batch = "tokens"}, %w: tensor<4x1xi32>) -> tensor<4x1xi32> {
  %y = call @layer_forward(%x, %w) : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x1xi32>
  %d = call @layer_backward(%w, %y) : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x1xi32>
  return %d : tensor<4x1xi32>
}

// -----

// A function that calls itself has no end to count.
func.func private @layer(%x: tensor<4x1xi32>) -> tensor<4x1xi32> attributes {nn.layer} {
  return %x : tensor<4x1xi32>
}
func.func @logits(%x: tensor<4x1xi32> {nn.batch = "tokens"}) -> tensor<4x1xi32> {
  // expected-error@+1 {{recursi}}
  %y = call @logits(%x) : (tensor<4x1xi32>) -> tensor<4x1xi32>
  %z = call @layer(%y) : (tensor<4x1xi32>) -> tensor<4x1xi32>
  return %z : tensor<4x1xi32>
}
