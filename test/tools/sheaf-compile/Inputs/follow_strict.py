"""Does what --strict advises, all of it at once, and looks that nothing is left to say.

    follow_strict.py MODEL FOLDER OPTION...

The model's step is compiled with --strict=0; each error names a dist.constraint, the op that
gets its result, and in notes what else does. Those lines are written into the step. Compiled
again it has no error, and sends as many bytes as before: what was moved for several ops is
still moved once. Prints how many annotations were written.
"""

import json
import os
import re
import subprocess
import sys

ERROR = re.compile(r".*?step\.mlir:(\d+):\d+: error: (?:.*)write '%y = (dist\.constraint) %x "
                   r"(<.*> : tensor<.*>)' before it, where %x is its operand (\d+), and give "
                   r"it %y")
NOTE = re.compile(r".*?step\.mlir:(\d+):\d+: note: give %y to operand (\d+) of this ")
VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
model, folder, *options = sys.argv[1:]
step = os.path.join(folder, "step.mlir")


def run(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def compiled(*more):
    return run("sheaf-compile", step, *more, "--emit=device", "-o",
               os.path.join(folder, "device.mlir"))


def sent():
    explained = run("sheaf-compile", step, *rest, "--explain=json")
    assert explained.returncode == 0, explained.stderr[-2000:]
    return sum(row["wire_bytes"] * row["count"]
               for row in json.loads(explained.stdout)["collectives"])


def operand(line, number):
    """Where an op's operand stands in its line."""
    begin = line.index("=") if re.match(r"\s*%[^=]*=", line) else 0
    return list(VALUE.finditer(line, begin))[number]


def replace(line, number, name):
    at = operand(line, number)
    return line[:at.start()] + name + line[at.end():]


first = [option for option in options if option.startswith(("--microbatches", "--recompute"))]
rest = [option for option in options if option not in first]
made = run("sheaf-compile", model, *first, "--emit=step", "-o", step)
assert made.returncode == 0, made.stderr
before = sent()
complaints = compiled(*rest, "--strict=0")
assert complaints.returncode == (1 if "error: " in complaints.stderr else 0), complaints.stderr
with open(step, encoding="utf-8") as file:
    lines = file.read().split("\n")
inserted = {}
count = 0
for text in complaints.stderr.split("\n"):
    if " error: " in text:
        at, op, rest_of_it, number = ERROR.match(text).groups()
        name = f"%asked_{count}"
        count += 1
        value = operand(lines[int(at) - 1], int(number)).group()
        inserted.setdefault(int(at) - 1, []).append(f"    {name} = {op} {value} {rest_of_it}")
        places = [(int(at) - 1, int(number))]
    elif NOTE.match(text):
        at, number = NOTE.match(text).groups()
        places = [(int(at) - 1, int(number))]
    else:
        continue
    for line, number in places:
        lines[line] = replace(lines[line], number, name)
for at in sorted(inserted, reverse=True):
    lines[at:at] = inserted[at]
# The module declares the mesh, now that it has something to say of it.
if count:
    axes = [option.split("=", 1)[1] for option in rest if option.startswith("--mesh=")][0]
    listed = ", ".join('"{}" = {} memory'.format(*axis.split("=")) for axis in axes.split(","))
    top = next(i for i, line in enumerate(lines) if line.lstrip().startswith("func.func"))
    lines.insert(top, f"  dist.mesh @mesh [{listed}]")
    rest = [option for option in rest if not option.startswith("--mesh=")]
with open(step, "w", encoding="utf-8") as file:
    file.write("\n".join(lines))
again = compiled(*rest, "--strict=0")
assert again.returncode == 0, again.stderr[-3000:]
after = sent()
assert after == before, (before, after)
print(f"{count} annotations")
