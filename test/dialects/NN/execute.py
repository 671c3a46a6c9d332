"""Executes nn by its op descriptions and compares pass pipelines with NumPy.

    execute.py <sheaf-opt> [--cases=a,b,...]

An interpreter of the simple ops, in NumPy. Each case of test/oracle/op_cases.py is run
after `--nn-decompose` (which checks the decompositions) and after canonicalisation
before and behind it (which checks the folds), and compared with the case's own
reference. Composites are also run in bf16 and f16, to a tolerance of theirs.
"""

import os
import re
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "oracle"))

import op_cases  # noqa: E402
import philox  # noqa: E402
import safetensors  # noqa: E402

DTYPES = {"f64": np.float64, "f32": np.float32, "bf16": np.float32, "f16": np.float16,
          "i32": np.int32, "i8": np.int8, "i1": np.bool_}


def round_to(value, element):
    """NumPy has no bf16: it is kept in f32, rounded."""
    value = np.asarray(value).astype(DTYPES[element])
    if element == "bf16":
        value = safetensors.bf16_to_f32(safetensors.f32_to_bf16(value)).reshape(value.shape)
    return value


def parse_type(text):
    parts = re.fullmatch(r"tensor<((?:\d+x)*)(\w+)>", text.strip())
    return tuple(int(n) for n in parts[1].split("x")[:-1]), parts[2]


