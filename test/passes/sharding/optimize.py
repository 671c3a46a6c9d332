"""What dist-optimize makes of local programs, run on all ranks before and after.

    optimize.py <sheaf-opt> <file>

Every function of the file gets random arguments, other ones on each rank, and must give the
same on every rank, optimized with and without buckets. Prints what was sent,
counted as the bytes of the whole tensors.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oracle"))

import partition  # noqa: E402
from mesh import MeshModule  # noqa: E402

BYTES = {"f32": 4, "bf16": 2}


def main():
    tool, path = sys.argv[1:]
    modules = [MeshModule(partition.run(tool, "--mlir-print-op-generic", *options, path))
               for options in ([], ["--dist-optimize"], ["--dist-optimize=bucket-bytes=96"])]
    random = np.random.default_rng(1)
    for name in modules[0].functions:
        types, _ = partition.function_types(modules[0], name)
        # What is cast is a number of the narrow type.
        arguments = [[np.round(random.normal(0, 8, type.shape)) for _ in
                      range(modules[0].mesh.ranks)] for type in types]
        sent, times, results = [], [], []
        for module in modules:
            module.collectives.clear()
            results.append(module.call(name, arguments))
            sent.append(sum(elements * BYTES[element] * count for
                            (_, _, elements, element, _), count in module.collectives.items()))
            times.append(sum(module.collectives.values()))
        for other in results[1:]:
            for i, (a, b) in enumerate(zip(results[0], other, strict=True)):
                if not all((p == q).all() for p, q in zip(a, b, strict=True)):
                    raise ValueError(f"@{name}: result {i} is {b}, expected {a}")
        print(f"{name}: {sent[0]} bytes, then {sent[1]}, in {times[1]} and {times[2]}")


if __name__ == "__main__":
    main()
