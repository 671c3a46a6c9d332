// RUN: sheaf-opt %s --dist-propagate | FileCheck %s --check-prefix=PROPAGATE
// RUN: sheaf-opt %s --dist-propagate=origins=true --dist-partition --dist-verify | FileCheck %s
// RUN: sheaf-opt %s --dist-propagate=why=%%y -o /dev/null | FileCheck %s --check-prefix=WHY

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// Inputs take the shardings of the border as far as they are free to, results have
// theirs, and both propagate; the body is left alone.
// PROPAGATE-LABEL: func.func @f(
// PROPAGATE-SAME: %arg0: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}]>}
// PROPAGATE: nn.exp %arg0 {dist.shardings = [#dist.sharding<[{"dp"}, {"tp"}]>]}
// PROPAGATE: nn.reduce sum %{{[a-z0-9_]+}} dims [1] :
// PROPAGATE: nn.neg {{.*}} {dist.shardings = [#dist.sharding<[{"dp"}]>]}

// The body stands in the place of the op; what is whole is cut at the border.
// CHECK-LABEL: func.func @f(
// CHECK: %[[E:.*]] = nn.exp %arg0 : tensor<2x4xf32>
// CHECK: %[[W:.*]] = dist.slice %arg1 dim 0 axes ["tp"]
// CHECK: %[[M:.*]] = nn.mul %[[E]], %[[W]]
// CHECK: %[[S:.*]] = nn.reduce sum %[[M]] dims [1] : (tensor<2x4xf32>) -> tensor<2xf32, #dist.partial<["tp"], sum>>
// CHECK: %[[R:.*]] = dist.all_reduce sum %[[S]] axes ["tp"] {dist.reason = {kind = "manual", {{.*}} text = "written in dist.manual"}}
// CHECK: nn.neg %[[R]] : tensor<2xf32>
// CHECK-NOT: dist.manual

// WHY: nn.neg at {{.*}}, tensor<4xf32>
// WHY-NEXT: over dp:
// WHY-NEXT: through nn.neg at {{.*}} from dist.manual at
// WHY-NEXT: because of the sharding of dist.manual at
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8xf32> {dist.sharding = #dist.sharding<[{}]>}) -> tensor<4xf32> {
  %e = nn.exp %x : tensor<4x8xf32>
  %m = dist.manual %e, %w in [#dist.sharding<[{"dp"}, {"tp"}]>, #dist.sharding<[{"tp"}]>] out [#dist.sharding<[{"dp"}]>] {
  ^bb0(%part: tensor<2x4xf32>, %weight: tensor<4xf32>):
    %0 = nn.mul %part, %weight : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %1 = nn.reduce sum %0 dims [1] : (tensor<2x4xf32>) -> tensor<2xf32, #dist.partial<["tp"], sum>>
    %2 = dist.all_reduce sum %1 axes ["tp"] : (tensor<2xf32, #dist.partial<["tp"], sum>>) -> tensor<2xf32>
    dist.yield %2 : tensor<2xf32>
  } : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
  %y = nn.neg %m : tensor<4xf32>
  return %y : tensor<4xf32>
}
