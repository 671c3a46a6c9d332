"""Cases for gradcheck.py: every op of the tensor dialect, in NumPy and in IR.

The IR of a case is written with the types left open: `{x}` stands for the type of the
value %x. Types of arguments follow from the inputs, those of results from what the
reference returns. Each float case is also run in f32, where only its results are
compared.
"""

import dataclasses
import math
import re

import numpy as np

import models
import philox
import safetensors
from gradcheck import Case

_random = np.random.default_rng(20240)
_cases = []

TYPES = {np.dtype(np.float64): "f64", np.dtype(np.int32): "i32", np.dtype(bool): "i1"}


def normal(*shape):
    return _random.standard_normal(shape)


def positive(*shape):
    return _random.uniform(0.3, 2.0, shape)


def apart(*shape):
    """Distinct numbers at least 0.02 from each other and from 0: nothing that a small
    step moves across a kink."""
    size = int(np.prod(shape))
    values = (np.arange(size) - size // 2 + 0.4) * (4.0 / max(size, 8))
    return _random.permutation(values).reshape(shape)


def ints(high, *shape):
    return _random.integers(0, high, shape).astype(np.int32)


def i32(values):
    return np.array(values, np.int32)


def type_of(value):
    value = np.asarray(value)
    return "tensor<" + "".join(f"{extent}x" for extent in value.shape) \
        + TYPES[value.dtype] + ">"


def add(name, inputs, body, reference, results=("r",), helpers="", single=True, **options):
    """Adds a case. `inputs` maps argument names to arrays; `body` is the function's
    body, which defines %r (or `results`); `reference(*arrays)` returns one array or a
    tuple."""
    def as_tuple(*arrays):
        value = reference(*arrays)
        value = value if isinstance(value, tuple) else (value,)
        return tuple(np.asarray(part) for part in value)

    arrays = [np.asarray(value) for value in inputs.values()]
    with np.errstate(all="ignore"):
        expected = as_tuple(*arrays)
    known = {key: type_of(value) for key, value in inputs.items()}
    known.update((key, type_of(value)) for key, value in zip(results, expected))

    def fill(text):
        return re.sub(r"\{(\w+)\}", lambda match: known[match.group(1)], text)

    arguments = ", ".join(f"%{key}: {known[key]}" for key in inputs)
    result_types = ", ".join(known[key] for key in results)
    text = (f"{fill(helpers)}\n" if helpers else "") \
        + f"func.func @{name}({arguments}) -> ({result_types}) {{\n  {fill(body).strip()}\n" \
        + f"  return {', '.join('%' + key for key in results)} : {result_types}\n}}"
    options.setdefault("gradient", any(value.dtype == np.float64 for value in arrays)
                       and any(part.dtype == np.float64 for part in expected))
    case = Case(name, text, arrays, as_tuple, **options)
    _cases.append(case)
    if single and any(value.dtype == np.float64 for value in [*arrays, *expected]):
        _cases.append(in_single(case))


def in_single(case):
    """The same in f32: results only, to the accuracy of f32."""
    name = case.name + "_f32"
    text = case.text.replace(f"@{case.name}(", f"@{name}(")
    text = re.sub(r"@(helper\w*)", r"@\1_f32", text)
    text = text.replace("xf64>", "xf32>").replace("<f64>", "<f32>")
    inputs = [value.astype(np.float32) if value.dtype == np.float64 else value
              for value in case.inputs]

    def reference(*arrays):
        wide = [value.astype(np.float64) if value.dtype == np.float32 else value
                for value in arrays]
        return tuple(value.astype(np.float32) if value.dtype == np.float64 else value
                     for value in case.reference(*wide))

    return dataclasses.replace(case, name=name, text=text, inputs=inputs,
                               reference=reference, gradient=False, value_tolerance=3e-6)


# --- Elementwise ------------------------------------------------------------

erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))),
                    np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


UNARY = {
    "neg": (np.negative, normal), "abs": (np.abs, apart), "exp": (np.exp, normal),
    "log": (np.log, positive), "tanh": (np.tanh, normal), "erf": (erf, normal),
    "sqrt": (np.sqrt, positive), "rsqrt": (lambda x: 1 / np.sqrt(x), positive),
    "sigmoid": (sigmoid, normal), "sin": (np.sin, normal), "cos": (np.cos, normal),
    "relu": (lambda x: np.maximum(x, 0), apart), "silu": (lambda x: x * sigmoid(x), normal),
    "gelu": (lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), normal),
    "gelu_tanh": (lambda x: models.gelu_tanh(x)[0], normal),
}


def elementwise():
    for name, (function, make) in UNARY.items():
        add(name, {"x": make(3, 4)}, f"%r = nn.{name} %x : {{x}}", function, single=False)
        # More elements than a vector, and not a multiple of one.
        add(name + "_long", {"x": make(13, 37)}, f"%r = nn.{name} %x : {{x}}", function)
    far = np.array([-745.0, -40.0, -9.0, -1e-9, 0.0, 1e-9, 9.0, 40.0, 700.0])
    for name in ("exp", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh"):
        function = UNARY[name][0]
        add(name + "_far", {"x": far[:-1] if name == "exp" else far},
            f"%r = nn.{name} %x : {{x}}", function, single=False, gradient=False)
    add("log_edge", {"x": np.array([0.0, 1e-300, 1e308, np.inf])}, "%r = nn.log %x : {x}",
        np.log, single=False, gradient=False)
    add("nan_passes", {"x": np.array([np.nan, 1.0])}, """%a = nn.exp %x : {x}
  %b = nn.max %a, %x : {x}
  %r = nn.relu %b : {x}""", lambda x: np.where(np.isnan(x), np.nan, np.exp(x)),
        gradient=False)
    add("neg_int", {"x": i32([3, -4, 0])}, "%r = nn.neg %x : {x}", np.negative)
    add("abs_int", {"x": i32([3, -4, 0])}, "%r = nn.abs %x : {x}", np.abs)
    add("not", {"x": np.array([True, False])}, "%r = nn.not %x : {x}", np.logical_not)

    binary = {
        "add": (np.add, normal, normal), "sub": (np.subtract, normal, normal),
        "mul": (np.multiply, normal, normal), "div": (np.divide, normal, positive),
        "max": (np.maximum, normal, normal), "min": (np.minimum, normal, normal),
        "pow": (np.power, positive, normal)}
    for name, (function, left, right) in binary.items():
        add(name, {"a": left(2, 5), "b": right(2, 5)}, f"%r = nn.{name} %a, %b : {{a}}",
            function)
        for title, a, b in (("rows", (4, 3), (3,)), ("outer", (2, 1, 3), (4, 1)),
                            ("scalar", (2, 3), ()), ("scalar_left", (), (2, 3)),
                            ("columns", (3, 1), (3, 5))):
            add(f"{name}_{title}", {"a": np.asarray(left(*a)), "b": np.asarray(right(*b))},
                f"%r = nn.{name} %a, %b : ({{a}}, {{b}}) -> {{r}}", function,
                single=name == "sub")
    tied = np.array([1.0, -2.0, 0.5])
    for name in ("max", "min"):
        # Central differences see half a slope on each side of a tie.
        add(f"{name}_tied", {"a": tied, "b": tied.copy()}, f"%r = nn.{name} %a, %b : {{a}}",
            binary[name][0])
    add("square", {"x": normal(4)}, "%r = nn.mul %x, %x : {x}", lambda x: x * x)

    def truncate(a, b):
        quotient = np.abs(a.astype(np.int64)) // np.maximum(np.abs(b.astype(np.int64)), 1)
        return np.where(b == 0, 0, np.sign(a) * np.sign(b) * quotient).astype(np.int32)

    a, b = i32([7, -7, 7, -7, 5, 0]), i32([2, 2, -2, -2, 0, 3])
    for name, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply),
                           ("max", np.maximum), ("min", np.minimum), ("div", truncate)):
        add(name + "_int", {"a": a, "b": b}, f"%r = nn.{name} %a, %b : {{a}}", function)
    yes = np.array([True, True, False, False])
    for name, function in (("and", np.logical_and), ("or", np.logical_or)):
        add(name, {"a": yes, "b": yes[::2].repeat(1)[[0, 1, 0, 1]]},
            f"%r = nn.{name} %a, %b : {{a}}", function)

    x, y = np.array([1.0, 2.0, np.nan, 2.0, np.nan]), np.array([2.0, 2.0, 1.0, 1.0, np.nan])
    for name, function in (("eq", np.equal), ("ne", np.not_equal), ("lt", np.less),
                           ("le", np.less_equal), ("gt", np.greater),
                           ("ge", np.greater_equal)):
        add("compare_" + name, {"a": x, "b": y},
            f"%r = nn.compare {name} %a, %b : ({{a}}, {{b}}) -> {{r}}", function)
        add(f"compare_{name}_int", {"a": i32([[1, -2, 3]]), "b": i32([[1], [2]])},
            f"%r = nn.compare {name} %a, %b : ({{a}}, {{b}}) -> {{r}}", function)

    mask = np.array([[True], [False], [True]])
    add("select", {"m": np.array([True, False, True, False]), "a": normal(4), "b": normal(4)},
        "%r = nn.select %m, %a, %b : ({m}, {a}, {b}) -> {r}", np.where)
    add("select_broadcast", {"m": mask, "a": normal(3, 4), "b": np.asarray(normal())},
        "%r = nn.select %m, %a, %b : ({m}, {a}, {b}) -> {r}", np.where)
    add("select_nan", {"m": mask[:, 0], "a": normal(3), "b": np.full(3, np.nan)},
        "%r = nn.select %m, %a, %b : ({m}, {a}, {b}) -> {r}",
        lambda m, a, b: np.where(m, a, np.nan), gradient=False)

    add("cast_int_to_float", {"x": i32([3, -4, 0])}, "%r = nn.cast %x : {x} -> {r}",
        lambda x: x.astype(float))
    add("cast_bool_to_float", {"x": yes}, "%r = nn.cast %x : {x} -> {r}",
        lambda x: x.astype(float))
    add("cast_bool_to_int", {"x": yes}, "%r = nn.cast %x : {x} -> {r}",
        lambda x: x.astype(np.int32))
    add("cast_float_to_int", {"x": np.array([2.7, -2.7, 0.0, 0.9])},
        "%r = nn.cast %x : {x} -> {r}", lambda x: np.trunc(x).astype(np.int32))
    add("cast_float_to_bool", {"x": np.array([2.7, -0.1, 0.0])},
        "%r = nn.cast %x : {x} -> {r}", lambda x: x != 0)
    add("cast_int_to_bool", {"x": i32([2, 0, -1])}, "%r = nn.cast %x : {x} -> {r}",
        lambda x: x != 0)

    values = np.concatenate([normal(11), [1 + 2.0 ** -9, 1 + 3 * 2.0 ** -9, 1 + 2.0 ** -12]])

    def through_f32(x, narrow):
        return narrow(x.astype(np.float32)).astype(np.float64)

    for kind, narrow in (
            ("f32", lambda x: x), ("f16", lambda x: x.astype(np.float16)),
            ("bf16", lambda x: safetensors.bf16_to_f32(safetensors.f32_to_bf16(x)))):
        # Through f32, so that each step rounds once and the reference does the same.
        one = f"tensor<{len(values)}xf32>"
        two = f"tensor<{len(values)}x{kind}>"
        middle = "" if kind == "f32" else \
            f"%n = nn.cast %w : {one} -> {two}\n  %v = nn.cast %n : {two} -> {one}\n  "
        add(f"cast_through_{kind}", {"x": values},
            f"%w = nn.cast %x : {{x}} -> {one}\n  {middle}"
            f"%r = nn.cast {'%w' if kind == 'f32' else '%v'} : {one} -> {{x}}",
            lambda x, narrow=narrow: through_f32(x, narrow), single=False, gradient=False)
    # The gradient of a cast passes through; the difference quotient of a narrowing
    # cast does not exist, so the widening one is checked by its neighbours.
    add("cast_same", {"x": normal(3)}, "%r = nn.cast %x : {x} -> {x}", lambda x: x)


