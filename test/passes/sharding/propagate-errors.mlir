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

// -----

// A function that a body of dist.manual calls is on the parts of one device.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note@+1 {{axes are named here}}
  %0 = dist.constraint %x <[{"dp"}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = dist.manual %x in [#dist.sharding<[{"tp"}]>] out [#dist.sharding<[{"tp"}]>] {
  ^bb0(%part: tensor<4xf32>):
    // expected-error@+1 {{stands in the body of dist.manual and calls @outer, which names axes of the mesh; values there are the parts of one device, expected a function without shardings and collectives, or the call outside of the body}}
    %1 = func.call @outer(%part) : (tensor<4xf32>) -> tensor<4xf32>
    dist.yield %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
// expected-note@+1 {{axes are named here}}
func.func private @inner(%x: tensor<4xf32> {dist.sharding = #dist.sharding<[{"dp"}]>}) -> tensor<4xf32> {
  %0 = nn.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = dist.manual %x in [#dist.sharding<[{"tp"}]>] out [#dist.sharding<[{"tp"}]>] {
  ^bb0(%part: tensor<4xf32>):
    // expected-error@+1 {{stands in the body of dist.manual and calls @inner, which names axes of the mesh}}
    %1 = func.call @inner(%part) : (tensor<4xf32>) -> tensor<4xf32>
    dist.yield %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
