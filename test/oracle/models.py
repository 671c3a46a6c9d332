"""Forward and backward passes of GPT-2 and Llama, written out in NumPy.

Everything is f64, every derivative is written by hand, and nothing is shared
with the compiler: what a compiled step yields is compared with this. Names and
layouts of the parameters are those of Hugging Face's files.

Notation: B samples, T positions, h hidden size, H heads, K key and value heads,
d size of a head, f size of the MLP, V vocabulary.

Sources: GPT-2 (Radford et al. 2019, and Hugging Face's `GPT2LMHeadModel`);
Llama (Touvron et al. 2023, Hugging Face's `LlamaForCausalLM`); rotary embedding
(Su et al. 2021, section 3.4.2) in the half-split form of Hugging Face; the
frequency scaling of Llama 3.1 ("rope_type": "llama3").
"""

import math
from dataclasses import dataclass

import numpy as np

# --- Pieces: each forward returns what its backward needs. ------------------


def gelu_tanh(x):
    """GELU in its tanh form ("gelu_new"): the value and the derivative."""
    c = math.sqrt(2.0 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    value = 0.5 * x * (1.0 + t)
    slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3 * 0.044715 * x * x)
    return value, slope


def silu(x):
    """x * sigmoid(x): the value and the derivative."""
    s = 1.0 / (1.0 + np.exp(-x))
    return x * s, s * (1.0 + x * (1.0 - s))


def layer_norm(x, weight, bias, eps):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    rstd = 1.0 / np.sqrt((centred ** 2).mean(-1, keepdims=True) + eps)
    xhat = centred * rstd
    return xhat * weight + bias, (xhat, rstd)


def layer_norm_backward(dy, weight, saved):
    """dx, and the weight's and bias's gradient of each position (T x h, summed
    over samples): a device that holds some positions contributes those rows."""
    xhat, rstd = saved
    dxhat = dy * weight
    dx = rstd * (dxhat - dxhat.mean(-1, keepdims=True)
                 - xhat * (dxhat * xhat).mean(-1, keepdims=True))
    return dx, (dy * xhat).sum(0), dy.sum(0)


def rms_norm(x, weight, eps):
    rstd = 1.0 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    xhat = x * rstd
    return xhat * weight, (xhat, rstd)


def rms_norm_backward(dy, weight, saved):
    """dx, and the weight's gradient of each position (T x h)."""
    xhat, rstd = saved
    dxhat = dy * weight
    dx = rstd * (dxhat - xhat * (dxhat * xhat).mean(-1, keepdims=True))
    return dx, (dy * xhat).sum(0)


def split_heads(x, heads):
    """B x T x (heads d) to B x heads x T x d."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def merge_heads(x):
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def attention(q, k, v):
    """Causal attention. q: B x H x T x d; k, v: B x K x T x d; query head i uses
    key head i // (H/K)."""
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
    length, size = q.shape[2], q.shape[3]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(size)
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights @ v, (q, k, v, weights, groups)


