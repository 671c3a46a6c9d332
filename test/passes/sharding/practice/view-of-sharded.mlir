// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// [12, 8] seen as [16, 6]: parts of rows are not parts of the other rows, unless both end at
// the same elements.

dist.mesh @mesh ["a" = 4, "b" = 2]

// CHECK: @rows: nothing;
func.func @rows(%x: tensor<12x8xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>})
    -> (tensor<16x6xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) {
  %y = nn.reshape %x : tensor<12x8xf32> -> tensor<16x6xf32>
  return %y : tensor<16x6xf32>
}

// CHECK: @columns: all-gather b 96 f32;
func.func @columns(%x: tensor<12x8xf32> {dist.sharding = #dist.sharding<[{}, {"b"}]>})
    -> (tensor<16x6xf32> {dist.sharding = #dist.sharding<[{}, {"b"}]>}) {
  %y = nn.reshape %x : tensor<12x8xf32> -> tensor<16x6xf32>
  return %y : tensor<16x6xf32>
}
