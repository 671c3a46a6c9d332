"""Checks training steps without compiling them to machine code.

    python3 test/oracle/interpreted_steps.py build/bin

`sheaf-model` writes a model, `sheaf-opt` makes its training step, interpreter.py runs it
in f64:

  - loss, gradients and norm against the NumPy models of models.py, for several numbers of
    microbatches and recompute policies;
  - the same with dropout, and with masks and smoothing, where microbatches and recompute
    must change nothing;
  - seven steps of AdamW and SGD against optimizers.py, whose scalars are f32;
  - the two parts of each layer_backward against the whole.
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import models  # noqa: E402
import optimizers  # noqa: E402
from interpreter import Module, Reader, split  # noqa: E402

GPT = models.GPT(layers=2, hidden=16, heads=2, vocab=37, seq=8)
LLAMA = models.Llama(layers=2, hidden=16, heads=4, kv_heads=2, ffn=24, vocab=37, seq=8)
BATCH = 4
failures = []
checks = 0


def check(title, good, detail=""):
    global checks
    checks += 1
    if not good:
        failures.append(title)
        print(f"FAIL {title}: {detail}")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ValueError(f"{' '.join(command)}: {result.stderr.strip()[-2000:]}")
    return result.stdout


class Program:
    """A module after some passes, with what its entries' arguments and results are."""

    def __init__(self, opt, path, passes):
        self.text = run(opt, path, *passes, "--mlir-print-op-generic")
        self.module = Module(self.text)
        self.functions = self.module.functions

    def attributes(self, function, key):
        """What each argument (arg_attrs) or result (res_attrs) is: (kind, name)."""
        op = self.functions[function]
        found = []
        for entry in split(op.attributes[key][1:-1]):
            fields = Reader("").dictionary(entry[1:-1])
            if "nn.param" in fields:
                found.append(("parameter", re.search(r'"([^"]*)"', fields["nn.param"])[1]))
            elif "nn.batch" in fields:
                found.append(("batch", fields["nn.batch"].strip('"')))
            elif "nn.rng" in fields:
                found.append(("rng", "rng"))
            elif "nn.scalar" in fields:
                found.append(("scalar", fields["nn.scalar"].strip('"'),
                              fields.get("nn.default")))
            else:
                pair = fields.get("nn.state") or fields.get("nn.result")
                found.append(tuple(re.findall(r'"([^"]*)"', pair)))
        return found

    def call(self, function, values):
        """`values` maps (kind, name) to arrays; so does the result."""
        arguments = []
        for what in self.attributes(function, "arg_attrs"):
            if what[:2] in values:
                arguments.append(values[what[:2]])
            elif what[0] == "scalar":
                arguments.append(np.float64(what[2].partition(" : ")[0]))
            else:
                raise ValueError(f"no value for {what}")
        results = self.module.call(function, arguments)
        names = self.attributes(function, "res_attrs")
        return dict(zip(names, results, strict=True))


def inputs(model, params, seed=3, empty=False):
    random = np.random.default_rng(seed)
    tokens = random.integers(0, model.vocab, (BATCH, model.seq)).astype(np.int32)
    targets = random.integers(0, model.vocab, (BATCH, model.seq)).astype(np.int32)
    targets[1, 2:6] = -1
    targets[3] = -1 if not empty else targets[3]
    values = {("parameter", name): value for name, value in params.items()}
    values.update({("batch", "tokens"): tokens, ("batch", "targets"): targets,
                   ("rng", "rng"): np.array([7, 9, 2, 0], np.int32)})
    return values


def close(a, b, tolerance):
    return np.shape(a) == np.shape(b) and np.abs(np.asarray(a) - b).max(initial=0) \
        <= tolerance * max(1e-3, np.abs(b).max(initial=0))


def largest(got, want):
    return {key: float(np.abs(got[key] - want[key]).max()) for key in want
            if key in got and np.shape(got[key]) == np.shape(want[key])
            and np.abs(got[key] - want[key]).max() > 1e-12}


def same(title, got, want, tolerance=1e-11):
    check(f"{title}: same results", set(got) == set(want), sorted(set(got) ^ set(want)))
    bad = [key for key in want if key in got and not close(got[key], want[key], tolerance)]
    check(title, not bad, f"{bad[:3]}: {largest(got, want)}")


