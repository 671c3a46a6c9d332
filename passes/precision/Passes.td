//===- Passes.td - Number formats of a program -------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def NNConvertFloats : Pass<"nn-convert-floats", "::mlir::ModuleOp"> {
  let summary = "give every tensor of f32, bf16 or f16 another element type";
  let description = [{
    Changes f32, bf16 and f16 to the type of option `to` in all values, signatures
    and constants; casts between them are gone then. With f64 this makes the
    reference that results in those types are held against. 8-bit floats stay: they
    are payloads, not numbers on their own.

    Before:

    ```mlir
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.constant dense<0.5> : tensor<f32>
      %y = nn.mul %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    After `nn-convert-floats{to=f64}`: the same with f64 for f32.
  }];
  let options = [Option<"to", "to", "std::string", "\"f64\"", "the new type: f64">];
}

def NNApplyPrecision : Pass<"nn-apply-precision", "::mlir::ModuleOp"> {
  let summary = "Compute a training step in the number formats of a recipe";
  let description = [{
    Rewrites a step of f32 for narrower floats, and leaves every rounding as an `nn.cast`
    in the program. `bf16`:

    - A parameter is bf16 where the model reads it. The step has its f32 value, too,
      as the state "master": the optimizer updates that and rounds it.
    - Ops of the forward take and give bf16. What an op adds up is f32 inside it; the
      results of sums, losses and routers, and what is computed from them, stay f32.
    - In the backward, products take bf16, and what lies between two products is f32; a
      value that a product reads is rounded once, where it is made, for all its readers.
    - Gradients of parameters come as f32 from the products and are accumulated, reduced
      and read by the optimizer in f32.

    `fp16` is the same in f16, whose small numbers end at 2^-24: the loss is multiplied by
    a scale, and the optimizer divides by it. A step whose gradients are not all finite
    leaves parameters and state as they are and halves the scale; `loss-scale-window`
    steps without one double it. The scale is state of the step ("scaling"), the norm of all
    gradients decides for all ranks.

    `fp8-tensor`, `fp8-block` and `mxfp8` are bf16, and products with weights in layers take
    8-bit floats (`nn.quantize`, `nn.scaled_einsum`): those of the forward, of the gradient of
    their input, and of their weights. Embedding, head, routers, norms and attention stay
    bf16. `fp8-tensor` has one factor a tensor, f8E5M2 for gradients of activations and f8E4M3FN
    for all else; `fp8-block` f8E4M3FN in blocks of 128 along what is summed, of 128 x 128 for
    weights, by powers of two (DeepSeek-AI 2024); `mxfp8` f8E4M3FN in blocks of 32 along what
    is summed (OCP Microscaling Formats 1.0). `fp8-delayed` is `fp8-tensor` with scales made of
    the largest magnitudes of the last `history` steps, which are state of the step ("scaling");
    a step in which a tensor was not finite, or zero, leaves its scale as it was.

    With `gradients=narrow` and `moments=narrow` accumulators and moments are of 16 bits; with
    `fp8` they have one factor a tensor and are f8E4M3FN, the second moment f16 (Peng et al.
    2023). With `masters=f16` masters are f16, with `none` there are none: an update is rounded
    up or down at random, with the probability of what is cut off. With `weights=quantized` a
    matrix that is read by products of 8 bits only is nothing but its master (`nn.quantized`
    beside `nn.param`); what products read is quantised from it at the head of the step.

    Parameters that a pattern of `keep` matches stay f32 with their products, as does a
    bias that balances experts. A function of a layer is written once for each list of types
    that it is called with.

    Run it when the step is whole, after `nn-add-optimizer` and `nn-prepare-evaluation`.

    Before:

    ```mlir
    func.func @logits(%w: tensor<8x4xf32> {nn.param = #nn.param<"w", axes = [embed, vocab], init = normal(0.02)>},
                      %x: tensor<2x8xf32>) -> tensor<2x4xf32> {
      %y = nn.einsum "be,ev->bv"(%x, %w) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }
    ```

    after `--nn-apply-precision=recipe=bf16`:

    ```mlir
    func.func @logits(%w: tensor<8x4xbf16> {nn.param = #nn.param<"w", axes = [embed, vocab], init = normal(0.02)>},
                      %x: tensor<2x8xf32>) -> tensor<2x4xf32> {
      %n = nn.cast %x : tensor<2x8xf32> -> tensor<2x8xbf16>
      %p = nn.einsum "be,ev->bv"(%n, %w) : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xbf16>
      %y = nn.cast %p : tensor<2x4xbf16> -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }
    ```
  }];
  let options = [
    Option<"recipe", "recipe", "std::string", "\"fp32\"",
      "fp32 (leaves all as it is), bf16, fp16, fp8-tensor, fp8-block, fp8-delayed or mxfp8">,
    Option<"lossScale", "loss-scale", "double", "65536",
      "fp16: what the loss is first multiplied by">,
    Option<"lossScaleWindow", "loss-scale-window", "double", "2000",
      "fp16: steps without an overflow that double the scale">,
    Option<"gradients", "gradients", "std::string", "\"f32\"",
      "In what gradients of parameters are added up: f32, narrow, or fp8">,
    Option<"moments", "moments", "std::string", "\"f32\"",
      "In what the optimizer keeps its moments: f32, narrow, or fp8">,
    Option<"masters", "masters", "std::string", "\"f32\"",
      "Masters of narrow parameters: f32, f16, or none; but for f32, an update is rounded up or down at random">,
    Option<"weights", "weights", "std::string", "\"narrow\"",
      "What is kept of matrices that are read in 8 bits only: narrow and a master, or quantized, the master alone">,
    Option<"history", "history", "int64_t", "1024",
      "fp8-delayed: of how many steps a scale is made">,
    Option<"once", "once", "bool", "false",
      "8 bits: quantise matrices once a step, where layers are called, which then cannot be cut for a pipeline">,
    Option<"tokenParts", "token-parts", "int64_t", "1",
      "8 bits: into how many parts the mesh cuts the batch and the sequence; blocks end at their borders">,
    Option<"tensorParts", "tensor-parts", "int64_t", "1",
      "8 bits: into how many parts the mesh cuts heads and the like">,
    ListOption<"keep", "keep", "std::string",
      "Parameters that stay f32: patterns of names, with * and ?">,
  ];
  let dependentDialects = ["::sheaf::nn::NNDialect", "::mlir::func::FuncDialect"];
}

def NNWidenProducts : Pass<"nn-widen-products", "::mlir::ModuleOp"> {
  let summary = "Compute products of narrow floats in f32";
  let description = [{
    A product or attention of bf16 or f16 becomes one of f32 between casts: what a
    processor without narrow products does. Its sums are f32 in either form, and its result
    is rounded once.

    Before:

    ```mlir
    func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x2xbf16>) -> tensor<4x2xbf16> {
      %c = nn.einsum "ij,jk->ik"(%a, %b) : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xbf16>
      return %c : tensor<4x2xbf16>
    }
    ```

    After:

    ```mlir
    func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x2xbf16>) -> tensor<4x2xbf16> {
      %x = nn.cast %a : tensor<4x8xbf16> -> tensor<4x8xf32>
      %y = nn.cast %b : tensor<8x2xbf16> -> tensor<8x2xf32>
      %z = nn.einsum "ij,jk->ik"(%x, %y) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
      %c = nn.cast %z : tensor<4x2xf32> -> tensor<4x2xbf16>
      return %c : tensor<4x2xbf16>
    }
    ```
  }];
  let dependentDialects = ["::sheaf::nn::NNDialect"];
}
