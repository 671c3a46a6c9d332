"""The same command gives the same bits, whatever the number of threads.

    python3 test/e2e/determinism.py build/bin

Losses, norms and the weights after the last step of 1, 2 and 3 threads, and of the
first again, are compared to the bit; compiling again gives the same file. Another
seed has to give something else, or the comparison would prove nothing.
"""

import sys

import support
import data
import models
import safetensors

STEPS, BATCH = 6, 8
# Products large enough to be cut into several tiles.
MODELS = {
    "gpt": models.GPT(layers=2, hidden=192, heads=6, vocab=1009, seq=67),
    "llama": models.Llama(layers=2, hidden=192, heads=6, kv_heads=2, vocab=1009, seq=67,
                          ffn=320),
}


def fingerprint(session, artifact, token_file, threads, seed):
    saved = session.path("saved.safetensors")
    log = session.train(artifact, f"--data={token_file}", f"--steps={STEPS}",
                        f"--seed={seed}", f"--threads={threads}", f"--save={saved}")
    tensors = {name: value.tobytes() for name, value in safetensors.read(saved).items()}
    return [(line["loss"], line["grad_norm"]) for line in log], tensors


def case(session, name, model):
    support.write_model(session, model, BATCH, "model.mlir")
    artifact = session.compile("model.mlir", "step.sheaf", "--microbatches=2")
    # Not by compile(), which has it.
    again = session.path("again.sheaf")
    session.run("sheaf-compile", session.path("model.mlir"), "--microbatches=2", "-o", again)
    with open(artifact, "rb") as one, open(again, "rb") as two:
        session.check(f"{name}: compiled twice, same bytes", one.read() == two.read())
    token_file = session.path("tokens.bin")
    data.write_tokens(token_file, data.synthetic(20011, model.vocab, 1), "u16")
    log, tensors = fingerprint(session, artifact, token_file, 1, 5)
    session.check(f"{name}: {STEPS} steps in the log", len(log) == STEPS)
    for title, threads in (("again", 1), ("2 threads", 2), ("3 threads", 3)):
        other_log, other_tensors = fingerprint(session, artifact, token_file, threads, 5)
        first = next((step for step, pair in enumerate(zip(log, other_log))
                      if pair[0] != pair[1]), None)
        session.check(f"{name}: {title}: losses and norms", log == other_log,
                      "" if first is None else
                      f"step {first}: {log[first]} and {other_log[first]}")
        wrong = [key for key in tensors if tensors[key] != other_tensors.get(key)]
        session.check(f"{name}: {title}: weights", not wrong, " ".join(wrong[:5]))
    other_log, other_tensors = fingerprint(session, artifact, token_file, 1, 6)
    session.check(f"{name}: another seed gives other losses", log != other_log)
    session.check(f"{name}: another seed gives other weights", tensors != other_tensors)


def body(session, _):
    for name, model in MODELS.items():
        case(session, name, model)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 300))
