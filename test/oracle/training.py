"""The training loop of the oracle, with a place to plant a mistake.

`mistakes` are the wrong results that a wrong parallel program plausibly gives,
made from the right ones: each takes the gradients of a step and returns wrong
gradients, or a wrong norm, or both.
"""

from dataclasses import dataclass, field

import numpy as np

import data
import models
import optimizers


@dataclass
class Run:
    """What a run leaves: per step the loss before the update, the gradient norm
    before clipping and the learning rate; the first step's gradients; the
    parameters after the last step."""
    losses: list = field(default_factory=list)
    norms: list = field(default_factory=list)
    rates: list = field(default_factory=list)
    gradients: dict = None
    params: dict = None


def train(model, params, tokens, steps, batch, hyper, microbatches=1, tamper=None,
          rounding=None):
    """Trains `steps` steps. `tamper(gradients) -> (gradients, norm or None)`
    replaces what the optimizer sees. With `rounding`, a generator, the run has the
    noise of an f32 program: gradients are disturbed by 3e-7 of their norm, and
    losses, norms and parameters rounded to f32."""
    run, optimizer = Run(), optimizers.Optimizer(hyper)
    for t in range(steps):
        loss, gradients = models.loss_and_gradients(
            model, params, *data.batch(tokens, t, batch, model.seq), microbatches)
        norm = None
        if tamper:
            gradients, norm = tamper(gradients)
        if rounding is not None:
            gradients = {name: disturb(g, rounding) for name, g in gradients.items()}
        if norm is None:
            norm = optimizers.global_norm(gradients)
        if rounding is not None:
            loss, norm = float(np.float32(loss)), float(np.float32(norm))
        run.losses.append(loss)
        run.norms.append(norm)
        run.rates.append(optimizers.learning_rate(hyper, t))
        if t == 0:
            run.gradients = dict(gradients)
        params = optimizer.update(params, gradients, t, norm)
        if rounding is not None:
            params = {name: p.astype(np.float32).astype(np.float64)
                      for name, p in params.items()}
    run.params = params
    return run


def disturb(gradient, random, size=3e-7):
    """Adds noise of `size` times the norm. An exact zero, such as the row of a token
    that does not occur, stays one: rounding leaves it, and Adam would blow it up."""
    noise = random.standard_normal(gradient.shape) * (gradient != 0)
    length = np.sqrt((noise * noise).sum())
    return gradient + noise * (size * np.sqrt((gradient * gradient).sum()) / length)


def _scaled(gradients, factor, chosen=lambda name: True):
    return {name: g * factor if chosen(name) else g for name, g in gradients.items()}


def mistakes(model, ranks=2):
    """The six mistakes, by name. Where one has two readings both are there. All
    are planted with the smallest visible size: two ranks, two stages."""

    def sum_for_mean(gradients):
        return _scaled(gradients, ranks), None

    def divided_twice(gradients):
        return _scaled(gradients, 1 / ranks), None

    def norm_rank_left_out(gradients):
        # Under sequence parallelism each tensor rank has a block of positions, and
        # with it a part of each norm's gradient; the last rank's is missing.
        name = next(iter(sorted(gradients.norm_positions)))
        positions = gradients.norm_positions[name]
        kept = positions[:-(-positions.shape[0] // ranks)]
        return {**gradients, name: kept.sum(0)}, None

    def one_tensor_doubled(gradients):
        # The parameter whose gradient is smallest is the hardest to catch.
        name = min(gradients, key=lambda key: np.abs(gradients[key]).max())
        return _scaled(gradients, 2.0, lambda key: key == name), None

    def one_stage_scaled(gradients):
        last = model.layers - 1
        return _scaled(gradients, 1 / ranks, lambda key: model.layer_of(key) == last), None

    result = {
        "sum for mean": sum_for_mean,
        "divided twice": divided_twice,
        "one tensor rank's norm gradient left out": norm_rank_left_out,
        "one tensor doubled": one_tensor_doubled,
        "one stage scaled": one_stage_scaled,
    }
    if model.tied_name:
        tied = model.tied_name

        def tied_counted_twice(gradients):
            return {**gradients, tied: gradients[tied] + gradients.head}, None

        def tied_twice_in_norm(gradients):
            square = optimizers.global_norm(gradients) ** 2
            return dict(gradients), float(np.sqrt(square + (gradients[tied] ** 2).sum()))

        result["tied gradient counted twice"] = tied_counted_twice
        result["tied gradient counted twice in the norm"] = tied_twice_in_norm
    return result
