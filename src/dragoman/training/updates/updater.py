"""Update the weights: gradients summed over batches and processes, and an optimizer step.

Two updaters: synchronous, and asynchronous for batches of few shapes, with rare host synchronisation. Both
take the batches of an update, and split batches that do not fit into memory: an update is the sum of
gradients divided by the number of items, however a batch is split; only dropout differs. So running out of
memory costs one repetition, and needs no setting.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dragoman.config import Config
from dragoman.data.batching import Indices
from dragoman.errors import TrainingError
from dragoman.training.objective import Objective
from dragoman.training.parallel.processes import ALONE, Processes
from dragoman.training.parallel.sharding import accumulates, shard, whole
from dragoman.training.state import TrainPosition, TrainState
from dragoman.training.updates.captured import Gradients, Ledger
from dragoman.training.updates.divergence import what_is_wrong
from dragoman.training.updates.schedule import learning_rate


class BatchShare(NamedTuple):
    """A process's share of a batch."""

    batch: Any
    weight: float = 1.0
    """0 if the share is empty: `batch` is then a dummy that keeps this process in step with the others."""


class Settled(NamedTuple):
    """Result of the updates since the last call of `settle`."""

    gradient_norm: float
    """Gradient norm of the last update, before clipping."""
    skipped: str = ""
    """Message about skipped updates; "" = none was skipped."""


class LossModule(nn.Module):
    """An objective's loss as a module, which DistributedDataParallel or FSDP can wrap."""

    def __init__(self, objective: Objective[Any]) -> None:
        super().__init__()
        self.model = objective.model
        self._objective = [objective]  # in a list, for it is no module

    def forward(self, batch: Any) -> tuple[Tensor, int]:
        """Return the summed loss of `batch`, and its number of tokens."""
        result = self._objective[0].loss(batch)
        return result.loss, result.n_tokens


def loss_module(objective: Objective[Any], config: Config, processes: Processes) -> nn.Module:
    """Return an objective's loss module; with several processes, its backward pass averages their gradients.

    With `training.sharding` = "full", this shards the model's weights.
    """
    module = LossModule(objective)
    if processes.size == 1:
        return module
    if config.training.sharding == "full":
        shard(module, processes)
        return module
    return DistributedDataParallel(module)


