"""Every fused kernel computes what its ops compute one by one.

    python3 test/e2e/fused.py build/bin

Programs and their gradients, and the updates of optimizers, are compiled with fusion,
without it (-O0), and with every composite op taken apart as well (--reference), and
called on the same random inputs, some with infinities, NaN, denormals and rows of which
nothing is visible. Results agree to rounding, and in where they are infinite or NaN;
where each element is made of the same operations they agree to the bit. Fused, they are
the same to the bit with 1, 2 and 3 threads. Fusion must have made fewer kernels, or the
comparison would prove nothing.
"""

import re
import sys

import numpy as np

import support
import safetensors

TOLERANCE = 1e-5

# Functions of f32 tensors with names of their arguments' ranges after `;`.
PROGRAMS = {
    "bias_gelu": """
func.func @bias_gelu(%x: tensor<6x37x100xf32>, %b: tensor<100xf32>) -> tensor<6x37x100xf32> {
  %a = nn.add %x, %b : (tensor<6x37x100xf32>, tensor<100xf32>) -> tensor<6x37x100xf32>
  %y = nn.gelu_tanh %a : tensor<6x37x100xf32>
  return %y : tensor<6x37x100xf32>
}""",
    "residual_norm": """
func.func @residual_norm(%x: tensor<5x13x96xf32>, %y: tensor<5x13x96xf32>, %b: tensor<96xf32>,
    %s: tensor<96xf32>, %o: tensor<96xf32>) -> (tensor<5x13x96xf32>, tensor<5x13x96xf32>) {
  %0 = nn.add %y, %b : (tensor<5x13x96xf32>, tensor<96xf32>) -> tensor<5x13x96xf32>
  %1 = nn.add %x, %0 : tensor<5x13x96xf32>
  %2 = nn.layer_norm %1, %s, %o eps 1.0e-5 : (tensor<5x13x96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<5x13x96xf32>
  return %1, %2 : tensor<5x13x96xf32>, tensor<5x13x96xf32>
}""",
    "gated_norm": """
func.func @gated_norm(%x: tensor<7x70xf32>, %g: tensor<7x70xf32>, %s: tensor<70xf32>) -> tensor<7x70xf32> {
  %0 = nn.silu %g : tensor<7x70xf32>
  %1 = nn.mul %x, %0 : tensor<7x70xf32>
  %2 = nn.rms_norm %1, %s eps 1.0e-5 : (tensor<7x70xf32>, tensor<70xf32>) -> tensor<7x70xf32>
  %3 = nn.add %2, %x : tensor<7x70xf32>
  return %3 : tensor<7x70xf32>
}""",
    "masked_softmax": """
func.func @masked_softmax(%x: tensor<4x9x33xf32>, %m: tensor<9x33xi32>) -> tensor<4x9x33xf32> {
  %zero = nn.constant dense<0> : tensor<i32>
  %scale = nn.constant dense<0.125> : tensor<f32>
  %low = nn.constant dense<0xFF800000> : tensor<f32>
  %seen = nn.compare gt %m, %zero : (tensor<9x33xi32>, tensor<i32>) -> tensor<9x33xi1>
  %0 = nn.mul %x, %scale : (tensor<4x9x33xf32>, tensor<f32>) -> tensor<4x9x33xf32>
  %1 = nn.select %seen, %0, %low : (tensor<9x33xi1>, tensor<4x9x33xf32>, tensor<f32>) -> tensor<4x9x33xf32>
  %2 = nn.softmax %1 dim 2 : tensor<4x9x33xf32>
  return %2 : tensor<4x9x33xf32>
}""",
    "token_loss": """
func.func @token_loss(%x: tensor<3x11x130xf32>, %t: tensor<3x11xi32>) -> tensor<f32> {
  %zero = nn.constant dense<0> : tensor<i32>
  %l, %e = nn.cross_entropy %x, %t : (tensor<3x11x130xf32>, tensor<3x11xi32>) -> (tensor<3x11xf32>, tensor<3x11xf32>)
  %v = nn.compare ge %t, %zero : (tensor<3x11xi32>, tensor<i32>) -> tensor<3x11xi1>
  %y = nn.step_mean %l weights %v : (tensor<3x11xf32>, tensor<3x11xi1>) -> tensor<f32>
  return %y : tensor<f32>
}""",
    "turned": """
func.func @turned(%x: tensor<2x10x3x16xf32>, %p: tensor<2x10xi32>, %s: tensor<16xf32>) -> tensor<2x10x3x16xf32> {
  %0 = nn.rms_norm %x, %s eps 1.0e-5 : (tensor<2x10x3x16xf32>, tensor<16xf32>) -> tensor<2x10x3x16xf32>
  %1 = nn.rotary %0, %p theta 10000.0 : (tensor<2x10x3x16xf32>, tensor<2x10xi32>) -> tensor<2x10x3x16xf32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %2 = nn.mul %1, %two : (tensor<2x10x3x16xf32>, tensor<f32>) -> tensor<2x10x3x16xf32>
  return %2 : tensor<2x10x3x16xf32>
}""",
    "tied": """
func.func @tied(%w: tensor<50x24xf32>, %t: tensor<4x9xi32>, %s: tensor<24xf32>) -> tensor<4x9x50xf32> {
  %0 = nn.embedding %w[%t] : (tensor<50x24xf32>, tensor<4x9xi32>) -> tensor<4x9x24xf32>
  %1 = nn.mul %0, %s : (tensor<4x9x24xf32>, tensor<24xf32>) -> tensor<4x9x24xf32>
  %2 = nn.add %1, %0 : tensor<4x9x24xf32>
  %3 = nn.einsum "bse,ve->bsv"(%2, %w) : (tensor<4x9x24xf32>, tensor<50x24xf32>) -> tensor<4x9x50xf32>
  return %3 : tensor<4x9x50xf32>
}""",
    "three_products": """
func.func @three_products(%x: tensor<3x8x20xf32>, %w: tensor<20x72xf32>, %b: tensor<72xf32>) -> tensor<3x8x4x6xf32> {
  %0 = nn.reshape %w : tensor<20x72xf32> -> tensor<20x3x4x6xf32>
  %1 = nn.reshape %b : tensor<72xf32> -> tensor<3x4x6xf32>
  %2 = nn.slice %0 offsets [0, 0, 0, 0] sizes [20, 1, 4, 6] : (tensor<20x3x4x6xf32>) -> tensor<20x1x4x6xf32>
  %3 = nn.slice %0 offsets [0, 1, 0, 0] sizes [20, 1, 4, 6] : (tensor<20x3x4x6xf32>) -> tensor<20x1x4x6xf32>
  %4 = nn.slice %0 offsets [0, 2, 0, 0] sizes [20, 1, 4, 6] : (tensor<20x3x4x6xf32>) -> tensor<20x1x4x6xf32>
  %5 = nn.reshape %2 : tensor<20x1x4x6xf32> -> tensor<20x4x6xf32>
  %6 = nn.reshape %3 : tensor<20x1x4x6xf32> -> tensor<20x4x6xf32>
  %7 = nn.reshape %4 : tensor<20x1x4x6xf32> -> tensor<20x4x6xf32>
  %8 = nn.einsum "bse,ehd->bshd"(%x, %5) : (tensor<3x8x20xf32>, tensor<20x4x6xf32>) -> tensor<3x8x4x6xf32>
  %9 = nn.einsum "bse,ehd->bshd"(%x, %6) : (tensor<3x8x20xf32>, tensor<20x4x6xf32>) -> tensor<3x8x4x6xf32>
  %10 = nn.einsum "bse,ehd->bshd"(%x, %7) : (tensor<3x8x20xf32>, tensor<20x4x6xf32>) -> tensor<3x8x4x6xf32>
  %11 = nn.slice %1 offsets [0, 0, 0] sizes [1, 4, 6] : (tensor<3x4x6xf32>) -> tensor<1x4x6xf32>
  %12 = nn.reshape %11 : tensor<1x4x6xf32> -> tensor<4x6xf32>
  %13 = nn.add %8, %12 : (tensor<3x8x4x6xf32>, tensor<4x6xf32>) -> tensor<3x8x4x6xf32>
  %14 = nn.mul %13, %9 : tensor<3x8x4x6xf32>
  %15 = nn.add %14, %10 : tensor<3x8x4x6xf32>
  return %15 : tensor<3x8x4x6xf32>
}""",
    "moved": """
func.func @moved(%x: tensor<6x40xf32>, %y: tensor<40x6xf32>) -> (tensor<6x80xf32>, tensor<40xf32>) {
  %0 = nn.transpose %y [1, 0] : (tensor<40x6xf32>) -> tensor<6x40xf32>
  %1 = nn.exp %0 : tensor<6x40xf32>
  %2 = nn.add %x, %1 : tensor<6x40xf32>
  %3 = nn.concatenate %2, %x dim 1 : (tensor<6x40xf32>, tensor<6x40xf32>) -> tensor<6x80xf32>
  %4 = nn.mul %2, %x : tensor<6x40xf32>
  %5 = nn.reduce sum %4 dims [0] : (tensor<6x40xf32>) -> tensor<40xf32>
  return %3, %5 : tensor<6x80xf32>, tensor<40xf32>
}""",
    "hidden_attention": """
func.func @hidden_attention(%x: tensor<2x70x2x16xf32>, %k: tensor<2x70x2x16xf32>, %v: tensor<2x70x2x16xf32>,
    %r: tensor<2x70xi32>, %s: tensor<2x70xi32>) -> tensor<2x70x2x16xf32> {
  %0, %1 = nn.attention %x, %k, %v documents %r, %s causal : (tensor<2x70x2x16xf32>, tensor<2x70x2x16xf32>, tensor<2x70x2x16xf32>, tensor<2x70xi32>, tensor<2x70xi32>) -> (tensor<2x70x2x16xf32>, tensor<2x70x2xf32>)
  %2 = nn.add %0, %x : tensor<2x70x2x16xf32>
  %3 = nn.tanh %2 : tensor<2x70x2x16xf32>
  return %3 : tensor<2x70x2x16xf32>
}""",
    "normal_vector": """
func.func @normal_vector(%x: tensor<300x500xf32>) -> tensor<300x500xf32> {
  %0 = nn.reduce sum_of_squares %x dims [0, 1] : (tensor<300x500xf32>) -> tensor<f32>
  %1 = nn.sqrt %0 : tensor<f32>
  %2 = nn.div %x, %1 : (tensor<300x500xf32>, tensor<f32>) -> tensor<300x500xf32>
  return %2 : tensor<300x500xf32>
}""",
    "repeated": """
func.func @repeated(%x: tensor<9x40xf32>, %w: tensor<40x12xf32>, %v: tensor<9xf32>) -> tensor<9x40xf32> {
  %0 = nn.reduce max %w dims [1] : (tensor<40x12xf32>) -> tensor<40xf32>
  %1 = nn.exp %0 : tensor<40xf32>
  %2 = nn.mul %x, %1 : (tensor<9x40xf32>, tensor<40xf32>) -> tensor<9x40xf32>
  %3 = nn.sigmoid %v : tensor<9xf32>
  %4 = nn.broadcast %3 dims [0] : tensor<9xf32> -> tensor<9x40xf32>
  %5 = nn.mul %2, %4 : tensor<9x40xf32>
  return %5 : tensor<9x40xf32>
}""",
    "column_sums": """
func.func @column_sums(%x: tensor<1024x1100xf32>, %y: tensor<1024x1100xf32>, %r: tensor<1024x1xf32>) -> (tensor<1100xf32>, tensor<1100xf32>) {
  %0 = nn.mul %x, %r : (tensor<1024x1100xf32>, tensor<1024x1xf32>) -> tensor<1024x1100xf32>
  %1 = nn.mul %0, %y : tensor<1024x1100xf32>
  %2 = nn.reduce sum %1 dims [0] : (tensor<1024x1100xf32>) -> tensor<1100xf32>
  %3 = nn.reduce sum %y dims [0] : (tensor<1024x1100xf32>) -> tensor<1100xf32>
  return %2, %3 : tensor<1100xf32>, tensor<1100xf32>
}""",
}
# What has no gradient: updates of parameters, with the norm of their gradients.
UPDATES = {
    "adamw": """
func.func @adamw(%p: tensor<70x33xf32>, %x: tensor<70x33xf32>, %m: tensor<70x33xf32>, %q: tensor<70x33xf32>) -> (tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>) {
  %lr = nn.constant dense<1.0e-3> : tensor<f32>
  %b1 = nn.constant dense<0.9> : tensor<f32>
  %b2 = nn.constant dense<0.95> : tensor<f32>
  %eps = nn.constant dense<1.0e-8> : tensor<f32>
  %wd = nn.constant dense<0.1> : tensor<f32>
  %c1 = nn.constant dense<0.19> : tensor<f32>
  %c2 = nn.constant dense<0.0975> : tensor<f32>
  %s = nn.constant dense<0.5> : tensor<f32>
  %g = nn.mul %x, %s : (tensor<70x33xf32>, tensor<f32>) -> tensor<70x33xf32>
  %p1, %m1, %v1 = nn.adamw %p, %g, %m, %q lr %lr beta1 %b1 beta2 %b2 eps %eps decay %wd corrections %c1, %c2 grad_scale %s : (tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>)
  return %p1, %m1, %v1 : tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>
}""",
    "sgd": """
func.func @sgd(%p: tensor<70x33xf32>, %x: tensor<70x33xf32>, %m: tensor<70x33xf32>) -> (tensor<70x33xf32>, tensor<70x33xf32>) {
  %lr = nn.constant dense<1.0e-3> : tensor<f32>
  %mu = nn.constant dense<0.9> : tensor<f32>
  %wd = nn.constant dense<0.1> : tensor<f32>
  %s = nn.constant dense<0.5> : tensor<f32>
  %g = nn.mul %x, %s : (tensor<70x33xf32>, tensor<f32>) -> tensor<70x33xf32>
  %p1, %m1 = nn.sgd %p, %g, %m lr %lr momentum %mu decay %wd grad_scale %s : (tensor<70x33xf32>, tensor<70x33xf32>, tensor<70x33xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<70x33xf32>, tensor<70x33xf32>)
  return %p1, %m1 : tensor<70x33xf32>, tensor<70x33xf32>
}""",
    "clipped": """
func.func @clipped(%p: tensor<300x500xf32>, %x: tensor<300x500xf32>, %m: tensor<300x500xf32>) -> (tensor<300x500xf32>, tensor<300x500xf32>, tensor<f32>) {
  %lr = nn.constant dense<1.0e-3> : tensor<f32>
  %mu = nn.constant dense<0.9> : tensor<f32>
  %wd = nn.constant dense<0.0> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.reduce sum_of_squares %x dims [0, 1] : (tensor<300x500xf32>) -> tensor<f32>
  %1 = nn.sqrt %0 : tensor<f32>
  %2 = nn.div %one, %1 : tensor<f32>
  %s = nn.min %2, %one : tensor<f32>
  %p1, %m1 = nn.sgd %p, %x, %m lr %lr momentum %mu decay %wd grad_scale %s : (tensor<300x500xf32>, tensor<300x500xf32>, tensor<300x500xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<300x500xf32>, tensor<300x500xf32>)
  return %p1, %m1, %1 : tensor<300x500xf32>, tensor<300x500xf32>, tensor<f32>
}""",
}
INTEGERS = {"m": (-1, 2), "t": (-1, 20), "p": (0, 500), "r": (0, 4), "s": (0, 3)}
# Gradients of these at infinities are NaN by different ways.
SPECIALS = ["bias_gelu", "residual_norm", "gated_norm", "masked_softmax", "token_loss",
            "turned", "moved", "repeated", "hidden_attention", "column_sums", "adamw", "sgd",
            "clipped"]
