"""Divergence: detect a loss that is NaN or explodes, skip the update, and roll back if that does not help.

A skipped update leaves the weights as they are; the schedule goes on. After IN_A_ROW skipped updates, or when
the mean loss has risen far above its minimum, training returns to the last checkpoint with half the learning
rate. It gives up after TIMES_BACK rollbacks without a better score.
"""

from __future__ import annotations

import math

from dragoman.errors import TrainingError
from dragoman.training.state import TrainPosition

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


def what_is_wrong(loss: float, gradient_norm: float, usual: float | None) -> str:
    """Return why an update with this loss, where another was usual (nats per item), was skipped."""
    if not math.isfinite(loss):
        return "the loss is not a number"
    if not math.isfinite(gradient_norm):
        return "the gradient is not a number"
    return f"the loss exploded ({loss:.3g} nats, where {usual:.3g} were usual)"


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
