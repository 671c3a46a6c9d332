"""Scaled 8-bit payloads by execution, against their rules in NumPy.

    python3 test/e2e/quantize.py build/bin

Compiles functions of nn.quantize and nn.dequantize for formats, granularities and scale
rules, and runs them on random numbers and on blocks whose largest magnitude is 0, denormal,
1e-38, the largest number of f32, infinite or NaN: payloads and factors are compared bit for
bit, NaN by class. Payloads are results of one artifact and arguments of another, products
of payloads are compared with those of the numbers that they stand for, and a mesh of two
gives the bits of one device. SHEAF_FULL=1 takes every format, granularity and rule together.
"""

import functools
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support  # noqa: E402
import safetensors  # noqa: E402

FULL = bool(os.environ.get("SHEAF_FULL"))
# Bits of the exponent, code of the largest number, type in a file.
FORMATS = {"f8E4M3FN": (4, 0x7E, "F8_E4M3"), "f8E5M2": (5, 0x7B, "F8_E5M2")}
BLOCKS = [(0, 0), (1, 0), (0, 1), (1, 128), (128, 128), (1, 32)]
RULES = ["exact", "power_of_two", "e8m0"]
SHAPE = (130, 200)
LARGEST = np.finfo(np.float32).max


@functools.cache
def table(format):
    """The numbers of the codes without a sign, as f64."""
    if format == "f4E2M1FN":
        return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    exponent, largest, _ = FORMATS[format]
    codes = np.arange(largest + 1, dtype=np.uint8)
    return safetensors.f8_to_f32(codes, exponent).astype(np.float64)


def encode(x, format):
    """The values after a saturating cast to nearest even, with their signs; NaN stays, but for
    4 bits, where it is 6."""
    numbers = table(format)
    middle = (numbers[1:] + numbers[:-1]) / 2
    size = np.abs(x).astype(np.float64)
    code = np.searchsorted(middle, np.nan_to_num(size, nan=0, posinf=np.inf))
    tie = middle[np.minimum(code, len(middle) - 1)] == size
    code = np.where(tie & (code % 2 == 1), code + 1, code)
    value = np.copysign(numbers[np.minimum(code, len(numbers) - 1)], x)
    nan = 6 if format == "f4E2M1FN" else np.nan
    return np.where(np.isnan(x), nan, value).astype(np.float32)


def block_length(size, block):
    return size if block == 0 else min(size, block)