# Each element is made of the same operations, in the same order.
EXACT = ["bias_gelu", "adamw", "sgd"]
# Taken apart, what is hidden is multiplied by zero, which makes NaN of infinities; a tile
# of which nothing is visible is not computed at all.
HIDES = ["hidden_attention_gradient"]


def arguments_of(text, random, special):
    values = []
    header = text[:text.index("->")]
    for name, shape, element in re.findall(r"%(\w+): tensor<((?:\d+x)*)(f32|i32)>", header):
        shape = tuple(int(size) for size in shape.split("x")[:-1])
        if element == "i32":
            value = random.integers(*INTEGERS[name], shape, dtype=np.int32)
            if name == "m":
                value[0] = -1  # a row that sees nothing
        else:
            value = random.standard_normal(shape).astype(np.float32)
            if name == "q":
                value = np.square(value)  # a second moment
            if special and name in "xpmq":
                flat = value.reshape(-1)
                # Of a few tensors, each at places of its own.
                flat = flat["xpmq".index(name) * 2:]
                flat[3], flat[41], flat[97 % flat.size] = np.inf, -np.inf, np.nan
                flat[5], flat[120 % flat.size] = 1e-41, -3e-39
        values.append(value)
    return values


def call(session, artifact, inputs, threads):
    safetensors.write(session.path("in.safetensors"), inputs)
    session.run("sheaf-run", artifact, "--call=all", f"--threads={threads}",
                f"--inputs={session.path('in.safetensors')}",
                f"--outputs={session.path('out.safetensors')}")
    return safetensors.read(session.path("out.safetensors"))


