"""A model in pipeline stages trains to the same numbers as on one device.

    python3 test/e2e/pipelines.py build/bin

For models, numbers of ranks and microbatches and schedules (a part of them; with
SHEAF_FULL=1 in the environment all): `sheaf-run --verify` compares loss and every gradient
of the first step with the program of one device; losses of several steps agree to 2e-6 with
sgd and 5e-6 with AdamW, norms to 2e-5; the held-out loss, too; weights that a pipeline saved
are those of one device, which resumes from them; two runs and, where `mpirun` is installed,
processes instead of threads give the same to the bit.
"""

import os
import shutil
import sys

import support
import data

STEPS = 6
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
OPTIMIZERS = {
    "sgd": ["--optimizer=sgd", "--lr=0.03", "--momentum=0", "--clip=0"],
    "adamw": ["--lr=1e-3"],
}
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def worst(rows, base, field):
    return max(abs(a[field] / b[field] - 1) for a, b in zip(rows, base))


def numbers(rows):
    return [(row["loss"], row["grad_norm"]) for row in rows]


def check(session, model, batch, strategy, mpi):
    mesh, *options = strategy.split()
    ranks = 1
    for axis in mesh.split(","):
        ranks *= int(axis.split("=")[1])
    title = f"{model}, {strategy}"
    source = f"{model}-{batch}.mlir"
    session.run("sheaf-model", *MODELS[model], f"--batch={batch}", "-o", session.path(source))
    tokens = session.path("tokens.bin")
    train = [f"--data={tokens}", f"--steps={STEPS}", "--quiet", "--threads=1"]
    for optimizer, settings in OPTIMIZERS.items():
        one = session.compile(source, "one.sheaf", *settings)
        weights = session.path("one.safetensors")
        base = session.train(one, *train, f"--save={weights}")
        artifact = session.compile(source, "stages.sheaf", f"--mesh={mesh}", *options, *settings)
        saved = session.path("stages.safetensors")
        rows = session.train(artifact, *train, f"--save={saved}", f"--eval-data={tokens}",
                             "--eval-every=3")
        bound = 2e-6 if optimizer == "sgd" else 5e-6
        loss, norm = worst(rows, base, "loss"), worst(rows, base, "grad_norm")
        session.check(f"{title}, {optimizer}: losses as on one device",
                      len(rows) == STEPS and loss <= bound and norm <= 2e-5,
                      f"losses differ by {loss:.1e}, norms by {norm:.1e}")
    status, out, err = session.try_run("sheaf-run", artifact, "--verify", "--threads=1")
    session.check(f"{title}: gradients as on one device", status == 0,
                  "" if status == 0 else (out + err)[-800:])
    again = session.train(artifact, *train)
    session.check(f"{title}: another run is equal to the bit", numbers(again) == numbers(rows))
    # What the pipeline saved is a whole model: one device starts where it ended.
    first = session.train(one, *train[:1], "--steps=1", "--quiet", f"--load={saved}")
    second = session.train(artifact, *train[:1], "--steps=1", "--quiet", f"--load={saved}")
    session.check(f"{title}: weights go to one device and back",
                  worst(second, first, "loss") <= 2e-6)
    if mpi and ranks <= 4:
        log = session.path("processes.jsonl")
        status, out, err = session.try_command(
            ["mpirun", "-n", str(ranks), session.tool("sheaf-run"), artifact, f"--log={log}",
             *train], environment=MPI)
        got = numbers(support.read_log(log)) if status == 0 else []
        session.check(f"{title}: processes give the same bits", got == numbers(rows),
                      "" if got == numbers(rows) else (out + err)[-800:])


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
    for i, (model, batch, strategy) in enumerate(cases):
        check(session, model, batch, strategy, mpi and i % 3 == 0)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 4 * 3600 if FULL else 900))
