"""Programs whose transfers go on beside computation do not see when they come.

    python3 test/e2e/delays.py build/bin

Under `sheaf-run --transfer-delays`, where transfers begin and end late, what is sent is read late
and what comes is not a number until it is waited for, a program with overlap trains to the bits
of the one with --overlap=false without delays. One in which a wait stands behind a use does not.
With SHEAF_FULL=1 in the environment a few more.
"""

import json
import os
import re
import sys

import support
import data

SIZES = ["--layers=2", "--hidden=16", "--heads=2", "--seq=8", "--batch=4", "--vocab=32"]
GPT = ["gpt", *SIZES]
MIXTRAL = ["mixtral", *SIZES, "--ffn=24", "--experts=4"]
CASES = [
    (GPT, "dp=2 --zero=1 --microbatches=2"), (GPT, "dp=2 --zero=3"),
    (GPT, "tp=2 --sequence-parallel"), (GPT, "cp=2 --context=ring"), (MIXTRAL, "dp=2,ep=2"),
    (GPT, "pp=2 --microbatches=4 --pipeline=1f1b"),
    (GPT, "pp=2,dp=2 --microbatches=2 --pipeline=zb-h1 --zero=1"),
]
if os.environ.get("SHEAF_FULL"):
    CASES += [(GPT, "dp=2"), (GPT, "pp=2 --microbatches=4 --pipeline=zb-h1"),
              (GPT, "dp=2,tp=2 --zero=3 --sequence-parallel")]


def numbers(session, artifact, *options):
    rows = session.train(artifact, f"--data={session.path('tokens.bin')}", "--steps=2", "--quiet",
                         "--threads=1", "--wait-limit=60", *options)
    # As text: what is not a number is equal to itself there.
    return [json.dumps([row["loss"], row["grad_norm"]]) for row in rows]


def late_wait(text):
    """A program of which a wait for a weight stands behind the next op that reads it."""
    begin = text.index("func.func @step(")
    lines = text[begin:].split("\n")
    for at, line in enumerate(lines):
        match = re.search(r"exec\.wait .*writes\((%\w+) :", line)
        reads = match and re.search(r"reads\(([^:]*) :", lines[at + 1])
        if reads and "exec.wait" not in lines[at + 1] and match[1] in reads[1].split(", "):
            lines[at:at + 2] = [lines[at + 1], line]
            return text[:begin] + "\n".join(lines)
    raise support.Failed("no wait stands in front of a use")


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(1003, 32, 1), "u16")
    for i, (model, strategy) in enumerate(CASES):
        mesh, *options = strategy.split()
        session.run("sheaf-model", *model, "-o", session.path("model.mlir"))
        still = session.compile("model.mlir", "still.sheaf", f"--mesh={mesh}", *options,
                                "--overlap=false", "-O0")
        expected = numbers(session, still)
        moved = session.compile("model.mlir", "moved.sheaf", f"--mesh={mesh}", *options, "-O0")
        got = numbers(session, moved, f"--transfer-delays={i}")
        session.check(f"{model[0]}, {strategy}: late transfers give the same bits",
                      got == expected, "" if got == expected else f"{got} for {expected}")
    # The delays find what is wrong: here in the placed program, which is not verified again.
    session.run("sheaf-model", *GPT, "-o", session.path("model.mlir"))
    text = session.run("sheaf-compile", session.path("model.mlir"), "--mesh=dp=2", "--zero=3",
                       "--emit=exec")
    with open(session.path("broken.mlir"), "w", encoding="utf-8") as file:
        file.write(late_wait(text))
    broken = session.compile("broken.mlir", "broken.sheaf")
    status, out, err = session.try_run(
        "sheaf-run", broken, f"--data={session.path('tokens.bin')}", "--steps=1", "--quiet",
        "--threads=1", "--transfer-delays=1")
    session.check("a wait behind a use gives numbers that are none",
                  status == 1 and "loss nan" in err, f"status {status}: {(out + err)[-300:]}")


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 600))
