"""Routes that take what is posted to them, without FastAPI, which only describes them in /openapi.json.

Its layers round a route cost more than all else of a short request (docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import cache
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.serving.errors import ANSWERED, response_to
from dragoman.serving.service import service_of


class DirectRoute(APIRoute):
    """A route whose function, if it is for POST, takes the request and nothing else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.answer if self.is_direct else super().get_route_handler()

    @property
    def is_direct(self) -> bool:
        return "POST" in (self.methods or ())

    async def answer(self, request: Request) -> Response:
        """Return the response to a request. Errors: `ANSWERED`."""
        response: Response = await self.endpoint(request)
        return response


class MessageRoute(DirectRoute):
    """A route whose function, if it is for POST, also takes a message; its sender is admitted first."""

    async def answer(self, request: Request) -> Response:
        service_of(request).admit(request)
        message = _message(_kind_of(self.endpoint), await request.body(), request)
        response: Response = await self.endpoint(request, message)
        return response


class Direct:
    """ASGI middleware that answers such of `routes` as are direct."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        direct = [route for route in routes if isinstance(route, DirectRoute) and route.is_direct]
        self._routes = {route.path: route for route in direct}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        route = self._routes.get(scope["path"]) if is_post else None
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route  # for the log and the metrics
        try:
            response = await route.answer(Request(scope, receive, send))
        except ANSWERED as error:
            response = response_to(error)
        await response(scope, receive, send)


@cache
def _kind_of(endpoint: Callable[..., Any]) -> type[BaseModel]:
    """Return the type of the message that the function of a route takes."""
    kind: type[BaseModel] = get_type_hints(endpoint)["asked"]
    return kind


def _message(kind: type[BaseModel], body: bytes, request: Request) -> BaseModel:
    """Return the message in the body of `request`. RequestValidationError: the body is not one."""
    try:
        return kind.model_validate_json(body if is_json(request) else b"null")
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise RequestValidationError(
            [{**each, "loc": ("body", *each["loc"])} for each in problems]
        ) from error


def kind_of(request: Request) -> str:
    """Return the Content-Type of `request`, without parameters."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def is_json(request: Request) -> bool:
    """Return whether the Content-Type of `request` says that its body is JSON."""
    kind = kind_of(request)
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
