"""What a service tells its operator: a log, one line a request without its text, and Prometheus metrics."""

from __future__ import annotations

import json
import logging
import mmap
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import chain
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

LOGGER = logging.getLogger("dragoman.serving")

SLOT_NUMBERS = 1 << 16
"""Numbers of 8 bytes for the metrics of a worker, about 3,000 values; allocated on demand."""

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def set_up(log_format: str) -> None:
    """Configure logging to stderr: "text" for people, or "json" with one object per line."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no line has them
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else LineFormatter())
    for name in ("dragoman.serving", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "dragoman.serving" else logging.WARNING)


class JsonFormatter(logging.Formatter):
    """Format a record as a JSON object: time, level, event and further fields."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=True)


class LineFormatter(logging.Formatter):
    """Format a record as a line: time, event and further fields."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " · ".join(f"{name} {_shown(value)}" for name, value in getattr(record, "facts", {}).items())
        line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()}"
        line += f" · {facts}" if facts else ""
        if record.exc_info:  # indented, so that no message in it can look like a line of the log
            traceback = self.formatException(record.exc_info)
            line += "".join(f"\n    {_shown(each)}" for each in traceback.split("\n"))
        return line


def _shown(value: Any) -> str:
    """Return `value` on one line, with control characters escaped."""
    return value.encode("unicode_escape").decode() if isinstance(value, str) else str(value)


def log(event: str, facts: Mapping[str, Any], *, level: int = logging.INFO, exc_info: bool = False) -> None:
    """Log an event with its fields."""
    LOGGER.log(level, event, exc_info=exc_info, extra={"facts": facts})


class Figures:
    """Metrics of several workers in shared memory. Create it before the workers are forked.

    A slot belongs to one live worker; its successor continues counting. prometheus_client's own files would
    kill the process when the disk is full (SIGBUS).
    """

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self._memory = mmap.mmap(-1, 8 * n_slots * SLOT_NUMBERS)
        self.numbers = memoryview(self._memory).cast("d")
        """Of each metric its value, the bytes of its name, and the name itself; 0 bytes: the rest is free."""

    def places(self, slot: int) -> tuple[dict[str, int], int]:
        """Return the places of the values in a slot by name, and the first free place."""
        places, place = {}, slot * SLOT_NUMBERS
        while size := int(self.numbers[place + 1]):
            places[self._memory[8 * place + 16 : 8 * place + 16 + size].decode()] = place
            place += 2 + -(-size // 8)
        return places, place

    def place_of(self, slot: int, name: str) -> int:
        """Return the place of a value in a slot; a new one is 0."""
        (places, free), content = self.places(slot), name.encode()
        if name in places:
            return places[name]
        assert free + len(content) // 8 + 4 < (slot + 1) * SLOT_NUMBERS, "too many figures"
        self._memory[8 * free + 16 : 8 * free + 16 + len(content)] = content
        self.numbers[free + 1] = len(content)  # now it is seen
        return free

    def forget(self, slot: int) -> None:
        """Reset the gauges of a worker that has died; its counters remain."""
        for name, place in self.places(slot)[0].items():
            if json.loads(name)[0] == "gauge":
                self.numbers[place] = 0.0

    def collect(self) -> Iterable[Metric]:
        """Sum the metrics of all workers: a collector for prometheus_client."""
        metrics: dict[str, Any] = {}
        for name, place in chain.from_iterable(self.places(slot)[0].items() for slot in range(self.n_slots)):
            kind, metric, sample, text, labels = json.loads(name)
            family = metrics.setdefault(metric, Metric(metric, text, kind))
            family._multiprocess_mode = "livesum"
            family.add_sample(sample, tuple(map(tuple, labels)), self.numbers[place])
        return MultiProcessCollector._accumulate_metrics(metrics, accumulate=True)  # type: ignore[no-untyped-call]

    def values_of(self, slot: int) -> type:
        """Return the `ValueClass` of prometheus_client for the worker in a slot."""
        figures, lock = self, Lock()

        class Value:
            _multiprocess = True

            def __init__(
                self, kind: str, metric: str, sample: str, names: Sequence[str], values: Sequence[str],
                text: str, **_: object,
            ) -> None:  # fmt: skip
                name = json.dumps([kind, metric, sample, text, sorted(zip(names, values, strict=True))])
                with lock:
                    self._place = figures.place_of(slot, name)

            def inc(self, amount: float) -> None:
                with lock:
                    figures.numbers[self._place] += amount

            def set(self, value: float, timestamp: float | None = None) -> None:
                figures.numbers[self._place] = value

            def get(self) -> float:
                return figures.numbers[self._place]

        return Value


class Metrics:
    """The metrics of a service."""

    def __init__(self, figures: Figures | None = None) -> None:
        """`figures` are the shared metrics, if there are several workers."""
        self._figures = figures
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"namespace": "dragoman", "registry": self.registry}
        self.requests = Counter("requests", "Requests answered.", ["route", "status"], **common)
        self.seconds = Histogram(
            "request_seconds", "From the head of a request to the end of its answer.", ["route"],
            buckets=SECONDS, **common,
        )  # fmt: skip
        self.characters = Counter("characters", "Characters taken in.", ["model"], **common)
        self.sentences = Counter("sentences", "Sentences and texts taken in.", ["model"], **common)
        self.batch_sizes = Histogram(
            "batch_size", "Items that were worked on together.", buckets=SIZES, **common
        )
        self.waiting = Gauge("waiting", "Items that no thread has begun.", **common)
        self.active = Gauge("active_requests", "Requests that are being worked on.", **common)
        self.workers = Gauge("workers", "Processes that answer requests.", **common)
        self.deaths = Counter("worker_deaths", "Workers that have died.", **common)
        self.reloads = Counter("reloads", "Times that models were loaded again.", ["outcome"], **common)

    def text(self) -> bytes:
        """Return all metrics of all workers in Prometheus format."""
        if self._figures is None:
            return bytes(generate_latest(self.registry))
        registry = CollectorRegistry()
        registry.register(self._figures)
        return bytes(generate_latest(registry))
