"""Small models with experts learn a text on a mesh as they do on one device.

    python3 test/e2e/experts_text.py build/bin

A small Mixtral (with SHEAF_FULL=1 in the environment a small DeepSeek, too) trains for 100 steps on
the bytes of the license texts that every Debian machine has: on one device, and on a mesh with
data, tensor and expert parallelism, rows in buckets and by count. The mean of the last 20 losses
agrees to 0.5%, and both figures are printed. Choices of experts are decisions: where two scores are nearly
equal, rounding decides, so that single losses drift apart and only such means can be compared.
"""

import os
import sys

import support

TEXTS = ["/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/Apache-2.0"]
SIZES = ["--layers=2", "--hidden=64", "--heads=4", "--vocab=256", "--seq=64", "--batch=8",
         "--experts=4"]
MODELS = {"mixtral": ["mixtral", *SIZES, "--ffn=96", "--balance-loss=0.01"],
          "deepseek": ["deepseek", *SIZES, "--ffn=128", "--expert-ffn=64"]}
MESHES = ["dp=2,tp=2,ep=2", "dp=2,tp=2,ep=2 --expert-rows=exact --zero=1 --sequence-parallel"]
STEPS, LAST, BOUND = 100, 20, 0.005


def mean_of_last(session, artifact):
    rows = session.train(artifact, f"--data={session.path('text.bin')}", "--token-type=u8",
                         "--order=random", f"--steps={STEPS}", "--seed=1", "--quiet",
                         "--threads=1")
    losses = [row["loss"] for row in rows]
    return losses[0], sum(losses[-LAST:]) / LAST


def body(session, _):
    with open(session.path("text.bin"), "wb") as target:
        for text in TEXTS:
            with open(text, "rb") as source:
                target.write(source.read())
    full = os.environ.get("SHEAF_FULL")
    for model in MODELS if full else ["mixtral"]:
        session.run("sheaf-model", *MODELS[model], "-o", session.path(f"{model}.mlir"))
        options = ["--lr=3e-3", "--warmup=20"]
        one = session.compile(f"{model}.mlir", "one.sheaf", *options)
        first, base = mean_of_last(session, one)
        session.check(f"{model}: one device learns", base < 0.75 * first,
                      f"loss {first:.4f} at first, {base:.4f} in the last {LAST} steps")
        for mesh in MESHES if full else MESHES[1:]:
            axes, *more = mesh.split()
            artifact = session.compile(f"{model}.mlir", "mesh.sheaf", f"--mesh={axes}", *more,
                                       *options)
            _, mean = mean_of_last(session, artifact)
            session.check(f"{model}, {mesh}: mean of the last {LAST} of {STEPS} losses",
                          abs(mean / base - 1) <= BOUND,
                          f"{mean:.5f}, one device {base:.5f}, {100 * (mean / base - 1):+.3f}%")


if __name__ == "__main__":
    sys.exit(support.main(__doc__, body, 1800))
