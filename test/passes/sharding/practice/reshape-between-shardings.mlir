// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// Between two sharded layouts nothing is gathered: two all-to-alls, at no more than a shard
// of either side.

dist.mesh @mesh ["x" = 4, "y" = 2]

// CHECK: @between: all-to-all x 64 f32, all-to-all y 64 f32; largest 64
func.func @between(%v: tensor<8x8x8xf32> {dist.sharding = #dist.sharding<[{"y"}, {}, {"x"}]>})
    -> (tensor<8x8x8xf32> {dist.sharding = #dist.sharding<[{}, {"x", "y"}, {}]>}) {
  return %v : tensor<8x8x8xf32>
}

// CHECK: @transposed: nothing; largest 64
func.func @transposed(%v: tensor<8x8x8xf32> {dist.sharding = #dist.sharding<[{"y"}, {}, {"x"}]>})
    -> (tensor<8x8x8xf32> {dist.sharding = #dist.sharding<[{"x"}, {"y"}, {}]>}) {
  %t = nn.transpose %v [2, 0, 1] : (tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  return %t : tensor<8x8x8xf32>
}

// Heads are a part of the last dimension.
// CHECK: @heads: nothing; largest 64
func.func @heads(%v: tensor<8x8x8xf32> {dist.sharding = #dist.sharding<[{"y"}, {}, {"x"}]>})
    -> (tensor<8x4x8x2xf32> {dist.sharding = #dist.sharding<[{"y"}, {"x"}, {}, {}]>}) {
  %r = nn.reshape %v : tensor<8x8x8xf32> -> tensor<8x8x4x2xf32>
  %t = nn.transpose %r [0, 2, 1, 3] : (tensor<8x8x4x2xf32>) -> tensor<8x4x8x2xf32>
  return %t : tensor<8x4x8x2xf32>
}
