"""A model in pipeline stages trains to the same numbers as on one device.

    python3 test/e2e/pipelines.py build/bin

For models, numbers of ranks and microbatches and schedules (a part of them; with
SHEAF_FULL=1 in the environment all): `sheaf-run --verify` compares loss and every gradient
of the first step with the program of one device; losses of several steps agree to 2e-6 with
sgd and 5e-6 with AdamW, norms to 2e-5; the held-out loss, too; weights that a pipeline saved
are those of one device, which resumes from them; two runs and, where `mpirun` is installed,
processes instead of threads give the same to the bit. Random schedules, some with two actions
changed, run or are refused, as they can run or not. The order in which each rank carried out
its actions, as its trace has it, is that of the schedule's text, and both ends of each pair of
ranks started the transfers between them in one order. What --explain=json lists is what is
sent, and the bytes that are stated of a rank are at least, and within 5% of, what it had.
"""

import collections
import json
import math
import os
import random
import re
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
    "deep": ["gpt", "--layers=8", "--hidden=16", "--heads=2", "--seq=8", "--vocab=32"],
    "deep-llama": ["llama", "--layers=8", "--hidden=16", "--heads=2", "--kv-heads=1", "--ffn=24",
                   "--seq=8", "--vocab=32"],
    "mixtral": ["mixtral", "--layers=4", "--hidden=16", "--heads=4", "--kv-heads=2", "--ffn=24",
                "--seq=16", "--vocab=32", "--experts=4", "--balance-loss=0.02"],
    # The layers of the second stage, and no more, are not trained.
    "gpt-frozen": ["gpt", "--layers=4", "--hidden=32", "--heads=4", "--seq=16", "--vocab=64"],
}
# Stages that the model marks; the second has no weights. A skip connection goes past it.
STAGED = """
func.func private @dense(%x: tensor<BATCHx8x8xf32>, %w: tensor<8x8xf32>) -> tensor<BATCHx8x8xf32>
    attributes {nn.layer, no_inline} {
  %y = nn.einsum "bse,ef->bsf"(%x, %w) : (tensor<BATCHx8x8xf32>, tensor<8x8xf32>) -> tensor<BATCHx8x8xf32>
  %z = nn.tanh %y : tensor<BATCHx8x8xf32>
  return %z : tensor<BATCHx8x8xf32>
}
func.func private @plain(%x: tensor<BATCHx8x8xf32>) -> tensor<BATCHx8x8xf32> attributes {nn.layer, no_inline} {
  %y = nn.tanh %x : tensor<BATCHx8x8xf32>
  %z = nn.mul %x, %y : tensor<BATCHx8x8xf32>
  return %z : tensor<BATCHx8x8xf32>
}
func.func @loss(%tokens: tensor<BATCHx8xi32> {nn.batch = "tokens"}, %targets: tensor<BATCHx8xi32> {nn.batch = "targets"},
    %embed: tensor<32x8xf32> {nn.param = #nn.param<"embed", axes = [vocab, embed], init = normal(0.3)>},
    %first: tensor<8x8xf32> {nn.param = #nn.param<"first", axes = [embed, mlp], init = normal(0.3)>},
    %second: tensor<8x8xf32> {nn.param = #nn.param<"second", axes = [embed, mlp], init = normal(0.3)>},
    %head: tensor<32x8xf32> {nn.param = #nn.param<"head", axes = [vocab, embed], init = normal(0.3)>})
    -> tensor<f32> {
  %x0 = nn.embedding %embed[%tokens] : (tensor<32x8xf32>, tensor<BATCHx8xi32>) -> tensor<BATCHx8x8xf32>
  %x1 = func.call @dense(%x0, %first) {pipe.stage = 0 : i64} : (tensor<BATCHx8x8xf32>, tensor<8x8xf32>) -> tensor<BATCHx8x8xf32>
  %x2 = func.call @plain(%x1) {pipe.stage = 1 : i64} : (tensor<BATCHx8x8xf32>) -> tensor<BATCHx8x8xf32>
  %x3 = nn.add %x1, %x2 : tensor<BATCHx8x8xf32>
  %x4 = func.call @dense(%x3, %second) {pipe.stage = 2 : i64} : (tensor<BATCHx8x8xf32>, tensor<8x8xf32>) -> tensor<BATCHx8x8xf32>
  %x5 = nn.add %x1, %x4 : tensor<BATCHx8x8xf32>
  %logits = nn.einsum "bse,ve->bsv"(%x5, %head) : (tensor<BATCHx8x8xf32>, tensor<32x8xf32>) -> tensor<BATCHx8x32xf32>
  %l, %lse = nn.cross_entropy %logits, %targets
    : (tensor<BATCHx8x32xf32>, tensor<BATCHx8xi32>) -> (tensor<BATCHx8xf32>, tensor<BATCHx8xf32>)
  %zero = nn.constant dense<0> : tensor<i32>
  %valid = nn.compare ge %targets, %zero : (tensor<BATCHx8xi32>, tensor<i32>) -> tensor<BATCHx8xi1>
  %m = nn.step_mean %l weights %valid : (tensor<BATCHx8xf32>, tensor<BATCHx8xi1>) -> tensor<f32>
  return %m : tensor<f32>
}
"""
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
    ("gpt", 4, "pp=2 --microbatches=4 --pipeline=greedy"),
    ("staged", 4, "pp=3 --microbatches=4 --pipeline=zb-h1"),
    ("gpt-frozen", 4, "pp=2 --microbatches=4 --pipeline=1f1b"),
    # Stages of the embedding alone and of the head alone.
    ("gpt", 2, "pp=3 --microbatches=2 --stage-layout=e|l*4|h --pipeline=1f1b"),
    ("llama", 2, "pp=2,cp=2 --context=zigzag --microbatches=2 --pipeline=zb-h1"),
    ("mixtral", 4, "pp=2,dp=2,ep=2 --expert-rows=exact --microbatches=2 --pipeline=1f1b"),
]
# With the other axes and what else makes a step.
PRODUCTS = [
    ("gpt", 4, "pp=2,dp=2 --microbatches=2 --pipeline=1f1b --zero=2"),
    ("gpt", 4, "pp=2,dp=2 --microbatches=2 --pipeline=bfs --zero=3"),
    ("gpt", 4, "pp=2,dp=2,tp=2 --microbatches=2 --pipeline=zb-h1 --zero=1 --sequence-parallel"),
    ("gpt", 4, "pp=2,dp=2 --microbatches=2 --pipeline=gpipe"),
    ("gpt", 8, "pp=2,dp=2 --microbatches=4 --pipeline=dualpipev --zero=1"),
    ("gpt", 8, "pp=2,dp=2 --microbatches=2 --pipeline=zbv --zero=3 --zero3-gathers=keep"),
    ("gpt", 8, "pp=2,dp=2 --microbatches=4 --pipeline=1f1b --zero=2 --accumulate=whole"),
    ("gpt", 2, "pp=2,tp=2 --microbatches=2 --pipeline=interleaved"),
    ("gpt", 2, "pp=2,tp=2 --microbatches=2 --pipeline=zb-h1 --sequence-parallel --recompute=full"),
    ("llama", 4, "pp=2,tp=2 --microbatches=4 --pipeline=dualpipev --sequence-parallel"),
    ("llama", 4, "pp=2,dp=2 --microbatches=2 --pipeline=zb-h2 --zero=3 --recompute=selective"),
    ("llama", 6, "pp=3,dp=2 --microbatches=3 --pipeline=1f1b --zero=1 --recompute=full"),
    ("llama", 3, "pp=2,dp=3 --microbatches=1 --pipeline=gpipe --zero=2"),
    ("gpt-untied", 6, "pp=3,tp=2 --microbatches=3 --pipeline=zb-h1"),
    ("gpt-untied", 6, "pp=3,dp=2 --microbatches=3 --pipeline=greedy --chunks=1 --zero=1"),
    ("gpt-dropout", 4, "pp=2,dp=2 --microbatches=2 --pipeline=zb-h1 --recompute=full"),
    ("gpt-frozen", 4, "pp=2,dp=2 --microbatches=2 --pipeline=zb-h1 --zero=3"),
    ("gpt-frozen", 4, "pp=2,tp=2 --microbatches=2 --pipeline=interleaved --sequence-parallel"),
    ("staged", 8, "pp=3,dp=2 --microbatches=4 --pipeline=1f1b --zero=1"),
    ("gpt", 4, "pp=3,dp=2 --microbatches=2 --stage-layout=e|l*4|h --pipeline=zb-h1 --zero=2"),
    ("gpt", 5, "pp=2,dp=2 --microbatches=5 --pipeline=1f1b --zero=1"),
    ("gpt", 4, "pp=2,cp=2 --microbatches=2 --pipeline=1f1b --zero=1"),
    ("llama", 2, "pp=2,cp=2,tp=2 --context=ring --microbatches=2 --pipeline=interleaved"
                 " --sequence-parallel"),
    ("llama", 4, "pp=2,dp=2,cp=2 --context=ulysses --microbatches=2 --pipeline=zbv --zero=3"),
    ("gpt-untied", 6, "pp=3,dp=2,cp=2 --context=zigzag --microbatches=3 --pipeline=greedy"
                      " --chunks=1 --zero=2"),
    ("gpt-dropout", 2, "pp=2,cp=2 --context=zigzag --microbatches=2 --pipeline=1f1b"
                       " --recompute=full"),
    ("mixtral", 4, "pp=2,dp=2,ep=2 --microbatches=2 --pipeline=zb-h1 --zero=1"),
    ("mixtral", 4, "pp=2,dp=2,cp=2,ep=4 --microbatches=2 --pipeline=1f1b"),
    ("mixtral", 4, "pp=2,dp=2,tp=2,ep=2 --expert-rows=exact --microbatches=2"
                   " --pipeline=interleaved --zero=3"),
]


