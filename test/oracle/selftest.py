"""Checks the oracle itself; needs nothing but NumPy.

    python3 test/oracle/selftest.py

Gradients against central differences, the vectorised forward passes against plain
loops over tokens and heads, microbatches against the whole batch, optimizers
against hand calculation, the safetensors reader against broken files, and the six
planted mistakes against the criteria.
"""

import json
import math
import os
import re
import struct
import sys
import tempfile
import unittest

import numpy as np

import data
import equal
import gradcheck
import models
import op_cases
import optimizers
import philox
import safetensors
import training

LLAMA3_SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 64}

SMALL = {
    "gpt": models.GPT(layers=2, hidden=6, heads=3, vocab=11, seq=5, ffn=10),
    "llama": models.Llama(layers=2, hidden=8, heads=4, kv_heads=2, vocab=11, seq=5, ffn=7),
    "llama, tied, scaled, wide heads": models.Llama(
        layers=1, hidden=6, heads=3, kv_heads=1, vocab=7, seq=4, ffn=5, head_dim=4,
        eps=1e-6, theta=500000.0, rope_scaling=LLAMA3_SCALING, tied=True),
}


def lively(model, seed):
    """Parameters far from their initial values, so that no term is negligible."""
    random = np.random.default_rng(seed)
    return {name: value + 0.3 * random.standard_normal(value.shape)
            for name, value in models.initial(model, seed).items()}


def some_batch(model, size, seed):
    random = np.random.default_rng(seed)
    tokens = random.integers(0, model.vocab, (size, model.seq))
    targets = random.integers(0, model.vocab, (size, model.seq))
    targets[0, 1:] = -100  # uneven counts of valid targets in the microbatches
    targets[-1, 0] = -1
    return tokens, targets


class Gradients(unittest.TestCase):
    def test_central_differences(self):
        for title, model in SMALL.items():
            params = lively(model, 1)
            tokens, targets = some_batch(model, 2, 2)
            loss, gradients = models.loss_and_gradients(model, params, tokens, targets)
            self.assertEqual(list(params), list(model.shapes()))
            self.assertEqual(set(gradients), set(params))
            self.assertAlmostEqual(
                loss, models.loss_only(model, params, tokens, targets), places=13)
            for name, value in params.items():
                self.assertEqual(gradients[name].shape, value.shape)
                numeric = np.zeros_like(value)
                for index in np.ndindex(value.shape):
                    sides = []
                    for step in (1e-5, -1e-5):
                        moved = dict(params)
                        moved[name] = value.copy()
                        moved[name][index] += step
                        sides.append(models.loss_only(model, moved, tokens, targets))
                    numeric[index] = (sides[0] - sides[1]) / 2e-5
                error = np.abs(numeric - gradients[name]).max()
                self.assertLess(error, 2e-9 + 1e-7 * np.abs(numeric).max(),
                                f"{title}: {name}")

    def test_microbatches_do_not_matter(self):
        for model in SMALL.values():
            params = lively(model, 3)
            tokens, targets = some_batch(model, 4, 4)
            loss, whole = models.loss_and_gradients(model, params, tokens, targets)
            for parts in (2, 4):
                split_loss, split = models.loss_and_gradients(
                    model, params, tokens, targets, parts)
                self.assertAlmostEqual(loss, split_loss, places=13)
                for name in whole:
                    np.testing.assert_allclose(split[name], whole[name], atol=1e-13)
                for name, positions in split.norm_positions.items():
                    np.testing.assert_allclose(positions.sum(0), whole[name], atol=1e-13)

    def test_no_valid_target_is_an_error(self):
        model = SMALL["gpt"]
        tokens, _ = some_batch(model, 2, 5)
        with self.assertRaises(ValueError):
            models.loss_and_gradients(model, lively(model, 1), tokens,
                                      np.full_like(tokens, -100))


def dot(a, b):
    return sum(float(x) * float(y) for x, y in zip(a, b))


