"""A service that is measured, `dragoman serve` in processes of its own, and clients that cost little."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

START_SECONDS = 600
MIB = 2**20


@dataclass(frozen=True)
class Memory:
    """Bytes of a process: all it reaches, its share of that, what it has for itself, what it has made."""

    rss: int
    pss: int
    """What is shared counts in equal parts for all who share it, so that sums are what is used."""
    uss: int
    made: int
    """`pss` without mapped files, such as libraries, of which its share depends on who else has them."""

    @classmethod
    def of(cls, pid: int) -> Memory:
        """Read the memory of the process `pid` from /proc."""
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        found = {name: 1024 * int(size) for name, size in re.findall(r"(?m)^(\w+):\s+(\d+) kB", text)}
        own = found["Private_Clean"] + found["Private_Dirty"]
        return cls(found["Rss"], found["Pss"], own, found["Pss_Anon"] + found["Pss_Shmem"])


@dataclass
class ServiceProcess:
    """A running service."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int = 0

    @property
    def workers(self) -> list[int]:
        """The processes that it has forked."""
        pid = self.process.pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    @property
    def memory(self) -> int:
        """Bytes that all its processes have made together."""
        total = 0
        for pid in (self.process.pid, *self.workers):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has died since
                total += Memory.of(pid).made
        return total

    def logged(self, *words: str) -> list[str]:
        """Return the lines of its log that hold one of the `words`."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if any(word in line for word in words)]

    def await_port(self) -> int:
        """Return the port when it serves. SystemExit: it does not start."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if found := re.search(r"serving .* on http://\S+:(\d+);", self.log.read_text(encoding="utf-8")):
                return int(found[1])
            time.sleep(0.05)
        sys.exit(self.log.read_text(encoding="utf-8") or "the service does not start")


@contextmanager
def running(*arguments: str) -> Iterator[ServiceProcess]:
    """`dragoman serve` with these arguments on a free port; ended behind the block."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "dragoman", "serve", *arguments, "--port", "0"]
        with log.open("wb") as file:
            service = ServiceProcess(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file), log)
        try:
            service.port = service.await_port()
            yield service
        finally:
            service.process.terminate()
            try:
                service.process.wait(30)
            except subprocess.TimeoutExpired:
                service.process.kill()
                service.process.wait()


def request_bytes(path: str, content: dict[str, Any]) -> bytes:
    """Return a request with a body of JSON, as it is sent."""
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """A connection that stays open, and is opened again where it broke."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[int] | None = None
        self._received = b""

    async def ask(self, request: bytes) -> int:
        """Status of the answer to `request`. OSError, EOFError: the connection broke."""
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
                self._answer.set_result(int(head[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or EOFError())

    async def timed(self, request: bytes, note: Callable[[int, float], None]) -> None:
        """Tell `note` the status, 0 where the connection broke, and the seconds until the end."""
        begun = time.perf_counter()
        try:
            status = await self.ask(request)
        except (OSError, EOFError):
            status = 0
        note(status, time.perf_counter() - begun)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
