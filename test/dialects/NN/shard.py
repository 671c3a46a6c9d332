"""Checks sharding rules by brute force: ops run whole and in shards, and compared.

    shard.py <sheaf-opt>

For every op of the oracle's cases, each factor that needs no communication is cut in
the smallest number of shards that divides it; each shard is run as an op of its own on
the local shapes, and the results are put together as the rule says: beside each other
where a result has the factor, combined by its reduction where it lacks it. Linear and
monotone operands are checked in the same way, a partial value for the operand. Ops run
as execute.py interprets their decomposition.
"""

import collections
import re
import sys

import numpy as np

import execute
import op_cases

RULE = re.compile(r"remark: (no )?rule: (.*)")
FACTOR = re.compile(r"(\w+)=(\d+)(?: (sum|max|min|whole|halo\([^)]*\)))?(?: via (\w+))?")
OP = re.compile(r'(?:%\w+(?::\d+)? = )?"(nn\.\w+)"\(([^)]*)\)(?: <\{(.*?)\}>)? : \((.*?)\) -> (.*)$')
# What an expansion changes in the op of a shard, where that is no communication.
OFFSETS = {"masked_gather": 1}

Op = collections.namedtuple("Op", "name properties operands results rule text")
Rule = collections.namedtuple("Rule", "operands results factors linearity linear monotone")
COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def parse_rule(text):
    left, _, rest = text.partition("->")
    right, _, rest = rest.partition("{")
    listed, _, rest = rest.partition("}")

    def values(part):
        return [[dim.split() for dim in re.findall(r"\[([^\]]*)\]", value)]
                for value in part.split(",") if value.strip()]

    def operands(pattern):
        found = re.search(pattern + r"\(([\d, ]*)\)", rest)
        return [int(n) for n in found[1].split(",")] if found else []

    factors = {name: (int(size), kind or None, via or None)
               for name, size, kind, via in FACTOR.findall(listed)}
    linearity = re.search(r"linear (\w+)", rest)
    return Rule(values(left), values(right), factors, linearity and linearity[1],
                operands(r"linear \w+"), operands("monotone"))


def collect(tool, cases):
    """The distinct ops of the cases, with their rules."""
    module = "\n".join(case.text for case in cases
                       if "nn.microbatches" not in case.text and "call" not in case.text)
    generic = execute.lower(tool, module, [])
    generic.check_returncode()
    lines = [line for line in generic.stdout.splitlines() if '"nn.' in line]
    rules = RULE.findall(execute.lower(tool, generic.stdout, ["--nn-print-rules"]).stderr)
    ops = {}
    for line, (missing, text) in zip(lines, rules, strict=True):
        name, _, properties, operands, results = OP.match(line.strip()).groups()
        if missing:
            raise ValueError(f"{name} has no rule")
        ops[name, properties, operands, results] = Op(
            name, properties, execute.split(operands), execute.split(results.strip("()")),
            parse_rule(text), text)
    return list(ops.values())


def sizes(shape, dims, factors, name=None, count=1):
    """The sizes of each dimension's factors, that of `name` divided by `count`."""
    # A window that communication shifts has another size in each value.
    return [[extent if len(dim) == 1 and factors[f][2] == "shifted_window"
             else factors[f][0] // (count if f == name else 1) for f in dim]
            for extent, dim in zip(shape, dims, strict=True)]


def flat(lists):
    return [n for inner in lists for n in inner]


def products(lists):
    return [int(np.prod(inner)) for inner in lists]


def pieces(value, dims, factors, name, count):
    """`value` cut along a factor; None if it lacks it."""
    if name not in flat(dims):
        return None
    whole = flat(sizes(value.shape, dims, factors))
    local = products(sizes(value.shape, dims, factors, name, count))
    axis = flat(dims).index(name)
    return [part.reshape(local) for part in np.split(value.reshape(whole), count, axis)]


def joined(parts, dims, factors, name, count, shape):
    """The inverse of `pieces`, of a value of `shape`."""
    local = flat(sizes(shape, dims, factors, name, count))
    axis = flat(dims).index(name)
    return np.concatenate([part.reshape(local) for part in parts], axis).reshape(shape)


class Batch:
    """Ops to run, all in one module."""

    def __init__(self):
        self.texts, self.inputs, self.functions = [], [], None

    def add(self, op, inputs, results):
        index = len(self.texts)
        types = [type_like(kind, value.shape) for kind, value in zip(op.operands, inputs)]
        properties = op.properties
        if op.name == "nn.slice":
            sizes = ", ".join(re.findall(r"(\d+)x", results[0]))
            properties = re.sub(r"sizes = array<[^>]*>", f"sizes = array<i64: {sizes}>",
                                properties)
        names = [f"%a{i}" for i in range(len(inputs))]
        arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types))
        listed = ", ".join(results)
        returned = ", ".join(f"%r#{i}" for i in range(len(results)))
        self.texts.append(
            f"func.func @f{index}({arguments}) -> ({listed}) {{\n"
            f"  %r:{len(results)} = \"{op.name}\"({', '.join(names)})"
            f"{' <{' + properties + '}>' if properties else ''} : ({', '.join(types)}) -> "
            f"({listed})\n  return {returned} : {listed}\n}}\n")
        self.inputs.append(inputs)
        return index

    def run(self, tool):
        done = execute.lower(tool, "".join(self.texts), ["--nn-decompose"])
        if done.returncode:
            raise ValueError(done.stderr[:2000])
        self.functions = execute.parse(done.stdout)

    def result(self, index):
        with np.errstate(all="ignore"):
            return execute.run(self.functions, f"f{index}", self.inputs[index])


