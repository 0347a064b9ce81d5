"""A service as a process of its own, and connections to it that cost next to nothing."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

STARTING = 120.0
"""Seconds that a service may take to start."""


class ServiceProcess:
    """`dragoman serve RUN`, on a free port of 127.0.0.1; it ends when this is left."""

    def __init__(self, run: Path, *options: str) -> None:
        command = [sys.executable, "-m", "dragoman", "serve", str(run), "--port", "0", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.port = self._port()

    def _port(self) -> int:
        """The port that it says it listens on; what it says after that is thrown away."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)
                return int(found[1])
        raise RuntimeError(f"the service ended with {self.process.wait()}")

    def pids(self) -> list[int]:
        """Its processes."""
        found = [self.process.pid]
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return found + [int(pid) for pid in children.read_text().split()]

    def __enter__(self) -> ServiceProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STARTING)


def memory_of(pids: list[int]) -> int:
    """The bytes that processes take together; pages that they share count once (Pss)."""
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        total += 1024 * int(re.findall(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)[0])
    return total


def request_bytes(path: str, content: dict[str, Any]) -> bytes:
    """A request with a body of JSON, as it is sent."""
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
        """Tells `note` the status, 0 where the connection broke, and the seconds until the end."""
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
