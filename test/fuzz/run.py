#!/usr/bin/env python3
"""Builds the fuzz targets with clang and runs each for a while from its seeds.

    test/fuzz/run.py BUILD_DIR [--seconds=60] [--only=NAME] [--build-only]

Seeds of IR are the tests of the tree, file by file and part by part, and models of
BUILD_DIR/bin/sheaf-model; those of other formats
lie in test/fuzz/seeds and in the inputs of sheaf-model's tests. What a target finds
stays in BUILD_DIR/fuzz/found; the last line is "N passed, M failed".
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMPILER = ("ir", "compile", "config", "schedule")
RUNTIME = ("manifest", "tokens", "safetensors", "checkpoint", "cluster")
TARGETS = COMPILER + RUNTIME


def configure_and_build(folder, source, targets, *arguments):
    subprocess.run(["cmake", "-G", "Ninja", "-B", str(folder), "-S", str(source),
                    "-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++",
                    "-DSHEAF_FUZZ=ON", *arguments], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "--target", *targets], check=True)


FUNCTION = """func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = nn.silu %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""
LOSS = """func.func @loss(
    %table: tensor<7x4xf32>
      {nn.param = #nn.param<"table", axes = [vocab, embed], init = normal(0.5)>},
    %tokens: tensor<4x4xi32> {nn.batch = "tokens"}) -> tensor<f32> {
  %x = nn.embedding %table[%tokens]
    : (tensor<7x4xf32>, tensor<4x4xi32>) -> tensor<4x4x4xf32>
  %y = nn.mul %x, %x : tensor<4x4x4xf32>
  %zero = nn.constant dense<0> : tensor<i32>
  %valid = nn.compare ge %tokens, %zero : (tensor<4x4xi32>, tensor<i32>) -> tensor<4x4xi1>
  %losses = nn.reduce sum %y dims [2] : (tensor<4x4x4xf32>) -> tensor<4x4xf32>
  %loss = nn.step_mean %losses weights %valid
    : (tensor<4x4xf32>, tensor<4x4xi1>) -> tensor<f32>
  return %loss : tensor<f32>
}
"""


def phase_seeds(folder, bin_dir):
    """What each phase of the driver leaves, from which it starts again."""
    texts = []
    for name, text, flags, option in (("function", FUNCTION, [], "llvm"),
                                      ("loss", LOSS, ["--mesh=dp=2", "--optimizer=sgd"],
                                       "mesh=dp:2 sgd")):
        phases = folder / name
        shutil.rmtree(phases, ignore_errors=True)
        phases.mkdir(parents=True)
        subprocess.run([bin_dir / "sheaf-compile", "-", *flags, "--emit=llvm",
                        f"--dump-phases-to={phases}", "-o", folder / f"{name}.ll"],
                       input=text, text=True, check=True)
        texts += [f"// options: {option}\n{path.read_text()}"
                  for path in sorted(phases.glob("*.mlir"))]
    return texts


def ir_seeds(folder, bin_dir):
    """IR of the tree's tests, and small models, with options for fuzz-compile."""
    texts = []
    for path in sorted((ROOT / "test").rglob("*.mlir")):
        for part in re.split(r"^// -----.*$", path.read_text(), flags=re.M):
            lines = [line for line in part.splitlines()
                     if not line.lstrip().startswith("//")]
            if any(line.strip() for line in lines):
                texts.append("\n".join(lines) + "\n")
    options = ("mesh=dp:2,tp:2 zero=1 sp", "mesh=dp:4 zero=3 zero-group=2",
               "mesh=dp:2,tp:2 zero=3 gathers=keep bucket-bytes=auto explain=json",
               "mesh=dp:2 zero=2 accumulate=whole bucket-bytes=100 zero-min-bytes=50 explain",
               "mesh=dp:2,tp:2 zero=1 gradient-wire=int8 weight-wire=bf16",
               "mesh=dp:4 zero=3 microbatches=2 gradient-wire=fp8 weight-wire=int8",
               "mesh=tp:2 strict=100", "mesh=tp:2 why=%x", "level=0", "fusion level=1",
               "microbatches=2 recompute=full", "recompute=selective sgd", "reference",
               "reference=f64", "differentiate", "llvm", "mesh=tp:3 microbatches=2", "")
    for model in (["gpt", "--dropout=0.1"], ["llama", "--kv-heads=1", "--documents", "--window=3"]):
        text = subprocess.run([bin_dir / "sheaf-model", *model, "--layers=1", "--hidden=4",
                               "--heads=2", "--ffn=5", "--vocab=7", "--seq=4", "--batch=4"],
                              check=True, capture_output=True, text=True).stdout
        texts += [f"// options: {option}\n{text}" for option in options]
    texts += phase_seeds(folder.with_name(f"{folder.name}-phases"), bin_dir)
    for i, text in enumerate(texts):
        if len(text) > 20000:
            continue
        (folder / f"{i:04}.mlir").write_text(text)


