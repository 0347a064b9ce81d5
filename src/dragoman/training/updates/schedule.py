"""Learning-rate schedules, as multiples of the peak rate."""

from __future__ import annotations

import math

from dragoman.config import TrainingConfig


def learning_rate(step: int, config: TrainingConfig, *, factor: float = 1.0) -> float:
    """Return the learning rate of update `step`, counted from 1.

    `factor` is the reduction so far by the schedule "plateau", which depends on validation scores, and by
    rollbacks (divergence.py).
    """
    return config.learning_rate * _multiplier(step, config) * factor


def _multiplier(step: int, config: TrainingConfig) -> float:
    if config.schedule == "inverse_sqrt":
        return inverse_sqrt(step, warmup_steps=config.warmup_steps)
    if step <= config.warmup_steps:
        return step / config.warmup_steps
    remaining = max(0.0, (config.max_steps - step) / max(1, config.max_steps - config.warmup_steps))
    if config.schedule == "linear":
        return remaining
    if config.schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * remaining))
    if config.schedule == "wsd":
        return min(1.0, max(0.0, config.max_steps - step) / (config.decay_fraction * config.max_steps))
    return 1.0


def inverse_sqrt(step: int, *, warmup_steps: int) -> float:
    """Return the multiplier of the peak rate at `step`, counted from 1: linear rise, then 1/sqrt(step).

    1.0 at `step == warmup_steps`. Vaswani et al. 2017, section 5.3, equation 3, divided by its own peak.
    """
    return min(step / warmup_steps, (warmup_steps / step) ** 0.5)


def learning_rates(config: TrainingConfig) -> list[float]:
    """Return the learning rate of every update of a training, in order.

    The schedule "plateau" depends on validation scores: here, none improves after half of the training.
    """
    if config.schedule != "plateau":
        return [learning_rate(step, config) for step in range(1, config.max_steps + 1)]
    every = config.valid_every or max(1, config.max_steps // 20)  # 0: once an epoch, of unknown length
    rates, factor, n_stalled = [], 1.0, 0
    for step in range(1, config.max_steps + 1):
        rates.append(learning_rate(step, config, factor=factor))
        if step % every == 0 and 2 * step > config.max_steps:
            n_stalled += 1
            if n_stalled >= config.plateau_patience:
                factor, n_stalled = factor * config.plateau_factor, 0
    return rates
