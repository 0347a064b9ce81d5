"""CUDA graphs: record a computation once, then replay it with one launch.

A graph belongs to the device that is current when it is recorded, whatever tensors it works on, and each
thread has a current device of its own. So the device is named here, for the recording and its stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import torch

Result = TypeVar("Result")

_ONE_AT_A_TIME = threading.Lock()
"""PyTorch records one graph at a time in a process."""


@dataclass(frozen=True)
class Recording(Generic[Result]):
    """A computation that can be repeated."""

    graph: torch.cuda.CUDAGraph
    result: Result
    """What it returned: tensors that every repetition fills."""


def record(
    compute: Callable[[], Result], device: torch.device, *, pool: Any = None, warm_up: int = 0
) -> Recording[Result]:
    """Record `compute`, on the tensors that it reads and writes now, after carrying it out `warm_up` times.

    `pool` is that of an earlier graph, which is still there, to share memory for what is computed on the way;
    the two are never to run side by side.

    Raises:
        OutOfMemoryError: there is no room for what is computed on the way.
    """
    graph, aside = torch.cuda.CUDAGraph(), _stream(device)
    with _ONE_AT_A_TIME, torch.cuda.device(device):
        ours = torch.cuda.current_stream(device)
        aside.wait_stream(ours)
        with torch.cuda.stream(aside):
            for _ in range(warm_up):
                compute()
        ours.wait_stream(aside)
        try:
            with torch.cuda.graph(graph, pool=pool, stream=aside, capture_error_mode="thread_local"):
                result = compute()
        except RuntimeError as error:  # ending a recording that ran out of memory may fail, too
            cause = error.__context__
            raise (cause if isinstance(cause, torch.OutOfMemoryError) else error) from error
    return Recording(graph, result)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the one stream for recording on `device`; libraries allocate a workspace for each stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
