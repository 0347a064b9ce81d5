"""One update of the weights: gradients, summed over batches and processes, and a step of the optimizer."""

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
from dragoman.training.tasks.task import Task
from dragoman.training.updates import divergence
from dragoman.training.updates.optimizer import set_learning_rate
from dragoman.training.updates.schedule import learning_rate


class Updated(NamedTuple):
    """What an update was like."""

    gradient_norm: float
    """Before clipping."""
    skipped: str = ""
    """Why the weights were left as they are, in words; "" where they changed."""


class Part(NamedTuple):
    """What a process has of a batch."""

    batch: Any
    weight: float = 1.0
    """0 where it has nothing of it: then the batch is an example that keeps it in step with the others."""


class LossModule(nn.Module):
    """A task's loss as a module over its model, so that it can be shared between processes."""

    def __init__(self, task: Task[Any]) -> None:
        super().__init__()
        self.model = task.model
        self._task = [task]  # in a list, for it is no module

    def forward(self, batch: Any) -> tuple[Tensor, int]:
        """The summed loss of `batch`, and the tokens read."""
        result = self._task[0].loss(batch)
        return result.loss, result.n_tokens


def loss_module(task: Task[Any], config: Config, processes: Processes) -> nn.Module:
    """A task's loss; where several processes train, their gradients are averaged in its backward pass.

    With `training.sharding` = "full" the model's weights are spread over them from here on.
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
    """One update of the weights from the gradients of `parts`, what this process has of its batches.

    The loss is divided by the items of the whole update, so that it does not matter how they are cut into
    batches or spread over processes: gradients are summed, and divided once. DivergenceError: leaving the
    update out is not enough. TrainingError: fp16 overflows whatever its scale.
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
    """Adds up the gradients of `factor` times the parts' losses; the summed loss itself, and the tokens.

    Processes exchange gradients once, with the last part.
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
    """After an update that is left out because fp16 gradients overflowed (Micikevicius et al. 2018).

    TrainingError: the scale is so low that it is not the scale's fault.
    """
    position.loss_scale, position.n_unscaled = position.loss_scale / 2, 0
    if position.loss_scale < 2**-10:
        raise TrainingError(
            f"fp16 gradients overflow at step {position.step} whatever the loss is scaled by; the last "
            'checkpoint stands. Use training.precision = "bf16" or "fp32"'
        )


def raise_loss_scale(position: Position) -> None:
    """After a good update: twice the scale every 2000 of them."""
    position.n_unscaled += 1
    if position.n_unscaled >= 2000:
        position.loss_scale, position.n_unscaled = min(2 * position.loss_scale, 2.0**24), 0
