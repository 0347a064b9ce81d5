"""Services for tests: in a thread of this process, or as `dragoman serve` runs them; and raw HTTP to them."""

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.config import parse_section
from dragoman.serving.access import Keys
from dragoman.serving.models import Models
from dragoman.serving.running import Server, listen
from dragoman.serving.service import Service
from dragoman.serving.settings import ServeConfig
from waiting import LONGEST, until


@dataclass
class Answer:
    """What a service sends back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def refusal(self, status: int) -> str:
        """The one line of an answer that must have `status`."""
        assert self.status == status, self.body
        ((name, message),) = self.json.items()
        assert name == "error"
        assert "\n" not in message
        return str(message)


class Wire:
    """A connection on which anything can be sent, whatever HTTP says."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LONGEST)
        self._read = self.socket.makefile("rb")

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self.socket.close()

    def send(self, content: bytes | str) -> None:
        self.socket.sendall(content.encode() if isinstance(content, str) else content)

    def line(self) -> bytes:
        return self._read.readline()

    def head(self) -> Answer:
        """The head of the next answer."""
        status = int(self.line().split()[1])
        headers = {}
        while line := self.line().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return Answer(status, headers, b"")

    def answer(self) -> Answer:
        """The next answer."""
        answer = self.head()
        if answer.headers.get("transfer-encoding") == "chunked":
            while size := int(self.line(), 16):
                answer.body += self._read.read(size)
                self.line()
            self.line()
        else:
            answer.body = self._read.read(int(answer.headers.get("content-length", 0)))
        return answer

    def has_more(self, seconds: float) -> bool:
        """Whether the service answers or exits within `seconds`."""
        return bool(select.select([self.socket], [], [], seconds)[0])

    def is_closed(self) -> bool:
        """Whether nothing more comes. Waits for it."""
        try:
            return self._read.read(1) == b""
        except ConnectionError:
            return True

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        self.send(request(method, path, body, headers))
        return self.answer()


def request(method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> bytes:
    """A request as it is sent; a body that is not bytes is sent as JSON."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {"Host": "localhost", "Content-Length": str(len(content))}
    if body is not None:
        known["Content-Type"] = "application/json"
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**known, **(headers or {})}.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + content


def ask(port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
    """The answer to one request on a connection of its own."""
    with Wire(port) as wire:
        return wire.ask(method, path, body, {"Connection": "close", **(headers or {})})


def answer_of(client: Any, route: str, **body: Any) -> dict[str, Any]:
    """What a request that must succeed is answered with; `client` is one of FastAPI's for tests."""
    response = client.post(f"/v1/{route}", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def refusal_of(response: Any, status: int) -> str:
    """The one line of an answer that must have `status`."""
    assert response.status_code == status, response.text
    assert response.headers["X-Request-ID"]
    ((name, message),) = response.json().items()
    assert name == "error"
    assert "\n" not in message
    return str(message)


def service_of(runs: Sequence[Path], *settings: str, keys: Path | Keys | None = None, **more: Any) -> Service:
    """A service of these runs; `settings` are such as "limits.characters=100"."""
    config = parse_section(ServeConfig, {}, overrides=settings, where="test")
    known = Keys.load(keys) if isinstance(keys, Path) else keys
    return Service(Models(runs, device="cpu", precision="fp32"), config, keys=known, **more)


@contextmanager
def in_thread(service: Service) -> Iterator[tuple[int, Server]]:
    """The port of `service`, which runs in a thread of this process until the block ends, and its server."""
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        server = Server(service)
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        try:
            yield port, server
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def service_in_thread(
    runs: Sequence[Path], *settings: str, keys: Keys | None = None
) -> Iterator[tuple[int, Server]]:
    """The port of a service in a thread of this process, and its server."""
    with in_thread(service_of(runs, *settings, keys=keys)) as found:
        yield found


@contextmanager
def running(service: Service) -> Iterator[str]:
    """The URL at which `service` answers until the block ends; it is closed then."""
    with in_thread(service) as (port, _):
        yield f"http://127.0.0.1:{port}"


def named(run: Path, folder: Path, name: str, *, source: str = "en", target: str = "de") -> Path:
    """A copy of a run in `folder`, of this name, that says it translates from `source` to `target`."""
    copy = Path(shutil.copytree(run, folder / name))
    config = copy / "config.toml"
    settings = config.read_text(encoding="utf-8")
    for side, language in {"src_lang": source, "tgt_lang": target}.items():
        settings = re.sub(rf'^{side} = ".*"$', f'{side} = "{language}"', settings, flags=re.MULTILINE)
    config.write_text(settings, encoding="utf-8")
    return copy


class Command:
    """`dragoman serve`, running."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "dragoman", "serve", *map(str, arguments), "--port", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, env=environment,
        )  # fmt: skip
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self.port = 0

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self.lines.append("<end>")
            self._changed.notify_all()

    def said(self, pattern: str, *, after: int = 0) -> re.Match[str]:
        """The first line that holds `pattern`, once it is there, not among the first `after`."""

        def found() -> re.Match[str] | None:
            return next((m for line in self.lines[after:] if (m := re.search(pattern, line))), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or "<end>" in self.lines, LONGEST)
            match = found()
        assert match is not None, (pattern, self.lines)
        return match

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """How it ends."""
        code = self.process.wait(LONGEST)
        self._reading.join()
        return code

    def workers(self) -> list[int]:
        """The processes that it has forked and that live."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [pid for pid in map(int, path.read_text().split()) if not _is_zombie(pid)]


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def command(*arguments: object) -> Iterator[Command]:
    """`dragoman serve` with these arguments; it is killed where a test has not ended it."""
    running = Command(*arguments)
    try:
        running.port = int(running.said(r"serving .* on http://127\.0\.0\.1:(\d+)").group(1))
        yield running
    finally:
        if running.process.poll() is None:
            for pid in running.workers():
                os.kill(pid, signal.SIGKILL)
            running.process.kill()
        running.wait()
        assert running.process.stderr is not None
        running.process.stderr.close()


def wires_to_each(service: Command) -> list[Wire]:
    """A connection to each of the two workers, which they have accepted."""
    until(lambda: len(service.workers()) == 2)
    pids = service.workers()
    wires: list[Wire] = []
    try:
        for pid in pids:
            others = [other for other in pids if other != pid]
            for other in others:
                os.kill(other, signal.SIGSTOP)
            try:
                wire = Wire(service.port)
                wires.append(wire)
                assert wire.ask("GET", "/health").status == 200
            finally:
                for other in others:
                    os.kill(other, signal.SIGCONT)
    except BaseException:
        for wire in wires:
            wire.__exit__()
        raise
    return wires
