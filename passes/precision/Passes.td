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
