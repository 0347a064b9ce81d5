"""Connections to a service that cost next to nothing, so that the service is what is measured."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any


def request_bytes(path: str, content: dict[str, Any]) -> bytes:
    """Return a request with a body of JSON, as it is sent."""
    body = json.dumps(content).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection(asyncio.Protocol):
    """A connection that stays open, and is opened again where it broke."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._received = b""

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to `request`. OSError, EOFError: the connection broke."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            self._received = b""
            self._transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self.port)
        self._answer = loop.create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if end and len(body) >= (n := int(length[1]) if length else 0):
            self._received = body[n:]
            if re.search(rb"(?i)connection: close", head):  # a service ends a connection after many requests
                self.close()
            if self._answer is not None and not self._answer.done():
                self._answer.set_result((int(head[9:12]), body[:n]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or EOFError())

    async def timed(self, request: bytes, note: Callable[[int, float], None]) -> None:
        """Tell `note` the status, 0 where the connection broke, and the seconds until the end."""
        begun = time.perf_counter()
        try:
            status, _ = await self.ask(request)
        except (OSError, EOFError):
            status = 0
        note(status, time.perf_counter() - begun)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
