//===- Passes.td - Passes for CPU kernels ------------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def CPULowerKernels : Pass<"cpu-lower-kernels", "::mlir::ModuleOp"> {
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
    "bytes of the target's vector registers: 64, 32 or 16">,
    Option<"streamedBytes", "streamed-bytes", "int64_t", "16777216",
    "bytes from which on a result of row reductions is stored past the caches">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::func::FuncDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def CPUSplitReductions : Pass<"cpu-split-reductions", "::mlir::func::FuncOp"> {
  let summary = "take sums over many elements in blocks";
  let description = [{
    A reduction to one element would be a kernel of one item, however large its
    input. It becomes a reduction of blocks of a size that the shape alone gives,
    and one of their results. To be run before ops are outlined as kernels.

    Before:

    ```mlir
    %y = nn.reduce sum_of_squares %x dims [0, 1] : (tensor<4096x4096xf32>) -> tensor<f32>
    ```

    After:

    ```mlir
    %b = nn.reshape %x : tensor<4096x4096xf32> -> tensor<2048x8192xf32>
    %s = nn.reduce sum_of_squares %b dims [1] : (tensor<2048x8192xf32>) -> tensor<2048xf32>
    %y = nn.reduce sum %s dims [0] : (tensor<2048xf32>) -> tensor<f32>
    ```

    A sum down the columns of a large matrix would read memory in steps of a row.
    It becomes a sum of blocks of rows, which a kernel reads as they lie, and one of
    the blocks:

    ```mlir
    %y = nn.reduce sum %x dims [0] : (tensor<8192x768xf32>) -> tensor<768xf32>
    ```

    becomes

    ```mlir
    %b = nn.reshape %x : tensor<8192x768xf32> -> tensor<128x64x768xf32>
    %s = nn.reduce sum %b dims [1] : (tensor<128x64x768xf32>) -> tensor<128x768xf32>
    %y = nn.reduce sum %s dims [0] : (tensor<128x768xf32>) -> tensor<768xf32>
    ```
  }];
  let dependentDialects = ["::sheaf::nn::NNDialect"];
}

def CPUKernelsToLLVM : Pass<"cpu-kernels-to-llvm", "::mlir::ModuleOp"> {
  let summary = "lower kernels in range form to the LLVM dialect";
  let description = [{
    Each kernel becomes `void @k(void *const *buffers, int64_t begin, int64_t end)`.
    Transcendental functions of f32 become polynomials, those of f64 calls of the
    C library; conversions to and from bf16 and 8-bit floats become integer
    arithmetic.

    Before:

    ```mlir
    func.func @k(%x: memref<8xf32>, %begin: index, %end: index) attributes {exec.kernel} {
      %v = vector.load %x[%begin] : memref<8xf32>, vector<4xf32>
      vector.store %v, %x[%begin] : memref<8xf32>, vector<4xf32>
      return
    }
    ```
  }];
  let options = [Option<"vectorBytes", "vector-bytes", "int64_t", "32",
    "bytes of the target's vector registers: 64 (with AVX-512), 32 or 16">];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::cf::ControlFlowDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect"];
}
