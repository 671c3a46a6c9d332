// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// With weights in shards over the axis of the batch, the weights are gathered, not the
// activations.

dist.mesh @mesh ["dp" = 4]

// CHECK: @forward: all-gather dp 256 f32 x2;
func.func @forward(%x: tensor<64x16xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>},
                   %w: tensor<16x16xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>},
                   %v: tensor<16x16xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>})
    -> (tensor<64x16xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) {
  %y = nn.einsum "be,ef->bf"(%x, %w) : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  %z = nn.relu %y : tensor<64x16xf32>
  %o = nn.einsum "be,ef->bf"(%z, %v) : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  return %o : tensor<64x16xf32>
}

// The gradient of a weight is scattered.
// CHECK: @gradient: reduce-scatter dp 256 f32;
func.func @gradient(%x: tensor<64x16xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>},
                    %g: tensor<64x16xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>})
    -> (tensor<16x16xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) {
  %y = nn.einsum "be,bf->ef"(%x, %g) : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<16x16xf32>
  return %y : tensor<16x16xf32>
}