def quantize(x, format, blocks, rule):
    """Values of the payload and factors, by the rules alone, block by block."""
    top = np.float32(table(format)[-1])
    lengths = [block_length(size, block) for size, block in zip(x.shape, blocks)]
    counts = [-(-size // length) for size, length in zip(x.shape, lengths)]
    payload, factors = np.empty(x.shape, np.float32), np.empty(counts, np.float32)
    for place in np.ndindex(*counts):
        part = tuple(slice(i * n, (i + 1) * n) for i, n in zip(place, lengths))
        block = x[part]
        amax = np.max(np.abs(block))
        usable = 0 < amax < np.inf
        if rule == "e8m0":
            exponent = 0
            if usable:
                mantissa, exponent = np.frexp(np.float64(amax / top))
                exponent = -127 if mantissa == 0 else max(exponent - (mantissa == 0.5), -127)
            factor = np.float32(np.ldexp(1.0, exponent))
            scaled = block / factor
        else:
            scale = np.minimum(top / amax, LARGEST) if usable else np.float32(1)
            if rule == "power_of_two":
                scale = (np.array(scale, np.float32).view(np.uint32)
                         & np.uint32(0x7F800000)).view(np.float32)[()]
            factor = np.float32(1) / scale
            scaled = block * scale
        assert scaled.dtype == np.float32
        payload[part], factors[place] = encode(scaled, format), factor
    return payload, factors


def dequantize(payload, factors, blocks):
    """In f32, unrounded."""
    wide = factors
    for axis, (size, block) in enumerate(zip(payload.shape, blocks)):
        wide = np.repeat(wide, block_length(size, block), axis).take(range(size), axis)
    return payload * wide


def same(found, expected):
    """Bits, but NaN by class."""
    nan = np.isnan(expected)
    bits = [np.ascontiguousarray(a, np.float32).view(np.uint32) for a in (found, expected)]
    return found.shape == expected.shape and bool(np.all(np.where(
        nan, np.isnan(found), bits[0] == bits[1])))


def tensor(shape, element):
    return "tensor<" + "".join(f"{size}x" for size in shape) + element + ">"


def factor_shape(shape, blocks):
    return tuple(-(-size // block_length(size, block)) for size, block in zip(shape, blocks))


class Case:
    def __init__(self, number, format, blocks, rule, element="f32"):
        self.name = f"q{number}"
        self.format, self.blocks, self.rule, self.element = format, blocks, rule, element
        self.title = f"{element} to {format} blocks {list(blocks)} {rule}"
        self.factor = "f8E8M0FNU" if rule == "e8m0" else "f32"
        x, q = tensor(SHAPE, element), tensor(SHAPE, format)
        f = tensor(factor_shape(SHAPE, blocks), self.factor)
        self.text = (
            f"func.func @{self.name}(%x: {x}) -> ({q}, {f}) {{\n"
            f"  %q, %f = nn.quantize %x to {format} blocks {list(blocks)} scale {rule} : "
            f"({x}) -> ({q}, {f})\n  return %q, %f : {q}, {f}\n}}\n")
        y = tensor(SHAPE, "f32")
        h = tensor(SHAPE, "bf16")
        self.back = (
            f"func.func @{self.name}(%q: {q}, %f: {f}) -> ({y}, {h}) {{\n"
            f"  %x = nn.dequantize %q, %f blocks {list(blocks)} : ({q}, {f}) -> {y}\n"
            f"  %h = nn.dequantize %q, %f blocks {list(blocks)} : ({q}, {f}) -> {h}\n"
            f"  return %x, %h : {y}, {h}\n}}\n")


def cases():
    if FULL:
        found = [(f, b, r, "f32") for f in FORMATS for b in BLOCKS for r in RULES]
        found += [(f, b, r, e) for f in FORMATS for b in BLOCKS[::3] for r in RULES
                  for e in ("bf16", "f16")]
    else:
        found = [("f8E4M3FN", b, r, "f32") for b in [(0, 0), (1, 0), (1, 128), (128, 128)]
                 for r in RULES[:2]]
        found += [("f8E4M3FN", (1, 32), "e8m0", "f32"), ("f8E5M2", (1, 32), "e8m0", "bf16"),
                  ("f8E5M2", (0, 0), "e8m0", "f32"), ("f8E5M2", (0, 0), "exact", "f16"),
                  ("f8E5M2", (1, 128), "power_of_two", "f32"), ("f8E4M3FN", (0, 1), "exact", "f32")]
    return [Case(i, *entry) for i, entry in enumerate(found)]


def inputs():
    """Tensors of f32 by what they try."""
    random = np.random.default_rng(5)

    def uniform():
        return random.uniform(-1, 1, SHAPE).astype(np.float32)
    normal = (random.standard_normal(SHAPE) * np.exp2(random.integers(-9, 9, SHAPE)))
    found = {"random": normal.astype(np.float32)}
    tiny = np.float32(1e-45)
    for title, amax in {"zero": 0, "least denormal": tiny, "denormal": np.float32(3e-39),
                        "1e-38": np.float32(1e-38), "largest": LARGEST}.items():
        x = uniform() * np.float32(amax)
        x[::7, ::16] = amax
        x[1::7, ::16] = -amax
        found[title] = x
    for title, value in {"inf": np.inf, "-inf": -np.inf, "NaN": np.nan}.items():
        x = normal.astype(np.float32)
        x[3, 5] = x[129, 199] = value
        found[title] = x
    # A row of each kind, so that blocks of all kinds are in one tensor.
    rows = normal.astype(np.float32)
    for i, value in enumerate([0, -0.0, tiny, 1e-40, 1e-38, LARGEST, np.inf, np.nan]):
        rows[10 + i] = value
        rows[30 + i, 100] = value
    found["rows"] = rows
    return found


def narrowed(x, element):
    """What an f32 input is in `element`, as f32."""
    if element == "f16":
        return x.astype(np.float16).astype(np.float32)
    if element == "bf16":
        return np.where(np.isnan(x), x, (x.view(np.uint32) & 0xFFFF0000).view(np.float32))
    return x


class Runner:
    def __init__(self, session):
        self.session = session

    def compile(self, name, text, *options):
        path = self.session.path(name + ".mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.session.run("sheaf-compile", path, "-o", self.session.path(name + ".sheaf"), *options)
        return self.session.path(name + ".sheaf")

    def call(self, artifact, arguments, codes=(), bf16=()):
        """{entry: results} of {entry: arguments}."""
        source, target = self.session.path("in"), self.session.path("out")
        safetensors.write(source, {f"input:{entry}.arg{i}": value
                                   for entry, values in arguments.items()
                                   for i, value in enumerate(values)},
                          codes=dict(codes), bf16=bf16)
        self.session.run("sheaf-run", artifact, "--call=" + ",".join(arguments),
                         f"--inputs={source}", f"--outputs={target}", "--threads=1")
        out = safetensors.read(target)
        return {entry: [out[f"output:{entry}.out{i}"] for i in range(
            sum(name.startswith(f"output:{entry}.out") for name in out))] for entry in arguments}


def codes_of(values, format):
    """Codes of numbers that the format has."""
    if format == "f8E8M0FNU":
        return (np.frexp(values.astype(np.float64))[1] + 126).astype(np.uint8)
    numbers = table(format)
    code = np.searchsorted(numbers, np.nan_to_num(np.abs(values)).astype(np.float64))
    code = np.where(np.isnan(values), 0x7F, code) | np.where(np.signbit(values), 0x80, 0)
    return code.astype(np.uint8)


def check_cases(session, runner):
    listed = cases()
    artifact = runner.compile("quantize", "\n".join(case.text for case in listed))
    wrong, quantized = {}, {}
    for title, x in inputs().items():
        sources = {case.name: narrowed(x, case.element) for case in listed}
        found = runner.call(artifact, {
            case.name: [sources[case.name].astype(np.float16) if case.element == "f16"
                        else sources[case.name]] for case in listed},
            bf16=[f"input:{case.name}.arg0" for case in listed if case.element == "bf16"])
        for case in listed:
            expected = quantize(sources[case.name], case.format, case.blocks, case.rule)
            if title == "rows":
                quantized[case.name] = expected
            for what, a, b in zip(("payload", "factors"), found[case.name], expected):
                if not same(a, b):
                    at = np.argwhere(~((a == b) | (np.isnan(a) & np.isnan(b))))
                    place = tuple(at[0]) if len(at) else ()
                    wrong.setdefault(case.name, f"{title}: {what} at {list(map(int, place))} is "
                                     f"{a[place]}, expected {b[place]}")
            finite = np.isfinite(sources[case.name]).all()
            if finite and not np.isfinite(found[case.name][0]).all():
                wrong.setdefault(case.name, f"{title}: a payload that is not finite")
    for case in listed:
        session.check(case.title, case.name not in wrong, wrong.get(case.name, ""))

    # The same numbers as arguments of another artifact.
    artifact = runner.compile("dequantize", "\n".join(case.back for case in listed))
    arguments, codes = {}, {}
    for case in listed:
        payload, factors = quantized[case.name]
        name = f"input:{case.name}.arg"
        codes[name + "0"] = FORMATS[case.format][2]
        arguments[case.name] = [codes_of(payload, case.format), factors]
        if case.rule == "e8m0":
            codes[name + "1"] = "F8_E8M0"
            arguments[case.name][1] = codes_of(factors, case.factor)
    found = runner.call(artifact, arguments, codes)
    for case in listed:
        wide = dequantize(*quantized[case.name], case.blocks)
        finite = np.isfinite(wide)
        rounded = np.where(finite, safetensors.bf16_to_f32(
            safetensors.f32_to_bf16(np.where(finite, wide, 0))).reshape(wide.shape), wide)
        session.check(f"back: {case.title}", same(found[case.name][0], wide)
                      and same(found[case.name][1], rounded))


def check_four_bits(session, runner):
    """f4E2M1FN in buffers, a code in a byte: stored by one function, read by another."""
    listed = [("f32", (1, 32), "e8m0"), ("bf16", (1, 32), "e8m0"), ("f32", (0, 0), "exact"),
              ("f16", (1, 16), "power_of_two")]
    text = ""
    for i, (element, blocks, rule) in enumerate(listed):
        x, q, y, h = (tensor(SHAPE, e) for e in (element, "f4E2M1FN", "f32", "bf16"))
        f = tensor(factor_shape(SHAPE, blocks), "f8E8M0FNU" if rule == "e8m0" else "f32")
        text += (
            f"func.func private @store{i}(%x: {x}) -> ({q}, {f}) attributes {{nn.layer}} {{\n"
            f"  %q, %f = nn.quantize %x to f4E2M1FN blocks {list(blocks)} scale {rule} : ({x}) -> "
            f"({q}, {f})\n  return %q, %f : {q}, {f}\n}}\n"
            f"func.func @f{i}(%x: {x}) -> ({y}, {f}, {y}, {h}) {{\n"
            f"  %q:2 = call @store{i}(%x) : ({x}) -> ({q}, {f})\n"
            f"  %v = nn.cast %q#0 : {q} -> {y}\n"
            f"  %y = nn.dequantize %q#0, %q#1 blocks {list(blocks)} : ({q}, {f}) -> {y}\n"
            f"  %h = nn.dequantize %q#0, %q#1 blocks {list(blocks)} : ({q}, {f}) -> {h}\n"
            f"  return %v, %q#1, %y, %h : {y}, {f}, {y}, {h}\n}}\n")
    # Of constants, too, and kept in a table.
    values = np.array([0, -0.0, 0.2, 0.25, 0.26, 0.75, -1.25, 1.75, 2.5, 5, 5.1, -7], np.float32)
    numbers = ", ".join(f"{value:.3e}" for value in values)
    text += (f"func.func @c() -> tensor<12xf32> {{\n  %c = nn.constant dense<[{numbers}]> : "
             "tensor<12xf32>\n  %q = nn.cast %c : tensor<12xf32> -> tensor<12xf4E2M1FN>\n"
             "  %y = nn.cast %q : tensor<12xf4E2M1FN> -> tensor<12xf32>\n"
             "  return %y : tensor<12xf32>\n}\n")
    with open(session.path("entry.mlir"), "w", encoding="utf-8") as file:
        file.write("func.func @e(%x: tensor<8xf32>) -> tensor<8xf4E2M1FN> {\n  %q = nn.cast %x : "
                   "tensor<8xf32> -> tensor<8xf4E2M1FN>\n  return %q : tensor<8xf4E2M1FN>\n}\n")
    artifact = runner.compile("four", text)
    wrong = {}
    for title, x in inputs().items():
        sources = [narrowed(x, element) for element, _, _ in listed]
        found = runner.call(artifact, {
            f"f{i}": [source.astype(np.float16) if listed[i][0] == "f16" else source]
            for i, source in enumerate(sources)},
            bf16=[f"input:f{i}.arg0" for i, entry in enumerate(listed) if entry[0] == "bf16"])
        for i, (_, blocks, rule) in enumerate(listed):
            payload, factors = quantize(sources[i], "f4E2M1FN", blocks, rule)
            wide = dequantize(payload, factors, blocks)
            finite = np.isfinite(wide)
            rounded = np.where(finite, safetensors.bf16_to_f32(safetensors.f32_to_bf16(
                np.where(finite, wide, 0))).reshape(wide.shape), wide)
            for what, a, b in zip(("payload", "factors", "f32", "bf16"), found[f"f{i}"],
                                  (payload, factors, wide, rounded)):
                if not same(a, b):
                    wrong.setdefault(i, f"{title}: {what}")
    for i, entry in enumerate(listed):
        session.check(f"f4E2M1FN from {entry[0]}, blocks {list(entry[1])} {entry[2]}",
                      i not in wrong, wrong.get(i, ""))
    constants = runner.call(artifact, {"c": []})["c"][0]
    session.check("f4E2M1FN: constants", same(constants, encode(values, "f4E2M1FN")),
                  f"{constants}")
    step = runner.session.run("sheaf-compile", runner.session.path("four.mlir"), "--emit=exec")
    session.check("f4E2M1FN is in buffers", "memref<130x200xf4E2M1FN>" in step)
    status, _, err = session.try_run("sheaf-compile", session.path("entry.mlir"), "-o",
                                     session.path("entry.sheaf"))
    session.check("f4E2M1FN of an entry is refused", status == 1 and
                  "buffer of element type 'f4E2M1FN' has no place in an artifact" in err, err[-300:])


def check_copies(session, runner):
    """Copies of one tensor in blocks along rows and down columns: of one kernel, the same bits."""
    shape, listed, text = (2, 256, 512), [], ""
    for element in ("f32", "bf16"):
        for length, rule in ((128, "power_of_two"), (32, "e8m0"), (128, "exact")):
            listed.append((element, (1, 1, length), (1, length, 1), rule))
    for i, (element, *both, rule) in enumerate(listed):
        x, q = tensor(shape, element), tensor(shape, "f8E4M3FN")
        f = [tensor(tuple(n // b for n, b in zip(shape, blocks)),
                    "f8E8M0FNU" if rule == "e8m0" else "f32") for blocks in both]
        text += f"func.func @f{i}(%x: {x}) -> ({q}, {f[0]}, {q}, {f[1]}) {{\n"
        for k, blocks in enumerate(both):
            text += (f"  %q{k}, %f{k} = nn.quantize %x to f8E4M3FN blocks {list(blocks)} scale "
                     f"{rule} : ({x}) -> ({q}, {f[k]})\n")
        text += f"  return %q0, %f0, %q1, %f1 : {q}, {f[0]}, {q}, {f[1]}\n}}\n"
    random = np.random.default_rng(3)
    x = (random.standard_normal(shape) * np.exp2(random.integers(-20, 20, shape))).astype(
        np.float32)
    x[0, :40], x[1, 7, 9], x[1, 100:, 64:96], x[0, 200, 300] = 0, np.nan, 1e-38, np.inf
    found = {}
    for level in ("-O3", "-O0"):
        artifact = runner.compile("copies", text, level)
        found[level] = runner.call(artifact, {
            f"f{i}": [narrowed(x, element)] for i, (element, *_) in enumerate(listed)},
            bf16=[f"input:f{i}.arg0" for i, entry in enumerate(listed) if entry[0] == "bf16"])
    lowered = session.run("sheaf-compile", session.path("copies.mlir"), "--emit=exec")
    for i, (element, *both, rule) in enumerate(listed):
        # Blocks of NumPy are those of two dimensions.
        wanted = []
        for blocks in both:
            parts = [quantize(narrowed(x, element)[k], "f8E4M3FN", blocks[1:], rule)
                     for k in range(shape[0])]
            wanted += [np.stack(part) for part in zip(*parts)]
        body = lowered[lowered.index(f"@f{i}("):]
        launches = body[:body.index("return")].count("exec.launch")
        session.check(f"{element}, blocks of {both[0][2]}, {rule}: two copies of one launch",
                      launches == 1 and all(
                          same(a, b) and a.tobytes() == c.tobytes() for a, b, c in
                          zip(found["-O3"][f"f{i}"], wanted, found["-O0"][f"f{i}"])),
                      f"{launches} launches")


PRODUCTS = [
    # Equation, shapes, formats, blocks, rule, type of the result.
    ("bk,nk->bn", (5, 200), (7, 200), ("f8E4M3FN", "f8E4M3FN"), (1, 128), (128, 128),
     "power_of_two", "f32"),
    ("bk,kn->bn", (5, 200), (200, 7), ("f8E5M2", "f8E4M3FN"), (0, 0), (0, 0), "exact", "bf16"),
    ("ebk,enk->ebn", (2, 5, 96), (2, 7, 96), ("f8E4M3FN", "f8E5M2"), (1, 1, 32), (1, 1, 32),
     "e8m0", "f32"),
]


def check_products(session, runner):
    random = np.random.default_rng(9)
    texts, arguments, expected = [], {}, {}
    for i, (equation, left, right, formats, lb, rb, rule, element) in enumerate(PRODUCTS):
        factor = "f8E8M0FNU" if rule == "e8m0" else "f32"
        values, lines, names = [], [], []
        for side, shape, format, blocks in zip("ab", (left, right), formats, (lb, rb)):
            x = random.standard_normal(shape).astype(np.float32)
            payload, factors = quantize(x, format, blocks, rule)
            values.append((x, dequantize(payload, factors, blocks).astype(np.float64)))
            q, f = tensor(shape, format), tensor(factor_shape(shape, blocks), factor)
            lines.append(f"  %q{side}, %f{side} = nn.quantize %{side} to {format} blocks "
                         f"{list(blocks)} scale {rule} : ({tensor(shape, 'f32')}) -> ({q}, {f})\n")
            names.append((q, f))
        product = np.einsum(equation, values[0][1], values[1][1])
        y = tensor(product.shape, element)
        (qa, fa), (qb, fb) = names
        texts.append(
            f"func.func @p{i}(%a: {tensor(left, 'f32')}, %b: {tensor(right, 'f32')}) -> {y} {{\n"
            + "".join(lines) +
            f'  %y = nn.scaled_einsum "{equation}"(%qa, %qb) scales(%fa, %fb) blocks {list(lb)}, '
            f"{list(rb)} : ({qa}, {qb}, {fa}, {fb}) -> {y}\n  return %y : {y}\n}}\n")
        arguments[f"p{i}"] = [value[0] for value in values]
        expected[f"p{i}"] = (product, 2e-6 if element == "f32" else 2.0 ** -8)
    found = runner.call(runner.compile("products", "\n".join(texts)), arguments)
    for i, entry in enumerate(PRODUCTS):
        product, tolerance = expected[f"p{i}"]
        error = np.abs(found[f"p{i}"][0] - product).max() / np.abs(product).max()
        session.check(f"product {entry[0]} of {entry[3][0]} and {entry[3][1]}, {entry[6]}",
                      bool(error <= tolerance), f"error {error:.1e}")


def sharded(shape, dims):
    inside = ", ".join("{" + (f'"{axis}"' if axis else "") + "}" for axis in dims)
    return f"{{dist.sharding = #dist.sharding<[{inside}]>}}"


def check_mesh(session, runner):
    """Two devices, whose results are gathered, against one."""
    random = np.random.default_rng(3)
    shape = (6, 256)
    x = random.standard_normal(shape).astype(np.float32)
    texts = []
    for cut, dims in enumerate([("dp", ""), ("", "dp")]):
        for number, (blocks, rule) in enumerate([((1, 128), "power_of_two"), ((1, 32), "e8m0"),
                                                 ((0, 0), "exact"), ((1, 0), "exact")]):
            factor = "f8E8M0FNU" if rule == "e8m0" else "f32"
            t, q = tensor(shape, "f32"), tensor(shape, "f8E4M3FN")
            f = tensor(factor_shape(shape, blocks), factor)
            whole = sharded(shape, ("", ""))
            texts.append(
                f"func.func @m{cut}{number}(%x: {t} {sharded(shape, dims)}) -> "
                f"({q} {whole}, {f} {whole}) {{\n"
                f"  %q, %f = nn.quantize %x to f8E4M3FN blocks {list(blocks)} scale {rule} : "
                f"({t}) -> ({q}, {f})\n  return %q, %f : {q}, {f}\n}}\n")
        t, b, h = (tensor(shape, e) for e in ("f32", "i32", "f8E5M2"))
        texts.append(
            f"func.func @r{cut}(%x: {t} {sharded(shape, dims)}, %k: tensor<4xi32>) -> "
            f"({h} {sharded(shape, ('', ''))}) {{\n  %s = nn.constant dense<3> : tensor<i32>\n"
            f"  %b = nn.random bits %k, %s : (tensor<4xi32>, tensor<i32>) -> {b}\n"
            f"  %q = nn.cast %x stochastic %b : {t}, {b} -> {h}\n  return %q : {h}\n}}\n")
    text = 'dist.mesh @mesh ["dp" = 2]\n' + "\n".join(texts)
    names = [f"m{cut}{i}" for cut in range(2) for i in range(4)]
    key = np.array([11, 22, 1, 0], np.int32)
    arguments = {**{name: [x] for name in names}, **{f"r{cut}": [x, key] for cut in range(2)}}
    two = runner.call(runner.compile("two", text), arguments)
    one = runner.call(runner.compile("one", text.replace('"dp" = 2', '"dp" = 1')), arguments)
    for name in arguments:
        session.check(f"two devices as one, {name}",
                      all(same(a, b) for a, b in zip(two[name], one[name], strict=True)))
    session.check("random bits round both ways", not same(one["r0"][0], encode(x, "f8E5M2"))
                  and same(one["r0"][0], one["r1"][0]))
    lowered = session.run("sheaf-opt", session.path("two.mlir"), "--dist-propagate",
                          "--dist-partition", "--canonicalize")
    session.check("payloads are what is gathered",
                  lowered.count("dist.all_gather") >= 8
                  and "-> tensor<6x256xf8E4M3FN>" in lowered)


def body(session, _):
    runner = Runner(session)
    with np.errstate(all="ignore"):
        check_cases(session, runner)
        check_four_bits(session, runner)
        check_copies(session, runner)
        check_products(session, runner)
        check_mesh(session, runner)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 600))
