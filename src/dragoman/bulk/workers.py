"""Translate or score chunks in this process, or in worker processes that share its cores and GPUs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial

from dragoman.bulk.job import Job
from dragoman.bulk.stream import Chunk, Done
from dragoman.processes import Tick, in_order, usable_cores


def in_process(job: Job, chunks: Iterator[Chunk], *, tick: Tick) -> Generator[Done, None, None]:
    """Yield the result of each chunk, in order, computed in this process."""
    translate = job.open()
    for chunk in chunks:
        yield translate(chunk, tick)


def in_processes(
    job: Job, chunks: Iterator[Chunk], *, n_workers: int, tick: Tick
) -> Generator[Done, None, None]:
    """Yield the result of each chunk, in order, computed by `n_workers` processes. Errors: see `in_order`."""
    remedy = "what was finished is kept, and the same command continues"
    return in_order(partial(_open, job, n_workers), chunks, n_workers=n_workers, tick=tick, remedy=remedy)


def _open(job: Job, n_workers: int, number: int) -> Callable[[Chunk, Tick], Done]:
    """Return the opened job with this worker's share of cores, or one of the GPUs."""
    import torch

    torch.set_num_threads(min(torch.get_num_threads(), max(1, usable_cores() // n_workers)))
    device = device_of_worker(job.device, number, n_gpus=torch.cuda.device_count())
    return job.open(device=device)


def device_of_worker(device: str, number: int, *, n_gpus: int) -> str:
    """Return the device of worker `number`: where any GPU will do, they take turns."""
    return f"cuda:{number % n_gpus}" if n_gpus and device in ("auto", "cuda") else device


def gpu_of_worker(device: str, *, n_workers: int, n_gpus: int) -> float:
    """Return each worker's share of a GPU, 0 to 1; several share one if there are fewer GPUs than workers."""
    return 1 / -(-n_workers // n_gpus) if n_gpus and device != "cpu" else 0.0
