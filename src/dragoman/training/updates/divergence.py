"""Divergence: detect a loss that is NaN or explodes, skip the update, and roll back if that does not help.

A skipped update leaves the weights as they are; the schedule goes on. After IN_A_ROW skipped updates, or when
the mean loss has risen far above its minimum, training returns to the last checkpoint with half the learning
rate. It gives up after TIMES_BACK rollbacks without a better score.
"""

from __future__ import annotations

import math
from typing import Any

from dragoman.errors import TrainingError
from dragoman.training.state import TrainPosition

Number = Any
"""A number, or a tensor that holds one."""

IN_A_ROW = 3
"""Consecutive skipped updates that count as divergence."""

TIMES_BACK = 3
"""Maximum rollbacks without a better score in between."""

RATE_CUT = 0.5
"""Factor of the learning rate at each rollback."""

MEMORY = 0.95
"""Decay of the moving average of the loss, per update."""

N_USUAL = 50
"""Minimum updates before the moving average is used."""


class DivergenceError(Exception):
    """Training diverges, and skipping updates does not help."""


def what_is_wrong(position: TrainPosition, loss: float, gradient_norm: float) -> str:
    """Return why an update with this loss (nats per item) must be skipped; "" = it is fine."""
    if not math.isfinite(loss):
        return "the loss is not a number"
    if not math.isfinite(gradient_norm):
        return "the gradient is not a number"
    usual = position.usual_loss
    if usual is not None and position.n_good >= N_USUAL and exploded(loss, usual):
        return f"the loss exploded ({loss:.3g} nats, where {usual:.3g} were usual)"
    return ""


def exploded(loss: Number, usual: Number) -> Number:
    """Return whether a loss is far above the usual one, both in nats per item."""
    return loss > 2 * usual + 1


def record_skipped(position: TrainPosition, reason: str) -> None:
    """Record a skipped update. DivergenceError: IN_A_ROW updates were skipped."""
    position.n_left_out += 1
    position.n_in_a_row += 1
    if position.n_in_a_row >= IN_A_ROW:
        raise DivergenceError(f"{reason}, {IN_A_ROW} times in a row")


def record_update(position: TrainPosition, loss: float) -> None:
    """Record an update that was made. DivergenceError: see `check_rise`."""
    position.n_in_a_row = 0
    position.n_good += 1
    usual = loss if position.usual_loss is None else position.usual_loss
    position.usual_loss = MEMORY * usual + (1 - MEMORY) * loss
    if position.n_good < N_USUAL:
        return
    if position.lowest_loss is None or position.usual_loss < position.lowest_loss:
        position.lowest_loss = position.usual_loss
    check_rise(position)


def check_rise(position: TrainPosition) -> None:
    """Check the moving average. DivergenceError: it has risen far above its minimum."""
    usual, lowest = position.usual_loss, position.lowest_loss
    if usual is not None and lowest is not None and usual > 1.5 * lowest + 1:
        raise DivergenceError(f"the loss rose to {usual:.3g} nats, from {lowest:.3g} before")


def lower_rate(restored: TrainPosition, diverged: TrainPosition, reason: str) -> None:
    """Lower the learning rate of the restored position below that of the diverged one.

    TrainingError: TIMES_BACK rollbacks did not help.
    """
    restored.n_times_back = diverged.n_times_back + 1
    restored.rate_factor = RATE_CUT * diverged.rate_factor
    if restored.n_times_back > TIMES_BACK:
        raise TrainingError(
            f"{reason}, at step {diverged.step}, though training went back {TIMES_BACK} times and halved its "
            f"rate each time; the last checkpoint is kept. {ADVICE}"
        )


ADVICE = 'Try a lower training.learning_rate, more training.warmup_steps, or training.precision = "fp32"'