# --- Products and reductions ------------------------------------------------


def products():
    sizes = dict(zip("abcdefghijk", (2, 3, 4, 5, 3, 2, 3, 4, 2, 3, 5)))
    equations = [
        "ab,bc->ac", "ab,cb->ac", "ba,bc->ac", "ba,cb->ca", "abc,cd->abd", "abc,dc->adb",
        "abc,abd->cd", "abcd,aecd->acbe", "acbe,aecd->abcd", "abc,abc->a", "abc,abc->abc",
        "ab,b->ab", "a,b->ab", "a,a->", "ab,ab->", "ab->ba", "ab->a", "ab->", "abc->ca",
        "abc,c->ba", "ab,c->c", "abc,b->", "abcde,ce->dab", "ab,->ab", "abc,acd->abd",
        "bac,cab->abc", "abcd,cd->ab"]
    for number, equation in enumerate(equations):
        left = equation.split("->")[0].split(",")
        inputs = {name: np.asarray(normal(*(sizes[c] for c in letters)))
                  for name, letters in zip("xy", left)}
        arguments = ", ".join("%" + name for name in inputs)
        types = ", ".join("{" + name + "}" for name in inputs)
        add(f"einsum_{number}", inputs,
            f'%r = nn.einsum "{equation}"({arguments}) : ({types}) -> {{r}}',
            lambda *arrays, equation=equation: np.einsum(equation, *arrays),
            single=number % 4 == 0)
    # Larger than any tile, in every dimension, and no multiple of one.
    for number, (equation, left, right) in enumerate([
            ("ab,bc->ac", (67, 130), (130, 71)), ("ab,cb->ac", (129, 65), (33, 65)),
            ("abc,abd->cd", (3, 131, 37), (3, 131, 41)),
            ("abcd,aecd->acbe", (2, 33, 3, 17), (2, 35, 3, 17))]):
        add(f"einsum_large_{number}", {"x": normal(*left), "y": normal(*right)},
            f'%r = nn.einsum "{equation}"(%x, %y) : ({{x}}, {{y}}) -> {{r}}',
            lambda x, y, equation=equation: np.einsum(equation, x, y), step=1e-2)

    kinds = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min,
             "sum_of_squares": lambda x, axis, keepdims:
                 np.sum(x * x, axis=axis, keepdims=keepdims)}
    for kind, function in kinds.items():
        for title, dims in (("last", [2]), ("first", [0]), ("middle", [1]), ("two", [0, 2]),
                            ("all", [0, 1, 2])):
            for keep in ([False, True] if title in ("middle", "all") else [False]):
                add(f"reduce_{kind}_{title}{'_keep' if keep else ''}", {"x": apart(3, 4, 5)},
                    f"%r = nn.reduce {kind} %x dims {dims}{' keep' if keep else ''} "
                    ": ({x}) -> {r}",
                    lambda x, function=function, dims=dims, keep=keep:
                        function(x, axis=tuple(dims), keepdims=keep),
                    single=title in ("last", "first"))
    for kind in ("max", "min"):
        sign = 1.0 if kind == "max" else -1.0
        add(f"reduce_{kind}_tied", {"x": sign * np.array([[2.0, 1.0, 2.0], [0.0, 0.5, -1.0]])},
            f"%r = nn.reduce {kind} %x dims [1] : ({{x}}) -> {{r}}",
            lambda x, kind=kind: kinds[kind](x, axis=1, keepdims=False))
    add("reduce_sum_long", {"x": normal(3, 1009)},
        "%r = nn.reduce sum %x dims [1] : ({x}) -> {r}", lambda x: x.sum(1))
    add("reduce_sum_rows_long", {"x": normal(1009, 3)},
        "%r = nn.reduce sum %x dims [0] : ({x}) -> {r}", lambda x: x.sum(0))
    for kind in ("sum", "max", "min"):
        add(f"reduce_{kind}_int", {"x": ints(100, 3, 4) - np.int32(50)},
            f"%r = nn.reduce {kind} %x dims [1] : ({{x}}) -> {{r}}",
            lambda x, kind=kind: kinds[kind](x, axis=1).astype(np.int32))


# --- Shapes and indexed access ----------------------------------------------


def pad(x, low, high, interior, value):
    for dim, (before, after, between) in enumerate(zip(low, high, interior)):
        shape = list(x.shape)
        shape[dim] = (x.shape[dim] - 1) * (between + 1) + 1 + before + after
        wide = np.full(shape, value, x.dtype)
        place = [slice(None)] * x.ndim
        place[dim] = slice(before, shape[dim] - after, between + 1)
        wide[tuple(place)] = x
        x = wide
    return x


def gather(table, indices, axis, batch):
    """By the op's definition, one element of the indices at a time."""
    outer, middle = table.shape[:batch], table.shape[batch:axis]
    result = np.zeros(table.shape[:axis] + indices.shape[batch:] + table.shape[axis + 1:],
                      table.dtype)
    for b in np.ndindex(*outer):
        for p in np.ndindex(*middle):
            for i in np.ndindex(*indices.shape[batch:]):
                index = indices[b + i]
                if 0 <= index < table.shape[axis]:
                    result[b + p + i] = table[b + p + (index,)]
    return result


