"""Models with experts on a mesh train to the same numbers as on one device.

    python3 test/e2e/experts_parallel.py build/bin

As parallel.py, for data, context, tensor, sequence and expert parallelism and ZeRO: losses and
norms of several steps, gradients of the first, the same bits in another run, and what is explained
is what is sent. With experts sharded, each layer with experts sends its rows there and back in one
all-to-all each way, forward and backward: of the stated bound, or, by count, of the rows that
are routed, as the runtime counts its bytes; gradients of experts are reduced over what is left of
dp alone. Any ep and any number of microbatches give the same, as do one choice, all experts, and
experts of a rank that get nothing. Rows that find no room in a bucket stop the run.
"""

import json
import os
import re
import shutil
import sys

import numpy as np

import support
import data
import parallel
import safetensors

SIZES = ["--layers=2", "--hidden=16", "--heads=2", "--seq=8", "--batch=8", "--vocab=32"]
MODELS = {
    "mixtral": ["mixtral", *SIZES, "--ffn=24", "--experts=4", "--balance-loss=0.02"],
    "capacity": ["mixtral", *SIZES, "--ffn=24", "--experts=4", "--capacity-factor=1.0",
                 "--z-loss=0.01", "--balance-bias=0.01"],
    "deepseek": ["deepseek", *SIZES, "--ffn=24", "--expert-ffn=12", "--experts=4"],
    "one": ["mixtral", *SIZES, "--ffn=24", "--experts=4", "--experts-per-token=1"],
    "all": ["mixtral", *SIZES, "--ffn=24", "--experts=4", "--experts-per-token=4"],
}
STRATEGIES = ["dp=2 --zero=1", "dp=2,ep=2", "dp=4,ep=2 --zero=1 --microbatches=2",
              "dp=2,tp=2,ep=2 --sequence-parallel", "dp=4,ep=4 --zero=2", "tp=2",
              "dp=4,ep=2 --zero=3 --recompute=full", "dp=3 --zero=3",
              "dp=4,ep=2 --zero=1 --microbatches=2 --expert-rows=exact",
              "dp=2,tp=2,ep=2 --zero=3 --sequence-parallel --recompute=full --expert-rows=exact",
              "cp=2", "cp=2,ep=2 --zero=1", "dp=2,cp=2,ep=4 --zero=2 --microbatches=2",
              "dp=2,cp=2,ep=4 --zero=3 --expert-rows=exact",
              "dp=4,cp=2,ep=4 --recompute=full --expert-rows=exact",
              "dp=2,cp=2,tp=2,ep=2 --zero=1 --sequence-parallel",
              "dp=2,ep=2 --expert-rows=exact", "cp=3 --zero=1",
              "cp=2,ep=2 --context=zigzag", "dp=2,cp=2,ep=4 --context=ring --zero=1",
              "dp=2,cp=2,ep=4 --context=zigzag --zero=3 --expert-rows=exact --microbatches=2",
              "dp=2,cp=2,ep=2 --context=ulysses --expert-rows=exact"]
FEW = [("mixtral", 0), ("mixtral", 1), ("capacity", 2), ("mixtral", 3), ("deepseek", 4),
       ("deepseek", 5), ("capacity", 6), ("deepseek", 7), ("capacity", 8), ("deepseek", 9),
       ("capacity", 10), ("mixtral", 11), ("deepseek", 12), ("capacity", 13), ("mixtral", 14),
       ("mixtral", 15), ("mixtral", 16), ("one", 16), ("all", 12),
       ("capacity", 17), ("capacity", 18), ("deepseek", 19), ("capacity", 20), ("mixtral", 21)]
MPI_CASES = [("capacity", 8), ("mixtral", 16)]
SGD = ["--optimizer=sgd", "--lr=0.03", "--momentum=0", "--clip=0"]


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


def random_weights(session, model, spread, seed=3):
    """Weights far from the start, so that no expert is like another."""
    artifact = session.compile(f"{model}.mlir", "initial.sheaf")
    random = np.random.default_rng(seed)
    weights = {name: (value + spread * random.standard_normal(value.shape)).astype(value.dtype)
               for name, value in support.initial_values(session, artifact, 1).items()}
    for name in weights:
        if name.endswith(".e_score_correction_bias"):
            weights[name][:] = 0
    safetensors.write(session.path("weights.safetensors"), weights)
    return weights


