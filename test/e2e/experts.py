"""Models with experts compute what their papers say, however a step is cut.

    python3 test/e2e/experts.py build/bin

Mixtral, Qwen-MoE and DeepSeek models in f64, written by options and by config.json, against
forward passes in NumPy that go expert by expert: loss, losses that balance, dropped tokens, and
gradients by finite differences. Cases: ties, experts without a token, all tokens to the same
experts, one choice, as many as there are experts, a capacity. Any number of microbatches and
every recompute policy give the same. A step moves the biases that balance experts as their
load says. Files have the names of Hugging Face's. In f32, the products that a run counts
are those of the rows that experts get, and --verify compares with the reference program.
"""

import json
import re
import sys

import numpy as np

import support
import safetensors

SEQ, BATCH, VOCAB = 6, 4, 19


def silu(x):
    return x / (1 + np.exp(-x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, scale, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * scale


def turn(x, theta, factor=None):
    """Rotary positions of [seq, heads, width], in halves."""
    width = x.shape[-1]
    frequency = theta ** (-2.0 * np.arange(width // 2) / width)
    if factor is not None:
        frequency = frequency / factor
    angle = np.arange(len(x))[:, None, None] * frequency
    a, b = x[..., :width // 2], x[..., width // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle),
                           b * np.cos(angle) + a * np.sin(angle)], -1)


class Reference:
    """The forward pass of one model, sample by sample, with weights under the names of
    Hugging Face's files."""

    def __init__(self, weights, **options):
        self.weights = weights
        self.options = {"eps": 1e-5, "theta": 1e4, "heads": 2, "kv_heads": 2, "layers": 2,
                        "k": 2, "experts": 4, "style": "mixtral", "scoring": "softmax",
                        "normalised": True, "scale": 1.0, "groups": 1, "kept": 1, "best": 1,
                        "dense": 0, "capacity": None, **options}
        self.balance = self.z = self.dropped = 0.0
        self.load = {}

    def __getattr__(self, name):
        return self.options[name]

    def attention(self, layer, x):
        w = {name: self.weights[f"model.layers.{layer}.self_attn.{name}"] for name in
             [key.rpartition("self_attn.")[2] for key in self.weights
              if f"layers.{layer}.self_attn." in key]}
        if "kv_a_proj_with_mqa.weight" in w:
            query, key, value, scale = self.latent(w, x)
        else:
            def heads(which, count):
                y = x @ w[f"{which}_proj.weight"].T + w.get(f"{which}_proj.bias", 0.0)
                return y.reshape(len(x), count, -1)

            query, key = heads("q", self.heads), heads("k", self.kv_heads)
            value = heads("v", self.kv_heads)
            if "q_norm.weight" in w:
                query = rms(query, w["q_norm.weight"], self.eps)
                key = rms(key, w["k_norm.weight"], self.eps)
            query, key = turn(query, self.theta), turn(key, self.theta)
            scale = query.shape[-1] ** -0.5
        each = query.shape[1] // key.shape[1]
        outputs = []
        for head in range(query.shape[1]):
            scores = scale * query[:, head] @ key[:, head // each].T
            scores[np.triu_indices(len(x), 1)] = -np.inf
            outputs.append(softmax(scores) @ value[:, head // each])
        return np.concatenate(outputs, -1) @ w["o_proj.weight"].T

    def latent(self, w, x):
        rope, nope, width = self.rope, self.nope, self.v_width
        if "q_a_proj.weight" in w:
            query = rms(x @ w["q_a_proj.weight"].T, w["q_a_layernorm.weight"], 1e-6)
            query = query @ w["q_b_proj.weight"].T
        else:
            query = x @ w["q_proj.weight"].T
        query = query.reshape(len(x), self.heads, nope + rope)
        both = x @ w["kv_a_proj_with_mqa.weight"].T
        narrow = rms(both[:, :-rope], w["kv_a_layernorm.weight"], 1e-6)
        out = (narrow @ w["kv_b_proj.weight"].T).reshape(len(x), self.heads, nope + width)

        def pairs(y):
            """The complex numbers of the paper, as pairs side by side."""
            return turn(np.concatenate([y[..., 0::2], y[..., 1::2]], -1), self.theta)

        one = pairs(both[:, None, -rope:])
        query = np.concatenate([query[..., :nope], pairs(query[..., nope:])], -1)
        key = np.concatenate([out[..., :nope], np.repeat(one, self.heads, 1)], -1)
        return query, key, out[..., nope:], (nope + rope) ** -0.5

    def mlp(self, prefix, x, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = (self.weights[f"{prefix}.{name}.weight"] for name in names)
        return (silu(x @ gate.T) * (x @ up.T)) @ down.T

    def mixture(self, layer, x):
        if layer < self.dense:
            return self.mlp(f"model.layers.{layer}.mlp", x)
        module = f"model.layers.{layer}." + ("block_sparse_moe" if self.style == "mixtral"
                                             else "mlp")
        names = ("w1", "w3", "w2") if self.style == "mixtral" \
            else ("gate_proj", "up_proj", "down_proj")
        logits = x @ self.weights[f"{module}.gate.weight"].T
        scores = softmax(logits) if self.scoring == "softmax" else sigmoid(logits)
        bias = self.weights.get(f"{module}.gate.e_score_correction_bias", np.zeros(self.experts))
        size = self.experts // self.groups
        result = np.zeros_like(x)
        counts = np.zeros(self.experts, int)
        for token in range(len(x)):
            choice = scores[token] + bias
            worth = [np.sort(choice[g * size:(g + 1) * size])[::-1][:self.best].sum()
                     for g in range(self.groups)]
            groups = sorted(range(self.groups), key=lambda g: (-worth[g], g))[:self.kept]
            allowed = [e for e in range(self.experts) if e // size in groups]
            chosen = sorted(allowed, key=lambda e: (-choice[e], e))[:self.k]
            weights = scores[token][chosen]
            if self.normalised:
                weights = weights / (weights.sum() + 1e-20)
            for expert, weight in zip(chosen, weights):
                counts[expert] += 1
                if self.capacity is not None and counts[expert] > self.capacity:
                    self.dropped += 1
                    continue
                result[token] += self.scale * weight * self.mlp(
                    f"{module}.experts.{expert}", x[token], names)
        self.load[layer] = self.load.get(layer, 0) + counts
        share = scores / scores.sum(-1, keepdims=True)
        self.balance += self.experts / (self.k * len(x)) * (counts * share.mean(0)).sum()
        top = logits.max(-1)
        self.z += ((top + np.log(np.exp(logits - top[:, None]).sum(-1))) ** 2).mean()
        for shared in ("shared_expert", "shared_experts"):
            if f"{module}.{shared}.gate_proj.weight" in self.weights:
                extra = self.mlp(f"{module}.{shared}", x)
                gate = self.weights.get(f"{module}.{shared}_gate.weight")
                result += extra * sigmoid(x @ gate.T) if gate is not None else extra
        return result

    def losses(self, tokens, targets):
        """Loss of tokens; means of the others over samples with a token that counts."""
        self.balance = self.z = self.dropped = 0.0
        self.load = {}
        total = count = samples = 0
        for sample, goal in zip(tokens, targets):
            kept = self.balance, self.z, self.dropped, {k: +v for k, v in self.load.items()}
            x = self.weights["model.embed_tokens.weight"][sample]
            for layer in range(self.layers):
                prefix = f"model.layers.{layer}."
                normal = rms(x, self.weights[prefix + "input_layernorm.weight"], self.eps)
                x = x + self.attention(layer, normal)
                normal = rms(x, self.weights[prefix + "post_attention_layernorm.weight"],
                             self.eps)
                x = x + self.mixture(layer, normal)
            x = rms(x, self.weights["model.norm.weight"], self.eps)
            logits = x @ self.weights["lm_head.weight"].T
            top = logits.max(-1)
            lse = top + np.log(np.exp(logits - top[:, None]).sum(-1))
            valid = goal >= 0
            total += (lse - logits[np.arange(len(goal)), np.maximum(goal, 0)])[valid].sum()
            count += valid.sum()
            if valid.any():
                samples += 1
            else:  # Padding has no part in the losses, but experts see it.
                self.balance, self.z, self.dropped = kept[:3]
        return {"loss": total / count, "load_balance_loss": self.balance / samples,
                "router_z_loss": self.z / samples, "dropped_tokens": self.dropped}


class Model:
    """An artifact with weights, called entry by entry."""

    def __init__(self, session, name, arguments, compile_options=(), seed=5, spread=0.3):
        self.session, self.name = session, name
        session.run("sheaf-model", *arguments, f"--seq={SEQ}", f"--batch={BATCH}", "--untie",
                    "-o", session.path(f"{name}.mlir"))
        self.artifact = self.compile(*compile_options)
        random = np.random.default_rng(seed)
        start = support.initial_values(session, self.artifact, 1)
        # Far from the start, so that no expert is like another.
        self.weights = {key: value.astype(np.float64) + spread * random.standard_normal(
            value.shape) for key, value in start.items()}
        self.tokens = random.integers(0, VOCAB, (BATCH, SEQ)).astype(np.int32)
        self.targets = random.integers(0, VOCAB, (BATCH, SEQ)).astype(np.int32)
        self.targets[1, 2:5] = -1
        self.targets[3] = -1

    def compile(self, *options):
        output = self.session.path(f"{self.name}{len(options)}.sheaf")
        self.session.run("sheaf-compile", self.session.path(f"{self.name}.mlir"), "-o", output,
                         *options)
        return output

    def call(self, entry, artifact=None, weights=None):
        source, target = self.session.path("in.safetensors"), \
            self.session.path("out.safetensors")
        inputs = {f"parameter:{name}": value
                  for name, value in (weights or self.weights).items()}
        safetensors.write(source, {**inputs, "batch:tokens": self.tokens,
                                   "batch:targets": self.targets})
        self.session.run("sheaf-run", artifact or self.artifact, f"--call={entry}",
                         f"--inputs={source}", f"--outputs={target}")
        return safetensors.read(target)


def check_model(session, name, arguments, weights_of_losses=None, **options):
    """Values, and the gradient along random directions."""
    model = Model(session, name, arguments)
    reference = Reference(model.weights, **options)
    want = reference.losses(model.tokens, model.targets)
    got = model.call("gradients")
    for key in want:
        if f"result:{key}" in got:
            error = abs(float(got[f"result:{key}"]) - want[key])
            session.check(f"{name}: {key}", error <= 1e-10 * max(1, abs(want[key])),
                          f"{float(got[f'result:{key}']):.12g}, expected {want[key]:.12g}")
    session.check(f"{name}: the loss that balances is there", "result:load_balance_loss" in got)
    for layer, load in reference.load.items():
        for key in got:
            if key.startswith(f"result:load:model.layers.{layer}."):
                session.check(f"{name}: load of layer {layer}", np.array_equal(got[key], load),
                              f"{got[key]}, expected {load}")

    def objective(weights):
        found = Reference(weights, **options).losses(model.tokens, model.targets)
        return found["loss"] + sum(weight * found[key]
                                   for key, weight in (weights_of_losses or {}).items())

    gradients = {key.partition(":")[2]: value for key, value in got.items()
                 if key.startswith("gradient:")}
    missing = {key for key in model.weights if "correction_bias" not in key} - set(gradients)
    session.check(f"{name}: every weight has a gradient", not missing, str(sorted(missing)[:3]))
    random = np.random.default_rng(8)
    for kind in ("", "experts.", ".gate.", "self_attn"):
        move = {key: random.standard_normal(value.shape) for key, value in gradients.items()
                if kind in key}
        if not move:
            continue
        length = np.sqrt(sum((d * d).sum() for d in move.values()))
        step = 1e-6
        sides = [objective({key: value + sign * step / length * move.get(key, 0.0)
                            for key, value in model.weights.items()}) for sign in (1, -1)]
        slope = (sides[0] - sides[1]) / (2 * step)
        found = sum((gradients[key] * d).sum() for key, d in move.items()) / length
        session.check(f"{name}: gradient of {kind or 'all'}",
                      abs(found - slope) <= 2e-6 * max(abs(slope), 1e-2),
                      f"{found:.9g}, differences {slope:.9g}")
    norm = np.sqrt(sum((value ** 2).sum() for value in gradients.values()))
    session.check(f"{name}: norm", abs(float(got["result:grad_norm"]) - norm) <= 1e-10 * norm)
    return model, got


def same(session, title, got, want, tolerance=1e-12):
    keys = [key for key in want if key.startswith(("gradient:", "result:"))]
    bad = [key for key in keys if key not in got or np.abs(got[key] - want[key]).max(initial=0)
           > tolerance * max(1.0, np.abs(want[key]).max(initial=0))]
    session.check(title, not bad and len(keys) > 3, str(bad[:3]))


MIXTRAL = ["mixtral", "--layers=2", "--hidden=8", "--heads=2", "--ffn=6", f"--vocab={VOCAB}",
           "--experts=4", "--dtype=f64"]
DEEPSEEK = ["deepseek", "--layers=2", "--hidden=8", "--heads=2", "--ffn=10", "--expert-ffn=6",
            f"--vocab={VOCAB}", "--dtype=f64"]


def config(session, name, **fields):
    path = session.path(f"{name}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2,
                   "num_hidden_layers": 2, "intermediate_size": 6, "vocab_size": VOCAB,
                   "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
                   "tie_word_embeddings": False, **fields}, file)
    return path


def check_models(session):
    model, base = check_model(session, "mixtral", [*MIXTRAL, "--balance-loss=0.1"],
                              {"load_balance_loss": 0.1})
    for options in (["--microbatches=2"], ["--microbatches=4", "--recompute=full"],
                    ["--microbatches=1", "--recompute=selective", "-O1"], ["--reference"]):
        same(session, f"mixtral {' '.join(options)}", model.call("gradients", model.compile(
            *options)), base)
    check_model(session, "one", [*MIXTRAL, "--experts-per-token=1", "--kv-heads=1"], k=1,
                kv_heads=1)
    check_model(session, "all", [*MIXTRAL, "--experts-per-token=4"], k=4)
    model, base = check_model(
        session, "capacity", [*MIXTRAL, "--capacity-factor=1", "--z-loss=0.01"],
        {"router_z_loss": 0.01}, capacity=3)
    session.check("capacity: something is dropped", float(base["result:dropped_tokens"]) > 0)
    same(session, "capacity in microbatches",
         model.call("gradients", model.compile("--microbatches=4")), base)
    check_model(session, "biased", [*MIXTRAL, "--balance-bias=0.01"])
    path = config(session, "mixtral-config", model_type="mixtral", num_local_experts=4,
                  num_experts_per_tok=2, output_router_logits=True, router_aux_loss_coef=0.02,
                  sliding_window=None)
    check_model(session, "mixtral-config", ["mixtral", f"--hf-config={path}", "--dtype=f64"],
                {"load_balance_loss": 0.02})
    path = config(session, "qwen2", model_type="qwen2_moe", num_experts=4,
                  num_experts_per_tok=2, moe_intermediate_size=6,
                  shared_expert_intermediate_size=5, norm_topk_prob=False,
                  decoder_sparse_step=1, mlp_only_layers=[], use_sliding_window=False)
    check_model(session, "qwen2", ["qwen", f"--hf-config={path}", "--dtype=f64"],
                style="qwen", normalised=False)
    path = config(session, "qwen3", model_type="qwen3_moe", num_experts=4, head_dim=6,
                  num_experts_per_tok=2, moe_intermediate_size=6, norm_topk_prob=True,
                  decoder_sparse_step=1, mlp_only_layers=[])
    check_model(session, "qwen3", ["qwen", f"--hf-config={path}", "--dtype=f64"],
                style="qwen")

    v3 = {"style": "deepseek", "scoring": "sigmoid", "rope": 2, "nope": 4, "v_width": 3,
          "dense": 1}
    sizes = {"kv_lora_rank": 5, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4, "v_head_dim": 3,
             "moe_intermediate_size": 6, "first_k_dense_replace": 1, "n_shared_experts": 1}
    path = config(session, "v3", model_type="deepseek_v3", q_lora_rank=7, n_routed_experts=8,
                  num_experts_per_tok=3, n_group=4, topk_group=2, norm_topk_prob=True,
                  routed_scaling_factor=2.5, scoring_func="sigmoid", topk_method="noaux_tc",
                  **sizes)
    model, base = check_model(
        session, "v3", ["deepseek", f"--hf-config={path}", "--dtype=f64"], experts=8, k=3,
        groups=4, kept=2, best=2, scale=2.5, **v3)
    same(session, "v3 in microbatches",
         model.call("gradients", model.compile("--microbatches=2", "--recompute=full")), base)
    path = config(session, "v2", model_type="deepseek_v2", q_lora_rank=None, n_routed_experts=8,
                  num_experts_per_tok=2, n_group=4, topk_group=2, norm_topk_prob=False,
                  routed_scaling_factor=3.0, scoring_func="softmax",
                  topk_method="group_limited_greedy", **sizes)
    check_model(session, "v2", ["deepseek", f"--hf-config={path}", "--dtype=f64"], experts=8,
                k=2, groups=4, kept=2, best=1, scale=3.0, normalised=False,
                **{**v3, "scoring": "softmax"})
    model = Model(session, "small", DEEPSEEK)
    loss = float(model.call("loss")["result:loss"])
    session.check("deepseek by options", np.isfinite(loss), f"loss {loss}")


def check_edges(session):
    """Routers without an opinion: all tokens go to the lowest experts."""
    model = Model(session, "ties", MIXTRAL)
    for layer in range(2):
        model.weights[f"model.layers.{layer}.block_sparse_moe.gate.weight"][:] = 0
    want = Reference(model.weights).losses(model.tokens, model.targets)
    got = model.call("gradients")
    error = abs(float(got["result:loss"]) - want["loss"])
    session.check("ties go to the lowest expert", error <= 1e-11, f"error {error:.1e}")
    idle = [key for key in got if re.search(r"gradient:.*experts\.[23]\.", key)]
    busy = [key for key in got if re.search(r"gradient:.*experts\.[01]\.", key)]
    session.check("experts without a token have no gradient",
                  len(idle) == 12 and all((got[key] == 0).all() for key in idle))
    session.check("the others have one", all((got[key] != 0).any() for key in busy))
    same(session, "ties in microbatches",
         model.call("gradients", model.compile("--microbatches=4")), got)


def check_bias(session):
    """One step moves each bias up or down by the rate, and nothing else does."""
    rate = 0.125
    model = Model(session, "moving", [*MIXTRAL, f"--balance-bias={rate}"])
    load = model.call("gradients")
    before = dict(model.weights)
    after = model.call("step")
    for layer in range(2):
        name = f"model.layers.{layer}.block_sparse_moe.gate.e_score_correction_bias"
        counts = load[f"result:load:{name}"]
        want = before[name] + rate * np.sign(counts.mean() - counts)
        session.check(f"bias of layer {layer}",
                      np.allclose(after[f"parameter:{name}"], want, rtol=0, atol=1e-15),
                      f"load {counts}")
        session.check(f"no optimizer state of layer {layer}",
                      not any(key.startswith("moment") and name in key for key in after))


def check_files(session):
    """Names and shapes of Hugging Face's files, and back."""
    model = Model(session, "files", MIXTRAL)
    saved = session.path("saved.safetensors")
    session.run("sheaf-run", model.artifact, "--steps=0", "--seed=3", f"--save={saved}")
    values = safetensors.read(saved)
    want = {}
    for layer in range(2):
        moe = f"model.layers.{layer}.block_sparse_moe"
        want[f"{moe}.gate.weight"] = (4, 8)
        for expert in range(4):
            for name, shape in (("w1", (6, 8)), ("w2", (8, 6)), ("w3", (6, 8))):
                want[f"{moe}.experts.{expert}.{name}.weight"] = shape
    found = {key: value.shape for key, value in values.items() if "moe" in key}
    session.check("names of experts", found == want, str(sorted(set(found) ^ set(want))[:3]))
    random = np.random.default_rng(2)
    changed = {key: value + random.standard_normal(value.shape)
               for key, value in values.items()}
    source = session.path("changed.safetensors")
    safetensors.write(source, changed)
    session.run("sheaf-run", model.artifact, "--steps=0", f"--load={source}",
                f"--save={saved}")
    again = safetensors.read(saved)
    session.check("loaded and saved again",
                  all(np.array_equal(again[key], changed[key]) for key in changed))
    del changed["model.layers.1.block_sparse_moe.experts.2.w3.weight"]
    safetensors.write(source, changed)
    status, _, err = session.try_run("sheaf-run", model.artifact, "--steps=0",
                                     f"--load={source}")
    session.check("a missing expert is named", status == 1 and
                  "'model.layers.1.block_sparse_moe.experts.2.w3.weight' [6, 8]" in err, err[-300:])


def check_products(session):
    """What a run multiplies, counted as it runs, and a log with losses of its own."""
    sizes = {"layers": 2, "hidden": 32, "ffn": 48, "experts": 8, "seq": 32, "batch": 4}
    options = [f"--{key}={value}" for key, value in sizes.items()]
    data = session.path("tokens.bin")
    np.random.default_rng(3).integers(0, 64, 4000).astype(np.uint16).tofile(data)
    for k in (1, 2, 8):
        name = session.path(f"products{k}")
        session.run("sheaf-model", "mixtral", *options, "--heads=2", "--vocab=64",
                    f"--experts-per-token={k}", "-o", f"{name}.mlir")
        session.run("sheaf-compile", f"{name}.mlir", "--microbatches=2", "-o", f"{name}.sheaf")
        log = session.path("products.jsonl")
        session.run("sheaf-run", f"{name}.sheaf", f"--data={data}", "--steps=1", "--seed=1",
                    f"--trace={name}.json", f"--log={log}")
        with open(f"{name}.json", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        done = sum(event["args"]["flops"] for event in events
                   if event.get("tid") == 1 and event["name"].startswith("grouped"))
        # Three matrices, each with an input and a weight gradient.
        dense = 9 * 2.0 * sizes["layers"] * sizes["batch"] * sizes["seq"] * sizes["hidden"] \
            * sizes["ffn"] * sizes["experts"]
        session.check(f"products with {k} of 8 experts", done == dense * k / 8,
                      f"{done:.0f}, expected {dense * k / 8:.0f}")
        line = support.read_log(log)[0]
        session.check(f"the log has its losses with {k} of 8", line["load_balance_loss"] > 0,
                      str(line))
    out = session.run("sheaf-run", session.path("products2.sheaf"), "--verify")
    session.check("--verify", "FAIL" not in out, out[-200:])
    fields = json.loads(session.run("sheaf-run", session.path("products2.sheaf"),
                                    "--info=json"))
    names = [buffer["name"] for buffer in fields["buffers"] if buffer["kind"] == "parameter"]
    session.check("the experts of a layer are one parameter",
                  "model.layers.0.block_sparse_moe.experts.*.w1.weight" in names)


def body(session, arguments):
    del arguments
    check_models(session)
    check_edges(session)
    check_bias(session)
    check_files(session)
    check_products(session)


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 600))
