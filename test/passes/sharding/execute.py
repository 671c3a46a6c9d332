"""Partitioned steps, run on all ranks and compared with one device; their collectives,
compared with the table of what an expert would write.

    execute.py <folder of the built programs>

Each row is a model, a strategy, a number of microbatches and an entry. Every result must be
that of one device to rounding in f64. A strategy may end in `context=`, as sheaf-compile
has it. Where a row says what is sent, {(kind, axes): (times,
elements)}, that must be all that is sent, but for scalars; and dist-explain must list what
the ranks sent. Mistakes that are planted in collectives must be noticed. With SHEAF_FULL=1 there are more rows, and each runs with reductions as early
and as late as can be, too.
"""

import collections
import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oracle"))

import mesh  # noqa: E402
import partition  # noqa: E402

LAYERS, HIDDEN, VOCABULARY, SEQUENCE, BATCH, FFN = 2, 16, 256, 8, 8, 32
SIZES = [f"--layers={LAYERS}", f"--hidden={HIDDEN}", "--heads=4", f"--vocab={VOCABULARY}",
         f"--seq={SEQUENCE}", f"--batch={BATCH}", f"--ffn={FFN}"]
# Nothing divides; ids are also drawn from behind the end of the vocabulary.
MODELS = {"gpt": ["gpt", *SIZES], "llama": ["llama", "--kv-heads=2", *SIZES],
          "odd": ["gpt", "--layers=1", "--hidden=12", "--heads=4", "--vocab=31", "--ffn=13",
                  "--seq=7", "--batch=10"],
          "odd-llama": ["llama", "--layers=1", "--hidden=12", "--heads=2", "--vocab=31",
                        "--ffn=13", "--seq=7", "--batch=5"],
          "odd-documents": ["llama", "--layers=1", "--hidden=16", "--heads=4", "--kv-heads=2",
                        "--vocab=31", "--ffn=16", "--seq=10", "--batch=4", "--documents",
                        "--window=6"],
          "window": ["llama", "--kv-heads=2", *SIZES, "--window=3"],
          "heads": ["llama", "--layers=1", "--hidden=24", "--heads=12", "--kv-heads=6",
                    "--vocab=31", "--ffn=16", "--seq=9", "--batch=2"],
          "few-heads": ["llama", "--layers=1", "--hidden=32", "--heads=8", "--kv-heads=2",
                        "--vocab=31", "--ffn=16", "--seq=9", "--batch=2"]}


def uncausal(text):
    """A model of which queries see keys behind them, too."""
    assert " causal window" in text
    return text.replace(" causal window", " window")


MODELS["open-documents"] = MODELS["odd-documents"]
EDITS = {"open-documents": uncausal}
IDS = {"gpt": VOCABULARY, "llama": VOCABULARY, "odd": 33, "odd-llama": 33, "odd-documents": 31,
       "open-documents": 31, "window": VOCABULARY, "heads": 31, "few-heads": 31}
HEADS = {"gpt": 4, "window": 4, "odd": 4, "odd-documents": 4, "heads": 12}
KEY_HEADS = {"gpt": 4, "window": 2, "odd": 4, "odd-documents": 2, "heads": 6}
# Elements of the parameters: of a layer, and outside; (weights, what the backward reads of
# them, all).
GPT_LAYER = {"matrices": [HIDDEN * 3 * HIDDEN, HIDDEN * HIDDEN, HIDDEN * FFN, FFN * HIDDEN],
             "norms": [HIDDEN, HIDDEN], "biases": [HIDDEN, HIDDEN, 3 * HIDDEN, HIDDEN, FFN, HIDDEN]}
EMBEDDING, POSITIONS = VOCABULARY * HIDDEN, SEQUENCE * HIDDEN


def can_exchange(model, cp, tp):
    """Whether Ulysses has heads enough: key heads of a device of tp and the devices of cp divide
    each other."""
    left = KEY_HEADS[model] // math.gcd(tp, KEY_HEADS[model])
    return HEADS[model] % (cp * tp) == 0 and (left % cp == 0 or cp % left == 0)


def gpt_parameters():
    layer = sum(GPT_LAYER.values(), [])
    return LAYERS * layer + [EMBEDDING, POSITIONS, HIDDEN, HIDDEN]


