"""Exchange of weights with files of Hugging Face's names and layouts.

    python3 test/e2e/interchange.py build/bin

A file that the oracle wrote is loaded and saved again without a step: every value
must come back to the bit, in a file that the strict reader accepts. The loss of the
loaded weights is the oracle's, so a transposed or exchanged tensor of a square shape
is seen too. Files that do not fit are refused by the tensor's name, and nothing is
written.
"""

import os
import sys

import numpy as np

import support
import data
import models
import safetensors

BATCH = 4
# Square matrices on purpose, so that a transposed one has the right shape.
MODELS = {
    "gpt": models.GPT(layers=2, hidden=32, heads=4, vocab=61, seq=16, ffn=32),
    "llama": models.Llama(layers=2, hidden=32, heads=4, kv_heads=4, vocab=61, seq=16,
                          ffn=32),
    "tied llama": models.Llama(layers=1, hidden=32, heads=4, kv_heads=2, vocab=61, seq=16,
                               ffn=32, tied=True),
}


def weights(model, seed):
    random = np.random.default_rng(seed)
    return {name: (value + 0.1 * random.standard_normal(value.shape)).astype(np.float32)
            for name, value in models.initial(model, seed).items()}


def load_and_save(session, artifact, source):
    target = session.path("saved.safetensors")
    if os.path.exists(target):
        os.remove(target)
    status, _, err = session.try_run("sheaf-run", artifact, f"--load={source}", "--steps=0",
                                     f"--save={target}")
    return status, err, target


def refused(session, title, artifact, tensors, word):
    source = session.path("wrong.safetensors")
    safetensors.write(source, tensors)
    status, err, target = load_and_save(session, artifact, source)
    session.check(f"{title}: exit status 1", status == 1, f"found {status}")
    session.check(f"{title}: the message names {word}", word in err, err.strip()[-300:])
    session.check(f"{title}: nothing written", not os.path.exists(target))


def case(session, name, model):
    support.write_model(session, model, BATCH, "model.mlir", from_config=True)
    artifact = session.compile("model.mlir", "step.sheaf", "--optimizer=sgd")
    tensors = weights(model, 11)

    # Another order than the model's, and a metadata entry, as real files have.
    source = session.path("weights.safetensors")
    order = sorted(tensors, reverse=True)
    safetensors.write(source, {key: tensors[key] for key in order}, {"format": "pt"})
    status, err, target = load_and_save(session, artifact, source)
    if not session.check(f"{name}: loads", status == 0, err.strip()[-300:]):
        return
    saved = safetensors.read(target)
    session.check(f"{name}: same names", set(saved) == set(tensors))
    session.check(f"{name}: f32", set(safetensors.dtypes(target).values()) == {"F32"})
    wrong = [key for key in tensors
             if key not in saved or saved[key].tobytes() != tensors[key].tobytes()
             or saved[key].shape != tensors[key].shape]
    session.check(f"{name}: same values", not wrong, " ".join(wrong[:5]))

    tokens = data.synthetic(500, model.vocab, 2)
    token_file = session.path("tokens.bin")
    data.write_tokens(token_file, tokens, "u16")
    log = session.train(artifact, f"--data={token_file}", "--steps=1", f"--load={source}")
    want = models.loss_only(model, {key: value.astype(np.float64)
                                    for key, value in tensors.items()},
                            *data.batch(tokens, 0, BATCH, model.seq))
    error = abs(log[0]["loss"] - want) / want
    session.check(f"{name}: loss of the loaded weights", error < 2e-6,
                  f"{log[0]['loss']} against {want}")

    victim = order[len(order) // 2]
    refused(session, f"{name}: a tensor missing", artifact,
            {key: value for key, value in tensors.items() if key != victim}, victim)
    refused(session, f"{name}: a wrong shape", artifact,
            {**tensors, victim: np.zeros((3, 5), np.float32)}, victim)
    # Files of released models are often bf16: widened exactly, or refused by type.
    safetensors.write(source, tensors, bf16=list(tensors))
    status, err, target = load_and_save(session, artifact, source)
    if status == 0:
        want, got = safetensors.read(source), safetensors.read(target)
        session.check(f"{name}: bf16 widened",
                      all(np.array_equal(got[key], want[key]) for key in want))
    else:
        session.check(f"{name}: bf16 refused by name", status == 1 and "BF16" in err,
                      err.strip()[-300:])
    with open(source, "r+b") as file:
        file.truncate(os.path.getsize(source) - 4)
    status, err, target = load_and_save(session, artifact, source)
    session.check(f"{name}: a truncated file is refused",
                  status == 1 and err.strip() != "" and not os.path.exists(target),
                  err.strip()[-300:])


def body(session, _):
    for name, model in MODELS.items():
        case(session, name, model)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 180))
