//===- Passes.td - Reverse-mode differentiation ------------*- tablegen -*-===//

#ifndef SHEAF_PASSES_AUTODIFF_PASSES_TD
#define SHEAF_PASSES_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def NNDifferentiate : Pass<"nn-differentiate", "::mlir::ModuleOp"> {
  let summary = "Add functions that compute gradients";
  let description = [{
    For every function f that is named, adds f_gradient: from the arguments of f and
    a cotangent for each float result to a gradient for each float argument that is
    not frozen, in the order of the arguments; zeros where nothing depends on one.

    Calls of layers (`nn.layer`) stay calls. A layer called in f gets, once for each
    set of gradients that its calls need,

    - `layer_forward(args) -> (results, kept values)`;
    - `layer_backward(what it reads of args, results, kept values and cotangents) ->
      (input gradients, parameter gradients)`;
    - `layer_input_gradient` and `layer_weight_gradient`, the same in two parts, of
      which the second may run much later. It holds what reaches parameter gradients
      only, and reads values that the first hands over.

    `nn.operands` and `nn.results` say what each operand and result of the three is:
    `argument i` of the layer, `result i`, `kept i`, `cotangent i`, `handed i`. The
    layer_backward names the others (`nn.forward`, `nn.input_gradient`,
    `nn.weight_gradient`), the layer_forward its layer (`nn.forward_of`).

    Constants and ops that only move elements are built again rather than kept.
    Other calls are inlined. Ops carry `nn.role`.

    Requires nn ops on tensors and func.call, one block a function, no
    nn.microbatches. The functions read stay as they are.

    Before:

    ```mlir
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = nn.exp %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    after `--nn-differentiate=functions=f`, beside it:

    ```mlir
    func.func @f_gradient(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
      %y = nn.exp %x {nn.role = "forward"} : tensor<4xf32>
      %dx = nn.mul %dy, %y {nn.role = "input_gradient"} : tensor<4xf32>
      return %dx : tensor<4xf32>
    }
    ```
  }];
  let options = [
    ListOption<"functions", "functions", "std::string",
      "The functions to differentiate; `loss` where none is named">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::mlir::func::FuncDialect"];
}

#endif // SHEAF_PASSES_AUTODIFF_PASSES_TD
