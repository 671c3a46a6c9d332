// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// Logits near 1e4 over a sharded vocabulary: the largest is on another rank than the target's,
// for most tokens; with label smoothing, and 13 entries on 4 ranks. Logits are not gathered.
// IDS: 13
// SCALE: 1e4

dist.mesh @mesh ["tp" = 4]

// CHECK: @loss: all-reduce tp 8 f32 x3; largest 32
func.func @loss(%logits: tensor<8x16xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
                %targets: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %loss, %lse = nn.cross_entropy %logits, %targets : (tensor<8x16xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %loss, %lse : tensor<8xf32>, tensor<8xf32>
}

// CHECK: @smooth: all-reduce tp 8 f32 x4; largest 32
func.func @smooth(%logits: tensor<8x13xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
                  %targets: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %loss, %lse = nn.cross_entropy %logits, %targets smoothing 0.1 : (tensor<8x13xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %loss, %lse : tensor<8xf32>, tensor<8xf32>
}

// CHECK: @gradient: nothing; largest 32
func.func @gradient(%logits: tensor<8x13xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
                    %targets: tensor<8xi32>, %lse: tensor<8xf32>, %g: tensor<8xf32>)
    -> (tensor<8x13xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  %scale = nn.constant dense<1.0e5> : tensor<8xf32>
  %l = nn.max %lse, %scale : tensor<8xf32>
  %d = nn.cross_entropy_grad %logits, %targets, %l grad %g smoothing 0.1 : (tensor<8x13xf32>, tensor<8xi32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x13xf32>
  return %d : tensor<8x13xf32>
}
