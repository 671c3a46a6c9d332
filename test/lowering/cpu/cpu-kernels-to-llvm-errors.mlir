// RUN: sheaf-opt %s --verify-diagnostics --cpu-kernels-to-llvm

func.func @f(%a: memref<4xf32>, %b: memref<4xf32>) attributes {exec.entry = [["input", "a"], ["output", "b"]]} {
  // expected-error @below {{names a kernel by its function; cpu-kernels-to-llvm expects the module of kernels alone, after exec-to-llvm}}
  exec.launch @kernels::@k reads(%a : memref<4xf32>) writes(%b : memref<4xf32>)
  return
}
module @kernels {
  func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {exec.kernel} {
    %y = nn.exp %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
