"""Translate chunks in worker processes, each with its own translator; results keep the input order.

Each worker has its own pipe to this process, which closes if either side dies. If a worker dies, this process
ends at once; if this process dies, its workers end after their current batch at the latest.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from dragoman.bulk.job import Job
from dragoman.bulk.stream import Chunk, Done, Tick
from dragoman.errors import DragomanError, RunError

AHEAD = 2
"""Maximum chunks per worker in memory: read, being translated, or waiting for an earlier chunk."""


def in_process(job: Job, chunks: Iterator[Chunk], *, tick: Tick) -> Generator[Done, None, None]:
    """Yield the result of each chunk, in order, computed in this process."""
    translate = job.open()
    for chunk in chunks:
        yield translate(chunk, tick)


def in_processes(
    job: Job, chunks: Iterator[Chunk], *, n_workers: int, tick: Tick
) -> Generator[Done, None, None]:
    """Yield the result of each chunk, in order, computed by `n_workers` processes.

    Raises:
        DragomanError: a worker reported an error; the message is the worker's.
        RunError: a worker died.
    """
    workers: list[Worker] = []
    try:
        workers += [Worker(i, job, n_workers=n_workers) for i in range(n_workers)]
        yield from _in_order(workers, chunks, tick)
    finally:
        for worker in workers:
            worker.end()


def _in_order(workers: list[Worker], chunks: Iterator[Chunk], tick: Tick) -> Generator[Done, None, None]:
    """Send chunks to idle workers, and yield the results in the order of the input."""
    by_connection: dict[Any, Worker] = {worker.connection: worker for worker in workers}
    given: deque[int] = deque()  # the first line of every chunk that was not handed out yet
    early: dict[int, Done] = {}
    while True:
        for worker in workers:
            if worker.busy or len(given) >= AHEAD * len(workers):
                continue
            if (chunk := next(chunks, None)) is not None:
                given.append(chunk.first_number)
                worker.send(chunk)
        if not given:
            return
        for connection in wait(list(by_connection)):
            message = by_connection[connection].receive()
            if isinstance(message, Done):
                early[message.first_number] = message
            else:
                tick(message)
        while given and given[0] in early:
            yield early.pop(given.popleft())


class Worker:
    """A process that translates one chunk after the other."""

    def __init__(self, number: int, job: Job, *, n_workers: int) -> None:
        context = get_context("spawn")  # a fork would copy the threads' locks, but not the threads
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, job, number, n_workers), name=f"worker {number + 1}", daemon=True
        )
        with _without_ctrl_c():
            self.process.start()
        theirs.close()
        self.busy = False

    def send(self, chunk: Chunk) -> None:
        """Give it a chunk. RunError: it died."""
        try:
            self.connection.send(chunk)
        except OSError:
            raise self._died() from None
        self.busy = True

    def receive(self) -> Done | int:
        """Receive the result of its chunk, or the number of lines translated since the last message.

        DragomanError: a complaint. RunError: it died.
        """
        try:
            message: Done | int = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if isinstance(message, Done):
            self.busy = False
            if message.problem:
                raise DragomanError(message.problem)
        return message

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.process.terminate()
        self.process.join()
        self.connection.close()

    def _died(self) -> RunError:
        self.process.join(5)
        code = self.process.exitcode
        cause = f"with exit code {code}"
        if code is not None and code < 0:
            cause = f"killed by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                cause += ", which is what the system does when memory is short"
        return RunError(
            f"{self.process.name} (process {self.process.pid}) died, {cause}; what was finished is kept, and "
            "the same command continues"
        )


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started: their parent ends them. Windows cannot do that."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # here, for it would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(connection: Connection, job: Job, number: int, n_workers: int) -> None:
    """Run a worker: receive chunks and send their results until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends its workers
    with suppress(EOFError, OSError):
        translate: Callable[[Chunk, Tick], Done] | None = None
        while True:
            chunk: Chunk = connection.recv()
            try:
                translate = translate or _warm(job, number, n_workers)
                connection.send(translate(chunk, connection.send))
            except DragomanError as error:
                connection.send(Done(chunk.first_number, 0, 0, b"", {}, problem=str(error)))


def _warm(job: Job, number: int, n_workers: int) -> Callable[[Chunk, Tick], Done]:
    """Return the opened job with this worker's share of cores, or one of the GPUs."""
    import torch

    torch.set_num_threads(min(torch.get_num_threads(), max(1, n_cores() // n_workers)))
    device = device_of_worker(job.device, number, n_gpus=torch.cuda.device_count())
    return job.open(device=device)


def n_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def device_of_worker(device: str, number: int, *, n_gpus: int) -> str:
    """Return the device of worker `number`: where any GPU will do, they take turns."""
    return f"cuda:{number % n_gpus}" if n_gpus and device in ("auto", "cuda") else device


def gpu_of_worker(device: str, *, n_workers: int, n_gpus: int) -> float:
    """Return each worker's share of a GPU, 0 to 1; several share one if there are fewer GPUs than workers."""
    return 1 / -(-n_workers // n_gpus) if n_gpus and device != "cpu" else 0.0
