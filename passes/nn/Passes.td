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

def NNBucketExperts : Pass<"nn-bucket-experts", "::mlir::ModuleOp"> {
  let summary = "Compute on the rows of experts by parts of the experts";
  let description = [{
    Puts `nn.bucket` behind each `nn.dispatch` and `nn.unbucket` in front of what takes
    the rows as they were, such as `nn.combine`; products with the matrices of experts
    and elementwise ops between are done by parts. A part has as many rows of a group
    as can be: min(R, S min(k, E / P)), and no more than its experts have room for.
    Sharded over the parts, experts are on different devices. To be run on a model,
    before it is differentiated.

    With `room=F` a part has F times its share of the S k assignments of a group, if
    that is less: ceil(F S k / P). Rows that find no room are left out and counted:
    functions give their number behind their other results, and `@loss` that of the
    whole step, as the result `expert_overflow`, which stops a run where it is not 0.
    Other entries give what is no number for a sample of which rows are missing.

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
    Option<"room", "room", "double", "0",
      "how many times its share of rows a part has room for; 0: for the most that there can be">,
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