def split(text, separator=","):
    """At the separators outside brackets and strings."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{<":
            depth += 1
        elif c in ")]}" or c == ">" and text[i - 1] != "-":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def number(text, element):
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("0x"):
        raw = int(text, 16)
        if element in ("f64", "f32", "f16"):
            kind = {"f64": np.uint64, "f32": np.uint32, "f16": np.uint16}[element]
            return np.array(raw, kind).view(DTYPES[element])[()]
        if element == "bf16":
            return np.array(raw << 16, np.uint32).view(np.float32)[()]
        return raw
    return float(text) if "." in text or "e" in text else int(text)


def parse_dense(text):
    body, kind = re.fullmatch(r"dense<(.*)> : (tensor<.*>)", text).groups()
    shape, element = parse_type(kind)
    if body.startswith('"0x'):
        raw = bytes.fromhex(body[3:-1])
        return np.frombuffer(raw, DTYPES[element]).reshape(shape)

    def nested(part):
        if part.startswith("["):
            return [nested(inner) for inner in split(part[1:-1])]
        return number(part, element)

    return round_to(np.broadcast_to(np.array(nested(body)), shape), element)


def parse_properties(text):
    result = {}
    for part in split(text):
        name, _, value = part.partition(" = ")
        if not value:
            value = True
        elif value.startswith("array<"):
            value = [int(n) for n in re.findall(r"-?\d+", value.partition(":")[2])]
        elif value.startswith("dense<"):
            value = parse_dense(value)
        elif word := re.fullmatch(r"#nn<\w+ (\w+)>", value):
            value = word[1]
        elif value.startswith('"'):
            value = value[1:-1]
        elif typed := re.fullmatch(r"(\S+) : (\w+)", value):
            value = number(typed[1], typed[2])
        result[name] = value
    return result


OP = re.compile(r'(?:(%[\w]+)(?::(\d+))? = )?"([\w.]+)"\(([^)]*)\)(?: <\{(.*?)\}>)?( \(\{)?'
                r"(?:(?: \{.*\})? : \(.*?\) -> (.*))?$")


def parse(text):
    """Functions by name: (argument names, ops); an op is (name, results, operands,
    properties, result types, region)."""
    functions, stack = {}, []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("^bb"):
            stack[-1][5][0].extend(re.findall(r"(%\w+):", line))
            continue
        if line.startswith("})"):
            done = stack.pop()
            types = re.search(r": \(.*?\) -> (.*)$", line)[1]
            done[4].extend(split(types.strip("()")))
            if done[0] == "func.func":
                functions[done[3]["sym_name"]] = done[5]
            continue
        matched = OP.match(line)
        if not matched:
            continue
        base, count, name, operands, properties, region, types = matched.groups()
        results = [] if not base else \
            [base] if not count else [f"{base}#{i}" for i in range(int(count))]
        op = (name, results, split(operands), parse_properties(properties or ""),
              split(types.strip("()")) if types else [], ([], []))
        if name != "builtin.module":
            if stack and stack[-1][0] != "builtin.module":
                stack[-1][5][1].append(op)
        if region:
            stack.append(op)
    return functions


UNARY = {"neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "tanh": np.tanh,
         "erf": lambda x: op_cases.erf(x).astype(x.dtype).reshape(x.shape), "sqrt": np.sqrt,
         "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": op_cases.sigmoid, "sin": np.sin,
         "cos": np.cos, "not": np.logical_not}


def divide(a, b):
    if a.dtype != np.int32:
        return a / b
    wide = np.abs(a.astype(np.int64)) // np.maximum(np.abs(b.astype(np.int64)), 1)
    return np.where(b == 0, 0, np.sign(a) * np.sign(b) * wide).astype(np.int32)


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": divide,
          "max": np.maximum, "min": np.minimum, "pow": np.power, "and": np.logical_and,
          "or": np.logical_or}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
           "gt": np.greater, "ge": np.greater_equal}


def accumulator(value):
    return value.astype(np.float32) if value.dtype == np.float16 else value


def reduce(x, kind, dims, keep):
    x, options = accumulator(x), {"axis": tuple(dims), "keepdims": keep}
    if kind == "sum_of_squares":
        return np.sum(x * x, **options)
    function = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}[kind]
    return function(x, **options)


def evaluate(name, values, properties, types):
    """The results of one simple op before rounding."""
    short = name.removeprefix("nn.")
    shape = parse_type(types[0])[0] if types else ()
    element = parse_type(types[0])[1] if types else ""
    if short in UNARY:
        return UNARY[short](*values)
    if short in BINARY:
        return BINARY[short](*values)
    if short == "compare":
        return COMPARE[properties["predicate"]](*values)
    if short == "select":
        return np.where(*values)
    if short == "cast":
        x, = values
        return x != 0 if element == "i1" else x
    if short == "einsum":
        return np.einsum(properties["equation"], *[accumulator(v) for v in values])
    if short == "reduce":
        return reduce(values[0], properties["kind"], properties["dims"],
                      "keep" in properties)
    if short == "reshape":
        return values[0].reshape(shape)
    if short == "transpose":
        return values[0].transpose(properties["permutation"])
    if short == "broadcast":
        x, = values
        full = [1] * len(shape)
        for size, dim in zip(x.shape, properties["dims"]):
            full[dim] = size
        return np.broadcast_to(x.reshape(full), shape)
    if short == "slice":
        strides = properties.get("strides", [1] * values[0].ndim)
        return values[0][tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in
                               zip(properties["offsets"], properties["sizes"], strides))]
    if short == "pad":
        between = properties.get("interior", [0] * values[0].ndim)
        return op_cases.pad(values[0], properties["low"], properties["high"], between,
                            properties.get("value", 0.0))
    if short == "concatenate":
        return np.concatenate(values, properties["dim"])
    if short == "iota":
        dim = properties["dim"]
        index = np.arange(shape[dim]).reshape([-1] + [1] * (len(shape) - dim - 1))
        return np.broadcast_to(index, shape)
    if short == "constant":
        return properties["value"]
    if short == "gather":
        return op_cases.gather(*values, properties["axis"], properties.get("batch", 0))
    if short == "gather_grad":
        return op_cases.gather_grad(*values, properties["axis"], properties.get("batch", 0),
                                    shape[properties["axis"]])
    if short == "top_k":
        x, = values
        order = np.argsort(np.where(np.isnan(x), -np.inf, -x), -1,
                           kind="stable")[..., :properties["k"]]
        return np.take_along_axis(x, order, -1), order
    if short == "random":
        return philox.random(properties["distribution"], shape, *values[:2],
                             "sample_dim" in properties, *values[2:],
                             whole=properties.get("whole"))
    raise NotImplementedError(name)


def run(functions, name, arguments):
    names, ops = functions[name]
    return run_block(functions, dict(zip(names, arguments)), ops)


def run_block(functions, values, ops):
    for name, results, operands, properties, types, region in ops:
        read = [values[operand] for operand in operands]
        if name in ("func.return", "nn.yield"):
            return read
        if name == "func.call":
            written = run(functions, properties["callee"].lstrip("@"), read)
        elif name == "nn.microbatches":
            sliced, _ = properties["operandSegmentSizes"]
            written = read[sliced:]
            for k in range(properties["count"]):
                parts = [np.split(whole, properties["count"])[k] for whole in read[:sliced]]
                inner = dict(values)
                inner.update(zip(region[0], [np.array(k, np.int32), *parts, *written]))
                written = run_block(functions, inner, region[1])
        else:
            written = evaluate(name, read, properties, types)
            written = written if isinstance(written, tuple) else (written,)
            for value, kind in zip(written, types, strict=True):
                if np.shape(value) != parse_type(kind)[0]:
                    raise ValueError(f"{name} gives shape {np.shape(value)}, its type is {kind}")
            written = [round_to(value, parse_type(kind)[1])
                       for value, kind in zip(written, types, strict=True)]
        values.update(zip(results, written, strict=True))
    raise ValueError("a block without a terminator")


def differ(got, expected, tolerance):
    """How far off `got` is, relative to the largest expected number; None if it fits."""
    for index, (a, b) in enumerate(zip(got, expected, strict=True)):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if a.shape != b.shape:
            return f"result {index} has shape {a.shape}, expected {b.shape}"
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=1e-30)
        with np.errstate(invalid="ignore"):
            wrong = ~same & ~(np.abs(a - b) <= tolerance * scale)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0]) if a.ndim else ()
            return f"result {index} at {place} is {a[place]}, expected {b[place]}"
    return None


PIPELINES = {
    "decomposed": ["--nn-decompose"],
    "canonicalized": ["--canonicalize", "--nn-decompose", "--canonicalize", "--cse"],
}


def lower(tool, text, passes):
    command = [tool, *passes, "--mlir-print-op-generic", "-o", "-", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False)


def rank_kept(case):
    """Per-token statistics of attention and loss stay f32: those of one rank less."""
    if case.name.startswith(("attention", "cross_entropy")):
        return max(value.ndim for value in case.inputs if value.dtype == np.float32) - 1
    # The scalars of an update are f32 or f64.
    return 0 if case.name.startswith(("adamw", "sgd")) else None


def narrowed(case, element):
    """The case with f32 replaced by bf16 or f16."""
    kept = rank_kept(case)

    def replace(match):
        rank = match[1].count("x")
        return match[0] if rank == kept else f"tensor<{match[1]}{element}>"

    return re.sub(r"tensor<((?:\d+x)*)f32>", replace, case.text)


def main():
    tool = sys.argv[1]
    chosen = [arg.partition("=")[2].split(",") for arg in sys.argv[2:]
              if arg.startswith("--cases=")]
    cases = [case for case in op_cases.cases() if not chosen or case.name in chosen[0]]
    failures = count = 0

    def check(passes, title, runs):
        """`runs` holds (name, text, inputs, expected results, tolerance)."""
        nonlocal failures, count
        together = lower(tool, "\n".join(text for _, text, *_ in runs), passes)
        functions = None if together.returncode else parse(together.stdout)
        for name, text, inputs, expected, tolerance in runs:
            count += 1
            known, problem = functions, None
            if known is None:
                alone = lower(tool, text, passes)
                problem = alone.stderr.strip() if alone.returncode else None
                known = parse(alone.stdout)
            if not problem:
                with np.errstate(all="ignore"):
                    problem = differ(run(known, name, inputs), expected, tolerance)
            if problem:
                failures += 1
                print(f"FAILED {name}, {title}: {problem}")

    def reference(case, inputs):
        with np.errstate(all="ignore"):
            return case.reference(*inputs)

    for title, passes in PIPELINES.items():
        check(passes, title,
              [(case.name, case.text, case.inputs, reference(case, case.inputs),
                max(case.value_tolerance, 1e-12)) for case in cases])
    low = [case for case in cases
           if case.name.startswith(LOW_PRECISION) and case.name.endswith("_f32")
           and not case.name.startswith("cross_entropy_far")]
    for element, tolerance in (("bf16", 2e-2), ("f16", 3e-3)):
        runs = []
        for case in low:
            inputs = [round_to(value, element) if value.dtype == np.float32
                      and value.ndim != rank_kept(case) else value for value in case.inputs]
            wide = [value.astype(np.float32) if value.dtype == np.float16 else value
                    for value in inputs]
            runs.append((case.name, narrowed(case, element), inputs, reference(case, wide),
                         tolerance))
        if runs:
            check(PIPELINES["canonicalized"], element, runs)
    print(f"{len(cases)} cases, {count} runs, {failures} failures")
    return 1 if failures or not cases else 0


LOW_PRECISION = ("softmax", "layer_norm", "rms_norm", "rotary", "silu", "gelu", "relu",
                 "attention", "dropout", "cross_entropy", "step_mean", "adamw", "sgd")


if __name__ == "__main__":
    sys.exit(main())
