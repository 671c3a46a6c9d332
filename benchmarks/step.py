#!/usr/bin/env python3
"""One training step against what it must cost.

    benchmarks/step.py BUILD/bin [--model=gpt2|llama] [--rounds=7] [--threads=N] [--keep]
                       [--peer-python=PYTHON]

The floor, measured in the same run: the step's matrix products alone (the program of
the step on buffers with every kernel and copy taken out, so the same shapes, strides and
BLAS), plus the bytes that cannot be avoided over the bandwidth of a threaded copy: 32 a
parameter (AdamW reads four and writes three numbers, the norm reads one), and those of
norms, softmax and cross entropy, read once and written once. Step, products and copy
alternate; medians and their ratio are printed, with the limit of 1.15.

Beside it, in the same rounds, the same step in PyTorch and in JAX (peer_step.py), as far
as --peer-python (this Python, where it is not given) has them.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

MODELS = {
    "gpt2": dict(kind="gpt", layers=12, hidden=768, heads=12, vocab=50257, seq=64, batch=4),
    "llama": dict(kind="llama", layers=12, hidden=768, heads=12, vocab=32000, seq=512, batch=1),
}
STEPS = 4  # of which the first is not counted
LIMIT = 1.15


def products_only(text):
    """The program on buffers with nothing left in `step` and its layers but products.
    Parameters are initialised; scratch memory is zero and stays so, since products of
    whatever lies there would soon be denormal numbers, which are slow."""
    result, current = [], None
    for line in text.splitlines():
        match = re.match(r"\s*func\.func (?:private )?@(\w+)\(", line)
        if match:
            current = match.group(1)
        if line.lstrip().startswith("module @kernels"):
            current = None
        if current and re.match(r"\s*exec\.(launch|copy) ", line):
            written = re.search(r"writes\((.*?) :", line).group(1).split(", ")
            if current != "init" or not all(name.startswith("%arg") for name in written):
                continue
        result.append(line)
    return "\n".join(result) + "\n"


def copy_seconds(source, target, threads):
    borders = [source.size * i // threads for i in range(threads + 1)]

    def run(i):
        np.copyto(target[borders[i]:borders[i + 1]], source[borders[i]:borders[i + 1]])

    workers = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start


def step_ms(binary, artifact, tokens, threads, folder):
    log = os.path.join(folder, "log.jsonl")
    if os.path.exists(log):
        os.remove(log)
    subprocess.run([binary, artifact, f"--data={tokens}", f"--steps={STEPS}", "--seed=1",
                    f"--log={log}", f"--threads={threads}"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line["step_ms"] for line in lines if "step_ms" in line][1:]


class Peer:
    """The step in another framework, in a process that waits between rounds."""

    def __init__(self, python, framework, model, threads):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_step.py")
        hidden = model["hidden"]
        ffn = 4 * hidden if model["kind"] == "gpt" else (8 * hidden // 3 + 63) // 64 * 64
        numbers = [model["layers"], hidden, model["heads"], model["vocab"], model["seq"],
                   model["batch"], ffn, threads]
        self.times = []
        self.process = subprocess.Popen(
            [python, script, framework, model["kind"], *map(str, numbers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.name = self.process.stdout.readline().strip()
        if self.name:
            self.step()  # compiles, allocates

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended in its step")
        return float(line)

    def round(self):
        self.times.append(statistics.median([self.step() for _ in range(STEPS)][1:]))

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def start_peers(python, model, threads):
    peers = []
    for framework in ("torch", "jax"):
        peer = Peer(python, framework, model, threads)
        if peer.name:
            peers.append(peer)
        else:
            status = peer.close()
            print(f"{framework}: " + (f"not there in {python}; --peer-python names another"
                                      if status == 3 else f"failed with status {status}"))
    return peers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peer-python", default=sys.executable,
                        help="a Python that has PyTorch or JAX")
    parser.add_argument("--keep", action="store_true", help="leave the artifacts")
    arguments = parser.parse_args()
    model = MODELS[arguments.model]
    tool = lambda name: os.path.join(os.path.abspath(arguments.bin), name)
    folder = tempfile.mkdtemp(prefix="sheaf-step-")
    path = lambda name: os.path.join(folder, name)

    sizes = [f"--{key}={value}" for key, value in model.items() if key != "kind"]
    subprocess.run([tool("sheaf-model"), model["kind"], *sizes, "-o", path("model.mlir")],
                   check=True)
    start = time.perf_counter()
    subprocess.run([tool("sheaf-compile"), path("model.mlir"), "-o", path("step.sheaf")],
                   check=True)
    compiled = time.perf_counter() - start
    text = subprocess.run([tool("sheaf-compile"), path("model.mlir"), "--emit=exec"], check=True,
                          capture_output=True, text=True).stdout
    with open(path("products.mlir"), "w", encoding="utf-8") as file:
        file.write(products_only(text))
    subprocess.run([tool("sheaf-compile"), path("products.mlir"), "-o", path("products.sheaf")],
                   check=True)
    info = json.loads(subprocess.run([tool("sheaf-run"), path("step.sheaf"), "--info=json"],
                                     check=True, capture_output=True, text=True).stdout)
    parameters = info["model"]["parameters"]
    random = np.random.default_rng(0)
    random.integers(0, model["vocab"], 100003, dtype=np.uint16).tofile(path("tokens.bin"))

    rows = model["batch"] * model["seq"]
    norm_bytes = 2 * 4 * rows * model["hidden"] * (2 * model["layers"] + 1)
    softmax_bytes = (2 * 4 * model["batch"] * model["heads"] * model["seq"] ** 2
                     * model["layers"])
    loss_bytes = 2 * 4 * rows * model["vocab"]
    moved = 32 * parameters + norm_bytes + softmax_bytes + loss_bytes

    source = np.ones(1 << 26, dtype=np.float32)  # 256 MiB
    target = np.zeros_like(source)
    steps, products, copies = [], [], []
    peers = start_peers(arguments.peer_python, model, arguments.threads)
    for number in range(arguments.rounds):
        steps.append(statistics.median(step_ms(tool("sheaf-run"), path("step.sheaf"),
                                               path("tokens.bin"), arguments.threads, folder)))
        products.append(statistics.median(
            step_ms(tool("sheaf-run"), path("products.sheaf"), path("tokens.bin"),
                    arguments.threads, folder)))
        copies.append(statistics.median(copy_seconds(source, target, arguments.threads)
                                        for _ in range(5)))
        for peer in peers:
            peer.round()
        floor = products[-1] + moved / (8 * source.size / copies[-1]) * 1e3
        print(f"round {number + 1}: step {steps[-1]:.0f} ms, products {products[-1]:.0f} ms, "
              f"copy {8 * source.size / copies[-1] / 1e9:.1f} GB/s, ratio "
              f"{steps[-1] / floor:.3f}, "
              + "".join(f"{peer.name} {peer.times[-1]:.0f} ms, " for peer in peers) + f"load {os.getloadavg()[0]:.1f}", flush=True)
    step, product = statistics.median(steps), statistics.median(products)
    bandwidth = 8 * source.size / statistics.median(copies)
    floor = product + moved / bandwidth * 1e3
    ratios = [s / (p + moved / (8 * source.size / c) * 1e3)
              for s, p, c in zip(steps, products, copies)]
    print(f"{arguments.model}: {parameters / 1e6:.1f}M parameters, batch {model['batch']}, "
          f"sequence {model['seq']}, {arguments.threads} threads; compiled in {compiled:.1f} s")
    print(f"floor: products {product:.0f} ms + {moved / 1e9:.2f} GB at {bandwidth / 1e9:.1f} GB/s "
          f"= {floor:.0f} ms")
    print(f"step / floor = {step / floor:.3f} (median of rounds {statistics.median(ratios):.3f}, "
          f"{min(ratios):.3f} to {max(ratios):.3f}), limit {LIMIT}; the step takes {step:.0f} ms")
    for peer in peers:
        other = statistics.median(peer.times)
        print(f"{peer.name}: {other:.0f} ms, {other / step:.2f} times as long")
        peer.close()
    if arguments.keep:
        print(f"artifacts in {folder}")
    else:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
