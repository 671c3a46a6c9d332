// RUN: sheaf-opt %s --split-input-file --dist-propagate | FileCheck %s --check-prefix=PROPAGATE
// RUN: sheaf-opt %s --split-input-file --dist-propagate --dist-partition --dist-verify | FileCheck %s
// An open dimension at the border of dist.manual takes axes where the body lets it through.

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// Rows go through the product, the sum and its reduction; columns are summed.
// PROPAGATE-LABEL: func.func @rows(
// PROPAGATE: dist.manual %arg0, %arg1 in [#dist.sharding<[{"dp"}, {"tp"}]>, #dist.sharding<[{"tp"}]>] out [#dist.sharding<[{"dp"}]>] {
// PROPAGATE-NEXT: ^bb0(%{{.*}}: tensor<2x4xf32>, %{{.*}}: tensor<4xf32>):
// PROPAGATE: -> tensor<2x4xf32>
// PROPAGATE: -> tensor<2xf32, #dist.partial<["tp"], sum>>
// PROPAGATE: dist.yield %{{.*}} : tensor<2xf32>
// PROPAGATE: nn.neg %{{.*}} {dist.shardings = [#dist.sharding<[{"dp"}]>]}
// CHECK-LABEL: func.func @rows(
// CHECK-NOT: axes ["dp"]
// CHECK: dist.all_reduce sum %{{.*}} axes ["tp"] {{.*}} -> tensor<2xf32>
// CHECK-NOT: axes ["dp"]
// CHECK: return
func.func @rows(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"tp"}]>}, %w: tensor<8xf32>) -> tensor<4xf32> {
  %m = dist.manual %x, %w in [#dist.sharding<[{?}, {"tp", ?}]>, #dist.sharding<[{"tp"}]>] out [#dist.sharding<[{?}]>] {
  ^bb0(%part: tensor<4x4xf32>, %weight: tensor<4xf32>):
    %0 = nn.mul %part, %weight : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %1 = nn.reduce sum %0 dims [1] : (tensor<4x4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
    %2 = dist.all_reduce sum %1 axes ["tp"] : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32>
    dist.yield %2 : tensor<4xf32>
  } : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
  %y = nn.neg %m : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Behind the border's own axis, from a result to an input; constants and slices shrink.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// PROPAGATE-LABEL: func.func @back(
// PROPAGATE-SAME: %arg0: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{"tp", "dp"}, {}]>}
// PROPAGATE: in [#dist.sharding<[{"tp", "dp"}, {}]>] out [#dist.sharding<[{"tp", "dp"}, {}]>] {
// PROPAGATE-NEXT: ^bb0(%{{.*}}: tensor<2x6xf32>):
// PROPAGATE: nn.slice %{{.*}} offsets [0, 2] sizes [2, 3] : (tensor<2x6xf32>) -> tensor<2x3xf32>
// PROPAGATE: nn.constant dense<2.000000e+00> : tensor<2x3xf32>
// CHECK-LABEL: func.func @back(
// CHECK-SAME: tensor<2x6xf32>
// CHECK-NOT: axes
// CHECK: return %{{.*}} : tensor<2x3xf32>
func.func @back(%x: tensor<8x6xf32>)
    -> (tensor<8x3xf32> {dist.sharding = #dist.sharding<[{"tp", "dp"}, {}]>}) {
  %m = dist.manual %x in [#dist.sharding<[{"tp", ?}, {?}]>] out [#dist.sharding<[{"tp", ?}, {}]>] {
  ^bb0(%part: tensor<4x6xf32>):
    %0 = nn.slice %part offsets [0, 2] sizes [4, 3] : (tensor<4x6xf32>) -> tensor<4x3xf32>
    %two = nn.constant dense<2.0> : tensor<4x3xf32>
    %1 = nn.mul %0, %two : tensor<4x3xf32>
    dist.yield %1 : tensor<4x3xf32>
  } : (tensor<8x6xf32>) -> tensor<8x3xf32>
  return %m : tensor<8x3xf32>
}

// -----

// An axis that the body uses is not taken, nor one along what it sums.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// PROPAGATE-LABEL: func.func @kept(
// PROPAGATE: in [#dist.sharding<[{}, {}]>] out [#dist.sharding<[{}]>] {
// PROPAGATE-NEXT: ^bb0(%{{.*}}: tensor<4x8xf32>):
// CHECK-LABEL: func.func @kept(
// CHECK: dist.all_gather
func.func @kept(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {"dp"}]>}) -> tensor<4xf32> {
  %m = dist.manual %x in [#dist.sharding<[{?}, {?}]>] out [#dist.sharding<[{?}]>] {
  ^bb0(%part: tensor<4x8xf32>):
    %1 = nn.reduce max %part dims [1] : (tensor<4x8xf32>) -> tensor<4xf32>
    %2 = dist.broadcast %1 from 0 axes ["tp"] : tensor<4xf32>
    dist.yield %2 : tensor<4xf32>
  } : (tensor<4x8xf32>) -> tensor<4xf32>
  return %m : tensor<4xf32>
}

// -----

// What a square and its transpose have in common cannot be cut: one axis would cut both dimensions.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// PROPAGATE-LABEL: func.func @square(
// PROPAGATE: in [#dist.sharding<[{}, {}]>] out [#dist.sharding<[{}, {}]>] {
// CHECK-LABEL: func.func @square(
// CHECK: dist.all_gather
func.func @square(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) -> tensor<4x4xf32> {
  %m = dist.manual %x in [#dist.sharding<[{?}, {?}]>] out [#dist.sharding<[{?}, {?}]>] {
  ^bb0(%part: tensor<4x4xf32>):
    %0 = nn.transpose %part [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = nn.add %part, %0 : tensor<4x4xf32>
    dist.yield %1 : tensor<4x4xf32>
  } : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %m : tensor<4x4xf32>
}

// -----

// Sub-axes that the border alone names; the rest of the axis is free.
dist.mesh @mesh ["dp" = 4, "tp" = 2]
// PROPAGATE-LABEL: func.func @sub_axes(
// PROPAGATE: in [#dist.sharding<[{"dp"}, {}]>] out [#dist.sharding<[{"dp"}, {}]>] {
// PROPAGATE-NEXT: ^bb0(%{{.*}}: tensor<2x4xf32>):
// CHECK-LABEL: func.func @sub_axes(
// CHECK-NOT: axes
// CHECK: return
func.func @sub_axes(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) -> tensor<8x4xf32> {
  %m = dist.manual %x in [#dist.sharding<[{"dp":(1)2, ?}, {}]>] out [#dist.sharding<[{"dp":(1)2, ?}, {}]>] {
  ^bb0(%part: tensor<4x4xf32>):
    %0 = nn.exp %part : tensor<4x4xf32>
    dist.yield %0 : tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %m : tensor<8x4xf32>
}

// -----

// A sub-axis that a collective of the body alone names is taken.
dist.mesh @mesh ["dp" = 4]
// PROPAGATE-LABEL: func.func @sub_axis_inside(
// PROPAGATE: in [#dist.sharding<[{"dp":(1)2}, {}]>] out [#dist.sharding<[{"dp":(1)2}, {}]>] {
// CHECK-LABEL: func.func @sub_axis_inside(
// CHECK: dist.all_gather %{{.*}} dim 0 axes ["dp":(2)2]
func.func @sub_axis_inside(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) -> tensor<8x4xf32> {
  %m = dist.manual %x in [#dist.sharding<[{?}, {}]>] out [#dist.sharding<[{?}, {}]>] {
  ^bb0(%part: tensor<8x4xf32>):
    %0 = dist.broadcast %part from 0 axes ["dp":(2)2] : tensor<8x4xf32>
    dist.yield %0 : tensor<8x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %m : tensor<8x4xf32>
}

// -----

// Behind axes of the border no axis may pad: there are elements behind.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// PROPAGATE-LABEL: func.func @no_padding(
// PROPAGATE: in [#dist.sharding<[{}]>, #dist.sharding<[{"tp"}]>] out [#dist.sharding<[{"tp"}]>] {
func.func @no_padding(%x: tensor<5xf32> {dist.sharding = #dist.sharding<[{"dp"}]>}, %y: tensor<10xf32>) -> tensor<10xf32> {
  %m = dist.manual %x, %y in [#dist.sharding<[{?}]>, #dist.sharding<[{"tp", ?}]>] out [#dist.sharding<[{"tp", ?}]>] {
  ^bb0(%a: tensor<5xf32>, %b: tensor<5xf32>):
    %0 = nn.add %a, %b : tensor<5xf32>
    dist.yield %0 : tensor<5xf32>
  } : (tensor<5xf32>, tensor<10xf32>) -> tensor<10xf32>
  return %m : tensor<10xf32>
}