def naive_attention(queries, keys, values, position, heads, kv_heads):
    """One position of causal attention from lists of rows, head by head."""
    size = len(queries[0]) // heads
    result = []
    for head in range(heads):
        group = head // (heads // kv_heads)
        q = queries[position][head * size:(head + 1) * size]
        scores = [dot(q, keys[j][group * size:(group + 1) * size]) / math.sqrt(size)
                  for j in range(position + 1)]
        exps = [math.exp(score) for score in scores]
        for i in range(size):
            result.append(sum(e * values[j][group * size + i]
                              for j, e in enumerate(exps)) / sum(exps))
    return result


def naive_gpt(model, w, tokens):
    """Logits of one sample, rows of plain lists."""
    def linear(x, name):
        matrix, bias = w[name + ".weight"], w[name + ".bias"]
        return [dot(x, matrix[:, j]) + bias[j] for j in range(matrix.shape[1])]

    def norm(x, name):
        mean = sum(x) / len(x)
        variance = sum((v - mean) ** 2 for v in x) / len(x)
        return [(v - mean) / math.sqrt(variance + model.eps) * a + b
                for v, a, b in zip(x, w[name + ".weight"], w[name + ".bias"])]

    def gelu(v):
        inner = math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)
        return 0.5 * v * (1 + math.tanh(inner))

    xs = [[a + b for a, b in zip(w["transformer.wte.weight"][token],
                                 w["transformer.wpe.weight"][t])]
          for t, token in enumerate(tokens)]
    h = model.hidden
    for i in range(model.layers):
        p = f"transformer.h.{i}."
        fused = [linear(norm(x, p + "ln_1"), p + "attn.c_attn") for x in xs]
        qs, ks, vs = ([row[n * h:(n + 1) * h] for row in fused] for n in range(3))
        mixed = [naive_attention(qs, ks, vs, t, model.heads, model.heads)
                 for t in range(len(xs))]
        xs = [[a + b for a, b in zip(x, linear(m, p + "attn.c_proj"))]
              for x, m in zip(xs, mixed)]
        inner = [[gelu(v) for v in linear(norm(x, p + "ln_2"), p + "mlp.c_fc")] for x in xs]
        xs = [[a + b for a, b in zip(x, linear(m, p + "mlp.c_proj"))]
              for x, m in zip(xs, inner)]
    return [[dot(norm(x, "transformer.ln_f"), row) for row in w["transformer.wte.weight"]]
            for x in xs]


def naive_llama(model, w, tokens):
    def linear(x, name):
        return [dot(x, row) for row in w[name + ".weight"]]

    def norm(x, name):
        scale = math.sqrt(sum(v * v for v in x) / len(x) + model.eps)
        return [v / scale * a for v, a in zip(x, w[name + ".weight"])]

    def frequency(i):
        freq = 1.0 / model.theta ** (2 * i / model.head_dim)
        if model.rope_scaling is None:
            return freq
        # In terms of wavelengths, as Hugging Face writes it.
        s = model.rope_scaling
        context, wave = s["original_max_position_embeddings"], 2 * math.pi / freq
        if wave > context / s["low_freq_factor"]:
            return freq / s["factor"]
        if wave < context / s["high_freq_factor"]:
            return freq
        smooth = (context / wave - s["low_freq_factor"]) \
            / (s["high_freq_factor"] - s["low_freq_factor"])
        return (1 - smooth) * freq / s["factor"] + smooth * freq

    def rotate(x, t):
        d, half = model.head_dim, model.head_dim // 2
        result = list(x)
        for start in range(0, len(x), d):
            for i in range(half):
                turned = complex(x[start + i], x[start + i + half]) \
                    * complex(math.cos(t * frequency(i)), math.sin(t * frequency(i)))
                result[start + i], result[start + i + half] = turned.real, turned.imag
        return result

    xs = [list(w["model.embed_tokens.weight"][token]) for token in tokens]
    for i in range(model.layers):
        p = f"model.layers.{i}."
        ns = [norm(x, p + "input_layernorm") for x in xs]
        qs = [rotate(linear(n, p + "self_attn.q_proj"), t) for t, n in enumerate(ns)]
        ks = [rotate(linear(n, p + "self_attn.k_proj"), t) for t, n in enumerate(ns)]
        vs = [linear(n, p + "self_attn.v_proj") for n in ns]
        mixed = [naive_attention(qs, ks, vs, t, model.heads, model.kv_heads)
                 for t in range(len(xs))]
        xs = [[a + b for a, b in zip(x, linear(m, p + "self_attn.o_proj"))]
              for x, m in zip(xs, mixed)]
        for t, x in enumerate(xs):
            n = norm(x, p + "post_attention_layernorm")
            inner = [g / (1 + math.exp(-g)) * u for g, u in
                     zip(linear(n, p + "mlp.gate_proj"), linear(n, p + "mlp.up_proj"))]
            xs[t] = [a + b for a, b in zip(x, linear(inner, p + "mlp.down_proj"))]
    head = "model.embed_tokens" if model.tied else "lm_head"
    return [linear(norm(x, "model.norm"), head) for x in xs]


