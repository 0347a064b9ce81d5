"""How a service fares: figures for Prometheus, and whether it is alive and ready."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from dragoman.serving.openapi import PROBLEMS
from dragoman.serving.refusals import RefusalError

if TYPE_CHECKING:
    from dragoman.serving.service import Service

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which the workers of a service keep their figures."""

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

router = APIRouter(tags=["operations"])


class Metrics:
    """What is counted."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "dragoman_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "dragoman_request_seconds", "From the head of a request to the end of its answer.", ["route"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.characters = Counter("dragoman_characters", "Characters taken in.", ["model"], registry=registry)
        self.sentences = Counter(
            "dragoman_sentences", "Sentences and texts taken in.", ["model"], registry=registry
        )
        self.batch_sizes = Histogram(
            "dragoman_batch_size", "Items that were worked on together.", buckets=SIZES, registry=registry
        )
        self.waiting = Gauge(
            "dragoman_waiting", "Items that no thread has begun.",
            multiprocess_mode="livesum", registry=registry,
        )  # fmt: skip
        self.active = Gauge(
            "dragoman_active_requests", "Requests that are being worked on.",
            multiprocess_mode="livesum", registry=registry,
        )  # fmt: skip

    def text(self) -> bytes:
        """All figures, of all workers, as Prometheus reads them."""
        if MULTIPROCESS not in os.environ:
            return bytes(generate_latest(self.registry))
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return bytes(generate_latest(registry))


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **{status: PROBLEMS[status] for status in (401, 403)}},
)
def metrics(request: Request) -> Response:
    """Figures for Prometheus. Where the service has keys, one is needed."""
    service: Service = request.app.state.service
    service.admit(request, counted=False)
    service.metrics.waiting.set(service.batcher.n_waiting)
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/health")
async def health() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "ok"}


@router.get("/ready")
async def ready(request: Request) -> dict[str, str]:
    """Whether new requests are taken: 503 while the service comes to its end.

    By then it listens no more: only who keeps a connection hears this, others are not let in.
    """
    if request.app.state.service.closing:
        raise RefusalError(503, "the service is coming to its end; send the request to another one")
    return {"status": "ready"}
