"""A service in one process: the listening socket, shutdown, and reload on SIGHUP."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn

import uvicorn

from dragoman.errors import ConfigError, DragomanError
from dragoman.hardware import (
    limit_threads,
    on_processor,
    prepare_for_translating,
    release_freed_memory,
    resident_memory,
)
from dragoman.processes import usable_cores
from dragoman.serving.access import Keys
from dragoman.serving.app import create_app
from dragoman.serving.connections import KEPT_SECONDS, Connection
from dragoman.serving.models import Models
from dragoman.serving.monitoring import Metrics, log
from dragoman.serving.service import Service
from dragoman.serving.settings import ServeConfig

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a service: the first after the accepted requests, the second at once."""

HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""None on Windows."""

IGNORED = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""Signals that mean nothing to a service, and would end it."""

MUCH = 64 << 20
"""Growth of a process in bytes after which it releases freed memory when idle."""

MORE_FILES = 64
"""Maximum open files of a process besides its connections."""


def check_address(host: str, *, has_keys: bool, forced: bool) -> None:
    """Check the address. ConfigError: `host` is public and there are no keys, unless `forced`."""
    if not (is_local(host) or has_keys or forced):
        raise ConfigError(
            f"--host {host}: anybody who can reach this machine could use the service; give --keys (dragoman "
            "key add NAME --file keys.toml makes one), or --force-public to serve without keys"
        )


LOCAL_NAMES = ["localhost", "127.0.0.1", "[::1]"]
"""Host names of the loopback interface, as browsers write them."""


def is_local(host: str) -> bool:
    """Return whether `host` is a loopback address."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. ConfigError: impossible, for example because the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere it would take the port from another service
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:  # UnicodeError: no name of a host
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"--host {host} --port {port}: cannot listen there ({reason}); give another --port or --host"
        ) from error
    listener.listen(2048)
    return listener


def url_of(listening: socket.socket) -> str:
    """Return the URL for a browser."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (compared, not bound)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepare(config: ServeConfig, *, n_workers: int, device: str) -> int:
    """Prepare this process for serving; return the number of batches per worker that run in parallel.

    Each batch runs in one thread. A GPU runs one batch at a time, because searches reuse the same tensors
    (`dragoman.model.static`).
    """
    prepare_for_translating()
    limit_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not survive a fork
    with suppress(ImportError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = 2 * config.limits.connections + MORE_FILES  # each connection is one
        limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if soft != resource.RLIM_INFINITY and soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if not on_processor(device):
        return 1
    return config.batching.threads or max(1, usable_cores() // n_workers)


def reload_models(models: Models, present: Keys | None, metrics: Metrics) -> tuple[Keys | None, bool]:
    """Reload keys and models; return the keys, and whether anything has changed.

    On failure, log the reason and keep the old models. New keys are used even if a model cannot be loaded, so
    that a revoked key is refused.
    """
    keys, is_loaded = present, False
    try:
        keys = present and present.reloaded()
        models.reload()
        is_loaded = True
    except Exception as error:
        is_bug = not isinstance(error, DragomanError | OSError)  # or out of memory: keep serving
        facts = {} if is_bug else {"why": " ".join(str(error).split())}
        log("reload failed; the old models stay in use", facts, level=logging.ERROR, exc_info=is_bug)
    metrics.reloads.labels("done" if is_loaded else "failed").inc()
    if is_loaded or keys != present:
        served = ", ".join(dict.fromkeys(model.name for model in models.served))
        log("reloaded", {"models": served} if is_loaded else {"keys": "all"})
    return keys, is_loaded or keys != present


class Server(uvicorn.Server):
    """An uvicorn server without signal handlers of its own, which reports its shutdown to the service."""

    def __init__(self, service: Service, *, on_start: Callable[[], None] = lambda: None) -> None:
        """`on_start` is called when the server accepts requests."""
        make: Any = partial(Connection, service=service)
        super().__init__(
            uvicorn.Config(
                create_app(service), http=make, ws="none", access_log=False, log_config=None,
                server_header=False, proxy_headers=service.config.behind_proxy,
                timeout_keep_alive=KEPT_SECONDS,
                timeout_graceful_shutdown=int(service.config.limits.file_seconds) + 1,
            )
        )  # fmt: skip
        self.service, self._on_start = service, on_start
        self._settled = resident_memory()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_start()

    async def on_tick(self, counter: int) -> bool:
        if counter % 600 == 0:  # once per minute
            await asyncio.to_thread(self.service.downloads.sweep)
        if counter % 10 == 0:
            self.service.metrics.waiting.set(self.service.batcher.n_waiting)
            if not self.service.is_working and resident_memory() > self._settled + MUCH:
                await asyncio.to_thread(release_freed_memory)
                self._settled = resident_memory()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.closing = True
        await super().shutdown(sockets)


def run(service: Service, listening: socket.socket, *, on_start: Callable[[], None] = lambda: None) -> None:
    """Answer requests until SIGTERM or SIGINT, then finish the accepted ones.

    A second signal ends the process at once, with exit code 128 + its number. SIGHUP reloads models and keys
    in the background; running requests keep the models that they started with.
    """
    server = Server(service, on_start=on_start)
    service.metrics.workers.set(1)
    reloading = threading.Lock()
    had_terminal = has_terminal()

    def reload() -> None:
        with reloading:
            service.keys, _ = reload_models(service.models, service.keys, service.metrics)

    def end(number: int, _: object) -> None:
        if server.should_exit:
            end_at_once(number)
        server.should_exit = True

    def hang_up(number: int, frame: object) -> None:
        if had_terminal and not has_terminal():
            end(number, frame)
        else:
            threading.Thread(target=reload, name="reload").start()  # not a daemon: exit waits for it

    handlers: dict[int, Any] = {HANGUP: hang_up} if HANGUP is not None else {}
    with handled(handlers | dict.fromkeys(ENDING, end)):
        server.run(sockets=[listening])


@contextmanager
def handled(handlers: Mapping[int, Any]) -> Iterator[None]:
    """Install these signal handlers within a block."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def has_terminal() -> bool:
    """Return whether a standard stream is an open terminal.

    Closing a terminal also sends SIGHUP; the service then exits instead of reloading.
    """
    return any(map(os.isatty, range(3)))


def end_at_once(number: int) -> NoReturn:
    """End this process with exit code 128 + the number of the signal, as shells do."""
    with suppress(OSError):
        os.write(2, b"ended at once; running requests were not finished\n")
    os._exit(128 + number)
