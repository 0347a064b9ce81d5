"""Where the work of a request runs: short ones between other events, others in threads."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("fastapi")

from fastapi import Request
from starlette.types import Message

from dragoman.predict.flow import ComputeStep, Flow
from dragoman.serving.batching import Client, LeftError
from dragoman.serving.errors import HTTPError, response_to
from dragoman.serving.service import BRIEF, Service
from services import service_of
from waiting import LONGEST

Result = TypeVar("Result")


@pytest.fixture
def service(tiny_run: Path) -> Iterator[Service]:
    made = service_of([tiny_run], n_threads=2)
    yield made
    made.close()


def request_of(n_bytes: int | None, *, left: asyncio.Event | None = None) -> Request:
    """A request with a body of `n_bytes`, None: it does not say; its client leaves when `left`."""

    async def receive() -> Message:
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    headers = [] if n_bytes is None else [(b"content-length", str(n_bytes).encode())]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, LONGEST))


def add(_: Client) -> Flow[tuple[int, list[int]]]:
    """Two rounds of results, and the thread that asked for them."""
    once = yield ComputeStep(lambda items: [item + 1 for item in items], [1, 2], [1, 1])
    twice = yield ComputeStep(lambda items: [10 * item for item in items], once, [1, 1])
    return threading.get_ident(), twice


@pytest.mark.parametrize("n_bytes", [1, BRIEF, BRIEF + 1, None])
@pytest.mark.parametrize("is_document", [False, True])
def test_short_work_runs_in_the_thread_of_the_events(
    service: Service, n_bytes: int | None, is_document: bool
) -> None:
    thread, results = run(service.run(request_of(n_bytes), add, is_document=is_document))
    assert (thread == threading.get_ident()) == (n_bytes in (1, BRIEF) and not is_document)
    assert results == [20, 30]


@pytest.mark.parametrize(
    ("leaves", "error", "status"),
    [(True, LeftError, 499), (False, HTTPError, 504)],  # one who has left is no fault of the service
    ids=["the client leaves", "the time is up"],
)
def test_short_work_is_ended_with_its_request(
    service: Service, leaves: bool, error: type[Exception], status: int
) -> None:
    limits = service.config.limits.model_copy(update={"seconds": 600 if leaves else 0.5})
    service.config = service.config.model_copy(update={"limits": limits})
    seen: list[str] = []
    over = threading.Event()

    def go_on(client: Client) -> list[str]:
        while not over.wait(0.01):
            client.go_on()
        return ["too late"]

    def work(client: Client) -> Flow[None]:
        try:
            yield ComputeStep(lambda _: go_on(client), [None], [1])
            seen.append("finished")
        finally:
            seen.append("gone")

    async def ask() -> None:
        left = asyncio.Event()
        asking = asyncio.ensure_future(service.run(request_of(10, left=left), work))
        await asyncio.sleep(0.05)
        if leaves:
            left.set()
        with pytest.raises(error) as ended:
            await asking
        assert leaves or "limits.seconds" in str(ended.value)
        assert (await response_to(request_of(10, left=left), ended.value)).status_code == status
        while service.is_working:
            await asyncio.sleep(0.01)

    try:
        run(ask())
    finally:
        over.set()
    assert seen == ["gone"]
