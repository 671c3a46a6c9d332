#!/usr/bin/env python3
"""The same training step in another framework, for benchmarks/step.py.

    PYTHON benchmarks/peer_step.py FRAMEWORK KIND LAYERS HIDDEN HEADS VOCAB SEQ BATCH FFN THREADS

FRAMEWORK is torch or jax, KIND gpt or llama. Prints the name and version, then waits: for
each line on standard input it takes one AdamW step in f32 with clipping to norm 1 on
fresh random tokens and prints its milliseconds. Weights are random normal 0.02; tied to
the embedding where KIND is gpt. Exits with status 3 where the framework is not there.
"""

import math
import os
import sys
import time

FRAMEWORK, KIND = sys.argv[1], sys.argv[2]
LAYERS, HIDDEN, HEADS, VOCAB, SEQ, BATCH, FFN, THREADS = map(int, sys.argv[3:11])


def shapes():
    """Weights by name, as Hugging Face's models have them."""
    result = {"embed": (VOCAB, HIDDEN)}
    if KIND == "gpt":
        result["position"] = (SEQ, HIDDEN)
    else:
        result["head"] = (VOCAB, HIDDEN)
    for i in range(LAYERS):
        layer = {"norm1": (HIDDEN,), "norm2": (HIDDEN,), "qkv": (HIDDEN, 3 * HIDDEN),
                 "out": (HIDDEN, HIDDEN), "down": (FFN, HIDDEN)}
        if KIND == "gpt":
            layer.update({"norm1_b": (HIDDEN,), "norm2_b": (HIDDEN,), "qkv_b": (3 * HIDDEN,),
                          "out_b": (HIDDEN,), "down_b": (HIDDEN,), "up": (HIDDEN, FFN),
                          "up_b": (FFN,)})
        else:
            layer["up"] = (HIDDEN, 2 * FFN)
        result.update({f"{i}.{name}": shape for name, shape in layer.items()})
    result["norm"] = (HIDDEN,)
    if KIND == "gpt":
        result["norm_b"] = (HIDDEN,)
    return result


def serve(step):
    import numpy as np
    random = np.random.default_rng(0)
    for _ in sys.stdin:
        tokens = random.integers(0, VOCAB, (BATCH, SEQ + 1))
        start = time.perf_counter()
        step(tokens[:, :-1], tokens[:, 1:])
        print(f"{1e3 * (time.perf_counter() - start):.3f}", flush=True)


