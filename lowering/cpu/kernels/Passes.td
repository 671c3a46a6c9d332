//===- Passes.td - Passes for CPU kernels ------------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def LowerKernels : Pass<"cpu-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "lower outlined nn kernels to loops over a range of items";
  let description = [{
    Rewrites every function marked `exec.kernel` from tensors to memrefs. The
    kernel does the items [begin, end) of an index space that is cut by shapes
    alone; what it writes does not depend on how the space is cut, and parts may
    run at the same time. Nothing is allocated at run time. Ops of a kernel are
    fused: each item computes every op of the group on its elements.

    Before:

    ```mlir
    func.func @scale(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {exec.kernel} {
      %y = nn.mul %x, %x : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After: `func.func @scale(%x: memref<4x8xf32>, %y: memref<4x8xf32>,
    %begin: index, %end: index)` with `exec.extent`, `exec.grain`, `exec.flops`,
    `exec.bytes` and `exec.in_place`.
  }];
  let options = [Option<"vectorBytes", "vector-bytes", "int64_t", "64",
    "bytes of the target's vector registers: 64, 32 or 16">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::func::FuncDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def KernelsToLLVM : Pass<"cpu-kernels-to-llvm", "::mlir::ModuleOp"> {
  let summary = "lower kernels in range form to the LLVM dialect";
  let description = [{
    Each kernel becomes `void @k(void *const *buffers, int64_t begin, int64_t end)`.
    Transcendental functions of f32 become polynomials, those of f64 calls of the
    C library; conversions to and from bf16 and 8-bit floats become integer
    arithmetic.
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::cf::ControlFlowDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect"];
}
