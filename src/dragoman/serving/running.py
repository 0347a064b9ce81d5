"""A service in one process: where it listens, and how signals end it or make it load its models anew."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import uvicorn

from dragoman.errors import ConfigError, DragomanError
from dragoman.hardware import (
    choose_device,
    prepare_for_translating,
    release_freed_memory,
    resident_memory,
    usable_cores,
)
from dragoman.serving.access import Keys
from dragoman.serving.app import create_app
from dragoman.serving.connections import KEPT_SECONDS, Connection
from dragoman.serving.logs import log
from dragoman.serving.models import Models
from dragoman.serving.service import Service
from dragoman.serving.settings import ServeConfig
from dragoman.serving.signals import ENDING, HANGUP, end_at_once, handled, has_terminal

LoadKeys = Callable[[], Keys | None]
"""Reads the file of keys, where there is one."""

MUCH = 64 << 20
"""Bytes by which a process may grow; then it gives back what it does not use, once it has nothing to do."""

MORE_FILES = 64
"""Files that a process has open besides its connections, at most."""


def check_address(host: str, *, has_keys: bool, forced: bool) -> None:
    """ConfigError: others than this machine can reach `host`, no key is asked of them, and nobody insists."""
    if is_local(host) or has_keys or forced:
        return
    raise ConfigError(
        f"--host {host}: whoever reaches this machine could use the service; give --keys (dragoman key add "
        "NAME --file keys.toml makes one), or say --force-public if that is meant"
    )


LOCAL_NAMES = ["localhost", "127.0.0.1", "[::1]"]
"""What this machine is to itself, as browsers write it."""


def is_local(host: str) -> bool:
    """Whether `host` is this machine as it is to itself alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. ConfigError: it cannot, as where another service does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere it would take the port from another service
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise ConfigError(
            f"--host {host} --port {port}: cannot be listened on ({error.strerror or error}); "
            "take another --port"
        ) from None
    found.listen(2048)
    found.set_inheritable(True)
    return found


def url_of(listening: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (compared, not bound)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepare(config: ServeConfig, *, n_workers: int, device: str) -> int:
    """Readies this process for serving; batches that each of `n_workers` works on at once.

    Each is worked on by one thread, which has nobody to wait for. A GPU is shared by nobody: a search there
    writes into tensors that the next one uses again (`dragoman.model.static`).
    """
    prepare_for_translating()
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not survive a fork
    _allow_files(2 * config.limits.connections + MORE_FILES)
    if choose_device(device).type != "cpu":
        return 1
    return config.batching.threads or max(1, usable_cores() // n_workers)


def _allow_files(n: int) -> None:
    """Asks for the right to have so many files open; each connection is one."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n if hard == resource.RLIM_INFINITY else min(n, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def load_anew(
    models: Models, load_keys: LoadKeys, present: Keys | None, use: Callable[[Keys | None], None]
) -> None:
    """Load keys and models again and have them used, or log why not; the old ones stay in use then.

    New keys do not wait for models: a key that is revoked is refused, even if a model cannot be loaded.
    """
    keys, is_loaded = present, False
    try:
        keys = load_keys()
        models.reload()
        is_loaded = True
    except (DragomanError, OSError) as error:
        why = " ".join(str(error).split())
        log("not loaded anew; the old models go on", {"why": why}, level=logging.ERROR)
    except Exception:  # a bug, or no memory: what works goes on
        log("not loaded anew; the old models go on", {}, level=logging.ERROR, exc_info=True)
    if is_loaded or keys != present:
        use(keys)
        served = ", ".join(model.info.name for model in models.served)
        log("loaded anew", {"models": served} if is_loaded else {"keys": "all"})


class Server(uvicorn.Server):
    """A server that is told to end by whoever runs it, and tells its service."""

    def __init__(self, service: Service, *, on_start: Callable[[], None] = lambda: None) -> None:
        """`on_start` is called once it answers."""
        limits = service.config.limits
        make: Any = partial(Connection, service=service)
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=make,
                access_log=False,
                log_config=None,
                server_header=False,
                ws="none",
                proxy_headers=service.config.behind_proxy,
                timeout_keep_alive=KEPT_SECONDS,
                timeout_graceful_shutdown=int(limits.file_seconds) + 1,
            )
        )
        self.service, self._on_start = service, on_start
        self._settled = resident_memory()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_start()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # a second
            self.service.metrics.waiting.set(self.service.batcher.n_waiting)
            if not self.service.is_working and resident_memory() > self._settled + MUCH:
                await asyncio.to_thread(release_freed_memory)
                self._settled = resident_memory()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.closing = True
        await super().shutdown(sockets)


def run(
    service: Service,
    listening: socket.socket,
    *,
    load_keys: LoadKeys,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Answers requests until SIGTERM or SIGINT; what was accepted is finished.

    A second one ends the process at once, with 128 + its number. At SIGHUP models and keys are loaded anew,
    while the present ones answer; requests that have begun end with those they began with.
    """
    server = Server(service, on_start=on_start)
    reloading = threading.Lock()
    had_terminal = has_terminal()

    def use(keys: Keys | None) -> None:
        service.keys = keys

    def reload() -> None:
        with reloading:
            load_anew(service.models, load_keys, service.keys, use)

    def end(number: int, _: object) -> None:
        if server.should_exit:
            end_at_once(number)
        server.should_exit = True

    def hang_up(number: int, frame: object) -> None:
        if had_terminal and not has_terminal():
            end(number, frame)
        else:
            threading.Thread(target=reload, name="reload").start()  # whose end is waited for

    handlers: dict[int, Any] = dict.fromkeys(ENDING, end)
    if HANGUP is not None:
        handlers[HANGUP] = hang_up
    with handled(handlers):
        server.run(sockets=[listening])
