"""Distributed training: the rank of this process, and collective operations among all processes.

Processes are started by `torchrun` or by `dragoman train --processes N`, on one machine or several. They
communicate through torch.distributed: gloo on CPUs, NCCL on GPUs. With one process, all operations are free.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import distributed as dist

from dragoman.errors import ConfigError, LostProcessError, TrainingError
from dragoman.hardware import choose_device, find_device

PATIENCE = timedelta(hours=6)
"""Timeout of `Processes.wait`: longer than any validation. If a process dies, the launcher ends the others
long before this."""

START = timedelta(minutes=5)
"""How long processes wait for one another to start."""

SIGNS_OF_LOSS = (
    "Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket", "NCCL", "Timed out",
    "monitoredBarrier",
)  # fmt: skip
"""Substrings of torch.distributed's messages when another process has died or no longer responds."""

GRACE = 10.0
"""Seconds before the first process of a machine reports it, and each other one a second later. The launcher
usually ends them sooner: it has seen a process die, or the first one has reported."""


@dataclass(frozen=True)
class Processes:
    """The process group, as seen by this process."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Device of this process."""
    group: Any = None
    """The gloo group of `wait`; None = torch.distributed's default group."""

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which validates, writes files and prints."""
        return self.rank == 0

    def share(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return this process's part of a batch: every size-th example, for similar lengths everywhere.

        Some parts are empty if a batch has fewer examples than there are processes.
        """
        return indices[self.rank :: self.size]

    def total(self, *values: float) -> list[float]:
        """Return the sum of each value over all processes."""
        return self._reduced(values, dist.ReduceOp.SUM)

    def largest(self, *values: float) -> list[float]:
        """Return the maximum of each value over all processes."""
        return self._reduced(values, dist.ReduceOp.MAX)

    def _reduced(self, values: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if self.size == 1:
            return list(values)
        reduced = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(reduced, op=operation)
        result: list[float] = reduced.tolist()
        return result

    def wait(self) -> None:
        """Wait until all processes have called this (barrier): hours, where rank 0 validates meanwhile."""
        if self.size > 1:
            dist.monitored_barrier(self.group, timeout=PATIENCE)

    @contextmanager
    def first_ahead(self) -> Iterator[None]:
        """Run a block in rank 0 first, then in the others, which can use the files that it wrote.

        Ends in all processes together: what follows may be an operation with a short timeout.
        """
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()
        self.wait()

    def from_first(self, value: Any) -> Any:
        """Return the value of rank 0, which travels as JSON."""
        if self.size == 1:
            return value
        content = json.dumps(value).encode() if self.first else b""
        length = int(self.total(float(len(content)))[0])
        characters = torch.zeros(length, dtype=torch.uint8, device=self.device)
        if self.first:
            characters.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(characters, src=0)
        return json.loads(bytes(characters.tolist()))

    def gather(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Gather the tensors of all processes, of equal shape and type, by rank."""
        if self.size == 1:
            return [values]
        mine = values.to(self.device)
        gathered = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(gathered, mine)
        return [each.to(values.device) for each in gathered]


ALONE = Processes()


@contextmanager
def joined(device: str = "auto", *, timeout_minutes: float = 10.0) -> Iterator[Processes]:
    """Join the process group described by torchrun's environment variables; without them, a group of one.

    On GPUs, each process takes its own. The timeout is that of all collective operations but `wait`.

    Raises:
        ConfigError: `device` is not available.
        LostProcessError: another process has ended, or an operation timed out.
        TrainingError: another process does not start.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Processes(device=choose_device(device))
        return
    n_here, rank_here = (int(os.environ.get(name, "0")) for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"))
    place = choose_device(device_of_process(device, rank_here, n_processes=n_here))
    store, rank = meet(size, timeout=START)
    backend = "nccl" if place.type == "cuda" else "gloo"
    timeout = timedelta(minutes=timeout_minutes)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    try:
        yield Processes(rank, size, place, dist.new_group(backend="gloo", timeout=PATIENCE))
    except RuntimeError as error:
        if not any(sign in str(error) for sign in SIGNS_OF_LOSS):
            raise
        time.sleep(GRACE + rank_here)
        raise LostProcessError(
            f"process {rank} of {size}: another one has ended, or has not responded for {timeout_minutes:g} "
            "minutes (training.timeout_minutes); saved checkpoints are kept"
        ) from error
    finally:
        dist.destroy_process_group()


def meet(size: int, *, timeout: timedelta) -> tuple[Any, int]:
    """Wait until all processes have started; return the store of the group and this process's rank.

    TrainingError: one does not start; otherwise the process group would wait for it as for a validation.
    """
    c10d: Any = dist  # exports its stores, but not by the rules of type checkers
    missing = 0  # may hold the store
    try:
        store, rank, _ = next(c10d.rendezvous("env://", timeout=timeout))
        store = c10d.PrefixStore(f"attempt/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        started = [f"started/{each}" for each in range(size)]
        store.set(started[rank], "")
        for missing, key in enumerate(started):  # noqa: B007 - of use if it fails
            store.wait([key], timeout)
    except RuntimeError as error:
        raise TrainingError(
            f"process {missing} of {size} has not started within {timeout.total_seconds():.0f} s; see what "
            "it printed, and start all of them with the same MASTER_ADDR and MASTER_PORT"
        ) from error
    return store, rank


def device_of_process(device: str, rank: int, *, n_processes: int) -> str:
    """Return the device of one of several processes on this machine, given `training.device`.

    ConfigError: fewer GPUs than processes, `device` names a single GPU, or it is not available.
    """
    kind = find_device(device)
    if kind.type == "cpu":
        return "cpu"
    if ":" in device and n_processes > 1:
        raise ConfigError(
            f'training.device = "{device}": is one GPU, and each of {n_processes} processes needs its own; '
            'use training.device = "cuda"'
        )
    n_gpus = torch.cuda.device_count()
    if n_gpus < n_processes:
        raise ConfigError(
            f"{n_processes} processes: each needs a GPU of its own, and this machine has {n_gpus}; start "
            f'{n_gpus}, or use training.device = "cpu"'
        )
    return device if ":" in device else f"cuda:{rank}"
