// RUN: sheaf-opt %s --nn-apply-precision=recipe=bf16 | FileCheck %s

// A cast that rounds by random bits, or saturates, does so in a recipe, too, and from f32.
// CHECK-LABEL: func.func @logits(
// CHECK-SAME: %[[W:.*]]: tensor<8x4xbf16> {{.*}}, %[[B:.*]]: tensor<8x4xi32>)
// CHECK: %[[F:.*]] = nn.cast %[[W]] : tensor<8x4xbf16> -> tensor<8x4xf32>
// CHECK: nn.cast %[[F]] stochastic %[[B]] : tensor<8x4xf32>, tensor<8x4xi32> -> tensor<8x4xf8E4M3FN>
// CHECK: nn.cast %[[F]] saturate : tensor<8x4xf32> -> tensor<8x4xbf16>
func.func @logits(%w: tensor<8x4xf32> {nn.param = #nn.param<"w", axes = [embed, vocab], init = normal(0.02)>},
                  %b: tensor<8x4xi32>) -> (tensor<8x4xf8E4M3FN>, tensor<8x4xbf16>) {
  %q = nn.cast %w stochastic %b : tensor<8x4xf32>, tensor<8x4xi32> -> tensor<8x4xf8E4M3FN>
  %h = nn.cast %w saturate : tensor<8x4xf32> -> tensor<8x4xbf16>
  return %q, %h : tensor<8x4xf8E4M3FN>, tensor<8x4xbf16>
}