def ranks_of(sizes):
    """How many ranks a mesh has: ep is a part of its other axes."""
    return math.prod(size for axis, size in sizes.items() if axis != "ep")


# Parts of these have nothing to do in some stages.
IDLE = ("staged", "gpt-frozen", "e|")


def write_model(session, model, batch):
    name = f"{model}-{batch}"
    path = session.path(f"{name}.mlir")
    if model == "staged":
        text = STAGED.replace("BATCH", str(batch))
    else:
        session.run("sheaf-model", *MODELS[model], f"--batch={batch}", "-o", path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    if model == "gpt-frozen":
        text = re.sub(r'(#nn\.param<"transformer\.h\.[23]\.[^>]*)>', r"\1, frozen>", text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def sizes_of(strategy):
    return {axis: int(size) for axis, size in
            (part.split("=") for part in strategy.split()[0].split(","))}


def planned(text):
    """The actions of each line of a schedule's text, with their stages."""
    lines = {}
    for line in text.splitlines():
        if match := re.match(r"r(\d+): (.*)", line):
            lines[int(match[1])] = [re.sub(r"^(?=[FIWB])", match[1], action)
                                    for action in match[2].split()]
    return lines


def check_order(session, trace, plan, strategy, title, steps, is_partial):
    """What each rank did against the schedule, and transfers against their other ends."""
    with open(trace, encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    events.sort(key=lambda event: event["ts"])
    sizes = sizes_of(strategy)
    ranks = ranks_of(sizes)
    actions = collections.defaultdict(list)
    ends = {"send": collections.defaultdict(list), "receive": collections.defaultdict(list)}
    for event in events:
        if event.get("cat") == "action":
            actions[event["pid"]].append(event["name"])
        if event.get("cat") == "transfer" and event["name"] in ends:
            what = event["args"]["what"]
            if match := re.search(r", rank (\d+) to (\d+)$", what):
                own = match[1 if event["name"] == "send" else 2]
                if ranks == sizes["pp"] and int(own) != event["pid"]:
                    raise ValueError(f"rank {event['pid']} has {event['name']} of {what}")
                ends[event["name"]][match[1], match[2]].append(what)
    wrong = []
    for rank in range(ranks):
        wanted = plan[rank // (ranks // sizes["pp"])] * steps
        if is_partial:
            kinds = {re.sub(r"(?<=[A-Z])\d+", "", action) for action in actions[rank]}
            wanted = [action for action in wanted
                      if re.sub(r"(?<=[A-Z])\d+", "", action) in kinds]
        if actions[rank] != wanted or not wanted:
            wrong.append(f"rank {rank} ran {' '.join(actions[rank])}, "
                         f"its schedule is {' '.join(wanted)}")
    session.check(f"{title}: each rank runs its line of the schedule", not wrong,
                  "; ".join(wrong)[:800])
    if ranks == sizes["pp"]:
        session.check(f"{title}: both ends have transfers in one order",
                      ends["send"] == ends["receive"] and bool(ends["send"]),
                      f"{sum(map(len, ends['send'].values()))} transfers")


def check(session, model, batch, strategy, bases, mpi, counts):
    """As parallel.py; what a pipeline saves is a whole model, processes do as threads do."""
    name = write_model(session, model, batch)
    artifact, train, numbers = parallel.check(session, name, strategy, bases)
    title = f"{model}, {strategy}"
    sizes = sizes_of(strategy)
    ranks = ranks_of(sizes)
    runs_mpi = mpi and 1 < ranks <= 4
    if sizes["pp"] > 1:
        trace = session.path("trace.json")
        short = [train[0], "--steps=2", "--quiet", "--threads=1", f"--trace={trace}"]
        mesh, *options = strategy.split()
        plan = planned(session.run("sheaf-compile", session.path(f"{name}.mlir"),
                                   f"--mesh={mesh}", *options, "--emit=schedule"))
        is_partial = any(mark in title for mark in IDLE)
        session.run("sheaf-run", artifact, *short)
        check_order(session, trace, plan, strategy, title, 2, is_partial)
        if runs_mpi:
            status, out, err = session.try_command(
                ["mpirun", "-n", str(ranks), session.tool("sheaf-run"), artifact, *short],
                environment=parallel.MPI)
            if session.check(f"{title}: processes are traced", status == 0, (out + err)[-800:]
                             if status else ""):
                check_order(session, trace, plan, strategy, f"{title}, processes", 2, is_partial)
    # One rank alone says nothing to anybody.
    if counts and ranks > 1:
        kinds = parallel.check_counts(session, name, strategy)
        session.check(f"{title}: sends are among what is explained",
                      "send" in kinds or sizes["pp"] == 1, ", ".join(sorted(kinds)))
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
    if runs_mpi:
        parallel.check_processes(session, artifact, train, ranks, numbers, title)


def check_memory(session, pipeline, ranks):
    """What the verifier of schedules states of each rank against what the rank had."""
    session.run("sheaf-model", "gpt", "--layers=4", "--hidden=256", "--heads=4", "--seq=128",
                "--vocab=512", "--batch=8", "-o", session.path("wide.mlir"))
    artifact = session.compile("wide.mlir", "wide.sheaf", f"--mesh=pp={ranks}",
                               "--microbatches=8", f"--pipeline={pipeline}")
    out = session.run("sheaf-run", artifact, f"--data={session.path('tokens.bin')}", "--steps=1",
                      "--quiet", "--threads=1", "--memory-report")
    found = re.findall(r"^rank (\d+): (\d+) bytes: .*; stated (\d+), at (\S+)$", out, re.M)
    over = [int(stated) / int(had) for _, had, stated, _ in found]
    session.check(f"{pipeline} on {ranks} ranks: bytes stated are at least, and within 5% of, "
                  "what each rank had", len(over) == ranks and all(1 <= x <= 1.05 for x in over),
                  ", ".join(f"{x:.4f}" for x in over) or out[-500:])


def random_schedule(generator, ranks, microbatches):
    """The lines of ranks that carry out two to four stages in any order that can be, of which
    one in two has two neighbours changed; and whether it still can be."""
    stages = generator.randint(ranks, 4)
    rank_of = list(range(ranks)) + [generator.randrange(ranks) for _ in range(stages - ranks)]
    generator.shuffle(rank_of)
    needs = {}
    for s in range(stages):
        for k in range(microbatches):
            is_split = generator.random() < 0.5
            back = f"{s}I{k}" if is_split else f"{s}B{k}"
            needs[f"{s}F{k}"] = [f"{s - 1}F{k}"] if s else []
            needs[back] = [f"{s}F{k}"]
            if is_split:
                needs[f"{s}W{k}"] = [back]
    for task in list(needs):
        s, k = int(task[0]), task[2:]
        if task[1] in "IB" and s + 1 < stages:
            needs[task].append(next(f"{s + 1}{part}{k}" for part in "IB"
                                    if f"{s + 1}{part}{k}" in needs))
    lines, done = [[] for _ in range(ranks)], []
    while len(done) < len(needs):
        task = generator.choice([task for task in needs if task not in done
                              and all(need in done for need in needs[task])])
        done.append(task)
        lines[rank_of[int(task[0])]].append(task)
    if generator.random() < 0.5:
        line = generator.choice(lines)
        at = generator.randrange(len(line) - 1)
        line[at:at + 2] = reversed(line[at:at + 2])
    # A rank goes on where what its next action needs is done.
    places, done = [0] * ranks, set()
    while True:
        ready = [r for r in range(ranks) if places[r] < len(lines[r])
                 and all(need in done for need in needs[lines[r][places[r]]])]
        if not ready:
            break
        for r in ready:
            done.add(lines[r][places[r]])
            places[r] += 1
    text = "".join(f"r{r}: {' '.join(line)}\n" for r, line in enumerate(lines))
    return text, len(done) == len(needs)


def check_random(session, count):
    """What the verifier accepts of random schedules runs to its end, with the numbers of one
    device, and what it refuses cannot run."""
    generator = random.Random(11)
    wrong, accepted = [], 0
    bases = {}
    for _ in range(count):
        ranks, microbatches = generator.choice(((2, 2), (2, 3), (3, 2)))
        name = write_model(session, "gpt", microbatches)
        text, can_run = random_schedule(generator, ranks, microbatches)
        path = session.path("random.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        artifact = session.path("random.sheaf")
        status, _, err = session.try_run(
            "sheaf-compile", session.path(f"{name}.mlir"), f"--mesh=pp={ranks}",
            f"--microbatches={microbatches}", f"--pipeline=file:{path}", "--optimizer=sgd",
            "-o", artifact)
        if (status == 0) != can_run or (status and not re.search(r"txt:\d+:\d+: error: ", err)):
            wrong.append(f"{text}{status}: {err[-300:]}")
        if status:
            continue
        accepted += 1
        train = [f"--data={session.path('tokens.bin')}", "--steps=2", "--quiet", "--threads=1"]
        if microbatches not in bases:
            bases[microbatches] = session.train(
                session.compile(f"{name}.mlir", "one.sheaf", "--optimizer=sgd"), *train)
        rows = session.train(artifact, *train, "--wait-limit=60")
        if len(rows) != 2 or parallel.worst(rows, bases[microbatches], "loss") > 2e-6:
            wrong.append(f"{text}{rows}")
    session.check(f"{count} random schedules, {accepted} of which can run: what is accepted runs, "
                  "what is refused cannot", not wrong and 0 < accepted < count, "\n".join(wrong[:3]))


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(2003, 32, 1), "u16")
    mpi = shutil.which("mpirun") and "libmpi" in session.try_command(
        ["ldd", session.tool("sheaf-run")])[1]
    cases = list(CASES)
    if FULL:
        cases += PRODUCTS
        for p in (1, 2, 3, 4):
            for m in sorted({1, 2, max(1, p - 1), p, 2 * p + 1}):
                for pipeline in ("gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zbv",
                                 "dualpipev", "greedy"):
                    if pipeline != "dualpipev" or m >= 2 * p:
                        cases.append((("deep", "deep-llama")[len(cases) % 2], m,
                                      f"pp={p} --microbatches={m} --pipeline={pipeline}"))
    for pipeline in ("1f1b", "gpipe", "interleaved", "zb-h1")[:4 if FULL else 2]:
        check_memory(session, pipeline, 2)
    check_random(session, 120 if FULL else 12)
    bases = {}
    for i, (model, batch, strategy) in enumerate(cases):
        check(session, model, batch, strategy, bases, mpi and i % 3 == 0, FULL or i % 4 == 1)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 4 * 3600 if FULL else 900))
