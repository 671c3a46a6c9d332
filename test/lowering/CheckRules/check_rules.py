"""Writes functions with ops of nn, each at least once, for dist-check-rules: those of the
oracle's cases, and what they lack."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oracle"))

import op_cases  # noqa: E402

MORE = """
func.func @more_step_sum(%x: tensor<4x6xi1>) -> tensor<f64> {
  %y = nn.step_sum %x : tensor<4x6xi1> -> tensor<f64>
  return %y : tensor<f64>
}
func.func @more_integers(%x: tensor<4x6xi32>) -> tensor<4xi32> {
  %y = nn.reduce max %x dims [1] : (tensor<4x6xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}
func.func @more_quantize(%x: tensor<4x16xf32>) -> (tensor<4x16xf8E4M3FN>, tensor<4x2xf32>, tensor<4x16xf8E5M2>, tensor<2x4xf8E8M0FNU>, tensor<4x16xf8E4M3FN>, tensor<1x1xf32>) {
  %q0, %f0 = nn.quantize %x to f8E4M3FN blocks [1, 8] scale exact : (tensor<4x16xf32>) -> (tensor<4x16xf8E4M3FN>, tensor<4x2xf32>)
  %q1, %f1 = nn.quantize %x to f8E5M2 blocks [2, 4] scale e8m0 : (tensor<4x16xf32>) -> (tensor<4x16xf8E5M2>, tensor<2x4xf8E8M0FNU>)
  %q2, %f2 = nn.quantize %x to f8E4M3FN blocks [0, 0] scale power_of_two : (tensor<4x16xf32>) -> (tensor<4x16xf8E4M3FN>, tensor<1x1xf32>)
  return %q0, %f0, %q1, %f1, %q2, %f2 : tensor<4x16xf8E4M3FN>, tensor<4x2xf32>, tensor<4x16xf8E5M2>, tensor<2x4xf8E8M0FNU>, tensor<4x16xf8E4M3FN>, tensor<1x1xf32>
}
func.func @more_dequantize(%q: tensor<4x16xf8E4M3FN>, %f: tensor<4x2xf32>, %g: tensor<4x1xf32>, %h: tensor<2x6xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {
  %0 = nn.dequantize %q, %f blocks [1, 8] : (tensor<4x16xf8E4M3FN>, tensor<4x2xf32>) -> tensor<4x16xf32>
  %1 = nn.dequantize %q, %g blocks [1, 0] : (tensor<4x16xf8E4M3FN>, tensor<4x1xf32>) -> tensor<4x16xf32>
  %2 = nn.dequantize %q, %h blocks [2, 3] : (tensor<4x16xf8E4M3FN>, tensor<2x6xf32>) -> tensor<4x16xf32>
  return %0, %1, %2 : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>
}
func.func @more_scaled_einsum(%a: tensor<4x16xf8E4M3FN>, %b: tensor<6x16xf8E5M2>, %s: tensor<4x4xf32>, %t: tensor<2x4xf32>,
    %u: tensor<4x1xf32>, %v: tensor<1x1xf32>, %c: tensor<3x4x8xf8E4M3FN>, %d: tensor<3x6x8xf8E4M3FN>, %w: tensor<3x4x2xf32>, %x: tensor<3x6x2xf32>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x4x6xf32>) {
  %0 = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 4], [3, 4] : (tensor<4x16xf8E4M3FN>, tensor<6x16xf8E5M2>, tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<4x6xf32>
  %1 = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%u, %v) blocks [1, 0], [0, 0] : (tensor<4x16xf8E4M3FN>, tensor<6x16xf8E5M2>, tensor<4x1xf32>, tensor<1x1xf32>) -> tensor<4x6xf32>
  %2 = nn.scaled_einsum "emk,enk->emn"(%c, %d) scales(%w, %x) blocks [1, 1, 4], [1, 1, 4] : (tensor<3x4x8xf8E4M3FN>, tensor<3x6x8xf8E4M3FN>, tensor<3x4x2xf32>, tensor<3x6x2xf32>) -> tensor<3x4x6xf32>
  return %0, %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x4x6xf32>
}
func.func @more_casts(%x: tensor<4x6xf32>, %b: tensor<4x6xi32>) -> (tensor<4x6xf8E4M3FN>, tensor<4x6xbf16>, tensor<4x6xf16>) {
  %0 = nn.cast %x stochastic %b : tensor<4x6xf32>, tensor<4x6xi32> -> tensor<4x6xf8E4M3FN>
  %1 = nn.cast %x stochastic %b saturate : tensor<4x6xf32>, tensor<4x6xi32> -> tensor<4x6xbf16>
  %2 = nn.cast %x saturate : tensor<4x6xf32> -> tensor<4x6xf16>
  return %0, %1, %2 : tensor<4x6xf8E4M3FN>, tensor<4x6xbf16>, tensor<4x6xf16>
}
"""

for case in op_cases.cases():
    if not case.name.endswith("_f32"):
        print(case.text)
print(MORE)
