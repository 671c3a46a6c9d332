"""A partitioned step against the step that it was made from, both interpreted.

As a module: `check(bin_dir, model flags, strategy)` compiles a model to a step, lets
sheaf-opt partition it, runs an entry of both on random inputs and compares every result.
Gives the collectives that were counted while it ran, {(kind, axes, elements, type, rank):
times}, and `text`, the partitioned module. Everything is computed in f64, so that a sum in
another order differs by rounding only.
"""

import os
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from interpreter import Module, Type, split  # noqa: E402
from mesh import MeshModule  # noqa: E402

TOLERANCE = 1e-11


def run(*command, stdin=None):
    done = subprocess.run([str(part) for part in command], input=stdin, capture_output=True,
                          text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}")
    return done.stdout


class Whole(Module):
    """One device: a constraint changes nothing."""

    def execute(self, op, operands, values):
        return operands if op.name == "dist.constraint" else super().execute(op, operands, values)


def make_step(bin_dir, model, microbatches=1, optimizer="adamw", options=(), edit=lambda text: text):
    """The step of a model as IR; `model` are the arguments of sheaf-model, whose text `edit`
    changes, `options` more of sheaf-compile."""
    text = edit(run(f"{bin_dir}/sheaf-model", *model))
    return run(f"{bin_dir}/sheaf-compile", "-", "--emit=step", f"--microbatches={microbatches}",
               f"--optimizer={optimizer}", *options, stdin=text)


def function_types(module, name):
    inputs, _, results = module.functions[name].attributes["function_type"].partition(" -> ")
    results = results[1:-1] if results.startswith("(") else results
    return [Type(t) for t in split(inputs[1:-1])], [Type(t) for t in split(results)]


def inputs(module, name, vocabulary, seed=1):
    """Random arguments; targets of -1 make the ranks' counts differ."""
    random = np.random.default_rng(seed)
    types, _ = function_types(module, name)
    attributes = split(module.functions[name].attributes.get("arg_attrs", "[]")[1:-1])
    values = []
    for type, text in zip(types, attributes, strict=True):
        scalar = re.search(r'nn\.default = ([-+\d.eE]+)', text)
        if scalar:
            value = np.full(type.shape, float(scalar[1]))
        elif "nn.batch" in text:
            value = random.integers(0, 3 if '"documents"' in text else vocabulary, type.shape)
            if '"targets"' in text:
                value = np.where(random.random(type.shape) < 0.3 + 0.4 *
                                 (np.arange(type.shape[0])[:, None] == 0), -1, value)
            value = value.astype(np.int32)
        elif type.element == "i32":
            value = np.zeros(type.shape, np.int32) + 3
        elif "moment2" in text:
            value = random.uniform(0.1, 1, type.shape)
        else:
            value = random.normal(0, 0.3, type.shape)
        values.append(value)
    return values


def differ(found, expected):
    """The first result that differs, as text; None where all are equal."""
    total = np.sqrt(sum(float((np.asarray(e, np.float64) ** 2).sum()) for e in expected))
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape:
            return f"result {i} has shape {a.shape}, expected {b.shape}"
        error = np.linalg.norm(np.asarray(a, np.float64) - b)
        if not error <= TOLERANCE * np.linalg.norm(b) + 1e-14 * total:
            return f"result {i} differs by {error} of {np.linalg.norm(b)}"
    return None


def partition(bin_dir, step, strategy, passes="dist-propagate,dist-partition,symbol-dce,dist-optimize"):
    return run(f"{bin_dir}/sheaf-opt", "--mlir-print-op-generic",
               f"--pass-pipeline=builtin.module(nn-decompose{{ops=step_mean,step_sum}},"
               f"dist-apply-strategy{{{strategy}}},{passes},canonicalize,dist-verify)", stdin=step)


def check(bin_dir, step, strategy, name="gradients", vocabulary=32, reduce="cheapest",
          bucket_bytes=0, context="gather"):
    """Raises where a result differs; gives the MeshModule that ran, with its counts."""
    whole = Whole(run(f"{bin_dir}/sheaf-opt", "--mlir-print-op-generic", stdin=step))
    arguments = inputs(whole, name, vocabulary)
    local = MeshModule(partition(
        bin_dir, step, strategy,
        f"dist-propagate,dist-partition{{reduce={reduce} context={context}}},symbol-dce,"
        f"dist-optimize{{bucket-bytes={bucket_bytes}}}"))
    expected = whole.call(name, arguments)
    _, results = function_types(whole, name)
    found = local.call_global(name, arguments, [type.shape for type in results])
    problem = differ(found, expected)
    if problem:
        raise ValueError(f"@{name} with {strategy}: {problem}")
    return local


def main():
    bin_dir, name, strategy, microbatches, *model = sys.argv[1:]
    step = make_step(bin_dir, model, microbatches)
    local = check(bin_dir, step, strategy, name,
                  reduce=os.environ.get("SHEAF_REDUCE", "cheapest"))
    for key, times in sorted(local.collectives.items(), key=str):
        print(*key, times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
