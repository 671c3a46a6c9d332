#!/usr/bin/env python3
"""What overlap hides, on the simulated device.

    benchmarks/overlap.py BUILD/bin [--only=NAME]

Compiles models for 64 H100s in nodes of 8 and simulates a step of each, with blocking
transfers, and with those that the costs of the cluster place:
time of a step, the part of it that transfers are waited for, peak bytes of a device, and
the seconds that compiling and simulating take.
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
CASES = {
    # 2 and 4 samples a device.
    "GPT-3 2.7B, dp=64": (["--layers=32", "--hidden=2560", "--heads=32", "--batch=128"],
                          ["--bucket-bytes=640000000", "--gradient-wire=bf16"]),
    "GPT-3 13B, dp=64 --zero=3": (["--layers=40", "--hidden=5120", "--heads=40", "--batch=256"],
                                  ["--zero=3", "--bucket-bytes=100000000", "--gradient-wire=bf16"]),
}
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

        def tool(name, *options):
            start = time.time()
            subprocess.run([os.path.join(tools, name), *options], check=True,
                           stdout=subprocess.DEVNULL)
            return time.time() - start

        print(f"{'':<28}{'':<15}{'step':>10}{'exposed':>9}{'peak':>11}{'compile':>9}{'simulate':>9}")
        for title, (sizes, options) in CASES.items():
            if arguments.only not in title:
                continue
            tool("sheaf-model", "gpt", *sizes, "--seq=2048", "--vocab=50304", "-o", model)
            for way, more in WAYS.items():
                compiling = tool("sheaf-compile", model, "-o", artifact, "--mesh=dp=64",
                                 f"--cluster={CLUSTER}",
                                 "--precision=bf16", "--recompute=selective", *options, *more)
                simulating = tool("sheaf-run", artifact, "--device=sim", f"--cluster={CLUSTER}",
                                  f"--report={report}")
                with open(report, encoding="utf-8") as file:
                    result = json.load(file)
                place = result["places"][0]
                step = result["step_seconds"]
                print(f"{title:<28}{way:<15}{1e3 * step:>7.1f} ms"
                      f"{100 * place['exposed_seconds'] / step:>8.1f}%"
                      f"{place['peak_bytes'] / 2**30:>7.2f} GiB{compiling:>7.1f} s"
                      f"{simulating:>7.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
