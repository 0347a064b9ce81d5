"""One update of the weights: gradients summed over batches and processes, and an optimizer step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dragoman.config import Config
from dragoman.errors import TrainingError
from dragoman.training.parallel.processes import ALONE, Processes
from dragoman.training.parallel.sharding import accumulates, shard, whole
from dragoman.training.state import Position, TrainState
from dragoman.training.task import Task
from dragoman.training.updates import divergence
from dragoman.training.updates.optimizer import set_learning_rate
from dragoman.training.updates.schedule import learning_rate


class Updated(NamedTuple):
    """The result of an update."""

    gradient_norm: float
    """Gradient norm before clipping."""
    skipped: str = ""
    """Reason why the update was skipped; "" = the weights were updated."""


class Part(NamedTuple):
    """A process's share of a batch."""

    batch: Any
    weight: float = 1.0
    """0 if the share is empty: `batch` is then a dummy that keeps this process in step with the others."""


class LossModule(nn.Module):
    """A task's loss as a module, which DistributedDataParallel or FSDP can wrap."""

    def __init__(self, task: Task[Any]) -> None:
        super().__init__()
        self.model = task.model
        self._task = [task]  # in a list, for it is no module

    def forward(self, batch: Any) -> tuple[Tensor, int]:
        """Return the summed loss of `batch`, and its number of tokens."""
        result = self._task[0].loss(batch)
        return result.loss, result.n_tokens


def loss_module(task: Task[Any], config: Config, processes: Processes) -> nn.Module:
    """Return a task's loss module; with several processes, its backward pass averages their gradients.

    With `training.sharding` = "full", this shards the model's weights.
    """
    module = LossModule(task)
    if processes.size == 1:
        return module
    if config.training.sharding == "full":
        shard(module, processes)
        return module
    return DistributedDataParallel(module)


def update(
    state: TrainState,
    task: Task[Any],
    parts: Sequence[Part],
    config: Config,
    *,
    module: nn.Module | None = None,
    processes: Processes = ALONE,
) -> Updated:
    """Update the weights from the gradients of `parts`, this process's share of the batches.

    Gradients are summed and divided once, by the items of the whole update, so that the split into batches
    and processes does not matter.

    Raises:
        DivergenceError: skipping the update is not enough.
        TrainingError: fp16 gradients overflow at every loss scale.
    """
    training, position = config.training, state.position
    scale = position.loss_scale if state.model.dtype == torch.float16 else 1.0
    (n_items,) = processes.total(sum(part.weight * task.n_items(part.batch) for part in parts))
    mine, n_tokens = backward(module or LossModule(task), parts, processes.size * scale / n_items)
    total, n_tokens = processes.total(mine, n_tokens)
    for parameter in state.model.parameters() if scale != 1.0 else ():
        if parameter.grad is not None:
            parameter.grad /= scale
    limit = training.clip_norm or math.inf
    norm = float(whole(torch.nn.utils.clip_grad_norm_(state.model.parameters(), limit)))
    overflowed = scale != 1.0 and math.isfinite(total) and not math.isfinite(norm)
    wrong = "" if overflowed else divergence.what_is_wrong(position, total / n_items, norm)
    position.step += 1
    if overflowed:
        lower_loss_scale(position)
    elif wrong:
        divergence.record_skipped(position, wrong)
    else:
        rate = learning_rate(position.step, training, factor=position.rate_factor)
        set_learning_rate(state.optimizer, rate)
        state.optimizer.step()
        raise_loss_scale(position)
        divergence.record_update(position, total / n_items)
    state.optimizer.zero_grad()
    state.update_ema(training.ema_decay)
    if not wrong:
        position.window_loss += total
        position.window_items += n_items
        position.window_tokens += int(n_tokens)
    return Updated(norm, wrong)


def backward(module: nn.Module, parts: Sequence[Part], factor: float) -> tuple[float, float]:
    """Accumulate the gradients of `factor` × the losses of the parts; return the summed loss and the tokens.

    Gradients are reduced among processes once, with the last part.
    """
    total, n_tokens = 0.0, 0.0
    for i, (batch, weight) in enumerate(parts):
        more = i < len(parts) - 1
        accumulates(module, more=more)
        with module.no_sync() if more and isinstance(module, DistributedDataParallel) else nullcontext():
            loss, n = module(batch)
            (loss * (factor * weight)).backward()
        total += weight * loss.item()
        n_tokens += weight * n
    return total, n_tokens


def lower_loss_scale(position: Position) -> None:
    """Halve the loss scale after fp16 gradients overflowed (Micikevicius et al. 2018).

    TrainingError: the scale is too low to be the cause.
    """
    position.loss_scale, position.n_unscaled = position.loss_scale / 2, 0
    if position.loss_scale < 2**-10:
        raise TrainingError(
            f"fp16 gradients overflow at step {position.step} whatever the loss is scaled by; the last "
            'checkpoint stands. Use training.precision = "bf16" or "fp32"'
        )


def raise_loss_scale(position: Position) -> None:
    """Double the loss scale after every 2000 good updates."""
    position.n_unscaled += 1
    if position.n_unscaled >= 2000:
        position.loss_scale, position.n_unscaled = min(2 * position.loss_scale, 2.0**24), 0
