"""Checks that the placed programs of models use at most 1.03 times what is alive.

    ratio.py <sheaf-compile> <model.mlir>...

Each model is placed with several sets of options; one line a program."""

import re
import subprocess
import sys

OPTIONS = [[], ["--microbatches=2"], ["--recompute=full"],
           ["--recompute=selective", "--microbatches=4", "--optimizer=sgd"], ["--reference"]]


def main():
    tool, *models = sys.argv[1:]
    wrong = 0
    for model in models:
        for options in OPTIONS:
            run = subprocess.run([tool, model, "--emit=exec", *options], text=True,
                                 capture_output=True, check=False, timeout=120)
            sizes = [(int(live), int(scratch)) for live, scratch in re.findall(
                r"exec\.live_bytes = (\d+) .*?exec\.scratch_bytes = (\d+) ", run.stdout)]
            worst = max((scratch / live for live, scratch in sizes if live), default=0)
            good = run.returncode == 0 and 0 < worst <= 1.03
            wrong += not good
            print("ok" if good else "WRONG", model, *options, f"{worst:.4f}", run.stderr)
    return 1 if wrong or not models else 0


if __name__ == "__main__":
    sys.exit(main())
