// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// A sum over two axes, wanted in shards of one and whole on the other: both are reduced.

dist.mesh @mesh ["a" = 2, "b" = 4]

// CHECK: @mixed: all-reduce b 4 f32, reduce-scatter a 8 f32;
func.func @mixed(%x: tensor<4x8x8xf32> {dist.sharding = #dist.sharding<[{"a"}, {"b"}, {}]>})
    -> (tensor<8xf32> {dist.sharding = #dist.sharding<[{"a"}]>}) {
  %y = nn.reduce sum %x dims [0, 1] : (tensor<4x8x8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// CHECK: @both: reduce-scatter a+b 8 f32;
func.func @both(%x: tensor<4x8x8xf32> {dist.sharding = #dist.sharding<[{"a"}, {"b"}, {}]>})
    -> (tensor<8xf32> {dist.sharding = #dist.sharding<[{"a", "b"}]>}) {
  %y = nn.reduce sum %x dims [0, 1] : (tensor<4x8x8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
