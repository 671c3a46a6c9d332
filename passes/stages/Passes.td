//===- Passes.td - A step in stages, programs of ranks -----*- tablegen -*-===//

#ifndef SHEAF_PASSES_STAGES_PASSES_TD
#define SHEAF_PASSES_STAGES_PASSES_TD

include "mlir/Pass/PassBase.td"

def PipeCutStages : Pass<"pipe-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Cut the body of a microbatch into the parts of pipeline stages";
  let description = [{
    Makes of the body of `nn.microbatches` in an entry, or of the whole body of an entry
    that calls layers and has no such loop, a row of calls of private functions: for each
    stage its forward part, and its backward part, or with `split` the gradients of inputs
    and those of weights. `pipe.stage` and `pipe.part` on them say which they are. The
    program means what it meant before.

    Layers go to stages in their order: as `layers` says, or so that the stage that costs
    most costs least, where what stands before the first layer and behind the last counts
    with the first and the last stage. docs/design/stages.md says where other ops go; with
    `embedding`, what reads parameters and no layer goes to that stage. An
    accumulator that collects gradients of several stages becomes one for each of them.

    Requires what `nn-accumulate` leaves: roles on the ops, and a loop for each entry with
    a backward (`nn-accumulate=loop`). Ensures that each op on microbatch data is in one
    part, but for those that only move elements, and that a part reads results of parts
    before it alone.

    Before:

    ```mlir
    func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> attributes {nn.layer} {
      %y = nn.einsum "ab,bc->ac"(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }
    func.func @logits(%t: tensor<2x4xi32> {nn.batch = "tokens"}, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> tensor<2x4xf32> {
      %x = nn.cast %t : tensor<2x4xi32> -> tensor<2x4xf32>
      %y = func.call @layer(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %z = func.call @layer(%y, %v) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      return %z : tensor<2x4xf32>
    }
    ```

    after `--pipe-cut-stages=stages=2`:

    ```mlir
    func.func private @layer(tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    func.func private @logits_stage0_forward(%t: tensor<2x4xi32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32>
        attributes {no_inline, pipe.part = "F", pipe.stage = 0 : i64} {
      %x = nn.cast %t : tensor<2x4xi32> -> tensor<2x4xf32>
      %y = func.call @layer(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }
    func.func private @logits_stage1_forward(%y: tensor<2x4xf32>, %v: tensor<4x4xf32>) -> tensor<2x4xf32>
        attributes {no_inline, pipe.part = "F", pipe.stage = 1 : i64} {
      %z = func.call @layer(%y, %v) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      return %z : tensor<2x4xf32>
    }
    func.func @logits(%t: tensor<2x4xi32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> tensor<2x4xf32> {
      %y = func.call @logits_stage0_forward(%t, %w) : (tensor<2x4xi32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %z = func.call @logits_stage1_forward(%y, %v) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      return %z : tensor<2x4xf32>
    }
    ```
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "1", "The number of stages">,
    ListOption<"layers", "layers", "int64_t",
      "How many layers each stage has; not given: by cost">,
    Option<"embedding", "embedding", "int64_t", "-1",
      "The stage of the embedding and its gradient; -1: the first that reads it">,
    Option<"split", "split", "bool", "false",
      "Whether the backward is cut into gradients of inputs and of weights">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::mlir::func::FuncDialect"];
}

def PipeMakePrograms : Pass<"pipe-make-programs", "::mlir::ModuleOp"> {
  let summary = "Make the program of each place along the pipeline's axis";
  let description = [{
    Replaces each entry by one function for each place along the axis `pp` of
    `exec.mesh`, whose `exec.place` says which: calls of the stage parts in the order of
    the schedule's line of that rank, with sends and receives between them, and behind
    them what the results of that rank need. An entry without a loop over microbatches
    runs its forward parts once, in order. docs/design/stages.md says what is computed
    where. Where the backward is cut into halves and the schedule has both in one action,
    the halves of each layer become one function. `exec.action` on a call says which
    action of the schedule it is, `exec.schedule` on the module which schedule that is.

    Requires the program of one device behind `dist-to-nn`, cut by `pipe-cut-stages`.

    Before (two stages on two ranks, `exec.mesh = [["pp", 2]]` on the module):

    ```mlir
    func.func private @stage0_forward(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32>
        attributes {pipe.part = "F", pipe.stage = 0 : i64} {
      %y = nn.mul %x, %w : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    after, the function of place 0 for an entry @logits that calls it and then that of
    stage 1:

    ```mlir
    func.func private @stage0_forward(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    func.func @logits_pp0(%x: tensor<4xf32>, %w: tensor<4xf32>)
        attributes {exec.place = ["logits", 0]} {
      %y = func.call @stage0_forward(%x, %w) {exec.action = "0F0"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %h = exec.send %y to 1 size 2 stride 1 : tensor<4xf32>
      exec.wait_send %h, %y : tensor<4xf32>
      return
    }
    ```
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"gpipe\"",
      "A recipe: gpipe, 1f1b, interleaved, bfs, zb-h1, zb-h2, zbv, dualpipev; "
      "greedy, made for what the stages cost; file:F; or module, the text in "
      "exec.schedule">,
    Option<"chunks", "chunks", "int64_t", "1",
      "Stages of each rank, of interleaved and bfs">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0",
      "Bytes of a rank that greedy keeps to, as the parts are before they are "
      "fused; 0: any">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::sheaf::exec::ExecDialect",
                           "::mlir::func::FuncDialect"];
}

#endif // SHEAF_PASSES_STAGES_PASSES_TD
