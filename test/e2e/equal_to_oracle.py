"""A compiled training step against the NumPy oracle, for a small GPT and Llama.

    python3 test/e2e/equal_to_oracle.py build/bin [--microbatches=1,2,4] [--cases=gpt]

For each model: the gradients of the first batch and of a batch with ignored targets
(criterion a), 20 steps of SGD (b and c), 20 of AdamW with warm-up, decay and
clipping (b and d), the learning rate of each step, and the parameters at the end.
"""

import json
import sys

import numpy as np

import support
import data
import equal
import models
import optimizers
import safetensors
import training

BATCH, SEED = 8, 7

SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 64}

# Odd sizes on purpose: no dimension is a multiple of a vector or a tile.
# The second value says whether the model is described by a config.json.
CASES = {
    "gpt": (models.GPT(layers=2, hidden=36, heads=3, vocab=97, seq=21, ffn=76), False),
    "llama": (models.Llama(layers=2, hidden=48, heads=6, kv_heads=2, vocab=97, seq=21,
                           ffn=56), False),
    "gpt-config": (models.GPT(layers=1, hidden=20, heads=5, vocab=53, seq=9, ffn=33), True),
    "llama-config": (models.Llama(
        layers=2, hidden=40, heads=5, kv_heads=1, vocab=101, seq=19, ffn=44, head_dim=6,
        eps=1e-6, theta=500000.0, rope_scaling=SCALING, tied=True), True),
}

SGD = equal.SGD
# Everything on: the warm-up ends and the decay starts within the 20 steps, and the
# norm is above the clipping bound.
ADAMW = optimizers.Hyper(optimizer="adamw", lr=1e-3, warmup=3, min_lr=1e-4,
                         decay_steps=15, clip=0.5)
MOMENTUM = optimizers.Hyper(optimizer="sgd", lr=0.01, momentum=0.9, clip=1.0)


def to_double(tensors):
    return {name: value.astype(np.float64) for name, value in tensors.items()}


def defined_part(model, name):
    """The elements of a parameter whose course is defined. A key's bias shifts all
    scores of a query alike, so its gradient is zero in theory, and Adam turns the
    noise that is there instead into steps of full size."""
    if name.endswith("attn.c_attn.bias"):
        return np.r_[0:model.hidden, 2 * model.hidden:3 * model.hidden]
    return ...


def call_gradients(session, artifact, params, tokens, targets):
    """(loss, gradient norm, gradients) from the artifact's entry `gradients`."""
    inputs = {f"parameter:{name}": value for name, value in params.items()}
    inputs["batch:tokens"] = tokens.astype(np.int32)
    inputs["batch:targets"] = targets.astype(np.int32)
    source, result = session.path("in.safetensors"), session.path("out.safetensors")
    safetensors.write(source, inputs)
    session.run("sheaf-run", artifact, "--call=gradients", f"--inputs={source}",
                f"--outputs={result}")
    outputs = safetensors.read(result)
    gradients = {name.split(":", 1)[1]: value for name, value in outputs.items()
                 if name.startswith("gradient:")}
    return (float(outputs["result:loss"]), float(outputs["result:grad_norm"]), gradients)


def compare_gradients(session, title, model, artifact, params, batch, microbatches):
    loss, norm, gradients = call_gradients(session, artifact, params, *batch)
    want_loss, want = models.loss_and_gradients(model, to_double(params), *batch,
                                                microbatches)
    session.check(f"{title}: gradients", equal.gradients(gradients, want))
    session.check(f"{title}: norm", equal.norms([norm], [optimizers.global_norm(want)]))
    error = abs(loss - want_loss) / abs(want_loss)
    session.check(f"{title}: loss", error <= equal.LOSS_SGD, f"relative error {error:.2e}")


