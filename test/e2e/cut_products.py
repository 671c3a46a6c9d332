"""Products that are cut into parts, with transfers between them, give the bits of whole ones.

    python3 test/e2e/cut_products.py build/bin

On a cluster described with slow links and no latency every product in front of or behind a
tensor-parallel transfer is cut. Losses and norms of some steps are equal to the bit to those
of the program with blocking transfers, and more transfers send as many bytes.
"""

import json
import os
import sys

import support
import data

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = {
    "llama": ["llama", "--layers=2", "--hidden=128", "--heads=4", "--kv-heads=2", "--vocab=256",
              "--seq=512", "--batch=4"],
    "gpt": ["gpt", "--layers=2", "--hidden=128", "--heads=4", "--vocab=256", "--seq=512",
            "--batch=4"]}
CASES = [("llama", "tp=2 --sequence-parallel"),
         ("gpt", "dp=2,tp=2 --sequence-parallel --zero=3 --recompute=full"),
         ("llama", "pp=2,tp=2 --sequence-parallel --pipeline=zb-h1 --microbatches=2")]
MORE = [("gpt", "tp=2 --sequence-parallel --precision=fp8-block"),
        ("llama", "tp=2 --sequence-parallel --precision=bf16"), ("gpt", "tp=2")]


def body(session, _):
    data.write_tokens(session.path("tokens.bin"), data.synthetic(9001, 256, 1), "u16")
    with open(os.path.join(ROOT, "examples/clusters/h100.json"), encoding="utf-8") as file:
        cluster = json.load(file)
    cluster["device"].update({"least_kernel_seconds": 0, "issue_seconds": 0})
    cluster["device"]["memory"]["bytes_per_second"] = 1e15
    for rate in cluster["device"]["products"].values():
        rate["flops_per_second"] = 1e12
    for row in cluster["communication"]["transfers"]:
        row.update({"latency_seconds": 0, "bytes_per_second": 2e10})
    with open(session.path("slow.json"), "w", encoding="utf-8") as file:
        json.dump(cluster, file)
    for name, options in MODELS.items():
        session.run("sheaf-model", *options, "-o", session.path(f"{name}.mlir"))
    train = [f"--data={session.path('tokens.bin')}", "--steps=3", "--quiet", "--threads=1"]
    for model, strategy in CASES + (MORE if os.environ.get("SHEAF_FULL") else []):
        options = ["--mesh=" + strategy.split()[0], *strategy.split()[1:], "--lr=1e-3"]
        rows, sent = [], []
        for more in (["--overlap=false"], ["--cluster=slow.json"]):
            artifact = session.compile(f"{model}.mlir", "step.sheaf", *options, *more)
            rows.append([(row["loss"], row["grad_norm"])
                         for row in session.train(artifact, *train)])
            explained = json.loads(session.run("sheaf-compile", session.path(f"{model}.mlir"),
                                               *options, *more, "--explain=json"))
            moves = [row for row in explained["collectives"] if "tp" in row["axes"]]
            sent.append((sum(row["count"] for row in moves),
                         sum(row["count"] * row["wire_bytes"] for row in moves)))
        session.check(f"{model}, {strategy}: equal to the bit", rows[0] == rows[1], f"{rows}")
        whole = "--sequence-parallel" not in strategy
        session.check(f"{model}, {strategy}: as many bytes in more transfers",
                      (sent[1][0] == sent[0][0] if whole else sent[1][0] > sent[0][0])
                      and sent[0][1] == sent[1][1], f"{sent}")


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 600))
