//===- Passes.td - Host code -------------------------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def ExecToLLVM : Pass<"exec-to-llvm", "::mlir::ModuleOp"> {
  let summary = "host code on the C interface of the runtime";
  let description = [{
    Turns each placed function into LLVM that works through the device of its
    context (`runtime/include/sheaf/abi.h`): a launch, product or copy becomes a call
    of the device, described by a constant of the artifact. Every entry gets a
    function `sheaf_NAME(context)` that takes its buffers from the context. There is
    no writable global. The module `@kernels` is left as it is; its kernels become
    hidden external functions.

    Requires: `exec-place`, and the kernels lowered (`exec.extent` and `exec.grain` on
    each). Ensures: no `exec` op outside `@kernels`; `exec.table` on the module, with
    what each id stands for.

    Before:

    ```mlir
    func.func @f(%x: memref<64xf32>, %y: memref<64xf32>)
        attributes {exec.entry = [["input", "f.arg0"], ["output", "f.out0"]], exec.scratch_bytes = 0 : i64} {
      exec.copy reads(%x : memref<64xf32>) writes(%y : memref<64xf32>)
      return
    }
    ```

    After: `llvm.func @sheaf_f(%context: !llvm.ptr) -> i32`, which loads both pointers
    from the context and calls an internal function that calls the device's `copy` with
    256 bytes.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}
