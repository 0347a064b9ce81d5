"""A service in one process."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import torch
import uvicorn

from dragoman.errors import ConfigError
from dragoman.hardware import prepare_for_translating, usable_cores
from dragoman.serving.app import create_app
from dragoman.serving.service import Service
from dragoman.serving.settings import ServeConfig


def check_address(host: str, *, has_keys: bool, forced: bool) -> None:
    """ConfigError: others than this machine can reach `host`, no key is asked of them, and nobody insists."""
    if is_local(host) or has_keys or forced:
        return
    raise ConfigError(
        f"--host {host}: whoever reaches this machine could use the service; give --keys (dragoman key NAME "
        "--file keys.toml makes one), or say --force-public if that is meant"
    )


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
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepare(config: ServeConfig, *, n_workers: int) -> int:
    """Readies this process for serving; batches that each of `n_workers` works on at once.

    Each is worked on by one thread, which has nobody to wait for.
    """
    prepare_for_translating()
    torch.set_num_threads(1)
    return config.batching.threads or max(1, usable_cores() // n_workers)


def run(service: Service, sockets: Sequence[socket.socket]) -> None:
    """Answers requests until the process is told to end; what was accepted is finished."""
    limits = service.config.limits
    config = uvicorn.Config(
        create_app(service),
        access_log=False,
        log_config=None,
        server_header=False,
        ws="none",
        proxy_headers=service.config.behind_proxy,
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(limits.file_seconds),
    )
    uvicorn.Server(config).run(sockets=list(sockets))