def gather_grad(grad, indices, axis, batch, size):
    outer = grad.shape[:batch]
    inner = indices.shape[batch:]
    middle = grad.shape[batch:axis]
    result = np.zeros(grad.shape[:axis] + (size,) + grad.shape[axis + len(inner):])
    for b in np.ndindex(*outer):
        for p in np.ndindex(*middle):
            for i in np.ndindex(*inner):
                index = indices[b + i]
                if 0 <= index < size:
                    result[b + p + (index,)] += grad[b + p + i]
    return result


def shapes():
    add("reshape", {"x": normal(2, 6)}, "%r = nn.reshape %x : {x} -> {r}",
        lambda x: x.reshape(3, 4))
    add("reshape_heads", {"x": normal(2, 3, 4)}, "%r = nn.reshape %x : {x} -> {r}",
        lambda x: x.reshape(2, 3, 2, 2))
    add("reshape_scalar", {"x": normal(1, 1)}, "%r = nn.reshape %x : {x} -> {r}",
        lambda x: x.reshape(()))
    for order in ([1, 0], [0, 2, 1], [2, 0, 1], [0, 2, 1, 3], [3, 1, 0, 2]):
        add("transpose_" + "".join(map(str, order)), {"x": normal(*(2, 3, 4, 5)[:len(order)])},
            f"%r = nn.transpose %x {order} : ({{x}}) -> {{r}}",
            lambda x, order=order: x.transpose(order))
    add("transpose_large", {"x": normal(37, 53)},
        "%r = nn.transpose %x [1, 0] : ({x}) -> {r}", lambda x: x.T)
    add("broadcast", {"x": normal(3, 4)}, "%r = nn.broadcast %x dims [0, 2] : {x} -> {r}",
        lambda x: np.broadcast_to(x[:, None], (3, 2, 4)))
    add("broadcast_unit", {"x": normal(3, 1)}, "%r = nn.broadcast %x dims [1, 2] : {x} -> {r}",
        lambda x: np.broadcast_to(x[None], (2, 3, 5)))
    add("broadcast_scalar", {"x": np.asarray(normal())},
        "%r = nn.broadcast %x dims [] : {x} -> {r}", lambda x: np.broadcast_to(x, (2, 3)))
    add("slice", {"x": normal(4, 6)},
        "%r = nn.slice %x offsets [1, 2] sizes [2, 3] : ({x}) -> {r}", lambda x: x[1:3, 2:5])
    add("slice_strided", {"x": normal(5, 8)},
        "%r = nn.slice %x offsets [0, 1] sizes [3, 3] strides [2, 3] : ({x}) -> {r}",
        lambda x: x[0::2, 1::3])
    add("slice_int", {"x": ints(50, 4, 6)},
        "%r = nn.slice %x offsets [1, 0] sizes [1, 6] : ({x}) -> {r}", lambda x: x[1:2])
    add("pad", {"x": normal(2, 3)}, "%r = nn.pad %x low [0, 1] high [2, 0] : ({x}) -> {r}",
        lambda x: pad(x, [0, 1], [2, 0], [0, 0], 0.0))
    add("pad_interior", {"x": normal(3, 3)},
        "%r = nn.pad %x low [1, 0] high [0, 2] interior [2, 1] value -1.5 : ({x}) -> {r}",
        lambda x: pad(x, [1, 0], [0, 2], [2, 1], -1.5))
    add("pad_infinite", {"x": normal(3)},
        "%r = nn.pad %x low [1] high [0] value 0xFFF0000000000000 : ({x}) -> {r}",
        lambda x: pad(x, [1], [0], [0], -np.inf), gradient=False)
    add("concatenate", {"a": normal(2, 3), "b": normal(2, 1), "c": normal(2, 4)},
        "%r = nn.concatenate %a, %b, %c dim 1 : ({a}, {b}, {c}) -> {r}",
        lambda a, b, c: np.concatenate([a, b, c], 1))
    add("concatenate_rows", {"a": normal(2, 3), "b": normal(1, 3)},
        "%r = nn.concatenate %a, %b dim 0 : ({a}, {b}) -> {r}",
        lambda a, b: np.concatenate([a, b], 0))
    add("concatenate_twice", {"a": normal(2, 3)},
        "%r = nn.concatenate %a, %a dim 0 : ({a}, {a}) -> {r}",
        lambda a: np.concatenate([a, a], 0))
    add("iota", {"x": normal(3, 4)}, """%i = nn.iota dim 1 : {x}
  %r = nn.mul %x, %i : {x}""", lambda x: x * np.arange(4))
    add("iota_int", {"x": ints(9, 3, 4)}, """%i = nn.iota dim 0 : {x}
  %r = nn.add %x, %i : {x}""", lambda x: x + np.arange(3, dtype=np.int32)[:, None])
    add("constant", {"x": normal(2, 2)}, """%c = nn.constant dense<[[1.5, -2.0], [0.25, 3.0]]> : {x}
  %r = nn.mul %x, %c : {x}""", lambda x: x * np.array([[1.5, -2.0], [0.25, 3.0]]))

    ids = i32([[0, 3, 3], [5, 1, 3]])
    outside = i32([[0, -1, 2], [4, 5, -100]])
    add("gather_rows", {"t": normal(6, 2), "i": ids},
        "%r = nn.gather %t[%i] axis 0 : ({t}, {i}) -> {r}", lambda t, i: gather(t, i, 0, 0))
    add("gather_outside", {"t": normal(5, 2), "i": outside},
        "%r = nn.gather %t[%i] axis 0 : ({t}, {i}) -> {r}", lambda t, i: gather(t, i, 0, 0))
    add("gather_middle", {"t": normal(2, 6, 3), "i": ids},
        "%r = nn.gather %t[%i] axis 1 : ({t}, {i}) -> {r}", lambda t, i: gather(t, i, 1, 0))
    add("gather_batch", {"t": normal(2, 6), "i": ids},
        "%r = nn.gather %t[%i] axis 1 batch 1 : ({t}, {i}) -> {r}",
        lambda t, i: gather(t, i, 1, 1))
    add("gather_batch_far", {"t": normal(2, 3, 6, 2), "i": ids},
        "%r = nn.gather %t[%i] axis 2 batch 1 : ({t}, {i}) -> {r}",
        lambda t, i: gather(t, i, 2, 1))
    add("gather_int", {"t": ints(50, 6), "i": ids},
        "%r = nn.gather %t[%i] axis 0 : ({t}, {i}) -> {r}", lambda t, i: gather(t, i, 0, 0))
    add("gather_grad", {"g": normal(2, 3, 2), "i": ids},
        "%r = nn.gather_grad %g[%i] axis 0 : ({g}, {i}) -> {r}",
        lambda g, i: gather_grad(g, i, 0, 0, 6))
    add("gather_grad_batch", {"g": normal(2, 3), "i": outside},
        "%r = nn.gather_grad %g[%i] axis 1 batch 1 : ({g}, {i}) -> {r}",
        lambda g, i: gather_grad(g, i, 1, 1, 5))
    add("embedding", {"t": normal(6, 4), "i": ids},
        "%r = nn.embedding %t[%i] : ({t}, {i}) -> {r}", lambda t, i: t[i])
    add("embedding_outside", {"t": normal(5, 3), "i": outside},
        "%r = nn.embedding %t[%i] : ({t}, {i}) -> {r}", lambda t, i: gather(t, i, 0, 0))
    add("embedding_many", {"t": normal(3, 5), "i": ints(3, 7, 11)},
        "%r = nn.embedding %t[%i] : ({t}, {i}) -> {r}", lambda t, i: t[i])

    def top_k(x, k):
        order = np.argsort(np.where(np.isnan(x), -np.inf, -x), -1, kind="stable")[..., :k]
        return np.take_along_axis(x, order, -1), order.astype(np.int32)

    for title, x, k in (("", apart(3, 7), 2), ("_all", apart(2, 4), 4),
                        ("_deep", apart(2, 2, 6), 3)):
        add("top_k" + title, {"x": x}, f"%r, %s = nn.top_k %x k {k} : ({{x}}) -> ({{r}}, {{s}})",
            lambda x, k=k: top_k(x, k), results=("r", "s"))
    add("top_k_tied", {"x": np.array([[1.0, 3.0, 3.0, 0.0, 3.0], [np.nan, 2, 5, np.nan, 1]])},
        "%r, %s = nn.top_k %x k 3 : ({x}) -> ({r}, {s})", lambda x: top_k(x, 3),
        results=("r", "s"), gradient=False)


# --- Random numbers ---------------------------------------------------------


