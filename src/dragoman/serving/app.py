"""The service as an ASGI application."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.formparsers import MultiPartParser
from starlette.middleware.cors import CORSMiddleware

from dragoman.serving import libretranslate, v1
from dragoman.serving.errors import ANSWERED, PROBLEMS, HTTPError, response_to
from dragoman.serving.gate import Gate
from dragoman.serving.service import Service, service_of

PAGE = Path(__file__).parent / "page"

DESCRIPTION = """\
Translations and classifications by models that were trained with Dragoman and run on this machine.

What fails is answered with `{"error": "…"}`: one line that says what is wrong, where, and what to do.
"""

SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key, where the service has any."},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same."},
}
"""Authentication schemes."""

operations = APIRouter(
    tags=["operations"], responses={503: PROBLEMS[503]}, generate_unique_id_function=attrgetter("name")
)
"""Monitoring routes: Prometheus metrics, health check and readiness check."""


def create_app(service: Service) -> FastAPI:
    """Create the application of `service`, which it closes at shutdown."""
    for name in ("spool_max_size", "max_file_size"):  # of later and earlier versions of Starlette
        setattr(MultiPartParser, name, sys.maxsize)  # uploads are bounded, and in memory: no disk is needed

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    routers = (v1.router, libretranslate.router, operations)
    routes = [route for router in routers for route in router.routes]
    app = Application(
        title="Dragoman", version=version("dragoman"), description=DESCRIPTION, lifespan=lifespan,
        docs_url=None, redoc_url=None,  # those pages would fetch from elsewhere
        redirect_slashes=False,  # a redirect would lead to whatever the header Host names
        routes=routes,  # an included router would look for each route twice
    )  # fmt: skip
    app.state.service = service
    if service.config.page:

        @app.get("/", include_in_schema=False)
        def page() -> Response:
            return FileResponse(PAGE / "index.html")

        app.mount("/page", StaticFiles(directory=PAGE), name="page")
    for kind in ANSWERED:
        app.add_exception_handler(kind, response_to)
    if service.config.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=service.config.cors_origins, allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key", "X-Request-ID"],
            expose_headers=["X-Request-ID", "Retry-After", "Content-Disposition"],
        )  # fmt: skip
    paths = {getattr(route, "path", "") for route in routes}
    app.add_middleware(Gate, service=service, paths=paths)  # around all others
    return app


class Application(FastAPI):
    """FastAPI, whose OpenAPI schema lists the messages of `v1.endpoint`, but no status 422, never sent."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            schema = super().openapi()
            components = schema["components"]["schemas"]
            for operation in (each for path in schema["paths"].values() for each in path.values()):
                operation["responses"].pop("422", None)
                if "401" in operation["responses"]:
                    operation["security"] = [{}, *({name: []} for name in SECURITY)]
                content = operation.get("requestBody", {}).get("content", {})
                if tuple(content) == v1.JSON:
                    (media,) = content.values()
                    message = media["schema"]
                    components |= message.pop("$defs", {}) | {message["title"]: message}
                    media["schema"] = {"$ref": v1.REFERENCE.format(model=message["title"])}
            for name in ("HTTPValidationError", "ValidationError"):
                components.pop(name, None)
            schema["components"]["securitySchemes"] = SECURITY
        return super().openapi()


@operations.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **{status: PROBLEMS[status] for status in (401, 403)}},
)
def metrics(request: Request) -> Response:
    """Metrics in Prometheus format. Needs a key if the service has keys."""
    service = service_of(request)
    service.admit(request, counted=False)
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@operations.get("/health")
async def health(request: Request) -> dict[str, str]:
    """Health check: 503 if the computation makes no progress."""
    if service_of(request).is_hung:
        raise HTTPError(503, "a computation makes no progress; start the service again")
    return {"status": "ok"}


@operations.get("/ready")
async def ready(request: Request) -> dict[str, str]:
    """Readiness check: 503 during shutdown.

    The listening socket is closed by then, so 503 is sent to open keep-alive connections only.
    """
    if service_of(request).closing:
        raise HTTPError(503, "the service is coming to its end; send the request to another one")
    return {"status": "ready"}
