// RUN: sheaf-opt %s --dist-to-nn | FileCheck %s
// RUN: sheaf-opt %s --dist-to-nn --nn-to-exec | FileCheck %s --check-prefix=EXEC

// Ranks are row-major: dp has 4 places, 2 ranks apart, tp 2, one apart.
dist.mesh @mesh ["dp" = 4 network, "tp" = 2 nvlink]
// CHECK-NOT: dist.
// CHECK-NOT: partial
// CHECK-NOT: exec.devices

// CHECK-LABEL: func.func private @reduce(%{{.*}}: tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: exec.transfer all_reduce by sum %{{.*}} sizes [4, 2] strides [2, 1] about {axes = ["dp", "tp"], reason = {text = "why"}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// EXEC-LABEL: func.func private @reduce(
// EXEC: exec.collective all_reduce by sum reads(%{{.*}} : memref<4x8xf32>) writes(%{{.*}} : memref<4x8xf32>) sizes [4, 2] strides [2, 1] about
func.func private @reduce(%x: tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>) -> tensor<4x8xf32> {
  %y = dist.all_reduce sum %x axes ["dp", "tp"] {dist.reason = {text = "why"}} : (tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The last device's part is padding.
// CHECK-LABEL: func.func @gather
// CHECK: %[[W:.*]] = exec.transfer all_gather %{{.*}} sizes [4] strides [2] join 4 about {{.*}} : (tensor<4x3xf32>) -> tensor<4x12xf32>
// CHECK: nn.slice %[[W]] offsets [0, 0] sizes [4, 10]
func.func @gather(%x: tensor<4x3xf32>) -> tensor<4x10xf32> {
  %y = dist.all_gather %x dim 1 axes ["dp"] : (tensor<4x3xf32>) -> tensor<4x10xf32>
  return %y : tensor<4x10xf32>
}

// CHECK-LABEL: func.func private @scatter
// CHECK: %[[P:.*]] = nn.pad %{{.*}} low [0, 0] high [0, 2]
// CHECK: exec.transfer reduce_scatter by max %[[P]] sizes [4] strides [2] cut 4 about {{.*}} : (tensor<4x12xf32>) -> tensor<4x3xf32>
func.func private @scatter(%x: tensor<4x10xf32, #dist.partial<["dp"], max>>) -> tensor<4x3xf32> {
  %y = dist.reduce_scatter max %x dim 1 axes ["dp"] : (tensor<4x10xf32, #dist.partial<["dp"], max>>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @exchange
// CHECK: exec.transfer all_to_all %{{.*}} sizes [2] strides [1] cut 4 about {{.*}} : (tensor<4x8xf32>) -> tensor<8x4xf32>
func.func @exchange(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %y = dist.all_to_all %x split 1 concat 0 axes ["tp"] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// Rows by count: two parts of four samples, cut along the parts, joined along the samples.
// CHECK-LABEL: func.func @rows
// CHECK: exec.transfer all_to_all %{{.*}} counts(%{{.*}}, %{{.*}}) sizes [2] strides [1] join 2 about {{.*}} : (tensor<4x4x6x8xf32>, tensor<4x4xi32>, tensor<2x8xi32>) -> tensor<2x8x6x8xf32>
// EXEC-LABEL: func.func @rows
// EXEC: exec.collective all_to_all reads(%{{.*}}, %{{.*}}, %{{.*}} : memref<4x4x6x8xf32>, memref<4x4xi32>, memref<2x8xi32>) writes(%{{.*}} : memref<2x8x6x8xf32>) sizes [2] strides [1] join 2
func.func @rows(%x: tensor<4x4x6x8xf32>, %s: tensor<4x4xi32>, %r: tensor<2x8xi32>) -> tensor<2x8x6x8xf32> {
  %y = dist.exchange_rows %x counts %s, %r split 0 concat 1 axes ["tp"] : (tensor<4x4x6x8xf32>, tensor<4x4xi32>, tensor<2x8xi32>) -> tensor<2x8x6x8xf32>
  return %y : tensor<2x8x6x8xf32>
}

// A slice reads its rows by the rank's coordinates, which the caller hands on.
// CHECK-LABEL: func.func private @part
// CHECK-SAME: (%{{.*}}: tensor<5x8xf32>, %[[C:.*]]: tensor<2xi32> {exec.coordinates}) -> tensor<2x8xf32>
// CHECK: nn.slice %[[C]] offsets [0] sizes [1]
// CHECK: nn.gather %{{.*}}[%{{.*}}] axis 0 : (tensor<5x8xf32>, tensor<2xi32>) -> tensor<2x8xf32>
func.func private @part(%x: tensor<5x8xf32>) -> tensor<2x8xf32> {
  %y = dist.slice %x dim 0 axes ["dp"] : (tensor<5x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
// CHECK-LABEL: func.func @caller
// CHECK-SAME: (%{{.*}}: tensor<5x8xf32>, %[[C:.*]]: tensor<2xi32> {exec.coordinates})
// CHECK: call @part(%{{.*}}, %[[C]])
// EXEC-LABEL: func.func @caller
// EXEC-SAME: ["coordinates", "coordinates"]
func.func @caller(%x: tensor<5x8xf32>) -> tensor<2x8xf32> {
  %y = call @part(%x) : (tensor<5x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// Around a ring of the four devices of dp: each sends to the third after it.
// CHECK-LABEL: func.func @shift
// CHECK: exec.transfer permute %{{.*}} sizes [4] strides [2] {{.*}}[3, 0, 1, 2]{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @shift(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = dist.shift %x by 3 axes ["dp"] : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The inner half of dp, then tp: places come from a table.
// CHECK-LABEL: func.func @index
// CHECK: nn.constant dense<[0, 1, 0, 1]>
func.func @index() -> tensor<i32> {
  %y = dist.axis_index ["dp":(2)2, "tp"] : tensor<i32>
  return %y : tensor<i32>
}

// CHECK-LABEL: func.func private @partial
// CHECK: nn.compare
// CHECK: nn.select
func.func private @partial(%x: tensor<4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>> {
  %y = dist.make_partial sum %x axes ["tp"] : (tensor<4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
  return %y : tensor<4xf32, #dist.partial<["tp"], sum>>
}

// What each device adds is a value of its own.
// CHECK-LABEL: func.func private @local
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: return %[[X]]
func.func private @local(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32> {
  %y = dist.local %x : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
