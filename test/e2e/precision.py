"""Small models train in every recipe of numbers.

    python3 test/e2e/precision.py build/bin

On the license texts that every Debian machine has:
- 500 steps in a recipe end at the loss of f32: the means of the last 50 differ by at most 0.7%
  (16 bits) or 1.2% (8 bits); the figures are printed;
- several ranks give the losses of one: each of the first 10, and the mean of 20, to 1e-3;
- in fp16 gradients that overflow on one rank alone leave all ranks' parameters as they were, halve
  the scale, and a window of good steps doubles it; a run that is resumed goes on to the bit;
- gradients of 256 microbatches are those of one batch to 1e-5 of their norm, in f32 and in bf16,
  and not where they are added up in bf16;
- bytes per parameter are those of the recipe's row, from the memory plan, ZeRO divides the right ones;
  the rows of DeepSeek-V3 (13 bytes) and FP8-LM (7) are there, learn as f32 does, give on several
  ranks what one gives, and go on from a checkpoint to the bit;
- recomputing gives the losses of keeping, to the bit; two steps at a large learning rate use the
  weights of the step before;
- weights that are saved are the masters, and come back.

With SHEAF_FULL=1 in the environment both models, all recipes and meshes; without, a few.
"""

import glob
import json
import os
import shutil
import sys

import numpy as np

import support
import safetensors

RECIPES = {"bf16": 0.007, "fp16": 0.007, "fp8-tensor": 0.012, "fp8-block": 0.012,
           "fp8-delayed": 0.012, "mxfp8": 0.012}
MODELS = {"gpt": ["gpt", "--layers=2", "--hidden=64", "--heads=4", "--vocab=256", "--seq=64",
                  "--batch=8"],
          "llama": ["llama", "--layers=2", "--hidden=64", "--heads=4", "--kv-heads=2",
                    "--vocab=256", "--seq=64", "--batch=8"],
          "mixtral": ["mixtral", "--layers=2", "--hidden=32", "--heads=4", "--vocab=256",
                      "--seq=32", "--batch=8", "--experts=4", "--ffn=48"]}
STEPS, LAST = 500, 50
MESHES = ["dp=2 --zero=3 --microbatches=2", "tp=2 --sequence-parallel",
          "pp=2 --pipeline=1f1b --microbatches=4", "pp=2 --pipeline=zb-h1 --microbatches=4",
          "dp=2,tp=2 --zero=1 --recompute=full", "cp=2 --context=ring", "dp=3 --zero=2"]
# Of what is kept in 8 bits; without SHEAF_FULL fewer, of two rows those.
KEPT_MESHES = ["dp=2 --zero=1 --microbatches=2", *MESHES]
FEW_KEPT = [KEPT_MESHES[:2], [KEPT_MESHES[0], KEPT_MESHES[4]]]
# What is run without SHEAF_FULL.
FEW_TRAINED = [("llama", "bf16"), ("llama", "fp8-block")]
FEW_MESHES = [("llama", "bf16", 0), ("gpt", "fp16", 4), ("llama", "fp8-tensor", 1),
              ("mixtral", "bf16", 1), ("gpt", "fp8-delayed", 0)]


def write_text(session):
    names = sorted(name for name in glob.glob("/usr/share/common-licenses/*")
                   if not os.path.islink(name))
    with open(session.path("text.bin"), "wb") as target:
        for name in names:
            with open(name, "rb") as source:
                target.write(source.read())


def train(session, artifact, steps, *options):
    return session.train(artifact, f"--data={session.path('text.bin')}", "--token-type=u8",
                         "--order=random", f"--steps={steps}", "--seed=1", "--quiet",
                         "--threads=1", *options)


def losses(rows):
    return [row["loss"] for row in rows]


# What is kept in 8 bits, as two papers have it.
DEEPSEEK = ["--precision=fp8-block", "--weights=quantized", "--moments=narrow"]
FP8_LM = ["--precision=fp8-tensor", "--weights=quantized", "--masters=f16", "--moments=fp8",
          "--gradients=fp8"]


