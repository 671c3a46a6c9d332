// RUN: %python %S/Inputs/run.py %sheaf_bin %s | FileCheck %s
// Dropout of a value that every rank of tp has is equal on all, of a shard that rank's part of
// the whole; rows over dp are other samples.
// IDS: 1000

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// CHECK: @dropout: nothing;
func.func @dropout(%x: tensor<4x6x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}, {}]>},
                   %s: tensor<4x6x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}, {}]>},
                   %h: tensor<4x6x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}, {"tp"}]>},
                   %key: tensor<4xi32>, %stream: tensor<i32>)
    -> (tensor<4x6x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}, {}]>},
        tensor<4x6x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}, {}]>},
        tensor<4x6x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}, {"tp"}]>}) {
  %a = nn.dropout %x, %key, %stream rate 0.5 : (tensor<4x6x8xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x6x8xf32>
  %b = nn.dropout %s, %key, %stream rate 0.5 : (tensor<4x6x8xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x6x8xf32>
  %c = nn.dropout %h, %key, %stream rate 0.5 : (tensor<4x6x8xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4x6x8xf32>
  return %a, %b, %c : tensor<4x6x8xf32>, tensor<4x6x8xf32>, tensor<4x6x8xf32>
}

// 5 samples on 2 ranks, 7 columns on 2.
// CHECK: @padded: nothing;
func.func @padded(%x: tensor<5x7xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}]>},
                  %key: tensor<4xi32>, %stream: tensor<i32>)
    -> (tensor<5x7xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}]>}) {
  %a = nn.dropout %x, %key, %stream rate 0.5 : (tensor<5x7xf32>, tensor<4xi32>, tensor<i32>) -> tensor<5x7xf32>
  return %a : tensor<5x7xf32>
}