class Forward(unittest.TestCase):
    def test_plain_loops(self):
        for title, model in SMALL.items():
            naive = naive_gpt if isinstance(model, models.GPT) else naive_llama
            params = lively(model, 7)
            tokens, targets = some_batch(model, 2, 8)
            logits, _ = model.forward(params, tokens)
            expected = np.array([naive(model, params, sample) for sample in tokens])
            np.testing.assert_allclose(logits, expected, atol=1e-12, err_msg=title)
            terms = [math.log(sum(math.exp(v) for v in row)) - row[goal]
                     for sample, goals in zip(expected, targets)
                     for row, goal in zip(sample, goals) if goal >= 0]
            self.assertAlmostEqual(models.loss_only(model, params, tokens, targets),
                                   sum(terms) / len(terms), places=12)

    def test_scaling_changes_every_range(self):
        model = models.Llama(layers=1, hidden=16, heads=1, vocab=3, seq=2,
                             rope_scaling=LLAMA3_SCALING)
        plain = models.Llama(layers=1, hidden=16, heads=1, vocab=3, seq=2)
        ratio = model.frequencies() / plain.frequencies()
        self.assertEqual(ratio[0], 1.0)
        self.assertEqual(ratio[-1], 1 / 8)
        self.assertTrue(((ratio > 1 / 8) & (ratio < 1)).any())

    def test_parameter_counts(self):
        def count(model):
            return sum(math.prod(shape) for shape in model.shapes().values())

        self.assertEqual(count(models.GPT(12, 768, 12, 50257, 1024)), 124439808)
        self.assertEqual(count(models.Llama(32, 4096, 32, 128256, 8192, kv_heads=8,
                                            ffn=14336)), 8030261248)


