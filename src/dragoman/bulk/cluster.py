"""Translate chunks on a Ray cluster: actors keep a loaded translator, and this process reads and writes.

The run must be at the same place on all machines, as on a network file system. If a machine dies, its
workers start on the others, and its chunks are done again: the same bytes, since the result of a chunk
depends on the chunk alone. If no machine is left that can hold a worker, Ray waits for one.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

from dragoman.bulk.input import Chunk
from dragoman.bulk.job import Done, Job
from dragoman.errors import ConfigError, DragomanError, RunError
from dragoman.hardware import limit_threads
from dragoman.processes import AHEAD, Tick
from dragoman.runs import Run

LOCAL = "local"
"""Address that starts a temporary cluster on this machine."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
STORE_BYTES = 256 << 20
"""Object-store bytes of a temporary cluster: some hundreds of chunks."""
DEATHS = 10
"""Deaths of workers, for each of them, without a result in between, before giving up."""


def on_cluster(
    job: Job, chunks: Iterator[Chunk], *, address: str, n_workers: int
) -> Generator[Done, None, None]:
    """Yield the result of each chunk, in order.

    `n_workers` translators run on the cluster at `address`, each with a core, or with a GPU or a share of one
    if there are GPUs.

    Raises:
        ConfigError: no cluster at this address.
        DragomanError: a worker reported an error; the message is the worker's.
        RunError: Ray failed.
    """
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    import ray

    run, *ensemble = (Run.open(path).path.resolve() for path in job.model.runs)
    job = replace(job, model=replace(job.model, run=run, ensemble=tuple(ensemble)))
    options: dict[str, Any] = {}
    if address == LOCAL:  # with one core per worker, on the loopback interface
        options = {"num_cpus": n_workers, "object_store_memory": STORE_BYTES, "include_dashboard": False,
                   "_node_ip_address": "127.0.0.1"}  # fmt: skip
    try:
        host, colon, port = address.removeprefix("ray://").rpartition(":")
        if colon and port.isdecimal():  # Ray itself retries for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"--ray {address}: no cluster is there ({reason}); start one with `ray start --head` and say "
            "--ray auto, or say --ray local"
        ) from error
    try:
        yield from _in_order(ray, job, chunks, n_workers=n_workers)
    except DragomanError:
        raise
    except Exception as error:
        last = str(error).strip().splitlines()[-1:]
        raise RunError(
            f"Ray gave up ({type(error).__name__}: {' '.join(last)}); what was finished is kept, and the "
            "same command continues"
        ) from error
    finally:
        ray.shutdown()


def _in_order(ray: Any, job: Job, chunks: Iterator[Chunk], *, n_workers: int) -> Generator[Done, None, None]:
    """Yield the results in the order of `chunks`: each goes to a worker that is idle, as in `processes`.

    A worker that died is replaced; its chunk goes to whichever is idle first.
    """
    n_gpus = int(ray.cluster_resources().get("GPU", 0))
    share = gpu_of_worker(job.model.device, n_workers=n_workers, n_gpus=n_gpus)
    worker_class = ray.remote(num_cpus=0 if share else 1, num_gpus=share)(ClusterWorker)
    busy: dict[Any, tuple[Any, Chunk | None]] = {}
    idle: list[Any] = []
    lost: deque[Chunk] = deque()  # by workers that died
    results: dict[int, Done | None] = {}  # by the first line of each chunk that was read, in their order
    n_died = 0

    def start() -> None:
        worker = worker_class.remote(job)
        busy[worker.__ray_ready__.remote()] = worker, None  # it is idle as soon as a machine has room

    for _ in range(n_workers):
        start()
    while True:
        while idle and (lost or len(results) < AHEAD * n_workers):
            if (chunk := lost.popleft() if lost else next(chunks, None)) is None:
                break
            results.setdefault(chunk.first_number, None)
            worker = idle.pop()
            busy[worker.translate.remote(chunk)] = worker, chunk
        if idle and not results:
            return
        for reference in ray.wait([*busy])[0]:
            worker, chunk = busy.pop(reference)
            try:
                result: Done | str = ray.get(reference)
            except ray.exceptions.RayActorError:
                n_died += 1
                if n_died > DEATHS * n_workers:
                    raise
                start()
                lost.extend([chunk] if chunk else [])
                continue
            if isinstance(result, str):
                raise DragomanError(result)
            idle.append(worker)
            if chunk is not None:
                results[chunk.first_number], n_died = result, 0
        while (done := next(iter(results.values()), None)) is not None:
            del results[next(iter(results))]
            yield done


def gpu_of_worker(device: str, *, n_workers: int, n_gpus: int) -> float:
    """Return each worker's share of a GPU, 0 to 1; several share one if there are fewer GPUs than workers."""
    return 1 / -(-n_workers // n_gpus) if n_gpus and device != "cpu" else 0.0


class ClusterWorker:
    """A Ray actor that translates chunks."""

    def __init__(self, job: Job) -> None:
        limit_threads(1)
        self.job = job
        self.work: Callable[[Chunk, Tick], Done] | None = None

    def translate(self, chunk: Chunk) -> Done | str:
        """Translate a chunk; return its result, or the complaint about it."""
        try:
            self.work = self.work or self.job.open()
            return self.work(chunk, lambda n_lines: None)
        except DragomanError as error:
            return str(error)
