// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-partition

// What was partitioned once is of one device.
dist.mesh @mesh ["dp" = 2]
// expected-error @below {{is of the program of one device already; dist-partition expects a program on whole tensors}}
func.func @f(%x: tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32> {
  %y = dist.all_reduce sum %x axes ["dp"] : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @index(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{has a result of type 'index'; dist-partition expects tensors with a rank}}
  %c = arith.constant 3 : index
  return %x : tensor<8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @below {{has an argument of type 'index'; dist-partition expects tensors with a rank}}
func.func @bound(%x: tensor<8xf32>, %i: index) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @below {{has several blocks; dist-partition expects straight-line code}}
func.func @blocks(%x: tensor<8xf32>) -> tensor<8xf32> {
  cf.br ^end
^end:
  return %x : tensor<8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @again(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{calls @again, which is being called: recursion is not supported, write the layers one by one}}
  %y = call @again(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
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
