"""A service in several processes: a supervisor that loads the models, and workers forked from it.

Forked processes share memory until they write to it. Weights are never written, so they are in memory once.
A fork copies only the calling thread, so the supervisor has no other threads: it loads models with one
thread and otherwise waits for signals.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import mmap
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

from prometheus_client import values

from dragoman.errors import ConfigError, ServiceError
from dragoman.hardware import on_processor
from dragoman.serving.access import Keys, Rates
from dragoman.serving.downloads import Downloads
from dragoman.serving.models import Models
from dragoman.serving.monitoring import Figures, Metrics, log
from dragoman.serving.running import (
    ENDING,
    HANGUP,
    Server,
    end_at_once,
    handled,
    has_terminal,
    reload_models,
)
from dragoman.serving.service import Service
from dragoman.serving.settings import ServeConfig

STEADY_SECONDS = 1.0
"""Seconds of service after which the death of a worker no longer counts as a failed start."""

MAX_DEATHS = 8
"""Consecutive failed starts of workers before the service gives up."""

GENERATIONS = 4
"""Maximum live workers, as a multiple of --workers: workers with old models may still finish requests."""

LONGEST_PAUSE = 5.0
"""Maximum back-off in seconds before a worker that failed to start is replaced."""


def check_workers(n_workers: int, *, device: str) -> None:
    """Check the number of workers. ConfigError: several are impossible on this system or device."""
    if n_workers == 1:
        return
    instead = f"--workers {n_workers}: {{}}; give --workers 1"
    if not hasattr(os, "fork"):
        raise ConfigError(instead.format("this system cannot fork a process"))
    if not on_processor(device):
        raise ConfigError(
            instead.format("a model on a GPU cannot be shared with forked processes") + ", or --device cpu"
        )


@dataclass
class Worker:
    """A process that answers requests."""

    pid: int
    slot: int
    """Index of its metrics; unique among live workers."""
    generation: int
    """Number of reloads before it was forked, which identifies its models."""
    since: float
    """Time of the fork; later, time when it became ready."""
    is_up: bool = False
    is_told: bool = False
    """Whether it was told to exit."""


class _EndingError(BaseException):
    """Raised to interrupt the loading of models when the service must exit."""


class Supervisor:
    """The parent process: keeps `n_workers` workers alive until a signal ends the service."""

    def __init__(
        self,
        models: Models,
        config: ServeConfig,
        listening: socket.socket,
        *,
        n_workers: int,
        n_threads: int,
        keys: Keys | None,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """`n_threads` is per worker; `on_start` is called when all workers are ready."""
        self._models, self._config, self._listening, self._keys = models, config, listening, keys
        self._n_workers, self._n_threads, self._on_start = n_workers, n_threads, on_start
        self._rates = Rates()  # in memory that the workers share, as the figures
        self._figures = Figures(GENERATIONS * n_workers + 1)  # the last are the supervisor's
        self._beats = memoryview(mmap.mmap(-1, 8 * self._figures.n_slots)).cast("d")
        """Time of each worker's last heartbeat, by slot, on the system's clock; 0 = it is not ready yet."""
        self._beat_seconds = min(1.0, config.limits.hung_seconds / 4)
        self._looked = self._listening_since = time.monotonic()
        limits = config.limits
        self._downloads = Downloads(seconds=limits.kept_seconds, max_bytes=limits.kept_bytes)
        self._workers: list[Worker] = []
        self._generation = 0
        self._has_started = self._is_ending = self._is_loading = False
        self._signals: list[int] = []
        self._n_deaths = 0
        self._not_before = 0.0
        """When the next worker may be forked."""
        self._had_terminal = has_terminal()

    def run(self) -> None:
        """Run the service until a signal ends it; a second signal ends this process at once.

        Raises:
            ServiceError: workers die as soon as they start.
        """
        (self._woken, self._waking), (self._alive, self._held) = pipes = os.pipe(), os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waking, False)
        wakes = signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        values.ValueClass = self._figures.values_of(self._figures.n_slots - 1)
        self._metrics = Metrics(self._figures)
        try:
            with handled(dict.fromkeys(_SIGNALS, self._note)):
                self._fork_the_missing()
                while self._workers or not self._is_ending:
                    self._wait()
                    self._handle_signals()
                    self._kill_hung_workers()
                    self._reap()
                    self._metrics.workers.set(sum(worker.is_up for worker in self._workers))
                    self._fork_the_missing()
                    self._retire_old_workers()
        finally:
            signal.set_wakeup_fd(wakes)
            self._listening.close()
            self._kill(signal.SIGKILL, self._workers)
            for end in chain(*pipes):
                os.close(end)
            self._downloads.close()

    def _note(self, number: int, _: object) -> None:
        if number in ENDING and self._is_ending:
            self._kill(signal.SIGKILL, self._workers)
            end_at_once(number)
        self._signals.append(number)
        if number in ENDING and self._is_loading:
            raise _EndingError

    def _kill(self, number: int, workers: Sequence[Worker]) -> None:
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, number)
            worker.is_told = True

    def _wait(self) -> None:
        """Wait for a signal, for a worker to become ready, or until the next fork or health check."""
        timeout = self._beat_seconds
        if self._n_missing:
            timeout = min(timeout, max(0.0, self._not_before - time.monotonic()))
        if select.select([self._woken], [], [], timeout)[0]:
            os.read(self._woken, 1 << 12)
        for worker in self._workers:
            if not worker.is_up and self._beats[worker.slot]:
                worker.is_up, worker.since = True, time.monotonic()

    def _handle_signals(self) -> None:
        """Handle the signals received so far."""
        while self._signals:
            number = self._signals.pop(0)
            if number in ENDING or (number == HANGUP and self._had_terminal and not has_terminal()):
                self._is_ending = True
                self._listening.close()
                self._kill(signal.SIGTERM, self._workers)
            elif number == HANGUP and not self._is_ending:
                self._is_loading = True
                try:
                    keys, is_new = reload_models(self._models, self._keys, self._metrics)
                except _EndingError:
                    continue
                finally:
                    self._is_loading = False
                if is_new:
                    self._keys, self._generation = keys, self._generation + 1
                    self._n_deaths, self._not_before = 0, 0.0

    def _kill_hung_workers(self) -> None:
        """Kill workers without a heartbeat for `limits.hung_seconds`."""
        now, patience = time.monotonic(), self._config.limits.hung_seconds
        if now - self._looked > patience / 2:  # this process was stopped, or has loaded models
            self._listening_since = now
        self._looked = now
        for worker in self._workers:
            silence = now - max(self._beats[worker.slot], worker.since, self._listening_since)
            if silence > patience:
                facts = {"worker": worker.pid, "seconds": round(silence, 1)}
                log("a worker makes no progress; it is killed", facts, level=logging.ERROR)
                self._beats[worker.slot] = now  # so that this is said once
                os.kill(worker.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Reap workers that have exited. ServiceError: workers die as soon as they start."""
        for worker in tuple(self._workers):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            self._workers.remove(worker)
            self._figures.forget(worker.slot)
            if worker.is_told:
                continue
            code, lived = os.waitstatus_to_exitcode(status), time.monotonic() - worker.since
            why = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"
            facts = {"worker": worker.pid, "why": why, "seconds": round(lived, 1)}
            log("a worker has died; another takes its place", facts, level=logging.ERROR)
            self._metrics.deaths.inc()
            is_steady = worker.is_up and lived >= STEADY_SECONDS
            self._n_deaths = 0 if is_steady else self._n_deaths + 1
            if self._n_deaths >= max(MAX_DEATHS, 2 * self._n_workers):
                hint = "; if the system ran out of memory, give fewer --workers"
                raise ServiceError(
                    f"{self._n_deaths} workers died soon after they started, the last with {why}; see the "
                    f"log above{hint if code == -signal.SIGKILL else ''}"
                )
            if self._n_deaths > 1:
                pause = min(0.1 * 2 ** (self._n_deaths - 2), LONGEST_PAUSE)
                self._not_before = time.monotonic() + pause

    @property
    def _current(self) -> list[Worker]:
        """The workers with the newest models."""
        return [worker for worker in self._workers if worker.generation == self._generation]

    @property
    def _n_missing(self) -> int:
        return 0 if self._is_ending else self._n_workers - len(self._current)

    def _fork_the_missing(self) -> None:
        if not self._n_missing or time.monotonic() < self._not_before:
            return
        assert threading.active_count() == 1, "a fork copies only the calling thread"
        gc.freeze()  # the garbage collector writes to every object that it visits, which would unshare them
        for _ in range(self._n_missing):
            try:
                self._workers.append(self._fork())
            except OSError as error:
                self._not_before = time.monotonic() + 1.0
                log("no worker can be forked; trying again", {"why": str(error)}, level=logging.ERROR)
                break
        gc.unfreeze()

    def _fork(self) -> Worker:
        """Fork a worker. OSError: no free slot, or the system cannot fork."""
        free = set(range(self._figures.n_slots - 1)) - {worker.slot for worker in self._workers}
        if not free:
            raise OSError(errno.EAGAIN, "workers with earlier models have not ended yet")
        slot = min(free)
        self._beats[slot] = 0.0
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if not pid:
                self._be_worker(slot)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        return Worker(pid, slot, self._generation, time.monotonic())

    def _be_worker(self, slot: int) -> NoReturn:
        """Run in the forked process: answer requests until told to exit, or until the parent dies."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            os.close(self._woken)
            os.close(self._held)
            values.ValueClass = self._figures.values_of(slot)
            self._answer(slot)
            code = 0
        except BaseException:
            log("a worker cannot go on", {}, level=logging.ERROR, exc_info=True)
        finally:
            with suppress(OSError):
                sys.stderr.flush()
            os._exit(code)

    def _answer(self, slot: int) -> None:
        service = Service(
            self._models, self._config, keys=self._keys, rates=self._rates, downloads=self._downloads,
            figures=self._figures, n_threads=self._n_threads,
        )  # fmt: skip

        def end(*_: object) -> None:
            server.should_exit = True

        def beat() -> None:
            if not service.is_hung:
                self._beats[slot] = time.monotonic()
            asyncio.get_running_loop().call_later(self._beat_seconds, beat)

        def say_so() -> None:
            beat()
            os.write(self._waking, b"1")
            asyncio.get_running_loop().add_reader(self._alive, parent_died)

        def parent_died() -> None:
            asyncio.get_running_loop().remove_reader(self._alive)
            end()

        server = Server(service, on_start=say_so)
        handlers: dict[int, Any] = dict.fromkeys(_SIGNALS, signal.SIG_IGN)  # the parent forwards signals
        handlers |= {signal.SIGTERM: end, signal.SIGCHLD: signal.SIG_DFL}
        with handled(handlers):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            server.run(sockets=[self._listening])

    def _retire_old_workers(self) -> None:
        """Tell workers with old models to exit once all workers with the newest ones are ready."""
        if self._is_ending or self._n_missing or not all(worker.is_up for worker in self._current):
            return
        if not self._has_started:
            self._has_started = True
            self._on_start()
        old = [worker for worker in self._workers if worker not in self._current and not worker.is_told]
        self._kill(signal.SIGTERM, old)


_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD") if hasattr(signal, name)
)
