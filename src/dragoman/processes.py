"""Work in processes of its own: each item goes to one that is idle, and results come back in order.

Each worker has its own pipe to this process, which closes if either side dies. If a worker dies, this process
ends at once; if this process dies, its workers end after their current item at the latest.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from dragoman.errors import DragomanError, RunError

AHEAD = 2
"""Maximum items per worker that are with it, or done and waiting for an earlier one."""

Tick = Callable[[int], None]
"""Told how much more has been done since it was told last."""
Work = Callable[[Any, Tick], Any]
"""Turns an item into its result."""


class _Result(NamedTuple):
    value: Any


def in_order(
    open_: Callable[[int], Work], items: Iterator[Any], *, n_workers: int, tick: Tick, remedy: str
) -> Generator[Any, None, None]:
    """Yield the result of each item, in order, worked out by `n_workers` processes.

    Each process calls `open_` with its number, from 0, when it has its first item. `open_`, items and results
    travel through pipes. `remedy` ends the complaint about a worker that died.

    Raises:
        DragomanError: a worker reported an error; the message is the worker's.
        RunError: a worker died.
    """
    workers: list[_Worker] = []
    pending: deque[_Worker | _Result] = deque()  # each item in its order: who has it, or what came of it
    try:
        workers += [_Worker(i, open_, remedy) for i in range(n_workers)]
        by_connection: dict[Any, _Worker] = {worker.connection: worker for worker in workers}
        while True:
            for worker in workers:
                if worker in pending or len(pending) >= AHEAD * len(workers):
                    continue
                if (item := next(items, None)) is not None:
                    worker.send(item)
                    pending.append(worker)
                del item  # it may be large
            if not pending:
                return
            for connection in wait(list(by_connection)):
                worker = by_connection[connection]
                message = worker.receive()
                if isinstance(message, _Result):
                    pending[pending.index(worker)] = message
                else:
                    tick(message)
            while pending and isinstance(pending[0], _Result):
                yield pending.popleft().value  # type: ignore[union-attr]
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that works on one item after the other."""

    def __init__(self, number: int, open_: Callable[[int], Work], remedy: str) -> None:
        context = get_context("spawn")  # a fork would copy the threads' locks, but not the threads
        self._remedy = remedy
        self.connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, open_, number), name=f"worker {number + 1}", daemon=True
        )
        with without_ctrl_c():
            self._process.start()
        theirs.close()

    def send(self, item: Any) -> None:
        """Give it an item. RunError: it died."""
        try:
            self.connection.send(item)
        except OSError as error:
            raise self._died() from error

    def receive(self) -> _Result | int:
        """Receive the result of its item, or how much more of it is done.

        DragomanError: a complaint. RunError: it died.
        """
        try:
            message: _Result | DragomanError | int = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if isinstance(message, DragomanError):
            raise message
        return message

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.terminate()
        self._process.join()
        self.connection.close()

    def _died(self) -> RunError:
        self._process.join(5)
        code = self._process.exitcode
        cause = f"with exit code {code}"
        if code is not None and code < 0:
            cause = f"killed by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                cause += ", which is what the system does when memory is short"
        return RunError(f"{self._process.name} (process {self._process.pid}) died, {cause}; {self._remedy}")


@contextmanager
def without_ctrl_c() -> Iterator[None]:
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


def _serve(connection: Connection, open_: Callable[[int], Work], number: int) -> None:
    """Run a worker: receive items and send their results until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends its workers
    with suppress(EOFError, OSError):
        work: Work | None = None
        while True:
            item = connection.recv()
            try:
                work = work or open_(number)
                connection.send(_Result(work(item, connection.send)))
            except DragomanError as error:
                connection.send(DragomanError(str(error)))  # others take more to make than a text


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
