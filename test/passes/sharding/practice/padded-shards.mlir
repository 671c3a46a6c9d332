// RUN: sheaf-opt %s --nn-differentiate=functions=five,seven,sixty_three,one,inner,outer -o %t.mlir
// RUN: %python %S/Inputs/run.py %sheaf_bin %t.mlir | FileCheck %s
// A padded shard that is gathered and of which the same shard is then taken is not sent, in
// the gradient either: what is behind the end is never read.

dist.mesh @mesh ["a" = 4, "b" = 2]

// Functions come first, then their gradients.
// CHECK-DAG: @five_gradient: nothing;
// CHECK-DAG: @seven_gradient: nothing;
// CHECK-DAG: @sixty_three_gradient: nothing;
// CHECK-DAG: @one_gradient: all-gather a 4 f32;

// 5 rows on 4: 2, 2, 1 and none.
// CHECK-DAG: @five: all-reduce a 4 f32;
func.func @five(%x: tensor<5x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) -> tensor<4xf32> {
  %e = nn.exp %x : tensor<5x4xf32>
  %whole = dist.constraint %e <[{}, {}]> : tensor<5x4xf32>
  %part = dist.constraint %whole <[{"a"}, {}]> : tensor<5x4xf32>
  %square = nn.mul %part, %part : tensor<5x4xf32>
  %sum = nn.reduce sum %square dims [0] : (tensor<5x4xf32>) -> tensor<4xf32>
  return %sum : tensor<4xf32>
}

// CHECK-DAG: @seven: all-reduce a 4 f32;
func.func @seven(%x: tensor<7x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) -> tensor<4xf32> {
  %e = nn.exp %x : tensor<7x4xf32>
  %whole = dist.constraint %e <[{}, {}]> : tensor<7x4xf32>
  %part = dist.constraint %whole <[{"a"}, {}]> : tensor<7x4xf32>
  %square = nn.mul %part, %part : tensor<7x4xf32>
  %sum = nn.reduce sum %square dims [0] : (tensor<7x4xf32>) -> tensor<4xf32>
  return %sum : tensor<4xf32>
}

// CHECK-DAG: @sixty_three: all-reduce b 4 f32;
func.func @sixty_three(%x: tensor<63x4xf32> {dist.sharding = #dist.sharding<[{"b"}, {}]>}) -> tensor<4xf32> {
  %e = nn.exp %x : tensor<63x4xf32>
  %whole = dist.constraint %e <[{}, {}]> : tensor<63x4xf32>
  %part = dist.constraint %whole <[{"b"}, {}]> : tensor<63x4xf32>
  %square = nn.mul %part, %part : tensor<63x4xf32>
  %sum = nn.reduce sum %square dims [0] : (tensor<63x4xf32>) -> tensor<4xf32>
  return %sum : tensor<4xf32>
}

// One row on 4: three devices have none. The gradient is asked for whole.
// CHECK-DAG: @one: nothing;
func.func @one(%x: tensor<1x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>})
    -> (tensor<1x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) {
  %whole = dist.constraint %x <[{}, {}]> : tensor<1x4xf32>
  %part = dist.constraint %whole <[{"a"}, {}]> : tensor<1x4xf32>
  return %part : tensor<1x4xf32>
}

// 7 rows on 4 x 2 have one each; two of them are a shard of 4: of it the rest is sent.
// CHECK-DAG: @inner: all-gather b 8 f32;
func.func @inner(%x: tensor<7x4xf32> {dist.sharding = #dist.sharding<[{"a", "b"}, {}]>})
    -> (tensor<7x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) {
  %whole = dist.constraint %x <[{}, {}]> : tensor<7x4xf32>
  %part = dist.constraint %whole <[{"a"}, {}]> : tensor<7x4xf32>
  return %part : tensor<7x4xf32>
}

// 10 rows on 4 x 2 have two each, a shard of 4 has three: they end elsewhere.
// CHECK-DAG: @outer: all-gather a+b 40 f32;
func.func @outer(%x: tensor<10x4xf32> {dist.sharding = #dist.sharding<[{"a", "b"}, {}]>})
    -> (tensor<10x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) {
  %whole = dist.constraint %x <[{}, {}]> : tensor<10x4xf32>
  %part = dist.constraint %whole <[{"a"}, {}]> : tensor<10x4xf32>
  return %part : tensor<10x4xf32>
}
