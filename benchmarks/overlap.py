#!/usr/bin/env python3
"""What overlap hides, on the simulated device.

    benchmarks/overlap.py BUILD/bin [--only=NAME]

Compiles models for H100s in nodes of 8, bf16 with gradients sent in bf16, and simulates a step of
each, with blocking transfers and with those that the costs of the cluster place: time of a step, the
part of it that transfers are waited for, that of those over tp alone, peak bytes of a device, and the
seconds that compiling (and verifying) and simulating take.

Of Llama-405B on 8,192 devices the least recomputation that fits the memory of a device is looked for,
and all seconds of that are added up.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLUSTER = os.path.join(ROOT, "examples/clusters/h100.json")
# 2, 4, 1 and 1 samples a device (and microbatch).
CASES = {
    "GPT-3 2.7B, dp=64": (
        "gpt --layers=32 --hidden=2560 --heads=32 --vocab=50304 --seq=2048 --batch=128",
        "--mesh=dp=64 --bucket-bytes=640000000 --gradient-wire=bf16 --recompute=selective"),
    "GPT-3 13B, dp=64 --zero=3": (
        "gpt --layers=40 --hidden=5120 --heads=40 --vocab=50304 --seq=2048 --batch=256",
        "--mesh=dp=64 --zero=3 --bucket-bytes=100000000 --gradient-wire=bf16 --recompute=selective"),
    "Llama-70B, dp=8,tp=8 --zero=3": (
        "llama --layers=80 --hidden=8192 --heads=64 --kv-heads=8 --ffn=28672 --vocab=128256 "
        "--seq=8192 --batch=8",
        "--mesh=dp=8,tp=8 --sequence-parallel --zero=3 --recompute=full"),
}
LARGE = ("Llama-405B, pp=16,dp=64,tp=8",
         "llama --layers=126 --hidden=16384 --heads=128 --kv-heads=8 --ffn=53248 --vocab=128256 "
         "--seq=8192 --batch=1024",
         "--mesh=pp=16,dp=64,tp=8 --sequence-parallel --pipeline=interleaved --chunks=2 "
         "--microbatches=16 --zero=1")
WAYS = {"blocking": ["--overlap=false"], "overlapped": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--only", default="", help="cases whose names have this")
    arguments = parser.parse_args()
    tools = os.path.abspath(arguments.bin)
    with tempfile.TemporaryDirectory(prefix="sheaf-overlap-") as folder:
        model, artifact, report = (os.path.join(folder, name)
                                   for name in ("model.mlir", "step.sheaf", "report.json"))

        def tool(name, *options, check=True):
            """Seconds, and what it wrote to stderr."""
            start = time.time()
            done = subprocess.run([os.path.join(tools, name), *options], check=False, text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            if check and done.returncode != 0:
                sys.exit(done.stderr)
            return time.time() - start, done.stderr if done.returncode else ""

        def compiled(options, check=True):
            return tool("sheaf-compile", model, "-o", artifact, f"--cluster={CLUSTER}",
                        "--precision=bf16", *options, check=check)

        def row(title, way, compiling):
            simulating, _ = tool("sheaf-run", artifact, "--device=sim", f"--cluster={CLUSTER}",
                                 f"--report={report}")
            with open(report, encoding="utf-8") as file:
                result = json.load(file)
            places = result["places"]
            step = result["step_seconds"]
            worst = max(places, key=lambda place: place["exposed_seconds"])
            over_tp = sum(each["exposed_seconds"] for each in worst["transfers"]
                          if each["axes"] == ["tp"] or each["axes"] == "tp")
            print(f"{title:<32}{way:<13}{1e3 * step:>8.1f} ms"
                  f"{100 * worst['exposed_seconds'] / step:>8.1f}%{1e3 * over_tp:>8.1f} ms"
                  f"{max(place['peak_bytes'] for place in places) / 2**30:>8.2f} GiB"
                  f"{compiling:>7.1f} s{simulating:>6.1f} s", flush=True)
            return simulating

        print(f"{'':<32}{'':<13}{'step':>11}{'exposed':>9}{'over tp':>11}{'peak':>12}"
              f"{'compile':>9}{'simulate':>8}")
        for title, (sizes, options) in CASES.items():
            if arguments.only not in title:
                continue
            tool("sheaf-model", *sizes.split(), "-o", model)
            for way, more in WAYS.items():
                row(title, way, compiled([*options.split(), *more])[0])
        title, sizes, options = LARGE
        if arguments.only not in title:
            return 0
        total = tool("sheaf-model", *sizes.split(), "-o", model)[0]
        with open(CLUSTER, encoding="utf-8") as file:
            memory = int(json.load(file)["device"]["memory_bytes"])
        for recompute in ("none", "selective", "full"):
            seconds, refusal = compiled([*options.split(), f"--recompute={recompute}",
                                         f"--memory-limit={memory}"], check=False)
            total += seconds
            if refusal:
                print(f"{title:<32}--recompute={recompute}: "
                      f"{refusal.splitlines()[0].split('error: ')[-1][:110]}...", flush=True)
                continue
            total += row(title, recompute, seconds)
            break
        print(f"{title:<32}all of that: {total:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
