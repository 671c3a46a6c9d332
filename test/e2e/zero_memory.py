"""Weights that ZeRO-3 gathers are freed after use.

    python3 test/e2e/zero_memory.py build/bin

Of a rank: its shard and the gathered weights that are in use at once stay below the
parameters over the ranks plus the two largest of a layer, the embedding and the head. The
runtime counts: from the wait for a gather to the last call that finds the gathered bytes in
place and reads them (`sheaf-run --collectives`). With what is on its way there is a layer more:
the next one. What the compiler says of lifetimes, which
`--info` shows, is no less. Weights that are gathered once a step and kept go beyond; so would
gathers that move to the beginning.
"""

import json
import sys

import support
import data

LAYERS, HIDDEN, RANKS = 6, 64, 4
MODELS = {
    "gpt": ["gpt", "--layers=6", "--hidden=64", "--heads=4", "--seq=32", "--batch=8",
            "--vocab=512"],
    "gpt-untied": ["gpt", "--layers=6", "--hidden=64", "--heads=4", "--seq=32", "--batch=8",
                   "--vocab=256", "--untie"],
    "llama": ["llama", "--layers=6", "--hidden=64", "--heads=4", "--kv-heads=2", "--ffn=128",
              "--seq=32", "--batch=8", "--vocab=512"],
}
OPTIONS = [[], ["--microbatches=2"], ["--recompute=full"], ["--bucket-bytes=100000"],
           ["--accumulate=whole", "--microbatches=2"]]


def gathered_bytes(session, artifact):
    """The most bytes of gathered weights at once, as the runtime saw it in a step: in use, and
    with those on their way."""
    session.run("sheaf-run", artifact, f"--data={session.path('tokens.bin')}", "--steps=1",
                "--quiet", "--threads=1", f"--collectives={session.path('sent.json')}")
    with open(session.path("sent.json"), encoding="utf-8") as file:
        step = json.load(file)["entries"]["step"]
    return step["gathered_bytes"], step["gathered_early_bytes"]


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(1003, 256, 1), "u16")
    for model, flags in MODELS.items():
        session.run("sheaf-model", *flags, "-o", session.path(f"{model}.mlir"))
        for options in OPTIONS + [["--zero3-gathers=keep"]]:
            artifact = session.compile(f"{model}.mlir", "zero.sheaf", f"--mesh=dp={RANKS}",
                                       "--zero=3", *options)
            info = json.loads(session.run("sheaf-run", artifact, "--info=json"))
            parts = {"layer": 0, "embedding": 0, "head": 0}
            shard = total = 0
            for buffer in info["buffers"]:
                if buffer["kind"] != "parameter":
                    continue
                size = 4
                for extent in buffer.get("global_shape", buffer["shape"]):
                    size *= extent
                total += size
                own = 4
                for extent in buffer["shape"]:
                    own *= extent
                shard += own
                name = buffer["name"]
                part = "layer" if ".h." in name or ".layers." in name else \
                    "head" if "lm_head" in name or "ln_f" in name or "model.norm" in name \
                    else "embedding"
                parts[part] += size / (LAYERS if part == "layer" else 1)
            bound = total / RANKS + sum(sorted(parts.values())[1:])
            gathered, early = gathered_bytes(session, artifact)
            held, promised = shard + gathered, info["entries"]["step"]["gathered_bytes"]
            title = f"{model} {' '.join(options)}"
            if "--zero3-gathers=keep" in options:
                session.check(f"{title}: what is kept is counted", held > shard + 0.95 * LAYERS * parts["layer"],
                              f"{held} bytes, {shard + total} with all")
            else:
                session.check(f"{title}: gathered weights are freed", held <= bound,
                              f"{held} bytes, at most {bound:.0f}, all {total}")
                session.check(f"{title}: one layer is gathered ahead",
                              0 < early - gathered <= parts["layer"] + 1,
                              f"{early - gathered} bytes, at most {parts['layer']:.0f}")
            session.check(f"{title}: lifetimes hold what is counted",
                          0 < gathered <= early <= promised,
                          f"{gathered} bytes, {early} with those on their way, at most {promised}")


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 300))
