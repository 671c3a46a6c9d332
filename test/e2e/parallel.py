"""A model on a mesh trains to the same numbers as on one device.

    python3 test/e2e/parallel.py build/bin

For meshes, strategies and models (a part of them; with SHEAF_FULL=1 in the
environment all): `sheaf-run --verify` compares loss and every gradient of the first
step with the program of one device; losses of several steps agree to 2e-6 with sgd and
5e-6 with AdamW, norms to 2e-5; what --explain=json lists is what the runtime
counts, by kind, axes, bytes and times; two runs and, where `mpirun` is installed, processes
instead of threads give the same to the bit. The same for shardings and constraints that are
written in the model, and for meshes whose ranks stand in another order.
"""

import collections
import json
import os
import re
import shutil
import sys

import support
import data

STEPS = 8
MODELS = {
    "gpt": ["gpt", "--layers=2", "--hidden=32", "--heads=4", "--seq=16", "--batch=8",
            "--vocab=64"],
    "gpt-untied": ["gpt", "--layers=1", "--hidden=16", "--heads=4", "--seq=8", "--batch=8",
                   "--vocab=32", "--untie", "--label-smoothing=0.1"],
    "llama": ["llama", "--layers=2", "--hidden=32", "--heads=4", "--kv-heads=2", "--ffn=48",
              "--seq=16", "--batch=8", "--vocab=64"],
    "llama-tied": ["llama", "--layers=1", "--hidden=32", "--heads=4", "--kv-heads=1",
                   "--ffn=64", "--seq=8", "--batch=16", "--vocab=64", "--tie"],
    "gpt-dropout": ["gpt", "--layers=1", "--hidden=32", "--heads=4", "--seq=8", "--batch=8",
                    "--vocab=32", "--dropout=0.2"],
    # Nothing divides but the heads.
    "odd": ["gpt", "--layers=2", "--hidden=36", "--heads=4", "--ffn=50", "--seq=15",
            "--batch=6", "--vocab=61"],
}
STRATEGIES = [
    "dp=2", "dp=4 --zero=1", "dp=2 --zero=2 --microbatches=2", "dp=4 --zero=3",
    "tp=2", "tp=4 --sequence-parallel", "dp=2,tp=2 --zero=1 --sequence-parallel",
    "dp=2,tp=4 --zero=3", "dp=4 --zero=3 --zero-group=2 --recompute=full",
    "dp=4,tp=4 --zero=2 --sequence-parallel", "tp=2 --recompute=selective --microbatches=4",
    "dp=1,tp=1", "dp=8 --zero=3", "dp=4,tp=2 --zero=3 --sequence-parallel",
    "dp=4 --zero=2 --microbatches=3",
    "dp=4 --zero=3 --zero3-gathers=keep --accumulate=whole --microbatches=2",
    "cp=2", "cp=3 --context=gather --microbatches=2", "cp=4 --zero=1", "cp=8 --zero=3",
    "dp=2,cp=2 --zero=3 --recompute=full", "cp=2,tp=2 --zero=1 --sequence-parallel",
    "dp=2,cp=4 --zero=2 --zero-group=2 --microbatches=2",
    "dp=2,cp=2,tp=2 --zero=3 --sequence-parallel",
    "cp=4 --context=ring --zero=1", "dp=2,cp=2 --context=zigzag --zero=3 --recompute=full",
    "cp=2,tp=2 --context=ulysses --zero=1 --sequence-parallel",
    "cp=3 --context=zigzag --microbatches=2", "cp=4 --context=ulysses --recompute=selective",
    "cp=2,tp=2 --context=ring --sequence-parallel", "cp=8 --context=ring",
    "cp=4,tp=2 --context=zigzag --zero=2 --sequence-parallel", "dp=2,cp=2 --context=ulysses --zero=3",
]
# Weights of all layers in one tensor, sharded over the layers: each layer's are broadcast.
STACKED = """
func.func @loss(%tokens: tensor<8x8xi32> {nn.batch = "tokens"}, %targets: tensor<8x8xi32> {nn.batch = "targets"},
    %embed: tensor<32x8xf32> {nn.param = #nn.param<"embed", axes = [vocab, embed], init = normal(0.3)>},
    %layers: tensor<16x8x8xf32> {nn.param = #nn.param<"layers", axes = [layer, embed, mlp], init = normal(0.3)>})
    -> tensor<f32> {
  %x0 = nn.embedding %embed[%tokens] : (tensor<32x8xf32>, tensor<8x8xi32>) -> tensor<8x8x8xf32>
  %s0 = nn.slice %layers offsets [0, 0, 0] sizes [1, 8, 8] : (tensor<16x8x8xf32>) -> tensor<1x8x8xf32>
  %w0 = nn.reshape %s0 : tensor<1x8x8xf32> -> tensor<8x8xf32>
  %p0 = nn.einsum "bse,ef->bsf"(%x0, %w0) : (tensor<8x8x8xf32>, tensor<8x8xf32>) -> tensor<8x8x8xf32>
  %x1 = nn.tanh %p0 : tensor<8x8x8xf32>
  %s1 = nn.slice %layers offsets [9, 0, 0] sizes [1, 8, 8] : (tensor<16x8x8xf32>) -> tensor<1x8x8xf32>
  %w1 = nn.reshape %s1 : tensor<1x8x8xf32> -> tensor<8x8xf32>
  %p1 = nn.einsum "bse,ef->bsf"(%x1, %w1) : (tensor<8x8x8xf32>, tensor<8x8xf32>) -> tensor<8x8x8xf32>
  %logits = nn.einsum "bse,ve->bsv"(%p1, %embed) : (tensor<8x8x8xf32>, tensor<32x8xf32>) -> tensor<8x8x32xf32>
  %l, %lse = nn.cross_entropy %logits, %targets
    : (tensor<8x8x32xf32>, tensor<8x8xi32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %zero = nn.constant dense<0> : tensor<i32>
  %valid = nn.compare ge %targets, %zero : (tensor<8x8xi32>, tensor<i32>) -> tensor<8x8xi1>
  %m = nn.step_mean %l weights %valid : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<f32>
  return %m : tensor<f32>
}
"""
OPTIMIZERS = {
    "sgd": ["--optimizer=sgd", "--lr=0.03", "--momentum=0", "--clip=0"],
    "adamw": ["--lr=1e-3"],
}
# One of each strategy, the models in turn; then all.
FEW = [("gpt", 0), ("llama", 1), ("gpt-untied", 2), ("llama-tied", 3), ("llama", 4),
       ("gpt", 5), ("llama-tied", 6), ("llama", 7), ("gpt-untied", 8),
       ("odd", 13), ("odd", 14), ("llama", 15),
       ("gpt-dropout", 6),
       ("odd", 19), ("gpt-dropout", 22), ("odd", 17), ("llama", 16), ("llama-tied", 21),
       ("llama", 24), ("gpt-dropout", 25), ("llama-tied", 26), ("odd", 27), ("llama", 28), ("odd", 29)]
