"""Runs the program of one device on all devices of a mesh, in NumPy.

Every rank executes each op in turn on its own arrays; collectives are NumPy operations
on the arrays of all ranks. `MeshModule(text).call_global("f", arguments)` cuts whole
arguments as the shardings of @f's arguments say, runs, and puts the results together;
what several ranks hold of a result must be equal. `collectives` counts what was sent:
{(kind, axes, elements of the whole tensor, element type): times}, scalars included.
`RankModule(text, mesh_module)` runs what dist-to-nn made of the same program.
"""

import collections
import functools
import math
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from interpreter import Module, Reader, Type, integers, number, split  # noqa: E402

AXIS = re.compile(r'"([^"]*)"(?::\((\d+)\)(\d+))?')


class Mesh:
    """Axes with sizes; ranks count along the last axis first."""

    def __init__(self, axes):
        self.axes = axes  # {name: size}, the outermost first
        self.ranks = int(np.prod(list(axes.values()), dtype=int))

    def coordinate(self, rank, axis):
        """The number of a rank along a (sub-)axis (name, outer, size), and its size."""
        name, outer, size = axis
        inner = 1
        for other in reversed(self.axes):
            if other == name:
                break
            inner *= self.axes[other]
        whole = self.axes[name]
        place = rank // inner % whole
        size = size or whole
        return place // (whole // (outer * size)) % size, size

    def index(self, rank, axes):
        """The number along several axes, the first outermost, and the devices."""
        index, count = 0, 1
        for axis in axes:
            place, size = self.coordinate(rank, axis)
            index, count = index * size + place, count * size
        return index, count

    def together(self, axes):
        """Axes that use each place of `axes` once; parts that touch are one."""
        parts = []
        for name in dict.fromkeys(axis[0] for axis in axes):
            ranges = sorted((outer, outer * (size or self.axes[name]))
                            for other, outer, size in axes if other == name)
            joined = ranges[:1]
            for low, high in ranges[1:]:
                last = joined[-1]
                if low <= last[1]:
                    joined[-1] = (math.gcd(low, last[0]), math.lcm(high, last[1]))
                else:
                    joined.append((low, high))
            for low, high in joined:
                whole = high // low == self.axes[name]
                parts.append((name, 1, 0) if whole else (name, low, high // low))
        return parts

    def group(self, rank, axes):
        """The ranks that differ from `rank` along `axes` only, in their order."""
        def rest(other):
            # The places along every atom of the mesh but those of `axes`.
            places = []
            for name, whole in self.axes.items():
                cuts = {1, whole}
                for axis in axes:
                    if axis[0] == name:
                        cuts |= {axis[1], axis[1] * (axis[2] or whole)}
                cuts = sorted(cuts)
                for low, high in zip(cuts, cuts[1:]):
                    inside = any(a[0] == name and a[1] <= low
                                 and high <= a[1] * (a[2] or whole) for a in axes)
                    if not inside:
                        places.append(self.coordinate(other, (name, low, high // low))[0])
            return places
        mine = rest(rank)
        members = [other for other in range(self.ranks) if rest(other) == mine]
        return sorted(members, key=lambda other: self.index(other, axes)[0])


def axes_of(text):
    return [(name, int(outer or 1), int(size or 0)) for name, outer, size in AXIS.findall(text)]


class Sharding:
    """`#dist.sharding<[{"dp"}, {"tp"} blocks 3]>`: axes and blocks of each dimension."""

    def __init__(self, text):
        inside = re.fullmatch(r"(?:#dist\.sharding)?<(.*)>", text.strip(), re.S)[1]
        dims = split(split(inside)[0][1:-1])
        self.dims = []
        for dim in dims:
            axes, _, rest = dim.partition("}")
            blocks = re.search(r"blocks (\d+)", rest)
            self.dims.append((axes_of(axes), int(blocks[1]) if blocks else 1))


def chunk(array, dim, index, count, fill=0):
    """Part `index` of `count` along a dimension, `fill` behind the end."""
    size = -(-array.shape[dim] // count)
    begin = index * size
    part = np.take(array, range(min(begin, array.shape[dim]),
                                min(begin + size, array.shape[dim])), dim)
    padding = [(0, 0)] * array.ndim
    padding[dim] = (0, size - part.shape[dim])
    return np.pad(part, padding, constant_values=fill)


def shard(array, sharding, mesh, rank, fill=0):
    for dim, (axes, blocks) in enumerate(sharding.dims):
        index, count = mesh.index(rank, axes)
        if count == 1:
            continue
        shape = array.shape
        cut = array.reshape(shape[:dim] + (blocks, shape[dim] // blocks) + shape[dim + 1:])
        cut = chunk(cut, dim + 1, index, count, fill)
        array = cut.reshape(shape[:dim] + (-1,) + shape[dim + 1:])
    return array


def unshard(parts, sharding, mesh, shape):
    """The whole array; ranks that hold the same part must agree."""
    whole = np.zeros(shape, parts[0].dtype)
    where = np.arange(whole.size).reshape(shape) + 1
    seen = np.zeros(whole.size, bool)
    flat = whole.reshape(-1)
    for rank, part in enumerate(parts):
        places = shard(where, sharding, mesh, rank)
        if places.shape != part.shape:
            raise ValueError(f"a part has shape {part.shape}, expected {places.shape}")
        valid = places > 0
        at, values = places[valid] - 1, part[valid]
        again = seen[at]
        if not np.allclose(flat[at][again], values[again], rtol=1e-12, atol=1e-300,
                           equal_nan=True):
            raise ValueError("ranks hold different values of one element")
        flat[at] = values
        seen[at] = True
    if not seen.all():
        raise ValueError("elements that no rank holds")
    return whole


COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}
NEUTRAL = {"sum": 0.0, "max": -np.inf, "min": np.inf}


def reduction(op):
    text = op.attributes["reduction" if op.name.startswith("exec.") else "kind"]
    return re.search(r"(sum|max|min)", text)[1]


class MeshModule(Module):
    def __init__(self, text):
        super().__init__(text)
        module = Reader(text).op()
        meshes = [op for op in module.regions[0].ops if op.name == "dist.mesh"]
        axes = re.findall(r'#dist\.mesh_axis<"([^"]*)" = (\d+)', meshes[0].attributes["axes"])
        self.mesh = Mesh({name: int(size) for name, size in axes})
        self.collectives = collections.Counter()

    def shardings(self, name, kind):
        """The sharding of each argument or result of @name."""
        attributes = self.functions[name].attributes.get(kind, "[]")
        found = []
        for entry in split(attributes[1:-1]):
            match = re.search(r"dist\.sharding = (#dist\.sharding<.*?\]>)", entry)
            found.append(Sharding(match[1]) if match else None)
        return found

    def call_global(self, name, arguments, shapes):
        """Whole results of @name on whole arguments; `shapes` are those of results."""
        cut = []
        for value, sharding in zip(arguments, self.shardings(name, "arg_attrs"), strict=True):
            value = np.asarray(value)
            if np.issubdtype(value.dtype, np.floating):
                value = value.astype(np.float64)
            # Padding may hold anything.
            fill = np.nan if value.dtype == np.float64 else 0
            cut.append([shard(value, sharding, self.mesh, rank, fill) if sharding else value
                        for rank in range(self.mesh.ranks)])
        results = self.call(name, cut)
        return [unshard(parts, sharding, self.mesh, shape) for parts, sharding, shape in
                zip(results, self.shardings(name, "res_attrs"), shapes, strict=True)]

    def call(self, name, arguments):
        block = self.functions[name].regions[0]
        return self.run(block, dict(zip(block.arguments, arguments, strict=True)))

    def run(self, block, values):
        ranks = range(self.mesh.ranks)
        for op in block.ops:
            x = [values[name] for name in op.operands]
            if op.name in ("func.return", "nn.yield"):
                return x
            if op.name == "func.call":
                results = self.call(op.attributes["callee"].lstrip("@"), x)
            elif op.name == "nn.microbatches":
                results = self.loop(op, x, values)
            elif op.name.startswith("dist.") or op.name == "exec.transfer":
                results = [getattr(self, op.name.replace(".", "_"))(op, x)]
            else:
                with np.errstate(all="ignore"):
                    each = [self.execute(op, [v[rank] for v in x], None) for rank in ranks]
                results = [list(parts) for parts in zip(*each, strict=True)]
            for name, parts, text in zip(op.results, results, op.result_types, strict=True):
                type = Type(text)
                for part in parts:
                    if np.shape(part) != type.shape:
                        raise ValueError(f"{op}: shape {np.shape(part)}, expected {type.shape}")
                values[name] = [np.asarray(part) for part in parts]
        raise ValueError("a block without a terminator")

    def loop(self, op, x, values):
        segments = integers(op.attributes["operandSegmentSizes"].replace("i32", "i64"))
        count = number(op.attributes["count"])
        sliced, state = x[:segments[0]], x[segments[0]:]
        block = op.regions[0]
        for k in range(count):
            parts = [[part.reshape((count, part.shape[0] // count) + part.shape[1:])[k]
                      for part in value] for value in sliced]
            inner = dict(values)
            here = [np.asarray(k, np.int32)] * self.mesh.ranks
            inner.update(zip(block.arguments, [here, *parts, *state], strict=True))
            state = self.run(block, inner)
        return state

    # --- Collectives ----------------------------------------------------------

    def note(self, op, kind, axes):
        shapes = [Type(op.operand_types[0]), Type(op.result_types[0])]
        elements = max(int(np.prod(type.shape, dtype=int)) for type in shapes)
        names = tuple(name if not size else f"{name}:({outer}){size}"
                      for name, outer, size in axes)
        if self.mesh.index(0, axes)[1] > 1:
            self.collectives[kind, names, elements, shapes[0].element,
                             len(shapes[0].shape)] += 1

    def members(self, op, kind):
        axes = axes_of(op.attributes["axes"])
        if kind:
            self.note(op, kind, axes)
        return axes, [self.mesh.group(rank, axes) for rank in range(self.mesh.ranks)]

    def reduced(self, op, x, kind):
        axes, groups = self.members(op, kind)
        combine = COMBINE[reduction(op)]
        results = []
        for group in groups:
            value = x[0][group[0]]
            for other in group[1:]:
                value = combine(value, x[0][other])
            results.append(value)
        return axes, results

    def dist_all_gather(self, op, x):
        _, groups = self.members(op, "all-gather")
        dim = number(op.attributes["dim"])
        size = Type(op.result_types[0]).shape[dim]
        return [np.take(np.concatenate([x[0][r] for r in group], dim), range(size), dim)
                for group in groups]

    def dist_reduce_scatter(self, op, x):
        axes, values = self.reduced(op, x, "reduce-scatter")
        dim = number(op.attributes["dim"])
        return [chunk(value, dim, *self.mesh.index(rank, axes))
                for rank, value in enumerate(values)]

    def dist_all_reduce(self, op, x):
        return self.reduced(op, x, "all-reduce")[1]

    def dist_all_to_all(self, op, x):
        axes, groups = self.members(op, "all-to-all")
        cut, join = number(op.attributes["split"]), number(op.attributes["concat"])
        size = Type(op.result_types[0]).shape[join]
        results = []
        for rank, group in enumerate(groups):
            index, count = self.mesh.index(rank, axes)
            parts = [chunk(x[0][r], cut, index, count) for r in group]
            results.append(np.take(np.concatenate(parts, join), range(size), join))
        return results

    def dist_permute(self, op, x):
        before, after = Sharding(op.attributes["from"]), Sharding(op.attributes["to"])
        moved = []
        for old, new in zip(before.dims, after.dims):
            if old != new:
                moved += old[0] + new[0]
        moved = self.mesh.together(moved)
        self.note(op, "permute", moved)

        def places(sharding, rank):
            return [self.mesh.index(rank, axes)[0] for axes, _ in sharding.dims]
        results = []
        for rank in range(self.mesh.ranks):
            sources = [r for r in self.mesh.group(rank, moved)
                       if places(before, r) == places(after, rank)]
            results.append(x[0][sources[0]])
        return results

    def dist_shift(self, op, x):
        axes, groups = self.members(op, "permute")
        by = number(op.attributes["by"])
        return [x[0][group[(self.mesh.index(rank, axes)[0] - by) % len(group)]]
                for rank, group in enumerate(groups)]

    def dist_broadcast(self, op, x):
        _, groups = self.members(op, "broadcast")
        root = number(op.attributes["root"])
        return [x[0][group[root]] for group in groups]

    def dist_slice(self, op, x):
        axes = axes_of(op.attributes["axes"])
        # Zeros behind the end, or anything.
        fill = np.nan if "dist.any_padding" in op.attributes and x[0][0].dtype == np.float64 else 0
        return [chunk(x[0][rank], number(op.attributes["dim"]), *self.mesh.index(rank, axes), fill)
                for rank in range(self.mesh.ranks)]

    def dist_make_partial(self, op, x):
        axes = axes_of(op.attributes["axes"])
        neutral = NEUTRAL[reduction(op)]
        return [x[0][rank] if self.mesh.index(rank, axes)[0] == 0
                else np.full_like(x[0][rank], neutral) for rank in range(self.mesh.ranks)]

    def dist_local(self, op, x):
        return x[0]

    def dist_axis_index(self, op, x):
        axes = axes_of(op.attributes["axes"])
        return [np.asarray(self.mesh.index(rank, axes)[0], np.int32)
                for rank in range(self.mesh.ranks)]


class RankModule(MeshModule):
    """The program of a rank, behind dist-to-nn: groups are sizes and strides of ranks."""

    def __init__(self, text, local):
        Module.__init__(self, text)
        self.mesh, self.local = local.mesh, local
        self.collectives = collections.Counter()

    def shardings(self, name, kind):
        return self.local.shardings(name, kind)

    def call_global(self, name, arguments, shapes):
        if "exec.coordinates" in self.functions[name].attributes.get("arg_attrs", ""):
            places = [np.asarray([self.mesh.coordinate(rank, (axis, 1, 0))[0]
                                  for axis in self.mesh.axes], np.int32)
                      for rank in range(self.mesh.ranks)]
            self.coordinates = [places]
        else:
            self.coordinates = []
        return super().call_global(name, arguments, shapes)

    def call(self, name, arguments):
        arguments, self.coordinates = list(arguments) + self.coordinates, []
        return super().call(name, arguments)

    def execute(self, op, operands, values):
        if op.name.startswith("exec."):
            raise ValueError(f"{op} is not of one rank")
        return super().execute(op, operands, values)

    def exec_transfer(self, op, x):
        sizes = integers(op.attributes["sizes"])
        strides = integers(op.attributes["strides"])
        steps = list(zip(sizes, strides, strict=True))
        kind = re.search(r"transfer (\w+)|<(\w+)>", op.attributes["kind"])
        kind = kind[1] or kind[2]
        cut, join = (number(op.attributes.get(name, "1")) for name in ("cut", "join"))
        shape = Type(op.result_types[0]).shape
        results = []
        for rank in range(self.mesh.ranks):
            base, mine = rank, 0
            for size, stride in steps:
                place = rank // stride % size
                base, mine = base - place * stride, mine * size + place
            group = [base]
            for size, stride in steps:
                group = [member + i * stride for member in group for i in range(size)]
            if len(set(group)) != len(group) or group[mine] != rank:
                raise ValueError(f"{op}: sizes {sizes} and strides {strides} overlap")
            inputs = [x[0][member] for member in group]

            def joined(parts):
                return np.concatenate([part.reshape(join, -1) for part in parts], 1)
            if kind in ("all_reduce", "reduce_scatter"):
                value = functools.reduce(COMBINE[reduction(op)], inputs)
                if kind == "reduce_scatter":
                    value = value.reshape(cut, len(group), -1)[:, mine]
            elif kind == "all_gather":
                value = joined(inputs)
            elif kind == "all_to_all":
                value = joined([part.reshape(cut, len(group), -1)[:, mine] for part in inputs])
            elif kind == "permute":
                targets = integers(op.attributes["targets"])
                if len(targets) != len(group):
                    raise ValueError(f"{op}: {len(targets)} targets for {len(group)} ranks")
                sources = [i for i, target in enumerate(targets) if target == mine]
                value = inputs[sources[0]] if sources else np.zeros_like(inputs[mine])
            else:
                value = inputs[number(op.attributes["root"])]
            results.append(value.reshape(shape))
        return results
