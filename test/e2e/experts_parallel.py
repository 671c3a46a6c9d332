"""Models with experts on a mesh train to the same numbers as on one device.

    python3 test/e2e/experts_parallel.py build/bin

As parallel.py, for data, tensor, sequence and expert parallelism and ZeRO: losses and norms of
several steps, gradients of the first, the same bits in another run, and what is explained is what
is sent. With experts sharded, each layer with experts sends its rows there and back in one
all-to-all each way, forward and backward, of the stated bound; gradients of experts are
reduced over what is left of dp alone.
"""

import json
import os
import sys

import support
import data
import parallel

SIZES = ["--layers=2", "--hidden=16", "--heads=2", "--seq=8", "--batch=8", "--vocab=32"]
MODELS = {
    "mixtral": ["mixtral", *SIZES, "--ffn=24", "--experts=4", "--balance-loss=0.02"],
    "capacity": ["mixtral", *SIZES, "--ffn=24", "--experts=4", "--capacity-factor=1.0",
                 "--z-loss=0.01", "--balance-bias=0.01"],
    "deepseek": ["deepseek", *SIZES, "--ffn=24", "--expert-ffn=12", "--experts=4"],
}
STRATEGIES = ["dp=2 --zero=1", "dp=2,ep=2", "dp=4,ep=2 --zero=1 --microbatches=2",
              "dp=2,tp=2,ep=2 --sequence-parallel", "dp=4,ep=4 --zero=2", "tp=2",
              "dp=4,ep=2 --zero=3 --recompute=full", "dp=3 --zero=3"]
FEW = [("mixtral", 0), ("mixtral", 1), ("capacity", 2), ("mixtral", 3), ("deepseek", 4),
       ("deepseek", 5), ("capacity", 6), ("deepseek", 7)]


def check_rows(session, model, parts, devices, microbatches, rows):
    """All-to-alls of rows: two a layer and microbatch each way, of the bound."""
    explained = json.loads(session.run(
        "sheaf-compile", session.path(f"{model}.mlir"), f"--mesh=dp={devices},ep={parts}",
        f"--microbatches={microbatches}", "--explain=json", "-o", session.path("rows.sheaf")))
    layers = 2
    moves = [row for row in explained["collectives"]
             if row["kind"] == "all-to-all" and row["dtype"] == "f32"]
    count = sum(row["count"] for row in moves)
    title = f"{model}, dp={devices},ep={parts}, {microbatches} microbatches"
    session.check(f"{title}: rows move there and back", count == 4 * layers * microbatches,
                  f"{count} all-to-alls, expected {4 * layers * microbatches}")
    # What one device has for all parts, of which it keeps its own.
    local = parts * (8 // devices // microbatches) * rows * 16
    bytes_each = 4 * local * (parts - 1) / parts
    session.check(f"{title}: bytes are those of the bound",
                  all(row["wire_bytes"] == bytes_each for row in moves),
                  f"{sorted({row['wire_bytes'] for row in moves})}, expected {bytes_each}")
    sums = [row for row in explained["collectives"] if ".experts." in row.get("param", "")
            and row["kind"] in ("all-reduce", "reduce-scatter")]
    left = devices // parts
    session.check(f"{title}: gradients of experts are reduced over what is left of dp",
                  all(row["group"] == left for row in sums) and bool(sums) == (left > 1),
                  str([(row["param"], row["group"]) for row in sums][:3]))


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(2003, 32, 1), "u16")
    for name, options in MODELS.items():
        session.run("sheaf-model", *options, "-o", session.path(f"{name}.mlir"))
    # Eight tokens choose two of four: as many rows as a part can have.
    check_rows(session, "mixtral", 2, 4, 2, 16)
    check_rows(session, "mixtral", 4, 4, 1, 8)
    # ceil(8 * 2 / 4) rows an expert.
    check_rows(session, "capacity", 2, 2, 1, 8)
    cases = [(model, STRATEGIES[i]) for model, i in FEW]
    if os.environ.get("SHEAF_FULL"):
        cases = [(model, strategy) for model in MODELS for strategy in STRATEGIES]
    bases = {}
    for model, strategy in cases:
        parallel.check(session, model, strategy, bases)
        parallel.check_counts(session, model, strategy)
    status, _, err = session.try_run("sheaf-compile", session.path("mixtral.mlir"),
                                     "--mesh=dp=8,ep=8", "--emit=device")
    session.check("experts that ep does not divide are refused", status == 1 and
                  "goes to 4 experts, which 8 parts do not divide" in err, err[-300:])
    status, _, err = session.try_run("sheaf-compile", session.path("mixtral.mlir"),
                                     "--mesh=dp=4,ep=3", "--emit=device")
    session.check("ep that does not divide dp is refused", status == 1 and
                  "--mesh has ep=3, which does not divide dp=4; the nearest that fit: 2 or 4"
                  in err, err[-300:])


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 4 * 3600 if os.environ.get("SHEAF_FULL") else 900))
