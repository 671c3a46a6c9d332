// RUN: sheaf-opt %s --nn-widen-products | FileCheck %s

// CHECK-LABEL: func.func @product
// CHECK: %[[A:.*]] = nn.cast %arg0 {nn.role = "forward"} : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK: %[[B:.*]] = nn.cast %arg1 {nn.role = "forward"} : tensor<8x2xbf16> -> tensor<8x2xf32>
// CHECK: %[[C:.*]] = nn.einsum "ij,jk->ik"(%[[A]], %[[B]]) {nn.role = "forward"} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
// CHECK: %[[R:.*]] = nn.cast %[[C]] {nn.role = "forward"} : tensor<4x2xf32> -> tensor<4x2xbf16>
// CHECK: return %[[R]]
func.func @product(%a: tensor<4x8xbf16>, %b: tensor<8x2xbf16>) -> tensor<4x2xbf16> {
  %c = nn.einsum "ij,jk->ik"(%a, %b) {nn.role = "forward"} : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xbf16>
  return %c : tensor<4x2xbf16>
}

// What is f32 stays.
// CHECK-LABEL: func.func @gradient
// CHECK-COUNT-2: nn.cast {{.*}} -> tensor<{{.*}}xf32>
// CHECK: nn.einsum {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT: return
func.func @gradient(%a: tensor<8x4xf16>, %b: tensor<8x2xf16>) -> tensor<4x2xf32> {
  %c = nn.einsum "ji,jk->ik"(%a, %b) : (tensor<8x4xf16>, tensor<8x2xf16>) -> tensor<4x2xf32>
  return %c : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @attention
// CHECK: nn.attention %{{.*}} causal : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
// CHECK: nn.cast %{{.*}} : tensor<1x4x2x8xf32> -> tensor<1x4x2x8xbf16>
func.func @attention(%q: tensor<1x4x2x8xbf16>) -> (tensor<1x4x2x8xbf16>, tensor<1x4x2xf32>) {
  %y, %lse = nn.attention %q, %q, %q causal
    : (tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>) -> (tensor<1x4x2x8xbf16>, tensor<1x4x2xf32>)
  return %y, %lse : tensor<1x4x2x8xbf16>, tensor<1x4x2xf32>
}

// CHECK-LABEL: func.func @wide
// CHECK-NOT: nn.cast
func.func @wide(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %c = nn.einsum "ij,jk->ik"(%a, %b) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %c : tensor<4x2xf32>
}