def seeds(name, work, bin_dir):
    if name in ("ir", "compile"):
        folder = work / f"seeds-{name}"
        # As the tests are now.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        ir_seeds(folder, bin_dir)
        return folder
    if name == "config":
        return ROOT / "test/tools/sheaf-model/Inputs"
    if name == "cluster":
        return ROOT / "examples/clusters"
    return HERE / "seeds" / name


def build(work, names):
    for folder, source, group, arguments in (
            (work / "compiler", ROOT, COMPILER, ["-DSHEAF_TESTS=OFF"]),
            (work / "runtime", ROOT / "runtime", RUNTIME, ["-DSHEAF_SANITIZE=address"])):
        targets = [f"fuzz-{name}" for name in group if name in names]
        if targets:
            configure_and_build(folder, source, targets, *arguments)


def fuzz(name, work, bin_dir, seconds):
    """Runs one target; whether it found nothing."""
    found, corpus = work / "found", work / f"corpus-{name}"
    for folder in (found, corpus):
        folder.mkdir(exist_ok=True)
    program = next(path for path in work.glob(f"*/**/fuzz-{name}") if path.is_file())
    command = [program, corpus, seeds(name, work, bin_dir), f"-max_total_time={seconds}",
               "-timeout=120", "-rss_limit_mb=3000", "-max_len=20000", "-print_final_stats=1",
               # What an explanation prints goes nowhere.
               "-close_fd_mask=1",
               f"-artifact_prefix={found}/{name}-"]
    try:
        process = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                                 errors="replace", timeout=seconds + 600,
                                 env=dict(os.environ, UBSAN_OPTIONS="print_stacktrace=1"))
        errors, is_fine = process.stderr, process.returncode == 0
    except subprocess.TimeoutExpired as error:
        errors, is_fine = (error.stderr or b"").decode(errors="replace") + "\nno end\n", False
    runs = re.search(r"stat::number_of_executed_units: *(\d+)", errors)
    cover = re.findall(r"cov: (\d+)", errors)
    # A run without inputs would find nothing, too.
    is_fine = is_fine and runs is not None and int(runs[1]) > 0
    print(f"{'ok  ' if is_fine else 'FAIL'} fuzz-{name}: {runs[1] if runs else '?'} inputs in "
          f"{seconds} s, {cover[-1] if cover else '?'} edges", flush=True)
    if not is_fine:
        print(errors[-6000:], flush=True)
    return is_fine


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build_dir", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", choices=TARGETS, help="one target alone")
    parser.add_argument("--build-only", action="store_true", help="builds, runs nothing")
    options = parser.parse_args()
    names = [options.only] if options.only else TARGETS
    build_dir = options.build_dir.resolve()
    work = build_dir / "fuzz"
    work.mkdir(parents=True, exist_ok=True)
    build(work, names)
    if options.build_only:
        return 0
    failed = sum(not fuzz(name, work, build_dir / "bin", options.seconds) for name in names)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
