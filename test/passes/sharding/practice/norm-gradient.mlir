// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// A norm's weight is used on shards of the sequence: its gradient is reduced over tp.

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// CHECK: @norm_gradient: all-reduce dp+tp 8 f32 x2;
func.func @norm_gradient(%x: tensor<4x6x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}, {}]>},
                         %g: tensor<4x6x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}, {}]>})
    -> (tensor<8xf32>, tensor<8xf32>) {
  %m = nn.mul %x, %g : tensor<4x6x8xf32>
  %w = nn.reduce sum %m dims [0, 1] : (tensor<4x6x8xf32>) -> tensor<8xf32>
  %b = nn.reduce sum %g dims [0, 1] : (tensor<4x6x8xf32>) -> tensor<8xf32>
  return %w, %b : tensor<8xf32>, tensor<8xf32>
}
