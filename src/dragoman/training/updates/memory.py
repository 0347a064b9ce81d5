"""Automatic gradient accumulation: split batches that do not fit into memory, with the same update.

An update is the sum of gradients divided by the number of items, however the batch is split; only dropout
differs. So running out of memory costs one repetition, and needs no setting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dragoman.errors import TrainingError
from dragoman.training.state import Position
from dragoman.training.task import Task

Indices = npt.NDArray[np.int64]


def pieces(indices: Indices, n: int) -> list[Indices]:
    """Split the examples of a batch into up to `n` non-empty pieces of similar lengths."""
    return [piece for piece in (indices[i::n] for i in range(n)) if len(piece)]


def cut_smaller(position: Position, batch: Indices) -> None:
    """Double the number of pieces per batch from now on.

    TrainingError: the pieces of `batch`, which did not fit, have one example each already.
    """
    if position.n_pieces >= len(batch):
        raise TrainingError(
            "a single example does not fit into the device's memory; the last checkpoint is kept. "
            "Set a smaller data.max_length, or a smaller model"
        )
    position.n_pieces *= 2
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def fit(task: Task[Any], position: Position, batch: Indices, device: torch.device) -> None:
    """Run `batch` forward and backward, and split batches until it fits.

    Gradients and random-number states are restored.
    """
    state = torch.get_rng_state()
    state_there = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    while not _fits(task, pieces(batch, position.n_pieces)[0], device):
        cut_smaller(position, batch)
    torch.set_rng_state(state)
    if state_there is not None:
        torch.cuda.set_rng_state(state_there, device)


def _fits(task: Task[Any], indices: Indices, device: torch.device) -> bool:
    try:
        task.loss(task.batch(indices, device)).loss.backward()  # type: ignore[no-untyped-call]
    except torch.OutOfMemoryError:
        return False
    finally:
        task.model.zero_grad()
    return True