# Two key heads of four: keys and values are half as wide. The head is not tied.
LLAMA_LAYER = [HIDDEN * HIDDEN, HIDDEN * HIDDEN // 2, HIDDEN * HIDDEN // 2, HIDDEN * HIDDEN,
               HIDDEN * FFN, HIDDEN * FFN, FFN * HIDDEN, HIDDEN, HIDDEN]


def llama_parameters():
    return LAYERS * LLAMA_LAYER + [EMBEDDING, EMBEDDING, HIDDEN]


def llama_zero3_gathers():
    """Of a microbatch: each for the forward; all but the embedding for the backward."""
    return llama_parameters() + LAYERS * LLAMA_LAYER + [EMBEDDING, HIDDEN]


def both(sizes):
    return len(sizes), sum(sizes)


def times(count, sizes):
    return count * len(sizes), count * sum(sizes)


def gpt_zero3_gathers():
    """Of a microbatch: each parameter for the forward; for the backward what it multiplies
    with."""
    again = LAYERS * (GPT_LAYER["matrices"] + GPT_LAYER["norms"]) + [EMBEDDING, HIDDEN]
    return gpt_parameters() + again


def activations(count, dp, microbatches):
    """`count` a microbatch of [b, s, h] of a rank."""
    return microbatches * count, BATCH // dp * SEQUENCE * HIDDEN * count


def tokens(count, dp, microbatches):
    return microbatches * count, BATCH // dp * SEQUENCE * count


def keys(count, dp, microbatches, width=HIDDEN):
    """`count` a microbatch and layer of keys or values, as wide as their heads together."""
    return activations(count * LAYERS, dp, microbatches)[0], \
        BATCH // dp * SEQUENCE * width * count * LAYERS


def ring(devices, dp, microbatches, width=HIDDEN, steps=None):
    """Keys and values are handed on in all steps but the first, forwards and backwards, their
    gradients once more."""
    steps = devices - 1 if steps is None else steps
    count = LAYERS * (2 * steps + 2 * steps + 2 * (steps + 1))
    return microbatches * count, BATCH // dp * SEQUENCE // devices * width * count


def exchanges(devices, dp, microbatches, width=HIDDEN):
    """Queries and results, keys and values: four forwards, and four backwards."""
    part = BATCH // dp * SEQUENCE // devices
    return microbatches * LAYERS * 8, LAYERS * part * 4 * (HIDDEN + width)


def added(*rows):
    return tuple(map(sum, zip(*rows)))


LARGE = [n for n in gpt_parameters() if n * 4 >= 512]
BLOCKS = 4 * LAYERS + 2  # Two a layer each way, the embedding, the input of the head.
GATHERS = 6 * LAYERS + 2  # The same with sequence parallelism, two a layer gathered again.
GPT_VECTORS = LAYERS * (2 * 2 + 2) + 2  # Norms, and biases that are added to sequence shards.