def difference(fused, plain):
    """The largest difference by the size of the tensor; infinite where infinities or
    NaN stand in different places."""
    if fused.dtype.kind != "f":
        return 0.0 if np.array_equal(fused, plain) else np.inf
    finite = np.isfinite(plain)
    if not np.array_equal(np.where(finite, 0, plain), np.where(np.isfinite(fused), 0, fused),
                          equal_nan=True):
        return np.inf
    scale = max(float(np.abs(plain[finite]).max(initial=0)), 1e-30)
    return float(np.abs(fused[finite] - plain[finite]).max(initial=0)) / scale


def compare(session, programs, file, *options):
    with open(session.path(file), "w", encoding="utf-8") as out:
        out.write("\n".join(programs.values()) + "\n")
    fused, plain, apart = (
        session.compile(file, f"{i}.{file}.sheaf", *options, *level)
        for i, level in enumerate([[], ["-O0"], ["--reference"]]))
    launches = []
    for level in ("-O3", "-O0", "--reference"):
        text = session.run("sheaf-compile", session.path(file), *options, level,
                           "--emit=exec")
        launches.append(len(re.findall(r"exec\.launch", text)))
    session.check(f"{file}: fusion makes less than half as many launches",
                  2 * launches[0] < launches[2], f"{launches}")
    for special in (False, True):
        random = np.random.default_rng(7)
        inputs, names = {}, []
        for name, text in programs.items():
            values = arguments_of(text, random, special and name in SPECIALS)
            results = re.findall(r"tensor<((?:\d+x)*)(f32|i32)>",
                                 text[text.index("->"):text.index("{")])
            cotangents = [random.standard_normal(
                tuple(int(s) for s in shape.split("x")[:-1])).astype(np.float32)
                for shape, _ in results]
            names.append(name)
            for i, value in enumerate(values):
                inputs[f"input:{name}.arg{i}"] = value
            if "--differentiate" not in options:
                continue
            names.append(name + "_gradient")
            for i, value in enumerate(values + cotangents):
                inputs[f"input:{name}_gradient.arg{i}"] = np.asarray(value)
        wanted = {"unfused": call(session, plain, inputs, 1),
                  "taken apart": call(session, apart, inputs, 1)}
        got = {threads: call(session, fused, inputs, threads) for threads in (1, 2, 3)}
        kind = "special numbers" if special else "random numbers"
        for entry in names:
            for how, want in wanted.items():
                keys = [key for key in want if key.startswith(f"output:{entry}.out")]
                if entry in HIDES and how == "taken apart":
                    for key in keys:
                        hidden = np.isfinite(got[1][key]) & ~np.isfinite(want[key])
                        want[key] = np.where(hidden, got[1][key], want[key])
                worst = max(difference(got[1][key], want[key]) for key in keys)
                limit = 0 if entry in EXACT else TOLERANCE
                session.check(f"{entry}: {kind}, against {how}", worst <= limit and bool(keys),
                              f"difference {worst:.1e} in {len(keys)} results")
        same = all(got[1][key].tobytes() == got[threads][key].tobytes()
                   for key in got[1] for threads in (2, 3))
        session.check(f"{file}: {kind}: the same bits with 1, 2 and 3 threads", same)


def body(session, _):
    compare(session, PROGRAMS, "programs.mlir", "--differentiate")
    compare(session, UPDATES, "updates.mlir")


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 300))
