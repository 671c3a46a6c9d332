//===- Passes.td - Schedules of pipelines ------------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def PipeSchedule : Pass<"pipe-schedule", "::mlir::ModuleOp"> {
  let summary = "order the parts of a pipeline's stages on ranks";
  let description = [{
    Writes a `pipe.schedule` behind each `pipe.pipeline`, and takes away the one that
    it had: by a known recipe, or `greedy` for the costs of the stages and
    `memory-limit`; `file:NAME` reads schedule text or PyTorch's CSV. How many stages
    a rank has follows from their number. Compute actions alone; sends and receives
    are the business of `pipe-place-communication`.

    Before:

    ```mlir
    pipe.pipeline @model {
      pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
      pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
      pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
      pipe.value I 1 to [#pipe.use<I 0>] : tensor<4x8xf32>
    }
    ```

    After `--pipe-schedule="ranks=2 microbatches=1"`, behind it:

    ```mlir
    pipe.schedule @model_schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        pipe.compute F 0 microbatch 0 () : () -> ()
        pipe.compute B 0 microbatch 0 () : () -> ()
      }
      pipe.rank stages [1] {
        pipe.compute F 1 microbatch 0 () : () -> ()
        pipe.compute B 1 microbatch 0 () : () -> ()
      }
    }
    ```
  }];
  let options = [
    Option<"pipeline", "pipeline", "std::string", "\"1f1b\"",
           "gpipe, 1f1b, interleaved, bfs, zb-h1, zb-h2, zbv, dualpipev, greedy or file:NAME">,
    Option<"ranks", "ranks", "int64_t", "1", "Ranks of the pipeline">,
    Option<"microbatches", "microbatches", "int64_t", "1", "Microbatches of a step">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0",
           "Bytes that greedy may use on a rank (0: no limit)">];
  let dependentDialects = ["::sheaf::pipe::PipeDialect"];
}

def PipePlaceCommunication : Pass<"pipe-place-communication", "::mlir::ModuleOp"> {
  let summary = "add sends, receives, waits and frees to schedules";
  let description = [{
    Where, by a virtual clock, an action ends whose value another rank reads, the send
    goes to the end of its rank's list and the receive to the end of the other's at
    that same moment, so that all ranks have pieces of one total order and nothing
    deadlocks. Values are then typed results and operands, and every buffer has its
    `pipe.free`. `weights` says when weights are gathered, `epilogue` ends every rank
    with the reduction of gradients, the norm and the optimizer.

    Requires: a schedule without communication whose order can run. Before:

    ```mlir
    pipe.pipeline @model {
      pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
      pipe.value F 0 to [#pipe.use<I 0>] : tensor<4x8xf32>
    }
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        pipe.compute F 0 microbatch 0 () : () -> ()
        pipe.compute B 0 microbatch 0 () : () -> ()
      }
    }
    ```

    After:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        %0 = pipe.compute F 0 microbatch 0 () : () -> tensor<4x8xf32>
        pipe.compute B 0 microbatch 0 (%0) : (tensor<4x8xf32>) -> ()
        pipe.free %0 : tensor<4x8xf32>
      }
    }
    ```
  }];
  let options = [
    Option<"weights", "weights", "std::string", "\"resident\"",
           "When weights are gathered: resident (never), once, each-run (for each run of "
           "actions of one stage)">,
    Option<"epilogue", "epilogue", "bool", "false",
           "End with the reduction of gradients, the norm and the optimizer">];
  let dependentDialects = ["::sheaf::pipe::PipeDialect"];
}

def PipeVerify : Pass<"pipe-verify", "::mlir::ModuleOp"> {
  let summary = "prove that schedules come to their end, and what memory they need";
  let description = [{
    Of every `pipe.schedule`: each part of each stage runs once for each microbatch,
    behind what it reads. With communication, also: sends and receives match one to
    one, no order of events makes ranks wait for each other forever, every buffer is
    freed once, behind its last use, and no rank holds more than `memory-limit` bytes.
    What is wrong is an error at the action, with notes at the others that take part.
    `print-peaks` says the most bytes of each rank, and where.

    Changes nothing. Example:

    ```mlir
    pipe.pipeline @model {
      pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
    }
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        pipe.compute F 0 microbatch 0 () : () -> ()
        pipe.compute B 0 microbatch 0 () : () -> ()
      }
    }
    ```
  }];
  let options = [
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "Bytes of a rank (0: no limit)">,
    Option<"printPeaks", "print-peaks", "bool", "false",
           "Remark on each rank the most bytes that it holds">];
}
