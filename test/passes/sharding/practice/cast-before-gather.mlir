// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// A weight is cast to bf16 before it is gathered, and what is in bf16 gathered before it is
// cast to f32; of two planes the one that is used.

dist.mesh @mesh ["dp" = 4]

// CHECK: @narrow: all-gather dp 128 bf16;
func.func @narrow(%w: tensor<16x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>},
                  %x: tensor<8x16xbf16>) -> tensor<8x8xbf16> {
  %whole = dist.constraint %w <[{}, {}]> : tensor<16x8xf32>
  %c = nn.cast %whole : tensor<16x8xf32> -> tensor<16x8xbf16>
  %y = nn.einsum "be,ef->bf"(%x, %c) : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xbf16>
  return %y : tensor<8x8xbf16>
}

// CHECK: @wide: all-gather dp 128 bf16;
func.func @wide(%w: tensor<16x8xbf16> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) -> (tensor<16x8xf32> {dist.sharding = #dist.sharding<[{}, {}]>}) {
  %c = nn.cast %w : tensor<16x8xbf16> -> tensor<16x8xf32>
  return %c : tensor<16x8xf32>
}

// CHECK: @plane: all-gather dp 128 f32;
func.func @plane(%w: tensor<2x16x8xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}, {}]>}) -> tensor<16x8xf32> {
  %whole = dist.constraint %w <[{}, {}, {}]> : tensor<2x16x8xf32>
  %p = nn.slice %whole offsets [1, 0, 0] sizes [1, 16, 8] : (tensor<2x16x8xf32>) -> tensor<1x16x8xf32>
  %r = nn.reshape %p : tensor<1x16x8xf32> -> tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}
