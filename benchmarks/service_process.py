"""A service that is measured: `dragoman serve` in processes of its own, and their memory."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

START_SECONDS = 600


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
        found = {
            name: 1024 * int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)
        }
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
        return list(map(int, self._children()))

    def _children(self) -> list[str]:
        pid = self.process.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    @property
    def memory(self) -> int:
        """Bytes that all its processes have made together."""
        total = 0
        for pid in (self.process.pid, *self.workers):
            try:
                total += Memory.of(pid).made
            except (FileNotFoundError, ProcessLookupError):  # it has died since
                continue
        return total

    def logged(self, what: str) -> int:
        """Lines of its log that hold `what`."""
        return self.log.read_text(encoding="utf-8").count(what)


@contextmanager
def running(*arguments: str) -> Iterator[ServiceProcess]:
    """`dragoman serve` with these arguments on a free port; ended behind the block."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "dragoman", "serve", *arguments, "--port", "0"]
        with log.open("wb") as file:
            service = ServiceProcess(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file), log)
        try:
            service.port = _port(service)
            yield service
        finally:
            service.process.terminate()
            try:
                service.process.wait(30)
            except subprocess.TimeoutExpired:
                service.process.kill()
                service.process.wait()


def _port(service: ServiceProcess) -> int:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and service.process.poll() is None:
        found = re.search(r"serving .* on http://\S+:(\d+);", service.log.read_text(encoding="utf-8"))
        if found:
            return int(found[1])
        time.sleep(0.05)
    sys.exit(service.log.read_text(encoding="utf-8") or "the service does not start")
