//===- Passes.td - Less memory for more computation --------*- tablegen -*-===//

#ifndef SHEAF_PASSES_RECOMPUTE_PASSES_TD
#define SHEAF_PASSES_RECOMPUTE_PASSES_TD

include "mlir/Pass/PassBase.td"

def NNRecompute : Pass<"nn-recompute", "::mlir::ModuleOp"> {
  let summary = "Keep fewer values of a layer from forward to backward";
  let description = [{
    Rewrites the functions that `nn-differentiate` made of layers, and their calls:

    - `none`: nothing changes;
    - `selective`: results of products, attention, gathers and calls are kept; what
      follows from them and from the layer's arguments elementwise, by norms,
      activations and softmax, is computed again (Korthikanti et al. 2022);
    - `full`: nothing is kept but the arguments of the layer.

    What was kept is computed again in layer_backward, and, once, in
    layer_input_gradient, which hands it to layer_weight_gradient. Ops that compute
    again have the role `forward`. Random numbers are the same, since the key is an
    argument.

    Before:

    ```mlir
    func.func private @layer_forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %a = nn.exp %x : tensor<4xf32>
      %y = nn.sin %a : tensor<4xf32>
      return %y, %a : tensor<4xf32>, tensor<4xf32>
    }
    func.func private @layer_backward(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```

    after `--nn-recompute=policy=full`:

    ```mlir
    func.func private @layer_forward(tensor<4xf32>) -> tensor<4xf32>
    func.func private @layer_backward(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"none\"", "none, selective or full">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::mlir::func::FuncDialect"];
}

#endif // SHEAF_PASSES_RECOMPUTE_PASSES_TD
