"""What "equal to one device" means, in f32: the criteria (a) to (d).

  (a) in the first step every gradient: |g - g1| <= 1e-5 |g1| + 1e-7 |G|, where |.|
      is the Euclidean norm and G all gradients of g1 together;
  (b) the gradient norm of every step, relative to 2e-5;
  (c) the loss of 20 steps, relative to 2e-6, with SGD at --lr=0.03 --momentum=0
      --clip=0;
  (d) the loss of 20 steps, relative to 5e-6, with AdamW at --lr=1e-3.

Each check returns a Verdict, false if anything is missing, of another shape or
length, or not finite.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from optimizers import Hyper

GRADIENT_RELATIVE, GRADIENT_ABSOLUTE = 1e-5, 1e-7
NORM, LOSS_SGD, LOSS_ADAMW = 2e-5, 2e-6, 5e-6
STEPS = 20

SGD = Hyper(optimizer="sgd", lr=0.03, momentum=0.0, clip=0.0)
ADAMW = Hyper(optimizer="adamw", lr=1e-3)


@dataclass
class Verdict:
    """`worst` is the largest error over its bound, `where` its place; `failures`
    says what is wrong."""
    criterion: str
    worst: float = 0.0
    where: str = ""
    failures: list = field(default_factory=list)

    def __bool__(self):
        return not self.failures

    def fail(self, text):
        self.failures.append(text)
        self.worst = math.inf

    def see(self, error, bound, where):
        # Written so that a NaN fails.
        ratio = error / bound if bound > 0 else (0.0 if error == 0 else math.inf)
        if not ratio <= 1.0:
            self.failures.append(f"{where}: error {error:.3e}, allowed {bound:.3e}")
        if not ratio <= self.worst:
            self.worst, self.where = ratio, where

    def __str__(self):
        head = f"({self.criterion}) {'ok' if self else 'FAILED'}: " \
               f"worst {self.worst:.3g} of the bound at {self.where or '-'}"
        return "\n    ".join([head] + self.failures[:5]
                             + ([f"... {len(self.failures)} in all"]
                                if len(self.failures) > 5 else []))


def gradients(got, want):
    """Criterion (a) on two maps of name to gradient; `want` is the reference."""
    verdict = Verdict("a")
    for name in sorted(set(want) - set(got)):
        verdict.fail(f"{name}: missing")
    for name in sorted(set(got) - set(want)):
        verdict.fail(f"{name}: unexpected")
    whole = math.sqrt(sum(float((np.asarray(g, np.float64) ** 2).sum())
                          for g in want.values()))
    for name in sorted(set(got) & set(want)):
        g = np.asarray(got[name], np.float64)
        g1 = np.asarray(want[name], np.float64)
        if g.shape != g1.shape:
            verdict.fail(f"{name}: shape {g.shape}, expected {g1.shape}")
            continue
        bound = GRADIENT_RELATIVE * float(np.sqrt((g1 * g1).sum())) \
            + GRADIENT_ABSOLUTE * whole
        verdict.see(float(np.sqrt(((g - g1) ** 2).sum())), bound, name)
    if not want:
        verdict.fail("nothing to compare with")
    return verdict


def _series(criterion, got, want, tolerance, what, least):
    verdict = Verdict(criterion)
    if len(got) != len(want):
        verdict.fail(f"{len(got)} steps, expected {len(want)}")
    if len(want) < least:
        verdict.fail(f"reference of {len(want)} steps, at least {least} needed")
    for step, (a, b) in enumerate(zip(got, want)):
        verdict.see(abs(a - b), tolerance * abs(b), f"{what} of step {step}")
    return verdict


def norms(got, want):
    """Criterion (b) on two lists of gradient norms."""
    return _series("b", got, want, NORM, "grad_norm", 1)


def losses(got, want, optimizer):
    """Criterion (c) for "sgd", (d) for "adamw"."""
    criterion, tolerance = {"sgd": ("c", LOSS_SGD), "adamw": ("d", LOSS_ADAMW)}[optimizer]
    return _series(criterion, got, want, tolerance, "loss", STEPS)
