"""Signals to a service: SIGINT and SIGTERM end it, SIGHUP makes it load its models anew."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Those that end a service: the first when it has finished what it accepted, the second at once."""

HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""There is none on Windows."""


@contextmanager
def handled(handlers: Mapping[int, Any]) -> Iterator[None]:
    """Within it, these functions handle these signals."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def has_terminal() -> bool:
    """Whether this process has a terminal that is still there.

    A terminal that is closed sends SIGHUP, too: then nobody sees the service any more, and it is to end.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


def end_at_once(number: int) -> NoReturn:
    """Ends this process with 128 + the number of the signal, as shells have it."""
    with suppress(OSError):
        os.write(2, b"ended at once; what was being worked on is not finished\n")
    os._exit(128 + number)
