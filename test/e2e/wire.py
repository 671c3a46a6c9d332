"""Gradients and weights that are sent in fewer bytes: what is lost, and what is sent.

    python3 test/e2e/wire.py build/bin

For meshes, strategies and formats (a part of them; with SHEAF_FULL=1 in the environment
all): 20 steps give losses near those of what is sent in f32, the log has how far the
gradients are off (wire_error), which is of the size that the format explains, two runs and,
where `mpirun` is installed, processes give the same bits, what --explain=json lists is what
the runtime counts, and it is half, or little more than a quarter, of the bytes. Weights of 16
bits that are rounded of masters are gathered in 8, and losses are near those of before.
"""

import json
import os
import shutil
import sys

import support
import data
import parallel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS = 20
# How far losses may be off, and the least and the most of the error of what is sent.
FORMATS = {"bf16": (1e-3, 5e-4, 1 / 256), "int8": (3e-3, 2e-3, 0.03), "fp8": (1e-2, 1e-2, 1 / 16)}
# The most bytes, as a share of those in f32: small parts have factors of their own.
BYTES = {"bf16": 0.5001, "int8": 0.32, "fp8": 0.32}
# Model, strategy, what is sent in the format.
CASES = [
    ("gpt", "dp=2", ["gradient"]),
    ("llama", "dp=4 --zero=1 --bucket-bytes=20000", ["gradient", "weight"]),
    ("odd", "dp=2,cp=2 --zero=3 --microbatches=2", ["gradient", "weight"]),
    ("gpt", "dp=2,tp=2 --zero=2 --sequence-parallel --microbatches=2", ["gradient"]),
    ("gpt", "dp=4 --zero=3 --zero-group=2 --recompute=full", ["weight"]),
    ("odd", "dp=3 --bucket-bytes=auto", ["gradient"]),
    ("llama", "dp=4 --zero=3 --zero3-gathers=keep --accumulate=whole --microbatches=2",
     ["gradient", "weight"]),
    ("gpt", "dp=2,cp=2 --context=ring --zero=1", ["gradient", "weight"]),
    ("gpt-dropout", "dp=2 --zero=3 --zero-min-bytes=2000", ["weight"]),
    # Sums within nodes first.
    ("llama", "dp=4 --cluster=two.json --bucket-bytes=20000", ["gradient"]),
    ("odd", "dp=2,cp=2 --cluster=two.json --zero=2 --microbatches=2", ["gradient"]),
]
# Of each format one case, and of int8 the one with everything.
FEW = [(1, "fp8"), (2, "int8"), (4, "bf16"), (9, "int8")]


def bytes_of(session, model, arguments):
    """Bytes that a device sends in a step, but for scalars; and what is said of them."""
    explained = json.loads(session.run("sheaf-compile", session.path(f"{model}.mlir"), *arguments,
                                       "--explain=json"))
    rows = [row for row in explained["collectives"] if "purpose" not in row]
    texts = [row["reason"].get("text", "") for row in rows]
    axes = {axis for row in rows for axis in row["axes"]}
    return sum(row["wire_bytes"] * row["count"] for row in rows), texts, axes


def check(session, number, wire, mpi):
    model, strategy, what = CASES[number]
    mesh, *options = strategy.split()
    plain = [f"--mesh={mesh}", *options, "--lr=1e-3"]
    rounded = [f"--{each}-wire={wire}" for each in what]
    title = f"{model}, {strategy} {' '.join(rounded)}"
    train = [f"--data={session.path('tokens.bin')}", f"--steps={STEPS}", "--quiet", "--threads=1"]
    base = session.train(session.compile(f"{model}.mlir", "plain.sheaf", *plain), *train)
    artifact = session.compile(f"{model}.mlir", "wire.sheaf", *plain, *rounded)
    rows = session.train(artifact, *train)
    most, least_error, most_error = FORMATS[wire]
    off = parallel.worst(rows, base, "loss")
    session.check(f"{title}: losses as in f32", len(rows) == STEPS and 0 < off <= most,
                  f"off by {off:.1e}")
    if "gradient" in what:
        errors = [row["wire_error"] for row in rows]
        session.check(f"{title}: the error is that of the format",
                      least_error <= min(errors) and max(errors) <= most_error,
                      f"{min(errors):.1e} to {max(errors):.1e}")
    else:
        session.check(f"{title}: no error of gradients", "wire_error" not in rows[0])

    def numbers(table):
        return [(row["loss"], row["grad_norm"]) for row in table]

    session.check(f"{title}: another run is equal to the bit",
                  numbers(session.train(artifact, *train)) == numbers(rows))
    parallel.check_counts(session, model, f"{strategy} {' '.join(rounded)}")
    before, _, axes = bytes_of(session, model, plain)
    after, texts, _ = bytes_of(session, model, [*plain, *rounded])
    # Where only that is sent.
    everything = axes <= {"dp", "cp"} and "--context=ring" not in options and "cp" not in mesh
    everything = everything and ("weight" in what or "--zero" not in strategy)
    everything = everything and ("gradient" in what)
    session.check(f"{title}: fewer bytes are sent, and it is said how",
                  after <= before * (BYTES[wire] if everything else 0.99)
                  and any(f"sent as {wire}" in text for text in texts)
                  and any("the sums of nodes" in text for text in texts)
                  == ("--cluster" in strategy),
                  f"{before:.0f}, then {after:.0f}")
    ranks = 1
    for axis in mesh.split(","):
        ranks *= int(axis.split("=")[1])
    if mpi and number == 2:
        parallel.check_processes(session, artifact, train, ranks, numbers(rows), title)


