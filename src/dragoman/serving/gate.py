"""ASGI middleware of every request: authentication, body limits, security headers, request id and log."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from anyio import fail_after
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.errors import LEFT, HTTPError, come_later, problem
from dragoman.serving.monitoring import log
from dragoman.serving.service import Service, key_of, media_type
from dragoman.serving.settings import host_name

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: its own files only."""

SAFE = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-cache",  # a browser asks each time, so that old and new files of the page never mix
}
"""Headers of every response that has none of its own."""

RAW_SAFE = [(name.lower().encode(), value.encode()) for name, value in SAFE.items()]
"""The same as ASGI has them."""

UPLOADS = ("/v1/documents", "/translate_file")
"""Routes whose bodies are documents."""

KEY_IN_BODY = ("/translate", "/detect", "/translate_file")
"""Routes of LibreTranslate's, whose clients send their key in the body."""

UNKNOWN_SHARE = 8
"""Unauthenticated requests may hold at most 1/N of the bytes that a process holds."""

PIECE = 1 << 16
"""Bytes of a body passed to the application at a time, so that parsing does not block other requests."""

SIMPLE = ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
"""Content types that a browser sends to other origins without a CORS preflight."""

NOTED = ("user", "model", "characters", "sentences")
"""What routes leave in the state of a request for the log."""

_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_SLASHES = re.compile("/{2,}")


