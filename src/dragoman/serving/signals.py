"""Signals of a service: SIGINT and SIGTERM end it, SIGHUP reloads models and keys."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a service: the first after the accepted requests, the second at once."""

HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""None on Windows."""


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
    """Return whether this process has an open terminal.

    Closing a terminal also sends SIGHUP; the service then exits instead of reloading.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


def end_at_once(number: int) -> NoReturn:
    """End this process with exit code 128 + the number of the signal, as shells do."""
    with suppress(OSError):
        os.write(2, b"ended at once; running requests were not finished\n")
    os._exit(128 + number)
