"""The models that `sheaf-model` writes compute what the oracle computes.

    python3 test/tools/sheaf-model/meaning.py [build/bin]

Without the folder the tools are those of the search path. Each model is written in
f64, printed in the generic form by `sheaf-opt`, and run op by op in NumPy; its loss
on random weights and tokens must be the oracle's, which shares nothing with the
writer.
"""

import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3)
sys.path[:0] = [os.path.join(ROOT, "test", "oracle"), os.path.join(ROOT, "test", "e2e")]
import models  # noqa: E402
import support  # noqa: E402

OP = re.compile(r'^\s*(?:(%\w+)(?::\d+)? = )?"([\w.]+)"\(([^)]*)\)(?: <\{(.*?)\}>)?(?: \{.*?\})?'
                r' : \((.*)\) -> (.*)$')


def shape_of(type_text):
    return tuple(map(int, re.search(r"tensor<((?:\d+x)*)", type_text).group(1).split("x")[:-1]))


def integers(properties, name):
    return list(map(int, re.search(name + r" = array<i64: ([^>]*)>", properties).group(1).split(",")))


def number(properties, name, default=None):
    found = re.search(rf"\b{name} = ([-+.\de]+)", properties)
    return float(found.group(1)) if found else default


def rotary(x, positions, properties):
    half = x.shape[-1] // 2
    theta = number(properties, "theta")
    frequencies = theta ** (-np.arange(half) / half)
    scaling = re.search(r"<(\w+), factor = (\S+), low = (\S+), high = (\S+), original = (\d+)>",
                        properties)
    if scaling:
        kind, (factor, low, high, original) = scaling[1], map(float, scaling.groups()[1:])
        if kind == "linear":
            frequencies = frequencies / factor
        else:
            for i, f in enumerate(frequencies):
                wave = 2 * math.pi / f
                if wave > original / low:
                    frequencies[i] = f / factor
                elif wave > original / high:
                    smooth = (original / wave - low) / (high - low)
                    frequencies[i] = (1 - smooth) * f / factor + smooth * f
    angle = positions[:, None] * frequencies
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(operands, properties):
    q, k, v = operands[:3]
    repeat = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, repeat, 2), np.repeat(v, repeat, 2)
    scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    i, j = np.indices(scores.shape[-2:])
    visible = (j <= i)[None, None]
    assert "causal" in properties
    window = number(properties, "window")
    if window is not None:
        visible = visible & (i - j < window)
    if len(operands) > 3:
        visible = visible & (operands[3][:, None, :, None] == operands[4][:, None, None, :])
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)


def compute(op, operands, properties, result_type):
    x = operands[0] if operands else None
    if op == "nn.add":
        return x + operands[1]
    if op == "nn.mul":
        return x * operands[1]
    if op == "nn.einsum":
        return np.einsum(re.search('"(.*)"', properties).group(1), *operands, optimize=True)
    if op == "nn.reshape":
        return x.reshape(shape_of(result_type))
    if op == "nn.slice":
        return x[tuple(slice(o, o + s) for o, s in zip(integers(properties, "offsets"),
                                                       integers(properties, "sizes")))]
    if op == "nn.embedding":
        return x[operands[1]]
    if op == "nn.iota":
        assert len(shape_of(result_type)) == 1
        return np.arange(shape_of(result_type)[0])
    if op == "nn.constant":
        return np.array(int(re.search(r"dense<(\d+)>", properties).group(1)))
    if op == "nn.layer_norm":
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred ** 2).mean(-1, keepdims=True)
        return centred / np.sqrt(variance + number(properties, "eps")) * operands[1] + operands[2]
    if op == "nn.rms_norm":
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + number(properties, "eps")) * operands[1]
    if op == "nn.gelu_tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    if op == "nn.silu":
        return x / (1 + np.exp(-x))
    if op == "nn.rotary":
        return rotary(x, operands[1], properties)
    if op == "nn.attention":
        return attention(operands, properties)
    if op == "nn.cross_entropy":
        smoothing = number(properties, "smoothing", 0.0)
        lse = np.log(np.exp(x).sum(-1))
        chosen = np.take_along_axis(x, np.maximum(operands[1], 0)[..., None], -1)[..., 0]
        loss = lse - (1 - smoothing) * chosen - smoothing * x.mean(-1)
        return np.where(operands[1] >= 0, loss, 0)
    if op == "nn.compare":
        assert "ge" in properties
        return x >= operands[1]
    if op == "nn.step_mean":
        return (x * operands[1]).sum() / max(operands[1].sum(), 1)
    raise ValueError(f"no reference for {op}")


class Program:
    """The functions of a module in the generic form."""

    def __init__(self, text):
        self.bodies, self.arguments = {}, {}
        for line in text.splitlines():
            if '"func.func"' in line:
                name = re.search(r'sym_name = "(\w+)"', line).group(1)
                self.bodies[name] = []
                self.arguments[name] = [
                    parameter or batch for parameter, batch in
                    re.findall(r'nn\.param = #nn\.param<"([^"]+)"|nn\.batch = "(\w+)"', line)]
            elif line.strip().startswith("^bb0"):
                self.bodies[name].append([argument.split(":")[0].strip() for argument in
                                          re.findall(r"%\w+: ", line)])
            elif OP.match(line) and self.bodies:
                self.bodies[name].append(OP.match(line).groups())

    def run(self, name, arguments):
        names, *ops = self.bodies[name]
        values = dict(zip(names, arguments, strict=True))
        for result, op, operands, properties, _, result_type in ops:
            operands = [values[operand.split("#")[0]] for operand in operands.split(", ") if operand]
            if op == "func.return":
                return operands[0]
            if op == "func.call":
                values[result] = self.run(re.search(r"@(\w+)", properties).group(1), operands)
            else:
                values[result] = compute(op, operands, properties or "", result_type)
        raise ValueError(f"{name} does not return")


