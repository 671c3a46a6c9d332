//===- PipeOps.td - The ops of pipe ------------------------*- tablegen -*-===//

#ifndef SHEAF_PIPE_OPS_TD
#define SHEAF_PIPE_OPS_TD

include "PipeDialect.td"
include "PipeTypes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Pipe_Tensor : Type<CPred<"::sheaf::pipe::isWholeTensor($_self)">,
  "ranked tensor of static shape without an encoding", "::mlir::RankedTensorType">;
def Pipe_Uses : TypedArrayAttrBase<Pipe_UseAttr, "parts of stages">;
def Pipe_Number : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1048575>]>;
def Pipe_Bytes : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1125899906842624>]>;

class Pipe_Op<string mnemonic, list<Trait> traits = []>
    : Op<Pipe_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// What is to be done
//===----------------------------------------------------------------------===//

def Pipe_PipelineOp : Pipe_Op<"pipeline", [Symbol, NoTerminator, SingleBlock,
    IsolatedFromAbove]> {
  let summary = "stages, and the values that they hand to each other";
  let description = [{
    Holds a `pipe.stage` for each stage, in order, and then a `pipe.value` for each
    value. A transfer between two ranks takes `latency` seconds and its bytes over
    `bandwidth`; a fused pair `fused_factor` times what its halves take one after the
    other.

    Example:

    ```mlir
    pipe.pipeline @model attributes {latency = 2.0e-6 : f64, bandwidth = 4.0e10 : f64} {
      pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
      pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
      pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
      pipe.value I 1 to [#pipe.use<I 0>] : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       DefaultValuedOptionalAttr<F64Attr, "0.0">:$latency,
                       OptionalAttr<F64Attr>:$bandwidth,
                       DefaultValuedOptionalAttr<F64Attr, "1.0">:$fused_factor);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let hasVerifier = 1;
}

def Pipe_StageOp : Pipe_Op<"stage", [HasParent<"PipelineOp">]> {
  let summary = "the costs of one stage";
  let description = [{
    Seconds for one microbatch. `backward` is the time of I and W in one action, their
    sum where it is not given; `resident_bytes` exist during the whole step,
    `gathered_bytes` while the weights are gathered, `temporary_bytes` while an action
    of the stage runs.

    Example:

    ```mlir
    pipe.pipeline @model {
      pipe.stage forward 1.0 input_gradient 1.25 weight_gradient 7.5e-1 {backward = 1.75 : f64, resident_bytes = 1000 : i64}
    }
    ```
  }];
  let arguments = (ins F64Attr:$forward, F64Attr:$input_gradient, F64Attr:$weight_gradient,
                       OptionalAttr<F64Attr>:$backward,
                       DefaultValuedOptionalAttr<Pipe_Bytes, "0">:$resident_bytes,
                       DefaultValuedOptionalAttr<Pipe_Bytes, "0">:$gathered_bytes,
                       DefaultValuedOptionalAttr<Pipe_Bytes, "0">:$temporary_bytes);
  let assemblyFormat = [{
    `forward` $forward `input_gradient` $input_gradient `weight_gradient` $weight_gradient attr-dict
  }];
  let hasVerifier = 1;
}

def Pipe_ValueOp : Pipe_Op<"value", [HasParent<"PipelineOp">]> {
  let summary = "what a part of a stage computes and others read";
  let description = [{
    Computed once for each microbatch by F, I or W of a stage, and read for the same
    microbatch by the parts behind `to`, of this stage (what it keeps for its
    backward) or any other. Of the values of one part, the first is number 0.

    Example:

    ```mlir
    pipe.pipeline @model {
      pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
      pipe.value F 0 to [#pipe.use<I 0>, #pipe.use<W 0>] : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Pipe_PartAttr:$part, Pipe_Number:$stage, Pipe_Uses:$uses,
                       TypeAttrOf<Pipe_Tensor>:$type);
  let assemblyFormat = "$part $stage `to` $uses attr-dict `:` $type";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Who does it when
//===----------------------------------------------------------------------===//

def Pipe_ScheduleOp : Pipe_Op<"schedule", [Symbol, NoTerminator, SingleBlock,
    IsolatedFromAbove]> {
  let summary = "for each rank an ordered list of actions";
  let description = [{
    Holds a `pipe.rank` for each rank, in order.

    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
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
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$pipeline,
                       Pipe_Number:$microbatches);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `of` $pipeline `microbatches` $microbatches attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Pipe_RankOp : Pipe_Op<"rank", [HasParent<"ScheduleOp">, NoTerminator, SingleBlock]> {
  let summary = "what one rank does, in order";
  let description = [{
    `stages` are those that the rank has.

    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0, 1] {
        pipe.compute F 0 microbatch 0 () : () -> ()
      }
    }
    ```
  }];
  let arguments = (ins DenseI64ArrayAttr:$stages);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`stages` $stages attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Pipe_ComputeOp : Pipe_Op<"compute", [HasParent<"RankOp">]> {
  let summary = "runs a part of a stage on one microbatch";
  let description = [{
    F is the forward, I the gradient of the input, W those of the weights, B both in
    one action. Once communication is placed, it takes every value that the part
    reads and gives every one that it computes, each in the order of `pipe.value`.
    `fused` runs it at the same time as the next action.

    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 2 {
      pipe.rank stages [0] {
        %kept = pipe.compute F 0 microbatch 0 () : () -> tensor<4x8xf32>
        %next = pipe.compute F 0 microbatch 1 fused () : () -> tensor<4x8xf32>
        pipe.compute B 0 microbatch 0 (%kept) : (tensor<4x8xf32>) -> ()
        pipe.free %kept : tensor<4x8xf32>
      }
    }
    ```
  }];
  let arguments = (ins Pipe_PartAttr:$part, Pipe_Number:$stage, Pipe_Number:$microbatch,
                       UnitAttr:$fused, Variadic<Pipe_Tensor>:$inputs);
  let results = (outs Variadic<Pipe_Tensor>:$outputs);
  let assemblyFormat = [{
    $part $stage `microbatch` $microbatch (`fused` $fused^)? ` ` `(` $inputs `)` attr-dict
    `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

def Pipe_SendOp : Pipe_Op<"send", [HasParent<"RankOp">,
    TypesMatchWith<"the transfer is one of the value", "transfer", "value",
                   "::llvm::cast<::sheaf::pipe::TransferType>($_self).getTensor()">]> {
  let summary = "starts to send a value";
  let description = [{
    The value's buffer may be read until `pipe.wait_send`.

    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        %x = pipe.compute F 0 microbatch 0 () : () -> tensor<4x8xf32>
        %sent = pipe.send %x to 1 : !pipe.transfer<tensor<4x8xf32>>
        pipe.wait_send %sent : !pipe.transfer<tensor<4x8xf32>>
        pipe.free %x : tensor<4x8xf32>
      }
    }
    ```
  }];
  let arguments = (ins Pipe_Tensor:$value, Pipe_Number:$peer);
  let results = (outs Pipe_TransferType:$transfer);
  let assemblyFormat = "$value `to` $peer attr-dict `:` type($transfer)";
}

def Pipe_ReceiveOp : Pipe_Op<"receive", [HasParent<"RankOp">]> {
  let summary = "starts to receive a value";
  let description = [{
    Its landing buffer exists from here to its `pipe.free`. `value` is the number of
    the value among those of the part that computes it.

    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [1] {
        %coming = pipe.receive F 0 microbatch 0 value 0 from 0 : !pipe.transfer<tensor<4x8xf32>>
        %x = pipe.wait_receive %coming : !pipe.transfer<tensor<4x8xf32>>
        pipe.free %x : tensor<4x8xf32>
      }
    }
    ```
  }];
  let arguments = (ins Pipe_PartAttr:$part, Pipe_Number:$stage, Pipe_Number:$microbatch,
                       Pipe_Number:$value, Pipe_Number:$peer);
  let results = (outs Pipe_TransferType:$transfer);
  let assemblyFormat = [{
    $part $stage `microbatch` $microbatch `value` $value `from` $peer attr-dict
    `:` type($transfer)
  }];
}

def Pipe_WaitSendOp : Pipe_Op<"wait_send", [HasParent<"RankOp">]> {
  let summary = "blocks until a value is sent";
  let description = [{
    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        %x = pipe.compute F 0 microbatch 0 () : () -> tensor<4x8xf32>
        %sent = pipe.send %x to 1 : !pipe.transfer<tensor<4x8xf32>>
        pipe.wait_send %sent : !pipe.transfer<tensor<4x8xf32>>
      }
    }
    ```
  }];
  let arguments = (ins Pipe_TransferType:$transfer);
  let assemblyFormat = "$transfer attr-dict `:` type($transfer)";
  let hasVerifier = 1;
}

def Pipe_WaitReceiveOp : Pipe_Op<"wait_receive", [HasParent<"RankOp">,
    TypesMatchWith<"the value is that of the transfer", "transfer", "value",
                   "::llvm::cast<::sheaf::pipe::TransferType>($_self).getTensor()">]> {
  let summary = "blocks until a value has come";
  let description = [{
    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [1] {
        %coming = pipe.receive F 0 microbatch 0 value 0 from 0 : !pipe.transfer<tensor<4x8xf32>>
        %x = pipe.wait_receive %coming : !pipe.transfer<tensor<4x8xf32>>
      }
    }
    ```
  }];
  let arguments = (ins Pipe_TransferType:$transfer);
  let results = (outs Pipe_Tensor:$value);
  let assemblyFormat = "$transfer attr-dict `:` type($transfer)";
  let hasVerifier = 1;
}

def Pipe_FreeOp : Pipe_Op<"free", [HasParent<"RankOp">]> {
  let summary = "ends the buffer of a value on this rank";
  let description = [{
    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        %x = pipe.compute F 0 microbatch 0 () : () -> tensor<4x8xf32>
        pipe.free %x : tensor<4x8xf32>
      }
    }
    ```
  }];
  let arguments = (ins Pipe_Tensor:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

class Pipe_StageActionOp<string mnemonic> : Pipe_Op<mnemonic, [HasParent<"RankOp">]> {
  let arguments = (ins Pipe_Number:$stage);
  let assemblyFormat = "$stage attr-dict";
}

def Pipe_GatherWeightsOp : Pipe_StageActionOp<"gather_weights"> {
  let summary = "gathers the weights of a stage from the ranks that share them";
  let description = [{
    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        pipe.gather_weights 0
        pipe.compute F 0 microbatch 0 () : () -> ()
        pipe.free_weights 0
      }
    }
    ```
  }];
}

def Pipe_FreeWeightsOp : Pipe_StageActionOp<"free_weights"> {
  let summary = "lets go of the gathered weights of a stage";
  let description = [{
    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        pipe.gather_weights 0
        pipe.free_weights 0
      }
    }
    ```
  }];
}

def Pipe_ReduceGradientsOp : Pipe_StageActionOp<"reduce_gradients"> {
  let summary = "reduces the gradients of a stage over the data-parallel ranks";
  let description = [{
    Behind the last weight gradient of the stage.

    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        pipe.compute B 0 microbatch 0 () : () -> ()
        pipe.reduce_gradients 0
      }
    }
    ```
  }];
}

def Pipe_ReduceNormOp : Pipe_Op<"reduce_norm", [HasParent<"RankOp">]> {
  let summary = "the norm of all gradients, over all ranks";
  let description = [{
    A rendezvous of all ranks, behind the reductions of gradients.

    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        pipe.reduce_gradients 0
        pipe.reduce_norm
        pipe.update 0
      }
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Pipe_UpdateOp : Pipe_StageActionOp<"update"> {
  let summary = "the optimizer on the weights of a stage";
  let description = [{
    Example:

    ```mlir
    pipe.schedule @schedule of @model microbatches 1 {
      pipe.rank stages [0] {
        pipe.reduce_gradients 0
        pipe.update 0
      }
    }
    ```
  }];
}

#endif // SHEAF_PIPE_OPS_TD
