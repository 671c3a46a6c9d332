// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// Ids over dp, the table over tp: rows of the gradient that ranks of dp have are added,
// those of tp are other rows.
// IDS: 16

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// CHECK: @embedding_gradient: all-reduce dp 32 f32;
func.func @embedding_gradient(%g: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>},
                              %ids: tensor<8xi32> {dist.sharding = #dist.sharding<[{"dp"}]>})
    -> (tensor<16x4xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) {
  %y = nn.gather_grad %g[%ids] axis 0 : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<16x4xf32>
  return %y : tensor<16x4xf32>
}

// CHECK: @embedding: all-reduce tp 16 f32;
func.func @embedding(%t: tensor<16x4xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
                     %ids: tensor<8xi32> {dist.sharding = #dist.sharding<[{"dp"}]>})
    -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) {
  %y = nn.embedding %t[%ids] : (tensor<16x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
