//===- NNDialect.td - The tensor IR of a model -------------*- tablegen -*-===//

#ifndef SHEAF_NN_DIALECT_TD
#define SHEAF_NN_DIALECT_TD

include "mlir/IR/OpBase.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::sheaf::nn";
  let summary = "tensor IR for language models and their training steps";
  let description = [{
    Values are tensors of static shape; ops have no side effects. A model is a
    loss function on global tensors; the training step that the compiler makes
    of it is written in the same ops. `nn` knows nothing of devices.

    Function arguments carry what they are: `nn.param = #nn.param<...>` for a
    parameter, `nn.batch = "tokens"` (`targets`, `positions`, `documents`) for a
    part of the batch, `nn.rng` for the key of random numbers, `nn.scalar =
    "lr"` for a run-time scalar, `nn.state = ["moment1", "wte.weight"]` for
    optimizer state. A
    function marked `nn.layer` is a layer body: it stays a function down to
    machine code and is compiled once however often it is called.

    Any op may carry `nn.rule`, its sharding rule as text (see `RuleOpInterface`),
    and `nn.role`: `forward` (the default), `input_gradient`, `weight_gradient` or
    `optimizer`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerNNAttributes();
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

#endif // SHEAF_NN_DIALECT_TD