def learns_as_f32(session, model, recipes):
    options = ["--lr=1e-3", "--warmup=50"]
    base = losses(train(session, session.compile(f"{model}.mlir", "f32.sheaf", *options), STEPS))
    mean = sum(base[-LAST:]) / LAST
    session.check(f"{model}: f32 learns", mean < 0.5 * base[0], f"{base[0]:.4f} -> {mean:.4f}")
    for recipe in recipes:
        artifact = session.compile(f"{model}.mlir", "narrow.sheaf", f"--precision={recipe}",
                                   *options)
        rows = losses(train(session, artifact, STEPS))
        own = sum(rows[-LAST:]) / LAST
        session.check(f"{model}, {recipe}: mean of the last {LAST} of {STEPS} losses",
                      abs(own / mean - 1) <= RECIPES[recipe],
                      f"{own:.5f}, f32 {mean:.5f}, {100 * (own / mean - 1):+.3f}%")


def ranks_equal_one(session, model, recipe, mesh, *kept):
    axes, *more = mesh.split()
    options = [f"--precision={recipe}", "--lr=1e-3", *kept]
    recipe = " ".join([recipe, *kept])
    one = losses(train(session, session.compile(f"{model}.mlir", "one.sheaf", *options), 20))
    artifact = session.compile(f"{model}.mlir", "mesh.sheaf", f"--mesh={axes}", *more, *options)
    rows = losses(train(session, artifact, 20))
    worst = max(abs(a / b - 1) for a, b in zip(rows[:10], one[:10]))
    mean = abs(sum(rows) / sum(one) - 1)
    session.check(f"{model}, {recipe}, {mesh}: losses as on one device",
                  len(rows) == 20 and worst <= 1e-3 and mean <= 1e-3,
                  f"the first 10 differ by {worst:.1e}, the mean by {mean:.1e}")
    status, out, err = session.try_run("sheaf-run", artifact, "--verify", "--threads=1")
    session.check(f"{model}, {recipe}, {mesh}: gradients as on one device", status == 0,
                  "" if status == 0 else (out + err)[-800:])


def gradients_of(session, artifact, batch):
    source, result = session.path("in.safetensors"), session.path("out.safetensors")
    safetensors.write(source, batch)
    session.run("sheaf-run", artifact, "--call=init,gradients", f"--inputs={source}",
                f"--outputs={result}")
    return {name: value.astype(np.float64) for name, value in safetensors.read(result).items()
            if name.startswith("gradient:")}


def distance(a, b):
    return (np.sqrt(sum(np.sum((a[name] - b[name]) ** 2) for name in b))
            / np.sqrt(sum(np.sum(b[name] ** 2) for name in b)))


def microbatches_add_up(session):
    session.run("sheaf-model", "llama", "--layers=1", "--hidden=32", "--heads=2", "--vocab=64",
                "--seq=16", "--batch=256", "-o", session.path("wide.mlir"))
    random = np.random.default_rng(0)
    tokens = random.integers(0, 64, (256, 17)).astype(np.int32)
    batch = {"batch:tokens": tokens[:, :-1].copy(), "batch:targets": tokens[:, 1:].copy()}
    for options in (["--precision=fp32"], ["--precision=bf16"],
                    ["--precision=bf16", "--gradients=narrow"]):
        one = session.compile("wide.mlir", "one.sheaf", options[0])
        many = session.compile("wide.mlir", "many.sheaf", "--microbatches=256", *options)
        error = distance(gradients_of(session, many, batch), gradients_of(session, one, batch))
        fits = error > 1e-4 if len(options) > 1 else error <= 1e-5
        session.check(f"256 microbatches, {' '.join(options)}: gradients of one batch, or not",
                      fits, f"apart by {error:.1e} of their norm")


