"""skeletons.py SOURCE FOLDER: new-pass.py and new-op.py on a copy of the tree. What they touch
is what git sees of it, in every folder of passes. Every source file that they touch is compiled;
in the full suite that of each folder, with what registers it. (test/docs builds and runs a pass
and an op in the full suite.)"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tree import copy_tree  # noqa: E402

source, folder = (Path(argument).resolve() for argument in sys.argv[1:])
copy, binary = folder / "tree", folder / "tree/build"
shutil.rmtree(copy, ignore_errors=True)
copy_tree(source, copy)


def git(*arguments):
    return subprocess.run(["git", "-C", copy, "-c", "user.name=A", "-c", "user.email=a",
                           *arguments], check=True, capture_output=True, text=True).stdout


def touched():
    """(new, edited) files since the last commit."""
    status = [(line[:2], line[3:]) for line in
              git("status", "--porcelain", "--untracked-files=all").splitlines()]
    assert all(kind in ("??", " M") for kind, _ in status), status
    return (sorted(name for kind, name in status if kind == "??"),
            sorted(name for kind, name in status if kind == " M"))


def start(script, *arguments):
    """Runs a script, which touches what it says that it does."""
    output = subprocess.run([sys.executable, copy / "scripts" / script, *arguments], check=True,
                            capture_output=True, text=True).stdout
    new, edited = touched()
    said = re.findall(r"^(new|edited): +(\S+)", output, re.M)
    for kind, names in (("new", new), ("edited", edited)):
        assert sorted(name for k, name in said if k == kind) == names, (said, new, edited)
    print(output, end="")
    git("add", "-A")
    git("commit", "-q", "-m", script)
    return new, edited


def refused(script, *arguments):
    run = subprocess.run([sys.executable, copy / "scripts" / script, *arguments],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 1 and run.stderr and touched() == ([], []), (arguments, run)
    print("REFUSED", run.stderr, end="")


git("init", "-q", "-b", "main")
git("add", "-A")
git("commit", "-q", "-m", "all")
changed = []
groups = sorted(path.parent.relative_to(copy) for top in ("passes", "lowering")
                for path in (copy / top).rglob("Passes.td"))
for number, group in enumerate(groups):
    # Two of each group: the second finds what the first left.
    for name in (f"nn-count-ops-{number}", f"nn-count-more-{number}"):
        new, edited = start("new-pass.py", str(group), name)
        assert (len(new), len(edited)) == (2, 2), (new, edited)
        changed += new + edited
print(len(groups), "folders, two new files and two edited ones a pass")
new, edited = start("new-op.py", "square")
assert (len(new), len(edited)) == (1, 5), (new, edited)
print("one new file and five edited ones an op")
changed += new + edited
refused("new-pass.py", "passes/nn", f"nn-count-ops-{groups.index(Path('passes/nn'))}")
refused("new-pass.py", "passes/nn", "dist-partition")
refused("new-pass.py", "passes/none", "nn-count-ops")
refused("new-pass.py", "passes/nn", "CountOps")
refused("new-op.py", "square")
refused("new-op.py", "gelu")

subprocess.run(["cmake", "-G", "Ninja", "-S", copy, "-B", binary,
                f"-DSHEAF_PYTHON={sys.executable}"], check=True, stdout=subprocess.DEVNULL)
rules = subprocess.run(["ninja", "-C", binary, "-t", "targets", "all"], check=True,
                       capture_output=True, text=True).stdout
sources = [name for name in sorted(set(changed)) if name.endswith(".cpp")]
if not os.environ.get("SHEAF_FULL"):
    sources = [name for name in sources if name.startswith("dialects/") or
               re.match(r"passes/nn/CountOps\d", name)]
else:
    # More passes of the same text would say no more.
    sources = [name for name in sources if "CountMore" not in name] + ["compiler/Register.cpp"]
for name in sources:
    path = Path(name)
    target, = re.findall(rf"^({re.escape(str(path.parent))}/CMakeFiles/\w+\.dir/"
                         rf"{re.escape(path.name)}\.o):", rules, re.M)
    subprocess.run(["cmake", "--build", binary, "--parallel", "2", "--target", target], check=True,
                   stdout=subprocess.DEVNULL)
    print("compiled", name)