def compare_training(session, title, model, artifact, params, tokens, token_file, hyper,
                     microbatches):
    saved = session.path("trained.safetensors")
    log = session.train(artifact, f"--data={token_file}", f"--steps={equal.STEPS}",
                        f"--seed={SEED}", f"--save={saved}", *hyper.flags())
    want = training.train(model, to_double(params), tokens, equal.STEPS, BATCH, hyper,
                          microbatches)
    session.check(f"{title}: losses",
                  equal.losses([line["loss"] for line in log], want.losses,
                               hyper.optimizer))
    session.check(f"{title}: norms",
                  equal.norms([line["grad_norm"] for line in log], want.norms))
    rates = [abs(line["lr"] - rate) / rate for line, rate in zip(log, want.rates)]
    session.check(f"{title}: learning rates", max(rates) <= 1e-6,
                  f"relative error {max(rates):.2e}")
    final = safetensors.read(saved)
    session.check(f"{title}: names saved", set(final) == set(want.params))
    # How far the parameters moved is the scale: an update left out is an error of 1.
    worst, where = 0.0, ""
    for name, value in want.params.items():
        part = defined_part(model, name)
        moved = np.sqrt(((value - params[name])[part] ** 2).sum())
        error = np.sqrt(((final[name] - value)[part] ** 2).sum()) / max(moved, 1e-5)
        if not error <= worst:
            worst, where = error, name
    session.check(f"{title}: parameters at the end", bool(worst <= 0.02),
                  f"worst {worst:.1e} of the distance moved, {where}")


def case(session, name, microbatches, steps):
    model, from_config = CASES[name]
    tokens = data.synthetic(1501, model.vocab, 3)
    token_file = session.path("tokens.bin")
    data.write_tokens(token_file, tokens, "u16")
    support.write_model(session, model, BATCH, "model.mlir", from_config)
    for count in microbatches:
        title = f"{name}, {count} microbatches" if count > 1 else f"{name}, 1 microbatch"
        sgd = session.compile("model.mlir", "sgd.sheaf", f"--microbatches={count}",
                              "--optimizer=sgd", *SGD.flags())
        params = support.initial_values(session, sgd, SEED)
        shapes = {key: value.shape for key, value in params.items()}
        session.check(f"{title}: names and shapes", shapes == model.shapes(),
                      "" if shapes == model.shapes() else
                      f"only here {sorted(set(shapes.items()) - set(model.shapes().items()))}, "
                      f"missing {sorted(set(model.shapes().items()) - set(shapes.items()))}")
        if shapes != model.shapes():
            continue
        manifest = json.loads(session.run("sheaf-run", sgd, "--info=json"))
        decayed = {buffer["name"]: buffer["decay"] for buffer in manifest["buffers"]
                   if buffer["kind"] == "parameter"}
        wrong = [key for key, shape in shapes.items() if decayed[key] != (len(shape) > 1)]
        session.check(f"{title}: weight decay of matrices and tables alone", not wrong,
                      " ".join(wrong[:6]))
        first = data.batch(tokens, 0, BATCH, model.seq)
        compare_gradients(session, f"{title}, first batch", model, sgd, params, first, count)
        # Ignored targets, in uneven numbers: a program that divides by the number of
        # microbatches or positions is wrong here.
        ignored = first[1].copy()
        ignored[0, 1:], ignored[1, ::2], ignored[-1, 0] = -100, -1, -100
        far = {key: (value + 0.1 * np.random.default_rng(1).standard_normal(value.shape))
               .astype(np.float32) for key, value in params.items()}
        compare_gradients(session, f"{title}, ignored targets", model, sgd, far,
                          (first[0], ignored), count)
        if not steps:
            continue
        compare_training(session, f"{title}, SGD", model, sgd, params, tokens, token_file,
                         SGD, count)
        adamw = session.compile("model.mlir", "adamw.sheaf", f"--microbatches={count}",
                                "--optimizer=adamw")
        compare_training(session, f"{title}, AdamW", model, adamw, params, tokens,
                         token_file, ADAMW, count)
        if count == microbatches[0]:
            # The scalars of the command line override those of the compilation.
            compare_training(session, f"{title}, momentum", model, sgd, params, tokens,
                             token_file, MOMENTUM, count)


def body(session, arguments):
    names = arguments.cases.split(",") if arguments.cases else list(CASES)
    for name in names:
        if name not in CASES:
            raise ValueError(f"no case {name!r}, there are {', '.join(CASES)}")
        case(session, name, [int(n) for n in arguments.microbatches.split(",")],
             not arguments.gradients_only)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 600, [
        ("--cases", {"default": "", "help": f"of {', '.join(CASES)}"}),
        ("--microbatches", {"default": "1,2,4"}),
        ("--gradients-only", {"action": "store_true"})]))