class _Body:
    """The body of a request; its bytes count as held until the response."""

    def __init__(self, held: dict[bool, int], *, most: int) -> None:
        """`held` counts the bytes of all requests, from known senders and from unknown ones."""
        self.is_known, self.is_whole = True, False
        self._held, self._most = held, most
        self._content, self._n_bytes = bytearray(), 0

    def take(self, piece: bytes) -> None:
        """Add a piece. HTTPError: all requests together exceed the limit of this process (429)."""
        n_bytes, n_unknown = sum(self._held.values()) + len(piece), self._held[False] + len(piece)
        if n_bytes > self._most or (not self.is_known and n_unknown > self._most // UNKNOWN_SHARE):
            how = "" if self.is_known else "send the key as Authorization: Bearer KEY, or "
            raise come_later(f"too much is being received; {how}retry in 1 s", 1.0)
        self._content += piece
        self._n_bytes += len(piece)
        self._held[self.is_known] += len(piece)

    def release(self) -> None:
        """Stop counting the body."""
        self._held[self.is_known] -= self._n_bytes

    def replayed(self, receive: Receive) -> Receive:
        """Return a `receive` for the application: the body in pieces, then further messages."""
        pieces = iter(range(0, max(1, self._n_bytes), PIECE))

        async def replay() -> Message:
            if next(pieces, None) is None:
                return await receive()
            await asyncio.sleep(0)  # others have their turn
            piece = bytes(self._content[:PIECE])
            del self._content[:PIECE]
            return {"type": "http.request", "body": piece, "more_body": bool(self._content)}

        return replay


class Gate:
    """ASGI middleware around the whole service."""

    def __init__(self, app: ASGIApp, service: Service, paths: Collection[str] = ()) -> None:
        """`paths` are those of routes; they label refused requests in the metrics."""
        self._app, self._service, self._paths = app, service, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, method, headers = time.perf_counter(), scope["method"], Headers(scope=scope)
        scope = {**scope, "path": _SLASHES.sub("/", scope["path"])}  # clients join "…/" and "/languages"
        if method == "HEAD":  # the server, which has another scope, leaves the body out
            scope["method"] = "GET"
        request_id = headers.get("X-Request-ID", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = secrets.token_hex(8)
        body = _Body(self._service.held, most=self._service.config.limits.buffered_bytes)
        scope.setdefault("state", {})["request_id"] = request_id
        status = LEFT

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                raw_headers = message.get("headers", ())
                names = {name for name, _ in raw_headers}
                safe = [header for header in RAW_SAFE if header[0] not in names]
                message["headers"] = [*raw_headers, *safe, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            self._check_host(headers)
            if method == "POST":
                self._check_origin(headers)
                body.is_known = self._is_known(scope)
            if await self._read(scope, receive, body):
                await self._app(scope, body.replayed(receive), send_safely)
        except HTTPError as refusal:
            further = {**(refusal.headers or {}), **({} if body.is_whole else {"Connection": "close"})}
            await problem(refusal.status_code, refusal.detail, further)(scope, receive, send_safely)
        except Exception:  # a bug: the client learns nothing of it, the log does
            log("an error that should not be", {"id": request_id}, level=logging.ERROR, exc_info=True)
            if status != LEFT:
                raise  # half an answer is out: the connection ends
            message = "something went wrong inside the service; its log says what, under the X-Request-ID"
            await problem(500, message)(scope, receive, send_safely)
        finally:
            body.release()
            self._note(method, scope, status, time.perf_counter() - begun)

    def _check_host(self, headers: Headers) -> None:
        """Check the Host header, which browsers always send.

        HTTPError: there are several (400), or it is not a name of this service (421).
        """
        named, hosts = headers.getlist("Host"), self._service.config.hosts
        if len(named) > 1:
            raise HTTPError(400, "the request has several Host headers; send one")
        if hosts and named and host_name(named[0]) not in hosts:
            raise HTTPError(421, "the service is not called so; its settings name its hosts")

    def _check_origin(self, headers: Headers) -> None:
        """Check the origin. HTTPError: a simple cross-origin request, sent without CORS preflight (403)."""
        origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
        if origin is None or media_type(headers) not in SIMPLE:
            return
        try:
            netloc = urlsplit(origin).netloc.lower() or None  # "null" has none
        except ValueError:
            netloc = None
        is_own = site == "same-origin" if site else netloc == headers.get("Host", "").lower()
        if not is_own and not {"*", origin} & set(self._service.config.cors_origins):
            raise HTTPError(
                403, "a page of another origin sent this; send JSON, or add its origin to cors_origins"
            )

    def _is_known(self, scope: Scope) -> bool:
        """Whether the head of a request says whom it is from, or nobody needs to.

        HTTPError 401, 403: it does not, and no body could.
        """
        request, keys = Request(scope), self._service.keys
        if keys is not None and _has_body(scope) and scope["path"] in KEY_IN_BODY:
            return keys.user(key_of(request) or "") is not None
        if keys is not None and _has_body(scope):
            self._service.admit(request, counted=False)
        return True

    async def _read(self, scope: Scope, receive: Receive, body: _Body) -> bool:
        """Read the body of a request; False: its client has left. HTTPError: too large or slow."""
        limits = self._service.config.limits
        is_upload = scope["path"] in UPLOADS
        setting = "file_bytes" if is_upload else "body_bytes"
        most = limits.file_bytes + (1 << 16) if is_upload else limits.body_bytes  # with what is around a file
        too_large = HTTPError(
            413, f"the body has more than the {most:,} bytes that limits.{setting} allows; send less"
        )
        announced = Headers(scope=scope).get("Content-Length", "0")
        if announced.isdecimal() and int(announced[:20]) > most:
            raise too_large
        n_bytes = 0
        loop = asyncio.get_running_loop()
        whole, bound = (limits.file_seconds, "file_seconds") if is_upload else (limits.seconds, "seconds")
        deadline = loop.time() + whole
        while True:
            remaining = deadline - loop.time()
            try:
                with fail_after(min(limits.body_seconds, remaining)):
                    message = await receive()
            except TimeoutError as error:
                what = (
                    f"nothing more came in the {limits.body_seconds:g} s that limits.body_seconds allows"
                    if limits.body_seconds <= remaining
                    else f"the body was not whole after the {whole:g} s that limits.{bound} allows"
                )
                raise HTTPError(408, f"{what}; send the whole body") from error
            if message["type"] == "http.disconnect":
                return False
            piece = message.get("body", b"")
            n_bytes += len(piece)
            if n_bytes > most:
                raise too_large
            if _has_body(scope):
                body.take(piece)
            if not message.get("more_body", False):
                body.is_whole = True
                return True

    def _note(self, method: str, scope: Scope, status: int, seconds: float) -> None:
        label = scope["path"] if scope["path"] in self._paths else "other"
        route = getattr(scope.get("route"), "path", label)
        self._service.metrics.requests.labels(route, str(status)).inc()
        self._service.metrics.seconds.labels(route).observe(seconds)
        state: dict[str, Any] = scope["state"]
        facts = {"route": route if route != "other" else scope["path"][:200], "status": status}
        facts |= {"ms": round(1000 * seconds), "id": state["request_id"]}
        log(method, facts | {name: state[name] for name in NOTED if name in state})


def _has_body(scope: Scope) -> bool:
    """Whether there is a route that may read the body of a request."""
    return scope["method"] == "POST" and (scope["path"].startswith("/v1/") or scope["path"] in KEY_IN_BODY)
