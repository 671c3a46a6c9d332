"""The arena of a GPT grows linearly with the length of the sequence.

    python3 test/e2e/linear_memory.py build/bin

Compiles the same model for 2048, 4096 and 8192 positions and reads the arena of
`step` from the manifest. What is linear doubles its increase with each doubling;
scores kept as a square would quadruple it. Nothing is run.
"""

import json
import sys

import support
import models

LENGTHS = (2048, 4096, 8192)
MODELS = {
    "gpt": lambda seq: models.GPT(layers=2, hidden=64, heads=4, vocab=64, seq=seq, ffn=256),
    "llama": lambda seq: models.Llama(layers=2, hidden=64, heads=4, kv_heads=2, vocab=64,
                                      seq=seq, ffn=192),
}


def arena(session, model):
    support.write_model(session, model, 1, "model.mlir")
    artifact = session.compile("model.mlir", "step.sheaf")
    manifest = json.loads(session.run("sheaf-run", artifact, "--info=json"))
    return manifest["entries"]["step"]["arena_bytes"]


def body(session, _):
    for name, make in MODELS.items():
        sizes = [arena(session, make(length)) for length in LENGTHS]
        shown = ", ".join(f"{size / 2**20:.1f} MiB at {length}"
                          for size, length in zip(sizes, LENGTHS))
        session.check(f"{name}: the arena holds at least the residual stream",
                      all(size >= 4 * 64 * length for size, length in zip(sizes, LENGTHS)),
                      shown)
        first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
        session.check(f"{name}: linear growth",
                      first > 0 and 1.9 * first <= second <= 2.1 * first,
                      f"increases of {first} and {second} bytes; {shown}")


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 240))
