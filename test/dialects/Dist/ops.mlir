// RUN: sheaf-opt %s --allow-unregistered-dialect | sheaf-opt --allow-unregistered-dialect | FileCheck %s
// RUN: sheaf-opt %s --allow-unregistered-dialect --emit-bytecode -o %t && sheaf-opt %t --allow-unregistered-dialect | FileCheck %s

// A mesh: link classes, explicit links, device order.
// CHECK: dist.mesh @mesh ["dp" = 4 network, "tp" = 2 nvlink, "x" = 2 link(1.0e+10, 2.0e-6)]
dist.mesh @mesh ["dp" = 4 network, "tp" = 2 nvlink, "x" = 2 link(1.0e10, 2.0e-6)]

// Shardings: sub-axes, open dimensions, priorities, blocks, partial axes.
// CHECK-LABEL: func @shardings
// CHECK-SAME: {dist.sharding = #dist.sharding<[{"dp":(1)2, "tp"}, {?}]>}
// CHECK-SAME: {dist.sharding = #dist.sharding<[{"tp", ?} blocks 3 p1]>}
func.func @shardings(
    %a: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"dp":(1)2, "tp"}, {?}]>},
    %b: tensor<12xf32> {dist.sharding = #dist.sharding<[{"tp", ?} blocks 3 p1]>})
    -> (tensor<12xf32> {dist.sharding = #dist.sharding<[{}]>}) {
  // CHECK: dist.constraint %{{.*}} <[{"dp"}, {}]> because "wish" : tensor<8x4xf32>
  %c = dist.constraint %a <[{"dp"}, {}]> because "wish" : tensor<8x4xf32>
  // CHECK: test.partial = #dist.sharding<[{}, {}], max {"dp", "tp"}>
  "test.op"() {test.partial = #dist.sharding<[{}, {}], max {"dp", "tp"}>} : () -> ()
  // CHECK: dist.shardings = [#dist.sharding<[{"dp"}, {}]>]
  %d = nn.exp %c {dist.shardings = [#dist.sharding<[{"dp"}, {}]>]} : tensor<8x4xf32>
  return %b : tensor<12xf32>
}

// An order of a dimension in chunks; it need not be a multiple of them.
// CHECK-LABEL: func private @order
// CHECK-SAME: {dist.sharding = #dist.sharding<[{"tp", ?} zigzag 4 p1]>}
func.func private @order(%a: tensor<7xf32> {dist.sharding = #dist.sharding<[{"tp", ?} zigzag 4 p1]>}) {
  // CHECK: dist.constraint %{{.*}} <[{"tp", "x"} zigzag 4]> : tensor<7xf32>
  %b = dist.constraint %a <[{"tp", "x"} zigzag 4]> : tensor<7xf32>
  return
}

// CHECK-LABEL: func @collectives
func.func @collectives(%x: tensor<4x8xf32>, %p: tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>,
    %rows: tensor<2x4x6x8xf32>, %sent: tensor<2x4xi32>, %come: tensor<1x8xi32>) {
  // CHECK: dist.all_gather %{{.*}} dim 1 axes ["tp"] : (tensor<4x8xf32>) -> tensor<4x16xf32>
  %0 = dist.all_gather %x dim 1 axes ["tp"] : (tensor<4x8xf32>) -> tensor<4x16xf32>
  // CHECK: dist.all_gather {{.*}} -> tensor<4x15xf32>
  %1 = dist.all_gather %x dim 1 axes ["tp"] : (tensor<4x8xf32>) -> tensor<4x15xf32>
  // CHECK: dist.reduce_scatter sum %{{.*}} dim 0 axes ["dp"] : (tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>) -> tensor<1x8xf32, #dist.partial<["tp"], sum>>
  %2 = dist.reduce_scatter sum %p dim 0 axes ["dp"] : (tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>) -> tensor<1x8xf32, #dist.partial<["tp"], sum>>
  // CHECK: dist.all_reduce sum %{{.*}} axes ["dp", "tp"]
  %3 = dist.all_reduce sum %p axes ["dp", "tp"] : (tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>) -> tensor<4x8xf32>
  // CHECK: dist.all_to_all %{{.*}} split 1 concat 0 axes ["dp":(1)2]
  %4 = dist.all_to_all %x split 1 concat 0 axes ["dp":(1)2] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK: dist.exchange_rows %{{.*}} counts %{{.*}}, %{{.*}} split 0 concat 1 axes ["tp"] : (tensor<2x4x6x8xf32>, tensor<2x4xi32>, tensor<1x8xi32>) -> tensor<1x8x6x8xf32>
  %rows.moved = dist.exchange_rows %rows counts %sent, %come split 0 concat 1 axes ["tp"]
    : (tensor<2x4x6x8xf32>, tensor<2x4xi32>, tensor<1x8xi32>) -> tensor<1x8x6x8xf32>
  // CHECK: dist.permute %{{.*}} from <[{"tp"}, {"x"}]> to <[{"x"}, {"tp"}]> : tensor<4x8xf32>
  %5 = dist.permute %x from <[{"tp"}, {"x"}]> to <[{"x"}, {"tp"}]> : tensor<4x8xf32>
  // CHECK: dist.broadcast %{{.*}} from 1 axes ["tp"] : tensor<4x8xf32>
  %6 = dist.broadcast %x from 1 axes ["tp"] : tensor<4x8xf32>
  // CHECK: dist.shift %{{.*}} by 3 axes ["dp"] : tensor<4x8xf32>
  %s = dist.shift %x by 3 axes ["dp"] : tensor<4x8xf32>
  // CHECK: dist.slice %{{.*}} dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %7 = dist.slice %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<1x8xf32>
  // CHECK: dist.make_partial max %{{.*}} axes ["tp"]
  %8 = dist.make_partial max %x axes ["tp"] : (tensor<4x8xf32>) -> tensor<4x8xf32, #dist.partial<["tp"], max>>
  // CHECK: %[[OWN:.*]] = dist.local %{{.*}} : (tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>) -> tensor<4x8xf32>
  %own = dist.local %p : (tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>) -> tensor<4x8xf32>
  // CHECK: dist.local %[[OWN]] : (tensor<4x8xf32>) -> tensor<4x8xf32, #dist.partial<["tp"], sum>>
  %added = dist.local %own : (tensor<4x8xf32>) -> tensor<4x8xf32, #dist.partial<["tp"], sum>>
  // CHECK: dist.axis_index ["dp", "tp"] : tensor<i32>
  %9 = dist.axis_index ["dp", "tp"] : tensor<i32>
  // Ops of nn take partial values.
  // CHECK: nn.add %{{.*}}, %{{.*}} : tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>
  %10 = nn.add %p, %p : tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>
  return
}
