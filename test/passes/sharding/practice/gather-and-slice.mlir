// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// A shard that is gathered and of which the same shard is then taken is not sent.

dist.mesh @mesh ["dp" = 2, "tp" = 4]

// CHECK: @same: nothing;
func.func @same(%x: tensor<16x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>})
    -> (tensor<16x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) {
  %whole = dist.constraint %x <[{}, {}]> : tensor<16x8xf32>
  %part = dist.constraint %whole <[{"tp"}, {}]> : tensor<16x8xf32>
  %y = nn.exp %part : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// Of a part only the rest is sent.
// CHECK: @part: all-gather tp 64 f32;
func.func @part(%x: tensor<16x8xf32> {dist.sharding = #dist.sharding<[{"dp", "tp"}, {}]>})
    -> (tensor<16x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) {
  %whole = dist.constraint %x <[{}, {}]> : tensor<16x8xf32>
  %part = dist.constraint %whole <[{"dp"}, {}]> : tensor<16x8xf32>
  %y = nn.exp %part : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// 7 rows on 4: nobody reads what is behind the end.
// CHECK: @padded: nothing;
func.func @padded(%x: tensor<7x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>})
    -> (tensor<7x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) {
  %whole = dist.constraint %x <[{}, {}]> : tensor<7x8xf32>
  %part = dist.constraint %whole <[{"tp"}, {}]> : tensor<7x8xf32>
  return %part : tensor<7x8xf32>
}
