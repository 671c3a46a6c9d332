"""Parts that are written for one device, run on all ranks, against the whole program.

    manual.py <sheaf-opt>
"""

import itertools
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oracle"))

import partition  # noqa: E402
from interpreter import Module  # noqa: E402
from mesh import MeshModule  # noqa: E402

MESH = 'dist.mesh @mesh ["dp" = 2, "tp" = 3]\n'
# A product whose summed dimension is cut by hand; rows are padded over dp; its input comes
# sharded another way, and its result is used by ops that are not written by hand.
WHOLE = """
func.func @f(%x: tensor<5x6xf64> {SHARDING}, %w: tensor<6x4xf64>) -> tensor<5x4xf64> {
  %e = nn.tanh %x : tensor<5x6xf64>
  %p = nn.einsum "mk,kn->mn"(%e, %w) : (tensor<5x6xf64>, tensor<6x4xf64>) -> tensor<5x4xf64>
  %y = nn.add %p, %p : tensor<5x4xf64>
  return %y : tensor<5x4xf64>
}
"""
PRODUCT = '  %p = nn.einsum "mk,kn->mn"(%e, %w)'
MANUAL = """  %p = dist.manual %e, %w in [#dist.sharding<[{"dp"}, {"tp"}]>, #dist.sharding<[{"tp"}, {}]>] out [#dist.sharding<[{"dp"}, {}]>] {
  ^bb0(%a: tensor<3x2xf64>, %b: tensor<2x4xf64>):
    %0 = nn.einsum "mk,kn->mn"(%a, %b) : (tensor<3x2xf64>, tensor<2x4xf64>) -> tensor<3x4xf64, #dist.partial<["tp"], sum>>
    %1 = dist.all_reduce sum %0 axes ["tp"] : (tensor<3x4xf64, #dist.partial<["tp"], sum>>) -> tensor<3x4xf64>
    dist.yield %1 : tensor<3x4xf64>
  }"""
# Rows as the input has them, columns as the second factor does.
OPEN = """  %p = dist.manual %e, %w in [#dist.sharding<[{?}, {"tp"}]>, #dist.sharding<[{"tp"}, {?}]>] out [#dist.sharding<[{?}, {?}]>] {
  ^bb0(%a: tensor<5x2xf64>, %b: tensor<2x4xf64>):
    %0 = nn.einsum "mk,kn->mn"(%a, %b) : (tensor<5x2xf64>, tensor<2x4xf64>) -> tensor<5x4xf64, #dist.partial<["tp"], sum>>
    %1 = dist.all_reduce sum %0 axes ["tp"] : (tensor<5x4xf64, #dist.partial<["tp"], sum>>) -> tensor<5x4xf64>
    dist.yield %1 : tensor<5x4xf64>
  }"""
SHARDINGS = ["[{}, {}]", '[{"tp"}, {"dp"}]', '[{"dp"}, {"tp"}]', '[{"dp", "tp"}, {}]']


def main():
    tool, failures = sys.argv[1], 0
    random = np.random.default_rng(3)
    inputs = [random.standard_normal((5, 6)), random.standard_normal((6, 4))]
    plain = WHOLE.replace(" {SHARDING}", "")
    whole = Module(partition.run(tool, "--mlir-print-op-generic", stdin=plain))
    expected = whole.call("f", inputs)
    for manual, sharding in itertools.product((MANUAL, OPEN), SHARDINGS):
        text = WHOLE.replace("SHARDING", f"dist.sharding = #dist.sharding<{sharding}>")
        text = text.replace(PRODUCT, manual)
        local = MeshModule(partition.run(
            tool, "--mlir-print-op-generic",
            "--pass-pipeline=builtin.module(dist-propagate,dist-partition,canonicalize,"
            "dist-verify)", stdin=MESH + text))
        found = local.call_global("f", inputs, [np.asarray(x).shape for x in expected])
        if not all(np.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(found, expected)):
            failures += 1
            print(f"FAILED with {sharding}: {found} instead of {expected}\n{manual}")
    print(f"{2 * len(SHARDINGS)} shardings, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