def sample(op, random):
    """Operands of an op: away from kinks, and in its domain."""
    values = []
    for i, kind in enumerate(op.operands):
        shape, element = execute.parse_type(kind)
        if element == "i1":
            value = random.integers(0, 2, shape).astype(bool)
        elif element == "i32":
            value = random.integers(-1, 7, shape).astype(np.int32)
        else:
            value = random.uniform(0.3, 2.0, shape)
            if op.name not in ("nn.log", "nn.sqrt", "nn.rsqrt", "nn.pow", "nn.adamw"):
                value = value * random.choice([-1.0, 1.0], shape)
            value = execute.round_to(value, element)
        values.append(np.asarray(value))
    return values


def type_like(kind, value):
    element = execute.parse_type(kind)[1]
    return "tensor<" + "".join(f"{n}x" for n in value) + element + ">"


def main():
    tool = sys.argv[1]
    random = np.random.default_rng(1)
    cases = [case for case in op_cases.cases() if not case.name.endswith("_f32")
             and "long" not in case.name and "large" not in case.name]
    ops = collect(tool, cases)
    batch, checks, skipped = Batch(), [], collections.Counter()

    for op in ops:
        rule, factors = op.rule, op.rule.factors
        if not op.operands:
            continue
        inputs = sample(op, random)
        whole = batch.add(op, inputs, op.results)
        for name, (size, kind, via) in factors.items():
            if kind == "whole" or via and via not in OFFSETS and via != "global_mean":
                skipped[via or "whole"] += 1
                continue
            count = next(n for n in range(2, size + 1) if size % n == 0)
            shards = []
            for shard in range(count):
                local = []
                for i, (value, dims) in enumerate(zip(inputs, rule.operands, strict=True)):
                    cut = pieces(value, dims, factors, name, count)
                    value = value if cut is None else cut[shard]
                    if via in OFFSETS and i == OFFSETS[via]:
                        value = value - np.int32(shard * (size // count))
                    local.append(value)
                results = [type_like(t, products(sizes(execute.parse_type(t)[0], dims, factors,
                                                       name, count)))
                           for t, dims in zip(op.results, rule.results, strict=True)]
                shards.append(batch.add(op, local, results))
            checks.append(("factor " + name, op, whole, shards, name, count, kind, via))

        def partial(title, chosen, combine):
            """The op on two parts of some operands, combined behind it."""
            first, second = list(inputs), list(inputs)
            both = list(inputs)
            for i in chosen:
                first[i] = inputs[i]
                second[i] = sample(op, random)[i]
                both[i] = combine(first[i], second[i])
            runs = [batch.add(op, part, op.results) for part in (first, second)]
            checks.append((title, op, batch.add(op, both, op.results), runs, None, 2, combine,
                           None))

        floats = [i for i in rule.linear if inputs[i].dtype == np.float64]
        if floats and rule.linearity == "joint" and len(floats) == len(rule.linear):
            partial("joint linearity", floats, np.add)
        elif rule.linearity == "separate":
            for i in floats:
                partial(f"linearity in {i}", [i], np.add)
        kinds = {kind for _, kind, _ in factors.values() if kind in COMBINE}
        for i in rule.monotone:
            if inputs[i].dtype != np.float64:
                continue
            for word in ("max", "min"):
                if kinds <= {word}:
                    partial(f"{word} of operand {i}", [i], COMBINE[word])

    batch.run(tool)
    failures = 0
    for title, op, whole, shards, name, count, kind, via in checks:
        expected = batch.result(whole)
        parts = [batch.result(shard) for shard in shards]
        problem = None
        for i, value in enumerate(expected):
            local = [part[i] for part in parts]
            if name is None:
                got = kind(*local)
            elif any(name in dim for dim in op.rule.results[i]):
                got = joined(local, op.rule.results[i], op.rule.factors, name, count,
                             value.shape)
            elif kind in COMBINE:
                got = local[0]
                for part in local[1:]:
                    got = COMBINE[kind](got, part)
                if via == "global_mean":
                    got = got / count
            else:
                got = local[0]
                if any(execute.differ([part], [got], 0) for part in local):
                    problem = f"result {i} lacks the factor and differs between shards"
            problem = problem or execute.differ([got], [value], 1e-12)
        if problem:
            failures += 1
            print(f"FAILED {op.name}, {title}: {problem}\n  {op.text}\n  "
                  f"{', '.join(op.operands)}")
    print(f"{len(ops)} ops, {len(checks)} checks, {failures} failures; "
          + ", ".join(f"{n} {via}" for via, n in sorted(skipped.items())) + " not run")
    return 1 if failures or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
