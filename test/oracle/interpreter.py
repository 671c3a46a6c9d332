"""Runs nn IR in NumPy: an independent reference for what a program means.

    python3 test/oracle/interpreter.py module.mlir function inputs.npz outputs.npz

Reads the generic form that `sheaf-opt --mlir-print-op-generic` prints. Every float,
whatever its type, is computed in f64, but a cast to f16 or bf16 rounds; composite ops are computed by their definition and
not by the compiler's decomposition. Arguments are `arg0`, `arg1`, ... in the input file,
results `out0`, `out1`, ... in the output file.

As a module: `Module(text).call("f", arguments)`.
"""

import os
import re
import struct
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import philox  # noqa: E402

# --- Reading ----------------------------------------------------------------

OPEN, CLOSE = "([{<", ")]}>"
NAME = re.compile(r"[A-Za-z_][\w.$-]*")
VALUE = re.compile(r"%[\w$.-]+(#\d+)?")


class Type:
    """A tensor type: shape and the name of the element type."""

    def __init__(self, text):
        match = re.fullmatch(r"tensor<((?:\d+x)*)([A-Za-z]\w*)(?:,.*)?>", text.strip())
        if not match:
            raise ValueError(f"expected a static tensor type, found '{text}'")
        self.shape = tuple(int(n) for n in match[1].split("x")[:-1])
        self.element = match[2]

    @property
    def dtype(self):
        if self.element.startswith(("f", "bf")):
            return np.float64
        return {"i1": np.bool_, "i8": np.int8, "i32": np.int32}[self.element]


class Op:
    def __init__(self, name):
        self.name, self.operands, self.results = name, [], []
        self.attributes, self.regions = {}, []
        self.operand_types, self.result_types = [], []

    def __repr__(self):
        return f"{', '.join(self.results)} = {self.name}({', '.join(self.operands)})"


class Block:
    def __init__(self):
        self.arguments, self.ops = [], []


