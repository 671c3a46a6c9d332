#!/usr/bin/env python3
"""How long schedules of a large pipeline take to make, lower and verify.

    benchmarks/schedules.py BUILD/bin [--ranks=64 --microbatches=512 --chunks=4]

For each recipe one run of `sheaf-schedule --verify`, nothing written: processor seconds and the
largest memory. Prints the limit beside them; exits 1 when it is passed.
"""

import argparse
import resource
import subprocess
import sys
import time

RECIPES = ("gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zbv", "dualpipev")
SECONDS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin_dir")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--microbatches", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=4)
    options = parser.parse_args()
    slow = 0
    for recipe in RECIPES:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.time()
        subprocess.run([f"{options.bin_dir}/sheaf-schedule", f"--pipeline={recipe}", "--verify",
                        f"--ranks={options.ranks}", f"--microbatches={options.microbatches}",
                        f"--chunks={options.chunks}"], check=True, stdout=subprocess.DEVNULL)
        wall = time.time() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        slow += seconds > SECONDS
        # The largest of all runs so far.
        print(f"{recipe:12} {seconds:6.2f} s of processor, {wall:6.2f} s (limit {SECONDS} s), "
              f"at most {after.ru_maxrss / 1024:.0f} MiB", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