def run_torch():
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    p = {name: torch.nn.Parameter(torch.ones(shape) if name.split(".")[-1].startswith("norm")
                                  and not name.endswith("_b") else 0.02 * torch.randn(shape))
         for name, shape in shapes().items()}
    decayed = [value for value in p.values() if value.dim() > 1]
    others = [value for value in p.values() if value.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                                   {"params": others, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.95))
    size = HIDDEN // HEADS

    def norm(x, name):
        if KIND == "gpt":
            return F.layer_norm(x, (HIDDEN,), p[name], p[name + "_b"])
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * p[name]

    def rotate(x):
        angle = (torch.arange(SEQ)[:, None]
                 * 10000.0 ** (-torch.arange(0, size, 2) / size)[None])
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., :size // 2], x[..., size // 2:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(q, k, v):
        if hasattr(F, "scaled_dot_product_attention"):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-1, -2) / math.sqrt(size)
        hidden = torch.ones(SEQ, SEQ, dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v

    def step(tokens, targets):
        tokens, targets = torch.from_numpy(tokens), torch.from_numpy(targets.copy())
        x = p["embed"][tokens]
        if KIND == "gpt":
            x = x + p["position"]
        for i in range(LAYERS):
            bias = lambda name: p[f"{i}.{name}_b"] if KIND == "gpt" else 0
            qkv = norm(x, f"{i}.norm1") @ p[f"{i}.qkv"] + bias("qkv")
            q, k, v = (t.view(BATCH, SEQ, HEADS, size).transpose(1, 2)
                       for t in qkv.split(HIDDEN, -1))
            if KIND != "gpt":
                q, k = rotate(q), rotate(k)
            a = attention(q, k, v).transpose(1, 2).reshape(BATCH, SEQ, HIDDEN)
            x = x + a @ p[f"{i}.out"] + bias("out")
            h = norm(x, f"{i}.norm2") @ p[f"{i}.up"] + bias("up")
            if KIND == "gpt":
                h = F.gelu(h, approximate="tanh")
            else:
                gate, up = h.split(FFN, -1)
                h = F.silu(gate) * up
            x = x + h @ p[f"{i}.down"] + bias("down")
        logits = norm(x, "norm") @ p["embed" if KIND == "gpt" else "head"].T
        loss = F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        optimizer.step()
        return loss.item()

    print(f"PyTorch {torch.__version__}", flush=True)
    serve(step)


def run_jax():
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    import jax
    import jax.numpy as jnp
    import numpy as np
    random = np.random.default_rng(0)
    p = {name: jnp.asarray(np.ones(shape, np.float32) if name.split(".")[-1].startswith("norm")
                           and not name.endswith("_b")
                           else 0.02 * random.standard_normal(shape, np.float32))
         for name, shape in shapes().items()}
    size = HIDDEN // HEADS

    def loss(p, tokens, targets):
        def norm(x, name):
            if KIND == "gpt":
                x = x - x.mean(-1, keepdims=True)
                return (x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * p[name]
                        + p[name + "_b"])
            return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * p[name]

        angle = np.arange(SEQ)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)[None]
        cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))

        def rotate(x):
            a, b = x[..., :size // 2], x[..., size // 2:]
            return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

        x = p["embed"][tokens]
        if KIND == "gpt":
            x = x + p["position"]
        for i in range(LAYERS):
            bias = lambda name: p[f"{i}.{name}_b"] if KIND == "gpt" else 0
            qkv = norm(x, f"{i}.norm1") @ p[f"{i}.qkv"] + bias("qkv")
            q, k, v = (t.reshape(BATCH, SEQ, HEADS, size).transpose(0, 2, 1, 3)
                       for t in jnp.split(qkv, 3, -1))
            if KIND != "gpt":
                q, k = rotate(q), rotate(k)
            scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(size)
            scores = jnp.where(np.tril(np.ones((SEQ, SEQ), bool)), scores, -jnp.inf)
            a = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(BATCH, SEQ, HIDDEN)
            x = x + a @ p[f"{i}.out"] + bias("out")
            h = norm(x, f"{i}.norm2") @ p[f"{i}.up"] + bias("up")
            if KIND == "gpt":
                h = jax.nn.gelu(h, approximate=True)
            else:
                gate, up = jnp.split(h, 2, -1)
                h = jax.nn.silu(gate) * up
            x = x + h @ p[f"{i}.down"] + bias("down")
        logits = norm(x, "norm") @ p["embed" if KIND == "gpt" else "head"].T
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)
        return -chosen.mean()

    def update(p, m, v, t, tokens, targets):
        value, g = jax.value_and_grad(loss)(p, tokens, targets)
        length = jnp.sqrt(sum(jnp.square(x).sum() for x in g.values()))
        scale = jnp.minimum(1.0, 1.0 / (length + 1e-6))
        new_p, new_m, new_v = {}, {}, {}
        for name in p:
            grad = g[name] * scale
            new_m[name] = 0.9 * m[name] + 0.1 * grad
            new_v[name] = 0.95 * v[name] + 0.05 * jnp.square(grad)
            step = (new_m[name] / (1 - 0.9 ** t)) / (jnp.sqrt(new_v[name] / (1 - 0.95 ** t)) + 1e-8)
            decay = 0.1 if p[name].ndim > 1 else 0.0
            new_p[name] = p[name] - 1e-3 * (step + decay * p[name])
        return new_p, new_m, new_v, value

    compiled = jax.jit(update, donate_argnums=(0, 1, 2))
    state = [p, {k: jnp.zeros_like(x) for k, x in p.items()},
             {k: jnp.zeros_like(x) for k, x in p.items()}]
    count = [0]

    def step(tokens, targets):
        count[0] += 1
        *state[:], value = compiled(*state, float(count[0]), tokens.astype(np.int32),
                                    targets.astype(np.int32))
        return float(value)

    print(f"JAX {jax.__version__}", flush=True)
    serve(step)


if __name__ == "__main__":
    try:
        run_torch() if FRAMEWORK == "torch" else run_jax()
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