def overflow_is_left_out(session):
    # Of two samples one has larger gradients: some scale is too large for its rank alone.
    session.run("sheaf-model", "gpt", "--layers=1", "--hidden=32", "--heads=2", "--vocab=256",
                "--seq=16", "--batch=2", "-o", session.path("two.mlir"))
    options = ["--precision=fp16", "--lr=1e-2"]
    single = session.compile("two.mlir", "two1.sheaf", *options)
    both = session.compile("two.mlir", "two2.sheaf", "--mesh=dp=2", *options)
    random = np.random.default_rng(0)
    # Sample 0 predicts one token from itself, whose gradients add up; the other is varied.
    tokens = random.integers(0, 256, (2, 16)).astype(np.int32)
    tokens[0] = 7
    targets = np.roll(tokens, -1, axis=1)
    quiet = np.full_like(targets, -1)

    def is_finite(artifact, scale, which):
        source, result = session.path("in.safetensors"), session.path("out.safetensors")
        chosen = quiet.copy()
        chosen[which] = targets[which]
        safetensors.write(source, {"batch:tokens": tokens, "batch:targets": chosen,
                                   "scalar:first_loss_scale": np.float32(scale)})
        session.run("sheaf-run", artifact, "--call=init,gradients", f"--inputs={source}",
                    f"--outputs={result}")
        return bool(np.isfinite(safetensors.read(result)["result:grad_norm"]))

    scale = 2.0 ** 16
    while is_finite(single, scale, [0]) and is_finite(single, scale, [1]) and scale < 1e12:
        scale *= 1.05
    own = [is_finite(single, scale, [i]) for i in (0, 1)]
    session.check("fp16: a scale that is too large for the gradients of one sample alone",
                  own.count(True) == 1, f"scale {scale:.3g}, finite: {own}")

    def step(artifact, scale):
        source, result = session.path("in.safetensors"), session.path("out.safetensors")
        safetensors.write(source, {"batch:tokens": tokens, "batch:targets": targets,
                                   "scalar:first_loss_scale": np.float32(scale)})
        before = session.path("before.safetensors")
        session.run("sheaf-run", artifact, "--call=init", f"--outputs={before}")
        session.run("sheaf-run", artifact, "--call=init,step", f"--inputs={source}",
                    f"--outputs={result}")
        return safetensors.read(before), safetensors.read(result)

    # The count of tokens is twice that of one sample, and the gradients half.
    before, after = step(both, 2 * scale)
    kept = all(np.array_equal(after[name], value) for name, value in before.items()
               if name.startswith(("parameter:", "master:")))
    moments = all(not np.any(value) for name, value in after.items() if name.startswith("moment"))
    session.check("fp16: an overflow on one rank leaves all as it was",
                  not np.isfinite(after["result:grad_norm"]) and kept and moments
                  and after["scaling:loss_scale"] == np.float32(2 * scale) / 2
                  and after["scaling:good_steps"] == 0,
                  f"norm {after['result:grad_norm']}, next scale {after['scaling:loss_scale']}")
    _, after = step(both, 1024)
    session.check("fp16: without one the step counts",
                  np.isfinite(after["result:grad_norm"]) and after["scaling:loss_scale"] == 1024
                  and after["scaling:good_steps"] == 1)

    artifact = session.compile("gpt.mlir", "scaled.sheaf", "--precision=fp16", "--mesh=dp=2",
                               "--zero=1", "--loss-scale=1e9", "--loss-scale-window=4")
    folder = session.path("kept")
    rows = train(session, artifact, 30)
    scales = [row["loss_scale"] for row in rows]
    left_out = [row["grad_norm"] is None for row in rows]
    good, fits = 0, True
    for i in range(len(rows) - 1):
        good = 0 if left_out[i] else good + 1
        factor = 0.5 if left_out[i] else 2 if good == 4 else 1
        good = 0 if good == 4 else good
        fits &= scales[i + 1] == scales[i] * factor
    session.check("fp16: the scale halves by an overflow and doubles by a window without",
                  fits and left_out[0] and not all(left_out) and 2 in
                  [b / a for a, b in zip(scales, scales[1:])], f"{scales}")
    train(session, artifact, 17, f"--checkpoint={folder}", "--checkpoint-every=17")
    # A resumed run keeps what its log has of steps before.
    log = session.path("scaled-again.jsonl")
    session.run("sheaf-run", artifact, f"--data={session.path('text.bin')}", "--token-type=u8",
                "--order=random", "--steps=30", "--seed=1", "--quiet", "--threads=1",
                f"--checkpoint={folder}", "--resume", f"--log={log}")
    with open(log, encoding="utf-8") as file:
        again = [json.loads(line) for line in file]
    session.check("fp16: a resumed run goes on to the bit", losses(again) == losses(rows)[17:]
                  and [row["loss_scale"] for row in again] == scales[17:])


