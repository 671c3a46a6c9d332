"""Every option of a model and of its compilation beside every other.

    python3 test/e2e/combinations.py build/bin

Families, odd shapes, tied and untied heads, documents, windows, dropout, label
smoothing, optimizers, recomputation and microbatches are combined so that each pair
of settings occurs together (with SHEAF_FULL=1 in the environment: each three of
settings; SHEAF_FULL=all: every combination, which takes hours).
Each model trains; --verify passes; 1, 2 and 3 threads give the same losses and
norms to the bit; losses with recomputation and microbatches stay within 2e-6 of
those without with sgd, 5e-6 with AdamW. Another seed has to give other losses, or
the comparisons would prove nothing.
"""

import itertools
import os
import sys

import support
import data

STEPS = 5
# (hidden, heads, seq, batch, vocab, layers); llama's heads have an even width.
SHAPES = {
    "gpt": {"odd": (33, 3, 7, 5, 97, 2), "one": (1, 1, 1, 1, 2, 1),
            "even": (32, 2, 16, 4, 64, 1)},
    "llama": {"odd": (42, 3, 7, 5, 97, 2), "one": (2, 1, 1, 1, 2, 1),
              "even": (32, 2, 16, 4, 64, 1)},
}
FACTORS = {
    "family": ["gpt", "llama"],
    "shape": ["odd", "even", "one"],
    "head": ["", "--tie", "--untie"],
    "documents": ["", "--documents"],
    "window": ["", "--window=3"],
    "dropout": ["", "--dropout=0.2"],
    "smoothing": ["", "--label-smoothing=0.1"],
    "optimizer": ["adamw", "sgd", "momentum"],
    "recompute": ["none", "selective", "full"],
    "microbatches": ["1", "all"],
}
OPTIMIZERS = {
    "adamw": ["--optimizer=adamw", "--lr=1e-3"],
    "sgd": ["--optimizer=sgd", "--lr=0.03", "--clip=0"],
    "momentum": ["--optimizer=sgd", "--lr=0.03", "--clip=0", "--momentum=0.9"],
}


def is_legal(case):
    return not (case["family"] == "llama" and case["dropout"])


def all_cases():
    for values in itertools.product(*FACTORS.values()):
        case = dict(zip(FACTORS, values))
        if is_legal(case):
            yield case


def covering(strength):
    """Few cases in which any `strength` legal settings occur together: each next one
    adds the most that did not yet."""
    cases = list(all_cases())
    held = [set(itertools.combinations(case.items(), strength)) for case in cases]
    while True:
        best = max(range(len(cases)), key=lambda i: len(held[i]))
        if not held[best]:
            return
        yield cases[best]
        added = set(held[best])
        for settings in held:
            settings -= added


def losses(session, artifact, tokens, *options):
    log = session.train(artifact, f"--data={tokens}", f"--steps={STEPS}", "--quiet", *options)
    return [(line["loss"], line["grad_norm"]) for line in log]


def check_model(session, case):
    hidden, heads, seq, batch, vocab, layers = SHAPES[case["family"]][case["shape"]]
    switches = [case[name] for name in ("head", "documents", "window", "dropout", "smoothing")
                if case[name]]
    title = " ".join([case["family"], case["shape"], *switches, case["optimizer"]])
    session.run("sheaf-model", case["family"], f"--layers={layers}", f"--hidden={hidden}",
                f"--heads={heads}", f"--seq={seq}", f"--batch={batch}", f"--vocab={vocab}",
                *switches, "-o", session.path("model.mlir"))
    tokens = session.path("tokens.bin")
    data.write_tokens(tokens, data.synthetic(1009, vocab, 1), "u16")
    optimizer = OPTIMIZERS[case["optimizer"]]
    plain = session.compile("model.mlir", "plain.sheaf", *optimizer)
    base = losses(session, plain, tokens, "--threads=1")
    session.check(f"{title}: trains", len(base) == STEPS)
    session.check(f"{title}: another seed gives other losses",
                  losses(session, plain, tokens, "--threads=1", "--seed=9") != base)
    tolerance = 5e-6 if case["optimizer"] == "adamw" else 2e-6
    recompute = case["recompute"]
    count = batch if case["microbatches"] == "all" else 1
    name = f"{title}, recompute {recompute}, {count} microbatches"
    artifact = session.compile("model.mlir", "variant.sheaf", *optimizer,
                               f"--recompute={recompute}", f"--microbatches={count}")
    one = losses(session, artifact, tokens, "--threads=1")
    for threads in (2, 3):
        session.check(f"{name}: {threads} threads",
                      losses(session, artifact, tokens, f"--threads={threads}") == one)
    worst = max(abs(a[0] - b[0]) / max(abs(b[0]), 1e-9) for a, b in zip(one, base))
    session.check(f"{name}: losses as without",
                  len(one) == len(base) and worst <= tolerance, f"differ by {worst:.1e}")
    status, out, err = session.try_run("sheaf-run", artifact, "--verify", "--threads=2")
    session.check(f"{name}: verify", status == 0, "" if status == 0 else (out + err)[-800:])


def body(session, _):
    full = os.environ.get("SHEAF_FULL")
    for case in all_cases() if full == "all" else covering(3 if full else 2):
        check_model(session, case)


if __name__ == "__main__":
    limit = 24 * 3600 if os.environ.get("SHEAF_FULL") else 900
    sys.exit(support.main(__doc__, body, limit))
