// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// The loss is the sum over valid tokens over their count, both of all ranks, however many of
// them each has.
// IDS: 16

dist.mesh @mesh ["dp" = 4]

// CHECK: @loss: all-reduce dp 1 f32 x2;
func.func @loss(%logits: tensor<8x16xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>},
                %targets: tensor<8xi32> {dist.sharding = #dist.sharding<[{"dp"}]>}) -> tensor<f32> {
  %zero = nn.constant dense<0> : tensor<i32>
  %none = nn.constant dense<0.0> : tensor<f32>
  %loss, %lse = nn.cross_entropy %logits, %targets : (tensor<8x16xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %valid = nn.compare ge %targets, %zero : (tensor<8xi32>, tensor<i32>) -> tensor<8xi1>
  %each = nn.select %valid, %loss, %none : (tensor<8xi1>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %one = nn.cast %valid : tensor<8xi1> -> tensor<8xf32>
  %sum = nn.reduce sum %each dims [0] : (tensor<8xf32>) -> tensor<f32>
  %count = nn.reduce sum %one dims [0] : (tensor<8xf32>) -> tensor<f32>
  %mean = nn.div %sum, %count : tensor<f32>
  return %mean : tensor<f32>
}