def narrow_moments_learn(session):
    """Steps with moments in bf16 go the way of those in f32, in f16, too."""
    for recipe in ("bf16", "fp16"):
        base, own = (losses(train(session, session.compile(
            "llama.mlir", "moments.sheaf", f"--precision={recipe}", "--lr=1e-3", *more), 20))
            for more in ([], ["--moments=narrow"]))
        worst = max(abs(a / b - 1) for a, b in zip(own, base))
        session.check(f"{recipe}: 20 losses with narrow moments", 0 < worst <= 5e-3,
                      f"differ by {worst:.1e}")


def balance_waits(session):
    """A step that overflows leaves the bias of a router as it was."""
    session.run("sheaf-model", "deepseek", "--layers=2", "--hidden=32", "--heads=2",
                "--vocab=256", "--seq=16", "--batch=4", "--experts=4", "--balance-bias=0.01",
                "-o", session.path("balanced.mlir"))
    found = {}
    for scale in ("1e30", "1024"):
        artifact = session.compile("balanced.mlir", "balanced.sheaf", "--precision=fp16",
                                   f"--loss-scale={scale}")
        saved = session.path("balanced.safetensors")
        train(session, artifact, 1, f"--save={saved}")
        found[scale] = [np.any(value) for name, value in safetensors.read(saved).items()
                        if name.endswith("correction_bias")]
    session.check("fp16: an overflow leaves what balances experts",
                  found["1e30"] and not any(found["1e30"]) and any(found["1024"]), f"{found}")


def layers_differ(session):
    """Layers of several recipes in a pipeline, and blocks that devices do not divide."""
    for options in (["--precision=bf16", "--keep-f32=*layers.0.mlp*", "--mesh=pp=2",
                     "--pipeline=zb-h1", "--microbatches=4"],
                    ["--precision=fp8-block", "--mesh=tp=2"],
                    ["--precision=mxfp8", "--mesh=dp=2,tp=2", "--zero=1"]):
        artifact = session.compile("llama.mlir", "several.sheaf", *options)
        status, out, err = session.try_run("sheaf-run", artifact, "--verify", "--threads=1")
        session.check(f"{' '.join(options)}: gradients as on one device", status == 0,
                      "" if status == 0 else (out + err)[-800:])
    step = session.run("sheaf-compile", session.path("gpt.mlir"), "--precision=fp8-block",
                       "--emit=step")
    backward = step[step.index("@block_backward"):]
    backward = backward[:backward.index("return")]
    session.check("fp8-block: no product of a layer's backward is left in bf16",
                  backward.count("nn.scaled_einsum") == 12 and "nn.einsum" not in backward,
                  f"{backward.count('nn.scaled_einsum')} of 8 bits, "
                  f"{backward.count('nn.einsum')} others")


