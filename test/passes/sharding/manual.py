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
# What a body may hold, and borders of other kinds: a mesh, the program with and without
# dist.manual; both have the same inputs.
HEAD = "func.func @f(%x: tensor<{0}xf64>{1}, %y: tensor<{2}xf64>{3}) -> tensor<{2}xf64> {{"
CASES = {
    # A loop with a collective in it.
    "loop": ('dist.mesh @mesh ["dp" = 2, "tp" = 2]', ("8x4", '[{"dp"}, {}]', "4", "[{}]"), """
  %m = dist.manual %x, %y in [#dist.sharding<[{"tp"}, {?}]>, #dist.sharding<[{?}]>] out [#dist.sharding<[{?}]>] {
  ^bb0(%a: tensor<4x4xf64>, %b: tensor<4xf64>):
    %r = nn.microbatches 2 slices(%a : tensor<4x4xf64>) inits(%b : tensor<4xf64>) -> tensor<4xf64> {
    ^bb0(%i: tensor<i32>, %s: tensor<2x4xf64>, %sum: tensor<4xf64>):
      %p = nn.reduce sum %s dims [0] : (tensor<2x4xf64>) -> tensor<4xf64, #dist.partial<["tp"], sum>>
      %q = dist.all_reduce sum %p axes ["tp"] : (tensor<4xf64, #dist.partial<["tp"], sum>>) -> tensor<4xf64>
      %n = nn.add %sum, %q : tensor<4xf64>
      nn.yield %n : tensor<4xf64>
    }
    dist.yield %r : tensor<4xf64>
  } : (tensor<8x4xf64>, tensor<4xf64>) -> tensor<4xf64>
  return %m : tensor<4xf64>
}""", """
  %s = nn.reduce sum %x dims [0] : (tensor<8x4xf64>) -> tensor<4xf64>
  %m = nn.add %s, %y : tensor<4xf64>
  return %m : tensor<4xf64>
}"""),
    # Padding of what is open would stand between the parts of the border.
    "padding": ('dist.mesh @mesh ["dp" = 2, "tp" = 2]', ("5", '[{"dp"}]', "10", "[{}]"), """
  %m = dist.manual %x, %y in [#dist.sharding<[{?}]>, #dist.sharding<[{"tp", ?}]>] out [#dist.sharding<[{"tp", ?}]>] {
  ^bb0(%a: tensor<5xf64>, %b: tensor<5xf64>):
    %0 = nn.add %a, %b : tensor<5xf64>
    dist.yield %0 : tensor<5xf64>
  } : (tensor<5xf64>, tensor<10xf64>) -> tensor<10xf64>
  return %m : tensor<10xf64>
}""", """
  %c = nn.concatenate %x, %x dim 0 : (tensor<5xf64>, tensor<5xf64>) -> tensor<10xf64>
  %m = nn.add %c, %y : tensor<10xf64>
  return %m : tensor<10xf64>
}"""),
    # Sub-axes that nothing outside names: at a closed border, and in a body.
    "sub-axes": ('dist.mesh @mesh ["dp" = 4]', ("8", '[{"dp"}]', "8", "[{}]"), """
  %m = dist.manual %x, %y in [#dist.sharding<[{"dp":(2)2}]>, #dist.sharding<[{?}]>] out [#dist.sharding<[{?}]>] {
  ^bb0(%a: tensor<4xf64>, %b: tensor<8xf64>):
    %g = dist.all_gather %a dim 0 axes ["dp":(2)2] : (tensor<4xf64>) -> tensor<8xf64>
    %0 = nn.add %g, %b : tensor<8xf64>
    dist.yield %0 : tensor<8xf64>
  } : (tensor<8xf64>, tensor<8xf64>) -> tensor<8xf64>
  return %m : tensor<8xf64>
}""", """
  %m = nn.add %x, %y : tensor<8xf64>
  return %m : tensor<8xf64>
}"""),
}
SHARDINGS = ["[{}, {}]", '[{"tp"}, {"dp"}]', '[{"dp"}, {"tp"}]', '[{"dp", "tp"}, {}]']


def run_cases(tool, random):
    """The names of those of CASES that do not give what the whole program gives."""
    failed = []
    for name, (mesh, (x, of_x, y, of_y), manual, plain) in CASES.items():
        inputs = [random.standard_normal([int(n) for n in shape.split("x")]) for shape in (x, y)]

        def attribute(sharding):
            return f" {{dist.sharding = #dist.sharding<{sharding}>}}"
        whole = Module(partition.run(tool, "--mlir-print-op-generic",
                                     stdin=HEAD.format(x, "", y, "") + plain))
        local = MeshModule(partition.run(
            tool, "--mlir-print-op-generic",
            "--pass-pipeline=builtin.module(dist-propagate,dist-partition,canonicalize,"
            "dist-verify)",
            stdin=f"{mesh}\n{HEAD.format(x, attribute(of_x), y, attribute(of_y))}{manual}"))
        expected = whole.call("f", inputs)
        try:
            found = local.call_global("f", inputs, [np.asarray(x).shape for x in expected])
            if not np.allclose(found[0], expected[0], rtol=1e-12, atol=1e-12):
                raise ValueError(f"{found} instead of {expected}")
        except ValueError as error:
            failed.append(name)
            print(f"FAILED {name}: {error}")
    return failed


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
    failures += len(run_cases(tool, random))
    print(f"{2 * len(SHARDINGS)} shardings, {len(CASES)} cases, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
