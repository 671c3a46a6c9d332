"""skeletons.py SOURCE FOLDER: new-pass.py and new-op.py on a copy of the tree. Every
source file that they touch is compiled. (test/docs builds all of it in the full suite.)"""

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


def start(script, *arguments):
    output = subprocess.run([sys.executable, copy / "scripts" / script, *arguments], check=True,
                            capture_output=True, text=True).stdout
    print(output, end="")
    return re.findall(r"^(new|edited): +(\S+)", output, re.M)


def refused(script, *arguments):
    run = subprocess.run([sys.executable, copy / "scripts" / script, *arguments],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 1 and run.stderr, (arguments, run)
    print("REFUSED", run.stderr, end="")


passes = start("new-pass.py", "passes/nn", "nn-count-ops")
assert [kind for kind, _ in passes] == ["new", "new", "edited", "edited"], passes
ops = start("new-op.py", "square")
refused("new-pass.py", "passes/nn", "nn-count-ops")
refused("new-pass.py", "passes/none", "nn-count-ops")
refused("new-pass.py", "passes/nn", "CountOps")
refused("new-op.py", "square")
refused("new-op.py", "gelu")

subprocess.run(["cmake", "-G", "Ninja", "-S", copy, "-B", binary,
                f"-DSHEAF_PYTHON={sys.executable}"], check=True, stdout=subprocess.DEVNULL)


def make(*targets):
    subprocess.run(["cmake", "--build", binary, "--parallel", "2", "--target", *targets],
                   check=True, stdout=subprocess.DEVNULL)


for name in (Path(name) for _, name in passes + ops):
    if name.suffix == ".cpp":
        library = {"passes/nn": "SheafNNPasses", "dialects/NN": "SheafNN"}[str(name.parent)]
        make(f"{name.parent}/CMakeFiles/{library}.dir/{name.name}.o")
        print("compiled", name)
