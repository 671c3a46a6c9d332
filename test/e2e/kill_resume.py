#!/usr/bin/env python3
"""Kills a training run again and again, resumes it each time, and compares.

A run of sheaf-run with checkpoints is ended by SIGKILL at random moments, many
of them while a checkpoint is written. After each kill it goes on with --resume.
At the end its log and its weights must equal those of a run that was never
killed, to the bit. Exit status 1 where they do not, or where a resume fails.

    kill_resume.py BIN_DIR [--artifact=PATH] [--count=50] [--seed=N]
                   [--data=FILE --token-type=u8]

Without --artifact a small GPT is compiled.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir")
    parser.add_argument("--artifact")
    parser.add_argument("--data", help="default: a text that is written here")
    parser.add_argument("--token-type", default="u8")
    parser.add_argument("--count", type=int, default=50, help="number of kills")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def lines(path):
    """What a log says apart from times."""
    with open(path) as file:
        records = [json.loads(line) for line in file]
    return [(r["step"], r["loss"], r.get("grad_norm"), r.get("lr"))
            for r in records]


def main():
    options = arguments()
    rng = random.Random(options.seed)
    folder = tempfile.mkdtemp(prefix="sheaf-kill-")
    data = options.data
    if data is None:
        data = os.path.join(folder, "text")
        with open(data, "w") as file:
            for i in range(5000):
                file.write(f"line {i} of {i * 7 % 31}, and {i % 13} more.\n")
    artifact = options.artifact
    if artifact is None:
        model = os.path.join(folder, "gpt.mlir")
        artifact = os.path.join(folder, "gpt.sheaf")
        subprocess.run([os.path.join(options.bin_dir, "sheaf-model"), "gpt", "--layers=1",
                        "--hidden=32", "--heads=2", "--vocab=256", "--seq=16", "--batch=4",
                        "-o", model], check=True)
        subprocess.run([os.path.join(options.bin_dir, "sheaf-compile"), model, "-o", artifact],
                       check=True)
    base = [os.path.join(options.bin_dir, "sheaf-run"), artifact, f"--data={data}",
            f"--token-type={options.token_type}", "--order=random", "--quiet"]
    killed = os.path.join(folder, "killed.jsonl")
    directory = os.path.join(folder, "checkpoints")
    saved = os.path.join(folder, "killed.safetensors")

    def command(steps):
        # A checkpoint after every step: most kills fall into one.
        return base + [f"--steps={steps}", f"--checkpoint={directory}",
                       "--checkpoint-every=1", f"--log={killed}",
                       f"--save={saved}"]

    def latest():
        names = [n for n in os.listdir(directory) if n.startswith("step-")] \
            if os.path.isdir(directory) else []
        return max((int(n[5:]) for n in names), default=0)

    endless = 10**8
    failures = 0
    before = 0
    for kill in range(options.count):
        resume = ["--resume"] if os.path.isdir(directory) else []
        run = subprocess.Popen(command(endless) + resume,
                               stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        start = latest()
        deadline = time.time() + 60
        # Until it has made progress, then a random moment more.
        while latest() <= start and run.poll() is None and \
                time.time() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))
        if run.poll() is not None:
            print(f"kill {kill}: the run ended by itself with status "
                  f"{run.returncode}:\n{run.stdout.read().decode()}")
            return 1
        run.kill()
        run.communicate()
        reached = latest()
        if reached < before:
            print(f"kill {kill}: the newest checkpoint went back from step "
                  f"{before} to {reached}")
            failures += 1
        before = reached
    steps = latest() + 3
    done = subprocess.run(command(steps) + ["--resume"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        print(f"the last resume failed:\n{done.stdout.decode()}")
        return 1

    whole = os.path.join(folder, "whole.jsonl")
    reference = os.path.join(folder, "whole.safetensors")
    subprocess.run(base + [f"--steps={steps}", f"--log={whole}",
                           f"--save={reference}"], check=True,
                   stdout=subprocess.DEVNULL)
    if lines(killed) != lines(whole):
        print("the log of the killed run differs from that of a whole run")
        failures += 1
    with open(saved, "rb") as a, open(reference, "rb") as b:
        if a.read() != b.read():
            print("the weights of the killed run differ from a whole run's")
            failures += 1
    print(f"{options.count} kills, {steps} steps, {failures} failures")
    if failures == 0:
        shutil.rmtree(folder)
    else:
        print(f"kept: {folder}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
