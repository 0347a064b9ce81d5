"""The OpenAPI schema: /openapi.json."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

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

SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key, where the service has any."},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same."},
}
"""Authentication schemes."""


def describe(app: FastAPI) -> None:
    """Set the OpenAPI schema of `app`: FastAPI's, without status 422, which this service never returns."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            for path in found["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
                    if "401" in operation["responses"]:
                        operation["security"] = [{}, *({name: []} for name in SECURITY)]
            found["components"]["securitySchemes"] = SECURITY
            for name in ("HTTPValidationError", "ValidationError"):
                found["components"]["schemas"].pop(name, None)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend it
