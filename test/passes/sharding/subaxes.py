"""From every sharding to every other, sub-axes included, down to ranks.

    subaxes.py <folder of the built programs>

For meshes whose axes are cut into parts: a function for each pair of shardings, of sources
that are still to be summed, too. The plan that dist-partition takes is run on all ranks in
NumPy, before dist-to-nn and behind it, and some are compiled and run by sheaf-run. A sample
of the pairs of two dimensions; SHEAF_FULL=1 takes all.
"""

import itertools
import os
import random
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../oracle"))

import partition  # noqa: E402
import safetensors  # noqa: E402
from mesh import MeshModule, RankModule  # noqa: E402

PASSES = "dist-propagate,dist-partition,canonicalize,dist-verify"
# Axes, the outermost first, and the parts that each is cut into.
MESHES = [{"dp": [2, 2]}, {"dp": [2, 2, 2]}, {"dp": [2, 3]}, {"dp": [3, 2]},
          {"dp": [2, 2], "tp": [2]}]
SHAPES = [(8,), (5,), (8, 4), (5, 7)]
FULL = bool(os.environ.get("SHEAF_FULL"))


def atoms_of(mesh):
    """The parts of all axes as text, the outermost first."""
    atoms = []
    for name, parts in mesh.items():
        outer = 1
        for size in parts:
            atoms.append(f'"{name}"' if len(parts) == 1 else f'"{name}":({outer}){size}')
            outer *= size
    return atoms


def states(atoms, rank):
    """Every way to place parts on dimensions; what is last is what a value is partial over."""
    found = [[[] for _ in range(rank + 1)]]
    for atom in atoms:
        more = []
        for state in found:
            more.append(state)
            for dim in range(rank + 1):
                # What a value is partial over has no order.
                places = range(len(state[dim]) + 1) if dim < rank else [len(state[dim])]
                for at in places:
                    new = [list(axes) for axes in state]
                    new[dim].insert(at, atom)
                    more.append(new)
        found = more
    return found


def sharding(dims):
    inside = ", ".join("{" + ", ".join(axes) + "}" for axes in dims)
    return f"{{dist.sharding = #dist.sharding<[{inside}]>}}"


def function(name, shape, source, target):
    """exp of a value, or the sum of one whose last dimension has what it is partial over."""
    *dims, partial = source
    result = "x".join(map(str, shape)) + "xf32"
    if not partial:
        return (f"func.func @{name}(%x: tensor<{result}> {sharding(dims)}) -> "
                f"(tensor<{result}> {sharding(target)}) {{\n"
                f"  %y = nn.exp %x : tensor<{result}>\n  return %y : tensor<{result}>\n}}")
    whole = "x".join(map(str, shape)) + "x8xf32"
    return (f"func.func @{name}(%x: tensor<{whole}> {sharding(source)}) -> "
            f"(tensor<{result}> {sharding(target)}) {{\n"
            f"  %y = nn.reduce sum %x dims [{len(shape)}] : (tensor<{whole}>) -> tensor<{result}>\n"
            f"  return %y : tensor<{result}>\n}}")


def pairs(mesh, chance):
    """{name: (text, shape, whether it is a sum)}"""
    found, atoms = {}, atoms_of(mesh)
    for shape in SHAPES:
        every = states(atoms, len(shape))
        all_pairs = [(a, b) for a, b in itertools.product(every, every) if not b[-1]]
        if len(shape) == 2 and not FULL:
            all_pairs = chance.sample(all_pairs, min(len(all_pairs), 150))
        for source, target in all_pairs:
            name = f"f{len(found)}"
            found[name] = (function(name, shape, source, target[:-1]), shape, bool(source[-1]))
    return found


def expected_of(x, is_sum):
    return x.sum(-1) if is_sum else np.exp(x)


def run_on_ranks(bin_dir, head, functions, inputs, names):
    """Compiled, and run by sheaf-run."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f")
        text = head + "\n".join(functions[name][0] for name in names)
        partition.run(f"{bin_dir}/sheaf-compile", "-", "-o", path + ".sheaf", stdin=text)
        safetensors.write(path + ".in", {f"input:{name}.arg0": inputs[name].astype(np.float32)
                                         for name in names})
        partition.run(f"{bin_dir}/sheaf-run", path + ".sheaf", "--call=" + ",".join(names),
                      f"--inputs={path}.in", f"--outputs={path}.out", "--threads=1")
        results = safetensors.read(path + ".out")
    return [name for name in names
            if not np.allclose(results[f"output:{name}.out0"],
                               expected_of(inputs[name], functions[name][2]), rtol=1e-5)]


def main():
    bin_dir, failures, runs, ran, permutes = sys.argv[1], 0, 0, 0, 0
    chance, numbers = random.Random(1), np.random.default_rng(1)
    for mesh in MESHES:
        sizes = {name: int(np.prod(parts)) for name, parts in mesh.items()}
        head = ("dist.mesh @mesh [" +
                ", ".join(f'"{name}" = {size}' for name, size in sizes.items()) + "]\n")
        functions = pairs(mesh, chance)
        text = head + "\n".join(entry[0] for entry in functions.values())

        def lowered(passes):
            return partition.run(f"{bin_dir}/sheaf-opt", "--mlir-print-op-generic",
                                 f"--pass-pipeline=builtin.module({passes})", stdin=text)
        local = MeshModule(lowered(PASSES))
        ranks = RankModule(lowered(PASSES + ",dist-to-nn"), local)
        inputs, moving = {}, []
        for name, (source, shape, is_sum) in functions.items():
            runs += 1
            x = inputs[name] = np.round(numbers.normal(0, 8, shape + (8,) * is_sum)) / 8
            for module, what in ((local, "dist"), (ranks, "ranks")):
                local.collectives.clear()
                try:
                    found, = module.call_global(name, [x], [shape])
                    if not np.allclose(found, expected_of(x, is_sum), rtol=1e-12):
                        raise ValueError(f"{found} is not {expected_of(x, is_sum)}")
                except ValueError as error:
                    failures += 1
                    print(f"FAILED {what}, {head}{source}\n{error}")
                if any(key[0] == "permute" for key in local.collectives):
                    moving.append(name)
        permutes += len(moving)
        # Shards that change hands are what is built of groups here; some of the others.
        names = chance.sample(moving, min(len(moving), 12))
        names += chance.sample([name for name in functions if name not in names], 4)
        bad = run_on_ranks(bin_dir, head, functions, inputs, names)
        ran += len(names)
        failures += len(bad)
        for name in bad:
            print(f"FAILED sheaf-run, {head}{functions[name][0]}")
    print(f"{runs} pairs, {permutes} with permutes, {ran} run by sheaf-run, {failures} failures")
    return 1 if failures or not permutes else 0


if __name__ == "__main__":
    sys.exit(main())
