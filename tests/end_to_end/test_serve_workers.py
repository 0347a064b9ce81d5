"""A service in several processes: what one of them knows or suffers, and what that is to the others."""

import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from commands import error_of
from services import Answer, Command, Wire, ask, command, wires_to_each
from tiny import damaged_run
from waiting import until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

TEXT = {"text": "red cat"}


@pytest.fixture(scope="module")
def run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("served") / "tiny"))


@pytest.fixture(scope="module")
def service(run: Path) -> Iterator[Command]:
    settings = ("--set", "limits.per_minute=100000", "--set", "limits.hung_seconds=3")
    with command(run, "--workers", 2, *settings) as running:
        yield running


class Load(threading.Thread):
    """A client that asks again and again, on kept connections, until it is told to end."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self.statuses: list[int] = []
        self.n_failed = 0
        self.over = False

    def run(self) -> None:
        while not self.over:
            try:
                with Wire(self._port) as wire:
                    answer: Answer | None = None
                    while not self.over and (not answer or answer.headers.get("connection") != "close"):
                        answer = wire.ask("POST", "/v1/translate", TEXT)
                        self.statuses.append(answer.status)
                        time.sleep(0.01)  # enough for the service to be at work, and not all that there is
            except (OSError, IndexError):  # the connection was cut
                self.n_failed += 1


@contextmanager
def load(port: int, n_clients: int = 3) -> Iterator[list[Load]]:
    clients = [Load(port) for _ in range(n_clients)]
    for client in clients:
        client.start()
    try:
        until(lambda: all(client.statuses for client in clients))
        yield clients
        seen = [len(client.statuses) for client in clients]
        until(lambda: all(len(c.statuses) > n + 3 for c, n in zip(clients, seen, strict=True)))
    finally:
        for client in clients:
            client.over = True
        for client in clients:
            client.join()


TRANSLATED = 'dragoman_requests_total{route="/v1/translate",status="200"}'


def counted(port: int, figure: str = TRANSLATED) -> int:
    """What the service has counted, in all its processes."""
    text = ask(port, "GET", "/metrics").body.decode()
    found = re.search(rf"^{re.escape(figure)} (\S+)$", text, re.MULTILINE)
    return int(float(found.group(1))) if found else 0


def test_figures_are_those_of_all_workers(service: Command) -> None:
    before = counted(service.port)
    for wire in wires_to_each(service):
        with wire:
            for _ in range(3):
                assert wire.ask("POST", "/v1/translate", TEXT).status == 200
    until(lambda: counted(service.port) == before + 6)
    until(lambda: counted(service.port, "dragoman_workers") == 2)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_dies_or_hangs_is_replaced_and_only_its_requests_fail(
    service: Command, number: signal.Signals
) -> None:
    seen = len(service.lines)
    lost, other = service.workers()
    n_deaths = counted(service.port, "dragoman_worker_deaths_total")
    with load(service.port) as clients:
        service.signal(signal.SIGUSR1)  # means nothing
        os.kill(lost, number)
        if number == signal.SIGSTOP:
            service.said(rf"a worker makes no progress; it is killed · worker {lost}\b", after=seen)
        service.said(r"a worker has died.* signal 9", after=seen)
        until(lambda: len(service.workers()) == 2 and lost not in service.workers())
    assert other in service.workers()
    assert counted(service.port, "dragoman_worker_deaths_total") == n_deaths + 1
    assert {status for client in clients for status in client.statuses} == {200}
    assert sum(client.n_failed for client in clients) <= len(clients)  # each had one request on its way


def test_a_reload_drops_no_request(service: Command) -> None:
    seen, before = len(service.lines), service.workers()
    with load(service.port) as clients:
        service.signal(signal.SIGHUP)
        service.said("reloaded", after=seen)
        until(lambda: len(service.workers()) == 2 and not set(before) & set(service.workers()))
    assert {status for client in clients for status in client.statuses} == {200}
    assert sum(client.n_failed for client in clients) == 0
    assert counted(service.port, 'dragoman_reloads_total{outcome="done"}') == 1


def test_a_reload_that_fails_leaves_the_old_models(service: Command, run: Path, tmp_path: Path) -> None:
    seen, before = len(service.lines), service.workers()
    weights = run / "model.safetensors"
    whole = weights.read_bytes()
    damaged = damaged_run(run, tmp_path / "damaged") / "model.safetensors"
    weights.write_bytes(damaged.read_bytes())
    try:
        service.signal(signal.SIGHUP)
        said = service.said("reload failed; the old models stay in use.*", after=seen).group()
    finally:
        weights.write_bytes(whole)
    assert "model.safetensors" in said
    assert service.workers() == before
    assert ask(service.port, "POST", "/v1/translate", TEXT).status == 200


def test_workers_are_refused_where_they_cannot_be(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.serving.supervisor.on_processor", lambda device: device == "cpu")
    said = error_of("serve", tiny_run, "--workers", 2)
    assert "GPU" in said
    assert "give --workers 1, or --device cpu" in said
    monkeypatch.delattr(os, "fork")
    assert "cannot fork" in error_of("serve", tiny_run, "--workers", 2, "--device", "cpu")


@pytest.mark.nightly
def test_a_service_whose_first_process_is_killed_ends(tiny_run: Path) -> None:
    with command(tiny_run, "--workers", 2) as running:
        workers = running.workers()
        running.process.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


@pytest.mark.nightly
def test_workers_that_cannot_live_end_the_service_with_1(tiny_run: Path) -> None:
    with command(tiny_run, "--workers", 2) as running:
        while running.process.poll() is None:
            for pid in running.workers():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert running.wait() == 1
        said = running.said("^error: .*").group()
        assert "workers died soon after they started, the last with signal 9 (Killed); " in said
        assert "if the system ran out of memory, give fewer --workers" in said