class Optimizers(unittest.TestCase):
    def test_rate(self):
        hyper = optimizers.Hyper(lr=1.0, warmup=4, min_lr=0.2, decay_steps=8)
        rates = [optimizers.learning_rate(hyper, t) for t in range(10)]
        np.testing.assert_allclose(
            rates, [0.25, 0.5, 0.75, 1.0, 1.0, 0.6 + 0.4 * math.sqrt(0.5), 0.6,
                    0.6 - 0.4 * math.sqrt(0.5), 0.2, 0.2])
        self.assertEqual(optimizers.learning_rate(optimizers.Hyper(lr=0.5), 99), 0.5)
        short = optimizers.Hyper(lr=1.0, warmup=4, min_lr=0.2, decay_steps=4)
        self.assertEqual(optimizers.learning_rate(short, 3), 1.0)
        self.assertAlmostEqual(optimizers.learning_rate(short, 4), 0.2)

    def test_adamw_by_hand(self):
        hyper = optimizers.Hyper(lr=0.1, weight_decay=0.5, beta1=0.5, beta2=0.75,
                                 eps=0.25, clip=0.0)
        optimizer = optimizers.Optimizer(hyper)
        params = {"matrix": np.array([[2.0]]), "bias": np.array([2.0])}
        grads = {"matrix": np.array([[4.0]]), "bias": np.array([4.0])}
        params = optimizer.update(params, grads, 0)
        # After one step mhat = g and vhat = g^2.
        move = 0.1 * 4 / (4 + 0.25)
        self.assertAlmostEqual(params["bias"][0], 2 - move)
        self.assertAlmostEqual(params["matrix"][0, 0], 2 - 0.1 * 0.5 * 2 - move)
        before = params["bias"][0]
        params = optimizer.update(params, {k: 0 * g for k, g in grads.items()}, 1)
        m, v = 0.5 * 2.0, 0.75 * 4.0
        move = 0.1 * (m / 0.75) / (math.sqrt(v / (1 - 0.75 ** 2)) + 0.25)
        self.assertAlmostEqual(params["bias"][0], before - move)

    def test_sgd_and_clip_by_hand(self):
        hyper = optimizers.Hyper(optimizer="sgd", lr=0.1, momentum=0.5, clip=1.0,
                                 weight_decay=0.0)
        optimizer = optimizers.Optimizer(hyper)
        params = {"p": np.array([0.0, 0.0])}
        params = optimizer.update(params, {"p": np.array([3.0, 4.0])}, 0)
        factor = 1 / (5 + 1e-6)
        np.testing.assert_allclose(params["p"], [-0.3 * factor, -0.4 * factor])
        params = optimizer.update(params, {"p": np.array([0.0, 0.5])}, 1)
        np.testing.assert_allclose(params["p"], [-0.45 * factor, -0.6 * factor - 0.05])

    def test_flags(self):
        self.assertIn("--lr=0.03", equal.SGD.flags())
        self.assertIn("--clip=0.0", equal.SGD.flags())


class Data(unittest.TestCase):
    def test_batches_wrap(self):
        tokens = np.arange(10)
        inputs, targets = data.batch(tokens, 1, 2, 3)
        np.testing.assert_array_equal(inputs, [[6, 7, 8], [9, 0, 1]])
        np.testing.assert_array_equal(targets, [[7, 8, 9], [0, 1, 2]])

    def test_files(self):
        tokens = data.synthetic(300, 200, 1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokens")
            for kind in ("u8", "u16", "u32"):
                data.write_tokens(path, tokens, kind)
                np.testing.assert_array_equal(data.read_tokens(path, kind), tokens)
            for kind in ("u16", "u32"):
                data.write_tokens(path, tokens, kind, header=True)
                np.testing.assert_array_equal(data.read_tokens(path, "u8"), tokens)


class Safetensors(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "file")

    def tearDown(self):
        self.folder.cleanup()

    def test_round_trip(self):
        tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3),
                   "s": np.float64(2.5), "none": np.zeros((0, 4), np.int32),
                   "b": np.array([True, False])}
        safetensors.write(self.path, tensors, {"format": "pt"})
        got = safetensors.read(self.path)
        for name, value in tensors.items():
            np.testing.assert_array_equal(got[name], value)
            self.assertEqual(got[name].dtype, np.asarray(value).dtype)
            self.assertEqual(got[name].shape, np.asarray(value).shape)

    def test_small_floats(self):
        values = np.array([1.0, -2.5, 3.140625, 1 + 2.0 ** -8], np.float32)
        safetensors.write(self.path, {"x": values}, bf16=["x"])
        np.testing.assert_array_equal(safetensors.read(self.path)["x"],
                                      [1.0, -2.5, 3.140625, 1.0])
        self.assertEqual(safetensors.dtypes(self.path), {"x": "BF16"})
        codes = np.array([0x7E, 0x01, 0x38], np.uint8)
        np.testing.assert_array_equal(safetensors.f8_to_f32(codes, 4), [448, 2.0 ** -9, 1])
        np.testing.assert_array_equal(
            safetensors.f8_to_f32(np.array([0x7B, 0x01], np.uint8), 5), [57344, 2.0 ** -16])

    def raw(self, header, payload):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        with open(self.path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + payload)

    def test_broken_files(self):
        def entry(begin, end, shape=(1,), dtype="F32"):
            return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}

        self.raw({"a": entry(0, 4), "b": entry(4, 8)}, bytes(8))
        safetensors.read(self.path)
        broken = {
            "hole": ({"a": entry(0, 4), "b": entry(8, 12)}, bytes(12)),
            "overlap": ({"a": entry(0, 4), "b": entry(0, 4)}, bytes(4)),
            "tail": ({"a": entry(0, 4)}, bytes(8)),
            "short": ({"a": entry(0, 4)}, bytes(3)),
            "shape": ({"a": entry(0, 4, (2,))}, bytes(4)),
            "type": ({"a": entry(0, 4, dtype="F31")}, bytes(4)),
            "twice": (b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},'
                      b'"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}', bytes(1)),
            "leading space": (b' {}', b""),
            "trailing zero": (b'{}\0', b""),
            "metadata": ({"__metadata__": {"a": 1}}, b""),
        }
        for title, (header, payload) in broken.items():
            self.raw(header, payload)
            with self.assertRaises(safetensors.FormatError, msg=title):
                safetensors.read(self.path)
        with open(self.path, "wb") as file:
            file.write(struct.pack("<Q", 100) + b"{}")
        with self.assertRaises(safetensors.FormatError):
            safetensors.read(self.path)


