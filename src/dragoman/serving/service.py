"""The state that all routes share: models, API keys, limits, and the execution of requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from anyio import CapacityLimiter
from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic_core import to_json
from starlette.datastructures import Headers

from dragoman.errors import DataError, DragomanError
from dragoman.predict.flow import Flow
from dragoman.serving.access import Keys, Rates, User
from dragoman.serving.batching import Batcher, Client, GoneError, LeftError
from dragoman.serving.downloads import Downloads
from dragoman.serving.errors import HTTPError, come_later, refusal_of, too_much
from dragoman.serving.models import Models
from dragoman.serving.monitoring import Figures, Metrics
from dragoman.serving.settings import ServeConfig

Result = TypeVar("Result")
Tell: TypeAlias = Callable[[str, Any], None]
"""Send an event of a stream: its name, and data that JSON can hold."""

SENTENCES_A_SECOND = 50
"""Assumed speed, for estimates of waiting time."""

WRONG_KEYS = 60
"""Wrong keys per minute and address before the reply is 429. Valid keys are still accepted."""

TURN_SECONDS = 0.1
"""Interval in seconds at which a waiting document checks whether its client is still connected."""

BRIEF = 2000
"""Bytes of a request whose texts are read and written between other events, not in a thread."""


class Service:
    """Models, keys, limits and threads of a running service."""

    def __init__(
        self,
        models: Models,
        config: ServeConfig,
        *,
        keys: Keys | None = None,
        rates: Rates | None = None,
        downloads: Downloads | None = None,
        figures: Figures | None = None,
        n_threads: int = 1,
    ) -> None:
        """Start `n_threads` compute threads; `close` ends them."""
        self.models, self.config, self.keys = models, config, keys
        self.rates = rates or Rates()
        limits = config.limits
        self.downloads = downloads or Downloads(seconds=limits.kept_seconds, max_bytes=limits.kept_bytes)
        self.metrics = Metrics(figures)
        self.batcher = Batcher(
            n_threads=n_threads,
            max_items=config.batching.sentences,
            max_tokens=config.batching.tokens,
            max_required=limits.required_cost,
            note=self.metrics.batch_sizes.observe,
        )
        self.held = {True: 0, False: 0}
        """Bytes of the bodies of running requests: of authenticated senders, and of others."""
        self.closing = False
        """Whether the service is shutting down and takes no new requests."""
        self._threads = CapacityLimiter(config.limits.requests)
        self._documents = threading.Semaphore(config.limits.documents)
        self._n_active = 0

    def close(self) -> None:
        """Finish the accepted requests, then stop."""
        self.closing = True
        self.batcher.close()
        self.downloads.close()

    @property
    def is_working(self) -> bool:
        """Whether a request is being computed."""
        return self._n_active > 0

    @property
    def is_hung(self) -> bool:
        """Whether a compute thread has made no progress for `limits.hung_seconds`."""
        return self.batcher.stuck_seconds > self.config.limits.hung_seconds

    def admit(self, request: Request, key: str | None = None, *, counted: bool = True) -> None:
        """Admit a request, by the key in its headers or by `key`; rates are of requests that are `counted`.

        Raises:
            HTTPError: the key is missing (401) or unknown (403), or its user sends too many requests, or the
                address too many unknown keys (429).
        """
        address = request.client.host if request.client else "unknown"
        user: User | None = User(address)
        if self.keys is not None:
            key = key or key_of(request)
            if not key:
                raise HTTPError(
                    401,
                    "this service needs a key: send Authorization: Bearer KEY, or api_key",
                    {"WWW-Authenticate": "Bearer"},
                )
            user = self.keys.user(key)
        if user is None:
            wait = self.rates.wait(f"wrong keys of {address}", WRONG_KEYS)
            if wait:
                raise come_later(f"more than {WRONG_KEYS} wrong keys a minute; retry in {wait:.0f} s", wait)
            raise HTTPError(403, "unknown API key; ask the operator of this service for one")
        per_minute = user.per_minute or self.config.limits.per_minute
        wait = self.rates.wait(user.name, per_minute) if counted and per_minute else 0.0
        if wait:
            raise come_later(f"more than {per_minute:,} requests a minute; retry in {wait:.0f} s", wait)
        request.state.user = user.name

    def note(self, request: Request, model: str, n_characters: int) -> None:
        """Record model and size of a request for the log and the metrics."""
        request.state.model, request.state.characters = model, n_characters
        self.metrics.characters.labels(model).inc(n_characters)

    def take_texts(self, request: Request, model: str, texts: Sequence[str]) -> None:
        """Record a request as `note`, and check it. HTTPError: too long (413). DataError: no text."""
        n_characters, limit = sum(map(len, texts)), self.config.limits.characters
        self.note(request, model, n_characters)
        if n_characters > limit:
            raise too_much("characters", n_characters, limit, "characters")
        if not texts:
            raise DataError("there is no text; send one at least")

    def expect(self, n_items: int) -> None:
        """Check that `n_items` more sentences fit into the queue. HTTPError: it is full (429)."""
        waiting = self.batcher.n_waiting
        if waiting + n_items > self.config.limits.waiting_sentences:
            seconds = waiting / SENTENCES_A_SECOND
            raise come_later(f"{waiting:,} sentences are queued already; retry in {seconds:.0f} s", seconds)

    def take_in(self, request: Request, model: str, n_items: int, what: str = "sentences") -> None:
        """Count the sentences or texts of a request. HTTPError: too many (413), or as `expect`."""
        if n_items > self.config.limits.sentences:
            raise too_much(what, n_items, self.config.limits.sentences, "sentences")
        self.expect(n_items)
        request.state.sentences = n_items
        self.metrics.sentences.labels(model).inc(n_items)

    async def run(
        self,
        request: Request,
        work: Callable[[Client], Flow[Result]],
        *,
        seconds: float | None = None,
        is_document: bool = False,
    ) -> Result:
        """Return the result of the flow that `work` begins for a client.

        Its code runs in threads if its request has more than `BRIEF` bytes or `is_document`, which waits for
        a turn first. It may run on for a while after its client has left or its time is up, and counts as
        running until it ends.

        Raises:
            HTTPError: too many running requests (429), or it takes longer than `seconds`, by default
                `limits.seconds` (504).
            LeftError: the client has disconnected.
        """
        if self._n_active >= self.config.limits.requests:
            raise come_later(f"{self._n_active:,} requests are running; retry in 1 s", 1.0)
        client = Client(self.batcher)
        announced = request.headers.get("Content-Length", "")
        is_brief = not is_document and announced.isdecimal() and int(announced[:20]) <= BRIEF
        flow, threads = work(client), None if is_brief else self._threads
        self._n_active += 1
        self.metrics.active.inc()
        working = asyncio.ensure_future(
            self._in_turn(client, flow) if is_document else client.finish(flow, threads)
        )
        working.add_done_callback(self._end)
        leaving = asyncio.ensure_future(_disconnected(request))
        either: set[asyncio.Future[Any]] = {working, leaving}
        limit = self.config.limits.seconds if seconds is None else seconds
        try:
            await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if leaving.done():
                raise LeftError
            setting = "seconds" if seconds is None else "file_seconds"
            raise HTTPError(
                504, f"took more than the {limit:g} s that limits.{setting} allows; send less at a time"
            )
        finally:
            leaving.cancel()
            client.leave()

    async def stream(self, request: Request, work: Callable[[Client, Tell], Flow[Any]]) -> StreamingResponse:
        """Return the events of a flow as they arrive; an error after the first of them is the last one.

        Errors before that: as `run`, and those of the flow.
        """
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[bytes | None] = asyncio.Queue()

        def tell(name: str, data: Any) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event(name, data))

        running = asyncio.ensure_future(self.run(request, lambda client: work(client, tell)))
        running.add_done_callback(_retrieve)
        running.add_done_callback(lambda _: events.put_nowait(None))
        first = await events.get()
        if first is None:
            await running

        async def sent() -> AsyncIterator[bytes]:
            each = first
            try:
                while each is not None:
                    yield each
                    each = await events.get()
                await running
            except GoneError:
                return
            except (HTTPError, DragomanError) as error:
                refusal = refusal_of(error) if isinstance(error, DragomanError) else error
                yield event("error", {"error": refusal.detail})
            finally:
                running.cancel()

        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(sent(), media_type="text/event-stream", headers=headers)

    def _end(self, working: asyncio.Future[Any]) -> None:
        self._n_active -= 1
        self.metrics.active.dec()
        _retrieve(working)

    async def _in_turn(self, client: Client, flow: Flow[Result]) -> Result:
        """Return the result of the flow of a document, which waits for its turn. Errors: as `run`."""
        while not self._documents.acquire(blocking=False):
            client.go_on()
            await asyncio.sleep(TURN_SECONDS)
        try:
            return await client.finish(flow, self._threads)
        finally:
            self._documents.release()


def event(name: str, data: Any) -> bytes:
    """Return a server-sent event: `event:` and `data:`, one line each."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), to_json(data))


def _retrieve(ended: asyncio.Future[Any]) -> None:
    """Take the error of a task, if it has one, so that asyncio does not warn about it."""
    if not ended.cancelled():
        ended.exception()


async def _disconnected(request: Request) -> None:
    """Wait until the client of `request`, whose body has been read, disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def key_of(request: Request) -> str | None:
    """Return the API key in the headers or the query of `request`."""
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials:
        return credentials.strip()
    return request.headers.get("X-API-Key") or request.query_params.get("api_key")


def media_type(headers: Headers) -> str:
    """Return what the Content-Type says that a body is, in lower case and without parameters."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def service_of(request: Request) -> Service:
    """Return the service that a request is for."""
    service: Service = request.app.state.service
    return service


async def admitted(request: Request) -> None:
    """Admit the sender of a request, as a dependency of a route. HTTPError: as `Service.admit`."""
    service_of(request).admit(request)