# Buckets of gradients: these are reduced together in fewer, to the same bits.
BUCKETS = [("gpt", "dp=4"), ("odd", "dp=3,tp=2 --zero=2 --sequence-parallel --microbatches=2")]
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def worst(rows, base, field):
    return max(abs(a[field] / b[field] - 1) for a, b in zip(rows, base))


def check(session, model, strategy, bases):
    mesh, *options = strategy.split()
    arguments = [f"--mesh={mesh}", *options]
    tokens = session.path("tokens.bin")
    for optimizer, settings in OPTIMIZERS.items():
        title = f"{model}, {strategy}, {optimizer}"
        train = [f"--data={tokens}", f"--steps={STEPS}", "--quiet", "--threads=1"]
        key = (model, optimizer)
        if key not in bases:
            one = session.compile(f"{model}.mlir", "one.sheaf", *settings)
            bases[key] = session.train(one, *train)
        base = bases[key]
        # What is explained is looked at below.
        session.explain(f"{model}.mlir", "mesh.sheaf", *arguments, *settings)
        artifact = session.path("mesh.sheaf")
        rows = session.train(artifact, *train)
        bound = 2e-6 if optimizer == "sgd" else 5e-6
        loss, norm = worst(rows, base, "loss"), worst(rows, base, "grad_norm")
        session.check(f"{title}: losses as on one device",
                      len(rows) == STEPS and loss <= bound and norm <= 2e-5,
                      f"losses differ by {loss:.1e}, norms by {norm:.1e}")
    # Once without a reference that is there.
    reference = "--verify"
    if model in bases:
        reference += "=" + session.compile(f"{model}.mlir", "reference.sheaf", "--reference")
    bases[model] = True
    status, out, err = session.try_run("sheaf-run", artifact, reference, "--threads=1")
    session.check(f"{model}, {strategy}: gradients as on one device", status == 0,
                  "" if status == 0 else (out + err)[-800:])

    def numbers(table):
        return [(row["loss"], row["grad_norm"]) for row in table]

    session.check(f"{model}, {strategy}: another run is equal to the bit",
                  numbers(session.train(artifact, *train)) == numbers(rows))
    return artifact, train, numbers(rows)