class Criteria(unittest.TestCase):
    def test_missing_things_fail(self):
        want = {"a": np.ones(3), "b": np.ones((2, 2))}
        self.assertTrue(equal.gradients(want, want))
        self.assertFalse(equal.gradients({"a": np.ones(3)}, want))
        self.assertFalse(equal.gradients({**want, "c": np.ones(1)}, want))
        self.assertFalse(equal.gradients({**want, "b": np.ones(4)}, want))
        self.assertFalse(equal.gradients({**want, "a": np.full(3, np.nan)}, want))
        self.assertFalse(equal.gradients({}, {}))
        self.assertTrue(equal.norms([1.0], [1.00001]))
        self.assertFalse(equal.norms([1.0], [1.0001]))
        self.assertFalse(equal.norms([1.0], [1.0, 1.0]))
        self.assertFalse(equal.norms([], []))
        self.assertFalse(equal.losses([1.0] * 19, [1.0] * 19, "sgd"))
        self.assertFalse(equal.losses([math.nan] * 20, [1.0] * 20, "adamw"))
        self.assertTrue(equal.losses([1.000004] * 20, [1.0] * 20, "adamw"))
        self.assertFalse(equal.losses([1.000004] * 20, [1.0] * 20, "sgd"))

    def test_planted_mistakes(self):
        suite = {
            "gpt": models.GPT(layers=2, hidden=36, heads=3, vocab=97, seq=17),
            "llama": models.Llama(layers=2, hidden=32, heads=4, kv_heads=2, vocab=97,
                                  seq=17, ffn=56),
            "tied llama": models.Llama(layers=2, hidden=32, heads=4, kv_heads=2, vocab=97,
                                       seq=17, ffn=56, tied=True),
        }
        for title, model in suite.items():
            tokens = data.synthetic(997, model.vocab, 5)
            params = {name: p.astype(np.float32).astype(np.float64)
                      for name, p in models.initial(model, 6).items()}

            def run(hyper, **kind):
                return training.train(model, params, tokens, equal.STEPS, 4, hyper, **kind)

            sgd, adamw = run(equal.SGD), run(equal.ADAMW)
            self.assertLess(adamw.losses[-1], adamw.losses[0])

            def verdicts(**kind):
                a_run, d_run = run(equal.SGD, **kind), run(equal.ADAMW, **kind)
                return {"a": equal.gradients(a_run.gradients, sgd.gradients),
                        "b": equal.norms(a_run.norms, sgd.norms),
                        "c": equal.losses(a_run.losses, sgd.losses, "sgd"),
                        "d": equal.losses(d_run.losses, adamw.losses, "adamw")}

            honest = verdicts(rounding=np.random.default_rng(1))
            for verdict in honest.values():
                self.assertTrue(verdict, f"{title}: {verdict}")
            if VERBOSE:
                print(f"{title}: f32-size noise:",
                      {key: f"{verdict.worst:.2g}" for key, verdict in honest.items()})
            for name in sgd.gradients:
                doubled = {**sgd.gradients, name: 2 * sgd.gradients[name]}
                self.assertFalse(equal.gradients(doubled, sgd.gradients),
                                 f"{title}: {name} doubled is not caught")
            found = training.mistakes(model)
            self.assertEqual(len(found), 7 if model.tied_name else 5)
            for name, mistake in found.items():
                result = verdicts(tamper=mistake)
                caught = [key for key in "abc" if not result[key]]
                if VERBOSE:
                    print(f"{title}: {name}: caught by {caught}, errors over bounds",
                          {key: f"{verdict.worst:.2g}" for key, verdict in result.items()})
                self.assertTrue(caught, f"{title}: {name} is not caught")
                if name.endswith("in the norm"):
                    self.assertEqual(caught, ["b"], name)
                else:
                    self.assertIn("a", caught, f"{title}: {name}")


