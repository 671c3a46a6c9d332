"""Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3")
and the random numbers that the compiler's `nn.random` makes of it."""

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
MASK = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    """Four words from four counter words (arrays that broadcast) and two of a key."""
    c = [np.asarray(word, np.uint64) & MASK for word in counter]
    k = [int(word) & 0xFFFFFFFF for word in key]
    for _ in range(10):
        p0, p1 = np.uint64(MULTIPLIERS[0]) * c[0], np.uint64(MULTIPLIERS[1]) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), p1 & MASK,
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p0 & MASK]
        k = [(word + weyl) & 0xFFFFFFFF for word, weyl in zip(k, WEYL)]
    return c


def random(kind, shape, key, stream, sample_dim, offsets=None, whole=None):
    """`nn.random`: key holds the seed's two words, the step and the first sample; the
    counter is (index within the sample, sample, stream, step), in the tensor of shape
    `whole` of which this is the part that begins at `offsets`."""
    size = int(np.prod(shape))
    whole = whole if whole is not None else shape
    offsets = offsets if offsets is not None else [0] * len(shape)
    inner = int(np.prod(whole[1:] if sample_dim else whole))
    flat = np.zeros(shape, np.uint64)
    for dim, (offset, count) in enumerate(zip(offsets, whole, strict=True)):
        index = np.arange(shape[dim], dtype=np.uint64) + np.uint64(int(offset))
        flat = flat * np.uint64(count) + index.reshape([-1] + [1] * (len(shape) - dim - 1))
    flat = flat.reshape(-1)
    sample = flat // np.uint64(inner) + np.uint64(int(key[3])) if sample_dim \
        else np.zeros(size, np.uint64)
    words = philox((flat % np.uint64(inner), sample, np.full(size, int(stream) & 0xFFFFFFFF),
                    np.full(size, int(key[2]) & 0xFFFFFFFF)), key[:2])
    if kind == "bits":
        return words[0].astype(np.uint32).view(np.int32).reshape(shape)
    top = [(word >> np.uint64(8)).astype(np.float64) for word in words]
    if kind == "uniform":
        result = top[0] * 2.0 ** -24
    else:
        result = np.sqrt(-2 * np.log((top[0] + 1) * 2.0 ** -24)) \
            * np.cos(2 * np.pi * top[1] * 2.0 ** -24)
    return result.reshape(shape)
