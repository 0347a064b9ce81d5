"""Validation during training: score the weights, keep the best, and warn about suspicious models."""

from __future__ import annotations

import json
from dataclasses import asdict

from dragoman.config import TrainingConfig
from dragoman.training.context import TrainingContext
from dragoman.training.listener import TrainingListener
from dragoman.training.parallel.sharding import all_whole
from dragoman.training.state import Position
from dragoman.training.task import Validation, Weights

MIN_STEPS = 100
"""Minimum updates before warnings about a model."""


def validate(context: TrainingContext) -> None:
    """Score the weights in rank 0, and keep them if they are the best so far."""
    state, processes = context.state, context.processes
    context.listener.validating()
    weights = all_whole(state.weights(), processes)
    if processes.first:
        score(context, weights)
    if processes.size > 1:
        shared = json.loads(processes.from_first(json.dumps(asdict(state.position))))
        for name, value in shared.items():
            setattr(state.position, name, value)


def score(context: TrainingContext, weights: Weights) -> None:
    """Score `weights`, keep them if they are the best so far, and record the result."""
    run, listener = context.run, context.listener
    training, position = context.config.training, context.state.position
    result = context.task.validate(weights)
    position.scores[str(position.step)] = result.score
    best = position.best_score is None or result.score > position.best_score
    if best:
        position.best_score, position.best_step = result.score, position.step
        position.n_worse = position.n_stalled = position.n_times_back = 0
        run.save_weights(weights)
    else:
        position.n_worse += 1
        position.n_stalled += 1
    if training.schedule == "plateau" and position.n_stalled >= training.plateau_patience:
        position.rate_factor, position.n_stalled = position.rate_factor * training.plateau_factor, 0
    record = {
        "kind": "valid",
        "step": position.step,
        "epoch": position.epoch,
        **result.record,
        "best": best,
    }
    run.append_history({**record, "seconds": position.seconds})
    listener.logged(record)
    listener.sampled(position.step, result.samples)
    if should_be_learning(position, training):
        warn(position, result, listener)


def should_be_learning(position: Position, training: TrainingConfig) -> bool:
    """Return whether warnings make sense yet: after warm-up, and after one pass over the data.

    If the training makes fewer than five passes, a fifth of its updates replaces the pass.
    """
    passed = position.epoch >= 1 or 5 * position.step >= training.max_steps
    return passed and position.step > max(MIN_STEPS, 3 * training.warmup_steps)


def warn(position: Position, result: Validation, listener: TrainingListener) -> None:
    """Print warnings about the model, each one once per training."""
    for name, warning in result.warnings.items():
        if name not in position.warned:
            position.warned.append(name)
            listener.message(f"warning: {warning}")
