"""What a request is refused with."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.responses import JSONResponse

from dragoman.errors import ConfigError, DataError, DragomanError, MissingExtraError, printable
from dragoman.serving.logs import log


def one_line(message: str) -> str:
    """A message without line ends, and without what a terminal would obey: it can quote a request."""
    return printable(" ".join(message.split()))


def problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer to a request that fails."""
    return JSONResponse({"error": one_line(message)}, status_code=status, headers=dict(headers or {}))


class RefusalError(Exception):
    """A request that gets no result: the status of the answer, the one line in it, and more headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, one_line(message), dict(headers or {})


def refusal_of(error: DragomanError) -> RefusalError:
    """400 for what a request did wrong, else 503. Paths of this machine stay in the log."""
    message = str(error)
    if isinstance(error, DataError | ConfigError):
        return RefusalError(400, message)
    if not isinstance(error, MissingExtraError):
        log("a request failed", {"why": one_line(message)}, level=logging.ERROR)
        message = "something is wrong with this service; its log says what"
    return RefusalError(503, message)


def come_later(message: str, seconds: float) -> RefusalError:
    """429: there is too much to do, but there will not be in so many `seconds`."""
    return RefusalError(429, message, {"Retry-After": str(max(1, round(seconds)))})


def too_much(what: str, n: int, limit: int, setting: str) -> RefusalError:
    """413: a request asks for more than the setting allows."""
    return RefusalError(
        413, f"{n:,} {what} are more than the {limit:,} that limits.{setting} allows; send less at a time"
    )
