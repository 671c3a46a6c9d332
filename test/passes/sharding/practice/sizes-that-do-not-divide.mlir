// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// 5 rows on 4 ranks (one has none), shards of one row, 3 rows on 4, 63 rows on 2: sums,
// extrema, products and means leave out what is not there.

dist.mesh @mesh ["a" = 4, "b" = 2]

// CHECK: @five: all-gather a 5 f32, all-reduce a 1 f32 x2, all-reduce a 4 f32
func.func @five(%x: tensor<5x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>},
                %y: tensor<5x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>})
    -> (tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<5xf32>) {
  %sum = nn.reduce sum %x dims [0] : (tensor<5x4xf32>) -> tensor<4xf32>
  %max = nn.reduce max %x dims [0, 1] : (tensor<5x4xf32>) -> tensor<f32>
  %dot = nn.einsum "be,be->"(%x, %y) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<f32>
  %rows = nn.reduce mean %x dims [1] : (tensor<5x4xf32>) -> tensor<5xf32>
  %whole = dist.constraint %rows <[{}]> : tensor<5xf32>
  return %sum, %max, %dot, %whole : tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<5xf32>
}

// CHECK: @ones: all-reduce a 4 f32;
func.func @ones(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) -> tensor<4xf32> {
  %m = nn.reduce mean %x dims [0] : (tensor<4x4xf32>) -> tensor<4xf32>
  return %m : tensor<4xf32>
}

// CHECK: @three: all-reduce a 4 f32;
func.func @three(%x: tensor<3x4xf32> {dist.sharding = #dist.sharding<[{"a"}, {}]>}) -> tensor<4xf32> {
  %m = nn.reduce mean %x dims [0] : (tensor<3x4xf32>) -> tensor<4xf32>
  return %m : tensor<4xf32>
}

// CHECK: @sixty_three: all-to-all b 128 f32;
func.func @sixty_three(%x: tensor<63x4xf32> {dist.sharding = #dist.sharding<[{"b"}, {}]>})
    -> (tensor<63x4xf32> {dist.sharding = #dist.sharding<[{}, {"b"}]>}) {
  %y = nn.exp %x : tensor<63x4xf32>
  return %y : tensor<63x4xf32>
}

// CHECK: @scattered: reduce-scatter a 5 f32;
func.func @scattered(%x: tensor<5x8xf32> {dist.sharding = #dist.sharding<[{}, {"a"}]>})
    -> (tensor<5xf32> {dist.sharding = #dist.sharding<[{"a"}]>}) {
  %y = nn.reduce sum %x dims [1] : (tensor<5x8xf32>) -> tensor<5xf32>
  return %y : tensor<5xf32>
}