def split(text):
    """The parts of a list, cut at commas outside of brackets and strings."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        c = text[i]
        if c == '"':
            i = string_end(text, i) - 1
        elif text.startswith("->", i):
            i += 1
        elif c in OPEN:
            depth += 1
        elif c in CLOSE:
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
        i += 1
    last = text[start:].strip()
    return parts + [last] if last else parts


def string_end(text, start):
    end = start + 1
    while text[end] != '"':
        end += 2 if text[end] == "\\" else 1
    return end + 1


class Reader:
    def __init__(self, text):
        # Locations and comments are of no use here.
        self.text = re.sub(r"^\s*//[^\n]*", "", text, flags=re.M)
        self.at = 0

    def space(self):
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self, what):
        self.space()
        return self.text.startswith(what, self.at)

    def take(self, what):
        if not self.peek(what):
            raise ValueError(f"expected '{what}' at: {self.text[self.at:self.at + 80]!r}")
        self.at += len(what)

    def maybe(self, what):
        found = self.peek(what)
        self.at += len(what) if found else 0
        return found

    def match(self, pattern):
        self.space()
        match = pattern.match(self.text, self.at)
        if not match:
            raise ValueError(f"unexpected text: {self.text[self.at:self.at + 80]!r}")
        self.at = match.end()
        return match[0]

    def balanced(self):
        """From an opening bracket to its end, without the brackets."""
        self.space()
        start, depth, i = self.at, 0, self.at
        while True:
            c = self.text[i]
            if c == '"':
                i = string_end(self.text, i)
                continue
            if self.text.startswith("->", i):
                i += 2
                continue
            depth += (c in OPEN) - (c in CLOSE)
            i += 1
            if depth == 0:
                break
        self.at = i
        return self.text[start + 1:i - 1]

    def string(self):
        self.space()
        end = string_end(self.text, self.at)
        value = self.text[self.at + 1:end - 1]
        self.at = end
        return value

    def type(self):
        self.space()
        match = re.compile(r"tensor<[^>]*>").match(self.text, self.at)
        if not match:
            raise ValueError(f"expected a type: {self.text[self.at:self.at + 80]!r}")
        self.at = match.end()
        return Type(match[0])

    def dictionary(self, text):
        result = {}
        for entry in split(text):
            name, equals, value = entry.partition("=")
            result[name.strip().strip('"')] = value.strip() if equals else True
        return result

    def op(self):
        results = []
        if self.peek("%"):
            while True:
                name = self.match(VALUE)
                if self.maybe(":"):
                    count = int(self.match(re.compile(r"\d+")))
                    results += [f"{name}#{i}" for i in range(count)]
                else:
                    results.append(name)
                if not self.maybe(","):
                    break
            self.take("=")
        op = Op(self.string())
        op.results = results
        op.operands = split(self.balanced())
        if self.peek("<{"):
            self.at += 1
            op.attributes.update(self.dictionary(self.balanced()))
            self.take(">")
        if self.maybe("("):
            while True:
                op.regions.append(self.region())
                if not self.maybe(","):
                    break
            self.take(")")
        if self.peek("{"):
            op.attributes.update(self.dictionary(self.balanced()))
        self.take(":")
        op.operand_types = split(self.balanced())
        self.take("->")
        if self.peek("("):
            op.result_types = split(self.balanced())
        else:
            op.result_types = [self.type_text()]
        return op

    def type_text(self):
        self.space()
        start = self.at
        self.at = re.compile(r"[\w.!]+").match(self.text, self.at).end()
        if self.text[self.at] == "<":
            self.balanced()
        return self.text[start:self.at]

    def region(self):
        self.take("{")
        block = Block()
        if self.maybe("^"):
            self.match(NAME)
            if self.peek("("):
                block.arguments = [part.partition(":")[0].strip()
                                   for part in split(self.balanced())]
            self.take(":")
        while not self.peek("}"):
            if self.peek("^"):
                raise ValueError("several blocks in a region")
            block.ops.append(self.op())
        self.take("}")
        return block


# --- Attributes -------------------------------------------------------------

def number(text):
    text = text.partition(" : ")[0].strip()
    if text.startswith("0x"):
        return struct.unpack(">d", int(text, 16).to_bytes(8, "big"))[0]
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def integers(text):
    match = re.fullmatch(r"array<i64(?::(.*))?>", text)
    return [int(part) for part in match[1].split(",")] if match[1] else []


def keyword(text):
    """`#nn<predicate ge>` or `#nn.predicate<ge>`: ge."""
    return re.fullmatch(r"#nn[.<]\w+[ <](\w+)>", text)[1]


def elements(text):
    body, _, type_text = text.rpartition(" : ")
    type = Type(type_text)
    body = re.fullmatch(r"dense<(.*)>", body, re.S)[1].strip()
    if body.startswith('"0x'):
        kinds = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i32": "<i4", "i8": "i1",
                 "i1": "?"}
        raw = np.frombuffer(bytes.fromhex(body[3:-1]), kinds[type.element])
        return raw.reshape(type.shape).astype(type.dtype)

    def one(token):
        if token in ("true", "false"):
            return token == "true"
        if token.startswith("0x"):  # The bits of a float, for instance of infinity.
            bits = int(token, 16)
            if type.element == "bf16":
                return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
            form = {"f64": ("<Q", "<d"), "f32": ("<I", "<f"), "f16": ("<H", "<e")}
            pack, unpack = form[type.element]
            return struct.unpack(unpack, struct.pack(pack, bits))[0]
        return float(token) if type.dtype == np.float64 else int(token)

    values = [one(token) for token in re.findall(r"[\w.+-]+", body)]
    array = np.array(values, type.dtype)
    if array.size == 1:
        return np.full(type.shape, array.reshape(())[()], type.dtype)
    return array.reshape(type.shape)


# --- Meaning ----------------------------------------------------------------

def wrap(value):
    return (np.asarray(value, np.int64) & 0xFFFFFFFF).astype(np.uint32).astype(np.int32)


def erf(x):
    import math
    return np.vectorize(math.erf, otypes=[np.float64])(x) if np.size(x) else x


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


UNARY = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "tanh": np.tanh,
    "erf": erf, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": sigmoid,
    "sin": np.sin, "cos": np.cos, "not": np.logical_not,
    "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(
        np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))),
}


def divide(a, b):
    if a.dtype == np.float64:
        return a / b
    quotient = np.abs(a.astype(np.int64)) // np.maximum(np.abs(b.astype(np.int64)), 1)
    return wrap(np.where(b == 0, 0, np.sign(a) * np.sign(b) * quotient))


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": divide,
          "max": np.maximum, "min": np.minimum, "pow": np.power, "and": np.logical_and,
          "or": np.logical_or}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
           "gt": np.greater, "ge": np.greater_equal}
REDUCE = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean,
          "sum_of_squares": lambda x, **o: np.sum(x * x, **o)}


def lookup(table, index):
    """Rows of `table`, zeros where the index is outside."""
    inside = (index >= 0) & (index < table.shape[0])
    rows = table[np.where(inside, index, 0)]
    return np.where(inside.reshape(index.shape + (1,) * (table.ndim - 1)), rows, 0)


def gather(table, indices, axis, batch):
    shape = table.shape[:axis] + indices.shape[batch:] + table.shape[axis + 1:]
    result = np.zeros(shape, table.dtype)
    for b in np.ndindex(table.shape[:batch]):
        for p in np.ndindex(table.shape[batch:axis]):
            result[b + p] = lookup(table[b + p], indices[b])
    return result


def gather_grad(grad, indices, axis, batch, type):
    result = np.zeros(type.shape)
    inner = indices.shape[batch:]
    for b in np.ndindex(type.shape[:batch]):
        for p in np.ndindex(type.shape[batch:axis]):
            for i in np.ndindex(inner):
                index = int(indices[b + i])
                if 0 <= index < type.shape[axis]:
                    result[b + p][index] += grad[b + p + i]
    return result


def top_k(x, k):
    order = np.argsort(np.where(np.isnan(x), -np.inf, -x), -1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def softmax(x, axis):
    top = x.max(axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        e = np.where(np.isneginf(top), 0.0, np.exp(x - top))
    total = e.sum(axis, keepdims=True)
    return np.where(total == 0, 0.0, e / np.where(total == 0, 1, total))


def log_sum_exp(x):
    top = x.max(-1)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return safe + np.log(np.exp(x - safe[..., None]).sum(-1))


def frequencies(width, theta, scaling):
    base = theta ** (-2.0 * np.arange(width // 2) / width)
    if scaling is None:
        return base
    text = re.fullmatch(r"#nn\.rope_scaling<(.*)>", scaling)[1]
    kind, *fields = split(text)
    field = {name.strip(): float(value) for name, value in
             (entry.split("=") for entry in fields)}
    if kind == "linear":
        return base / field["factor"]
    if kind == "yarn":
        ends = [width * np.log(field["original"] / (turns * 2 * np.pi)) / (2 * np.log(theta))
                for turns in (field["high"], field["low"])]
        first, end = max(np.floor(ends[0]), 0), min(np.ceil(ends[1]), width - 1)
        ramp = np.clip((np.arange(width // 2) - first) / (end - first or 0.001), 0, 1)
        return base * (1 - ramp) + base / field["factor"] * ramp
    wave = 2 * np.pi / base
    smooth = (field["original"] / wave - field["low"]) / (field["high"] - field["low"])
    smooth = np.clip(smooth, 0, 1)
    return (1 - smooth) * base / field["factor"] + smooth * base


def rotary(x, positions, theta, scaling, inverse):
    width = x.shape[-1]
    angle = positions[..., None] * frequencies(width, theta, scaling)
    angle = angle.reshape((1,) * (3 - angle.ndim) + angle.shape)[:, :, None, :]
    cos, sin = np.cos(angle), np.sin(angle) * (-1 if inverse else 1)
    a, b = x[..., :width // 2], x[..., width // 2:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


class Scores:
    """The scores of attention and their softmax, with operands and gradients."""

    def __init__(self, q, k, bias, documents, causal, window, scale, first=None):
        self.groups = q.shape[2] // k.shape[2]
        self.scale = scale if scale is not None else q.shape[-1] ** -0.5
        keys = np.repeat(k, self.groups, 2)
        scores = np.einsum("bshd,bthd->bhst", q, keys) * self.scale
        if bias is not None:
            scores = scores + bias
        length, total = q.shape[1], k.shape[1]
        i = np.arange(length)[:, None] + (total - length if first is None else int(first))
        j = np.arange(total)[None, :]
        visible = np.ones((length, total), bool)
        if causal:
            visible &= j <= i
        if window is not None:
            visible &= np.abs(i - j) < window
        visible = np.broadcast_to(visible, scores.shape).copy()
        if documents:
            same = documents[0][:, :, None] == documents[1][:, None, :]
            visible &= same[:, None]
        self.scores = np.where(visible, scores, -np.inf)
        self.p = softmax(self.scores, -1)

    def forward(self, v):
        y = np.einsum("bhst,bthd->bshd", self.p, np.repeat(v, self.groups, 2))
        return y, log_sum_exp(self.scores).transpose(0, 2, 1)

    def backward(self, q, k, v, bias, y, lse, dy, dlse):
        """With the result and the log-sum-exp of all keys, of which these may be a part."""
        def fold(x):
            b, t, h, d = x.shape
            return x.reshape(b, t, h // self.groups, self.groups, d).sum(3)

        dp = np.einsum("bshd,bthd->bhst", dy, np.repeat(v, self.groups, 2))
        def per_score(x):
            return x.transpose(0, 2, 1)[..., None]

        p = np.exp(self.scores - per_score(np.where(np.isinf(lse), 0, lse)))
        ds = p * (dp - per_score((dy * y).sum(-1)))
        if dlse is not None:
            ds = ds + p * per_score(dlse)
        dv = fold(np.einsum("bhst,bshd->bthd", p, dy))
        dq = np.einsum("bhst,bthd->bshd", ds, np.repeat(k, self.groups, 2)) * self.scale
        dk = fold(np.einsum("bhst,bshd->bthd", ds, q)) * self.scale
        results = [dq, dk, dv]
        if bias is not None:
            axes = tuple(a for a in (0, 1) if bias.shape[a] == 1)
            results.append(ds.sum(axes, keepdims=True).reshape(bias.shape))
        return results


def one_hot(targets, size, smoothing):
    hot = targets[..., None] == np.arange(size)
    return (1 - smoothing) * hot + smoothing / size


class Module:
    def __init__(self, text):
        op = Reader(text).op()
        self.functions = {}
        for function in op.regions[0].ops:
            if function.name == "func.func" and function.regions:
                self.functions[function.attributes["sym_name"].strip('"')] = function
        self.calls = {}

    def call(self, name, arguments):
        """The results of @name, a list of arrays."""
        self.calls[name] = self.calls.get(name, 0) + 1
        block = self.functions[name].regions[0]
        if len(block.arguments) != len(arguments):
            raise ValueError(f"@{name} has {len(block.arguments)} arguments, "
                             f"{len(arguments)} were given")
        values = {}
        for argument, value in zip(block.arguments, arguments):
            value = np.asarray(value)
            values[argument] = value.astype(np.float64) \
                if np.issubdtype(value.dtype, np.floating) else value
        return self.run(block, values)

    def run(self, block, values):
        for op in block.ops:
            operands = [values[name] for name in op.operands]
            if op.name in ("func.return", "nn.yield"):
                return operands
            with np.errstate(all="ignore"):
                results = self.execute(op, operands, values)
            for name, value, type_text in zip(op.results, results, op.result_types,
                                              strict=True):
                type = Type(type_text)
                value = np.asarray(value)
                if value.shape != type.shape:
                    raise ValueError(f"{op}: shape {value.shape}, expected {type.shape}")
                if value.dtype != type.dtype:
                    raise ValueError(f"{op}: dtype {value.dtype}, expected {type.dtype}")
                values[name] = value
        raise ValueError("a block without a terminator")

    def execute(self, op, x, values):
        if op.name == "func.call":
            return self.call(op.attributes["callee"].lstrip("@"), x)
        method = getattr(self, "op_" + op.name.removeprefix("nn."), None)
        name = op.name.removeprefix("nn.")
        if name == "microbatches":
            return self.microbatches(op, x, values)
        if name in UNARY:
            return [UNARY[name](x[0])]
        if name in BINARY:
            value = BINARY[name](x[0], x[1])
            return [wrap(value) if x[0].dtype == np.int32 else value]
        if method is None:
            raise ValueError(f"no meaning for {op.name}")
        value = method(op, x)
        return value if isinstance(value, (list, tuple)) else [value]

    def microbatches(self, op, x, values):
        segments = integers(op.attributes["operandSegmentSizes"].replace("i32", "i64"))
        count = number(op.attributes["count"])
        sliced, state = x[:segments[0]], x[segments[0]:]
        block = op.regions[0]
        for k in range(count):
            parts = [array.reshape((count, array.shape[0] // count) + array.shape[1:])[k]
                     for array in sliced]
            inner = dict(values)
            inner.update(zip(block.arguments, [np.int32(k).reshape(()), *parts, *state],
                             strict=True))
            state = self.run(block, inner)
        return state

    def op_compare(self, op, x):
        return COMPARE[keyword(op.attributes["predicate"])](x[0], x[1])

    def op_select(self, op, x):
        return np.where(x[0], x[1], x[2])

    def op_cast(self, op, x):
        type = Type(op.result_types[0])
        if type.dtype == np.bool_:
            return x[0] != 0
        if type.dtype == np.int32 and x[0].dtype == np.float64:
            return np.trunc(x[0]).astype(np.int32)
        if type.element == "f16":
            return x[0].astype(np.float16).astype(np.float64)
        if type.element == "bf16":
            bits = x[0].astype(np.float32).view(np.uint32).astype(np.uint64)
            bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
            rounded = bits.astype(np.uint32).view(np.float32).astype(np.float64)
            return np.where(np.isfinite(x[0]), rounded, x[0])
        return x[0].astype(type.dtype)

    def op_einsum(self, op, x):
        equation = op.attributes["equation"].strip('"')
        left, _, result = equation.partition("->")
        # NumPy does not sum a letter of one operand alone in every form.
        return np.einsum(f"{left}->{result}", *x)

    def op_reduce(self, op, x):
        dims = tuple(integers(op.attributes["dims"]))
        value = REDUCE[keyword(op.attributes["kind"])](
            x[0], axis=dims, keepdims="keep" in op.attributes)
        return value.astype(x[0].dtype)

    def op_reshape(self, op, x):
        return x[0].reshape(Type(op.result_types[0]).shape)

    def op_transpose(self, op, x):
        return x[0].transpose(integers(op.attributes["permutation"]))

    def op_broadcast(self, op, x):
        shape = Type(op.result_types[0]).shape
        middle = [1] * len(shape)
        for size, dim in zip(x[0].shape, integers(op.attributes["dims"])):
            middle[dim] = size
        return np.broadcast_to(x[0].reshape(middle), shape)

    def op_slice(self, op, x):
        offsets, sizes = (integers(op.attributes[key]) for key in ("offsets", "sizes"))
        strides = integers(op.attributes["strides"]) if "strides" in op.attributes \
            else [1] * len(sizes)
        return x[0][tuple(slice(o, o + (n - 1) * s + 1, s)
                          for o, n, s in zip(offsets, sizes, strides))]

    def op_pad(self, op, x):
        low, high = (integers(op.attributes[key]) for key in ("low", "high"))
        interior = integers(op.attributes["interior"]) if "interior" in op.attributes \
            else [0] * len(low)
        value = number(op.attributes.get("value", "0.0"))
        result = np.full(Type(op.result_types[0]).shape, value, x[0].dtype)
        result[tuple(slice(l, l + (n - 1) * (i + 1) + 1, i + 1)
                     for l, i, n in zip(low, interior, x[0].shape))] = x[0]
        return result

    def op_concatenate(self, op, x):
        return np.concatenate(x, number(op.attributes["dim"]))

    def op_iota(self, op, x):
        type = Type(op.result_types[0])
        dim = number(op.attributes["dim"])
        shape = [1] * len(type.shape)
        shape[dim] = type.shape[dim]
        return np.broadcast_to(np.arange(type.shape[dim]).reshape(shape).astype(type.dtype),
                               type.shape)

    def op_constant(self, op, x):
        return elements(op.attributes["value"])

    def op_gather(self, op, x):
        return gather(x[0], x[1], number(op.attributes["axis"]),
                      number(op.attributes.get("batch", "0")))

    def op_gather_grad(self, op, x):
        return gather_grad(x[0], x[1], number(op.attributes["axis"]),
                           number(op.attributes.get("batch", "0")),
                           Type(op.result_types[0]))

    def op_embedding(self, op, x):
        return lookup(x[0], x[1])

    def op_top_k(self, op, x):
        return top_k(x[0], number(op.attributes["k"]))

    def op_random(self, op, x):
        return philox.random(keyword(op.attributes["distribution"]),
                             Type(op.result_types[0]).shape, x[0], x[1],
                             "sample_dim" in op.attributes, *x[2:],
                             whole=integers(op.attributes["whole"]) if len(x) > 2 else None)

    def op_dropout(self, op, x):
        rate = number(op.attributes["rate"])
        if rate == 0:
            return x[0]
        uniform = philox.random("uniform", x[0].shape, x[1], x[2], True)
        return np.where(uniform >= rate, x[0] / (1 - rate), 0.0)

    def op_softmax(self, op, x):
        return softmax(x[0], number(op.attributes["dim"]))

    def op_layer_norm(self, op, x):
        c = x[0] - x[0].mean(-1, keepdims=True)
        variance = (c * c).mean(-1, keepdims=True)
        return c / np.sqrt(variance + number(op.attributes["eps"])) * x[1] + x[2]

    def op_rms_norm(self, op, x):
        square = (x[0] * x[0]).mean(-1, keepdims=True)
        return x[0] / np.sqrt(square + number(op.attributes["eps"])) * x[1]

    def op_rotary(self, op, x):
        return rotary(x[0], x[1], number(op.attributes["theta"]),
                      op.attributes.get("scaling"), "inverse" in op.attributes)

    def attention(self, op, x, names):
        sizes = integers(op.attributes["operandSegmentSizes"].replace("i32", "i64"))
        found, at = {}, 0
        for name, size in zip(names, sizes, strict=True):
            found[name] = x[at] if size else None
            at += size
        documents = (found["query_documents"], found["key_documents"]) \
            if found["query_documents"] is not None else None
        attribute = {key: number(op.attributes[key]) if key in op.attributes else None
                     for key in ("window", "scale")}
        scores = Scores(found["query"], found["key"], found["bias"], documents,
                        "causal" in op.attributes, attribute["window"], attribute["scale"],
                        found["first_position"])
        return found, scores

    def op_attention(self, op, x):
        found, scores = self.attention(op, x, ["query", "key", "value", "bias",
                                               "query_documents", "key_documents",
                                               "first_position"])
        return scores.forward(found["value"])[:len(op.results)]

    def op_attention_grad(self, op, x):
        found, scores = self.attention(
            op, x, ["query", "key", "value", "forward_result", "lse", "grad", "lse_grad",
                    "bias", "query_documents", "key_documents", "first_position"])
        return scores.backward(found["query"], found["key"], found["value"], found["bias"],
                               found["forward_result"], found["lse"], found["grad"],
                               found["lse_grad"])

    def op_cross_entropy(self, op, x):
        logits, targets = x
        smoothing = number(op.attributes.get("smoothing", "0.0"))
        lse = log_sum_exp(logits)
        chosen = np.take_along_axis(
            logits, np.clip(targets, 0, logits.shape[-1] - 1)[..., None], -1)[..., 0]
        loss = lse - (1 - smoothing) * chosen
        if smoothing:
            loss = loss - smoothing * logits.mean(-1)
        valid = (targets >= 0) & (targets < logits.shape[-1])
        return np.where(valid, loss, 0.0), lse

    def op_cross_entropy_grad(self, op, x):
        logits, targets, lse, grad = x[:4]
        size = logits.shape[-1]
        p = np.exp(logits - lse[..., None])
        hot = one_hot(targets, size, number(op.attributes.get("smoothing", "0.0")))
        valid = (targets >= 0) & (targets < size)
        result = np.where(valid, grad, 0.0)[..., None] * (p - hot)
        return result + x[4][..., None] * p if len(x) > 4 else result

    def op_route(self, op, x):
        attribute = {key: number(op.attributes.get(key, default)) for key, default in
                     (("k", "1"), ("groups", "1"), ("groups_kept", "1"), ("group_best", "1"),
                      ("scale", "1.0"))}
        kind = keyword(op.attributes["scores"])
        scores = softmax(x[0], -1) if kind == "softmax" else sigmoid(x[0])
        choice = scores + x[1] if len(x) > 1 else scores
        groups, kept = attribute["groups"], attribute["groups_kept"]
        grouped = choice.reshape(choice.shape[:-1] + (groups, -1))
        worth = top_k(grouped, attribute["group_best"])[0].sum(-1)
        open_groups = top_k(worth, kept)[1]
        is_open = (np.arange(groups)[:, None] == open_groups[..., None, :]).any(-1)
        choice = np.where(is_open[..., None], grouped, -np.inf).reshape(choice.shape)
        experts = top_k(choice, attribute["k"])[1]
        weights = np.take_along_axis(scores, experts, -1)
        if "normalised" in op.attributes:
            weights = weights / (weights.sum(-1, keepdims=True) + 1e-20)
        return weights * attribute["scale"], experts

    def op_expert_sort(self, op, x):
        count = number(op.attributes["count"])
        capacity = number(op.attributes["capacity"]) if "capacity" in op.attributes else None
        order_type, position_type, offsets_type = (Type(text) for text in op.result_types)
        order = np.full(order_type.shape, -1, np.int32)
        position = np.full(position_type.shape, -1, np.int32)
        offsets = np.zeros(offsets_type.shape, np.int32)
        for group, experts in enumerate(x[0]):
            flat = experts.reshape(-1)
            kept = np.zeros(len(flat), bool)
            for expert in range(count):
                kept[np.flatnonzero(flat == expert)[:capacity]] = True
            numbers = np.flatnonzero(kept)
            numbers = numbers[np.argsort(flat[numbers], kind="stable")]
            order[group, :len(numbers)] = numbers
            position[group].reshape(-1)[numbers] = np.arange(len(numbers))
            offsets[group] = np.searchsorted(flat[numbers], np.arange(count + 1))
        return order, position, offsets

    def op_dispatch(self, op, x):
        source, order, position = x[:3]
        rows = gather(source, np.where(order < 0, -1, order // position.shape[2]), 1, 1)
        if len(x) == 3:
            return rows
        return rows * gather(x[3].reshape(len(source), -1), order, 1, 1)[..., None]

    def op_combine(self, op, x):
        rows = gather(x[0], x[2], 1, 1)
        return (rows * x[3][..., None] if len(x) > 3 else rows).sum(2)

    def op_grouped_matmul(self, op, x):
        rows, matrices, offsets = x
        if "transposed" in op.attributes:
            matrices = np.swapaxes(matrices, -1, -2)
        result = np.zeros(rows.shape[:-1] + matrices.shape[-1:])
        for place in np.ndindex(offsets.shape[:-1]):
            for expert, matrix in enumerate(matrices[place[:-1]]):
                mine = slice(*offsets[place][expert:expert + 2])
                result[place][mine] = rows[place][mine] @ matrix
        return result

    def op_bucket(self, op, x):
        rows, offsets = x
        result = np.zeros(Type(op.result_types[0]).shape)
        for part, group in np.ndindex(result.shape[:2]):
            begin, end = self.part_of(offsets[group], part, len(result))
            mine = rows[group, begin:end][:result.shape[2]]
            result[part, group, :len(mine)] = mine
        return result

    def op_unbucket(self, op, x):
        rows, offsets = x
        result = np.zeros(Type(op.result_types[0]).shape)
        for part, group in np.ndindex(rows.shape[:2]):
            begin, end = self.part_of(offsets[group], part, len(rows))
            end = min(end, begin + rows.shape[2])
            result[group, begin:end] = rows[part, group, :end - begin]
        return result

    @staticmethod
    def part_of(offsets, part, parts):
        """Where the rows of a part of the experts begin and end."""
        size = (len(offsets) - 1) // parts
        return offsets[part * size], offsets[(part + 1) * size]

    def op_grouped_outer(self, op, x):
        lhs, rhs, offsets = x
        result = np.zeros(Type(op.result_types[0]).shape)
        for place in np.ndindex(offsets.shape[:-1]):
            for expert in range(result.shape[-3]):
                mine = slice(*offsets[place][expert:expert + 2])
                result[place[:-1]][expert] += lhs[place][mine].T @ rhs[place][mine]
        return result

    def op_step_mean(self, op, x):
        weights = x[1].astype(np.float64)
        total = np.where(weights != 0, x[0] * weights, 0.0).sum()
        return np.asarray(total / max(weights.sum(), 1.0))

    def op_step_sum(self, op, x):
        return np.asarray(x[0].astype(np.float64).sum())

    def op_adamw(self, op, x):
        p, g, m, v, lr, beta1, beta2, eps, decay, c1, c2, scale = x
        g = g * scale
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        return p - lr * (decay * p + (m / c1) / (np.sqrt(v / c2) + eps)), m, v

    def op_sgd(self, op, x):
        p, g, b, lr, momentum, decay, scale = x
        b = momentum * b + g * scale
        return p - lr * (decay * p + b), b


def main():
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 1
    path, function, inputs, outputs = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        module = Module(file.read())
    data = np.load(inputs)
    results = module.call(function, [data[f"arg{i}"] for i in range(len(data.files))])
    np.savez(outputs, **{f"out{i}": value for i, value in enumerate(results)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