def randoms():
    key, stream = i32([12345, -7, 3, 5]), np.asarray(9, np.int32)
    for kind in ("uniform", "normal", "bits"):
        for sample_dim in (False, True):
            word = " sample_dim" if sample_dim else ""
            add(f"random_{kind}{word.replace(' ', '_')}", {"k": key, "s": stream},
                f"%r = nn.random {kind} %k, %s{word} : ({{k}}, {{s}}) -> {{r}}",
                lambda k, s, kind=kind, sample_dim=sample_dim:
                    philox.random(kind, (3, 5, 7), k, s, sample_dim))

    # Parts of a tensor of 8 x 6 x 9.
    for i, begin in enumerate(([0, 0, 0], [5, 1, 2], [7, 4, 6])):
        for sample_dim in (False, True):
            add(f"random_part{i}{'_sample_dim' * sample_dim}",
                {"k": key, "s": stream, "o": i32(begin)},
                "%r = nn.random uniform %k, %s at %o of [8, 6, 9]"
                f"{' sample_dim' * sample_dim} : ({{k}}, {{s}}, {{o}}) -> {{r}}",
                lambda k, s, o, sample_dim=sample_dim: philox.random(
                    "uniform", (8, 6, 9), k, s, sample_dim)[o[0]:o[0] + 1, o[1]:o[1] + 2, o[2]:o[2] + 3])

    def dropout(x, k, s, rate):
        keep = philox.random("uniform", x.shape, k, s, True) >= rate
        return np.where(keep, x / (1 - rate), 0.0)

    add("dropout", {"x": normal(4, 9), "k": key, "s": stream},
        "%r = nn.dropout %x, %k, %s rate 0.25 : ({x}, {k}, {s}) -> {r}",
        lambda x, k, s: dropout(x, k, s, 0.25))
    add("dropout_none", {"x": normal(2, 3), "k": key, "s": stream},
        "%r = nn.dropout %x, %k, %s rate 0.0 : ({x}, {k}, {s}) -> {r}",
        lambda x, k, s: dropout(x, k, s, 0.0))


# --- Composites of a transformer --------------------------------------------


def softmax(x, axis):
    top = x.max(axis, keepdims=True)
    exps = np.exp(x - np.where(np.isfinite(top), top, 0.0))
    total = exps.sum(axis, keepdims=True)
    return exps / np.where(total == 0, 1.0, total)