def loads_of(session, weights, model, samples):
    """For each sample, by layer, how many of its tokens choose each expert, on one device."""
    artifact = session.compile(f"{model}.mlir", "alone.sheaf")
    found = []
    for tokens in samples:
        safetensors.write(session.path("in.safetensors"),
                          {**{f"parameter:{name}": value for name, value in weights.items()},
                           "batch:tokens": tokens[None, :-1].astype(np.int32),
                           "batch:targets": tokens[None, 1:].astype(np.int32)})
        session.run("sheaf-run", artifact, "--call=gradients",
                    f"--inputs={session.path('in.safetensors')}",
                    f"--outputs={session.path('out.safetensors')}")
        results = safetensors.read(session.path("out.safetensors"))
        found.append({int(re.search(r"layers\.(\d+)\.", name)[1]): value
                      for name, value in results.items() if name.startswith("result:load:")})
    return found


def check_routed(session):
    """The bytes of rows that are sent by count are those of the tokens that are routed: for
    random weights, where all go to the experts of one rank, and of all experts."""
    sizes = ["--layers=2", "--hidden=16", "--heads=2", "--seq=8", "--vocab=32", "--ffn=24",
             "--experts=4", "--balance-bias=0.001"]
    with open(session.path("tokens.bin"), "rb") as file:
        tokens = np.frombuffer(file.read(), np.uint16)
    samples = [tokens[j * 8:j * 8 + 9] for j in range(2)]
    for title, k, spread, is_tied in (("random weights", 2, 0.3, False),
                                      ("one expert a token", 1, 0.3, False),
                                      ("all experts", 4, 0.3, False),
                                      ("all to the experts of rank 0", 2, 0.3, True)):
        for name, batch in (("pair", 2), ("single", 1)):
            session.run("sheaf-model", "mixtral", *sizes, f"--batch={batch}",
                        f"--experts-per-token={k}", "-o", session.path(f"{name}.mlir"))
        weights = random_weights(session, "pair", spread)
        if is_tied:
            for name in weights:
                if name.endswith(".gate.weight"):
                    weights[name][:] = 0
            safetensors.write(session.path("weights.safetensors"), weights)
        loads = loads_of(session, weights, "single", samples)
        # Experts 0 and 1 are on rank 0. There and back, forward and backward.
        away = sum(int(loads[0][layer][2:].sum()) + int(loads[1][layer][:2].sum())
                   for layer in range(2))
        expected = 2 * away * 16 * 4
        session.check(f"{title}: the case is what it says",
                      len(loads[0]) == 2 and (not is_tied or away == 2 * 8 * 2)
                      and (is_tied or k == 4 or 0 < away < 2 * 2 * 8 * k))
        train = [f"--data={session.path('tokens.bin')}", "--quiet", "--threads=1",
                 f"--load={session.path('weights.safetensors')}"]
        mesh = session.compile("pair.mlir", "pair.sheaf", "--mesh=dp=2,ep=2",
                               "--expert-rows=exact", *SGD)
        session.train(mesh, "--steps=1", f"--collectives={session.path('routed.json')}", *train)
        with open(session.path("routed.json"), encoding="utf-8") as file:
            rows = [row for row in json.load(file)["entries"]["step"]["collectives"]
                    if "sent_bytes" in row]
        sent = sum(row["sent_bytes"] for row in rows)
        session.check(f"{title}: the bytes that are sent are those of the routed tokens",
                      sent == expected, f"{sent}, expected {expected}")
        one = session.compile("pair.mlir", "one.sheaf", *SGD)
        base, got = (session.train(artifact, "--steps=3", *train) for artifact in (one, mesh))
        loss, norm = (parallel.worst(got, base, field) for field in ("loss", "grad_norm"))
        session.check(f"{title}: losses as on one device",
                      len(got) == 3 and loss <= 2e-6 and norm <= 2e-5,
                      f"losses differ by {loss:.1e}, norms by {norm:.1e}")


