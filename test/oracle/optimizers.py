"""The optimizers, the learning rate and the clipping, defined to the last term.

The compiler's optimizer pass follows these definitions. t is the step from 0,
g the gradient of the whole step after clipping, p a parameter.

Learning rate at step t:

    warmup > 0 and t < warmup:   lr * (t + 1) / warmup
    else, decay_steps == 0:      lr
    else:                        min_lr + 0.5 * (lr - min_lr) * (1 + cos(pi * x)),
                                 x = (t - warmup) / (decay_steps - warmup) in [0, 1]

where decay_steps <= warmup, x is 1 as soon as the warm-up is over.

Gradient norm: the square root of the sum of squares of all elements of all
gradients, each parameter once, before clipping. This is what the log has.

Clipping by the norm: clip == 0 is off, otherwise all gradients are multiplied by

    min(1, clip / (norm + 1e-6))                      (as torch.nn.utils.clip_grad_norm_)

AdamW (Loshchilov and Hutter 2019, algorithm 2, with the decay times lr as in
PyTorch), m and v zero at first:

    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    mhat = m / (1 - beta1^(t+1))
    vhat = v / (1 - beta2^(t+1))
    p = p - lr * weight_decay * p - lr * mhat / (sqrt(vhat) + eps)

SGD with momentum, buffer zero at first:

    buffer = momentum * buffer + g
    p = p - lr * weight_decay * p - lr * buffer

Parameters of one dimension (biases, norms) are not decayed: their weight_decay is
0. In both, the decay uses p before the update and the learning rate of step t.
"""

import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Hyper:
    """Run-time scalars; the defaults are those of the command line."""
    optimizer: str = "adamw"
    lr: float = 1e-3
    warmup: int = 0
    min_lr: float = 0.0
    decay_steps: int = 0
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    clip: float = 1.0
    momentum: float = 0.0

    def flags(self):
        """The same as options of `sheaf-compile` and `sheaf-run`."""
        names = ["lr", "warmup", "min_lr", "decay_steps", "weight_decay", "clip"]
        names += ["momentum"] if self.optimizer == "sgd" else ["beta1", "beta2", "eps"]
        return [f"--{name.replace('_', '-')}={getattr(self, name)!r}" for name in names]


def learning_rate(hyper, t):
    if hyper.warmup > 0 and t < hyper.warmup:
        return hyper.lr * (t + 1) / hyper.warmup
    if hyper.decay_steps == 0:
        return hyper.lr
    span = hyper.decay_steps - hyper.warmup
    x = min(max((t - hyper.warmup) / span, 0.0), 1.0) if span > 0 else 1.0
    return hyper.min_lr + 0.5 * (hyper.lr - hyper.min_lr) * (1.0 + math.cos(math.pi * x))


def global_norm(gradients):
    return math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))


def clip_factor(hyper, norm):
    return min(1.0, hyper.clip / (norm + 1e-6)) if hyper.clip > 0 else 1.0


class Optimizer:
    """The state of one optimizer; `update` returns new parameters."""

    def __init__(self, hyper):
        if hyper.optimizer not in ("adamw", "sgd"):
            raise ValueError(f"unknown optimizer {hyper.optimizer!r}")
        self.hyper = hyper
        self.first, self.second = {}, {}

    def update(self, params, gradients, t, norm=None):
        """One step. `norm` is the gradient norm that the clipping goes by, that of
        `gradients` unless given."""
        hyper = self.hyper
        lr = learning_rate(hyper, t)
        factor = clip_factor(hyper, global_norm(gradients) if norm is None else norm)
        result = {}
        for name, p in params.items():
            g = factor * gradients[name]
            decay = hyper.weight_decay if p.ndim > 1 else 0.0
            m = self.first.get(name, np.zeros_like(p))
            if hyper.optimizer == "sgd":
                m = hyper.momentum * m + g
                move = m
            else:
                v = self.second.get(name, np.zeros_like(p))
                m = hyper.beta1 * m + (1 - hyper.beta1) * g
                v = hyper.beta2 * v + (1 - hyper.beta2) * g * g
                self.second[name] = v
                move = (m / (1 - hyper.beta1 ** (t + 1))
                        / (np.sqrt(v / (1 - hyper.beta2 ** (t + 1))) + hyper.eps))
            self.first[name] = m
            result[name] = p - lr * decay * p - lr * move
        return result
