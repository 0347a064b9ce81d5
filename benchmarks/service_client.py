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


class Connection:
    """A connection that stays open, and is opened again where it broke."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to `request`. OSError, EOFError: the connection broke."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
        except (OSError, EOFError):
            self.close()
            raise
        return int(head[9:12]), body

    async def timed(self, request: bytes, note: Callable[[int, float], None]) -> None:
        """Tell `note` the status, 0 where the connection broke, and the seconds until the end."""
        begun = time.perf_counter()
        try:
            status, _ = await self.ask(request)
        except (OSError, EOFError):
            status = 0
        note(status, time.perf_counter() - begun)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
