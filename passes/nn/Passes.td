//===- Passes.td - Passes on single nn ops -----------------*- tablegen -*-===//

#ifndef SHEAF_PASSES_NN_PASSES_TD
#define SHEAF_PASSES_NN_PASSES_TD

include "mlir/Pass/PassBase.td"

def NNDecompose : Pass<"nn-decompose"> {
  let summary = "Write composite ops in simple ones";
  let description = [{
    Replaces every op with a decomposition (`DecomposableOpInterface`), or only
    those whose names are listed, by the simple ops that are its reference
    semantics. The new ops have the location and the `nn.role` of the old one.

    Before:

    ```mlir
    %y = nn.relu %x : tensor<4x8xf32>
    ```

    after `--nn-decompose`:

    ```mlir
    %zero = nn.constant dense<0.0> : tensor<f32>
    %low = nn.compare le %x, %zero : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
    %y = nn.select %low, %zero, %x : (tensor<4x8xi1>, tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let dependentDialects = ["::sheaf::nn::NNDialect"];
  let options = [
    ListOption<"ops", "ops", "std::string",
      "The ops to decompose, `softmax` or `nn.softmax`; all where none is named">,
  ];
}

def NNPrintRules : Pass<"nn-print-rules"> {
  let summary = "Say the sharding rule of each op";
  let description = [{
    A remark on each op that is no function and no terminator: its rule, or that
    it has none and is replicated. A rule that does not fit its op is an error.
    Changes nothing.

    ```mlir
    %y = nn.einsum "bsd,df->bsf"(%x, %w) : (tensor<8x64x32xf32>, tensor<32x96xf32>) -> tensor<8x64x96xf32>
    ```

    gives

    ```
    remark: rule: [b][s][d], [d][f] -> [b][s][f] {b=8, s=64, d=32 sum, f=96} linear separate(0, 1)
    ```
  }];
}

#endif // SHEAF_PASSES_NN_PASSES_TD
