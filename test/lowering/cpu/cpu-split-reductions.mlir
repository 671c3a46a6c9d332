// RUN: sheaf-opt %s --cpu-split-reductions | FileCheck %s

// A large sum becomes sums of blocks and one of those.
// CHECK-LABEL: @norm
// CHECK: %[[FLAT:.+]] = nn.reshape %{{.+}} : tensor<4096x4096xf32> -> tensor<2048x8192xf32>
// CHECK: %[[PARTS:.+]] = nn.reduce sum_of_squares %[[FLAT]] dims [1] {nn.role = "optimizer"}
// CHECK: nn.reduce sum %[[PARTS]] dims [0] {nn.role = "optimizer"}
func.func @norm(%x: tensor<4096x4096xf32>) -> tensor<f32> {
  %y = nn.reduce sum_of_squares %x dims [0, 1] {nn.role = "optimizer"} : (tensor<4096x4096xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// The mean divides once, at the end; kept dimensions come back.
// CHECK-LABEL: @mean
// CHECK: nn.reduce sum
// CHECK: nn.reduce sum
// CHECK: nn.div
// CHECK: nn.reshape %{{.+}} : tensor<f32> -> tensor<1x1xf32>
func.func @mean(%x: tensor<512x1024xf32>) -> tensor<1x1xf32> {
  %y = nn.reduce mean %x dims [0, 1] keep : (tensor<512x1024xf32>) -> tensor<1x1xf32>
  return %y : tensor<1x1xf32>
}

// Small ones, and those with rows or columns to share out, stay.
// CHECK-LABEL: @others
// CHECK-NEXT: nn.reduce sum %{{.+}} dims [0, 1]
// CHECK-NEXT: nn.reduce sum %{{.+}} dims [0] :
// CHECK-NEXT: return
func.func @others(%x: tensor<8x1024xf32>, %z: tensor<4096x1024xf32>) -> (tensor<f32>, tensor<1024xf32>) {
  %y = nn.reduce sum %x dims [0, 1] : (tensor<8x1024xf32>) -> tensor<f32>
  %w = nn.reduce sum %z dims [0] : (tensor<4096x1024xf32>) -> tensor<1024xf32>
  return %y, %w : tensor<f32>, tensor<1024xf32>
}
