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

// Sums down columns are taken over blocks of rows.
// CHECK-LABEL: @columns
// CHECK: %[[A:.+]] = nn.reshape %{{.+}} : tensor<4x2048x16x64xf32> -> tensor<128x64x1024xf32>
// CHECK: %[[B:.+]] = nn.reduce sum %[[A]] dims [1] {nn.role = "weight_gradient"}
// CHECK: %[[C:.+]] = nn.reduce sum %[[B]] dims [0] {nn.role = "weight_gradient"} : (tensor<128x1024xf32>) -> tensor<1024xf32>
// CHECK: nn.reshape %[[C]] {nn.role = "weight_gradient"} : tensor<1024xf32> -> tensor<16x64xf32>
func.func @columns(%x: tensor<4x2048x16x64xf32>) -> tensor<16x64xf32> {
  %y = nn.reduce sum %x dims [0, 1] {nn.role = "weight_gradient"} : (tensor<4x2048x16x64xf32>) -> tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}

// Sums of blocks are not rounded to a narrow type; the mean divides once.
// CHECK-LABEL: @narrow
// CHECK: %[[A:.+]] = nn.cast %{{.+}} : tensor<1280x1024xbf16> -> tensor<1280x1024xf32>
// CHECK: nn.reshape %[[A]] : tensor<1280x1024xf32> -> tensor<32x40x1024xf32>
// CHECK: nn.reduce sum
// CHECK: nn.reduce sum
// CHECK: nn.div
// CHECK: nn.cast %{{.+}} : tensor<1024xf32> -> tensor<1024xbf16>
// CHECK: nn.reshape %{{.+}} : tensor<1024xbf16> -> tensor<1x1024xbf16>
func.func @narrow(%x: tensor<1280x1024xbf16>) -> tensor<1x1024xbf16> {
  %y = nn.reduce mean %x dims [0] keep : (tensor<1280x1024xbf16>) -> tensor<1x1024xbf16>
  return %y : tensor<1x1024xbf16>
}

// Small ones stay, and those that have rows to share out, take the largest, or
// have no fitting blocks.
// CHECK-LABEL: @others
// CHECK-NEXT: nn.reduce sum %{{.+}} dims [0, 1]
// CHECK-NEXT: nn.reduce sum %{{.+}} dims [0] : (tensor<512x1024xf32>)
// CHECK-NEXT: nn.reduce sum %{{.+}} dims [1] :
// CHECK-NEXT: nn.reduce max %{{.+}} dims [0] :
// CHECK-NEXT: nn.reduce sum %{{.+}} dims [0] : (tensor<4099x1024xf32>)
// CHECK-NEXT: return
func.func @others(%x: tensor<8x1024xf32>, %z: tensor<512x1024xf32>, %v: tensor<4096x1024xf32>, %w: tensor<4099x1024xf32>) -> (tensor<f32>, tensor<1024xf32>, tensor<4096xf32>, tensor<1024xf32>, tensor<1024xf32>) {
  %0 = nn.reduce sum %x dims [0, 1] : (tensor<8x1024xf32>) -> tensor<f32>
  %1 = nn.reduce sum %z dims [0] : (tensor<512x1024xf32>) -> tensor<1024xf32>
  %2 = nn.reduce sum %v dims [1] : (tensor<4096x1024xf32>) -> tensor<4096xf32>
  %3 = nn.reduce max %v dims [0] : (tensor<4096x1024xf32>) -> tensor<1024xf32>
  %4 = nn.reduce sum %w dims [0] : (tensor<4099x1024xf32>) -> tensor<1024xf32>
  return %0, %1, %2, %3, %4 : tensor<f32>, tensor<1024xf32>, tensor<4096xf32>, tensor<1024xf32>, tensor<1024xf32>
}
