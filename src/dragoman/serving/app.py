"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from os import PathLike, stat_result
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.formparsers import MultiPartParser
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Scope

from dragoman.serving import documents, libretranslate, operations, v1
from dragoman.serving.errors import ANSWERED, response_to
from dragoman.serving.gate import Gate
from dragoman.serving.openapi import PROBLEMS, describe
from dragoman.serving.routes import Direct
from dragoman.serving.service import Service

BETWEEN_SWEEPS = 60
"""Seconds."""

PAGE = Path(__file__).parent / "page"

DESCRIPTION = """\
Translations and classifications by models that were trained with Dragoman and run on this machine.

What fails is answered with `{"error": "…"}`: one line that says what is wrong, where, and what to do.
"""


def create_app(service: Service) -> FastAPI:
    """Create the application of `service`, which it closes at shutdown."""
    for name in ("spool_max_size", "max_file_size"):  # of later and earlier versions of Starlette
        setattr(MultiPartParser, name, sys.maxsize)  # uploads are bounded, and in memory: no disk is needed

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(service))
        yield
        sweeping.cancel()
        service.close()

    app = FastAPI(
        title="Dragoman", version=version("dragoman"), description=DESCRIPTION, lifespan=lifespan,
        docs_url=None, redoc_url=None,  # those pages would fetch from elsewhere
        redirect_slashes=False,  # a redirect would lead to whatever the header Host names
        generate_unique_id_function=lambda route: route.name,  # names the method in generated clients
    )  # fmt: skip
    app.state.service = service
    describe(app)
    for router in (v1.router, documents.router):
        app.include_router(router, tags=["dragoman"])
    app.include_router(libretranslate.router)
    app.include_router(operations.router, responses={503: PROBLEMS[503]})
    if service.config.page:
        _add_page(app)
    for kind in ANSWERED:
        app.add_exception_handler(kind, lambda _, error: response_to(error))
    app.add_middleware(Direct, routes=[*v1.router.routes, *libretranslate.router.routes])
    if service.config.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=service.config.cors_origins, allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key", "X-Request-ID"],
            expose_headers=["X-Request-ID", "Retry-After", "Content-Disposition"],
        )  # fmt: skip
    app.add_middleware(Gate, service=service)  # around all others
    return app


async def _sweep(service: Service) -> None:
    """Delete expired downloads periodically."""
    while True:
        await asyncio.sleep(BETWEEN_SWEEPS)
        await asyncio.to_thread(service.downloads.sweep)


class PageFiles(StaticFiles):
    """Static files of the page, revalidated on every request, so that old and new files never mix."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/page", PageFiles(directory=PAGE), name="page")
