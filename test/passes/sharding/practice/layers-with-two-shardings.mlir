// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// A layer that is called with rows in shards and with columns in shards computes on both as
// they are.

dist.mesh @mesh ["a" = 2, "b" = 2]

func.func private @layer(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = nn.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK: @two: nothing; largest 16
func.func @two(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>},
               %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"b"}]>})
    -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>},
        tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"b"}]>}) {
  %p = func.call @layer(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = func.call @layer(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %p, %q : tensor<4x8xf32>, tensor<4x8xf32>
}
