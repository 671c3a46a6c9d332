// RUN: sheaf-opt %s --dist-compress="gradients=bf16 node=4" --dist-verify | FileCheck %s --check-prefix=NODE
// RUN: not sheaf-opt %s --dist-compress="gradients=bf16 node=-1" 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: dist-compress: option 'node' is -1, expected at least 0

// The group has 2 devices on each of 2 nodes. Each node sums its own first: part j of each node's list goes to its device j, and the sums of the nodes
// are rounded again.
// NODE-LABEL: func.func private @nodes
// NODE: %[[ROWS:.*]] = nn.reshape {{.*}} -> tensor<4x3xf32>
// NODE: nn.reshape {{.*}} -> tensor<1x2x2x1x3xbf16>
// NODE: dist.all_to_all {{.*}} split 2 concat 0 axes ["dp":(2)2] {{.*}}sent as bf16, rounded: off by at most 1/256 of each number, within a node{{.*}} : (tensor<1x2x2x1x3xbf16>) -> tensor<2x2x1x1x3xbf16>
// NODE: %[[SUM:.*]] = nn.reduce sum {{.*}} dims [0] {{.*}} : (tensor<2x6xf32>) -> tensor<6xf32>
// NODE: nn.reshape %[[SUM]] {{.*}} -> tensor<2x3xf32>
// NODE: dist.all_to_all {{.*}} split 2 concat 0 axes ["dp":(1)2] {{.*}}the sums of nodes, sent as bf16{{.*}} : (tensor<1x1x2x1x3xbf16>) -> tensor<2x1x1x1x3xbf16>
// NODE: nn.reduce sum {{.*}} dims [0] {{.*}} : (tensor<2x3xf32>) -> tensor<3xf32>
// One device of each node, or all in one, have one level.
// NODE-LABEL: func.func private @apart
// NODE: dist.all_to_all {{.*}} axes ["cp"]
// NODE-NOT: dist.all_to_all
// NODE-LABEL: func.func private @together
// NODE: dist.all_to_all {{.*}} axes ["tp"]
// NODE-NOT: dist.all_to_all
// An axis of one device is of neither level.
// NODE-LABEL: func.func private @one
// NODE: dist.all_to_all {{.*}} axes ["cp", "ep"]
// NODE-NOT: dist.all_to_all
// NODE-LABEL: func.func private @all
// NODE: dist.all_to_all {{.*}} axes ["dp":(2)2, "tp"]
// NODE: dist.all_to_all {{.*}} axes ["cp", "dp":(1)2]
dist.mesh @mesh ["cp" = 2, "dp" = 4, "tp" = 2, "ep" = 1]
func.func private @nodes(%g: tensor<12xf32, #dist.partial<["dp"], sum>>) -> tensor<3xf32> {
  %y = dist.reduce_scatter sum %g dim 0 axes ["dp"] {nn.role = "weight_gradient"} : (tensor<12xf32, #dist.partial<["dp"], sum>>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}
func.func private @apart(%g: tensor<12xf32, #dist.partial<["cp"], sum>>) -> tensor<6xf32> {
  %y = dist.reduce_scatter sum %g dim 0 axes ["cp"] {nn.role = "weight_gradient"} : (tensor<12xf32, #dist.partial<["cp"], sum>>) -> tensor<6xf32>
  return %y : tensor<6xf32>
}
func.func private @together(%g: tensor<12xf32, #dist.partial<["tp"], sum>>) -> tensor<6xf32> {
  %y = dist.reduce_scatter sum %g dim 0 axes ["tp"] {nn.role = "weight_gradient"} : (tensor<12xf32, #dist.partial<["tp"], sum>>) -> tensor<6xf32>
  return %y : tensor<6xf32>
}
func.func private @one(%g: tensor<12xf32, #dist.partial<["cp", "ep"], sum>>) -> tensor<6xf32> {
  %y = dist.reduce_scatter sum %g dim 0 axes ["cp", "ep"] {nn.role = "weight_gradient"} : (tensor<12xf32, #dist.partial<["cp", "ep"], sum>>) -> tensor<6xf32>
  return %y : tensor<6xf32>
}
func.func private @all(%g: tensor<16xf32, #dist.partial<["cp", "dp", "tp"], sum>>) -> tensor<1xf32> {
  %y = dist.reduce_scatter sum %g dim 0 axes ["cp", "dp", "tp"] {nn.role = "weight_gradient"} : (tensor<16xf32, #dist.partial<["cp", "dp", "tp"], sum>>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