# (model, strategy, microbatches, entry, what is sent).
ROWS = [
    ("gpt", "mesh=dp=4", 1, "gradients", {("all-reduce", "dp"): both(gpt_parameters())}),
    ("gpt", "mesh=dp=4", 2, "step", {("all-reduce", "dp"): both(gpt_parameters())}),
    ("gpt", "mesh=dp=4 zero=1", 2, "step", {
        ("reduce-scatter", "dp"): both(gpt_parameters()),
        ("all-gather", "dp"): both(gpt_parameters())}),
    ("gpt", "mesh=dp=4 zero=2", 2, "step", {
        ("reduce-scatter", "dp"): times(2, gpt_parameters()),
        ("all-gather", "dp"): both(gpt_parameters())}),
    ("gpt", "mesh=dp=4 zero=3", 2, "step", {
        ("reduce-scatter", "dp"): times(2, gpt_parameters()),
        ("all-gather", "dp"): times(2, gpt_zero3_gathers())}),
    ("gpt", "mesh=dp=4 zero=3 zero-group=2", 1, "step", {
        ("reduce-scatter", "dp:(2)2"): both(gpt_parameters()),
        ("all-reduce", "dp:(1)2"): both([n // 2 for n in gpt_parameters()]),
        ("all-gather", "dp:(2)2"): both(gpt_zero3_gathers())}),
    # Weights gathered once a step; gradients reduced once, too.
    ("gpt", "mesh=dp=4 zero=3 zero3-gathers=keep", 2, "step", {
        ("reduce-scatter", "dp"): times(2, gpt_parameters()),
        ("all-gather", "dp"): both(gpt_parameters())}),
    ("gpt", "mesh=dp=4 zero=3 zero3-gathers=keep accumulate=whole", 2, "step", {
        ("reduce-scatter", "dp"): both(gpt_parameters()),
        ("all-gather", "dp"): both(gpt_parameters())}),
    ("gpt", "mesh=dp=4 zero=2 accumulate=whole", 2, "step", {
        ("reduce-scatter", "dp"): both(gpt_parameters()),
        ("all-gather", "dp"): both(gpt_parameters())}),
    # Vectors stay whole.
    ("gpt", "mesh=dp=4 zero=1 zero-min-bytes=512", 2, "step", {
        ("reduce-scatter", "dp"): both(LARGE),
        ("all-reduce", "dp"): both([n for n in gpt_parameters() if n * 4 < 512]),
        ("all-gather", "dp"): both(LARGE)}),
    # Gradients in flat tensors: the same elements.
    ("gpt", "mesh=dp=4", 2, "step bucket-bytes=1000000", {
        ("all-reduce", "dp"): (1, sum(gpt_parameters()))}),
    ("gpt", "mesh=dp=4 zero=2", 2, "step bucket-bytes=1000000", {
        ("reduce-scatter", "dp"): (2, 2 * sum(gpt_parameters())),
        ("all-gather", "dp"): both(gpt_parameters())}),
    ("odd", "mesh=dp=3,tp=2 zero=2 sequence-parallel", 2, "step bucket-bytes=2000", None),
    # Across the groups once a step.
    ("gpt", "mesh=dp=4 zero=3 zero-group=2", 2, "step", {
        ("reduce-scatter", "dp:(2)2"): times(2, gpt_parameters()),
        ("all-reduce", "dp:(1)2"): both([n // 2 for n in gpt_parameters()]),
        ("all-gather", "dp:(2)2"): times(2, gpt_zero3_gathers())}),
    ("gpt", "mesh=tp=2", 1, "gradients", {
        ("all-reduce", "tp"): tuple(map(sum, zip(activations(BLOCKS, 1, 1),
                                                 tokens(3, 1, 1))))}),
    ("gpt", "mesh=tp=4", 2, "step", {
        ("all-reduce", "tp"): tuple(map(sum, zip(activations(BLOCKS, 1, 2),
                                                 tokens(3, 1, 2))))}),
    ("gpt", "mesh=tp=2 sequence-parallel", 2, "gradients", {
        ("reduce-scatter", "tp"): activations(BLOCKS, 1, 2),
        # The gradient of the positions is gathered along the sequence.
        ("all-gather", "tp"): tuple(map(sum, zip(activations(GATHERS, 1, 2),
                                                 times(1, [POSITIONS])))),
        ("all-reduce", "tp"): tuple(map(sum, zip(times(1, GPT_VECTORS * [HIDDEN]),
                                                 tokens(3, 1, 2))))}),
    ("llama", "mesh=dp=4", 2, "step", {("all-reduce", "dp"): both(llama_parameters())}),
    ("llama", "mesh=dp=4 zero=1", 2, "step", {
        ("reduce-scatter", "dp"): both(llama_parameters()),
        ("all-gather", "dp"): both(llama_parameters())}),
    ("llama", "mesh=dp=4 zero=2", 2, "step", {
        ("reduce-scatter", "dp"): times(2, llama_parameters()),
        ("all-gather", "dp"): both(llama_parameters())}),
    ("llama", "mesh=dp=4 zero=3", 2, "step", {
        ("reduce-scatter", "dp"): times(2, llama_parameters()),
        ("all-gather", "dp"): times(2, llama_zero3_gathers())}),
    ("llama", "mesh=dp=4 zero=3 zero-group=2", 1, "step", {
        ("reduce-scatter", "dp:(2)2"): both(llama_parameters()),
        ("all-reduce", "dp:(1)2"): both([n // 2 for n in llama_parameters()]),
        ("all-gather", "dp:(2)2"): both(llama_zero3_gathers())}),
    ("llama", "mesh=tp=2 sequence-parallel", 2, "gradients", {
        ("reduce-scatter", "tp"): activations(BLOCKS, 1, 2),
        ("all-gather", "tp"): activations(GATHERS, 1, 2),
        ("all-reduce", "tp"): tuple(map(sum, zip(times(1, (2 * LAYERS + 1) * [HIDDEN]),
                                                 tokens(3, 1, 2))))}),
    ("llama", "mesh=dp=2,tp=2", 2, "step", None),
    ("llama", "mesh=tp=2", 1, "gradients", {
        ("all-reduce", "tp"): tuple(map(sum, zip(activations(BLOCKS, 1, 1),
                                                 tokens(3, 1, 1))))}),
    # Two key heads on four devices: each is on two, their gradients are summed.
    # Two key heads on four devices: shards are handed on.
    ("llama", "mesh=tp=4 sequence-parallel", 1, "step", None),
    ("llama", "mesh=tp=4", 1, "gradients", {
        ("all-reduce", "tp"): tuple(map(sum, zip(activations(BLOCKS, 1, 1),
                                                 tokens(3, 1, 1)))),
        ("all-reduce", "tp:(2)2"): times(2 * LAYERS, [BATCH * SEQUENCE * HIDDEN // 4])}),
    # Context parallelism: keys and values are gathered forwards and backwards, their gradients
    # scattered; the gradient of the positions is gathered along the sequence.
    ("gpt", "mesh=cp=4", 1, "gradients", {
        ("all-gather", "cp"): added(keys(4, 1, 1), (1, POSITIONS)),
        ("reduce-scatter", "cp"): keys(2, 1, 1),
        ("all-reduce", "cp"): added(both(gpt_parameters()), (-1, -POSITIONS))}),
    # Key heads only.
    ("llama", "mesh=cp=4", 1, "gradients", {
        ("all-gather", "cp"): keys(4, 1, 1, HIDDEN // 2),
        ("reduce-scatter", "cp"): keys(2, 1, 1, HIDDEN // 2),
        ("all-reduce", "cp"): both(llama_parameters())}),
    # Weights over dp x cp; what is no gradient stays in cp.
    ("llama", "mesh=dp=2,cp=2", 2, "step", {
        ("all-gather", "cp"): keys(4, 2, 2, HIDDEN // 2),
        ("reduce-scatter", "cp"): keys(2, 2, 2, HIDDEN // 2),
        ("all-reduce", "dp+cp"): both(llama_parameters())}),
    ("llama", "mesh=dp=2,cp=2 zero=1", 2, "step", {
        ("all-gather", "cp"): keys(4, 2, 2, HIDDEN // 2),
        ("reduce-scatter", "cp"): keys(2, 2, 2, HIDDEN // 2),
        ("reduce-scatter", "dp+cp"): both(llama_parameters()),
        ("all-gather", "dp+cp"): both(llama_parameters())}),
    ("llama", "mesh=dp=2,cp=2 zero=3", 2, "step", {
        ("all-gather", "cp"): keys(4, 2, 2, HIDDEN // 2),
        ("reduce-scatter", "cp"): keys(2, 2, 2, HIDDEN // 2),
        ("reduce-scatter", "dp+cp"): times(2, llama_parameters()),
        ("all-gather", "dp+cp"): times(2, llama_zero3_gathers())}),
    ("llama", "mesh=dp=2,cp=2,tp=2 zero=1 sequence-parallel", 2, "step", None),
    ("gpt", "mesh=dp=2,cp=2 zero=3 zero-group=2", 2, "step", None),
    # Keys and values go round.
    ("gpt", "mesh=cp=4 context=ring", 1, "gradients", {
        ("permute", "cp"): ring(4, 1, 1),
        ("all-gather", "cp"): (1, POSITIONS),
        ("all-reduce", "cp"): added(both(gpt_parameters()), (-1, -POSITIONS))}),
    ("llama", "mesh=cp=4 context=ring", 1, "gradients", {
        ("permute", "cp"): ring(4, 1, 1, HIDDEN // 2),
        ("all-reduce", "cp"): both(llama_parameters())}),
    ("llama", "mesh=dp=2,cp=2 zero=1 context=ring", 2, "step", {
        ("permute", "cp"): ring(2, 2, 2, HIDDEN // 2),
        ("reduce-scatter", "dp+cp"): both(llama_parameters()),
        ("all-gather", "dp+cp"): both(llama_parameters())}),
    # A window of 3 on parts of 2: nobody looks farther than at the neighbour's.
    ("window", "mesh=cp=4 context=ring", 1, "gradients", {
        ("permute", "cp"): ring(4, 1, 1, HIDDEN // 2, steps=1),
        ("all-reduce", "cp"): both(llama_parameters())}),
    # In zig-zag order the same is sent.
    ("gpt", "mesh=cp=4 context=zigzag", 1, "gradients", {
        ("permute", "cp"): ring(4, 1, 1),
        ("all-gather", "cp"): (1, POSITIONS),
        ("all-reduce", "cp"): added(both(gpt_parameters()), (-1, -POSITIONS))}),
    ("llama", "mesh=dp=2,cp=2 context=zigzag", 2, "step", {
        ("permute", "cp"): ring(2, 2, 2, HIDDEN // 2),
        ("all-reduce", "dp+cp"): both(llama_parameters())}),
    # Sequence and heads are exchanged around attention.
    ("gpt", "mesh=cp=4 context=ulysses", 1, "gradients", {
        ("all-to-all", "cp"): exchanges(4, 1, 1),
        ("all-gather", "cp"): (1, POSITIONS),
        ("all-reduce", "cp"): added(both(gpt_parameters()), (-1, -POSITIONS))}),
    ("llama", "mesh=dp=2,cp=2 zero=1 context=ulysses", 2, "step", {
        ("all-to-all", "cp"): exchanges(2, 2, 2, HIDDEN // 2),
        ("reduce-scatter", "dp+cp"): both(llama_parameters()),
        ("all-gather", "dp+cp"): both(llama_parameters())}),
    # Two key heads on four and on eight devices, and on two of tp and two of cp.
    ("llama", "mesh=cp=4 context=ulysses", 1, "gradients", None),
    ("few-heads", "mesh=cp=8 context=ulysses", 1, "gradients", None),
    ("few-heads", "mesh=cp=2,tp=2 sequence-parallel context=ulysses", 1, "step", None),
    ("heads", "mesh=cp=3,tp=2 zero=2 context=ulysses", 2, "step", None),
    ("heads", "mesh=dp=2,cp=6 zero=3 context=ulysses", 1, "step", None),
    ("odd", "mesh=dp=2,cp=2 context=ulysses", 2, "step", None),
    # 7, 9 and 10 tokens on devices that do not divide them.
    ("odd", "mesh=cp=3 context=ring", 2, "step", None),
    ("odd-llama", "mesh=cp=8 context=ring", 1, "gradients", None),
    ("odd-documents", "mesh=dp=2,cp=3 context=ring", 2, "step", None),
    ("few-heads", "mesh=cp=2,tp=4 sequence-parallel context=ring", 1, "step", None),
    ("odd", "mesh=dp=2,cp=2,tp=2 zero=2 sequence-parallel context=zigzag", 2, "step", None),
    ("odd", "mesh=cp=3 context=zigzag", 2, "step", None),
    ("odd-llama", "mesh=cp=4,tp=2 zero=3 sequence-parallel context=zigzag", 1, "step", None),
    ("odd-llama", "mesh=cp=8 context=zigzag", 1, "gradients", None),
    ("odd-documents", "mesh=dp=2,cp=3 zero=1 context=zigzag", 2, "step", None),
    ("odd-documents", "mesh=cp=2 context=ulysses", 2, "step", None),
    ("open-documents", "mesh=dp=2,cp=3 context=ring", 2, "gradients", None),
    ("open-documents", "mesh=cp=4 context=zigzag", 1, "step", None),
    ("few-heads", "mesh=dp=2,cp=2,tp=2 zero=1 sequence-parallel context=zigzag", 1, "step", None),
    # 7 tokens on 3 devices, on 4, and on 8, of which one has none.
    ("odd", "mesh=cp=3", 2, "step", None),
    ("odd-llama", "mesh=cp=8", 1, "gradients", None),
    ("odd-documents", "mesh=dp=2,cp=3", 2, "step", None),
    ("odd", "mesh=dp=2,cp=2,tp=2 zero=2 sequence-parallel", 2, "step", None),
    ("odd-llama", "mesh=cp=4,tp=2 zero=3 sequence-parallel", 1, "step", None),
    ("llama", "mesh=dp=2,tp=2 zero=3 sequence-parallel", 2, "step", None),
    ("gpt", "mesh=dp=2,tp=2 zero=1 sequence-parallel", 2, "step", None),
    ("gpt", "mesh=dp=1,tp=1 zero=3 sequence-parallel", 1, "gradients", {}),
    # 5 rows on 4 ranks: one has none.
    ("odd", "mesh=dp=4", 2, "step", None),
    ("odd", "mesh=tp=2", 1, "gradients", {
        ("all-reduce", "tp"): (6 + 3, 6 * 10 * 7 * 12 + 3 * 10 * 7)}),
    ("odd", "mesh=dp=3,tp=2 zero=2 sequence-parallel", 2, "step", None),
    ("odd-llama", "mesh=dp=2,tp=2 zero=3 sequence-parallel", 1, "step", None),
]
FULL_ROWS = [(model, f"mesh=dp={dp},tp={tp} zero={zero} sequence-parallel={sequence}",
              microbatches, "step", None)
             for model in ("gpt", "llama") for dp, tp in ((1, 4), (2, 2), (4, 1), (4, 4), (8, 2))
             for zero in range(4) for sequence in ("false", "true") for microbatches in (1, 2)
             if BATCH % (dp * microbatches) == 0] + [
                 ("odd", f"mesh=dp={dp},tp={tp} zero={zero} sequence-parallel={sequence}",
                  microbatches, "step", None)
                 for dp, tp in ((2, 2), (3, 4), (5, 1), (8, 2)) for zero in range(4)
                 for sequence in ("false", "true") for microbatches in (1, 2)] + [
                     (model, f"mesh=dp={dp},cp={cp},tp={tp} zero={zero} "
                      f"sequence-parallel={sequence}", 2, "step", None)
                     for model in ("gpt", "llama", "odd") for dp, cp, tp in
                     ((1, 2, 2), (2, 3, 1), (1, 8, 1), (2, 2, 2)) for zero in (0, 1, 3)
                     for sequence in ("false", "true")] + [
                         (model, f"mesh=dp={dp},cp={cp},tp={tp} zero={zero} "
                          f"sequence-parallel={sequence} context={context}", 1, "step", None)
                         for context in ("ring", "zigzag", "ulysses")
                         for model in ("gpt", "window", "odd", "odd-documents", "heads")
                         for dp, cp, tp in ((1, 2, 2), (2, 3, 1), (1, 4, 1), (1, 8, 1))
                         for zero, sequence in ((0, "false"), (3, "true"))
                         if context != "ulysses" or can_exchange(model, cp, tp)]


def summed(collectives):
    """{(kind, axes): (times, elements)} of all that is no scalar."""
    found = collections.defaultdict(lambda: (0, 0))
    for (kind, axes, elements, _, rank), count in collectives.items():
        if rank:
            old = found[kind, "+".join(axes)]
            found[kind, "+".join(axes)] = (old[0] + count, old[1] + count * elements)
    return dict(found)


def explained(bin_dir, step, strategy, entry, bucket_bytes=0, exact=True, context="gather"):
    text = partition.run(
        f"{bin_dir}/sheaf-opt", "-o", os.devnull,
        f"--pass-pipeline=builtin.module(nn-decompose{{ops=step_mean,step_sum}},"
        f"dist-apply-strategy{{{strategy}}},dist-propagate,dist-partition{{context={context}}},"
        f"symbol-dce,"
        f"dist-optimize{{bucket-bytes={bucket_bytes}}},dist-explain{{function={entry}}})", stdin=step)
    found = collections.Counter()
    for entry in json.loads(text):
        if not entry["reason"].get("text"):
            raise ValueError(f"no reason: {entry}")
        found[entry["kind"], tuple(entry["axes"]), entry["elements"], entry["dtype"]] += \
            entry["count"]
        if not entry.get("purpose"):
            # What a ring sends, of a permute all; padding comes to it where sizes do not
            # divide.
            group, size = entry["group"], {"f32": 4, "i32": 4, "f64": 8}[entry["dtype"]]
            bytes = entry["elements"] * size * \
                {"all-reduce": 2 * (group - 1) / group, "permute": 1}.get(
                    entry["kind"], (group - 1) / group)
            if not bytes * (1 - 1e-9) <= entry["wire_bytes"] <= bytes + group * size * 1e3 or \
                    (exact and abs(entry["wire_bytes"] - bytes) > 1e-6):
                raise ValueError(f"{entry['wire_bytes']} bytes of {entry}, expected {bytes}")
    return found


def plant(bin_dir):
    """Collectives that do the wrong thing must be noticed; gives those that were not."""
    class NoReduction(mesh.MeshModule):
        def dist_all_reduce(self, op, x):
            return x[0]

    class TwiceReduced(mesh.MeshModule):
        def dist_all_reduce(self, op, x):
            return [2 * value for value in super().dist_all_reduce(op, x)]

    class OneRankLeftOut(mesh.MeshModule):
        def dist_reduce_scatter(self, op, x):
            return super().dist_reduce_scatter(op, [[0 * x[0][0], *x[0][1:]]])

    class WrongOrder(mesh.MeshModule):
        def dist_all_gather(self, op, x):
            return super().dist_all_gather(op, [x[0][::-1]])

    unnoticed, right = [], partition.MeshModule
    step = partition.make_step(bin_dir, MODELS["gpt"])
    for wrong in (NoReduction, TwiceReduced, OneRankLeftOut, WrongOrder):
        partition.MeshModule = wrong
        try:
            partition.check(bin_dir, step, "mesh=tp=2 sequence-parallel", "gradients", VOCABULARY)
            unnoticed.append(wrong.__name__)
        except ValueError:
            pass
    partition.MeshModule = right
    return unnoticed


def main():
    bin_dir, failures, steps = sys.argv[1], 0, {}
    for name in plant(bin_dir):
        failures += 1
        print(f"FAILED to notice {name}")
    full = bool(os.environ.get("SHEAF_FULL"))
    rows = ROWS + (FULL_ROWS if full else [])
    for model, strategy, microbatches, entry, expected in rows:
        name = f"{model}, {strategy}, {microbatches} microbatches, @{entry}"
        strategy, _, context = strategy.partition(" context=")
        options = ()
        if context == "ulysses":
            # Before differentiation, with the mesh.
            mesh_option, _, strategy = strategy.partition(" ")
            options = (f"--{mesh_option}", "--context=ulysses")
        elif context == "zigzag":
            strategy += " zigzag=true"
        context = "ring" if context in ("ring", "zigzag") else "gather"
        key = model, microbatches, options
        entry, _, bucket = entry.partition(" bucket-bytes=")
        bucket = int(bucket or 0)
        try:
            if key not in steps:
                steps[key] = partition.make_step(bin_dir, MODELS[model], microbatches,
                                                 options=options,
                                                 edit=EDITS.get(model, lambda text: text))
            step = steps[key]
            local = partition.check(bin_dir, step, strategy, entry, IDS[model],
                                    bucket_bytes=bucket, context=context)
            for reduce in ("early", "late") if full else ():
                partition.check(bin_dir, step, strategy, entry, IDS[model], reduce,
                                context=context)
            found = summed(local.collectives)
            if expected is not None and found != expected:
                raise ValueError(f"sent {found}, expected {expected}")
            sent = collections.Counter()
            for (kind, axes, elements, element, _), count in local.collectives.items():
                sent[kind, axes, elements, element] += count
            # A sequence of 8 on 3 ranks is padded.
            pads = model not in ("gpt", "llama", "window") or "cp=3" in strategy
            listed = explained(bin_dir, step, strategy, entry, bucket, exact=not pads,
                               context=context)
            if sent != listed:
                raise ValueError(f"sent but not listed: {sent - listed}; "
                                 f"listed but not sent: {listed - sent}")
        except (ValueError, RuntimeError) as error:
            failures += 1
            print(f"FAILED {name}: {error}")
    print(f"{len(rows)} rows, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
