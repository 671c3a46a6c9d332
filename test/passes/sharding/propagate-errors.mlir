// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-propagate
// RUN: not sheaf-opt %s --split-input-file --dist-to-nn 2>&1 | FileCheck %s --check-prefix=NN
// NN: has argument 0 of type 'memref<8xf32>'; dist-to-nn expects a program on tensors, before nn-to-exec
// NN: gives 'memref<8xf32>'; dist-to-nn expects a program on tensors, before nn-to-exec

// Buffers have no shardings.
dist.mesh @mesh ["dp" = 2]
// expected-error@+1 {{has argument 0 of type 'memref<8xf32>'; dist-propagate expects a program on tensors, before nn-to-exec}}
func.func @f(%x: memref<8xf32>) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{gives 'memref<8xf32>'; dist-propagate expects a program on tensors, before nn-to-exec}}
  %m = memref.alloc() : memref<8xf32>
  return %x : tensor<8xf32>
}