def attention(q, k, v, bias=None, query_documents=None, key_documents=None, causal=False,
              window=None, scale=None, first=None):
    """By the op's definition; the result and the log-sum-exp."""
    batch, length, heads, size = q.shape
    keys, groups = k.shape[1], heads // k.shape[2]
    scale = 1 / math.sqrt(size) if scale is None else scale
    k, v = np.repeat(k, groups, 2), np.repeat(v, groups, 2)
    scores = scale * np.einsum("bshd,bthd->bhst", q, k)
    if bias is not None:
        scores = scores + bias
    position = np.arange(length)[:, None] + (keys - length if first is None else first)
    other = np.arange(keys)[None, :]
    visible = np.ones((batch, 1, length, keys), bool)
    if causal:
        visible = visible & (other <= position)
    if window is not None:
        visible = visible & (np.abs(position - other) < window)
    if query_documents is not None:
        visible = visible & (query_documents[:, None, :, None]
                             == key_documents[:, None, None, :])
    scores = np.where(visible, scores, -np.inf)
    top = scores.max(-1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        lse = safe + np.log(np.exp(scores - safe[..., None]).sum(-1))
    result = np.einsum("bhst,bthd->bshd", softmax(scores, -1), v)
    return result, lse.transpose(0, 2, 1)


def attentions():
    def one(title, q, kv, words, dv=None, documents=None, bias=None, lse=False, **options):
        gradient = options.pop("gradient", True)
        first = options.pop("first", None)
        b, s, h, d = q
        t, g = kv
        inputs = {"q": normal(b, s, h, d), "k": normal(b, t, g, d),
                  "v": normal(b, t, g, dv or d)}
        if bias:
            inputs["b"] = normal(*bias)
        if documents:
            inputs["d"], inputs["e"] = i32(documents[0]), i32(documents[1])
        if first is not None:
            inputs["p"] = i32(first)
        text = "%q, %k, %v" + (" bias %b" if bias else "") \
            + (" documents %d, %e" if documents else "") \
            + (" from %p" if first is not None else "") + (" " + words if words else "")
        types = ", ".join("{" + name + "}" for name in inputs)

        def reference(q, k, v, *rest):
            rest = list(rest)
            kept = dict(options)
            if bias:
                kept["bias"] = rest.pop(0)
            if documents:
                kept["query_documents"], kept["key_documents"] = rest[:2]
            if first is not None:
                kept["first"] = int(rest[-1])
            pair = attention(q, k, v, **kept)
            return pair if lse else pair[0]

        add("attention" + title, inputs,
            f"%r{', %l' if lse else ''} = nn.attention {text} : ({types}) -> "
            + ("({r}, {l})" if lse else "{r}"),
            reference, results=("r", "l") if lse else ("r",), gradient=gradient)

    one("", (2, 3, 2, 4), (3, 2), "")
    one("_causal", (2, 5, 2, 4), (5, 2), "causal", causal=True)
    one("_grouped", (1, 4, 6, 2), (4, 2), "causal", causal=True)
    one("_single_key_head", (2, 3, 4, 2), (3, 1), "causal", causal=True)
    one("_lse", (1, 4, 2, 3), (4, 1), "causal", causal=True, lse=True)
    one("_scale", (1, 3, 1, 3), (3, 1), "causal scale 0.3", causal=True, scale=0.3)
    one("_window", (1, 7, 2, 2), (7, 2), "causal window 3", causal=True, window=3)
    one("_window_both", (1, 7, 1, 2), (7, 1), "window 2", window=2)
    one("_wide_value", (1, 4, 2, 2), (4, 2), "causal", dv=5, causal=True)
    one("_longer_keys", (1, 3, 2, 2), (6, 2), "causal", causal=True)
    # A part of the queries: the first, one amid the keys, one that ends behind them.
    one("_from", (2, 3, 2, 4), (6, 2), "causal", causal=True, first=0)
    one("_from_amid", (1, 3, 4, 2), (8, 2), "causal", causal=True, first=3)
    one("_from_end", (1, 3, 2, 2), (5, 1), "causal", causal=True, first=3)
    one("_from_window", (1, 4, 1, 2), (9, 1), "window 2", window=2, first=3)
    one("_from_window_causal", (1, 20, 2, 4), (70, 2), "causal window 9", causal=True, window=9,
        first=37)
    one("_from_documents", (2, 2, 2, 2), (5, 1), "causal", causal=True, first=2, lse=True,
        documents=([[1, 1], [3, 4]], [[0, 0, 1, 1, 1], [3, 3, 3, 4, 5]]))
    one("_from_bias", (2, 3, 2, 2), (6, 2), "causal", bias=(1, 2, 3, 6), causal=True, first=2)
    one("_documents", (2, 5, 2, 2), (5, 1), "causal", causal=True,
        documents=([[0, 0, 1, 1, 1], [3, 3, 3, 4, 5]],) * 2)
    one("_documents_only", (1, 4, 1, 2), (4, 1), "", documents=([[0, 1, 0, 1]],) * 2)
    one("_bias", (2, 3, 2, 2), (4, 2), "", bias=(2, 2, 3, 4))
    one("_bias_shared", (2, 3, 2, 2), (3, 2), "causal", bias=(1, 1, 3, 3), causal=True)
    one("_bias_heads", (2, 3, 4, 2), (3, 2), "", bias=(1, 4, 3, 3), lse=True)
    one("_everything", (2, 6, 4, 3), (6, 2), "causal window 4 scale 0.7", dv=2,
        bias=(1, 4, 6, 6), documents=([[0, 0, 0, 1, 1, 1], [2] * 6],) * 2, causal=True,
        window=4, scale=0.7, lse=True)
    # Over the borders of any tile.
    one("_long", (1, 131, 2, 8), (131, 1), "causal", causal=True)
    one("_long_window", (1, 150, 1, 4), (150, 1), "causal window 40", causal=True, window=40)
    one("_nothing_visible", (1, 3, 1, 2), (3, 1), "", documents=([[0, 7, 0]], [[0, 0, 0]]),
        lse=True, gradient=False)
    one("_shorter_keys", (1, 4, 1, 2), (2, 1), "causal", causal=True, lse=True,
        gradient=False)

    q, k, v, dy = normal(2, 4, 4, 3), normal(2, 4, 2, 3), normal(2, 4, 2, 3), normal(2, 4, 4, 3)
    y, lse = attention(q, k, v, causal=True)

    def grad_reference(q, k, v, y, lse, dy):
        def heads(x):
            return x.transpose(0, 2, 1, 3)
        _, saved = models.attention(heads(q), heads(k), heads(v))
        return tuple(heads(part) for part in models.attention_backward(heads(dy), saved))

    add("attention_grad", {"q": q, "k": k, "v": v, "y": y, "l": lse, "g": dy},
        "%a, %b, %c = nn.attention_grad %q, %k, %v result %y, %l grad %g causal "
        ": ({q}, {k}, {v}, {y}, {l}, {g}) -> ({a}, {b}, {c})", grad_reference,
        results=("a", "b", "c"), gradient=False)

    # A part of the queries: what the whole gives where the others' gradients are zero.
    def part_reference(q, k, v, y, lse, dy, first):
        def whole(x):
            result = np.zeros((x.shape[0], k.shape[1], *x.shape[2:]))
            result[:, first:first + x.shape[1]] = x
            return result
        dq, dk, dv = grad_reference(whole(q), k, v, None, None, whole(dy))
        return dq[:, first:first + q.shape[1]], dk, dv

    add("attention_grad_from", {"q": q[:, 1:3], "k": k, "v": v, "y": y[:, 1:3],
                                "l": lse[:, 1:3], "g": dy[:, 1:3], "p": i32(1)},
        "%a, %b, %c = nn.attention_grad %q, %k, %v result %y, %l grad %g from %p causal "
        ": ({q}, {k}, {v}, {y}, {l}, {g}, {p}) -> ({a}, {b}, {c})", part_reference,
        results=("a", "b", "c"), gradient=False)


def composites():
    for title, dim, shape in (("", 1, (3, 5)), ("_first", 0, (4, 3)), ("_middle", 1, (2, 4, 3)),
                              ("_long", 1, (3, 261))):
        add("softmax" + title, {"x": normal(*shape)}, f"%r = nn.softmax %x dim {dim} : {{x}}",
            lambda x, dim=dim: softmax(x, dim))
    add("softmax_far", {"x": np.array([[1000.0, 1001.0, -1000.0], [-np.inf, 0.0, -np.inf],
                                       [-np.inf] * 3])},
        "%r = nn.softmax %x dim 1 : {x}", lambda x: softmax(x, 1), gradient=False)
    for title, shape in (("", (2, 3, 6)), ("_long", (3, 145)), ("_row", (4,))):
        width = shape[-1]
        add("layer_norm" + title, {"x": normal(*shape), "s": normal(width), "b": normal(width)},
            "%r = nn.layer_norm %x, %s, %b eps 1.0e-3 : ({x}, {s}, {b}) -> {r}",
            lambda x, s, b: models.layer_norm(x, s, b, 1e-3)[0])
        add("rms_norm" + title, {"x": normal(*shape), "s": normal(width)},
            "%r = nn.rms_norm %x, %s eps 1.0e-3 : ({x}, {s}) -> {r}",
            lambda x, s: models.rms_norm(x, s, 1e-3)[0])
    add("layer_norm_constant", {"x": np.ones((2, 4)) * 5, "s": normal(4), "b": normal(4)},
        "%r = nn.layer_norm %x, %s, %b eps 1.0e-5 : ({x}, {s}, {b}) -> {r}",
        lambda x, s, b: np.broadcast_to(b, x.shape), gradient=False)

    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}

    def yarn(base, theta, factor, slow, fast, original):
        """Number by number, as _compute_yarn_parameters does it."""
        def number_of(turns):
            return len(base) * math.log(original / (turns * 2 * math.pi)) / math.log(theta)

        first = max(math.floor(number_of(fast)), 0)
        end = min(math.ceil(number_of(slow)), 2 * len(base) - 1)
        for i, frequency in enumerate(base):
            share = min(max((i - first) / ((end - first) or 0.001), 0.0), 1.0)
            yield frequency / factor * share + frequency * (1 - share)

    def rotary(x, positions, theta, scale=None, linear=1.0, inverse=False, yarned=None):
        model = models.Llama(layers=1, hidden=x.shape[3], heads=1, vocab=1, seq=1,
                             theta=theta, rope_scaling=scale)
        frequencies = model.frequencies() / linear
        if yarned:
            frequencies = np.array(list(yarn(frequencies, theta, *yarned)))
        angles = positions[..., None] * frequencies
        if angles.ndim == 2:
            angles = angles[None]
        angles = angles[:, :, None]
        return models.Llama.rotate(x, np.cos(angles),
                                   np.sin(angles) * (-1.0 if inverse else 1.0))

    line, grid = i32([0, 1, 2, 3]), i32([[0, 1, 2, 0], [7, 100, 3, 4]])
    for title, shape, positions, words, options in (
            ("", (2, 4, 3, 4), line, "theta 10000.0", {"theta": 1e4}),
            ("_positions", (2, 4, 1, 6), grid, "theta 500.0", {"theta": 500.0}),
            ("_inverse", (2, 4, 1, 6), grid, "theta 500.0 inverse",
             {"theta": 500.0, "inverse": True}),
            ("_scaled", (1, 4, 2, 16), line, "theta 10000.0 scaling <llama3, factor = 8.0, "
             "low = 1.0, high = 4.0, original = 64>", {"theta": 1e4, "scale": scaling}),
            ("_yarn", (1, 4, 2, 16), line, "theta 10000.0 scaling <yarn, factor = 4.0, "
             "low = 1.0, high = 32.0, original = 4096>", {"theta": 1e4, "yarned": (4.0, 1, 32, 4096)}),
            ("_linear", (1, 4, 2, 8), line, "theta 10000.0 scaling <linear, factor = 2.0, "
             "low = 1.0, high = 1.0, original = 0>", {"theta": 1e4, "linear": 2.0})):
        add("rotary" + title, {"x": normal(*shape), "p": positions},
            f"%r = nn.rotary %x, %p {words} : ({{x}}, {{p}}) -> {{r}}",
            lambda x, p, options=options: rotary(x, p, **options))

    def cross_entropy(x, t, smoothing=0.0):
        lse = np.log(np.exp(x).sum(-1))
        valid = (t >= 0) & (t < x.shape[-1])
        chosen = np.take_along_axis(x, np.where(valid, t, 0)[..., None], -1)[..., 0]
        return np.where(valid, lse - (1 - smoothing) * chosen - smoothing * x.mean(-1), 0.0), lse

    targets = i32([[1, 6, -100], [0, -1, 7]])
    for title, x, t, smoothing in (
            ("", normal(2, 3, 7), targets, None), ("_smoothing", normal(2, 3, 7), targets, 0.1),
            ("_long", normal(3, 517), i32([516, 0, -1]), None), ("_row", normal(4, 5),
                                                                  i32([0, 4, 2, 1]), None)):
        words = f" smoothing {smoothing}" if smoothing else ""
        add("cross_entropy" + title, {"x": x, "t": t},
            f"%r, %l = nn.cross_entropy %x, %t{words} : ({{x}}, {{t}}) -> ({{r}}, {{l}})",
            lambda x, t, smoothing=smoothing: cross_entropy(x, t, smoothing or 0.0),
            results=("r", "l"))
    add("cross_entropy_loss_alone", {"x": normal(2, 3, 7), "t": targets},
        "%r, %l = nn.cross_entropy %x, %t : ({x}, {t}) -> ({r}, {r})",
        lambda x, t: cross_entropy(x, t)[0])
    add("cross_entropy_far", {"x": np.array([[1e4, 0.0, -1e4], [-np.inf, 0.0, 0.0]]),
                              "t": i32([0, 1])},
        "%r, %l = nn.cross_entropy %x, %t : ({x}, {t}) -> ({r}, {l})",
        lambda x, t: (np.array([0.0, math.log(2)]), np.array([1e4, math.log(2)])),
        results=("r", "l"), gradient=False)

    def cross_entropy_grad(x, t, lse, g, lse_grad, smoothing=0.0):
        width = x.shape[-1]
        valid = (t >= 0) & (t < width)
        share = np.exp(x - lse[..., None])
        goal = (1 - smoothing) * (np.arange(width) == t[..., None]) + smoothing / width
        return np.where(valid, g, 0.0)[..., None] * (share - goal) \
            + lse_grad[..., None] * share

    x = normal(2, 3, 7)
    add("cross_entropy_grad", {"x": x, "t": targets, "l": cross_entropy(x, targets)[1],
                               "g": normal(2, 3), "h": normal(2, 3)},
        "%r = nn.cross_entropy_grad %x, %t, %l grad %g, %h smoothing 0.2 "
        ": ({x}, {t}, {l}, {g}, {h}) -> {r}",
        lambda *arrays: cross_entropy_grad(*arrays, smoothing=0.2), gradient=False)


