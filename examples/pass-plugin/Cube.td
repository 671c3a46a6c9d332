//===- Cube.td - One op and one pass outside Sheaf ---------*- tablegen -*-===//

include "dialects/NN/NNInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Pass/PassBase.td"

def Cube_Dialect : Dialect {
  let name = "cube";
  let cppNamespace = "::cube";
  let summary = "an example of a dialect with an op of its own";
  let description = [{
    Third powers, which are worth an op only as an example of one.
  }];
  let dependentDialects = ["::sheaf::nn::NNDialect"];
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

def CubeRaise : Pass<"cube-raise", "::mlir::func::FuncOp"> {
  let summary = "find third powers";
  let description = [{
    Replaces x * x * x by `cube.cube`. Each is a remark of the category `cube`.

    ```mlir
    %s = nn.mul %x, %x : tensor<4x8xf32>
    %y = nn.mul %s, %x : tensor<4x8xf32>
    ```

    becomes

    ```mlir
    %y = cube.cube %x : tensor<4x8xf32>
    ```
  }];
  let dependentDialects = ["::cube::CubeDialect"];
}