def check_counts(session, model, strategy):
    """The collectives that are explained against those that are sent."""
    mesh, *options = strategy.split()
    arguments = [f"--mesh={mesh}", *options, *OPTIMIZERS["adamw"]]
    explained = session.explain(f"{model}.mlir", "counted.sheaf", *arguments)
    session.run("sheaf-run", session.path("counted.sheaf"), f"--data={session.path('tokens.bin')}",
                "--steps=2", "--quiet", "--threads=1",
                f"--collectives={session.path('sent.json')}")
    with open(session.path("sent.json"), encoding="utf-8") as file:
        step = json.load(file)["entries"].get("step", {"calls": 1, "collectives": []})

    def total(rows, calls):
        counts = collections.Counter()
        for row in rows:
            # Elements differ where parts are padded: the whole tensor's, those sent. Of rows
            # that are sent by count the bytes that are explained are a bound.
            exact = row.get("exact") or "sent_bytes" in row
            key = (row["kind"], tuple(row["axes"]), row["dtype"],
                   "by count" if exact else round(row["wire_bytes"], 3))
            counts[key] += row["count"] / calls
        return counts

    # What the runtime counts is the first rank's: at the first place along pp.
    rows = [row for row in explained["collectives"] if 0 in row.get("places", [0])]
    listed, sent = total(rows, 1), total(step["collectives"], step["calls"])
    session.check(f"{model}, {strategy}: explained is sent",
                  listed == sent and (bool(listed) or mesh == "dp=1,tp=1"),
                  f"{sum(listed.values()):.0f} listed, {sum(sent.values()):.0f} sent")
    return {kind for kind, *_ in listed}


def check_buckets(session, model, strategy):
    """Gradients in flat tensors give the same bits in fewer reductions."""
    mesh, *options = strategy.split()
    numbers, times = [], []
    for bucket in ("0", "5000", "auto"):
        arguments = [f"--mesh={mesh}", *options, f"--bucket-bytes={bucket}"]
        explained = session.explain(f"{model}.mlir", "bucket.sheaf", *arguments)
        rows = session.train(session.path("bucket.sheaf"), f"--data={session.path('tokens.bin')}",
                             "--steps=4", "--quiet", "--threads=1")
        numbers.append([(row["loss"], row["grad_norm"]) for row in rows])
        times.append(sum(row["count"] for row in explained["collectives"]
                         if row["kind"] in ("all-reduce", "reduce-scatter")))
    session.check(f"{model}, {strategy}: gradients in buckets give the same bits",
                  numbers[0] == numbers[1] == numbers[2] and times[0] > times[1] >= times[2],
                  f"{times} reductions")
    check_counts(session, model, f"{strategy} --bucket-bytes=5000")