def reference_has_options(session):
    """What --verify compiles a reference with: all that was said of the recipe."""
    folder = session.path("beside")
    os.makedirs(folder)
    shutil.copy(session.tool("sheaf-run"), folder)
    with open(os.path.join(folder, "sheaf-compile"), "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{folder}/said'\n"
                   f"exec '{session.tool('sheaf-compile')}' \"$@\"\n")
    os.chmod(file.name, 0o755)
    for options in (["--precision=fp16", "--loss-scale=1024", "--loss-scale-window=50",
                     "--keep-f32=*mlp*,*ln_f*"],
                    ["--precision=fp8-delayed", "--amax-history=7", "--moments=narrow"],
                    ["--precision=fp8-tensor", "--gradients=fp8", "--moments=fp8",
                     "--masters=f16", "--weights=quantized"]):
        artifact = session.compile("gpt.mlir", "said.sheaf", *options)
        status, out, err = session.try_command(
            [os.path.join(folder, "sheaf-run"), artifact, "--verify", "--threads=1"])
        with open(os.path.join(folder, "said"), encoding="utf-8") as file:
            said = file.read().split()
        wanted = [word for option in options for word in (
            [f"--keep-f32={name}" for name in option.split("=")[1].split(",")]
            if option.startswith("--keep-f32") else [option])]
        session.check(f"--verify of {' '.join(options)}: the reference is compiled with it",
                      status == 0 and sorted(wanted) == sorted(
                          word for word in said if word.startswith("--") and word != "--reference"),
                      f"{said} {'' if status == 0 else (out + err)[-400:]}")


def bytes_fit(session):
    rows = [  # options, bytes of parameter, gradients, master, moment1, moment2
        ([], [2, 4, 4, 4, 4]),
        (["--gradients=narrow"], [2, 2, 4, 4, 4]),
        (["--moments=narrow"], [2, 4, 4, 2, 2]),
        (["--masters=none"], [2, 4, 0, 4, 4]),
        (["--mesh=dp=4", "--zero=1"], [2, 4, 1, 1, 1]),
        (["--mesh=dp=4", "--zero=2"], [2, 1, 1, 1, 1]),
        (["--mesh=dp=4", "--zero=3"], [.5, 1, 1, 1, 1]),
    ]
    kinds = ["parameter", "gradients", "master", "moment1", "moment2"]
    for options, expected in rows:
        found = json.loads(session.run(
            "sheaf-compile", session.path("gpt.mlir"), "--precision=bf16", "--microbatches=2",
            *options, "--explain=json"))["bytes_per_parameter"]
        own = [found.get(kind, 0) for kind in kinds]
        # Accumulators of the memory plan stand on borders of 64 bytes.
        session.check(f"bf16 {' '.join(options)}: bytes per parameter",
                      all(abs(a - b) <= 0.02 * b for a, b in zip(own, expected)),
                      " ".join(f"{kind} {value:.3f}" for kind, value in zip(kinds, own)))


def kept_bytes_fit(session):
    """The rows of DeepSeek-V3 and FP8-LM, on a model that is nearly all matrices of layers."""
    session.run("sheaf-model", "gpt", "--layers=4", "--hidden=256", "--heads=4", "--vocab=64",
                "--seq=16", "--batch=4", "-o", session.path("tall.mlir"))
    kinds = ["weights", "gradients", "master", "moment1", "moment2"]
    rows = [  # the bytes, and those of what is kept as in bf16
        (DEEPSEEK, [1, 4, 4, 2, 2], 13), (FP8_LM, [1, 1, 2, 1, 2], 7),
        ([*DEEPSEEK, "--mesh=dp=4", "--zero=1"], [1, 4, 1, .5, .5], 7),
        ([*DEEPSEEK, "--mesh=dp=4", "--zero=2"], [1, 1, 1, .5, .5], 4),
        ([*FP8_LM, "--mesh=dp=4", "--zero=1"], [1, 1, .5, .25, .5], 3.25),
        ([*FP8_LM, "--mesh=dp=4", "--zero=2"], [1, .25, .5, .25, .5], 2.5)]
    for options, expected, whole in rows:
        found = json.loads(session.run(
            "sheaf-compile", session.path("tall.mlir"), "--microbatches=2", *options,
            "--explain=json"))["bytes_per_parameter"]
        own = [found.get(kind, 0) for kind in kinds]
        # Embedding, norms and biases have no payload and bf16 copies: 0.6% of them.
        session.check(f"{' '.join(options)}: bytes per parameter",
                      all(abs(a - b) <= 0.03 * b for a, b in zip(own, expected))
                      and found.get("parameter", 0) <= 0.03
                      and abs(found["all"] - whole) <= 0.03 * whole,
                      " ".join(f"{kind} {value:.3f}" for kind, value in
                               [*zip(kinds, own), ("in all", found["all"])]))


