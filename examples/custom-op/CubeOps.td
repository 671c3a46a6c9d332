//===- CubeOps.td - One op outside nn ----------------------*- tablegen -*-===//

include "dialects/NN/NNInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Cube_Dialect : Dialect {
  let name = "cube";
  let cppNamespace = "::cube";
  let summary = "an example of a dialect with an op of its own";
}

def Cube_CubeOp : Op<Cube_Dialect, "cube", [
    Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<NN_RuleOpInterface>,
    DeclareOpInterfaceMethods<NN_GradientOpInterface>,
    DeclareOpInterfaceMethods<NN_DecomposableOpInterface>]> {
  let summary = "the third power";
  let description = [{
    x * x * x, element by element.

    Example:

    ```mlir
    %y = cube.cube %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}