class Philox(unittest.TestCase):
    def test_known_answers(self):
        # From Random123's known-answer file, philox4x32 with 10 rounds.
        for counter, key, want in (
                ((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
                ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
                ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
                 "d16cfe09 94fdcceb 5001e420 24126ea1")):
            got = " ".join(f"{int(word):08x}" for word in philox.philox(counter, key))
            self.assertEqual(got, want)

    def test_samples_do_not_depend_on_the_split(self):
        whole = philox.random("uniform", (6, 5), (1, 2, 3, 10), 4, True)
        part = philox.random("uniform", (3, 5), (1, 2, 3, 13), 4, True)
        np.testing.assert_array_equal(whole[3:], part)


class OpCases(unittest.TestCase):
    def test_references_are_smooth(self):
        """At every case with a gradient two steps give the same difference quotient,
        well within the tolerance: no case sits at a kink, and a failure of gradcheck
        is never the case's fault."""
        def quotients(case, random):
            cotangents = [random.standard_normal(value.shape)
                          for value in gradcheck.float_results(case.reference(*case.inputs))]
            for title, move in gradcheck.plan_moves(case, random):
                result = []
                for step in (case.step, 0.5 * case.step):
                    sides = [gradcheck.float_results(case.reference(*[
                        value + sign * step * move[i] if i in move else value
                        for i, value in enumerate(case.inputs)])) for sign in (1, -1)]
                    result.append(sum(float((c * (up - down)).sum()) / (2 * step)
                                      for c, up, down in zip(cotangents, *sides)))
                yield title, result

        for case in op_cases.cases():
            if not case.gradient:
                continue
            for title, (wide, narrow) in quotients(case, np.random.default_rng(3)):
                with self.subTest(case=case.name, move=title):
                    self.assertLess(abs(wide - narrow), 2e-7 * max(abs(wide), 0.05))

    def test_every_op_has_a_case(self):
        text = "\n".join(case.text for case in op_cases.cases())
        used = set(re.findall(r"\bnn\.(\w+)", text))
        self.assertGreater(len(used), 55)


VERBOSE = "-v" in sys.argv

if __name__ == "__main__":
    unittest.main()