# --- Mixture of experts -----------------------------------------------------


def route(x, bias, kind, k, groups=1, keep=1, best=1, normalised=False, scale=1.0):
    """Weights and experts of each token, token by token."""
    scores = softmax(x, -1) if kind == "softmax" else sigmoid(x)
    weights = np.zeros(x.shape[:-1] + (k,))
    experts = np.zeros(weights.shape, np.int32)
    size = x.shape[-1] // groups
    for token in np.ndindex(x.shape[:-1]):
        choice = scores[token] + (bias if bias is not None else 0.0)
        worth = [sum(sorted(choice[g * size:(g + 1) * size])[::-1][:best])
                 for g in range(groups)]
        open_groups = sorted(range(groups), key=lambda g: (-worth[g], g))[:keep]
        allowed = [e for e in range(x.shape[-1]) if e // size in open_groups]
        chosen = sorted(allowed, key=lambda e: (-choice[e], e))[:k]
        picked = scores[token][chosen]
        if normalised:
            picked = picked / (picked.sum() + 1e-20)
        weights[token], experts[token] = scale * picked, chosen
    return weights, experts


def expert_sort(experts, count, capacity=None):
    """Order, position and offsets, group by group."""
    groups, tokens, k = experts.shape
    rows = tokens * k
    if capacity is not None and capacity < rows:
        rows = min(rows, count * capacity)
    order = np.full((groups, rows), -1, np.int32)
    position = np.full(experts.shape, -1, np.int32)
    offsets = np.zeros((groups, count + 1), np.int32)
    for group in range(groups):
        row = 0
        for expert in range(count):
            mine = [a for a in range(tokens * k) if experts[group].flat[a] == expert]
            for a in mine[:capacity]:
                order[group, row] = a
                position[group].flat[a] = row
                row += 1
            offsets[group, expert + 1] = row
    return order, position, offsets


def dispatch(x, order, position, weights=None):
    result = np.zeros((x.shape[0], order.shape[1], x.shape[2]))
    for group, row in np.ndindex(order.shape):
        a = order[group, row]
        if a >= 0:
            factor = 1.0 if weights is None else weights[group].flat[a]
            result[group, row] = factor * x[group, a // position.shape[2]]
    return result


def combine(x, order, position, weights=None):
    result = np.zeros(position.shape[:2] + x.shape[2:])
    for group, token, choice in np.ndindex(position.shape):
        row = position[group, token, choice]
        if row >= 0:
            factor = 1.0 if weights is None else weights[group, token, choice]
            result[group, token] += factor * x[group, row]
    return result


def grouped_matmul(x, w, offsets):
    result = np.zeros(x.shape[:2] + w.shape[2:])
    for group, expert in np.ndindex(x.shape[0], w.shape[0]):
        mine = slice(offsets[group, expert], offsets[group, expert + 1])
        result[group, mine] = x[group, mine] @ w[expert]
    return result


def grouped_outer(x, y, offsets):
    result = np.zeros((offsets.shape[1] - 1, x.shape[2], y.shape[2]))
    for group, expert in np.ndindex(x.shape[0], len(result)):
        mine = slice(offsets[group, expert], offsets[group, expert + 1])
        result[expert] += x[group, mine].T @ y[group, mine]
    return result


def bucket(x, offsets, parts, most):
    result = np.zeros((parts, x.shape[0], most, x.shape[2]))
    size = (offsets.shape[1] - 1) // parts
    for part, group in np.ndindex(parts, x.shape[0]):
        mine = x[group, offsets[group, part * size]:offsets[group, (part + 1) * size]][:most]
        result[part, group, :len(mine)] = mine
    return result


def unbucket(x, offsets, rows):
    parts, groups, most, width = x.shape
    result = np.zeros((groups, rows, width))
    size = (offsets.shape[1] - 1) // parts
    for part, group in np.ndindex(parts, groups):
        begin, end = offsets[group, part * size], offsets[group, (part + 1) * size]
        count = min(end - begin, most)
        result[group, begin:begin + count] = x[part, group, :count]
    return result


def experts_of_tokens():
    for title, shape, bias, words, options in (
            ("", (2, 3, 5), False, "softmax %x k 2", {"k": 2}),
            ("_normalised", (2, 3, 5), False, "softmax %x k 2 normalised",
             {"k": 2, "normalised": True}),
            ("_one", (4, 6), False, "softmax %x k 1 normalised", {"k": 1, "normalised": True}),
            ("_all", (3, 4), False, "softmax %x k 4 normalised", {"k": 4, "normalised": True}),
            ("_sigmoid", (2, 3, 4), False, "sigmoid %x k 2 scale 0.5",
             {"k": 2, "scale": 0.5}),
            ("_groups", (2, 5, 12), False, "softmax %x k 3 groups 4 keep 2 best 1",
             {"k": 3, "groups": 4, "keep": 2, "best": 1}),
            ("_biased", (2, 5, 12), True,
             "sigmoid %x bias %b k 3 groups 4 keep 2 best 2 normalised scale 2.5",
             {"k": 3, "groups": 4, "keep": 2, "best": 2, "normalised": True, "scale": 2.5}),
            ("_bias_alone", (3, 7), True, "softmax %x bias %b k 2", {"k": 2})):
        kind = words.split()[0]
        inputs = {"x": apart(*shape)}
        if bias:
            inputs["b"] = 0.7 * normal(shape[-1])
        add("route" + title, inputs,
            f"%r, %e = nn.route {words} : ({', '.join('{' + name + '}' for name in inputs)}) "
            "-> ({r}, {e})",
            lambda x, b=None, kind=kind, options=options: route(x, b, kind, **options),
            results=("r", "e"), frozen=(1,) if bias else ())
    tied = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 2.0, 1.0], [-1.0, -1.0, 3.0, 3.0]])
    add("route_tied", {"x": tied}, "%r, %e = nn.route softmax %x k 2 normalised : ({x}) -> ({r}, {e})",
        lambda x: route(x, None, "softmax", 2, normalised=True), results=("r", "e"),
        gradient=False)
    add("route_tied_groups", {"x": tied},
        "%r, %e = nn.route sigmoid %x k 1 groups 2 keep 1 best 1 : ({x}) -> ({r}, {e})",
        lambda x: route(x, None, "sigmoid", 1, groups=2), results=("r", "e"), gradient=False)

    for title, experts, count, capacity in (
            ("", ints(4, 3, 5, 2), 4, None), ("_one_choice", ints(3, 2, 7, 1), 3, None),
            ("_empty", i32([[[0, 5], [5, 3]], [[5, 5], [0, 0]]]), 7, None),
            ("_to_one", np.full((2, 4, 2), 2, np.int32), 5, None),
            ("_unknown", i32([[[0, -1], [3, 1], [1, 9]]]), 3, None),
            ("_capacity", ints(4, 3, 5, 2), 4, 2), ("_capacity_of_one", ints(3, 2, 6, 1), 3, 1),
            ("_capacity_above", ints(2, 1, 3, 1), 2, 9), ("_single", ints(1, 2, 3, 2), 1, 4)):
        words = f"of {count}" + (f" capacity {capacity}" if capacity else "")
        add("expert_sort" + title, {"e": experts},
            f"%o, %p, %q = nn.expert_sort %e {words} : ({{e}}) -> ({{o}}, {{p}}, {{q}})",
            lambda e, count=count, capacity=capacity: expert_sort(e, count, capacity),
            results=("o", "p", "q"))

    for title, capacity in (("", None), ("_capacity", 2)):
        order, position, offsets = expert_sort(ints(4, 2, 5, 2), 4, capacity)
        places = {"o": order, "p": position}
        rows = order.shape[1]
        for name, length, meaning in (("dispatch", 5, dispatch), ("combine", rows, combine)):
            for weighted in (False, True):
                inputs = {"x": normal(2, length, 3), **places}
                if weighted:
                    inputs["w"] = normal(2, 5, 2)
                types = ", ".join("{" + key + "}" for key in inputs)
                add(name + ("_weighted" if weighted else "") + title, inputs,
                    f"%r = nn.{name} %x, %o, %p{' weights %w' if weighted else ''} : ({types}) "
                    "-> {r}", meaning)
        # Rows that no expert has are not read.
        x, y = normal(2, rows, 3), normal(2, rows, 4)
        for group in range(2):
            x[group, offsets[group, -1]:] = y[group, offsets[group, -1]:] = np.nan
        finite = {} if title == "" else {"gradient": False}
        add("grouped_matmul" + title, {"x": x, "w": normal(4, 3, 4), "q": offsets},
            "%r = nn.grouped_matmul %x, %w, %q : ({x}, {w}, {q}) -> {r}", grouped_matmul,
            **finite)
        add("grouped_matmul_transposed" + title, {"x": x, "w": normal(4, 5, 3), "q": offsets},
            "%r = nn.grouped_matmul %x, %w, %q transposed : ({x}, {w}, {q}) -> {r}",
            lambda x, w, q: grouped_matmul(x, w.transpose(0, 2, 1), q), **finite)
        add("grouped_outer" + title, {"x": x, "y": y, "q": offsets},
            "%r = nn.grouped_outer %x, %y, %q : ({x}, {y}, {q}) -> {r}", grouped_outer, **finite)
    few = i32([[1, 1, 4, 4], [0, 0, 0, 2]])
    add("grouped_matmul_part", {"x": normal(2, 6, 3), "w": normal(3, 3, 2), "q": few},
        "%r = nn.grouped_matmul %x, %w, %q : ({x}, {w}, {q}) -> {r}", grouped_matmul)
    add("grouped_outer_part", {"x": normal(2, 6, 3), "y": normal(2, 6, 2), "q": few},
        "%r = nn.grouped_outer %x, %y, %q : ({x}, {y}, {q}) -> {r}", grouped_outer)
    for title, most in (("", 10), ("_bounded", 3)):
        offsets = expert_sort(ints(4, 2, 5, 2), 4)[2]
        add("bucket" + title, {"x": normal(2, 10, 3), "q": offsets},
            "%r = nn.bucket %x, %q : ({x}, {q}) -> {r}",
            lambda x, q, most=most: bucket(x, q, 2, most))
        add("unbucket" + title, {"x": normal(2, 2, most, 3), "q": offsets},
            "%r = nn.unbucket %x, %q : ({x}, {q}) -> {r}", lambda x, q: unbucket(x, q, 10))
    parts = {"x": normal(2, 3, 4, 3), "q": i32([[[0, 1, 4], [0, 0, 2], [0, 3, 3]],
                                                [[0, 0, 0], [0, 4, 4], [1, 2, 3]]])}

    def each(product, x, y, q):
        return np.stack([product(x[part], y[part], q[part]) for part in range(len(x))])

    add("grouped_matmul_parts", {**parts, "w": normal(2, 2, 3, 5)},
        "%r = nn.grouped_matmul %x, %w, %q : ({x}, {w}, {q}) -> {r}",
        lambda x, q, w: each(grouped_matmul, x, w, q))
    add("grouped_matmul_parts_transposed", {**parts, "w": normal(2, 2, 5, 3)},
        "%r = nn.grouped_matmul %x, %w, %q transposed : ({x}, {w}, {q}) -> {r}",
        lambda x, q, w: each(grouped_matmul, x, w.transpose(0, 1, 3, 2), q))
    add("grouped_outer_parts", {**parts, "y": normal(2, 3, 4, 5)},
        "%r = nn.grouped_outer %x, %y, %q : ({x}, {y}, {q}) -> {r}",
        lambda x, q, y: each(grouped_outer, x, y, q))
    add("grouped_matmul_large", {"x": normal(2, 300, 40), "w": normal(3, 40, 300),
                                 "q": i32([[0, 290, 290, 300], [0, 3, 170, 200]])},
        "%r = nn.grouped_matmul %x, %w, %q : ({x}, {w}, {q}) -> {r}", grouped_matmul, step=1e-3)

    # A layer: router, experts with a gate, weighted sum.
    def layer(x, g, a, c, d, capacity=None):
        weights, chosen = route(x @ g.T, None, "softmax", 2, normalised=True)
        order, position, offsets = expert_sort(chosen, len(g), capacity)
        rows = dispatch(x, order, position)
        left = grouped_matmul(rows, a.transpose(0, 2, 1), offsets)
        right = grouped_matmul(rows, c.transpose(0, 2, 1), offsets)
        out = grouped_matmul(left * sigmoid(left) * right, d.transpose(0, 2, 1), offsets)
        return combine(out, order, position, weights)

    for title, capacity in (("", None), ("_capacity", 3)):
        rows = 12 if capacity is None else min(12, 4 * capacity)
        add("experts" + title, {"x": normal(2, 6, 3), "g": normal(4, 3), "a": normal(4, 5, 3),
                                "c": normal(4, 5, 3), "d": normal(4, 3, 5)},
            f"""%l = nn.einsum "bsh,eh->bse"(%x, %g) : ({{x}}, {{g}}) -> tensor<2x6x4xf64>
  %w, %e = nn.route softmax %l k 2 normalised : (tensor<2x6x4xf64>) -> (tensor<2x6x2xf64>, tensor<2x6x2xi32>)
  %o, %p, %q = nn.expert_sort %e of 4{f" capacity {capacity}" if capacity else ""} : (tensor<2x6x2xi32>) -> (tensor<2x{rows}xi32>, tensor<2x6x2xi32>, tensor<2x5xi32>)
  %i = nn.dispatch %x, %o, %p : ({{x}}, tensor<2x{rows}xi32>, tensor<2x6x2xi32>) -> tensor<2x{rows}x3xf64>
  %m = nn.grouped_matmul %i, %a, %q transposed : (tensor<2x{rows}x3xf64>, {{a}}, tensor<2x5xi32>) -> tensor<2x{rows}x5xf64>
  %n = nn.grouped_matmul %i, %c, %q transposed : (tensor<2x{rows}x3xf64>, {{c}}, tensor<2x5xi32>) -> tensor<2x{rows}x5xf64>
  %s = nn.silu %m : tensor<2x{rows}x5xf64>
  %t = nn.mul %s, %n : tensor<2x{rows}x5xf64>
  %u = nn.grouped_matmul %t, %d, %q transposed : (tensor<2x{rows}x5xf64>, {{d}}, tensor<2x5xi32>) -> tensor<2x{rows}x3xf64>
  %r = nn.combine %u, %o, %p weights %w : (tensor<2x{rows}x3xf64>, tensor<2x{rows}xi32>, tensor<2x6x2xi32>, tensor<2x6x2xf64>) -> {{r}}""",
            lambda x, g, a, c, d, capacity=capacity: layer(x, g, a, c, d, capacity))


