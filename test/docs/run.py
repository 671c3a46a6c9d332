"""run.py PAGE SOURCE FOLDER: runs what a page of docs/ shows.

Blocks marked `sh` are run, one after the other, in FOLDER (pages with `<!-- test: tree -->`: in
a copy of the tree); those marked `sh full` in the full suite alone. Each line of a `text` block
behind one must stand in what the command wrote. Blocks marked `mlir` must be valid and come
back the same from text and bytecode."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tree import copy_tree  # noqa: E402

page, source, folder = (Path(argument).resolve() for argument in sys.argv[1:])
text = page.read_text()
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
if "<!-- test: tree -->" in text:
    copy_tree(source, folder)
    subprocess.run("git init -q -b main && git add -A && "
                   "git -c user.name=A -c user.email=a commit -q -m all",
                   shell=True, cwd=folder, check=True)
full = bool(os.environ.get("SHEAF_FULL"))
commands = modules = skipped = failures = 0
output = None
for info, block in re.findall(r"^```(\w[\w ]*)\n(.*?)^```$", text, re.M | re.S):
    if info.startswith("sh"):
        output = None
        if info == "sh full" and not full:
            skipped += 1
            continue
        run = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", block], cwd=folder, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        output = run.stdout
        commands += 1
        if run.returncode:
            failures += 1
            print(f"FAILED ({run.returncode}):\n{block}{output[-3000:]}")
    elif info == "text" and output is not None:
        for line in block.splitlines():
            found = re.search(r"\s+".join(map(re.escape, line.split())), output)
            if not found:
                failures += 1
                print(f"FAILED: no '{line}' in\n{output[-3000:]}")
    elif info == "mlir":
        modules += 1
        run = subprocess.run(["sheaf-opt", "--verify-roundtrip", "-o", "/dev/null", "-"],
                             input=block, text=True, capture_output=True, check=False)
        if run.returncode:
            failures += 1
            print(f"FAILED:\n{block}{run.stderr}")
print(f"{commands} commands, {modules} modules, {skipped} for the full suite, {failures} failures")
sys.exit(1 if failures or not commands else 0)