def attention_backward(dy, saved):
    q, k, v, weights, groups = saved
    dv = weights.swapaxes(-1, -2) @ dy
    dweights = dy @ v.swapaxes(-1, -2)
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdims=True))
    dscores /= math.sqrt(q.shape[-1])
    dq = dscores @ k
    dk = dscores.swapaxes(-1, -2) @ q

    def fold(x):
        batch, heads, length, size = x.shape
        return x.reshape(batch, heads // groups, groups, length, size).sum(2)

    return dq, fold(dk), fold(dv)


def cross_entropy(logits, targets, count):
    """Sum over valid targets (>= 0) of the loss, over `count`, and its gradient
    with respect to the logits. `count` is that of the whole step, of which this
    may be one microbatch."""
    valid = targets >= 0
    safe = np.where(valid, targets, 0)
    top = logits.max(-1, keepdims=True)
    exps = np.exp(logits - top)
    total = exps.sum(-1, keepdims=True)
    chosen = np.take_along_axis(logits, safe[..., None], -1)
    losses = (np.log(total) + top - chosen)[..., 0]
    dlogits = exps / total
    np.put_along_axis(dlogits, safe[..., None],
                      np.take_along_axis(dlogits, safe[..., None], -1) - 1.0, -1)
    dlogits *= (valid / count)[..., None]
    return float(np.where(valid, losses, 0.0).sum() / count), dlogits


def outer(x, dy):
    """The gradient of W in y = x W: sum over samples and positions."""
    return np.einsum("bti,bto->io", x, dy, optimize=True)


def rows(table_shape, tokens, dy):
    """The gradient of a table that was read at `tokens`."""
    gradient = np.zeros(table_shape)
    np.add.at(gradient, tokens, dy)
    return gradient


# --- Models -----------------------------------------------------------------


class Gradients(dict):
    """Gradients by parameter name, and two things that plausible mistakes need:
    `norm_positions` has, for each norm's parameter, its gradient by position
    (T x h, its sum over T is the gradient), and `head`, where the head is tied,
    the part of the shared table's gradient that comes from the head."""

    def __init__(self):
        super().__init__()
        self.norm_positions = {}
        self.head = None

    def norm(self, name, positions):
        self.norm_positions[name] = positions
        self[name] = positions.sum(0)

    def accumulate(self, other):
        for name, value in other.items():
            self[name] = self[name] + value if name in self else value
        for name, value in other.norm_positions.items():
            mine = self.norm_positions
            mine[name] = mine[name] + value if name in mine else value
        if other.head is not None:
            self.head = other.head if self.head is None else self.head + other.head


@dataclass
class GPT:
    """GPT-2: learned positions, layer norm before each block, tanh GELU, biases
    everywhere, head tied to the token table. Matrices are stored [in, out]
    (Hugging Face's Conv1D)."""
    layers: int
    hidden: int
    heads: int
    vocab: int
    seq: int
    ffn: int = 0
    eps: float = 1e-5

    tied_name = "transformer.wte.weight"

    def __post_init__(self):
        self.ffn = self.ffn or 4 * self.hidden

    def shapes(self):
        h, f = self.hidden, self.ffn
        result = {"transformer.wte.weight": (self.vocab, h),
                  "transformer.wpe.weight": (self.seq, h)}
        for i in range(self.layers):
            p = f"transformer.h.{i}."
            result.update({
                p + "ln_1.weight": (h,), p + "ln_1.bias": (h,),
                p + "attn.c_attn.weight": (h, 3 * h), p + "attn.c_attn.bias": (3 * h,),
                p + "attn.c_proj.weight": (h, h), p + "attn.c_proj.bias": (h,),
                p + "ln_2.weight": (h,), p + "ln_2.bias": (h,),
                p + "mlp.c_fc.weight": (h, f), p + "mlp.c_fc.bias": (f,),
                p + "mlp.c_proj.weight": (f, h), p + "mlp.c_proj.bias": (h,)})
        result.update({"transformer.ln_f.weight": (h,), "transformer.ln_f.bias": (h,)})
        return result

    def layer_of(self, name):
        """The layer a parameter belongs to, or None."""
        return int(name.split(".")[2]) if name.startswith("transformer.h.") else None

    def is_norm(self, name):
        return ".ln_" in name

    def is_output_projection(self, name):
        return name.endswith("c_proj.weight")

    def forward(self, params, tokens):
        """Logits B x T x V and what the backward pass needs."""
        w = params
        x = w["transformer.wte.weight"][tokens] \
            + w["transformer.wpe.weight"][:tokens.shape[1]]
        saved = []
        for i in range(self.layers):
            p = f"transformer.h.{i}."
            n1, s1 = layer_norm(x, w[p + "ln_1.weight"], w[p + "ln_1.bias"], self.eps)
            qkv = n1 @ w[p + "attn.c_attn.weight"] + w[p + "attn.c_attn.bias"]
            q, k, v = (split_heads(part, self.heads) for part in np.split(qkv, 3, -1))
            mixed, sa = attention(q, k, v)
            mixed = merge_heads(mixed)
            x = x + mixed @ w[p + "attn.c_proj.weight"] + w[p + "attn.c_proj.bias"]
            n2, s2 = layer_norm(x, w[p + "ln_2.weight"], w[p + "ln_2.bias"], self.eps)
            act, slope = gelu_tanh(n2 @ w[p + "mlp.c_fc.weight"] + w[p + "mlp.c_fc.bias"])
            x = x + act @ w[p + "mlp.c_proj.weight"] + w[p + "mlp.c_proj.bias"]
            saved.append((n1, s1, mixed, sa, n2, s2, act, slope))
        last, sf = layer_norm(x, w["transformer.ln_f.weight"], w["transformer.ln_f.bias"],
                              self.eps)
        return last @ w["transformer.wte.weight"].T, (tokens, saved, last, sf)

    def backward(self, params, kept, dlogits):
        w, g = params, Gradients()
        tokens, saved, last, sf = kept
        g.head = np.einsum("btv,bth->vh", dlogits, last, optimize=True)
        dx, dw, db = layer_norm_backward(dlogits @ w["transformer.wte.weight"],
                                         w["transformer.ln_f.weight"], sf)
        g.norm("transformer.ln_f.weight", dw)
        g.norm("transformer.ln_f.bias", db)
        for i in reversed(range(self.layers)):
            p = f"transformer.h.{i}."
            n1, s1, mixed, sa, n2, s2, act, slope = saved[i]
            g[p + "mlp.c_proj.weight"] = outer(act, dx)
            g[p + "mlp.c_proj.bias"] = dx.sum((0, 1))
            dpre = (dx @ w[p + "mlp.c_proj.weight"].T) * slope
            g[p + "mlp.c_fc.weight"] = outer(n2, dpre)
            g[p + "mlp.c_fc.bias"] = dpre.sum((0, 1))
            dn, dw, db = layer_norm_backward(dpre @ w[p + "mlp.c_fc.weight"].T,
                                             w[p + "ln_2.weight"], s2)
            g.norm(p + "ln_2.weight", dw)
            g.norm(p + "ln_2.bias", db)
            dx = dx + dn
            g[p + "attn.c_proj.weight"] = outer(mixed, dx)
            g[p + "attn.c_proj.bias"] = dx.sum((0, 1))
            dmixed = split_heads(dx @ w[p + "attn.c_proj.weight"].T, self.heads)
            dqkv = np.concatenate([merge_heads(part)
                                   for part in attention_backward(dmixed, sa)], -1)
            g[p + "attn.c_attn.weight"] = outer(n1, dqkv)
            g[p + "attn.c_attn.bias"] = dqkv.sum((0, 1))
            dn, dw, db = layer_norm_backward(dqkv @ w[p + "attn.c_attn.weight"].T,
                                             w[p + "ln_1.weight"], s1)
            g.norm(p + "ln_1.weight", dw)
            g.norm(p + "ln_1.bias", db)
            dx = dx + dn
        g["transformer.wte.weight"] = g.head + rows((self.vocab, self.hidden), tokens, dx)
        table = np.zeros((self.seq, self.hidden))
        table[:tokens.shape[1]] = dx.sum(0)
        g["transformer.wpe.weight"] = table
        return g


@dataclass
class Llama:
    """Llama: RMS norm, rotary embedding, grouped key and value heads, SwiGLU, no
    biases. Matrices are stored [out, in]. `rope_scaling` is None or Llama 3.1's
    {"factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings"}."""
    layers: int
    hidden: int
    heads: int
    vocab: int
    seq: int
    kv_heads: int = 0
    ffn: int = 0
    head_dim: int = 0
    eps: float = 1e-5
    theta: float = 10000.0
    rope_scaling: dict = None
    tied: bool = False

    def __post_init__(self):
        self.kv_heads = self.kv_heads or self.heads
        self.ffn = self.ffn or -(-8 * self.hidden // 3 // 64) * 64
        self.head_dim = self.head_dim or self.hidden // self.heads
        self.tied_name = "model.embed_tokens.weight" if self.tied else None

    def shapes(self):
        h, f, d = self.hidden, self.ffn, self.head_dim
        result = {"model.embed_tokens.weight": (self.vocab, h)}
        for i in range(self.layers):
            p = f"model.layers.{i}."
            result.update({
                p + "input_layernorm.weight": (h,),
                p + "self_attn.q_proj.weight": (self.heads * d, h),
                p + "self_attn.k_proj.weight": (self.kv_heads * d, h),
                p + "self_attn.v_proj.weight": (self.kv_heads * d, h),
                p + "self_attn.o_proj.weight": (h, self.heads * d),
                p + "post_attention_layernorm.weight": (h,),
                p + "mlp.gate_proj.weight": (f, h), p + "mlp.up_proj.weight": (f, h),
                p + "mlp.down_proj.weight": (h, f)})
        result["model.norm.weight"] = (h,)
        if not self.tied:
            result["lm_head.weight"] = (self.vocab, h)
        return result

    def layer_of(self, name):
        return int(name.split(".")[2]) if name.startswith("model.layers.") else None

    def is_norm(self, name):
        return "norm" in name

    def is_output_projection(self, name):
        return name.endswith(("o_proj.weight", "down_proj.weight"))

    def frequencies(self):
        """d/2 angular frequencies: theta^(-2i/d), scaled as Llama 3.1 says."""
        d = self.head_dim
        result = []
        for i in range(d // 2):
            freq = self.theta ** (-2.0 * i / d)
            if self.rope_scaling:
                s = self.rope_scaling
                low, high = s["low_freq_factor"], s["high_freq_factor"]
                context = s["original_max_position_embeddings"]
                turns = context * freq / (2 * math.pi)
                if turns < low:
                    freq = freq / s["factor"]
                elif turns <= high:
                    mix = (turns - low) / (high - low)
                    freq = (1 - mix) * freq / s["factor"] + mix * freq
            result.append(freq)
        return np.array(result)

    def angles(self, length):
        grid = np.arange(length)[:, None] * self.frequencies()[None, :]
        return np.cos(grid), np.sin(grid)

    @staticmethod
    def rotate(x, cos, sin):
        """Turns the pair (x[i], x[i + d/2]) by its angle."""
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, params, tokens):
        w = params
        x = w["model.embed_tokens.weight"][tokens]
        cos, sin = self.angles(tokens.shape[1])
        saved = []
        for i in range(self.layers):
            p = f"model.layers.{i}."
            n1, s1 = rms_norm(x, w[p + "input_layernorm.weight"], self.eps)
            q = split_heads(n1 @ w[p + "self_attn.q_proj.weight"].T, self.heads)
            k = split_heads(n1 @ w[p + "self_attn.k_proj.weight"].T, self.kv_heads)
            v = split_heads(n1 @ w[p + "self_attn.v_proj.weight"].T, self.kv_heads)
            mixed, sa = attention(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v)
            mixed = merge_heads(mixed)
            x = x + mixed @ w[p + "self_attn.o_proj.weight"].T
            n2, s2 = rms_norm(x, w[p + "post_attention_layernorm.weight"], self.eps)
            act, slope = silu(n2 @ w[p + "mlp.gate_proj.weight"].T)
            up = n2 @ w[p + "mlp.up_proj.weight"].T
            x = x + (act * up) @ w[p + "mlp.down_proj.weight"].T
            saved.append((n1, s1, mixed, sa, n2, s2, act, slope, up))
        last, sf = rms_norm(x, w["model.norm.weight"], self.eps)
        head = w["model.embed_tokens.weight" if self.tied else "lm_head.weight"]
        return last @ head.T, (tokens, saved, last, sf)

    def backward(self, params, kept, dlogits):
        w, g = params, Gradients()
        tokens, saved, last, sf = kept
        cos, sin = self.angles(tokens.shape[1])
        head = w["model.embed_tokens.weight" if self.tied else "lm_head.weight"]
        dhead = np.einsum("btv,bth->vh", dlogits, last, optimize=True)
        dx, dw = rms_norm_backward(dlogits @ head, w["model.norm.weight"], sf)
        g.norm("model.norm.weight", dw)
        for i in reversed(range(self.layers)):
            p = f"model.layers.{i}."
            n1, s1, mixed, sa, n2, s2, act, slope, up = saved[i]
            g[p + "mlp.down_proj.weight"] = outer(dx, act * up)
            dprod = dx @ w[p + "mlp.down_proj.weight"]
            dgate, dup = dprod * up * slope, dprod * act
            g[p + "mlp.gate_proj.weight"] = outer(dgate, n2)
            g[p + "mlp.up_proj.weight"] = outer(dup, n2)
            dn, dw = rms_norm_backward(
                dgate @ w[p + "mlp.gate_proj.weight"] + dup @ w[p + "mlp.up_proj.weight"],
                w[p + "post_attention_layernorm.weight"], s2)
            g.norm(p + "post_attention_layernorm.weight", dw)
            dx = dx + dn
            g[p + "self_attn.o_proj.weight"] = outer(dx, mixed)
            dq, dk, dv = attention_backward(
                split_heads(dx @ w[p + "self_attn.o_proj.weight"], self.heads), sa)
            # The transpose of a rotation is the rotation by the negative angle.
            dq = merge_heads(self.rotate(dq, cos, -sin))
            dk = merge_heads(self.rotate(dk, cos, -sin))
            dv = merge_heads(dv)
            dn = 0.0
            for part, name in ((dq, "q_proj"), (dk, "k_proj"), (dv, "v_proj")):
                key = p + f"self_attn.{name}.weight"
                g[key] = outer(part, n1)
                dn = dn + part @ w[key]
            dn, dw = rms_norm_backward(dn, w[p + "input_layernorm.weight"], s1)
            g.norm(p + "input_layernorm.weight", dw)
            dx = dx + dn
        table = rows((self.vocab, self.hidden), tokens, dx)
        if self.tied:
            g.head = dhead
            g["model.embed_tokens.weight"] = table + dhead
        else:
            g["model.embed_tokens.weight"] = table
            g["lm_head.weight"] = dhead
        return g


def initial(model, seed):
    """Initial values as `sheaf-model` describes them: normal 0.02, output
    projections 0.02/sqrt(2 layers), norms 1, biases 0. Other random numbers than
    the compiler's, so for tests of this library and for files to load."""
    random = np.random.default_rng(seed)
    params = {}
    for name, shape in model.shapes().items():
        if name.endswith(".bias"):
            params[name] = np.zeros(shape)
        elif model.is_norm(name):
            params[name] = np.ones(shape)
        else:
            scale = 0.02
            if model.is_output_projection(name):
                scale /= math.sqrt(2 * model.layers)
            params[name] = scale * random.standard_normal(shape)
    return params


def loss_and_gradients(model, params, tokens, targets, microbatches=1):
    """Loss and gradients of one step. The loss is the sum over the valid targets
    of the step divided by their count, whatever the number of microbatches.
    Returns (loss, Gradients). Raises ValueError if no target is valid."""
    if tokens.shape[0] % microbatches:
        raise ValueError(f"batch of {tokens.shape[0]} in {microbatches} microbatches")
    count = int((targets >= 0).sum())
    if count == 0:
        raise ValueError("no valid target")
    loss, gradients = 0.0, Gradients()
    for part, goal in zip(np.split(tokens, microbatches), np.split(targets, microbatches)):
        logits, kept = model.forward(params, part)
        share, dlogits = cross_entropy(logits, goal, count)
        loss += share
        gradients.accumulate(model.backward(params, kept, dlogits))
    return loss, gradients


def loss_only(model, params, tokens, targets):
    """The loss of one batch."""
    logits, _ = model.forward(params, tokens)
    return cross_entropy(logits, targets, int((targets >= 0).sum()))[0]
