"""What a request is refused with."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse


def problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer to a request that fails."""
    return JSONResponse({"error": message}, status_code=status, headers=dict(headers or {}))


class RefusalError(Exception):
    """A request that gets no result: the status of the answer, the one line in it, and more headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def come_later(message: str, seconds: float) -> RefusalError:
    """429: there is too much to do, but there will not be in so many `seconds`."""
    return RefusalError(429, message, {"Retry-After": str(max(1, round(seconds)))})


def too_much(what: str, n: int, limit: int, setting: str) -> RefusalError:
    """413: a request asks for more than the setting allows."""
    return RefusalError(
        413, f"{n:,} {what} are more than the {limit:,} that limits.{setting} allows; send less at a time"
    )
