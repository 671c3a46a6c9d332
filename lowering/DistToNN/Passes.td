//===- Passes.td - From one device's view to its program ---*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def DistToNN : Pass<"dist-to-nn", "::mlir::ModuleOp"> {
  let summary = "forget the mesh: transfers between ranks and local nn code";
  let description = [{
    Takes what `dist-partition` writes to code that `nn-fuse` and `nn-to-exec`
    understand. Collectives become `exec.transfer`, whose groups are sizes and
    strides of places and whose shapes are exact: what does not divide is padded
    before and cut off behind. `dist.slice`, `dist.make_partial` and
    `dist.axis_index` become nn ops on the coordinates of the rank, which every
    function that needs them gets as its last argument. `dist.local`, partial encodings
    and the mesh are erased.

    Before:

    ```mlir
    dist.mesh @mesh ["tp" = 2]
    func.func @f(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32> {
      %y = dist.all_reduce sum %x axes ["tp"] : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    after:

    ```mlir
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = exec.transfer all_reduce by sum %x sizes [2] strides [1] about {axes = ["tp"]} : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::sheaf::exec::ExecDialect", "::sheaf::nn::NNDialect"];
}
