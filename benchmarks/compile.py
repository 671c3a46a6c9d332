#!/usr/bin/env python3
"""How long GPT-2 124M takes to compile, and how that grows with depth.

    benchmarks/compile.py BUILD/bin [--rounds=5] [--layers=100]

Compiles the model at 12 layers and at --layers, cold (there is no cache), -O3, in turn;
prints the median time of each and their ratio, with the limits: 15 s, and 1.5 times as
long. Time should follow the layers that differ, not their number. Then a table of where
the time of one more run of each goes (--mlir-timing). Exits 1 when a limit is passed.
"""

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

MODEL = dict(hidden=768, heads=12, vocab=50257, seq=64, batch=4)
MOST_SECONDS = 15
MOST_RATIO = 1.5


def timed(command):
    """Wall and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def timing_table(command):
    """Wall seconds of each row of --mlir-timing's tree, by its name and depth."""
    text = subprocess.run(command + ["--mlir-timing"], check=True, capture_output=True,
                          text=True).stderr
    rows = []
    for line in text.splitlines():
        # Columns of user time, where there are several threads, come first.
        match = re.match(r"\s+(?:[\d.]+ \([ \d.]+%\)\s+)?([\d.]+) \([ \d.]+%\)  (\s*)(\S.*)", line)
        if match:
            rows.append((match.group(3), len(match.group(2)) // 2, float(match.group(1))))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=100)
    arguments = parser.parse_args()
    tool = lambda name: os.path.join(os.path.abspath(arguments.bin), name)
    depths = [12, arguments.layers]
    with tempfile.TemporaryDirectory(prefix="sheaf-compile-") as folder:
        commands = {}
        for layers in depths:
            model = os.path.join(folder, f"{layers}.mlir")
            sizes = [f"--{key}={value}" for key, value in MODEL.items()]
            subprocess.run([tool("sheaf-model"), "gpt", f"--layers={layers}", *sizes, "-o", model],
                           check=True)
            commands[layers] = [tool("sheaf-compile"), "-O3", model, "-o", model + ".sheaf"]
        walls, works = ({layers: [] for layers in depths} for _ in range(2))
        for number in range(arguments.rounds):
            for layers in depths:
                wall, work = timed(commands[layers])
                walls[layers].append(wall)
                works[layers].append(work)
            print(f"round {number + 1}: " +
                  ", ".join(f"{layers} layers {walls[layers][-1]:.2f} s" for layers in depths) +
                  f", load {os.getloadavg()[0]:.1f}", flush=True)
        tables = {layers: timing_table(commands[layers]) for layers in depths}

    median = {layers: statistics.median(walls[layers]) for layers in depths}
    for layers in depths:
        print(f"{layers} layers: {median[layers]:.2f} s ({min(walls[layers]):.2f} to "
              f"{max(walls[layers]):.2f}), {statistics.median(works[layers]):.2f} s of processor")
    ratio = median[depths[1]] / median[depths[0]]
    print(f"limits: {depths[0]} layers {median[depths[0]]:.2f} s of {MOST_SECONDS} s; "
          f"{depths[1]} layers {ratio:.2f} times as long, of {MOST_RATIO}")

    # Both trees side by side: rows of the deep one that grew first.
    first = {}
    for name, depth, seconds in tables[depths[0]]:
        first[name, depth] = first.get((name, depth), 0) + seconds
    print(f"\nwhere the time goes, seconds of one run:\n{depths[0]:>8} {depths[1]:>8}")
    for name, depth, seconds in tables[depths[1]]:
        before = first.get((name, depth), 0)
        if max(seconds, before) >= 0.005:
            print(f"{before:8.3f} {seconds:8.3f}  {'  ' * depth}{name}")
    return int(median[depths[0]] > MOST_SECONDS or ratio > MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