# What users write in a model: on a parameter of one entry, on the batch, and constraints on
# values of a layer, before it is differentiated.
DECLARED = {
    "a parameter": [('wte.weight"', "[{}, {\"tp\"}]")],
    "parameters and batch": [('wte.weight"', "[{}, {\"dp\"}]"), ('mlp.c_fc.weight"', "[{\"tp\"}, {?}]"),
                             ("nn.batch = \"tokens\"", "[{}, {\"dp\"}]"),
                             ("nn.batch = \"targets\"", "[{\"dp\"}, {}]")],
    "constraints": [("%attn.input", '[{"dp"}, {"tp"}, {}]'), ("%mlp.input", '[{"tp"}, {}, {"dp"}]')],
}
DECLARED_OPTIONS = ["", "--zero=1", "--zero=3 --sequence-parallel", "--zero=2 --microbatches=2"]
# The ranks at the places of dp=2,tp=2.
ORDERS = [None, [3, 2, 1, 0], [2, 0, 3, 1]]


def declare(session, model, name, changes=(), devices=None):
    """A model with a mesh of its own, shardings in @loss alone, constraints in the layer."""
    with open(session.path(f"{model}.mlir"), encoding="utf-8") as file:
        text = file.read()
    for what, sharding in changes:
        if what.startswith("%"):
            line = re.search(rf"\n( *){re.escape(what)} = (.*) -> (tensor<[^>]*>)\n", text)
            free = f"\n{line[1]}{what}.free = {line[2]} -> {line[3]}\n"
            text = text.replace(line[0], f"{free}{line[1]}{what} = dist.constraint {what}.free "
                                         f"<{sharding}> : {line[3]}\n", 1)
        else:
            at = text.index(what, text.index("func.func @loss("))
            at = text.rindex("{", 0, at) + 1
            text = f"{text[:at]}dist.sharding = #dist.sharding<{sharding}>, {text[at:]}"
    order = f" devices {devices}" if devices else ""
    text = text.replace("module {", f'module {{\n  dist.mesh @mesh ["dp" = 2, "tp" = 2]{order}', 1)
    with open(session.path(f"{name}.mlir"), "w", encoding="utf-8") as file:
        file.write(text)


def check_declared(session, model):
    train = [f"--data={session.path('tokens.bin')}", f"--steps={STEPS}", "--quiet", "--threads=1"]
    one = session.compile(f"{model}.mlir", "one.sheaf", *OPTIMIZERS["adamw"])
    base = session.train(one, *train)
    for i, (what, changes) in enumerate(DECLARED.items()):
        declare(session, model, "declared", changes)
        for options in DECLARED_OPTIONS[i % 2::1 if os.environ.get("SHEAF_FULL") else 2]:
            title = f"{model}, {what} written, {options or 'no options'}"
            artifact = session.compile("declared.mlir", "declared.sheaf", *options.split(),
                                       *OPTIMIZERS["adamw"])
            rows = session.train(artifact, *train)
            loss, norm = worst(rows, base, "loss"), worst(rows, base, "grad_norm")
            session.check(f"{title}: losses as on one device",
                          len(rows) == STEPS and loss <= 5e-6 and norm <= 2e-5,
                          f"losses differ by {loss:.1e}, norms by {norm:.1e}")
            reference = session.compile(f"{model}.mlir", "reference.sheaf", "--reference")
            status, out, err = session.try_run("sheaf-run", artifact, f"--verify={reference}",
                                               "--threads=1")
            session.check(f"{title}: gradients as on one device", status == 0,
                          "" if status == 0 else (out + err)[-800:])


