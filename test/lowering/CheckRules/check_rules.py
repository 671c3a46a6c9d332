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
"""

for case in op_cases.cases():
    if not case.name.endswith("_f32"):
        print(case.text)
print(MORE)