def write_model(tools, folder, family, model, *more):
    path = os.path.join(folder, f"{family}{len(more)}.mlir")
    extra = [] if family == "gpt" else [f"--kv-heads={model.kv_heads}", f"--ffn={model.ffn}"]
    run(os.path.join(tools, "sheaf-model"), family, f"--layers={model.layers}",
        f"--hidden={model.hidden}", f"--heads={model.heads}", f"--vocab={model.vocab}",
        f"--seq={model.seq}", f"--batch={BATCH}", *extra, *more, "-o", path)
    return path


def passes(microbatches, policy, *more):
    # In f64, constants are those of the definitions.
    return ["--nn-convert-floats=to=f64", "--nn-differentiate=functions=loss", f"--nn-recompute=policy={policy}",
            f"--nn-accumulate=microbatches={microbatches}", *more]


VARIANTS = [(m, policy) for m in (1, 2, 4) for policy in ("none", "selective", "full")]


def check_gradients(opt, path, title, model):
    params = models.initial(model, 1)
    random = np.random.default_rng(11)
    # Zero biases and equal norms would hide mistakes.
    params = {name: value + 0.1 * random.standard_normal(value.shape)
              for name, value in params.items()}
    values = inputs(model, params)
    loss, gradients = models.loss_and_gradients(
        model, params, values["batch", "tokens"], values["batch", "targets"])
    want = {("gradient", name): value for name, value in gradients.items()}
    want["result", "loss"] = np.asarray(loss)
    want["result", "grad_norm"] = np.asarray(optimizers.global_norm(gradients))
    for m, policy in VARIANTS:
        program = Program(opt, path, passes(m, policy))
        same(f"{title} m={m} {policy}", program.call("gradients", values), want)
        check_parts(program, f"{title} m={m} {policy}")
    return params


def check_parts(program, title):
    """Each layer_backward against its input gradient and weight gradient."""
    for name, function in program.functions.items():
        if "nn.input_gradient" not in function.attributes:
            continue
        parts = [name] + [function.attributes[key].strip('"')
                          for key in ("nn.input_gradient", "nn.weight_gradient")]
        random = np.random.default_rng(5)
        known = {}
        results = []
        for part in parts:
            op = program.functions[part]
            types = split(op.attributes["function_type"].rpartition("->")[0].strip()[1:-1])
            for what, type_text in zip(labels(op, "nn.operands"), types, strict=True):
                if what not in known:
                    shape = [int(n) for n in re.findall(r"(\d+)x", type_text)]
                    known[what] = random.standard_normal(shape) if "f64" in type_text \
                        else random.integers(0, 8, shape).astype(np.int32)
            values = program.module.call(part, [known[what]
                                                for what in labels(op, "nn.operands")])
            results.append(dict(zip(labels(op, "nn.results"), values, strict=True)))
            known.update({what: value for what, value in results[-1].items()
                          if what.startswith("handed")})
        both = {what: value for what, value in (results[1] | results[2]).items()
                if what.startswith("argument")}
        same(f"{title} parts of {name}", both, results[0])


def labels(op, key):
    return re.findall(r'"([^"]*)"', op.attributes[key])


def check_masks(opt, path, title, model, params):
    """Documents, window and smoothing: microbatches and recompute change nothing."""
    values = inputs(model, params)
    random = np.random.default_rng(4)
    values["batch", "documents"] = np.sort(
        random.integers(0, 3, (BATCH, model.seq)).astype(np.int32), -1)
    base = Program(opt, path, passes(1, "none")).call("gradients", values)
    plain, _ = models.loss_and_gradients(model, params, values["batch", "tokens"],
                                         values["batch", "targets"])
    check(f"{title}: the masks matter", abs(base["result", "loss"] - plain) > 1e-6)
    for m, policy in VARIANTS[1:]:
        program = Program(opt, path, passes(m, policy))
        same(f"{title} m={m} {policy}", program.call("gradients", values), base)


