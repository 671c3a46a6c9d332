"""roundtrip.py FILES...: MLIR's check that each comes back the same from text and bytecode."""

import subprocess
import sys

differ = 0
for path in sys.argv[1:]:
    run = subprocess.run(["sheaf-opt", path, "--verify-roundtrip", "-o", "/dev/null"],
                         capture_output=True, text=True, check=False)
    if run.returncode:
        differ += 1
        print(path, run.stderr[-2000:])
print(len(sys.argv) - 1, "modules,", differ, "differ")
