"""A model in pipeline stages trains to the same numbers as on one device.

    python3 test/e2e/pipelines.py build/bin

For models, numbers of ranks and microbatches and schedules (a part of them; with
SHEAF_FULL=1 in the environment all): `sheaf-run --verify` compares loss and every gradient
of the first step with the program of one device; losses of several steps agree to 2e-6 with
sgd and 5e-6 with AdamW, norms to 2e-5; the held-out loss, too; weights that a pipeline saved
are those of one device, which resumes from them; two runs and, where `mpirun` is installed,
processes instead of threads give the same to the bit.
"""

import math
import os
import shutil
import sys

import support
import data
import parallel

FULL = bool(os.environ.get("SHEAF_FULL"))
MODELS = {
    # The head is tied to the embedding, on the last and the first stage.
    "gpt": ["gpt", "--layers=4", "--hidden=32", "--heads=4", "--seq=16", "--vocab=64"],
    "gpt-untied": ["gpt", "--layers=3", "--hidden=16", "--heads=2", "--seq=8", "--vocab=32",
                   "--untie", "--label-smoothing=0.1"],
    "llama": ["llama", "--layers=4", "--hidden=32", "--heads=4", "--kv-heads=2", "--ffn=48",
              "--seq=16", "--vocab=64"],
    "gpt-dropout": ["gpt", "--layers=2", "--hidden=32", "--heads=4", "--seq=8", "--vocab=32",
                    "--dropout=0.2"],
}
# Model, batch, mesh and options.
CASES = [
    ("gpt", 2, "pp=2 --microbatches=2 --pipeline=gpipe"),
    ("llama", 4, "pp=2 --microbatches=4 --pipeline=1f1b"),
    ("gpt-untied", 7, "pp=3 --microbatches=7 --pipeline=zb-h1"),
    ("gpt-dropout", 2, "pp=2 --microbatches=1"),
    ("gpt", 3, "pp=2 --microbatches=3 --pipeline=interleaved"),
    ("llama", 4, "pp=2 --microbatches=4 --pipeline=dualpipev"),
    ("gpt", 4, "pp=2,dp=2 --microbatches=2 --pipeline=zb-h2 --zero=1"),
    ("llama", 2, "pp=2,tp=2 --microbatches=2 --pipeline=1f1b --sequence-parallel"),
    # A stage of the head alone.
    ("gpt", 3, "pp=2 --microbatches=3 --stage-layers=4,0 --pipeline=1f1b --recompute=full"),
]
MORE = [
    ("gpt", 4, "pp=2 --microbatches=4 --pipeline=zbv"),
    ("gpt", 3, "pp=2 --microbatches=3 --pipeline=bfs"),
    ("gpt", 4, "pp=2,dp=2 --microbatches=2 --pipeline=1f1b --zero=2"),
    ("gpt", 4, "pp=2,dp=2 --microbatches=2 --pipeline=bfs --zero=3"),
    ("gpt", 4, "pp=2,dp=2,tp=2 --microbatches=2 --pipeline=zb-h1 --zero=1 --sequence-parallel"),
]


def check(session, model, batch, strategy, bases, mpi):
    """As parallel.py; what a pipeline saves is a whole model, processes do as threads do."""
    name = f"{model}-{batch}"
    session.run("sheaf-model", *MODELS[model], f"--batch={batch}", "-o",
                session.path(f"{name}.mlir"))
    artifact, train, numbers = parallel.check(session, name, strategy, bases)
    title = f"{model}, {strategy}"
    one = session.compile(f"{name}.mlir", "whole.sheaf", *parallel.OPTIMIZERS["adamw"])
    saved = session.path("stages.safetensors")
    held_out = [*train, f"--eval-data={session.path('tokens.bin')}", "--eval-every=3"]
    rows = session.train(artifact, *held_out, f"--save={saved}")
    session.check(f"{title}: held-out loss between steps changes no bit",
                  [(row["loss"], row["grad_norm"]) for row in rows] == numbers)
    wanted, got = ([row for row in log if "eval_loss" in row]
                   for log in (session.train(one, *held_out), rows))
    session.check(f"{title}: held-out loss as on one device", bool(wanted) and
                  len(got) == len(wanted) and parallel.worst(got, wanted, "eval_loss") <= 5e-6)
    # One device starts where the pipeline ended.
    once = [train[0], "--steps=1", "--quiet", f"--load={saved}"]
    first, second = session.train(one, *once), session.train(artifact, *once)
    session.check(f"{title}: weights go to one device and back",
                  parallel.worst(second, first, "loss") <= 2e-6)
    ranks = math.prod(int(axis.split("=")[1]) for axis in strategy.split()[0].split(","))
    if mpi and ranks <= 4:
        parallel.check_processes(session, artifact, train, ranks, numbers, title)


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(2003, 32, 1), "u16")
    mpi = shutil.which("mpirun") and "libmpi" in session.try_command(
        ["ldd", session.tool("sheaf-run")])[1]
    cases = list(CASES)
    if FULL:
        cases += MORE + [(model, m, f"pp={p} --microbatches={m} --pipeline={pipeline}")
                         for model in ("gpt", "llama") for p in (2, 3, 4)
                         for m in sorted({1, 2, max(1, p - 1), p, 2 * p + 1})
                         for pipeline in ("gpipe", "1f1b", "zb-h1", "zb-h2")]
    bases = {}
    for i, (model, batch, strategy) in enumerate(cases):
        check(session, model, batch, strategy, bases, mpi and i % 3 == 0)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 4 * 3600 if FULL else 900))
