"""A run that cannot go on ends, and says which rank, which action and which edge.

    python3 test/e2e/hangs.py build/bin

A send is taken out of the program of one rank of a pipeline: that of the last microbatch, for
which the others then wait, and that of the first, in place of which the next one comes. Where
`mpirun` is installed, also a rank that is killed, and one that is stopped and goes on holding
its place. Every run must end within its time.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import support
import data
import parallel

EDGE = r"\(\d[FB]\d to \d[FB]\d, rank \d to \d\)"


def without_send(text, edge):
    """The program of place 0 in which what goes along an edge is never sent."""
    begin = text.index("func.func @step_pp0(")
    end = text.index("func.func", begin + 1)
    lines, handle = [], None
    for line in text[begin:end].splitlines():
        if "exec.start send" in line and f'name = "{edge}' in line:
            handle = re.search(r"writes\((%\S+) :", line)[1]
        elif not (handle and f"exec.wait reads({handle}," in line):
            lines.append(line)
    if handle is None:
        raise support.Failed(f"no send of {edge} in\n{text[begin:end][:2000]}")
    return text[:begin] + "\n".join(lines) + "\n" + text[end:]


def expect(session, title, command, limit, patterns):
    """A command that has to fail in time, and say what the patterns are."""
    began = time.monotonic()
    status, out, err = session.try_command(command, environment=parallel.MPI)
    took = time.monotonic() - began
    said = out + err
    missing = [pattern for pattern in patterns if not re.search(pattern, said)]
    session.check(title, status != 0 and took <= limit and not missing,
                  f"status {status}, {took:.1f} s" +
                  (f", says nothing like {missing[0]}: {said[-1200:]}" if missing else ""))


def check_missing(session, mpi, train):
    text = session.run("sheaf-compile", session.path("gpt.mlir"), "--mesh=pp=2",
                       "--microbatches=4", "--pipeline=1f1b", "--emit=exec")
    for edge, threads, processes in (
            ("0F3 to 1F3",
             [r"no rank can go on", r"rank 1 waits behind action 1B2 in receive of \d+ x f32 "
              r"over pp \(0F3 to 1F3, rank 0 to 1\), which rank 0 has not started"],
             [rf"rank \d has waited for 3 s behind action \d[FB]\d in receive of .* {EDGE}, "
              r"which rank \d has not started"]),
            ("0F0 to 1F0",
             [r"ranks disagree: .*\(0F0 to 1F0, rank 0 to 1\)", r"\(0F1 to 1F1, rank 0 to 1\)"],
             [r"ranks disagree: .*\(0F0 to 1F0, rank 0 to 1\)", r"\(0F1 to 1F1, rank 0 to 1\)"])):
        with open(session.path("planted.mlir"), "w", encoding="utf-8") as file:
            file.write(without_send(text, edge))
        artifact = session.compile("planted.mlir", "planted.sheaf")
        run = [session.tool("sheaf-run"), artifact, "--steps=2", "--wait-limit=3", *train]
        expect(session, f"no send of {edge}, threads", run, 30, threads)
        if mpi:
            expect(session, f"no send of {edge}, processes", ["mpirun", "-n", "2", *run], 40,
                   processes)


def ranks_of(artifact):
    """The processes that run an artifact, by their number under mpirun."""
    ranks = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{pid}/environ", "rb") as file:
                match = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
        except OSError:
            continue
        if match and artifact.encode() in words and words[0].endswith(b"sheaf-run"):
            ranks[int(match[1])] = int(pid)
    return ranks


def check_lost(session, train, number, what, limit, patterns):
    """A rank under mpirun gets a signal in the middle of a run."""
    artifact = session.compile("gpt.mlir", "long.sheaf", "--mesh=pp=2", "--microbatches=4",
                               "--pipeline=1f1b")
    log = session.path("long.jsonl")
    command = ["mpirun", "-n", "2", session.tool("sheaf-run"), artifact, "--steps=1000000",
               "--wait-limit=3", f"--log={log}", *train]
    with open(session.path("said"), "w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, cwd=session.folder, stdout=said, stderr=said,
                                   start_new_session=True,
                                   env={**os.environ, **parallel.MPI})
        try:
            began = time.monotonic()
            while time.monotonic() < began + 60 and not (
                    os.path.exists(log) and os.path.getsize(log) > 0):
                time.sleep(0.1)
            ranks = ranks_of(artifact)
            if 1 not in ranks:
                raise support.Failed("no rank 1 under mpirun")
            os.kill(ranks[1], number)
            began = time.monotonic()
            try:
                status = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                status = 0
            took = time.monotonic() - began
            said.seek(0)
            text = said.read()
            missing = [pattern for pattern in patterns if not re.search(pattern, text)]
            session.check(f"a rank that is {what}", status != 0 and not missing,
                          f"status {status}, {took:.1f} s" +
                          (f", says nothing like {missing[0]}: {text[-1200:]}" if missing else ""))
            session.check(f"a rank that is {what} leaves no process behind",
                          not ranks_of(artifact))
        finally:
            for pid in ranks_of(artifact).values():
                os.kill(pid, signal.SIGKILL)
            if process.poll() is None:
                process.kill()
            process.wait()
    os.remove(log)


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(2003, 32, 1), "u16")
    session.run("sheaf-model", "gpt", "--layers=2", "--hidden=32", "--heads=2", "--seq=16",
                "--vocab=32", "--batch=8", "-o", session.path("gpt.mlir"))
    mpi = shutil.which("mpirun") and "libmpi" in session.try_command(
        ["ldd", session.tool("sheaf-run")])[1]
    train = [f"--data={session.path('tokens.bin')}", "--quiet", "--threads=1"]
    check_missing(session, mpi, train)
    if mpi:
        check_lost(session, train, signal.SIGKILL, "killed", 20, [r"signal 9"])
        check_lost(session, train, signal.SIGSTOP, "stopped", 40,
                   [r"rank 0 has waited for 3 s"])


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 300))
