"""What is done about a loss that is not a number, or that explodes.

An update of which this is said is left out: the weights stay, the schedule goes on. After IN_A_ROW of them,
or when the loss has risen far above what it was, training goes back to the last checkpoint with half the
rate, TIMES_BACK times without progress at most.
"""

from __future__ import annotations

import math
from typing import Any

from dragoman.errors import TrainingError
from dragoman.training.state import Position

Number = Any
"""A number, or a tensor that holds one."""

IN_A_ROW = 3
"""Updates left out one after the other that are not left to chance."""

TIMES_BACK = 3
"""Times that training goes back, without a better score in between, before it gives up."""

RATE_CUT = 0.5
"""What the rate is multiplied by then."""

MEMORY = 0.95
"""Decay an update of the mean of losses that tells what is usual."""

N_USUAL = 50
"""Updates after which something is usual at all."""


class InTroubleError(Exception):
    """Leaving updates out does not help."""


def what_is_wrong(position: Position, loss: float, gradient_norm: float) -> str:
    """What is wrong with an update whose loss is `loss` nats an item, in words; "" where nothing is."""
    if not math.isfinite(loss):
        return "the loss is not a number"
    if not math.isfinite(gradient_norm):
        return "the gradient is not a number"
    usual = position.usual_loss
    if usual is not None and position.n_good >= N_USUAL and exploded(loss, usual):
        return f"the loss exploded ({loss:.3g} nats, where {usual:.3g} were usual)"
    return ""


def exploded(loss: Number, usual: Number) -> Number:
    """Whether a loss is far above the usual one, both in nats an item."""
    return loss > 2 * usual + 1


def left_out(position: Position, reason: str) -> None:
    """Takes note of an update that was left out. InTroubleError: one too many."""
    position.n_left_out += 1
    position.n_in_a_row += 1
    if position.n_in_a_row >= IN_A_ROW:
        raise InTroubleError(f"{reason}, {IN_A_ROW} times in a row")


def made(position: Position, loss: float) -> None:
    """Takes note of an update that was made. InTroubleError: the loss has risen and not come back."""
    position.n_in_a_row = 0
    position.n_good += 1
    usual = loss if position.usual_loss is None else position.usual_loss
    position.usual_loss = MEMORY * usual + (1 - MEMORY) * loss
    if position.n_good < N_USUAL:
        return
    if position.lowest_loss is None or position.usual_loss < position.lowest_loss:
        position.lowest_loss = position.usual_loss
    check_rise(position)


def check_rise(position: Position) -> None:
    """InTroubleError: the loss has risen far above its lowest value, and not come back."""
    usual, lowest = position.usual_loss, position.lowest_loss
    if usual is not None and lowest is not None and usual > 1.5 * lowest + 1:
        raise InTroubleError(f"the loss rose to {usual:.3g} nats, from {lowest:.3g} before")


def lower_rate(restored: Position, troubled: Position, reason: str) -> None:
    """Gives the position of the last checkpoint a lower rate than the one that led into trouble.

    TrainingError: that was tried often enough.
    """
    restored.n_times_back = troubled.n_times_back + 1
    restored.rate_factor = RATE_CUT * troubled.rate_factor
    if restored.n_times_back > TIMES_BACK:
        raise TrainingError(
            f"{reason}, at step {troubled.step}, though training went back {TIMES_BACK} times and halved its "
            f"rate each time; the last checkpoint stands. {ADVICE}"
        )


ADVICE = 'Try a lower training.learning_rate, more training.warmup_steps, or training.precision = "fp32"'
