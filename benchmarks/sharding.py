#!/usr/bin/env python3
"""How fast shardings propagate and steps are partitioned.

    benchmarks/sharding.py BUILD/bin [--rounds=5]

On one thread, the best of some rounds: ops a processor second that dist-propagate and dist-partition do on a flat
file (a chain of blocks that reshard, without functions), at two lengths, and the ratio of
seconds an op (linear: 1); an op with 64 operands in conflicting shardings against as many
ops with two; the four passes on the step of a Llama of 126 layers on dp=8,tp=8; and the
compile time of one model on 4 and on 16384 devices. Prints the limits beside them; exits 1
when one is passed.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile

PASSES = ["dist-propagate", "dist-partition"]
OPS_A_SECOND = 100_000
LLAMA_SECONDS = 2
STRATEGY = "dist-apply-strategy{mesh=%s zero=1 sequence-parallel}"


def timing(command):
    """Wall seconds of each pass, by its name, and of all."""
    text = subprocess.run(command + ["--mlir-timing", "--mlir-timing-display=list",
                                     "--mlir-disable-threading"],
                          check=True, capture_output=True, text=True).stderr
    rows = {}
    for line in text.splitlines():
        match = re.match(r"\s+(?:[\d.]+ \([ \d.]+%\)\s+)?([\d.]+) \([ \d.]+%\)\s+(\S+)", line)
        if match:
            rows[match[2]] = rows.get(match[2], 0) + float(match[1])
    return rows


def processor(tool, path, rounds):
    """Processor seconds of each pass: what a run takes longer with it than without."""
    def once(names):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([tool, path, "-o", os.devnull, "--mlir-disable-threading",
                        f"--pass-pipeline=builtin.module({','.join(names)})"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    best = [min(once(PASSES[:n]) for _ in range(rounds)) for n in range(len(PASSES) + 1)]
    return {name: best[n + 1] - best[n] for n, name in enumerate(PASSES)}


def flat(blocks):
    """Blocks of a column- and a row-parallel product, elementwise ops and a norm; returns
    the text and the number of ops."""
    lines, ops, value = [], 0, "%x"
    for i in range(blocks):
        for name, op, kind in (
                (f"%a{i}", f'nn.einsum "be,ef->bf"({value}, %u)',
                 "(tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>"),
                (f"%b{i}", f"nn.tanh %a{i}", "tensor<64x64xf32>"),
                (f"%c{i}", f"nn.mul %b{i}, %a{i}", "tensor<64x64xf32>"),
                (f"%d{i}", f'nn.einsum "bf,fe->be"(%c{i}, %v)',
                 "(tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>"),
                (f"%e{i}", f"nn.add %d{i}, {value}", "tensor<64x32xf32>"),
                (f"%f{i}", f"nn.reduce mean %e{i} dims [1] keep",
                 "(tensor<64x32xf32>) -> tensor<64x1xf32>"),
                (f"%g{i}", f"nn.sub %e{i}, %f{i}",
                 "(tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>"),
                (f"%h{i}", f"nn.exp %g{i}", "tensor<64x32xf32>")):
            lines.append(f"  {name} = {op} : {kind}")
            ops += 1
        value = f"%h{i}"
    text = "\n".join(
        ['dist.mesh @mesh ["dp" = 4, "tp" = 2]',
         'func.func @f(%x: tensor<64x32xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}, '
         '%u: tensor<32x64xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}, '
         '%v: tensor<64x32xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) '
         "-> tensor<64x32xf32> {", *lines, f"  return {value} : tensor<64x32xf32>", "}"])
    return text, ops


def conflict(operands, count):
    """`count` concatenations of `operands` values whose shardings differ."""
    shardings = ['[{"dp"}, {}]', '[{}, {"dp"}]', '[{"tp"}, {}]', '[{"tp"}, {"dp"}]']
    arguments = ", ".join(f"%x{i}: tensor<64x32xf32> "
                          f"{{dist.sharding = #dist.sharding<{shardings[i % 4]}>}}"
                          for i in range(operands))
    kind = f"({', '.join(['tensor<64x32xf32>'] * operands)}) -> tensor<{64 * operands}x32xf32>"
    names = ", ".join(f"%x{i}" for i in range(operands))
    lines = [f"  %y{i} = nn.concatenate {names} dim 0 : {kind}" for i in range(count)]
    return "\n".join(['dist.mesh @mesh ["dp" = 4, "tp" = 2]', f"func.func @f({arguments}) {{",
                      *lines, "  return", "}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    tool = lambda name: os.path.join(os.path.abspath(arguments.bin), name)
    failures = []

    def report(text, good):
        print(("" if good else "TOO SLOW ") + text, flush=True)
        if not good:
            failures.append(text)

    with tempfile.TemporaryDirectory(prefix="sheaf-sharding-") as folder:
        def write(name, text):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return path

        def passes(path, *extra):
            command = [tool("sheaf-opt"), path, "-o", os.devnull,
                       f"--pass-pipeline=builtin.module({','.join([*extra, *PASSES])})"]
            rounds = [timing(command) for _ in range(arguments.rounds)]
            named = {"DistPropagate": "dist-propagate", "DistPartition": "dist-partition",
                     "DistApplyStrategy": "dist-apply-strategy"}
            return {short: min(row[long] for row in rounds)
                    for long, short in named.items() if long in rounds[0]}

        seconds = {}
        for blocks in (2500, 10000):
            text, ops = flat(blocks)
            for name, time in processor(
                    tool("sheaf-opt"), write(f"flat{blocks}.mlir", text), arguments.rounds).items():
                seconds[name, blocks] = time / ops
                if blocks == 10000:
                    report(f"{name}: {ops / time:.0f} ops a processor second on {ops} ops, expected at "
                           f"least {OPS_A_SECOND}; an op takes "
                           f"{seconds[name, 10000] / seconds[name, 2500]:.2f} times as long as "
                           "on a quarter of them", ops / time >= OPS_A_SECOND)

        many = passes(write("many.mlir", conflict(64, 64)))
        few = passes(write("few.mlir", conflict(2, 64 * 32)))
        for name in PASSES:
            report(f"{name}: 64 ops of 64 operands in conflict take {many[name] / few[name]:.2f} "
                   "times as long as 2048 ops of 2", many[name] <= 1.5 * few[name])

        def step(name, *flags):
            model = os.path.join(folder, name)
            subprocess.run([tool("sheaf-model"), *flags, "-o", model], check=True)
            return subprocess.run([tool("sheaf-compile"), model, "--emit=step"], check=True,
                                  capture_output=True, text=True).stdout

        llama = write("llama.mlir", step("model.mlir", "llama", "--layers=126", "--hidden=1024",
                                         "--heads=16", "--kv-heads=8", "--vocab=32000",
                                         "--seq=256", "--batch=64"))
        extra = ["nn-decompose{ops=step_mean,step_sum}"]
        times = passes(llama, *extra, STRATEGY % "dp=8,tp=8")
        total = sum(times.values())
        report(f"Llama of 126 layers on dp=8,tp=8: {total:.2f} s (" +
               ", ".join(f"{name} {time:.2f}" for name, time in times.items()) +
               f"), expected at most {LLAMA_SECONDS}", total <= LLAMA_SECONDS)

        small = write("small.mlir", step("model.mlir", "llama", "--layers=4", "--hidden=4096",
                                         "--heads=64", "--kv-heads=64", "--vocab=32768",
                                         "--seq=128", "--batch=512"))
        of = {devices: sum(passes(small, *extra, STRATEGY % mesh).values())
              for devices, mesh in ((4, "dp=2,tp=2"), (16384, "dp=256,tp=64"))}
        report(f"16384 devices take {of[16384] / of[4]:.2f} times as long as 4 "
               f"({of[16384]:.3f} s)", of[16384] <= 1.3 * of[4] + 0.02)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
