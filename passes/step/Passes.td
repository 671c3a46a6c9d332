//===- Passes.td - From a loss to a training step ----------*- tablegen -*-===//

#ifndef SHEAF_PASSES_STEP_PASSES_TD
#define SHEAF_PASSES_STEP_PASSES_TD

include "mlir/Pass/PassBase.td"

def NNAccumulate : Pass<"nn-accumulate", "::mlir::ModuleOp"> {
  let summary = "Compute loss and gradients of a whole step in microbatches";
  let description = [{
    Reads a loss function f and the f_gradient that `nn-differentiate` made, which it
    replaces by `@gradients(args of f) -> (loss, a gradient for each trained parameter,
    grad_norm)`:

    - a prologue with the sum over the whole step of the weights of each
      `nn.step_mean`;
    - one microbatch body, forward and backward, with the samples of one microbatch, in
      `nn.microbatches`, or, without `loop`, as it is where there is one microbatch;
    - an epilogue with the global norm of the gradients, each parameter once.

    Loss and gradients are accumulated in f32, or f64 where they are f64. The key of
    random numbers has, in its fourth word, the number of the microbatch's first sample.

    Requires that samples do not mix: dimensions that count samples are found by the
    sharding rules of the ops, and an op that adds up, orders or indexes samples in the
    forward, other than nn.step_mean, is an error. Layer functions reached are rewritten
    for the smaller batch, or copied where something else calls them, too.

    Before:

    ```mlir
    func.func @loss(%w: tensor<f32> {nn.param = #nn.param<"w", axes = [], init = constant(1)>},
                    %t: tensor<4x8xi32> {nn.batch = "tokens"}) -> tensor<f32> {
      %x = nn.cast %t : tensor<4x8xi32> -> tensor<4x8xf32>
      %y = nn.mul %x, %w : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
      %all = nn.constant dense<true> : tensor<4x8xi1>
      %l = nn.step_mean %y weights %all : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<f32>
      return %l : tensor<f32>
    }
    ```

    after `--nn-differentiate --nn-accumulate=microbatches=2`, `@gradients` with

    ```mlir
    func.func @gradients(%w: tensor<f32>, %t: tensor<4x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
      %all = nn.constant dense<1.0> : tensor<4x8xf32>
      %n = nn.reduce sum %all dims [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
      %zero = nn.constant dense<0.0> : tensor<f32>
      %sums:2 = nn.microbatches 2 slices(%t : tensor<4x8xi32>) inits(%zero, %zero : tensor<f32>, tensor<f32>) -> tensor<f32>, tensor<f32> {
      ^bb0(%k: tensor<i32>, %part: tensor<2x8xi32>, %loss: tensor<f32>, %gradient: tensor<f32>):
        %x = nn.cast %part : tensor<2x8xi32> -> tensor<2x8xf32>
        %y = nn.mul %x, %w : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
        %s = nn.reduce sum %y dims [0, 1] : (tensor<2x8xf32>) -> tensor<f32>
        %l = nn.div %s, %n : tensor<f32>
        %loss1 = nn.add %loss, %l : tensor<f32>
        %share = nn.div %x, %n : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
        %dw = nn.reduce sum %share dims [0, 1] : (tensor<2x8xf32>) -> tensor<f32>
        %gradient1 = nn.add %gradient, %dw : tensor<f32>
        nn.yield %loss1, %gradient1 : tensor<f32>, tensor<f32>
      }
      %squares = nn.reduce sum_of_squares %sums#1 dims [] : (tensor<f32>) -> tensor<f32>
      %norm = nn.sqrt %squares : tensor<f32>
      return %sums#0, %sums#1, %norm : tensor<f32>, tensor<f32>, tensor<f32>
    }
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", "\"loss\"", "The loss function">,
    Option<"microbatches", "microbatches", "int64_t", "1",
      "The number of microbatches; divides the batch">,
    Option<"keepLoop", "loop", "bool", "false",
      "Whether one microbatch stands in a loop, too">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::mlir::func::FuncDialect"];
}

def NNAddOptimizer : Pass<"nn-add-optimizer", "::mlir::ModuleOp"> {
  let summary = "Add the function of one optimizer step";
  let description = [{
    Adds `@step`: what `@gradients` computes, then learning rate, clip factor and one
    `nn.adamw` or `nn.sgd` for each trained parameter.

    Arguments: those of `@gradients`, the optimizer's state (`nn.state`), the number of
    the step (`nn.scalar = "step"`, from 0) and the scalars that the optimizer uses
    (`nn.scalar`, with the options' values as `nn.default`). Results: loss, grad_norm,
    learning_rate, the trained parameters, their state, each with `nn.result`.

    The learning rate at step t:

        t < warmup:        lr * (t + 1) / warmup
        decay_steps == 0:  lr
        else               min_lr + (lr - min_lr) * (1 + cos(pi * clamp((t - warmup) / (decay_steps - warmup), 0, 1))) / 2

    Gradients are multiplied by min(1, clip / (norm + 1e-6)) where clip > 0. Weight
    decay leaves alone what `no_decay` marks. The corrections 1 - beta^(t + 1) are
    computed in f64: in f32 their relative error would be 1e-3 at beta = 0.9999.

    Before, `@gradients(%w, %tokens) -> (loss, gradient of w, grad_norm)`; after
    `--nn-add-optimizer=kind=sgd`, beside it, with arguments w, tokens, momentum of w,
    step, lr, warmup, min_lr, decay_steps, weight_decay, clip, momentum and results loss,
    grad_norm, learning_rate, w, momentum of w:

    ```mlir
    func.func private @step(tensor<4xf32>, tensor<4x8xi32>, tensor<4xf32>, tensor<i32>,
      tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let options = [
    Option<"kind", "kind", "std::string", "\"adamw\"", "adamw or sgd">,
    Option<"lr", "lr", "double", "1e-3", "Learning rate">,
    Option<"warmup", "warmup", "double", "0", "Steps of linear warmup">,
    Option<"minLr", "min-lr", "double", "0", "Learning rate at the end of the decay">,
    Option<"decaySteps", "decay-steps", "double", "0",
      "Step at which the decay ends; 0: no decay">,
    Option<"weightDecay", "weight-decay", "double", "0.1", "Weight decay">,
    Option<"beta1", "beta1", "double", "0.9", "Decay of the first moment">,
    Option<"beta2", "beta2", "double", "0.95", "Decay of the second moment">,
    Option<"eps", "eps", "double", "1e-8", "Added to the root of the second moment">,
    Option<"clip", "clip", "double", "1", "Largest norm of the gradients; 0: any">,
    Option<"momentum", "momentum", "double", "0", "Momentum of sgd">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::mlir::func::FuncDialect"];
}

def NNAddInitializer : Pass<"nn-add-initializer", "::mlir::ModuleOp"> {
  let summary = "Add the function that makes the initial parameters";
  let description = [{
    Adds `@init(rng) -> (parameters)`, in the order of the loss function's arguments,
    frozen ones included: constants, and normal numbers drawn in f32 from the stream
    2^30 + i for parameter i, so that a parameter starts with the same values in every
    precision.

    Before, `@loss` with a parameter of `init = normal(0.02)`; after, beside it

    ```mlir
    func.func @init(%key: tensor<4xi32> {nn.rng}) -> (tensor<8x4xf32> {nn.result = ["parameter", "w"]}) {
      %stream = nn.constant dense<1073741824> : tensor<i32>
      %n = nn.random normal %key, %stream : (tensor<4xi32>, tensor<i32>) -> tensor<8x4xf32>
      %s = nn.constant dense<0.02> : tensor<f32>
      %w = nn.mul %n, %s : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
      return %w : tensor<8x4xf32>
    }
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", "\"loss\"",
      "The function whose arguments are the parameters">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::mlir::func::FuncDialect"];
}

def NNPrepareEvaluation : Pass<"nn-prepare-evaluation", "::mlir::ModuleOp"> {
  let summary = "Take dropout out of functions that do not train";
  let description = [{
    Replaces each `nn.dropout` in the named functions, and in what they call, by its
    input, and removes arguments for random numbers that are then unused. A function
    that others call, too, is copied as `<name>_evaluation`. Each result that has no
    `nn.result` gets `["result", <name of the function>]`, if it is the only one.

    Run it after `nn-differentiate` and `nn-accumulate`, which read the functions with
    dropout.

    Before:

    ```mlir
    func.func @logits(%x: tensor<4x8xf32>, %key: tensor<4xi32> {nn.rng}) -> tensor<4x8xf32> {
      %s = nn.constant dense<0> : tensor<i32>
      %y = nn.dropout %x, %key, %s rate 0.1 : (tensor<4x8xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    after `--nn-prepare-evaluation=functions=logits`:

    ```mlir
    func.func @logits(%x: tensor<4x8xf32>) -> (tensor<4x8xf32> {nn.result = ["result", "logits"]}) {
      return %x : tensor<4x8xf32>
    }
    ```
  }];
  let options = [
    ListOption<"functions", "functions", "std::string",
      "The functions to prepare; `loss` and `logits`, as far as there are, where none is named">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::mlir::func::FuncDialect"];
}

#endif // SHEAF_PASSES_STEP_PASSES_TD
