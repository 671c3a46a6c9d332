#!/usr/bin/env python3
"""Starts an op of nn: an elementwise function of one tensor, with all that an op has.

    scripts/new-op.py NAME [--summary=TEXT]

as in `scripts/new-op.py softsign`. New is test/dialects/NN/NAME.mlir; edited are the op's
definition (NNOps.td), its gradient (Gradients.cpp), its decomposition (Decompositions.cpp),
its fold (Folds.cpp) and its case for the tests that execute (test/oracle/op_cases.py). What
is written computes x * x and passes its tests: put the function in its places. Its sharding
rule is that of every elementwise op."""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def fail(message):
    sys.exit(f"new-op.py: {message}")


def insert(path, before, text):
    """`text` in front of the line that starts with `before`."""
    content = path.read_text()
    match = re.search("^" + re.escape(before), content, re.M)
    if not match:
        fail(f"{path} has no line that starts with '{before}'")
    return path, content[:match.start()] + text + content[match.start():]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="as in IR, without the dialect: softsign")
    parser.add_argument("--summary", default="square", help="lower case, no period")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    root, name = arguments.root.resolve(), arguments.name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        fail(f"the name is '{name}', expected lower case, digits and underscores")
    folder = root / "dialects/NN"
    record = "".join(word.capitalize() for word in name.split("_")) + "Op"
    test = root / "test/dialects/NN" / f"{name}.mlir"
    if re.search(rf'<"{name}"', (folder / "NNOps.td").read_text()):
        fail(f"NNOps.td has an op '{name}' already")
    if test.exists():
        fail(f"there is a {test.relative_to(root)} already")
    edits = [
        insert(folder / "NNOps.td", "def NN_AddOp",
               f'def NN_{record} : NN_UnaryOp<"{name}", "{arguments.summary}",\n'
               f'  "x * x", NN_FloatTensor, [ByGradient, ByDecomposition]>;\n\n'),
        insert(folder / "Gradients.cpp", "// Reads the result, which the next product",
               f"UNARY_GRADIENT({record}, w.mul(dy, w.mul(x, 2.0)))\n"),
        insert(folder / "Decompositions.cpp", "SmallVector<Value> SiluOp::decompose",
               f"SmallVector<Value> {record}::decompose(OpBuilder &builder) {{\n"
               "  Emit emit(builder, getLoc());\n"
               "  Value x = widen(emit, getInput());\n"
               "  return {castLike(emit, emit.mul(x, x), getInput())};\n}\n\n"),
        insert(folder / "Folds.cpp", "#undef NO_FOLD", f"NO_FOLD({record})\n"),
        insert(root / "test/oracle/op_cases.py", '    "gelu": (lambda',
               f'    "{name}": (np.square, normal),\n'),
    ]
    test.write_text(f'''// RUN: sheaf-opt %s --verify-roundtrip | FileCheck %s
// RUN: sheaf-opt %s --nn-decompose | FileCheck %s --check-prefix=SIMPLE
// RUN: sheaf-opt %s --nn-differentiate=functions=f | FileCheck %s --check-prefix=GRADIENT
// RUN: sheaf-opt %s --nn-print-rules -o %t 2>&1 | FileCheck %s --check-prefix=RULE

// RULE: remark: rule: [d0][d1] -> [d0][d1]
// CHECK-LABEL: func.func @f(
// CHECK: nn.{name} %{{{{.*}}}} : tensor<4x8xf32>
// SIMPLE-LABEL: func.func @f(
// SIMPLE-NOT: nn.{name}
// SIMPLE: nn.mul
// GRADIENT-LABEL: func.func @f_gradient(
// GRADIENT: nn.mul
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %y = nn.{name} %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}}
''')
    for path, content in edits:
        path.write_text(content)
    print(f"new:    {test.relative_to(root)}")
    for path, _ in edits:
        print(f"edited: {path.relative_to(root)}")
    print("next:   scripts/build.sh && /usr/lib/llvm-22/bin/lit -v build/test "
          "--filter='dialects/NN|autodiff'")


if __name__ == "__main__":
    main()
