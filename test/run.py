#!/usr/bin/env python3
"""Runs every test of a build and prints one line a test and a last line
"N passed, M failed".

    test/run.py BUILD_DIR [--full=0|1] [--only=TEXT]

Kinds of tests: lit (the compiler, file by file), unit (gtest programs, one line
for each program's cases), e2e (scripts in test/e2e, which take the folder of
the built programs), oracle (the self-test of the NumPy oracle). With --full=1 also lit with
round trips, the runtime under sanitizers, a build with clang, and a minute of each fuzz target.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from fuzz.run import TARGETS as FUZZ_TARGETS

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable


class Results:
    def __init__(self, only):
        self.passed = self.failed = 0
        self.only = only

    def add(self, name, passed, failed, seconds, output=""):
        self.passed += passed
        self.failed += failed
        verdict = "ok  " if failed == 0 else "FAIL"
        print(f"{verdict} {name}: {passed} passed, {failed} failed ({seconds:.0f} s)", flush=True)
        if failed:
            print(output[-8000:], flush=True)

    def skips(self, name):
        return self.only and self.only not in name

    def run(self, name, command, count=None, timeout=1500, env=None):
        """Runs a command; `count` reads (passed, failed) off its output."""
        if self.skips(name):
            return
        start = time.time()
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True,
                                   env=dict(os.environ, **(env or {})))
        try:
            output, _ = process.communicate(timeout=timeout)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            output += f"\nstopped after {timeout} s"
            code = 1
        passed, failed = count(output) if count else (int(code == 0), int(code != 0))
        if code != 0 and failed == 0:
            failed = 1
        if passed + failed == 0:
            failed = 1
            output += "\nno test ran"
        self.add(name, passed, failed, time.time() - start, output)


def lit_counts(output):
    def number(label):
        match = re.search(rf"^\s*{label}\s*:\s*(\d+)", output, re.M)
        return int(match.group(1)) if match else 0

    return number("Passed") + number("Expectedly Failed"), number("Failed") + number(
        "Unresolved") + number("Timed Out") + number("Unexpectedly Passed")


def gtest_counts(output):
    passed = re.findall(r"\[  PASSED  \] (\d+) test", output)
    failed = re.findall(r"\[  FAILED  \] (\d+) test", output)
    return sum(map(int, passed)), sum(map(int, failed))


def script_counts(output):
    """The last line "N passed, M failed"; one test where a script has none."""
    match = re.search(r"^(\d+) passed, (\d+) failed$", output, re.M)
    return (int(match.group(1)), int(match.group(2))) if match else (1, 0)


def build(folder, *arguments):
    subprocess.run(["cmake", "-G", "Ninja", "-B", str(folder), *arguments], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder)], check=True)


def unit_programs(folder):
    return sorted(path for path in folder.glob("**/*-test")
                  if path.is_file() and os.access(path, os.X_OK))


def main():
    build_dir, full, only = Path(sys.argv[1]).resolve(), False, ""
    for argument in sys.argv[2:]:
        if argument.startswith("--full="):
            full = argument == "--full=1"
        elif argument.startswith("--only="):
            only = argument[len("--only="):]
        else:
            sys.exit(f"run.py: unknown argument '{argument}'")
    results = Results(only)
    bin_dir = build_dir / "bin"
    lit = Path(subprocess.run(["llvm-config-22", "--bindir"], capture_output=True,
                              text=True).stdout.strip() or "/usr/lib/llvm-22/bin") / "lit"

    more = {"SHEAF_FULL": "1"} if full else None
    for path in unit_programs(bin_dir):
        is_gtest = b"gtest" in path.read_bytes()
        results.run(f"unit/{path.name}", [path], gtest_counts if is_gtest else None, env=more)
    results.run("lit", [lit, "-sv", build_dir / "test"], lit_counts, env=more,
                timeout=3600 if full else 1500)
    results.run("oracle/selftest", [PYTHON, ROOT / "test/oracle/selftest.py"])
    results.run("oracle/gradcheck", [PYTHON, ROOT / "test/oracle/gradcheck.py", bin_dir],
                script_counts)
    for script in sorted((ROOT / "test/e2e").glob("*.py")):
        if script.name == "support.py":
            continue
        results.run(f"e2e/{script.stem}", [PYTHON, script, bin_dir], script_counts,
                    timeout=4 * 3600 if full else 1500, env=more)

    if full:
        results.run("lit --verify-roundtrip",
                    [lit, "-sv", "--param=roundtrip=1", build_dir / "test"], lit_counts)
        for sanitizer in ("address", "thread"):
            if results.skips(f"runtime with {sanitizer} sanitizer"):
                continue
            folder = build_dir / f"runtime-{sanitizer}"
            start = time.time()
            try:
                build(folder, "-S", str(ROOT / "runtime"), "-DSHEAF_TESTS=ON",
                      f"-DSHEAF_SANITIZE={sanitizer}")
            except subprocess.CalledProcessError as error:
                results.add(f"runtime with {sanitizer} sanitizer: build", 0, 1,
                            time.time() - start, str(error))
                continue
            for path in unit_programs(folder):
                results.run(f"{sanitizer} sanitizer: {path.name}", [path], gtest_counts)
        if not results.skips("build with clang"):
            start = time.time()
            try:
                build(build_dir / "clang", "-S", str(ROOT), "-DCMAKE_C_COMPILER=clang",
                      "-DCMAKE_CXX_COMPILER=clang++")
                results.add("build with clang", 1, 0, time.time() - start)
            except subprocess.CalledProcessError as error:
                results.add("build with clang", 0, 1, time.time() - start, str(error))
        fuzz = [PYTHON, ROOT / "test/fuzz/run.py", build_dir]
        results.run("fuzz: build", [*fuzz, "--build-only"], timeout=7200)
        for name in FUZZ_TARGETS:
            results.run(f"fuzz: {name}", [*fuzz, f"--only={name}", "--seconds=60"], script_counts)

    print(f"{results.passed} passed, {results.failed} failed")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
