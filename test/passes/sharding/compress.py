"""What dist-compress sends, by sheaf-run against the same rounding in NumPy, bit by bit.

    compress.py <folder of the built programs>

Functions in which each rank has a gradient of its own, which is summed for all of them or
for each its part, and functions that gather a weight. Every rank gives its own copy of the
result: all must be equal, and be what NumPy gets. The error must be what the format explains.
"""

import os
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../oracle"))

import partition  # noqa: E402
import safetensors  # noqa: E402

BLOCK = 128
F32 = np.float32


def to_bf16(x):
    bits = x.view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, bits.view(F32))


def to_e4m3(x):
    """Nearest number of E4M3, ties to even; at most 448."""
    _, exponent = np.frexp(x)
    step = np.exp2(np.maximum(exponent - 1, -6) - 3).astype(F32)
    return np.clip(np.rint(x / step) * step, -448, 448).astype(F32)


def rounded(row, wire):
    """What comes out of one row of numbers that is sent."""
    if wire == "f32":
        return row
    if wire == "bf16":
        return to_bf16(row)
    blocks = -(-len(row) // BLOCK)
    size = -(-len(row) // blocks)
    x = np.zeros(blocks * size, F32)
    x[:len(row)] = row
    x = x.reshape(blocks, size)
    factors = np.abs(x).max(1, keepdims=True) / F32(127 if wire == "int8" else 448)
    factors[factors < np.finfo(F32).tiny] = 1
    scaled = x / factors
    scaled = to_e4m3(scaled) if wire == "fp8" else np.rint(scaled)
    # A NaN is not sent in int8, its factor is.
    scaled = np.where(np.isnan(factors) | np.isinf(factors), np.nan, scaled)
    return (scaled * factors).reshape(-1)[:len(row)].astype(F32)


def chosen(wire, numbers):
    """How rows of so many numbers are sent: as they are, if that is not more bytes."""
    blocks = -(-numbers // BLOCK)
    size = -(-numbers // blocks)
    return "f32" if wire in ("int8", "fp8") and blocks * (size + 4) >= 4 * numbers else wire


def summed(rows):
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def all_reduced(x, wire):
    """x: [ranks, ...]; the sum that every rank gets."""
    ranks = len(x)
    flat = x.reshape(ranks, -1)
    part = -(-flat.shape[1] // ranks)
    wire = chosen(wire, part)
    padded = np.zeros((ranks, ranks * part), F32)
    padded[:, :flat.shape[1]] = flat
    owned = [summed([rounded(row, wire) for row in padded[:, i * part:(i + 1) * part]])
             for i in range(ranks)]
    return np.concatenate([rounded(row, wire) for row in owned])[:flat.shape[1]].reshape(x.shape[1:])


def reduce_scattered(x, wire, dim):
    """The parts of all ranks along a dimension, put together."""
    ranks, size = len(x), x.shape[dim + 1]
    part = -(-size // ranks)
    padding = [(0, 0)] * x.ndim
    padding[dim + 1] = (0, part * ranks - size)
    x = np.pad(x, padding)
    wire = chosen(wire, x[0].size // ranks)
    parts = []
    for i in range(ranks):
        mine = np.take(x, range(i * part, (i + 1) * part), dim + 1)
        parts.append(summed([rounded(rows.reshape(-1), wire) for rows in mine])
                     .reshape(mine.shape[1:]))
    return np.take(np.concatenate(parts, dim), range(size), dim)


def gathered(x, wire, dim, ranks):
    size = x.shape[dim]
    part = -(-size // ranks)
    padding = [(0, 0)] * x.ndim
    padding[dim] = (0, part * ranks - size)
    pieces = []
    x = np.pad(x, padding)
    wire = chosen(wire, x.size // ranks)
    for piece in np.split(x, ranks, dim):
        pieces.append(rounded(piece.reshape(-1), wire).reshape(piece.shape))
    return np.take(np.concatenate(pieces, dim), range(size), dim)


def text_of(shape):
    return "x".join(map(str, shape)) + "xf32"


def sharded(rank, dim, axes):
    dims = ", ".join("{" + axes * (i == dim) + "}" for i in range(rank))
    return f"{{dist.sharding = #dist.sharding<[{dims}]>}}"


def scattered(name, shape, ranks, axes, dim):
    """x: [ranks, *shape], a gradient of each rank; for each a part of the sum."""
    many, one = text_of([ranks, *shape]), text_of(shape)
    return "\n".join([
        f"func.func @{name}(%x: tensor<{many}> {sharded(len(shape) + 1, 0, axes)}) -> "
        f"(tensor<{one}> {sharded(len(shape), dim, axes)}) {{",
        f'  %g = nn.reduce sum %x dims [0] {{nn.role = "weight_gradient"}} : '
        f"(tensor<{many}>) -> tensor<{one}>",
        f"  return %g : tensor<{one}>", "}"])


def reduced(name, shape, axes):
    """The program of a device: its own gradient, and its copy of the sum of all."""
    own, one = text_of([1, *shape]), text_of(shape)
    partial = f"tensor<{one}, #dist.partial<[{axes}], sum>>"
    return "\n".join([
        f"func.func @{name}(%x: tensor<{own}> {sharded(len(shape) + 1, 0, axes)}) -> "
        f"(tensor<{own}> {sharded(len(shape) + 1, 0, axes)}) {{",
        f"  %v = nn.reshape %x : tensor<{own}> -> tensor<{one}>",
        f"  %p = dist.local %v : (tensor<{one}>) -> {partial}",
        f'  %g = dist.all_reduce sum %p axes [{axes}] {{nn.role = "weight_gradient"}} : '
        f"({partial}) -> tensor<{one}>",
        f"  %y = nn.reshape %g : tensor<{one}> -> tensor<{own}>",
        f"  return %y : tensor<{own}>", "}"])


def weight(name, shape, ranks, axes, dim):
    """A weight in shards; each rank's copy of all of it."""
    many, one = text_of([ranks, *shape]), text_of(shape)
    names = ", ".join(["_"] * len(shape))
    param = f'nn.param = #nn.param<"{name}.w", axes = [{names}], init = constant(0)>'
    return "\n".join([
        f"func.func @{name}(%w: tensor<{one}> {sharded(len(shape), dim, axes)[:-1]}, {param}}}) -> "
        f"(tensor<{many}> {sharded(len(shape) + 1, 0, axes)}) {{",
        f"  %a = dist.constraint %w <[{', '.join(['{}'] * len(shape))}]> : tensor<{one}>",
        f"  %y = nn.broadcast %a dims {list(range(1, len(shape) + 1))} : "
        f"tensor<{one}> -> tensor<{many}>",
        f"  return %y : tensor<{many}>", "}"])


MESHES = [("dp=2", '"dp"', 2), ("dp=2,cp=2", '"dp", "cp"', 4)]
# Shapes, and the dimension of whose parts each rank gets one (None: the whole sum).
SHAPES = [((1000,), None), ((7, 50), None), ((3,), None), ((1000,), 0), ((6, 130, 4), 1), ((33, 9), 0)]
# How far a sum of two or four may be off, as a share of it: what the rounding of each number
# gives, spread evenly, and twice for sums that are rounded again.
MOST = {"f32": 1e-6, "bf16": 0.004, "int8": 0.015, "fp8": 0.06}


def values(shape, random):
    """Of all sizes; some blocks zero, some too small to be divided by, and large ones."""
    x = random.normal(0, 1, shape) * np.exp2(random.integers(-3, 3, shape[:1]).reshape(
        [-1] + [1] * (len(shape) - 1)))
    return x.astype(F32)


def run(bin_dir, text, names, inputs, options):
    """Results by name, of a module or of the program of a device."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f")
        partition.run(f"{bin_dir}/sheaf-compile", "-", "-o", path + ".sheaf", *options, stdin=text)
        safetensors.write(path + ".in", inputs)
        partition.run(f"{bin_dir}/sheaf-run", path + ".sheaf", "--call=" + ",".join(names),
                      f"--inputs={path}.in", f"--outputs={path}.out", "--threads=1")
        return safetensors.read(path + ".out")


def main():
    bin_dir, failures, ran = sys.argv[1], 0, 0
    random = np.random.default_rng(1)
    for mesh, axes, ranks in MESHES:
        sizes = ", ".join('"{}" = {} network'.format(*axis.split("=")) for axis in mesh.split(","))
        head = f"dist.mesh @mesh [{sizes}]\n"
        functions, expected = ({}, {}), {}
        inputs = ({}, {})
        for i, (shape, dim) in enumerate(SHAPES):
            name = f"g{i}"
            x = values((ranks, *shape), random)
            kind = int(dim is None)
            if i == 0:  # A block of zeros, one of what is too small, a NaN, an infinity.
                x[:, :200] = 0
                x[:, 200:250] = 1e-39
                x[1, 700] = np.nan
                x[0, 990] = np.inf
            inputs[kind][f"input:{name}.arg0"] = x
            if dim is None:
                functions[1][name] = reduced(name, shape, axes)
                expected[name] = lambda wire, x=x: np.stack([all_reduced(x, wire)] * len(x))
                continue
            functions[0][name] = scattered(name, shape, ranks, axes, dim)
            expected[name] = lambda wire, x=x, dim=dim: reduce_scattered(x, wire, dim)
            name = f"w{i}"
            functions[0][name] = weight(name, shape, ranks, axes, dim)
            w = inputs[0][f"parameter:{name}.w"] = values(shape, random)
            expected[name] = lambda wire, w=w, dim=dim: np.stack(
                [gathered(w, wire, dim, ranks)] * ranks)
        exact = None
        for wire in ("f32", "bf16", "int8", "fp8"):
            results = run(bin_dir, head + "\n".join(functions[0].values()), functions[0], inputs[0],
                          ["--zero=3", f"--gradient-wire={wire}", f"--weight-wire={wire}"])
            device = partition.run(
                f"{bin_dir}/sheaf-opt", f"--dist-compress=gradients={wire}", stdin=(
                    "module attributes {sheaf.device} {" + head + "\n".join(functions[1].values())
                    + "}"))
            results.update(run(bin_dir, device, functions[1], inputs[1], []))
            if exact is None:
                exact = results
            for name, wanted in expected.items():
                ran += 1
                with np.errstate(all="ignore"):
                    wanted = wanted(wire)
                    found = results[f"output:{name}.out0"]
                    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
                    true = exact[f"output:{name}.out0"].astype(float)
                    finite = np.isfinite(wanted) & np.isfinite(true)
                    off = np.linalg.norm((found - true)[finite]) / np.linalg.norm(true[finite])
                lost = np.isnan(true) & ~np.isnan(found) | np.isinf(true) & np.isfinite(found)
                if not same.all() or off > MOST[wire] or lost.any() or (
                        off == 0 and wire != "f32" and found.size > 50):
                    failures += 1
                    print(f"FAILED {mesh}, {wire}, @{name}: {np.sum(~same)} of {same.size} differ, "
                          f"off by {off:.1e}, {lost.sum()} lost")
                elif "-v" in sys.argv:
                    print(f"{mesh}, {wire}, @{name}: off by {off:.1e}")
    print(f"{ran} functions, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
