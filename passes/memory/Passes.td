//===- Passes.td - Where buffers live ----------------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def ExecPlace : Pass<"exec-place", "::mlir::ModuleOp"> {
  let summary = "give every temporary buffer an offset in its function's scratch memory";
  let description = [{
    A buffer lives from the first op that touches it, or a view of it, to the last;
    one that is defined outside a loop and touched inside lives through the whole
    loop. Buffers that live at the same time do not overlap. A called function's
    scratch memory lies in its caller's during the call.

    Requires: no recursion. Ensures: each `exec.buffer` has an offset, a multiple of
    64; each `exec.call` a scratch offset; each function `exec.scratch_bytes`,
    `exec.live_bytes`, the largest sum of bytes alive at one op, and
    `exec.scratch_kinds`, what the scratch bytes are at that op: gradients (read by
    the optimizer), activations (of the forward, read by the backward), temporaries
    (the others, scratch memory of calls among them), and unused bytes between.
    `nn.role` of the ops tells.

    Before:

    ```mlir
    func.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
      %a = exec.buffer : memref<64xf32>
      exec.copy reads(%x : memref<64xf32>) writes(%a : memref<64xf32>)
      %b = exec.buffer : memref<64xf32>
      exec.copy reads(%a : memref<64xf32>) writes(%b : memref<64xf32>)
      %c = exec.buffer : memref<64xf32>
      exec.copy reads(%b : memref<64xf32>) writes(%c : memref<64xf32>)
      exec.copy reads(%c : memref<64xf32>) writes(%y : memref<64xf32>)
      return
    }
    ```

    After: `%a` and `%c` share offset 0, `%b` is at 256, `exec.scratch_bytes` is 512.
  }];
}
