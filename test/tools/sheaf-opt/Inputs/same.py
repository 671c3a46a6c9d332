"""same.py SHEAF_OPT MLIR_OPT TESTS...: options that --help of sheaf-opt lists do there what they
do in mlir-opt: the same output, errors, files and exit status on the same input, and not what
comes without the option. An option without a case here is set in one of TESTS."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sheaf_opt, mlir_opt = (shutil.which(name) for name in sys.argv[1:3])
tests = sys.argv[3:]

INPUTS = {
    "a.mlir": """\
func.func @f(%x: i32 loc("input")) -> i32 {
  %c = arith.constant 5 : i32
  %d = arith.constant 5 : i32
  %v = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %y = arith.addi %c, %d : i32
  %z = arith.addi %x, %y : i32
  return %z : i32
}
func.func @g(%x: i32) -> i32 {
  return %x : i32
}
""",
    "unknown.mlir": 'func.func @f() {\n  "odd.op"() : () -> ()\n  return\n}\n',
    "wrong.mlir": "func.func @f(%x: i64) -> i32 {\n  %dead = arith.addi %x, %x : i64\n"
                  "  return %x : i64\n}\n",
    "expected.mlir": "// expected-error @+1 {{no such thing}}\nfunc.func @f() {\n  return\n}\n",
    "parts.mlir": "func.func @f() {\n  return\n}\n// -----\nfunc.func @f() {\n  return\n}\n",
    "resource.mlir": """\
