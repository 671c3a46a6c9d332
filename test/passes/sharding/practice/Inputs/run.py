"""Functions with shardings, on all ranks and on one device.

    run.py <folder of the built programs> <file>

Partitions and optimizes the file, runs every public function on random arguments, whole and
on the mesh, with NaN for padding, and fails where a result differs or where dist-explain
lists other collectives than the ranks sent. Prints of each function what was sent, as
"kind axes elements of the whole tensor", and the elements of its largest local tensor.
Lines of the file set the arguments: `// IDS: 16` has integers from -1 to 15, `// SCALE: 1e4`
has numbers of that size.
"""

import collections
import json
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../oracle"))

import partition  # noqa: E402
from interpreter import Module, Type  # noqa: E402
from mesh import MeshModule  # noqa: E402

PASSES = ("dist-propagate,dist-partition,symbol-dce,canonicalize,cse,dist-optimize,"
          "canonicalize,dist-verify")


class Whole(Module):
    """One device: a constraint changes nothing."""

    def execute(self, op, operands, values):
        return operands if op.name == "dist.constraint" else super().execute(op, operands, values)


def largest(module, block):
    found = 0
    for op in block.ops:
        for text in op.result_types:
            found = max(found, int(np.prod(Type(text).shape, dtype=int)))
        for region in op.regions:
            found = max(found, largest(module, region))
        if op.name == "func.call":
            callee = module.functions[op.attributes["callee"].lstrip("@")]
            found = max(found, largest(module, callee.regions[0]))
    return found


def explained(tool, path, name):
    found = collections.Counter()
    for entry in json.loads(partition.run(
            tool, "-o", os.devnull, f"--pass-pipeline=builtin.module({PASSES},"
            f"dist-explain{{function={name}}})", path)):
        found[entry["kind"], tuple(entry["axes"]), entry["elements"], entry["dtype"]] += \
            entry["count"]
    return found


def main():
    bin_dir, path = sys.argv[1:]
    tool = f"{bin_dir}/sheaf-opt"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    ids = int((re.search(r"// IDS: (\d+)", text) or [0, 4])[1])
    scale = float((re.search(r"// SCALE: (\S+)", text) or [0, 1])[1])
    whole = Whole(partition.run(tool, "--mlir-print-op-generic", path))
    local = MeshModule(partition.run(tool, "--mlir-print-op-generic",
                                     f"--pass-pipeline=builtin.module({PASSES})", path))
    random = np.random.default_rng(1)
    for name, function in whole.functions.items():
        if "private" in function.attributes.get("sym_visibility", ""):
            continue
        types, results = partition.function_types(whole, name)
        arguments = []
        for type in types:
            if type.element == "i1":
                arguments.append(random.random(type.shape) < 0.5)
            elif type.element == "i32":
                arguments.append(random.integers(-1, ids, type.shape).astype(np.int32))
            else:
                # Numbers that every float type has.
                value = np.round(random.normal(0, 8, type.shape)) / 8
                arguments.append(value * scale)
        local.collectives.clear()
        expected = whole.call(name, arguments)
        found = local.call_global(name, arguments, [type.shape for type in results])
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            # Constants are f32; the loss is a difference of large numbers.
            size = np.abs(b[np.isfinite(b)]).max(initial=0)
            if not np.allclose(a, b, rtol=1e-9, atol=1e-11 + 1e-7 * size * (scale > 1)):
                raise ValueError(f"@{name}: result {i} is {a}, expected {b}")
        sent = collections.Counter()
        for (kind, axes, elements, element, _), count in local.collectives.items():
            sent[kind, axes, elements, element] += count
        listed = explained(tool, path, name)
        if sent != listed:
            raise ValueError(f"@{name}: sent {sent}, listed {listed}")
        lines = [f"{kind} {'+'.join(axes)} {elements} {element}" + (f" x{count}" if count > 1 else "")
                 for (kind, axes, elements, element), count in sorted(sent.items())]
        block = local.functions[name].regions[0]
        print(f"@{name}: {', '.join(lines) or 'nothing'}; largest {largest(local, block)}")


if __name__ == "__main__":
    main()
