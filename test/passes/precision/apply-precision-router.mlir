// RUN: sheaf-opt %s --nn-apply-precision=recipe=bf16 | FileCheck %s

// The scores of a router are not rounded, nor are its weights; rows are.
// CHECK-LABEL: func.func @logits
// CHECK: %[[S:.*]] = nn.einsum "bse,xe->bsx"(%{{.*}}) : (tensor<1x4x8xbf16>, tensor<2x8xbf16>) -> tensor<1x4x2xf32>
// CHECK: nn.route softmax %[[S]] k 1 : (tensor<1x4x2xf32>) -> (tensor<1x4x1xf32>, tensor<1x4x1xi32>)
// CHECK: nn.dispatch %{{.*}} : (tensor<1x4x8xbf16>
// CHECK: nn.grouped_matmul %{{.*}} : (tensor<1x4x8xbf16>, tensor<2x8x8xbf16>, tensor<1x3xi32>) -> tensor<1x4x8xbf16>
// CHECK: nn.combine %{{.*}} : (tensor<1x4x8xbf16>, tensor<1x4xi32>, tensor<1x4x1xi32>, tensor<1x4x1xf32>) -> tensor<1x4x8xbf16>
func.func @logits(%gate: tensor<2x8xf32> {nn.param = #nn.param<"gate", axes = [_, embed], init = normal(0.02)>},
                  %up: tensor<2x8x8xf32> {nn.param = #nn.param<"up", axes = [expert, embed, mlp], init = normal(0.02)>},
                  %table: tensor<4x8xf32> {nn.param = #nn.param<"table", axes = [vocab, embed], init = normal(0.02)>},
                  %ids: tensor<1x4xi32>, %x: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %n = nn.silu %x : tensor<1x4x8xf32>
  %s = nn.einsum "bse,xe->bsx"(%n, %gate) : (tensor<1x4x8xf32>, tensor<2x8xf32>) -> tensor<1x4x2xf32>
  %w, %e = nn.route softmax %s k 1 : (tensor<1x4x2xf32>) -> (tensor<1x4x1xf32>, tensor<1x4x1xi32>)
  %order, %position, %offsets = nn.expert_sort %e of 2 : (tensor<1x4x1xi32>) -> (tensor<1x4xi32>, tensor<1x4x1xi32>, tensor<1x3xi32>)
  %r = nn.embedding %table[%ids] : (tensor<4x8xf32>, tensor<1x4xi32>) -> tensor<1x4x8xf32>
  %rows = nn.dispatch %r, %order, %position : (tensor<1x4x8xf32>, tensor<1x4xi32>, tensor<1x4x1xi32>) -> tensor<1x4x8xf32>
  %y = nn.grouped_matmul %rows, %up, %offsets : (tensor<1x4x8xf32>, tensor<2x8x8xf32>, tensor<1x3xi32>) -> tensor<1x4x8xf32>
  %z = nn.combine %y, %order, %position weights %w
    : (tensor<1x4x8xf32>, tensor<1x4xi32>, tensor<1x4x1xi32>, tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
  return %z : tensor<1x4x8xf32>
}
