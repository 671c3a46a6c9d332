"""Every fused kernel computes what its ops compute one by one.

    python3 test/e2e/fused.py build/bin

Programs and their gradients are compiled with fusion and without (-O0), and called on
the same random inputs, some with infinities, NaN, denormals and rows of which nothing is
visible. Results agree to rounding, and in where they are infinite or NaN; fused, they are
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
}
INTEGERS = {"m": (-1, 2), "t": (-1, 20), "p": (0, 500), "r": (0, 4), "s": (0, 3)}
# Gradients of these at infinities are NaN by different ways.
SPECIALS = ["bias_gelu", "residual_norm", "gated_norm", "masked_softmax", "token_loss",
            "turned", "moved", "repeated", "hidden_attention"]


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
            if special and name == "x":
                flat = value.reshape(-1)
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


def body(session, _):
    with open(session.path("programs.mlir"), "w", encoding="utf-8") as file:
        file.write("\n".join(PROGRAMS.values()) + "\n")
    fused = session.compile("programs.mlir", "fused.sheaf", "--differentiate")
    plain = session.compile("programs.mlir", "plain.sheaf", "--differentiate", "-O0")
    launches = []
    for level in ("-O3", "-O0"):
        text = session.run("sheaf-compile", session.path("programs.mlir"), "--differentiate",
                           level, "--emit=exec")
        launches.append(len(re.findall(r"exec\.launch", text)))
    session.check("fusion makes less than half as many launches",
                  2 * launches[0] < launches[1], f"{launches[0]} and {launches[1]}")
    for special in (False, True):
        random = np.random.default_rng(7)
        inputs = {}
        for name, text in PROGRAMS.items():
            values = arguments_of(text, random, special and name in SPECIALS)
            results = re.findall(r"tensor<((?:\d+x)*)(f32|i32)>",
                                 text[text.index("->"):text.index("{")])
            cotangents = [random.standard_normal(
                tuple(int(s) for s in shape.split("x")[:-1])).astype(np.float32)
                for shape, _ in results]
            for i, value in enumerate(values):
                inputs[f"input:{name}.arg{i}"] = value
                inputs[f"input:{name}_gradient.arg{i}"] = value
            for i, value in enumerate(cotangents):
                inputs[f"input:{name}_gradient.arg{len(values) + i}"] = np.asarray(value)
        want = call(session, plain, inputs, 1)
        got = {threads: call(session, fused, inputs, threads) for threads in (1, 2, 3)}
        kind = "special numbers" if special else "random numbers"
        for name in PROGRAMS:
            for entry in (name, name + "_gradient"):
                keys = [key for key in want if key.startswith(f"output:{entry}.out")]
                worst = max(difference(got[1][key], want[key]) for key in keys)
                session.check(f"{entry}: {kind}", worst <= TOLERANCE and bool(keys),
                              f"difference {worst:.1e} in {len(keys)} results")
        same = all(got[1][key].tobytes() == got[threads][key].tobytes()
                   for key in got[1] for threads in (2, 3))
        session.check(f"{kind}: the same bits with 1, 2 and 3 threads", same)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 300))