def check_orders(session, model, mpi):
    """Ranks in another order do the same, bit for bit; what one saved another resumes."""
    train = [f"--data={session.path('tokens.bin')}", "--quiet", "--threads=1"]
    options = ["--zero=1", "--sequence-parallel"]
    plain, weights = None, None
    for i, devices in enumerate(ORDERS):
        title = f"{model}, devices {devices or 'in order'}"
        declare(session, model, "ordered", devices=devices)
        artifact = session.compile("ordered.mlir", f"ordered{i}.sheaf", *options)
        saved = session.path(f"ordered{i}.safetensors")
        rows = session.train(artifact, f"--steps={STEPS}", f"--save={saved}", *train)
        numbers = [(row["loss"], row["grad_norm"]) for row in rows]
        with open(saved, "rb") as file:
            content = file.read()
        if plain is None:
            plain, weights = numbers, content
            session.run("sheaf-run", artifact, "--steps=4", *train,
                        f"--checkpoint={session.path('plain.checkpoint')}")
            continue
        session.check(f"{title}: the same bits as in the plain order",
                      numbers == plain and content == weights)
        status, out, err = session.try_run("sheaf-run", artifact, "--verify", "--threads=1")
        session.check(f"{title}: gradients as on one device", status == 0,
                      "" if status == 0 else (out + err)[-800:])
        resumed = session.path(f"resumed{i}.safetensors")
        folder = session.path(f"resumed{i}.checkpoint")
        shutil.copytree(session.path("plain.checkpoint"), folder)
        session.run("sheaf-run", artifact, f"--steps={STEPS}", *train, "--resume",
                    f"--checkpoint={folder}", f"--save={resumed}")
        with open(resumed, "rb") as file:
            session.check(f"{title}: resumes what the plain order saved", file.read() == weights)
        if mpi:
            check_processes(session, artifact, [f"--steps={STEPS}", *train], 4, plain, title)


def check_processes(session, artifact, train, ranks, expected, title):
    """The same artifact as processes under mpirun."""
    log = session.path("processes.jsonl")
    status, out, err = session.try_command(
        ["mpirun", "-n", str(ranks), session.tool("sheaf-run"), artifact, f"--log={log}", *train],
        environment=MPI)
    got = [(row["loss"], row["grad_norm"]) for row in support.read_log(log)] if status == 0 else []
    session.check(f"{title}: processes give the same bits", got == expected,
                  "" if got == expected else (out + err)[-800:])


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(2003, 32, 1), "u16")
    for name, options in MODELS.items():
        session.run("sheaf-model", *options, "-o", session.path(f"{name}.mlir"))
    cases = [(model, STRATEGIES[i]) for model, i in FEW]
    if os.environ.get("SHEAF_FULL"):
        cases = [(model, strategy) for model in MODELS for strategy in STRATEGIES
                 if (model == "odd") == ("microbatches=3" in strategy) or "microbatches" not in strategy]
    for model, strategy in BUCKETS:
        check_buckets(session, model, strategy)
    bases = {}
    with open(session.path("stacked.mlir"), "w", encoding="utf-8") as file:
        file.write(STACKED)
    strategy = "dp=4 --zero=3 --microbatches=2"
    check(session, "stacked", strategy, bases)
    kinds = check_counts(session, "stacked", strategy)
    session.check(f"stacked, {strategy}: broadcasts are among what is counted",
                  "broadcast" in kinds, ", ".join(sorted(kinds)))
    # Without Open MPI when it was built, sheaf-run runs threads alone.
    mpi = shutil.which("mpirun") and "libmpi" in session.try_command(
        ["ldd", session.tool("sheaf-run")])[1]
    check_declared(session, "gpt")
    check_orders(session, "gpt", mpi)
    for i, (model, strategy) in enumerate(cases):
        artifact, train, expected = check(session, model, strategy, bases)
        check_counts(session, model, strategy)
        ranks = 1
        for axis in strategy.split()[0].split(","):
            ranks *= int(axis.split("=")[1])
        if mpi and 1 < ranks <= 4 and i % 3 == 0:
            check_processes(session, artifact, train, ranks, expected, f"{model}, {strategy}")


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 4 * 3600 if os.environ.get("SHEAF_FULL") else 900))
