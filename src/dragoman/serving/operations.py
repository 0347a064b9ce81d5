"""Monitoring routes: Prometheus metrics, health check and readiness check."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from dragoman.serving.errors import HTTPError
from dragoman.serving.openapi import PROBLEMS
from dragoman.serving.service import service_of

router = APIRouter(tags=["operations"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **{status: PROBLEMS[status] for status in (401, 403)}},
)
def metrics(request: Request) -> Response:
    """Metrics in Prometheus format. Needs a key if the service has keys."""
    service = service_of(request)
    service.admit(request, counted=False)
    service.metrics.waiting.set(service.batcher.n_waiting)
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/health")
async def health(request: Request) -> dict[str, str]:
    """Health check: 503 if the computation makes no progress."""
    if service_of(request).is_hung:
        raise HTTPError(503, "a computation makes no progress; start the service again")
    return {"status": "ok"}


@router.get("/ready")
async def ready(request: Request) -> dict[str, str]:
    """Readiness check: 503 during shutdown.

    The listening socket is closed by then, so 503 is sent to open keep-alive connections only.
    """
    if service_of(request).closing:
        raise HTTPError(503, "the service is coming to its end; send the request to another one")
    return {"status": "ready"}
