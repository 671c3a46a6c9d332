"""resume.py ARTIFACT FOLDER OPTIONS...: starts the driver from each dump in FOLDER (one in four but
in the full suite) and compares the losses of three steps with those of ARTIFACT."""

import json
import os
import pathlib
import subprocess
import sys

artifact, folder, *options = sys.argv[1:]
pathlib.Path("tokens").write_bytes(bytes(i * 7 % 32 for i in range(4000)))


def losses(path):
    subprocess.run(["sheaf-run", path, "--data=tokens", "--token-type=u8", "--steps=3", "--quiet",
                    "--log=log.jsonl", "--threads=1"], check=True)
    return [json.loads(line)["loss"] for line in open("log.jsonl")]


expected = losses(artifact)
assert len(expected) == 3, expected
files = sorted(pathlib.Path(folder).iterdir())
differ = 0
tried = files if os.environ.get("SHEAF_FULL") else files[::-4]
for path in tried:
    subprocess.run(["sheaf-compile", path, "-o", "resumed.sheaf", *options], check=True)
    found = losses("resumed.sheaf")
    if found != expected:
        differ += 1
        print(path, found, expected)
print(f"{len(tried)} of {len(files)} files, {differ} differ")
