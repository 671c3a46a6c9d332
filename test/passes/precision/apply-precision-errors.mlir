// RUN: not sheaf-opt %s --split-input-file --nn-apply-precision=recipe=fp4 2>&1 | FileCheck %s --check-prefix=RECIPE
// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-apply-precision=recipe=bf16
// RUN: not sheaf-opt %s --split-input-file "--nn-apply-precision=recipe=bf16 keep=gate" 2>&1 | FileCheck %s --check-prefix=KEEP
// RUN: not sheaf-opt %s --split-input-file "--nn-apply-precision=recipe=fp16 loss-scale=0.5" 2>&1 | FileCheck %s --check-prefix=SCALE
// RUN: not sheaf-opt %s --split-input-file "--nn-apply-precision=recipe=bf16 keep=[" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not sheaf-opt %s --split-input-file --nn-apply-precision=recipe=fp16 2>&1 | FileCheck %s --check-prefix=NORM
// RUN: not sheaf-opt %s --split-input-file "--nn-apply-precision=recipe=bf16 masters=none" 2>&1 | FileCheck %s --check-prefix=RANDOM
// RUN: not sheaf-opt %s --split-input-file "--nn-apply-precision=recipe=bf16 masters=f16" 2>&1 | FileCheck %s --check-prefix=RANDOM16
// RUN: not sheaf-opt %s --split-input-file "--nn-apply-precision=recipe=bf16 masters=none keep=table" 2>&1 | FileCheck %s --check-prefix=KEPT --implicit-check-not=4294967298

// RECIPE: error: nn-apply-precision: option 'recipe' is 'fp4', expected fp32, bf16
// KEEP: error: nn-apply-precision: option 'keep' has 'gate', which matches the name of no parameter
// SCALE: error: nn-apply-precision: option 'loss-scale' is 5.000000e-01, expected a finite number of at least 1
// PATTERN: error: nn-apply-precision: option 'keep' has the pattern '[': invalid glob pattern
// A norm that is not there, and one that the optimizer does not compute.
// NORM: error: 'func.func' op has no result ["result", "grad_norm"] that the optimizer computes, by which a step of a scaled loss counts or not; run nn-accumulate and nn-add-optimizer before
// NORM: error: 'func.func' op has no result ["result", "grad_norm"] that the optimizer computes
// RANDOM: apply-precision-errors.mlir:[[#]]:[[#]]: error: 'nn.sgd' op updates the parameter "table" of 4294967298 elements, and with masters=none updates are rounded at random; expected at most 2^32 elements, masters=f32, or keep=table
// RANDOM16: error: 'nn.sgd' op updates the parameter "table" of 4294967298 elements, and with masters=f16 updates
// KEPT: error: nn-apply-precision: no function has a parameter
module {
  func.func @logits(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>}) -> tensor<4xf32> {
    return %w : tensor<4xf32>
  }
}

// -----

// expected-error@+1 {{nn-apply-precision: no function has a parameter (nn.param), expected a training step}}
module {
  func.func @logits(%w: tensor<4xf32>) -> tensor<4xf32> {
    return %w : tensor<4xf32>
  }
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @body(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>}) -> tensor<4xf32> {
  // expected-error@+1 {{has a body, which no recipe but fp32 goes into}}
  %y = dist.manual %w in [#dist.sharding<[{}]>] out [#dist.sharding<[{}]>] {
  ^bb0(%a: tensor<4xf32>):
    dist.yield %a : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func private @loop(%w: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{recursi}}
  %y = call @loop(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @logits(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>}) -> tensor<4xf32> {
  %y = call @loop(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error@+1 {{has 2 blocks, expected one: the ops of a step run one after another}}
func.func @logits(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>}) -> tensor<4xf32> {
  cf.br ^bb1
^bb1:
  return %w : tensor<4xf32>
}

// -----

func.func @loss(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>}) -> tensor<4xf32> {
  // expected-error@+1 {{calls @logits, which is public, expected a private function}}
  %y = call @logits(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @logits(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>}) -> tensor<4xf32> {
  return %w : tensor<4xf32>
}

// -----

// An initializer that says something else of its result, or has no body, is left as it is.
func.func @logits(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>}) -> tensor<4xf32> {
  return %w : tensor<4xf32>
}
func.func @init(%key: tensor<4xi32> {nn.rng}) -> (tensor<4xf32> {nn.result = ["parameter", 3]}) {
  %c = nn.constant dense<1.0> : tensor<4xf32>
  return %c : tensor<4xf32>
}

// -----

func.func @step(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>},
                %m: tensor<4xf32> {nn.state = ["momentum", "w"]}, %lr: tensor<f32> {nn.scalar = "lr"})
    -> (tensor<f32> {nn.result = ["result", "loss"]}, tensor<4xf32> {nn.result = ["parameter", "w"]},
        tensor<4xf32> {nn.result = ["momentum", "w"]}) {
  %g = nn.mul %w, %w {nn.role = "weight_gradient"} : tensor<4xf32>
  %norm = nn.reduce sum_of_squares %g dims [0] {nn.role = "optimizer"} : (tensor<4xf32>) -> tensor<f32>
  %new, %next = nn.sgd %w, %g, %m lr %lr momentum %lr decay %lr grad_scale %lr {nn.role = "optimizer"}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
    -> (tensor<4xf32>, tensor<4xf32>)
  return %norm, %new, %next : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @step(%w: tensor<4xf32> {nn.param = #nn.param<"w", axes = [embed], init = constant(1)>},
                %m: tensor<4xf32> {nn.state = ["momentum", "w"]}, %lr: tensor<f32> {nn.scalar = "lr"})
    -> (tensor<f32> {nn.result = ["result", "grad_norm"]}, tensor<4xf32> {nn.result = ["parameter", "w"]},
        tensor<4xf32> {nn.result = ["momentum", "w"]}) {
  %g = nn.mul %w, %w {nn.role = "weight_gradient"} : tensor<4xf32>
  %norm = nn.reduce sum_of_squares %g dims [0] : (tensor<4xf32>) -> tensor<f32>
  %new, %next = nn.sgd %w, %g, %m lr %lr momentum %lr decay %lr grad_scale %lr {nn.role = "optimizer"}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
    -> (tensor<4xf32>, tensor<4xf32>)
  return %norm, %new, %next : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// More numbers than there are random ones; in f32 nothing is rounded.
func.func @step(%w: tensor<2147483649x2xf32> {nn.param = #nn.param<"table", axes = [vocab, embed], init = constant(1)>},
                %g: tensor<2147483649x2xf32>, %lr: tensor<f32> {nn.scalar = "lr"},
                %m: tensor<2147483649x2xf32> {nn.state = ["momentum", "table"]})
    -> (tensor<2147483649x2xf32> {nn.result = ["parameter", "table"]},
        tensor<2147483649x2xf32> {nn.result = ["momentum", "table"]},
        tensor<f32> {nn.result = ["result", "grad_norm"]}) {
  %norm = nn.reduce sum_of_squares %g dims [0, 1] {nn.role = "optimizer"} : (tensor<2147483649x2xf32>) -> tensor<f32>
  %new, %next = nn.sgd %w, %g, %m lr %lr momentum %lr decay %lr grad_scale %lr {nn.role = "optimizer"}
    : (tensor<2147483649x2xf32>, tensor<2147483649x2xf32>, tensor<2147483649x2xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
    -> (tensor<2147483649x2xf32>, tensor<2147483649x2xf32>)
  return %new, %next, %norm : tensor<2147483649x2xf32>, tensor<2147483649x2xf32>, tensor<f32>
}