# --- The training step ------------------------------------------------------


def steps():
    weights = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    add("step_mean", {"x": normal(2, 3), "w": weights != 0},
        "%r = nn.step_mean %x weights %w : ({x}, {w}) -> {r}",
        lambda x, w: (x * w).sum() / w.sum())
    add("step_mean_weighted", {"x": normal(2, 3), "w": 3 * weights + 0.5},
        "%r = nn.step_mean %x weights %w : ({x}, {w}) -> {r}",
        lambda x, w: (x * w).sum() / w.sum(), frozen=(1,))
    add("step_mean_empty", {"x": normal(2), "w": np.zeros(2, bool)},
        "%r = nn.step_mean %x weights %w : ({x}, {w}) -> {r}", lambda x, w: np.float64(0.0))
    add("step_mean_nan", {"x": np.array([1.0, np.nan, 3.0]), "w": np.array([True, False, True])},
        "%r = nn.step_mean %x weights %w : ({x}, {w}) -> {r}", lambda x, w: np.float64(2.0),
        gradient=False)

    def adamw(p, g, m, v, lr, beta1, beta2, eps, decay, c1, c2, scale):
        g = g * scale
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        return p - lr * (decay * p + (m / c1) / (np.sqrt(v / c2) + eps)), m, v

    def scalars(**values):
        return {name: np.float64(value) for name, value in values.items()}

    state = {"p": normal(3, 5), "g": normal(3, 5), "m": normal(3, 5), "v": positive(3, 5)}
    inputs = {**state, **scalars(lr=0.1, b1=0.9, b2=0.95, eps=1e-3, wd=0.2, c1=0.19, c2=0.1,
                                 gs=0.7)}
    types = ", ".join("{" + name + "}" for name in inputs)
    add("adamw", inputs, "%a, %b, %c = nn.adamw %p, %g, %m, %v lr %lr beta1 %b1 beta2 %b2 "
        f"eps %eps decay %wd corrections %c1, %c2 grad_scale %gs : ({types}) -> "
        "({a}, {b}, {c})", adamw, results=("a", "b", "c"), gradient=False)

    def sgd(p, g, b, lr, momentum, decay, scale):
        b = momentum * b + g * scale
        return p - lr * (decay * p + b), b

    inputs = {"p": normal(7), "g": normal(7), "b": normal(7),
              **scalars(lr=0.1, mu=0.9, wd=0.2, gs=0.7)}
    types = ", ".join("{" + name + "}" for name in inputs)
    add("sgd", inputs, "%a, %c = nn.sgd %p, %g, %b lr %lr momentum %mu decay %wd "
        f"grad_scale %gs : ({types}) -> ({{a}}, {{c}})", sgd, results=("a", "c"),
        gradient=False)

    add("microbatches", {"x": normal(6, 4), "z": np.asarray(normal()), "y": normal(4)},
        """%r = nn.microbatches 3 slices(%x : {x}) inits(%z : {z}) -> {z} {
  ^bb0(%k: tensor<i32>, %part: tensor<2x4xf64>, %acc: {z}):
    %f = nn.cast %k : tensor<i32> -> {z}
    %m = nn.mul %part, %y : (tensor<2x4xf64>, {y}) -> tensor<2x4xf64>
    %s = nn.reduce sum %m dims [0, 1] : (tensor<2x4xf64>) -> {z}
    %t = nn.mul %s, %f : {z}
    %next = nn.add %acc, %t : {z}
    nn.yield %next : {z}
  }""", lambda x, z, y: z + ((x * y).sum(1) * np.repeat([0, 1, 2], 2)).sum(), gradient=False)


