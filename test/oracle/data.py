"""Batches from token files, in the order that every run must follow.

Sample j = step * batch + i reads the T + 1 tokens [jT, jT + T] of the file, as if
the file went round and round; its targets are its tokens shifted by one.
Files: raw uint8, uint16 or uint32, or llm.c's with a header of 256 int32.
"""

import numpy as np

RAW = {"u8": np.dtype("u1"), "u16": np.dtype("<u2"), "u32": np.dtype("<u4")}
HEADER_INTS = 256
# First two header words of llm.c's files: magic and version.
LLMC = {(20240520, 1): RAW["u16"], (20240801, 7): RAW["u32"]}


def read_tokens(path, token_type="u16"):
    """All tokens of a file as int64. Raises ValueError on a bad header."""
    with open(path, "rb") as file:
        raw = file.read()
    if len(raw) >= 4 * HEADER_INTS:
        header = np.frombuffer(raw[:4 * HEADER_INTS], "<i4")
        dtype = LLMC.get((int(header[0]), int(header[1])))
        if dtype is not None:
            tokens = np.frombuffer(raw[4 * HEADER_INTS:], dtype)
            if len(tokens) != header[2]:
                raise ValueError(f"header says {header[2]} tokens, file has {len(tokens)}")
            return tokens.astype(np.int64)
    return np.frombuffer(raw, RAW[token_type]).astype(np.int64)


def write_tokens(path, tokens, token_type="u16", header=False):
    """Writes a raw file, or llm.c's with `header`."""
    with open(path, "wb") as file:
        if header:
            words = np.zeros(HEADER_INTS, "<i4")
            magic = next(key for key, dtype in LLMC.items() if dtype == RAW[token_type])
            words[:3] = magic[0], magic[1], len(tokens)
            file.write(words.tobytes())
        file.write(np.asarray(tokens).astype(RAW[token_type]).tobytes())


def batch(tokens, step, size, length):
    """(tokens, targets) of one step, each size x length."""
    samples = step * size + np.arange(size)
    index = (samples[:, None] * length + np.arange(length + 1)[None, :]) % len(tokens)
    window = tokens[index]
    return window[:, :-1], window[:, 1:]


def synthetic(count, vocab, seed):
    """Tokens with something to learn: each is a fixed function of the last one
    half of the time, and random otherwise."""
    random = np.random.default_rng(seed)
    successor = random.permutation(vocab)
    noise = random.integers(0, vocab, count)
    follow = random.random(count) < 0.5
    result = np.empty(count, np.int64)
    last = 0
    for i in range(count):
        last = successor[last] if follow[i] else noise[i]
        result[i] = last
    return result
