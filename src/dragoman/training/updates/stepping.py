"""Two updaters: synchronous, and asynchronous for batches of few shapes, with rare host synchronisation.

Both take the batches of an update, and split them if they do not fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch

from dragoman.data.buckets import StaticBatch
from dragoman.errors import TrainingError
from dragoman.training.context import TrainingContext
from dragoman.training.updates import memory
from dragoman.training.updates.captured import Gradients, Ledger
from dragoman.training.updates.memory import Indices, OutOfMemoryError
from dragoman.training.updates.optimizer import set_learning_rate
from dragoman.training.updates.schedule import learning_rate
from dragoman.training.updates.update import Part, update

Made = TypeVar("Made")


class Settled(NamedTuple):
    """Result of the updates since the last call of `settle`."""

    gradient_norm: float
    """Gradient norm of the last update, before clipping."""
    skipped: str = ""
    """Message about skipped updates; "" = none was skipped."""


class SyncUpdater:
    """Synchronous updates: the result of each one is known at once."""

    deferred = False

    def __init__(self, context: TrainingContext) -> None:
        self.context = context
        self.settled = Settled(0.0)

    def __call__(self, batches: Sequence[Indices]) -> None:
        """Make an update. DivergenceError: skipping updates does not help."""
        self.settled = fitting(self.context, batches, self._update)

    def settle(self) -> Settled:
        """Return the result of the last update."""
        return self.settled

    def _update(self, parts: Sequence[Part]) -> Settled:
        context = self.context
        done = update(
            context.state,
            context.task,
            parts,
            context.config,
            module=context.module,
            processes=context.processes,
        )
        skipped = f"step {context.state.position.step:,} skipped: {done.skipped}" if done.skipped else ""
        return Settled(done.gradient_norm, skipped)


class AsyncUpdater:
    """Asynchronous updates: no host synchronisation until `settle`."""

    deferred = True

    def __init__(self, context: TrainingContext) -> None:
        self.context = context
        self.gradients = Gradients(context.module, context.device)
        self.ledger = Ledger(context.state.position, context.device)

    def __call__(self, batches: Sequence[Indices]) -> None:
        """Start an update."""
        fitting(self.context, batches, self._update)

    def settle(self) -> Settled:
        """Wait for the updates made so far. DivergenceError: too many of them were skipped."""
        position = self.context.state.position
        norm, n_skipped = self.ledger.settle(position)
        many = "1 update was" if n_skipped == 1 else f"{n_skipped} updates were"
        skipped = f"step {position.step:,}: {many} skipped, with a loss that was not a number, or exploded"
        return Settled(norm, skipped if n_skipped else "")

    def _update(self, parts: Sequence[Part]) -> None:
        state, training = self.context.state, self.context.config.training
        batches: list[StaticBatch] = [part.batch for part in parts]
        n_items = sum(batch.n_tgt_tokens for batch in batches)
        loss = torch.zeros((), dtype=torch.float64, device=self.context.device)
        try:
            for batch in batches:
                loss += self.gradients.add(batch, 1 / n_items)
        except OutOfMemoryError:
            self.gradients.forget()  # what is recorded is for batches that are too large
            raise
        norm = torch.nn.utils.clip_grad_norm_(state.model.parameters(), training.clip_norm or torch.inf)
        state.position.step += 1
        set_learning_rate(
            state.optimizer, learning_rate(state.position.step, training, factor=state.position.rate_factor)
        )
        # The attribute by which PyTorch's GradScaler has fused optimizers leave an update out, unasked.
        state.optimizer.found_inf = self.ledger.judge(loss, n_items, norm)  # type: ignore[attr-defined]
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=False)
        state.update_ema(training.ema_decay)
        state.position.window_tokens += sum(batch.n_tokens for batch in batches)


def make_stepper(context: TrainingContext) -> SyncUpdater | AsyncUpdater:
    """Return the updater for a training."""
    return (
        AsyncUpdater(context) if context.task.static and context.processes.size == 1 else SyncUpdater(context)
    )


def fitting(context: TrainingContext, batches: Sequence[Indices], make: Callable[[list[Part]], Made]) -> Made:
    """Call `make` with `batches`; if memory is too small, split batches from now on and retry.

    TrainingError: a single example does not fit, or other processes are waiting for this one.
    """
    position, optimizer = context.state.position, context.state.optimizer
    while True:
        try:
            return make([part for batch in batches for part in parts_of(context, batch)])
        except OutOfMemoryError:
            if context.processes.size > 1:
                raise TrainingError(
                    f"out of memory at step {position.step}; the last checkpoint is kept. "
                    "Set a smaller training.batch_tokens, and a larger training.update_freq"
                ) from None
            optimizer.zero_grad(set_to_none=not context.task.static)
        # Outside of the handler, which would keep what is to be freed.
        memory.cut_smaller(position, max(batches, key=len))
        context.listener.message(
            f"out of memory: each batch is read in {position.n_pieces} pieces from here on; "
            "the updates are the same"
        )


def parts_of(context: TrainingContext, batch: Indices) -> list[Part]:
    """Return this process's share of a batch, in pieces that fit into memory."""
    task, device = context.task, context.device
    mine = context.processes.share(batch)
    if not len(mine):
        return [Part(task.batch(batch[:1], device), weight=0.0)]
    n_pieces = context.state.position.n_pieces
    return [Part(task.batch(piece, device)) for piece in memory.pieces(mine, n_pieces)]
