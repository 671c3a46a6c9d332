"""The memory that a step takes is what the manifest promises, within 5%.

    python3 test/e2e/memory.py build/bin

`sheaf-run --memory-report` prints `memory: before N peak N promised N`, in bytes:
resident size before the first step, its peak during the steps, and the promise. The
peak is also seen from outside, by the kernel's account of the ended process, so that
a report cannot flatter itself.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import support
import data
import models

LINE = re.compile(r"memory: before (\d+) peak (\d+) promised (\d+)")
# Large enough that pages, stacks and libraries are far below 5%.
MODELS = {
    "gpt": (models.GPT(layers=4, hidden=256, heads=4, vocab=4096, seq=256), 8),
    "llama": (models.Llama(layers=4, hidden=256, heads=8, kv_heads=2, vocab=4096, seq=256,
                           ffn=704), 8),
}
LEAST = 64 << 20


def run_and_account(session, *arguments):
    """stdout and stderr of sheaf-run, and the peak resident size that the kernel saw."""
    output = session.path("output.txt")
    command = [session.tool("sheaf-run"), *arguments]
    with open(output, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, cwd=session.folder, stdout=file,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        # wait4 tells the usage of this one process, and has no time limit of its own.
        timer = threading.Timer(max(session.deadline - time.monotonic(), 0.1),
                                os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    with open(output, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if process.returncode != 0:
        raise support.Failed(f"exit status {process.returncode} of {command}\n{text[-2000:]}")
    return text, usage.ru_maxrss * 1024


def body(session, _):
    for name, (model, batch) in MODELS.items():
        support.write_model(session, model, batch, "model.mlir")
        artifact = session.compile("model.mlir", "step.sheaf", "--microbatches=2")
        token_file = session.path("tokens.bin")
        data.write_tokens(token_file, data.synthetic(20011, model.vocab, 1), "u16")
        text, seen = run_and_account(session, artifact, f"--data={token_file}", "--steps=3",
                                     "--seed=1", "--memory-report")
        match = LINE.search(text)
        if not session.check(f"{name}: report", match is not None, text.strip()[-300:]):
            continue
        before, peak, promised = map(int, match.groups())
        used = peak - before
        session.check(f"{name}: large enough to tell", promised >= LEAST,
                      f"{promised / 2**20:.1f} MiB promised")
        session.check(f"{name}: used against promised",
                      abs(used - promised) <= 0.05 * promised,
                      f"{used / 2**20:.1f} MiB against {promised / 2**20:.1f} MiB, "
                      f"{100 * (used / promised - 1):+.1f}%")
        session.check(f"{name}: peak as the kernel saw it",
                      seen - before <= 1.05 * promised,
                      f"{(seen - before) / 2**20:.1f} MiB")


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 300))
