//===- Passes.td - Host code -------------------------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def ExecToLLVM : Pass<"exec-to-llvm", "::mlir::ModuleOp"> {
  let summary = "host code on the C interface of the runtime";
  let description = [{
    Turns each placed function into LLVM that works through the device of its
    context (`runtime/include/sheaf/abi.h`): a launch, product, copy or layer becomes
    an instruction of the function's program, a constant that one loop carries out
    (`Program.h`), so that neither time nor code grows with depth by more than a few
    words; only what moves with a loop is code. Every entry gets a function
    `sheaf_NAME(context)` that takes its buffers from the context. There is no
    writable global. The module `@kernels` is left as it is; its kernels become
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

    After: `llvm.func @sheaf_f(%context: !llvm.ptr) -> i32`, which calls an internal
    function with the context's buffers and arena, which runs the program
    `[514, 256, 1 << 40, 2 << 40]`: a copy (2) with two pointers (2 << 8) of 256 bytes
    from buffer 0 to buffer 1.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}