class Updater(ABC):
    """Makes updates of `state` with the losses of `objective`."""

    deferred: ClassVar[bool]
    """Whether the result of an update is unknown until `settle`."""

    def __init__(
        self,
        objective: Objective[Any],
        state: TrainState,
        config: Config,
        *,
        module: nn.Module | None = None,
        processes: Processes = ALONE,
        message: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Take the wrapped loss as `module` if there is one; `message` receives lines for the user."""
        self.objective, self.state, self.training = objective, state, config.training
        self.module, self.processes, self.message = module or LossModule(objective), processes, message
        place = processes.device if self.deferred else torch.device("cpu")  # there losses are read at once
        self.ledger = Ledger(state.position, place)

    def __call__(self, batches: Sequence[Indices]) -> None:
        """Make an update with these batches; if memory is too small, split batches from now on and retry.

        Raises:
            DivergenceError: skipping updates does not help.
            TrainingError: a single example does not fit, or other processes are waiting for this one; fp16
                gradients overflow at every loss scale.
        """
        position = self.state.position
        while True:
            try:
                self.update([part for batch in batches for part in self._parts(batch)])
                return
            except torch.OutOfMemoryError as error:
                if self.processes.size > 1:
                    raise TrainingError(
                        f"out of memory at step {position.step}; saved checkpoints are kept. "
                        "Set a smaller training.batch_tokens, and a larger training.update_freq"
                    ) from error
                self.state.optimizer.zero_grad(set_to_none=not self.objective.static)
            # Outside of the handler, which would keep what is to be freed.
            cut_smaller(position, max(batches, key=len))
            self.message(
                f"out of memory: each batch is read in {position.n_pieces} pieces from here on; "
                "the updates are the same"
            )

    def _parts(self, batch: Indices) -> list[BatchShare]:
        """Return this process's share of a batch, in pieces that fit into memory."""
        mine, device = self.processes.share(batch), self.processes.device
        if not len(mine):
            return [BatchShare(self.objective.batch(batch[:1], device), weight=0.0)]
        n_pieces = self.state.position.n_pieces
        return [BatchShare(self.objective.batch(piece, device)) for piece in pieces(mine, n_pieces)]

    def set_rate(self) -> None:
        """Set the learning rate of the step that the position has reached."""
        position = self.state.position
        rate = learning_rate(position.step, self.training, factor=position.rate_factor)
        for group in self.state.optimizer.param_groups:
            group["lr"] = rate

    @abstractmethod
    def update(self, parts: Sequence[BatchShare]) -> None:
        """Update the weights from the gradients of `parts`, this process's share of the batches."""

    @abstractmethod
    def settle(self) -> Settled:
        """Return the result of the updates since the last call. DivergenceError: too many were skipped."""


class SyncUpdater(Updater):
    """Synchronous updates: the result of each one is known at once.

    Gradients are summed and divided once, by the items of the whole update, so that the split into batches
    and processes does not matter.
    """

    deferred = False
    settled = Settled(0.0)

    def update(self, parts: Sequence[BatchShare]) -> None:
        state, processes, position = self.state, self.processes, self.state.position
        scale = position.loss_scale if state.model.dtype == torch.float16 else 1.0
        (n_items,) = processes.total(sum(part.weight * self.objective.n_items(part.batch) for part in parts))
        total, n_tokens = processes.total(*self._backward(parts, processes.size * scale / n_items))
        for parameter in state.model.parameters() if scale != 1.0 else ():
            if parameter.grad is not None:
                parameter.grad /= scale
        limit = self.training.clip_norm or math.inf
        norm = float(whole(torch.nn.utils.clip_grad_norm_(state.model.parameters(), limit)))
        position.step += 1
        wrong = ""
        if scale != 1.0 and math.isfinite(total) and not math.isfinite(norm):
            lower_loss_scale(position)
            position.window_loss += total
            position.window_items += n_items
        else:
            loss = torch.tensor(total, dtype=torch.float64)
            if self.ledger.judge(loss, n_items, torch.tensor(norm)):
                wrong = what_is_wrong(total / n_items, norm, position.usual_loss)
            else:
                self.set_rate()
                state.optimizer.step()
                raise_loss_scale(position)
            self.ledger.settle(position, reason=wrong)
        state.optimizer.zero_grad()
        state.update_ema(self.training.ema_decay)
        position.window_tokens += 0 if wrong else int(n_tokens)
        self.settled = Settled(norm, f"step {position.step:,} skipped: {wrong}" if wrong else "")

    def _backward(self, parts: Sequence[BatchShare], factor: float) -> tuple[float, float]:
        """Accumulate the gradients of `factor` × the losses; return the summed loss and the tokens.

        Gradients are reduced among processes once, with the last part.
        """
        module, total, n_tokens = self.module, 0.0, 0.0
        for i, (batch, weight) in enumerate(parts):
            more = i < len(parts) - 1
            accumulates(module, more=more)
            with module.no_sync() if more and isinstance(module, DistributedDataParallel) else nullcontext():
                loss, n = module(batch)
                (loss * (factor * weight)).backward()
            total += weight * loss.item()
            n_tokens += weight * n
        return total, n_tokens

    def settle(self) -> Settled:
        return self.settled


class AsyncUpdater(Updater):
    """Asynchronous updates of one process: no host synchronisation until `settle`.

    The device decides whether to skip an update (`captured.Ledger`).
    """

    deferred = True

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the arguments of `Updater`; allocate the gradients, whose addresses stay fixed."""
        super().__init__(*args, **options)
        self.gradients = Gradients(self.module, self.processes.device)

    def update(self, parts: Sequence[BatchShare]) -> None:
        state = self.state
        n_items = sum(part.batch.n_tgt_tokens for part in parts)
        loss = torch.zeros((), dtype=torch.float64, device=self.processes.device)
        try:
            for part in parts:
                loss += self.gradients.add(part.batch, 1 / n_items)
        except torch.OutOfMemoryError:
            self.gradients.forget()  # what is recorded is for batches that are too large
            raise
        limit = self.training.clip_norm or torch.inf
        norm = torch.nn.utils.clip_grad_norm_(state.model.parameters(), limit)
        state.position.step += 1
        self.set_rate()
        # The attribute by which PyTorch's GradScaler has fused optimizers leave an update out, unasked.
        state.optimizer.found_inf = self.ledger.judge(loss, n_items, norm)  # type: ignore[attr-defined]
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=False)
        state.update_ema(self.training.ema_decay)
        state.position.window_tokens += sum(part.batch.n_tokens for part in parts)

    def settle(self) -> Settled:
        position = self.state.position
        norm, n_skipped = self.ledger.settle(position)
        many = "1 update was" if n_skipped == 1 else f"{n_skipped} updates were"
        skipped = f"step {position.step:,}: {many} skipped, with a loss that was not a number, or exploded"
        return Settled(norm, skipped if n_skipped else "")


def lower_loss_scale(position: TrainPosition) -> None:
    """Halve the loss scale after fp16 gradients overflowed (Micikevicius et al. 2018).

    TrainingError: the scale is too low to be the cause.
    """
    position.loss_scale, position.n_unscaled = position.loss_scale / 2, 0
    if position.loss_scale < 2**-10:
        raise TrainingError(
            f"fp16 gradients overflow at step {position.step} whatever the loss is scaled by; saved "
            'checkpoints are kept. Use training.precision = "bf16" or "fp32"'
        )


def raise_loss_scale(position: TrainPosition) -> None:
    """Double the loss scale after every 2000 good updates."""
    position.n_unscaled += 1
    if position.n_unscaled >= 2000:
        position.loss_scale, position.n_unscaled = min(2 * position.loss_scale, 2.0**24), 0


def pieces(indices: Indices, n: int) -> list[Indices]:
    """Split the examples of a batch into up to `n` non-empty pieces of similar lengths."""
    return [piece for piece in (indices[i::n] for i in range(n)) if len(piece)]


def cut_smaller(position: TrainPosition, batch: Indices) -> None:
    """Double the number of pieces per batch from now on.

    TrainingError: the pieces of `batch`, which did not fit, have one example each already.
    """
    if position.n_pieces >= len(batch):
        raise TrainingError(
            "a single example does not fit into the device's memory; saved checkpoints are kept. "
            "Set a smaller data.max_length, or a smaller model"
        )
    position.n_pieces *= 2
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def fit(objective: Objective[Any], position: TrainPosition, batch: Indices, device: torch.device) -> None:
    """Run `batch` forward and backward, and split batches until it fits.

    Gradients and random-number states are restored.
    """
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        while not _fits(objective, pieces(batch, position.n_pieces)[0], device):
            cut_smaller(position, batch)


def _fits(objective: Objective[Any], indices: Indices, device: torch.device) -> bool:
    try:
        objective.loss(objective.batch(indices, device)).loss.backward()  # type: ignore[no-untyped-call]
    except torch.OutOfMemoryError:
        return False
    finally:
        objective.model.zero_grad()
    return True