def check_every(session):
    """Every ep, every number of microbatches, both ways of sending."""
    train = [f"--data={session.path('tokens.bin')}", "--steps=2", "--quiet", "--threads=1"]
    base = session.train(session.compile("mixtral.mlir", "one.sheaf", *SGD), *train)
    for parts in (1, 2, 4):
        for microbatches in (1, 2, 4):
            # Two samples do not go to four devices without padding.
            exact = parts > 1 and microbatches < 4 and (parts + microbatches) % 3 == 0
            rows = "exact" if exact else "bucketed"
            options = [f"--mesh=dp=4,ep={parts}", f"--microbatches={microbatches}", *SGD]
            if parts > 1:
                options.append(f"--expert-rows={rows}")
            got = session.train(session.compile("mixtral.mlir", "every.sheaf", *options), *train)
            loss, norm = (parallel.worst(got, base, field) for field in ("loss", "grad_norm"))
            session.check(f"ep={parts}, {microbatches} microbatches, {rows}: as on one device",
                          len(got) == 2 and loss <= 2e-6 and norm <= 2e-5,
                          f"losses differ by {loss:.1e}, norms by {norm:.1e}")


def check_room(session):
    """Buckets with less room send less; what does not fit is an error after the step."""
    train = [f"--data={session.path('tokens.bin')}", "--quiet", "--threads=1"]
    base = session.train(session.compile("mixtral.mlir", "one.sheaf", *SGD), "--steps=3", *train)
    mesh = ["--mesh=dp=2,ep=2", *SGD]
    enough = session.compile("mixtral.mlir", "enough.sheaf", *mesh, "--expert-room=1.75")
    got = session.train(enough, "--steps=3", *train)
    loss, norm = (parallel.worst(got, base, field) for field in ("loss", "grad_norm"))
    session.check("room enough: losses as on one device, nothing left out",
                  len(got) == 3 and loss <= 2e-6 and norm <= 2e-5
                  and all(row["expert_overflow"] == 0 for row in got),
                  f"losses differ by {loss:.1e}, norms by {norm:.1e}, "
                  f"{[row.get('expert_overflow') for row in got]} left out")
    explained = json.loads(session.run("sheaf-compile", session.path("mixtral.mlir"), *mesh,
                                       "--expert-room=1.75", "--explain=json"))
    sizes = {row["wire_bytes"] for row in explained["collectives"]
             if row["kind"] == "all-to-all" and row["dtype"] == "f32"}
    # Of two parts, four samples, 14 rows and 16 columns one half.
    session.check("room enough: bytes are those of the room", sizes == {4 * 4 * 14 * 16},
                  str(sizes))
    little = session.compile("mixtral.mlir", "little.sheaf", *mesh, "--expert-room=1")
    log = session.path("little.jsonl")
    status, _, err = session.try_run("sheaf-run", little, "--steps=3", f"--log={log}",
                                     f"--save={session.path('little.safetensors')}", *train)
    rows = support.read_log(log)
    message = re.search(r"step 0: (\d+) rows of tokens found no room on the way to their experts; "
                        "compile with a larger --expert-room, or with --expert-rows=exact", err)
    session.check("too little room stops the run after the step",
                  status == 1 and message is not None and len(rows) == 1
                  and rows[0]["expert_overflow"] == int(message[1]) > 0
                  and not os.path.exists(session.path("little.safetensors")), err[-300:])
    status, _, err = session.try_run("sheaf-run", little, "--steps=0", "--sample=4", "--seed=1",
                                     "--threads=1")
    session.check("too little room gives no sample", status == 1 and
                  "the logits are not finite" in err, err[-300:])


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(2003, 32, 1), "u16")
    for name, options in MODELS.items():
        session.run("sheaf-model", *options, "-o", session.path(f"{name}.mlir"))
    # Eight tokens choose two of four: as many rows as a part can have.
    check_rows(session, "mixtral", 2, 4, 2, 16)
    check_rows(session, "mixtral", 4, 4, 1, 8)
    # ceil(8 * 2 / 4) rows an expert.
    check_rows(session, "capacity", 2, 2, 1, 8)
    check_routed(session)
    check_every(session)
    check_room(session)
    cases = [(model, STRATEGIES[i]) for model, i in FEW]
    if os.environ.get("SHEAF_FULL"):
        cases = [(model, strategy) for model in MODELS for strategy in STRATEGIES]
    mpi = shutil.which("mpirun") and "libmpi" in session.try_command(
        ["ldd", session.tool("sheaf-run")])[1]
    bases = {}
    for model, strategy in cases:
        artifact, train, expected = parallel.check(session, model, strategy, bases)
        parallel.check_counts(session, model, strategy)
        if mpi and (model, strategy) in [(name, STRATEGIES[i]) for name, i in MPI_CASES]:
            ranks = 4 if "dp=4" in strategy else 2
            parallel.check_processes(session, artifact, train, ranks, expected,
                                     f"{model}, {strategy}")
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
