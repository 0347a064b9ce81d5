"""Asynchronous updates: no host synchronisation, which would stall a GPU.

Batches have one of a few shapes (data/buckets.py). On a GPU the forward and backward pass of each shape is
captured once as a CUDA graph (model/recording.py) and replayed, so that hundreds of small operations cost one
launch. The device decides whether to skip an update (`Ledger`); the host reads that every `log_every`
updates. On a CPU everything is the same, without capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.data.buckets import StaticBatch
from dragoman.model.recording import Recording, record
from dragoman.training.state import TrainPosition
from dragoman.training.updates.divergence import IN_A_ROW, MEMORY, N_USUAL, DivergenceError
from dragoman.training.updates.optimizer import trained

WARM_UP = 3
"""Warm-up passes before a capture, as PyTorch's manual requires."""


SKIPPED = "the loss was not a number or exploded"
"""Why some of several updates were skipped."""


class RecordedPass(NamedTuple):
    """A forward and backward pass over batches of one shape."""

    recording: Recording[Tensor]
    """The pass; it returns the summed loss."""
    batch: StaticBatch
    """Input tensors, into which the next batch is copied."""
    factor: Tensor


class Gradients:
    """Accumulates gradients of a loss in the model's `grad` tensors, whose addresses stay fixed."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self.module, self.device = module, device
        self.forget()
        for parameter in trained(module):
            parameter.grad = torch.zeros_like(parameter)

    def forget(self) -> None:
        """Free the memory of the captured passes."""
        self.recorded: dict[tuple[int, int, int], RecordedPass] = {}
        self.seen: set[tuple[int, int, int]] = set()
        self.pool: Any = None

    def add(self, batch: StaticBatch, factor: float) -> Tensor:
        """Accumulate the gradient of `factor` × the loss of `batch`; return the summed loss.

        The returned tensor is valid until the next call.
        """
        if self.device.type != "cuda" or batch.shape not in self.seen:
            self.seen.add(batch.shape)  # a shape that never comes again is not worth recording
            return self._pass(batch, torch.tensor(factor, device=self.device))
        if batch.shape not in self.recorded:
            inputs = {name: getattr(batch, name).clone() for name in ("src", "tgt_in", "tgt_out")}
            place, scale = batch._replace(**inputs), torch.ones((), device=self.device)
            with untouched(self.module, self.device):
                recording = record(
                    lambda: self._pass(place, scale), self.device, pool=self.pool, warm_up=WARM_UP
                )
            self.pool = self.pool or recording.graph.pool()
            self.recorded[batch.shape] = RecordedPass(recording, place, scale)
        recorded = self.recorded[batch.shape]
        for target, source in zip(recorded.batch[:3], batch[:3], strict=True):
            target.copy_(source)
        recorded.factor.fill_(factor)
        recorded.recording.graph.replay()
        return recorded.recording.result

    def _pass(self, batch: StaticBatch, factor: Tensor) -> Tensor:
        loss, _ = self.module(batch)
        (loss * factor).backward()
        return loss.detach()


@contextmanager
def untouched(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Restore gradients and random-number states at the end of a block."""
    kept = [parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None]
    state = torch.cuda.get_rng_state(device)
    try:
        yield
    finally:
        torch.cuda.set_rng_state(state, device)
        torch._foreach_copy_([p.grad for p in module.parameters() if p.grad is not None], kept)


class Ledger:
    """Judges updates by their losses, and counts them on a device, whose host need not wait for it."""

    def __init__(self, position: TrainPosition, device: torch.device) -> None:
        def number(value: float) -> Tensor:
            return torch.tensor(float(value), dtype=torch.float64, device=device)

        self.usual = number(torch.nan if position.usual_loss is None else position.usual_loss)
        self.lowest = number(torch.inf if position.lowest_loss is None else position.lowest_loss)
        self.n_good, self.n_left_out = number(position.n_good), number(position.n_left_out)
        self.n_in_a_row = self.longest_row = number(position.n_in_a_row)
        self.loss, self.n_items, self.norm = number(0), number(0), number(0)

    def judge(self, loss: Tensor, n_items: float, norm: Tensor) -> Tensor:
        """Record an update of the summed `loss`; return 1 if it must be skipped, else 0."""
        mean = loss.double() / n_items
        exploded = (self.n_good >= N_USUAL) & (mean > 2 * self.usual + 1)
        wrong = ~(mean.isfinite() & norm.isfinite()) | exploded
        usual = torch.where(self.n_good == 0, mean, MEMORY * self.usual + (1 - MEMORY) * mean)
        self.usual = torch.where(wrong, self.usual, usual)
        self.n_good = self.n_good + ~wrong
        settled = ~wrong & (self.n_good >= N_USUAL)
        self.lowest = torch.where(settled, torch.minimum(self.lowest, self.usual), self.lowest)
        self.n_left_out = self.n_left_out + wrong
        self.n_in_a_row = torch.where(wrong, self.n_in_a_row + 1, 0.0)
        self.longest_row = torch.maximum(self.longest_row, self.n_in_a_row)
        self.loss = self.loss + torch.where(wrong, 0.0, loss.double())
        self.n_items = self.n_items + torch.where(wrong, 0.0, n_items)
        self.norm = norm.double()
        return wrong.float()

    def settle(self, position: TrainPosition, *, reason: str = SKIPPED) -> tuple[float, int]:
        """Synchronise with the device and update the position; return the gradient norm and skipped updates.

        DivergenceError: IN_A_ROW updates were skipped, for this `reason`, or the moving average of the loss
        has risen far above its minimum.
        """
        values = dict(zip(vars(self), torch.stack(list(vars(self).values())).tolist(), strict=True))
        n_skipped = int(values["n_left_out"]) - position.n_left_out
        position.n_good, position.n_left_out = int(values["n_good"]), int(values["n_left_out"])
        position.n_in_a_row = int(values["n_in_a_row"])
        position.usual_loss = values["usual"] if position.n_good else None
        position.lowest_loss = values["lowest"] if position.n_good >= N_USUAL else None
        position.window_loss += values["loss"]
        position.window_items += values["n_items"]
        self.loss, self.n_items = torch.zeros_like(self.loss), torch.zeros_like(self.n_items)
        if values["longest_row"] >= IN_A_ROW:
            raise DivergenceError(f"{reason}, {int(values['longest_row'])} times in a row")
        usual, lowest = position.usual_loss, position.lowest_loss
        if usual is not None and lowest is not None and usual > 1.5 * lowest + 1:
            raise DivergenceError(f"the loss rose to {usual:.3g} nats, from {lowest:.3g} before")
        return values["norm"], n_skipped
