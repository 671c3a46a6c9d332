// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// Weights of all layers in one tensor, sharded over the layers: each layer's are sent by the
// one that holds them, for its use, in the loop, too; all of them never.

dist.mesh @mesh ["dp" = 2]

// CHECK: @one: broadcast dp 64 f32; largest 64
func.func @one(%x: tensor<8x8xf32>,
               %w: tensor<4x8x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}, {}]>}) -> tensor<8x8xf32> {
  %w0 = nn.slice %w offsets [1, 0, 0] sizes [1, 8, 8] : (tensor<4x8x8xf32>) -> tensor<1x8x8xf32>
  %v0 = nn.reshape %w0 : tensor<1x8x8xf32> -> tensor<8x8xf32>
  %y0 = nn.einsum "be,ef->bf"(%x, %v0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y0 : tensor<8x8xf32>
}

// CHECK: @layers: broadcast dp 64 f32 x4; largest 64
func.func @layers(%x: tensor<8x8xf32>,
                  %w: tensor<4x8x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}, {}]>}) -> tensor<8x8xf32> {
  %zero = nn.constant dense<0.0> : tensor<8x8xf32>
  %sum = nn.microbatches 2 slices(%x : tensor<8x8xf32>) inits(%zero : tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%k: tensor<i32>, %part: tensor<4x8xf32>, %acc: tensor<8x8xf32>):
    %w0 = nn.slice %w offsets [1, 0, 0] sizes [1, 8, 8] : (tensor<4x8x8xf32>) -> tensor<1x8x8xf32>
    %v0 = nn.reshape %w0 : tensor<1x8x8xf32> -> tensor<8x8xf32>
    %y0 = nn.einsum "be,ef->bf"(%part, %v0) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %w1 = nn.slice %w offsets [2, 0, 0] sizes [1, 8, 8] : (tensor<4x8x8xf32>) -> tensor<1x8x8xf32>
    %v1 = nn.reshape %w1 : tensor<1x8x8xf32> -> tensor<8x8xf32>
    %y1 = nn.einsum "be,ef->bf"(%y0, %v1) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %g = nn.einsum "be,bf->ef"(%part, %y1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %next = nn.add %acc, %g : tensor<8x8xf32>
    nn.yield %next : tensor<8x8xf32>
  }
  return %sum : tensor<8x8xf32>
}
