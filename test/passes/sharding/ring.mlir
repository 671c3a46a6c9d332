// RUN: sheaf-opt %s --dist-partition=context=ring --canonicalize --cse --dist-verify | FileCheck %s

dist.mesh @mesh ["cp" = 3 memory]

// Causal: each block of keys is handed on twice, before it is used; the gradients of keys
// and values go with it, and home. The first step stands on the diagonal.
// CHECK-LABEL: func.func @causal
// CHECK-SAME: (%[[Q:.*]]: tensor<2x2x4x8xf32> {{.*}}, %[[K:.*]]: tensor<2x2x2x8xf32> {{.*}}, %[[V:.*]]: tensor<2x2x2x8xf32> {{.*}})
// CHECK-DAG: %[[K1:.*]] = dist.shift %[[K]] by 1 axes ["cp"]
// CHECK-DAG: %[[V1:.*]] = dist.shift %[[V]] by 1 axes ["cp"]
// CHECK: %[[Y0:.*]], %[[L0:.*]] = nn.attention %[[Q]], %[[K]], %[[V]] from %{{.*}} causal
// CHECK-SAME: -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
// CHECK: %[[K2:.*]] = dist.shift %[[K1]] by 1 axes ["cp"]
// CHECK: %[[V2:.*]] = dist.shift %[[V1]] by 1 axes ["cp"]
// CHECK: %[[Y1:.*]], %[[L1:.*]] = nn.attention %[[Q]], %[[K1]], %[[V1]] from %{{.*}} causal
// CHECK: nn.max %[[L0]], %[[L1]]
// CHECK-NOT: dist.shift
// CHECK: nn.attention %[[Q]], %[[K2]], %[[V2]] from %{{.*}} causal
// CHECK-NOT: dist.shift
// CHECK: return
func.func @causal(%q: tensor<2x6x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>},
                  %k: tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>},
                  %v: tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>})
    -> (tensor<2x6x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>}) {
  %y = nn.attention %q, %k, %v causal {dist.shardings = [#dist.sharding<[{}, {"cp"}, {}, {}]>]} : (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>) -> tensor<2x6x4x8xf32>
  return %y : tensor<2x6x4x8xf32>
}

// The gradients travel as far, and one step more.
// CHECK-LABEL: func.func @gradient
// CHECK: nn.attention_grad
// CHECK: %[[A1:.*]] = dist.shift %{{.*}} by 1 axes ["cp"] {{.*}}gradients of keys and values
// CHECK: nn.attention_grad
// CHECK: nn.attention_grad
// CHECK-DAG: %[[DK:.*]] = dist.shift %{{.*}} by 1 axes ["cp"] {{.*}}gradients of keys and values
// CHECK: return
func.func @gradient(%q: tensor<2x6x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>},
                    %k: tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>},
                    %l: tensor<2x6x4xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}]>})
    -> (tensor<2x6x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>},
        tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>},
        tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>}) {
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k result %q, %l grad %q causal
      {dist.shardings = [#dist.sharding<[{}, {"cp"}, {}, {}]>, #dist.sharding<[{}, {"cp"}, {}, {}]>, #dist.sharding<[{}, {"cp"}, {}, {}]>]}
    : (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4xf32>, tensor<2x6x4x8xf32>)
    -> (tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>)
  return %dq, %dk, %dv : tensor<2x6x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>
}

// A window of 2 ends in the neighbour's block: one block comes, none farther.
// CHECK-LABEL: func.func @window
// CHECK-COUNT-2: dist.shift
// CHECK-NOT: dist.shift
// CHECK: return
func.func @window(%q: tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>},
                  %k: tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>})
    -> (tensor<2x6x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>}) {
  %e = nn.exp %k {dist.shardings = [#dist.sharding<[{}, {"cp"}, {}, {}]>]} : tensor<2x6x2x8xf32>
  %y = nn.attention %q, %k, %e causal window 2 {dist.shardings = [#dist.sharding<[{}, {"cp"}, {}, {}]>]} : (tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>) -> tensor<2x6x2x8xf32>
  return %y : tensor<2x6x2x8xf32>
}

// In zig-zag order a device has two chunks; the first sees no key of a second one.
// CHECK-LABEL: func.func private @zigzag
// CHECK-COUNT-9: = nn.attention
// CHECK-NOT: = nn.attention
// CHECK: return
func.func private @zigzag(%q: tensor<2x12x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"} zigzag 6, {}, {}]>},
                          %k: tensor<2x12x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"} zigzag 6, {}, {}]>})
    -> (tensor<2x12x2x8xf32> {dist.sharding = #dist.sharding<[{}, {"cp"} zigzag 6, {}, {}]>}) {
  %y = nn.attention %q, %k, %k causal {dist.shardings = [#dist.sharding<[{}, {"cp"} zigzag 6, {}, {}]>]} : (tensor<2x12x2x8xf32>, tensor<2x12x2x8xf32>, tensor<2x12x2x8xf32>) -> tensor<2x12x2x8xf32>
  return %y : tensor<2x12x2x8xf32>
}

// What is whole is put into the order and then cut, what is gathered is put back.
// CHECK-LABEL: func.func @order
// CHECK: %[[ORDER:.*]] = nn.constant dense<[0, 1, 10, 11, 2, 3, 8, 9, 4, 5, 6, 7]> : tensor<12xi32>
// CHECK: %[[A:.*]] = nn.gather %{{.*}}[%[[ORDER]]] axis 0
// CHECK: %[[B:.*]] = dist.slice %[[A]] dim 0 axes ["cp"]
// CHECK: %[[C:.*]] = nn.exp %[[B]] : tensor<4xf32>
// CHECK: %[[D:.*]] = dist.all_gather %[[C]] dim 0 axes ["cp"]
// CHECK: nn.gather %[[D]][%{{.*}}] axis 0
func.func @order(%x: tensor<12xf32>) -> (tensor<12xf32> {dist.sharding = #dist.sharding<[{}]>}) {
  %a = dist.constraint %x <[{"cp"} zigzag 6]> : tensor<12xf32>
  %y = nn.exp %a {dist.shardings = [#dist.sharding<[{"cp"} zigzag 6]>]} : tensor<12xf32>
  return %y : tensor<12xf32>
}
