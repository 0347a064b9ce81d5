"""What a client can send before anybody looks at its key: limits of size and time, replies to malformed HTTP.

The HTTP parser has no limits of its own, and an application sees a request only after its headers. This is
the only file that touches private classes of uvicorn.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dragoman.serving.errors import HTTPError, come_later
from dragoman.serving.gate import SAFE
from dragoman.serving.monitoring import log
from dragoman.serving.service import Service

MAX_HEAD = 1 << 16
"""Maximum bytes in a row that are no body: first line and headers, the line before a chunk, trailers."""

PIECE = 1 << 12
"""Bytes that are parsed at once, so that their number is known to that many."""

MAX_PIPELINED = 16
"""Maximum requests of a connection that wait for the answer to an earlier one."""

KEPT_SECONDS = 30
"""Seconds to keep an idle connection."""

KEPT_REQUESTS, KEPT_LONGEST = 100, 60.0
"""Requests and seconds after which an answer closes its connection, so that clients spread among workers."""

LAST_SECONDS = 1.0
"""Seconds to keep an idle connection during shutdown; requests until then are answered, with a close."""

LINGER_SECONDS = 5.0
"""Seconds after which a connection is cut if its client reads nothing of its response."""


class Connection(HttpToolsProtocol):
    """An HTTP connection with time limits for sending headers and for reading the response."""

    def __init__(self, *, service: Service, **arguments: Any) -> None:
        """`arguments` are what uvicorn gives its protocols."""
        super().__init__(**arguments)
        self._service = service
        self._patience = service.config.limits.body_seconds
        self._head_bytes = 0
        """Bytes since the last ones of a body."""
        self._in_body = False
        """Whether the newest request has a head, and no end yet."""
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the newest, which may wait for it."""
        self._refusal: HTTPError | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._n_left = KEPT_REQUESTS + secrets.randbelow(KEPT_REQUESTS)  # not all at once
        self._kept_until = self.loop.time() + KEPT_LONGEST

    # uvicorn's protocols are typed so, too: what asyncio gives them can always be written to
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # all that uvicorn asks of a transport
        super().connection_made(_Transport(transport, self))  # type: ignore[arg-type]
        if len(self.connections) > 2 * self._service.config.limits.connections:
            transport.abort()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for cycle in (self._running, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)
        for name in tuple(self._timers):
            self._stop(name)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        rest = memoryview(data)
        while rest and self._refusal is None and not self.transport.is_closing():
            if not self._in_body:
                self._expect_head()
            self._head_bytes += len(rest[:PIECE])
            self._parse(rest[:PIECE])
            rest = rest[PIECE:]

    def _parse(self, data: memoryview | bytes) -> None:
        try:
            self.parser.feed_data(data)
            if self._head_bytes > MAX_HEAD:
                raise HTTPError(431, f"what is no body has more than {MAX_HEAD:,} bytes in a row; send less")
        except HttpParserCallbackError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, HTTPError) else _bad("its first line"))
        except HTTPError as refusal:
            self._refuse(refusal)
        except HttpParserError as error:
            self._refuse(_bad(str(error)))
        except HttpParserUpgrade as upgrade:  # ignored: the request is read as one that does not ask for it
            method, version = self.parser.get_method(), self.parser.get_http_version().encode()
            lines = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
            self.parser = HttpRequestParser(self)  # the old one reads no more after "Connection: close"
            self._parse(b"\r\n".join([b"%b %b HTTP/%b" % (method, self.url, version), *lines, b"", b""]))
            if self._refusal is None:
                self._parse(data[upgrade.args[0] :])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:  # trailers are dropped: no key and no length is read from them
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _bad("its method")
            return  # the parser leaves the body out; it is given the head once more
        if len(self.pipeline) >= MAX_PIPELINED:
            raise come_later(f"more than {MAX_PIPELINED} requests wait on this connection; read answers", 1.0)
        if len(self.connections) > self._service.config.limits.connections:
            message = "the service has no room for more connections; retry in 1 s"
            raise HTTPError(503, message, {"Retry-After": "1"})
        super().on_headers_complete()
        self._stop("head")
        self._head_bytes, self._in_body = 0, True
        self._n_left -= 1
        is_kept = self._n_left > 0 and self.loop.time() < self._kept_until and not self._service.closing
        self.cycle.keep_alive &= is_kept
        self._running = self._running or self.cycle

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()
            self._head_bytes, self._in_body = 0, False

    def on_response_complete(self) -> None:
        self._running = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self._running is None and self._refusal is not None and not self.transport.is_closing():
            self._answer(self._refusal)
        elif "head" in self._timers:  # it has begun to ask for more
            self._unset_keepalive_if_required()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("taking", self._patience, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("taking")

    def shutdown(self) -> None:
        """Shut down: answer the running requests, then close."""
        if self._running is not None:
            super().shutdown()
        else:
            self._start("last", LAST_SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._running is None and not self._head_bytes:
            self.transport.close()

    def _expect_head(self) -> None:
        if "head" not in self._timers:
            self._start("head", self._patience, self._head_is_late)

    def _head_is_late(self) -> None:
        if not self._head_bytes:  # it never asked for anything
            self.transport.close()
            return
        message = f"the head of the request was not there in {self._patience:g} s; send it at once"
        self._refuse(HTTPError(408, message))

    def _refuse(self, refusal: HTTPError) -> None:
        """Answer what cannot be understood, after what could be; then the connection ends."""
        self._refusal = refusal
        self._stop("head")
        if self._in_body and self.cycle is not self._running:
            self.pipeline.popleft()  # the newest, which will never be whole
        elif self._in_body and self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
            if self._running.response_started:
                self.transport.close()
                return
            self._running = None
        if self._running is None:
            self._answer(refusal)

    def _answer(self, refusal: HTTPError) -> None:
        content = json.dumps({"error": refusal.detail}).encode()
        request_id = secrets.token_hex(8)
        headers = SAFE | dict(refusal.headers or {}) | {
            "Content-Type": "application/json", "Content-Length": str(len(content)),
            "Connection": "close", "X-Request-ID": request_id,
        }  # fmt: skip
        lines = [f"{name.lower()}: {value}\r\n".encode() for name, value in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[refusal.status_code], *lines, b"\r\n", content]))
        self.transport.close()
        self._service.metrics.requests.labels("head", str(refusal.status_code)).inc()
        log("refused", {"status": refusal.status_code, "why": refusal.detail, "id": request_id})

    def close(self, transport: asyncio.Transport) -> None:
        """End the connection, once its client has taken what it was sent.

        Where a client is still sending, what it sends is thrown away for a while: what nobody has read
        would make the system throw away the answer instead.
        """
        if self._in_body or self._refusal is not None:
            transport.write_eof()
            self.flow.resume_reading()
        else:
            transport.close()
        self._cut_later(transport, transport.get_write_buffer_size())

    def _cut_later(self, transport: asyncio.Transport, size: int) -> None:
        def look() -> None:
            unsent = transport.get_write_buffer_size()
            if 0 < unsent < size:
                self._cut_later(transport, unsent)
            else:
                transport.abort()

        self._start("end", LINGER_SECONDS, look)

    def _start(self, name: str, seconds: float, then: Any) -> None:
        def over() -> None:
            self._timers.pop(name, None)
            then()

        self._stop(name)
        self._timers[name] = self.loop.call_later(seconds, over)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


class _Transport:
    """A transport whose end its connection decides on."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport, self._connection = transport, connection
        self._is_closing = False

    def close(self) -> None:
        if not self.is_closing():
            self._is_closing = True
            self._connection.close(self._transport)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _bad(what: str) -> HTTPError:
    """400: what came is no HTTP."""
    return HTTPError(400, f"this is no HTTP/1.1 request ({what}); send one")