def check_dropout(opt, path, title, model, params):
    values = inputs(model, params)
    base = None
    for m, policy in VARIANTS:
        got = Program(opt, path, passes(m, policy)).call("gradients", values)
        if base is None:
            base = got
            other = dict(values)
            other["rng", "rng"] = np.array([8, 9, 2, 0], np.int32)
            again = Program(opt, path, passes(m, policy)).call("gradients", other)
            check(f"{title}: the seed matters",
                  again["result", "loss"] != base["result", "loss"])
        else:
            same(f"{title} m={m} {policy}", got, base)
    # The gradient is that of the loss with the same numbers.
    program = Program(opt, path, passes(1, "none"))
    random = np.random.default_rng(2)
    move = {key: random.standard_normal(value.shape) for key, value in values.items()
            if key[0] == "parameter"}
    length = np.sqrt(sum((d * d).sum() for d in move.values()))
    sides = []
    for sign in (1, -1):
        moved = {key: value + sign * 1e-5 / length * move[key] if key in move else value
                 for key, value in values.items()}
        sides.append(float(program.call("gradients", moved)["result", "loss"]))
    slope = (sides[0] - sides[1]) / 2e-5
    found = sum(float((base["gradient", key[1]] * d).sum()) for key, d in move.items()) / length
    check(f"{title}: differences", abs(found - slope) <= 1e-6 * max(abs(slope), 1e-2),
          f"gradient {found}, differences {slope}")
    evaluated = Program(opt, path, passes(2, "none", "--nn-add-initializer",
                                          "--nn-prepare-evaluation"))
    check(f"{title}: no dropout in evaluation",
          "nn.dropout" not in str(evaluated.functions["loss"].regions[0].ops)
          and ("rng", "rng") not in evaluated.attributes("loss", "arg_attrs"))
    loss = evaluated.call("loss", values)["result", "loss"]
    want, _ = models.loss_and_gradients(model, params, values["batch", "tokens"],
                                        values["batch", "targets"])
    check(f"{title}: evaluated loss", abs(float(loss) - want) < 1e-11, f"{loss}, {want}")
    init = evaluated.call("init", values)
    names = {key[1] for key in init}
    check(f"{title}: init makes every parameter", names == set(params))
    weights = np.concatenate([value.ravel() for key, value in init.items()
                              if value.ndim == 2 and "wte" in key[1]])
    check(f"{title}: deviation of init", abs(weights.std() / 0.02 - 1) < 0.1, weights.std())


def check_optimizer(opt, path, title, model, params):
    for kind in ("adamw", "sgd"):
        hyper = optimizers.Hyper(optimizer=kind, lr=0.02, warmup=2, min_lr=0.001,
                                 decay_steps=5, weight_decay=0.3, clip=0.7,
                                 momentum=0.6 if kind == "sgd" else 0.0, beta2=0.99)
        options = " ".join(flag[2:] for flag in hyper.flags())
        program = Program(opt, path, passes(2, "selective",
                                            f"--nn-add-optimizer=kind={kind} {options}"))
        optimizer = optimizers.Optimizer(hyper)
        mine = {name: value.copy() for name, value in params.items()}
        values = inputs(model, params)
        for what in program.attributes("step", "arg_attrs"):
            if what[0] in ("moment1", "moment2", "momentum"):
                values[what] = np.zeros_like(params[what[1]])
        for t in range(7):
            batch = inputs(model, params, seed=100 + t)
            values.update({key: batch[key] for key in batch if key[0] == "batch"})
            values["scalar", "step"] = np.int32(t).reshape(())
            loss, gradients = models.loss_and_gradients(
                model, mine, values["batch", "tokens"], values["batch", "targets"])
            mine = optimizer.update(mine, gradients, t)
            got = program.call("step", values)
            check(f"{title} {kind} step {t}: loss",
                  abs(float(got["result", "loss"]) - loss) < 1e-6)
            rate = optimizers.learning_rate(hyper, t)
            check(f"{title} {kind} step {t}: learning rate",
                  abs(float(got["result", "learning_rate"]) - rate) < 1e-7 * rate,
                  f"{got['result', 'learning_rate']}, expected {rate}")
            bad = [name for name, value in mine.items()
                   if not close(got["parameter", name], value, 1e-6)]
            check(f"{title} {kind} step {t}: parameters", not bad, bad[:3])
            values.update({key: value for key, value in got.items() if key in values})


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 1
    tools = sys.argv[1]
    opt = os.path.join(tools, "sheaf-opt")
    with tempfile.TemporaryDirectory() as folder:
        for family, model in (("gpt", GPT), ("llama", LLAMA)):
            path = write_model(tools, folder, family, model)
            params = check_gradients(opt, path, family, model)
            if family == "gpt":
                dropout = write_model(tools, folder, family, model, "--dropout=0.2")
                check_dropout(opt, dropout, "gpt with dropout", model, params)
                check_optimizer(opt, path, family, model, params)
                masked = write_model(tools, folder, family, model, "--documents",
                                     "--window=3", "--label-smoothing=0.1")
                check_masks(opt, masked, "gpt with masks", model, params)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
