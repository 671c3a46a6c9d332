//===- Passes.td - From tensors to buffers -----------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def NNToExec : Pass<"nn-to-exec", "::mlir::ModuleOp"> {
  let summary = "give every tensor a buffer and every op a kernel, product or call";
  let description = [{
    Turns each function on tensors into a function on buffers: its arguments are
    the buffers it reads, then those it writes. A reshape or a contiguous slice
    becomes a view, an einsum that a matrix product can do becomes `exec.matmul`,
    a call of a layer `exec.call`, `nn.microbatches` a loop, and every other op a
    kernel, outlined on tensors in the module `@kernels`, once for each structure.
    A result is computed in the buffer where it is wanted; a copy is made only
    where that buffer is still read.

    Requires: static shapes; every called function in the module. Ensures: no `nn`
    op is left outside `@kernels`; buffers are unplaced.

    Before:

    ```mlir
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nn.exp %x : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:

    ```mlir
    func.func @f(%x: memref<4x8xf32>, %y: memref<4x8xf32>)
        attributes {exec.entry = [["input", "f.arg0"], ["output", "f.out0"]]} {
      exec.launch @kernels::@exp_0 reads(%x : memref<4x8xf32>) writes(%y : memref<4x8xf32>)
      return
    }
    module @kernels {
      func.func @exp_0(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {exec.kernel} {
        %y = nn.exp %x : tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::sheaf::exec::ExecDialect", "::mlir::scf::SCFDialect",
                           "::mlir::arith::ArithDialect"];
}
