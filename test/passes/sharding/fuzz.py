"""Every op under random shardings of its operands and results, on all ranks.

    fuzz.py <sheaf-opt>

The functions of the oracle's cases get random shardings on a mesh of 2 x 3 devices, where
few sizes divide: sub-axes, blocks, padding, both axes on one dimension. Propagated,
partitioned and run on all ranks, with NaN for padding, each must give what it gives on one
device. SHEAF_FULL=1 runs more rounds.
"""

import os
import random
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oracle"))

import op_cases  # noqa: E402
import partition  # noqa: E402
from interpreter import Module, Type  # noqa: E402
from mesh import MeshModule  # noqa: E402

MESH = {"a": 4, "b": 3}
AXES = [['"a"'], ['"b"'], ['"a"', '"b"'], ['"b"', '"a"'], ['"a":(1)2'], ['"a":(2)2', '"b"']]


def sharding(shape, chance):
    """The text of a random sharding; half of all dimensions have none."""
    dims, used = [], set()
    for size in shape:
        axes = chance.choice(AXES) if chance.random() < 0.5 else []
        names = {axis.partition(":")[0] for axis in axes}
        if size == 1 or names & used:
            axes = []
        else:
            used |= names
        blocks = [n for n in (2, 3) if size % n == 0 and size > n]
        text = "{" + ", ".join(axes) + "}"
        if axes and blocks and chance.random() < 0.2:
            text += f" blocks {chance.choice(blocks)}"
        dims.append(text)
    return f"{{dist.sharding = #dist.sharding<[{', '.join(dims)}]>}}"


def annotate(text, chance):
    """Shardings on the arguments and results of the first function."""
    head, arguments, results, rest = re.match(
        r"(?s)(func\.func @\w+)\((.*?)\) -> \((.*?)\)( \{.*)", text).groups()

    def mark(match):
        return match[0] + " " + sharding(Type(match[0]).shape, chance)
    kind = r"tensor<[^<>]*>"
    return (f"{head}({re.sub(kind, mark, arguments)}) -> ({re.sub(kind, mark, results)}){rest}")


def main():
    tool, failures, runs, sent = sys.argv[1], 0, 0, 0
    rounds = 12 if os.environ.get("SHEAF_FULL") else 2
    # Those of one function, and small.
    cases = [case for case in op_cases.cases()
             if case.text.count("func.func") == 1 and not case.name.endswith("_f32")
             and sum(np.asarray(x).size for x in case.inputs) < 3000]
    for number in range(rounds):
        chance = random.Random(number)
        text = "\n".join(case.text for case in cases)
        whole = Module(partition.run(tool, "--mlir-print-op-generic", stdin=text))
        reduce = ("cheapest", "late", "early")[number % 3]
        local = MeshModule(partition.run(
            tool, "--mlir-print-op-generic",
            f"--pass-pipeline=builtin.module(dist-propagate,dist-partition{{reduce={reduce}}},"
            "canonicalize,dist-optimize,dist-verify)", stdin='dist.mesh @mesh ["a" = 4, "b" = 3]\n' +
            "\n".join(annotate(case.text, chance) for case in cases)))
        for case in cases:
            runs += 1
            _, types = partition.function_types(whole, case.name)
            try:
                expected = whole.call(case.name, case.inputs)
                found = local.call_global(case.name, case.inputs, [t.shape for t in types])
                for i, (a, b) in enumerate(zip(found, expected, strict=True)):
                    if not np.allclose(a, b, rtol=1e-9, atol=1e-11, equal_nan=True):
                        raise ValueError(f"result {i} is {a}, expected {b}")
            except ValueError as error:
                failures += 1
                where = local.functions[case.name].attributes
                print(f"FAILED round {number}, {case.name}: {str(error)[:600]}\n  "
                      f"{where.get('arg_attrs')} -> {where.get('res_attrs')}\n  {case.text}")
        sent += sum(local.collectives.values())
    print(f"{runs} functions, {sent} collectives, {failures} failures")
    return 1 if failures or not sent else 0


if __name__ == "__main__":
    sys.exit(main())
