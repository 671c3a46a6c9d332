//===- Passes.td - Communication beside computation --------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def ExecStartEarly : Pass<"exec-start-early", "::mlir::ModuleOp"> {
  let summary = "start transfers as soon as they can, and wait for them where their result is needed";
  let description = [{
    An `exec.collective` of one of the `kinds` becomes one that only starts, and an
    `exec.wait`. The start moves up past what neither writes the buffer that is sent
    nor touches the one that comes; the wait moves down past what neither writes the
    buffer that is sent nor touches the one that comes. No start moves past another
    transfer, so that those of a communicator keep their order on each rank. A
    collective that nothing could go on beside stays as it is.

    Requires: calls access what their operands say. A function whose buffers are placed
    stays as it is. Ensures: the same numbers; each started transfer
    is waited for once, in the same block.

    Before:

    ```mlir
    func.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
      %a = exec.buffer : memref<8xf32>
      %b = exec.buffer : memref<8xf32>
      exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
      exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
      exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
      exec.copy reads(%b : memref<8xf32>) writes(%z : memref<8xf32>)
      return
    }
    ```

    After: the collective writes a handle, too, `memref<i64>`, and `exec.wait` stands
    between the last two copies.
  }];
  let options = [
    ListOption<"kinds", "kinds", "std::string",
      "What to start early: permute, all_gather, ... (permute)">,
  ];
}
