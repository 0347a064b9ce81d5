"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from os import PathLike, stat_result
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Scope

from dragoman.errors import DragomanError
from dragoman.serving import documents, libretranslate, operations, v1
from dragoman.serving.batching import GoneError
from dragoman.serving.errors import HTTPError, problem, refusal_of
from dragoman.serving.gate import Gate
from dragoman.serving.openapi import PROBLEMS, describe, operation_id
from dragoman.serving.service import Service

MAX_PROBLEMS = 5
"""Maximum validation errors named in a message."""

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
        generate_unique_id_function=operation_id,
    )  # fmt: skip
    app.state.service = service
    describe(app)
    for router in (v1.router, documents.router):
        app.include_router(router, tags=["dragoman"])
    app.include_router(libretranslate.router)
    app.include_router(operations.router, responses={503: PROBLEMS[503]})
    if service.config.page:
        _add_page(app)
    _add_handlers(app)
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


def _add_handlers(app: FastAPI) -> None:
    """Register exception handlers, which reply `{"error": "…"}` without a traceback."""

    @app.exception_handler(HTTPError)
    def refused(_: Request, error: HTTPError) -> Response:
        return problem(error.status, error.message, error.headers)

    @app.exception_handler(DragomanError)
    def dragoman_error(request: Request, error: DragomanError) -> Response:
        return refused(request, refusal_of(error))

    @app.exception_handler(RequestValidationError)
    def not_valid(_: Request, error: RequestValidationError) -> Response:
        return problem(400, described(error))

    @app.exception_handler(HTTPException)
    def http_error(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, str(error.detail), error.headers or {})

    @app.exception_handler(GoneError)
    def gone(_: Request, error: GoneError) -> Response:
        return problem(503, "the service is coming to its end; send the request again")


def described(error: RequestValidationError) -> str:
    """Describe the validation errors of a request in one line."""
    found = []
    for each in error.errors()[:MAX_PROBLEMS]:
        parts = map(str, each["loc"][1:])
        place = ".".join(part for part in parts if part.isidentifier() or part.isdecimal())
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "json_invalid":
            found.append(f"the body is no JSON: {each['ctx']['error']}")
        elif not place and each["type"] == "model_type":
            found.append("the body is no JSON object; send one, with Content-Type: application/json")
        elif each["type"] == "extra_forbidden":
            found.append(f"{place}: is no field of this request; /openapi.json has them all")
        else:
            found.append(f"{place}: {message[:1].lower()}{message[1:]}")
    return "; ".join(found).encode("utf-8", "replace").decode()
