#!/usr/bin/env python3
"""How near the simulated device comes to CPU ranks, and how fast it is.

    benchmarks/simulate.py BUILD/bin [--rounds=7] [--ranks=2]

Describes this machine (sheaf-run --measure-cluster), then simulates steps of a small GPT on
one rank and with strategies for --ranks, and runs them with one thread a rank; prints both times
and their ratio, medians of --rounds, the machine described anew each round, and whether strategies
that differ by more than a quarter are predicted in their order. Then
the seconds that it takes to compile and simulate GPT-3 2.7B for 64 H100s and for 16,384.
Nothing else should run meanwhile.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = dict(layers=4, hidden=256, heads=4, seq=256, vocab=2048)
LARGE = dict(layers=32, hidden=2560, heads=32, seq=2048, vocab=50304)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sheaf-simulate-") as folder:
        path = lambda name: os.path.join(folder, name)

        def tool(name, *options):
            subprocess.run([os.path.join(os.path.abspath(arguments.bin), name), *options],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def model(name, batch, sizes):
            tool("sheaf-model", "gpt", f"--batch={batch}",
                 *(f"--{key}={value}" for key, value in sizes.items()), "-o", path(name))

        def simulate(artifact, cluster):
            tool("sheaf-run", artifact, "--device=sim", f"--cluster={cluster}",
                 f"--report={path('report.json')}")
            with open(path("report.json"), encoding="utf-8") as file:
                return json.load(file)["step_seconds"]

        with open(path("data"), "wb") as file:
            for i in range(100_000):
                file.write((i * 7919 % SMALL["vocab"]).to_bytes(2, "little"))
        model("small.mlir", 4 * arguments.ranks, SMALL)
        ranks = arguments.ranks
        artifacts = {}
        for strategy in ["one rank", f"dp={ranks}", f"dp={ranks} --zero=1", f"dp={ranks} --zero=3",
                         f"dp={ranks} --recompute=full", f"tp={ranks}",
                         f"tp={ranks} --sequence-parallel", f"cp={ranks}",
                         f"pp={ranks} --pipeline=1f1b --microbatches=4",
                         f"pp={ranks} --pipeline=gpipe --microbatches=2"]:
            artifacts[strategy] = path(f"{len(artifacts)}.sheaf")
            tool("sheaf-compile", path("small.mlir"), "-o", artifacts[strategy],
                 *([f"--mesh={strategy.split()[0]}", *strategy.split()[1:]]
                   if "=" in strategy else []))
        times = {mesh: ([], []) for mesh in artifacts}
        for _ in range(arguments.rounds):
            tool("sheaf-run", f"--measure-cluster={path('cpu.json')}")
            for mesh, artifact in artifacts.items():
                times[mesh][0].append(simulate(artifact, path("cpu.json")))
                tool("sheaf-run", artifact, f"--data={path('data')}", "--steps=4",
                     "--threads=1", f"--log={path('log')}")
                with open(path("log"), encoding="utf-8") as file:
                    # The first step touches its memory.
                    times[mesh][1].append(min(json.loads(line)["step_ms"]
                                              for line in list(file)[1:]) / 1e3)
        print(f"{'strategy':<40} {'simulated':>12} {'measured':>12} {'ratio':>7}")
        medians = {}
        for mesh, (simulated, measured) in times.items():
            a, b = statistics.median(simulated), statistics.median(measured)
            medians[mesh] = a, b
            print(f"{mesh:<40} {a * 1e3:>9.1f} ms {b * 1e3:>9.1f} ms {a / b:>7.2f}")
        pairs = [(one, other) for one in medians for other in medians
                 if medians[other][1] > 1.25 * medians[one][1]]
        wrong = [(one, other) for one, other in pairs if medians[other][0] <= medians[one][0]]
        print(f"pairs that differ by more than a quarter: {len(pairs)}, of which in the order that "
              f"was predicted: {len(pairs) - len(wrong)}")
        for one, other in wrong:
            print(f"  not '{one}' before '{other}'")

        print(f"\n{'GPT-3 2.7B':<16} {'compile':>9} {'simulate':>9} {'step':>11}")
        h100 = os.path.join(ROOT, "examples/clusters/h100.json")
        for mesh, batch in [("dp=64", 512), ("dp=2048,tp=8", 16384)]:
            model("large.mlir", batch, LARGE)
            begin = time.perf_counter()
            tool("sheaf-compile", path("large.mlir"), "-o", path("large.sheaf"),
                 f"--mesh={mesh}", "--precision=bf16", "--recompute=selective")
            compiled = time.perf_counter()
            step = simulate(path("large.sheaf"), h100)
            done = time.perf_counter()
            print(f"{mesh:<16} {compiled - begin:>7.1f} s {done - compiled:>7.2f} s "
                  f"{step * 1e3:>8.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
