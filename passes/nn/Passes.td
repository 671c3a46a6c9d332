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
    ListOption<"keep", "keep", "std::string",
      "Ops to leave alone where all others are decomposed">,
  ];
}

def NNBucketExperts : Pass<"nn-bucket-experts"> {
  let summary = "Compute on the rows of experts by parts of the experts";
  let description = [{
    Puts `nn.bucket` behind each `nn.dispatch` and `nn.unbucket` in front of what takes
    the rows as they were, such as `nn.combine`; products with the matrices of experts
    and elementwise ops between are done by parts. A part has as many rows of a group
    as can be: min(R, S min(k, E / P)), and no more than its experts have room for.
    Sharded over the parts, experts are on different devices. To be run on a model,
    before it is differentiated.

    Before:

    ```mlir
    %r = nn.dispatch %x, %order, %position : (tensor<4x16x8xf32>, tensor<4x32xi32>, tensor<4x16x2xi32>) -> tensor<4x32x8xf32>
    %y = nn.grouped_matmul %r, %w, %offsets : (tensor<4x32x8xf32>, tensor<4x8x6xf32>, tensor<4x5xi32>) -> tensor<4x32x6xf32>
    %z = nn.combine %y, %order, %position : (tensor<4x32x6xf32>, tensor<4x32xi32>, tensor<4x16x2xi32>) -> tensor<4x16x6xf32>
    ```

    after `--nn-bucket-experts=parts=2`:

    ```mlir
    %r = nn.dispatch %x, %order, %position : (tensor<4x16x8xf32>, tensor<4x32xi32>, tensor<4x16x2xi32>) -> tensor<4x32x8xf32>
    %b = nn.bucket %r, %offsets : (tensor<4x32x8xf32>, tensor<4x5xi32>) -> tensor<2x4x32x8xf32>
    %v = nn.reshape %w : tensor<4x8x6xf32> -> tensor<2x2x8x6xf32>
    %p = nn.grouped_matmul %b, %v, %local : (tensor<2x4x32x8xf32>, tensor<2x2x8x6xf32>, tensor<2x4x3xi32>) -> tensor<2x4x32x6xf32>
    %y = nn.unbucket %p, %offsets : (tensor<2x4x32x6xf32>, tensor<4x5xi32>) -> tensor<4x32x6xf32>
    %z = nn.combine %y, %order, %position : (tensor<4x32x6xf32>, tensor<4x32xi32>, tensor<4x16x2xi32>) -> tensor<4x16x6xf32>
    ```
  }];
  let dependentDialects = ["::sheaf::nn::NNDialect"];
  let options = [
    Option<"parts", "parts", "int64_t", "1", "how many parts; they divide the experts">,
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
