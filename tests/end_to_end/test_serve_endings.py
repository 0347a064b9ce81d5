"""How a service ends: what was accepted is finished, nothing is left, and the exit code says how it was."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from commands import dragoman, succeed
from services import Wire, ask, command, request, wires_to_each
from tiny import damaged_run
from waiting import LONGEST, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

TEXT = {"text": "red cat"}


def test_one_process_reloads_finishes_what_it_took_and_ends_with_0(tiny_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run, tmp_path / "tiny"))
    keys = tmp_path / "keys.toml"
    first = {"Authorization": f"Bearer {succeed('key', 'ann', '--file', keys).stdout.strip()}"}
    with command(run, "--keys", keys, "--set", "log_format=json") as running:
        second = {"X-API-Key": succeed("key", "bob", "--file", keys).stdout.strip()}
        assert ask(running.port, "POST", "/v1/translate", TEXT, first).status == 200
        assert ask(running.port, "POST", "/v1/translate", TEXT, second).status == 403
        running.signal(signal.SIGHUP)
        running.said('"reloaded"')
        for headers in (first, second):
            assert ask(running.port, "POST", "/v1/translate", TEXT, headers).status == 200

        weights = run / "model.safetensors"
        weights.write_bytes((damaged_run(run, tmp_path / "damaged") / weights.name).read_bytes())
        running.signal(signal.SIGHUP)
        why = json.loads(running.said(".*the old models stay in use.*").group())["why"]
        assert weights.name in why
        asked = {**TEXT, "stream": True, "text": ["red cat"] * 40}
        whole = request("POST", "/v1/translate", asked, first)
        with Wire(running.port) as wire, Wire(running.port) as streaming:
            wire.send(whole[:-3])
            streaming.send(whole)
            assert streaming.line() == b"HTTP/1.1 200 OK\r\n"
            until(lambda: is_receiving(wire))
            running.signal(signal.SIGTERM)
            until(lambda: refuses(running.port))
            wire.send(whole[-3:])
            for each in (wire, streaming):
                events = b"".join(iter(each.line, b""))
                assert b"event: done" in events
        assert running.wait() == 0
        log = [json.loads(line) for line in running.lines if line.startswith("{")]
        assert [line["status"] for line in log if line["event"] == "POST"] == [200, 403, 200, 200, 200, 200]
        assert [line["user"] for line in log if line.get("status") == 200] == [
            "ann", "ann", "bob", "ann", "ann",
        ]  # fmt: skip


@pytest.mark.nightly
def test_workers_share_rates_finish_what_they_accepted_and_then_all_ends_with_0(tiny_run: Path) -> None:
    with command(tiny_run, "--workers", 2, "--set", "limits.per_minute=4") as running:
        wires = wires_to_each(running)
        for wire in wires:
            assert [wire.ask("POST", "/v1/translate", TEXT).status for _ in range(2)] == [200, 200]
        for wire in wires:
            answer = wire.ask("POST", "/v1/translate", TEXT)
            assert answer.status == 429
            assert 0 < int(answer.headers["retry-after"]) <= 15  # 60 s / 4
        asked = request("GET", "/v1/models")
        for wire in wires:
            wire.send(asked[:-2])
        until(lambda: all(is_receiving(wire) for wire in wires))
        running.signal(signal.SIGTERM)
        until(lambda: refuses(running.port))
        for wire in wires:
            wire.send(asked[-2:])
            assert wire.answer().status == 200
            wire.__exit__()
        assert running.wait() == 0


@pytest.mark.nightly
def test_a_second_signal_ends_a_service_at_once(tiny_run: Path) -> None:
    with command(tiny_run, "--workers", 2) as running, Wire(running.port) as wire:
        wire.send(request("POST", "/v1/translate", TEXT)[:-1])  # never whole
        running.signal(signal.SIGINT)
        until(lambda: refuses(running.port))
        running.signal(signal.SIGINT)
        assert running.wait() == 128 + signal.SIGINT


def is_receiving(wire: Wire) -> bool:
    """Whether what was sent on `wire` has been read by a worker."""
    own = f"0100007F:{wire.socket.getsockname()[1]:04X}"  # 127.0.0.1, as /proc has it
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[2] == own:
            return fields[4].split(":")[1] == "00000000"
    return False


def refuses(port: int) -> bool:
    try:
        Wire(port).__exit__()
    except ConnectionRefusedError:
        return True
    return False


AS_A_TERMINAL_DOES = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "dragoman", "serve", *sys.argv[1:]])
"""


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_service_in_a_terminal_shows_its_address_and_ends_when_the_terminal_is_closed(
    tiny_run: Path, tmp_path: Path, workers: int
) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    master, terminal = os.openpty()
    options = ["--port", "0", "--open", "--workers", str(workers)]
    process = subprocess.Popen(
        [sys.executable, "-c", AS_A_TERMINAL_DOES, tiny_run, *options],
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        env={**os.environ, "BROWSER": f"{browser} %s"},
    )  # fmt: skip
    os.close(terminal)
    try:
        shown = b""
        while b"ends it" not in shown:
            shown += os.read(master, 1000)
        assert b"loading run (1 of 1)" in shown
        plain = re.sub(rb"\x1b\[[0-9;]*[mK]|\r", b"", shown).decode()
        found = re.search(r"serving run on http://127\.0\.0\.1:(\d+); Ctrl-C ends it", plain)
        assert found, plain
        until(lambda: opened.exists() and opened.read_text() == f"http://127.0.0.1:{found[1]}\n")
        assert ask(int(found[1]), "GET", "/health").status == 200
        process.send_signal(signal.SIGHUP)  # the terminal is still there
        assert ask(int(found[1]), "GET", "/health").status == 200
        os.close(master)
        assert process.wait(LONGEST) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_service_may_end_while_it_loads_models(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = "dragoman.serving.models.Models.load"
    monkeypatch.setattr(end, lambda *_: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    result = dragoman("serve", tiny_run, "--port", 0)
    assert result.exit_code == 128 + signal.SIGTERM
    assert result.output == ""
    assert signal.getsignal(signal.SIGTERM) == before
