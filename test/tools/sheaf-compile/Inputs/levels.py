"""levels.py MODEL: the losses of three steps at -O0 to -O3."""

import json
import pathlib
import subprocess
import sys

pathlib.Path("tokens").write_bytes(bytes(i * 7 % 32 for i in range(4000)))
all_losses, kernels = [], []
for level in range(4):
    subprocess.run(["sheaf-compile", sys.argv[1], f"-O{level}", "-o", "level.sheaf"], check=True)
    subprocess.run(["sheaf-run", "level.sheaf", "--data=tokens", "--token-type=u8", "--steps=3",
                    "--quiet", "--log=log.jsonl"], check=True)
    all_losses.append([json.loads(line)["loss"] for line in open("log.jsonl")])
    info = subprocess.run(["sheaf-run", "level.sheaf", "--info=json"], check=True,
                          capture_output=True, text=True).stdout
    kernels.append(len(json.loads(info)["kernels"]))
# -O0 fuses nothing: it has other kernels.
assert kernels[0] != kernels[3] and kernels[1] == kernels[3], kernels
most = max(abs(a - b) for losses in all_losses for a, b in zip(losses, all_losses[0]))
print("4 levels, largest difference of a loss", most)