def write(tools, folder, family, options):
    """The program that `sheaf-model` writes in f64."""
    path = os.path.join(folder, "model.mlir")
    subprocess.run([os.path.join(tools, "sheaf-model"), family, "--dtype=f64", "-o", path,
                    *options], check=True)
    text = subprocess.run([os.path.join(tools, "sheaf-opt"), "--mlir-print-op-generic", path],
                          check=True, capture_output=True, text=True).stdout
    return Program(text)


def options_of(model, batch):
    options = [f"--layers={model.layers}", f"--hidden={model.hidden}", f"--heads={model.heads}",
               f"--ffn={model.ffn}", f"--vocab={model.vocab}", f"--seq={model.seq}",
               f"--batch={batch}"]
    if isinstance(model, models.Llama):
        options.append(f"--kv-heads={model.kv_heads}")
    return options


BATCH = 3
GPT = models.GPT(layers=2, hidden=36, heads=3, vocab=97, seq=21, ffn=76)
LLAMA = models.Llama(layers=2, hidden=48, heads=6, kv_heads=2, vocab=97, seq=21, ffn=52)
SCALED = models.Llama(layers=2, hidden=40, heads=5, kv_heads=1, vocab=101, seq=19, ffn=44,
                      head_dim=6, tied=True, theta=300.0, eps=1e-4, rope_scaling={
                          "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 64})


def inputs(model, seed):
    random = np.random.default_rng(seed)
    parameters = {name: value + 0.2 * random.standard_normal(value.shape)
                  for name, value in models.initial(model, seed).items()}
    tokens = random.integers(0, model.vocab, (BATCH, model.seq))
    targets = random.integers(0, model.vocab, (BATCH, model.seq))
    targets[0, 3:9] = -1
    return parameters, tokens, targets


def loss(program, model, seed, **more):
    parameters, tokens, targets = inputs(model, seed)
    given = {**parameters, "tokens": tokens, "targets": targets, **more}
    assert set(program.arguments["loss"]) == set(given), \
        set(program.arguments["loss"]) ^ set(given)
    return program.run("loss", [given[name] for name in program.arguments["loss"]])


def main(tools):
    failed = 0

    def check(title, got, want):
        nonlocal failed
        ok = abs(got - want) <= 1e-11 * abs(want)
        failed += not ok
        print(f"{'PASS' if ok else 'FAIL'}: {title}: {got} against {want}")

    with tempfile.TemporaryDirectory() as folder:
        def config(model, **changes):
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**support.config_json(model), **changes}, file)
            return [f"--hf-config={path}", f"--seq={model.seq}", f"--batch={BATCH}"]

        for seed, (title, model) in enumerate([("gpt", GPT), ("llama", LLAMA),
                                               ("llama with scaling", SCALED)]):
            family = "gpt" if model is GPT else "llama"
            want = models.loss_only(model, *inputs(model, seed))
            by_config = write(tools, folder, family, config(model))
            check(f"{title} by config.json", loss(by_config, model, seed), want)
            if model is SCALED:
                continue
            program = write(tools, folder, family, options_of(model, BATCH))
            check(f"{title} by options", loss(program, model, seed), want)
            # The logits have the loss.
            parameters, tokens, targets = inputs(model, seed)
            logits = program.run("logits", [
                {**parameters, "tokens": tokens}[name] for name in program.arguments["logits"]])
            check(f"{title}, its logits",
                  models.cross_entropy(logits, targets, (targets >= 0).sum())[0], want)

            # With a window of a whole sample, or one document, nothing changes.
            wide = write(tools, folder, family,
                         [*options_of(model, BATCH), f"--window={model.seq}", "--documents"])
            one = np.zeros((BATCH, model.seq), int)
            check(f"{title}, wide window, one document",
                  loss(wide, model, seed, documents=one), want)
            # Tokens that see only themselves are the same as samples of one token, but
            # for their positions, which rotary embedding does not see alone.
            if model is LLAMA:
                short = dataclasses.replace(LLAMA, seq=1)
                alone = models.loss_only(short, parameters, tokens.reshape(-1, 1),
                                         targets.reshape(-1, 1))
                each = np.arange(model.seq) + np.zeros((BATCH, 1), int)
                check("llama, a document a token", loss(wide, model, seed, documents=each), alone)
                narrow = write(tools, folder, family, [*options_of(model, BATCH), "--window=1"])
                check("llama, a window of one token", loss(narrow, model, seed), alone)

        # A table of more positions than the sample has tokens.
        longer = models.GPT(layers=1, hidden=20, heads=5, vocab=53, seq=9, ffn=33)
        program = write(tools, folder, "gpt", config(longer, n_positions=16))
        parameters, tokens, targets = inputs(longer, 5)
        want = models.loss_only(longer, parameters, tokens, targets)
        table = np.vstack([parameters["transformer.wpe.weight"], np.full((7, 20), np.nan)])
        given = {**parameters, "transformer.wpe.weight": table, "tokens": tokens,
                 "targets": targets}
        check("gpt with positions to spare", program.run(
            "loss", [given[name] for name in program.arguments["loss"]]), want)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("usage: meaning.py [folder of sheaf-model and sheaf-opt]")
    sys.exit(main(sys.argv[1] if len(sys.argv) == 2
                  else os.path.dirname(shutil.which("sheaf-model") or "")))
