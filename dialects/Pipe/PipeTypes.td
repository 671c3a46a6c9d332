//===- PipeTypes.td - Transfers, and parts of stages -------*- tablegen -*-===//

#ifndef SHEAF_PIPE_TYPES_TD
#define SHEAF_PIPE_TYPES_TD

include "PipeDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/EnumAttr.td"

def Pipe_Part : I32EnumAttr<"Part", "what a stage does with a microbatch", [
    I32EnumAttrCase<"Forward", 0, "F">, I32EnumAttrCase<"InputGradient", 1, "I">,
    I32EnumAttrCase<"WeightGradient", 2, "W">, I32EnumAttrCase<"Backward", 3, "B">]> {
  let cppNamespace = "::sheaf::pipe";
  let genSpecializedAttr = 0;
}
def Pipe_PartAttr : EnumAttr<Pipe_Dialect, Pipe_Part, "part"> {
  let assemblyFormat = "$value";
}

def Pipe_UseAttr : AttrDef<Pipe_Dialect, "Use"> {
  let mnemonic = "use";
  let summary = "a part of a stage that reads a value";
  let description = [{
    An action B reads what I and W of its stage read.

    Example:

    ```mlir
    #pipe.use<F 1>
    ```
  }];
  let parameters = (ins EnumParameter<Pipe_Part>:$part, "int64_t":$stage);
  let assemblyFormat = "`<` $part $stage `>`";
}

def Pipe_TransferType : TypeDef<Pipe_Dialect, "Transfer"> {
  let mnemonic = "transfer";
  let summary = "a value on its way from one rank to another";
  let description = [{
    Example:

    ```mlir
    !pipe.transfer<tensor<4x8xf32>>
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

#endif // SHEAF_PIPE_TYPES_TD
