#!/usr/bin/env python3
"""Starts a pass: two new files and two edited ones.

    scripts/new-pass.py FOLDER NAME [--on=func|module] [--summary=TEXT]

as in `scripts/new-pass.py passes/nn nn-count-ops`. New are FOLDER/CountOps.cpp and
test/FOLDER/count-ops.mlir; FOLDER/Passes.td and FOLDER/CMakeLists.txt get an entry. What is
written builds, passes its test and says how many ops there are: a place to start from.
Registration and options come from Passes.td."""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFIXES = {"nn": "NN", "dist": "Dist", "exec": "Exec", "cpu": "CPU", "pipe": "Pipe"}


def fail(message):
    sys.exit(f"new-pass.py: {message}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="a folder with a Passes.td, as passes/nn")
    parser.add_argument("name", help="<dialect>-<verb>, as nn-count-ops")
    parser.add_argument("--on", choices=["func", "module"], default="func")
    parser.add_argument("--summary", default="count the ops", help="lower case, no period")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    folder = root / arguments.folder.rstrip("/")
    name = arguments.name
    if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", name):
        fail(f"the name is '{name}', expected <dialect>-<verb> in lower case, as nn-count-ops")
    groups = sorted(path for top in ("passes", "lowering")
                    for path in (root / top).rglob("Passes.td"))
    if folder / "Passes.td" not in groups:
        known = [str(path.parent.relative_to(root)) for path in groups]
        fail(f"'{arguments.folder}' has no Passes.td, expected one of {', '.join(known)}")
    dialect, *words = name.split("-")
    stem = "".join(word.capitalize() for word in words)
    record = PREFIXES.get(dialect, dialect.capitalize()) + stem
    relative = folder.relative_to(root)
    source = folder / f"{stem}.cpp"
    test = root / "test" / relative / f"{'-'.join(words)}.mlir"
    for path in (source, test):
        if path.exists():
            fail(f"there is a {path.relative_to(root)} already")
    passes, cmake = (folder / "Passes.td").read_text(), (folder / "CMakeLists.txt").read_text()
    for path in groups:
        if re.search(rf'Pass<"{name}"|def {record}\b', path.read_text()):
            fail(f"{path.relative_to(root)} has a pass '{name}' already")
    # The one that declares and registers what is in Passes.td.
    header = next((path for path in sorted(folder.glob("*.h"))
                   if "GEN_PASS_REGISTRATION" in path.read_text()), None)
    if not header:
        fail(f"no header of {relative} has GEN_PASS_REGISTRATION, expected one that registers "
             "the passes of Passes.td")
    op = {"func": "::mlir::func::FuncOp", "module": "::mlir::ModuleOp"}[arguments.on]
    summary = arguments.summary

    entry = f'''def {record} : Pass<"{name}", "{op}"> {{
  let summary = "{summary}";
  let description = [{{
    What it does, what it requires and what it ensures. The number of ops is a
    remark of the category `{folder.name}`.

    Before and after:

    ```mlir
    %y = nn.relu %x : tensor<4x8xf32>
    ```
  }}];
}}
'''
    # At the end, or before the end of a guard.
    text, guard = re.fullmatch(r"(.*?)((?:#endif[^\n]*\s*)?)", passes.rstrip(), re.S).groups()
    passes = text.rstrip() + "\n\n" + entry + (f"\n{guard}\n" if guard else "")

    match = re.search(r"sheaf_compiler_library\(\w+\n((?:  \w+\.cpp\n)+)", cmake)
    if not match:
        fail(f"{relative}/CMakeLists.txt has no sheaf_compiler_library with one file a line")
    files = sorted(match.group(1).splitlines() + [f"  {stem}.cpp"])
    cmake = cmake[:match.start(1)] + "\n".join(files) + "\n" + cmake[match.end(1):]

    title = f"//===- {stem}.cpp - {summary[0].upper() + summary[1:]} "
    body = f'''{title}{"-" * max(0, 75 - len(title))}===//

#include "{header.relative_to(root)}"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace sheaf {{
#define GEN_PASS_DEF_{record.upper()}
#include "{relative}/Passes.h.inc"
}} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {{
struct {record} : sheaf::impl::{record}Base<{record}> {{
  void runOnOperation() final {{
    int64_t count = 0;
    getOperation()->walk([&](Operation *op) {{ count += op != getOperation(); }});
    remark::analysis(getOperation()->getLoc(),
                     remark::RemarkOpts::name("counted").category("{folder.name}"))
        << (std::to_string(count) + " ops");
    markAllAnalysesPreserved();
  }}
}};
}} // namespace
'''
    pipeline = f"builtin.module(func.func({name}))" if arguments.on == "func" else \
        f"builtin.module({name})"
    count = 2 if arguments.on == "func" else 3
    check = f'''// RUN: sheaf-opt %s --pass-pipeline='{pipeline}' --remarks-filter={folder.name} -o %t 2>&1 | FileCheck %s

// One line on what this case shows.
// CHECK: remark: [Analysis] counted | Category:{folder.name} | Remark="{count} ops"
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %y = nn.relu %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}}
'''
    test.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(body)
    test.write_text(check)
    (folder / "Passes.td").write_text(passes)
    (folder / "CMakeLists.txt").write_text(cmake)
    print(f"new:    {source.relative_to(root)}\nnew:    {test.relative_to(root)}\n"
          f"edited: {relative}/Passes.td\nedited: {relative}/CMakeLists.txt\n"
          f"next:   scripts/build.sh sheaf-opt && "
          f"/usr/lib/llvm-22/bin/lit -v build/test --filter={test.stem}")


if __name__ == "__main__":
    main()