func.func @f() -> tensor<2xf32> {
  %c = arith.constant dense_resource<w> : tensor<2xf32>
  return %c : tensor<2xf32>
}
{-# dialect_resources: { builtin: { w: "0x040000000000803F0000803F" } } #-}
""",
    "dialect.mlir": """\
irdl.dialect @odd {
  irdl.operation @op {
  }
}
""",
}
CSE = "--pass-pipeline=builtin.module(func.func(cse,canonicalize))"
# Option: its value, the input, and what else is given with it and without it.
CASES = {
    "allow-unregistered-dialect": ("", "unknown.mlir"),
    "dump-pass-pipeline": ("", "a.mlir", CSE),
    "elide-resource-data-from-bytecode": ("", "resource.mlir", "--emit-bytecode"),
    "emit-bytecode": ("", "a.mlir"),
    "emit-bytecode-version": ("2", "a.mlir", "--emit-bytecode"),
    "irdl-file": ("dialect.mlir", "unknown.mlir"),
    "log-actions-to": ("-", "a.mlir", CSE, "--mlir-disable-threading"),
    "log-mlir-actions-filter": ("a.mlir:9:1", "a.mlir", CSE, "--mlir-disable-threading",
                                "--log-actions-to=log"),
    "mlir-debug-counter": ("pass-execution-skip=1,pass-execution-count=1", "a.mlir", CSE,
                           "--mlir-disable-threading"),
    "mlir-disable-diagnostic-notes": ("", "wrong.mlir"),
    "mlir-disable-threading": ("", "a.mlir", CSE, "--mlir-print-ir-module-scope",
                               "--mlir-print-ir-before-all"),
    "mlir-elide-elementsattrs-if-larger": ("2", "a.mlir"),
    "mlir-elide-resource-strings-if-larger": ("4", "resource.mlir"),
    "mlir-enable-debugger-hook": ("", "a.mlir"),
    "mlir-generate-reproducer": ("again.mlir", "a.mlir", CSE),
    "mlir-output-format": ("json", "a.mlir", CSE, "--mlir-timing"),
    "mlir-pass-statistics": ("", "a.mlir", CSE),
    "mlir-pass-statistics-display": ("list", "a.mlir", CSE, "--mlir-pass-statistics"),
    "mlir-pretty-debuginfo": ("", "a.mlir", "--mlir-print-debuginfo"),
    "mlir-print-debug-counter": ("", "a.mlir", CSE, "--mlir-disable-threading",
                                 "--mlir-debug-counter=pass-execution-count=1"),
    "mlir-print-debuginfo": ("", "a.mlir"),
    "mlir-print-elementsattrs-with-hex-if-larger": ("2", "a.mlir"),
    "mlir-print-ir-after": ("cse", "a.mlir", CSE, "--mlir-disable-threading"),
    "mlir-print-ir-after-all": ("", "a.mlir", CSE, "--mlir-disable-threading"),
    "mlir-print-ir-after-change": ("", "a.mlir", CSE, "--mlir-disable-threading",
                                   "--mlir-print-ir-after-all"),
    "mlir-print-ir-after-failure": ("", "a.mlir", CSE, "--mlir-disable-threading",
                                    "--mlir-print-ir-after-all"),
    "mlir-print-ir-before": ("cse", "a.mlir", CSE, "--mlir-disable-threading"),
    "mlir-print-ir-before-all": ("", "a.mlir", CSE, "--mlir-disable-threading"),
    "mlir-print-ir-module-scope": ("", "a.mlir", CSE, "--mlir-disable-threading",
                                   "--mlir-print-ir-before-all"),
    "mlir-print-ir-tree-dir": ("tree", "a.mlir", CSE, "--mlir-print-ir-after-all"),
    "mlir-print-local-scope": ("", "a.mlir", "--mlir-print-debuginfo"),
    "mlir-print-op-on-diagnostic": ("false", "wrong.mlir"),
    "mlir-print-skip-regions": ("", "a.mlir"),
    "mlir-print-stacktrace-on-diagnostic": ("", "wrong.mlir"),
    "mlir-print-unique-ssa-ids": ("", "a.mlir"),
    "mlir-print-value-users": ("", "a.mlir"),
    "mlir-timing": ("", "a.mlir", CSE),
    "mlir-timing-display": ("list", "a.mlir", CSE, "--mlir-timing"),
    "mlir-use-nameloc-as-prefix": ("", "a.mlir"),
    "mlir-very-unsafe-disable-verifier-on-parsing": ("", "wrong.mlir"),
    "no-implicit-module": ("", "unknown.mlir", "--allow-unregistered-dialect"),
    "o": ("out.mlir", "a.mlir"),
    "output-split-marker": ("// next", "parts.mlir", "--split-input-file"),
    "pass-pipeline": (CSE.split("=")[1], "a.mlir"),
    "profile-actions-to": ("profile.json", "a.mlir", CSE, "--mlir-disable-threading"),
    "split-input-file": ("", "parts.mlir"),
    "verify-diagnostics": ("", "expected.mlir"),
    "verify-each": ("false", "wrong.mlir", CSE,
                    "--mlir-very-unsafe-disable-verifier-on-parsing"),
    "color": ("", "a.mlir"),
}
# Nothing to be seen where MLIR counts nothing, nothing is a terminal, and notes stay in MLIR 22.
SEEN_NOWHERE = {"color", "mlir-disable-diagnostic-notes", "mlir-pass-statistics-display"}


def result(program, arguments):
    """What a run leaves behind, but for times, addresses and places of the programs."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in INPUTS.items():
            Path(folder, name).write_text(text)
        run = subprocess.run([program, *arguments], cwd=folder, capture_output=True, check=False)
        files = {str(path.relative_to(folder)): path.read_bytes()
                 for path in Path(folder).rglob("*") if path.is_file()}
    options = " ".join(arguments)
    if "stacktrace" in options:
        # Frames of two programs.
        run.stderr = b"\n".join(line for line in run.stderr.splitlines() if b"#" not in line)
    if "timing" in options and "json" not in options:
        # In the order of times; the widths of columns follow the numbers.
        run.stderr = b"\n".join(sorted({line.split(b")")[-1].rstrip()
                                        for line in run.stderr.splitlines() if b"%)" in line}))

    def plain(data):
        data = data.replace(Path(program).name.encode(), b"PROGRAM")
        return re.sub(rb'\s*\d+\.\d+|0x[0-9a-f]+|"(ts|tid|pid)": ?"?\d+"?|pid \d+', b"N", data)

    return (run.returncode, plain(run.stdout), plain(run.stderr),
            sorted((re.sub(r"_\d+_", "_N_", name), plain(data)) for name, data in files.items()
                   if name not in INPUTS))


text = subprocess.run([sheaf_opt, "--help"], capture_output=True, text=True, check=True).stdout
# Passes and their options stand further in.
listed = set(re.findall(r"^  --?([a-z][\w-]*)", text, re.M))
elsewhere = "\n".join(Path(test).read_text() for test in tests)
bad = [f"{name} is in no test" for name in sorted(listed - set(CASES))
       if not re.search(rf"-{name}(?![\w-])", elsewhere)]
for name, (value, source, *others) in CASES.items():
    option = f"-{name}" if len(name) == 1 else f"--{name}"
    option = [option, value] if len(name) == 1 else [f"{option}={value}" if value else option]
    ours = result(sheaf_opt, [source, *others, *option])
    theirs = result(mlir_opt, [source, *others, *option])
    if ours != theirs:
        bad.append(f"{name} does not do what it does in mlir-opt: {ours}, expected {theirs}")
    if name not in SEEN_NOWHERE and ours == result(sheaf_opt, [source, *others]):
        bad.append(f"{name} does nothing")
for each in bad:
    print("BAD", each)
print(len(listed), "options,", len(CASES), "compared,", len(bad), "bad")
sys.exit(1 if bad else 0)
