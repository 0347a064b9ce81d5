"""Routes that take what is posted to them, without FastAPI, which only describes them in /openapi.json.

Its layers round a route cost more than all else of a short request (docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import get_type_hints

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

    async def answer(self, request: Request) -> Response:
        """Return the response to a request. Errors: `ANSWERED`."""
        return await self.endpoint(request)


class MessageRoute(DirectRoute):
    """A route whose function, if it is for POST, also takes a message; its sender is admitted first."""

    @cached_property
    def kind(self) -> type[BaseModel]:
        """The type of the message that its function takes."""
        return get_type_hints(self.endpoint)["asked"]

    async def answer(self, request: Request) -> Response:
        service_of(request).admit(request)
        body = await request.body() if is_json(request) else b"null"
        try:
            message = self.kind.model_validate_json(body)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            raise RequestValidationError(
                [{**each, "loc": ("body", *each["loc"])} for each in problems]
            ) from error
        return await self.endpoint(request, message)


class Direct:
    """ASGI middleware that answers such of `routes` as are direct and for POST."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        direct = [route for route in routes if isinstance(route, DirectRoute)]
        self._routes = {route.path: route for route in direct if "POST" in (route.methods or ())}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get(scope["path"]) if scope.get("method") == "POST" else None
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route  # for the log and the metrics
        try:
            response = await route.answer(Request(scope, receive, send))
        except ANSWERED as error:
            response = response_to(error)
        await response(scope, receive, send)


def is_json(request: Request) -> bool:
    """Return whether the Content-Type of `request` says that its body is JSON."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