def kept_state_learns(session, kept, bound):
    """Losses near those of the recipe, the same from a checkpoint, and on two ranks."""
    recipe = kept[0].split("=")[1]
    options = [*kept, "--lr=1e-3"]
    base = losses(train(session, session.compile("llama.mlir", "base.sheaf", f"--precision={recipe}",
                                                 "--lr=1e-3"), 20))
    artifact = session.compile("llama.mlir", "kept.sheaf", *options, "--mesh=dp=2", "--zero=1")
    rows = losses(train(session, artifact, 20))
    worst = max(abs(a / b - 1) for a, b in zip(rows, base))
    session.check(f"{' '.join(kept)}: 20 losses near those of {recipe}",
                  0 < worst <= bound and rows[-1] < 0.95 * rows[0],
                  f"differ by {worst:.1e}, {rows[0]:.4f} -> {rows[-1]:.4f}")
    folder = session.path(f"kept-{recipe}")
    train(session, artifact, 8, f"--checkpoint={folder}", "--checkpoint-every=8")
    log = session.path(f"kept-{recipe}-again.jsonl")
    session.run("sheaf-run", artifact, f"--data={session.path('text.bin')}", "--token-type=u8",
                "--order=random", "--steps=20", "--seed=1", "--quiet", "--threads=1",
                f"--checkpoint={folder}", "--resume", f"--log={log}")
    with open(log, encoding="utf-8") as file:
        again = losses(json.loads(line) for line in file)
    session.check(f"{' '.join(kept)}: a resumed run goes on to the bit", again == rows[8:],
                  f"{again[-1]} and {rows[-1]}")


def scales_are_delayed(session):
    """The history has what was found, newest last; the next step's scale is made of it."""
    artifact = session.compile("llama.mlir", "late.sheaf", "--precision=fp8-delayed",
                               "--amax-history=4")
    result = session.path("out.safetensors")
    random = np.random.default_rng(0)
    tokens = random.integers(0, 256, (8, 64)).astype(np.int32)
    batch = {"batch:tokens": tokens, "batch:targets": tokens}
    source = session.path("in.safetensors")

    def step(more):
        safetensors.write(source, {**batch, **more})
        session.run("sheaf-run", artifact, "--call=init,step", f"--inputs={source}",
                    f"--outputs={result}")
        return safetensors.read(result)

    first = step({})
    history = first["scaling:amax_history"]
    session.check("fp8-delayed: a step adds what it found to the history",
                  history.shape[0] == 4 and np.all(history[3] > 0) and not np.any(history[:3]),
                  f"{history.shape[1]} tensors, {history[3].min():.2e} to {history[3].max():.2e}")
    # Gradients of the first step, all scales 1, are too small for f8E5M2; then they are not.
    second = step({"scaling:amax_history": history})
    session.check("fp8-delayed: the scales of a step are those of the history",
                  second["result:loss"] != first["result:loss"]
                  and np.array_equal(second["scaling:amax_history"][2], history[3]),
                  f"loss {first['result:loss']} and {second['result:loss']}")
    given = np.full_like(history, np.inf)
    third = step({"scaling:amax_history": given})
    session.check("fp8-delayed: what is not finite gives no NaN", np.isfinite(third["result:loss"]))


