"""Monitoring: Prometheus metrics, health check and readiness check."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from dragoman.serving.errors import HTTPError
from dragoman.serving.openapi import PROBLEMS

if TYPE_CHECKING:
    from dragoman.serving.service import Service

SLOT_BYTES = 1 << 19
"""For the figures of a worker: some 3,000 of them. Memory is taken as it is needed."""

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

router = APIRouter(tags=["operations"])


class Figures:
    """Figures of several workers, in memory that they share. Make it before they are forked.

    A slot is for one living worker; who has it next goes on counting where the last one stopped. In the files
    that prometheus_client would use, writing to a full disk kills the process (SIGBUS).
    """

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self._memory = mmap.mmap(-1, n_slots * SLOT_BYTES)

    def records(self, slot: int) -> Iterator[tuple[int, str, float]]:
        """Place, name and value of each figure in a slot. A place holds the value, then the name."""
        place = slot * SLOT_BYTES + 8
        (used,) = struct.unpack_from("q", self._memory, place - 8)
        end = place + used
        while place < end:
            value, size = struct.unpack_from("dq", self._memory, place)
            yield place, self._memory[place + 16 : place + 16 + size].decode(), value
            place += 16 + size + -size % 8

    def add(self, slot: int, name: str) -> int:
        """The place of a new figure, which is 0."""
        start, content = slot * SLOT_BYTES, name.encode()
        (used,) = struct.unpack_from("q", self._memory, start)
        place = start + 8 + used
        content = struct.pack("dq", 0.0, len(content)) + content + bytes(-len(content) % 8)
        assert place + len(content) <= start + SLOT_BYTES, "too many figures"
        self._memory[place : place + len(content)] = content
        self._memory[start : start + 8] = struct.pack("q", used + len(content))  # now it is seen
        return place

    def write(self, place: int, value: float) -> None:
        self._memory[place : place + 8] = struct.pack("d", value)

    def forget(self, slot: int) -> None:
        """The worker has died: what it was doing is over; what it counted remains."""
        for place, name, _ in self.records(slot):
            if json.loads(name)[0] == "gauge":
                self.write(place, 0.0)

    def collect(self) -> Iterable[Metric]:
        """All figures, added up: a collector of prometheus_client's."""
        metrics: dict[str, Any] = {}
        for slot in range(self.n_slots):
            for _, name, value in self.records(slot):
                kind, metric, sample, text, labels = json.loads(name)
                found = metrics.setdefault(metric, Metric(metric, text, kind))
                found._multiprocess_mode = "livesum"
                found.add_sample(sample, tuple(map(tuple, labels)), value)
        return MultiProcessCollector._accumulate_metrics(metrics, accumulate=True)  # type: ignore[no-untyped-call]

    def values_of(self, slot: int) -> type:
        """What prometheus_client keeps a value in, for the worker that has the slot: a `ValueClass`."""
        figures, lock = self, Lock()
        places = {name: (place, value) for place, name, value in self.records(slot)}

        class Value:
            _multiprocess = True

            def __init__(
                self, kind: str, metric: str, sample: str, names: Sequence[str], values: Sequence[str],
                text: str, **_: object,
            ) -> None:  # fmt: skip
                name = json.dumps([kind, metric, sample, text, sorted(zip(names, values, strict=True))])
                with lock:
                    self._place, self._value = places.get(name) or (figures.add(slot, name), 0.0)

            def inc(self, amount: float) -> None:
                with lock:
                    self._value += amount
                    figures.write(self._place, self._value)

            def set(self, value: float, timestamp: float | None = None) -> None:
                with lock:
                    self._value = value
                    figures.write(self._place, value)

            def get(self) -> float:
                return self._value

        return Value


class Metrics:
    """What is counted."""

    def __init__(self, figures: Figures | None = None) -> None:
        """`figures` are those of all workers, if there are several."""
        self._figures = figures
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
        self.waiting = Gauge("dragoman_waiting", "Items that no thread has begun.", registry=registry)
        self.active = Gauge(
            "dragoman_active_requests", "Requests that are being worked on.", registry=registry
        )

    def text(self) -> bytes:
        """All figures, of all workers, as Prometheus reads them."""
        if self._figures is None:
            return bytes(generate_latest(self.registry))
        registry = CollectorRegistry()
        registry.register(self._figures)
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
async def health(request: Request) -> dict[str, str]:
    """Whether the process answers, and what it computes gets on; else 503."""
    service: Service = request.app.state.service
    if service.is_hung:
        raise HTTPError(503, "a computation makes no progress; start the service again")
    return {"status": "ok"}


@router.get("/ready")
async def ready(request: Request) -> dict[str, str]:
    """Readiness check: 503 during shutdown.

    The listening socket is closed by then, so 503 is sent to open keep-alive connections only.
    """
    if request.app.state.service.closing:
        raise HTTPError(503, "the service is coming to its end; send the request to another one")
    return {"status": "ready"}
