"""Error responses of the service."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pydantic import BaseModel
from starlette.responses import Response

from dragoman.errors import ConfigError, DataError, DragomanError, MissingExtraError, printable
from dragoman.serving.logs import log
from dragoman.serving.schemas import Problem


def one_line(message: str) -> str:
    """Return a message on one line, with control characters escaped; it may quote a request."""
    return printable(" ".join(message.split()))


def json_response(
    message: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a message as a JSON response, without the fields that were not set."""
    content = message.model_dump_json(exclude_unset=True)
    return Response(content, status, dict(headers or {}), "application/json")


def problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the JSON response to a failed request."""
    return json_response(Problem(error=one_line(message)), status, headers)


class HTTPError(Exception):
    """An error response: status, one-line message and extra headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, one_line(message), dict(headers or {})


def refusal_of(error: DragomanError) -> HTTPError:
    """Reply 400 for errors of the request, else 503; local paths are only in the log."""
    message = str(error)
    if isinstance(error, DataError | ConfigError):
        return HTTPError(400, message)
    if not isinstance(error, MissingExtraError):
        log("a request failed", {"why": one_line(message)}, level=logging.ERROR)
        message = "internal error of this service; see its log"
    return HTTPError(503, message)


def come_later(message: str, seconds: float) -> HTTPError:
    """Overloaded: reply 429 with `Retry-After: seconds`."""
    return HTTPError(429, message, {"Retry-After": str(max(1, round(seconds)))})


def too_much(what: str, n: int, limit: int, setting: str) -> HTTPError:
    """Request too large: reply 413 with the setting that limits it."""
    return HTTPError(
        413, f"{n:,} {what} are more than the {limit:,} that limits.{setting} allows; send less at a time"
    )