def programs():
    """What differentiation has to get right beside the ops: fan-out, unused arguments,
    results that are arguments, functions called more than once."""
    add("fan_out", {"x": normal(3)}, """%a = nn.exp %x : {x}
  %b = nn.mul %a, %x : {x}
  %c = nn.add %b, %a : {x}
  %r = nn.mul %c, %a : {x}""", lambda x: (np.exp(x) * x + np.exp(x)) * np.exp(x))
    add("unused_argument", {"x": normal(3), "y": normal(2)}, "%r = nn.neg %x : {x}",
        lambda x, y: -x)
    add("two_results", {"x": normal(3), "y": normal(3)}, """%r = nn.mul %x, %y : {x}
  %s = nn.sub %r, %x : {x}""", lambda x, y: (x * y, x * y - x), results=("r", "s"))
    add("argument_returned", {"x": normal(3)}, "%s = nn.neg %x : {x}", lambda x: (x, -x),
        results=("x", "s"))
    add("twice_returned", {"x": normal(3)}, "%r = nn.sin %x : {x}",
        lambda x: (np.sin(x), np.sin(x)), results=("r", "r"))
    add("constant_result", {"x": normal(2)}, "%r = nn.constant dense<1.5> : {x}",
        lambda x: np.full(2, 1.5))
    add("dead_branch", {"x": normal(3)}, """%d = nn.exp %x : {x}
  %e = nn.mul %d, %d : {x}
  %r = nn.neg %x : {x}""", lambda x: -x)
    add("through_integers", {"x": apart(3, 4)}, """%v, %i = nn.top_k %x k 2 : ({x}) -> (tensor<3x2xf64>, tensor<3x2xi32>)
  %g = nn.gather %x[%i] axis 1 batch 1 : ({x}, tensor<3x2xi32>) -> tensor<3x2xf64>
  %r = nn.mul %g, %v : tensor<3x2xf64>""", lambda x: np.sort(x, -1)[:, :1:-1] ** 2)

    helper = """func.func private @helper_layer(%x: {x}, %w: {w}) -> {x} {
  %a = nn.einsum "ab,bc->ac"(%x, %w) : ({x}, {w}) -> {x}
  %b = nn.tanh %a : {x}
  %c = nn.add %b, %x : {x}
  return %c : {x}
}"""

    def layer(x, w):
        return np.tanh(x @ w) + x

    add("calls", {"x": normal(2, 3), "w": 0.5 * normal(3, 3), "u": 0.5 * normal(3, 3)},
        """%a = func.call @helper_layer(%x, %w) : ({x}, {w}) -> {x}
  %b = func.call @helper_layer(%a, %u) : ({x}, {w}) -> {x}
  %r = func.call @helper_layer(%b, %w) : ({x}, {w}) -> {x}""",
        lambda x, w, u: layer(layer(layer(x, w), u), w), helpers=helper)

    # A marked layer stays a function: kept values, a second result, an argument that is
    # no parameter, and one that it does not use.
    marked = """func.func private @helper_marked(%x: {x}, %w: {w}, %s: {s}, %n: {s}) -> ({x}, {s}) attributes {nn.layer} {
  %a = nn.einsum "ab,bc->ac"(%x, %w) : ({x}, {w}) -> {x}
  %b = nn.softmax %a dim 1 : {x}
  %c = nn.mul %b, %s : ({x}, {s}) -> {x}
  %d = nn.add %c, %x : {x}
  %e = nn.reduce sum_of_squares %b dims [0, 1] : ({x}) -> {s}
  return %d, %e : {x}, {s}
}"""

    def marked_layer(x, w, s):
        b = softmax(x @ w, 1)
        return b * s + x, (b * b).sum()

    def marked_calls(x, w, u, s):
        y, e = marked_layer(x, w, s)
        z, f = marked_layer(y, u, e)
        return z, e * f

    add("layer_calls", {"x": normal(2, 3), "w": normal(3, 3), "u": normal(3, 3),
                        "s": np.asarray(normal())},
        """%y, %e = func.call @helper_marked(%x, %w, %s, %s) : ({x}, {w}, {s}, {s}) -> ({x}, {s})
  %z, %f = func.call @helper_marked(%y, %u, %e, %s) : ({x}, {w}, {s}, {s}) -> ({x}, {s})
  %r = nn.mul %e, %f : {s}""", marked_calls, results=("z", "r"), helpers=marked)
    add("layer_result_unused", {"x": normal(2, 3), "w": normal(3, 3), "s": np.asarray(normal())},
        """%y, %e = func.call @helper_unused(%x, %w, %s, %s) : ({x}, {w}, {s}, {s}) -> ({x}, {s})
  %r = nn.neg %e : {s}""", lambda x, w, s: -marked_layer(x, w, s)[1],
        helpers=marked.replace("helper_marked", "helper_unused"))
    # A layer that calls a layer twice, with another function between.
    nested = """func.func private @helper_inner(%x: {x}, %w: {w}) -> {x} attributes {nn.layer} {
  %a = nn.einsum "ab,bc->ac"(%x, %w) : ({x}, {w}) -> {x}
  %b = nn.tanh %a : {x}
  %c = nn.mul %b, %b : {x}
  return %c : {x}
}
func.func private @helper_middle(%x: {x}, %w: {w}) -> {x} {
  %a = func.call @helper_inner(%x, %w) : ({x}, {w}) -> {x}
  %b = nn.add %a, %x : {x}
  return %b : {x}
}
func.func private @helper_outer(%x: {x}, %w: {w}, %u: {w}) -> {x} attributes {nn.layer} {
  %a = func.call @helper_middle(%x, %w) : ({x}, {w}) -> {x}
  %b = func.call @helper_inner(%a, %u) : ({x}, {w}) -> {x}
  %c = nn.exp %b : {x}
  return %c : {x}
}"""

    def inner(x, w):
        return np.tanh(x @ w) ** 2

    def outer(x, w, u):
        return np.exp(inner(inner(x, w) + x, u))

    add("nested_layers", {"x": normal(2, 3), "w": 0.5 * normal(3, 3), "u": 0.5 * normal(3, 3)},
        """%a = func.call @helper_outer(%x, %w, %u) : ({x}, {w}, {w}) -> {x}
  %r = func.call @helper_outer(%a, %u, %w) : ({x}, {w}, {w}) -> {x}""",
        lambda x, w, u: outer(outer(x, w, u), u, w), helpers=nested)
    add("mlp", {"x": normal(2, 3, 4), "w": normal(4, 6), "b": normal(6), "u": normal(6, 4)},
        """%a = nn.einsum "abc,cd->abd"(%x, %w) : ({x}, {w}) -> tensor<2x3x6xf64>
  %c = nn.add %a, %b : (tensor<2x3x6xf64>, {b}) -> tensor<2x3x6xf64>
  %d = nn.gelu_tanh %c : tensor<2x3x6xf64>
  %e = nn.einsum "abd,dc->abc"(%d, %u) : (tensor<2x3x6xf64>, {u}) -> {x}
  %r = nn.add %e, %x : {x}""",
        lambda x, w, b, u: models.gelu_tanh(x @ w + b)[0] @ u + x)


def cases():
    """All cases, in the order of the sections above."""
    if not _cases:
        for section in (elementwise, products, shapes, randoms, attentions, composites,
                        experts_of_tokens, steps, programs):
            section()
        names = [case.name for case in _cases]
        if len(set(names)) != len(names):
            raise ValueError("a case name occurs twice")
    return _cases
