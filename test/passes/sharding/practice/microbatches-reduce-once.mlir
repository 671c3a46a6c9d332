// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// Gradients of four microbatches are reduced once.

dist.mesh @mesh ["dp" = 2]

// CHECK: @step: all-reduce dp 64 f32;
func.func @step(%x: tensor<16x8xf32> {dist.sharding = #dist.sharding<[{"dp"} blocks 4, {}]>},
                %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %zero = nn.constant dense<0.0> : tensor<8x8xf32>
  %sum = nn.microbatches 4 slices(%x : tensor<16x8xf32>) inits(%zero : tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%k: tensor<i32>, %part: tensor<4x8xf32>, %acc: tensor<8x8xf32>):
    %y = nn.einsum "be,ef->bf"(%part, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %t = nn.tanh %y : tensor<4x8xf32>
    %g = nn.einsum "be,bf->ef"(%part, %t) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %next = nn.add %acc, %g : tensor<8x8xf32>
    nn.yield %next : tensor<8x8xf32>
  }
  %new = nn.sub %w, %sum : tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}
