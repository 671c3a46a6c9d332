//===- Passes.td - From nn to linalg -----------------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def NNToLinalg : Pass<"nn-to-linalg", "::mlir::func::FuncOp"> {
  let summary = "convert nn ops to linalg on tensors";
  let description = [{
    Every op but `nn.microbatches` and `nn.yield` becomes `linalg.generic` and
    `tensor` ops with the same element types; sums of bf16 and f16 are taken in
    f32. Composite ops are decomposed first, so that plugins whose ops have a
    decomposition need nothing else; a dialect may bring patterns of its own with
    `NNToLinalgInterface`.

    Before:

    ```mlir
    %y = nn.add %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```

    After: a `linalg.generic` whose map for `%b` is `(d0, d1) -> (d1)`.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}
