// RUN: sheaf-opt %s --dist-exchange-heads=mesh=dp=2,cp=4,tp=2 | FileCheck %s

// CHECK: dist.mesh @mesh ["dp" = 2 memory, "cp" = 4 memory, "tp" = 2 memory]

// Query heads over tp, then cp; two key heads on each device of tp are over half of cp.
// CHECK-LABEL: func.func @attention
// CHECK-DAG: %[[P:.*]] = dist.constraint %{{.*}} <[{"dp"}, {"cp"}, {"tp"}, {}]> because {{.*}} : tensor<2x8x16x4xf32>
// CHECK-DAG: %[[Q:.*]] = dist.constraint %[[P]] <[{"dp"}, {}, {"tp", "cp"}, {}]> because "Ulysses: attention has whole sequences of a part of the heads" : tensor<2x8x16x4xf32>
// CHECK-DAG: %[[K:.*]] = dist.constraint %{{.*}} <[{"dp"}, {}, {"tp", "cp":(1)2}, {}]> because {{.*}} : tensor<2x8x4x4xf32>
// CHECK: %[[Y:.*]] = nn.attention %[[Q]], %[[K]], %[[K]] causal
// CHECK: %[[X:.*]] = dist.constraint %[[Y]] <[{"dp"}, {}, {"tp", "cp"}, {}]>
// CHECK: %[[Z:.*]] = dist.constraint %[[X]] <[{"dp"}, {"cp"}, {"tp"}, {}]>
// CHECK: return %[[Z]]
func.func @attention(%q: tensor<2x8x16x4xf32>, %k: tensor<2x8x4x4xf32>) -> tensor<2x8x16x4xf32> {
  %y = nn.attention %q, %k, %k causal : (tensor<2x8x16x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x16x4xf32>
  return %y : tensor<2x8x16x4xf32>
}

// One sample is not cut; one key head is on all devices.
// CHECK-LABEL: func.func @one
// CHECK-DAG: dist.constraint %{{.*}} <[{}, {}, {"tp", "cp"}, {}]>
// CHECK-DAG: dist.constraint %{{.*}} <[{}, {}, {}, {}]>
func.func @one(%q: tensor<1x8x16x4xf32>, %k: tensor<1x8x1x4xf32>) -> tensor<1x8x16x4xf32> {
  %y = nn.attention %q, %k, %k causal : (tensor<1x8x16x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>) -> tensor<1x8x16x4xf32>
  return %y : tensor<1x8x16x4xf32>
}

// Queries of another sequence than the keys are left as they are.
// CHECK-LABEL: func.func @cross
// CHECK-NOT: dist.constraint
// CHECK: return
func.func @cross(%q: tensor<2x4x16x4xf32>, %k: tensor<2x8x4x4xf32>) -> tensor<2x4x16x4xf32> {
  %y = nn.attention %q, %k, %k : (tensor<2x4x16x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x4x16x4xf32>
  return %y : tensor<2x4x16x4xf32>
}