def same_to_the_bit(session, recipe):
    options = [f"--precision={recipe}", "--lr=1e-3"]
    kept = losses(train(session, session.compile("llama.mlir", "a.sheaf", *options), 5))
    for policy in ("full", "selective"):
        again = losses(train(session, session.compile("llama.mlir", "b.sheaf",
                                                      f"--recompute={policy}", *options), 5))
        session.check(f"{recipe}: losses with --recompute={policy} are equal to the bit",
                      kept == again, f"{kept[-1]} and {again[-1]}")


def weights_are_fresh(session, recipe, *kept):
    """The loss in front of the second step is that of the weights that the first one left."""
    artifact = session.compile("llama.mlir", "fast.sheaf", f"--precision={recipe}", "--lr=0.3",
                               "--clip=0", *kept)
    recipe = " ".join([recipe, *kept])
    saved = session.path("saved.safetensors")
    with open(session.path("text.bin"), "rb") as source:
        once = source.read(8 * 64)  # Each step has the same batch.
    with open(session.path("once.bin"), "wb") as target:
        target.write(once)
    options = [f"--data={session.path('once.bin')}", "--token-type=u8", "--seed=1", "--quiet",
               "--threads=1"]
    first = losses(session.train(artifact, *options, "--steps=2"))
    session.train(artifact, *options, "--steps=1", f"--save={saved}")
    again = losses(session.train(artifact, *options, "--steps=1", f"--load={saved}"))
    session.check(f"{recipe}: a step uses the weights that the one before left, and saved",
                  abs(first[1] / first[0] - 1) > 0.01 and again[0] == first[1],
                  f"loss {first[0]:.4f}, then {first[1]:.4f}, from the file {again[0]:.4f}")
    masters = safetensors.read(saved)
    values = masters["model.layers.0.mlp.up_proj.weight"]
    if "--masters=f16" in kept:
        session.check(f"{recipe}: weights in files are the masters, in f16",
                      all(value.dtype == np.float16 for value in masters.values()))
        return
    session.check(f"{recipe}: weights in files are the masters, in f32",
                  values.dtype == np.float32
                  and np.any(values.view(np.uint32) & 0xffff))


def body(session, _):
    full = bool(os.environ.get("SHEAF_FULL"))
    write_text(session)
    for name, options in MODELS.items():
        session.run("sheaf-model", *options, "-o", session.path(f"{name}.mlir"))
    reference_has_options(session)
    bytes_fit(session)
    kept_bytes_fit(session)
    for kept, bound in ((DEEPSEEK, 5e-3), (FP8_LM, 2e-2)):
        kept_state_learns(session, kept, bound)
        recipe, *more = [kept[0].split("=")[1], *kept[1:]]
        weights_are_fresh(session, recipe, *more)
        for mesh in KEPT_MESHES if full else FEW_KEPT[len(more) > 2]:
            ranks_equal_one(session, "llama", recipe, mesh, *more)
    microbatches_add_up(session)
    overflow_is_left_out(session)
    scales_are_delayed(session)
    narrow_moments_learn(session)
    balance_waits(session)
    layers_differ(session)
    for recipe in RECIPES if full else ["bf16", "fp8-block"]:
        same_to_the_bit(session, recipe)
        if recipe != "fp8-delayed":  # Its scales are state, which a file of weights has not.
            weights_are_fresh(session, recipe)
    # A pipeline does not cut what delayed scales are handed on by.
    meshes = ([(model, recipe, i) for model in MODELS for recipe in RECIPES
               for i in range(len(MESHES)) if not (model == "mixtral" and "cp=" in MESHES[i])
               and not (recipe == "fp8-delayed" and "pp=" in MESHES[i])]
              if full else FEW_MESHES)
    for model, recipe, i in meshes:
        ranks_equal_one(session, model, recipe, MESHES[i])
    if full:
        for model in ("gpt", "llama"):
            learns_as_f32(session, model, RECIPES)
    else:
        for model in sorted({model for model, _ in FEW_TRAINED}):
            learns_as_f32(session, model, [r for m, r in FEW_TRAINED if m == model])


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 3600 if os.environ.get("SHEAF_FULL") else 900))