def check_narrow_weights(session, strategy, wire, *precision):
    """Weights of 16 bits that a shard of masters gives, gathered in 8."""
    mesh, *options = strategy.split()
    plain = [f"--mesh={mesh}", *options, "--lr=1e-3", *precision]
    title = f"gpt, {strategy} {' '.join(precision)} --weight-wire={wire}"
    train = [f"--data={session.path('tokens.bin')}", f"--steps={STEPS}", "--quiet", "--threads=1"]
    base = session.train(session.compile("gpt.mlir", "plain.sheaf", *plain), *train)
    artifact = session.compile("gpt.mlir", "wire.sheaf", *plain, f"--weight-wire={wire}")
    rows = session.train(artifact, *train)
    off = parallel.worst(rows, base, "loss")
    session.check(f"{title}: losses as without", len(rows) == STEPS and 0 < off <= FORMATS[wire][0],
                  f"off by {off:.1e}")
    again = session.train(artifact, *train)
    session.check(f"{title}: another run is equal to the bit",
                  [row["loss"] for row in again] == [row["loss"] for row in rows])
    sent = []
    for arguments in (plain, [*plain, f"--weight-wire={wire}"]):
        explained = json.loads(session.run("sheaf-compile", session.path("gpt.mlir"), *arguments,
                                           "--explain=json"))
        sent.append(sum(row["wire_bytes"] * row["count"] for row in explained["collectives"]
                        if row["kind"] == "all-gather" and row["phase"] == "optimizer"))
    # A byte for two, and factors, of which short rows have more.
    session.check(f"{title}: fewer bytes are gathered", sent[1] <= 0.64 * sent[0],
                  f"{sent[0]:.0f}, then {sent[1]:.0f}")


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(2003, 32, 1), "u16")
    for name, options in parallel.MODELS.items():
        session.run("sheaf-model", *options, "-o", session.path(f"{name}.mlir"))
    # Nodes of 2 in place of 8.
    with open(os.path.join(ROOT, "examples/clusters/h100.json"), encoding="utf-8") as file:
        cluster = json.load(file)
    cluster["node"]["devices"] = 2
    links = cluster["communication"]
    links["transfers"] = [{**row, "members_per_node": min(2, row["members_per_node"])}
                          for row in links["transfers"] if row["members_per_node"] in (1, 8)
                          or row["kinds"] == ["send"]]
    with open(session.path("two.json"), "w", encoding="utf-8") as file:
        json.dump(cluster, file)
    mpi = shutil.which("mpirun") and "libmpi" in session.try_command(
        ["ldd", session.tool("sheaf-run")])[1]
    cases = FEW
    if os.environ.get("SHEAF_FULL"):
        cases = [(number, wire) for number in range(len(CASES)) for wire in FORMATS]
    for number, wire in cases:
        check(session, number, wire, mpi)
    narrow = [("dp=2 --zero=1", "int8", "--precision=bf16"),
              ("dp=4 --zero=2 --microbatches=2", "fp8", "--precision=bf16", "--masters=none")]
    if os.environ.get("SHEAF_FULL"):
        narrow += [("dp=2,tp=2 --zero=1", "int8", "--precision=fp8-block"),
                   ("dp=2 --zero=2", "fp8", "--precision=bf16", "--masters=f16")]
    for case in narrow:
        check_narrow_weights(session, *case)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 3600 if os.environ.get("SHEAF_FULL") else 600))
