"""Error responses of the service."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dragoman.errors import ConfigError, DataError, DragomanError, MissingExtraError, printable
from dragoman.serving.batching import CostlyError, GoneError, LeftError
from dragoman.serving.monitoring import log
from dragoman.serving.schemas import Problem

PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request is wrong, or asks for what is not there."},
    401: {"model": Problem, "description": "A key is needed."},
    403: {"model": Problem, "description": "The key is unknown, or a page of another origin asks."},
    408: {"model": Problem, "description": "The body came too slowly."},
    413: {"model": Problem, "description": "The request asks for more than a limit allows."},
    421: {"model": Problem, "description": "The service is not called by this name."},
    429: {"model": Problem, "description": "Too many requests; Retry-After says when to retry."},
    503: {"model": Problem, "description": "The service is coming to its end, or lacks something."},
    504: {"model": Problem, "description": "The request took longer than a limit allows."},
    507: {"model": Problem, "description": "There is no space for a translated file."},
}
"""Error responses common to all routes."""

MAX_PROBLEMS = 5
"""Maximum validation errors named in a message."""


def one_line(message: str) -> str:
    """Return a message on one line, with control characters escaped; it may quote a request."""
    return printable(" ".join(message.split()))


def json_response(answer: BaseModel | Sequence[BaseModel]) -> Response:
    """Return a message, without the fields that were not set, or several messages as a JSON response."""
    content = answer.model_dump_json(exclude_unset=True) if isinstance(answer, BaseModel) else to_json(answer)
    return Response(content, media_type="application/json")


def problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the JSON response to a failed request."""
    return Response(Problem(error=one_line(message)).model_dump_json(), status, headers, "application/json")


class HTTPError(HTTPException):
    """An error response: status, one-line message and extra headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, one_line(message), headers)


def refusal_of(error: DragomanError) -> HTTPError:
    """Reply 400 or 413 for errors of the request, else 503; local paths are only in the log."""
    message = str(error)
    if isinstance(error, DataError | ConfigError):
        return HTTPError(413 if isinstance(error, CostlyError) else 400, message)
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


LEFT = 499
"""Status in the log of a request whose client disconnected before the response."""

ANSWERED = (HTTPException, DragomanError, RequestValidationError, GoneError)
"""The errors of routes that are answered; others are bugs."""


async def response_to(_: Request, error: Exception) -> Response:
    """Return the response to an error of `ANSWERED`: `{"error": "…"}`, without a traceback."""
    if isinstance(error, DragomanError):
        error = refusal_of(error)
    if isinstance(error, HTTPException):
        return problem(error.status_code, error.detail, error.headers)
    if isinstance(error, RequestValidationError):
        return problem(400, described(error))
    if isinstance(error, LeftError):
        return problem(LEFT, "the client has disconnected")
    return problem(503, "the service is coming to its end; send the request again")


def described(error: RequestValidationError) -> str:
    """Describe the validation errors of a request in one line."""
    problems = []
    for each in error.errors()[:MAX_PROBLEMS]:
        parts = map(str, each["loc"][1:])
        place = ".".join(part for part in parts if part.isidentifier() or part.isdecimal())
        place = place.removesuffix(".str")  # what pydantic calls a text among other types
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "json_invalid":
            problems.append(f"the body is no JSON: {each['ctx']['error']}")
        elif not place and each["type"] == "model_type":
            problems.append("the body is no JSON object; send one, with Content-Type: application/json")
        elif each["type"] == "extra_forbidden":
            problems.append(f"{place}: is no field of this request; /openapi.json has them all")
        else:
            problems.append(f"{place}: {message[:1].lower()}{message[1:]}")
    return "; ".join(problems).encode("utf-8", "replace").decode()
