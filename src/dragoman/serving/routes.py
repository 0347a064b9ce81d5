"""Routes whose body is one message in JSON."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from dragoman.serving.service import service_of


class JsonRoute(APIRoute):
    """A route that admits the sender, reads one message and passes it to its function.

    FastAPI's own handler, which resolves dependencies, costs more than all else of a short request
    (docs/decisions.md); it stays for routes without a message, and describes all of them in /openapi.json.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer, types = self.endpoint, get_type_hints(self.endpoint).values()
        messages = [each for each in types if isinstance(each, type) and issubclass(each, BaseModel)]
        if not messages:
            return super().get_route_handler()
        (message,) = messages

        async def handle(request: Request) -> Response:
            service_of(request).admit(request)
            response: Response = await answer(request, _read(message, await request.body(), request))
            return response

        return handle


def _read(message: type[BaseModel], body: bytes, request: Request) -> BaseModel:
    """Return the message in the body of `request`. RequestValidationError: there is none."""
    try:
        if is_json(request):
            return message.model_validate_json(body)
        message.model_validate(None)  # the error says so
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in problems]) from None
    raise AssertionError("a message is never None")


def is_json(request: Request) -> bool:
    """Return whether the Content-Type of `request` says that its body is JSON."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
